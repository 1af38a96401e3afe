from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.neighbors import KNeighborsRegressor

from nearfar import Metric, measures

from .conftest import LABELS


def test_labels_triplets_and_pairs(document, iris):
    metric = Metric.load("metric.safetensors")
    found = document("evaluate", "metric.safetensors", "both.npz")
    assert list(found) == ["learned", "Euclidean (standardised)", "Euclidean (unscaled)", "cosine"]
    learned = found["learned"]
    assert learned["3-NN error"] == measures.leave_one_out_error(metric, *iris)
    assert "precision at 1" in learned
    # Some rows are equally far, and their order differs.
    assert learned["MAP@R"] == pytest.approx(measures.map_at_r(metric, *iris), abs=1e-3)
    evaluate = ["evaluate", "metric.safetensors", "rows.npy"]
    triplets = pl.read_csv("triplets.csv").to_numpy()
    expected = measures.triplet_accuracy(metric, iris[0], triplets)
    judged = document(*evaluate, "--triplets", "triplets.csv")["learned"]
    assert judged["triplets, accuracy"] == pytest.approx(expected)
    judged = document(*evaluate, "--pairs", "pairs.csv")["learned"]
    assert judged.keys() == {"pairs, AUC", "pairs, equal error rate"}


def test_on_the_terminal(run):
    result = run("evaluate", "metric.safetensors", "iris.csv", "--label", "species")
    assert "iris: 150 rows" in result.stdout
    assert "3-NN error" in result.stdout


def test_something_to_evaluate_on(fail):
    message = fail("evaluate", "metric.safetensors", "rows.npy")
    assert "--label, --triplets or --pairs" in message


@pytest.fixture
def split(folder):
    """Training rows and others, with the rows of each."""
    table = pl.read_csv("iris.csv")
    new = np.arange(150) % 3 == 0
    table.filter(~new).write_csv("train.csv")
    table.filter(new).write_csv("new.csv")
    return ~new, new


def test_new_rows_are_predicted_from_training_rows(run, document, split, iris):
    X, y = iris
    train, new = split
    options = ["new.csv", "--train", "train.csv", "--label", "species", "--neighbors", 1]
    found = document("evaluate", "metric.safetensors", *options)
    expected = {"learned": Metric.load("metric.safetensors")}
    expected["Euclidean (standardised)"] = Metric(np.diag(1 / X[train].std(axis=0)))
    expected["cosine"] = Metric(np.eye(4), unit_rows=True)
    for name, metric in expected.items():
        data = metric, X[train], y[train], X[new], y[new]
        assert found[name]["1-NN error"] == measures.knn_error(*data, n_neighbors=1)
        queries = {"X_query": X[new], "y_query": y[new]}
        assert found[name]["MAP@R"] == pytest.approx(measures.map_at_r(*data[:3], **queries))
        assert found[name]["precision at 1"] == pytest.approx(1 - found[name]["1-NN error"])
    text = run("evaluate", "metric.safetensors", *options).stdout
    assert "new: 50 rows, predicted from 100 rows of train" in text


def test_classes_may_be_few_unknown_and_of_other_types(run, document, split):
    named = pl.col("species").replace({"setosa": "1", "versicolor": "2"})
    for name, keep in (("train", "setosa|versicolor|virginica"), ("new", "setosa")):
        table = pl.read_csv(f"{name}.csv").filter(pl.col("species").str.contains(keep))
        table.with_columns(named).write_csv(f"{name}.csv")
    options = ["evaluate", "metric.safetensors", "new.csv", "--train", "train.csv"]
    assert document(*options, "--label", "species")["learned"]["3-NN error"] == 0
    table = pl.read_csv("new.csv").with_columns(pl.lit("unheard").alias("species"))
    table.vstack(pl.read_csv("new.csv").cast({"species": pl.String})).write_csv("new.csv")
    result = run(*options, "--label", "species")
    assert "train has no rows of unheard, whose rows are always wrong" in result.stderr
    assert document(*options, "--label", "species")["learned"]["3-NN error"] == 0.5


