"""`GatedMetric`: several linear metrics, and a gate that picks one of them for each point.

    gate(x) = softmax(V x + b),     d(x, y) = d_s(x, y) with s = argmax gate(x)

The metric of the first point, the query, is used; d(x, y) and d(y, x) may differ. The neighbours
of a query are searched in the space of its metric, so the search is exact.

`WideMetric`: a metric of many features that differs from a weight for each in few directions.

    L = diag(weights) + U B        U of shape (n_features, rank), B of shape (rank, n_features)

A metric that was learned from a few rows is like that: in the span of the rows it is what was
learned, and outside features count as in Euclidean distance. Memory and time are linear in the
number of features, while L has its square of entries.

`SignedForm`: a symmetric matrix with negative eigenvalues, which orders triplets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from nearfar.metrics.metric import Metric, Votes, triplet_scores
from nearfar.metrics.points import check_points, check_rows
from nearfar.numerics.edges import squared_distances
from nearfar.typing import Array, Floats, Ints, Matrix, Vector

# Distances held at a time: 32 megabytes.
_BLOCK_ELEMENTS = 1 << 22


@dataclass(frozen=True, eq=False, repr=False, init=False, kw_only=True)
class GatedMetric(Metric):
    """Several linear metrics with a gate between them.

    It has several linear maps instead of one, so `L` and `matrix` raise AttributeError. Use
    `parts` to get the metrics, and `spaces` to get the points that use each of them.

    Parameters
    ----------
    metrics : sequence of Metric
        Linear metrics with the same features.
    V : array-like of shape (n_metrics, n_features)
        Weights of the gate.
    b : array-like of shape (n_metrics,)
        Offsets of the gate.

    Examples
    --------
    >>> from nearfar import GatedMetric, Metric
    >>> metrics = [Metric([[1.0, 0.0]]), Metric([[0.0, 1.0]])]
    >>> metric = GatedMetric(metrics, V=[[-9, 0], [9, 0]], b=[0, 0])
    >>> metric.assign([[-1.0, 0.0], [1.0, 0.0]])
    array([0, 1])
    >>> metric.distances([[-1.0, 0.0], [1.0, 0.0]], [[3.0, 5.0]])
    array([[4.],
           [5.]])
    """

    metrics: tuple[Metric, ...]
    V: Matrix
    b: Vector

    def __init__(self, metrics: Sequence[Metric], V: ArrayLike, b: ArrayLike) -> None:
        if not metrics:
            raise ValueError("A gated metric needs at least one metric.")
        weights, offsets = np.array(V, dtype=np.float64), np.array(b, dtype=np.float64)
        n_features, names = metrics[0].n_features, metrics[0].feature_names
        if any(m.n_features != n_features or m.feature_names != names for m in metrics):
            raise ValueError("The metrics of a gated metric must have the same features.")
        if any(m.columns != metrics[0].columns for m in metrics):
            raise ValueError("The metrics of a gated metric must have the same columns.")
        if len({m.unit_rows for m in metrics}) > 1:
            raise ValueError("Either all metrics of a gated metric have unit rows, or none.")
        if any(not m.is_linear or m.votes is not None for m in metrics):
            raise ValueError(
                "The metrics of a gated metric must be linear, without kernel or votes."
            )
        if weights.shape != (len(metrics), n_features) or offsets.shape != (len(metrics),):
            raise ValueError(
                f"A gate of {len(metrics)} metrics with {n_features} features needs weights and "
                f"offsets of shapes {(len(metrics), n_features)} and {(len(metrics),)}; "
                f"got {weights.shape} and {offsets.shape}."
            )
        if not (np.isfinite(weights).all() and np.isfinite(offsets).all()):
            raise ValueError("The gate's V and b must be finite.")
        for array in (weights, offsets):
            array.setflags(write=False)
        vars(self).update(metrics=tuple(metrics), V=weights, b=offsets, feature_names=names)
        vars(self).update(unit_rows=metrics[0].unit_rows, columns=metrics[0].columns)

    def __getattr__(self, name: str) -> Any:
        if name in {"L", "matrix"}:
            raise AttributeError(f"A gated metric has several maps, so no {name}; use its `parts`.")
        return super().__getattr__(name)  # type: ignore[misc]

    @property
    def parts(self) -> tuple[Metric, ...]:
        """The metrics that the gate picks from."""
        return self.metrics

    @property
    def is_zero(self) -> bool:
        """Whether all distances are zero, under every one of the metrics."""
        return all(metric.is_zero for metric in self.metrics)

    @property
    def is_linear(self) -> bool:
        """False: the map depends on the point."""
        return False

    def _with(self, **changes: Any) -> GatedMetric:
        return GatedMetric([m._with(**changes) for m in self.metrics], self.V, self.b)

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return self.V.shape[1]

    @property
    def n_components(self) -> int:
        """Largest number of coordinates after any of the maps."""
        return max(metric.n_components for metric in self.metrics)

    def __repr__(self) -> str:
        ranks = ", ".join(str(metric.n_components) for metric in self.metrics)
        return f"<GatedMetric: {self.n_features} features -> {ranks}>"

    def gate(self, X: ArrayLike) -> Matrix:
        """Return the gate's probabilities, of shape (n_samples, n_metrics); rows sum to one."""
        return np.asarray(softmax(self._scores(X), axis=1))

    def assign(self, X: ArrayLike) -> Ints:
        """Return the number of each point's metric: the most probable one, the first of ties."""
        return np.asarray(self._scores(X).argmax(axis=1))

    def _scores(self, X: ArrayLike) -> Matrix:
        return np.asarray(self.rows_of(X) @ self.V.T + self.b, dtype=np.float64)

    def spaces(self, queries: ArrayLike) -> Iterator[tuple[Ints, Metric]]:
        """Yield row numbers of queries, and the metric that applies to them."""
        chosen = self.assign(queries)
        for number in np.unique(chosen):
            yield np.flatnonzero(chosen == number), self.metrics[number]

    def transform(self, X: ArrayLike) -> Floats:
        """Map each point by its own metric.

        The coordinates of points with different metrics are not comparable, and Euclidean
        distances between them are not the metric's.

        Returns
        -------
        array of shape (n_samples, n_components)
            Padded with zeros for metrics with fewer components.
        """
        points = self.features_of(X)
        out = np.zeros((len(points), self.n_components), dtype=points.dtype)
        for rows, metric in self.spaces(points):
            out[rows, : metric.n_components] = metric.transform(points[rows])
        return out

    def distances(self, X: ArrayLike, Y: ArrayLike | None = None) -> Matrix:
        """Return all distances from the rows of X, by their metrics, to those of Y (default: X)."""
        queries = self.features_of(X)
        others = queries if Y is None else self.features_of(Y)
        out = np.empty((len(queries), len(others)))
        for rows, metric in self.spaces(queries):
            out[rows] = metric.distances(queries[rows], others)
        return out

    def _squared_distances(self, points: Floats, i: Ints, j: Ints) -> Vector:
        out = np.empty(len(i))
        chosen = self.assign(points)[i]
        for number in np.unique(chosen):
            pairs = np.flatnonzero(chosen == number)
            metric = self.metrics[number]
            out[pairs] = metric._squared_distances(points, i[pairs], j[pairs])
        return out

    def class_votes(self, X: ArrayLike, y: ArrayLike, queries: ArrayLike) -> tuple[Array, Matrix]:
        """Return class probabilities of queries: soft neighbours under each metric, gated.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels of X.
        queries : array-like of shape (n_queries, n_features)

        Returns
        -------
        classes : array of shape (n_classes,)
        probabilities : array of shape (n_queries, n_classes)
            Means over the metrics, weighted by the gate's probabilities.
        """
        points, sought = self.features_of(X), self.features_of(queries)
        classes, codes = np.unique(np.asarray(y), return_inverse=True)
        members = np.eye(len(classes))[codes]
        gate = self.gate(sought)
        out = np.zeros((len(sought), len(classes)))
        block = max(1, _BLOCK_ELEMENTS // max(1, len(points)))
        for top in range(0, len(sought), block):
            rows = slice(top, top + block)
            for number, metric in enumerate(self.metrics):
                H = metric.distances(sought[rows], points) ** 2
                out[rows] += gate[rows, number, None] * (softmax(-H, axis=1) @ members)
        return classes, out


@dataclass(frozen=True, eq=False, repr=False, init=False, kw_only=True)
class WideMetric(Metric):
    """A metric whose map is a diagonal matrix plus a product of two narrow ones.

    `L`, which has as many rows as features, is computed when it is first used.

    Parameters
    ----------
    weights: shape (n_features,). The diagonal.
    **options: feature_names, votes, unit_rows and columns, as of `Metric`.
    """

    weights: Vector
    U: Matrix
    B: Matrix

    def __init__(self, weights: ArrayLike, U: ArrayLike, B: ArrayLike, **options: Any) -> None:
        arrays = [np.array(array, dtype=np.float64, order="C") for array in (weights, U, B)]
        diagonal, left, right = arrays
        rank = left.shape[-1]
        if left.shape != (*diagonal.shape, rank) or right.shape != (rank, *diagonal.shape):
            shapes = ", ".join(str(array.shape) for array in arrays)
            raise ValueError(
                "A wide metric's arrays must have shapes (n_features,), (n_features, rank) and "
                f"(rank, n_features); got {shapes}."
            )
        # The checks of names, votes and columns are those of any metric of these features.
        checked = Metric(diagonal[None], **options)
        if not all(np.isfinite(array).all() for array in arrays):
            raise ValueError("A metric's L must be finite.")
        for array in arrays:
            array.setflags(write=False)
        vars(self).update(vars(checked))
        del vars(self)["L"]
        vars(self).update(weights=diagonal, U=left, B=right)

    @cached_property  # type: ignore[misc]
    def L(self) -> Matrix:  # noqa: N802
        """The map, of shape (n_features, n_features)."""
        L = self.U @ self.B
        L[np.diag_indices_from(L)] += self.weights
        L.setflags(write=False)
        return L

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "L"}

    @property
    def is_zero(self) -> bool:
        """Whether all distances are zero."""
        few = np.count_nonzero(self.weights) <= len(self.B)
        return bool(few and super().is_zero)

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return len(self.weights)

    @property
    def n_components(self) -> int:
        """Number of coordinates after the map: as many as features."""
        return len(self.weights)

    def _with(self, **changes: Any) -> Metric:
        names = ("feature_names", "votes", "unit_rows", "columns")
        kept = {name: getattr(self, name) for name in names}
        return WideMetric(self.weights, self.U, self.B, **(kept | changes))

    def mapped(self, points: Floats) -> Floats:
        """Apply the linear map to rows of its input, without checks."""
        dtype = points.dtype
        along = points @ self.B.T.astype(dtype, copy=False)
        return along @ self.U.T.astype(dtype, copy=False) + points * self.weights.astype(dtype)


