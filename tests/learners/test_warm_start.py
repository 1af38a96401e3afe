"""Fits that continue: from the last fit, from a file, with other rows or other constraints."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import nearfar
from nearfar import (
    ITML,
    LMNN,
    LSML,
    MMC,
    NCA,
    BoostMetric,
    DRMetric,
    FrobMetric,
    MaxMarginMetric,
    Metric,
    MetricBoost,
    MixtureNCA,
    PSDBoost,
    RandomPairs,
    RandomTriplets,
    SparseNCA,
)
from nearfar.learners.base import ConstraintLearner, MetricLearner
from nearfar.learners.nca.soft_neighbors import SoftNeighbors
from problems import half_of, log_probabilities, public_names

X, Y, _ = half_of("wine")
X, Y = X[:, :4], np.where(np.arange(len(X)) % 10 == 0, (Y + 1) % 3, Y)
PAIRS = RandomPairs(400)(X, Y, np.random.RandomState(0))
OTHER_ROWS = X[:60], Y[:60]

LEARNERS = [
    member
    for member in public_names()
    if isinstance(member, type)
    and issubclass(member, MetricLearner)
    and "labels" in member.supervision
    and "warm_start" in member().get_params()
]
TO_THE_OPTIMUM = {
    BoostMetric: {"corrective": True, "penalty": 0.1, "prior": None},
    DRMetric: {"independence": 0.0, "tol": 1e-10, "max_iter": 300},
    FrobMetric: {"tol": 1e-7},
    ITML: {"tol": 1e-9, "random_state": 0},
    LMNN: {"n_neighbors": 10, "tol": 1e-9},
    LSML: {"tol": 1e-9, "random_state": 0},
    MaxMarginMetric: {"tol": 1e-6, "random_state": 0},
    MMC: {"tol": 1e-8, "random_state": 0},
    MetricBoost: {"tol": 1e-9, "max_iter": 1000},
    MixtureNCA: {"n_metrics": 2, "tol": 1e-7, "max_iter": 500, "random_state": 0},
    NCA: {"objective": "likelihood", "tol": 1e-8},
    PSDBoost: {"tol": 1e-7},
    SparseNCA: {"tol": 1e-10},
}
TO_THE_OPTIMUM = {cls: given | {"scale": "standard"} for cls, given in TO_THE_OPTIMUM.items()}
"""Parameters with which learners go all the way."""

CONVEX = [BoostMetric, DRMetric, FrobMetric, ITML, LMNN, LSML, MaxMarginMetric, MMC, PSDBoost]
"""Learners that then end at the same optimum from anywhere."""


def interrupted(learner, X, y):
    """Fit two iterations, and restore the number of iterations."""
    max_iter = learner.max_iter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        learner.set_params(max_iter=2, warm_start=True).fit(X, y)
    return learner.set_params(max_iter=max_iter)


def from_file(learner, path):
    """Return a fresh learner that continues from a saved metric."""
    learner.metric_.save(path)
    fresh = clone(learner)
    fresh.metric_ = Metric.load(path)
    return fresh


@pytest.fixture(params=LEARNERS, ids=lambda cls: cls.__name__)
def learner(request):
    return request.param(**TO_THE_OPTIMUM[request.param])


def assert_same_optimum(learner, X, y):
    """Continue, and compare with an uninterrupted fit: objectives to 1e-5, distances to 1e-3."""
    whole = clone(learner).set_params(warm_start=False).fit(X, y)
    learner.fit(X, y)
    assert learner.history_.stopped == whole.history_.stopped == "converged"
    assert learner.history_.objective[-1] == pytest.approx(whole.history_.objective[-1], rel=1e-5)
    expected = whole.metric_.distances(X)
    np.testing.assert_allclose(learner.metric_.distances(X), expected, atol=1e-3 * expected.max())


class TestEveryLearner:
    @pytest.mark.slow
    def test_ends_at_the_optimum_of_an_uninterrupted_fit(self, learner, tmp_path):
        interrupted(learner, X, Y)
        loaded = from_file(learner, tmp_path / "metric")
        assert_same_optimum(learner, X, Y)
        assert_same_optimum(loaded, X, Y)

    def test_a_finished_fit_ends_at_once(self, learner):
        if isinstance(learner, FrobMetric | MaxMarginMetric | PSDBoost):
            return  # A metric does not tell what bounds its optimum.
        before = learner.set_params(warm_start=True).fit(X, Y).metric_.distances(X)
        first, value = learner.n_iter_, learner.history_.objective[-1]
        learner.fit(X, Y)
        assert learner.n_iter_ <= max(2, first // 10)
        assert learner.history_.objective == pytest.approx(value, rel=1e-5)
        np.testing.assert_allclose(learner.metric_.distances(X), before, atol=1e-3 * before.max())

    def test_pickled_learners_continue_and_clones_do_not(self, learner):
        interrupted(learner, X, Y)
        copy = pickle.loads(pickle.dumps(learner))
        assert not hasattr(clone(learner), "metric_")
        first = learner.transform(X)
        expected = interrupted(learner, X, Y).transform(X)
        assert not np.array_equal(expected, first)
        np.testing.assert_array_equal(interrupted(copy, X, Y).transform(X), expected)

    def test_without_warm_start_the_last_metric_is_ignored(self, learner):
        interrupted(learner, X, Y).set_params(max_iter=2, warm_start=False)
        expected = learner.transform(X)
        learner.metric_ = Metric(np.diag([1.0, 100.0, 1.0, 1e-3]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            np.testing.assert_array_equal(learner.fit(X, Y).transform(X), expected)

    def test_other_features_are_refused(self, learner):
        before = interrupted(learner, X, Y).transform(X)
        with pytest.raises(ValueError, match="metric is for 4 features; X has 3"):
            learner.fit(X[:, :3], Y)
        np.testing.assert_array_equal(learner.transform(X), before)


@pytest.mark.parametrize(
    "cls",
    [cls for cls in CONVEX if issubclass(cls, ConstraintLearner)],
    ids=lambda c: c.__name__,
)
def test_continues_with_other_constraints(cls):
    learner = interrupted(cls(**TO_THE_OPTIMUM[cls]), X, PAIRS)
    strategy = RandomTriplets(300) if "triplets" in cls.supervision else RandomPairs(300)
    constraints = strategy(X, Y, np.random.RandomState(1))
    assert_same_optimum(learner, X, constraints)


@pytest.mark.parametrize("cls", CONVEX, ids=lambda cls: cls.__name__)
def test_continues_with_other_rows(cls):
    learner = cls(**TO_THE_OPTIMUM[cls])
    assert_same_optimum(interrupted(learner, *OTHER_ROWS), X, Y)


def halves(learner, X, y, number):
    """Return a fit of `number` iterations, and one of two halves."""
    whole = clone(learner).set_params(max_iter=number).fit(X, y)
    parts = clone(learner).set_params(max_iter=number // 2, warm_start=True)
    return whole, [clone(parts).fit(X, y), parts.fit(X, y).fit(X, y)]


def assert_same_matrix(learner, expected):
    M = expected.metric_.matrix
    np.testing.assert_allclose(learner.metric_.matrix, M, atol=1e-6 * np.abs(M).max())


class TestBoosting:
    @pytest.mark.parametrize(
        "learner",
        [
            BoostMetric(scale="standard"),
            BoostMetric(scale="standard", prior=None),
            BoostMetric(variant="paper"),
            MetricBoost(scale="standard"),
            MetricBoost(scale="standard", response="normalized"),
            MetricBoost(scale="standard", constraints=nearfar.NearestTriplets()),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("name", ["iris", "wine"])
    def test_two_halves_are_the_whole(self, learner, name):
        X, y, _ = half_of(name)
        whole, (half, continued) = halves(learner.set_params(tol=0.0), X, y, 40)
        assert half.n_iter_ + continued.n_iter_ == whole.n_iter_
        both = np.append(half.history_.objective, continued.history_.objective)
        np.testing.assert_allclose(both, whole.history_.objective, rtol=1e-5)
        weights = np.append(half.weights_, continued.weights_)
        np.testing.assert_allclose(weights, whole.weights_, rtol=1e-6)
        directions = np.vstack([half.directions_, continued.directions_])
        overlap = np.abs((directions * whole.directions_).sum(axis=1))
        np.testing.assert_allclose(overlap, 1.0, atol=1e-6)
        assert_same_matrix(continued, whole)
        stages = [half.metric_, *continued.staged_metrics()]
        assert len(stages) == 1 + continued.n_iter_
        np.testing.assert_allclose(stages[-1].matrix, continued.metric_.matrix, rtol=1e-12)

    @pytest.mark.parametrize(
        "learner", [BoostMetric(scale="standard"), MetricBoost(scale="standard")], ids=str
    )
    @pytest.mark.parametrize("name", ["iris", "wine"])
    def test_a_file_takes_the_place_of_the_first_half(self, learner, name, tmp_path):
        X, y, _ = half_of(name)
        whole, (half, _) = halves(learner.set_params(tol=0.0), X, y, 40)
        assert_same_matrix(from_file(half, tmp_path / "metric").fit(X, y), whole)

    @pytest.mark.parametrize("name", ["iris", "wine"])
    @pytest.mark.parametrize("constraints", [None, nearfar.NearestTriplets()])
    def test_binary_models_have_the_same_votes(self, name, constraints, tmp_path):
        X, y, _ = half_of(name)
        learner = MetricBoost(scale="standard", response="binary", constraints=constraints)
        whole, (half, continued) = halves(learner, X, y, 8)
        loaded = from_file(half, tmp_path / "metric").fit(X, y)
        for found in (continued, loaded):
            np.testing.assert_allclose(found.alphas_, whole.alphas_, rtol=1e-9)
            votes, expected = found.metric_.votes, whole.metric_.votes
            np.testing.assert_allclose(votes.thresholds, expected.thresholds, rtol=1e-9)
            overlap = np.abs((votes.directions * expected.directions).sum(axis=1))
            np.testing.assert_allclose(overlap, (expected.directions**2).sum(axis=1), rtol=1e-9)
            assert_same_matrix(found, whole)

    @pytest.mark.parametrize(
        "learner",
        [BoostMetric(scale="standard"), MetricBoost(scale="standard", block_size=1)],
        ids=str,
    )
    def test_terms_are_only_added(self, learner):
        first = interrupted(learner, *OTHER_ROWS).metric_.matrix
        added = np.linalg.eigvalsh(learner.set_params(max_iter=5).fit(X, Y).metric_.matrix - first)
        assert added.min() > -1e-9 * added.max()
        assert len(learner.weights_) == learner.n_iter_

    def test_forms_that_are_no_metrics_cannot_be_continued(self):
        learner = MetricBoost(variant="paper", max_iter=3, warm_start=True).fit(X, Y)
        with pytest.raises(ValueError, match="cannot continue from a SignedForm"):
            learner.fit(X, Y)

    def test_only_linear_metrics_can_be_continued(self):
        learner = BoostMetric(scale="standard", warm_start=True)
        gated = (
            MixtureNCA(scale="standard", n_metrics=2, tol=1e-3, random_state=0).fit(X, Y).metric_
        )
        kernel = (
            MaxMarginMetric(scale="standard", kernel="rbf", n_basis=5, random_state=0)
            .fit(X, Y)
            .metric_
        )
        for metric in (gated, kernel):
            learner.metric_ = metric
            with pytest.raises(ValueError, match="without a kernel or a gate"):
                learner.fit(X, Y)


class TestMaxMargin:
    def test_kernels(self, tmp_path):
        learner = MaxMarginMetric(
            scale="standard", kernel="rbf", gamma=0.1, n_basis=12, tol=1e-5, warm_start=True
        )
        first = learner.fit(X, PAIRS).history_.objective[-1]
        loaded = from_file(learner, tmp_path / "metric").fit(X, PAIRS)
        for continued in (loaded, learner.fit(X, PAIRS)):
            assert continued.history_.objective[-1] == pytest.approx(first, rel=2e-5)
        with pytest.raises(ValueError, match="another kernel basis"):
            learner.set_params(n_basis=5).fit(X, PAIRS)
        with pytest.raises(ValueError, match="without a kernel"):
            learner.set_params(kernel=None).fit(X, PAIRS)


@pytest.mark.parametrize(
    "learner",
    [NCA(scale="standard", objective="likelihood"), SparseNCA(scale="standard", sparsity=0.0)],
    ids=lambda x: type(x).__name__,
)
def test_soft_neighbours_begin_at_the_last_map(learner):
    interrupted(learner, *OTHER_ROWS)
    start = -log_probabilities(SoftNeighbors(X, Y), learner.components_).mean()
    assert learner.fit(X, Y).history_.objective[0] < start


class TestMixture:
    def test_metrics_and_gate_continue_as_printed(self, tmp_path):
        learner = MixtureNCA(n_metrics=2, variant="paper", random_state=0)
        whole, (half, continued) = halves(learner, X, Y, 6)
        loaded = from_file(half, tmp_path / "metric").fit(X, Y)
        for found in (continued, loaded):
            np.testing.assert_allclose(found.gate_[0], whole.gate_[0], atol=1e-9)
            np.testing.assert_allclose(
                found.metric_.distances(X), whole.metric_.distances(X), rtol=1e-9
            )
            assert found.history_.objective[-1] == pytest.approx(whole.history_.objective[-1])

    def test_fewer_components(self):
        learner = MixtureNCA(
            scale="standard", n_metrics=2, tol=1e-3, random_state=0, warm_start=True
        ).fit(X, Y)
        assert learner.set_params(n_components=1).fit(X, Y).transform(X).shape == (len(X), 1)
