from __future__ import annotations

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

from nearfar import MaxMarginMetric, Metric


def mapped(path, X):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["mapped"], {"X": X})[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_model_is_transform(tmp_path, metric, rows, dtype):
    path = tmp_path / "metric.onnx"
    metric.to_onnx(path, dtype=dtype)
    X = rows.astype(dtype)
    found, expected = mapped(path, X), metric.transform(X)
    assert found.dtype == expected.dtype
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())
    assert mapped(path, X[:0]).shape == (0, metric.n_components)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_trees_and_pieces(tmp_path, bent, rows, dtype):
    path = tmp_path / "metric.onnx"
    bent.to_onnx(path, dtype=dtype)
    X = rows.astype(dtype)
    found, expected = mapped(path, X), bent.transform(X)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    assert mapped(path, X[:0]).shape == (0, bent.n_components)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_points_near_thresholds_go_the_same_way(tmp_path, bent_metrics, rows, dtype):
    metric = bent_metrics["forest"]
    metric.to_onnx(tmp_path / "metric.onnx", dtype=dtype)
    leaves = metric.feature_map
    inner = np.flatnonzero(leaves.forest.right)[:400]
    j = leaves.forest.feature[inner]
    bound = leaves.forest.threshold[inner] * leaves.scale[j] + leaves.center[j]
    X = rows[:400].astype(dtype)
    one = np.asarray(1, dtype)
    for factor in (one - 3e-8, np.nextafter(one, 0), one, np.nextafter(one, 2), one + 3e-8):
        X[np.arange(len(inner)), j] = (bound * factor).astype(dtype)
        found = mapped(tmp_path / "metric.onnx", X)
        np.testing.assert_allclose(found, metric.transform(X), rtol=0, atol=1e-5)


def test_lengths_do_not_overflow(tmp_path):
    metric = Metric(np.eye(3), unit_rows=True)
    metric.to_onnx(tmp_path / "metric.onnx")
    X = np.array([[3e30, 0, 4e30], [0, 0, 0], [0, 1e-30, 0]], dtype=np.float32)
    found = mapped(tmp_path / "metric.onnx", X)
    np.testing.assert_allclose(found, [[0.6, 0, 0.8], [0, 0, 0], [0, 1, 0]], rtol=1e-6)


def test_feature_names(tmp_path):
    Metric(np.eye(2), ["a", "b"]).to_onnx(tmp_path / "metric.onnx")
    properties = onnx.load(tmp_path / "metric.onnx").metadata_props
    assert json.loads(properties[0].value) == ["a", "b"]


def test_errors(monkeypatch, tmp_path, rows):
    metric = Metric.identity(2)
    with pytest.raises(ValueError, match="'float32' or 'float64'"):
        metric.to_onnx(tmp_path / "metric.onnx", dtype="int8")
    y = np.arange(60) % 2
    kernel = MaxMarginMetric(kernel="rbf", n_basis=5, random_state=0).fit(rows[:60], y).metric_
    with pytest.raises(ValueError, match="a kernel or trees cannot be exported"):
        kernel.to_onnx(tmp_path / "metric.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"nearfar\[onnx\]"):
        metric.to_onnx(tmp_path / "metric.onnx")
    assert not list(tmp_path.iterdir())
