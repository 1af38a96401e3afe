"""Scatter matrices by loops over pairs of rows, as the papers print them."""

from __future__ import annotations

from itertools import combinations

import numpy as np


def within_covariance(X, y):
    """Pooled covariance of the classes."""
    S, free = np.zeros((X.shape[1], X.shape[1])), 0
    for label in np.unique(y):
        rows = X[y == label]
        for x in rows:
            S += np.outer(x - rows.mean(axis=0), x - rows.mean(axis=0))
        free += len(rows) - 1
    return S / free


def all_pairs(y):
    """Row numbers of all pairs, and which are of one class."""
    index = np.array(list(combinations(range(len(y)), 2)))
    return index, y[index[:, 0]] == y[index[:, 1]]


def pair_means(X, index, similar, weight=None):
    """Mean outer products of the differences of similar and of dissimilar pairs."""
    weight = np.ones(len(index)) if weight is None else weight
    sums, total = [np.zeros((X.shape[1], X.shape[1])) for _ in range(2)], [0.0, 0.0]
    for (i, j), same, w in zip(index, similar, weight, strict=True):
        kind = 0 if same else 1
        sums[kind] += w * np.outer(X[i] - X[j], X[i] - X[j])
        total[kind] += w
    return sums[0] / total[0], sums[1] / total[1]


def shrink(S, share):
    """Shrink a matrix to a multiple of the identity."""
    return (1 - share) * S + share * np.trace(S) / len(S) * np.eye(len(S))


def dca_covariances(X, groups, discriminative):
    """C_b and C_w of Hoi et al.: chunklets as lists of rows, and pairs of them that differ."""
    D = X.shape[1]
    between, within, counted = np.zeros((D, D)), np.zeros((D, D)), 0
    means = [X[rows].mean(axis=0) for rows in groups]
    for j, i in discriminative:
        between += np.outer(means[j] - means[i], means[j] - means[i])
    for rows, mean in zip(groups, means, strict=True):
        if len(rows) > 1:
            within += sum(np.outer(X[row] - mean, X[row] - mean) for row in rows) / len(rows)
            counted += 1
    return between / len(discriminative), within / counted


def lfda_scatters(X, y, k):
    """S_lb and S_lw of Sugiyama."""
    n, D = X.shape
    sizes = {label: int((y == label).sum()) for label in y}
    distance = np.array([[np.linalg.norm(a - b) for b in X] for a in X])
    scale = np.zeros(n)
    for i in range(n):
        same = sorted(distance[i, j] for j in range(n) if j != i and y[j] == y[i])
        scale[i] = same[min(k, len(same)) - 1] if same else 0.0
    between, within = np.zeros((D, D)), np.zeros((D, D))
    for i in range(n):
        for j in range(n):
            difference = np.outer(X[i] - X[j], X[i] - X[j])
            if y[i] != y[j]:
                between += 0.5 / n * difference
            elif i != j:
                A = np.exp(-(distance[i, j] ** 2) / (scale[i] * scale[j]))
                between += 0.5 * A * (1 / n - 1 / sizes[y[i]]) * difference
                within += 0.5 * A / sizes[y[i]] * difference
    return between, within
