"""Pipelines in `PairVerifier`: what calibrates is only transformed."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearfar import RCA, InverseCovariance, MaxMarginMetric, PairVerifier, RandomPairs
from nearfar.learners.base import fit_pipeline, learner_of
from nearfar.supervision.copies import comparable_rows, find_copies
from nearfar.verification.splits import all_pairs, split_labels
from verification.populations import all_pairs as every_pair
from verification.populations import population

PEOPLE, PERSON = population(60, 5, np.random.default_rng(0))


class Seen(TransformerMixin, BaseEstimator):
    """Remembers the rows that it was fitted to, and the labels."""

    def fit(self, X, y=None):
        self.rows_ = {row.tobytes() for row in np.asarray(X)}
        self.y_ = y
        return self

    def transform(self, X):
        return X


@pytest.mark.parametrize("split", ["classes", "rows"])
@pytest.mark.parametrize("kind", ["labels", "pairs"])
@pytest.mark.parametrize("learner", [RCA(), MaxMarginMetric(tol=0.1)])
def test_features_do_not_know_what_calibrates(split, kind, learner, monkeypatch):
    apart = np.concatenate([every_pair(PERSON[:20]).index + 20 * k for k in range(15)])
    pairs = RandomPairs(10)(PEOPLE, PERSON, np.random.RandomState(0))
    pairs = type(pairs)(apart, PERSON[apart[:, 0]] == PERSON[apart[:, 1]])
    measured = []
    monkeypatch.setattr(
        "nearfar.verification.verifier.verification_curve",
        lambda metric, X, held_out: measured.append(held_out) or 1 / 0,
    )
    verifier = PairVerifier(
        make_pipeline(Seen(), learner), split=split, calibration=0.5, random_state=0
    )
    with pytest.raises(ZeroDivisionError):
        verifier.fit(PEOPLE, PERSON if kind == "labels" else pairs)
    fitted = verifier.learner_[0]
    calibrating = {PEOPLE[row].tobytes() for row in np.unique(measured[0].index)}
    assert len(fitted.rows_) >= 100
    if (split, kind) != ("rows", "pairs"):  # such pairs share rows
        assert not fitted.rows_ & calibrating
    if kind == "labels":
        assert len(fitted.y_) == len(fitted.rows_)


def test_a_learner_without_a_pipeline_does_not_either():
    """The inverse covariance is that of the rows to learn from, whatever is paired."""
    X, y = population(80, 3, np.random.default_rng(1))
    apart = np.concatenate([every_pair(y[:6]).index + 6 * k for k in range(40)])
    pairs = RandomPairs(10)(X, y, np.random.RandomState(0))
    pairs = type(pairs)(apart, y[apart[:, 0]] == y[apart[:, 1]])
    verifier = PairVerifier(InverseCovariance(), target="fmr<=0.5", random_state=0)
    learned = verifier.fit(X, pairs).metric_
    seen = np.unique(verifier._split(X, pairs, np.random.RandomState(0))[0].seen.index)
    assert 0 < len(seen) < len(X)
    other = X.copy()
    other[~np.isin(np.arange(len(X)), seen)] *= 3.0
    np.testing.assert_allclose(verifier.fit(other, pairs).metric_.matrix, learned.matrix)


class TestTruth:
    """Classes that differ in a few of many columns, reduced by what knows the labels."""

    @staticmethod
    def draw(rng, n_classes):
        y = np.repeat(np.arange(n_classes), 4)
        X = rng.normal(size=(len(y), 120))
        X[:, :4] += 2.0 * rng.normal(size=(n_classes, 4))[y]
        return X, y

    @pytest.mark.parametrize(
        ("step", "target"),
        [(LinearDiscriminantAnalysis(n_components=10), "recall>=0.7"), (PCA(60), "fmr<=0.05")],
    )
    def test_the_certificate_holds_with_features_fitted_inside(self, step, target):
        rng = np.random.default_rng(0)
        (X, y), (fresh, y_fresh) = self.draw(rng, 100), self.draw(rng, 200)
        pairs = every_pair(y_fresh)
        similar = target.startswith("recall")
        pairs = pairs.take(pairs.similar == similar)
        options = {"target": target, "calibration": 0.5, "random_state": 0}
        inside = PairVerifier(make_pipeline(clone(step), RCA()), **options).fit(X, y)
        ready = clone(step).fit(X, y)
        outside = PairVerifier(RCA(), **options).fit(ready.transform(X), y)
        true = inside.predict(fresh, pairs).mean()
        flattered = outside.predict(ready.transform(fresh), pairs).mean()
        if similar:
            assert flattered < 0.6 < 0.7 <= true
        else:
            assert flattered > 0.1 > 0.05 >= true


FRAME = pd.DataFrame(
    {
        "name": [
            f"person {'abcdefghijklmno'[c % 15]}{c} {'vwxyz'[k % 5]}" for k, c in enumerate(PERSON)
        ],
        "size": PEOPLE[:, 0],
        "age": PEOPLE[:, 1],
    }
)


def words(n_axes=6):
    return make_pipeline(
        TfidfVectorizer(analyzer="char", ngram_range=(1, 2)),
        TruncatedSVD(n_axes, random_state=0),
    )


def test_a_table_with_text():
    columns = make_column_transformer((words(), "name"), (StandardScaler(), ["size", "age"]))
    verifier = PairVerifier(make_pipeline(columns, RCA()), target="fmr<=0.2", random_state=0)
    verifier.fit(FRAME, PERSON)
    assert verifier.metric_.n_features == 8
    assert verifier.feature_names_in_.tolist() == ["name", "size", "age"]
    pairs = every_pair(PERSON).take(np.arange(0, 3000, 7))
    Z = verifier.learner_[:-1].transform(FRAME)
    distances = verifier.metric_.pair_distances(Z, pairs)
    np.testing.assert_array_equal(verifier.predict(FRAME, pairs), distances <= verifier.threshold_)
    moved = FRAME.assign(more=1.0)[["more", "age", "name", "size"]]
    np.testing.assert_array_equal(
        verifier.predict_proba(moved, pairs), verifier.predict_proba(FRAME, pairs)
    )
    again = pickle.loads(pickle.dumps(verifier))
    np.testing.assert_array_equal(again.predict(FRAME, pairs), verifier.predict(FRAME, pairs))


def test_texts():
    verifier = PairVerifier(make_pipeline(words(), RCA()), calibration=0.5, random_state=0)
    names = FRAME["name"].tolist()
    assert verifier.fit(names, PERSON).score(names, every_pair(PERSON)) > 0.9


def test_parameters_and_grid_search():
    pipeline = make_pipeline(StandardScaler(), PCA(4), make_pipeline(RCA()))
    verifier = PairVerifier(pipeline, random_state=0)
    assert clone(verifier).get_params()["learner__pca__n_components"] == 4
    search = GridSearchCV(
        verifier, {"learner__pca__n_components": [1, 6]}, cv=KFold(2), error_score="raise"
    )
    shuffled = np.random.default_rng(0).permutation(len(PERSON))
    pairs = every_pair(PERSON[shuffled]).over(len(PERSON))
    search.fit(PEOPLE[shuffled], pairs)
    assert search.best_params_ == {"learner__pca__n_components": 6}
    assert not hasattr(pipeline[0], "mean_")


def test_steps_that_need_labels_get_them_from_labels_only():
    pipeline = make_pipeline(SelectKBest(k=4), MaxMarginMetric(tol=0.1))
    verifier = PairVerifier(pipeline, calibration=0.5, random_state=0).fit(PEOPLE, PERSON)
    assert verifier.metric_.n_features == 4
    assert verifier.predict(PEOPLE, [[0, 1]]).shape == (1,)


@pytest.mark.parametrize("last", [PCA(2), StandardScaler()])
def test_a_pipeline_ends_in_a_learner(last):
    with pytest.raises(TypeError, match="must end in a learner of a metric, such as RCA"):
        PairVerifier(make_pipeline(PCA(4), last)).fit(PEOPLE, PERSON)
    with pytest.raises(TypeError, match="must be a learner of a metric"):
        PairVerifier(last).fit(PEOPLE, PERSON)


def test_groups_reach_the_learner():
    class Grouped(RCA):
        def fit(self, X, y=None, groups=None):
            self.groups_ = groups
            return super().fit(X, y)

    fitted = fit_pipeline(make_pipeline(PCA(3), Grouped()), PEOPLE, PERSON, groups=PERSON % 7)
    np.testing.assert_array_equal(learner_of(fitted).groups_, PERSON % 7)


def test_copies_of_raw_rows_are_found():
    frame = pd.concat([FRAME, FRAME.iloc[:30]]).assign(gap=np.nan)
    copies = find_copies(comparable_rows(frame))
    np.testing.assert_array_equal(copies.first[300:], np.arange(30))
    assert len(copies) == 30
    columns = make_column_transformer((words(), "name"), ("passthrough", ["size", "age"]))
    labels = np.append(PERSON, PERSON[:30]) % 30
    with pytest.warns(UserWarning, match="30 of 330 rows are equal"):
        PairVerifier(make_pipeline(columns, RCA()), random_state=0).fit(frame, labels)


class TestCounts:
    @pytest.mark.parametrize("split", ["classes", "rows"])
    def test_no_pair_counts_twice(self, split):
        """40 classes of three rows have 120 similar pairs; 2,000 were counted."""
        y = np.repeat(np.arange(80), 6 if split == "rows" else 3)
        parts = split_labels(y, split, 0.5, 2000, np.random.RandomState(0))
        held_out = np.sort(parts.held_out.index, axis=1)
        assert len(np.unique(held_out, axis=0)) == len(held_out)
        assert parts.held_out.similar.sum() == {"classes": 40 * 3, "rows": 80 * 3}[split]
        assert len(held_out) == 2000

    def test_stated_numbers_are_of_pairs_that_exist(self):
        X, y = population(100, 4, np.random.default_rng(0))
        verifier = PairVerifier(
            RCA(), target="recall>=0.5", calibration=0.5, n_pairs=10_000, random_state=0
        )
        point = verifier.fit(X, y).operating_point_
        assert point.n_pairs == 10_000
        assert point.effective_pairs <= 50 * 6
        assert point.prevalence == pytest.approx(50 * 6 / (200 * 199 / 2))

    def test_samples_are_of_all_pairs_alike(self):
        """A large class has most of the similar pairs, not a share by its rows."""
        y = np.repeat([0, 1, 2], [60, 10, 30])
        counts = np.zeros((3, 3))
        for seed in range(40):
            drawn = all_pairs(y, np.arange(100), 400, np.random.RandomState(seed))
            np.add.at(counts, tuple(np.sort(y[drawn.index], axis=1).T), drawn.weight)
        sizes = np.bincount(y)
        every = np.triu(np.outer(sizes, sizes)) - np.diag(sizes * (sizes + 1) // 2)
        np.testing.assert_allclose(counts / 40, every, rtol=0.1)
