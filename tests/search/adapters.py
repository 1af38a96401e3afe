"""Adapters with known effects, and searches that they improve."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from nearfar import Relevance
from nearfar.typing import Floats


class Stretched(BaseEstimator):
    """Multiplies the columns of queries and documents by numbers that are given, not learned."""

    def __init__(self, weights: Floats) -> None:
        self.weights = weights

    def fit(self, Q: Floats, X: Floats, relevance: Relevance) -> Stretched:
        self.seen_ = Q
        relevance.check(len(Q), len(X))
        return self

    def transform_queries(self, Q: Floats) -> Floats:
        return np.asarray(Q * self.weights)

    def transform_documents(self, X: Floats) -> Floats:
        return np.asarray(X)


def noisy_searches(
    n_queries: int = 80, *, n_noise: int = 4, seed: int = 0
) -> tuple[Floats, Floats, Relevance, Floats]:
    """Return queries, documents and relevance, and the weights that leave out columns of noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 6 + n_noise))
    answer = rng.integers(len(X), size=n_queries)
    Q = X[answer] + 0.3 * rng.normal(size=(n_queries, X.shape[1]))
    Q[:, 6:] = 1.5 * rng.normal(size=(n_queries, n_noise))
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    weights = np.repeat([1.0, 0.0], [6, n_noise])
    return Q, X / lengths, Relevance(np.arange(n_queries), answer), weights
