"""The Laplace approximation of a logistic model, with loops."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def sigmoid(m):
    return 1 / (1 + np.exp(-m))


def laplace(A, y, weight, mean, variance):
    """Return the mode by a general optimiser, and the covariance by finite differences."""

    def loss(theta):
        total = 0.0
        for row, target, w in zip(A, y, weight, strict=True):
            m = float(row @ theta)
            total -= w * (target * m - np.logaddexp(0, m))
        return total + 0.5 * float(np.sum((theta - mean) ** 2 / variance))

    mode = minimize(loss, mean, tol=1e-12).x
    n, h = len(mode), 1e-3
    H = np.zeros((n, n))
    eye = h * np.eye(n)
    for i in range(n):
        for j in range(n):
            H[i, j] = (
                loss(mode + eye[i] + eye[j])
                - loss(mode + eye[i] - eye[j])
                - loss(mode - eye[i] + eye[j])
                + loss(mode - eye[i] - eye[j])
            ) / (4 * h * h)
    return mode, np.linalg.inv(H)
