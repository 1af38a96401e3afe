"""FrobMetric against a generic convex solver, its optimality conditions and plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier

from nearfar import AutoMetric, FrobMetric, Metric, NearestTriplets, Pairs, Triplets
from nearfar.learners.scaling import Scaler
from problems import DEGENERATE, degenerate_points, posed_triplets
from references import triplets as reference


def identity_prior(X, triplets, weight):
    """Return the multiple of the identity under which triplets have this mean square."""
    anchor, near, far = triplets.index.T
    squares = ((X[anchor] - X[near]) ** 2).sum(1) + ((X[anchor] - X[far]) ** 2).sum(1)
    mean = np.average(squares / 2, weights=triplets.weight)
    return weight / mean * np.eye(X.shape[1])


PROBLEMS = {
    "weak": ({"seed": 0}, {"C": 0.5, "prior": None}),
    "C=10": ({"seed": 1, "n_features": 4}, {"C": 10.0, "prior": None}),
    "C=1000": ({"seed": 2, "n_features": 4}, {"C": 1000.0, "prior": None}),
    "weighted": ({"seed": 3, "weighted": True}, {"C": 20.0, "prior": None}),
    "prior": ({"seed": 4, "n_features": 5}, {"C": 20.0, "prior": "identity", "prior_weight": 2.0}),
    "wide": ({"seed": 5, "n": 6, "n_features": 15, "m": 12}, {"C": 5.0, "prior": "identity"}),
}


@pytest.fixture(scope="module", params=PROBLEMS)
def solved(request):
    problem, settings = PROBLEMS[request.param]
    X, triplets, A, p = posed_triplets(**problem)
    P = np.zeros((X.shape[1], X.shape[1]))
    if settings["prior"] is not None:
        P = identity_prior(X, triplets, settings.get("prior_weight", 1.0))
    learner = FrobMetric(scale=None, tol=1e-5, warm_start=True, **settings).fit(X, triplets)
    value, M = reference.frobenius_optimum(A, p, settings["C"], P)
    return learner, A, p, settings["C"], P, value, M


class TestOptimum:
    def test_is_that_of_a_generic_solver(self, solved):
        learner, *_, value, M = solved
        assert learner.history_.stopped == "converged"
        assert learner.history_.objective[-1] == pytest.approx(value, rel=2e-5)
        np.testing.assert_allclose(learner.metric_.matrix, M, atol=5e-3 * np.abs(M).max())

    def test_the_reported_objective_is_that_of_the_metric(self, solved):
        learner, A, p, C, P, *_ = solved
        expected = reference.frobenius_objective(learner.metric_.matrix, A, p, C, P)
        assert learner.history_.objective[-1] == pytest.approx(expected, rel=1e-9)

    def test_gaps_bound_the_optimum_in_every_iteration(self, solved):
        learner, *_, value, _ = solved
        objective, gap = learner.history_.objective, learner.history_.gap
        assert (objective >= value * (1 - 1e-7)).all()
        assert (objective - gap <= value * (1 + 1e-7)).all()
        assert learner.gap_ <= 1e-5 * objective[-1]


def test_no_penalty_is_the_prior():
    X, y = load_iris(return_X_y=True)
    M = FrobMetric(C=0.0, scale=None).fit(X, y).metric_.matrix
    np.testing.assert_allclose(M, M[0, 0] * np.eye(4), atol=1e-12)
    own = Metric(np.diag([1.0, 2.0, 3.0, 4.0]))
    M = FrobMetric(C=0.0, scale=None, prior=own).fit(X, y).metric_.matrix
    np.testing.assert_allclose(M, M[0, 0] * own.matrix, atol=1e-12)
    with pytest.warns(ConvergenceWarning, match="Nothing was learned"):
        FrobMetric(scale="standard", C=0.0, prior=None).fit(X, y)


def test_margins_grow_with_the_penalty():
    X, y = load_wine(return_X_y=True)
    triplets = NearestTriplets()(X, y)
    wrong = []
    for C in (1.0, 100.0, 1e4):
        metric = FrobMetric(scale="standard", C=C, tol=1e-2).fit(X, triplets).metric_
        wrong.append(1 - metric.prefers(X, triplets.index).mean())
    assert wrong[0] > wrong[1] > wrong[2]


class TestWideData:
    """The problem is solved in the space that the points span, and is the same there."""

    def setup_method(self):
        rng = np.random.default_rng(0)
        self.X = rng.standard_normal((15, 50))
        self.y = np.arange(15) % 3
        self.own = Metric(rng.standard_normal((4, 50)))

    def test_outside_the_points_the_prior_stays(self):
        learner = FrobMetric(C=10.0, scale="unit").fit(self.X, self.y)
        outside = np.linalg.svd(self.X - self.X.mean(axis=0))[2][14:]
        M = outside @ learner.metric_.matrix @ outside.T
        np.testing.assert_allclose(M, M[0, 0] * np.eye(len(M)), atol=1e-9 * M[0, 0])


def test_a_doubled_weight_is_a_repeated_triplet():
    X, triplets, *_ = posed_triplets(8)
    weight = np.where(np.arange(60) % 7 == 0, 2.0, 1.0)
    repeated = Triplets(np.concatenate([triplets.index, triplets.index[::7]]))
    learner = FrobMetric(scale="standard", C=20.0, tol=1e-7)
    once = learner.fit(X, Triplets(triplets.index, weight)).metric_.matrix
    twice = learner.fit(X, repeated).metric_.matrix
    np.testing.assert_allclose(once, twice, atol=1e-3 * once.max())


def test_pairs_are_the_triplets_that_share_a_row():
    X, _ = load_iris(return_X_y=True)
    pairs = Pairs([[0, 1], [0, 60], [0, 120], [60, 61]], [True, False, False, True])
    one = FrobMetric(scale="standard").fit(X, pairs).metric_.matrix
    np.testing.assert_array_equal(
        one, FrobMetric(scale="standard").fit(X, pairs.triplets()).metric_.matrix
    )


def test_float32_is_close_to_float64():
    X, y = load_wine(return_X_y=True)
    double, single = (
        FrobMetric(scale="standard", tol=1e-6).fit(X, y),
        FrobMetric(scale="standard", tol=1e-6),
    )
    single.fit(X.astype(np.float32), y)
    assert single.history_.objective[-1] == pytest.approx(double.history_.objective[-1], rel=1e-4)
    assert single.transform(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("scale", ["standard", "unit"])
def test_units_do_not_matter(scale):
    X, y = load_iris(return_X_y=True)
    learner = FrobMetric(C=100.0, tol=1e-6, scale=scale)
    first = learner.fit(X, y).metric_.distances(X)
    value = learner.history_.objective[-1]
    # A power of two changes no rounding.
    second = learner.fit(1024 * X, y).metric_.distances(1024 * X)
    np.testing.assert_allclose(first, second, rtol=1e-9)
    assert learner.fit(1000 * X, y).history_.objective[-1] == pytest.approx(value, rel=2e-6)


def test_multipliers_are_reused_for_another_penalty():
    X, y = load_wine(return_X_y=True)
    learner = FrobMetric(scale="standard", warm_start=True).fit(X, y)
    learner.set_params(C=1100.0).fit(X, y)
    alone = FrobMetric(scale="standard", C=1100.0).fit(X, y)
    assert learner.n_iter_ < alone.n_iter_
    assert learner.history_.objective[-1] == pytest.approx(alone.history_.objective[-1], rel=2e-3)


@pytest.mark.parametrize("kind", DEGENERATE)
@pytest.mark.parametrize(("scale", "dtype"), [("standard", np.float32), ("unit", np.float64)])
@pytest.mark.parametrize("prior", [None, "identity"])
@pytest.mark.filterwarnings("ignore:Nothing was learned")
def test_degenerate_points_give_finite_metrics(kind, scale, dtype, prior, rng):
    X = degenerate_points(kind, rng).astype(dtype)
    learner = FrobMetric(scale=scale, prior=prior).fit(X, np.arange(30) % 3)
    assert np.isfinite(learner.metric_.matrix).all()
    assert np.isfinite(learner.transform(X)).all()
    assert np.isfinite(learner.gap_)


class TestNothingToLearn:
    """Where the optimum is zero, the result is the prior."""

    X = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 1.0]])
    contradicted = Triplets([[0, 1, 2], [0, 3, 4]])

    @pytest.mark.parametrize("prior", [None, "identity", Metric(np.diag([3.0, 4.0]))])
    def test_is_the_prior(self, prior):
        with pytest.warns(ConvergenceWarning, match="the best metric is zero"):
            learner = FrobMetric(scale="unit", prior=prior).fit(self.X, self.contradicted)
        M = learner.metric_.matrix
        expected = prior.matrix if isinstance(prior, Metric) else np.eye(2)
        np.testing.assert_allclose(M / np.trace(M), expected / np.trace(expected), atol=1e-12)

    @pytest.mark.filterwarnings("ignore:Nothing was learned")
    def test_wide_points_keep_the_prior_outside_their_span_too(self):
        X = np.zeros((5, 20))
        X[:, :2] = self.X
        M = FrobMetric(scale="unit").fit(X, self.contradicted).metric_.matrix
        np.testing.assert_allclose(M, M[0, 0] * np.eye(20), atol=1e-12 * M[0, 0])

    @pytest.mark.filterwarnings("ignore:Nothing was learned")
    @pytest.mark.parametrize("spread", [0.0, 0.3, 0.6])
    @pytest.mark.parametrize("seed", range(2))
    def test_overlapping_classes_are_not_worse_than_euclidean_distance(self, seed, spread):
        X, y = overlapping_classes(seed, spread)
        learned = FrobMetric().fit(X[:700], y[:700])
        euclidean = Scaler.fit(X[:700], learned.scale_).euclidean
        errors = [neighbor_error(metric, X, y) for metric in (learned.metric_, euclidean)]
        assert errors[0] <= errors[1] + 0.02

    @pytest.mark.filterwarnings("ignore:Nothing was learned")
    def test_it_is_a_candidate_of_auto_metric(self):
        X, y = overlapping_classes(0, 0.0)
        auto = AutoMetric(candidates=[FrobMetric()], random_state=0).fit(X, y)
        assert not any(entry["note"] for entry in auto.leaderboard_)


def overlapping_classes(seed, spread, n=1035, n_features=8):
    """Return ten classes of unequal size whose centers are closer than their rows."""
    rng = np.random.default_rng(seed)
    y = rng.choice(10, n, p=np.array([31, 29, 16, 11, 4, 3, 2, 2, 1, 1]) / 100)
    X = spread * rng.standard_normal((10, n_features))[y] + rng.standard_normal((n, n_features))
    X[:, -1] = rng.random(n) < 0.02
    return X, y


def neighbor_error(metric, X, y):
    """Return the error of 3 nearest neighbours on the rows after the first 700."""
    Z = metric.transform(X)
    return 1 - KNeighborsClassifier(3).fit(Z[:700], y[:700]).score(Z[700:], y[700:])


@pytest.mark.parametrize("prior_weight", [1e-4, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("C", [1e-8, 1e-4, 1.0, 1e4])
def test_the_gap_is_certified_whatever_the_sizes(C, prior_weight):
    """The value of the dual must not cancel near a large prior."""
    X, y = overlapping_classes(1, 1.0, n=80)
    for prior in ("identity", Metric(np.diag(10.0 ** np.arange(-4.0, 4.0))[:5])):
        learner = FrobMetric(
            C=C, prior=prior, prior_weight=prior_weight, scale="unit", validation_fraction=None
        )
        learner.fit(X, y)
        assert learner.history_.stopped == "converged"
        assert learner.gap_ <= 1e-3 * learner.history_.objective[-1]


def test_thousands_of_points_converge():
    X, y = make_blobs(3000, 256, centers=20, cluster_std=12.0, random_state=0)
    learner = FrobMetric(scale="standard").fit(X, y)
    assert learner.history_.stopped == "converged"
