"""Small problems that many tests share."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import nearfar
from nearfar import NearestTriplets, Pairs, RandomPairs, Triplets
from nearfar.numerics import pair_tiles
from references.boostmetric import triplet_matrices
from references.triplets import shares


def half_of(name):
    """Standardised points, labels and nearest triplets of half of a small set."""
    X, y = {"iris": load_iris, "wine": load_wine}[name](return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[::2], y[::2]
    return X, y, NearestTriplets(2, 2)(X, y)


def labelled(seed=0, n=60, n_features=4, n_classes=3, dtype=np.float64):
    """Random points of overlapping classes, their labels, and the generator."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.standard_normal((n, n_features)) + 0.5 * y[:, None]
    return X.astype(dtype), y, rng


def noisy_copies(seed=0, n=60, copies=8, n_features=6, noise=0.01):
    """Points in groups of similar rows with random classes: only groups can be recognised.

    With the default noise, the rows are too different to be taken for copies.
    """
    rng = np.random.default_rng(seed)
    points, y = rng.standard_normal((n, n_features)), rng.integers(0, 2, n)
    X = np.repeat(points, copies, axis=0)
    X += noise * rng.standard_normal(X.shape)
    return X, np.repeat(y, copies), np.repeat(np.arange(n), copies)


def points_with_a_single(seed, n=24, n_features=3, n_classes=3):
    """Random points, two of them equal and the last one alone in its class."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features))
    y = np.append(rng.integers(0, n_classes, n - 1), 9)
    X[1] = X[0]
    return X, y, rng


def random_pairs(seed, n=50, n_features=4, N=30, weighted=False):
    """Random points, and pairs that depend on the first feature."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, n_features))
    y = (X[:, 0] + 0.5 * rng.standard_normal(N) > 0).astype(int)
    pairs = RandomPairs(n)(X, y, np.random.RandomState(seed))
    if weighted:
        pairs = Pairs(pairs.index, pairs.similar, rng.uniform(0.1, 2.0, n))
    return X, pairs


def posed_triplets(seed, *, n=24, n_features=3, m=60, weighted=False):
    """Random points, mostly consistent triplets over them, and what the reference needs."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features))
    index = np.array([rng.choice(n, 3, replace=False) for _ in range(m)])
    first = np.abs(X[index[:, 0], 0] - X[index[:, 1], 0])
    swapped = first > np.abs(X[index[:, 0], 0] - X[index[:, 2], 0])
    index[swapped] = index[swapped][:, [0, 2, 1]]
    triplets = Triplets(index, rng.uniform(0.5, 2.0, m) if weighted else None)
    return X, triplets, triplet_matrices(X, index), shares(m, triplets.weight)


DEGENERATE = ["constant", "collinear", "wide", "equal rows", "tiny spread"]


def degenerate_points(kind, rng):
    """Return 30 points of a kind that many methods fail on."""
    X = rng.standard_normal((30, 4))
    if kind == "constant":
        return np.column_stack([X, np.full(30, 3.0)])
    if kind == "collinear":
        return np.column_stack([X, X[:, 0] + X[:, 1], 2 * X[:, 2]])
    if kind == "wide":
        return rng.standard_normal((30, 80))
    if kind == "equal rows":
        return np.repeat(X[:10], 3, axis=0)
    return X * np.array([1.0, 1.0, 1e-9, 1e-30])


def set_bands(monkeypatch, rows):
    """Use bands of so many rows of pairs, in threads however few pairs there are."""
    monkeypatch.setattr(pair_tiles, "_BAND_ROWS", (rows, rows))
    monkeypatch.setattr(pair_tiles, "_SERIAL_ELEMENTS", 0)


def public_names():
    """Return everything that the package exports; names are imported when they are used."""
    return [getattr(nearfar, name) for name in nearfar.__all__]


def log_probabilities(points, L):
    """The log of the probability to find the own class, by `SoftNeighbors`, in class order."""
    log_p = np.zeros(len(points.X))

    def gain(rows, values):
        log_p[rows] = values[:, 0]
        return values, np.zeros_like(values)

    points.evaluate([L], gain)
    return log_p
