"""``nearfar gate``: exit codes, JSON, refusals; learned versions from end to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nearfar import Metric
from nearfar.search import write_qrels
from search.adapters import noisy_searches
from workflow.test_gating import JUDGED, RELEVANCE, Q, X, save_adapter

SEARCHES = ["--queries", "q.npz", "--documents", "d.npz", "--qrels", "qrels.txt"]


@pytest.fixture
def versions(folder):
    """Two adapters and a search that neither has seen."""
    helpful = noisy_searches()[3]
    save_adapter("helpful.safetensors", helpful)
    save_adapter("plain.safetensors", np.ones(len(helpful)))
    np.savez("q.npz", Q=Q)
    np.savez("d.npz", X=X)
    write_qrels("qrels.txt", RELEVANCE.subset(JUDGED))
    write_qrels("seen.txt", RELEVANCE.subset(np.arange(15, 120)))
    return "plain.safetensors", "helpful.safetensors"


@pytest.mark.parametrize(
    ("order", "code", "outcome"),
    [((0, 1), 0, "better"), ((1, 0), 4, "worse"), ((1, 1), 3, "same")],
)
def test_exit_codes(run, document, versions, order, code, outcome):
    pair = [versions[number] for number in order]
    said = run("gate", *pair, *SEARCHES, code=code).stdout
    found = document("gate", *pair, *SEARCHES, code=code)
    assert (found["outcome"], found["n"], found["measure"]) == (outcome, 100, "nDCG@10")
    assert found["headline"] in said.replace("\n", " ")
    assert found["seen"]["n_queries"] + found["unseen"]["n_queries"] == 100


def test_overlap_is_refused(run, versions):
    options = ["--queries", "q.npz", "--documents", "d.npz", "--qrels", "seen.txt"]
    message = run("gate", *versions, *options, code=2).stderr
    assert "plain.safetensors was learned from 5 of these 105 queries (15, 16, 17 and 2" in message
    assert "leave them out (--leave-out-learned), or give other queries" in message
    result = run("gate", *versions, *options, "--leave-out-learned")
    assert result.stdout.startswith("Compared on 100 searches. Better:")
    assert "a version was learned from 5 queries, which are left out" in result.stderr


def test_columns_and_judgements_of_searches(run, fail, versions):
    """Errors name these options."""
    frame = {"id": [str(row) for row in range(120)], "a": Q, "b": -Q}
    pl.DataFrame(frame).write_parquet("q.parquet")
    frame = {"id": [str(row) for row in range(len(X))], "a": X}
    pl.DataFrame(frame).write_parquet("d.parquet")
    with Path("qrels.txt").open("a") as file:
        file.write("900 0 1 1\n")
    options = ["--queries", "q.parquet", "--documents", "d.parquet", "--qrels", "qrels.txt"]
    assert "--vector" in fail("gate", *versions, *options)
    assert "--ignore-unknown" in fail("gate", *versions, *options, "--vector", "a")
    said = run("gate", *versions, *options, "--vector", "a", "--ignore-unknown").stdout
    assert said.startswith("Compared on 100 searches. Better:")


def test_either_searches_or_a_table(fail, versions):
    wanted = "Give --queries, --documents and --qrels for adapters, or only --table."
    assert wanted in fail("gate", *versions)
    assert wanted in fail("gate", *versions, *SEARCHES[:4])
    assert wanted in fail("gate", *versions, *SEARCHES, "--table", "iris.csv")
    assert "not a valid metric" in fail("gate", *versions, "--table", "rows.npy")


@pytest.fixture
def nights(run, folder, rng):
    """Metrics of a messy table: the second learns from more rows, with other words in them."""
    n = 400
    size = rng.normal(size=n)
    frame = pl.DataFrame(
        {
            "size": [f"{100 * each:.3f} cm" for each in size],
            "city": rng.choice(["Ulm", "Rom", "Bonn", "Oslo"], n),
            "noise": 50 * rng.normal(size=n),
            "kind": np.where(size > 0, "large", "small"),
        }
    )
    frame[:20].write_csv("monday.csv")
    frame[20:200].write_csv("tuesday.csv")
    frame[200:].write_csv("gate.csv")
    for name in ("monday", "tuesday"):
        options = ["--label", "kind", "--method", "lda", "--no-comparison"]
        run("learn", f"{name}.csv", *options, "--out", f"{name}.safetensors")
    return ["monday.safetensors", "tuesday.safetensors"]


def test_metrics_of_tables(run, document, fail, nights):
    found = document("gate", *nights, "--table", "gate.csv", "--label", "kind", code=None)
    assert (found["cases"], found["n"], found["notes"]) == ("rows", 200, [])
    mirrored = document("gate", *nights[::-1], "--table", "gate.csv", "--label", "kind", code=None)
    assert (found["before"], found["after"]) == (mirrored["after"], mirrored["before"])
    options = ["--table", "gate.csv", "--label", "kind"]
    plain = document("gate", "untouched", nights[1], *options, code=None)
    assert plain["reference"].startswith("Euclidean")
    message = fail("gate", *nights, "--table", "tuesday.csv", "--label", "kind")
    assert "tuesday.safetensors was learned from 180 of these 180 rows (0, 1, 2 and 177" in message


def test_a_file_that_does_not_know_its_rows(run, folder):
    Metric.identity(4).named(["a", "b", "c", "d"]).save("new.safetensors")
    options = ["--table", "iris.csv", "--pairs", "pairs.csv", "--drop", "species,name"]
    result = run("gate", "new.safetensors", "new.safetensors", *options, code=3)
    assert "it is not known which rows the old version learned from" in result.stderr
    assert "Compared on 300 pairs. The same: no pair differs." in result.stdout
