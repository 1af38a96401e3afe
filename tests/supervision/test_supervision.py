from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nearfar import (
    ITML,
    LSML,
    AutoMetric,
    BoostMetric,
    Chunklets,
    Metric,
    NearestTriplets,
    Pairs,
    RandomPairs,
    RandomTriplets,
    Triplets,
)
from nearfar.evidence.splits import folds
from nearfar.supervision import Supervision, kind_of
from problems import labelled

X, Y, _ = labelled()
SIMILAR = Pairs([[0, 1], [0, 2], [3, 4]], [True, False, False], [2.0, 3.0, 0.0])


def triplets_of(supervision, strategy=None):
    known = Supervision.of(supervision, len(X))
    return known.triplets(X, strategy or NearestTriplets(), np.random.RandomState(0))


def pairs_of(supervision, strategy=None):
    known = Supervision.of(supervision, len(X))
    return known.pairs(X, strategy or RandomPairs(20), np.random.RandomState(0))


def chunklets_of(supervision):
    return Supervision.of(supervision, len(X)).chunklets()


def test_labels_go_through_the_strategy():
    expected = NearestTriplets(1, 1)(X, Y)
    np.testing.assert_array_equal(triplets_of(Y, NearestTriplets(1, 1)).index, expected.index)
    drawn = RandomPairs(30)(X, Y, np.random.RandomState(0))
    np.testing.assert_array_equal(pairs_of(Y, RandomPairs(30)).index, drawn.index)
    joined = triplets_of(Y, RandomPairs(30))
    np.testing.assert_array_equal(joined.index, drawn.triplets().index)


def test_constraints_pass_through_without_those_of_no_weight():
    triplets = Triplets([[0, 1, 2], [3, 4, 5]], [0.0, 2.0])
    for given in (triplets, triplets.over(len(X))):
        assert triplets_of(given).index.tolist() == [[3, 4, 5]]
        assert triplets_of(given).weight.tolist() == [2.0]
    plain = Triplets([[0, 1, 2]])
    assert triplets_of(plain) is plain
    for given in (SIMILAR, SIMILAR.over(len(X))):
        assert pairs_of(given).index.tolist() == [[0, 1], [0, 2]]
        assert triplets_of(given).index.tolist() == [[0, 1, 2]]
        assert triplets_of(given).weight.tolist() == [6.0]


@pytest.mark.parametrize(
    ("convert", "supervision", "strategy", "message"),
    [
        (triplets_of, Chunklets.from_labels(Y), None, "what does not.*Triplets or Pairs"),
        (pairs_of, Chunklets.from_labels(Y), None, "what does not.*labels or Pairs"),
        (triplets_of, np.zeros(60, int), None, "at least two classes"),
        (triplets_of, np.arange(60), RandomTriplets(5), "two members"),
        (pairs_of, np.zeros(60, int), None, "at least two classes"),
        (pairs_of, Triplets([[0, 1, 2]]), None, "not which pairs are similar"),
        (pairs_of, Y, NearestTriplets(), "makes Triplets, not Pairs"),
        (triplets_of, Y, lambda X, y, random_state: "many", "makes str, not Triplets"),
        (triplets_of, Pairs([[0, 1]], [True]), None, "share a row"),
        (pairs_of, Pairs([[0, 1]], [True]), None, "All pairs are similar"),
        (triplets_of, Triplets([[0, 1, 60]]), None, "row 60"),
    ],
)
@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_what_cannot_be_converted_is_refused(convert, supervision, strategy, message):
    with pytest.raises(ValueError, match=message):
        convert(supervision, strategy)


def test_chunklets_are_numbered_from_zero():
    expected = [0, 0, -1, 1, 1, 1] + [-1] * 54
    ids = [5, 5, -1, 10**12, 10**12, 10**12] + [-1] * 54
    for given in (Chunklets(ids), Chunklets(ids).over(60)):
        assert chunklets_of(given).ids.tolist() == expected
    assert chunklets_of(Y).ids.tolist() == Y.tolist()


