"""Missing values are refused wherever rows, labels and groups come in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.model_selection import LeaveOneOut, PredefinedSplit
from sklearn.pipeline import make_pipeline

from nearfar import (
    LDA,
    NCA,
    RCA,
    AutoMetric,
    Metric,
    MetricNeighborsClassifier,
    PairVerifier,
    Relevance,
    RetrievalAdapter,
    Triplets,
    compare,
    measures,
    read_table,
)
from nearfar.metrics.gallery import MANHATTAN, Distance
from nearfar.neighbors import MetricNeighbors, kneighbors
from nearfar.numerics.missing import labelled_rows, refuse_masked, refuse_missing

RNG = np.random.default_rng(0)
Y = np.repeat(np.arange(4), 12)
X = RNG.standard_normal((48, 3)) + Y[:, None]
METRIC = Metric.identity(3)
TRIPLETS = Triplets([[0, 1, 20], [12, 13, 33]])
FITTED = RCA().fit(X, Y)
NEIGHBORS = MetricNeighbors(METRIC).fit(X)
CLASSIFIER = MetricNeighborsClassifier(RCA()).fit(X, Y)


def masked(values, place):
    found = np.ma.masked_array(values, mask=np.zeros_like(values, dtype=bool))
    found[place] = np.ma.masked
    return found


ROWS = masked(X, (1, 2))
OBJECTS = np.array(["a", "b", "c", "d"], dtype=object)[Y]


def without(value):
    labels = OBJECTS.copy()
    labels[5] = value
    return labels


DATES = np.array(["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04"], dtype="datetime64[D]")[Y]
NOT_A_TIME = DATES.copy()
NOT_A_TIME[5] = "NaT"
LABELS = {
    "masked": masked(Y, 5),
    "NaT": NOT_A_TIME,
    "NaT in a Series": pd.Series(NOT_A_TIME),
    "None": without(None),
    "NaN": without(np.nan),
    "pandas NaT": without(pd.NaT),
    "pandas NA": without(pd.NA),
    "pandas integers": pd.Series(Y).astype("Int64").where(np.arange(48) != 5),
}


@pytest.mark.parametrize(
    "use",
    [
        lambda rows: RCA().fit(rows, Y),
        lambda rows: RCA().fit(rows, TRIPLETS),
        lambda rows: AutoMetric(candidates=["RCA"]).fit(rows, Y),
        FITTED.transform,
        lambda rows: FITTED.score(rows, Y),
        METRIC.transform,
        lambda rows: METRIC.pair_distances(rows, [[0, 1]]),
        lambda rows: kneighbors(METRIC, rows),
        lambda rows: kneighbors(METRIC, X, rows),
        lambda rows: MetricNeighbors().fit(rows),
        NEIGHBORS.kneighbors,
        lambda rows: MetricNeighborsClassifier().fit(rows, Y),
        CLASSIFIER.predict,
        CLASSIFIER.predict_proba,
        lambda rows: PairVerifier().fit(rows, Y),
        lambda rows: compare(rows, Y, []),
        lambda rows: compare(rows, TRIPLETS, []),
        lambda rows: measures.triplet_accuracy(METRIC, rows, TRIPLETS),
        lambda rows: RetrievalAdapter().fit(rows, X, Relevance([0], [0])),
    ],
)
def test_masked_rows(use):
    with pytest.raises(ValueError, match=r"has masked entries \(1\); fill them in"):
        use(ROWS)


def test_a_mask_without_entries_is_no_mask():
    rows = np.ma.masked_array(X, mask=False)
    np.testing.assert_array_equal(RCA().fit(rows, Y).components_, FITTED.components_)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize(
    "use",
    [
        lambda labels: RCA().fit(X, labels),
        lambda labels: compare(X, labels, []),
        lambda labels: PairVerifier(RCA()).fit(X, labels),
        lambda labels: MetricNeighborsClassifier(RCA()).fit(X, labels),
        lambda labels: measures.leave_one_out_error(METRIC, X, labels),
        lambda labels: NCA(max_iter=2).fit(X, Y, groups=labels),
        lambda labels: compare(X, Y, [], groups=labels),
    ],
)
def test_missing_labels_and_groups(kind, use):
    with pytest.raises(ValueError, match=r"no value in row 5|masked entries \(1\)"):
        use(LABELS[kind])


def test_triplets_of_missing_values_are_no_ties():
    rows = X.copy()
    rows[1, 0] = np.nan
    with pytest.raises(ValueError, match="Distances are not finite"):
        measures.triplet_accuracy(METRIC, rows, TRIPLETS)
    with pytest.raises(ValueError, match="Distances are not finite"):
        Distance(np.asarray, MANHATTAN).prefers(rows, TRIPLETS.index)


def test_how_many_are_missing():
    with pytest.raises(ValueError, match=r"y: .* 2 rows.* 1;"):
        refuse_missing(["a", None, "b", None], "y")
    with pytest.raises(ValueError, match=r"X has masked entries \(3\)"):
        refuse_masked(np.ma.masked_less(np.arange(6), 3), "X")
    refuse_missing([], "y")


class TestUnlabelledRows:
    """-1 marks them, as in scikit-learn, where it can hardly be a class."""

    Y = np.where(np.arange(48) % 3 == 0, -1, Y)
    KNOWN = np.flatnonzero(Y >= 0)

    @pytest.mark.parametrize("learner", [RCA(), LDA(), AutoMetric(candidates=["RCA"])])
    def test_they_take_no_part(self, learner):
        with pytest.warns(UserWarning, match="16 rows .* -1.* unlabelled"):
            found = learner.fit(X, self.Y).metric_.matrix
        np.testing.assert_array_equal(
            found, learner.fit(X[self.KNOWN], Y[self.KNOWN]).metric_.matrix
        )

    @pytest.mark.parametrize("learner", [RCA(), make_pipeline(PCA(2), RCA())])
    def test_they_are_no_neighbours(self, learner):
        groups = np.arange(48) // 2
        classifier = MetricNeighborsClassifier(learner)
        with pytest.warns(UserWarning, match="label -1") as caught:
            found = classifier.fit(X, self.Y, groups=groups).predict_proba(X)
        assert len(caught) == 1
        same = classifier.fit(X[self.KNOWN], Y[self.KNOWN], groups=groups[self.KNOWN])
        np.testing.assert_array_equal(found, same.predict_proba(X))
        assert found.shape == (48, 4)

    @pytest.mark.parametrize(
        "given", [{"learner": RCA()}, {"learner": make_pipeline(RCA())}, {"metric": METRIC}]
    )
    def test_they_are_in_no_pair(self, given):
        verifier = PairVerifier(random_state=0, **given)
        with pytest.warns(UserWarning, match="label -1"):
            found = verifier.fit(X, self.Y).decision_function(X, [[0, 1], [0, 40]])
        same = verifier.fit(X[self.KNOWN], Y[self.KNOWN])
        np.testing.assert_array_equal(found, same.decision_function(X, [[0, 1], [0, 40]]))

    @pytest.mark.parametrize(
        "options",
        [
            {"cv": 3, "groups": np.arange(48) // 2},
            {"cv": 3, "features": PCA(2)},
            {"cv": PredefinedSplit(np.arange(48) // 3 % 4)},
            {"cv": LeaveOneOut()},
            {"cv": [(np.arange(0, 48, 2), np.arange(1, 48, 2))]},
        ],
        ids=["groups", "features", "predefined", "leave one out", "folds"],
    )
    def test_they_are_in_no_fold(self, options):
        with pytest.warns(UserWarning, match="label -1"):
            found = compare(X, self.Y, ["LDA"], classifiers=False, **options)
        if "groups" in options:
            options = options | {"groups": options["groups"][self.KNOWN]}
        if isinstance(options["cv"], PredefinedSplit):
            options = {"cv": PredefinedSplit((np.arange(48) // 3 % 4)[self.KNOWN])}
        if isinstance(options["cv"], list):
            even = self.KNOWN % 2 == 0
            options = {"cv": [(np.flatnonzero(even), np.flatnonzero(~even))]}
        same = compare(X[self.KNOWN], Y[self.KNOWN], ["LDA"], classifiers=False, **options)
        assert found.rows() == [
            row | {"fit_seconds": mine["fit_seconds"]}
            for row, mine in zip(same.rows(), found.rows(), strict=True)
        ]

    @pytest.mark.parametrize(
        "y", [[-1, 1, 1], [-2, -1, 0, 1], [0, 1, 2], [-1.5, -1, 0], ["-1", "b"]]
    )
    def test_classes(self, y):
        assert labelled_rows(y) is None

    def test_what_may_be_either_is_said(self):
        with pytest.warns(UserWarning, match="-1 .* class .*2 rows"):
            assert labelled_rows([-1, -1, 0, 1]) is None

    def test_of_a_table(self):
        frame = pd.DataFrame(X, columns=list("abc")).assign(y=self.Y)
        table = read_table(frame, label="y")
        np.testing.assert_array_equal(table.X, X[self.KNOWN])
        np.testing.assert_array_equal(table.labels, Y[self.KNOWN])
        np.testing.assert_array_equal(table.places, self.KNOWN)
        assert any("16 rows have the label -1" in note.text for note in table.notes)
        assert len(read_table(frame, label="y", numbers=True)) == 48


FRAME = pd.DataFrame(
    {"size": [1.0, 2, 3, 4], "day": pd.Timestamp("2024-01-01"), "word": list("abab")}
)
TWO = np.array([0, 0, 1, 1])
CALLS = {
    "compare": compare,
    "MetricNeighborsClassifier": lambda X, y: MetricNeighborsClassifier(LDA()).fit(X, y),
    "LDA": lambda X, y: LDA().fit(X, y),
    "predict": lambda X, y: (
        MetricNeighborsClassifier(LDA(), n_neighbors=1)
        .fit(np.eye(4)[:, : np.shape(X)[1]], y)
        .predict(np.asarray(X))
    ),
    "PairVerifier": lambda X, y: PairVerifier(RCA()).fit(X, y),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
class TestRemedies:
    """What scikit-learn advises is other estimators; what helps here is `Columns`."""

    @pytest.mark.parametrize("column", ["day", "word"])
    def test_columns_that_are_not_numbers(self, call, column):
        with pytest.raises((ValueError, TypeError), match=r"not numbers .*nearfar\.Columns"):
            call(FRAME[[column]] if column == "word" else FRAME[["size", column]], TWO)

    def test_missing_values(self, call):
        with pytest.raises(ValueError, match=r"contains NaN\. .*nearfar\.Columns") as caught:
            call(np.array([[1.0], [np.nan], [3.0], [4.0]]), TWO)
        assert "HistGradientBoosting" not in str(caught.value)


def test_labels_of_text_and_numbers():
    with pytest.raises(ValueError, match="y has text and other"):
        LDA().fit(np.eye(4), np.array(["a", 1, "a", 1], dtype=object))
