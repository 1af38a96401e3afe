"""`Problem`: what a learner solves on scaled input, and how the result becomes a metric.

`CertifiedProblem`: L-BFGS over maps, with a certificate of how far the optimum can be.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from nearfar.learners.scaling import RowSpan, Scaler
from nearfar.metrics.feature_maps import FeatureMap
from nearfar.metrics.metric import Metric
from nearfar.numerics.linear_algebra import by_spread, cross_product, signed
from nearfar.numerics.optimizers import lbfgs
from nearfar.rows import Moments, Points, Rows
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.supervision import Supervision
from nearfar.typing import Floats, Matrix, Vector

if TYPE_CHECKING:
    from nearfar.learners.base import MetricLearner


@dataclass(frozen=True)
class FitInput:
    """Checked and scaled input of a fit.

    Attributes
    ----------
    Z: shape (n_samples, n_features). Scaled points; Rows only for learners that accept
        them.
    warm: The metric of the last fit, or one that was assigned, to continue from.
    """

    Z: Any
    scaler: Scaler
    supervision: Supervision
    random_state: np.random.RandomState
    warm: Any = None


@dataclass(frozen=True)
class MetricBuilder:
    """Everything but the solver's result that the metric depends on.

    Attributes
    ----------
    scale: shape (n_features,). One unit of the solver in units of X, for each feature.
    center: shape (n_features,). Centre of the scaled points, in units of X.
    base: shape (rank, n_features). Factor of the metric that learned terms are added to, in
        the solver's units.
    covariance: shape (n_features, n_features). Covariance of the training points in the
        solver's units; needed to choose components.
    feature_map: The map from points to the features that the metric is for.
    unit_rows: Whether points are first divided by their length.
    exact_rows: Whether the rows of a learned factor are those of the map, the most
        important first.
    shortest: Whether the map gets orthogonal rows, and no more than the rank of the metric.
        That costs an eigendecomposition, which metrics along a fit do without.
    span: Where the solver's features are coordinates in the span of rows: what metrics are
        lifted by.
    """

    scale: Vector
    center: Vector
    base: Matrix | None = None
    covariance: Matrix | None = None
    n_components: int | None = None
    feature_names: tuple[str, ...] | None = None
    feature_map: FeatureMap | None = None
    unit_rows: bool = False
    exact_rows: bool = False
    shortest: bool = True
    span: RowSpan | None = None

    def build(self, learned: Matrix) -> Metric:
        """Add the base to a learned factor and return the metric in the units of X.

        With a `span`, these are those of its coordinates; `lift` is what leads to features.

        Many maps have the same distances; this is one that another order of rows, another layout
        of memory or another library finds too. Its rows are orthogonal in the solver's units, the
        longest first. With `n_components` they are the principal axes of the mapped training
        points, the most spread first: the best approximation of their distances in that many
        dimensions. With `exact_rows`, their order is the learner's. See `determined` for rows that
        are equally important, and for signs.

        A factor without rows is a metric of zero.
        """
        L = learned if self.base is None else np.vstack([self.base, learned])
        if self.exact_rows:
            L = signed(L[: self.n_components])
        else:
            if self.shortest:
                L = shortest_factor(L)
            if self.n_components is not None and self.covariance is not None:
                L = by_spread(L, self.covariance)[1][: self.n_components]
        if len(L) == 0:
            L = np.zeros((1, L.shape[1]))
        return Metric(
            L / self.scale,
            None if self.span is not None else self.feature_names,
            feature_map=self.feature_map,
            unit_rows=self.unit_rows,
        )

    def lift(self, metric: Any) -> Any:
        """Return a metric of coordinates as one of features; one of features as it is."""
        if self.span is None:
            return metric
        lifted = self.span.lift(metric, outside=self.n_components is None)
        return lifted.named(self.feature_names)

    def rows_of_map(self, V: Matrix) -> Matrix:
        """Return rows of a map in the solver's units as rows of a map of X."""
        V = V / self.scale
        return V if self.span is None else self.span.features_of(V)


