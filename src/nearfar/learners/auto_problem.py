"""`AutoProblem`: what `AutoMetric` does, in five steps.

1. A quarter of the data is put aside (the *outer* part).
2. Cross-fitting on the rest: each candidate is fitted to parts of it, cheap ones first, and judged
   on what it did not see (`held_out`); the number of iterations is chosen along the way.
3. A sum of metrics is a metric: the weights of the candidates' metrics, and of the distance as it
   was, are those under which held-out data are most likely. Most of them are zero.
4. The candidates with a weight are fitted to the rest as a whole. The outer part tells what to
   expect of their blend.
5. They are fitted to all data. Their blend is the result: one linear metric.

Nothing that is chosen is judged by the data that it was chosen on.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from nearfar.constraints import (
    Chunklets,
    Pairs,
    Triplets,
)
from nearfar.learners.base import MetricLearner
from nearfar.learners.expectation import (
    Expected,
    expect_error,
    expect_pairs,
    expect_ranking,
    expect_triplets,
)
from nearfar.learners.held_out import (
    Goal,
    Part,
    Split,
    Validation,
    held_out_parts,
    mean_squared_distance,
    sample,
    splits,
    weigh,
)
from nearfar.learners.metric_builder import MetricBuilder
from nearfar.learners.problem import Problem
from nearfar.learners.validation import Plan, Trial, best_plan
from nearfar.metrics.metric import Metric
from nearfar.runtime.deadline import OutOfTimeError, deadline, early_stop
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.typing import Floats, Ints, Matrix

_OUTER_SHARE = 0.25
_SMALLEST_OUTER = 20
_INNER_SHARE = 0.25
_ENOUGH = 400
_MAX_TRIAL_ROWS = 2000
_MAX_OUTER_ROWS = 2000
_SEARCH_SHARE = 0.45
"""Share of the budget for cross-fitting."""

_LEAST_SECONDS = 0.05
_PATIENCE = 3.0
"""A trial fit without an iteration is abandoned after so many times its share of the time."""

_COST_EXPONENT = 1.5
"""Cost of a fit grows like the number of rows to this power; between one and two."""

_SMALLEST_WEIGHT = 0.02
PRIOR = "as it was"
"""Name of the prior among the candidates."""


@dataclass
class Candidate:
    """A learner, and what became of it.

    Attributes
    ----------
    name : str
    learner : MetricLearner or None
        None for the prior.
    trials : list of Trial
    plan : Plan
    value : float
        Mean log-likelihood of held-out data under the candidate and the prior.
    seconds : float
        Duration of the trial fits.
    weight : float
    note : str
        Why it was left out, if it was.
    """

    name: str
    learner: MetricLearner | None
    trials: list[Trial] = field(default_factory=list)
    plan: Plan = field(default_factory=Plan)
    value: float = -math.inf
    seconds: float = 0.0
    weight: float = 0.0
    note: str = ""

    def entry(self) -> dict[str, Any]:
        """Return the candidate's line of the leaderboard."""
        entry: dict[str, Any] = {"name": self.name, "log_likelihood": self.value}
        if self.trials:
            entry["n_iter"] = self.plan.n_iterations or max(t.numbers[-1] for t in self.trials)
        return entry | {"weight": self.weight, "seconds": self.seconds, "note": self.note}

    def tables(self, number: int) -> Floats:
        """Return the candidate's table of the held-out part of that number."""
        trial = self.trials[number]
        return trial.after(self.plan.n_iterations or trial.numbers[-1])[1][1]


