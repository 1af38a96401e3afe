"""What may come before the linear map of a metric: a kernel, leaves, or several maps side by side.

Squared distances of parts add up, d^2 = sum_k |L_k phi_k(x) - L_k phi_k(y)|^2, so a weighted sum of
metrics is one metric, of the features of all parts, with a block of L for each.

`KernelMap`: a feature map whose inner products approximate a kernel (Nystroem's method).

    phi(x) = W k(x),    k(x)_j = K(x, x_j) for the points x_j of a basis,    W = K_BB^(-1/2)

phi(x)'phi(y) is the kernel between the projections of x and y on the span of the basis.

`PieceMap`: each column in pieces, so that a linear map of them bends with the column.

With knots -inf = t_0 < t_1 < ... < t_q = inf, a column x becomes its ramps

    r_p(x) = clip(x, t_(p-1), t_p) - t_(p-1),    p = 2, ..., q,    r_1(x) = min(x, t_1) - t_1

which add up to x but for a constant. A linear map of the ramps is a sum of piecewise linear
functions of the columns.

`LeafMap`: points are near if the trees of a forest lead them to the same leaves.

    K(x, y) = share of the trees in which x and y are in the same leaf

is the inner product of sparse vectors with an entry for each leaf, so it is a kernel. With the
leading eigenpairs K_BB = U S U' of the rows of a basis,

    phi(x) = S^(-1/2) U' k(x),    k(x)_j = K(x, x_j) for the rows x_j of the basis

has nearly the same inner products in few dimensions. Vectors are then divided by their length, as
K(x, x) = 1 for all points, and truncation shortens them unequally.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_matrix
from sklearn.metrics.pairwise import KERNEL_PARAMS, pairwise_kernels

from nearfar.metrics.points import unit_length
from nearfar.numerics.linear_algebra import determined
from nearfar.typing import Array, Floats, Matrix, Vector


class FeatureMap(Protocol):
    """A map from points to the features of a linear map."""

    @property
    def kind(self) -> str:
        """What it is, in a word."""

    @property
    def n_features(self) -> int:
        """Number of features before the map."""

    @property
    def n_components(self) -> int:
        """Number of features after the map."""

    def transform(self, X: Floats) -> Floats:
        """Map points; the result is float32 if X is."""


M = TypeVar("M", bound=Any)


def moved(feature_map: M, center: Vector, scale: Vector) -> M:
    """Return the map of x for a map of (x - center) / scale; None, which maps nothing, stays."""
    if feature_map is None:
        return feature_map
    return replace(
        feature_map, center=center + scale * feature_map.center, scale=scale * feature_map.scale
    )


def side_by_side(feature_map: FeatureMap | None) -> Sequence[Any]:
    """Return the maps that a map consists of."""
    return feature_map.maps if isinstance(feature_map, SideBySide) else (feature_map,)


@dataclass(frozen=True)
class SideBySide:
    """The features of several maps, one after the other; None stands for the points themselves."""

    maps: Sequence[Any]
    n_features: int

    def __post_init__(self) -> None:
        if any(each is not None and each.n_features != self.n_features for each in self.maps):
            raise ValueError("Maps side by side must be for the same features.")

    @property
    def kind(self) -> str:
        """The kinds of maps."""
        return " + ".join("linear" if each is None else each.kind for each in self.maps)

    @property
    def n_components(self) -> int:
        """Number of features after the map."""
        return sum(self.widths())

    def widths(self) -> Iterator[int]:
        """Yield how many features each map gives."""
        for each in self.maps:
            yield self.n_features if each is None else each.n_components

    def transform(self, X: Floats) -> Floats:
        """Map points; the result is float32 if X is."""
        return np.hstack([X if each is None else each.transform(X) for each in self.maps])


Kernel = str | Callable[..., float]

KERNELS = tuple(KERNEL_PARAMS)
"""Names of the kernels in scikit-learn."""

PARAMETERS = ("gamma", "degree", "coef0")
"""Parameters of these kernels."""

# A diagonal comes from square blocks: larger ones compute more that is not on it, smaller ones make
# more calls.
_DIAGONAL_BLOCK_ROWS = 64


class _Scaled:
    """A map of points that are first centred by `center` and divided by `scale`."""

    center: Vector
    scale: Vector

    @property
    def n_features(self) -> int:
        """Number of features before the map."""
        return len(self.center)

    def _scaled(self, X: Floats) -> Matrix:
        return np.asarray((np.asarray(X, dtype=np.float64) - self.center) / self.scale)

    def _check(self, name: str, *arrays: Array, infinite: tuple[Array, ...] = ()) -> None:
        """Make arrays read-only, or raise ValueError if they cannot be used."""
        if self.scale.shape != self.center.shape:
            raise ValueError(f"A {name} needs a center and a scale for each feature.")
        if not np.all(self.scale):
            raise ValueError(f"A {name}'s scale must not be zero.")
        arrays = (*arrays, self.center, self.scale)
        if not all(np.isfinite(a).all() for a in arrays) or any(
            np.isnan(a).any() for a in infinite
        ):
            raise ValueError(f"A {name} must be finite.")
        for array in (*arrays, *infinite):
            array.setflags(write=False)


@dataclass(frozen=True, eq=False)
class KernelMap(_Scaled):
    """A feature map whose inner products approximate a kernel.

    Attributes
    ----------
    points: shape (n_basis, n_features). The basis, centred and scaled.
    whitening: shape (n_basis, n_basis). W.
    kernel: A scikit-learn kernel, or a function of two rows.
    parameters: Parameters of the kernel.
    center, scale: shape (n_features,). Points are first centred by `center` and divided by
        `scale`.
    """

    points: Matrix
    whitening: Matrix
    kernel: Kernel
    parameters: Mapping[str, float]
    center: Vector
    scale: Vector

    kind = "kernel"

    def __post_init__(self) -> None:
        n_basis, n_features = self.points.shape
        if self.whitening.shape != (n_basis, n_basis):
            raise ValueError(
                "A kernel map's whitening must be square, with one row for each basis point."
            )
        if self.center.shape != (n_features,):
            raise ValueError("A kernel map needs a center and a scale for each feature.")
        self._check("kernel map", self.points, self.whitening)
        wrong = set(self.parameters) - set(PARAMETERS)
        if isinstance(self.kernel, str) and wrong:
            raise ValueError(f"Kernels have no parameter {min(wrong)!r}.")
        if not np.isfinite(list(self.parameters.values())).all():
            raise ValueError("A kernel map's parameters must be finite.")

    @property
    def n_components(self) -> int:
        """Number of features after the map."""
        return len(self.whitening)

    def transform(self, X: Floats) -> Floats:
        """Map points; the result is float32 if X is."""
        features = (
            kernel_matrix(self._scaled(X), self.points, self.kernel, self.parameters)
            @ self.whitening.T
        )
        return features.astype(X.dtype, copy=False)


def kernel_matrix(
    X: Floats, Y: Floats, kernel: Kernel, parameters: Mapping[str, float]
) -> NDArray[np.float64]:
    """Return the kernel between the rows of X and Y; parameters it does not have are ignored."""
    known = isinstance(kernel, str)
    left, right = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    K = pairwise_kernels(left, right, metric=kernel, filter_params=known, **parameters)
    return np.asarray(K, dtype=np.float64)


def kernel_diagonal(X: Floats, kernel: Kernel, parameters: Mapping[str, float]) -> Vector:
    """Return the kernel of each row of X with itself."""
    if not isinstance(kernel, str):
        return np.array([kernel(x, x, **parameters) for x in X], dtype=np.float64)
    blocks = [X[top : top + _DIAGONAL_BLOCK_ROWS] for top in range(0, len(X), _DIAGONAL_BLOCK_ROWS)]
    return np.concatenate([kernel_matrix(b, b, kernel, parameters).diagonal() for b in blocks])


@dataclass(frozen=True, eq=False)
class PieceMap(_Scaled):
    """Columns as ramps between their quantiles.

    Attributes
    ----------
    column: shape (n_components,). The column of each ramp.
    low, high: shape (n_components,). Where each ramp begins and ends; -inf and inf for the
        first and the last one of a column.
    center, scale: shape (n_features,). Points are first centred by `center` and divided by
        `scale`.
    """

    column: Array
    low: Vector
    high: Vector
    center: Vector
    scale: Vector

    kind = "pieces"

    def __post_init__(self) -> None:
        vars(self)["column"] = np.asarray(self.column).astype(np.intp)
        if not len(self.column) == len(self.low) == len(self.high) > 0:
            raise ValueError("A piece map needs a column and two ends for each ramp.")
        if not 0 <= self.column.min() <= self.column.max() < self.n_features:
            raise ValueError("The ramps of a piece map must be of its columns.")
        self._check("piece map", self.column, infinite=(self.low, self.high))

    @classmethod
    def fit(cls, Z: Floats, n_pieces: int) -> PieceMap:
        """Put knots at quantiles; a column with few values gets fewer pieces, a constant none."""
        column, low, high = [], [], []
        shares = np.linspace(0, 1, n_pieces + 1)[1:-1]
        spread = np.ptp(Z, axis=0)
        for j in np.flatnonzero(spread) if spread.any() else [0]:
            values = Z[:, j]
            inner = np.unique(np.quantile(values, shares))
            inner = inner[(inner > values.min()) & (inner < values.max())]
            column += [j] * (len(inner) + 1)
            low += [-np.inf, *inner]
            high += [*inner, np.inf]
        center, scale = np.zeros(Z.shape[1]), np.ones(Z.shape[1])
        return cls(np.array(column), np.array(low), np.array(high), center, scale)

    @property
    def n_components(self) -> int:
        """Number of ramps."""
        return len(self.column)

    @property
    def zero(self) -> Vector:
        """Where each ramp is zero: where it meets the one before it, or the next if it is first."""
        inner = np.where(np.isfinite(self.high), self.high, 0)
        return np.where(np.isfinite(self.low), self.low, inner)

    def transform(self, X: Floats) -> Floats:
        """Map points; the result is float32 if X is."""
        ramps = np.clip(self._scaled(X)[:, self.column], self.low, self.high) - self.zero
        return ramps.astype(X.dtype, copy=False)


# Rows whose leaves and kernel are held at a time.
_BLOCK_ROWS = 1 << 12
# Sums over many leaves of larger numbers may overflow in float32.
_LARGEST_PROJECTION = 1e25
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
        if np.isnan(self.threshold).any():
            raise ValueError("The thresholds of a forest are numbers.")
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
class LeafMap(_Scaled):
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
        if len(self.importances) != self.n_features or n_features > self.n_features:
            raise ValueError("A leaf map needs a center, a scale and a share for each feature.")
        self._check("leaf map", basis, self.projection, self.importances)
        if np.abs(self.projection).max(initial=0.0) > _LARGEST_PROJECTION:
            raise ValueError("A leaf map's projection is too large: vectors overflow.")
        if not np.all(self.scale):
            raise ValueError("A leaf map's scale must not be zero.")

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
    def n_components(self) -> int:
        """Number of features after the map."""
        return self.projection.shape[1]

    def leaves(self, X: Floats) -> Array:
        """Return the leaf of each point in each tree."""
        return self.forest.leaves(self._scaled(X).astype(np.float32))

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
