"""Soft neighbours of all points: how likely each is to find its own class, and the gradient.

Under the map L, the point i takes j as its neighbour with a probability ~ exp(-|L x_i - L x_j|^2),
and finds its own class with  p_i = sum over j of its class.  With the sums over near and far,

    a_i = log sum_near exp(-H_ij),   f_i = log sum_far exp(-H_ik)
    log p_i = a_i - log(exp(a_i) + exp(f_i))

and for any function of the p_i with derivatives g_i = d / d log p_i, the gradient by M = L'L is

    sum_ij w_ij (x_i - x_j)(x_i - x_j)',   w_ij = -g_i (1 - p_i) exp(-H_ij - a_i)    near
                                           w_ik =  g_i (1 - p_i) exp(-H_ik - f_i)    far

which is X' (Laplacian of w + w') X: two passes over tiles of pairs, from logarithms, and no n x n
array. Points whose class has no second member are neighbours of others, but are not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nearfar.numerics.pair_tiles import SMALLEST_FLOAT32_EXPONENT, Band, Embedded, PairTiles, Tile
from nearfar.typing import Floats, Ints, Matrix, Vector

_NO_WEIGHT = 1e30
_SAFE_SUM = {4: 1e-20, 8: 1e-280}
"""By bytes of the type: sums above it lost nothing to underflow."""


@dataclass(frozen=True)
class Probabilities:
    """How likely each point is to find its own class, under one map.

    Attributes
    ----------
    log_p : array of shape (n_samples,)
        Logarithms of the probabilities; 0 for points that are not counted.
    near, far : array of shape (n_samples,)
        a and f.
    form : Embedded
        The squared distances.
    """

    log_p: Vector
    near: Vector
    far: Vector
    form: Embedded


class SoftNeighbors:
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
    counted : array of bool of shape (n_samples,)
        Which of them have another member of their class.
    """

    def __init__(self, X: Floats, y: Ints) -> None:
        self.classes = PairTiles(y)
        self.X = X[self.classes.order]
        self.counted = self.classes.size_of_each > 1
        if not has_enough_classes(y):
            raise ValueError(
                "Soft neighbours need at least two classes, and at least one class with two "
                "members."
            )

    def probabilities(self, L: Matrix) -> Probabilities:
        """Return how likely each point is to find its own class under a map."""
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
        return Probabilities(near - np.logaddexp(near, far), near, far, form)

    def gradient(self, probabilities: Probabilities, g: Vector, L: Matrix) -> Matrix:
        """Gradient by the map, of shape (k, n_features).

        Parameters
        ----------
        probabilities : Probabilities
            Under this map.
        g : array of shape (n_samples,)
            Derivatives by log p_i; not negative.
        L : array of shape (k, n_features)
        """
        if 2 * len(L) >= self.X.shape[1]:
            return 2 * L @ self.matrix_gradient(probabilities, g)
        weights = self._weights(probabilities, g)
        pulled = self.classes.laplacian(weights, probabilities.form.P, near_sign=-1.0)
        return np.asarray(2 * pulled.T.astype(self.X.dtype) @ self.X, dtype=np.float64)

    def matrix_gradient(self, probabilities: Probabilities, g: Vector) -> Matrix:
        """Gradient by M = L'L, of shape (n_features, n_features)."""
        return self.classes.scatter_matrix(self._weights(probabilities, g), self.X, near_sign=-1.0)

    def _weights(self, probabilities: Probabilities, g: Vector) -> Callable[[Tile], Floats]:
        """Return the absolute weights of pairs, tile by tile."""
        wrong = np.exp(probabilities.far - np.logaddexp(probabilities.near, probabilities.far))
        u = g * wrong
        active = self.counted & (u > 0)
        log_u = np.log(u, where=active, out=np.zeros(len(g)))
        near = np.where(active, probabilities.near - log_u, _NO_WEIGHT)
        far = np.where(active, probabilities.far - log_u, _NO_WEIGHT)

        def weights(tile: Tile) -> Floats:
            return probabilities.form.weights(tile, near, far, near_sign=-1.0)

        return weights


def has_enough_classes(y: Ints) -> bool:
    """Return whether there are two classes, and one of them has two members."""
    sizes = np.unique(y, return_counts=True)[1]
    return len(sizes) > 1 and bool(sizes.max() > 1)


def _log_sums(form: Embedded, tile: Tile) -> Vector:
    """Log of the sum over a tile's columns of exp(-H), for each row.

    Exponents are not positive. They are shifted only if a row's sum nearly vanishes.
    """
    sums = form.weights(tile, near_sign=-1.0).sum(axis=1, dtype=np.float64)
    if sums.min() > _SAFE_SUM[form.dtype.itemsize]:
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
