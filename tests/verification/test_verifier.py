"""`PairVerifier`: thresholds and probabilities on pairs that were not used to learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearfar import (
    RCA,
    BoostMetric,
    DRMetric,
    InverseCovariance,
    MaxMarginMetric,
    Metric,
    Pairs,
    PairVerifier,
    RandomPairs,
    Triplets,
)
from nearfar.supervision import Chunklets
from nearfar.verification import TargetNotCertifiedError
from nearfar.verification.splits import split_labels, split_pairs
from verification.populations import all_pairs, population

X, Y = load_wine(return_X_y=True)
PAIRS = RandomPairs(600)(X, Y, np.random.RandomState(0))
UNSEEN = RandomPairs(600)(X, Y, np.random.RandomState(1))


@pytest.mark.parametrize("y", [PAIRS, Y, PAIRS.over(len(X))], ids=["pairs", "labels", "over"])
def test_tells_pairs_apart(y):
    verifier = PairVerifier(random_state=0).fit(X, y)
    same = verifier.predict(X, UNSEEN)
    assert verifier.score(X, UNSEEN) == np.mean(same == UNSEEN.similar)
    assert same.dtype == bool
    np.testing.assert_array_equal(same, verifier.decision_function(X, UNSEEN) >= 0)
    distances = verifier.metric_.pair_distances(X, UNSEEN)
    np.testing.assert_array_equal(same, distances <= verifier.threshold_)


@pytest.mark.parametrize("learner", [BoostMetric(max_iter=20), DRMetric(), MaxMarginMetric()])
def test_any_learner(learner):
    verifier = PairVerifier(learner, random_state=0).fit(X, PAIRS)
    assert type(verifier.learner_) is type(learner)
    assert not hasattr(learner, "metric_")
    same = verifier.metric_.pair_distances(X, UNSEEN) <= verifier.threshold_
    assert verifier.score(X, UNSEEN) == np.mean(same == UNSEEN.similar)


def test_a_threshold_of_ones_own():
    verifier = PairVerifier(random_state=0)
    with pytest.raises(NotFittedError):
        verifier.predict(X, UNSEEN)
    distances = verifier.fit(X, PAIRS).metric_.pair_distances(X, UNSEEN)
    for threshold in (-np.inf, 0.0, np.median(distances), np.inf):
        verifier.threshold_ = threshold
        np.testing.assert_array_equal(verifier.predict(X, UNSEEN), distances <= threshold)


def test_calibrates_a_given_metric_on_all_pairs():
    metric = RCA().fit(X[::2], Y[::2]).metric_
    verifier = PairVerifier(metric=metric).fit(X, PAIRS)
    assert verifier.metric_ is metric
    assert not hasattr(verifier, "learner_")
    distances = metric.pair_distances(X, PAIRS)
    best = max(np.mean((distances <= t) == PAIRS.similar) for t in [-np.inf, *distances])
    assert verifier.score(X, PAIRS) == best
    np.testing.assert_array_equal(verifier.curve_.thresholds[1:], np.unique(distances))
    assert verifier.prevalence_ == PAIRS.similar.mean()
    clone(verifier)


def test_calibrates_a_given_metric_on_all_pairs_of_labels():
    rows = np.arange(0, len(X), 3)
    metric = Metric.identity(X.shape[1])
    by_labels, by_pairs = (
        PairVerifier(metric=metric).fit(X[rows], y) for y in (Y[rows], all_pairs(Y[rows]))
    )
    assert by_labels.threshold_ == by_pairs.threshold_
    np.testing.assert_array_equal(
        by_labels.predict_proba(X[rows], [[0, 1], [0, 50]]),
        by_pairs.predict_proba(X[rows], [[0, 1], [0, 50]]),
    )


def test_certifies_a_given_metric_on_all_classes():
    points, labels = population(60, 4, np.random.RandomState(0))
    point = (
        PairVerifier(metric=Metric.identity(points.shape[1]), target="fmr<=0.2")
        .fit(points, labels)
        .operating_point_
    )
    assert point.n_classes == 60
    assert point.fmr <= point.bound <= 0.2


def test_a_metric_or_a_learner():
    metric = Metric.identity(X.shape[1])
    with pytest.raises(ValueError, match="a learner or a metric, not both"):
        PairVerifier(RCA(), metric=metric).fit(X, PAIRS)
    with pytest.raises(ValueError, match="metric must be None or a Metric, such as"):
        PairVerifier(metric=RCA().fit(X, Y)).fit(X, PAIRS)


def test_probabilities_fall_with_distance_and_are_calibrated():
    verifier = PairVerifier(random_state=0).fit(X, Y)
    probability = verifier.predict_proba(X, UNSEEN)
    distances = verifier.metric_.pair_distances(X, UNSEEN)
    order = np.argsort(distances)
    assert (np.diff(probability[order]) <= 1e-12).all()
    assert ((probability >= 0) & (probability <= 1)).all()
    for low in (0.0, 0.5):
        inside = (probability >= low) & (probability <= low + 0.5)
        assert UNSEEN.similar[inside].mean() == pytest.approx(probability[inside].mean(), abs=0.12)


def test_the_threshold_is_found_on_pairs_that_the_metric_has_not_seen():
    few = PAIRS.take(np.arange(0, 600, 3))
    parts = split_pairs(few, "rows", 0.3, np.random.RandomState(0))
    seen, unseen = parts.seen, parts.held_out
    assert len(unseen) == 60
    together = np.concatenate([seen.index, unseen.index])
    assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, few.index.tolist()))
    verifier = PairVerifier(calibration=0.3, random_state=0).fit(X, few)
    assert len(verifier.curve_.thresholds) <= 61
    parts = split_labels(Y, "rows", 0.25, None, np.random.RandomState(0))
    seen, unseen = parts.seen, parts.held_out
    assert not np.intersect1d(seen.index, unseen.index).size
    assert (Y[seen.index[:, 0]] == Y[seen.index[:, 1]]).tolist() == seen.similar.tolist()
    assert (Y[unseen.index[:, 0]] == Y[unseen.index[:, 1]]).tolist() == unseen.similar.tolist()


def test_probabilities_do_not_depend_on_the_scale_of_weights():
    light = Pairs(PAIRS.index, PAIRS.similar, np.full(600, 1e-9))
    first = PairVerifier(random_state=0).fit(X, PAIRS).predict_proba(X, UNSEEN)
    second = PairVerifier(random_state=0).fit(X, light).predict_proba(X, UNSEEN)
    np.testing.assert_allclose(first, second, atol=1e-3)


def test_clone_and_grid_search():
    verifier = PairVerifier(MaxMarginMetric(), random_state=0)
    assert clone(verifier).get_params()["learner__C"] == 100.0
    search = GridSearchCV(verifier, {"learner__C": [1.0, 100.0]}, cv=KFold(2), error_score="raise")
    shuffled = np.random.default_rng(0).permutation(len(X))
    pairs = RandomPairs(4000)(X[shuffled], Y[shuffled], np.random.RandomState(0))
    assert search.fit(X[shuffled], pairs.over(len(X))).best_score_ > 0.8
    with pytest.raises(ValueError, match="score needs Pairs or labels; got triplets"):
        search.best_estimator_.score(X, Triplets([[0, 1, 2]]))


def test_labels_are_scored_by_balanced_pairs():
    verifier = PairVerifier(RCA(), random_state=0).fit(X, Y)
    pairs = RandomPairs()(X, Y, np.random.RandomState(0))
    assert verifier.score(X, Y) == verifier.score(X, pairs) > 0.8
    similar = RandomPairs()(X, np.zeros(len(X), int), np.random.RandomState(0))
    assert verifier.score(X, np.full(len(X), "a")) == verifier.score(X, similar)
    with pytest.raises(ValueError, match="no pairs to score"):
        verifier.score(X[:1], Y[:1])


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({"calibration": -0.1}, PAIRS, "calibration"),
        ({}, Triplets([[0, 1, 2]]), "do not say which pairs are"),
        ({}, Chunklets.from_labels(Y), "do not say which pairs are"),
        ({}, Pairs([[0, 1], [1, 2], [2, 3]], [True] * 3), "too few pairs"),
        ({}, Y[:100], "inconsistent numbers"),
        ({"calibration": 1.0}, PAIRS, "calibration"),
        ({}, np.repeat(np.arange(89), 2), "too few rows"),
        ({"target": "luck"}, PAIRS, "target must be"),
        ({"confidence": 0.5}, PAIRS, "confidence must be"),
        ({"prevalence": 0.0}, PAIRS, "prevalence must be"),
        ({"split": "pairs"}, PAIRS, "split must be"),
        ({"target": "fmr<=0.2"}, Y, "There are 3 classes: two are needed to learn from"),
    ],
)
def test_bad_input(parameters, y, message):
    with pytest.raises(ValueError, match=message):
        PairVerifier(**parameters).fit(X, y)


PEOPLE, PERSON = population(120, 5, np.random.default_rng(0))


def test_targets_are_calibrated_on_classes_that_were_not_learned_from():
    learner = Recorder()
    verifier = PairVerifier(learner, target="fmr<=0.05", calibration=0.5, random_state=0)
    verifier.fit(PEOPLE, PERSON)
    learned = set(verifier.learner_.seen_)
    point = verifier.operating_point_
    assert len(learned) == 60 == point.n_classes
    assert verifier.learner_.validation == "classes"
    assert point.n_pairs == 300 * 299 // 2
    assert verifier.prevalence_ == point.prevalence == pytest.approx(60 * 10 / point.n_pairs)
    others = np.flatnonzero(~np.isin(PERSON, list(learned)))
    pairs = all_pairs(PERSON[others])
    same = verifier.predict(PEOPLE[others], pairs)
    assert same[~pairs.similar].mean() == point.fmr
    assert verifier.threshold_ == point.threshold


class Recorder(RCA):
    def fit(self, X, y=None):
        self.seen_ = np.unique(y)
        return super().fit(X, y)


@pytest.mark.parametrize("split", ["rows", "classes"])
def test_splits_of_labels(split):
    verifier = PairVerifier(RCA(), target="fmr<=0.2", calibration=0.4, split=split, random_state=0)
    assert (
        verifier.fit(PEOPLE, PERSON).operating_point_.n_classes
        == {"rows": 120, "classes": 48}[split]
    )
    rows = split_labels(PERSON, split, 0.4, None, np.random.RandomState(0))
    common = np.intersect1d(PERSON[rows.seen.index], PERSON[rows.held_out.index])
    assert len(common) == {"rows": 120, "classes": 0}[split]
    assert not np.intersect1d(rows.seen.index, rows.held_out.index).size


@pytest.mark.parametrize("connected", [False, True])
def test_splits_of_pairs_share_no_class(connected):
    rng = np.random.RandomState(0)
    if connected:
        pairs = RandomPairs(4000)(PEOPLE, PERSON, rng)
    else:
        by_four = np.concatenate([all_pairs(PERSON[:20]).index + 20 * k for k in range(30)])
        pairs = Pairs(by_four, PERSON[by_four[:, 0]] == PERSON[by_four[:, 1]])
    parts = split_pairs(pairs, "classes", 0.3, rng)
    seen, held_out = (np.unique(PERSON[part.index]) for part in (parts.seen, parts.held_out))
    assert not np.intersect1d(seen, held_out).size
    total = len(parts.seen) + len(parts.held_out)
    assert total < len(pairs) if connected else total == len(pairs)
    verifier = PairVerifier(RCA(), target="fmr<=0.2", random_state=0).fit(PEOPLE, pairs)
    assert 0 < verifier.operating_point_.estimate < 0.3


def test_pairs_that_cannot_be_split():
    pairs = Pairs([[0, k] for k in range(1, 21)], [True] * 10 + [False] * 10)
    with pytest.raises(ValueError, match="cannot be split into two parts"):
        PairVerifier(target="fmr<=0.2", random_state=0).fit(X, pairs)


def test_samples_of_pairs_keep_the_prevalence():
    every = split_labels(PERSON, "classes", 0.5, None, np.random.RandomState(0))
    some = split_labels(PERSON, "classes", 0.5, 5000, np.random.RandomState(0))
    assert len(some.held_out) == 5000
    weight = some.held_out.weight
    share = weight[some.held_out.similar].sum() / weight.sum()
    assert share == pytest.approx(every.held_out.similar.mean())


def test_a_target_that_cannot_be_shown():
    with pytest.raises(TargetNotCertifiedError, match="give about") as refusal:
        PairVerifier(RCA(), target="fmr<=1e-4", random_state=0).fit(PEOPLE, PERSON)
    assert refusal.value.classes_needed > 30


def test_probabilities_never_rise_even_if_the_metric_misleads():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    pairs = RandomPairs(2000)(X, rng.integers(5, size=200), np.random.RandomState(0))
    distances = np.abs(X[pairs.index[:, 0], 0] - X[pairs.index[:, 1], 0])
    far_is_same = Pairs(pairs.index, distances > np.median(distances))
    verifier = PairVerifier(InverseCovariance(), random_state=0)
    probability = verifier.fit(X, far_is_same).predict_proba(X, far_is_same)
    assert (np.diff(probability[np.argsort(distances)]) <= 1e-12).all()
    assert probability == pytest.approx(0.5, abs=0.05)


def test_likelihood_ratios_and_the_prevalence():
    fits = [
        PairVerifier(RCA(), target="fmr<=0.2", prevalence=p, random_state=0).fit(PEOPLE, PERSON)
        for p in (0.01, 0.5)
    ]
    pairs = all_pairs(PERSON).take(np.arange(0, 3000, 7))
    rare, even = (v.predict_proba(PEOPLE, pairs) for v in fits)
    ratios = [v.log_likelihood_ratios(PEOPLE, pairs) for v in fits]
    np.testing.assert_allclose(ratios[0], ratios[1])
    np.testing.assert_allclose(even, 1 / (1 + np.exp(-ratios[1])))
    assert (rare < even).all()


def test_a_table_of_rows():
    frame = pd.DataFrame(PEOPLE, columns=list("abcdefgh"))
    verifier = PairVerifier(RCA(), target="fmr<=0.2", random_state=0)
    expected = verifier.fit(PEOPLE, PERSON).threshold_
    assert verifier.fit(frame, PERSON).threshold_ == pytest.approx(expected)
    rows = frame.assign(z=1.0)[list("zhgfedcba")]
    np.testing.assert_array_equal(verifier.predict(rows, UNSEEN), verifier.predict(frame, UNSEEN))


def test_missing_values_are_refused():
    verifier = PairVerifier(RCA(), random_state=0).fit(X, Y)
    rows = X.copy()
    rows[3, 1] = np.nan
    for method in ("predict", "decision_function", "predict_proba", "log_likelihood_ratios"):
        with pytest.raises(ValueError, match="X contains NaN"):
            getattr(verifier, method)(rows, [[0, 3]])
    with pytest.raises(ValueError, match="X contains NaN"):
        verifier.fit(rows, Y)


class TestCopies:
    PLACE = np.random.default_rng(0).permutation(np.tile(np.arange(200), 2))
    POINTS = np.random.default_rng(1).standard_normal((200, 3))[PLACE]
    CLASS = np.arange(200)[PLACE] % 4

    def test_labelled_ones_are_learned_from_or_calibrated_on(self):
        groups = np.unique(self.PLACE, return_inverse=True)[1]
        parts = split_labels(self.CLASS, "rows", 0.25, None, np.random.RandomState(0), groups)
        seen, unseen = (
            set(self.PLACE[part.index.ravel()]) for part in (parts.seen, parts.held_out)
        )
        assert seen
        assert unseen
        assert not seen & unseen

    def test_pairs_of_them_are_in_one_part(self):
        index = np.random.default_rng(2).integers(0, 400, (400, 2))
        index = index[self.PLACE[index[:, 0]] != self.PLACE[index[:, 1]]]
        index = np.vstack([index, index[:, ::-1]])
        pairs = Pairs(index, self.CLASS[index[:, 0]] == self.CLASS[index[:, 1]])
        parts = split_pairs(pairs, "rows", 0.3, np.random.RandomState(0))
        seen, unseen = (
            {tuple(sorted(pair)) for pair in part.index.tolist()}
            for part in (parts.seen, parts.held_out)
        )
        assert not seen & unseen
        assert len(parts.seen) + len(parts.held_out) == len(pairs)

    @pytest.mark.parametrize("kind", ["labels", "pairs"])
    def test_fit_says_so(self, kind):
        drawn = RandomPairs(2000)(self.POINTS, self.CLASS, np.random.RandomState(0))
        y = self.CLASS if kind == "labels" else drawn
        with pytest.warns(UserWarning, match="200 of 400 rows are equal to earlier rows"):
            PairVerifier(RCA(), random_state=0).fit(self.POINTS, y)


class ByRow(PairVerifier):
    """Takes what scikit-learn's checks pass: each row is compared with the origin."""

    def decision_function(self, X):
        return super().decision_function(*_with_origin(X))

    def predict(self, X):
        return self.decision_function(X) >= 0

    def predict_proba(self, X):
        return super().predict_proba(*_with_origin(X))

    def score(self, X, y):
        return float(np.mean(self.predict(X)))


