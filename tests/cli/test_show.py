from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import nearfar
from nearfar import (
    ForestMetric,
    GatedMetric,
    MaxMarginMetric,
    Metric,
    PiecewiseMetric,
    RetrievalAdapter,
)
from nearfar.frames.reading import read_table
from nearfar.metrics.explanations import column_shares, feature_importances
from nearfar.metrics.training_facts import save_learned
from search.problems import topic_search


def test_a_metric(document):
    found = document("show", "metric.safetensors")["metrics"][0]
    metric = Metric.load("metric.safetensors")
    share = np.diag(metric.matrix) / np.trace(metric.matrix)
    assert found["features"]["c"] == pytest.approx(share[2])
    assert found["rank"] == 4


def test_units_do_not_matter(document, run, folder):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = np.column_stack([y + 0.3 * rng.normal(size=200), 1e-4 * rng.normal(size=200)])
    np.savez(folder / "rows.npz", X=X, y=y)
    options = ["--method", "boost", "--scale", "standard", "--write"]
    run("learn", "rows.npz", *options)
    found = document("show", "rows.safetensors")
    assert found["standardised"]
    assert found["metrics"][0]["features"]["x0"] > 0.8
    assert "x0" in found["metrics"][0]["text"][0].split(",")[0]
    metric = Metric.load("rows.safetensors")
    assert metric.matrix[1, 1] > metric.matrix[0, 0]
    Metric(metric.L).save("old.safetensors")  # without what the file says of its rows
    result = run("show", "old.safetensors")
    assert "their shares depend on the units" in result.stderr
    assert not document("show", "old.safetensors")["standardised"]
    assert "shares depend" not in run("show", "rows.safetensors").stderr


@pytest.fixture
def dated(run):
    """A metric of LDA with a column that matters, and a date whose year and days are collinear."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    first, days = datetime.date(2018, 1, 1), rng.integers(2500, size=240).tolist()
    table = pl.DataFrame(
        {
            "size": y + rng.normal(0, 0.4, 240),
            "weight": rng.normal(0, 1, 240),
            "hired": [first + datetime.timedelta(days=day) for day in days],
            "plan": rng.choice(["basic", "pro", "team"], 240),
            "kind": np.array(["a", "b"])[y],
        }
    )
    table.write_csv("staff.csv")
    run("learn", "staff.csv", "--label", "kind", "--method", "lda", "--write")
    return Metric.load("staff.safetensors")


def test_columns_are_ordered_as_in_a_report(dated, document, run):
    found = document("show", "staff.safetensors")["metrics"][0]
    X = read_table("staff.csv", metric=dated).X
    names, shares = column_shares(feature_importances(dated, X), dated.columns.sources)
    order = np.argsort(-np.abs(shares))
    assert list(found["columns"]) == [names[j] for j in order]
    assert list(found["columns"].values()) == pytest.approx(shares[order])
    assert names[order[0]] == "size"
    assert found["correlations"]
    result = run("show", "staff.safetensors")
    table = result.stdout.partition("Leading")[0]
    assert "plan=" not in table
    assert "hired (" not in table
    assert "correlations" not in result.stderr


def test_directions_have_one_loading_for_a_column(dated, document, run):
    (direction,) = document("show", "staff.safetensors")["metrics"][0]["directions"]
    assert set(direction["loadings"]) == {"size", "weight", "hired", "plan"}
    assert direction["loadings"]["size"] > 0.9
    by_spread = Metric.load("staff.safetensors")
    by_spread.save("old", metadata={"feature_spreads": str([1.0] * by_spread.n_features)})
    assert "if columns correlate, believe the report" in run("show", "old").stderr


def test_what_columns_became(dated, document, run, fail):
    found = document("show", "staff.safetensors", "--columns")
    assert [each["column"] for each in found] == ["size", "weight", "hired", "plan"]
    assert found[3]["taken_as"] == "category, 3 levels"
    assert "category, 3 levels" in run("show", "staff.safetensors", "--columns").stdout
    assert "number" in run("show", "metric.safetensors", "--columns").stdout
    assert "the rows were an array" in fail("show", "gated.safetensors", "--columns")


def test_damaged_entries(fail):
    for text in ("[]", "[{}]", '[{"shares": [1], "directions": []}]', "[3]", "[[1, 2]]", "{}"):
        Metric.identity(2).save("bad", metadata={"importance": text})
        assert "damaged entry 'importance'" in fail("show", "bad")
    nested = "[" * 10**5 + "]" * 10**5
    for text in ("[1", '"a"', nested, "[-1, 1]", "[NaN, 1]", '["a", 1]', "[[1], 1]", "[1e300, 1]"):
        Metric.identity(2).save("bad", metadata={"feature_spreads": text})
        assert "damaged entry 'feature_spreads'" in fail("show", "bad")
    for value in ('"x"', "[1]", "NaN", "true", '{"a":' * 10**5 + "1" + "}" * 10**5):
        entry = f'{{"value": {value}, "criterion": "eer", "pairs": null}}'
        Metric.identity(2).save("bad", metadata={"threshold": entry})
        assert "damaged entry 'threshold'" in fail("show", "bad")


def test_features_of_one_name(run, fail):
    Metric(np.eye(2), ["a", "a"]).save("twice.safetensors")
    run("show", "twice.safetensors")
    message = "The metric has several features named 'a'"
    assert message in fail("transform", "twice.safetensors", "iris.csv", "out.csv")


def test_a_gated_metric(run, document):
    assert "Metric 2:" in run("show", "gated.safetensors").stdout
    found = document("show", "gated.safetensors")
    assert found["gated"]
    assert len(found["metrics"]) == 2


def test_a_kernel(run, iris):
    kernel = MaxMarginMetric(kernel="rbf", n_basis=10, random_state=0)
    kernel.fit(*iris).metric_.save("kernel")
    assert "Before the linear map: rbf" in run("show", "kernel").stdout


def test_trees_and_pieces_have_shares_of_columns(run, document, iris):
    X, y = iris
    forest = ForestMetric(n_trees=10).fit(X, y).metric_
    metric = Metric.sum([Metric(np.eye(4)), forest, PiecewiseMetric().fit(X, y).metric_])
    save_learned(metric, Path("bent.safetensors"), X)
    text = run("show", "bent.safetensors").stdout
    assert "Before the linear map: linear + leaves + pieces." in text
    assert "Leading directions" not in text
    (found,) = document("show", "bent.safetensors")["metrics"]
    expected = feature_importances(metric, X)
    assert list(found["features"].values()) == pytest.approx(sorted(expected, reverse=True))
    metric.save("plain.safetensors")
    assert "single features have no weights" in run("show", "plain.safetensors").stdout


def test_unused_metrics_of_a_gate(run, document):
    parts = [Metric(np.eye(4)), Metric(np.zeros((1, 4)))]
    GatedMetric(parts, np.eye(2, 4), np.zeros(2)).save("gated")
    assert "Unused: all distances are zero." in run("show", "gated").stdout
    assert document("show", "gated")["metrics"][1]["unused"]


def test_many_features(run):
    Metric.identity(40).save("wide")
    assert "... and 25 more" in run("show", "wide").stdout


def test_errors(fail):
    assert "no file" in fail("show", "none")
    assert "not a safetensors file" in fail("show", "iris.csv")


def test_the_figures_of_an_adapter_say_what_they_are(run):
    adapter = RetrievalAdapter(max_iter=2).fit(*topic_search())
    assert adapter.chosen_.n_queries
    adapter.save("adapter")
    assert "These queries chose the settings below; the verdict of" in run("show", "adapter").stdout


def test_a_metric_of_one_coordinate(run, folder):
    Metric([[1.0, 2.0, 0.5]]).save("one.safetensors")
    lines = run("show", "one.safetensors").stdout.splitlines()
    assert lines[1] == "Rank 1"
    Metric([[1.0, 2.0, 0.5], [1.0, 0.0, 0.0]]).save("two.safetensors")
    text = run("show", "two.safetensors").stdout.splitlines()[1]
    assert text.startswith("Rank 2; eigenvalues relative to the largest: 1 0.")
    assert len(text.split(": ")[1].split()) == 2
    result = run("export", "one.safetensors", "--to", "numpy", "--out", "one.py")
    assert "3 features to 1 coordinate, written" in result.stdout
    assert '"""A metric: 3 features to 1 coordinate.' in (folder / "one.py").read_text()


