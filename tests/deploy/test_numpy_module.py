from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from nearfar import Metric

SCRIPT = """
import sys
import numpy as np
import metric_map
np.save("mapped.npy", metric_map.transform(np.load("rows.npy")))
assert "nearfar" not in sys.modules
"""


def test_a_module_needs_only_numpy(tmp_path, metric, rows):
    metric.to_numpy(tmp_path / "metric_map.py")
    np.save(tmp_path / "rows.npy", rows)
    subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, check=True)
    expected = metric.transform(rows)
    np.testing.assert_allclose(np.load(tmp_path / "mapped.npy"), expected, rtol=1e-12, atol=1e-12)


def test_trees_and_pieces_need_only_numpy(tmp_path, bent, rows):
    bent.to_numpy(tmp_path / "metric_map.py")
    np.save(tmp_path / "rows.npy", rows)
    subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, check=True)
    # Vectors of leaves are computed in float32.
    expected = bent.transform(rows)
    np.testing.assert_allclose(np.load(tmp_path / "mapped.npy"), expected, rtol=0, atol=1e-5)


def test_arrays_of_trees_and_pieces(tmp_path, bent_metrics):
    metric = bent_metrics["all"]
    metric.to_numpy(tmp_path / "metric.npz")
    with np.load(tmp_path / "metric.npz") as arrays:
        assert arrays["maps"].tolist() == ["linear", "leaves", "pieces"]
        _, leaves, pieces = metric.feature_map.maps
        np.testing.assert_array_equal(arrays["threshold_1"], leaves.forest.threshold)
        np.testing.assert_array_equal(arrays["low_2"], pieces.low)


def test_a_module_checks_its_rows(tmp_path):
    Metric(np.eye(2), ["a", 'b"\\']).to_numpy(tmp_path / "map.py")
    module = {}
    exec((tmp_path / "map.py").read_text(), module)
    assert module["FEATURE_NAMES"] == ("a", 'b"\\')
    with pytest.raises(ValueError, match=r"shape \(n, 2\); got \(1, 3\)"):
        module["transform"](np.zeros((1, 3)))


def test_arrays(tmp_path, metric):
    metric.to_numpy(tmp_path / "metric.npz")
    with np.load(tmp_path / "metric.npz") as arrays:
        np.testing.assert_array_equal(arrays["L"], metric.L)
        assert not arrays["b"].any()
        assert arrays["unit_rows"] == metric.unit_rows


def test_other_files(tmp_path):
    with pytest.raises(ValueError, match=r"a \.py file for a module, or \.npz"):
        Metric.identity(2).to_numpy(tmp_path / "metric.txt")


def test_arrays_have_the_names_of_features(tmp_path):
    Metric(np.eye(2), ["length", "width"]).to_numpy(tmp_path / "named.npz")
    with np.load(tmp_path / "named.npz") as arrays:
        assert arrays["feature_names"].tolist() == ["length", "width"]
    Metric(np.eye(2)).to_numpy(tmp_path / "plain.npz")
    with np.load(tmp_path / "plain.npz") as arrays:
        assert "feature_names" not in arrays
