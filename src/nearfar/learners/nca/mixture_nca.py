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
  (`coarse_to_fine`).
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

import math
from contextlib import closing
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.cluster import KMeans
from sklearn.model_selection import StratifiedShuffleSplit

from nearfar.learners.declaration import Validation, ValidationFraction, Variant, learner
from nearfar.learners.map_learner import MapLearner, principal_axes
from nearfar.learners.nca.soft_neighbors import (
    VANISHED,
    Evaluation,
    NeighborhoodProblem,
    SoftNeighbors,
    nonzero_rows,
)
from nearfar.learners.problem import FitInput, MetricBuilder
from nearfar.metrics.metric import Metric
from nearfar.metrics.variants import GatedMetric
from nearfar.numerics.linear_algebra import axes_of_span
from nearfar.numerics.optimizers import Bounds, lbfgs
from nearfar.runtime.history import History, Iteration, Iterations, map_iterations
from nearfar.runtime.parameters import ParameterRule, choice, either, integer, number
from nearfar.typing import Floats, Ints, Matrix, Vector

# gamma_v and gamma_m of section 4.1.1, for sums over the points.
_PAPER_STEP = 0.02
# Eigenvalues that were cut off, relative to the largest.
_ROUNDING = 1e-14
# The smallest part of the points, and how much larger each next one is: enough pairs of a class
# for the maps to come near their end, at a small share of the cost of all pairs.
_COARSE_ROWS, _ROWS_PER_CLASS, _GROWTH = 1000, 8, 4
# The most points that count in a part, as a multiple of the smallest part: with half as many,
# errors on 3,500 rows of waveforms were a point higher.
_ANCHORS = 4
# Where a part that is not the last ends; the next one goes on.
_COARSE_TOLERANCE = 1e-3
# Mean of the gate below which a metric counts as unused.
_SMALLEST_SHARE = 1e-3
# Iterations after which it is looked at again, as that costs two evaluations.
_USE_IS_CHECKED = 5


@dataclass(frozen=True)
class MixtureModel:
    """Maps of the metrics, and the gate; or derivatives by them."""

    L: Matrix
    V: Matrix
    b: Vector


@dataclass(frozen=True)
class Mixture:
    """The objective (11) on points and labels.

    Attributes
    ----------
    number: Number of metrics.
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
        gain, by_gate = self.likelihood(model)
        by_L = 2 * self.sparsity * model.L - np.array(gain.by_map) / self.n
        value = -gain.value / self.n + self.sparsity * float((model.L**2).sum())
        return value, replace(by_gate, L=by_L)

    def objective(self, model: MixtureModel) -> float:
        """Return (11)."""
        return self.value(model)[0] + self.gate_sparsity * float(np.abs(model.V).sum())

    @property
    def n(self) -> float:
        """Number of points that are counted, or the sum of their weights."""
        return self.points.total

    def likelihood(self, model: MixtureModel) -> tuple[Evaluation, MixtureModel]:
        """Return the log-likelihood with its gradients by the maps, and (15).

        The responsibilities weigh the gradients of the maps (16).
        """
        points, Z = self.points, self.points.features
        log_gate = log_softmax(Z @ model.V.T + model.b, axis=1).astype(np.float64)
        excess = np.zeros(log_gate.shape)

        def gain(rows: slice, log_p: Matrix) -> tuple[Matrix, Matrix]:
            joint = log_gate[rows] + log_p
            likelihood = logsumexp(joint, axis=1)
            responsibilities = np.exp(joint - likelihood[:, None])
            excess[rows] = responsibilities - np.exp(log_gate[rows])
            if points.weight is not None:
                excess[rows] *= points.weight[rows, None]
            return likelihood[:, None], responsibilities

        evaluation = points.evaluate(model.L, gain)
        by_V = -np.asarray(excess.T @ Z, dtype=np.float64) / self.n
        return evaluation, MixtureModel(model.L, by_V, -excess.sum(axis=0) / self.n)

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
        """Take the printed steps on M_s, V and b (section 3.3).

        Distances are divided by |M_s|_F (2), and M_s itself is never rescaled: the longer it is,
        the shorter are the steps of its direction (16).
        """
        n, sparsity, gate_sparsity = self.n, self.sparsity, self.gate_sparsity
        M = np.array([L.T @ L for L in model.L])
        V, b = model.V, model.b
        directions, norms = _directions(M)
        gain, by = self.likelihood(MixtureModel(_roots(directions), V, b))
        for _ in range(max_iter):
            V = V - _PAPER_STEP * (n * by.V + gate_sparsity * np.where(V >= 0, 1.0, -1.0))
            b = b - _PAPER_STEP * (n * by.b + gate_sparsity * np.where(b >= 0, 1.0, -1.0))
            for s, (G, m) in enumerate(zip(gain.by_matrix, directions, strict=True)):
                assert G is not None
                slope = sparsity * np.eye(len(m)) - (G - (G * m).sum() * m) / norms[s]
                values, vectors = np.linalg.eigh(M[s] - _PAPER_STEP * slope)
                # Negative eigenvalues are cut off (18).
                M[s] = (vectors * np.maximum(values, 0.0)) @ vectors.T
            directions, norms = _directions(M)
            gain, by = self.likelihood(MixtureModel(_roots(directions), V, b))
            penalty = sparsity * float(np.trace(M, axis1=1, axis2=2).sum())
            penalty += gate_sparsity * float(np.abs(V).sum() + np.abs(b).sum())
            yield Iteration(penalty - gain.value, payload=MixtureModel(_roots(M), V, b))
        return "max_iter"


def _directions(M: Matrix) -> tuple[Matrix, Vector]:
    """Return M_s / |M_s|_F, and |M_s|_F."""
    norms = np.linalg.norm(M, axis=(1, 2))
    if not norms.all():
        raise ValueError("A metric has become zero; use a smaller sparsity or fewer iterations.")
    return M / norms[:, None, None], norms


def _roots(M: Matrix) -> Matrix:
    """Return square L_s with L_s'L_s = M_s."""
    values, vectors = np.linalg.eigh(M)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[..., None] * np.swapaxes(vectors, -1, -2))


