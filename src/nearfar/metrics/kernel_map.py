"""`KernelMap`: a feature map whose inner products approximate a kernel (Nystroem's method).

    phi(x) = W k(x),    k(x)_j = K(x, x_j) for the points x_j of a basis,    W = K_BB^(-1/2)

phi(x)'phi(y) is the kernel between the projections of x and y on the span of the basis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import KERNEL_PARAMS, pairwise_kernels

from nearfar.typing import Floats, Matrix, Vector

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
    points : array of shape (n_basis, n_features)
        The basis, centred and scaled.
    whitening : array of shape (n_basis, n_basis)
        W.
    kernel : str or callable
        A scikit-learn kernel, or a function of two rows.
    parameters : mapping
        Parameters of the kernel.
    center, scale : array of shape (n_features,)
        Points are first centred by `center` and divided by `scale`.
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
