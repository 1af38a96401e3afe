"""What every learner owes scikit-learn and its users, for each learner there is."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_info

import nearfar
from nearfar import (
    NCA,
    Chunklets,
    MaxMarginMetric,
    Metric,
    MetricNeighborsClassifier,
    MixtureNCA,
    NearestTriplets,
    Pairs,
    RandomPairs,
    RandomTriplets,
    SparseNCA,
    Triplets,
)
from nearfar.constraints import ConstraintsOver
from nearfar.learners.base import MetricLearner
from nearfar.learners.nca.base import NeighborhoodLearner

LEARNERS = [
    member
    for member in vars(nearfar).values()
    if isinstance(member, type) and issubclass(member, MetricLearner)
]
X, Y = load_iris(return_X_y=True)
TRIPLETS = NearestTriplets(2, 2)(X, Y)
PAIRS = RandomPairs(200)(X, Y, np.random.RandomState(0))


@pytest.mark.filterwarnings("ignore:Nothing was learned. the price of rank")
@parametrize_with_checks([*(learner() for learner in LEARNERS), MetricNeighborsClassifier()])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(params=LEARNERS, ids=lambda cls: cls.__name__)
def learner(request):
    return request.param(random_state=0)


def constraints_for(learner):
    """Supervision of the weakest kind that the learner learns from."""
    if isinstance(learner, NeighborhoodLearner):
        return Y
    return PAIRS if isinstance(learner, MaxMarginMetric) else TRIPLETS


def refuses(learner, y):
    """Whether the learner does not learn from this, and says so."""
    wants = constraints_for(learner)
    if isinstance(y, ConstraintsOver):
        y = y.constraints
    fine = isinstance(y, np.ndarray) or isinstance(wants, Triplets) or type(y) is type(wants)
    if not fine:
        with pytest.raises(
            ValueError, match=r"not which pairs are similar|learns from class labels"
        ):
            learner.fit(X, y)
    return not fine


@pytest.mark.parametrize(
    "y", [Y, Y.astype(str), TRIPLETS, PAIRS], ids=["int", "str", "tri", "pair"]
)
def test_pipelines_take_every_kind_of_supervision(learner, y):
    if refuses(learner, y):
        return
    pipeline = make_pipeline(StandardScaler(), PCA(3), learner).fit(X, y)
    rank = learner.metric_.n_components
    assert 1 <= rank <= 3
    assert pipeline.transform(X).shape == (len(X), rank)
    assert 0.5 < pipeline.score(X, y) <= 1.0
    assert 0.5 < pipeline.score(X, TRIPLETS) <= 1.0


def test_names_and_pandas(learner):
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    learner.set_output(transform="pandas").fit(frame, Y)
    embedded = learner.transform(frame)
    name = type(learner).__name__.lower()
    assert list(embedded.columns) == [f"{name}{i}" for i in range(embedded.shape[1])]
    assert list(learner.get_feature_names_out()) == list(embedded.columns)
    assert list(learner.feature_names_in_) == ["a", "b", "c", "d"]
    assert learner.metric_.feature_names == ("a", "b", "c", "d")


def test_clone_and_pickle(learner):
    constraints = constraints_for(learner)
    learner.fit(X, constraints)
    copy = pickle.loads(pickle.dumps(learner))
    np.testing.assert_array_equal(copy.transform(X), learner.transform(X))
    assert copy.history_.objective.tolist() == learner.history_.objective.tolist()
    again = clone(learner)
    assert not hasattr(again, "metric_")
    np.testing.assert_array_equal(again.fit(X, constraints).transform(X), learner.transform(X))


@pytest.mark.parametrize("kind", ["labels", "triplets", "pairs"])
def test_grid_search(learner, kind):
    y = {"labels": Y, "triplets": TRIPLETS.over(len(X)), "pairs": PAIRS.over(len(X))}[kind]
    if refuses(learner, y):
        return
    folds = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(learner, {"prior": [None, "identity"]}, cv=folds, error_score="raise")
    search.fit(X, y)
    assert 0.5 < search.best_score_ <= 1.0
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    scores = cross_val_score(learner, X, y, cv=folds, error_score="raise")
    assert (scores > 0.5).all()


def test_neighbors_in_a_pipeline(learner):
    pipeline = make_pipeline(StandardScaler(), learner, KNeighborsClassifier(3))
    assert cross_val_score(pipeline, X, Y, cv=5, error_score="raise").mean() > 0.9
    classifier = MetricNeighborsClassifier(learner, n_neighbors=5)
    search = GridSearchCV(classifier, {"learner__prior": [None, "identity"]}, error_score="raise")
    assert search.fit(X, Y).best_score_ > 0.9


def test_the_same_seed_gives_the_same_result(learner):
    pairs = isinstance(learner, MaxMarginMetric)
    strategy = RandomPairs(300) if pairs else RandomTriplets(300)
    learner.set_params(constraints=strategy, random_state=7)
    if isinstance(learner, NCA | SparseNCA):
        learner.set_params(batch_size=40, max_iter=3)
    first = learner.fit(X, Y).transform(X).tobytes()
    assert first == learner.fit(X, Y).transform(X).tobytes()
    assert first != learner.set_params(random_state=8).fit(X, Y).transform(X).tobytes()


def test_n_components(learner):
    if isinstance(learner, NeighborhoodLearner):
        assert learner.set_params(n_components=2).fit(X, Y).transform(X).shape[1] <= 2
        with pytest.raises(ValueError, match="n_components=5"):
            learner.set_params(n_components=5).fit(X, Y)
        return
    whole = learner.fit(X, Y).metric_
    reduced = learner.set_params(n_components=2).fit(X, Y)
    assert reduced.transform(X).shape == (len(X), 2)
    gap = whole.distances(X) ** 2 - reduced.metric_.distances(X) ** 2
    assert gap.min() > -1e-8
    best = PCA(2).fit(whole.transform(X))
    lost = (whole.transform(X) - whole.transform(X).mean(axis=0)) ** 2
    kept = best.explained_variance_.sum() * (len(X) - 1)
    embedded = reduced.transform(X)
    assert ((embedded - embedded.mean(axis=0)) ** 2).sum() == pytest.approx(kept)
    assert kept < lost.sum()
    with pytest.raises(ValueError, match="n_components=5"):
        learner.set_params(n_components=5).fit(X, Y)


def test_a_metric_of_ones_own_as_prior(learner):
    prior = Metric(np.diag([1.0, 2.0, 3.0, 4.0]))
    if isinstance(learner, MaxMarginMetric):
        fitted = learner.set_params(prior=prior, C=1e-6).fit(X, Y)
    elif isinstance(learner, NeighborhoodLearner):
        learner.set_params(prior=prior, max_iter=1, tol=0.0)
        with pytest.warns(match="max_iter=1 was reached"):
            own = learner.fit(X, Y).transform(X)
        with pytest.warns(match="max_iter=1 was reached"):
            assert (own != learner.set_params(prior=None).fit(X, Y).transform(X)).any()
        with pytest.raises(ValueError, match="metric on 3 features; X has 4"):
            learner.set_params(prior=Metric(np.eye(3))).fit(X, Y)
        return
    else:
        fitted = learner.set_params(prior=prior, prior_weight=1e6, max_iter=1).fit(X, Y)
    M = fitted.metric_.matrix / np.trace(fitted.metric_.matrix)
    np.testing.assert_allclose(M, prior.matrix / np.trace(prior.matrix), atol=1e-3)
    with pytest.raises(ValueError, match="metric on 3 features; X has 4"):
        learner.set_params(prior=Metric(np.eye(3))).fit(X, Y)


BAD_PARAMETERS = [
    {"scale": "minmax"},
    {"prior": "covariance"},
    {"prior_weight": -1.0},
    {"prior_weight": "1"},
    {"n_components": 0},
    {"n_components": 1.5},
    {"tol": float("nan")},
    {"constraints": "nearest"},
    {"constraints": NearestTriplets},
    {"prior": np.eye(4)},
]


@pytest.mark.parametrize("parameters", BAD_PARAMETERS, ids=str)
def test_bad_parameters(learner, parameters):
    (name,) = parameters
    with pytest.raises(ValueError, match=f"{name} must be"):
        learner.set_params(**parameters).fit(X, Y)


BAD_INPUT = {
    "NaN": (np.where(np.eye(150, 4) > 0, np.nan, X), Y, "NaN"),
    "infinity": (np.where(np.eye(150, 4) > 0, np.inf, X), Y, "infinity"),
    "text": (np.full((150, 4), "a"), Y, "could not convert"),
    "one class": (X, np.zeros(150, int), "at least two classes"),
    "classes of one": (X, np.arange(150), "two members"),
    "one row": (X[:1], Y[:1], "1 sample"),
    "regression": (X, np.linspace(0, 1, 150), "Unknown label type"),
    "fewer labels": (X, Y[:-1], "inconsistent numbers"),
    "no labels": (X, None, "requires y to be passed"),
    "chunklets": (X, Chunklets.from_labels(Y), "what does not|learns from class labels"),
    "over too few": (X, Triplets([[0, 1, 2]]).over(3), "3 samples, but X has 150"),
    "flat": (X[:, 0], Y, "2D array"),
    "empty": (X[:0], Y[:0], "0 sample"),
}


BAD_TRIPLETS = {
    "one row": (X[:1], TRIPLETS, "only 1 rows"),
    "row out of range": (X, Triplets([[0, 1, 150]]), "row 150"),
    "no triplets": (X, Triplets(np.empty((0, 3), int)), "no triplets"),
    "no pairs": (X, Pairs(np.empty((0, 2), int), []), "no triplet"),
    "pairs that share nothing": (X, Pairs([[0, 1], [2, 3]], [True, False]), "share a row"),
    "no weight": (X, Triplets([[0, 1, 2]], [0.0]), "weight 0"),
}
BAD_PAIRS = {
    "one row": (X[:1], PAIRS, "only 1 rows"),
    "row out of range": (X, Pairs([[0, 1], [0, 150]], [True, False]), "row 150"),
    "no pairs": (X, Pairs(np.empty((0, 2), int), []), "no pairs"),
    "all similar": (X, Pairs([[0, 1], [2, 3]], [True, True]), "All pairs are similar"),
    "all dissimilar": (X, Pairs([[0, 99]], [False]), "All pairs are dissimilar"),
    "no weight": (X, Pairs([[0, 1], [0, 99]], [True, False], [0.0, 0.0]), "positive weight"),
    "weight of one kind": (X, Pairs([[0, 1], [0, 99]], [True, False], [1.0, 0.0]), "All pairs"),
}


def assert_refused(learner, points, y, message):
    with pytest.raises(ValueError, match=message):
        learner.fit(points, y)
    assert not hasattr(learner, "metric_")
    assert not hasattr(learner, "history_")


@pytest.mark.filterwarnings("ignore:The number of unique")
@pytest.mark.parametrize("kind", BAD_INPUT)
def test_bad_input_is_refused_and_nothing_is_half_done(learner, kind):
    assert_refused(learner, *BAD_INPUT[kind])


def test_bad_constraints_are_refused_and_nothing_is_half_done(learner):
    if isinstance(learner, NeighborhoodLearner):
        for y in (TRIPLETS, PAIRS, PAIRS.over(150)):
            assert_refused(learner, X, y, "learns from class labels; got")
        return
    bad = BAD_PAIRS if isinstance(learner, MaxMarginMetric) else BAD_TRIPLETS
    for points, y, message in bad.values():
        assert_refused(learner, points, y, message)


def test_a_failed_refit_leaves_the_learner_as_it_was(learner):
    before = learner.fit(X, Y).transform(X)
    with pytest.raises(ValueError, match="two classes"):
        learner.fit(X[:, :2], np.zeros(150))
    np.testing.assert_array_equal(learner.transform(X), before)


@pytest.mark.parametrize("factor", [1e-140, 1e-70, 1e70, 1e140])
def test_extreme_units(learner, factor):
    first = learner.fit(X, Y).transform(X)
    second = learner.fit(X * factor, Y).transform(X * factor)
    np.testing.assert_allclose(np.abs(first), np.abs(second), rtol=1e-4, atol=1e-6)


def test_extreme_units_of_float32(learner):
    learner.set_params(scale="unit")
    first = learner.fit(X.astype(np.float32), Y).score(X, Y)
    for factor in (1e-25, 1e25):
        small = (X * factor).astype(np.float32)
        assert learner.fit(small, Y).score(small, Y) == pytest.approx(first, abs=0.02)


def test_strategies_of_pairs(learner):
    if isinstance(learner, NeighborhoodLearner):
        assert learner.fit(X, Y).score(X, PAIRS) > 0.9
        return
    learner.set_params(constraints=RandomPairs(200), random_state=0).fit(X, Y)
    assert learner.score(X, PAIRS) > 0.9


def test_pairs_of_one_kind_cannot_be_scored(learner):
    with pytest.raises(ValueError, match="similar and dissimilar"):
        learner.fit(X, Y).score(X, Pairs([[0, 1], [1, 2]], [True, True]))


def test_fits_in_threads_leave_blas_as_it_was(learner):
    def threads():
        return [library["num_threads"] for library in threadpool_info()]

    before = threads()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: clone(learner).fit(X, Y), range(6)))
    assert threads() == before


def test_constant_columns_do_no_harm(learner):
    wide = np.column_stack([X, np.full(150, 0.1), np.full(150, 1e9)])
    constraints = constraints_for(learner)
    first = learner.fit(X, constraints).metric_.distances(X)
    second = learner.fit(wide, constraints).metric_.distances(wide)
    np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-7)


@pytest.mark.filterwarnings("ignore:Nothing was learned. the price of rank")
def test_equal_points_give_a_finite_metric(learner):
    points, y = np.ones((6, 2)), np.array([0, 0, 0, 1, 1, 1])
    if isinstance(learner, MixtureNCA):
        with pytest.raises(ValueError, match="distinct rows"):
            learner.fit(points, y)
        return
    learner.set_params(prior="identity").fit(points, y)
    np.testing.assert_array_equal(learner.metric_.distances(points), np.zeros((6, 6)))
    if isinstance(learner, NeighborhoodLearner):
        return
    with pytest.warns(match="Nothing was learned"):
        learner.set_params(prior=None).fit(points, y)
    assert np.isfinite(learner.metric_.L).all()


def test_more_features_than_points(learner, rng):
    points = rng.standard_normal((20, 60))
    learner.fit(points, np.arange(20) % 2)
    assert np.isfinite(learner.transform(points)).all()


def test_progress_is_shown_only_when_asked_for(learner, capsys):
    learner.fit(X, Y)
    assert capsys.readouterr() == ("", "")
    learner.set_params(verbose=1).fit(X, Y)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"{type(learner).__name__}: {learner.n_iter_} rounds in" in shown.err


class Watcher:
    """A scikit-learn callback that takes notes and may ask to stop."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.begun = self.ended = 0
        self.scores = []

    def setup(self, estimator, context):
        self.announced = context.max_subtasks

    def teardown(self, estimator, context):
        self.torn_down = True

    def on_fit_task_begin(self, estimator, context):
        self.begun += 1

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        self.ended += 1
        if context.task_name == "round" and fitted_estimator is not None:
            self.scores.append(fitted_estimator.score(X, y))
            return self.stop_after is not None and len(self.scores) >= self.stop_after
        return False


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="callbacks came with scikit-learn 1.9",
)
class TestCallbacks:
    def test_every_round_is_reported(self, learner):
        watcher = Watcher()
        learner.set_callbacks(watcher).fit(X, Y)
        assert watcher.begun == watcher.ended
        assert len(watcher.scores) == learner.n_iter_
        most = learner.get_params().get("max_iter") or learner.max_iter
        assert watcher.announced == (most or X.shape[1])
        assert watcher.scores[-1] == pytest.approx(learner.score(X, Y))
        assert watcher.torn_down

    def test_a_callback_can_stop_the_fit(self, learner):
        learner.set_callbacks(Watcher(stop_after=2)).fit(X, constraints_for(learner))
        assert learner.n_iter_ == 2
        assert learner.history_.stopped == "callback"

    def test_a_callback_that_fails_is_torn_down(self, learner):
        class Failing(Watcher):
            def on_fit_task_end(self, estimator, context):
                raise RuntimeError("no more")

        before = learner.fit(X, Y).transform(X)
        watcher = Failing()
        with pytest.raises(RuntimeError, match="no more"):
            learner.set_callbacks(watcher).fit(X[:, :2], Y)
        assert watcher.torn_down
        np.testing.assert_array_equal(learner.transform(X), before)

    def test_all_rounds_used(self, learner):
        watcher = Watcher()
        if isinstance(learner, NeighborhoodLearner):
            learner.set_params(max_iter=3, tol=0.0).set_callbacks(watcher)
            with pytest.warns(match="max_iter=3 was reached"):
                learner.fit(X, Y)
            assert len(watcher.scores) == 3
            return
        learner.set_params(max_iter=3).set_callbacks(watcher)
        if isinstance(learner, MaxMarginMetric):
            with pytest.warns(match="max_iter=3 was reached"):
                learner.set_params(tol=1e-9).fit(X, Y)
        else:
            learner.fit(X, Y)
        assert len(watcher.scores) == 3
        assert learner.history_.stopped == "max_iter"


def test_older_scikit_learn_has_no_callbacks(monkeypatch):
    import importlib
    import sys

    from nearfar.runtime import progress

    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    try:
        old = importlib.reload(progress)
        estimator = old.CallbackSupportMixin()
        assert estimator.set_callbacks() is estimator
        with pytest.raises(RuntimeError, match=r"scikit-learn 1\.9"):
            estimator.set_callbacks(Watcher())
        assert list(old.notify([1, 2], estimator, 2, X=None, y=None, attributes=dict)) == [1, 2]
        assert old.with_callbacks(len) is len
    finally:
        monkeypatch.undo()
        importlib.reload(progress)
