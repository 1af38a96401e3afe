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
