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
