"""The learners that both libraries have learn the same metric, where the problem is the same.

Where metric-learn stops short of the optimum of its own objective, ours has to be at least as good
by that objective.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris

import nearfar
from nearfar import Metric, Pairs, Triplets
from nearfar.supervision import Chunklets

IRIS, LABELS = load_iris(return_X_y=True)
X, Y = IRIS[::2], LABELS[::2]


@pytest.fixture
def learned(values):
    return {name: np.array(M) for name, M in values["metrics"].items()}


@pytest.fixture
def pairs(values):
    return Pairs(values["pairs"], values["similar"])


def assert_same(learner, M, tol=1e-3):
    found = learner.metric_.matrix
    assert np.abs(found - M).max() < tol * np.abs(M).max()


def assert_same_shape(learner, M, tol=1e-3):
    """Compare metrics of which only the ratios of distances matter."""
    found = learner.metric_.matrix
    assert np.abs(found / np.trace(found) - M / np.trace(M)).max() < tol


def test_covariance(learned):
    assert_same(nearfar.InverseCovariance(shrinkage=0.0).fit(X), learned["Covariance"], 1e-6)


def test_rca(learned, values):
    chunklets = Chunklets(values["chunks"])
    rca = nearfar.RCA(shrinkage=0.0).fit(X, chunklets)
    n = np.count_nonzero(chunklets.ids >= 0)
    assert_same(rca, learned["RCA"] * (n - len(chunklets)) / n, 1e-6)


def paper_scales(k):
    """Distance of each row to the k-th nearest of its class."""
    scales = np.empty(len(X))
    for rows in (np.flatnonzero(label == Y) for label in np.unique(Y)):
        scales[rows] = np.sort(cdist(X[rows], X[rows]), axis=1)[:, k]
    return scales


def lfda(size, n_components, embedding, shift):
    """Local Fisher discriminant analysis by loops over pairs; `shift` is added to eigenvalues."""
    n = len(X)
    squared = cdist(X, X) ** 2
    within, between = np.zeros((2, 4, 4))
    for i in range(n):
        for j in range(n):
            outer = np.outer(X[i] - X[j], X[i] - X[j]) / 2
            if Y[i] != Y[j]:
                between += outer / n
                continue
            product, members = size[i] * size[j], np.count_nonzero(Y[i] == Y)
            affinity = np.exp(-squared[i, j] / product) if product > 0 else 0.0
            within += affinity / members * outer
            between += affinity * (1 / n - 1 / members) * outer
    eigenvalues, V = eigh(between, within)
    eigenvalues, V = eigenvalues[::-1][:n_components] + shift, V[:, ::-1][:, :n_components]
    if embedding == "orthonormalized":
        V = np.linalg.qr(V)[0]
    elif embedding == "weighted":
        V = V * np.sqrt(eigenvalues)
    return V @ V.T


@pytest.mark.parametrize("embedding", ["plain", "weighted", "orthonormalized"])
def test_lfda_is_that_of_the_paper(learned, values, embedding):
    # metric-learn takes scales of its own: see metric_learn_values.py.
    expected = lfda(values["LFDA scales"], 2, embedding, shift=2.0)
    np.testing.assert_allclose(learned[f"LFDA {embedding}"], expected, rtol=1e-9)
    ours = nearfar.LFDA(
        n_neighbors=3, embedding=embedding, shrinkage=0.0, n_components=2, scale=None
    )
    assert_same_shape(ours.fit(X, Y), lfda(paper_scales(3), 2, embedding, shift=0.0), 1e-6)


def test_nca(learned, values):
    points, y = map(np.array, values["blobs"])
    nca = nearfar.NCA(init=Metric.identity(2), scale=None, tol=1e-12, max_iter=2000)
    assert_same(nca.fit(points, y), learned["NCA"])


def test_itml(learned, pairs, values):
    itml = nearfar.ITML(
        gamma=1.0 * len(pairs) / X.shape[1],
        bounds=np.sqrt(values["bounds"]),
        scale=None,
        tol=1e-10,
        max_iter=10_000,
    )
    assert_same(itml.fit(X, pairs), learned["ITML"])


def regression_loss(M, points, numbers):
    """Squared error of leave-one-out kernel regression."""
    L = Metric.from_matrix(M).transform(points)
    kernel = np.exp(-(cdist(L, L) ** 2))
    np.fill_diagonal(kernel, 0.0)
    return ((kernel @ numbers / kernel.sum(axis=1) - numbers) ** 2).sum()


def test_mlkr(learned):
    points, numbers = IRIS[::2, :2], IRIS[::2, 2]
    mlkr = nearfar.MLKR(init=Metric.identity(2), scale=None, tol=1e-12, max_iter=2000)
    mlkr.fit(points, numbers)
    assert_same(mlkr, learned["MLKR"])
    theirs = regression_loss(learned["MLKR"], points, numbers)
    assert regression_loss(mlkr.metric_.matrix, points, numbers) <= theirs * (1 + 1e-6)


def separation(M, pairs):
    """What MMC maximises, whatever the length of M."""
    distances = Metric.from_matrix(M).pair_distances(X, pairs.index)
    return distances[~pairs.similar].sum() / np.sqrt((distances[pairs.similar] ** 2).sum())


@pytest.mark.parametrize("diagonal", [False, True])
def test_mmc_goes_further(learned, pairs, diagonal):
    """metric-learn ends before the optimum, although it may take many iterations."""
    theirs = learned["MMC diagonal" if diagonal else "MMC"]
    paper = {"prior": None, "shrinkage": 0.0, "scale": None}
    mmc = nearfar.MMC(diagonal=diagonal, **paper, tol=1e-9).fit(X, pairs)
    assert separation(mmc.metric_.matrix, pairs) > separation(theirs, pairs)


def comparison_loss(M, index):
    """What LSML minimises, from the identity and with weights that add up to one."""
    metric = Metric.from_matrix(M)
    near, far = (metric.pair_distances(X, index[:, [0, end]]) for end in (1, 2))
    violation = np.maximum(near - far, 0.0)
    return (violation**2).mean() + np.trace(M) - np.linalg.slogdet(M)[1]


def lsml(index):
    """Fit with the weight of the prior that metric-learn has, which depends on the units of X."""
    squared = [((X[index[:, 0]] - X[index[:, end]]) ** 2).sum(axis=1).mean() for end in (1, 2)]
    used = X[np.unique(index)]
    weight = np.linalg.matrix_rank(used - used.mean(axis=0)) / np.mean(squared)
    learner = nearfar.LSML(prior_weight=weight, scale=None, tol=1e-12, max_iter=10_000)
    return learner.fit(X, Triplets(index))


def test_lsml_of_one_comparison(learned, values):
    assert_same(lsml(np.array([values["violated triplet"]])), learned["LSML of one comparison"])


def test_lsml_goes_further(learned, values):
    """metric-learn's gradient adds up the comparisons that its objective averages."""
    index = np.array(values["triplets"])
    ours = comparison_loss(lsml(index).metric_.matrix, index)
    assert ours < comparison_loss(learned["LSML"], index) < comparison_loss(np.eye(4), index)


def margin_loss(M, n_targets=3, push=0.5):
    """What LMNN minimises, by loops; the targets are the nearest in the units of X."""
    squared = Metric.from_matrix(M).distances(X) ** 2
    plain = cdist(X, X)
    np.fill_diagonal(plain, np.inf)
    loss = 0.0
    for i in range(len(X)):
        same, other = np.flatnonzero(Y[i] == Y), np.flatnonzero(Y[i] != Y)
        for j in same[np.argsort(plain[i, same], kind="stable")[:n_targets]]:
            hinge = np.maximum(1 + squared[i, j] - squared[i, other], 0.0)
            loss += (1 - push) * squared[i, j] + push * hinge.sum()
    return loss


def test_lmnn(learned):
    """The problem is convex in M, but metric-learn's steps do not reach its optimum."""
    lmnn = nearfar.LMNN(n_neighbors=3, push=0.5, scale=None, tol=1e-10, max_iter=5000)
    found = lmnn.fit(X, Y).metric_.matrix
    assert margin_loss(found) < margin_loss(learned["LMNN"]) < margin_loss(np.eye(4))
    assert_same(lmnn, learned["LMNN"], 0.05)
