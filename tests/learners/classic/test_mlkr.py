"""MLKR against plain loops and finite differences, and as a learner from numbers."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import check_grad
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearfar import MLKR, Metric, NearestTriplets, Pairs, Triplets
from nearfar.learners import map_learner
from nearfar.learners.classic.mlkr import LeaveOneOutRegression
from nearfar.supervision import Chunklets
from problems import DEGENERATE, degenerate_points, set_bands
from references import mlkr as reference


def random_problem(seed=0, n=40, n_features=5, rows=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features))
    X[1] = X[0]
    y = X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.standard_normal(n)
    return X, y, 0.6 * rng.standard_normal((rows, n_features))


X, Y = (part[::2] for part in load_diabetes(return_X_y=True))


class TestObjective:
    @pytest.mark.parametrize("rows", [1, 2, 5, 7])
    @pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
    def test_equals_a_plain_loop(self, band_rows, rows, scale):
        points, y, L = random_problem(rows=rows)
        error, _ = LeaveOneOutRegression(points, y).evaluate(scale * L)
        assert error == pytest.approx(reference.squared_error(scale * L, points, y), rel=1e-10)
        assert error == pytest.approx(reference.cost(scale * L, points, y), rel=1e-10)

    @pytest.mark.parametrize("rows", [1, 2, 5])
    def test_gradient_equals_finite_differences(self, band_rows, rows):
        points, y, L = random_problem(rows=rows)
        regression = LeaveOneOutRegression(points, y)

        def error(flat):
            return regression.evaluate(flat.reshape(L.shape))[0]

        def gradient(flat):
            return regression.evaluate(flat.reshape(L.shape))[1].ravel()

        size = np.linalg.norm(gradient(L.ravel()))
        assert check_grad(error, gradient, L.ravel()) < 1e-5 * size

    @pytest.mark.parametrize("rows", [1, 5])
    def test_float32_is_close_to_float64(self, rows):
        points, y, L = random_problem(rows=rows)
        error, gradient = LeaveOneOutRegression(points, y).evaluate(L)
        single = LeaveOneOutRegression(points.astype(np.float32), y).evaluate(L)
        assert single[0] == pytest.approx(error, rel=1e-4)
        np.testing.assert_allclose(single[1], gradient, atol=1e-3 * np.abs(gradient).max())

    def test_history_is_the_error_as_a_share_of_the_variance(self):
        learner = MLKR(scale=None).fit(X, Y)
        cost = reference.cost(learner.components_, X, Y)
        assert learner.history_.objective[-1] == pytest.approx(cost / (len(Y) * Y.var()), rel=1e-9)
        assert (np.diff(learner.history_.objective) < 0).all()


class TestFit:
    def test_finds_the_features_that_matter(self):
        points, y = make_friedman1(400, n_features=8, noise=0.5, random_state=0)
        M = MLKR(scale="standard").fit(points, y).metric_.matrix
        assert np.diag(M)[:5].min() > 3 * np.diag(M)[5:].max()
        plain = make_pipeline(StandardScaler(), KNeighborsRegressor(5))
        learned = make_pipeline(MLKR(scale="standard"), KNeighborsRegressor(5))
        gain = cross_val_score(learned, points, y) - cross_val_score(plain, points, y)
        assert gain.min() > 0.1

    def test_units_of_points_and_numbers_do_not_matter(self):
        first = MLKR(scale="standard").fit(X, Y).metric_.distances(X)
        second = (
            MLKR(scale="standard").fit(1000 * X + 5, 1e6 * Y - 3).metric_.distances(1000 * X + 5)
        )
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-6)
        for factor in (1e-140, 1e140):
            extreme = (
                MLKR(scale="standard").fit(factor * X, Y / factor).metric_.distances(factor * X)
            )
            np.testing.assert_allclose(first, extreme, rtol=1e-4, atol=1e-6)

    def test_numbers_of_any_type(self):
        counts = Y.astype(int)
        first = MLKR(scale="standard").fit(X, counts.astype(float)).transform(X)
        for y in (counts, counts.astype(np.float32), counts.astype(object), counts.tolist()):
            np.testing.assert_array_equal(MLKR(scale="standard").fit(X, y).transform(X), first)
        with pytest.warns(match="column-vector"):
            np.testing.assert_array_equal(
                MLKR(scale="standard").fit(X, counts[:, None]).transform(X), first
            )

    def test_float32_in_float32_out(self):
        single = MLKR(scale="standard").fit(X.astype(np.float32), Y)
        assert single.transform(X.astype(np.float32)).dtype == np.float32
        share = reference.cost(single.components_, X, Y) / (len(Y) * Y.var())
        assert single.history_.objective[-1] == pytest.approx(share, rel=1e-4)

    def test_many_points_are_learned_in_float32(self, monkeypatch):
        exact = MLKR(scale="standard", max_iter=200, tol=1e-4).fit(X, Y)
        monkeypatch.setattr(map_learner, "EXACT_ROWS", 10)
        rounded = MLKR(scale="standard", max_iter=200, tol=1e-4).fit(X, Y)
        assert (rounded.history_.objective[:5] != exact.history_.objective[:5]).any()
        share = reference.cost(rounded.components_, X, Y) / (len(Y) * Y.var())
        assert rounded.history_.objective[-1] == pytest.approx(share, rel=1e-4)

    def test_components_are_rows_of_the_map(self):
        assert MLKR(scale="standard", n_components=2).fit(X, Y).transform(X).shape == (len(X), 2)
        with pytest.raises(ValueError, match="n_components must be at most 10; got 11"):
            MLKR(scale="standard", n_components=11).fit(X, Y)

    def test_names_pickles_and_clones(self):
        frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(10)])
        learner = MLKR(scale="standard").set_output(transform="pandas").fit(frame, pd.Series(Y))
        assert learner.metric_.feature_names == tuple(frame.columns)
        assert list(learner.transform(frame).columns) == [f"mlkr{i}" for i in range(10)]
        copy = pickle.loads(pickle.dumps(learner))
        np.testing.assert_array_equal(copy.transform(frame), learner.transform(frame))
        assert not hasattr(clone(learner), "metric_")

    def test_the_number_of_threads_changes_nothing(self, monkeypatch):
        set_bands(monkeypatch, 16)
        one = MLKR(scale="standard", n_jobs=1).fit(X, Y).transform(X)
        np.testing.assert_array_equal(one, MLKR(scale="standard", n_jobs=2).fit(X, Y).transform(X))

    def test_tol_is_a_share_of_the_variance(self):
        """The error of flowers is small: relative to itself it would fall for longer."""
        X, y = load_iris(return_X_y=True)
        ends = []
        for tol in (1e-2, 1e-3, 1e-5):
            objective = MLKR(tol=tol).fit(X, y.astype(float)).history_.objective
            decreases = -np.diff(objective)
            assert decreases[-1] <= tol < decreases[:-1].min()
            ends.append(objective[-1])
        assert (np.diff(ends) < 0).all()

    def test_iterations_that_run_out_are_warned_of(self):
        with pytest.warns(ConvergenceWarning, match="max_iter=2 was reached"):
            MLKR(scale="standard", max_iter=2, tol=1e-9).fit(X, Y)

    def test_a_metric_of_ones_own_to_begin_with(self):
        own = Metric(np.diag(np.arange(1.0, 11.0)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            first = MLKR(max_iter=1, scale=None, init=own).fit(X, Y).history_.objective[0]
        assert first < reference.cost(own.L, X, Y) / (len(Y) * Y.var())

    @pytest.mark.parametrize("kind", DEGENERATE)
    @pytest.mark.parametrize(("scale", "dtype"), [("standard", np.float32), ("unit", np.float64)])
    def test_degenerate_points_give_finite_metrics(self, kind, scale, dtype, rng):
        points = degenerate_points(kind, rng).astype(dtype)
        learner = MLKR(scale=scale).fit(points, rng.standard_normal(30))
        assert np.isfinite(learner.metric_.matrix).all()
        assert np.isfinite(learner.transform(points)).all()
        assert np.isfinite(learner.history_.objective).all()

    def test_equal_points_have_no_distance(self):
        learner = MLKR(scale="standard").fit(np.ones((6, 2)), np.arange(6.0))
        np.testing.assert_array_equal(learner.metric_.distances(np.ones((6, 2))), 0.0)

    def test_two_points_and_outliers(self):
        assert np.isfinite(MLKR(scale="standard").fit(X[:2], Y[:2]).metric_.matrix).all()
        far = np.vstack([X, 1e6 * X[:1]])
        assert np.isfinite(MLKR(scale="standard").fit(far, np.append(Y, 0.0)).metric_.matrix).all()


class TestWarmStart:
    def test_continues_from_the_last_map(self):
        learner = MLKR(scale="standard", warm_start=True, tol=1e-5, max_iter=1000).fit(X, Y)
        cold, last = learner.n_iter_, learner.history_.objective[-1]
        again = learner.fit(X, Y)
        # A new search has no memory of steps, and may find a way on from where the last one ended.
        assert (again.history_.objective <= last * (1 + 1e-9)).all()
        assert again.history_.objective[-1] >= 0.95 * last
        assert again.n_iter_ < cold / 2

    def test_continues_from_a_file(self, tmp_path):
        learner = MLKR(scale="standard").fit(X, Y)
        learner.metric_.save(tmp_path / "metric")
        fresh = MLKR(scale="standard", warm_start=True)
        fresh.metric_ = Metric.load(tmp_path / "metric")
        assert fresh.fit(X, Y).history_.objective[0] <= learner.history_.objective[-1] * (1 + 1e-9)

    def test_other_features_are_refused(self):
        learner = MLKR(scale="standard", warm_start=True).fit(X, Y)
        with pytest.raises(ValueError, match="metric is for 10 features; X has 3"):
            learner.fit(X[:, :3], Y)


class TestScore:
    def test_is_that_of_the_nearest_other_rows(self):
        learner = MLKR(scale="standard").fit(X[:100], Y[:100])
        D = learner.metric_.distances(X[100:])
        np.fill_diagonal(D, np.inf)
        y = Y[100:]
        predicted = [y[np.argsort(row)[:5]].mean() for row in D]
        assert learner.score(X[100:], y) == pytest.approx(r2_score(y, predicted))
        assert np.isfinite(learner.score(X[:3], Y[:3]))

    def test_triplets_and_pairs_are_scored_as_by_other_learners(self):
        learner = MLKR(scale="standard").fit(X, Y)
        triplets = NearestTriplets()(X, np.median(Y) < Y)
        share = learner.metric_.prefers(X, triplets.index).mean()
        assert learner.score(X, triplets) == pytest.approx(share)
        assert 0 <= learner.score(X, Pairs([[0, 1], [0, 2]], [True, False])) <= 1

    def test_grid_search(self):
        search = GridSearchCV(
            MLKR(scale="standard"), {"n_components": [1, 5]}, cv=3, error_score="raise"
        )
        assert np.isfinite(search.fit(X, Y).cv_results_["mean_test_score"]).all()


BAD_TARGETS = {
    "text": (np.where(Y > 100, "high", "low"), "learns from numbers"),
    "mixed": (np.array(["high", *Y[1:]], dtype=object), "text and other values"),
    "constant": (np.full(len(Y), 3.0), "All numbers in y are the same"),
    "NaN": (np.where(Y > 340, np.nan, Y), "no value in 2 rows"),
    "infinite": (np.where(Y > 340, np.inf, Y), "infinity"),
    "complex": (Y + 1j, "Complex data"),
    "two columns": (np.column_stack([Y, Y]), "1d array"),
    "fewer": (Y[:-1], "inconsistent numbers"),
    "none": (None, "requires y to be passed"),
    "triplets": (Triplets([[0, 1, 2]]), "MLKR learns from numbers; got Triplets"),
    "pairs": (Pairs([[0, 1], [0, 2]], [True, False]).over(len(Y)), "got Pairs"),
    "chunklets": (Chunklets.from_labels(Y > 100), "got Chunklets"),
}


@pytest.mark.parametrize("case", BAD_TARGETS)
def test_bad_targets_are_refused(case):
    y, message = BAD_TARGETS[case]
    learner = MLKR(scale="standard")
    with pytest.raises(ValueError, match=message):
        learner.fit(X, y)
    assert not hasattr(learner, "metric_")


@pytest.mark.parametrize(
    "parameters",
    [{"tol": None}, {"tol": -1.0}, {"max_iter": 0}, {"init": "best"}, {"scale": "max"}],
)
def test_bad_parameters(parameters):
    (name,) = parameters
    with pytest.raises(ValueError, match=f"{name} must be"):
        MLKR(**parameters).fit(X, Y)
