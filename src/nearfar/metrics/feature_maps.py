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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import KERNEL_PARAMS, pairwise_kernels

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


@dataclass(frozen=True, eq=False)
class KernelMap:
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
        if self.center.shape != (n_features,) or self.scale.shape != (n_features,):
            raise ValueError("A kernel map needs a center and a scale for each feature.")
        for array in (self.points, self.whitening, self.center, self.scale):
            if not np.isfinite(array).all():
                raise ValueError("A kernel map must be finite.")
        if not np.all(self.scale):
            raise ValueError("A kernel map's scale must not be zero.")
        wrong = set(self.parameters) - set(PARAMETERS)
        if isinstance(self.kernel, str) and wrong:
            raise ValueError(f"Kernels have no parameter {min(wrong)!r}.")
        if not np.isfinite(list(self.parameters.values())).all():
            raise ValueError("A kernel map's parameters must be finite.")
        for array in (self.points, self.whitening, self.center, self.scale):
            array.setflags(write=False)

    @property
    def n_features(self) -> int:
        """Number of features before the map."""
        return self.points.shape[1]

    @property
    def n_components(self) -> int:
        """Number of features after the map."""
        return len(self.whitening)

    def transform(self, X: Floats) -> Floats:
        """Map points; the result is float32 if X is."""
        Z = (np.asarray(X, dtype=np.float64) - self.center) / self.scale
        features = kernel_matrix(Z, self.points, self.kernel, self.parameters) @ self.whitening.T
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
class PieceMap:
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
        if len(self.scale) != self.n_features or not np.all(self.scale):
            raise ValueError("A piece map needs a scale for each column, which must not be zero.")
        for array in (self.column, self.low, self.high, self.center, self.scale):
            if np.isnan(array).any():
                raise ValueError("A piece map must have no missing values.")
            array.setflags(write=False)

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
    def n_features(self) -> int:
        """Number of columns before the map."""
        return len(self.center)

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
        Z: Matrix = (np.asarray(X, dtype=np.float64) - self.center) / self.scale
        ramps = np.clip(Z[:, self.column], self.low, self.high) - self.zero
        return ramps.astype(X.dtype, copy=False)
