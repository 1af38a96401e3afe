"""BoostMetric against the brute-force reference, the optimum of (P0), and its own promises."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning

from nearfar import BoostMetric, Metric, NearestTriplets, RandomPairs, Triplets
from nearfar.datasets import make_known_metric
from nearfar.learners.boosting import boostmetric
from nearfar.learners.boosting.base import boost
from nearfar.learners.boosting.boostmetric import PenalizedLoss
from nearfar.learners.boosting.triplet_operator import TripletOperator
from problems import half_of
from references import boostmetric as reference

LETTER = {"prior": None, "scale": None, "tol": 0.0}
MEANS = ["logistic", "squared_hinge"]


def relative(M):
    return M / np.trace(M)


@pytest.mark.parametrize("penalty", [1e-7, 1e-2, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_brute_force(labelled_problem, penalty, weighted, rng):
    X, y, triplets = labelled_problem
    np.testing.assert_array_equal(triplets.index, reference.mine(X, y, 2, 2))
    weight = rng.random(len(triplets)) + 0.1 if weighted else None
    brute = reference.boost(X, triplets.index, weight=weight, penalty=penalty, max_iter=25)
    learner = BoostMetric(**LETTER, penalty=penalty, max_iter=25)
    learner.fit(X, Triplets(triplets.index, weight))
    assert learner.n_iter_ == len(brute.steps)
    mean_weight = 1.0 if weight is None else weight.mean()
    np.testing.assert_allclose(
        learner.history_.objective, brute.objectives + np.log(mean_weight), atol=1e-10
    )
    np.testing.assert_allclose(learner.history_.eigenvalue, brute.eigenvalues, rtol=1e-8)
    np.testing.assert_allclose(learner.history_.step, brute.steps, rtol=1e-8)
    np.testing.assert_allclose(learner.metric_.matrix, brute.M, atol=1e-8 * np.abs(brute.M).max())
    operator = TripletOperator(X, Triplets(triplets.index, weight), unit=1.0)
    margins = operator.embedding_margins(learner.transform(X))
    np.testing.assert_allclose(operator.loss_and_weights(margins)[1], brute.u, atol=1e-8)


@pytest.mark.parametrize("v", [1e-7, 0.05])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_each_printed_iteration_equals_loops(labelled_problem, v):
    X, _, triplets = labelled_problem
    learner = BoostMetric(variant="paper", penalty=v, max_iter=15).fit(X, triplets)
    printed = reference.printed_run(X, triplets.index, v, 15)
    # The printed stop is strict: iterations at v itself, up to rounding, change nothing.
    assert learner.n_iter_ <= len(printed)
    assert all(eigenvalue < v + 1e-6 for eigenvalue, *_ in printed[learner.n_iter_ :])
    learned = zip(learner.history_, learner.staged_metrics(), printed, strict=False)
    for iteration, metric, (eigenvalue, w, M, _) in learned:
        assert iteration.eigenvalue == pytest.approx(eigenvalue, rel=1e-8)
        assert iteration.step == pytest.approx(w, rel=1e-7)
        np.testing.assert_allclose(metric.matrix, M, atol=1e-7 * np.abs(M).max())


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_bisection_and_newton_find_the_same_steps(labelled_problem, loss):
    X, _, triplets = labelled_problem
    newton, bisection = (
        BoostMetric(max_iter=6, loss=loss, line_search=name).fit(X, triplets)
        for name in ("newton", "bisection")
    )
    np.testing.assert_allclose(bisection.weights_, newton.weights_, rtol=1e-7)
    np.testing.assert_allclose(bisection.metric_.matrix, newton.metric_.matrix, rtol=1e-6)


def test_agrees_with_brute_force_from_a_prior(labelled_problem):
    X, _, triplets = labelled_problem
    prior = Metric(np.diag(np.arange(1.0, X.shape[1] + 1)))
    A = reference.triplet_matrices(X, triplets.index)
    near, far = (prior.pair_distances(X, triplets.index[:, [0, j]]) ** 2 for j in (1, 2))
    scaled = 0.7 * prior.matrix / np.mean((near + far) / 2)
    offset = np.tensordot(A, scaled, 2)
    brute = reference.boost(X, triplets.index, offset=offset, max_iter=20)
    learner = BoostMetric(prior=prior, prior_weight=0.7, scale=None, tol=0.0, max_iter=20)
    learner.fit(X, triplets)
    np.testing.assert_allclose(learner.history_.objective, brute.objectives, atol=1e-9)
    np.testing.assert_allclose(learner.metric_.matrix, scaled + brute.M, atol=1e-8)


@pytest.mark.parametrize("loss", MEANS)
@pytest.mark.parametrize("penalty", [1e-7, 1e-2, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_other_losses_agree_with_brute_force(labelled_problem, loss, penalty, weighted, rng):
    X, _, triplets = labelled_problem
    index = triplets.index[::2]
    weight = rng.random(len(index)) + 0.1 if weighted else None
    brute = reference.boost_mean(X, index, loss, weight=weight, penalty=penalty, max_iter=8)
    learner = BoostMetric(**LETTER, loss=loss, penalty=penalty, max_iter=8)
    learner.fit(X, Triplets(index, weight))
    assert learner.n_iter_ == len(brute.steps) > 2
    np.testing.assert_allclose(learner.history_.objective, brute.objectives, rtol=1e-12)
    np.testing.assert_allclose(learner.history_.eigenvalue, brute.eigenvalues, rtol=1e-8)
    np.testing.assert_allclose(learner.history_.step, brute.steps, rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(learner.metric_.matrix, brute.M, atol=1e-10 * np.abs(brute.M).max())


@pytest.mark.parametrize("loss", MEANS)
def test_other_losses_agree_with_brute_force_from_a_prior(labelled_problem, loss):
    """Margins of -400 and less, where the logistic loss has no curvature."""
    X, _, triplets = labelled_problem
    index = triplets.index[::2]
    size = 3000.0 / np.mean([np.sum((X[i] - X[j]) ** 2) for i, *ends in index for j in ends])
    offset = size * np.einsum("rii->r", reference.triplet_matrices(X, index))
    assert offset.min() < -400
    brute = reference.boost_mean(X, index, loss, max_iter=5, offset=offset)
    learner = BoostMetric(scale=None, tol=0.0, loss=loss, prior_weight=3000.0, max_iter=5)
    learner.fit(X, Triplets(index))
    np.testing.assert_allclose(learner.history_.objective, brute.objectives, rtol=1e-9)
    M = size * np.eye(X.shape[1]) + brute.M
    np.testing.assert_allclose(learner.metric_.matrix, M, atol=1e-7 * np.trace(M))


@pytest.mark.parametrize("loss", MEANS)
@pytest.mark.parametrize("penalty", [1e-6, 1e-3, 0.3])
def test_other_losses_reach_their_optimum(labelled_problem, loss, penalty):
    """Without a warning, also where some metric satisfies every triplet."""
    X, _, triplets = labelled_problem
    learner = BoostMetric(**LETTER | {"tol": 1e-7}, loss=loss, penalty=penalty, corrective=True)
    learner.fit(X, triplets)
    assert learner.history_.stopped == "converged"
    v = reference.boost_mean(X, triplets.index, loss, penalty=penalty, max_iter=0).v
    M = learner.metric_.matrix
    gap, excess = reference.optimality(X, triplets.index, M, loss, v)
    assert abs(gap) + excess * np.trace(M) <= 1e-7
    assert learner.gap_ == pytest.approx(gap + excess * np.trace(M), abs=1e-10)
    greedy = BoostMetric(**LETTER, loss=loss, penalty=penalty).fit(X, triplets)
    above = greedy.history_.objective[-1] - learner.history_.objective[-1]
    assert above >= -1e-7
    if np.trace(M) <= np.trace(greedy.metric_.matrix):
        assert above <= greedy.gap_


@pytest.mark.parametrize("loss", ["exponential", *MEANS])
@pytest.mark.parametrize("penalty", [0.99, 1.0])
def test_the_penalty_is_relative_for_every_loss(labelled_problem, loss, penalty):
    X, _, triplets = labelled_problem
    learner = BoostMetric(**LETTER, loss=loss, penalty=penalty)
    if penalty < 1:
        assert learner.fit(X, triplets).n_iter_ > 0
    else:
        with pytest.warns(ConvergenceWarning, match="the penalty is too large"):
            assert learner.fit(X, triplets).n_iter_ == 0


@pytest.mark.parametrize(("name", "penalty"), [("iris", 1e-3), ("iris", 0.3), ("wine", 0.3)])
def test_corrective_reaches_the_optimum(name, penalty):
    X, _, triplets = half_of(name)
    learner = BoostMetric(**LETTER | {"tol": 1e-8}, penalty=penalty, corrective=True)
    learner.fit(X, triplets)
    operator = TripletOperator(X, triplets, unit=1.0)
    v = penalty * operator.leading_eigenpair(operator.loss_and_weights(operator.start())[1])[0]
    M, value = reference.optimum(X, triplets.index, v=v)
    assert learner.history_.stopped == "converged"
    assert learner.history_.objective[-1] == pytest.approx(value, abs=1e-7)
    np.testing.assert_allclose(learner.metric_.matrix, M, atol=1e-4 * np.trace(M))
    assert learner.gap_ <= 1e-8
    greedy = BoostMetric(**LETTER, penalty=penalty).fit(X, triplets)
    assert greedy.history_.objective[-1] >= value - 1e-9
    assert greedy.history_.objective[-1] - value <= greedy.gap_ + 1e-9


def test_the_gap_bounds_the_distance_to_the_optimum():
    X, _, triplets = half_of("iris")
    exact = BoostMetric(**LETTER | {"tol": 1e-8}, penalty=0.1, corrective=True).fit(X, triplets)
    A = reference.triplet_matrices(X, triplets.index)
    operator = TripletOperator(X, triplets, unit=1.0)
    v = 0.1 * operator.leading_eigenpair(operator.loss_and_weights(operator.start())[1])[0]
    optimum = exact.metric_.matrix
    for number in (1, 2, 4):
        learner = BoostMetric(**LETTER, penalty=0.1, max_iter=number).fit(X, triplets)
        share = min(1.0, np.trace(learner.metric_.matrix) / np.trace(optimum))
        reachable = reference.objective(A, share * optimum, v, np.ones(len(A)))
        assert learner.history_.objective[-1] - reachable <= learner.gap_ + 1e-9
        assert learner.history_.objective[-1] >= exact.history_.objective[-1] - 1e-9


def test_corrective_says_when_the_problem_is_unbounded():
    X, _, triplets = half_of("wine")
    with pytest.warns(ConvergenceWarning, match="penalty is too small"):
        learner = BoostMetric(**LETTER, corrective=True).fit(X, triplets)
    assert learner.history_.stopped == "separated"
    assert np.trace(learner.metric_.matrix) < 1e6


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("penalty", [0.1, 0.01])
def test_corrective_is_certified_in_few_iterations(dtype, penalty):
    X, y = load_breast_cancer(return_X_y=True)
    learner = BoostMetric(scale="standard", corrective=True, penalty=penalty).fit(
        X.astype(dtype), y
    )
    assert learner.history_.stopped == "converged"
    assert learner.n_iter_ < 40
    assert abs(learner.gap_) <= 1e-6


def test_corrective_says_when_iterations_run_out():
    X, _, triplets = half_of("wine")
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        BoostMetric(**LETTER, penalty=0.1, corrective=True, max_iter=1).fit(X, triplets)


@pytest.mark.parametrize("prior", [None, "identity"])
def test_objective_falls_in_every_iteration(labelled_problem, prior):
    X, y, _ = labelled_problem
    history = BoostMetric(scale="standard", prior=prior, max_iter=100).fit(X, y).history_
    assert (np.diff(history.objective) < 0).all()
    assert (history.step > 0).all()
    assert (history.eigenvalue > 0).all()
    assert np.isnan(history.gap).all()


def test_terms_add_up_to_the_metric(labelled_problem):
    X, y, _ = labelled_problem
    learner = BoostMetric(scale="standard", prior=None, max_iter=30).fit(X, y)
    total = (learner.directions_.T * learner.weights_) @ learner.directions_
    np.testing.assert_allclose(total, learner.metric_.matrix, atol=1e-10 * np.trace(total))
    np.testing.assert_allclose(np.linalg.norm(learner.directions_, axis=1), 1.0)
    assert np.linalg.eigvalsh(learner.metric_.matrix)[0] >= -1e-10 * np.trace(total)
    np.testing.assert_array_equal(learner.components_, learner.metric_.L)


def test_stages_are_shorter_fits(labelled_problem):
    X, y, _ = labelled_problem
    stages = list(BoostMetric(scale="standard", max_iter=8).fit(X, y).staged_metrics())
    for number in (1, 5, 8):
        short = BoostMetric(scale="standard", max_iter=number).fit(X, y)
        np.testing.assert_allclose(stages[number - 1].matrix, short.metric_.matrix, rtol=1e-10)


def test_corrective_stages_have_falling_objectives(labelled_problem):
    X, y, _ = labelled_problem
    learner = BoostMetric(scale="standard", prior=None, penalty=0.1, corrective=True).fit(X, y)
    assert [m.n_components for m in learner.staged_metrics()] == sorted(
        m.n_components for m in learner.staged_metrics()
    )
    assert (np.diff(learner.history_.objective) < 1e-9).all()


class TestInvariance:
    def test_units_and_offset(self, labelled_problem):
        X, y, _ = labelled_problem
        first = BoostMetric(scale="standard", max_iter=40).fit(X, y)
        second = BoostMetric(scale="standard", max_iter=40).fit(1000 * X + 5, y)
        np.testing.assert_allclose(
            relative(first.metric_.matrix), relative(second.metric_.matrix), atol=1e-6
        )
        neighbours = [
            np.argsort(learner.metric_.distances(points), axis=1)[:, 1:6]
            for learner, points in ((first, X), (second, 1000 * X + 5))
        ]
        np.testing.assert_array_equal(*neighbours)

    def test_units_of_single_features(self, labelled_problem, rng):
        X, y, _ = labelled_problem
        units = 10.0 ** rng.integers(-3, 4, X.shape[1])
        learner = BoostMetric(max_iter=40, scale="standard")
        first = learner.fit(X, y).metric_.matrix
        second = learner.fit(X * units, y).metric_.matrix
        np.testing.assert_allclose(
            relative(first), relative(second * np.outer(units, units)), atol=1e-6
        )

    def test_rotation(self, labelled_problem, rng):
        X, y, _ = labelled_problem
        Q = np.linalg.qr(rng.standard_normal((X.shape[1],) * 2))[0]
        first = BoostMetric(max_iter=40, scale="unit").fit(X, y).metric_.matrix
        second = BoostMetric(max_iter=40, scale="unit").fit(X @ Q.T, y).metric_.matrix
        np.testing.assert_allclose(relative(first), relative(Q.T @ second @ Q), atol=1e-6)

    def test_order_of_rows_and_constraints(self, labelled_problem, rng):
        X, _, triplets = labelled_problem
        order = rng.permutation(len(X))
        place = np.argsort(order)
        mixed = Triplets(place[triplets.index][rng.permutation(len(triplets))])
        first = BoostMetric(scale="standard", max_iter=40).fit(X, triplets).metric_.matrix
        second = BoostMetric(scale="standard", max_iter=40).fit(X[order], mixed).metric_.matrix
        np.testing.assert_allclose(relative(first), relative(second), atol=1e-6)

    def test_duplicate_is_double_weight(self, labelled_problem):
        X, _, triplets = labelled_problem
        twice = Triplets(np.vstack([triplets.index, triplets.index[::3]]))
        weight = np.where(np.arange(len(triplets)) % 3 == 0, 2.0, 1.0)
        first = BoostMetric(scale="standard", max_iter=40).fit(X, twice)
        second = BoostMetric(scale="standard", max_iter=40).fit(X, Triplets(triplets.index, weight))
        np.testing.assert_allclose(
            relative(first.metric_.matrix), relative(second.metric_.matrix), atol=1e-6
        )
        np.testing.assert_allclose(first.history_.objective, second.history_.objective, atol=1e-9)

    def test_weight_zero_is_absence(self, labelled_problem):
        X, _, triplets = labelled_problem
        weight = (np.arange(len(triplets)) % 2).astype(float)
        first = BoostMetric(scale="standard", max_iter=30).fit(X, Triplets(triplets.index, weight))
        second = BoostMetric(scale="standard", max_iter=30).fit(X, triplets.take(weight > 0))
        np.testing.assert_allclose(
            relative(first.metric_.matrix), relative(second.metric_.matrix), atol=1e-6
        )

    @pytest.mark.filterwarnings("ignore:Nothing was learned")
    def test_weight_zero_is_absence_on_small_problems(self):
        for seed in range(20):
            rng = np.random.default_rng(seed)
            X = rng.standard_normal((6, 2))
            index = [[0, 1, 2], [3, 4, 5], [1, 2, 3]]
            learner = BoostMetric(prior=None, scale="unit", max_iter=20)
            first = learner.fit(X, Triplets(index, [1, 1, 0])).metric_.matrix
            np.testing.assert_array_equal(first, learner.fit(X, Triplets(index[:2])).metric_.matrix)

    def test_float32_is_close_to_float64(self, labelled_problem):
        X, _, triplets = labelled_problem
        double = BoostMetric(scale="standard", max_iter=10).fit(X, triplets)
        single = BoostMetric(scale="standard", max_iter=10).fit(X.astype(np.float32), triplets)
        assert single.transform(X.astype(np.float32)).dtype == np.float32
        np.testing.assert_allclose(
            relative(single.metric_.matrix), relative(double.metric_.matrix), atol=1e-4
        )


class TestStopping:
    def test_separable_triplets_end_the_boosting(self):
        X, y, _ = make_known_metric(200, 6, 2, 3, random_state=0)
        learner = BoostMetric(scale="standard", max_iter=5000).fit(X, y)
        assert learner.history_.stopped in ("separated", "converged")
        assert learner.n_iter_ < 5000

    def test_one_direction_that_satisfies_all_is_the_last(self):
        X = np.array([[0.0, 0.0], [0.1, 9.0], [5.0, 0.0], [5.1, 9.0]])
        triplets = Triplets([[0, 1, 2], [1, 0, 3], [2, 3, 0], [3, 2, 1]])
        learner = BoostMetric(prior=None, scale=None).fit(X, triplets)
        assert learner.n_iter_ == 1
        assert learner.history_.stopped == "separated"
        assert learner.score(X, triplets) == 1.0

    @pytest.mark.parametrize("penalty", [1.0, 5.0])
    def test_a_penalty_of_one_or_more_learns_nothing_and_says_so(self, labelled_problem, penalty):
        X, y, _ = labelled_problem
        with pytest.warns(ConvergenceWarning, match="Nothing was learned"):
            learner = BoostMetric(scale="standard", prior=None, penalty=penalty).fit(X, y)
        assert not learner.metric_.matrix.any()
        with pytest.warns(ConvergenceWarning, match="Nothing was learned"):
            learner = BoostMetric(penalty=penalty * 100, scale=None).fit(X, y)
        assert learner.n_iter_ == 0
        np.testing.assert_allclose(
            relative(learner.metric_.matrix), np.eye(X.shape[1]) / X.shape[1]
        )

    def test_a_consumer_may_stop_when_it_likes(self):
        X, _, triplets = half_of("iris")
        operator = TripletOperator(X, triplets)
        rule = PenalizedLoss(v=0.0, largest=1.0, tol=0.0, satisfied=-np.inf)
        iterations = boost(operator, rule, operator.start(), max_iter=100)
        first = next(iterations)
        iterations.close()
        assert first.step > 0


@pytest.mark.parametrize(
    "parameters",
    [{"validation_fraction": "a"}, {"validation_fraction": 1.0}, {"penalty": -1}],
    ids=str,
)
def test_bad_parameters(parameters):
    X, y, _ = half_of("iris")
    (name,) = parameters
    with pytest.raises(ValueError, match=f"{name} must be"):
        BoostMetric(**parameters).fit(X, y)


def test_a_strong_prior_stays_and_a_weak_one_goes(labelled_problem):
    X, y, _ = labelled_problem
    from_zero = relative(
        BoostMetric(scale="standard", prior=None, max_iter=20).fit(X, y).metric_.matrix
    )
    weak = relative(
        BoostMetric(scale="standard", prior_weight=1e-9, max_iter=20).fit(X, y).metric_.matrix
    )
    np.testing.assert_allclose(weak, from_zero, atol=1e-4)
    off = relative(
        BoostMetric(scale="standard", prior_weight=0.0, max_iter=20).fit(X, y).metric_.matrix
    )
    np.testing.assert_allclose(off, from_zero, atol=1e-12)


def test_the_known_metric_is_found():
    X, y, M = make_known_metric(600, 15, 3, 6, random_state=1)
    learner = BoostMetric(scale="standard", prior=None).fit(X, y)
    euclidean = BoostMetric(scale="standard", max_iter=1, prior_weight=1e9).fit(X, y)
    triplets = NearestTriplets()(X, y)
    true = Metric.from_matrix(M)
    right = [
        np.mean(
            metric.pair_distances(X, triplets.index[:, [0, 1]])
            < metric.pair_distances(X, triplets.index[:, [0, 2]])
        )
        for metric in (euclidean.metric_, learner.metric_, true)
    ]
    assert right[0] < 0.75 < 0.95 < right[1]
    assert right[2] > 0.95


def test_pairs_are_joined_to_triplets(labelled_problem):
    X, y, _ = labelled_problem
    pairs = RandomPairs(300)(X, y, np.random.RandomState(0))
    first = BoostMetric(max_iter=20, scale="unit").fit(X, pairs)
    second = BoostMetric(max_iter=20, scale="unit").fit(X, pairs.triplets())
    np.testing.assert_array_equal(first.metric_.L, second.metric_.L)


def test_corrective_steps_have_a_limit(monkeypatch):
    monkeypatch.setattr(boostmetric, "_MOST_EVALUATIONS", 10)
    X, _, triplets = half_of("iris")
    learner = BoostMetric(corrective=True, scale="standard")
    with pytest.warns(ConvergenceWarning, match="10 evaluations were not enough"):
        learner.fit(X, triplets)
    assert learner.history_.stopped == "evaluations"
    assert learner.n_iter_ == 1
