"""`compare(split="classes")`: methods are tested on classes that they did not learn from."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from sklearn.datasets import load_digits

from nearfar import RCA, AutoMetric, BoostMetric, Metric, RandomPairs, compare
from nearfar.comparison import default_methods
from nearfar.comparison.tasks import class_folds, score_distance
from nearfar.measures import leave_one_out_error, map_at_r

RNG = np.random.RandomState(0)
ROWS = RNG.permutation(1797)[:400]
X, Y = (part[ROWS] for part in load_digits(return_X_y=True))
X = X + 0.01 * RNG.normal(size=X.shape)


class Recorder(RCA):
    seen: ClassVar[list] = []

    def fit(self, X, y=None):
        self.seen.append((set(y.tolist()), self.validation, self.validation_fraction))
        return super().fit(X, y)


def test_folds_hold_out_whole_classes():
    folds = class_folds(Y, 3, None, 0)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(400))
    for train, test in folds:
        assert len(train) + len(test) == 400
        assert not np.intersect1d(Y[train], Y[test]).size
        assert 3 <= len(np.unique(Y[test])) <= 4


def test_methods_learn_from_other_classes_and_are_validated_on_others_again():
    Recorder.seen.clear()
    compare(X, Y, {"recorder": Recorder()}, split="classes", cv=2)
    tested = [set(Y[test].tolist()) for _, test in class_folds(Y, 2, None, 0)]
    fits = [fit for fit in Recorder.seen if len(fit[0]) == 5]
    assert {frozenset(found) for found, *_ in fits} == {frozenset(t) for t in tested[::-1]}
    assert all(chosen == ["classes", 0.2] for _, *chosen in fits)


def test_test_rows_are_queries_among_each_other():
    found = compare(X, Y, [], split="classes", cv=2, n_neighbors=3)
    plain = found["Euclidean (unscaled)"]
    identity = Metric.identity(64)
    for i, (_, test) in enumerate(class_folds(Y, 2, None, 0)):
        rows, labels = X[test], Y[test]
        assert 1 - plain.fold_losses["map_at_r"][i] == pytest.approx(
            map_at_r(identity, rows, labels)
        )
        expected = leave_one_out_error(identity, rows, labels, n_neighbors=3)
        assert plain.errors[i] == pytest.approx(expected)
    assert found.to_dict()["split"] == "classes"
    assert "2 folds of unseen classes, 400 rows of 10 classes" in str(found)


def test_triplets_of_rows_among_each_other():
    rows, labels = X[:60], Y[:60]
    found = score_distance(Metric.identity(64), (rows, labels), None, n_neighbors=1)
    distances = ((rows[:, None] - rows) ** 2).sum(axis=2)
    shares = []
    for i in range(60):
        same = (labels == labels[i]) & (np.arange(60) != i)
        if same.any():
            other = distances[i][labels != labels[i]]
            shares.append((distances[i][same][:, None] < other).mean())
    assert 1 - np.nanmean(found["triplet_accuracy"]) == pytest.approx(np.mean(shares))


def test_rows_that_are_alone_in_their_class_are_not_scored():
    gallery = np.array([[0.0], [1.0], [2.0], [9.0]]), np.array([0, 0, 1, 2])
    found = score_distance(Metric.identity(1), gallery, None, n_neighbors=1)
    assert np.isnan(found["error"]).tolist() == [False, False, True, True]
    assert np.isnan(found["map_at_r"]).tolist() == [False, False, True, True]


def test_significance_counts_classes():
    by_class, by_row = (
        compare(X, Y, [], split=split, cv=2).by_goal("classification")
        for split in ("classes", "rows")
    )
    values = np.where(np.arange(400) == 7, np.nan, Y.astype(float))
    np.testing.assert_allclose(by_class.counted(values), np.arange(10))
    assert by_row.counted(values) is values


def test_learners_are_set_for_new_classes_and_others_left_alone():
    chosen = {"auto": AutoMetric(), "boost": BoostMetric(), "paper": BoostMetric(variant="paper")}
    methods = {m.name: m.for_new_classes() for m in default_methods(chosen)}
    assert {methods[name].estimator.validation for name in chosen} == {"classes"}
    assert methods["boost"].estimator.validation_fraction == "auto"
    assert chosen["boost"].validation == "rows"
    assert methods["LDA"].estimator is None


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (Y, {"cv": 1}, "cv=1, which must be 2 or more"),
        (Y, {"cv": 2, "groups": Y // 9}, "classes that share a group stay together"),
        (Y % 3, {"cv": 2}, "four classes or more"),
        (RandomPairs(100)(X, Y, RNG), {}, "needs class labels"),
    ],
)
def test_refusals(y, options, message):
    with pytest.raises(ValueError, match=message):
        compare(X, y, [], split="classes", **options)


def test_an_unknown_split():
    with pytest.raises(ValueError, match='split must be "rows" or "classes"'):
        compare(X, Y, [], split="columns")
