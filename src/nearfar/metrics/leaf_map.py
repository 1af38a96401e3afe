"""`LeafMap`: points are near if the trees of a forest lead them to the same leaves.

    K(x, y) = share of the trees in which x and y are in the same leaf

is the inner product of sparse vectors with an entry for each leaf, so it is a kernel. With the
leading eigenpairs K_BB = U S U' of the rows of a basis,

    phi(x) = S^(-1/2) U' k(x),    k(x)_j = K(x, x_j) for the rows x_j of the basis

has nearly the same inner products in few dimensions. Vectors are then divided by their length, as
K(x, x) = 1 for all points, and truncation shortens them unequally.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_matrix

from nearfar.metrics.points import unit_length
from nearfar.numerics.linear_algebra import determined
from nearfar.typing import Array, Floats, Vector

# Rows whose leaves and kernel are held at a time.
_BLOCK_ROWS = 1 << 12
# Eigenvalues below this share of the largest one are rounding errors.
_SMALLEST = 1e-6


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees as arrays. The left child of a node is the next node.

    Attributes
    ----------
    roots: shape (n_trees,). Nodes in which trees begin.
    feature: shape (n_nodes,). What a node compares.
    threshold: shape (n_nodes,). Points with more go to the right child.
    right: shape (n_nodes,). Right child; 0 for leaves.
    """

    roots: Array
    feature: Array
    threshold: Array
    right: Array

    def __post_init__(self) -> None:
        arrays = {"roots": np.int32, "feature": np.int32, "threshold": np.float32}
        for name, dtype in {**arrays, "right": np.int32}.items():
            array = np.ascontiguousarray(getattr(self, name)).astype(dtype)
            array.setflags(write=False)
            vars(self)[name] = array
        n_nodes, inner = len(self.right), np.flatnonzero(self.right)
        children = self.right[inner]
        ordered = bool((children > inner + 1).all() and (children < n_nodes).all())
        if not (ordered and 0 <= self.roots.min(initial=n_nodes) <= self.roots.max() < n_nodes):
            raise ValueError("A tree's children must come after their parents.")
        if self.feature.shape != (n_nodes,) or self.threshold.shape != (n_nodes,):
            raise ValueError("A forest needs a feature and a threshold for each node.")
        if self.feature.min(initial=0) < 0:
            raise ValueError("The features of a forest are column numbers.")

    @classmethod
    def of(cls, trees: Sequence[Any]) -> Forest:
        """Take over the trees of scikit-learn's estimators."""
        trees = [tree.tree_ for tree in trees]
        ends = np.cumsum([tree.node_count for tree in trees])
        roots = ends - [tree.node_count for tree in trees]
        right = [
            np.where(tree.children_right < 0, 0, tree.children_right + root)
            for tree, root in zip(trees, roots, strict=True)
        ]
        # Points are compared in float32; rounding down leaves the same ones below.
        threshold = np.concatenate([tree.threshold for tree in trees])
        below = threshold.astype(np.float32)
        below = np.where(below > threshold, np.nextafter(below, np.float32(-np.inf)), below)
        feature = np.maximum(np.concatenate([tree.feature for tree in trees]), 0)
        return cls(roots, feature, below, np.concatenate(right))

    def leaves(self, Z: Array) -> Array:
        """Return the leaf of each point, given in float32, in each tree."""
        n, n_trees = len(Z), len(self.roots)
        out = np.tile(self.roots, n)
        place = np.arange(n * n_trees)
        place = place[self.right[out] > 0]
        while len(place):
            node = out[place]
            above = Z[place // n_trees, self.feature[node]] > self.threshold[node]
            node = np.where(above, self.right[node], node + 1)
            out[place] = node
            place = place[self.right[node] > 0]
        return out.reshape(n, n_trees)


@dataclass(frozen=True, eq=False)
class LeafMap:
    """A feature map whose inner products approximate the share of common leaves.

    Attributes
    ----------
    basis: shape (n_basis, n_trees). Leaves of the rows of the basis.
    projection: shape (n_basis, n_components). U S^(-1/2).
    center, scale: shape (n_features,). Points are first centred by `center` and divided by
        `scale`.
    importances: shape (n_features,). Share of each feature in the splits, by how much they
        tell.
    """

    forest: Forest
    basis: Array
    projection: Array
    center: Vector
    scale: Vector
    importances: Vector

    kind = "leaves"

    def __post_init__(self) -> None:
        basis, n_trees = np.asarray(self.basis, dtype=np.int32), len(self.forest.roots)
        vars(self).update(basis=basis, projection=np.asarray(self.projection, dtype=np.float32))
        if basis.ndim != 2 or basis.shape[1] != n_trees or len(self.projection) != len(basis):
            raise ValueError("A leaf map needs leaves and a projection for each row of its basis.")
        if not 0 <= basis.min(initial=0) <= basis.max(initial=0) < len(self.forest.right):
            raise ValueError("The leaves of a leaf map's basis must be in its forest.")
        n_features = self.forest.feature.max(initial=0) + 1
        vectors = (self.center, self.scale, self.importances)
        if {len(each) for each in vectors} != {self.n_features} or n_features > self.n_features:
            raise ValueError("A leaf map needs a center, a scale and a share for each feature.")
        if not all(np.isfinite(each).all() for each in (*vectors, self.projection)):
            raise ValueError("A leaf map must be finite.")
        if not np.all(self.scale):
            raise ValueError("A leaf map's scale must not be zero.")
        for array in (basis, self.projection, *vectors):
            array.setflags(write=False)

    @classmethod
    def of(cls, forest: Forest, Z: Floats, n_components: int, importances: Vector) -> LeafMap:
        """Use the rows of Z as the basis."""
        basis = forest.leaves(Z.astype(np.float32))
        A = _incidence(basis, forest)
        K = np.asarray((A @ A.T).todense(), dtype=np.float64) / len(forest.roots)
        n = len(K)
        values, vectors = eigh(K, subset_by_index=(max(0, n - n_components), n - 1))
        kept = values > _SMALLEST * values[-1]
        values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
        projection = determined(values, vectors.T / np.sqrt(values)[:, None]).T
        center, scale = np.zeros(Z.shape[1]), np.ones(Z.shape[1])
        return cls(forest, basis, projection, center, scale, importances)

    @property
    def n_features(self) -> int:
        """Number of features before the map."""
        return len(self.center)

    @property
    def n_components(self) -> int:
        """Number of features after the map."""
        return self.projection.shape[1]

    def leaves(self, X: Floats) -> Array:
        """Return the leaf of each point in each tree."""
        Z = (np.asarray(X, dtype=np.float64) - self.center) / self.scale
        return self.forest.leaves(Z.astype(np.float32))

    def codes(self, X: Floats) -> Array:
        """Return a random byte for each leaf; different leaves differ in 4 bits on average."""
        random = np.random.RandomState(0).bytes(len(self.forest.right))
        return np.frombuffer(random, dtype=np.uint8)[self.leaves(X)]

    def transform(self, X: Floats) -> Floats:
        """Map points; the result is float32 if X is."""
        out = np.empty((len(X), self.n_components), dtype=X.dtype)
        basis = _incidence(self.basis, self.forest).T.tocsr()
        for top in range(0, len(X), _BLOCK_ROWS):
            K = _incidence(self.leaves(X[top : top + _BLOCK_ROWS]), self.forest) @ basis
            out[top : top + _BLOCK_ROWS] = unit_length(K @ self.projection)
        return out


def _incidence(leaves: Array, forest: Forest) -> Any:
    """Return a sparse matrix of rows and leaves: 1 where a row is in a leaf."""
    n, n_trees = leaves.shape
    ends = np.arange(0, n * n_trees + 1, n_trees)
    ones = np.ones(n * n_trees, dtype=np.float32)
    return csr_matrix((ones, leaves.ravel(), ends), shape=(n, len(forest.right)))
