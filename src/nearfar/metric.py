"""`Metric`: what a fit produces, and the only thing that is needed to use it.

    d(x, y)^2 = |L x - L y|^2 = (x - y)' M (x - y),     M = L'L

Squared inside, rooted at the public edge.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from nearfar.tensorfile import read_tensors, write_tensors

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.intp]

_FORMAT = "nearfar.metric"
_VERSION = "1"
_BLOCK_ELEMENTS = 1 << 18


def squared_distances(X: Floats, i: Ints, j: Ints) -> NDArray[np.float64]:
    """Squared distances of the row pairs (i, j) of X, from differences formed block by block.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.metric import squared_distances
    >>> squared_distances(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0]), np.array([1]))
    array([25.])
    """
    out = np.empty(len(i))
    block = max(1, _BLOCK_ELEMENTS // max(1, X.shape[1]))
    for start in range(0, len(i), block):
        rows = slice(start, start + block)
        difference = np.subtract(X[i[rows]], X[j[rows]], dtype=np.float64)
        np.einsum("ij,ij->i", difference, difference, out=out[rows])
    return out


@dataclass(frozen=True, eq=False, repr=False)
class Metric:
    """A Mahalanobis metric: Euclidean distance after the linear map L.

    Parameters
    ----------
    L : array-like of shape (n_components, n_features)
        The map; M = L'L.
    feature_names : sequence of str, optional
        Names of the features that the map expects, in order.

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

    def __init__(self, L: ArrayLike, feature_names: Sequence[str] | None = None) -> None:
        factor = np.array(L, dtype=np.float64)
        if factor.ndim != 2 or 0 in factor.shape:
            raise ValueError(
                f"A metric's L needs shape (n_components, n_features); got {factor.shape}."
            )
        if not np.isfinite(factor).all():
            raise ValueError("A metric's L must be finite.")
        names = None if feature_names is None else tuple(str(name) for name in feature_names)
        if names is not None and len(names) != factor.shape[1]:
            raise ValueError(f"{len(names)} feature names for {factor.shape[1]} features.")
        factor.setflags(write=False)
        object.__setattr__(self, "L", factor)
        object.__setattr__(self, "feature_names", names)

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
        size = float(np.abs(matrix).max(initial=0.0))
        if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-8 * size):
            raise ValueError("A metric's matrix must be symmetric.")
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        if values[0] < -1e-8 * size:
            raise ValueError(
                f"A metric's matrix must have no negative eigenvalue; got {values[0]:g}."
            )
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        if not kept.any():
            return cls(np.zeros((1, len(values))), feature_names)
        L = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
        return cls(L[::-1], feature_names)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """M = L'L, of shape (n_features, n_features)."""
        return self.L.T @ self.L

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return self.L.shape[1]

    @property
    def n_components(self) -> int:
        """Number of coordinates after the map."""
        return self.L.shape[0]

    def __repr__(self) -> str:
        return f"<Metric: {self.n_features} features -> {self.n_components}>"

    def transform(self, X: ArrayLike) -> Floats:
        """Map points to where Euclidean distance is the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_components)
            ``X @ L.T``; float32 if X is.
        """
        points = self._points(X)
        return points @ self.L.T.astype(points.dtype, copy=False)

    def distances(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return all distances between the rows of X and those of Y (default: X).

        From differences, not from the Gram matrix: equal points are at distance 0. For nearest
        neighbours among many points use `nearfar.neighbors.kneighbors`, which forms no such table.
        """
        left = self.transform(X)
        right = left if Y is None else self.transform(Y)
        return cdist(left, right)

    def pair_distances(self, X: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        """Return distances of pairs of rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        index : array-like of int of shape (n_pairs, 2)
            Row numbers.
        """
        pairs = np.asarray(index)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or (pairs.dtype.kind not in "iu" and pairs.size):
            raise ValueError(
                f"Pairs of row numbers need integers of shape (n, 2); got {pairs.shape}."
            )
        rows = pairs.astype(np.intp, copy=False)
        return np.sqrt(squared_distances(self.transform(X), rows[:, 0], rows[:, 1]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to one safetensors file, readable in any language.

        The array "L" is float64; the header's metadata has "format", "version" and, as a JSON list,
        "feature_names". An existing file is replaced only once the new one is complete.
        """
        metadata = {"format": _FORMAT, "version": _VERSION}
        if self.feature_names is not None:
            metadata["feature_names"] = json.dumps(self.feature_names)
        write_tensors(path, {"L": self.L}, metadata)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Metric:
        """Read a metric that `save` has written; the distances are the same to the last bit.

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
        tensors, metadata = read_tensors(path)
        if metadata.get("format") != _FORMAT or "L" not in tensors:
            raise ValueError(f"{path}: a safetensors file, but not a nearfar metric.")
        if metadata.get("version") != _VERSION:
            raise ValueError(
                f"{path}: a metric of format version {metadata.get('version')!r}; "
                f"this nearfar reads version {_VERSION!r}."
            )
        try:
            names = json.loads(metadata["feature_names"]) if "feature_names" in metadata else None
            return cls(tensors["L"], names)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: not a valid metric: {error}") from error

    def _points(self, X: ArrayLike) -> Floats:
        points = np.asarray(X)
        if points.dtype != np.float32:
            points = points.astype(np.float64, copy=False)
        if points.ndim != 2 or points.shape[1] != self.n_features:
            raise ValueError(
                f"The metric is for points of {self.n_features} features; got shape {points.shape}."
            )
        return points
