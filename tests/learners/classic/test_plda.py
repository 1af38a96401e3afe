from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.stats import multivariate_normal
from sklearn.metrics import roc_auc_score

from nearfar import PLDA, Pairs, RandomPairs
from nearfar.learners.classic.plda import two_covariances
from nearfar.learners.classic.scatter import Groups
from problems import labelled
from references.closed_forms import shrink, within_covariance


def many_classes(seed=0, n_classes=30, n_features=3):
    """Classes of one to nine rows, of unit mean variance."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_classes).repeat(rng.integers(1, 10, n_classes))
    X = rng.standard_normal((len(y), n_features)) + 2 * rng.standard_normal((n_classes, 3))[y]
    X @= rng.standard_normal((n_features, n_features))
    X -= X.mean(axis=0)
    return X / np.sqrt(X.var(axis=0).mean()), y, rng


def log_likelihood_ratio(x, z, W, B, mean):
    """Of two rows, by the two Gaussians of the stacked vector."""
    T, center = W + B, np.append(mean, mean)
    same = np.block([[T, B], [B, T]])
    different = np.block([[T, np.zeros_like(T)], [np.zeros_like(T), T]])
    both = np.append(x, z)
    return multivariate_normal(center, same).logpdf(both) - multivariate_normal(
        center, different
    ).logpdf(both)


@pytest.mark.parametrize("shrinkage", [0.0, 0.2, "auto"])
def test_score_and_metric(shrinkage):
    X, y, rng = many_classes()
    W, B = two_covariances(Groups(X, y), shrinkage)
    shift = np.array([5.0, -3.0, 2.0])
    learner = PLDA(shrinkage=shrinkage, scale=None).fit(X + shift, y)
    new = rng.standard_normal((12, 3)) + shift
    pairs = np.array([[i, 11 - i] for i in range(6)])
    expected = [log_likelihood_ratio(new[i], new[j], W, B, learner.mean_) for i, j in pairs]
    np.testing.assert_allclose(learner.score_pairs(new, pairs), expected, rtol=1e-6, atol=1e-8)
    listed = Pairs(pairs, np.ones(6, dtype=bool))
    np.testing.assert_allclose(learner.score_pairs(new, listed), expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(learner.mean_, shift, atol=1e-12)
    M = (np.linalg.inv(W) - np.linalg.inv(W + B)) / 4
    np.testing.assert_allclose(learner.metric_.matrix, M, atol=1e-7 * np.abs(M).max())
    np.testing.assert_allclose(learner.ratios_, eigh(B, W, eigvals_only=True)[::-1], rtol=1e-6)


def test_the_score_does_not_depend_on_units():
    X, y, _ = many_classes()
    pairs = [[0, 1], [0, 40], [3, 77]]
    for shrinkage, scale in ((0.0, None), (0.0, "standard"), ("auto", "standard")):
        learner = PLDA(shrinkage=shrinkage, scale=scale)
        first = learner.fit(X, y).score_pairs(X, pairs)
        second = learner.fit(1000 * X + 7, y).score_pairs(1000 * X + 7, pairs)
        np.testing.assert_allclose(first, second, rtol=1e-6)


def test_moments_of_unequal_classes():
    X, y, _ = many_classes()
    W, B = two_covariances(Groups(X, y), 0.0)
    np.testing.assert_allclose(W, within_covariance(X, y))
    n, sizes = len(X), np.bincount(y)
    between = sum(
        size * np.outer(mean, mean)
        for size, mean in zip(sizes, [X[y == c].mean(axis=0) for c in range(30)], strict=True)
    )
    effective = (n - (sizes**2).sum() / n) / 29
    np.testing.assert_allclose(B, (between / 29 - W) / effective, rtol=1e-7)
    shrunk_W, shrunk_B = two_covariances(Groups(X, y), 0.1)
    np.testing.assert_allclose(shrunk_W, shrink(W, 0.1))
    np.testing.assert_allclose(
        shrunk_B, shrink((between / 29 - shrunk_W) / effective, 0.1), rtol=1e-7
    )


def test_moments_are_unbiased():
    truth, found = np.diag([4.0, 1.0, 0.25]), []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        y = np.arange(40).repeat(rng.integers(1, 20, 40))
        offsets = rng.standard_normal((40, 3)) * np.sqrt(truth.diagonal())
        found.append(two_covariances(Groups(rng.standard_normal((len(y), 3)) + offsets[y], y), 0.0))
    standard_error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    difference = np.mean(found, axis=0) - [np.eye(3), truth]
    assert (np.abs(difference) < 4.5 * standard_error).all()


def test_classes_that_do_not_differ_have_no_negative_variance(rng):
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 3))
    X -= np.array([X[y == c].mean(axis=0) for c in range(3)])[y]
    _, B = two_covariances(Groups(X, y), 0.0)
    np.testing.assert_array_equal(B, 0.0)
    with pytest.warns(match="Nothing was learned"):
        learner = PLDA(shrinkage=0.0).fit(X, y)
    np.testing.assert_array_equal(learner.score_pairs(X, [[0, 1]]), 0.0)


def test_fewer_components_leave_out_the_least_variances():
    X, y, _ = many_classes()
    W, B = two_covariances(Groups(X, y), 0.0)
    values, vectors = eigh(B, W)
    back = W @ vectors
    reduced = (back[:, -1:] * values[-1]) @ back[:, -1:].T
    learner = PLDA(shrinkage=0.0, scale=None, n_components=1).fit(X, y)
    expected = log_likelihood_ratio(X[0], X[50], W, reduced, learner.mean_)
    assert learner.score_pairs(X, [[0, 50]])[0] == pytest.approx(expected, rel=1e-6)


def test_float32_and_bad_pairs():
    X, y, _ = many_classes()
    learner = PLDA().fit(X.astype(np.float32), y)
    first = PLDA().fit(X, y).score_pairs(X, [[0, 1], [0, 60]])
    found = learner.score_pairs(X.astype(np.float32), [[0, 1], [0, 60]])
    np.testing.assert_allclose(found, first, rtol=1e-3)
    with pytest.raises(ValueError, match="Row numbers"):
        learner.score_pairs(X, [[0, len(X)]])


def test_scores_tell_the_same_from_different():
    X, y, _ = labelled(n=200, n_classes=4, n_features=6)
    X += 2 * y[:, None]
    pairs = RandomPairs(500)(X, y, np.random.RandomState(0))
    score = PLDA().fit(X, y).score_pairs(X, pairs)
    assert roc_auc_score(pairs.similar, score) > 0.9
