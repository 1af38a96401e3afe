from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

from nearfar import Metric, Pairs, Triplets, tensorfile
from nearfar.metrics.metric import Votes


@pytest.fixture
def metric(rng):
    return Metric(rng.standard_normal((3, 5)), feature_names=["a", "b", "ü", "d d", "e"])


def test_distances_are_those_of_the_matrix(metric, rng):
    X, Y = rng.standard_normal((6, 5)), rng.standard_normal((4, 5))
    expected = [[np.sqrt((x - y) @ metric.matrix @ (x - y)) for y in Y] for x in X]
    np.testing.assert_allclose(metric.distances(X, Y), expected, rtol=1e-12)
    assert (np.diag(metric.distances(X)) == 0).all()
    pairs = metric.pair_distances(np.vstack([X, Y]), [[0, 6], [5, 9]])
    np.testing.assert_allclose(pairs, [expected[0][0], expected[5][3]], rtol=1e-12)
    np.testing.assert_allclose(metric.transform(X), X @ metric.L.T)


def test_float32_stays_float32(metric, rng):
    assert metric.transform(rng.standard_normal((2, 5)).astype(np.float32)).dtype == np.float32


def test_from_matrix_is_a_factor(rng):
    A = rng.standard_normal((2, 4))
    metric = Metric.from_matrix(A.T @ A)
    assert metric.n_components == 2
    np.testing.assert_allclose(metric.matrix, A.T @ A, atol=1e-12)
    assert Metric.from_matrix(np.zeros((3, 3))).matrix.tolist() == np.zeros((3, 3)).tolist()


@pytest.mark.parametrize(
    ("M", "message"),
    [
        ([[1.0, 2.0]], "square"),
        ([[1.0, 2.0], [0.0, 1.0]], "symmetric"),
        ([[1.0, 0.0], [0.0, -1.0]], "negative"),
        ([[np.nan]], "finite"),
    ],
)
def test_from_matrix_refuses(M, message):
    with pytest.raises(ValueError, match=message):
        Metric.from_matrix(M)


@pytest.mark.parametrize("L", [[1.0, 2.0], [[]], [[np.inf]], np.zeros((0, 3))])
def test_refuses_maps(L):
    with pytest.raises(ValueError, match="metric's L"):
        Metric(L)


def test_refuses_wrong_points(metric):
    with pytest.raises(ValueError, match="5 features; got shape"):
        metric.transform(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="shape"):
        metric.pair_distances(np.zeros((2, 5)), [[0, 1, 2]])
    for rows in ([[0, 2]], [[0, -1]]):
        with pytest.raises(ValueError, match="from 0 to 1"):
            metric.pair_distances(np.zeros((2, 5)), rows)


