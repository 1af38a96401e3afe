"""The objective of `RetrievalAdapter`, with loops."""

from __future__ import annotations

import numpy as np


def objective(B, Q, X, relevance, T, temperature, strength):
    """Mean cross-entropy of the judged queries over all documents, plus the penalty."""
    W = np.eye(X.shape[1]) + temperature * T @ B @ T
    value = 0.0
    for query in relevance.queries:
        scores = np.array([Q[query] @ W @ x / temperature for x in X])
        log_total = np.log(np.sum(np.exp(scores)))
        documents, grades = relevance.of(query)
        for document, grade in zip(documents, grades, strict=True):
            value += grade / grades.sum() * (log_total - scores[document])
    return value / len(relevance.queries) + strength / 2 * np.sum(B**2)
