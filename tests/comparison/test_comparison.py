from __future__ import annotations

import json
import time
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneOut,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearfar
from nearfar import BoostMetric, Metric, MixtureNCA, compare, evaluate
from nearfar.comparison import Comparison, GoalComparison, MethodResult, default_methods, learners
from nearfar.comparison.scoring import judge
from nearfar.learners.base import MetricLearner

SCIKIT_NCA = "NCA (scikit-learn)"
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


class Whitened(TransformerMixin, BaseEstimator):
    """Mahalanobis distance by scikit-learn's own means."""

    def fit(self, X, y=None):
        values, vectors = np.linalg.eigh(np.cov(X, rowvar=False))
        kept = values > 1e-12 * values[-1]
        self.map_ = vectors[:, kept] / np.sqrt(values[kept])
        return self

    def transform(self, X):
        return X @ self.map_


def chi_square(X, Y):
    return -additive_chi2_kernel(X.reshape(1, -1), Y.reshape(1, -1))[0, 0]


def scikit_learn_errors(X, y):
    """What scikit-learn gets for the plain methods, on the same folds."""
    votes = KNeighborsClassifier(3, algorithm="brute")
    manhattan = KNeighborsClassifier(3, algorithm="brute", metric="manhattan")
    models = {
        "Euclidean, as is": votes,
        "Euclidean": make_pipeline(StandardScaler(), votes),
        "L1": make_pipeline(StandardScaler(), manhattan),
        "chi-square": KNeighborsClassifier(3, algorithm="brute", metric=chi_square),
        "inverse covariance": make_pipeline(StandardScaler(), Whitened(), votes),
        "LDA": make_pipeline(StandardScaler(), LinearDiscriminantAnalysis(), votes),
        SCIKIT_NCA: make_pipeline(
            StandardScaler(), NeighborhoodComponentsAnalysis(random_state=0), votes
        ),
    }
    if X.min() < 0:
        del models["chi-square"]
    return {name: 1 - cross_val_score(model, X, y, cv=FOLDS) for name, model in models.items()}


@pytest.mark.filterwarnings("ignore:Variables are collinear")
@pytest.mark.parametrize("name", ["wine", "digits"])
def test_plain_methods_agree_with_scikit_learn(name):
    X, y = {"wine": load_wine, "digits": load_digits}[name](return_X_y=True)
    X, y = X[:300], y[:300]
    found = compare(X, y, [SCIKIT_NCA])
    for contender, errors in scikit_learn_errors(X, y).items():
        np.testing.assert_allclose(found[contender].errors, errors, atol=1e-12, err_msg=contender)


@pytest.mark.filterwarnings("ignore:Variables are collinear")
def test_ionosphere_agrees_with_scikit_learn(data_folder):
    data = nearfar.datasets.load("ionosphere")
    X, y = data.X, data.y
    found = compare(X, y, [SCIKIT_NCA])
    assert "chi-square" not in found
    expected = scikit_learn_errors(X, y)
    for contender in found:
        # A descent of many steps ends where rounding leads it: one or two rows may go either way.
        few = 0.03 if contender == SCIKIT_NCA else 1e-12
        np.testing.assert_allclose(
            found[contender].errors, expected[contender], atol=few, err_msg=contender
        )


def test_learners_are_fitted_to_the_same_standardised_rows():
    X, y = load_wine(return_X_y=True)
    found = compare(X, y, {"boost": BoostMetric(max_iter=20)})
    model = make_pipeline(
        StandardScaler(), BoostMetric(max_iter=20), KNeighborsClassifier(3, algorithm="brute")
    )
    np.testing.assert_allclose(found["boost"].errors, 1 - cross_val_score(model, X, y, cv=FOLDS))


