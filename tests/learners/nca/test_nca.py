"""NCA and its family against loops, finite differences, scikit-learn and constructed problems."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from nearfar import (
    NCA,
    GatedMetric,
    MaxMarginMetric,
    Metric,
    MetricNeighborsClassifier,
    MixtureNCA,
    SparseNCA,
    datasets,
)
from nearfar.evaluate import knn_error, map_at_r, neighbor_accuracy_curve
from nearfar.learners.nca.mixture_problem import Mixture, Model
from nearfar.learners.nca.neighborhoods import Neighborhoods
from nearfar.neighbors import kneighbors
from nearfar.numerics.lbfgs import lbfgs
from references import msnca as reference


def random_problem(seed, n=24, n_features=3, n_classes=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features))
    y = np.append(rng.integers(0, n_classes, n - 1), 9)
    X[1] = X[0]
    return X, y, rng


def random_model(rng, n_metrics, n_features=3, rank=3):
    return Model(
        rng.standard_normal((n_metrics, rank, n_features)),
        rng.standard_normal((n_metrics, n_features)),
        rng.standard_normal(n_metrics),
    )


@pytest.mark.parametrize("scale", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_chances_and_gradients_equal_loops(scale, rank):
    X, y, rng = random_problem(0)
    L = scale * rng.standard_normal((rank, 3))
    points = Neighborhoods(X, y)
    chances = points.chances(L)
    p = np.where(points.asked, np.exp(chances.log_p), 0.0)
    assert p.sum() == pytest.approx(reference.nca_objective(L, X, y), rel=1e-12)
    log_sum = chances.log_p[points.asked].sum()
    assert log_sum == pytest.approx(reference.nca_log_objective(L, X, y), rel=1e-12)
    expected = reference.nca_gradient(L, X, y)
    size = 1 + np.abs(expected).max()
    np.testing.assert_allclose(points.gradient(chances, p, L), expected, atol=1e-10 * size)
    expected = reference.nca_log_gradient(L, X, y)
    size = 1 + np.abs(expected).max()
    ones = np.ones(len(X))
    np.testing.assert_allclose(points.gradient(chances, ones, L), expected, atol=1e-10 * size)


@pytest.mark.parametrize("n_metrics", [1, 2, 4])
def test_mixture_gradients_equal_loops(n_metrics):
    X, y, rng = random_problem(1)
    model = random_model(rng, n_metrics)
    points = Neighborhoods(X, y)
    value, by = Mixture(points, n_metrics, 0.0, 0.0).value(model)
    n = points.asked.sum()
    Ms = np.array([L.T @ L for L in model.L])
    expected = -reference.log_likelihood(Ms, model.V, model.b, X, y, False)
    assert n * value == pytest.approx(expected, rel=1e-12)
    _, by_V, by_b = reference.log_likelihood_gradients(Ms, model.V, model.b, X, y, False)
    np.testing.assert_allclose(-n * by.V, by_V, atol=1e-11)
    np.testing.assert_allclose(-n * by.b, by_b, atol=1e-11)
    by_L = reference.factor_gradients(model.L, model.V, model.b, X, y)
    by_L = by_L[0] if isinstance(by_L, tuple) else by_L
    np.testing.assert_allclose(-n * by.L, by_L, atol=1e-10)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n_metrics=st.integers(1, 3))
def test_mixture_gradients_equal_finite_differences(seed, n_metrics):
    X, y, rng = random_problem(seed, n=16)
    points = Neighborhoods(X, y)
    mixture = Mixture(points, n_metrics, 0.03, 0.0)
    model, move = random_model(rng, n_metrics, rank=2), random_model(rng, n_metrics, rank=2)
    h = 1e-3

    def at(t):
        return mixture.value(
            Model(model.L + t * move.L, model.V + t * move.V, model.b + t * move.b)
        )[0]

    by = mixture.value(model)[1]
    slope = (by.L * move.L).sum() + (by.V * move.V).sum() + by.b @ move.b
    rise = 8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))
    assert rise / (12 * h) == pytest.approx(slope, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("normalize", [False, True])
def test_the_references_gradients_equal_finite_differences(normalize):
    X, y, rng = random_problem(3, n=12)
    model = random_model(rng, 2)
    Ms, V, b = np.array([L.T @ L for L in model.L]), model.V, model.b
    by_M, by_V, by_b = reference.log_likelihood_gradients(Ms, V, b, X, y, normalize)
    H = rng.standard_normal((2, 3, 3))
    H = H + H.transpose(0, 2, 1)
    dV, db = rng.standard_normal((2, 3)), rng.standard_normal(2)
    h = 1e-4

    def at(t):
        return reference.log_likelihood(Ms + t * H, V + t * dV, b + t * db, X, y, normalize)

    slope = (np.array(by_M) * H).sum() + (by_V * dV).sum() + by_b @ db
    rise = 8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))
    assert rise / (12 * h) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("rank", [2, 4])
def test_the_objective_is_that_of_scikit_learn(rank):
    X, y = load_iris(return_X_y=True)
    L = np.random.default_rng(0).standard_normal((rank, 4))
    theirs = NeighborhoodComponentsAnalysis()
    theirs.n_iter_ = 0
    loss, gradient = theirs._loss_grad_lbfgs(L.ravel(), X, y[:, None] == y[None], -1.0)
    points = Neighborhoods(X, y)
    chances = points.chances(L)
    p = np.exp(chances.log_p)
    assert -loss == pytest.approx(p.sum(), rel=1e-10)
    ours = points.gradient(chances, p, L)
    np.testing.assert_allclose(-gradient.reshape(L.shape), ours, atol=1e-9)


@pytest.mark.parametrize("loader", [load_iris, load_wine])
def test_as_good_as_scikit_learn_from_the_same_start(loader):
    X, y = loader(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    start = np.eye(X.shape[1]) / X.shape[1] ** 0.25
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = NeighborhoodComponentsAnalysis(init=start, max_iter=200, tol=1e-6).fit(X, y)
        ours = NCA(prior=Metric(start), scale=None).fit(X, y)
    reached = np.exp(Neighborhoods(X, y).chances(theirs.components_).log_p).mean()
    assert -ours.history_.objective[-1] >= 0.99 * reached


def test_objectives_fall():
    X, y = load_wine(return_X_y=True)
    for learner in (
        NCA(),
        NCA(objective="likelihood"),
        SparseNCA(),
        MixtureNCA(n_metrics=3, random_state=0),
    ):
        objective = learner.fit(X, y).history_.objective
        assert len(objective) > 5
        assert (np.diff(objective) <= 1e-12).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_raw_features_and_types(dtype):
    X, y = load_wine(return_X_y=True)
    X = X.astype(dtype)
    for learner in (NCA(scale="unit"), SparseNCA(), MixtureNCA(n_metrics=2, random_state=0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            learner.fit(X, y)
        assert learner.transform(X).dtype == dtype
        assert np.isfinite(learner.transform(X)).all()
        assert learner.score(X, y) > 0.65


class TestSparse:
    def test_the_price_lowers_the_rank(self):
        X, y = load_wine(return_X_y=True)
        ranks = [
            SparseNCA(sparsity=s).fit(X, y).metric_.n_components for s in (0.0, 1e-4, 1e-2, 0.1)
        ]
        assert ranks[0] == 13
        assert ranks == sorted(ranks, reverse=True)
        assert ranks[-1] == 2

    def test_a_price_that_is_too_high_leaves_nothing(self):
        X, y = load_wine(return_X_y=True)
        with pytest.warns(ConvergenceWarning, match="Nothing was learned"):
            learner = SparseNCA(sparsity=100.0).fit(X, y)
        assert learner.metric_.n_components == 1
        assert not learner.components_.any()

    def test_a_prior_begins_where_it_is(self):
        X, y = load_wine(return_X_y=True)
        prior = Metric(np.diag(1 / X.std(axis=0)))
        for scale in ("standard", "unit", None):
            learner = SparseNCA(prior=prior, scale=scale, sparsity=0.0, max_iter=1, tol=0.0)
            with pytest.warns(ConvergenceWarning):
                learner.fit(X, y)
            p = Neighborhoods(X, y).chances(prior.L).log_p.mean()
            assert learner.history_.objective[0] < -p

    def test_stationary_in_m(self):
        X, y = load_wine(return_X_y=True)
        Z = (X - X.mean(axis=0)) / X.std(axis=0)
        learner = SparseNCA(sparsity=0.01, scale=None, tol=1e-12).fit(Z, y)
        points = Neighborhoods(Z, y)
        L = learner.components_
        G = points.matrix_gradient(points.chances(L), np.ones(len(Z))) / len(Z)
        excess = 0.01 * np.eye(13) - G
        assert np.linalg.eigvalsh(excess).min() > -1e-4
        np.testing.assert_allclose(excess @ L.T, 0.0, atol=1e-4)

    def test_no_price_is_the_likelihood(self):
        X, y = load_iris(return_X_y=True)
        free = SparseNCA(sparsity=0.0, tol=1e-6).fit(X, y)
        plain = NCA(objective="likelihood").fit(X, y)
        assert free.history_.objective[-1] == pytest.approx(plain.history_.objective[-1], rel=1e-6)


class TestMixture:
    def test_the_papers_steps_equal_loops(self):
        X, y, rng = random_problem(2)
        centers = rng.standard_normal((2, 3))
        first = Model(
            np.repeat(np.eye(3)[None] / 3**0.25, 2, axis=0),
            centers,
            -0.5 * (centers**2).sum(axis=1),
        )
        mixture = Mixture(Neighborhoods(X, y), 2, 0.02, 0.02)
        rounds = list(mixture.descend_as_printed(first, max_iter=5))
        expected = reference.faithful_run(X, y, 2, 5, centres=centers, penalise_offsets=False)
        np.testing.assert_allclose([r.objective for r in rounds], expected.objectives[1:])
        Ms = [L.T @ L for L in rounds[-1].model.L]
        np.testing.assert_allclose(Ms, expected.Ms, atol=1e-12)
        np.testing.assert_allclose(rounds[-1].model.V, expected.V, atol=1e-12)

    def test_one_metric_is_sparse_nca(self):
        X, y = load_wine(return_X_y=True)
        one = MixtureNCA(n_metrics=1, tol=1e-8).fit(X, y)
        alone = SparseNCA().fit(X, y)
        assert isinstance(one.metric_, Metric)
        assert not isinstance(one.metric_, GatedMetric)
        assert one.history_.objective[-1] == pytest.approx(alone.history_.objective[-1], rel=1e-5)

    def test_two_regions(self):
        X, y, _ = datasets.make_two_regions(800, random_state=0)
        X_test, y_test, region_test = datasets.make_two_regions(600, random_state=1)
        mixture = MixtureNCA(n_metrics=2, random_state=0).fit(X, y)
        error = knn_error(mixture.metric_, X, y, X_test, y_test)
        single = min(
            knn_error(learner.fit(X, y).metric_, X, y, X_test, y_test)
            for learner in (SparseNCA(), NCA(), SparseNCA(sparsity=0.001))
        )
        assert error < 0.05 < 0.1 < single
        chosen = mixture.metric_.assign(X_test)
        assert max(np.mean(chosen == region_test), np.mean(chosen != region_test)) > 0.99

    def test_auto_and_restarts(self):
        X, y, _ = datasets.make_two_regions(500, random_state=0)
        auto = MixtureNCA(n_metrics="auto", random_state=0).fit(X, y)
        assert auto.n_metrics_ == 2
        few = MixtureNCA(n_metrics="auto", random_state=0).fit(X[:5], [0, 0, 1, 1, 1])
        assert few.n_metrics_ == 1
        once = MixtureNCA(n_metrics=2, random_state=0).fit(X, y)
        more = MixtureNCA(n_metrics=2, n_init=3, random_state=0).fit(X, y)
        assert more.history_.objective[-1] <= once.history_.objective[-1] + 1e-6

    def test_gates_and_zeros(self):
        X, y = load_wine(return_X_y=True)
        learner = MixtureNCA(n_metrics=3, gate_sparsity=0.02, random_state=0).fit(X, y)
        gate = learner.metric_.gate(X)
        np.testing.assert_allclose(gate.sum(axis=1), 1.0)
        V, b = learner.gate_
        assert (V == 0).any()
        scores = X @ V.T + b
        np.testing.assert_array_equal(scores.argmax(axis=1), learner.metric_.assign(X))
        assert len(learner.metrics_) == 3
        assert learner.n_metrics_ == np.count_nonzero(gate.mean(axis=0) > 1e-3)

    def test_as_printed(self):
        X, y = load_iris(return_X_y=True)
        learner = MixtureNCA(
            n_metrics=2, normalize=True, sparsity=0.02, gate_sparsity=0.02, max_iter=30,
            random_state=0,
        )  # fmt: skip
        learner.fit(X, y)
        assert learner.history_.objective[-1] < learner.history_.objective[0]
        with pytest.raises(ValueError, match="n_components"):
            learner.set_params(n_components=2).fit(X, y)

    def test_auto_takes_no_more_metrics_than_there_are_rows(self):
        X = np.arange(60.0).reshape(60, 1) % 2
        learner = MixtureNCA(n_metrics="auto", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert learner.fit(X, X[:, 0] > 0).n_metrics_ <= 2

    def test_too_many_metrics(self):
        X = load_iris().data
        with pytest.raises(ValueError, match="n_metrics=9"):
            MixtureNCA(n_metrics=9).fit(X[:8], [0, 0, 0, 0, 1, 1, 1, 1])

    @pytest.mark.parametrize(
        "parameters",
        [{"n_metrics": 0}, {"sparsity": -1.0}, {"gate_sparsity": -1.0}, {"n_init": 0}],
    )
    def test_bad_parameters(self, parameters):
        (name,) = parameters
        with pytest.raises(ValueError, match=f"{name} must be"):
            MixtureNCA(**parameters).fit(*load_iris(return_X_y=True))


@pytest.fixture(scope="module")
def fitted():
    X, y = load_wine(return_X_y=True)
    return X, y, MixtureNCA(n_metrics=3, random_state=0).fit(X, y).metric_


class TestGatedMetric:
    def test_distances_go_by_the_query(self, fitted):
        X, _, metric = fitted
        chosen = metric.assign(X)
        D = metric.distances(X[:20], X)
        for i in range(20):
            expected = metric.metrics[chosen[i]].distances(X[i : i + 1], X)[0]
            np.testing.assert_allclose(D[i], expected, atol=1e-12)
        pairs = np.array([[3, 90], [90, 3], [170, 5]])
        np.testing.assert_allclose(metric.pair_distances(X, pairs), metric.distances(X)[*pairs.T])

    def test_neighbours_are_exact(self, fitted):
        X, y, metric = fitted
        D = metric.distances(X[100:], X[:100])
        found = kneighbors(metric, X[:100], X[100:], n_neighbors=4)
        np.testing.assert_allclose(found[0], np.sort(D, axis=1)[:, :4], atol=1e-6)
        curve = neighbor_accuracy_curve(
            metric, X[:100], y[:100], max_k=3, X_query=X[100:], y_query=y[100:]
        )
        nearest = np.argsort(D, axis=1)[:, :3]
        np.testing.assert_allclose(curve, (y[nearest] == y[100:, None]).mean(axis=0))
        own = metric.distances(X)
        np.fill_diagonal(own, np.inf)
        alone = kneighbors(metric, X, n_neighbors=1)[1].ravel()
        np.testing.assert_array_equal(own[np.arange(178), alone], own.min(axis=1))
        assert 0 < map_at_r(metric, X, y) <= 1

    def test_classifier(self, fitted):
        X, y, metric = fitted
        hard = MetricNeighborsClassifier(MixtureNCA(n_metrics=3, random_state=0)).fit(X, y)
        wrong = np.mean(hard.predict(X) != y)
        assert wrong == knn_error(metric, X, y, X, y)
        soft = MetricNeighborsClassifier(MixtureNCA(n_metrics=3, random_state=0), gate="soft").fit(
            X, y
        )
        np.testing.assert_allclose(soft.predict_proba(X[:9]), metric.class_votes(X, y, X[:9])[1])
        assert soft.score(X, y) > 0.95
        with pytest.raises(ValueError, match="gate must be"):
            MetricNeighborsClassifier(gate="fuzzy").fit(X, y)

    def test_votes_equal_loops(self, fitted):
        X, y, metric = fitted
        Ms = np.array([m.matrix for m in metric.metrics])
        expected = reference.soft_votes(Ms, metric.V, metric.b, X[:40], y[:40], X[40:50], False)
        classes, votes = metric.class_votes(X[:40], y[:40], X[40:50])
        assert classes.tolist() == np.unique(y[:40]).tolist()
        np.testing.assert_allclose(votes, expected, atol=1e-10)
        np.testing.assert_array_equal(metric.assign(X), reference.hard_gate(metric.V, metric.b, X))

    def test_save_and_load(self, fitted, tmp_path):
        X, _, metric = fitted
        metric.save(tmp_path / "m.safetensors")
        again = Metric.load(tmp_path / "m.safetensors")
        assert isinstance(again, GatedMetric)
        np.testing.assert_array_equal(again.distances(X), metric.distances(X))

    def test_projections(self, fitted):
        X, _, metric = fitted
        flat, chosen = metric.projections(X)
        assert flat.shape == (178, 2)
        np.testing.assert_array_equal(chosen, metric.assign(X))
        assert metric.transform(X).shape == (178, metric.n_components)
        with pytest.raises(AttributeError, match="several"):
            _ = metric.L

    def test_bad_gates_are_refused(self):
        one = Metric.identity(2)
        with pytest.raises(ValueError, match="at least one"):
            GatedMetric([], [], [])
        with pytest.raises(ValueError, match="same features"):
            GatedMetric([one, Metric.identity(3)], np.zeros((2, 2)), np.zeros(2))
        with pytest.raises(ValueError, match="weights and offsets"):
            GatedMetric([one, one], np.zeros((1, 2)), np.zeros(2))
        with pytest.raises(ValueError, match="finite"):
            GatedMetric([one], [[np.nan, 0.0]], [0.0])
        X, y = load_iris(return_X_y=True)
        kernel = MaxMarginMetric(kernel="rbf", n_basis=4, random_state=0).fit(X, y).metric_
        with pytest.raises(ValueError, match="without kernel"):
            GatedMetric([kernel], np.zeros((1, 4)), [0.0])


class TestBatches:
    def test_progress_is_made(self):
        X, y = load_wine(return_X_y=True)
        learner = NCA(batch_size=60, max_iter=20, random_state=0).fit(X, y)
        whole = Neighborhoods((X - X.mean(axis=0)) / X.std(axis=0), y)
        start = np.exp(whole.chances(np.eye(13) / 13**0.25).log_p).mean()
        scaled = learner.components_ * X.std(axis=0)
        assert np.exp(whole.chances(scaled).log_p).mean() > start + 0.02

    def test_batches_that_are_too_small(self):
        X = np.arange(24.0).reshape(12, 2)
        with pytest.raises(ValueError, match="batch_size"):
            NCA(batch_size=2, random_state=0).fit(X, np.arange(12) // 2)


@pytest.mark.parametrize("learner", [NCA(), SparseNCA(), MixtureNCA(n_metrics=2)])
def test_one_class_is_refused(learner):
    X = load_iris().data
    with pytest.raises(ValueError, match="two classes"):
        learner.fit(X, np.zeros(150))


def test_lbfgs_can_be_stopped_and_fails_loudly():
    def sphere(x):
        return float(x @ x), 2 * x

    steps = lbfgs(sphere, np.full(3, 5.0), max_iter=50, tol=0.0)
    next(steps)
    steps.close()

    def broken(x):
        raise RuntimeError("no value here")

    with pytest.raises(RuntimeError, match="no value"):
        next(lbfgs(broken, np.ones(2), max_iter=5, tol=0.0))
    with pytest.raises(ValueError, match="not finite"):
        next(lbfgs(lambda x: (np.nan, x), np.ones(2), max_iter=5, tol=0.0))
