"""`TripletEdges`: triplets of rows of X as differences of squared distances.

With E the edge incidence (edges x samples; `Edges`) and B the triplet incidence (triplets x edges;
+1 at the edge (anchor, far), -1 at the edge (anchor, near)), for a metric M = L'L:

    margins(L) = B diag(E X M X' E')        matrix(u) = A(u) = X' E' diag(B'u) E X

so that  u' margins(L) = <A(u), M>.  No array is larger than X or than the list of triplets. Edges
that triplets share are stored once. Both are in units of a squared distance.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from nearfar.numerics.tiled_edges import edges_of
from nearfar.rows import Points
from nearfar.typing import Floats, Ints, Matrix, Vector

Unit = Literal["mean", "long", "longest"]

_FACTOR_ROWS = 16


class TripletEdges:
    """Triplets over the rows of X.

    Parameters
    ----------
    X : array or Rows of shape (n_samples, n_features)
        Points, float32 or float64; not copied.
    index : array of int of shape (n_triplets, 3)
        Rows (anchor, near, far); at least one triplet.
    weight : array of shape (n_triplets,), optional
    unit : float or {"mean", "long", "longest"}, default="mean"
        The squared distance that counts as one: a number, or the mean, the 90th percentile ("long")
        or the largest of the squared distances of the triplets' edges.

    Attributes
    ----------
    unit : float
        The squared distance that counts as one.
    near, far : array of int of shape (n_triplets,)
        The edges of each triplet.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.triplet_edges import TripletEdges
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> triplets = TripletEdges(X, np.array([[0, 1, 2]]), unit=1.0)
    >>> triplets.factor_margins(np.eye(2)), triplets.matrix(np.array([1.0]))
    (array([3.]), array([[-1.,  0.],
                         [ 0.,  4.]]))
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
        self.n_triplets = m = len(index)
        anchor, near, far = index.T
        self.edges = edges_of(X, np.concatenate([anchor, anchor]), np.concatenate([near, far]))
        self.near, self.far = self.edges.of_pair[:m], self.edges.of_pair[m:]
        self.weight = weight
        if isinstance(unit, str):
            z = self.edges.mapped_distances()
            share = {"long": 0.9, "longest": 1.0}
            chosen = 0.0 if unit == "mean" else float(np.quantile(z, share[unit]))
            unit = chosen or self.mean(z)
        self.unit = unit or 1.0

    def __len__(self) -> int:
        """Number of features: A(u) is len x len."""
        return self.X.shape[1]

    def embed(self, L: Matrix) -> Floats:
        """Map X by L."""
        return self.edges.project(L.T)

    def embedding_margins(self, P: Floats) -> Vector:
        """Margins of squared Euclidean distance between the rows of P, an embedding of X."""
        return self.differences(self.edges.squared_distances(P)) / self.unit

    def factor_margins(self, L: Matrix) -> Vector:
        """Margins of the metric L'L, a few rows of L at a time if X is in memory."""
        if self.edges.n_reads:
            return self.differences(self.edges.mapped_distances(L)) / self.unit
        margins = np.zeros(self.n_triplets)
        for top in range(0, len(L), _FACTOR_ROWS):
            margins += self.embedding_margins(self.embed(L[top : top + _FACTOR_ROWS]))
        return margins

    def matrix(self, u: Vector) -> Matrix:
        """A(u), dense."""
        return self.edges.matrix(self.edge_weights(u)) / self.unit

    def edge_weights(self, u: Vector) -> Vector:
        """B'u: the weight of each edge, positive if it is to be stretched."""
        n_edges = len(self.edges)
        stretched = np.bincount(self.far, weights=u, minlength=n_edges)
        shrunk = np.bincount(self.near, weights=u, minlength=n_edges)
        stretched -= shrunk
        return np.asarray(stretched, dtype=np.float64)

    def mean(self, z: Vector) -> float:
        """Weighted mean of a quantity of edges over the two edges of every triplet."""
        return float(np.average(z[self.near] + z[self.far], weights=self.weight)) / 2

    def differences(self, z: Vector) -> Vector:
        """B z: the value at the far edge minus that at the near edge, for each triplet."""
        h = z[self.far]
        h -= z[self.near]
        return h
