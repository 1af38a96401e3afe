from __future__ import annotations

import numpy as np
import pytest

from nearfar import GatedMetric, MaxMarginMetric, Metric


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
    options = ["--method", "boost", "--scale", "standard", "--no-comparison"]
    run("learn", "rows.npz", *options)
    found = document("show", "rows.safetensors")
    assert found["standardised"]
    assert found["metrics"][0]["features"]["x0"] > 0.8
    assert "x0" in found["metrics"][0]["text"][0].split(",")[0]
    metric = Metric.load("rows.safetensors")
    assert metric.matrix[1, 1] > metric.matrix[0, 0]
    metric.save("old.safetensors")
    result = run("show", "old.safetensors")
    assert "their shares depend on the units" in result.stderr
    assert not document("show", "old.safetensors")["standardised"]
    assert "shares depend" not in run("show", "rows.safetensors").stderr


def test_damaged_entries(fail):
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
    assert "Kernel: rbf" in run("show", "kernel").stdout


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
