"""What users of metric-learn rely on, for each learner there is.

The properties are those that metric-learn's own tests state for all of its learners, in nearfar's
terms: a learned metric is one linear map, its distances are a pseudometric, and the same
constraints give the same metric however they are passed.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist, mahalanobis, pdist, squareform
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearfar import MixtureNCA, NearestTriplets, RandomPairs
from nearfar.learners.base import MetricLearner
from nearfar.supervision import Chunklets
from problems import public_names

X, Y = (part[::2] for part in load_iris(return_X_y=True))
NUMBERS = X[:, 3] + 0.1 * X[:, 0]
SHORT = {
    "AutoMetric": {"candidates": ["DRMetric", "RCA"]},
    "BoostMetric": {"max_iter": 30},
    "MetricBoost": {"max_iter": 20},
    "NCA": {"tol": 1e-4},
    "SparseNCA": {"tol": 1e-4},
}
"""Parameters that make fits short and leave what is tested here as it is."""

LEARNERS = [
    member
    for member in public_names()
    if isinstance(member, type)
    and issubclass(member, MetricLearner)
    and not issubclass(member, MixtureNCA)
    and (member.gives_linear or member.__name__ == "AutoMetric")
]
"""The learners of one linear map; the distances of a gated metric need not be symmetric."""


def each(learners):
    return pytest.mark.parametrize("cls", learners, ids=lambda cls: cls.__name__)


def with_parameter(name):
    return [cls for cls in LEARNERS if name in cls().get_params()]


def learning_from(kind):
    return [cls for cls in LEARNERS if kind in cls.supervision]


def new(cls, **parameters):
    common = {"random_state": 0, "scale": "standard"}
    common = {name: value for name, value in common.items() if name in cls().get_params()}
    return cls(**common | SHORT.get(cls.__name__, {}) | parameters)


def targets(cls):
    """Return what the learner learns from, one value for each row."""
    return Y if "labels" in cls.supervision else NUMBERS


@cache
def fitted(cls):
    return new(cls).fit(X, targets(cls))


@each(LEARNERS)
def test_the_matrix_is_symmetric_and_has_no_negative_eigenvalue(cls):
    metric = fitted(cls).metric_
    M = metric.matrix
    np.testing.assert_array_equal(M, M.T)
    np.testing.assert_allclose(M, fitted(cls).components_.T @ fitted(cls).components_)
    values = np.linalg.eigvalsh(M)
    assert values[-1] > 0
    assert values[0] >= -1e-12 * values[-1]


@each(LEARNERS)
def test_the_map_is_linear(cls):
    learner = fitted(cls)
    L = learner.components_
    assert L.ndim == 2
    assert L.shape[1] == learner.n_features_in_ == 4
    size = np.abs(learner.transform(X)).max()
    np.testing.assert_allclose(learner.transform(X), X @ L.T, atol=1e-12 * size)
    np.testing.assert_allclose(
        learner.transform(X[:30] - 5 * X[30:60]),
        learner.transform(X[:30]) - 5 * learner.transform(X[30:60]),
        atol=1e-12 * size,
    )


@each(LEARNERS)
def test_distances_are_a_pseudometric(cls):
    metric = fitted(cls).metric_
    table = metric.distances(X[:25])
    size = table.max()
    assert np.isfinite(table).all()
    assert (table >= 0).all()
    assert (table.diagonal() == 0).all()
    np.testing.assert_array_equal(table, table.T)
    assert (table[:, None] <= table[:, :, None] + table[None] + 1e-12 * size).all()
    np.testing.assert_allclose(squareform(table), pdist(fitted(cls).transform(X[:25])))
    pairs = np.array([[0, 3], [7, 20], [24, 1]])
    np.testing.assert_allclose(metric.pair_distances(X, pairs), table[pairs[:, 0], pairs[:, 1]])


@each(LEARNERS)
def test_distances_are_mahalanobis_distances(cls):
    metric = fitted(cls).metric_
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 4))
    expected = mahalanobis(a, b, metric.matrix)
    assert metric.distances([a], [b])[0, 0] == pytest.approx(expected, rel=1e-6)


@each(LEARNERS)
def test_metrics_work_as_a_function_in_scikit_learn(cls):
    metric = fitted(cls).metric_
    rows = X[::3]
    near = 0.3 * metric.distances(rows).mean()
    by_function = DBSCAN(eps=near, metric=lambda u, v: metric.distances([u], [v])[0, 0])
    by_map = DBSCAN(eps=near)
    np.testing.assert_array_equal(
        by_function.fit(rows).labels_, by_map.fit(metric.transform(rows)).labels_
    )


@each(LEARNERS)
def test_a_metric_does_not_change_with_its_learner(cls):
    learner = new(cls).fit(X, targets(cls))
    metric, before = learner.metric_, learner.metric_.L.copy()
    with pytest.raises(ValueError, match="read-only"):
        metric.L[0, 0] = 1.0
    learner.fit(X[:50] * [1, 2, 3, 4], targets(cls)[:50])
    assert learner.metric_ is not metric
    np.testing.assert_array_equal(metric.L, before)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.* stay on one side of every split")
@each(LEARNERS)
def test_one_feature(cls):
    learner = new(cls).fit(X[:, 2:3], targets(cls))
    assert learner.components_.shape == (1, 1)
    assert learner.components_[0, 0] != 0


@each(with_parameter("n_components"))
def test_fewer_components(cls):
    learner = new(cls, n_components=2).fit(X, targets(cls))
    assert learner.components_.shape == (learner.metric_.n_components, 4)
    assert learner.transform(X).shape == (len(X), learner.metric_.n_components)
    assert learner.metric_.n_components <= 2
    with pytest.raises(ValueError, match="2D array"):
        learner.transform(X[0])


@each(LEARNERS)
def test_fits_are_deterministic(cls):
    learner = fitted(cls)
    y = targets(cls)
    again = clone(learner)
    np.testing.assert_array_equal(again.fit_transform(X, y), learner.transform(X))
    np.testing.assert_array_equal(clone(learner).fit(X, y).components_, learner.components_)


@each(LEARNERS)
def test_any_array_like_will_do(cls):
    learner, y = fitted(cls), targets(cls)
    for points, values in ((X.tolist(), y.tolist()), (tuple(map(tuple, X)), tuple(y))):
        again = clone(learner).fit(points, values)
        np.testing.assert_array_equal(again.components_, learner.components_)
        np.testing.assert_array_equal(again.transform(points), learner.transform(X))
    frame = pd.DataFrame(X)
    again = clone(learner).fit(frame, pd.Series(y))
    assert again.score(frame, y) == learner.score(X, y)


@each(LEARNERS)
def test_a_pipeline_of_one_is_the_learner(cls):
    learner, y = fitted(cls), targets(cls)
    pipeline = make_pipeline(clone(learner)).fit(X, y)
    np.testing.assert_array_equal(pipeline.transform(X), learner.transform(X))
    assert pipeline.score(X, y) == learner.score(X, y)


@each(LEARNERS)
def test_use_does_not_change_a_learner(cls):
    learner, y = fitted(cls), targets(cls)
    before = dict(vars(learner))
    learner.transform(X)
    learner.score(X, y)
    assert vars(learner) == before


@each(LEARNERS)
def test_use_before_a_fit(cls):
    with pytest.raises(NotFittedError):
        new(cls).transform(X)
    with pytest.raises(NotFittedError):
        new(cls).score(X, targets(cls))


@each(LEARNERS)
def test_cross_validation_by_hand(cls):
    learner, y = clone(fitted(cls)), targets(cls)
    folds = KFold(2, shuffle=True, random_state=0)
    by_hand = [
        clone(learner).fit(X[train], y[train]).score(X[test], y[test])
        for train, test in folds.split(X)
    ]
    assert cross_val_score(learner, X, y, cv=folds).tolist() == by_hand
    assert np.isfinite(by_hand).all()


@each([cls for cls in with_parameter("constraints") if "triplets" in cls.supervision])
def test_triplets_of_the_labels_are_the_labels(cls):
    strategy = NearestTriplets(2, 2)
    Z = StandardScaler().fit_transform(X)
    by_labels = new(cls, constraints=strategy).fit(X, Y)
    by_triplets = new(cls).fit(X, strategy(Z, Y))
    np.testing.assert_allclose(by_triplets.metric_.matrix, by_labels.metric_.matrix, rtol=1e-9)


@each([cls for cls in with_parameter("constraints") if "pairs" in cls.supervision])
def test_pairs_of_the_labels_are_the_labels(cls):
    strategy = RandomPairs(200)
    by_labels = new(cls, constraints=strategy).fit(X, Y)
    by_pairs = new(cls).fit(X, strategy(X, Y, np.random.RandomState(0)))
    np.testing.assert_allclose(by_pairs.metric_.matrix, by_labels.metric_.matrix, rtol=1e-9)


@each([cls for cls in learning_from("chunklets") if cls.__name__ != "AutoMetric"])
def test_chunklets_of_the_labels_are_the_labels(cls):
    by_chunklets = new(cls).fit(X, Chunklets.from_labels(Y))
    np.testing.assert_allclose(by_chunklets.metric_.matrix, fitted(cls).metric_.matrix, rtol=1e-9)


@each(LEARNERS)
def test_collinear_columns(cls):
    wide = np.column_stack([X, X[:, :2] @ [2.0, 3.0], X[:, 0]])
    learner = new(cls).fit(wide, targets(cls))
    distances = learner.metric_.distances(wide)
    assert np.isrealobj(distances)
    assert np.isfinite(distances).all()
    assert learner.score(wide, targets(cls)) > 0.7


@each(learning_from("labels"))
def test_a_class_of_one_among_others(cls):
    y = Y.copy()
    y[-1] = 9
    assert new(cls).fit(X, y).score(X, y) > 0.7


CROSSED = np.array([[0, 0], [0, 1], [2, 0], [2, 1]], dtype=float), np.array([1, 0, 1, 0])
"""Each point is nearer to one of the other class; the second feature tells the classes."""


NOT_FROM_FOUR_POINTS = ("InverseCovariance", "LSML", "PLDA")
"""The first uses no labels. The second has no margin: near and far come to equal distances, less
what the prior takes back. The third needs more rows to estimate a covariance within classes.
"""


@each([cls for cls in learning_from("labels") if cls.__name__ not in NOT_FROM_FOUR_POINTS])
def test_four_points(cls):
    points, y = CROSSED
    learner = new(cls).fit(points, y)
    table = learner.metric_.distances(points)
    np.fill_diagonal(table, np.inf)
    assert table.argmin(axis=1).tolist() == [2, 3, 0, 1]


def class_separation(points, y):
    """Mean distance within a class over that to other classes, averaged over the classes."""
    ratios = [
        pairwise_distances(points[y == label]).mean()
        / cdist(points[y == label], points[y != label]).mean()
        for label in np.unique(y)
    ]
    return np.mean(ratios)


SEPARATION_ON_IRIS = {
    "LMNN": (0.25, {"n_neighbors": 5, "scale": None}),
    "NCA": (0.15, {}),
    "LFDA": (0.25, {"n_neighbors": 2, "n_components": 2}),
    "RCA": (0.29, {"n_components": 2}),
    "ITML": (0.2, {"scale": None}),
    "MMC": (0.15, {"prior": None, "shrinkage": 0.0, "scale": None}),
    "LSML": (0.8, {}),
    "MLKR": (0.25, {}),
}
"""What metric-learn's tests ask of its learners, on all rows of iris, and with which parameters.

Of LFDA they ask for 0.15. That is reached with metric-learn's local scales, but not with those of
the paper (see `tests/peers`).
"""


@each([cls for cls in LEARNERS if cls.__name__ in SEPARATION_ON_IRIS])
def test_classes_of_iris_are_separated(cls):
    points, y = load_iris(return_X_y=True)
    most, parameters = SEPARATION_ON_IRIS[cls.__name__]
    numbers = y if "labels" in cls.supervision else y.astype(float)
    learner = new(cls, **parameters).fit(points, numbers)
    assert class_separation(learner.transform(points), y) < most


@each([cls for cls in LEARNERS if cls.__name__ == "InverseCovariance"])
def test_inverse_covariance_of_iris(cls):
    points, y = load_iris(return_X_y=True)
    found = cls(shrinkage=0.0).fit(points, y)
    np.testing.assert_allclose(
        found.metric_.matrix @ np.cov(points, rowvar=False), np.eye(4), atol=1e-6
    )
    assert class_separation(found.transform(points), y) == pytest.approx(0.72981476)
