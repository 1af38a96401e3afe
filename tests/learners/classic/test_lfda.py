from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh

from nearfar import LFDA
from nearfar.learners.classic import lfda
from nearfar.learners.classic.lfda import local_scatters
from nearfar.learners.classic.scatter import Groups
from problems import labelled
from references.closed_forms import lfda_scatters, shrink


def problem(seed):
    """Points of unit variance, the last one alone in its class."""
    X, y, _ = labelled(seed, n=24, n_features=3)
    return (X - X.mean(axis=0)) / X.std(axis=0), np.append(y[:-1], 3)


@pytest.mark.parametrize("tile", [1, 30, 1 << 20])
@pytest.mark.parametrize("k", [1, 3, 7, 50])
def test_scatters(tile, k, monkeypatch):
    monkeypatch.setattr(lfda, "_TILE_ELEMENTS", tile)
    X, y = problem(0)
    between, within = local_scatters(Groups(X, y), k)
    expected = lfda_scatters(X, y, k)
    np.testing.assert_allclose(between * len(X), expected[0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(within * len(X), expected[1], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
@pytest.mark.parametrize("embedding", ["plain", "weighted", "orthonormalized"])
def test_embeddings(shrinkage, embedding):
    X, y = problem(1)
    between, within = (S / len(X) for S in lfda_scatters(X, y, 7))
    values, vectors = eigh(between, shrink(within, shrinkage))
    T = vectors[:, :0:-1]
    if embedding == "weighted":
        T = T * np.sqrt(values[:0:-1])
    if embedding == "orthonormalized":
        T = np.linalg.qr(T)[0]
    learner = LFDA(embedding=embedding, shrinkage=shrinkage, scale=None, n_components=2)
    found = learner.fit(X, y).components_
    np.testing.assert_allclose(np.abs(found), np.abs(T.T), rtol=1e-5, atol=1e-7)


def test_many_equal_rows():
    X, y, _ = labelled()
    X[:20] = X[0]
    learner = LFDA().fit(X, y)
    assert np.isfinite(learner.components_).all()
    assert not learner.metric_.distances(X)[:20, :20].any()


def test_clusters_within_a_class_may_stay_apart(rng):
    """Two clusters of one class, with the other class between them."""
    center = np.array([-6.0, 0.0, 6.0]).repeat(40)
    X = np.column_stack([rng.standard_normal(120) + center, rng.standard_normal(120)])
    y = (center == 0).astype(int)
    first = LFDA(n_components=1, scale=None).fit(X, y).components_[0]
    assert abs(first[0]) > 5 * abs(first[1])
