"""Linear maps from the vectors of one model to those of another, in closed form.

With X the centred new vectors (n x p) and Y the centred old ones (n x q), x is mapped to W x:

- orthogonal: W = c U V' from the singular value decomposition Y'X = U S V', with
  c = trace(S) / |X V|^2; of equal sizes, no scaled rotation has a smaller |X W' - Y|;
- linear: W = Y'X (X'X + a I)^-1, with a chosen by leave-one-out cross-validation, whose residuals
  are r_i / (1 - h_i) with the leverages h_i;
- low rank: the linear map, followed by a projection on the leading principal axes of its values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfar.deploy.linear_map import LinearMap
from nearfar.numerics.linear_algebra import cross_product, product
from nearfar.typing import Floats, Matrix, Vector

# Values of a to try, relative to the mean eigenvalue of X'X.
_STRENGTHS = np.logspace(-9, 3, 25)


@dataclass(frozen=True, eq=False)
class Centred:
    """New and old vectors of the same items, centred."""

    X: Matrix
    Y: Matrix
    new_mean: Vector
    old_mean: Vector

    @classmethod
    def of(cls, new: Floats, old: Floats) -> Centred:
        """Centre vectors, in float64."""
        new_mean = new.mean(axis=0, dtype=np.float64)
        old_mean = old.mean(axis=0, dtype=np.float64)
        return cls(new - new_mean, old - old_mean, new_mean, old_mean)

    def map(self, W: Matrix) -> LinearMap:
        """Return W as a map of vectors that are not centred."""
        return LinearMap(np.ascontiguousarray(W), self.old_mean - W @ self.new_mean)


def orthogonal(data: Centred) -> LinearMap:
    """Return the best rotation with one scale; of different sizes, the best semi-orthogonal map.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.bridge.maps import Centred, orthogonal
    >>> X = np.random.default_rng(0).standard_normal((9, 2))
    >>> turn = np.array([[0.0, -2.0], [2.0, 0.0]])
    >>> np.allclose(orthogonal(Centred.of(X, X @ turn.T)).L, turn)
    True
    """
    U, S, Vt = np.linalg.svd(cross_product(data.Y, data.X), full_matrices=False)
    size = float((product(data.X, Vt.T) ** 2).sum())
    return data.map((S.sum() / size if size > 0 else 1.0) * (U @ Vt))


class Ridge:
    """Ridge regression with the strength that leave-one-out cross-validation chooses.

    Parameters
    ----------
    data : Centred

    Attributes
    ----------
    strength : float
    W : array of shape (n_old, n_new)
    """

    def __init__(self, data: Centred) -> None:
        self.data = data
        values, V = np.linalg.eigh(cross_product(data.X, data.X))
        values = np.maximum(values, 0.0)
        positive = values > len(values) * np.finfo(float).eps * values[-1]
        values, V = values[positive], V[:, positive]
        unit = product(data.X, V) / np.sqrt(values)
        projected = cross_product(unit, data.Y)
        leverages, mean = unit**2, 1 / len(data.X)
        errors = []
        strengths = _STRENGTHS * (values.mean() if len(values) else 1.0)
        for strength in strengths:
            share = values / (values + strength)
            residuals = data.Y - product(unit, share[:, None] * projected)
            # A mean that is estimated too has leverage 1/n.
            left = np.maximum(1 - mean - leverages @ share, 1e-9)  # Never divide by zero.
            errors.append(float(((residuals / left[:, None]) ** 2).sum()))
        self.strength = float(strengths[int(np.argmin(errors))])
        self.W = projected.T * (np.sqrt(values) / (values + self.strength)) @ V.T

    def linear(self) -> LinearMap:
        """Return the linear map."""
        return self.data.map(self.W)

    def low_rank(self, rank: int) -> LinearMap:
        """Return the linear map, projected on the leading axes of its values."""
        fitted = self.W @ cross_product(self.data.X, self.data.X) @ self.W.T
        axes = np.linalg.eigh(fitted)[1][:, -rank:]
        return self.data.map(axes @ (axes.T @ self.W))