def coarse_to_fine(
    Z: Floats,
    codes: Ints,
    random_state: np.random.RandomState,
    axes: Matrix | None = None,
    weight: Vector | None = None,
) -> list[SoftNeighbors]:
    """Return random parts of the points that grow up to all of them.

    Pairs grow with the square of the points: most iterations run on few points, where they cost
    little. Of a large part, some points count, and all are their neighbours. Each class has its
    share of every part and of those that count, and at least two members. Up to twice the smallest
    part there is one stage, in which all count.
    """
    sizes = np.bincount(codes)
    n = len(codes)
    size = max(_COARSE_ROWS, _ROWS_PER_CLASS * int(np.count_nonzero(sizes)))
    if n <= 2 * size:
        return [SoftNeighbors(Z, codes, axes, weight=weight)]

    # Rows of each class in random order, one class after the other.
    order = random_state.permutation(n)
    order = order[np.argsort(codes[order], kind="stable")]
    Z, codes = Z[order], codes[order]
    weight = None if weight is None else weight[order]
    place = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)

    def share(number: int) -> NDArray[np.bool_]:
        return np.asarray(place < np.maximum(2, np.ceil(sizes * min(1.0, number / n)))[codes])

    anchors, stages = share(_ANCHORS * size), []
    while 2 * size < n:
        rows = share(size)
        own = None if weight is None else weight[rows]
        stages.append(SoftNeighbors(Z[rows], codes[rows], axes, anchors[rows], own))
        size *= _GROWTH
    return [*stages, SoftNeighbors(Z, codes, axes, anchors, weight)]