def test_constraints_are_as_good_as_arrays(metric, rng):
    X = rng.standard_normal((6, 5))
    index = np.array([[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(
        metric.prefers(X, Triplets(index)), metric.prefers(X, index.tolist())
    )
    pairs = Pairs(index[:, :2], [True, False])
    np.testing.assert_array_equal(
        metric.pair_distances(X, pairs), metric.pair_distances(X, index[:, :2])
    )
    with pytest.raises(ValueError, match="shape"):
        metric.prefers(X, [0, 1, 2])


@pytest.mark.parametrize(
    "votes",
    [
        (np.ones((2, 5)), np.ones(3), np.ones(2)),
        (np.ones((2, 5)), np.ones((2, 1)), np.ones(2)),
        (np.ones(2), np.ones(2), np.ones(2)),
        (np.ones((2, 5)), np.ones(2), np.array([1.0, np.nan])),
        (np.ones((2, 4)), np.ones(2), np.ones(2)),
    ],
)
def test_malformed_votes_are_refused(votes, tmp_path):
    with pytest.raises(ValueError, match=r"[Vv]otes"):
        Metric(np.eye(5), votes=Votes(*votes))
    names = ("votes.directions", "votes.alphas", "votes.thresholds")
    path = tmp_path / "votes.safetensors"
    metadata = {"format": "nearfar.metric", "version": "1"}
    tensorfile.write_tensors(
        path, {"L": np.eye(5)} | dict(zip(names, votes, strict=True)), metadata
    )
    with pytest.raises(ValueError, match=r"votes\.safetensors"):
        Metric.load(path)
    tensorfile.write_tensors(path, {"L": np.eye(5), names[0]: np.ones((1, 5))}, metadata)
    with pytest.raises(ValueError, match=r"votes\.safetensors"):
        Metric.load(path)


def test_round_trip_is_exact(metric, tmp_path):
    path = tmp_path / "metric.safetensors"
    metric.save(path)
    loaded = Metric.load(path)
    assert loaded.L.tobytes() == metric.L.tobytes()
    assert loaded.feature_names == metric.feature_names
    assert pickle.loads(pickle.dumps(metric)).L.tobytes() == metric.L.tobytes()
    assert os.listdir(tmp_path) == ["metric.safetensors"]


def test_other_safetensors_libraries_read_it_and_write_it(metric, tmp_path):
    path = tmp_path / "metric.safetensors"
    metric.save(path)
    np.testing.assert_array_equal(load_file(path)["L"], metric.L)
    save_file({"L": metric.L}, path, metadata={"format": "nearfar.metric", "version": "1"})
    np.testing.assert_array_equal(Metric.load(path).L, metric.L)


def _header(entry=None, *, metadata=None, length=None, data=bytes(16)):
    header = {"__metadata__": {"format": "nearfar.metric", "version": "1"} | (metadata or {})}
    header["L"] = {"dtype": "F64", "shape": [1, 2], "data_offsets": [0, 16]} | (entry or {})
    text = json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


BROKEN = {
    "empty": b"",
    "short": b"\x01\x00",
    "text": b"this is not a metric at all, only words",
    "header too long": _header(length=2**40),
    "header longer than file": _header(length=400),
    "truncated": _header()[:-1],
    "trailing": _header() + b"x",
    "huge shape": _header({"shape": [2**40, 2**40]}),
    "negative shape": _header({"shape": [-1, -2]}),
    "float shape": _header({"shape": [1.0, 2.0]}),
    "huge offsets": _header({"shape": [2**50], "data_offsets": [0, 2**53]}),
    "gap": _header({"data_offsets": [8, 24]}),
    "unknown type": _header({"dtype": "BF16"}),
    "no shape": _header({"shape": None}),
    "not an object": (2).to_bytes(8, "little") + b"[]",
    "deep": (1 << 16).to_bytes(8, "little") + b"[" * (1 << 16),
    "other format": _header(metadata={"format": "something else"}),
    "later version": _header(metadata={"version": "99"}),
    "kernel missing": _header(metadata={"version": "2"}),
    "gate missing": _header(metadata={"version": "3"}),
    "metadata not text": _header(metadata={"version": 1}),
    "names not a list": _header(metadata={"feature_names": "3"}),
    "names not JSON": _header(metadata={"feature_names": "["}),
    "too few names": _header(metadata={"feature_names": '["a"]'}),
    "not finite": _header(data=np.array([np.nan, 1.0]).tobytes()),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_are_refused_by_name(kind, tmp_path):
    path = tmp_path / "broken.safetensors"
    path.write_bytes(BROKEN[kind])
    with pytest.raises(ValueError, match=r"broken\.safetensors"):
        Metric.load(path)


def test_many_long_names(tmp_path):
    names = [f"rather_long_name_of_a_feature_{i}" for i in range(40_000)]
    Metric(np.ones((1, 40_000)), names).save(tmp_path / "wide.safetensors")
    assert Metric.load(tmp_path / "wide.safetensors").feature_names == tuple(names)


def test_saving_keeps_permissions_and_links(metric, tmp_path):
    real, link = tmp_path / "real.safetensors", tmp_path / "link.safetensors"
    metric.save(real)
    real.chmod(0o600)
    link.symlink_to(real)
    Metric(np.eye(2)).save(link)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert Metric.load(real).n_features == 2


def test_columns_in_another_order_are_refused():
    metric = Metric(np.diag([1.0, 2.0]), ["a", "b"])
    frame = pd.DataFrame({"b": [1.0], "a": [0.0]})
    with pytest.raises(ValueError, match="columns a, b in this order"):
        metric.transform(frame)
    assert metric.transform(frame[["a", "b"]]).tolist() == [[0.0, 2.0]]


def test_frozen_after_pickling(metric):
    copy = pickle.loads(pickle.dumps(metric))
    with pytest.raises(ValueError, match="read-only"):
        copy.L[0, 0] = 1.0


def test_extreme_matrices():
    np.testing.assert_allclose(Metric.from_matrix(np.diag([1e308, 1e307])).matrix[0, 0], 1e308)
    np.testing.assert_allclose(Metric.from_matrix(np.diag([1e-300, 0])).matrix[0, 0], 1e-300)


def test_unreadable_files_are_os_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        Metric.load(tmp_path / "missing.safetensors")
    with pytest.raises(IsADirectoryError):
        Metric.load(tmp_path)


def test_a_failed_save_leaves_the_old_file(metric, tmp_path, monkeypatch):
    path = tmp_path / "metric.safetensors"
    metric.save(path)
    before = path.read_bytes()

    def no_space(handle):
        raise OSError("no space left on device")

    monkeypatch.setattr(tensorfile.os, "fsync", no_space)
    with pytest.raises(OSError, match="no space"):
        Metric(np.eye(2)).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["metric.safetensors"]


def _distances(path, X):
    return Metric.load(path).distances(X).tobytes()


def test_another_process_computes_the_same_bytes(metric, tmp_path, rng):
    path, X = tmp_path / "metric.safetensors", rng.standard_normal((5, 5))
    metric.save(path)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_distances, (path, X)) == metric.distances(X).tobytes()


_SAVE_FOR_EVER = """
import sys
import numpy as np
from nearfar import Metric

metrics = [Metric(np.full((600, 600), value)) for value in (1.0, 2.0)]
print("ready", flush=True)
while True:
    for metric in metrics:
        metric.save(sys.argv[1])
"""


def test_killed_while_saving_leaves_a_whole_file(tmp_path):
    path = tmp_path / "metric.safetensors"
    Metric(np.full((600, 600), 1.0)).save(path)
    for wait in np.linspace(0.001, 0.05, 8):
        process = subprocess.Popen(
            [sys.executable, "-c", _SAVE_FOR_EVER, path], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "ready\n"
        time.sleep(wait)
        process.kill()
        process.communicate()
        L = Metric.load(path).L
        assert L.shape == (600, 600)
        assert L[0, 0] in (1.0, 2.0)
        assert (L[0, 0] == L).all()


def test_a_file_beyond_all_measure_is_refused_unread(tmp_path):
    path = tmp_path / "large.safetensors"
    rows = 1 << 20
    header = json.dumps(
        {
            "__metadata__": {"format": "nearfar.metric", "version": "1"},
            "L": {"dtype": "F64", "shape": [rows, rows], "data_offsets": [0, 8 * rows * rows]},
        }
    ).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 8 * rows * rows)
    with pytest.raises(ValueError, match="no more than 4294967296 are read"):
        Metric.load(path)


def test_only_files_are_replaced(metric, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not a file that could be replaced"):
        metric.save(tmp_path / "pipe")
    assert not (tmp_path / "pipe").is_file()


def test_what_may_be_read_can_be_set(metric, tmp_path):
    path = tmp_path / "metric.safetensors"
    metric.save(path)
    with pytest.raises(ValueError, match="no more than 100 are read"):
        Metric.load(path, max_bytes=100)
    Metric.load(path, max_bytes=path.stat().st_size)
