"""`GatedMetric`: a few metrics, and a gate that tells from a point which of them it goes by.

    gate(x) = softmax(V x + b),     d(x, y) = d_s(x, y) with s the largest of gate(x)

The first point, the query, decides; so d(x, y) and d(y, x) may differ. What is nearest to a query
is searched for in the space of its own metric, exactly.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from nearfar.metrics.metric import Metric, MetricFile, rows_of
from nearfar.metrics.tensorfile import write_tensors
from nearfar.typing import Floats, Ints, Matrix, Vector

_VERSION = "3"
_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False, repr=False)
class GatedMetric(Metric):
    """Several metrics and the gate between them.

    Parameters
    ----------
    metrics : sequence of Metric
        For the same features.
    V : array-like of shape (n_metrics, n_features)
    b : array-like of shape (n_metrics,)
        Weights and offsets of the gate.

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

    metrics: tuple[Metric, ...] = ()
    V: Matrix | None = None
    b: Vector | None = None

    def __init__(self, metrics: Sequence[Metric], V: ArrayLike, b: ArrayLike) -> None:
        if not metrics:
            raise ValueError("A gated metric needs at least one metric.")
        weights, offsets = np.array(V, dtype=np.float64), np.array(b, dtype=np.float64)
        n_features = metrics[0].n_features
        if any(
            m.n_features != n_features or m.feature_names != metrics[0].feature_names
            for m in metrics
        ):
            raise ValueError("The metrics of a gate must be for the same features.")
        if any(m.kernel_map is not None or m.votes is not None for m in metrics):
            raise ValueError("The metrics of a gate must be linear, without kernel or votes.")
        if weights.shape != (len(metrics), n_features) or offsets.shape != (len(metrics),):
            raise ValueError(
                f"A gate of {len(metrics)} metrics on {n_features} features needs as many weights "
                f"and offsets; got shapes {weights.shape} and {offsets.shape}."
            )
        if not (np.isfinite(weights).all() and np.isfinite(offsets).all()):
            raise ValueError("A gate must be finite.")
        for array in (weights, offsets):
            array.setflags(write=False)
        object.__setattr__(self, "metrics", tuple(metrics))
        object.__setattr__(self, "V", weights)
        object.__setattr__(self, "b", offsets)
        object.__setattr__(self, "feature_names", metrics[0].feature_names)
        object.__setattr__(self, "votes", None)
        object.__setattr__(self, "kernel_map", None)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def parts(self) -> tuple[Metric, ...]:
        """The linear metrics that this one consists of."""
        return self.metrics

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Not one matrix but several: see `metrics`."""
        raise AttributeError("A gated metric has not one matrix but several; see its `metrics`.")

    def __getattr__(self, name: str) -> Any:
        if name == "L":
            raise AttributeError("A gated metric has not one map but several; see its `metrics`.")
        raise AttributeError(name)

    def named(self, feature_names: Sequence[str] | None) -> GatedMetric:
        """Return the same metrics and gate for features of these names."""
        assert self.V is not None
        assert self.b is not None
        return GatedMetric([m.named(feature_names) for m in self.metrics], self.V, self.b)

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return self.metrics[0].n_features

    @property
    def n_components(self) -> int:
        """Largest number of coordinates after any of the maps."""
        return max(metric.n_components for metric in self.metrics)

    def __repr__(self) -> str:
        ranks = ", ".join(str(metric.n_components) for metric in self.metrics)
        return f"<GatedMetric: {self.n_features} features -> {ranks}>"

    def gate(self, X: ArrayLike) -> Matrix:
        """Share of each metric in each point, of shape (n_samples, n_metrics); rows sum to one."""
        return np.asarray(softmax(self._scores(X), axis=1))

    def assign(self, X: ArrayLike) -> Ints:
        """Metric that each point goes by: the largest share, the first among equals."""
        return np.asarray(self._scores(X).argmax(axis=1))

    def _scores(self, X: ArrayLike) -> Matrix:
        assert self.V is not None
        assert self.b is not None
        return np.asarray(self._points(X) @ self.V.T + self.b, dtype=np.float64)

    def spaces(self, queries: ArrayLike) -> Iterator[tuple[Ints, Metric]]:
        """Yield the queries that go by each metric, and the metric."""
        chosen = self.assign(queries)
        for number in np.unique(chosen):
            yield np.flatnonzero(chosen == number), self.metrics[number]

    def transform(self, X: ArrayLike) -> Floats:
        """Map each point by its own metric.

        What the paper's projections show. Coordinates of points that go by different metrics can't
        be compared; distances between them are not Euclidean here.

        Returns
        -------
        array of shape (n_samples, n_components)
            Zeros in the coordinates that a metric of lower rank does not have.
        """
        points = self._points(X)
        out = np.zeros((len(points), self.n_components), dtype=points.dtype)
        for rows, metric in self.spaces(points):
            out[rows, : metric.n_components] = metric.transform(points[rows])
        return out

    def distances(self, X: ArrayLike, Y: ArrayLike | None = None) -> Matrix:
        """Distances from the rows of X, each by its own metric, to those of Y (default: X)."""
        queries = self._points(X)
        others = queries if Y is None else self._points(Y)
        out = np.empty((len(queries), len(others)))
        for rows, metric in self.spaces(queries):
            out[rows] = metric.distances(queries[rows], others)
        return out

    def pair_distances(self, X: ArrayLike, index: Any) -> Vector:
        """Return distances of pairs of rows of X, by the metric of the first of each pair."""
        points = self._points(X)
        i, j = rows_of(index, 2, len(points))
        out = np.empty(len(i))
        chosen = self.assign(points)[i]
        for number in np.unique(chosen):
            those = np.flatnonzero(chosen == number)
            pairs = np.column_stack([i[those], j[those]])
            out[those] = self.metrics[number].pair_distances(points, pairs)
        return out

    def prefers(self, X: ArrayLike, triplets: Any) -> Vector:
        """Tell which triplets the metric of the anchor orders rightly; 1/2 for ties."""
        points = self._points(X)
        a, near, far = rows_of(triplets, 3, len(points))
        margin = self.pair_distances(points, np.column_stack([a, far]))
        margin -= self.pair_distances(points, np.column_stack([a, near]))
        return np.where(margin > 0, 1.0, np.where(margin < 0, 0.0, 0.5))

    def class_votes(
        self, X: ArrayLike, y: ArrayLike, queries: ArrayLike
    ) -> tuple[NDArray[Any], Matrix]:
        """Class probabilities of queries: soft neighbours under every metric, weighed by the gate.

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
        """
        points, sought = self._points(X), self._points(queries)
        classes, codes = np.unique(np.asarray(y), return_inverse=True)
        members = np.eye(len(classes))[codes]
        gate = self.gate(sought)
        out = np.zeros((len(sought), len(classes)))
        block = max(1, _BLOCK // max(1, len(points)))
        for top in range(0, len(sought), block):
            rows = slice(top, top + block)
            for number, metric in enumerate(self.metrics):
                H = metric.distances(sought[rows], points) ** 2
                out[rows] += gate[rows, number, None] * (softmax(-H, axis=1) @ members)
        return classes, out

    def projections(self, X: ArrayLike, n_components: int = 2) -> tuple[Floats, Ints]:
        """Project each point by the leading axes of its own metric.

        Returns
        -------
        coordinates : array of shape (n_samples, n_components)
            For each metric, the principal axes of the points that go by it.
        assignment : array of shape (n_samples,)
            Which metric that is.
        """
        points = self._points(X)
        out = np.zeros((len(points), n_components), dtype=points.dtype)
        for rows, metric in self.spaces(points):
            embedded = metric.transform(points[rows])
            embedded = embedded - embedded.mean(axis=0)
            axes = np.linalg.svd(embedded, full_matrices=False)[2][:n_components]
            out[rows, : len(axes)] = embedded @ axes.T
        return out, self.assign(points)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metrics and the gate to one safetensors file."""
        metadata = {"format": "nearfar.metric", "version": _VERSION}
        if self.feature_names is not None:
            metadata["feature_names"] = json.dumps(self.feature_names)
        tensors: dict[str, NDArray[Any]] = {f"L.{s}": m.L for s, m in enumerate(self.metrics)}
        assert self.V is not None
        assert self.b is not None
        write_tensors(path, tensors | {"gate.V": self.V, "gate.b": self.b}, metadata)

    @classmethod
    def _from_file(cls, file: MetricFile) -> GatedMetric:
        b = file.tensors["gate.b"]
        maps = [Metric(file.tensors[f"L.{s}"], file.names) for s in range(len(b))]
        return cls(maps, file.tensors["gate.V"], b)


Metric.readers[_VERSION] = GatedMetric._from_file