@pytest.mark.parametrize("train", [True, False])
def test_numbers(document, folder, iris, train):
    X, _ = iris
    table = pl.DataFrame(X, schema=["a", "b", "c", "width"])
    Metric.identity(3).named(["a", "b", "c"]).save("abc")
    table[::2].write_csv("train.csv")
    table[1::2].write_csv("new.csv")
    options = ["new.csv", "--label", "width", *(["--train", "train.csv"] if train else [])]
    found = document("evaluate", "abc", *options)["learned"]
    known, new = (X[::2, :3], X[::2, 3]), (X[1::2, :3], X[1::2, 3])
    given = (*known, *new) if train else new
    assert found["3-NN R²"] == pytest.approx(measures.knn_r2(Metric.identity(3), *given))
    low, high = found["3-NN R², 90 % interval"]
    assert low < found["3-NN R²"] < high < 1
    if train:
        predicted = KNeighborsRegressor(3).fit(*known).predict(new[0])
        assert found["3-NN MAE"] == pytest.approx(np.abs(predicted - new[1]).mean())


def test_training_rows_are_for_labels(fail, split):
    options = ["new.csv", "--train", "train.csv", "--pairs", "pairs.csv"]
    assert "--train is for labels" in fail("evaluate", "metric.safetensors", *options)
    message = fail("evaluate", "metric.safetensors", "new.csv", "--train", "train.csv")
    assert "--label" in message
    np.save("new.npy", pl.read_csv("new.csv").select("a", "b", "c", "d").to_numpy())
    options = ["new.npy", "--train", "both.npz"]
    assert "new has no labels" in fail("evaluate", "metric.safetensors", *options)


def test_rows_that_were_learned_from_are_noted(run, folder):
    table = pl.read_csv("iris.csv").sample(fraction=1.0, shuffle=True, seed=0)
    table[:75].write_csv("half.csv")
    table[75:].write_csv("rest.csv")
    run("learn", "half.csv", *LABELS, "--method", "lda", "--write")
    note = "the metric was learned from"
    table[:15].write_csv("few.csv")
    for source in ("half.csv", "few.csv"):
        seen = run("evaluate", "half.safetensors", source, *LABELS).stderr.lower()
        assert f"{note} 100 % of these rows" in seen
    assert note not in run("evaluate", "half.safetensors", "rest.csv", *LABELS).stderr.lower()
    assert note in run("evaluate", "half.safetensors", "iris.csv", *LABELS).stderr.lower()
    pairs = pl.DataFrame({"a": [0, 1, 2, 3], "b": [4, 5, 6, 7], "similar": [1, 0, 1, 0]})
    pairs.write_csv("pairs.csv")
    seen = run("evaluate", "half.safetensors", "few.csv", "--pairs", "pairs.csv").stderr
    assert note in seen.lower()
    judged = ["few.csv", "pairs.csv", "--label", "species"]
    assert note in run("verify", "half.safetensors", *judged).stderr.lower()
    asked = run("predict", "half.safetensors", "half.csv", "few.csv", *LABELS).stderr
    assert note in asked.lower()
    report = ["report", "few.csv", "--metric", "half.safetensors", "--budget", "1s", *LABELS]
    assert note in run(*report).stderr.lower()
    assert note in Path("few.html").read_text(encoding="utf-8").lower()


def test_units_are_those_of_comparisons(run, document):
    arguments = ["evaluate", "metric.safetensors", "iris.csv", *LABELS]
    found = document(*arguments)["learned"]
    lines = run(*arguments).stdout.splitlines()
    row = {line.split("│")[1].strip(): line.split("│")[2].strip() for line in lines if "│" in line}
    assert row["MAP@R"] == f"{found['MAP@R']:.3f}"
    assert row["3-NN error, %"] == f"{100 * found['3-NN error']:.2f}"
