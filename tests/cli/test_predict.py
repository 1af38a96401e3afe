"""``nearfar predict``: the figures are those of `NeighborPredictor`."""

from __future__ import annotations

import io
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from nearfar import Metric, RetrievalAdapter
from nearfar.columns import Columns
from nearfar.command import app
from nearfar.measures.neighbor_votes import SoftVotes
from nearfar.metrics.training_facts import Votes, class_digest, save_learned
from nearfar.neighbors import NeighborPredictor
from search.problems import topic_search

SOFT = SoftVotes(7, 2.0, 0.5, linear=True)
KINDS = ["setosa", "versicolor", "virginica"]
OPTIONS = ["--label", "species", "--id", "name"]
PREDICT = ["predict", "metric.safetensors", "train.csv", "new.csv", *OPTIONS]


@pytest.fixture
def split(folder, iris):
    """Two thirds of the flowers to predict from, and the others without their species."""
    table = pl.read_csv("iris.csv")
    is_new = np.arange(150) % 3 == 0
    table.filter(~is_new).write_csv("train.csv")
    table.filter(is_new).drop("species").write_csv("new.csv")
    table.filter(is_new).write_csv("labelled.csv")
    metric, species = Metric.load("metric.safetensors"), table.filter(~is_new)["species"].to_numpy()
    votes = Votes(class_digest(np.unique(species)), best=5, **asdict(SOFT) | {"linear": 1})
    save_learned(metric, Path("metric.safetensors"), iris[0][~is_new], votes)
    predictor = NeighborPredictor(metric, iris[0][~is_new], species, votes=SOFT)
    return predictor.predict(iris[0][is_new])


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.parquet", "out.feather"])
def test_the_table_has_what_decided(run, split, name):
    text = run(*PREDICT, "--voters", "--out", name).stdout
    assert text.startswith(f"Predictions for 50 rows written to {name}")
    read = {"parquet": pl.read_parquet, "feather": pl.read_ipc}
    text_file = partial(pl.read_csv, separator="\t" if name.endswith("tsv") else ",")
    table = read.get(name.partition(".")[2], text_file)(name)
    train = pl.read_csv("train.csv")
    assert table["name"].to_list() == pl.read_csv("new.csv")["name"].to_list()
    assert table["prediction"].to_list() == split.values.tolist()
    unlike = split.p_value <= 0.01
    assert table["unlike"].to_list() == unlike.tolist()
    assert table["probability"].is_null().to_list() == unlike.tolist()
    np.testing.assert_allclose(
        table["probability"].drop_nulls(), split.probability[~unlike], atol=1e-6
    )
    for place, name in enumerate(KINDS):
        stated = table[f"probability_{name}"].drop_nulls()
        np.testing.assert_allclose(stated, split.probabilities[~unlike, place], atol=1e-6)
    for place in range(7):
        rows = split.indices[:, place].tolist()
        assert table[f"neighbor_{place + 1}"].to_list() == train["name"][rows].to_list()
        assert table[f"label_{place + 1}"].to_list() == train["species"][rows].to_list()
        np.testing.assert_allclose(
            table[f"distance_{place + 1}"], split.distances[:, place], rtol=1e-6
        )
    run(*PREDICT, "--out", "few.csv")
    columns = ["name", "prediction", "probability", *(f"probability_{k}" for k in KINDS), "unlike"]
    assert pl.read_csv("few.csv").columns == columns


def test_ids_that_repeat(fail, split):
    table = pl.read_csv("new.csv").with_columns(name=pl.lit("twice"))
    table.write_csv("new.csv")
    assert "missing or not unique" in fail(*PREDICT)


