"""`SignedEdges`: constraints on squared distances, as sums over edges with signs.

A constraint joins a row a to one row (a pair) or to two (a triplet: far, near). With E the
incidence of edges and B that of constraints, +1 at the first edge and -1 at the second:

    margins(v) = B (E X v)^2        distances(L) = B diag(E X L'L X' E')
    gram(u) = X' E' diag(B'u) E X   v' gram(u) v = u' margins(v)
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import LinearOperator

from nearfar.numerics.edges import Edges
from nearfar.typing import Floats, Ints, Matrix, Vector


class SignedEdges(Edges):
    """Constraints over rows of X, which are in memory.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Points, float32 or float64; not copied.
    a : array of int of shape (n_constraints,)
    *others : one or two arrays of int of shape (n_constraints,)

    Attributes
    ----------
    columns : tuple of arrays of int of shape (n_constraints,)
        The edges of each constraint.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.signed_edges import SignedEdges
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> edges = SignedEdges(X, np.array([0]), np.array([2]), np.array([1]))
    >>> edges.margins(np.array([0.0, 1.0])), edges.gram(np.array([1.0]))
    (array([4.]), array([[-1.,  0.],
                         [ 0.,  4.]]))
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
        L : array of shape (rank, n_features), optional
            Map to apply to the rows first.
        weight : array of shape (n_constraints,), optional
            Weights of the mean.
        """
        z = self.mapped_distances(L)
        return self.combined(z), self.mean(z, weight)

    def mean_distance(self, weight: Vector | None = None) -> float:
        """Return the mean of the squared distances over the constraints' edges."""
        return self.mean(self.mapped_distances(), weight)

    def mean(self, z: Vector, weight: Vector | None = None) -> float:
        """Weighted mean of a quantity of edges over the edges of all constraints."""
        total = sum(z[column] for column in self.columns)
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