@pytest.mark.parametrize("rounded", [False, True])
def test_ranking_measures(rng, rounded):
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 3
    X = X.round() if rounded else X
    metric = Metric([[1.0, 0.5]])
    (gallery, codes), (test, asked) = (X[:20], y[:20]), (X[20:], y[20:])
    # Sums of whole numbers are exact, so that L1 has ties where there are some.
    contender = default_methods({"it": _Fixed(metric)})[2 if rounded else -1]
    distance = contender.fit(gallery, codes)
    found = judge(distance, (gallery, codes), (test, asked), n_neighbors=3)
    difference = np.abs(test[:, None] - gallery).sum(axis=2)
    table = difference if rounded else metric.distances(test, gallery)
    shares = []
    for row, code in zip(table, asked, strict=True):
        order = [
            np.sign(row[far] - row[near])
            for near, far in product(np.flatnonzero(codes == code), np.flatnonzero(codes != code))
        ]
        shares.append((np.mean(order) + 1) / 2)
    assert found.triplet_accuracy == pytest.approx(np.mean(shares), abs=1e-9)
    if not rounded:
        expected = evaluate.map_at_r(metric, gallery, codes, X_query=test, y_query=asked)
        assert found.map_at_r == pytest.approx(expected)
        error = evaluate.knn_error(metric, gallery, codes, test, asked)
        assert found.wrong.mean() == pytest.approx(error)


class _Fixed(BaseEstimator):
    def __init__(self, metric=None):
        self.metric = metric

    def fit(self, X, y):
        self.metric_ = self.metric
        return self

    def __sklearn_clone__(self):
        return _Fixed(self.metric)


def test_classes_that_the_gallery_lacks_are_errors_and_are_not_ranked():
    gallery = np.array([[0.0], [1.0], [2.0]]), np.array([0, 0, 1])
    test = np.array([[0.1], [5.0]]), np.array([0, 2])
    distance = default_methods([])[0].fit(*gallery)
    found = judge(distance, gallery, test, n_neighbors=1)
    assert found.wrong.tolist() == [0, 1]
    assert np.isnan(found.average_precision).tolist() == [False, True]


def test_large_galleries_are_ranked_in_part(monkeypatch, rng):
    monkeypatch.setattr("nearfar.comparison.scoring._MOST_RANKED", 1)
    monkeypatch.setattr("nearfar.comparison.scoring._LEAST_RANKED_ROWS", 7)
    data = rng.normal(size=(40, 2)), np.arange(40) % 2
    found = judge(default_methods([])[0].fit(*data), data, data, n_neighbors=1)
    assert np.count_nonzero(~np.isnan(found.average_precision)) == 7


def test_of_many_test_rows_a_part_is_judged(monkeypatch, rng):
    monkeypatch.setattr("nearfar.comparison.scoring._MOST_JUDGED", 1)
    monkeypatch.setattr("nearfar.comparison.scoring._LEAST_JUDGED_ROWS", 30)
    data = rng.normal(size=(40, 2)), np.arange(40) % 2
    found = judge(default_methods([])[0].fit(*data), data, data, n_neighbors=1)
    assert np.count_nonzero(~np.isnan(found.wrong)) == 30
    assert found.error == 0


def test_small_tiles_change_nothing(monkeypatch):
    X, y = load_iris(return_X_y=True)
    whole = compare(X, y, []).to_dict()
    monkeypatch.setattr("nearfar.comparison.methods._TILE_ELEMENTS", 500)
    parts = compare(X, y, []).to_dict()
    for one, other in zip(whole["contenders"], parts["contenders"], strict=True):
        assert one["error"] == other["error"]
        assert one["map_at_r"] == pytest.approx(other["map_at_r"])


def test_every_exported_learner_is_found():
    exported = {
        name
        for name in nearfar.__all__
        if isinstance(getattr(nearfar, name), type)
        and issubclass(getattr(nearfar, name), MetricLearner)
    }
    assert set(learners()) == exported


def test_a_learner_that_arrives_later_is_found():
    Later = type("LaterMetric", (BoostMetric,), {"__module__": "nearfar.later"})
    try:
        assert learners()["LaterMetric"] is Later
    finally:
        Later.__module__ = "elsewhere"
    assert "LaterMetric" not in learners()


