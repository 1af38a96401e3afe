"""Closed forms learn from parts of the data what they learn from all of it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits

from nearfar import (
    DCA,
    GMML,
    KISSME,
    LDA,
    LFDA,
    PLDA,
    RCA,
    XQDA,
    Chunklets,
    InverseCovariance,
    Metric,
    Pairs,
)
from nearfar.learners.classic.closed_form_base import GroupMoments, SummedClosedForm
from problems import labelled, public_names

SUMMED = [DCA, GMML, KISSME, LDA, PLDA, RCA, XQDA, InverseCovariance]
SCALES = ["standard", "unit", "cosine", None]
DIGITS = load_digits(return_X_y=True)


def each(learners):
    return pytest.mark.parametrize("cls", learners, ids=lambda cls: cls.__name__)


def shuffled_parts(n, number=10, seed=0):
    return np.array_split(np.random.default_rng(seed).permutation(n), number)


def in_parts(learner, X, y, parts):
    for rows in parts:
        learner.partial_fit(X[rows], y[rows])
    return learner


def assert_same(found, expected, tolerance=1e-10):
    M = expected.metric_.matrix
    assert np.abs(found.metric_.matrix - M).max() <= tolerance * np.abs(M).max()


def test_these_are_all():
    found = [c for c in public_names() if isinstance(c, type) and hasattr(c, "partial_fit")]
    assert [c for c in found if issubclass(c, SummedClosedForm)] == [
        c for c in public_names() if c in SUMMED
    ]
    assert not hasattr(LFDA(), "partial_fit")


@each(SUMMED)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("shrinkage", ["auto", 0.1])
def test_ten_parts_of_labels(cls, scale, shrinkage):
    X, y = DIGITS
    learner = cls(scale=scale, shrinkage=shrinkage)
    parts = in_parts(learner, X, y, shuffled_parts(len(X)))
    whole = cls(scale=scale, shrinkage=shrinkage).fit(X, y)
    assert_same(parts, whole)
    assert parts.scale_ == whole.scale_
    assert parts.n_iter_ == 1
    assert parts.history_.stopped == "solved"


@each(SUMMED)
def test_classes_come_back_and_new_ones_appear(cls, rng):
    X, y, _ = labelled(n=90)
    y = y.astype(str)
    first = np.flatnonzero(y != "2")
    parts = [first[:20], np.flatnonzero(y == "2"), first[20:21], first[21:]]
    learner = in_parts(cls(scale="standard"), X, y, parts)
    assert_same(learner, cls(scale="standard").fit(X, y))


@each([RCA, KISSME])
@pytest.mark.parametrize("kind", ["few rows", "collinear", "constant", "far from zero"])
def test_degenerate_rows(cls, kind):
    X, y, rng = labelled(n=40)
    X = {
        "few rows": lambda: np.column_stack([X, np.sin(X @ rng.standard_normal((4, 60)))]),
        "collinear": lambda: np.column_stack([X, X[:, 0] + X[:, 1]]),
        "constant": lambda: np.column_stack([np.full(40, 7.1), X]),
        "far from zero": lambda: X + 1e4,
    }[kind]()
    learner = in_parts(cls(scale="standard"), X, y, shuffled_parts(40, 4))
    assert_same(learner, cls(scale="standard").fit(X, y), 1e-7)


def test_units_do_not_overflow():
    X, y, _ = labelled(n=60)
    extreme = X * [1e-100, 1e100, 1.0, 1e120]
    learner = in_parts(RCA(scale="standard"), extreme, y, shuffled_parts(60, 5))
    expected = RCA(scale="standard").fit(X, y).metric_.distances(X)
    np.testing.assert_allclose(learner.metric_.distances(extreme), expected, rtol=1e-10)


def test_the_first_part_decides_auto():
    X, y, rng = labelled(n=60)
    X = np.column_stack([X, y + 0.01 * rng.standard_normal(60)]) * [1, 1, 1, 1, 1e-3]
    learner = RCA().partial_fit(X[:30], y[:30])
    assert learner.scale_ == "standard"
    X[30:, 4] *= 1e6
    assert learner.partial_fit(X[30:], y[30:]).scale_ == "standard"
    assert_same(learner, RCA(scale="standard").fit(X, y))


@each(SUMMED)
def test_no_rows_are_kept(cls, rng):
    X, y = rng.standard_normal((4000, 5)), np.arange(4000) % 2
    learner = in_parts(cls(), X, y, shuffled_parts(4000))
    assert len(pickle.dumps(learner)) < X.nbytes / 8
    again = pickle.loads(pickle.dumps(learner)).partial_fit(X[:100], y[:100])
    assert_same(again, learner.partial_fit(X[:100], y[:100]))


def test_a_metric_is_not_changed_by_later_parts():
    X, y, _ = labelled(n=60)
    learner = RCA().partial_fit(X[:30], y[:30])
    metric, before = learner.metric_, learner.metric_.matrix.copy()
    learner.partial_fit(X[30:], y[30:])
    assert isinstance(metric, Metric)
    np.testing.assert_array_equal(metric.matrix, before)
    assert learner.metric_ is not metric


def test_failed_parts_change_nothing():
    X, y, _ = labelled(n=60)
    learner = RCA(scale="standard").partial_fit(X[:30], y[:30])
    with pytest.raises(ValueError, match="NaN"):
        learner.partial_fit(np.full((3, 4), np.nan), [0, 1, 2])
    with pytest.raises(ValueError, match="learns from labels"):
        learner.partial_fit(X[30:], Chunklets([0] * 30))
    learner.partial_fit(X[30:], y[30:])
    assert_same(learner, RCA(scale="standard").fit(X, y))


def test_fit_starts_anew():
    X, y, _ = labelled(n=60)
    learner = RCA().partial_fit(X[:30], y[:30]).fit(X[30:], y[30:])
    assert_same(learner, RCA().fit(X[30:], y[30:]))
    with pytest.warns(UserWarning, match="forgets its rows"):
        learner.partial_fit(X[:30], y[:30])
    assert_same(learner, RCA().fit(X[:30], y[:30]))


@pytest.mark.parametrize(
    ("learner", "y", "message"),
    [
        (RCA(), [0] * 8, "two classes are needed in the first part"),
        (PLDA(), list(range(8)), "one class with two members"),
        (RCA(), Chunklets([0] * 8), "learns from labels"),
        (KISSME(), Pairs([[0, 1]], [True]), "learns from labels"),
        (RCA(validation_fraction=0.2), [0, 1] * 4, "holds out no rows"),
    ],
)
def test_what_cannot_be_learned_from(learner, y, message, rng):
    with pytest.raises(ValueError, match=message):
        learner.partial_fit(rng.standard_normal((8, 3)), y)
    assert not hasattr(learner, "metric_")


def test_fourth_moments_cannot_be_made_up():
    X, y, _ = labelled(n=60)
    learner = RCA(shrinkage=0.1).partial_fit(X[:30], y[:30])
    with pytest.raises(ValueError, match="from the first part on"):
        learner.set_params(shrinkage="auto").partial_fit(X[30:], y[30:])


def test_moments_are_those_of_all_rows(rng):
    X = rng.standard_normal((50, 4)) ** 3 + [0, 5, -3, 0]
    found = GroupMoments.of(X[:7]) + GroupMoments.of(X[7:8]) + GroupMoments.of(X[8:])
    d = X - X.mean(axis=0)
    np.testing.assert_allclose(found.mean, X.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(found.S, d.T @ d, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found.T, (d**2).T @ d, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(found.Q, (d**2).T @ d**2, rtol=1e-11)
