"""Classes drawn at random, as many as are wanted."""

from __future__ import annotations

import numpy as np

from nearfar import Metric, Pairs
from nearfar.verification import PairEvidence


def population(n_classes, n_rows, rng):
    """Classes of several spreads; one in ten resembles many others."""
    middle = rng.choice([0.4, 1.0, 1.3], size=(n_classes, 1), p=[0.1, 0.6, 0.3])
    y = np.repeat(np.arange(n_classes), n_rows)
    spread = rng.choice([0.2, 0.35, 0.6], size=n_classes)[y][:, None]
    centers = middle * rng.normal(size=(n_classes, 8))
    return centers[y] + spread * rng.normal(size=(len(y), 8)), y


def all_pairs(y):
    i, j = np.triu_indices(len(y), 1)
    return Pairs(np.column_stack([i, j]), y[i] == y[j])


def evidence_of(X, y):
    """Evidence of all pairs, by Euclidean distance."""
    pairs = all_pairs(y)
    distances = Metric.identity(X.shape[1]).pair_distances(X, pairs)
    return PairEvidence(distances, pairs.similar, y[pairs.index])