def entry(number, wrong):
    """An entry in the place of one of the usual contenders."""
    wrong = np.asarray(wrong, dtype=float)
    usual = default_methods(["BoostMetric", "DRMetric"])[number]
    return MethodResult(
        usual,
        errors=np.array([wrong.mean()]),
        triplet_accuracies=np.ones(1),
        maps_at_r=np.array([1 - wrong.mean()]),
        seconds=np.array([0.1]),
        wrong=wrong,
        average_precision=1 - wrong,
    )


AS_IS, EUCLIDEAN, LDA, BOOST, DR = 0, 1, 5, 6, 7


def wrong_on(*rows):
    flags = np.zeros(100)
    for part in rows:
        flags[part] = 1
    return flags


VERDICTS = {
    "nothing is better": (
        {AS_IS: slice(0, 40), EUCLIDEAN: slice(0, 20), LDA: slice(1, 20), BOOST: slice(2, 20)},
        None,
        "no metric is worth learning, nothing is better than Euclidean distance at 20.0 % error "
        "beyond noise; the best is BoostMetric at 18.0 % error.",
    ),
    "as is is best": (
        {AS_IS: slice(0, 4), EUCLIDEAN: slice(0, 20), BOOST: slice(0, 8)},
        None,
        "nothing is better than Euclidean distance on rows as they are at 4.0 % error beyond",
    ),
    "learned": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 30), BOOST: slice(0, 10)},
        "BoostMetric",
        "take BoostMetric at 10.0 % error; it is better than Euclidean distance at 40.0 % error",
    ),
    "a plain one is as good": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 12), BOOST: slice(0, 10)},
        "LDA",
        "take LDA at 12.0 % error",
    ),
    "a plain one is best": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 2), BOOST: slice(0, 10)},
        "LDA",
        "nothing learned is better beyond noise (the best is BoostMetric at 10.0 % error)",
    ),
    "the best of several learned": (
        {EUCLIDEAN: slice(0, 40), BOOST: slice(0, 10), DR: slice(0, 9)},
        "DRMetric",
        "take DRMetric",
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
@pytest.mark.parametrize("goal", ["classification", "ranking"])
def test_verdicts(case, goal):
    errs, winner, sentence = VERDICTS[case]
    entries = [entry(number, wrong_on(rows)) for number, rows in errs.items()]
    contest = GoalComparison(entries, goal)
    assert (contest.winner and contest.winner.name) == winner
    if goal == "classification":
        assert sentence in contest.verdict


def test_a_plain_one_that_may_be_as_good_is_named():
    errs = {EUCLIDEAN: slice(0, 40), LDA: slice(4, 40), BOOST: slice(9, 40)}
    entries = [entry(number, wrong_on(rows)) for number, rows in errs.items()]
    contest = GoalComparison(entries, "classification")
    assert contest.winner.name == "BoostMetric"
    assert contest.verdict == (
        "take BoostMetric at 31.0 % error; it is better than Euclidean distance at 40.0 % error "
        "beyond noise, though not than LDA at 36.0 % error."
    )


def test_p_values_are_those_of_fair_coins_adjusted():
    entries = [
        entry(EUCLIDEAN, wrong_on(slice(0, 10))),
        entry(LDA, wrong_on(slice(5, 10))),
        entry(BOOST, wrong_on()),
        entry(DR, wrong_on(slice(0, 10))),
    ]
    contest = GoalComparison(entries, "classification")
    assert contest.p_value(entries[1], entries[0]) == pytest.approx(2 * 0.5**5)
    assert contest.p_values["BoostMetric"] == pytest.approx(3 * 2 * 0.5**10)
    assert contest.p_values["LDA"] == pytest.approx(2 * 2 * 0.5**5)
    assert contest.p_values["DRMetric"] == 1.0
    assert [contest.mark(e) for e in entries] == ["", "", "+", ""]


def test_rankings_are_compared_by_rows_and_by_folds(rng):
    usual = default_methods([])[:2]
    one, other = rng.uniform(size=(2, 40))
    folds = rng.uniform(size=(2, 5))
    entries = [
        MethodResult(contender, maps_at_r=maps, average_precision=precision)
        for contender, maps, precision in zip(usual, folds, (one, other), strict=True)
    ]
    found = GoalComparison(entries, "ranking", test_share=0.25).p_value(*entries)
    difference = one - other
    by_rows = difference.mean() / (2 * difference.std(ddof=1) / np.sqrt(40))
    change = folds[0] - folds[1]
    by_folds = change.mean() / (change.std(ddof=1) * np.sqrt(1 / 5 + 0.25))
    expected = max(2 * student.sf(abs(by_rows), 39), 2 * student.sf(abs(by_folds), 4))
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rows", "folds", "p"),
    [
        ([0.5, 0.6, np.nan], [0.5], "rows"),
        ([0.5, np.nan, np.nan], [0.5, 0.5], 1.0),
        ([0.0, 0.0, 0.0], [0.0, 0.0], 1.0),
        ([0.5, 0.5, 0.5], [0.5, 0.5], 0.0),
    ],
)
def test_rankings_of_few_rows_and_folds(rows, folds, p):
    usual = default_methods([])[:2]
    zero = MethodResult(usual[0], maps_at_r=np.zeros(len(folds)), average_precision=np.zeros(3))
    some = MethodResult(usual[1], maps_at_r=np.array(folds), average_precision=np.array(rows))
    found = GoalComparison([zero, some], "ranking").p_value(zero, some)
    if p == "rows":
        p = 2 * student.sf(0.55 / (2 * np.std([0.5, 0.6], ddof=1) / np.sqrt(2)), 1)
    assert found == pytest.approx(p)