@dataclass(eq=False)
class MixtureProblem(NeighborhoodProblem):
    """A mixture and its starts.

    Attributes
    ----------
    mixtures: The same mixture over growing parts of the points.
    fixed_iterations: Whether to learn as the paper does.
    axes: shape (n_features, n_axes). Axes of the coordinates that maps are of, if these are
        not the features.
    n_components: The most rows of the paper's maps; others begin with no more.
    """

    mixtures: list[Mixture]
    starts: list[MixtureModel]
    unit: float
    iterations_per_start: int
    tol: float
    fixed_iterations: bool
    axes: Matrix | None = None
    n_components: int | None = None
    stops_early = False

    def __post_init__(self) -> None:
        self.exact_rows = self.axes is not None
        self.max_iter = self.iterations_per_start * len(self.starts) + (len(self.starts) > 1)

    def solve(self) -> Iterations:
        """Minimise from every start; the last iteration is that of the best one."""
        results: list[tuple[Iteration, str]] = []
        last = Iteration(math.inf)

        def numbered(iteration: Iteration) -> Iteration:
            nonlocal last
            last = replace(iteration, restart=len(results))
            return last

        for start in self.starts:
            if self.fixed_iterations:
                whole, most = self.mixtures[-1], self.iterations_per_start
                iterations = whole.minimize_as_in_paper(start, max_iter=most)
            else:
                iterations = self._minimize(start)
            reason = yield from map_iterations(iterations, numbered)
            results.append((last, reason))
        best, reason = min(results, key=lambda result: result[0].objective)
        if best is not last:
            yield best
        return reason

    def _minimize(self, model: MixtureModel) -> Iterations:
        """Minimise over growing parts of the points, each from where the last one ended."""
        left, reason = self.iterations_per_start, "max_iter"
        for mixture in self.mixtures:
            tol = self.tol if mixture is self.mixtures[-1] else _COARSE_TOLERANCE
            reason = ""
            while not reason:
                model = _without_unused(model, mixture)
                with closing(mixture.minimize(model, max_iter=left, tol=tol)) as steps:
                    number = 0
                    while True:
                        try:
                            iteration = next(steps)
                        except StopIteration as end:
                            reason = str(end.value)
                            break
                        left, model, number = left - 1, iteration.payload, number + 1
                        yield replace(iteration, n_rows=len(mixture.points.X))
                        look = number % _USE_IS_CHECKED == 0
                        if look and _without_unused(model, mixture) is not model:
                            break
            if left <= 0:
                break
        return reason

    def metric(self, history: History, builder: MetricBuilder) -> Metric:
        """Return the metrics of the last iteration with their gate; one alone has none."""
        model = history[-1].payload
        if self.fixed_iterations and self.n_components is not None:
            model = replace(model, L=model.L[:, -self.n_components :])  # `_roots` ascend
        sparse = self.mixtures[-1].sparsity > 0
        largest = max(float(np.linalg.norm(L, 2)) ** 2 for L in model.L)
        # The paper's metrics are what is left of them (18): only rounding is dropped.
        share = _ROUNDING if self.fixed_iterations else VANISHED
        maps = [nonzero_rows(L, largest, share) if sparse else L for L in model.L]
        metrics = [builder.build(L if self.axes is None else L @ self.axes.T) for L in maps]
        if len(metrics) == 1:
            return metrics[0]
        V = model.V / builder.scale
        return GatedMetric(metrics, V, model.b - V @ builder.center)

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, object]:
        """The local metrics, the gate, and the number of metrics in use."""
        model = history[-1].payload
        shares = _shares(model, self.mixtures[-1])
        V = model.V / builder.scale
        return {
            "metrics_": list(self.metric(history, builder).parts),
            "gate_": (V, model.b - V @ builder.center),
            "n_metrics_": int(np.count_nonzero(shares > _SMALLEST_SHARE)),
        }


def _shares(model: MixtureModel, mixture: Mixture) -> Vector:
    """Return the mean of the gate over the points, for each metric."""
    gate = softmax(mixture.points.features @ model.V.T + model.b, axis=1)
    return np.asarray(gate.mean(axis=0), dtype=np.float64)


def _without_unused(model: MixtureModel, mixture: Mixture) -> MixtureModel:
    """Drop metrics that no point goes by, if they are not worth their penalties."""
    used = _shares(model, mixture) > _SMALLEST_SHARE
    if used.all():
        return model
    fewer = replace(model, L=model.L[used], V=model.V[used], b=model.b[used])
    return fewer if mixture.objective(fewer) <= mixture.objective(model) else model


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
        if data.warm is not None and len(data.warm.parts) > 1:
            # The maps, padded or cut to as many rows, and the gate of a metric, for scaled points.
            fitted, scale = data.warm, data.scaler.scale * np.sqrt(unit)
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
