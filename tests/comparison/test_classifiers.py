"""Reference classifiers and errors by class: shown beside distances, and never recommended."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearfar import RandomTriplets, compare
from nearfar.comparison import methods as classifiers
from nearfar.comparison.methods import BOOSTING, LOGISTIC, reference_classifiers
from nearfar.comparison.table import NO_METRIC

X, Y = load_wine(return_X_y=True)
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
MODELS = {
    LOGISTIC: make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)),
    BOOSTING: HistGradientBoostingClassifier(
        max_iter=50, learning_rate=0.2, l2_regularization=1.0, early_stopping=False, random_state=0
    ),
}


def known(found):
    return {result.name: result for result in found.classifiers}


def test_errors_are_those_of_the_classifiers_on_the_same_folds():
    found = compare(X, Y, [], cv=FOLDS)
    assert list(known(found)) == [LOGISTIC, BOOSTING]
    rows = {row["name"]: row for row in found.to_dict()["classifiers"]}
    for name, model in MODELS.items():
        predicted = cross_val_predict(model, X, Y, cv=FOLDS)
        np.testing.assert_array_equal(known(found)[name].wrong, predicted != Y)
        balanced = 1 - balanced_accuracy_score(Y, predicted)
        assert rows[name]["balanced_error"] == pytest.approx(balanced)


def test_they_change_nothing_else():
    with_them, without = (compare(X, Y, [], cv=3, classifiers=on) for on in (True, False))
    assert without.classifiers == []
    assert with_them.verdicts == without.verdicts
    assert list(with_them) == list(without)
    for goal, compared in with_them.goals.items():
        assert compared.gains == without.goals[goal].gains
        assert compared.recommended.name == without.goals[goal].recommended.name


def test_they_are_not_recommended_even_if_they_are_far_better(rng):
    points = rng.uniform(size=(400, 15))
    labels = (4 * points[:, 0]).astype(int) % 2
    found = compare(points, labels, [], cv=3)
    used = found.classification.recommended
    assert known(found)[BOOSTING].error < used.error - 0.3
    assert used.name in found
    assert BOOSTING not in found.verdict


def test_the_table_has_them_in_a_part_of_their_own():
    found = compare(X, Y, [], cv=3)
    lines = str(found).splitlines()
    start = lines.index(f"{NO_METRIC}:")
    names = [line.split("  ")[0] for line in lines[start + 1 : start + 4]]
    assert names == ["largest class (1)", LOGISTIC, BOOSTING]
    dummy = DummyClassifier().fit(X, Y)
    assert lines[start + 1].split()[-2:] == [f"{100 * (1 - dummy.score(X, Y)):.1f}", "66.7"]
    assert lines[1].split()[:4] == ["error", "%", "balanced", "%"]
    markup = found.to_html()
    assert f'<th scope="rowgroup" colspan="7">{NO_METRIC}</th>' in markup
    assert (
        "largest class (1)</th><td>60.1  </td><td>66.7</td><td></td><td>  </td><td></td><td></td>"
        in markup
    )
    largest = found.to_dict()["largest_class"]
    assert largest == {
        "name": 1,
        "share": pytest.approx(71 / 178),
        "error": pytest.approx(107 / 178),
        "balanced_error": pytest.approx(2 / 3),
    }


def test_balanced_errors_of_distances():
    found = compare(X, Y, [], cv=3)
    wrong = found["cosine"].wrong
    expected = np.mean([wrong[label == Y].mean() for label in range(3)])
    row = next(row for row in found.rows() if row["name"] == "cosine")
    assert row["balanced_error"] == pytest.approx(expected)


@pytest.mark.parametrize("options", [{"split": "classes"}, {"y": "triplets"}])
def test_not_for_new_classes_nor_for_judgements(options):
    points, labels = load_iris(return_X_y=True)
    labels = 2 * labels + np.arange(150) % 2
    y = options.pop("y", None) and RandomTriplets(100)(points, labels, np.random.RandomState(0))
    found = compare(points, labels if y is None else y, [], cv=2, **options)
    assert found.classifiers == found.reference_rows == []
    assert NO_METRIC not in str(found)


def test_many_rows_are_sampled(monkeypatch):
    monkeypatch.setattr(classifiers, "_MOST_ROWS", 60)
    seen = []
    fit = LogisticRegression.fit
    monkeypatch.setattr(
        LogisticRegression, "fit", lambda self, X, y: seen.append(np.bincount(y)) or fit(self, X, y)
    )
    found = compare(X, Y, [], cv=3)
    assert [sizes.sum() for sizes in seen] == [60, 60, 60]
    assert all(np.abs(sizes / 60 - np.bincount(Y) / 178).max() < 0.02 for sizes in seen)
    assert "Logistic regression learns from at most 60 rows." in found.notes
    assert "Gradient boosting learns from at most 60 rows." in str(found)


@pytest.mark.parametrize(
    ("n_features", "n_classes", "limits"),
    [
        (14, 2, (20_000, 20_000)),
        (16, 26, (20_000, 20_000)),
        (784, 10, (20_000, 1_262)),
        (256, 150, (6_510, 0)),
    ],
)
def test_what_takes_long_learns_from_fewer_rows_or_is_left_out(n_features, n_classes, limits):
    logistic, boosting = reference_classifiers(n_features, n_classes)
    few, many = np.zeros((100, 1)), np.zeros((5000, 1))
    assert logistic.estimator.max_rows == pytest.approx(limits[0], abs=1)
    assert logistic.unsuitable(many) == ""
    if limits[1]:
        assert boosting.estimator.max_rows == pytest.approx(limits[1], rel=0.03)
        assert boosting.unsuitable(many) == ""
    else:
        assert boosting.unsuitable(few) == ""
        assert boosting.unsuitable(many) == (
            "would take too long with 256 features and 150 classes, not used beyond "
            f"{boosting.max_rows} rows"
        )


def test_a_classifier_that_is_left_out_is_named_below_the_table(monkeypatch):
    monkeypatch.setattr(classifiers, "_BOOSTING_CELLS", 1e3)
    found = compare(X, Y, [], cv=3)
    (note,) = found.notes
    assert note.startswith("Left out: gradient boosting (would take too long with 13 features and ")
    assert list(known(found)) == [LOGISTIC]


class TestFindings:
    def test_classes_that_are_hardly_ever_found_are_named(self, rng):
        sizes = [60, 60, 12, 20]
        labels = np.repeat(["a", "b", "c", "d"], sizes)
        points = rng.normal(size=(152, 2)) + 6 * np.repeat(
            [[0, 0], [1, 0], [1, 0], [0, 1]], sizes, 0
        )
        found = compare(points, labels, [], cv=4)
        used = found.classification.recommended
        n_found = int(12 - used.wrong[labels == "c"].sum())
        assert n_found <= 1
        sentence = f"{used.name} hardly ever finds 1 of 4 classes: c ({n_found} of 12 rows found)."
        assert [note.text for note in found.findings] == [sentence]
        assert all(note.warning for note in found.findings)
        assert found.verdicts[0] == sentence
        assert found.verdicts[1:] == found.recommendations
        assert found.to_dict()["notes"] == [sentence]

    def test_nothing_is_wrong(self):
        assert compare(X, Y, [], cv=3).findings == []
