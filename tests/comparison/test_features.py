"""Features are fitted inside each fold: steps of pipelines, and what all methods get."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from nearfar import MLKR, NCA, RCA, AutoMetric, Pairs, compare, read_table
from nearfar.columns import Columns
from nearfar.columns.guess import FreeText
from nearfar.comparison import default_methods, learned_method
from nearfar.tables.compare import compare_table

X, Y = load_wine(return_X_y=True)
NOISE = np.random.default_rng(0).normal(size=(120, 2000))
COINS = np.arange(120) % 2


def test_a_pipeline_is_fitted_to_the_rows_as_they_are():
    folds = list(KFold(4, shuffle=True, random_state=0).split(X))
    pipeline = make_pipeline(PCA(5), RCA())
    found = compare(X, Y, {"mine": pipeline}, cv=folds, n_neighbors=3, classifiers=False)["mine"]
    for number, (train, test) in enumerate(folds):
        pca = PCA(5).fit(X[train])
        learner = RCA().fit(pca.transform(X[train]), Y[train])
        votes = KNeighborsClassifier(3, algorithm="brute")
        votes.fit(learner.transform(pca.transform(X[train])), Y[train])
        right = votes.score(learner.transform(pca.transform(X[test])), Y[test])
        assert 1 - found.errors[number] == pytest.approx(right)


def test_columns_chosen_by_labels_do_not_flatter():
    """Of 2,000 columns of noise, those that fit the labels best; chosen before, they look good."""
    pipeline = make_pipeline(SelectKBest(k=10), RCA())
    inside = compare(NOISE, COINS, {"mine": pipeline}, classifiers=False)["mine"]
    ready = SelectKBest(k=10).fit_transform(NOISE, COINS)
    outside = compare(ready, COINS, ["RCA"], classifiers=False)["RCA"]
    assert outside.error < 0.3
    assert inside.error > 0.4
    every = compare(NOISE, COINS, [], features=SelectKBest(k=10), classifiers=True)
    assert all(every[name].error > 0.35 for name in every)


def test_the_learner_of_a_pipeline_is_planned_like_others():
    made = learned_method("mine", make_pipeline(PCA(3), NCA()))
    assert made.raw
    assert made.supervision == NCA().supervision
    assert made.for_new_classes().estimator[-1].validation == "classes"
    assert made.estimator[-1].validation == "rows"
    auto = learned_method("auto", make_pipeline(PCA(3), AutoMetric(budget=60.0)))
    assert auto.plans_time
    assert auto.within(2.0).estimator[-1].budget == 2.0
    assert not learned_method("other", make_pipeline(PCA(3))).raw
    with pytest.raises(ValueError, match="mine does not learn from pairs"):
        default_methods({"mine": make_pipeline(PCA(2), MLKR())}, supervision="pairs")


class Grouped(RCA):
    def fit(self, X, y=None, groups=None):
        assert groups is not None
        assert len(groups) == len(X)
        return super().fit(X, y)


def test_groups_reach_the_learner_of_a_pipeline():
    groups = np.arange(len(Y)) // 2
    found = compare(X, Y, {"mine": make_pipeline(PCA(5), Grouped())}, groups=groups)
    assert not found["mine"].note


class Seen(TransformerMixin, BaseEstimator):
    """Tells how many of the rows it was fitted to; rows have their number in front."""

    fits: list = []  # noqa: RUF012

    def fit(self, X, y=None):
        self.fits.append(set(np.asarray(X)[:, 0].astype(int)))
        return self

    def transform(self, X):
        return np.asarray(X)[:, 1:].astype(float)


class TestFeaturesOfAllMethods:
    @pytest.fixture(autouse=True)
    def fits(self):
        Seen.fits = []

    def test_labels(self):
        folds = list(KFold(3, shuffle=True, random_state=0).split(X))
        rows = np.column_stack([np.arange(len(X)), X])
        made = compare(rows, Y, ["RCA"], cv=folds, features=Seen(), classifiers=False)
        plain = compare(X, Y, ["RCA"], cv=folds, classifiers=False)
        for name in plain:
            np.testing.assert_allclose(made[name].errors, plain[name].errors)
        assert Seen.fits[1:] == [set(train) for train, _ in folds]

    def test_pairs(self):
        index = np.arange(150).reshape(-1, 2)
        pairs = Pairs(index, np.arange(75) % 3 > 0)
        folds = list(KFold(3, shuffle=True, random_state=0).split(index))
        rows = np.column_stack([np.arange(len(X)), X])
        compare(rows, pairs, ["RCA"], cv=folds, features=Seen())
        others = set(range(150, len(X)))
        assert Seen.fits[1:] == [set(index[train].ravel()) | others for train, _ in folds]


def test_methods_do_not_see_rows_of_held_out_pairs():
    """The inverse covariance of wide rows would know them."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(160, 60))
    pairs = Pairs(np.arange(160).reshape(-1, 2), np.arange(80) % 2 == 0)
    folds = [(np.arange(40), np.arange(40, 80))]
    first = compare(rows, pairs, [], cv=folds)
    rows[80:] += 5 * rng.normal(size=(1, 60))  # moves no distance between them
    second = compare(rows, pairs, [], cv=folds)
    name = "inverse covariance"
    np.testing.assert_allclose(second[name].errors, first[name].errors)


class TestTables:
    """What becomes of columns is learned from the training rows of each fold."""

    @staticmethod
    def frame(n=60):
        rng = np.random.default_rng(0)
        words = np.array([f"word{k}" for k in range(400)])
        text = [" ".join(rng.choice(words, 12)) for _ in range(n)]
        return pd.DataFrame(
            {"text": text, "size": rng.normal(size=n), "kind": ["a", "b"] * (n // 2)}
        )

    @pytest.fixture
    def sizes(self, monkeypatch):
        """Numbers of rows that words were learned from."""
        sizes, fit = [], FreeText.fit.__func__
        monkeypatch.setattr(
            FreeText,
            "fit",
            classmethod(lambda cls, name, v: sizes.append(len(v)) or fit(cls, name, v)),
        )
        return sizes

    def test_comparison(self, sizes):
        table = read_table(self.frame(), label="kind", text=["text"])
        assert sizes == [60]
        found = compare_table(table, ["RCA"], classifiers=False)
        assert sizes[2:] == [48] * 5
        assert not found["RCA"].note

    def test_numbers(self, sizes):
        frame = self.frame().drop(columns="kind").assign(price=np.arange(60.0))
        table = read_table(frame, label="price", text=["text"], numbers=True)
        found = compare_table(table, [MLKR(max_iter=2)], classifiers=False)
        assert sizes[2:] == [48] * 5
        assert not found["MLKR"].note

    def test_a_frame(self):
        frame = self.frame()
        columns = Columns(text=["text"]).fit(frame.drop(columns="kind"))
        found = compare(
            frame, frame["kind"], ["RCA"], features=Columns(kinds=columns.kinds_), classifiers=False
        )
        table = read_table(frame, label="kind", text=["text"])
        again = compare_table(table, ["RCA"], classifiers=False)
        assert [found[name].error for name in found] == [again[name].error for name in again]
