"""Pairs of rows of X as an operator on directions and metrics: edges, constraints, triplets.

With E the incidence (edges x samples) of undirected edges (i, j) and w their weights:

    lengths(v) = (E X v)^2          matrix(w) = X' E' diag(w) E X

E' diag(w) E is the signed graph Laplacian of w. It is kept as P + P' with P the upper triangle and
half of the diagonal, in rows of X: differences of points are never formed but for a block at a
time, and no array is larger than X or than the list of edges. Equal edges are stored once.

A constraint joins a row a to one row (a pair) or to two (a triplet: far, near). With B their
incidence, +1 at the first edge and -1 at the second:

    margins(v) = B (E X v)^2        distances(L) = B diag(E X L'L X' E')
    gram(u) = X' E' diag(B'u) E X   v' gram(u) v = u' margins(v)

`Edges` are the pairs, `SignedEdges` the constraints, and `TripletEdges` are triplets, in units of a
squared distance. Edges that constraints share are stored once.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator

from nearfar.numerics.linear_algebra import cross_product, product
from nearfar.rows import Points, Rows
from nearfar.runtime.threads import Threads
from nearfar.typing import Floats, Ints, Matrix, Vector

Unit = Literal["mean", "long", "longest"]

# Rows of X in a block of `matrix`: enough for a fast product, and enough blocks to share out.
_BLOCK_ROWS = 4096
# Edges in a block of distances; smaller blocks cost more to hand out to threads.
_BLOCK_EDGES = 1 << 17
# Numbers in a block of differences: half a megabyte, which stays in the cache of a core.
_BLOCK_ELEMENTS = 1 << 16
# Rows on disk are kept in memory if they fit into `_KEPT_BYTES` and are no more than one in eight:
# what is read once should be a small part of what every pass would read.
_KEPT_BYTES = 1 << 27
_MANY_ROWS = 8
# Rows of L that are applied at a time: an embedding of this width is smaller than most X.
_FACTOR_ROWS = 16
_QUANTILES = {"long": 0.9, "longest": 1.0}


def squared_distances(X: Floats, i: Ints, j: Ints, *, dtype: DTypeLike = np.float64) -> Vector:
    """Squared distances of row pairs (i, j), from differences formed block by block.

    Parameters
    ----------
    dtype: Type of the differences and of their squares; that of X is faster if it is
        float32.
    """
    out = np.empty(len(i))
    block = max(1, _BLOCK_ELEMENTS // max(1, X.shape[1]))
    for start in range(0, len(i), block):
        rows = slice(start, start + block)
        difference = X.take(i[rows], axis=0).astype(dtype, copy=False)
        difference -= X.take(j[rows], axis=0)
        out[rows] = np.einsum("ij,ij->i", difference, difference)
    return out


class Edges:
    """Undirected edges between rows of X.

    Parameters
    ----------
    X: shape (n_samples, n_features). Points, float32 or float64; not copied.
    a, b: shape (n_pairs,). Ends of the pairs, in any order, with repetitions.

    Attributes
    ----------
    i, j: shape (n_edges,). Ends of the distinct edges, i < j.
    of_pair: shape (n_pairs,). The edge that each pair is.
    n_stored: Number of entries of the half Laplacian.
    """

    n_reads: ClassVar[float] = 0.0
    """How often `matrix` reads X from where it is stored."""

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
        self.n_stored = len(self._columns)

    def __len__(self) -> int:
        return len(self.i)

    def project(self, V: Floats) -> Floats:
        """X V."""
        return product(self.X, V.astype(self.X.dtype, copy=False))

    def pull(self, Y: Floats) -> Matrix:
        """X' Y, of shape (n_features, k)."""
        return cross_product(Y, self.X).T

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
            # Slicing a sparse matrix would copy its rows.
            starts = half.indptr[rows.start : rows.stop + 1]
            inside = slice(starts[0], starts[-1])
            parts = (half.data[inside], half.indices[inside], starts - starts[0])
            own = csr_array(parts, shape=(len(starts) - 1, len(self.X)))
            return self.X[rows].T @ (own @ self.X)

        for part in self.threads.map(block, len(self.X), _BLOCK_ROWS):
            S += part
        return S + S.T

    def operator(self, w: Vector) -> LinearOperator:
        """`matrix` as a linear operator: two products with X and one pass over the edges."""
        half = self.half_laplacian(w)
        half_transposed = half.T.tocsr()

        def apply(v: Vector) -> Vector:
            p = self.project(v.ravel())
            return cross_product(self.X, half @ p + half_transposed @ p)

        D = self.X.shape[1]
        return LinearOperator((D, D), matvec=apply, dtype=self.X.dtype)

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