def test_labels_without_meaning_have_no_winner(rng):
    X, y = rng.normal(size=(150, 4)), rng.integers(2, size=150)
    found = compare(X, y, [BoostMetric(max_iter=20)])
    assert found.classification.winner is None
    assert "no metric is worth learning" in found.verdict


def test_what_only_learning_finds_wins(rng):
    X, y = rng.normal(size=(400, 6)), np.arange(400) % 2
    X[:, 0] = y + 0.15 * rng.normal(size=400) + 2 * rng.integers(3, size=400)
    found = compare(X, y, ["NCA"])
    assert found.classification.winner.contender.kind == "learned"
    assert found.classification.mark(found["LDA"]) != "+"


def test_forms_of_the_table(rng):
    X, y = load_iris(return_X_y=True)
    found = compare(X, y, {"<mine>": BoostMetric(max_iter=5)}, cv=3)
    text = str(found)
    assert text.splitlines()[0] == "3-NN error ± std over 3 folds, 150 rows"
    assert all(name in text for name in found)
    assert text.endswith(found.verdict)
    frame = found.to_pandas()
    assert list(frame.index) == list(found)
    assert frame.loc["LDA", "error"] == found["LDA"].error
    assert json.loads(json.dumps(found.to_dict()))["n_folds"] == 3
    markup = found.to_html()
    assert "&lt;mine&gt;" in markup
    assert "<mine>" not in markup
    assert found._repr_html_() == markup
    parser = _Tags()
    parser.feed(markup)
    assert parser.open == []
    assert repr(found) == "<Comparison: 7 contenders, 3 folds>"


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_estimators_without_a_metric_and_gated_ones():
    X, y = load_iris(return_X_y=True)
    found = compare(X, y, [PCA(2), MixtureNCA(n_metrics=2, max_iter=5, random_state=0)], cv=3)
    pca = make_pipeline(StandardScaler(), PCA(2), KNeighborsClassifier(3, algorithm="brute"))
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    np.testing.assert_allclose(found["PCA"].errors, 1 - cross_val_score(pca, X, y, cv=folds))
    assert found["MixtureNCA"].error < 0.2


def test_repeated_and_partial_folds():
    X, y = load_iris(return_X_y=True)
    rows = np.arange(150)
    folds = [(rows[::2], rows[1::2]), (rows[1::2], rows[::2]), (rows[::2], rows[1::2])]
    found = compare(X, y, [], cv=folds)
    assert found.n_folds == 3
    assert np.isin(found["Euclidean"].wrong, [0, 0.5, 1]).all()
    part = compare(X, y, [], cv=[(rows[::2], rows[1::10])])
    assert np.isnan(part["Euclidean"].wrong).sum() == 135


