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
- Fewer points than features: maps are of coordinates in the space that the points span, as the
  penalty on the trace leaves nothing elsewhere. The gate, whose penalty is on single features, is
  still one of all features.

``variant="paper"`` is the paper's form: distances divided by |M|_F (kept at 1), penalties on the
sum, fixed steps, negative eigenvalues cut off (18).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import log_softmax, logsumexp
from sklearn.cluster import KMeans
from sklearn.model_selection import StratifiedShuffleSplit

from nearfar.learners.declaration import Validation, ValidationFraction, Variant, learner
from nearfar.learners.map_learner import MapLearner
from nearfar.learners.nca.mixture_problem import MixtureProblem, coarse_to_fine
from nearfar.learners.nca.soft_neighbors import Evaluation, SoftNeighbors
from nearfar.learners.problem import FitInput
from nearfar.learners.starting_map import principal_axes
from nearfar.metrics.gated import GatedMetric
from nearfar.metrics.metric import Metric
from nearfar.numerics.lbfgs import Bounds, lbfgs
from nearfar.numerics.linear_algebra import axes_of_span
from nearfar.runtime import parameters
from nearfar.runtime.history import Iteration, Iterations, map_iterations
from nearfar.runtime.parameters import choice, either, integer, number
from nearfar.typing import Floats, Ints, Matrix, Vector

_PAPER_STEP = 0.02
_MOST_ROWS = 128
"""Rows of each map to begin with, unless `n_components` or `init` say otherwise."""

_NUMBERS_TRIED = (1, 2, 4)
_HELD_OUT_SHARE = 0.25
_STARTS_OF_AUTO = 3
_SMALLEST_CLASS = 4
"""Members a class needs for some of them to be held out."""

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
        The most rows of each map; by default as many as there are features, and at most 128.
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
    parameter_rules: ClassVar[dict[str, parameters.ParameterRule]] = {
        "n_metrics": either(choice("auto"), integer(at_least=1)),
        "sparsity": number(at_least=0.0),
        "gate_sparsity": number(at_least=0.0),
        "variant": choice("default", "paper"),
        "n_init": integer(at_least=1),
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.variant == "paper" and self.n_components is not None:
            raise ValueError('n_components must be None with variant="paper".')

    def _build_problem(self, data: FitInput) -> MixtureProblem:
        codes = data.supervision.labels(type(self).__name__)
        Z, unit = self._in_units(data)
        axes = self._axes(Z, data)
        if axes is None:
            L = self._first_map(Z, data, unit)
            if self._may_cut and len(L) > _MOST_ROWS:
                L = principal_axes(L, Z)[:_MOST_ROWS]
        else:
            varying = np.count_nonzero(np.ptp(Z, axis=0))
            L = np.eye(axes.shape[1])[: self.n_components or _MOST_ROWS] / varying**0.25
        warm = None
        if data.warm is not None and len(data.warm.metric.parts) > 1:
            scale = data.scaler.scale * np.sqrt(unit)
            warm = _model_of(data.warm.metric, scale, data.scaler.center, len(L))
            if self.n_metrics not in ("auto", len(warm.b)):
                raise ValueError(
                    f"warm_start: the fitted metric has {len(warm.b)} parts; "
                    f"n_metrics is {self.n_metrics}."
                )
        number = self.n_metrics
        if warm is not None:
            number = len(warm.b)
        elif number == "auto":
            number = self._best_number(Z, codes, L, data.random_state, axes)
        return self._problem(Z, codes, L, int(number), data.random_state, unit, warm, axes)

    @property
    def _may_cut(self) -> bool:
        return self.n_components is None and self.init == "identity" and self.variant != "paper"

    def _axes(self, Z: Floats, data: FitInput) -> Matrix | None:
        """Return axes of fewer points than features, if all metrics vanish elsewhere."""
        vanish = self.sparsity > 0 and self.init == "identity" and self.variant != "paper"
        if not vanish or data.warm is not None or len(Z) >= Z.shape[1] or not np.ptp(Z):
            return None
        return axes_of_span(np.asarray(Z - Z.mean(axis=0), dtype=np.float64))

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
    ) -> MixtureProblem:
        """Build the problem with its starts, or with the one to continue from."""
        if number > 1 and number > len(np.unique(Z, axis=0)):
            raise ValueError(f"n_metrics={number} is more than the number of distinct rows of X.")
        mixtures = [
            Mixture(points, number, self.sparsity, self.gate_sparsity)
            for points in coarse_to_fine(Z, codes, random_state, axes)
        ]
        if self.variant == "paper":
            mixtures = mixtures[-1:]
        n_init = max(_STARTS_OF_AUTO, self.n_init) if self.n_metrics == "auto" else self.n_init
        n_init = 1 if number == 1 else n_init
        return MixtureProblem(
            mixtures,
            [warm] if warm else [self._start(mixtures[-1], L, random_state) for _ in range(n_init)],
            unit,
            max_iter=self.max_iter,
            tol=self.tol,
            paper=self.variant == "paper",
            axes=axes,
        )

    def _start(
        self, mixture: Mixture, L: Matrix, random_state: np.random.RandomState
    ) -> MixtureModel:
        start = mixture.start(L, random_state)
        return start if self.variant == "paper" else mixture.with_cheaper_gate(start)

    def _best_number(
        self,
        Z: Floats,
        codes: Ints,
        L: Matrix,
        random_state: np.random.RandomState,
        axes: Matrix | None,
    ) -> int:
        """Return the number of metrics under which held-out points are likeliest."""
        usable = np.flatnonzero(np.bincount(codes)[codes] >= _SMALLEST_CLASS)
        if len(np.unique(codes[usable])) < 2:
            return 1
        split = StratifiedShuffleSplit(1, test_size=_HELD_OUT_SHARE, random_state=random_state)
        seen, unseen = (usable[part] for part in next(split.split(usable, codes[usable])))
        scores = {}
        distinct = len(np.unique(Z[seen], axis=0))
        known, held_out = (Z[seen], codes[seen]), (Z[unseen], codes[unseen])
        for n_metrics in (n for n in _NUMBERS_TRIED if n <= distinct):
            *_, last = self._problem(*known, L, n_metrics, random_state, axes=axes).solve()
            scores[n_metrics] = _held_out_likelihood(last.payload, known, held_out, axes)
        return max(scores, key=lambda n: (scores[n], -n))