class SignedEdges(Edges):
    """Constraints over rows of X, which are in memory.

    Parameters
    ----------
    X: shape (n_samples, n_features). Points, float32 or float64; not copied.

    Attributes
    ----------
    columns: shape (n_constraints,). The edges of each constraint.
    """

    def __init__(self, X: Floats, a: Ints, *others: Ints) -> None:
        super().__init__(X, np.concatenate([a] * len(others)), np.concatenate(others))
        self.columns = tuple(self.of_pair.reshape(len(others), -1))

    def combined(self, z: Vector) -> Vector:
        """B z: for each constraint, the value at its first edge minus that at its second."""
        h = z[self.columns[0]]
        for column in self.columns[1:]:
            h -= z[column]
        return h

    def edge_weights(self, u: Vector) -> Vector:
        """B'u: the weight of each edge."""
        sums = np.bincount(self.columns[0], weights=u, minlength=len(self))
        for column in self.columns[1:]:
            sums -= np.bincount(column, weights=u, minlength=len(self))
        return np.asarray(sums, dtype=np.float64)

    def margins(self, v: Vector) -> Vector:
        """B (E X v)^2."""
        return self.combined(self.lengths(v))

    def embedding_distances(self, P: Floats) -> Vector:
        """B z for the squared Euclidean distances z between the rows of P, an embedding of X."""
        return self.combined(self.squared_distances(P))

    def distances(
        self, L: Matrix | None = None, weight: Vector | None = None
    ) -> tuple[Vector, float]:
        """Return B z for the squared distances z of the edges, and their mean over constraints.

        Parameters
        ----------
        L: shape (rank, n_features). Map to apply to the rows first.
        weight: shape (n_constraints,). Weights of the mean.
        """
        z = self.squared_distances(self.X if L is None else self.project(L.T))
        return self.combined(z), self.mean(z, weight)

    def mean(self, z: Vector, weight: Vector | None = None) -> float:
        """Weighted mean of a quantity of edges over the edges of all constraints."""
        total = z[self.columns[0]]
        for column in self.columns[1:]:
            total += z[column]
        return float(np.average(total, weights=weight)) / len(self.columns)

    def gram(self, u: Vector) -> Matrix:
        """X' E' diag(B'u) E X, dense."""
        return self.matrix(self.edge_weights(u))

    def gram_operator(self, u: Vector) -> LinearOperator:
        """`gram` as a linear operator."""
        return self.operator(self.edge_weights(u))

    def gram_product(self, u: Vector, P: Floats) -> Floats:
        """E' diag(B'u) E P."""
        return self.laplacian_product(self.edge_weights(u), P)


def edges_of(X: Points, a: Ints, *others: Ints) -> Any:
    """Return constraints over rows of X: edges from `a` to the rows of `others`.

    If X is not in memory, they are in tiles; or, if they have few ends, between these rows only,
    which are read and kept.
    """
    if not isinstance(X, Rows):
        return SignedEdges(X, a, *others)
    from nearfar.numerics.tiled_edges import TiledEdges

    is_end = np.zeros(len(X), dtype=np.bool_)
    for rows in (a, *others):
        is_end[rows] = True
    ends = np.flatnonzero(is_end)
    n_bytes = len(ends) * X.shape[1] * X.dtype.itemsize
    if n_bytes > _KEPT_BYTES or len(ends) * _MANY_ROWS > len(X):
        return TiledEdges(X, a, *others)
    return SignedEdges(X.take(ends), *(np.searchsorted(ends, rows) for rows in (a, *others)))


class TripletEdges:
    """Triplets over the rows of X, as differences of squared distances.

    With B the triplet incidence (+1 at the edge (anchor, far), -1 at the edge (anchor, near)), for
    a metric M = L'L:

        margins(L) = B diag(E X M X' E')        matrix(u) = A(u) = X' E' diag(B'u) E X

    so that  u' margins(L) = <A(u), M>.  Both are in units of a squared distance.

    Parameters
    ----------
    X: shape (n_samples, n_features). Points, float32 or float64; not copied.
    index: shape (n_triplets, 3). Rows (anchor, near, far); at least one triplet.
    unit: The squared distance that counts as one: a number, or the mean, the 90th
        percentile ("long") or the largest of the squared distances of the triplets' edges.

    Attributes
    ----------
    unit: The squared distance that counts as one.
    near, far: shape (n_triplets,). The edges of each triplet.
    """

    def __init__(
        self,
        X: Points,
        index: Ints,
        weight: Vector | None = None,
        *,
        unit: float | Unit = "mean",
    ) -> None:
        self.X: Any = X
        self.n_triplets = len(index)
        anchor, near, far = index.T
        self.edges: Any = edges_of(X, anchor, far, near)
        self.weight = weight
        if unit == "mean":
            size = self.edges.distances(weight=weight)[1]
        elif isinstance(unit, str):
            z = self.edges.squared_distances(X)
            size = float(np.quantile(z, _QUANTILES[unit])) or self.mean(z)
        else:
            size = unit
        # Edges without length have no unit.
        self.unit: float = size or 1.0

    @property
    def near(self) -> Ints:
        """The edge of each triplet to its near row; of rows in memory only."""
        return self.edges.columns[1]

    @property
    def far(self) -> Ints:
        """The edge of each triplet to its far row; of rows in memory only."""
        return self.edges.columns[0]

    def __len__(self) -> int:
        """Number of features: A(u) is len x len."""
        return self.X.shape[1]

    def embed(self, L: Matrix) -> Floats:
        """Map X by L."""
        return self.edges.project(L.T)

    def embedding_margins(self, P: Floats) -> Vector:
        """Margins of squared Euclidean distance between the rows of P, an embedding of X."""
        return self.edges.embedding_distances(P) / self.unit

    def factor_margins(self, L: Matrix) -> Vector:
        """Margins of the metric L'L, a few rows of L at a time if X is in memory."""
        if self.edges.n_reads:
            return self.edges.distances(L)[0] / self.unit
        margins = np.zeros(self.n_triplets)
        for top in range(0, len(L), _FACTOR_ROWS):
            P = self.edges.project(L[top : top + _FACTOR_ROWS].T)
            margins += self.edges.embedding_distances(P) / self.unit
        return margins

    def matrix(self, u: Vector) -> Matrix:
        """A(u), dense."""
        return self.edges.gram(u) / self.unit

    def edge_weights(self, u: Vector) -> Vector:
        """B'u: the weight of each edge, positive if it is to be stretched."""
        return self.edges.edge_weights(u)

    def mean(self, z: Vector) -> float:
        """Weighted mean of a quantity of edges over the two edges of every triplet."""
        return self.edges.mean(z, self.weight)

    def differences(self, z: Vector) -> Vector:
        """B z: the value at the far edge minus that at the near edge, for each triplet."""
        return self.edges.combined(z)