def test_same_name_twice():
    names = [c.name for c in default_methods([BoostMetric(), BoostMetric(max_iter=3)])]
    assert names[-2:] == ["BoostMetric", "BoostMetric'"]
    assert default_methods({"LDA": BoostMetric()})[-1].name == "LDA'"
    assert default_methods("NCA")[-1].name == "NCA"


def test_masks_and_groups(rng):
    X, y = load_iris(return_X_y=True)
    mask = rng.permutation(np.arange(150) < 50)
    found = compare(X, y, [], cv=[(~mask, mask)])
    assert (
        found["Euclidean"].error
        == compare(X, y, [], cv=[(np.flatnonzero(~mask), np.flatnonzero(mask))])["Euclidean"].error
    )
    groups = np.arange(150) % 6
    found = compare(X, y, [], cv=GroupKFold(3), groups=groups)
    assert found.n_folds == 3


def test_folds_without_rows_to_rank():
    X, y = load_iris(return_X_y=True)
    y = np.where(np.arange(150) == 0, 3, y)
    found = compare(X[::5], y[::5], [], cv=LeaveOneOut())
    assert 0.5 < found["Euclidean"].map_at_r < 1
    assert found.ranking.mark(found["Euclidean"]) == ""


def test_without_a_seed_all_are_judged_by_the_same_rows(monkeypatch):
    monkeypatch.setattr("nearfar.comparison.scoring._MOST_RANKED", 1)
    monkeypatch.setattr("nearfar.comparison.scoring._LEAST_RANKED_ROWS", 7)
    X, y = load_iris(return_X_y=True)
    found = compare(X, y, [], random_state=None)
    ranked = {tuple(np.isnan(entry.average_precision)) for entry in found.values()}
    assert len(ranked) == 1


def test_a_mark_needs_the_mean_to_agree():
    usual = default_methods([])[:2]
    wrong = np.concatenate([np.ones(4), np.zeros(16)])
    right = np.concatenate([np.zeros(4), np.full(16, 0.1)])
    one = MethodResult(usual[0], errors=np.array([wrong.mean()]), wrong=wrong)
    other = MethodResult(usual[1], errors=np.array([right.mean()]), wrong=right)
    contest = GoalComparison([one, other], "classification")
    assert contest.p_value(other, one) == 1.0


def test_progress_ends_at_its_total():
    X, y = load_iris(return_X_y=True)
    seen = []
    compare(X, y, [], cv=3, progress=lambda *call: seen.append(call))
    assert [done for done, _, _ in seen] == list(range(18))
    assert {total for _, total, _ in seen} == {18}


class _Slow(BaseEstimator):
    def fit(self, X, y):
        from nearfar.runtime.deadline import check_time

        time.sleep(0.3)
        check_time()
        self.metric_ = Metric.identity(X.shape[1])
        return self

    def transform(self, X):
        return X


def test_a_budget_leaves_out_what_takes_too_long():
    X, y = load_iris(return_X_y=True)
    start = time.monotonic()
    found = compare(X, y, {"slow": _Slow(), "quick": BoostMetric(max_iter=1)}, budget=1.2)
    assert time.monotonic() - start < 2.5
    assert [e.name for e in found.left_out] == ["slow"]
    assert found.left_out[0].note == "no time left"
    assert str(found).endswith("No time was left for slow: they may be better.")
    assert "quick" in found


def test_no_budget_at_all_leaves_euclidean_distance():
    X, y = load_iris(return_X_y=True)
    found = compare(X, y, budget=0)
    assert set(found) == {"Euclidean, as is", "Euclidean"}
    assert found.classification.winner is None
    assert found.incomplete
    assert "worth learning" not in found.verdict


def test_plain_methods_come_first_in_a_budget():
    X, y = load_iris(return_X_y=True)
    slow = {f"slow {number}": _Slow() for number in range(5)}
    found = compare(X, y, slow, budget=1.0)
    assert {"L1", "chi-square", "inverse covariance", "LDA"} <= set(found)


