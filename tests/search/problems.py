"""Small searches with a known answer."""

from __future__ import annotations

import numpy as np

from nearfar import Relevance


def topic_search(n_topics=20, n_documents=10, n_queries=2, n_features=8, noise=2.0, seed=0):
    """Documents and queries about topics; half of the features of queries are noise."""
    rng = np.random.RandomState(seed)
    topics = rng.normal(size=(n_topics, n_features))
    X = np.repeat(topics, n_documents, axis=0)
    X = X + rng.normal(size=X.shape)
    Q = np.repeat(topics, n_queries, axis=0)
    noisy = np.arange(n_features) >= n_features // 2
    Q = Q + noise * rng.normal(size=Q.shape) * noisy
    same = np.arange(len(Q))[:, None] // n_queries == np.arange(len(X)) // n_documents
    return Q, X, Relevance(*np.nonzero(same))