def shortest_factor(L: Matrix) -> Matrix:
    """Return a map with the same distances: orthogonal rows, longest first, no more than its
    rank.
    """
    if len(L) >= L.shape[1]:
        return Metric.from_matrix(L.T @ L).L
    values, rows = by_spread(L)
    return rows[values > L.shape[1] * np.finfo(float).eps * values.max(initial=0.0)]


class Problem(ABC):
    """A learner's problem on scaled points.

    Attributes
    ----------
    max_iter: The most iterations of `solve`.
    unit: The squared distance between scaled points that the solver calls one.
    stops_early: Whether fewer iterations are a way to regularise.
    first_stage: The fewest iterations that validation looks at.
    exact_rows: Whether the rows of the factor are those of the map, the most important
        first.
    keeps_payloads: Whether the metric depends on the payloads of all iterations, not only
        of the last.
    base: shape (rank, n_features). Factor of the metric that learned terms are added to, in
        the solver's units.
    features: shape (n_samples, n_map_features). What the solver sees instead of the scaled
        points, if there is a feature map.
    feature_map: The map to these features, from points in the units of X.
    shrinks_to: The prior that a result is shrunk to, if it was found from the points.
    """

    max_iter: int
    unit: float
    stops_early: bool = True
    first_stage: int = 4
    exact_rows: bool = False
    keeps_payloads: bool = False
    base: Matrix | None = None
    features: Floats | None = None
    feature_map: FeatureMap | None = None
    shrinks_to: Metric | None = None

    @abstractmethod
    def solve(self) -> Iterations:
        """Run the solver."""

    def factor(self, history: History) -> Matrix:
        """Return what was learned, a factor L of M = L'L on scaled points in the solver's units."""
        L: Matrix = history[-1].payload
        return L

    def metric(self, history: History, builder: MetricBuilder) -> Any:
        """Return the metric after the iterations."""
        return builder.build(self.factor(history))

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, object]:
        """Return the fitted attributes that the learner has beyond the common ones."""
        return {}

    def warning_message(self, history: History, metric: Metric) -> str:
        """Return what to warn of, or an empty string."""
        return ""

    def shrunk_attributes(self, metric: Metric, data: FitInput) -> dict[str, object]:
        """Return the fitted attributes that change when the metric is shrunk to the prior."""
        return {}


def factor_on_scaled_points(metric: Any, scaler: Scaler, name: str) -> Matrix:
    """Return the map of one linear metric, for scaled points."""
    if len(metric.parts) > 1 or metric.feature_map is not None:
        raise ValueError(f"The {name} must be one linear metric, without a kernel or a gate.")
    span = scaler.span
    n_features = len(scaler.scale) if span is None else span.n_features
    if metric.n_features != n_features:
        raise ValueError(
            f"The {name} is a metric on {metric.n_features} features; X has {n_features}."
        )
    part: Metric = metric.parts[0]
    return (part.L if span is None else span.inside(part)) * scaler.scale


def prior_factor(prior: object, weight: float, scaler: Scaler) -> Matrix | None:
    """Return the factor of a prior on scaled points, or None if there is no prior.

    Parameters
    ----------
    weight: 0 means that there is no prior.
    """
    if prior is None or weight == 0:
        return None
    if not isinstance(prior, Metric):
        return np.eye(len(scaler.scale))
    return factor_on_scaled_points(prior, scaler, "prior")


def covariance_matrix(X: Points) -> Matrix:
    """Return the covariance of the columns."""
    if isinstance(X, Rows):
        return np.asarray(X.reduce(_scatter, Moments.of(X).mean)) / len(X)
    centered = X - X.mean(axis=0)
    return cross_product(centered, centered) / len(X)


def _scatter(block: Floats, center: Vector) -> Matrix:
    centered = block - center
    return centered.T @ centered


