from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nearfar import Pairs, Triplets, compare
from nearfar.comparison import GoalComparison
from verification.populations import population

from .conftest import LABELS

QUICK = ["--method", "boost", "--folds", "2"]


@pytest.mark.parametrize("source", [["iris.csv", *LABELS], ["both.npz"]])
def test_the_same_as_in_python(document, iris, source):
    found = document("compare", *source, *QUICK)
    expected = compare(*iris, ["BoostMetric"], cv=2).to_dict()
    for one, other in zip(found["methods"], expected["methods"], strict=True):
        assert one["error"] == other["error"]
    assert found["verdict"] == expected["verdict"]


def test_the_table(run):
    result = run("compare", "iris", *QUICK)
    assert result.stdout.startswith("k-NN error ± std over 2 folds, 150 rows")
    assert "BoostMetric" in result.stdout
    assert "DRMetric" not in result.stdout


def test_plain_methods_can_be_named(document):
    found = document("compare", "iris", "--method", "lda", "--folds", 2)
    assert "LDA" in [method["name"] for method in found["methods"]]
    assert {method["kind"] for method in found["methods"]} == {"baseline", "plain"}


def test_a_budget(document):
    y = np.arange(900) % 3
    np.savez("long.npz", X=y[:, None] + np.random.default_rng(0).normal(size=(900, 3)), y=y)
    found = document("compare", "long.npz", *QUICK, "--budget", "0s")
    assert found["n_sampled"] == 100
    assert "100 of 900 rows" in found["verdict"][0]
    assert "--budget" in found["verdict"][0]


def test_the_default_budget(run, monkeypatch):
    seen = []

    def note(*arguments, **options):
        seen.append((arguments, options))
        raise ValueError("seen")

    monkeypatch.setattr("nearfar.tables.compare.compare_rows", note)
    run("compare", "iris", code=2)
    run("compare", "iris", "--method", "all", "--method", "lda", code=2)
    assert [k["budget"] for _, k in seen] == [120.0, 120.0]
    assert [a[2] for a, _ in seen] == [None, "all"]


def test_the_next_command_learns_what_is_recommended(run, folder):
    options = [*LABELS, "--method", "rca", "--folds", 2, "--seed", 1, "--budget", "600s"]
    result = run("compare", "iris.csv", *options)
    first, second = result.stdout.splitlines()[-2:]
    found = Path("iris.safetensors")
    for line, goal in [(first, "classification"), (second, "ranking")]:
        command = line.partition(": ")[2].split()[1:]
        assert command[:2] == ["learn", "iris.csv"]
        assert {*LABELS} <= {*command}
        run(*command, "--write")
        assert (goal == "ranking") == ("--goal" in command)
        assert found.exists()
        found.unlink()


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("BoostMetric", ["validation=classes"]),
        ("RCA", ["validation=classes", "validation_fraction=0.2"]),
        ("LDA", []),
        ("cosine", []),
    ],
)
def test_what_is_learned_for_new_classes_is_validated_on_classes(
    run, monkeypatch, method, settings
):
    verdict = GoalComparison.verdict.func

    def chosen(self):
        return replace(verdict(self), recommended=method)

    monkeypatch.setattr(GoalComparison, "verdict", property(chosen))
    y = np.repeat(np.arange(4), 12)
    np.savez("many.npz", X=y[:, None] + np.random.default_rng(0).normal(size=(48, 3)), y=y)
    options = ["--split", "classes", "--method", "boost", "--method", "rca", "--folds", 2]
    last = run("compare", "many.npz", *options).stdout.splitlines()[-1]
    words = [f"Next: nearfar learn many.npz --method {method.lower()}"]
    assert last == " --set ".join(words + settings)
    run(*last.split()[2:], "--write")


def test_unknown_methods_are_answered_with_known_ones(fail):
    assert "no method 'magic'; choose from autometric" in fail(
        "compare", "iris", "--method", "magic"
    )


def test_triplets_as_in_python(document, run, iris):
    options = ["--triplets", "triplets.csv", "--method", "lsml", "--folds", 3]
    found = document("compare", "rows.npy", *options)
    triplets = Triplets(pl.read_csv("triplets.csv").to_numpy())
    expected = compare(iris[0], triplets, ["LSML"], cv=3).to_dict()
    for one, other in zip(found["methods"], expected["methods"], strict=True):
        assert one["triplet_accuracy"] == other["triplet_accuracy"]
    assert found["verdict"] == expected["verdict"]
    assert (
        "LSML" in run("compare", "iris.csv", "--drop", "species", "--drop", "name", *options).stdout
    )


def test_pairs_by_name(document, iris):
    table = pl.read_csv("pairs.csv")
    named = table.with_columns(pl.format("flower {}", pl.col("a", "b")).name.keep())
    named.write_csv("named.csv")
    options = ["--drop", "species", "--id", "name", "--pairs", "named.csv", "--method", "rca"]
    found = document("compare", "iris.csv", *options)
    pairs = Pairs(table.select("a", "b").to_numpy(), table["similar"].to_numpy())
    expected = compare(iris[0], pairs, ["RCA"]).to_dict()
    assert [m["auc"] for m in found["methods"]] == [m["auc"] for m in expected["methods"]]


def test_errors_of_judgements(fail):
    triplets = ["compare", "rows.npy", "--triplets", "triplets.csv"]
    assert "only one of" in fail(*triplets, "--pairs", "pairs.csv")
    assert "lda learns from labels, not from triplets" in fail(*triplets, "--method", "lda")
    assert "NCA does not learn from triplets" in fail(*triplets, "--method", "nca")


def test_unseen_classes(document, run, fail, folder):
    X, y = population(12, 6, np.random.default_rng(0))
    np.save("people.npy", X)
    np.save("persons.npy", y)
    command = ["compare", "people.npy", "--label", "persons.npy", "--method", "rca"]
    found = document(*command, "--split", "classes", "--folds", 3)
    assert (found["split"], found["n_folds"]) == ("classes", 3)
    assert "split" not in document(*command, "--folds", 3)
    assert document(*command, "--split", "classes", "--folds", 7)["n_folds"] == 6
    few = ["compare", "iris.csv", *LABELS, "--split", "classes"]
    assert "needs four classes or more; there are 3" in fail(*few)
    judged = ["compare", "rows.npy", "--pairs", "pairs.csv", "--split", "classes"]
    assert "--split classes needs class labels" in fail(*judged)


def test_the_next_command_is_for_the_goal(run):
    arguments = ["compare", "iris.csv", *LABELS, "--method", "lda", "--folds", 2]
    lines = run(*arguments, "--goal", "ranking").stdout.splitlines()
    commands = [line for line in lines if "nearfar learn" in line]
    assert len(commands) == 1
    assert commands[0].startswith("Next: nearfar learn iris.csv")
    assert "--goal ranking" in commands[0]