def _held_out_likelihood(
    model: MixtureModel,
    known: tuple[Floats, Ints],
    held_out: tuple[Floats, Ints],
    axes: Matrix | None,
) -> float:
    """Return the mean log of the probability that points find their class among known ones."""
    maps = model.L if axes is None else model.L @ axes.T
    metric = GatedMetric([Metric(L) for L in maps], model.V, model.b)
    classes, votes = metric.class_votes(*known, held_out[0])
    own = votes[np.arange(len(votes)), np.searchsorted(classes, held_out[1])]
    return float(np.log(np.maximum(own, _SMALLEST_PROBABILITY)).mean())


@dataclass(frozen=True)
class MixtureModel:
    """Maps of the metrics, and the gate; or derivatives by them.

    Attributes
    ----------
    L : array of shape (n_metrics, k, n_features), or of coordinates in the span of few points
    V : array of shape (n_metrics, n_features)
    b : array of shape (n_metrics,)
    """

    L: Matrix
    V: Matrix
    b: Vector


def _model_of(metric: Any, scale: Vector, center: Vector, k: int) -> MixtureModel:
    """Return the maps, padded or cut to k rows, and the gate of a metric, for scaled points."""
    maps = np.zeros((len(metric.parts), k, metric.n_features))
    for L, part in zip(maps, metric.parts, strict=True):
        L[: part.n_components] = part.L[:k] * scale
    return MixtureModel(maps, metric.V * scale, metric.b + metric.V @ center)


