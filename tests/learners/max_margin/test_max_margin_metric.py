"""Max-margin metrics against a generic convex solver, closed forms and each other."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nearfar.learners.max_margin.pair_problem import PairProblem, Solution, Split
from nearfar.learners.max_margin.solvers import MaxMargin, ascend_box, cut_planes
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearfar import C_path, MatchingPursuitBasis, MaxMarginMetric, Metric, Pairs, RandomPairs
from nearfar.evaluate import knn_error
from references import maxmargin as reference


def random_pairs(seed, n=50, n_features=4, N=30, weighted=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, n_features))
    y = (X[:, 0] + 0.5 * rng.standard_normal(N) > 0).astype(int)
    pairs = RandomPairs(n)(X, y, np.random.RandomState(seed))
    if weighted:
        pairs = Pairs(pairs.index, pairs.similar, rng.uniform(0.1, 2.0, n))
    return X, pairs


def run(rounds):
    kept = []
    while True:
        try:
            kept.append(next(rounds))
        except StopIteration as end:
            return kept, end.value


PROBLEMS = [
    {"seed": 0, "n": 20, "n_features": 2, "C": 1.0},
    {"seed": 1, "n": 40, "n_features": 3, "C": 10.0},
    {"seed": 2, "n": 60, "n_features": 4, "C": 100.0, "weighted": True},
    {"seed": 3, "n": 60, "n_features": 6, "C": 100.0, "prior": True},
    {"seed": 4, "n": 60, "n_features": 6, "C": 1000.0},
    {"seed": 5, "n": 60, "n_features": 6, "C": 1e4, "weighted": True, "prior": True},
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


@pytest.mark.parametrize("solver", [cut_planes, ascend_box])
def test_solvers_reach_the_optimum(posed, solver):
    X, pairs, C, P, (A, b, value, slack) = posed
    problem = MaxMargin(PairProblem(X, pairs, unit=1.0), C, P, tol=1e-6)
    rounds, why = run(solver(problem, max_iter=5000))
    last = rounds[-1]
    found = last.factor.T @ last.factor
    assert why == "converged"
    explicit = reference.objective(
        found, last.threshold, X, pairs.index, pairs.similar, C, pairs.weight, P
    )
    assert last.objective == pytest.approx(explicit, rel=1e-10)
    assert value - slack - 1e-9 <= last.objective <= value * (1 + 2e-6)
    assert last.objective - value <= last.eigenvalue + 1e-9 * value
    np.testing.assert_allclose(found, A, atol=2e-2 * np.abs(A).max() + 1e-8)
    assert last.threshold == pytest.approx(b, abs=2e-2 * (1 + abs(b)))


def test_an_independent_solver_agrees(posed):
    X, pairs, C, P, (*_, value, _) = posed
    generic = reference.optimum(X, pairs.index, pairs.similar, C, pairs.weight, P)[2]
    problem = MaxMargin(PairProblem(X, pairs, unit=1.0), C, P, tol=1e-5)
    rounds, _ = run(cut_planes(problem, max_iter=500))
    assert rounds[-1].objective == pytest.approx(generic, rel=1e-4)
    assert value == pytest.approx(generic, rel=1e-6)


def test_objective_falls_and_bounds_close(posed):
    X, pairs, C, P, (*_, value, _) = posed
    problem = MaxMargin(PairProblem(X, pairs, unit=1.0), C, P, tol=1e-7)
    rounds, _ = run(cut_planes(problem, max_iter=500))
    objective = np.array([r.objective for r in rounds])
    gap = np.array([r.eigenvalue for r in rounds])
    assert (np.diff(objective[:-1]) <= 1e-9 * value).all()
    assert (np.diff((objective - gap)[:-1]) >= -1e-7 * value).all()
    assert (objective - gap <= value * (1 + 1e-9)).all()


def test_cuts_and_margins_equal_loops():
    X, pairs = random_pairs(6, weighted=True)
    problem = PairProblem(X, pairs, unit=2.0)
    rng = np.random.default_rng(0)
    L = rng.standard_normal((3, 4))
    A = L.T @ L
    solution = Solution(A, 0.7, lambda: problem.distances(L))
    scaled = X / np.sqrt(2.0)
    expected = reference.margins(A, 0.7, scaled, pairs.index, pairs.similar)
    np.testing.assert_allclose(problem.margins(solution), expected, rtol=1e-12)
    c = reference.most_violated(A, 0.7, scaled, pairs.index, pairs.similar)
    G, delta, s = reference.cut(c, scaled, pairs.index, pairs.similar, pairs.weight)
    cut = problem.cut(solution)
    np.testing.assert_allclose(cut.G, G, atol=1e-12)
    assert cut.slope_b == pytest.approx(s)
    assert cut.offset == pytest.approx(delta)
    touches = cut.offset - cut.slope_b * 0.7 + (cut.G * A).sum()
    assert touches == pytest.approx(problem.mean_hinge(solution), rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 6), shift=st.floats(-3, 3))
def test_curvature_is_the_derivative_of_the_projection(seed, n, shift):
    rng = np.random.default_rng(seed)
    Q = rng.standard_normal((n, n))
    Q = Q + Q.T + shift * np.eye(n)
    G = rng.standard_normal((2, n, n))
    G = G + G.transpose(0, 2, 1)
    h = 1e-5
    rise = Split.of(Q + h * G[1]).positive - Split.of(Q - h * G[1]).positive
    H = Split.of(Q).curvature(G)
    scale = np.abs(np.linalg.eigvalsh(Q)).min()
    if scale > 1e-2:
        assert H[0, 1] == pytest.approx((G[0] * rise).sum() / (2 * h), rel=1e-3, abs=1e-4)
    np.testing.assert_allclose(H, H.T, atol=1e-10)
    assert np.linalg.eigvalsh(H).min() > -1e-9


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
        learner = MaxMarginMetric(prior=None, C=1000.0, tol=1e-4, random_state=0).fit(X, y)
        assert learner.metric_.n_components < 8
        strength = np.linalg.svd(learner.components_)[1]
        assert strength[0] > 2 * strength[1]

    def test_predictions(self):
        X, y = load_wine(return_X_y=True)
        learner = MaxMarginMetric(random_state=0).fit(X, y)
        pairs = RandomPairs(400)(X, y, np.random.RandomState(1))
        same = learner.predict(X, pairs)
        assert same.dtype == bool
        assert (same == pairs.similar).mean() > 0.9
        squared = learner.metric_.pair_distances(X, pairs) ** 2
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
        once = MaxMarginMetric(tol=1e-8).fit(X, Pairs(pairs.index, pairs.similar, weight))
        twice = MaxMarginMetric(tol=1e-8).fit(X, pairs.take(more))
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
    def test_extreme_prices(self, C):
        X, y = load_iris(return_X_y=True)
        learner = MaxMarginMetric(C=C, random_state=0, max_iter=300)
        learner.fit(X, y)
        assert np.isfinite(learner.metric_.L).all()
        assert learner.score(X, y) > 0.8

    def test_no_price_is_the_prior(self):
        X, y = load_iris(return_X_y=True)
        learner = MaxMarginMetric(C=0.0, random_state=0).fit(X, y)
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
            learner = MaxMarginMetric(C=C).fit(X, pairs)
            assert learner.gap_ <= 1e-3 * learner.history_.objective[-1]
            assert learner.history_.objective[-1] == pytest.approx(2.2951, rel=2e-3)

    def test_units_that_are_too_far_from_one_are_refused(self):
        X, y = load_wine(return_X_y=True)
        for factor in (1e30, 1e-30, 1e160):
            with pytest.raises(ValueError, match="too far from one"):
                MaxMarginMetric(scale=None, random_state=0).fit(X * factor, y)
        standard = StandardScaler().fit_transform(X)
        for factor in (0.1, 1.0, 20.0):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                learner = MaxMarginMetric(scale=None, random_state=0).fit(factor * standard, y)
            assert learner.gap_ >= 0
            assert learner.score(factor * standard, y) > 0.8

    def test_the_trace_keeps_only_the_last_factor(self):
        learner = MaxMarginMetric(random_state=0, tol=1e-6).fit(*load_wine(return_X_y=True))
        assert learner.history_[-1].factor is not None
        assert all(r.factor is None for r in learner.history_[:-1])

    def test_float32(self):
        X, y = load_wine(return_X_y=True)
        learner = MaxMarginMetric(random_state=0)
        double = learner.fit(X, y).metric_.matrix
        single = learner.fit(X.astype(np.float32), y).metric_.matrix
        assert learner.transform(X.astype(np.float32)).dtype == np.float32
        assert np.abs(single - double).max() < 0.05 * np.abs(double).max()

    @pytest.mark.parametrize(
        "parameters",
        [{"C": -1.0}, {"n_basis": 0}, {"solver": "sdp"}, {"max_iter": 0}, {"kernel": "cubic"}],
    )
    def test_bad_parameters(self, parameters):
        (name,) = parameters
        with pytest.raises(ValueError, match=f"{name} must be"):
            MaxMarginMetric(**parameters).fit(*load_iris(return_X_y=True))


class TestPath:
    def test_each_step_is_the_optimum_of_its_price(self):
        X, pairs = random_pairs(10, n=200)
        path = C_path(X, pairs, C=[1000.0, 1.0, 30.0], learner=MaxMarginMetric(tol=1e-6), cv=None)
        assert path.C.tolist() == [1.0, 30.0, 1000.0]
        alone_rounds = warm_rounds = 0
        for C, warm in zip(path.C, path.learners, strict=True):
            alone = MaxMarginMetric(C=C, tol=1e-6).fit(X, pairs)
            assert warm.history_.objective[-1] == pytest.approx(
                alone.history_.objective[-1], rel=3e-6
            )
            alone_rounds += alone.n_iter_
            warm_rounds += warm.n_iter_
        assert warm_rounds < alone_rounds
        with pytest.raises(ValueError, match="not cross-validated"):
            _ = path.best

    def test_cross_validated_choice(self):
        X, y = load_wine(return_X_y=True)
        path = C_path(X, y, C=[1e-4, 100.0], cv=3, random_state=0)
        assert path.scores.shape == (2, 3)
        assert path.best is path.learners[int(path.scores.mean(axis=1).argmax())]
        assert path.best.C == 100.0


class TestKernel:
    @pytest.mark.parametrize("kernel", ["rbf", "polynomial", "laplacian", "cosine", "linear"])
    def test_transform_save_and_load(self, kernel, tmp_path):
        X, y = load_wine(return_X_y=True)
        learner = MaxMarginMetric(kernel=kernel, n_basis=30, random_state=0).fit(X, y)
        assert learner.metric_.n_features == 13
        assert len(learner.basis_) <= 30
        assert knn_error(learner.metric_, X, y, X, y) < 0.05
        learner.metric_.save(tmp_path / "m.safetensors")
        again = Metric.load(tmp_path / "m.safetensors")
        np.testing.assert_array_equal(again.distances(X), learner.metric_.distances(X))
        np.testing.assert_allclose(learner.transform(X), again.transform(X))

    def test_a_linear_kernel_is_the_linear_problem(self):
        X, y = load_iris(return_X_y=True)
        pairs = RandomPairs(300)(X, y, np.random.RandomState(0))
        plain = MaxMarginMetric(tol=1e-7).fit(X, pairs)
        kernel = MaxMarginMetric(kernel="linear", tol=1e-7).fit(X, pairs)
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

        own = MaxMarginMetric(kernel=kernel, n_basis=20, random_state=0).fit(X[::3], y[::3])
        name = MaxMarginMetric(kernel="rbf", gamma=1.0, n_basis=20, random_state=0)
        name.fit(X[::3], y[::3])
        np.testing.assert_allclose(own.metric_.distances(X), name.metric_.distances(X), atol=1e-8)
        with pytest.raises(ValueError, match="can't be saved"):
            own.metric_.save(tmp_path / "m.safetensors")

    def test_kernels_that_are_not_psd(self):
        X, y = load_iris(return_X_y=True)
        with pytest.raises(ValueError, match="not psd"):
            MaxMarginMetric(kernel="sigmoid", gamma=1.0, coef0=1.0).fit(X, y)
        with pytest.raises(ValueError, match="not psd"):
            MaxMarginMetric(kernel=lambda a, b: -float(a @ b)).fit(X, y)

    def test_differences_mean_nothing_to_a_kernel(self):
        X, y = load_iris(return_X_y=True)
        learner = MaxMarginMetric(kernel="rbf", n_basis=10, random_state=0).fit(X, y)
        with pytest.raises(ValueError, match="give pairs"):
            learner.predict(X)
        with pytest.raises(ValueError, match="prior"):
            learner.set_params(prior=Metric.identity(4)).fit(X, y)

    def test_float32_points(self):
        X, y = load_wine(return_X_y=True)
        for kernel in ("linear", "cosine", "rbf"):
            learner = MaxMarginMetric(kernel=kernel, n_basis=20, random_state=0)
            learner.fit(X.astype(np.float32), y)
            assert learner.transform(X.astype(np.float32)).dtype == np.float32

    def test_reduction_is_by_principal_axes(self):
        X, y = load_wine(return_X_y=True)
        learner = MaxMarginMetric(kernel="rbf", gamma=0.05, n_basis=40, random_state=0)
        whole = learner.fit(X, y).transform(X)
        reduced = learner.set_params(n_components=2).fit(X, y).transform(X)
        kept = PCA(2).fit(whole).explained_variance_.sum()
        assert reduced.var(axis=0, ddof=1).sum() == pytest.approx(kept, rel=1e-6)
        few = MaxMarginMetric(kernel="rbf", n_components=3, n_basis=50, random_state=0)
        assert few.fit(X[:, :2], y).transform(X[:, :2]).shape[1] == 3

    def test_what_does_not_apply(self):
        X, y = load_wine(return_X_y=True)
        with pytest.raises(ValueError, match="for counts"):
            MaxMarginMetric(kernel="chi2").fit(X, y)
        prior = MaxMarginMetric(kernel="rbf", n_basis=13, random_state=0).fit(X, y).metric_
        with pytest.raises(ValueError, match="without kernel"):
            MaxMarginMetric(prior=prior).fit(X, y)

    def test_n_components_and_names(self):
        X, y = load_iris(as_frame=True, return_X_y=True)
        learner = MaxMarginMetric(kernel="rbf", n_basis=15, n_components=2, random_state=0)
        assert learner.fit(X, y).transform(X).shape == (150, 2)
        assert learner.metric_.feature_names == tuple(X.columns)


@parametrize_with_checks([MatchingPursuitBasis(), MatchingPursuitBasis(as_printed=True)])
def test_basis_conventions(estimator, check):
    check(estimator)


class TestBasis:
    @pytest.mark.parametrize("gamma", [0.05, 0.5, 5.0])
    def test_residuals_are_exact(self, gamma):
        X = StandardScaler().fit_transform(load_wine().data)[::2]
        K = rbf_kernel(X, gamma=gamma)
        basis = MatchingPursuitBasis(gamma=gamma, n_components=20).fit(X)
        indices, totals = reference.greedy_basis(K, 20)[:2]
        np.testing.assert_array_equal(basis.indices_, indices)
        assert (np.diff(basis.residuals_) < 0).all()
        for t in (1, 5, 20):
            B = basis.indices_[:t]
            exact = np.trace(K) - np.trace(np.linalg.solve(K[np.ix_(B, B)], K[B] @ K[:, B]))
            assert basis.residuals_[t] == pytest.approx(exact, rel=1e-9)
        np.testing.assert_allclose(basis.residuals_[1:], np.asarray(totals)[-20:], rtol=1e-9)

    def test_features_reproduce_the_kernel(self):
        X = StandardScaler().fit_transform(load_iris().data)
        features = MatchingPursuitBasis(gamma=1.0, n_components=150).fit_transform(X)
        assert features.shape[1] < 150
        np.testing.assert_allclose(features @ features.T, rbf_kernel(X, gamma=1.0), atol=1e-6)
        expected = reference.basis_features(
            rbf_kernel(X[:5], gamma=1.0), rbf_kernel(X, X[:5], gamma=1.0)
        )
        five = MatchingPursuitBasis(gamma=1.0, n_components=5).fit(X[:5])
        order = np.argsort(five.indices_)
        np.testing.assert_allclose(five.transform(X)[:, order], expected, atol=1e-10)

    @pytest.mark.parametrize(("loader", "number"), [(load_wine, 100), (load_iris, 25)])
    def test_better_than_a_random_basis(self, loader, number):
        X = StandardScaler().fit_transform(loader().data)
        K = rbf_kernel(X)

        def error(features):
            return np.linalg.norm(K - features @ features.T)

        ours = error(MatchingPursuitBasis(n_components=number).fit_transform(X))
        drawn = [
            error(Nystroem(n_components=number, random_state=seed).fit_transform(X))
            for seed in range(10)
        ]
        assert ours < np.mean(drawn)

    def test_as_printed(self):
        X = StandardScaler().fit_transform(load_wine().data)[::3]
        K = rbf_kernel(X)
        basis = MatchingPursuitBasis(as_printed=True, n_components=15, random_state=0).fit(X)
        np.testing.assert_allclose(basis.transform(X), K[:, basis.indices_])
        beta, full = reference.printed_beta(K, basis.indices_)[:2]
        assert basis.residuals_[-1] == pytest.approx(np.maximum(full, 0).sum(), rel=1e-9)
        assert beta.shape == (len(X), 15)
        again = MatchingPursuitBasis(as_printed=True, n_components=15, random_state=1).fit(X)
        assert again.indices_[0] != basis.indices_[0]

    def test_repeated_rows_end_it(self):
        X = np.repeat(np.eye(3), 4, axis=0)
        basis = MatchingPursuitBasis(n_components=10).fit(X)
        assert len(basis.indices_) == 3
        assert basis.residuals_[-1] == pytest.approx(0.0, abs=1e-9)
