"""Brute-force large margin nearest neighbours (Weinberger, Saul), a test oracle.

Problem (13), both terms divided by the number T of target pairs (i, j), with H_ij = u' M u for
u = x_i - x_j:

    f(M) = (1 - push) / T sum_(i, j) H_ij + push / T sum_(i, j) sum_l max(0, 1 + H_ij - H_il)

over psd M; l runs over the rows of other classes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Triplet = tuple[int, int, int]


def targets(X: Floats, y: npt.ArrayLike, k: int) -> list[tuple[int, int]]:
    """Return the pairs of each row and its k nearest rows of the same class."""
    labels, pairs = np.asarray(y), []
    for i in range(len(X)):
        others = [j for j in range(len(X)) if j != i and labels[j] == labels[i]]
        others.sort(key=lambda j, i=i: (round(float(((X[i] - X[j]) ** 2).sum()), 9), j))
        pairs += [(i, j) for j in others[:k]]
    return pairs


def triplets(y: npt.ArrayLike, pairs: list[tuple[int, int]]) -> list[Triplet]:
    """Return all triplets of target pairs and rows of other classes."""
    labels = np.asarray(y)
    return [(i, j, far) for i, j in pairs for far in range(len(labels)) if labels[far] != labels[i]]


def objective(
    H: Floats, pairs: list[tuple[int, int]], comparisons: list[Triplet], push: float
) -> float:
    """Return (13), from the squared distances between all rows."""
    pull = sum(H[i, j] for i, j in pairs)
    cost = sum(max(0.0, 1.0 + H[i, j] - H[i, far]) for i, j, far in comparisons)
    return float((1 - push) * pull + push * cost) / len(pairs)


def projected_gradient(
    X: Floats,
    pairs: list[tuple[int, int]],
    comparisons: list[Triplet],
    push: float,
    *,
    n_steps: int,
) -> float:
    """Return the smallest objective of a long run of subgradient steps on M.

    Steps go to where a linear model would reach a little less than the smallest objective so far
    (Polyak); after each, negative eigenvalues are set to zero.
    """
    i, j, far = np.array(comparisons).T
    near, apart = X[i] - X[j], X[i] - X[far]
    pulled = np.array([X[a] - X[b] for a, b in pairs])
    C = (1 - push) * pulled.T @ pulled / len(pairs)
    M, best = np.eye(X.shape[1]), np.inf
    for step in range(n_steps):
        cost = 1.0 + ((near @ M) * near).sum(axis=1) - ((apart @ M) * apart).sum(axis=1)
        on = cost > 0
        value = float((C * M).sum() + push * cost[on].sum() / len(pairs))
        best = min(best, value)
        G = C + push * (near[on].T @ near[on] - apart[on].T @ apart[on]) / len(pairs)
        aim = best * (1 - 0.1 / np.sqrt(step + 1))
        size, axes = np.linalg.eigh(M - (value - aim) / (G * G).sum() * G)
        M = (axes * np.maximum(size, 0.0)) @ axes.T
    return best