def test_similar_pairs_are_joined_to_chunklets():
    index = [[7, 3], [0, 1], [1, 2], [2, 9], [9, 3], [4, 5]]
    pairs = Pairs(index, [True, True, True, False, False, True], [1.0, 2.0, 1.0, 1.0, 1.0, 0.0])
    for given in (pairs, pairs.over(60)):
        ids = chunklets_of(given).ids
        assert ids[:10].tolist() == [0, 0, 0, 1, -1, -1, -1, 1, -1, -1]
        assert (ids[10:] == -1).all()
    only = Pairs([[0, 1]], [True])
    assert chunklets_of(only).ids[:3].tolist() == [0, 0, -1]


@pytest.mark.parametrize(
    ("supervision", "message"),
    [
        (Triplets([[0, 1, 2]]), "needs labels, Chunklets or Pairs"),
        (Pairs([[0, 1]], [False]), "All pairs are dissimilar"),
        (Pairs([[0, 60]], [True]), "row 60"),
        (Pairs([[0, 1]], [True], [0.0]), "no pairs of positive weight"),
        (Chunklets(np.arange(60)), "No chunklet has two rows"),
        (Chunklets(np.full(60, -1)), "No chunklet has two rows"),
        (Chunklets([0, 0]), "2 ids, but X has 60"),
        (np.zeros(60, int), "at least two classes"),
        (np.arange(60), "two members"),
    ],
)
@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_what_gives_no_chunklets(supervision, message):
    with pytest.raises(ValueError, match=message):
        chunklets_of(supervision)


def test_kinds():
    given = {
        "labels": Y,
        "numbers": np.linspace(0, 1, 60),
        "triplets": Triplets([[0, 1, 2]]),
        "pairs": SIMILAR,
        "chunklets": Chunklets.from_labels(Y),
    }
    for kind, y in given.items():
        known = Supervision.of(y, 60, numbers=kind == "numbers")
        assert (known.kind, known.n_rows) == (kind, 60)
        assert kind_of(y, numbers=kind == "numbers") == kind
    assert Supervision.of(None, 60).kind == "nothing"
    assert Supervision.of(SIMILAR, 60).weight is SIMILAR.weight
    assert Supervision.of(Y, 60).weight is None


def test_labels_keep_their_names():
    known = Supervision.of(["b", "a", "b", "c"], 4)
    assert known.names[known.codes].tolist() == ["b", "a", "b", "c"]
    part = known.restrict(np.array([0, 3]))
    assert part.names[part.codes].tolist() == ["b", "c"]
    assert part.consecutive().codes.tolist() == [0, 1]
    assert part.consecutive().names.tolist() == ["b", "c"]
    assert known.without(np.array([0, 3])).codes.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("y", "n_rows", "message"),
    [
        ([0, 1], 3, "inconsistent numbers of samples: 3 and 2"),
        (Triplets([[0, 1, 2]]).over(4), 5, "over 4 samples, but X has 5"),
        (Triplets([[0, 1, 9]]), 5, "row 9"),
    ],
)
def test_what_does_not_belong_to_the_rows(y, n_rows, message):
    with pytest.raises(ValueError, match=message):
        Supervision.of(y, n_rows)


def test_groups_are_checked():
    with pytest.raises(ValueError, match="one value per row"):
        Supervision.of(Y, 60, groups=np.zeros(59))
    known = Supervision.of(Y, 60, groups=np.array(["b", "a"] * 30, dtype=object))
    assert known.groups.tolist() == [1, 0] * 30
    assert known.restrict(np.array([0, 1, 2])).groups.tolist() == [1, 0, 1]


def grouped(kind, rng):
    """Supervision of 60 rows in 12 groups of five."""
    groups = np.repeat(np.arange(12), 5)
    inside = np.concatenate([rng.permutation(60)[:3] for _ in range(300)]).reshape(-1, 3)
    y = {
        "labels": np.repeat(np.arange(12) % 3, 5),
        "numbers": rng.standard_normal(60),
        "triplets": Triplets(inside),
        "pairs": Pairs(inside[:, :2], rng.random(300) < 0.5),
        "chunklets": Chunklets(np.repeat(np.arange(20), 3)),
    }[kind]
    return Supervision.of(y, 60, groups=groups, numbers=kind == "numbers"), groups


