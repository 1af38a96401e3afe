"""A stand-in for an adapter: another map for queries than for documents."""

from __future__ import annotations

import numpy as np


class Adapter:
    def __init__(self, n_features: int) -> None:
        self.n_features_in_ = n_features
        self.W = np.random.default_rng(3).standard_normal((n_features, n_features))

    def transform_queries(self, Q):
        return np.asarray(Q) @ self.W.T + 1

    def transform_documents(self, X):
        return np.asarray(X) / np.linalg.norm(X, axis=1, keepdims=True).clip(1e-30)
