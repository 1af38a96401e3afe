"""msNCA: a gated mixture of sparse neighbourhood components (Hong, Li, Jiang, Tu, CVPR 2011).

S metrics M_s and a gate that depends on the point:

    pi_s(x) = softmax_s(v_s'x + b_s)                                                         (9)
    p_s(i)  = probability that point i finds its own class under M_s (`soft_neighbors`)        (8)

    min  -1/n sum_i log sum_s pi_s(x_i) p_s(i)
         + sparsity sum_s Tr M_s + gate_sparsity |V|_1                                      (11)

With r_is = pi_s p_s / sum_t pi_t p_t the responsibilities, the gradients are

    by v_s:  -1/n sum_i (r_is - pi_s(x_i)) x_i                                              (15)
    by M_s:  -1/n sum_i r_is d log p_s(i) / d M_s, one Laplacian product for each metric    (16)

Where nearfar departs from the paper, and why:

- Distances are not divided by |M|_F, and the penalties are on the mean over points: see `nca`.
- L-BFGS on the factors L_s of M_s = L_s'L_s and the gate together. V = V+ - V- with both parts
  bounded below by zero: weights that gain less than their penalty become exactly zero, as with a
  proximal step (the paper's sign(0) = 1 never does that).
- The offsets b_s are not penalised; points are centred.
- Equal metrics with V = 0 never separate, and the paper has no other start: all metrics begin with
  |M|_F = 1, the gate with k-means centres m_s, v_s = m_s and b_s = -|m_s|^2 / 2. With many
  features its penalty would be most of the objective, and most iterations would go into shrinking
  it; it is divided by what makes the penalty one. Of `n_init` starts the one with the best
  objective is kept.
- Maps begin with no more than the 128 principal axes of the points: sparse metrics have fewer.
- Of more than 4,000 points, some 4,000 are counted in sums over i, whose neighbours all points are
  (`mixture_problem.coarse_to_fine`).
- Fewer points than features: maps are of coordinates in the space that the points span, as the
  penalty on the trace leaves nothing elsewhere. The gate, whose penalty is on single features, is
  still one of all features.

``variant="paper"`` takes the steps of section 3.3 as they are printed: distances divided by
|M_s|_F, which is never rescaled, penalties on the sum over points, b_s among the penalised
coefficients, sign(0) = 1, fixed steps, negative eigenvalues cut off (18). Not printed, and as
above: the start, and that points are centred, with a mean variance of one (``scale=None`` leaves it
as it is). There are `max_iter` steps; points without another member of their class, whose p_s is
zero, are not counted; more than 1,000 points are in float32.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from nearfar.learners.declaration import Validation, ValidationFraction, Variant, learner
from nearfar.learners.map_learner import MapLearner, principal_axes
from nearfar.learners.nca.mixture_problem import (
    Mixture,
    MixtureModel,
    MixtureProblem,
    coarse_to_fine,
)
from nearfar.learners.nca.soft_neighbors import SoftNeighbors
from nearfar.learners.problem import FitInput
from nearfar.metrics.metric import Metric
from nearfar.metrics.variants import GatedMetric
from nearfar.numerics.linear_algebra import axes_of_span
from nearfar.runtime.parameters import ParameterRule, choice, either, integer, number
from nearfar.typing import Floats, Ints, Matrix, Vector

# Rows of each map to begin with, unless `n_components` or `init` say otherwise.
_MOST_ROWS = 128

_NUMBERS_TRIED = (1, 2, 4)
# Points that compare these numbers: enough to tell them apart, and most are left to learn from.
_HELD_OUT_SHARE = 0.25
# Starts of each number: one unlucky start of the gate should not decide.
_STARTS_OF_AUTO = 3
# Members a class needs for some of them to be held out.
_SMALLEST_CLASS = 4
# The log of the probability of a held-out point is bounded, so that one point cannot decide.
_SMALLEST_PROBABILITY = 1e-12


@learner
class MixtureNCA(MapLearner):
    """Learn several local metrics and a gate that selects one for each point.

    Parameters
    ----------
    n_metrics : int or "auto", default=4
        Number of metrics. "auto" tries 1, 2 and 4, and keeps the number under which a held-out
        quarter of the points is likeliest. On small sets one is often as good: see
        docs/methods/nca.md.
    sparsity : float, default=0.01
        Penalty for a unit of the trace of each metric, on the mean over points. The larger it is,
        the lower the ranks.
    gate_sparsity : float, default=0.01
        Penalty for a unit of the gate's weights. The larger it is, the fewer features the gate
        uses.
    variant : {"default", "paper"}, default="default"
        "paper" learns as the paper does: see the module's docstring.
    n_init : int, default=1
        Number of starts of the gate; the best is kept. At least three with ``n_metrics="auto"``.
    max_iter : int, default=200
        The most iterations of each start.
    init : {"identity", "pca", "lda", "random", "auto"} or Metric, default="identity"
        Where every metric begins, as of `NCA`.
    n_components : int, optional
        The most rows of each map; by default as many as there are features, and at most 128. With
        ``variant="paper"``, which learns matrices, the leading axes of each are kept in the end.
    tol : float, default=1e-4
        Relative decrease of the objective at which to end.

    Attributes
    ----------
    metric_ : GatedMetric
        The metrics and the gate. With one metric, a plain `Metric`.
    metrics_ : list of Metric
        The local metrics.
    gate_ : tuple of arrays (V, b)
        Weights, of shape (n_metrics, n_features), and offsets of the gate, for X as given.
    n_metrics_ : int
        Number of metrics that points are assigned to. Where one metric suffices, the penalties
        make the others vanish.
    history_ : History
        Objective after every iteration of every start; ``history_.stopped`` says why they ended.
        If the best start is not the last one, its result is repeated at the end.

    References
    ----------
    Y. Hong, Q. Li, J. Jiang, Z. Tu. Learning a mixture of sparse distance metrics for
    classification and dimensionality reduction. CVPR 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import MixtureNCA
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = MixtureNCA(n_metrics=2, gate_sparsity=0.001, random_state=0).fit(X, y)
    >>> learner.metric_.gate(X).shape
    (178, 2)
    """

    n_metrics: int | Literal["auto"] = 4
    sparsity: float = 0.01
    gate_sparsity: float = 0.01
    variant: Variant = "default"
    n_init: int = 1
    max_iter: int = 200
    validation_fraction: ValidationFraction = None
    validation: Validation = "rows"

    auto_order: ClassVar[int | None] = None
    compare_order: ClassVar[int | None] = 6
    local_metrics: ClassVar[bool] = True
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "n_metrics": either(choice("auto"), integer(at_least=1)),
        "sparsity": number(at_least=0.0),
        "gate_sparsity": number(at_least=0.0),
        "n_init": integer(at_least=1),
    }

    def _build_problem(self, data: FitInput) -> MixtureProblem:
        codes = data.supervision.labels(type(self).__name__)
        weight = data.supervision.row_weight
        Z, unit = self._in_units(data)
        plain = self.init == "identity" and self.variant != "paper"
        axes = None
        if plain and self.sparsity > 0 and data.warm is None and len(Z) < Z.shape[1] and np.ptp(Z):
            # Of few points, all metrics vanish outside their span.
            axes = axes_of_span(np.asarray(Z - Z.mean(axis=0), dtype=np.float64))
        if axes is None:
            rows = None if self.variant == "paper" else self.n_components
            L = self._first_map(Z, data, unit, rows)
            if plain and self.n_components is None and len(L) > _MOST_ROWS:
                L = principal_axes(L, Z)[:_MOST_ROWS]
        else:
            varying = np.count_nonzero(np.ptp(Z, axis=0))
            L = np.eye(axes.shape[1])[: self.n_components or _MOST_ROWS] / varying**0.25
        warm = None
        if data.warm is not None and len(data.warm.metric.parts) > 1:
            # The maps, padded or cut to as many rows, and the gate of a metric, for scaled points.
            fitted, scale = data.warm.metric, data.scaler.scale * np.sqrt(unit)
            maps = np.zeros((len(fitted.parts), len(L), fitted.n_features))
            for rows, part in zip(maps, fitted.parts, strict=True):
                rows[: part.n_components] = part.L[: len(L)] * scale
            b = fitted.b + fitted.V @ data.scaler.center
            warm = MixtureModel(maps, fitted.V * scale, b)
            if self.n_metrics not in ("auto", len(warm.b)):
                raise ValueError(
                    f"warm_start: the fitted metric has {len(warm.b)} parts; "
                    f"n_metrics is {self.n_metrics}."
                )
        number = self.n_metrics
        if warm is not None:
            number = len(warm.b)
        elif number == "auto":
            number = self._best_number(Z, codes, L, data.random_state, axes, weight)
        return self._problem(Z, codes, L, int(number), data.random_state, unit, warm, axes, weight)

    def _problem(
        self,
        Z: Floats,
        codes: Ints,
        L: Matrix,
        number: int,
        random_state: np.random.RandomState,
        unit: float = 1.0,
        warm: MixtureModel | None = None,
        axes: Matrix | None = None,
        weight: Vector | None = None,
    ) -> MixtureProblem:
        """Build the problem with its starts, or with the one to continue from."""
        if number > 1 and number > len(np.unique(Z, axis=0)):
            raise ValueError(f"n_metrics={number} is more than the number of distinct rows of X.")
        paper = self.variant == "paper"
        if paper:
            every = [SoftNeighbors(Z, codes, weight=weight)]
        else:
            every = coarse_to_fine(Z, codes, random_state, axes, weight)
        mixtures = [Mixture(points, number, self.sparsity, self.gate_sparsity) for points in every]
        whole = mixtures[-1]
        n_init = max(_STARTS_OF_AUTO, self.n_init) if self.n_metrics == "auto" else self.n_init
        n_init = 1 if number == 1 else n_init
        starts = [warm] if warm else [whole.start(L, random_state) for _ in range(n_init)]
        if warm is None and not paper:
            starts = [whole.with_cheaper_gate(start) for start in starts]
        settings = (unit, self.max_iter, self.tol, paper, axes, self.n_components)
        return MixtureProblem(mixtures, starts, *settings)

    def _best_number(
        self,
        Z: Floats,
        codes: Ints,
        L: Matrix,
        random_state: np.random.RandomState,
        axes: Matrix | None,
        weight: Vector | None,
    ) -> int:
        """Return the number of metrics under which held-out points are likeliest."""
        usable = np.flatnonzero(np.bincount(codes)[codes] >= _SMALLEST_CLASS)
        if len(np.unique(codes[usable])) < 2:
            return 1
        split = StratifiedShuffleSplit(1, test_size=_HELD_OUT_SHARE, random_state=random_state)
        seen, unseen = (usable[part] for part in next(split.split(usable, codes[usable])))
        scores = {}
        distinct = len(np.unique(Z[seen], axis=0))
        training = Z[seen], codes[seen]
        known_weight, unseen_weight = (
            None if weight is None else weight[rows] for rows in (seen, unseen)
        )
        for n_metrics in (n for n in _NUMBERS_TRIED if n <= distinct):
            problem = self._problem(
                *training, L, n_metrics, random_state, axes=axes, weight=known_weight
            )
            *_, last = problem.solve()
            model = last.payload
            maps = model.L if axes is None else model.L @ axes.T
            metric = GatedMetric([Metric(L) for L in maps], model.V, model.b)
            classes, votes = metric.class_votes(*training, Z[unseen])
            own = votes[np.arange(len(votes)), np.searchsorted(classes, codes[unseen])]
            log_p = np.log(np.maximum(own, _SMALLEST_PROBABILITY))
            scores[n_metrics] = float(np.average(log_p, weights=unseen_weight))
        return max(scores, key=lambda n: (scores[n], -n))
