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

from nearfar.numerics.edges import edges_of
from nearfar.rows import Points
from nearfar.typing import Floats, Ints, Matrix, Vector

Unit = Literal["mean", "long", "longest"]

_FACTOR_ROWS = 16
_QUANTILES = {"long": 0.9, "longest": 1.0}


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
        self.n_triplets = len(index)
        anchor, near, far = index.T
        edges: Any = edges_of(X, anchor, far, near)
        self.edges = edges
        self.weight = weight
        self.unit = self._measured(unit) if isinstance(unit, str) else unit or 1.0

    def _measured(self, unit: Unit) -> float:
        """Return a squared distance of the triplets' edges; 1 if they have no length."""
        if unit == "mean":
            return self.edges.mean_distance(self.weight) or 1.0
        z = self.edges.mapped_distances()
        return float(np.quantile(z, _QUANTILES[unit])) or self.mean(z) or 1.0

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
            margins += self.embedding_margins(self.embed(L[top : top + _FACTOR_ROWS]))
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
