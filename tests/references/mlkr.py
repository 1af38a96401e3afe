"""Leave-one-out kernel regression (MLKR), point by point."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

Floats = npt.NDArray[np.float64]


def squared_error(L: Floats, X: Floats, y: Floats) -> float:
    """Return the sum over points of the squared error of their prediction by all others."""
    total = 0.0
    for i in range(len(X)):
        squares = [
            math.inf if j == i else float(((L @ (X[i] - X[j])) ** 2).sum()) for j in range(len(X))
        ]
        nearest = min(squares)
        weights = [math.exp(nearest - square) for square in squares]
        predicted = sum(w * t for w, t in zip(weights, y, strict=True)) / sum(weights)
        total += (predicted - y[i]) ** 2
    return total


def cost(L: Floats, X: Floats, y: Floats) -> float:
    """Return the same from a table: the cost as metric-learn defines it."""
    P = X @ L.T
    squares = ((P[:, None] - P[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    return float(((softmax(-squares, axis=1) @ y - y) ** 2).sum())