def test_names_do_not_control_the_terminal(run, folder):
    """Files may be from others."""
    wild = ["\x1b[2Jgone", "\x9b31m", "a\rb", "\u202eright"]
    Metric(np.diag([1.0, 2, 3, 4])).named(wild).save("wild.safetensors")
    for options in ([], ["--json"]):
        shown = run("show", "wild.safetensors", *options).output
        assert not {"\x1b", "\x9b", "\r", "\u202e"} & set(shown)
    assert "x1b[2Jgone" in run("show", "wild.safetensors").output
    failed = run("learn", "no \x1b[2J file.csv", "--label", "\x9b31m", code=2)
    assert "\x1b[2J" not in failed.output


def test_negative_shares_are_explained(run, folder):
    """Of correlated columns whose differences a metric subtracts."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=200)
    x, z = common + 0.5 * rng.normal(size=200), common + 0.5 * rng.normal(size=200)
    k = np.where(x - 0.4 * z > 0, "a", "b")
    pl.DataFrame({"x": x, "z": z, "k": k}).write_csv("t.csv")
    run("learn", "t.csv", "--label", "k", "--method", "lda", "--write")
    shown = run("show", "t.safetensors").stdout
    assert "-" in shown[shown.index("share %") : shown.index("Leading")]
    assert "negative share cancels differences in others" in shown


def test_where_a_file_comes_from(run, document, folder):
    options = ["--label", "species", "--drop", "name", "--method", "lda", "--write"]
    run("learn", "iris.csv", *options, "--out", "learned.safetensors")
    made = document("show", "learned.safetensors")["provenance"]
    assert (made["made"], made["data"]) == ("2026-01-01T00:00:00Z", {"rows": 150})
    last, verdict = run("show", "learned.safetensors").stdout.splitlines()[-2:]
    assert last == (
        f"Made {made['made']} by nearfar {nearfar.__version__} from 150 rows "
        f"(fingerprint {made['fingerprint']})."
    )
    assert verdict == f"Verdict: {made['verdict']}"
    assert "LDA helps" in verdict
    # Files of before do not say.
    assert document("show", "metric.safetensors")["provenance"] is None
    assert "Made" not in run("show", "metric.safetensors").stdout