_ONLY_METRICS_HAVE = frozenset(
    {"L", "parts", "spaces", "transform", "distances", "pair_distances", "save", "n_components"}
    | {"get_metric"}
)


@dataclass(frozen=True, eq=False)
class SignedForm:
    """A form H(x, y) = (x - y)' M (x - y) that may be negative.

    MetricBoost learns one with ``variant="paper"``. It orders triplets, but it is not a distance
    and has no linear map.

    Parameters
    ----------
    matrix: shape (n_features, n_features). M, symmetric.
    votes: Binary weak models, which order triplets in place of H.
    """

    matrix: Matrix
    feature_names: tuple[str, ...] | None = None
    votes: Votes | None = None

    def prefers(self, X: ArrayLike, triplets: object) -> Vector:
        """Return 1 for each triplet with H(anchor, near) < H(anchor, far), 0 for >, 1/2 for =."""
        points = check_points(X, len(self.matrix), self.feature_names)
        a, near, far = check_rows(triplets, 3, len(points))
        values, vectors = np.linalg.eigh(self.matrix)
        P = points @ (np.sqrt(np.abs(values)) * vectors)
        positive, negative = P[:, values > 0], P[:, values < 0]

        def form(i: Ints, j: Ints) -> Vector:
            return squared_distances(positive, i, j) - squared_distances(negative, i, j)

        votes = None if self.votes is None else self.votes.margin(points, a, near, far)
        return triplet_scores(form(a, far) - form(a, near), votes)

    def __getattr__(self, name: str) -> Any:
        if name in _ONLY_METRICS_HAVE:
            raise AttributeError(
                f'A form learned with variant="paper" is not a metric and has no {name!r}; '
                "it can only order triplets."
            )
        raise AttributeError(name)


def as_metric(learned: object) -> Metric:
    """Return what a learner learned, or raise ValueError if it is not a metric."""
    if isinstance(learned, Metric):
        return learned
    raise ValueError(
        'The learner\'s variant="paper" learns a form that is not a metric and can only order '
        'triplets; use variant="default".'
    )