def test_files_that_do_not_say_how_often_votes_are_right(run, fail, document, split, iris):
    assert "probability" in document(*PREDICT)[0]
    assert "gives each a whole vote: there are no prob" in run(*PREDICT, "--neighbors", 4).stderr
    other = pl.read_csv("train.csv").with_columns(pl.col("species") + "!")
    other.write_csv("other.csv")
    arguments = ["predict", "metric.safetensors", "other.csv", "new.csv", *OPTIONS]
    assert "was learned from other classes: there are no probabilities" in run(*arguments).stderr
    moved = pl.read_csv("train.csv").with_columns(pl.col("a") + 1)
    moved.write_csv("other.csv")
    assert "was learned from other rows: there are no probabilities" in run(*arguments).stderr
    save_learned(Metric.load("metric.safetensors"), Path("metric.safetensors"), iris[0])
    result = run(*PREDICT)
    assert "does not say how neighbours vote" in result.stderr
    assert "probability" not in document(*PREDICT)[0]
    damaged = {"votes": '{"classes": "", "best": 1, "n_neighbors": 0}'}
    Metric.load("metric.safetensors").save("metric.safetensors", metadata=damaged)
    assert "damaged entry 'votes'" in fail(*PREDICT)


def test_learned_files_say_it(run, document, split):
    run("learn", "train.csv", *OPTIONS, "--method", "lda", "--write", "--out", "lda")
    found = document("predict", "lda", "train.csv", "new.csv", *OPTIONS)
    sure = [row["probability"] for row in found if not row["unlike"]]
    actual = pl.read_csv("labelled.csv")["species"]
    right = [row["prediction"] == kind for row, kind in zip(found, actual, strict=True)]
    assert abs(np.mean(sure) - np.mean(right)) < 0.05
    votes = document("show", "lda")["votes"]
    assert sum(votes["counted"]) == 100
    assert sum(votes["right"]) > 90
    assert f"{votes['counted'][9]:.0f} " in run("show", "lda").stdout


def test_numbers_have_intervals(run, document, folder, rng):
    X = rng.uniform(size=(300, 2))
    table = pl.DataFrame(X, schema=["a", "b"]).with_columns(y=X[:, 0] + 0.2 * rng.normal(size=300))
    table[:200].write_csv("train.csv")
    table[200:].write_csv("new.csv")
    options = ["--label", "y"]
    run("learn", "train.csv", *options, "--method", "mlkr", "--write", "--out", "mlkr")
    found = document("predict", "mlkr", "train.csv", "new.csv", *options)
    held = [row["low"] <= y <= row["high"] for row, y in zip(found, table[200:]["y"], strict=True)]
    assert 0.8 < np.mean(held) < 0.97
    shown = run("predict", "mlkr", "train.csv", "new.csv", *options).stdout
    assert all(heading in shown for heading in ("low", "high"))


def test_stdin_and_stdout(split, folder):
    content = (folder / "new.csv").read_bytes()
    arguments = ["predict", "metric.safetensors", "train.csv", "-", *OPTIONS, "--out", "-"]
    result = CliRunner().invoke(app, [*arguments, "--keep", "a,b"], input=content)
    assert result.exit_code == 0, result.output
    table = pl.read_csv(io.StringIO(result.stdout))
    assert table.columns[:3] == ["a", "b", "name"]
    assert table["a"].to_list() == pl.read_csv("new.csv")["a"].to_list()
    assert table["prediction"].to_list() == split.values.tolist()
    assert "Predictions for 50 rows written to stdout" in result.stderr


def test_labels_of_new_rows_are_not_used(document, split):
    found = document("predict", "metric.safetensors", "train.csv", "labelled.csv", *OPTIONS)
    assert [row["prediction"] for row in found] == split.values.tolist()
    assert "actual" not in found[0]


def test_rows_unlike_all_are_marked(run, document, split):
    new = pl.read_csv("new.csv")
    new = new.with_columns(pl.Series("a", [500.0, *new["a"][1:]]))
    new.write_csv("odd.csv")
    arguments = ["predict", "metric.safetensors", "train.csv", "odd.csv", *OPTIONS]
    first = document(*arguments)[0]
    assert first["unlike"]
    assert first["probability"] is None
    result = run(*arguments, "--neighbors", 2)
    assert ", unlike" in result.stdout
    assert "Of rows that are like them, about 1% or less are called unlike." in result.stdout
    assert "first 10 of 50 rows; --out has all" in result.stderr
    none = run(*arguments, "--level", "0.005")
    assert "no row can be called unlike at --level 0.005; use 0.01 or more" in none.stderr
    assert "unlike" not in none.stdout


