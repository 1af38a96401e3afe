"""Max-margin metrics against a generic convex solver, closed forms and each other."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from nearfar import MatchingPursuitBasis, MaxMarginMetric, Metric, Pairs, RandomPairs
from nearfar.learners.max_margin.box_dual import ascend_box
from nearfar.learners.max_margin.cutting_planes import MaxMarginObjective, PairOperator, cut_planes
from nearfar.runtime.history import History
from problems import random_pairs
from references import maxmargin as reference


def run(solver):
    """Return all iterations of a solver, and why it stopped."""
    history = History()
    iterations = list(history.record(solver))
    return iterations, history.stopped


PROBLEMS = [
    {"seed": 0, "n": 20, "n_features": 2, "C": 1.0},
    {"seed": 1, "n": 40, "n_features": 3, "C": 10.0},
    {"seed": 2, "n": 40, "n_features": 4, "C": 100.0, "weighted": True},
    {"seed": 3, "n": 40, "n_features": 6, "C": 100.0, "prior": True},
    {"seed": 4, "n": 40, "n_features": 4, "C": 1000.0},
    {"seed": 5, "n": 20, "n_features": 3, "C": 1e4, "weighted": True, "prior": True},
]


@pytest.fixture(scope="module", params=PROBLEMS, ids=lambda p: f"C={p['C']:g}, D={p['n_features']}")
def posed(request):
    settings = dict(request.param)
    C, prior = settings.pop("C"), settings.pop("prior", False)
    X, pairs = random_pairs(**settings)
    D = X.shape[1]
    P = 0.5 * np.eye(D) if prior else np.zeros((D, D))
    optimum = reference.optimum_by_projection(X, pairs.index, pairs.similar, C, pairs.weight, P)
    return X, pairs, C, P, optimum


def by_box(problem, max_iter):
    top = problem.C * problem.pairs.p
    return ascend_box(problem.dual, problem.objective, top, problem.tol, max_iter)


@pytest.mark.parametrize("solver", [cut_planes, by_box])
def test_solvers_reach_the_optimum(posed, solver):
    X, pairs, C, P, (A, b, value, slack) = posed
    problem = MaxMarginObjective(PairOperator(X, pairs, unit=1.0), C, P, tol=1e-6)
    iterations, reason = run(solver(problem, max_iter=5000))
    last = iterations[-1]
    L = last.payload.factor
    found = L.T @ L
    assert reason == "converged"
    explicit = reference.objective(
        found, last.payload.b, X, pairs.index, pairs.similar, C, pairs.weight, P
    )
    assert last.objective == pytest.approx(explicit, rel=1e-10)
    assert value - slack - 1e-9 <= last.objective <= value * (1 + 2e-6)
    assert last.objective - value <= last.gap + 1e-9 * value
    # The objective is |M - P|^2 / 2 plus a convex function, and least at A.
    assert ((found - A) ** 2).sum() / 2 <= last.objective - value + slack + 1e-9 * value
    for threshold in (b, *last.payload.b * np.linspace(0.9, 1.1, 5)):
        moved = reference.objective(
            found, threshold, X, pairs.index, pairs.similar, C, pairs.weight, P
        )
        assert last.objective <= moved + last.gap + 1e-9 * value


def test_an_independent_solver_agrees(posed):
    X, pairs, C, P, (*_, value, _) = posed
    generic = reference.optimum(X, pairs.index, pairs.similar, C, pairs.weight, P)[2]
    problem = MaxMarginObjective(PairOperator(X, pairs, unit=1.0), C, P, tol=1e-5)
    iterations, _ = run(cut_planes(problem, max_iter=500))
    assert iterations[-1].objective == pytest.approx(generic, rel=1e-4)
    assert value == pytest.approx(generic, rel=1e-6)


def test_objective_falls_and_bounds_close(posed):
    X, pairs, C, P, (*_, value, _) = posed
    problem = MaxMarginObjective(PairOperator(X, pairs, unit=1.0), C, P, tol=1e-7)
    iterations, _ = run(cut_planes(problem, max_iter=500))
    objective = np.array([i.objective for i in iterations])
    gap = np.array([i.gap for i in iterations])
    assert (np.diff(objective[:-1]) <= 1e-9 * value).all()
    assert (np.diff((objective - gap)[:-1]) >= -1e-7 * value).all()
    assert (objective - gap <= value * (1 + 1e-9)).all()


@pytest.mark.parametrize("C", [1.0, 20.0])
def test_each_round_of_algorithm_1_equals_loops(C):
    X, pairs = random_pairs(1, n=40, n_features=3)
    learner = MaxMarginMetric(variant="paper", scale=None, C=C, tol=1e-10, max_iter=8)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        learner.fit(X, pairs)
        for number in range(1, learner.n_iter_ + 1):
            learner.set_params(max_iter=number).fit(X, pairs)
            found.append((learner.metric_.matrix, learner.threshold_, learner.history_[-1]))
    # The first round is the model without cuts, from whose optimum the algorithm starts.
    rounds = reference.cutting_planes(X, pairs.index, pairs.similar, C, 1e-9)[1:]
    assert len(found) >= 4
    for (M, threshold, iteration), (A, b, lower, value) in zip(found, rounds, strict=False):
        np.testing.assert_allclose(M, A, atol=2e-5)
        assert threshold == pytest.approx(b, abs=2e-5)
        assert iteration.objective == pytest.approx(value, rel=1e-5)
        assert iteration.objective - iteration.gap <= lower * (1 + 1e-6)


class TestFit:
    @pytest.mark.parametrize("solver", ["planes", "box"])
    def test_the_reported_objective_is_that_of_the_problem(self, solver):
        X, pairs = random_pairs(7)
        learner = MaxMarginMetric(scale=None, prior=None, C=50.0, solver=solver, tol=1e-5)
        learner.fit(X, pairs)
        value = reference.objective(
            learner.metric_.matrix, learner.threshold_, X, pairs.index, pairs.similar, 50.0
        )
        assert learner.history_.objective[-1] == pytest.approx(value, rel=1e-8)
        assert 0 <= learner.gap_ <= 1e-5 * value
        best = reference.optimum_by_projection(X, pairs.index, pairs.similar, 50.0)[2]
        assert best - 1e-9 <= value <= best + learner.gap_ + 1e-9
        assert np.linalg.eigvalsh(learner.metric_.matrix).min() > -1e-10

    def test_low_rank_comes_out_low_rank(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((200, 10))
        y = (X[:, 0] > 0).astype(int)
        learner = MaxMarginMetric(
            scale="standard", prior=None, C=1000.0, tol=1e-4, random_state=0
        ).fit(X, y)
        assert learner.metric_.n_components < 8
        strength = np.linalg.svd(learner.components_)[1]
        assert strength[0] > 2 * strength[1]

    def test_predictions(self):
        X, y = load_wine(return_X_y=True)
        learner = MaxMarginMetric(scale="standard", random_state=0).fit(X, y)
        pairs = RandomPairs(400)(X, y, np.random.RandomState(1))
        same = learner.predict(X, pairs)
        assert same.dtype == bool
        squared = learner.metric_.pair_distances(X, pairs) ** 2
        np.testing.assert_array_equal(same, squared < learner.threshold_)
        np.testing.assert_allclose(
            learner.decision_function(X, pairs), learner.threshold_ - squared
        )
        i, j = pairs.index.T
        by_difference = learner.decision_function(X[i] - X[j])
        np.testing.assert_allclose(by_difference, learner.threshold_ - squared, atol=1e-9)

    def test_doubled_weight_is_a_repeated_pair(self):
        X, pairs = random_pairs(8)
        weight = np.where(np.arange(50) % 5 == 0, 2.0, 1.0)
        more = np.concatenate([np.arange(50), np.arange(0, 50, 5)])
        once = MaxMarginMetric(scale="standard", tol=1e-8).fit(
            X, Pairs(pairs.index, pairs.similar, weight)
        )
        twice = MaxMarginMetric(scale="standard", tol=1e-8).fit(X, pairs.take(more))
        np.testing.assert_allclose(once.metric_.matrix, twice.metric_.matrix, atol=1e-4)
        assert once.history_.objective[-1] == pytest.approx(twice.history_.objective[-1], rel=1e-6)

    def test_units_shift_and_rotation(self, rng):
        X, pairs = random_pairs(9)
        learner = MaxMarginMetric(tol=1e-8, scale="unit")
        first = learner.fit(X, pairs).metric_.distances(X)
        Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
        moved = 1000 * X @ Q + 5
        second = learner.fit(moved, pairs).metric_.distances(moved)
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("C", [1e-8, 1e8])
    def test_extreme_penalties(self, C):
        X, y = load_iris(return_X_y=True)
        learner = MaxMarginMetric(scale="standard", C=C, random_state=0, max_iter=300)
        learner.fit(X, y)
        assert np.isfinite(learner.metric_.L).all()
        assert 0 <= learner.gap_ <= learner.history_.objective[-1]
        assert learner.history_.objective[-1] <= learner.history_.objective[0]

    def test_no_penalty_is_the_prior(self):
        X, y = load_iris(return_X_y=True)
        learner = MaxMarginMetric(C=0.0, random_state=0, scale="standard").fit(X, y)
        M = learner.metric_.matrix * np.outer(X.std(axis=0), X.std(axis=0))
        np.testing.assert_allclose(M, M[0, 0] * np.eye(4), atol=1e-10)
        with pytest.warns(ConvergenceWarning, match="Nothing was learned"):
            learner.set_params(prior=None).fit(X, y)

    def test_contradictory_and_identical_pairs(self):
        X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        index = [[0, 1], [0, 1], [0, 2], [0, 2], [0, 3]]
        pairs = Pairs(index, [True, False, True, False, False])
        learner = MaxMarginMetric(scale="unit", tol=1e-6).fit(X, pairs)
        assert np.isfinite(learner.metric_.L).all()
        assert np.isfinite(learner.threshold_)
        best = reference.optimum_by_projection(
            X / np.sqrt(learner._builder.scale[0] ** 2),
            pairs.index,
            pairs.similar,
            100.0,
            None,
            np.eye(2),
        )[2]
        assert learner.history_.objective[-1] == pytest.approx(best, rel=1e-5)

    def test_the_stop_is_that_of_the_last_objective(self):
        X = np.random.default_rng(2).standard_normal((10, 3))
        pairs = RandomPairs(2)(X, (X[:, 0] > 0) * 1, np.random.RandomState(2))
        for C in (1e4, 1e8):
            learner = MaxMarginMetric(C=C, scale="standard").fit(X, pairs)
            assert learner.gap_ <= 1e-3 * learner.history_.objective[-1]
            assert learner.history_.objective[-1] == pytest.approx(2.2951, rel=2e-3)

    def test_units_that_are_too_far_from_one_are_refused(self):
        X, y = load_wine(return_X_y=True)
        for factor in (1e30, 1e-30, 1e140):
            with pytest.raises(ValueError, match="too far from one"):
                MaxMarginMetric(scale=None, random_state=0).fit(X * factor, y)
        standard = StandardScaler().fit_transform(X)
        learner = MaxMarginMetric(scale=None, max_iter=200, random_state=0)
        for factor in (0.1, 1.0, 20.0):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                learner.fit(factor * standard, y)
            assert 0 <= learner.gap_ <= learner.history_.objective[-1]
            assert learner.history_.objective[-1] <= learner.history_.objective[0]

    def test_the_history_keeps_only_the_last_solution(self):
        learner = MaxMarginMetric(scale="standard", random_state=0, tol=1e-6).fit(
            *load_wine(return_X_y=True)
        )
        assert learner.history_[-1].payload is not None
        assert all(i.payload is None for i in learner.history_[:-1])

    def test_float32(self):
        X, y = load_wine(return_X_y=True)
        learner = MaxMarginMetric(scale="standard", random_state=0)
        double = learner.fit(X, y)
        ends = [(double.history_.objective[-1], double.gap_)]
        single = learner.fit(X.astype(np.float32), y)
        ends.append((single.history_.objective[-1], single.gap_))
        assert single.transform(X.astype(np.float32)).dtype == np.float32
        # Both optima lie between an objective less its gap, and the objective.
        lows, highs = [value - gap for value, gap in ends], [value for value, _ in ends]
        assert max(lows) <= min(highs) * (1 + 1e-5)

    @pytest.mark.parametrize(
        "parameters",
        [{"C": -1.0}, {"n_basis": 0}, {"solver": "sdp"}, {"max_iter": 0}, {"kernel": "cubic"}],
    )
    def test_bad_parameters(self, parameters):
        (name,) = parameters
        with pytest.raises(ValueError, match=f"{name} must be"):
            MaxMarginMetric(**parameters).fit(*load_iris(return_X_y=True))


class TestKernel:
    @pytest.mark.parametrize("kernel", ["rbf", "polynomial", "laplacian", "cosine", "linear"])
    def test_transform_save_and_load(self, kernel, tmp_path):
        X, y = load_wine(return_X_y=True)
        learner = MaxMarginMetric(scale="standard", kernel=kernel, n_basis=30, random_state=0).fit(
            X, y
        )
        assert learner.metric_.n_features == 13
        assert len(learner.basis_) <= 30
        learner.metric_.save(tmp_path / "m.safetensors")
        again = Metric.load(tmp_path / "m.safetensors")
        np.testing.assert_array_equal(again.distances(X), learner.metric_.distances(X))
        np.testing.assert_allclose(learner.transform(X), again.transform(X))

    def test_a_linear_kernel_is_the_linear_problem(self):
        X, y = load_iris(return_X_y=True)
        pairs = RandomPairs(300)(X, y, np.random.RandomState(0))
        plain = MaxMarginMetric(scale="standard", tol=1e-7).fit(X, pairs)
        kernel = MaxMarginMetric(scale="standard", kernel="linear", tol=1e-7).fit(X, pairs)
        assert kernel.history_.objective[-1] == pytest.approx(
            plain.history_.objective[-1], rel=1e-6
        )
        np.testing.assert_allclose(
            kernel.metric_.distances(X), plain.metric_.distances(X), atol=2e-3
        )

    def test_a_circle_needs_a_kernel(self, rng):
        X = rng.standard_normal((400, 2))
        y = (np.linalg.norm(X, axis=1) > 1.2).astype(int)
        pairs = RandomPairs(600)(X[200:], y[200:], np.random.RandomState(1))

        def share_right(**parameters):
            learner = MaxMarginMetric(random_state=0, C=1000.0, **parameters).fit(X[:200], y[:200])
            return (learner.predict(X[200:], pairs) == pairs.similar).mean()

        assert share_right(kernel="rbf", gamma=0.5) > 0.85 > 0.7 > share_right()

    def test_callables(self, tmp_path):
        X, y = load_iris(return_X_y=True)

        def kernel(a, b):
            return float(np.exp(-((a - b) ** 2).sum()))

        own = MaxMarginMetric(scale="standard", kernel=kernel, n_basis=20, random_state=0).fit(
            X[::3], y[::3]
        )
        name = MaxMarginMetric(
            scale="standard", kernel="rbf", gamma=1.0, n_basis=20, random_state=0
        )
        name.fit(X[::3], y[::3])
        np.testing.assert_allclose(own.metric_.distances(X), name.metric_.distances(X), atol=1e-8)
        with pytest.raises(ValueError, match="be saved"):
            own.metric_.save(tmp_path / "m.safetensors")

    def test_the_paper_variant_has_the_printed_basis(self):
        X = StandardScaler().fit_transform(load_wine().data)[::3]
        y = load_wine().target[::3]
        settings = {"kernel": "rbf", "gamma": 0.1, "random_state": 0}
        learner = MaxMarginMetric(variant="paper", scale=None, n_basis=15, **settings)
        pairs = RandomPairs(100)(X, y, np.random.RandomState(0))
        learner.fit(X, pairs)
        basis = MatchingPursuitBasis(variant="paper", n_components=15, **settings).fit(X)
        np.testing.assert_array_equal(learner.basis_, basis.indices_)
        np.testing.assert_allclose(learner.metric_.feature_map.transform(X), basis.transform(X))

    def test_kernels_that_are_not_psd(self):
        X, y = load_iris(return_X_y=True)
        with pytest.raises(ValueError, match="not psd"):
            MaxMarginMetric(scale="standard", kernel="sigmoid", gamma=1.0, coef0=1.0).fit(X, y)
        with pytest.raises(ValueError, match="not psd"):
            MaxMarginMetric(scale="standard", kernel=lambda a, b: -float(a @ b)).fit(X, y)

    def test_differences_mean_nothing_to_a_kernel(self):
        X, y = load_iris(return_X_y=True)
        learner = MaxMarginMetric(scale="standard", kernel="rbf", n_basis=10, random_state=0).fit(
            X, y
        )
        with pytest.raises(ValueError, match="pass pairs"):
            learner.predict(X)
        with pytest.raises(ValueError, match="prior"):
            learner.set_params(prior=Metric.identity(4)).fit(X, y)

    def test_float32_points(self):
        X, y = load_wine(return_X_y=True)
        for kernel in ("linear", "cosine", "rbf"):
            learner = MaxMarginMetric(scale="standard", kernel=kernel, n_basis=20, random_state=0)
            learner.fit(X.astype(np.float32), y)
            assert learner.transform(X.astype(np.float32)).dtype == np.float32

    def test_reduction_is_by_principal_axes(self):
        X, y = load_wine(return_X_y=True)
        learner = MaxMarginMetric(
            scale="standard", kernel="rbf", gamma=0.05, n_basis=40, random_state=0
        )
        whole = learner.fit(X, y).transform(X)
        reduced = learner.set_params(n_components=2).fit(X, y).transform(X)
        kept = PCA(2).fit(whole).explained_variance_.sum()
        assert reduced.var(axis=0, ddof=1).sum() == pytest.approx(kept, rel=1e-6)
        few = MaxMarginMetric(
            scale="standard", kernel="rbf", n_components=3, n_basis=50, random_state=0
        )
        assert few.fit(X[:, :2], y).transform(X[:, :2]).shape[1] == 3

    def test_what_does_not_apply(self):
        X, y = load_wine(return_X_y=True)
        with pytest.raises(ValueError, match="for counts"):
            MaxMarginMetric(scale="standard", kernel="chi2").fit(X, y)
        prior = (
            MaxMarginMetric(scale="standard", kernel="rbf", n_basis=13, random_state=0)
            .fit(X, y)
            .metric_
        )
        with pytest.raises(ValueError, match="without a kernel"):
            MaxMarginMetric(scale="standard", prior=prior).fit(X, y)

    def test_n_components_and_names(self):
        X, y = load_iris(as_frame=True, return_X_y=True)
        learner = MaxMarginMetric(
            scale="standard", kernel="rbf", n_basis=15, n_components=2, random_state=0
        )
        assert learner.fit(X, y).transform(X).shape == (150, 2)
        assert learner.metric_.feature_names == tuple(X.columns)
