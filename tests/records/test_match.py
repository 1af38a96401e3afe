"""`nearfar.match` on made-up persons, whose matches are known."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from scipy.stats import binom

from nearfar import RecordMatcher, match
from nearfar.verification import TargetNotCertifiedError
from tests.records.people import known_matches, messy, people, persons

LEFT, RIGHT = persons(150)


@pytest.fixture(scope="module")
def matched():
    return match(LEFT, RIGHT.reverse(), known_matches(60))


def right_share(table):
    """Share of matches whose ids have the same number."""
    found = table.filter(pl.col("same"))
    return (found["left"].str.slice(1) == found["right"].str.slice(1)).mean()


def test_matches_of_two_tables(matched):
    table = matched.table
    assert right_share(table) > 0.95
    assert table["same"].sum() > 140
    assert table.filter("same")["left"].n_unique() == table["same"].sum()
    assert table.columns == ["left", "right", "same", "probability", "fields", "check"]
    fields = {each.name for each in matched.matcher.fields_}
    assert "id" not in fields
    assert set(table["fields"][0].split(", ")) <= fields


def test_what_is_stated(matched):
    share, (low, high), n = matched.kept
    assert (share, high, n) == (1, 1, 60)
    assert 0.9 < low < 1
    assert set(matched.rates) == {"precision", "recall"}
    text = str(matched)
    assert "Nothing is certified" in text
    assert "of 60 known matches are among them" in text
    document = matched.to_dict()
    left_over = LEFT["id"].n_unique() - len(matched.matches.pairs)
    assert len(document["left_over"][0]) == left_over


def test_a_loaded_matcher_finds_the_same(matched, tmp_path):
    matched.matcher.save(tmp_path / "matcher.safetensors")
    matcher = RecordMatcher.load(tmp_path / "matcher.safetensors")
    again = match(LEFT, RIGHT.reverse(), matcher=matcher)
    assert again.table.equals(matched.table)
    assert again.rates == {}


def test_a_loaded_matcher_remembers_the_columns_of_ids(tmp_path):
    left, right = LEFT.rename({"id": "number"}), RIGHT.rename({"id": "code"})
    right = right.select(*right.columns[1:], "code")
    first = match(left, right, known_matches(60))
    first.matcher.save(tmp_path / "matcher.safetensors")
    again = match(left, right, matcher=RecordMatcher.load(tmp_path / "matcher.safetensors"))
    assert again.table.equals(first.table)


def test_row_numbers_are_said():
    known = pl.DataFrame({"left": range(40), "right": range(40)})
    found = match(LEFT.drop("id"), RIGHT, known)
    assert found.table["left"].dtype == pl.Int64
    texts = [note.text for note in found.notes if "row numbers" in note.text]
    assert len(texts) == 2
    assert texts[0].startswith("Records of left")


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_ids_keep_their_type(kind):
    left, right = (
        table.with_columns(id=table["id"].str.slice(1).cast(pl.Int64) + 1000)
        for table in (LEFT, RIGHT)
    )
    known = pl.DataFrame({"left": range(1000, 1060), "right": range(1000, 1060)})
    found = match(*(kind(each.to_dict(as_series=False)) for each in (left, right, known)))
    assert found.table["left"].dtype == found.table["right"].dtype == pl.Int64
    assert (found.table.filter("same")["left"] == found.table.filter("same")["right"]).mean() > 0.95


def test_contradictions_are_counted():
    known = known_matches(60).with_columns(same=pl.lit(True))
    wrong = known[:7].with_columns(same=pl.lit(False))
    more = known[:2].with_columns(right=pl.Series(["R1", "R0"]))
    found = match(LEFT, RIGHT, [known, wrong, more])
    texts = " ".join(note.text for note in found.notes)
    assert "7 pairs are given both" in texts
    assert "several matches are given of 2 records of the left table" in texts.lower()
    every = match(LEFT, RIGHT, [known, wrong, more], how="all")
    assert not any("everal matches" in note.text for note in every.notes)


def test_known_pairs_with_answers_and_row_numbers():
    pairs = [(row, other) for row in range(50) for other in (row, row + 50)]
    known = pl.DataFrame(pairs, schema=["a", "b"], orient="row")
    known = known.with_columns(same=pl.col("a") == pl.col("b"))
    found = match(LEFT.drop("id"), RIGHT.drop("id"), known)
    table = found.table.filter("same")
    assert (table["left"] == table["right"]).mean() > 0.9


def test_questions_and_their_answers(matched, tmp_path):
    questions = matched.questions(40)
    assert len(questions) == 40
    assert set(questions["same"]) == {""}
    known = set(known_matches(60).rows())
    assert not known & set(questions.select("left", "right").rows())
    row = questions.row(0, named=True)
    assert row["left: phone"] == LEFT.filter(id=row["left"])["phone"][0]
    assert row["right: phone"] == RIGHT.filter(id=row["right"])["phone"][0]
    answered = questions.with_columns(
        same=pl.col("left").str.slice(1) == pl.col("right").str.slice(1)
    )
    answered = answered.with_columns(same=pl.col("same").cast(pl.String))
    answered[5:].write_csv(tmp_path / "answers.csv")
    first = pl.read_csv(tmp_path / "answers.csv")
    # Two questions have no answer yet.
    kept = first.with_columns(
        same=pl.when(pl.int_range(len(first)) < 2).then(None).otherwise("same")
    )
    known_pairs = known_matches(60).with_columns(same=pl.lit(True))
    again = match(LEFT, RIGHT.reverse(), [known_pairs, kept])
    assert len(again.known[1].same) == 33
    assert "F1 of the decisions before these answers" in str(again)
    # Questions are candidates, so that they say nothing about candidates.
    assert again.kept[2] == 60


def test_clusters_of_one_table():
    both = pl.concat([LEFT, RIGHT])
    found = match(both)
    table = found.table.filter("same")
    assert right_share(table) > 0.95
    assert table["group"].n_unique() > 100
    assert any("nothing is certified" in note.text for note in found.notes)


def test_a_target_is_certified_or_refused():
    left, right = persons(400, seed=1)
    found = match(left, right, known_matches(300), target="fmr<=0.01")
    point = found.matcher.operating_point_
    assert point.bound <= 0.01
    assert "fmr<=0.01 is certified" in str(found)
    assert found.rates["recall"][0] == point.recall
    with pytest.raises(TargetNotCertifiedError, match="cannot be certified"):
        match(left, right, known_matches(30), target="fmr<=1e-4")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "fmr<=0.1"}, "needs known pairs"),
        ({"ids": "nobody"}, "nobody"),
        (
            {"pairs": pl.DataFrame({"left": ["L0", "X9", "X8"], "right": ["R0", "R1", "R2"]})},
            "^pairs refers to 2 ids in column left that id does not have: X9, X8.$",
        ),
        ({"pairs": known_matches(9).with_columns(right="left")}, "name the column of ids"),
        ({"pairs": known_matches(2)}, "2 are the same and .* give at least 20 of each"),
        ({"pairs": pl.DataFrame({"left": ["L0"]})}, "left and right"),
    ],
)
def test_what_cannot_be_met(options, message):
    with pytest.raises(ValueError, match=message):
        match(LEFT, RIGHT, **options)


@pytest.mark.parametrize("target", [None, "fmr<=0.02"])
def test_known_matches_of_one_table(target):
    left, right = persons(200, seed=2)
    # The ids of the second table begin with R.
    found = match(pl.concat([left, right]), None, known_matches(120), target=target)
    assert right_share(found.table) > 0.95
    assert found.kept[2] == 120
    assert (found.matcher.operating_point_ is not None) == (target is not None)


def half_shared(seed, n_known):
    """Return two tables of 1,000 people, 500 of them in both, and some matches of these."""
    rng = np.random.default_rng(seed)
    everyone = people(1500, rng)
    left, right = (pl.DataFrame(each) for each in (everyone[:1000], messy(everyone[500:], rng)))
    left = left.insert_column(0, pl.Series("id", [f"L{k}" for k in range(1000)]))
    right = right.insert_column(0, pl.Series("id", [f"R{k}" for k in range(500, 1500)]))
    shared = rng.permutation(np.arange(500, 1000))[:n_known]
    ends = {"left": [f"L{k}" for k in shared], "right": [f"R{k}" for k in shared]}
    return left, right, pl.DataFrame(ends)


def new_candidates(found, known):
    """Return log-odds and truth of candidates whose records are in no known pair."""
    pairs = found.matches.candidates.T
    left, right = (np.array(s.ids)[rows] for s, rows in zip(found.sides, pairs, strict=True))
    new = ~np.isin(left, known["left"]) & ~np.isin(right, known["right"])
    true = np.array([one[1:] == two[1:] for one, two in zip(left, right, strict=True)])
    return found.matches.scores[new], true[new]


def test_precision_and_probabilities_are_for_these_tables_with_a_target():
    left, right, known = half_shared(0, 250)
    found = match(left, right, known, target="precision>=0.8")
    scores, true = new_candidates(found, known)
    # It was 0.32 with the share of matches among the known records.
    assert true[scores >= found.matcher.threshold_].mean() >= 0.8
    # Matches among candidates are as many as expected: 1.5 times as many were.
    assert expit(scores).sum() == pytest.approx(true.sum(), rel=0.15)
    assert len(found.matches.doubtful) < 150
    assert found.rates["precision"][0] >= 0.8
    assert "In these tables" in str(found)


@pytest.mark.slow
def test_certified_precisions_hold_in_the_stated_share_of_draws():
    missed, certified = 0, 0
    for seed in range(20):
        left, right, known = half_shared(100 + seed, 350)
        with suppress(TargetNotCertifiedError):
            found = match(left, right, known, target="precision>=0.8", random_state=seed)
            scores, true = new_candidates(found, known)
            certified += 1
            missed += true[scores >= found.matcher.threshold_].mean() < 0.8
    assert certified >= 8
    # At most 5 % miss the target; more than this many would be a chance of 1 in 1,000.
    assert missed <= binom.ppf(0.999, certified, 0.05)


def test_pairs_that_are_easier_than_candidates_state_no_precision():
    known = known_matches(60).with_columns(same=pl.lit(True))
    easy = known.with_columns(right=known["right"].reverse(), same=pl.lit(False))
    found = match(LEFT, RIGHT, [known, easy])
    assert found.easy
    assert set(found.rates) == {"recall"}
    assert any("are no candidates" in note.text for note in found.notes)
    assert "precision" not in str(found)
    with pytest.raises(ValueError, match="without a column same"):
        match(LEFT, RIGHT, [known, easy], target="precision>=0.9")


def test_ids_with_other_zeros_are_told():
    numbers = [f"{k:06}" for k in range(1000, 1000 + len(LEFT))]
    left, right = (
        LEFT.with_columns(id=pl.Series(numbers)),
        RIGHT.with_columns(id=pl.Series(numbers)),
    )
    known = pl.DataFrame({"left": [1004.0, 1005.0], "right": [1004, 1005]})
    with pytest.raises(ValueError, match=r"'1004\.0' in column left, and id has '001004'"):
        match(left, right, known)
