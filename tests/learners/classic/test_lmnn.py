"""LMNN against loops over all triplets, long runs of projected gradients, and itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from nearfar import LMNN, Metric, Pairs, RandomPairs, RandomTriplets, Triplets
from nearfar.learners.classic import impostors, lmnn
from nearfar.supervision.strategies import class_neighbors
from problems import labelled, points_with_a_single, set_bands
from references import lmnn as reference

TIGHT = {"tol": 1e-9, "max_iter": 1000}


def fresh(**parameters):
    return LMNN(**{"scale": "standard"} | parameters)


def half_of(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X)[::2], y[::2]


def objective_of(metric, X, y, *, pairs=None, push=0.5):
    """The objective of a metric, by loops; by default with three targets of standardised points."""
    if pairs is None:
        pairs = reference.targets(StandardScaler().fit_transform(X), y, 3)
    H = metric.distances(X) ** 2
    return reference.objective(H, pairs, reference.triplets(y, pairs), push)


class TestObjective:
    @pytest.mark.parametrize("load", [load_iris, load_wine])
    @pytest.mark.parametrize(
        "parameters",
        [{}, {"n_neighbors": 1}, {"push": 0.9}, {"n_components": 2}, {"scale": None}],
        ids=str,
    )
    def test_the_last_one_is_that_of_all_triplets(self, load, parameters):
        X, y = half_of(load)
        learner = fresh(**parameters).fit(X, y)
        push, n_neighbors = learner.push, learner.n_neighbors
        pairs = reference.targets(X / (X.std(axis=0) if learner.scale else 1.0), y, n_neighbors)
        expected = objective_of(learner.metric_, X, y, pairs=pairs, push=push)
        assert learner.history_.objective[-1] == pytest.approx(expected, rel=1e-9)

    def test_also_if_iterations_run_out(self):
        X, y = half_of(load_wine)
        for max_iter in range(1, 8):
            with pytest.warns(ConvergenceWarning, match=f"max_iter={max_iter} was reached"):
                learner = fresh(max_iter=max_iter, tol=1e-9).fit(X, y)
            expected = objective_of(learner.metric_, X, y)
            assert learner.history_.objective[-1] == pytest.approx(expected, rel=1e-9)
            assert learner.n_iter_ == max_iter

    @pytest.mark.parametrize("push", [0.2, 0.8])
    def test_is_not_above_a_long_run_of_projected_gradients(self, push):
        X, y, _ = labelled(seed=1, n=30)
        X = StandardScaler().fit_transform(X)
        pairs = reference.targets(X, y, 3)
        best = reference.projected_gradient(
            X, pairs, reference.triplets(y, pairs), push, n_steps=1000
        )
        reached = fresh(push=push, **TIGHT).fit(X, y).history_.objective[-1]
        assert reached <= best * (1 + 1e-6)
        assert reached >= best * (1 - 1e-3)

    def test_any_start_leads_to_the_same(self):
        X, y, rng = labelled(seed=2, n=80)
        starts = ["identity", *(Metric(rng.standard_normal((4, 4))) for _ in range(3))]
        reached = [fresh(init=init, **TIGHT).fit(X, y).history_.objective[-1] for init in starts]
        np.testing.assert_allclose(reached, reached[0], rtol=1e-5)

    def test_a_start_is_multiplied_by_the_best_factor(self):
        X, y = half_of(load_iris)
        first = [
            fresh(init=Metric(size * np.eye(4))).fit(X, y).history_.objective
            for size in (1e-6, 1e3)
        ]
        np.testing.assert_allclose(*first, rtol=1e-6)

    def test_classes_of_one_are_impostors_only(self):
        X, y, _ = points_with_a_single(0)
        learner = fresh().fit(X, y)
        expected = objective_of(learner.metric_, X, y)
        assert learner.history_.objective[-1] == pytest.approx(expected, rel=1e-9)
        without = fresh().fit(X[:-1], y[:-1])
        assert without.history_.objective[-1] != pytest.approx(expected, rel=1e-3)

    @pytest.mark.parametrize("n_components", [None, 2])
    def test_the_start_is_the_best_multiple(self, n_components):
        X, y = half_of(load_iris)
        source = impostors.Impostors.nearest(X, y, 3)
        P = X if n_components is None else X[:, :n_components]
        factor, value = lmnn.best_multiple(source.sample(P), 0.5)
        pairs = reference.targets(X, y, 3)
        H = ((P[:, None] - P[None]) ** 2).sum(axis=-1)

        def objective(s):
            return reference.objective(s * H, pairs, reference.triplets(y, pairs), 0.5)

        assert value == pytest.approx(objective(factor), rel=1e-9)
        assert value <= min(map(objective, factor * np.geomspace(0.1, 10.0, 21))) * (1 + 1e-4)


class TestTooManyTripletsToList:
    @pytest.fixture(autouse=True)
    def _never_list(self, monkeypatch):
        monkeypatch.setattr(impostors, "_ALWAYS_LISTED", 0)
        monkeypatch.setattr(impostors, "_MOST_PER_TARGET", 0)

    def test_the_optimum_is_the_same(self, monkeypatch):
        X, y, _ = labelled(seed=3, n=80)
        tiled = fresh(**TIGHT).fit(X, y)
        monkeypatch.undo()
        listed = fresh(**TIGHT).fit(X, y)
        assert tiled.history_.objective[-1] == pytest.approx(
            listed.history_.objective[-1], rel=1e-5
        )
        assert tiled.history_.objective[-1] == pytest.approx(objective_of(tiled.metric_, X, y))

    def test_the_objective_never_rises(self):
        X, y = half_of(load_wine)
        assert (np.diff(fresh().fit(X, y).history_.objective) <= 1e-12).all()


class TestTargets:
    def test_are_updated_until_they_stay(self):
        X, y = half_of(load_wine)
        learner = fresh(update_targets=50, max_iter=2000).fit(X, y)
        P = learner.transform(X)
        pairs = [
            (i, j) for i, row in enumerate(class_neighbors(P, y, 3, 0)[0]) for j in row if j >= 0
        ]
        expected = objective_of(learner.metric_, X, y, pairs=pairs)
        assert learner.history_.objective[-1] == pytest.approx(expected, rel=1e-9)
        assert set(pairs) != set(reference.targets(X, y, 3))

    def test_an_update_continues_where_the_last_ended(self):
        X, y = half_of(load_wine)
        before, after = fresh().fit(X, y), fresh(update_targets=1).fit(X, y)
        n = before.n_iter_
        np.testing.assert_array_equal(after.history_.objective[:n], before.history_.objective)
        assert after.n_iter_ > n


class TestGivenConstraints:
    def test_triplets_that_labels_imply_are_the_same_as_labels(self):
        X, y, _ = labelled(seed=4, n=50)
        pairs = reference.targets(StandardScaler().fit_transform(X), y, 3)
        triplets = Triplets(reference.triplets(y, pairs))
        labels, given = fresh(**TIGHT).fit(X, y), fresh(**TIGHT).fit(X, triplets)
        assert given.history_.objective[-1] == pytest.approx(
            labels.history_.objective[-1], rel=1e-5
        )
        expected = objective_of(given.metric_, X, y)
        assert given.history_.objective[-1] == pytest.approx(expected, rel=1e-9)

    def test_pairs_are_the_same_as_their_triplets(self):
        X, y = half_of(load_wine)
        pairs = RandomPairs(300)(X, y, np.random.RandomState(0))
        one, other = fresh().fit(X, pairs), fresh().fit(X, pairs.triplets())
        np.testing.assert_array_equal(one.transform(X), other.transform(X))

    def test_the_order_of_pairs_does_not_matter(self):
        X, y = half_of(load_iris)
        pairs = RandomPairs(200)(X, y, np.random.RandomState(0))
        reverse = Pairs(pairs.index[::-1], pairs.similar[::-1])
        one, other = fresh(**TIGHT).fit(X, pairs), fresh(**TIGHT).fit(X, reverse)
        assert one.history_.objective[-1] == pytest.approx(other.history_.objective[-1], rel=1e-5)

    def test_the_last_objective_is_that_of_a_loop(self):
        X, y = half_of(load_wine)
        triplets = RandomTriplets(200)(X, y, np.random.RandomState(0)).distinct()
        triplets = Triplets(triplets.index)
        learner = fresh().fit(X, triplets)
        pairs = sorted({(i, j) for i, j, _ in triplets.index.tolist()})
        comparisons = [tuple(row) for row in triplets.index.tolist()]
        H = learner.metric_.distances(X) ** 2
        expected = reference.objective(H, pairs, comparisons, 0.5)
        assert learner.history_.objective[-1] == pytest.approx(expected, rel=1e-9)

    def test_targets_are_not_updated(self):
        X, y = half_of(load_wine)
        triplets = RandomTriplets(200)(X, y, np.random.RandomState(0))
        one, other = (fresh(update_targets=k).fit(X, triplets) for k in (0, 5))
        np.testing.assert_array_equal(one.transform(X), other.transform(X))


def test_transform_is_the_map_of_the_metric():
    X, y = half_of(load_wine)
    learner = fresh().fit(X, y)
    np.testing.assert_allclose(learner.transform(X), X @ learner.components_.T)
    assert np.linalg.eigvalsh(learner.metric_.matrix).min() > -1e-12
    np.testing.assert_array_equal(learner.transform(X), fresh().fit(X, y).transform(X))


@pytest.mark.parametrize("scale", ["standard", "unit", None])
def test_units_do_not_matter(scale):
    X, y = load_wine(return_X_y=True)
    D = fresh(scale=scale).fit(X, y).metric_.distances(X)
    scaled = fresh(scale=scale).fit(1000.0 * X, y).metric_.distances(1000.0 * X)
    np.testing.assert_allclose(scaled, D, rtol=1e-4, atol=1e-6)


def test_unit_rows():
    X, y = load_wine(return_X_y=True)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    learner = fresh(scale="cosine").fit(X, y)
    assert learner.metric_.unit_rows
    pairs = reference.targets(unit, y, 3)
    expected = objective_of(learner.metric_, X, y, pairs=pairs)
    assert learner.history_.objective[-1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_low_rank_begins_with_axes_that_separate_classes(k):
    X, y, rng = labelled(n=90, n_features=6)
    X[:, 3:] = 10.0 * rng.standard_normal((90, 3))
    X[:, :2] += 5.0 * np.column_stack([y == 1, y == 2])
    start = fresh(n_components=k, max_iter=1, scale=None, tol=0.0)
    with pytest.warns(ConvergenceWarning):
        L = np.abs(start.fit(X, y).components_)
    discriminant = k < 3
    assert (L[:, :3].max() > L[:, 3:].max()) == discriminant


def test_low_rank():
    X, y = half_of(load_wine)
    objectives = []
    for k in (1, 2, 13):
        learner = fresh(n_components=k, tol=1e-6).fit(X, y)
        assert learner.components_.shape == (k, 13)
        objectives.append(learner.history_.objective[-1])
    assert objectives == sorted(objectives, reverse=True)
    assert objectives[-1] == pytest.approx(fresh(tol=1e-6).fit(X, y).history_.objective[-1])


class TestPrecision:
    def test_float32(self):
        X, y = half_of(load_wine)
        narrow, wide = fresh().fit(X.astype(np.float32), y), fresh().fit(X, y)
        assert narrow.transform(X.astype(np.float32)).dtype == np.float32
        assert narrow.history_.objective[-1] == pytest.approx(wide.history_.objective[-1], rel=1e-3)
        expected = objective_of(narrow.metric_, X.astype(np.float32), y)
        assert narrow.history_.objective[-1] == pytest.approx(expected, rel=1e-5)

    def test_many_points_are_learned_in_float32_unless_that_is_not_enough(self, monkeypatch):
        X, y = half_of(load_wine)
        exact = [fresh(tol=tol).fit(X, y).transform(X) for tol in (1e-3, 1e-7)]
        monkeypatch.setattr(lmnn, "_EXACT_ROWS", 10)
        loose, tight = (fresh(tol=tol).fit(X, y).transform(X) for tol in (1e-3, 1e-7))
        assert loose.dtype == np.float64
        assert (loose != exact[0]).any()
        np.testing.assert_allclose(
            fresh().fit(X, y).history_.objective[-1],
            objective_of(fresh().fit(X, y).metric_, X, y),
            rtol=1e-5,
        )
        np.testing.assert_array_equal(tight, exact[1])


class TestMoreFeaturesThanRows:
    def test_principal_axes_are_as_good_as_features(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((24, 30)), np.arange(24) % 2
        axes = np.linalg.qr(rng.standard_normal((40, 30)))[0]
        few, many = fresh(scale=None).fit(X, y), fresh(scale=None).fit(X @ axes.T, y)
        np.testing.assert_allclose(
            many.metric_.distances(X @ axes.T), few.metric_.distances(X), rtol=1e-3
        )

    def test_warm_starts(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((20, 40)), np.arange(20) % 2
        learner = fresh(warm_start=True, tol=1e-6).fit(X, y)
        before = learner.history_.objective[-1]
        assert learner.fit(X, y).history_.objective[0] <= before * (1 + 1e-6)


def test_a_push_that_is_too_small_teaches_nothing():
    X, y = half_of(load_iris)
    with pytest.warns(ConvergenceWarning, match="push is so small"):
        learner = fresh(push=1e-6, tol=1e-6).fit(X, y)
    assert np.isfinite(learner.transform(X)).all()


def test_threads_change_nothing(monkeypatch):
    X, y, _ = labelled(n=200)
    set_bands(monkeypatch, 16)
    monkeypatch.setattr(lmnn, "_BLOCK_ROWS", 16)
    one, two = (fresh(n_jobs=n).fit(X, y).transform(X) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "parameters",
    [{"n_neighbors": 0}, {"push": 0.0}, {"push": 1.0}, {"update_targets": -1}, {"init": "best"}],
    ids=str,
)
def test_bad_parameters(parameters):
    X, y = half_of(load_iris)
    (name,) = parameters
    with pytest.raises(ValueError, match=f"{name} must be"):
        fresh(**parameters).fit(X, y)