def rows_of(known, rows):
    return rows if not known.listed else np.unique(known.given.index)


@pytest.mark.parametrize("kind", ["labels", "numbers", "triplets", "pairs", "chunklets"])
@pytest.mark.parametrize("by", ["rows", "classes"])
def test_a_group_is_never_on_both_sides(kind, by, rng):
    known, groups = grouped(kind, rng)
    n_splits = 0
    for split in known.split(4, np.random.RandomState(0), by=by):
        seen = groups[rows_of(split.known, split.rows)]
        unseen = groups[rows_of(split.unseen, split.unseen_rows)]
        if kind == "labels" and by == "classes":
            classes = np.intersect1d(split.known.codes, split.unseen.codes)
            assert len(classes) == 0
        assert len(np.intersect1d(seen, unseen)) == 0
        n_splits += len(unseen) > 0
    assert n_splits > (0 if kind == "chunklets" else 1)


def pairs_of_people(n_people, n_dissimilar, rng):
    """Pairs within each person's four rows, and between people, all connected."""
    people = np.repeat(np.arange(n_people), 4)
    similar = 4 * np.arange(n_people)[:, None] + [0, 1]
    similar = np.concatenate([similar, similar + 1, similar + 2])
    dissimilar = rng.integers(4 * n_people, size=(4 * n_dissimilar, 2))
    dissimilar = dissimilar[people[dissimilar[:, 0]] != people[dissimilar[:, 1]]][:n_dissimilar]
    index = np.concatenate([similar, dissimilar])
    return people, Pairs(index, np.arange(len(index)) < len(similar))


def test_rows_that_similar_pairs_join_are_never_on_both_sides(rng):
    people, pairs = pairs_of_people(30, 400, rng)
    known = Supervision.of(pairs, 121)
    grouped = known.in_classes(5)
    assert len(np.unique(grouped.groups[:120])) == 30
    splits = list(known.split(5, np.random.RandomState(0)))
    assert len(splits) == 5
    for split in splits:
        seen, unseen = people[split.known.given.index], people[split.unseen.given.index]
        assert len(np.intersect1d(seen, unseen)) == 0
        assert split.known.can_teach
        assert split.unseen.can_teach
    assert sum(split.unseen.given.similar.sum() for split in splits) == 90


@pytest.mark.parametrize(
    ("n_people", "n_dissimilar"), [(19, 400), (30, 199)], ids=["few people", "few pairs"]
)
def test_too_few_classes_or_pairs_are_held_out_one_by_one(n_people, n_dissimilar, rng):
    _, pairs = pairs_of_people(n_people, n_dissimilar, rng)
    assert Supervision.of(pairs, 4 * n_people).in_classes(5).groups is None


def test_what_else_is_held_out_needs_no_classes(rng):
    _, pairs = pairs_of_people(30, 400, rng)
    groups = np.arange(120) % 7
    assert Supervision.of(pairs, 120, groups=groups).in_classes(5).groups.max() == 6
    raters = np.arange(len(pairs)) % 6
    assert Supervision.of(replace(pairs, raters=raters), 120).in_classes(5).groups is None
    apart = pairs.take(pairs.similar)
    assert Supervision.of(apart, 120).in_classes(5).groups is None
    chain = Pairs(np.column_stack([np.arange(119), np.arange(1, 120)]), np.ones(119, dtype=bool))
    chained = Pairs(
        np.concatenate([chain.index, pairs.index]), np.append(chain.similar, pairs.similar)
    )
    assert Supervision.of(chained, 120).in_classes(5).groups is None


def test_groups_without_judgements_take_no_fold():
    pairs = Pairs([[0, 1], [2, 3], [0, 2], [1, 3]], [True, True, False, False])
    groups = np.array([0, 0, 1, 1, *range(2, 40)])
    splits = list(Supervision.of(pairs, 42, groups=groups).split(2, np.random.RandomState(0)))
    assert [len(split.unseen) for split in splits] == [1, 1]


