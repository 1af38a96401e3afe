"""LMNN by loops: the objective over all triplets, and projected subgradients of M."""

from __future__ import annotations

import numpy as np


def targets(X, y, k):
    """Return the nearest rows of the same class, as a list of (row, target)."""
    found = []
    for i in range(len(X)):
        same = [j for j in range(len(X)) if y[j] == y[i] and j != i]
        same.sort(key=lambda j: (round(float(((X[i] - X[j]) ** 2).sum()), 12), j))
        found += [(i, j) for j in same[:k]]
    return found


def objective(M, X, y, pairs, push, margin=1.0):
    """Return (13), both terms divided by the number of target pairs, and its gradient by M."""
    value, gradient = 0.0, np.zeros_like(M)
    for i, j in pairs:
        near = X[i] - X[j]
        h_near = near @ M @ near
        value += (1 - push) * h_near
        gradient += (1 - push) * np.outer(near, near)
        for m in range(len(X)):
            if y[m] == y[i]:
                continue
            far = X[i] - X[m]
            hinge = margin + h_near - far @ M @ far
            if hinge > 0:
                value += push * hinge
                gradient += push * (np.outer(near, near) - np.outer(far, far))
    return value / len(pairs), gradient / len(pairs)


def projected_gradient(X, y, pairs, push, *, n_steps, step):
    """Return the best objective on a path of subgradient steps, projected on the psd cone."""
    M = np.eye(X.shape[1])
    best = np.inf
    for number in range(1, n_steps + 1):
        value, gradient = objective(M, X, y, pairs, push)
        best = min(best, value)
        values, vectors = np.linalg.eigh(M - step / number**0.5 * gradient)
        M = (vectors * np.maximum(values, 0)) @ vectors.T
    return best
