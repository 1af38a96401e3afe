"""msNCA: a gated mixture of sparse neighbourhood components (Hong, Li, Jiang, Tu, CVPR 2011).

S metrics M_s and a gate that depends on the point:

    pi_s(x) = softmax_s(v_s'x + b_s)                                                         (9)
    p_s(i)  = chance that the point i finds its own class under M_s (`neighborhoods`)        (8)

    min  -1/n sum_i log sum_s pi_s(x_i) p_s(i)
         + sparsity sum_s Tr M_s + gate_sparsity |V|_1                                      (11)

With r_is = pi_s p_s / sum_t pi_t p_t the responsibilities, the gradients are

    by v_s:  -1/n sum_i (r_is - pi_s(x_i)) x_i                                              (15)
    by M_s:  -1/n sum_i r_is d log p_s(i) / d M_s, one Laplacian product for each metric    (16)

Where nearfar departs from the paper, and why:

- Distances are not divided by |M|_F, and the penalties are on the mean over points: see `nca`.
- L-BFGS on the factors L_s of M_s = L_s'L_s and the gate together. V = V+ - V- with both parts
  bounded below by zero: weights that do not pay become exactly zero, as a proximal step makes them
  (the paper's sign(0) = 1 never does).
- The offsets b_s are not penalised; points are centred.
- Equal metrics with V = 0 never separate, and the paper has no other start: all metrics begin with
  |M|_F = 1, the gate with k-means centres m_s, v_s = m_s and b_s = -|m_s|^2 / 2. Of `n_init` starts
  the one with the best objective is kept.

``normalize=True`` is the paper's form: distances divided by |M|_F (kept at 1), penalties on the
sum, fixed steps, negative eigenvalues cut off (18).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from nearfar.constraints.strategies import TripletStrategy
from nearfar.learners.base import (
    Floats,
    MetricBuilder,
    Prior,
    Problem,
    Scaler,
    require,
    require_integer,
    require_number,
)
from nearfar.learners.nca.base import NeighborhoodLearner, without_nothing
from nearfar.learners.nca.mixture_problem import Mixture, Model
from nearfar.learners.nca.neighborhoods import Neighborhoods
from nearfar.metrics.gated import GatedMetric
from nearfar.metrics.metric import Metric
from nearfar.runtime.history import History, Iterations
from nearfar.runtime.recall_stub import recall
from nearfar.typing import Ints, Matrix

_LEAST_SHARE = 1e-3
_TRIED = (1, 2, 4)
_HELD_OUT = 0.25
_AUTO_STARTS = 3
_ENOUGH = 4
_LEAST_CHANCE = 1e-12


class MixtureNCA(NeighborhoodLearner):
    """Learn a few local metrics and a gate that tells where each of them holds.

    Parameters
    ----------
    n_metrics : int or "auto", default=4
        How many. "auto" tries 1, 2 and 4, and keeps the number under which a held-out quarter of
        the points is likeliest. On small sets one is often as good: see docs/nca.md.
    sparsity : float, default=0.01
        Price of a unit of the trace of each metric, for the mean over points: the larger, the lower
        the ranks.
    gate_sparsity : float, default=0.01
        Price of a unit of the gate's weights: the larger, the fewer features the gate looks at.
    normalize : bool, default=False
        Learn as the paper does: see the module's docstring.
    n_init : int, default=1
        Starts of the gate; the best is kept. At least three with ``n_metrics="auto"``.
    max_iter : int, default=200
        The most iterations.
    constraints : strategy, default=NearestTriplets(targets=3, impostors=3)
        What `score` makes of labels; learning takes labels as they are.
    prior : {"identity"}, Metric or None, default="identity"
        Where every metric begins: Euclidean distance between scaled points, with |M|_F = 1, or a
        metric of your own. None is the same as "identity".
    prior_weight : float, default=1.0
        What the squared distances of that metric are multiplied by.
    scale : {"standard", "unit"} or None, default="standard"
        How to scale X inside; the result is for X as given. "standard" gives every feature unit
        variance, "unit" and None leave features as they are.
    n_components : int, optional
        The most rows of each map; by default as many as there are features.
    tol : float, default=1e-6
        Relative decrease of the objective at which to end.
    random_state : int, RandomState or None, default=None
        For the starts of the gate.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    metric_ : GatedMetric
        The metrics and the gate. With one metric, a plain `Metric`.
    metrics_ : list of Metric
        The local metrics.
    gate_ : tuple of arrays (V, b)
        Weights, of shape (n_metrics, n_features), and offsets of the gate, for X as given.
    n_metrics_ : int
        How many of them have a share in the points. Where one metric will do, the price of the
        others takes them away.
    history_ : History
        Objective after every iteration; ``history_.stopped`` says why they ended.
    n_iter_ : int
        Number of iterations.

    References
    ----------
    Y. Hong, Q. Li, J. Jiang, Z. Tu. Learning a mixture of sparse distance metrics for
    classification and dimensionality reduction. CVPR 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import MixtureNCA
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = MixtureNCA(n_metrics=2, random_state=0).fit(X, y)
    >>> learner.metric_.gate(X).shape
    (178, 2)
    """

    batch_size = None

    def __init__(
        self,
        *,
        n_metrics: int | Literal["auto"] = 4,
        sparsity: float = 0.01,
        gate_sparsity: float = 0.01,
        normalize: bool = False,
        n_init: int = 1,
        max_iter: int = 200,
        constraints: TripletStrategy | None = None,
        prior: Prior = "identity",
        prior_weight: float = 1.0,
        scale: str | None = "standard",
        n_components: int | None = None,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            constraints=constraints,
            prior=prior,
            prior_weight=prior_weight,
            scale=scale,
            n_components=n_components,
            tol=tol,
            random_state=random_state,
            verbose=verbose,
        )
        self.n_metrics = n_metrics
        self.sparsity = sparsity
        self.gate_sparsity = gate_sparsity
        self.normalize = normalize
        self.n_init = n_init
        self.max_iter = max_iter

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (isinstance(self.n_metrics, str) and self.n_metrics == "auto"):
            require_integer("n_metrics", self.n_metrics, at_least=1)
        require_number("sparsity", self.sparsity, at_least=0.0)
        require_number("gate_sparsity", self.gate_sparsity, at_least=0.0)
        require_integer("n_init", self.n_init, at_least=1)
        allowed = not self.normalize or self.n_components is None
        require("n_components", self.n_components, allowed, "None with normalize=True")

    def _build_problem(
        self, Z: Floats, scaler: Scaler, supervision: Any, random_state: np.random.RandomState
    ) -> Problem:
        codes = self._labels(supervision)
        Z, unit = self._in_units(Z)
        start = self._first_map(Z, scaler, unit)
        number = self.n_metrics
        if number == "auto":
            number = self._best_number(Z, codes, start, random_state)
        rounds = self._best_start(self._mixture(Z, codes, int(number)), start, random_state)
        return Problem(rounds, self.max_iter, unit, None)

    def _mixture(self, Z: Floats, codes: Ints, number: int) -> Mixture:
        if number > 1 and number > len(np.unique(Z, axis=0)):
            raise ValueError(f"n_metrics={number} is more than the number of distinct rows of X.")
        return Mixture(Neighborhoods(Z, codes), number, self.sparsity, self.gate_sparsity)

    def _descend(
        self, mixture: Mixture, start: Matrix, random_state: np.random.RandomState
    ) -> Iterations:
        first = mixture.start(start, random_state)
        if self.normalize:
            return mixture.descend_as_printed(first, max_iter=self.max_iter)
        return mixture.descend(first, max_iter=self.max_iter, tol=self.tol)

    def _best_start(
        self, mixture: Mixture, start: Matrix, random_state: np.random.RandomState
    ) -> Iterations:
        """Descend from every start, and pass on the rounds of the best."""
        n_init = max(_AUTO_STARTS, self.n_init) if self.n_metrics == "auto" else self.n_init
        if n_init == 1 or mixture.number == 1:
            return (yield from self._descend(mixture, start, random_state))
        traces = []
        for _ in range(n_init):
            trace = History()
            for _ in trace.record(self._descend(mixture, start, random_state)):
                pass
            traces.append(trace)
        best = min(traces, key=lambda trace: trace[-1].objective)
        yield from best
        return best.stopped

    def _best_number(
        self, Z: Floats, codes: Ints, start: Matrix, random_state: np.random.RandomState
    ) -> int:
        """Return the number of metrics under which held-out points are likeliest."""
        usable = np.flatnonzero(np.bincount(codes)[codes] >= _ENOUGH)
        if len(np.unique(codes[usable])) < 2:
            return 1
        split = StratifiedShuffleSplit(1, test_size=_HELD_OUT, random_state=random_state)
        seen, unseen = (usable[part] for part in next(split.split(usable, codes[usable])))
        scores = {}
        distinct = len(np.unique(Z[seen], axis=0))
        known, asked = (Z[seen], codes[seen]), (Z[unseen], codes[unseen])
        for number in (number for number in _TRIED if number <= distinct):
            *_, last = self._best_start(self._mixture(*known, number), start, random_state)
            score = partial(_held_out_likelihood, last.model, known, asked)
            (scores[number],) = recall("held-out likelihood", score, given=last.objective)
        return max(scores, key=lambda number: (scores[number], -number))

    def _result(self, builder: MetricBuilder, trace: History) -> Metric:
        model = trace[-1].model
        largest = max(float(np.linalg.norm(L, 2)) ** 2 for L in model.L)
        maps = [without_nothing(L, largest) if self.sparsity > 0 else L for L in model.L]
        metrics = [builder.metric(L) for L in maps]
        if len(metrics) == 1:
            return metrics[0]
        assert builder.center is not None
        V = model.V / builder.scale
        return GatedMetric(metrics, V, model.b - V @ builder.center)

    def _set_fitted_attributes(self, problem: Problem, trace: History) -> None:
        super()._set_fitted_attributes(problem, trace)
        gated = self.metric_
        if isinstance(gated, GatedMetric):
            self.metrics_, self.gate_ = list(gated.metrics), (gated.V, gated.b)
        else:
            self.metrics_, self.gate_ = [gated], (np.zeros((1, gated.n_features)), np.zeros(1))
        self.n_metrics_ = int(np.count_nonzero(trace[-1].model.share > _LEAST_SHARE))

    def _fixed_steps(self) -> bool:
        return self.normalize


def _held_out_likelihood(
    model: Model, known: tuple[Floats, Ints], asked: tuple[Floats, Ints]
) -> tuple[float]:
    """Mean log of the chance that points find their class among known ones."""
    metric = GatedMetric([Metric(L) for L in model.L], model.V, model.b)
    classes, votes = metric.class_votes(*known, asked[0])
    own = votes[np.arange(len(votes)), np.searchsorted(classes, asked[1])]
    return (float(np.log(np.maximum(own, _LEAST_CHANCE)).mean()),)