def test_a_recipe_of_columns_is_used(document, folder):
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=80)
    table = pl.DataFrame(
        {
            "city": np.array(["Bonn", "Ulm"])[kind],
            "size": rng.normal(size=80),
            "kind": np.array(["x", "y"])[kind],
        }
    )
    table[:60].write_csv("train.csv")
    table[60:].select("size", "city").write_csv("new.csv")
    columns = Columns().fit(table.select("city", "size"))
    Metric(np.diag([9.0, 9.0, 0.1])).with_columns(columns).save("recipe")
    found = document("predict", "recipe", "train.csv", "new.csv", "--label", "kind")
    assert [row["prediction"] for row in found] == table["kind"][60:].to_list()
    assert [row["row"] for row in found] == list(range(20))


@pytest.fixture
def decimals(folder, iris):
    """Rows whose label is a decimal number; return what their neighbours predict."""
    X, _ = iris
    names = ["a", "b", "c"]
    table = pl.DataFrame(X, schema=[*names, "width"])
    Metric.identity(3).named(names).save("abc")
    table[:100].write_csv("train.csv")
    table[100:].write_csv("new.csv")
    predictor = NeighborPredictor(Metric.identity(3), X[:100, :3], X[:100, 3], numbers=True)
    return predictor.predict(X[100:, :3]).values


def test_decimal_labels_are_numbers(run, document, decimals):
    arguments = ["predict", "abc", "train.csv", "new.csv", "--label", "width"]
    found = document(*arguments)
    np.testing.assert_allclose([row["prediction"] for row in found], decimals)
    assert "probability" not in found[0]
    result = run(*arguments)
    assert "took the labels as numbers to predict" in result.stderr


def test_whole_numbers_are_classes_unless_asked(run, document, decimals):
    for name in ("train", "new"):
        whole = (pl.col("width") * 10).round().cast(pl.Int64)
        pl.read_csv(f"{name}.csv").with_columns(whole).write_csv(f"{name}.csv")
    found = document("predict", "abc", "train.csv", "new.csv", "--label", "width")
    assert {row["prediction"] for row in found} <= set(pl.read_csv("train.csv")["width"])
    found = document("predict", "abc", "train.csv", "new.csv", "--label", "width", "--numbers")
    np.testing.assert_allclose([row["prediction"] for row in found], 10 * decimals)


def test_many_whole_numbers_are_numbers_unless_asked(run, document, decimals):
    train = pl.read_csv("train.csv")
    train.with_columns(pl.Series("width", range(100))).write_csv("many.csv")
    arguments = ["predict", "abc", "many.csv", "new.csv", "--label", "width"]
    note = "took the labels as numbers to predict: 100 different values; if they are classes, use"
    assert f"{note} --classes." in run(*arguments).stderr
    assert any(row["prediction"] % 1 for row in document(*arguments))
    found = document(*arguments, "--classes")
    assert {row["prediction"] for row in found} <= set(range(100))


def test_arrays(document, folder, iris):
    X, y = iris
    np.savez("train.npz", X=X[::2], y=y[::2])
    np.save("new.npy", X[1::2])
    found = document("predict", "gated.safetensors", "train.npz", "new.npy")
    expected = NeighborPredictor(Metric.load("gated.safetensors"), X[::2], y[::2])
    assert [row["prediction"] for row in found] == expected.predict(X[1::2]).values.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--label", "kind"], "no column 'kind'"),
        (["--neighbors", "100"], "--neighbors 100 must be less than the 100 training rows"),
        (["--keep", "color"], "no column 'color'"),
        (["--out", "new.csv"], "is an input"),
        (["--out", "out.npy"], "cannot be written in this format"),
    ],
)
def test_errors(fail, split, change, message):
    assert message in fail(*PREDICT, *change)