class AutoProblem(Problem):
    """Candidates on scaled points.

    Parameters
    ----------
    learners : dict of str to MetricLearner
    Z : array of shape (n_samples, n_features)
    supervision : array of class codes, Chunklets, Pairs or Triplets
    goal : {"neighbors", "ranking"}
    validation : {"rows", "classes"}
    budget : float
    seed : int
    """

    unit = 1.0

    def __init__(
        self,
        learners: dict[str, MetricLearner],
        Z: Floats,
        supervision: Any,
        goal: Goal,
        validation: Validation,
        budget: float,
        seed: int,
    ) -> None:
        self.prior = Candidate(PRIOR, None)
        self.candidates = [Candidate(name, _prepared(each)) for name, each in learners.items()]
        self.Z, self.supervision, self.goal, self.validation = Z, supervision, goal, validation
        self.budget, self.seed = budget, seed
        self.max_iter = len(learners) + 1
        self.expected: Expected | None = None

    def solve(self) -> Iterations:
        """Try the candidates, weigh them, and blend them."""
        start = time.monotonic()
        outer = self._outer()
        Z, supervision = self.Z[outer.rows], outer.known
        parts = self._parts(Z, supervision)
        euclidean = np.eye(self.Z.shape[1])
        tried: list[Candidate] = []
        best = math.inf
        for candidate in self.candidates if parts else []:
            left = _SEARCH_SHARE * self.budget - (time.monotonic() - start)
            if left < _LEAST_SECONDS:
                candidate.note = "no time left"
                continue
            self._try(candidate, Z, parts, left / 2)
            if candidate.trials:
                tried.append(candidate)
                best = min(best, -candidate.value)
            yield Iteration(best, factor=euclidean)
        self._weigh(tried, parts)
        chosen = [candidate for candidate in tried if candidate.weight > 0]
        if outer.unseen is not None:
            left = self.budget - (time.monotonic() - start)
            factor = self._blend(chosen, Z, supervision, left / 2)
            self.expected = self._expected(factor, outer)
        left = self.budget - (time.monotonic() - start)
        factor = self._blend(chosen, self.Z, self.supervision, max(left, _LEAST_SECONDS))
        yield Iteration(best if math.isfinite(best) else 0.0, factor=factor)
        return "blended"

    def _outer(self) -> Split:
        """Put a part aside, if there is enough; its `unseen` is None if there is not."""
        random_state = np.random.RandomState(self.seed)
        n_folds = round(1 / _OUTER_SHARE)
        folds = splits(self.Z, self.supervision, n_folds, self.validation, random_state)
        for split in folds:
            if len(split.unseen) >= _SMALLEST_OUTER and self._can_learn(split):
                return split
        return Split(np.arange(len(self.Z)), self.supervision, None)

    def _can_learn(self, split: Split) -> bool:
        """Whether what is left can still be learned from."""
        if isinstance(split.known, Triplets):
            return len(split.known) > 0
        if isinstance(split.known, Pairs):
            kinds = (split.known.similar, split.unseen.similar)
            return all(flags.any() and not flags.all() for flags in kinds)
        y = split.known.ids if isinstance(split.known, Chunklets) else split.known
        return len(np.unique(y)) > 1

    def _parts(self, Z: Floats, supervision: Any) -> list[Part]:
        return list(
            held_out_parts(
                Z,
                supervision,
                fraction=_INNER_SHARE,
                validation=self.validation,
                random_state=np.random.RandomState(self.seed),
                goal=self.goal,
                enough=_ENOUGH,
                max_rows=_MAX_TRIAL_ROWS,
            )
        )

    def _try(self, candidate: Candidate, Z: Floats, parts: list[Part], seconds: float) -> None:
        """Fit a candidate to the parts, each for its share of the time."""
        assert candidate.learner is not None
        start = time.monotonic()
        trials = []
        for k, part in enumerate(parts):
            left = (seconds - (time.monotonic() - start)) / (len(parts) - k)
            try:
                with _quietly(), deadline(_PATIENCE * seconds), early_stop(left):
                    rows = Z[part.rows]
                    found = Trial.of(candidate.learner, rows, part, "unit", self.seed, one_map=True)
                trials.append(found)
            except OutOfTimeError:
                candidate.note = "too slow"
                break
            except ValueError as error:
                candidate.note = str(error)
                break
        candidate.seconds = time.monotonic() - start
        if len(trials) == len(parts):
            candidate.plan, best = best_plan(trials)
            candidate.trials, candidate.value = trials, best.value

    def _weigh(self, tried: list[Candidate], parts: list[Part]) -> None:
        """Set the weights of the candidates and of the prior."""
        self.prior.weight = 1.0
        chosen = tried
        while chosen:
            tables = [
                np.stack([chosen[0].trials[k].prior, *(each.tables(k) for each in chosen)])
                for k in range(len(parts))
            ]
            found = weigh([(part.held_out, t) for part, t in zip(parts, tables, strict=True)])
            total = float(found.weights.sum())
            if total == 0:
                return
            shares = found.weights / total
            kept = shares[1:] >= _SMALLEST_WEIGHT
            if kept.all():
                self.prior.weight = float(shares[0])
                for candidate, share in zip(chosen, shares[1:], strict=True):
                    candidate.weight = float(share)
                return
            chosen = [each for each, keep in zip(chosen, kept, strict=True) if keep]

    def _blend(
        self, chosen: list[Candidate], Z: Floats, supervision: Any, seconds: float
    ) -> Matrix:
        """Fit the chosen candidates, and return the factor of their weighted sum."""
        rows = self._affordable(chosen, len(Z), seconds)
        known = supervision
        if rows is not None:
            known = (
                Chunklets(supervision.ids[rows])
                if isinstance(supervision, Chunklets)
                else supervision[rows]
            )
            Z = Z[rows]
        euclidean = Metric.identity(Z.shape[1])
        factors = [_with_size(euclidean, Z, self.prior.weight)]
        start = time.monotonic()
        for k, candidate in enumerate(chosen):
            left = (seconds - (time.monotonic() - start)) / (len(chosen) - k)
            assert candidate.learner is not None
            with _quietly(), early_stop(max(left, _LEAST_SECONDS)):
                metric = candidate.learner._learn(Z, known, "unit", self.seed, candidate.plan)
            factors.append(_with_size(metric, Z, candidate.weight))
        return np.vstack(factors)

    def _affordable(self, chosen: list[Candidate], n_rows: int, seconds: float) -> Ints | None:
        """Return the rows of a sample, if there is no time for fits to all labelled rows."""
        if isinstance(self.supervision, Triplets | Pairs) or not chosen:
            return None
        n_trial = min(_MAX_TRIAL_ROWS, n_rows)
        cost = sum(each.seconds / len(each.trials) for each in chosen)
        growth = (max(seconds, 0.0) / max(cost, 1e-9)) ** (1 / _COST_EXPONENT)
        most = max(n_trial, int(n_trial * growth))
        if most >= n_rows:
            return None
        return sample(np.arange(n_rows), most, np.random.RandomState(self.seed))

    def _expected(self, factor: Matrix, outer: Split) -> Expected:
        metrics = Metric.identity(self.Z.shape[1]), Metric(factor)
        unseen = outer.unseen
        if isinstance(unseen, Triplets):
            return expect_triplets(metrics, self.Z, unseen)
        if isinstance(unseen, Pairs):
            return expect_pairs(metrics, self.Z, unseen)
        y = self.supervision.ids if isinstance(self.supervision, Chunklets) else self.supervision
        rows = sample(unseen, _MAX_OUTER_ROWS, np.random.RandomState(self.seed))
        if outer.whole_groups or self.goal == "ranking":
            return expect_ranking(metrics, self.Z[rows], y[rows])
        X, known = self.Z[outer.rows], y[outer.rows]
        return expect_error(metrics, X, known, self.Z[rows], y[rows], len(self.Z))

    def attributes(self, builder: MetricBuilder, history: History) -> dict[str, Any]:
        """Weights, leaderboard, and what to expect."""
        everyone = sorted(self.candidates, key=lambda each: -each.value)
        return {
            "weights_": {
                each.name: each.weight
                for each in [self.prior, *everyone]
                if each.weight > 0 or each.trials or each is self.prior
            },
            "leaderboard_": [each.entry() for each in everyone],
            "expected_": self.expected,
        }


def _prepared(learner: MetricLearner) -> MetricLearner:
    """Return a copy that fits points which are already scaled, and nothing but a metric."""
    copy = clone(learner)
    known = copy.get_params()
    fixed = {"scale": "unit", "n_components": None, "validation_fraction": None}
    return copy.set_params(**{name: value for name, value in fixed.items() if name in known})


def _with_size(metric: Metric, Z: Floats, size: float) -> Matrix:
    """Return a metric's factor, scaled to a mean squared distance."""
    found = mean_squared_distance(metric, Z)
    return np.asarray(metric.L * math.sqrt(size / found)) if found > 0 else 0.0 * metric.L


@contextmanager
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