def build_near_covariance(learner: MetricLearner, data: FitInput) -> Problem:
    """Build a learner's problem with the inverse of the covariance as its prior."""
    learner = copy.copy(learner)
    learner.prior = prior = inverse_covariance(data)
    problem = learner._build_problem(data)
    problem.shrinks_to = prior
    return problem


def inverse_covariance(data: FitInput) -> Metric:
    """Return the inverse of the covariance of scaled points, as a metric on X.

    It is shrunk as by Ledoit and Wolf, and zero where no points differ.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    values, vectors = np.linalg.eigh(covariance_matrix(data.Z))
    varying = values > len(values) * np.finfo(data.Z.dtype).eps * values[-1]
    values, vectors = values[varying], vectors[:, varying]
    if len(values) == 0:
        return data.scaler.euclidean
    if not isinstance(data.Z, Rows):
        share = ledoit_wolf_shrinkage(data.Z @ vectors)
        values = (1 - share) * values + share * values.mean()
    L = vectors.T / np.sqrt(values)[:, None]
    return Metric(L / data.scaler.scale, unit_rows=data.scaler.unit_rows)


def uncertified(history: History, max_iter: int) -> str:
    """Return a warning if a search ended before its gap was small enough."""
    if history.stopped not in ("max_iter", "stalled"):
        return ""
    ended = "Rounding errors stopped the search"
    if history.stopped == "max_iter":
        ended = f"max_iter={max_iter} was reached"
    last = history[-1]
    if not np.isfinite(last.gap):
        return f"{ended} far from the optimum."
    gap = max(0.0, last.gap) / abs(last.objective)
    return f"{ended}; the objective can be {gap:.1e} (relative) above the optimum."


# Steps that L-BFGS remembers: a step is small beside a pass over the pairs.
_MEMORY = 20
# Length of the first step of L-BFGS; one of length 1 from the identity could end at zero.
_SHORTER = 0.5


class SearchPoint(NamedTuple):
    """A problem at a map L.

    Attributes
    ----------
    value: What L-BFGS minimises.
    objective: What an iteration tells.
    gap: Returns how far the objective can be from the optimum; asked for once in an
        iteration.
    map: What the metric is built from.
    """

    value: float
    gradient: Matrix
    objective: float
    gap: Callable[[], float]
    map: Matrix


class CertifiedProblem(Problem):
    """Base of the problems that L-BFGS solves until a certified gap is small enough.

    Attributes
    ----------
    start: The first map, of any shape.
    tol: Gap to end at, relative to the objective.
    """

    unit = 1.0
    rounding: ClassVar[float] = 0.0
    """Gap for each coordinate below which rounding leaves nothing to gain."""

    start: Matrix
    tol: float

    @abstractmethod
    def at(self, L: Matrix) -> SearchPoint:
        """Evaluate the problem at a map."""

    def solve(self) -> Iterations:
        """Run L-BFGS until the gap is small enough."""
        shape, number = self.start.shape, 0
        last: tuple[Vector, SearchPoint] | None = None

        def objective(flat: Vector) -> tuple[float, Vector]:
            nonlocal last
            point = self.at(flat.reshape(shape) * _SHORTER)
            last = flat.copy(), point
            return point.value, point.gradient.ravel() * _SHORTER

        first = self.start.ravel() / _SHORTER
        for _, flat in lbfgs(objective, first, max_iter=self.max_iter, tol=0.0, memory=_MEMORY):
            # The last point that a line search has tried need not be the one it takes.
            if last is None or not np.array_equal(last[0], flat):
                last = flat, self.at(flat.reshape(shape) * _SHORTER)
            point, number = last[1], number + 1
            gap = point.gap()
            yield Iteration(point.objective, gap=gap, payload=point.map)
            if gap <= max(self.tol * abs(point.objective), self.rounding * len(self.start)):
                return "converged"
        return "max_iter" if number >= self.max_iter else "stalled"

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, object]:
        """Return the certified gap."""
        return {"gap_": max(0.0, history[-1].gap)}

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn where the optimum was not reached."""
        return uncertified(history, self.max_iter)
