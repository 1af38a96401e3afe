"""Losses as parameters of BoostMetric: scikit-learn, weights, rows on disk, continued fits."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from own_loss import SmoothHinge
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from nearfar import BoostMetric, RandomTriplets, Triplets
from nearfar.losses import Exponential, Hinge, Logistic, Loss, SoftMargin, SquaredHinge
from problems import half_of

EVERY = ["exponential", "logistic", "squared_hinge", SmoothHinge(width=0.5), Hinge()]
every_loss = pytest.mark.parametrize("loss", EVERY, ids=str)
PLAIN = {"scale": "standard", "validation_fraction": None}


class Scaled(Loss):
    """A loss times a number."""

    def __init__(self, loss, factor):
        self.loss, self.factor = loss, factor

    def value(self, m):
        return self.factor * self.loss.value(m)

    def slope(self, m):
        return self.factor * self.loss.slope(m)

    def curvature(self, m):
        return self.factor * self.loss.curvature(m)


class TestScikitLearn:
    @every_loss
    def test_clone_and_parameters(self, loss):
        X, y, _ = half_of("iris")
        learner = BoostMetric(loss=loss, max_iter=10)
        assert learner.get_params()["loss"] is loss
        assert clone(learner).set_params(loss="logistic").loss == "logistic"
        assert repr(clone(learner).loss) == repr(loss)
        fitted = clone(learner).fit(X, y)
        np.testing.assert_array_equal(fitted.metric_.L, learner.fit(X, y).metric_.L)

    @every_loss
    def test_pickle(self, loss):
        X, y, _ = half_of("iris")
        learner = BoostMetric(loss=loss, max_iter=10).fit(X, y)
        loaded = pickle.loads(pickle.dumps(learner))
        assert repr(loaded.loss) == repr(loss)
        np.testing.assert_array_equal(loaded.transform(X), learner.transform(X))
        np.testing.assert_array_equal(loaded.fit(X, y).transform(X), learner.transform(X))

    @pytest.mark.parametrize("loss", ["hinge", Logistic, SoftMargin(np.ones(1), 1.0, 1.0), None])
    def test_what_is_no_loss_is_refused(self, loss):
        X, y, _ = half_of("iris")
        with pytest.raises(ValueError, match="loss must be"):
            BoostMetric(loss=loss).fit(X, y)


@every_loss
def test_names_and_objects_are_the_same(loss, labelled_problem):
    X, y, _ = labelled_problem
    objects = {
        "exponential": Exponential(),
        "logistic": Logistic(),
        "squared_hinge": SquaredHinge(),
    }
    one = BoostMetric(loss=loss, max_iter=10, **PLAIN).fit(X, y)
    other = BoostMetric(loss=objects.get(str(loss), loss), max_iter=10, **PLAIN).fit(X, y)
    np.testing.assert_array_equal(one.metric_.L, other.metric_.L)


@every_loss
def test_the_objective_falls(loss, labelled_problem):
    X, y, _ = labelled_problem
    learner = BoostMetric(loss=loss, **PLAIN).fit(X, y)
    assert (np.diff(learner.history_.objective)[:-1] < 0).all()
    assert learner.n_iter_ > 3


@every_loss
def test_a_weight_counts_as_repetition(loss, labelled_problem):
    X, _, triplets = labelled_problem
    weight = np.where(np.arange(len(triplets)) % 3 == 0, 2.0, 1.0)
    twice = Triplets(np.vstack([triplets.index, triplets.index[::3]]))
    learner = BoostMetric(loss=loss, max_iter=6, **PLAIN)
    one = learner.fit(X, Triplets(triplets.index, weight)).metric_.matrix
    assert_close(one, learner.fit(X, twice).metric_.matrix, 1e-8)
    assert_close(one, learner.fit(X, Triplets(triplets.index, 7 * weight)).metric_.matrix, 1e-8)
    weight[1::2] = 0.0
    left_out = triplets.take(weight > 0)
    some = learner.fit(X, Triplets(triplets.index, weight)).metric_.matrix
    kept = Triplets(left_out.index, weight[weight > 0])
    assert_close(some, learner.fit(X, kept).metric_.matrix, 1e-8)


@every_loss
def test_rows_on_disk(loss, labelled_problem, tmp_path):
    X, y, _ = labelled_problem
    triplets = RandomTriplets(300)(X, y, np.random.RandomState(0))
    np.save(tmp_path / "X.npy", X)
    learner = BoostMetric(loss=loss, max_iter=6, **PLAIN)
    stored = learner.fit(tmp_path / "X.npy", triplets).metric_.matrix
    assert_close(stored, learner.fit(X, triplets).metric_.matrix, 1e-8)


@pytest.mark.parametrize("loss", EVERY[:-1], ids=str)  # At kinks of the hinge, rounding decides.
def test_a_continued_fit_is_a_longer_one(loss, labelled_problem):
    X, _, triplets = labelled_problem
    parameters = {"loss": loss, "tol": 0.0, **PLAIN}
    whole = BoostMetric(max_iter=8, **parameters).fit(X, triplets)
    parts = BoostMetric(max_iter=4, warm_start=True, **parameters).fit(X, triplets)
    assert_close(list(whole.staged_metrics())[3].matrix, parts.metric_.matrix, 1e-10)
    assert_close(whole.metric_.matrix, parts.fit(X, triplets).metric_.matrix, 1e-8)
    assert parts.history_.objective[-1] == pytest.approx(whole.history_.objective[-1], rel=1e-4)


@every_loss
def test_a_part_starts_from_the_metric_so_far(loss, labelled_problem):
    X, y, _ = labelled_problem
    learner = BoostMetric(loss=loss, max_iter=5, **PLAIN).partial_fit(X[::2], y[::2])
    after = BoostMetric(loss=loss, max_iter=5, prior=learner.metric_, **PLAIN)
    after.fit(X[1::2], y[1::2])
    assert learner.partial_fit(X[1::2], y[1::2]).loss is loss
    np.testing.assert_allclose(learner.history_.objective, after.history_.objective, rtol=1e-10)
    np.testing.assert_allclose(learner.weights_, after.weights_, rtol=1e-8)
    validated = BoostMetric(loss=loss, max_iter=5)
    for part in (slice(0, None, 2), slice(1, None, 2)):
        validated.partial_fit(X[part], y[part])
    assert np.isfinite(validated.metric_.matrix).all()
    assert 0 <= validated.prior_share_ <= 1


@pytest.mark.parametrize("corrective", [False, True])
@pytest.mark.parametrize("factor", [1e-8, 1e8])
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), SmoothHinge()], ids=str)
def test_a_factor_of_the_loss_changes_nothing(loss, factor, corrective, labelled_problem):
    X, _, triplets = labelled_problem
    parameters = {"scale": None, "prior": None, "penalty": 1e-3, "corrective": corrective}
    plain = BoostMetric(loss=loss, **parameters).fit(X, triplets)
    scaled = BoostMetric(loss=Scaled(loss, factor), **parameters).fit(X, triplets)
    assert scaled.history_.stopped == plain.history_.stopped == "converged"
    # Optima are certified to 1e-7 of the objective: matrices are less close.
    assert_close(scaled.metric_.matrix, plain.metric_.matrix, 1e-2 if corrective else 1e-8)
    assert scaled.history_.objective[-1] == pytest.approx(
        factor * plain.history_.objective[-1], rel=1e-5 if corrective else 1e-10
    )


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", SmoothHinge()], ids=str)
def test_one_direction_that_satisfies_all(loss):
    X = np.array([[0.0, 0.0], [0.1, 9.0], [5.0, 0.0], [5.1, 9.0]])
    triplets = Triplets([[0, 1, 2], [1, 0, 3], [2, 3, 0], [3, 2, 1]])
    for penalty in (0.0, 1e-7):
        learner = BoostMetric(loss=loss, prior=None, scale=None, penalty=penalty)
        learner.fit(X, triplets)
        assert learner.history_.stopped in ("separated", "converged")
        assert learner.n_iter_ <= 3
        assert learner.score(X, triplets) == 1.0
        assert learner.history_.objective[-1] < 1e-5


@pytest.mark.slow
def test_an_optimum_exists_where_all_triplets_can_be_satisfied():
    """The exponential loss then has none for a small penalty; losses that are never negative do."""
    X, _, triplets = half_of("wine")
    parameters = {"scale": None, "prior": None, "corrective": True, "penalty": 1e-5}
    with pytest.warns(ConvergenceWarning, match="too small to bound"):
        BoostMetric(**parameters).fit(X, triplets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loss in ("logistic", "squared_hinge", SmoothHinge()):
            learner = BoostMetric(loss=loss, **parameters).fit(X, triplets)
            assert learner.history_.stopped == "converged"
            assert learner.gap_ < 1e-7


def assert_close(one, other, tolerance):
    np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.trace(other))
