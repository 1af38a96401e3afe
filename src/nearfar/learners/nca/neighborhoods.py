"""Soft neighbours of all points: how likely each is to find its own class, and the gradient.

Under the map L, the point i takes j as its neighbour with a probability ~ exp(-|L x_i - L x_j|^2),
and finds its own class with  p_i = sum over j of its class.  With the sums over near and far,

    a_i = log sum_near exp(-H_ij),   f_i = log sum_far exp(-H_ik)
    log p_i = a_i - log(exp(a_i) + exp(f_i))

and for any function of the p_i with derivatives g_i = d / d log p_i, the gradient by M = L'L is

    sum_ij w_ij (x_i - x_j)(x_i - x_j)',   w_ij = -g_i (1 - p_i) exp(-H_ij - a_i)    near
                                           w_ik =  g_i (1 - p_i) exp(-H_ik - f_i)    far

which is X' (Laplacian of w + w') X: two passes over tiles of pairs, from logarithms, and no n x n
array. Points whose class has no second member are neighbours, but are not asked for theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nearfar.numerics.pair_tiles import SMALLEST_FLOAT32_EXPONENT, Band, ClassOrder, Embedded, Tile
from nearfar.typing import Floats, Ints, Matrix, Vector

_NO_WEIGHT = 1e30
_PLENTY = {4: 1e-20, 8: 1e-280}
"""By bytes of the type: sums above it have lost nothing."""


@dataclass(frozen=True)
class Chances:
    """How likely each point is to find its own class, under one map.

    Attributes
    ----------
    log_p : array of shape (n_samples,)
        Logarithms of the probabilities; 0 for points that are not asked.
    near, far : array of shape (n_samples,)
        a and f.
    form : Embedded
        The squared distances.
    """

    log_p: Vector
    near: Vector
    far: Vector
    form: Embedded


class Neighborhoods:
    """Points and labels, ready for soft neighbours under any map.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Points, float32 or float64.
    y : array of shape (n_samples,)
        Class codes.

    Attributes
    ----------
    X : array of shape (n_samples, n_features)
        The points in class order.
    asked : array of bool of shape (n_samples,)
        Which of them have a companion of their class.
    """

    def __init__(self, X: Floats, y: Ints) -> None:
        self.classes = ClassOrder(y)
        self.X = X[self.classes.order]
        sizes = np.diff(self.classes.edges)
        self.asked = np.repeat(sizes > 1, sizes)
        if not can_be_asked(y):
            raise ValueError(
                "Soft neighbours need at least two classes, and at least one class with two "
                "members."
            )

    def chances(self, L: Matrix) -> Chances:
        """Ask every point for its class under a map."""
        n = len(self.X)
        P = self.X @ L.T.astype(self.X.dtype)
        form = Embedded(P, np.ones(len(L)))
        near, far = np.zeros(n), np.full(n, -np.inf)

        def work(band: Band) -> None:
            sums = {True: np.full(band.height, -np.inf), False: np.full(band.height, -np.inf)}
            for tile in band.tiles(n):
                sums[tile.near] = np.logaddexp(sums[tile.near], _log_sums(form, tile))
            near[band.rows], far[band.rows] = sums[True], sums[False]

        self.classes.for_each(work)
        return Chances(near - np.logaddexp(near, far), near, far, form)

    def gradient(self, chances: Chances, g: Vector, L: Matrix) -> Matrix:
        """Gradient by the map, of shape (k, n_features).

        Parameters
        ----------
        chances : Chances
            Under this map.
        g : array of shape (n_samples,)
            Derivatives by log p_i; not negative.
        L : array of shape (k, n_features)
        """
        if 2 * len(L) >= self.X.shape[1]:
            return 2 * L @ self.matrix_gradient(chances, g)
        weights = self._weights(chances, g)
        pulled = self.classes.laplacian(weights, chances.form.P, near_sign=-1.0)
        return np.asarray(2 * pulled.T.astype(self.X.dtype) @ self.X, dtype=np.float64)

    def matrix_gradient(self, chances: Chances, g: Vector) -> Matrix:
        """Gradient by M = L'L, of shape (n_features, n_features)."""
        return self.classes.scatter(self._weights(chances, g), self.X, near_sign=-1.0)

    def _weights(self, chances: Chances, g: Vector) -> Callable[[Tile], Floats]:
        """Return the absolute weights of pairs, tile by tile."""
        wrong = np.exp(chances.far - np.logaddexp(chances.near, chances.far))
        u = g * wrong
        counted = self.asked & (u > 0)
        log_u = np.log(u, where=counted, out=np.zeros(len(g)))
        near = np.where(counted, chances.near - log_u, _NO_WEIGHT)
        far = np.where(counted, chances.far - log_u, _NO_WEIGHT)

        def weights(tile: Tile) -> Floats:
            return chances.form.weights(tile, near, far, near_sign=-1.0)

        return weights


def can_be_asked(y: Ints) -> bool:
    """Whether there are two classes, and a point with a companion of its own."""
    sizes = np.unique(y, return_counts=True)[1]
    return len(sizes) > 1 and bool(sizes.max() > 1)


def _log_sums(form: Embedded, tile: Tile) -> Vector:
    """Log of the sum over a tile's columns of exp(-H), for each row.

    Exponents are not positive; only where a row's sum is nearly nothing are they shifted.
    """
    sums = form.weights(tile, near_sign=-1.0).sum(axis=1, dtype=np.float64)
    if sums.min() > _PLENTY[form.dtype.itemsize]:
        return np.log(sums)
    exponents = form.exponents(tile, near_sign=-1.0)
    top = exponents.max(axis=1)
    top[top == -np.inf] = 0.0
    exponents -= top[:, None]
    if exponents.dtype == np.float32:
        np.maximum(exponents, SMALLEST_FLOAT32_EXPONENT, out=exponents)
        tile.fill_excluded(exponents, -np.inf)
    np.exp(exponents, out=exponents)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(exponents.sum(axis=1, dtype=np.float64)), dtype=np.float64)