def test_a_deadline_ends_fits_and_what_tries_several():
    from nearfar.runtime.deadline import OutOfTimeError, deadline

    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(BoostMetric(), {"max_iter": [1, 2]}, cv=2, error_score=0)
    for estimator in (BoostMetric(), MixtureNCA(random_state=0), search):
        with deadline(0), pytest.raises(OutOfTimeError):
            estimator.fit(X, y)
    BoostMetric(max_iter=1).fit(X, y)


def test_a_large_budget_changes_nothing():
    X, y = load_iris(return_X_y=True)
    free, bound = compare(X, y, []), compare(X, y, [], budget=1000)
    for name, plain in free.items():
        np.testing.assert_array_equal(plain.errors, bound[name].errors)


class _Failing(BaseEstimator):
    def __init__(self, kind=ValueError):
        self.kind = kind

    def fit(self, X, y):
        raise self.kind("not with these rows\nand a long story")


def test_who_fails_is_left_out():
    X, y = load_iris(return_X_y=True)
    found = compare(X - 3, y, {"failing": _Failing()}, cv=3)
    assert {e.name: e.note for e in found.left_out} == {
        "chi-square": "needs values of 0 or more",
        "failing": "failed: not with these rows",
    }
    found = compare(X, y, {"failing": _Failing(RuntimeError)}, cv=3)
    assert found.notes == ["Left out: failing (failed: not with these rows)."]


def test_distances_that_overflow_are_no_distances():
    X, y = load_iris(return_X_y=True)
    found = compare(X * 1e200, y, [], cv=2)
    assert found.left_out[0].name == "Euclidean, as is"
    assert "not finite" in found.left_out[0].note
    assert found.classification.reference.name == "Euclidean"


def test_a_table_of_all_pairs_is_not_built_for_many_rows(rng):
    nca = default_methods([SCIKIT_NCA])[-1]
    assert "5000 rows" in nca.unsuited(np.zeros((5001, 1)))
    assert nca.unsuited(np.zeros((5000, 1))) == ""


@pytest.mark.parametrize("contender", default_methods(), ids=lambda c: c.name)
def test_what_a_contender_learns_from_all_rows_is_the_distance_that_competed(contender):
    X, y = load_iris(return_X_y=True)
    metric = contender.learn(X, y)
    if contender.name in ("L1", "chi-square"):
        assert metric is None
        return
    scaled = X if contender.raw else StandardScaler().fit_transform(X)
    tiles = contender.fit(scaled, y).tiles(scaled, scaled)
    expected = np.vstack([tile for _, tile in sorted(tiles, key=lambda part: part[0][0])])
    np.testing.assert_allclose(
        metric.distances(X) ** 2, expected, rtol=1e-4, atol=1e-5 * expected.max()
    )


BAD = {
    "one class": ({"y": np.zeros(10)}, "two classes"),
    "too many folds": ({"cv": 6}, "from 2 to 5"),
    "too many neighbours": ({"n_neighbors": 9}, "from 1 to 8"),
    "no such learner": ({"learners": ["Magic"]}, "no learner 'Magic'"),
    "a class, no estimator": ({"learners": [BoostMetric]}, "is no estimator"),
    "half a neighbour": ({"n_neighbors": 2.5}, "whole number"),
    "no folds": ({"cv": []}, "no folds"),
    "training rows tested": ({"cv": [(np.arange(10), np.arange(5))]}, "not among its others"),
    "no time of its own": ({"budget": float("nan")}, "budget must be"),
    "not classes": ({"y": np.linspace(0, 1, 10)}, "Unknown label type"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case, rng):
    options, message = BAD[case]
    options = {"y": np.arange(10) % 2} | options
    with pytest.raises(ValueError, match=message):
        compare(rng.normal(size=(10, 2)), **options)


def test_comparison_needs_euclidean_distance():
    with pytest.raises(ValueError, match="Euclidean distance failed"):
        Comparison(
            [MethodResult(default_methods([])[0], note="failed")],
            n_neighbors=1,
            n_folds=2,
            n_rows=3,
        )
