"""``--group``: rows of a group are near copies of each other, with classes at random."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from nearfar import NCA, Metric, RandomTriplets, compare
from nearfar.tables.checkpoint import fit_digest
from problems import noisy_copies

X, Y, GROUPS = noisy_copies()
LABELLED = ["copies.csv", "--label", "kind"]
GROUPED = [*LABELLED, "--group", "person"]


@pytest.fixture(autouse=True)
def copies(folder):
    """The rows as a table and as arrays."""
    table = pl.DataFrame(X, schema=[f"x{i}" for i in range(6)]).with_columns(
        pl.Series("kind", np.array(["a", "b"])[Y]),
        pl.Series("person", [f"p{group:02}" for group in GROUPS]),
        pl.Series("size", np.random.default_rng(1).standard_normal(60)[GROUPS]),
    )
    table.drop("size").write_csv("copies.csv")
    table.drop("kind").write_csv("sizes.csv")
    np.savez("copies.npz", X=X, y=Y, person=GROUPS)
    np.save("copies.npy", X)
    np.save("kinds.npy", Y)
    np.save("persons.npy", GROUPS)
    return folder


def errors(found):
    return {method["name"]: method["error"] for method in found["methods"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        GROUPED,
        ["copies.npz", "--group", "person"],
        ["copies.npy", "--label", "kinds.npy", "--group", "persons.npy"],
    ],
)
def test_compare(run, document, source):
    options = ["--method", "rca", "--folds", 3]
    found = document("compare", *source, *options)
    expected = compare(X, Y, ["RCA"], cv=3, groups=GROUPS)
    assert found["n_groups"] == 60
    assert errors(found) == {result.name: result.error for result in expected.results}


def test_without_groups_the_error_is_too_good(document):
    options = ["--drop", "person", "--method", "rca", "--folds", 3]
    assert errors(document("compare", *LABELLED, *options))["RCA"] == 0


def test_the_note_and_the_title(run):
    result = run("compare", *GROUPED, "--method", "rca", "--folds", 3)
    assert "60 groups of rows (column person)" in result.stderr
    assert "480 rows in 60 groups" in result.stdout


def test_the_group_is_not_a_feature(run, folder):
    run("learn", *GROUPED, "--method", "rca", "--write")
    names = Metric.load(folder / "copies.safetensors").feature_names
    assert names == tuple(f"x{i}" for i in range(6))


def test_learn_tests_by_groups(document):
    plain = document("learn", *LABELLED, "--drop", "person", "--method", "rca", "--write")
    found = document("learn", *GROUPED, "--method", "rca", "--write")
    assert errors(plain)["RCA"] < 0.05
    assert errors(found)["RCA"] > 0.35


def test_triplets(run, document):
    triplets = RandomTriplets(3000)(X, Y, np.random.RandomState(0))
    pl.DataFrame(triplets.index, schema=["anchor", "near", "far"]).write_csv("triplets.csv")
    source = ["copies.csv", "--drop", "kind", "--group", "person", "--triplets", "triplets.csv"]
    options = ["--method", "lsml", "--folds", 3]
    assert document("compare", *source, *options)["n_groups"] == 60
    text = run("compare", *source, *options).stdout
    assert "3000 triplets of 480 rows in 60 groups" in text
    assert "those between groups that are learned from and groups that are held out" in text


@pytest.mark.usefixtures("plain_figures")
def test_report(run, folder):
    run("report", *GROUPED, "--method", "rca", "--out", "grouped.html")
    page = (folder / "grouped.html").read_text()
    assert "The rows are in 60 groups." in page
    assert "No group is among both." in page
    assert "--group person" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["iris", "--group", "name"], "--group is for files"),
        (["iris.csv", "--label", "species", "--drop", "name", "--group", "no"], "has no column"),
        (["copies.npz", "--group", "no"], "has no array 'no'"),
        (["copies.npy", "--label", "kinds.npy", "--group", "no"], "are in another .npy file"),
        (["copies.npz", "--group", "X"], "480 rows need one group each"),
        (["gaps.csv", "--label", "kind", "--group", "person"], "1 row of gaps.csv without a group"),
        (["one.csv", "--label", "kind", "--group", "person"], "in the same group"),
    ],
)
def test_errors(fail, arguments, message):
    table = pl.read_csv("copies.csv")
    first = pl.int_range(pl.len()) == 0
    table.with_columns(person=pl.when(~first).then("person")).write_csv("gaps.csv")
    table.with_columns(person=pl.lit("p")).write_csv("one.csv")
    assert message in fail("compare", *arguments, "--method", "rca")


def test_a_checkpoint_is_of_the_same_groups():
    same, other = fit_digest(NCA(), X, Y, GROUPS), fit_digest(NCA(), X, Y, GROUPS // 2)
    assert same == fit_digest(NCA(max_iter=9), X, Y, GROUPS)
    assert same != other
    assert same != fit_digest(NCA(), X, Y)
