"""`Metric`: what a fit produces, and the only thing that is needed to use it.

    d(x, y)^2 = |L x - L y|^2 = (x - y)' M (x - y),     M = L'L

Squared inside, rooted at the public edge. A kernel map may come before L; then x and y stand for
their features.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from nearfar.metrics.kernel_map import KERNELS, KernelMap
from nearfar.metrics.tensorfile import read_tensors, write_tensors
from nearfar.numerics.distances import squared_distances
from nearfar.typing import Floats, Ints

_FORMAT = "nearfar.metric"
_VERSION = "1"
_WITH_KERNEL = "2"
_BASIS = ("points", "whitening", "center", "scale")
_VOTES = ("directions", "alphas", "thresholds")
_MAX_BYTES = 4 << 30
_INVALID = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)


@dataclass(frozen=True, eq=False)
class Votes:
    """Binary weak models: H(x, y) = sum_t alphas_t [(directions_t' (x - y))^2 >= thresholds_t].

    Many pairs have equal votes, and votes break the triangle inequality: they order triplets, but
    are no distance.
    """

    directions: NDArray[np.float64]
    alphas: NDArray[np.float64]
    thresholds: NDArray[np.float64]

    def __post_init__(self) -> None:
        n_votes = len(self.alphas)
        shapes = (self.directions.ndim, len(self.directions), *self.alphas.shape)
        if shapes != (2, n_votes, n_votes) or self.thresholds.shape != (n_votes,):
            raise ValueError("Votes need a direction, a weight and a threshold each.")
        for array in (self.directions, self.alphas, self.thresholds):
            if not np.isfinite(array).all():
                raise ValueError("Votes must be finite.")
            array.setflags(write=False)

    @classmethod
    def none(cls, n_features: int) -> Votes:
        """Return no votes."""
        return cls(np.empty((0, n_features)), np.empty(0), np.empty(0))

    def scaled(self, scale: NDArray[np.float64]) -> Votes:
        """Return the same votes for features divided by `scale`."""
        return Votes(self.directions * scale, self.alphas, self.thresholds)

    def count(self, X: Floats, i: Ints, j: Ints) -> NDArray[np.float64]:
        """H of the row pairs (i, j) of X."""
        total = np.zeros(len(i))
        for v, alpha, threshold in zip(self.directions, self.alphas, self.thresholds, strict=True):
            p = X @ v
            total += alpha * ((p[i] - p[j]) ** 2 >= threshold)
        return total


@dataclass(frozen=True, eq=False)
class SignedForm:
    """A symmetric matrix that is no metric: H(x, y) = (x - y)' M (x - y) may be negative.

    What MetricBoost learns with ``psd=False``. It orders triplets; it has no linear map.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.metrics.metric import SignedForm
    >>> form = SignedForm(np.diag([1.0, -1.0]))
    >>> form.prefers([[0, 0], [0, 1], [1, 0]], [[0, 1, 2]])
    array([1.])
    """

    matrix: NDArray[np.float64]
    feature_names: tuple[str, ...] | None = None
    votes: Votes | None = None

    def prefers(self, X: ArrayLike, triplets: Any) -> NDArray[np.float64]:
        """1 for triplets whose near has the smaller H, 0 for the others, 1/2 for ties."""
        points = _points(X, len(self.matrix), self.feature_names)
        a, near, far = rows_of(triplets, 3, len(points))
        values, vectors = np.linalg.eigh(self.matrix)
        P = points @ (np.sqrt(np.abs(values)) * vectors)
        stretched, shrunk = P[:, values > 0], P[:, values < 0]

        def squared(i: Ints, j: Ints) -> NDArray[np.float64]:
            return squared_distances(stretched, i, j) - squared_distances(shrunk, i, j)

        return _order(points, a, near, far, self.votes, squared)

    def __getattr__(self, name: str) -> Any:
        if name in {"L", "transform", "distances", "pair_distances", "save", "n_components"}:
            raise AttributeError(
                f"A form learned with psd=False is not a metric and has no {name!r}; "
                "it can only order triplets."
            )
        raise AttributeError(name)


@dataclass(frozen=True)
class MetricFile:
    """What a metric's file has: arrays and text."""

    tensors: dict[str, NDArray[Any]]
    metadata: dict[str, str]

    @property
    def names(self) -> list[str] | None:
        """Feature names, if there are any."""
        text = self.metadata.get("feature_names")
        return None if text is None else list(json.loads(text))


@dataclass(frozen=True, eq=False, repr=False)
class Metric:
    """A Mahalanobis metric: Euclidean distance after the linear map L.

    Parameters
    ----------
    L : array-like of shape (n_components, n_features)
        The map; M = L'L.
    feature_names : sequence of str, optional
        Names of the features that the map expects, in order.
    votes : Votes, optional
        Binary weak models, which order triplets in place of the distance.
    kernel_map : KernelMap, optional
        What comes before L.

    Examples
    --------
    >>> from nearfar import Metric
    >>> metric = Metric([[1.0, 0.0], [0.0, 10.0]])
    >>> metric.distances([[0, 0]], [[3, 0], [0, 1]])
    array([[ 3., 10.]])
    >>> metric.matrix
    array([[  1.,   0.],
           [  0., 100.]])
    """

    L: NDArray[np.float64]
    feature_names: tuple[str, ...] | None = None
    votes: Votes | None = None
    kernel_map: KernelMap | None = None
    readers: ClassVar[dict[str, Callable[[MetricFile], Metric]]] = {}

    def __init__(
        self,
        L: ArrayLike,
        feature_names: Sequence[str] | None = None,
        votes: Votes | None = None,
        kernel_map: KernelMap | None = None,
    ) -> None:
        factor = np.array(L, dtype=np.float64, order="C")
        if factor.ndim != 2 or 0 in factor.shape:
            raise ValueError(
                f"A metric's L needs shape (n_components, n_features); got {factor.shape}."
            )
        if not np.isfinite(factor).all():
            raise ValueError("A metric's L must be finite.")
        n_features = factor.shape[1]
        if kernel_map is not None:
            if kernel_map.n_components != n_features:
                raise ValueError(
                    f"A kernel map to {kernel_map.n_components} features before an L for "
                    f"{n_features}."
                )
            n_features = kernel_map.n_features
        names = None if feature_names is None else tuple(str(name) for name in feature_names)
        if names is not None and len(names) != n_features:
            raise ValueError(f"{len(names)} feature names for {n_features} features.")
        if votes is not None and votes.directions.shape[1] != factor.shape[1]:
            raise ValueError("A metric's votes must be for the features of its map.")
        factor.setflags(write=False)
        object.__setattr__(self, "L", factor)
        object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "votes", votes)
        object.__setattr__(self, "kernel_map", kernel_map)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.L.setflags(write=False)

    @classmethod
    def identity(cls, n_features: int) -> Metric:
        """Return the Euclidean metric."""
        return cls(np.eye(n_features))

    @classmethod
    def from_matrix(cls, M: ArrayLike, feature_names: Sequence[str] | None = None) -> Metric:
        """Factor a symmetric positive semidefinite matrix; directions of no length are dropped.

        Examples
        --------
        >>> from nearfar import Metric
        >>> Metric.from_matrix([[4.0, 0.0], [0.0, 0.0]]).n_components
        1
        """
        matrix = np.array(M, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
            raise ValueError("A metric's matrix must be square and finite.")
        size = float(np.abs(matrix).max(initial=0.0)) or 1.0
        matrix /= size
        if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-8):
            raise ValueError("A metric's matrix must be symmetric.")
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        if values[0] < -1e-8:
            raise ValueError(
                f"A metric's matrix must have no negative eigenvalue; got {size * values[0]:g}."
            )
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        if not kept.any():
            return cls(np.zeros((1, len(values))), feature_names)
        L = np.sqrt(size) * np.sqrt(values[kept])[:, None] * vectors[:, kept].T
        return cls(L[::-1], feature_names)

    def named(self, feature_names: Sequence[str] | None) -> Metric:
        """Return the same metric for features of these names."""
        return Metric(self.L, feature_names, self.votes, self.kernel_map)

    @property
    def parts(self) -> tuple[Metric, ...]:
        """The linear metrics that this one consists of: itself."""
        return (self,)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """M = L'L, of shape (n_features, n_features); for features of the kernel map, if any."""
        return self.L.T @ self.L

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return self.L.shape[1] if self.kernel_map is None else self.kernel_map.n_features

    @property
    def n_components(self) -> int:
        """Number of coordinates after the map."""
        return self.L.shape[0]

    def __repr__(self) -> str:
        kernel = "" if self.kernel_map is None else f" -> {self.kernel_map.n_components} (kernel)"
        return f"<Metric: {self.n_features} features{kernel} -> {self.n_components}>"

    def transform(self, X: ArrayLike) -> Floats:
        """Map points to where Euclidean distance is the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_components)
            ``X @ L.T`` (X mapped by the kernel map first, if any); float32 if X is.
        """
        points = self._points(X)
        if self.kernel_map is not None:
            points = self.kernel_map.transform(points)
        return points @ self.L.T.astype(points.dtype, copy=False)

    def distances(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return all distances between the rows of X and those of Y (default: X).

        From differences, not from the Gram matrix: equal points are at distance 0. For nearest
        neighbours among many points use `nearfar.neighbors.kneighbors`, which forms no such table.
        """
        left = self.transform(X)
        right = left if Y is None else self.transform(Y)
        return cdist(left, right)

    def pair_distances(self, X: ArrayLike, index: Any) -> NDArray[np.float64]:
        """Return distances of pairs of rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        index : Pairs, or array-like of int of shape (n_pairs, 2)
            Row numbers.
        """
        embedded = self.transform(X)
        i, j = rows_of(index, 2, len(embedded))
        return np.sqrt(squared_distances(embedded, i, j))

    def prefers(self, X: ArrayLike, triplets: Any) -> NDArray[np.float64]:
        """Tell which triplets the metric orders rightly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        triplets : Triplets, or array-like of int of shape (n_triplets, 3)
            Row numbers (anchor, near, far).

        Returns
        -------
        array of shape (n_triplets,)
            1 where near is nearer than far, 0 where it is not, 1/2 for ties. Where there are
            `votes`, they decide, and the distance decides between equal votes.
        """
        points = self._points(X)
        a, near, far = rows_of(triplets, 3, len(points))
        embedded = self.transform(points)
        return _order(
            points, a, near, far, self.votes, lambda i, j: squared_distances(embedded, i, j)
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to one safetensors file, readable in any language.

        The array "L" is float64; the header's metadata has "format", "version" and, as a JSON list,
        "feature_names". Votes are the arrays "votes.directions", "votes.alphas" and
        "votes.thresholds". A kernel map is the arrays "basis.points", "basis.whitening",
        "basis.center" and "basis.scale", and its name and parameters, as JSON, in the metadata's
        "kernel"; the version is then 2. An existing file is replaced only once the new one is
        complete.
        """
        metadata = {"format": _FORMAT, "version": _VERSION}
        if self.feature_names is not None:
            metadata["feature_names"] = json.dumps(self.feature_names)
        tensors = {"L": self.L}
        if self.votes is not None:
            tensors |= {f"votes.{name}": getattr(self.votes, name) for name in _VOTES}
        if self.kernel_map is not None:
            kernel = self.kernel_map
            if not isinstance(kernel.kernel, str):
                raise ValueError("A metric with a kernel of your own, a callable, can't be saved.")
            metadata["version"] = _WITH_KERNEL
            metadata["kernel"] = json.dumps([kernel.kernel, dict(kernel.parameters)])
            tensors |= {f"basis.{name}": getattr(kernel, name) for name in _BASIS}
        write_tensors(path, tensors, metadata)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, max_bytes: int = _MAX_BYTES) -> Metric:
        """Read a metric that `save` has written; the distances are the same to the last bit.

        Parameters
        ----------
        path : path-like
        max_bytes : int, default=4 GiB
            The most bytes that the file may have: what a stranger's file can make you allocate.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from nearfar import Metric
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "metric.safetensors"
        ...     Metric([[1.0, 2.0]]).save(path)
        ...     Metric.load(path).L
        array([[1., 2.]])
        """
        tensors, metadata = read_tensors(path, max_bytes=max_bytes)
        if metadata.get("format") != _FORMAT:
            raise ValueError(f"{path}: a safetensors file, but not a nearfar metric.")
        reader = Metric.readers.get(metadata.get("version", ""))
        if reader is None:
            raise ValueError(
                f"{path}: a metric of format version {metadata.get('version')!r}; "
                f"this nearfar reads versions {', '.join(sorted(Metric.readers))}."
            )
        try:
            return reader(MetricFile(tensors, metadata))
        except _INVALID as error:
            raise ValueError(f"{path}: not a valid metric: {error}") from error

    @classmethod
    def _from_file(cls, file: MetricFile) -> Metric:
        tensors, votes, kernel_map = file.tensors, None, None
        if any(name.startswith("votes.") for name in tensors):
            votes = Votes(*(tensors[f"votes.{name}"] for name in _VOTES))
        if file.metadata["version"] == _WITH_KERNEL:
            kernel, parameters = json.loads(file.metadata["kernel"])
            if kernel not in KERNELS:
                raise ValueError(f"unknown kernel {kernel!r}")
            parameters = {str(name): float(value) for name, value in parameters.items()}
            points, whitening, *frame = (tensors[f"basis.{name}"] for name in _BASIS)
            kernel_map = KernelMap(points, whitening, kernel, parameters, *frame)
        return cls(tensors["L"], file.names, votes, kernel_map)

    def spaces(self, queries: ArrayLike) -> Iterator[tuple[Ints, Metric]]:
        """Yield row numbers of queries, and the metric whose space they are searched for in.

        All of them and this metric; a gated one has several spaces.
        """
        yield np.arange(len(self._points(queries))), self

    def _points(self, X: ArrayLike) -> Floats:
        return _points(X, self.n_features, self.feature_names)


Metric.readers |= {_VERSION: Metric._from_file, _WITH_KERNEL: Metric._from_file}


def _points(X: ArrayLike, n_features: int, feature_names: tuple[str, ...] | None) -> Floats:
    """Points as an array, checked against what they are for."""
    columns = getattr(X, "columns", None)
    if feature_names is not None and columns is not None:
        names = tuple(str(name) for name in columns)
        if names != feature_names:
            raise ValueError(
                f"The metric is for the columns {', '.join(feature_names)} in this order; "
                f"got {', '.join(names)}."
            )
    points = np.asarray(X)
    if points.dtype != np.float32:
        points = points.astype(np.float64, copy=False)
    if points.ndim != 2 or points.shape[1] != n_features:
        raise ValueError(
            f"The metric is for a 2-d array of points of {n_features} features; "
            f"got shape {points.shape}."
        )
    return points


def rows_of(index: Any, width: int, n_samples: int) -> NDArray[np.intp]:
    """Columns of row numbers, from an array or from constraints that have one."""
    plain = isinstance(index, list | tuple | np.ndarray)
    rows = np.asarray(index if plain else getattr(index, "index", index))
    if rows.ndim != 2 or rows.shape[1] != width or (rows.dtype.kind not in "iu" and rows.size):
        raise ValueError(f"Row numbers need integers of shape (n, {width}); got {rows.shape}.")
    if rows.size and not 0 <= rows.min() <= rows.max() < n_samples:
        raise ValueError(
            f"Row numbers are from 0 to {n_samples - 1}; got {rows.min()} to {rows.max()}."
        )
    return rows.astype(np.intp, copy=False).T


def _order(
    X: Floats,
    a: Ints,
    near: Ints,
    far: Ints,
    votes: Votes | None,
    squared: Callable[[Ints, Ints], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """1, 0 or 1/2 for each triplet: by votes first, by squared distance where they tie."""
    margin = squared(a, far) - squared(a, near)
    if votes is not None:
        ballot = votes.count(X, a, far) - votes.count(X, a, near)
        margin = np.where(np.abs(ballot) > 1e-12 * np.abs(votes.alphas).sum(), ballot, margin)
    return np.where(margin > 0, 1.0, np.where(margin < 0, 0.0, 0.5))
