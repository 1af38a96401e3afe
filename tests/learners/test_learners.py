"""What every learner owes scikit-learn and its users, for each learner there is."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

import nearfar
from nearfar import (
    ITML,
    LMNN,
    LSML,
    MMC,
    NCA,
    RCA,
    AutoMetric,
    BoostMetric,
    Chunklets,
    FarTargetTriplets,
    ForestMetric,
    FrobMetric,
    MaxMarginMetric,
    Metric,
    MetricBoost,
    MetricNeighborsClassifier,
    MixtureNCA,
    NearestTriplets,
    Pairs,
    PiecewiseMetric,
    PSDBoost,
    RandomPairs,
    RandomTriplets,
    SparseNCA,
    Triplets,
)
from nearfar.learners.base import ConstraintLearner, MetricLearner
from nearfar.numerics import linear_algebra
from nearfar.runtime.progress import watching
from problems import public_names, set_bands

X, Y = (part[::2] for part in load_iris(return_X_y=True))
N = len(X)
TRIPLETS = NearestTriplets(2, 2)(X, Y)
PAIRS = RandomPairs(200)(X, Y, np.random.RandomState(0))
SUPERVISION = {
    "labels": Y,
    "names": Y.astype(str),
    "triplets": TRIPLETS,
    "pairs": PAIRS,
    "chunklets": Chunklets.from_labels(Y),
}

ALL_LEARNERS = [
    member
    for member in public_names()
    if isinstance(member, type) and issubclass(member, MetricLearner)
]
ONE_OF_EACH_FAMILY = [BoostMetric, MaxMarginMetric, NCA, LMNN, RCA, AutoMetric]
LEARNERS = [cls for cls in ALL_LEARNERS if "labels" in cls.supervision]
QUICK = {
    AutoMetric: {"candidates": ["DRMetric"]},
    BoostMetric: {"max_iter": 30},
    FrobMetric: {"C": 10.0, "tol": 1e-7},
    MetricBoost: {"max_iter": 20, "block_size": 1},
    NCA: {"tol": 1e-4},
    PSDBoost: {"tol": 1e-7},
    SparseNCA: {"tol": 1e-5},
    MixtureNCA: {"n_metrics": 2, "tol": 1e-4},
}
"""Parameters that make fits short and leave what is tested here as it is."""


def quick(cls, **parameters):
    common = {"random_state": 0, "validation_fraction": None}
    common = {name: value for name, value in common.items() if name in cls().get_params()}
    return cls(**common | QUICK.get(cls, {}) | parameters)


def learns_from(cls):
    """Return the kinds of supervision that a learner learns from, the weakest one last."""
    return ["labels", "names", *(kind for kind in cls.supervision[1:] if kind != "numbers")]


def names_of(value):
    return value.__name__ if isinstance(value, type) else str(value)


def each(learners):
    return pytest.mark.parametrize("cls", learners, ids=names_of)


SUPERVISED = [cls for cls in LEARNERS if cls().__sklearn_tags__().target_tags.required]
FROM_CONSTRAINTS = [cls for cls in LEARNERS if len(cls.supervision) > 1]


def with_parameter(name):
    return [cls for cls in LEARNERS if name in cls().get_params()]


KINDS = [(cls, kind) for cls in LEARNERS for kind in learns_from(cls)]
OTHER_KINDS = [
    (cls, kind) for cls in SUPERVISED for kind in SUPERVISION if kind not in learns_from(cls)
]
SCORED_KINDS = [(cls, kind) for cls, kind in KINDS if kind != "chunklets"]
"""Chunklets do not say what is dissimilar, so that a metric cannot be scored on them."""


@pytest.fixture(params=LEARNERS, ids=names_of)
def learner(request):
    return quick(request.param)


def weakest(learner):
    """Return supervision of the weakest kind that the learner learns from."""
    return SUPERVISION[learns_from(type(learner))[-1]]


@pytest.mark.parametrize(("cls", "kind"), KINDS, ids=names_of)
def test_pipelines_take_every_kind_of_supervision(cls, kind):
    learner, y = quick(cls), SUPERVISION[kind]
    pipeline = make_pipeline(StandardScaler(), PCA(3), learner).fit(X, y)
    rank = learner.metric_.n_components
    assert 1 <= rank <= 3 or not cls.gives_linear
    assert pipeline.transform(X).shape == (N, rank)
    Z = pipeline[:-1].transform(X)
    if (cls, kind) in SCORED_KINDS:
        assert pipeline.score(X, y) == pytest.approx(score_of(learner.metric_, Z, y))
    assert pipeline.score(X, TRIPLETS) == pytest.approx(score_of(learner.metric_, Z, TRIPLETS))


@pytest.mark.parametrize(("cls", "kind"), OTHER_KINDS, ids=names_of)
def test_other_kinds_of_supervision_are_refused(cls, kind):
    for y in (SUPERVISION[kind], SUPERVISION[kind].over(N)):
        message = "what does not|not which pairs are similar|learns from class labels"
        assert_refused(quick(cls), X, y, message)


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
    learner.fit(X, weakest(learner))
    copy = pickle.loads(pickle.dumps(learner))
    np.testing.assert_array_equal(copy.transform(X), learner.transform(X))
    assert copy.history_.objective.tolist() == learner.history_.objective.tolist()
    again = clone(learner)
    assert not hasattr(again, "metric_")
    np.testing.assert_array_equal(again.fit(X, weakest(learner)).transform(X), learner.transform(X))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "kind"), [(cls, kind) for cls, kind in SCORED_KINDS if kind != "names"], ids=names_of
)
def test_grid_search(cls, kind):
    y = Y if kind == "labels" else SUPERVISION[kind].over(N)
    grid = {"n_components": [2, 4]}
    folds = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(quick(cls), grid, cv=folds, error_score="raise").fit(X, y)
    scores = np.array([search.cv_results_[f"split{fold}_test_score"] for fold in range(3)])
    assert ((scores >= 0) & (scores <= 1)).all()
    assert search.best_score_ == scores.mean(axis=0).max()
    assert search.best_estimator_.metric_.n_components <= search.best_params_["n_components"]


def share_of_nearest_triplets(metric, X, y):
    """What `score` of labels is: the share right of nearest triplets of standardised points."""
    triplets = NearestTriplets()(StandardScaler().fit_transform(X), y)
    return metric.prefers(X, triplets.index).mean()


def score_of(metric, X, y):
    """What `score` is, from distances."""
    if isinstance(y, Pairs):
        return roc_auc_score(y.similar, -metric.pair_distances(X, y.index))
    if isinstance(y, Triplets):
        near, far = (metric.pair_distances(X, y.index[:, [0, j]]) for j in (1, 2))
        return np.mean(near < far)
    return share_of_nearest_triplets(metric, X, y)


@pytest.mark.parametrize("scale", ["standard", "unit"])
def test_labels_are_scored_in_one_way(learner, scale):
    learner.set_params(scale=scale).fit(X[::2], Y[::2])
    expected = share_of_nearest_triplets(learner.metric_, X, Y)
    assert learner.score(X, Y) == learner.score(X, Y.astype(str)) == pytest.approx(expected)


@each(with_parameter("constraints"))
def test_a_grid_over_constraints_compares_like_with_like(cls):
    strategies = [NearestTriplets(1, 1), FarTargetTriplets(2), RandomTriplets(200)]
    if "triplets" not in learns_from(cls):
        strategies = [RandomPairs(100), RandomPairs(300, similar=0.3)]
    train, test = np.arange(N) % 3 != 0, np.arange(N) % 3 == 0
    search = GridSearchCV(quick(cls), {"constraints": strategies}, cv=[(train, test)], refit=False)
    found = search.fit(X, Y).cv_results_["mean_test_score"]
    expected = [
        share_of_nearest_triplets(
            quick(cls, constraints=strategy).fit(X[train], Y[train]).metric_, X[test], Y[test]
        )
        for strategy in strategies
    ]
    np.testing.assert_allclose(found, expected)


@pytest.mark.slow
@each(SUPERVISED)
def test_neighbors_in_a_pipeline(cls):
    learner = quick(cls)
    pipeline = make_pipeline(StandardScaler(), learner, KNeighborsClassifier(3))
    assert cross_val_score(pipeline, X, Y, cv=3, error_score="raise").mean() > 0.9
    classifier = MetricNeighborsClassifier(learner, n_neighbors=5)
    grid = {"learner__scale": ["standard", "unit"]}
    search = GridSearchCV(classifier, grid, cv=2, error_score="raise")
    assert search.fit(X, Y).best_score_ > 0.9


RANDOM = {
    **{
        cls: {
            "constraints": (
                RandomTriplets(300) if "triplets" in cls.supervision else RandomPairs(300)
            )
        }
        for cls in with_parameter("constraints")
    },
    NCA: {"batch_size": 40, "max_iter": 3},
    SparseNCA: {"batch_size": 40, "max_iter": 3},
    MixtureNCA: {},
    ForestMetric: {},
    AutoMetric: {"candidates": ["MaxMarginMetric"]},
}
"""Parameters with which a learner draws at random; the others never do."""


@each(with_parameter("random_state"))
def test_the_same_seed_gives_the_same_result(cls):
    learner = quick(cls, **RANDOM.get(cls, {})).set_params(random_state=7)
    first = learner.fit(X, Y).transform(X).tobytes()
    assert first == learner.fit(X, Y).transform(X).tobytes()
    other = learner.set_params(random_state=8).fit(X, Y).transform(X).tobytes()
    assert (first != other) == (cls in RANDOM)


@pytest.mark.slow
@each(with_parameter("n_jobs"))
def test_the_number_of_threads_changes_nothing(cls, monkeypatch):
    learner = quick(cls)
    set_bands(monkeypatch, 16)
    monkeypatch.setattr(linear_algebra, "_BLOCK_OPERATIONS", 1 << 10)
    one = learner.set_params(n_jobs=1).fit(X, Y).transform(X)
    for n_jobs in (2, 3):
        other = learner.set_params(n_jobs=n_jobs).fit(X, Y).transform(X)
        np.testing.assert_array_equal(one, other)


@each([cls for cls in LEARNERS if cls is not ForestMetric])
def test_too_many_components_are_refused(cls):
    learner = quick(cls)
    with pytest.raises(ValueError, match="n_components must be at most 4; got 5"):
        learner.set_params(n_components=5).fit(X, Y)


@each([cls for cls in FROM_CONSTRAINTS if issubclass(cls, ConstraintLearner)])
def test_components_are_principal_axes(cls):
    whole = quick(cls).fit(X, Y).metric_
    reduced = quick(cls, n_components=2).fit(X, Y)
    assert reduced.transform(X).shape == (N, 2)
    gap = whole.distances(X) ** 2 - reduced.metric_.distances(X) ** 2
    assert gap.min() > -1e-8
    best = PCA(2).fit(whole.transform(X))
    lost = (whole.transform(X) - whole.transform(X).mean(axis=0)) ** 2
    kept = best.explained_variance_.sum() * (N - 1)
    embedded = reduced.transform(X)
    assert ((embedded - embedded.mean(axis=0)) ** 2).sum() == pytest.approx(kept)
    assert kept < lost.sum()


@each([cls for cls in LEARNERS if not issubclass(cls, ConstraintLearner)])
def test_components_are_rows_of_the_map(cls):
    assert quick(cls, n_components=2).fit(X, Y).transform(X).shape[1] <= 2


OWN = Metric(np.diag([1.0, 2.0, 3.0, 4.0]))
ONLY_THE_PRIOR = {
    **{
        cls: {"prior_weight": 1e6} | ({"max_iter": 1} if cls in with_parameter("max_iter") else {})
        for cls in with_parameter("prior_weight")
    },
    FrobMetric: {"C": 1e-6},
    MaxMarginMetric: {"C": 1e-6},
    ITML: {"gamma": 1e-6},
}
"""Parameters with which a learner stays at its prior."""


@each(with_parameter("prior"))
def test_a_metric_of_ones_own_as_prior(cls):
    fitted = quick(cls).set_params(prior=OWN, **ONLY_THE_PRIOR[cls]).fit(X, Y)
    M = fitted.metric_.matrix / np.trace(fitted.metric_.matrix)
    np.testing.assert_allclose(M, OWN.matrix / np.trace(OWN.matrix), atol=1e-3)
    with pytest.raises(ValueError, match="metric on 3 features; X has 4"):
        quick(cls, prior=Metric(np.eye(3))).fit(X, Y)


@each(with_parameter("init"))
def test_a_metric_of_ones_own_to_begin_with(cls):
    learner = quick(cls).set_params(max_iter=1, tol=0.0)
    with pytest.warns(match="max_iter=1 was reached"):
        own = clone(learner).set_params(init=OWN).fit(X, Y).transform(X)
    with pytest.warns(match="max_iter=1 was reached"):
        assert (own != learner.fit(X, Y).transform(X)).any()
    with pytest.raises(ValueError, match="metric on 3 features; X has 4"):
        learner.set_params(init=Metric(np.eye(3))).fit(X, Y)


BAD_PARAMETERS = [
    {"scale": "minmax"},
    {"n_components": 0},
    {"n_components": 1.5},
    {"tol": float("nan")},
    {"warm_start": "yes"},
    {"n_jobs": 0},
    {"n_jobs": 1.5},
    {"max_iter": 0},
    {"prior": "random"},
    {"prior": np.eye(4)},
    {"prior_weight": -1.0},
    {"prior_weight": "1"},
    {"constraints": "nearest"},
    {"constraints": NearestTriplets},
    {"init": "best"},
    {"init": None},
    {"variant": "printed"},
    {"shrinkage": "ledoit"},
    {"shrinkage": 1.5},
    {"t": -0.1},
    {"embedding": "unweighted"},
    {"n_neighbors": 0},
]


@pytest.mark.parametrize(
    ("cls", "parameters"),
    [
        (cls, parameters)
        for cls in LEARNERS
        for parameters in BAD_PARAMETERS
        if set(parameters) <= set(cls().get_params())
    ],
    ids=names_of,
)
def test_bad_parameters(cls, parameters):
    (name,) = parameters
    with pytest.raises(ValueError, match=f"{name} must be"):
        quick(cls).set_params(**parameters).fit(X, Y)


BAD_INPUT = {
    "NaN": (np.where(np.eye(N, 4) > 0, np.nan, X), Y, "NaN"),
    "infinity": (np.where(np.eye(N, 4) > 0, np.inf, X), Y, "infinity"),
    "text": (np.full((N, 4), "a"), Y, "could not convert"),
    "one row": (X[:1], Y[:1], "1 sample"),
    "flat": (X[:, 0], Y, "2D array"),
    "empty": (X[:0], Y[:0], "0 sample"),
    "squares that overflow": (X * [1, 1, 1e300, 1], Y, "Column 2 of X has values up to 7e"),
    "squares that vanish": (X * [1, 1e-300, 1, 1], Y, "Column 1 of X has no value above 4e-300"),
}
BAD_LABELS = {
    "one class": (X, np.zeros(N, int), "at least two classes"),
    "classes of one": (X, np.arange(N), "two members"),
    "regression": (X, np.linspace(0, 1, N), "Unknown label type"),
    "fewer labels": (X, Y[:-1], "inconsistent numbers"),
    "no labels": (X, None, "requires y to be passed"),
    "over too few": (X, Triplets([[0, 1, 2]]).over(3), f"3 samples, but X has {N}"),
}
BAD_TRIPLETS = {
    "one row": (X[:1], TRIPLETS, "only 1 rows"),
    "row out of range": (X, Triplets([[0, 1, N]]), f"row {N}"),
    "no triplets": (X, Triplets(np.empty((0, 3), int)), "no triplets"),
    "no pairs": (X, Pairs(np.empty((0, 2), int), []), "no triplet|no pairs"),
    "pairs that share nothing": (X, Pairs([[0, 1], [2, 3]], [True, False]), "share a row"),
    "no weight": (X, Triplets([[0, 1, 2]], [0.0]), "weight 0"),
}
BAD_PAIRS = {
    "one row": (X[:1], PAIRS, "only 1 rows"),
    "row out of range": (X, Pairs([[0, 1], [0, N]], [True, False]), f"row {N}"),
    "no pairs": (X, Pairs(np.empty((0, 2), int), []), "no pairs"),
    "all dissimilar": (X, Pairs([[0, 9]], [False]), "All pairs are dissimilar"),
    "no weight": (X, Pairs([[0, 1], [0, 9]], [True, False], [0.0, 0.0]), "positive weight"),
}
ONLY_SIMILAR = {
    "all similar": (X, Pairs([[0, 1], [2, 3]], [True, True]), "All pairs are similar"),
    "weight of one kind": (X, Pairs([[0, 1], [0, 9]], [True, False], [1.0, 0.0]), "All pairs"),
}
BAD_CHUNKLETS = {
    "fewer ids": (X, Chunklets([0, 0]), f"2 ids, but X has {N}"),
    "chunklets of one": (X, Chunklets(np.arange(N)), "two rows"),
    "no chunklets": (X, Chunklets(np.full(N, -1)), "two rows"),
}


def bad_input_of(cls):
    if cls not in SUPERVISED:
        return BAD_INPUT
    kinds = learns_from(cls)
    own = BAD_TRIPLETS if "triplets" in kinds else BAD_PAIRS if "pairs" in kinds else {}
    if cls in (AutoMetric, PiecewiseMetric):
        own = {name: case for name, case in own.items() if "share" not in name}
    if own is BAD_PAIRS or "chunklets" in kinds:
        own = own | (BAD_CHUNKLETS if "chunklets" in kinds else ONLY_SIMILAR)
    if cls is ITML:  # bounds of one kind are enough
        own = {name: case for name, case in own.items() if not case[2].startswith("All pairs")}
    labels = {name: case for name, case in BAD_LABELS.items() if name != "regression"}
    labels = labels if "numbers" in cls.supervision else BAD_LABELS
    return BAD_INPUT | labels | {f"constraints: {name}": case for name, case in own.items()}


def assert_refused(learner, points, y, message):
    with pytest.raises(ValueError, match=message):
        learner.fit(points, y)
    assert not hasattr(learner, "metric_")
    assert not hasattr(learner, "history_")


@pytest.mark.filterwarnings("ignore:The number of unique")
@pytest.mark.parametrize(
    ("cls", "case"), [(cls, case) for cls in LEARNERS for case in bad_input_of(cls)], ids=names_of
)
def test_bad_input_is_refused_and_nothing_is_half_done(cls, case):
    assert_refused(quick(cls), *bad_input_of(cls)[case])


@pytest.mark.filterwarnings("ignore:.* rows are equal to earlier rows")
@each(SUPERVISED)
def test_a_failed_refit_leaves_the_learner_as_it_was(cls):
    learner = quick(cls)
    before = learner.fit(X, Y).transform(X)
    with pytest.raises(ValueError, match="two classes"):
        learner.fit(X[:, :2], np.zeros(N))
    np.testing.assert_array_equal(learner.transform(X), before)


@pytest.mark.slow
def test_extreme_units(learner):
    learner.set_params(scale="standard")
    first = pdist(learner.fit(X, Y).transform(X))
    for factor in (1e-140, 1e-70, 1e70, 1e140):
        second = pdist(learner.fit(X * factor, Y).transform(X * factor))
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-6)


def test_extreme_units_of_float32(learner):
    learner.set_params(scale="unit")
    single = X.astype(np.float32)
    first = pdist(learner.fit(single, Y).transform(single))
    # A power of two changes no rounding.
    for factor in (2.0**-83, 2.0**83):
        scaled = single * np.float32(factor)
        second = pdist(learner.fit(scaled, Y).transform(scaled))
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-6)


@each(with_parameter("constraints"))
def test_strategies_of_pairs(cls):
    assert quick(cls, constraints=RandomPairs(200)).fit(X, Y).score(X, PAIRS) > 0.9


@each(SUPERVISED)
def test_pairs_are_scored_if_they_are_of_both_kinds(cls):
    learner = quick(cls).fit(X, Y)
    assert learner.score(X, PAIRS) == pytest.approx(score_of(learner.metric_, X, PAIRS))
    with pytest.raises(ValueError, match="similar and dissimilar"):
        learner.score(X, Pairs([[0, 1], [1, 2]], [True, True]))


def blas_threads():
    """Numbers of threads of NumPy's and SciPy's BLAS libraries."""
    return [
        library["num_threads"]
        for library in threadpool_info()
        if library["user_api"] == "blas" and library.get("threading_layer") != "openmp"
    ]


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_has_one_thread_in_a_fit(learner):
    before, inside = blas_threads(), []
    assert max(before) == 2

    def watch(iterations, fit):
        for iteration in iterations:
            inside.extend(blas_threads())
            yield iteration

    with watching(watch):
        learner.fit(X, weakest(learner))
    assert set(inside) == {1}
    assert blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
def test_a_fit_that_fails_leaves_blas_as_it_was(learner):
    before = blas_threads()

    def fail(iterations, fit):
        next(iter(iterations))
        raise RuntimeError("no more")

    with watching(fail), pytest.raises(RuntimeError, match="no more"):
        learner.fit(X, weakest(learner))
    assert max(before) == 2
    assert blas_threads() == before


@pytest.mark.slow
@pytest.mark.usefixtures("two_blas_threads")
def test_fits_in_threads_leave_blas_as_it_was(learner):
    before = blas_threads()
    assert max(before) == 2
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: clone(learner).fit(X, Y), range(6)))
    assert blas_threads() == before


def test_constant_columns_do_no_harm(learner):
    learner.set_params(scale="standard")
    wide = np.column_stack([X, np.full(N, 0.1), np.full(N, 1e9)])
    first = learner.fit(X, weakest(learner)).metric_.distances(X)
    second = learner.fit(wide, weakest(learner)).metric_.distances(wide)
    np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-7)


def test_angles_are_rows_of_unit_length(learner):
    """The metric divides rows by their length itself, whatever builds it."""
    angular = learner.set_params(scale="cosine").fit(X, Y).metric_
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    plain = learner.set_params(scale="unit").fit(unit, Y).metric_
    assert angular.unit_rows
    np.testing.assert_allclose(angular.distances(X), plain.distances(unit), rtol=1e-5, atol=1e-6)


EQUAL_POINTS = np.ones((6, 2)), np.array([0, 0, 0, 1, 1, 1])


@pytest.mark.filterwarnings("ignore:Nothing was learned", "ignore:All rows are equal")
@each([cls for cls in LEARNERS if cls is not MixtureNCA])
def test_equal_points_have_no_distance(cls):
    given = {"prior": "identity"} if cls in with_parameter("prior") else {}
    learner = quick(cls, **given).fit(*EQUAL_POINTS)
    np.testing.assert_array_equal(learner.metric_.distances(EQUAL_POINTS[0]), np.zeros((6, 6)))


@each([cls for cls in with_parameter("prior") if cls not in (ITML, LSML)])
def test_equal_points_teach_nothing(cls):
    learner = quick(cls, prior=None)
    with pytest.warns(match="Nothing was learned"):
        learner.fit(*EQUAL_POINTS)
    assert np.isfinite(learner.metric_.L).all()


def test_equal_points_have_no_clusters():
    assert_refused(quick(MixtureNCA), *EQUAL_POINTS, "distinct rows")


def test_more_features_than_points(learner, rng):
    points = rng.standard_normal((12, 30))
    learner.fit(points, np.arange(12) % 2)
    assert np.isfinite(learner.transform(points)).all()


@each(with_parameter("verbose"))
def test_progress_is_shown_only_when_asked_for(cls, capsys):
    learner = quick(cls)
    learner.fit(X, Y)
    assert capsys.readouterr() == ("", "")
    learner.set_params(verbose=1).fit(X, Y)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"{type(learner).__name__}: {learner.n_iter_} iterations in" in shown.err


class Callback:
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
        if context.task_name == "iteration" and fitted_estimator is not None:
            self.scores.append(fitted_estimator.score(X, y))
            return self.stop_after is not None and len(self.scores) >= self.stop_after
        return False


class FailingCallback(Callback):
    def on_fit_task_end(self, estimator, context):
        raise RuntimeError("no more")


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="callbacks came with scikit-learn 1.9",
)
class TestCallbacks:
    def test_every_iteration_is_reported(self, learner):
        callback = Callback()
        learner.set_callbacks(callback).fit(X, Y)
        assert callback.begun == callback.ended
        assert len(callback.scores) == learner.n_iter_
        most = getattr(learner, "max_iter", learner.n_iter_)
        assert callback.announced == (most or X.shape[1])
        assert callback.scores[-1] == pytest.approx(learner.score(X, Y))
        assert callback.torn_down

    @each(with_parameter("max_iter"))
    def test_a_callback_can_stop_the_fit(self, cls):
        learner = quick(cls)
        learner.set_callbacks(Callback(stop_after=2)).fit(X, weakest(learner))
        assert learner.n_iter_ == 2
        assert learner.history_.stopped == "callback"

    @pytest.mark.filterwarnings("ignore:.* rows are equal to earlier rows")
    def test_a_callback_that_fails_is_torn_down(self, learner):
        before = learner.fit(X, Y).transform(X)
        callback = FailingCallback()
        with pytest.raises(RuntimeError, match="no more"):
            learner.set_callbacks(callback).fit(X[:, :2], Y)
        assert callback.torn_down
        np.testing.assert_array_equal(learner.transform(X), before)

    @pytest.mark.filterwarnings("ignore:max_iter=3 was reached")
    @each(with_parameter("max_iter"))
    def test_all_iterations_used(self, cls):
        learner = quick(cls)
        callback = Callback()
        learner.set_params(max_iter=3, tol=1e-9).set_callbacks(callback).fit(X, Y)
        assert len(callback.scores) == 3
        assert learner.history_.stopped == "max_iter"


@each([MaxMarginMetric, FrobMetric, PSDBoost, ITML, LSML, MMC, *with_parameter("init")])
def test_iterations_that_run_out_are_warned_of(cls):
    with pytest.warns(match="max_iter=3 was reached"):
        quick(cls).set_params(max_iter=3, tol=1e-9).fit(X, Y)


@each([cls for cls in LEARNERS if "validation" in cls().get_params()])
def test_whole_classes_can_be_held_out(cls):
    classes = np.repeat(np.arange(N // 5), 5)
    learner = quick(cls, validation="classes")
    if "validation_fraction" in learner.get_params():
        learner.set_params(validation_fraction=0.3)
    learner.fit(X, classes)
    assert np.isfinite(learner.metric_.distances(X[:5], X)).all()


@pytest.mark.parametrize("kind", [np.linalg.LinAlgError, FloatingPointError])
def test_what_cannot_be_computed_is_an_error_in_words(kind, monkeypatch):
    def fail(*arguments):
        raise kind("Singular matrix")

    monkeypatch.setattr(nearfar.RCA, "_formula", fail)
    with pytest.raises(ValueError, match=r"^The fit failed: Singular matrix\.$"):
        nearfar.RCA().fit(X, Y)
    sizes = np.array([1.0, 1e9, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"Singular matrix\. Values of X differ too much in size"):
        nearfar.RCA().fit(X * sizes, Y)
