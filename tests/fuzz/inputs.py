"""Points, supervision and learners, drawn at random.

What is drawn are kinds, sizes and a seed; NumPy makes the arrays from them. Hypothesis then
shrinks a failure to a small problem of a simple kind.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from nearfar import (
    ITML,
    LMNN,
    LSML,
    NCA,
    AutoMetric,
    BoostMetric,
    Chunklets,
    DRMetric,
    FrobMetric,
    MaxMarginMetric,
    MetricBoost,
    MixtureNCA,
    NearestTriplets,
    Pairs,
    PSDBoost,
    RandomPairs,
    RandomTriplets,
    SparseNCA,
    Triplets,
)
from nearfar.learners.base import known_learners

N_CASES = int(os.environ.get("NEARFAR_FUZZ", "0"))
"""Cases of each test in a long run; by default there are a few, always the same."""

cases = settings(
    max_examples=N_CASES or (20 if os.environ.get("NEARFAR_SLOW") else 8),
    derandomize=not N_CASES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

POINTS = {
    "normal": lambda X, rng: X,
    "float32": lambda X, rng: X.astype(np.float32),
    "whole numbers": lambda X, rng: np.rint(2 * X).astype(int),
    "zeros and ones": lambda X, rng: (X > 0).astype(float),
    "constant": lambda X, rng: np.full_like(X, 3.5),
    "constant column": lambda X, rng: np.column_stack([X[:, 1:], np.full(len(X), -2.0)]),
    "collinear": lambda X, rng: X[:, :1] * rng.standard_normal(X.shape[1]),
    "equal rows": lambda X, rng: X[rng.integers(0, max(1, len(X) // 3), len(X))],
    "far from zero": lambda X, rng: X + 1e9,
    "other units": lambda X, rng: X * 10.0 ** rng.integers(-8, 9, X.shape[1]),
    "tiny": lambda X, rng: X * 1e-300,
    "small": lambda X, rng: X * 1e-130,
    "large": lambda X, rng: X * 1e130,
    "huge": lambda X, rng: X * 1e300,
    "one huge column": lambda X, rng: np.column_stack([X[:, 1:], X[:, 0] * 1e300]),
    "one tiny column": lambda X, rng: np.column_stack([X[:, 1:], X[:, 0] * 1e-300]),
    "outlier": lambda X, rng: np.vstack([X[1:], X[:1] * 1e12]),
    "zero rows": lambda X, rng: np.vstack([X[1:], 0 * X[:1]]),
    "heavy tails": lambda X, rng: rng.standard_cauchy(X.shape) ** 3,
    "not a number": lambda X, rng: np.where(X.max() - 1e-12 < X, np.nan, X),
    "infinite": lambda X, rng: np.where(X.max() - 1e-12 < X, np.inf, X),
}


@dataclass(frozen=True)
class Problem:
    """What a problem is made from; printed in place of its arrays."""

    supervision: str
    points: str
    seed: int
    n: int
    d: int
    shift: float
    n_classes: int
    n_constraints: int
    contradictory: bool

    def make(self):
        """Return X and y."""
        rng = np.random.default_rng(self.seed)
        X = rng.standard_normal((self.n, self.d))
        X[: self.n // 2] += self.shift
        with np.errstate(over="ignore", invalid="ignore"):
            X = POINTS[self.points](X, rng)
        return X, getattr(self, f"_{self.supervision}")(rng)

    def _labels(self, rng):
        return rng.integers(0, self.n_classes, self.n)

    def _chunklets(self, rng):
        return Chunklets(rng.integers(-1, self.n_classes, self.n))

    def _numbers(self, rng):
        return rng.standard_normal(self.n) * 10.0 ** rng.choice([-300, 0, 150])

    def _triplets(self, rng):
        index = np.array([rng.permutation(self.n)[:3] for _ in range(self.n_constraints)])
        if self.contradictory:
            index = np.vstack([index, index[: len(index) // 2 + 1, [0, 2, 1]]])
        return Triplets(index)

    def _pairs(self, rng):
        index = np.array([rng.permutation(self.n)[:2] for _ in range(self.n_constraints)])
        similar = rng.random(len(index)) < 0.5
        if self.contradictory:
            index, similar = np.vstack([index, index[:1]]), np.append(similar, ~similar[0])
        return Pairs(index, similar)


@st.composite
def problems(draw, kinds):
    """A problem with supervision of one of some kinds."""
    kind = draw(st.sampled_from(kinds))
    return Problem(
        supervision=kind,
        points=draw(st.sampled_from(list(POINTS))),
        seed=draw(st.integers(0, 999)),
        n=draw(st.integers(1 if kind in ("labels", "numbers") else 3, 40)),
        d=draw(st.integers(1, 12) | st.just(60)),
        shift=draw(st.sampled_from([0.0, 1.0, 20.0])),
        n_classes=draw(st.sampled_from([1, 2, 3, 20])),
        n_constraints=draw(st.integers(1, 60)),
        contradictory=draw(st.booleans()),
    )


@dataclass(frozen=True)
class ImbalancedClasses:
    """Classes of one row to thousands; at least one has two."""

    sizes: list[int]
    seed: int

    def make(self):
        """Return X and y."""
        rng = np.random.default_rng(self.seed)
        y = rng.permutation(np.repeat(np.arange(len(self.sizes)), self.sizes))
        return rng.standard_normal((len(y), 4)) + rng.standard_normal((len(self.sizes), 4))[y], y


imbalanced = st.builds(
    ImbalancedClasses,
    st.tuples(
        st.sampled_from([2, 50, 600, 2500]),
        st.lists(st.sampled_from([1, 2, 3, 40, 500]), min_size=1, max_size=4),
    ).map(lambda sizes: [sizes[0], *sizes[1]]),
    st.integers(0, 999),
)


COMMON = {
    "scale": ["auto", "unit", "standard", "cosine", None],
    "n_components": [None, 1, 2],
    "prior": ["identity", None],
    "prior_weight": [1e-6, 1.0, 1e6],
    "max_iter": [1, 10],
    "tol": [0.0, 1e-3],
    "validation_fraction": ["auto", None, 0.3],
    "validation": ["rows", "classes"],
    "n_jobs": [1, 2],
}
OWN = {
    BoostMetric: {"corrective": [True, False], "penalty": [0.0, 1e-7, 0.1, 2.0]},
    MetricBoost: {"variant": ["default", "paper"], "psd": [True, False]},
    DRMetric: {"solver": ["entropy", "lp"], "variant": ["default", "paper"]},
    MaxMarginMetric: {"C": [1e-3, 1.0, 1e6], "kernel": [None, "rbf"], "psd": [True, False]},
    MixtureNCA: {"n_metrics": [1, 3], "sparsity": [0.0, 1.0]},
    SparseNCA: {"sparsity": [0.0, 1.0]},
    NCA: {"batch_size": [None, 5]},
    LMNN: {"n_neighbors": [1, 3], "push_weight": [0.0, 0.5, 1.0]},
    ITML: {"gamma": [1e-3, 1.0, 1e6]},
    LSML: {},
    PSDBoost: {},
    FrobMetric: {},
    AutoMetric: {"budget": [0.2], "goal": ["classification", "ranking"]},
}
STRATEGIES = [
    NearestTriplets(1, 1),
    RandomTriplets(50),
    RandomPairs(40),
]


@st.composite
def learners(draw, cls):
    """A learner with a few parameters that are not its defaults."""
    known = cls().get_params()
    choices = {name: values for name, values in COMMON.items() if name in known}
    choices |= {name: values for name, values in OWN.get(cls, {}).items() if name in known}
    names = draw(st.lists(st.sampled_from(sorted(choices)), max_size=4, unique=True))
    chosen = {name: draw(st.sampled_from(choices[name])) for name in names}
    if "max_iter" in known:
        chosen.setdefault("max_iter", 20)
    if "budget" in known:
        chosen.setdefault("budget", 0.2)
    if "random_state" in known:
        chosen["random_state"] = 0
    if "constraints" in known and draw(st.booleans()):
        chosen["constraints"] = draw(st.sampled_from(STRATEGIES))
    return cls(**chosen)


LEARNERS = sorted(known_learners().items())


def check_message(message):
    """Errors are sentences for people; scikit-learn's own one about NaN is long."""
    if "contains NaN" in message:
        return
    assert " " in message
    assert message.endswith((".", ")")), message
    assert "\n" not in message, message
