"""Groups of rows: near copies of each other, with classes at random, so that nothing is learned."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from nearfar import RCA, Pairs, RandomPairs, RandomTriplets, Triplets, compare
from nearfar.comparison import Category
from nearfar.comparison.tasks import class_folds, judgement_folds, row_folds
from nearfar.evidence.intervals import OverlappingJudgements, mean_interval
from problems import noisy_copies

X, Y, GROUPS = noisy_copies()


class Recorder(RCA):
    """Keeps the groups that it is fitted with."""

    seen: ClassVar[list] = []

    def fit(self, X, y=None, groups=None):
        self.seen.append((len(X), groups))
        return super().fit(X, y, groups=groups)


@pytest.fixture(scope="module")
def compared():
    return {
        "rows": compare(X, Y, ["RCA", "DRMetric"], cv=3),
        "groups": compare(X, Y, ["RCA", "DRMetric"], cv=3, groups=GROUPS),
    }


def test_errors_are_honest(compared):
    for name in ("Euclidean (standardised)", "RCA", "DRMetric"):
        assert compared["rows"][name].error == 0
        low, high = compared["groups"].classification.interval(compared["groups"][name])
        assert low < 1 / 2 < high


def test_the_table_and_json_say_so(compared):
    assert "over 3 folds, 480 rows in 60 groups" in str(compared["groups"])
    assert "groups" not in str(compared["rows"])
    assert compared["groups"].to_dict()["n_groups"] == 60
    assert "n_groups" not in compared["rows"].to_dict()


def test_intervals_and_tests_count_groups(compared):
    """Eight copies are as good as one row: the interval is that of 60 rows, not of 480."""
    goal = compared["groups"].classification
    result = compared["groups"]["Euclidean (standardised)"]
    low, high = goal.interval(result)
    by_group = result.wrong.reshape(60, 8).mean(axis=1)
    np.testing.assert_allclose(goal.counted(result.wrong), by_group)
    expected = mean_interval(by_group.mean(), by_group.var(ddof=1) / 60, 60, grouped=True)
    assert (low, high) == pytest.approx(expected)


def test_learners_get_the_groups_of_their_training_rows():
    Recorder.seen.clear()
    compare(X, Y, {"recorder": Recorder()}, cv=3, groups=GROUPS, n_neighbors=3)
    folds = row_folds(Y, 3, GROUPS, 0)
    assert len(Recorder.seen) == 3
    for (n_rows, groups), (train, test) in zip(Recorder.seen, folds, strict=True):
        assert n_rows == len(train)
        np.testing.assert_array_equal(groups, GROUPS[train])
        assert not set(GROUPS[train]) & set(GROUPS[test])


def test_names_of_groups_may_be_anything():
    names = np.array([f"person {group}" for group in GROUPS], dtype=object)
    one, other = (
        compare(X, Y, [], cv=3, groups=groups)["L1"].errors for groups in (names, names.tolist())
    )
    np.testing.assert_array_equal(one, other)


def test_classes_that_share_a_group_are_held_out_together():
    y = np.repeat(np.arange(12), 10)
    groups = np.arange(120)
    groups[y == 3] = groups[y == 7][0]
    together = [{3, 7} & set(y[test]) for _, test in class_folds(y, 3, groups, 0)]
    assert together.count({3, 7}) == 1
    assert together.count(set()) == 2
    rows = np.random.default_rng(0).standard_normal((120, 4))
    found = compare(rows, y, [], cv=3, split="classes", groups=groups)
    assert "120 rows of 12 classes in 110 groups" in str(found)
    units = found.classification.counted(np.ones(120))
    assert (~np.isnan(units)).sum() == 11


class TestJudgements:
    TRIPLETS = RandomTriplets(20_000)(X, Y, np.random.RandomState(0))

    def test_triplets_are_honest(self):
        """Copies of an anchor are learned from and tested, unless groups are held out."""
        X, y, groups = noisy_copies(n_features=30)
        triplets = RandomTriplets(20_000)(X, y, np.random.RandomState(0))
        apart = groups[triplets.index]
        triplets = triplets.take((apart[:, 0] != apart[:, 1]) & (apart[:, 0] != apart[:, 2]))
        plain = compare(X, triplets, ["MetricBoost"], cv=3)
        assert plain.by_goal("triplets").verdict.category == Category.CLEARLY_BETTER
        found = compare(X, triplets, ["MetricBoost"], cv=3, groups=groups)
        low, high = found.by_goal("triplets").interval(found["MetricBoost"])
        assert low < 1 / 2 < high
        assert not found.by_goal("triplets").verdict.helps

    def test_the_note_counts_what_is_dropped(self):
        folds = judgement_folds(self.TRIPLETS, 3, GROUPS, 0)
        tested = sum(len(test) for _, test in folds)
        found = compare(X, self.TRIPLETS, [], cv=3, groups=GROUPS)
        assert f"of 20000 triplets on average, and {tested} are tested" in str(found)
        assert np.isnan(found["L1"].wrong).sum() == 20_000 - tested

    @pytest.mark.parametrize("kind", ["triplets", "pairs"])
    def test_no_group_is_on_both_sides(self, kind):
        pairs = RandomPairs(4000)(X, Y, np.random.RandomState(0))
        judgements = self.TRIPLETS if kind == "triplets" else pairs
        for train, test in judgement_folds(judgements, 4, GROUPS, 0):
            seen, unseen = (set(GROUPS[judgements.index[part]].ravel()) for part in (train, test))
            assert seen
            assert unseen
            assert not seen & unseen

    def test_groups_need_a_number_of_folds(self):
        with pytest.raises(ValueError, match="cv must be a number of folds"):
            compare(X, self.TRIPLETS, [], cv=[([0], [1])], groups=GROUPS)

    def test_judgements_that_share_a_group_are_not_independent(self):
        """The variance is the sum over all two judgements that share a group, each once."""
        index = np.array([[0, 1, 8], [2, 9, 16], [17, 18, 19], [3, 4, 5], [24, 25, 32]])
        groups, r = GROUPS[index], np.array([1.0, -0.5, 0.3, 0.4, -1.2])
        values = r - r.mean()
        shared = np.array([[bool(set(a) & set(b)) for b in groups] for a in groups])
        n_groups = len(np.unique(groups))
        expected = (values @ shared @ values) * (n_groups / (n_groups - 3) / 5) ** 2
        found = OverlappingJudgements.of(Triplets(index), row_groups=GROUPS)
        assert found.variance(r) == pytest.approx(expected)
        assert found.n_groups(r) == 3

    def test_pairs_of_one_group(self):
        pairs = Pairs([[0, 1], [0, 8], [8, 16]], [True, False, False])
        found = OverlappingJudgements.of(pairs, row_groups=GROUPS)
        assert found.n_groups(np.zeros(3)) == 2


def test_a_checkpoint_is_of_the_same_groups(tmp_path):
    """The same folds, but other groups to validate on: other results."""
    path, folds = tmp_path / "checkpoint", row_folds(Y, 3, GROUPS, 0)
    compare(X, Y, [], cv=folds, groups=GROUPS, checkpoint=path)
    compare(X, Y, [], cv=folds, groups=GROUPS + 7, checkpoint=path)
    for others in (None, 2 * GROUPS + np.arange(480) % 2):
        with pytest.raises(ValueError, match="another comparison"):
            compare(X, Y, [], cv=folds, groups=others, checkpoint=path)


def test_rows_that_similar_pairs_join_are_held_out_together():
    people = np.repeat(np.arange(40), 3)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))[people] + 0.5 * rng.normal(size=(120, 5))
    between = rng.integers(120, size=(700, 2))
    between = between[people[between[:, 0]] != people[between[:, 1]]][:400]
    within = np.concatenate(
        [3 * np.arange(40)[:, None] + [0, 1], 3 * np.arange(40)[:, None] + [1, 2]]
    )
    index = np.concatenate([within, between])
    pairs = Pairs(index, np.arange(len(index)) < len(within))
    found = compare(X, pairs, ["RCA"])
    assert found.n_groups == 40
    assert "Rows that similar pairs join are one class." in str(found)
