"""Mixtures of metrics against loops, finite differences and constructed problems."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

from nearfar import NCA, GatedMetric, Metric, MixtureNCA, SparseNCA, datasets
from nearfar.learners.nca.mixture_nca import Mixture, MixtureModel
from nearfar.learners.nca.soft_neighbors import SoftNeighbors
from nearfar.measures import knn_error
from problems import points_with_a_single
from references import msnca as reference


def random_model(rng, n_metrics, n_features=3, rank=3):
    return MixtureModel(
        rng.standard_normal((n_metrics, rank, n_features)),
        rng.standard_normal((n_metrics, n_features)),
        rng.standard_normal(n_metrics),
    )


@pytest.mark.parametrize("n_metrics", [1, 2, 4])
def test_mixture_gradients_equal_loops(n_metrics):
    X, y, rng = points_with_a_single(1)
    model = random_model(rng, n_metrics)
    points = SoftNeighbors(X, y)
    value, by = Mixture(points, n_metrics, 0.0, 0.0).value(model)
    n = points.counted.sum()
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
    X, y, rng = points_with_a_single(seed, n=16)
    points = SoftNeighbors(X, y)
    mixture = Mixture(points, n_metrics, 0.03, 0.0)
    model, move = random_model(rng, n_metrics, rank=2), random_model(rng, n_metrics, rank=2)
    h = 1e-3

    def at(t):
        return mixture.value(
            MixtureModel(model.L + t * move.L, model.V + t * move.V, model.b + t * move.b)
        )[0]

    by = mixture.value(model)[1]
    slope = (by.L * move.L).sum() + (by.V * move.V).sum() + by.b @ move.b
    rise = 8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))
    assert rise / (12 * h) == pytest.approx(slope, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("normalize", [False, True])
def test_the_references_gradients_equal_finite_differences(normalize):
    X, y, rng = points_with_a_single(3, n=12)
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


class TestMixture:
    @pytest.mark.parametrize("n_metrics", [1, 2, 3])
    def test_each_printed_step_equals_loops(self, n_metrics):
        X, y, rng = points_with_a_single(2)
        A = 0.4 * rng.standard_normal((n_metrics, 3, 3))
        gate = rng.standard_normal((n_metrics, 4))
        # A coordinate of zero has the sign +1 (17).
        gate[:, 1] = 0.0
        mixture = Mixture(SoftNeighbors(X, y), n_metrics, 0.02, 0.05)
        first = MixtureModel(A, gate[:, :-1], gate[:, -1])
        iterations = list(mixture.minimize_as_in_paper(first, max_iter=8))
        Ms = np.swapaxes(A, 1, 2) @ A
        expected = reference.printed_run(X, y, Ms, gate, n_iter=8, eta=0.05)
        norms = [np.linalg.norm(state.Ms[0]) for state in expected]
        assert np.ptp(norms) > 0.01
        for found, state in zip(iterations, expected[1:], strict=True):
            model = found.payload
            assert found.objective == pytest.approx(state.objective, rel=1e-10)
            np.testing.assert_allclose([L.T @ L for L in model.L], state.Ms, atol=1e-9)
            np.testing.assert_allclose(model.V, state.V[:, :-1], atol=1e-10)
            np.testing.assert_allclose(model.b, state.V[:, -1], atol=1e-10)

    def test_a_fit_as_printed_equals_loops(self):
        X, y, _ = points_with_a_single(4)
        learner = MixtureNCA(
            n_metrics=2, variant="paper", scale=None, sparsity=0.02, gate_sparsity=0.02, max_iter=5,
            random_state=0,
        )  # fmt: skip
        learner.fit(X, y)
        # Clusters are those of the rows by class.
        order = np.argsort(y, kind="stable")
        Z, y = (X - X.mean(axis=0))[order], y[order]
        centers = KMeans(2, n_init=1, random_state=np.random.RandomState(0)).fit(Z).cluster_centers_
        gate = np.column_stack([centers, -0.5 * (centers**2).sum(axis=1)])
        start = np.repeat(np.eye(3)[None] / np.sqrt(3), 2, axis=0)
        last = reference.printed_run(Z, y, start, gate, n_iter=5)[-1]
        found = [metric.matrix for metric in learner.metrics_]
        np.testing.assert_allclose(found, last.Ms, atol=1e-9)
        np.testing.assert_allclose(learner.gate_[0], last.V[:, :-1], atol=1e-9)
        one = SparseNCA(variant="paper", scale=None, sparsity=0.02, max_iter=5).fit(Z, y)
        last = reference.printed_run(Z, y, start[:1], np.zeros((1, 4)), n_iter=5, eta=0.0)[-1]
        np.testing.assert_allclose(one.metric_.matrix, last.Ms[0], atol=1e-9)

    def test_matrices_as_printed_are_cut_to_their_leading_axes(self):
        X, y, _ = points_with_a_single(4)
        settings = {"variant": "paper", "scale": None, "max_iter": 5}
        learners = MixtureNCA(n_metrics=2, random_state=0, **settings), SparseNCA(**settings)
        for learner in learners:
            whole = [metric.matrix for metric in learner.fit(X, y).metric_.parts]
            learner.set_params(n_components=2).fit(X, y)
            for M, part in zip(whole, learner.metric_.parts, strict=True):
                values, axes = np.linalg.eigh(M)
                assert len(part.L) == 2
                expected = (axes[:, 1:] * values[1:]) @ axes[:, 1:].T
                np.testing.assert_allclose(part.matrix, expected, atol=1e-10)

    @pytest.mark.skipif(
        not Path(os.environ.get("NEARFAR_DATA", ""), "vehicle.npz").is_file(),
        reason="NEARFAR_DATA does not name a folder with vehicle.npz",
    )
    def test_the_printed_steps_lower_the_objective_on_vehicles(self):
        """Rescaled to |M|_F = 1 after every step, metrics move too far and it rises."""
        data = datasets.load("vehicle")
        learner = MixtureNCA(
            variant="paper", scale="standard", sparsity=0.02, gate_sparsity=0.02, max_iter=25,
            random_state=0,
        )  # fmt: skip
        objective = learner.fit(data.X, data.y).history_.objective
        assert (np.diff(objective) < 0).all()

    def test_one_metric_is_sparse_nca(self):
        X, y = load_wine(return_X_y=True)
        one = MixtureNCA(scale="standard", n_metrics=1, tol=1e-8).fit(X, y)
        alone = SparseNCA(scale="standard", tol=1e-8).fit(X, y)
        assert isinstance(one.metric_, Metric)
        assert not isinstance(one.metric_, GatedMetric)
        assert one.history_.objective[-1] == pytest.approx(alone.history_.objective[-1], rel=1e-5)

    def test_two_regions(self):
        X, y, _ = datasets.make_two_regions(400, random_state=0)
        X_test, y_test, region_test = datasets.make_two_regions(300, random_state=1)
        mixture = MixtureNCA(scale="standard", n_metrics=2, random_state=0).fit(X, y)
        error = knn_error(mixture.metric_, X, y, X_test, y_test)
        single = min(
            knn_error(learner.fit(X, y).metric_, X, y, X_test, y_test)
            for learner in (
                SparseNCA(scale="standard"),
                NCA(scale="standard"),
                SparseNCA(scale="standard", sparsity=0.001),
            )
        )
        assert error < 0.05 < 0.1 < single
        chosen = mixture.metric_.assign(X_test)
        assert max(np.mean(chosen == region_test), np.mean(chosen != region_test)) > 0.99

    def test_auto_finds_the_number_of_regions(self):
        X, y, _ = datasets.make_two_regions(160, random_state=0)
        auto = MixtureNCA(scale="standard", n_metrics="auto", tol=1e-3, random_state=0).fit(X, y)
        assert auto.n_metrics_ == 2
        few = MixtureNCA(scale="standard", n_metrics="auto", random_state=0).fit(
            X[:5], [0, 0, 1, 1, 1]
        )
        assert few.n_metrics_ == 1

    @pytest.mark.parametrize("seed", range(3))
    def test_the_best_of_several_starts_comes_last(self, seed):
        X, y, _ = datasets.make_two_regions(60, random_state=0)
        learner = MixtureNCA(scale="standard", n_metrics=3, tol=1e-3, random_state=seed)
        once = learner.fit(X, y).history_
        history = learner.set_params(n_init=3).fit(X, y).history_
        assert learner.n_iter_ == len(history) <= 3 * 200 + 1
        restarts = np.array([iteration.restart for iteration in history])
        changes = np.flatnonzero(np.diff(restarts)) + 1
        parts = np.split(history.objective, changes)
        np.testing.assert_allclose(parts[0], once.objective)
        assert all((np.diff(part) <= 1e-12).all() for part in parts)
        ends = [part[-1] for part in parts[:3]]
        assert restarts[np.append(changes, len(history))[:3] - 1].tolist() == [0, 1, 2]
        assert history.objective[-1] == min(ends)
        assert restarts[-1] == np.argmin(ends)
        assert len(parts) == (3 if np.argmin(ends) == 2 else 4)
        assert [iteration.payload is not None for iteration in history[-2:]] == [False, True]
        assert np.isfinite(history.seconds).all()

    def test_gates_and_zeros(self):
        X, y = load_wine(return_X_y=True)
        learner = MixtureNCA(scale="standard", n_metrics=3, gate_sparsity=0.02, random_state=0).fit(
            X, y
        )
        gate = learner.metric_.gate(X)
        np.testing.assert_allclose(gate.sum(axis=1), 1.0)
        V, b = learner.gate_
        assert (V == 0).any()
        scores = X @ V.T + b
        np.testing.assert_array_equal(scores.argmax(axis=1), learner.metric_.assign(X))
        assert len(learner.metrics_) == len(V) <= 3
        assert learner.n_metrics_ == np.count_nonzero(gate.mean(axis=0) > 1e-3)

    def test_unused_metrics_are_dropped_while_others_go_on(self):
        X, y = load_wine(return_X_y=True)
        learner = MixtureNCA(n_metrics=4, gate_sparsity=0.1, random_state=0).fit(X, y)
        assert len(learner.metrics_) < 4
        assert (np.diff(learner.history_.objective) <= 0).all()

    def test_the_gate_begins_with_the_same_boundaries_and_a_penalty_of_one(self, rng):
        X, y = rng.standard_normal((40, 60)), np.arange(40) % 2
        start = MixtureModel(np.zeros((2, 1, 60)), 10 * rng.standard_normal((2, 60)), np.ones(2))
        mixture = Mixture(SoftNeighbors(X, y), 2, 0.01, gate_sparsity=0.5)
        cheaper = mixture.with_cheaper_gate(start)
        assert 0.5 * np.abs(cheaper.V).sum() == pytest.approx(1.0)
        np.testing.assert_array_equal(
            (X @ cheaper.V.T + cheaper.b).argmax(axis=1), (X @ start.V.T + start.b).argmax(axis=1)
        )
        assert pytest.approx(cheaper.V) == mixture.with_cheaper_gate(cheaper).V

    def test_the_paper_variant(self):
        X, y = load_iris(return_X_y=True)
        learner = MixtureNCA(
            n_metrics=2, variant="paper", sparsity=0.02, gate_sparsity=0.02, max_iter=30,
            random_state=0,
        )  # fmt: skip
        learner.fit(X, y)
        assert learner.history_.objective[-1] < learner.history_.objective[0]

    def test_auto_takes_no_more_metrics_than_there_are_rows(self):
        X = np.arange(60.0).reshape(60, 1) % 2
        learner = MixtureNCA(scale="standard", n_metrics="auto", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert learner.fit(X, X[:, 0] > 0).n_metrics_ <= 2

    def test_too_many_metrics(self):
        X = load_iris().data
        with pytest.raises(ValueError, match="n_metrics=9"):
            MixtureNCA(scale="standard", n_metrics=9).fit(X[:8], [0, 0, 0, 0, 1, 1, 1, 1])

    @pytest.mark.parametrize(
        "parameters",
        [{"n_metrics": 0}, {"sparsity": -1.0}, {"gate_sparsity": -1.0}, {"n_init": 0}],
    )
    def test_bad_parameters(self, parameters):
        (name,) = parameters
        with pytest.raises(ValueError, match=f"{name} must be"):
            MixtureNCA(**parameters).fit(*load_iris(return_X_y=True))