def _with_origin(X):
    rows = np.asarray(X)
    if rows.ndim != 2 or not hasattr(X, "shape"):
        return X, [[0, 0]]
    pairs = np.column_stack([np.arange(len(rows)), np.full(len(rows), len(rows))])
    stacked = np.vstack([rows, np.zeros(rows.shape[1])])
    return (pd.DataFrame(stacked, columns=X.columns) if hasattr(X, "columns") else stacked), pairs


@parametrize_with_checks([ByRow(RCA(), calibration=0.5, random_state=0)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_no_recall_is_certified_without_the_classes_that_hold_most_pairs():
    """One class in ten is large and loose; calibrated without one, recall would be missed."""

    def classes(number, rng):
        large = rng.uniform(size=number) < 0.1
        y = np.repeat(np.arange(number), np.where(large, 40, 5))
        spread = np.where(large, 0.6, 0.2)[y][:, None]
        return rng.normal(size=(number, 8))[y] + spread * rng.normal(size=(len(y), 8)), y

    missed = shown = refused = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        X, y = classes(30, rng)
        verifier = PairVerifier(RCA(), target="recall>=0.9", random_state=seed)
        try:
            verifier.fit(X, y)
        except TargetNotCertifiedError as error:
            refused += "far larger" in str(error)
            continue
        shown += 1
        X_new, y_new = classes(300, rng)
        i, j = np.triu_indices(len(y_new), 1)
        same = np.column_stack([i, j])[y_new[i] == y_new[j]]
        missed += verifier.predict(X_new, same).mean() < 0.9
    assert refused >= 5
    assert missed <= 1, (missed, shown, refused)