def test_more_errors(fail, run, split, iris):
    assert "--label" in fail(*PREDICT[:4])
    pl.read_csv("new.csv").with_columns(pl.lit(1).alias("unlike")).write_csv("new.csv")
    assert "'unlike' is the name of a result" in fail(*PREDICT, "--keep", "unlike")
    np.save("new.npy", iris[0])
    arguments = ["predict", "metric.safetensors", "train.csv", "new.npy", *OPTIONS]
    assert "new.npy is not a table" in fail(*arguments, "--keep", "a")
    RetrievalAdapter(cv=None, max_iter=1).fit(*topic_search()).save("adapter")
    message = fail("predict", "adapter", *PREDICT[2:])
    assert "adapter is an adapter for searches, not a metric" in message


def test_training_rows_as_new_rows_are_noted(run, split):
    result = run("predict", "metric.safetensors", "train.csv", "train.csv", *OPTIONS)
    assert "each finds itself" in result.stderr


@pytest.fixture
def gaps(split):
    """Training rows of which the first five have no label, written in five ways."""
    train = pl.read_csv("train.csv")
    blanks = pl.Series("species", ["", "?", "NA", "n/a", "unknown", *train["species"][5:]])
    train.with_columns(blanks).write_csv("gaps.csv")
    train[5:].write_csv("rest.csv")


def test_training_rows_without_a_label_do_not_vote(run, document, gaps):
    paths = "metric.safetensors", "gaps.csv", "new.csv"
    result = run("predict", *paths, *OPTIONS)
    assert "left out 5 rows without a label in column species (such as '?', 'NA'" in result.stderr
    assert "counts as a class" not in result.stderr
    found = document("predict", *paths, *OPTIONS)
    assert found == document("predict", "metric.safetensors", "rest.csv", "new.csv", *OPTIONS)


def test_neighbours_have_their_numbers_in_the_file(document, gaps):
    label = ["--label", "species", "--drop", "name"]
    names = pl.read_csv("gaps.csv")["name"]
    paths = "metric.safetensors", "gaps.csv", "new.csv"
    by_number = document("predict", *paths, *label, "--voters")
    by_name = document("predict", *paths, *OPTIONS, "--voters")
    assert [names[row["neighbor_1"]] for row in by_number] == [r["neighbor_1"] for r in by_name]


def test_levels_that_were_not_seen_are_noted(run, folder):
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "ring code": rng.choice(["A", "B", "C"], 60),
            "size": rng.normal(size=60),
            "kind": rng.choice(["x", "y"], 60),
        }
    )
    table.write_csv("train.csv")
    columns = Columns().fit(table.drop("kind"))
    Metric(np.eye(4)).with_columns(columns).save("recipe")
    new = table.drop("kind")[:20]
    new.with_columns(pl.format("{}9", "ring code").alias("ring code")).write_csv("new.csv")
    new.write_csv("same.csv")
    known = ["--label", "kind"]
    note = "column ring code: 20 of 20 values were not in the training rows (new.csv)."
    assert note in run("predict", "recipe", "train.csv", "new.csv", *known).stderr
    assert note in run("transform", "recipe", "new.csv", "out.csv").stderr
    assert "values" not in run("predict", "recipe", "train.csv", "same.csv", *known).stderr


def test_levels_that_are_rare_in_the_training_rows_are_no_news(run, folder):
    rng = np.random.default_rng(0)
    common = rng.choice(["A", "B"], 50).tolist()
    table = pl.DataFrame(
        {"code": common + [f"one-{n}" for n in range(40)], "kind": ["x", "y"] * 45}
    )
    table.write_csv("train.csv")
    columns = Columns(categorical=["code"]).fit(table.select("code"))
    Metric(np.eye(3)).with_columns(columns).save("recipe")
    same = run("predict", "recipe", "train.csv", "train.csv", "--label", "kind")
    assert "column code" not in same.stderr
    table[50:].write_csv("rare.csv")
    rare = run("predict", "recipe", "train.csv", "rare.csv", "--label", "kind")
    assert "column code: 40 of 40 values" in rare.stderr