@pytest.mark.parametrize("given", [Triplets([[0, 1, 2]]), Pairs([[0, 1]], [True])])
def test_constraints_without_vectors_say_what_to_do(given):
    kind = type(given).__name__.lower()
    message = rf"{kind} alone have none; pass a vector for each object .* fit\(X, {kind}\)"
    for learner in (LSML(), BoostMetric(), AutoMetric()):
        for arguments in ((given,), (None, given), (given, given), (given.over(3), None)):
            with pytest.raises(ValueError, match=message):
                learner.fit(*arguments)


@pytest.mark.parametrize(
    ("columns", "message"), [(2, r"Give Pairs\(y"), (3, r"Give Triplets\(y\)"), (4, "quadruplets")]
)
def test_an_index_in_place_of_labels_is_told_from_them(columns, message):
    with pytest.raises(ValueError, match=message):
        Supervision.of(np.arange(6 * columns).reshape(6, columns), 6)


def judged_by_four(kind, rng):
    index = np.array([rng.choice(20, 3, replace=False) for _ in range(120)])
    raters = np.array(["Ann", "Ben", "Cem", "Dee"])[np.arange(120) % 4]
    if kind == "triplets":
        return Triplets(index, raters=raters)
    return Pairs(index[:, :2], rng.random(120) < 0.5, raters=raters)


@pytest.mark.parametrize("kind", ["triplets", "pairs"])
def test_a_rater_is_never_on_both_sides(kind, rng):
    given = judged_by_four(kind, rng)
    order = np.arange(120.0)
    weighted = replace(given, weight=order + 1)
    splits = list(Supervision.of(weighted, 20).split(5, np.random.RandomState(0)))
    assert len(splits) == 4
    for split in splits:
        whose = [np.unique((part.given.weight - 1) % 4) for part in (split.known, split.unseen)]
        assert len(whose[1]) == 1
        assert not np.intersect1d(*whose).size
    assert sum(len(split.unseen) for split in splits) == 120


@pytest.mark.parametrize("kind", ["triplets", "pairs"])
def test_raters_stay_with_their_judgements(kind, rng):
    given = judged_by_four(kind, rng)
    assert given.n_raters == 4
    assert given.take([1, 5]).n_raters == 1
    assert given.restrict(np.arange(20)).n_raters == 4
    with pytest.raises(ValueError, match="4 raters cannot be split into 5 folds"):
        list(given.folds(5))
    with pytest.raises(ValueError, match="one rater each"):
        replace(given, raters=["Ann"])


def test_points_that_are_masked_or_complex_are_refused():
    points = np.arange(24.0).reshape(4, 2, 3)
    similar = [True, False, True, False]
    with pytest.raises(ValueError, match="masked"):
        Pairs.from_points(np.ma.masked_greater(points, 20), similar)
    with pytest.raises(ValueError, match="complex"):
        Pairs.from_points(points + 1j, similar)
    with pytest.raises(ValueError, match="masked"):
        Triplets.from_quadruplets(np.ma.masked_greater(points[:, 0], 15), [[0, 1, 2, 3]])
    with pytest.raises(ValueError, match="complex"):
        Metric.identity(3).transform(points[0] + 1j)


def test_a_parameter_is_checked_by_the_last_rule_of_its_class():
    with pytest.raises(ValueError, match="prior must be") as error:
        ITML(prior="random").fit(np.eye(4), [0, 0, 1, 1])
    assert "None" not in str(error.value)


def test_what_other_kinds_cannot_say():
    triplets = Supervision.of(Triplets([[0, 1, 2]]), len(X))
    with pytest.raises(ValueError, match="Triplets do not put rows into classes"):
        _ = triplets.codes
    with pytest.raises(ValueError, match="MLKR learns from numbers; got Triplets"):
        triplets.numbers("MLKR")
    with pytest.raises(ValueError, match="NCA learns from class labels; got Triplets"):
        triplets.labels("NCA")
    with pytest.raises(ValueError, match="All triplets have weight 0"):
        Supervision.of(Triplets([[0, 1, 2]], [0.0]), len(X)).usable()


def test_folds_of_rows_are_of_equal_size():
    found = folds(10, 3, np.random.RandomState(0))
    assert sorted(np.bincount(found)) == [3, 3, 4]
