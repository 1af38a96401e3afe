"""`Edges`: pairs of rows of X as an operator on directions and metrics.

With E the incidence (edges x samples) of undirected edges (i, j) and w their weights:

    lengths(v) = (E X v)^2          matrix(w) = X' E' diag(w) E X

E' diag(w) E is the signed graph Laplacian of w. It is kept as P + P' with P the upper triangle and
half of the diagonal, in rows of X: differences of points are never formed but for a block at a
time, and no array is larger than X or than the list of edges. Equal edges are stored once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator

from nearfar.numerics.distances import squared_distances
from nearfar.runtime.threads import Threads, single_threaded_blas
from nearfar.typing import Floats, Ints, Matrix, Vector

_BLOCK_ROWS = 4096
_BLOCK_EDGES = 1 << 17


class Edges:
    """Undirected edges between rows of X.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Points, float32 or float64; not copied.
    a, b : array of int of shape (n_pairs,)
        Ends of the pairs, in any order, with repetitions.

    Attributes
    ----------
    i, j : array of int of shape (n_edges,)
        Ends of the distinct edges, i < j.
    of_pair : array of int of shape (n_pairs,)
        The edge that each pair is.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.edges import Edges
    >>> edges = Edges(np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([1, 0]), np.array([0, 1]))
    >>> edges.of_pair, edges.lengths(np.array([0.0, 1.0])), edges.matrix(np.array([1.0]))
    (array([0, 0]), array([4.]), array([[1., 2.],
                                        [2., 4.]]))
    """

    def __init__(self, X: Floats, a: Ints, b: Ints) -> None:
        self.X = X
        self.threads = Threads()
        n = len(X)
        keys, self.of_pair = np.unique(np.minimum(a, b) * n + np.maximum(a, b), return_inverse=True)
        self.i, self.j = np.divmod(keys, n)
        starts = np.searchsorted(self.i, np.arange(n + 1)) + np.arange(n + 1)
        self._starts = starts.astype(np.int32 if len(keys) + n < 2**31 else np.int64)
        self._diagonal = starts[:-1]
        self._off_diagonal = np.arange(len(keys)) + self.i + 1
        self._columns = np.empty(len(keys) + n, dtype=self._starts.dtype)
        self._columns[self._diagonal] = np.arange(n)
        self._columns[self._off_diagonal] = self.j

    def __len__(self) -> int:
        return len(self.i)

    @property
    def n_stored(self) -> int:
        """Number of entries of the half Laplacian."""
        return len(self._columns)

    @property
    def n_reads(self) -> float:
        """How often `matrix` reads X from where it is stored; 0 for an array in memory."""
        return 0.0

    def project(self, V: Floats) -> Floats:
        """X V."""
        return np.asarray(self.X @ V.astype(self.X.dtype, copy=False))

    def pull(self, Y: Floats) -> Matrix:
        """X' Y, of shape (n_features, k)."""
        return np.asarray(Y.T @ self.X, dtype=np.float64).T

    def lengths(self, v: Vector) -> Vector:
        """(E X v)^2: squared lengths along v."""
        p = np.asarray(self.project(v), dtype=np.float64)
        z = p[self.i]
        z -= p[self.j]
        z *= z
        return z

    def squared_distances(self, P: Floats, *, dtype: DTypeLike = np.float64) -> Vector:
        """Squared Euclidean distances between the rows of P, an embedding of X."""

        def block(rows: slice) -> Vector:
            return squared_distances(P, self.i[rows], self.j[rows], dtype=dtype)

        return np.concatenate(list(self.threads.map(block, len(self), _BLOCK_EDGES)))

    def mapped_distances(self, L: Matrix | None = None) -> Vector:
        """Squared Euclidean distances between the rows of X, or between those of X L'."""
        return self.squared_distances(self.X if L is None else self.project(L.T))

    def sum_of_pairs(self, values: Vector) -> Vector:
        """For each edge, the sum over the pairs that it is."""
        sums = np.bincount(self.of_pair, weights=values, minlength=len(self))
        return np.asarray(sums, dtype=np.float64)

    def matrix(self, w: Vector) -> Matrix:
        """X' E' diag(w) E X, dense."""
        half = self.half_laplacian(w)
        D = self.X.shape[1]
        S = np.zeros((D, D))

        def block(rows: slice) -> Floats:
            return self.X[rows].T @ (_rows_of(half, rows) @ self.X)

        with single_threaded_blas():
            for part in self.threads.map(block, len(self.X), _BLOCK_ROWS):
                S += part
        return S + S.T

    def operator(self, w: Vector) -> LinearOperator:
        """`matrix` as a linear operator: two products with X and one pass over the edges."""
        half = self.half_laplacian(w)
        half_transposed = half.T.tocsr()

        def product(v: Vector) -> Vector:
            p = self.X @ v.ravel().astype(self.X.dtype, copy=False)
            return np.asarray(self.X.T @ (half @ p + half_transposed @ p))

        D = self.X.shape[1]
        return LinearOperator((D, D), matvec=product, dtype=self.X.dtype)

    def laplacian_product(self, w: Vector, P: Floats) -> Floats:
        """E' diag(w) E P."""
        half = self.half_laplacian(w)
        return np.asarray(half @ P + half.T @ P)

    def half_laplacian(self, w: Vector) -> csr_array:
        """P with Laplacian = P + P': minus the edge weights, and half of the degrees."""
        n = len(self.X)
        degree = np.bincount(self.i, weights=w, minlength=n)
        degree += np.bincount(self.j, weights=w, minlength=n)
        data = np.empty(len(self._columns), dtype=self.X.dtype)
        data[self._off_diagonal] = -w
        data[self._diagonal] = degree / 2
        return csr_array((data, self._columns, self._starts), shape=(n, n))


def _rows_of(matrix: csr_array, rows: slice) -> csr_array:
    """Rows of a sparse matrix, without a copy."""
    starts = matrix.indptr[rows.start : rows.stop + 1]
    inside = slice(starts[0], starts[-1])
    parts = (matrix.data[inside], matrix.indices[inside], starts - starts[0])
    return csr_array(parts, shape=(len(starts) - 1, matrix.shape[1]))
