"""What all closed forms owe, beyond what every learner does."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from nearfar import DCA, GMML, KISSME, LFDA, PLDA, RCA, XQDA, Chunklets, Metric, Pairs
from nearfar.learners.classic.closed_form_base import ClosedFormLearner, Span
from problems import labelled, points_with_a_single, public_names
from references.closed_forms import all_pairs

CLOSED_FORMS = [
    member
    for member in public_names()
    if isinstance(member, type) and issubclass(member, ClosedFormLearner)
]
SUPERVISED = [cls for cls in CLOSED_FORMS if cls().__sklearn_tags__().target_tags.required]
DIGITS = load_digits(return_X_y=True)


def each(learners):
    return pytest.mark.parametrize("cls", learners, ids=lambda cls: cls.__name__)


def assert_metric(learner, X):
    """The metric is a finite psd matrix, and its map is the transformation."""
    L, M = learner.components_, learner.metric_.matrix
    assert L.dtype == np.float64
    assert np.isfinite(L).all()
    assert L.any()
    np.testing.assert_array_equal(M, M.T)
    values = np.linalg.eigvalsh(M)
    assert values[0] >= -1e-12 * values[-1]
    np.testing.assert_allclose(learner.transform(X), X @ L.T, rtol=1e-6)


def test_all_are_found():
    assert len(CLOSED_FORMS) == 9
    assert len(SUPERVISED) == 8


@each(CLOSED_FORMS)
def test_one_iteration(cls):
    X, y, _ = labelled()
    learner = cls().fit(X, y)
    assert learner.n_iter_ == 1
    assert learner.history_.stopped == "solved"
    again = cls().fit(X, y)
    assert learner.components_.tobytes() == again.components_.tobytes()


@each(CLOSED_FORMS)
@pytest.mark.parametrize("shrinkage", ["auto", 0.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_digits(cls, shrinkage, dtype):
    """Three features are constant, so that the covariances are singular."""
    X, y = DIGITS[0].astype(dtype), DIGITS[1]
    learner = cls(shrinkage=shrinkage).fit(X, y)
    assert learner.transform(X).dtype == dtype
    L = np.abs(learner.components_)
    assert (L[:, np.ptp(X, axis=0) == 0] < 1e-9 * L.max()).all()
    assert_metric(learner, X.astype(np.float64))


@each(CLOSED_FORMS)
@pytest.mark.parametrize("scale", ["standard", "unit"])
def test_units(cls, scale):
    X, y, _ = labelled()
    first = cls(scale=scale).fit(X, y).metric_.distances(X)
    second = cls(scale=scale).fit(1000 * X, y).metric_.distances(1000 * X)
    np.testing.assert_allclose(first, second, rtol=1e-7)


DEGENERATE = {
    "collinear": lambda X: np.column_stack([X, X[:, 0] + X[:, 1], X[:, 0]]),
    "constant": lambda X: np.column_stack([np.full(len(X), 1e9), X]),
    "more features than rows": lambda X: np.column_stack([X, np.sin(X @ np.ones((4, 70)))]),
    "one feature": lambda X: X[:, :1],
    "equal within classes": lambda X: np.round(X / 3),
}


@each(CLOSED_FORMS)
@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("shrinkage", ["auto", 0.1, 0.0])
@pytest.mark.filterwarnings("ignore:Nothing was learned. rows")
def test_degenerate_features(cls, case, shrinkage):
    X, y, _ = labelled()
    X, y = DEGENERATE[case](X), np.append(y[:-1], 9)
    learner = cls(shrinkage=shrinkage).fit(X, y)
    assert np.isfinite(learner.transform(X)).all()


@each(SUPERVISED)
def test_classes_without_spread(cls):
    y = np.arange(12) % 3
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])[y]
    learner = cls().fit(X, y)
    assert_metric(learner, X)
    distances = learner.metric_.distances(X)
    assert (distances[y[:, None] != y] > 0).all()
    assert not distances[y[:, None] == y].any()


@each(CLOSED_FORMS)
@pytest.mark.parametrize("shrinkage", ["auto", 0.1])
@pytest.mark.parametrize("n_features", [90, 12])
def test_empty_dimensions_change_nothing(cls, shrinkage, n_features, rng):
    X, y, _ = labelled()
    axes = np.linalg.qr(rng.standard_normal((n_features, 4)))[0]
    expected = cls(shrinkage=shrinkage, scale=None).fit(X, y).metric_.distances(X)
    wide = X @ axes.T
    found = cls(shrinkage=shrinkage, scale=None).fit(wide, y).metric_.distances(wide)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@each(CLOSED_FORMS)
@pytest.mark.parametrize("n", [60, 30])
def test_components_are_the_first_rows(cls, n, rng):
    y = np.arange(n) % 5
    X = rng.standard_normal((n, 40)) + 2 * rng.standard_normal((5, 40))[y]
    whole = cls().fit(X, y).components_
    reduced = cls(n_components=3).fit(X, y).components_
    np.testing.assert_allclose(reduced, whole[:3], rtol=1e-9, atol=1e-12)


@each([RCA, DCA, KISSME, XQDA, GMML])
@pytest.mark.parametrize("shrinkage", ["auto", 0.1, 0.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_labels_are_all_their_pairs(cls, shrinkage, seed):
    X, y, _ = points_with_a_single(seed)
    X[:, 0] += 2 * y
    learner = cls(shrinkage=shrinkage)
    M = learner.fit(X, y).metric_.matrix
    pairs = Pairs(*all_pairs(y))
    kinds = [pairs, pairs.over(len(X))]
    if "chunklets" in cls.supervision:
        kinds += [Chunklets.from_labels(y), Chunklets(10 * y), Chunklets(y).over(len(X))]
    for kind in kinds:
        found = learner.fit(X, kind).metric_.matrix
        np.testing.assert_allclose(found, M, atol=1e-7 * np.abs(M).max())


@each(CLOSED_FORMS)
def test_fitted_learners_do_not_keep_the_rows(cls, rng):
    X, y = rng.standard_normal((2000, 5)), np.arange(2000) % 2
    X[:, 4] = X[:, 0]
    X[:, 1] += y
    assert len(pickle.dumps(cls().fit(X, y))) < X.nbytes / 4


@each(CLOSED_FORMS)
def test_equal_rows_are_warned_of(cls):
    learner = cls()
    with pytest.warns(ConvergenceWarning, match="all rows are equal"):
        learner.fit(np.ones((6, 3)), [0, 0, 1, 1, 2, 2])
    assert not learner.components_.any()


@each([KISSME, XQDA, DCA])
def test_classes_that_do_not_differ_are_warned_of(cls):
    X = np.array([[-1.0], [1.0], [-1.0], [1.0]])
    with pytest.warns(ConvergenceWarning, match="of the same kind are as far apart"):
        cls(shrinkage=0.0).fit(X, [0, 0, 1, 1])


class TestSpan:
    def test_all_dimensions(self):
        X, _, _ = labelled()
        span = Span.of(X)
        assert span.V is None
        assert span.P.var(axis=0).mean() == pytest.approx(1.0)
        L = np.eye(4)[:2]
        np.testing.assert_allclose(
            span.P @ L.T, X @ span.map_of_features(L).T / np.sqrt(span.unit), rtol=1e-12
        )

    @pytest.mark.parametrize("n", [30, 6])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_few_dimensions(self, n, dtype, rng):
        X = (rng.standard_normal((n, 3)) @ rng.standard_normal((3, 10))).astype(dtype)
        X -= X.mean(axis=0)
        span = Span.of(X)
        assert span.P.shape == (n, 3)
        np.testing.assert_allclose(span.V.T @ span.V, np.eye(3), atol=1e-12)
        distances = Metric.identity(3).distances(span.P) * np.sqrt(span.unit)
        np.testing.assert_allclose(
            distances, Metric.identity(10).distances(X), rtol=1e-5, atol=1e-5
        )
        L = rng.standard_normal((2, 3))
        back = span.map_of_coordinates(span.map_of_features(L)) / np.sqrt(span.unit)
        np.testing.assert_allclose(back, L, atol=1e-12)

    def test_few_rows(self, rng):
        X = rng.standard_normal((8, 20))
        assert Span.of(X - X.mean(axis=0)).P.shape == (8, 7)


def test_learners_from_labels_refuse_the_rest():
    X, y, _ = labelled()
    for learner in (LFDA(), PLDA()):
        with pytest.raises(ValueError, match="learns from class labels; got Pairs"):
            learner.fit(X, Pairs(*all_pairs(y)))