@dataclass(frozen=True)
class Mixture:
    """The objective (11) on points and labels.

    Attributes
    ----------
    points : SoftNeighbors
    number : int
        Number of metrics.
    sparsity, gate_sparsity : float
    """

    points: SoftNeighbors
    number: int
    sparsity: float
    gate_sparsity: float

    def start(self, L: Matrix, random_state: np.random.RandomState) -> MixtureModel:
        """Return equal metrics, and a gate between clusters."""
        Z = self.points.features
        maps = np.repeat(L[None], self.number, axis=0)
        if self.number == 1:
            return MixtureModel(maps, np.zeros((1, Z.shape[1])), np.zeros(1))
        clusters = KMeans(self.number, n_init=1, random_state=random_state).fit(Z)
        centers = np.asarray(clusters.cluster_centers_, dtype=np.float64)
        return MixtureModel(maps, centers, -0.5 * (centers**2).sum(axis=1))

    def with_cheaper_gate(self, model: MixtureModel) -> MixtureModel:
        """Return the model with a gate of the same boundaries, whose penalty is at most one."""
        share = 1.0 / max(1.0, self.gate_sparsity * float(np.abs(model.V).sum()))
        return replace(model, V=share * model.V, b=share * model.b)

    def value(self, model: MixtureModel) -> tuple[float, MixtureModel]:
        """Return (11) without the penalty on the gate, and its gradient."""
        found, by_gate = self.likelihood(model)
        by_L = 2 * self.sparsity * model.L - np.array(found.by_map) / self.n
        value = -found.value / self.n + self.sparsity * float((model.L**2).sum())
        return value, replace(by_gate, L=by_L)

    def objective(self, model: MixtureModel) -> float:
        """Return (11)."""
        return self.value(model)[0] + self.gate_sparsity * float(np.abs(model.V).sum())

    @property
    def n(self) -> int:
        """Number of points that are counted."""
        return int(self.points.counted.sum())

    def likelihood(self, model: MixtureModel) -> tuple[Evaluation, MixtureModel]:
        """Return the log-likelihood with its gradients by the maps, and (15).

        The responsibilities weigh the gradients of the maps (16).
        """
        points, Z = self.points, self.points.features
        log_gate = log_softmax(Z @ model.V.T + model.b, axis=1).astype(np.float64)
        excess = np.zeros(log_gate.shape)

        def gain(rows: slice, log_p: Matrix) -> tuple[float, Matrix]:
            joint = log_gate[rows] + log_p
            likelihood = logsumexp(joint, axis=1)
            responsibilities = np.exp(joint - likelihood[:, None])
            excess[rows] = responsibilities - np.exp(log_gate[rows])
            return float(likelihood.sum()), responsibilities

        found = points.evaluate(model.L, gain)
        by_V = -np.asarray(excess.T @ Z, dtype=np.float64) / self.n
        return found, MixtureModel(model.L, by_V, -excess.sum(axis=0) / self.n)

    def minimize(self, model: MixtureModel, *, max_iter: int, tol: float) -> Iterations:
        """Minimise (11) over all maps and the gate."""
        L, V = model.L.shape, model.V.shape
        ends = np.cumsum([model.L.size, model.V.size, model.V.size])

        def unpack(flat: Vector) -> MixtureModel:
            maps, plus, minus, b = np.split(flat, ends)
            return MixtureModel(maps.reshape(L), (plus - minus).reshape(V), b)

        def objective(flat: Vector) -> tuple[float, Vector]:
            value, by = self.value(unpack(flat))
            size, gate = float(flat[ends[0] : ends[2]].sum()), by.V.ravel()
            parts = [by.L.ravel(), gate + self.gate_sparsity, self.gate_sparsity - gate, by.b]
            return value + self.gate_sparsity * size, np.concatenate(parts)

        first = np.concatenate(
            [model.L.ravel(), np.maximum(model.V, 0).ravel(), np.maximum(-model.V, 0).ravel()]
        )
        bounds: Bounds = [(None, None)] * model.L.size + [(0.0, None)] * (2 * model.V.size)
        bounds += [(None, None)] * len(model.b)
        steps = lbfgs(
            objective, np.append(first, model.b), max_iter=max_iter, tol=tol, bounds=bounds
        )
        return map_iterations(steps, lambda at: Iteration(at[0], payload=unpack(at[1])))

    def minimize_as_in_paper(self, model: MixtureModel, *, max_iter: int) -> Iterations:
        """Take fixed steps on M_s, V and b, with |M_s|_F = 1 (section 3.3)."""
        n = self.n
        M = np.array([L.T @ L / np.linalg.norm(L.T @ L) for L in model.L])
        model = replace(model, L=_roots(M))
        found, by = self.likelihood(model)
        for _ in range(max_iter):
            by_M = []
            for m, by_matrix in zip(M, found.by_matrix, strict=True):
                assert by_matrix is not None
                G = -by_matrix
                by_M.append(G - (G * m).sum() * m + self.sparsity * np.eye(len(m)))
            sign = np.where(model.V >= 0, 1.0, -1.0)
            V = model.V - _PAPER_STEP * (n * by.V + self.gate_sparsity * sign)
            b = model.b - _PAPER_STEP * n * by.b
            M = np.array([_clipped(m - _PAPER_STEP * d) for m, d in zip(M, by_M, strict=True)])
            model = MixtureModel(_roots(M), V, b)
            found, by = self.likelihood(model)
            penalty = self.sparsity * float(np.trace(M, axis1=1, axis2=2).sum())
            penalty += self.gate_sparsity * float(np.abs(V).sum())
            yield Iteration(penalty - found.value, payload=model)
        return "max_iter"


def _roots(M: Matrix) -> Matrix:
    """Return square L_s with L_s'L_s = M_s."""
    values, vectors = np.linalg.eigh(M)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[..., None] * np.swapaxes(vectors, -1, -2))


def _clipped(M: Matrix) -> Matrix:
    """Cut negative eigenvalues off (18), and return to |M|_F = 1."""
    values, vectors = np.linalg.eigh(M)
    size = np.linalg.norm(np.maximum(values, 0.0))
    if size == 0:
        raise ValueError("A metric has become zero; use a smaller sparsity or fewer iterations.")
    return np.asarray((vectors * (np.maximum(values, 0.0) / size)) @ vectors.T)
