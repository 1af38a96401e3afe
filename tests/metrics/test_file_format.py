"""The file format: exact round trips, old files, and files that must be refused."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from nearfar import GatedMetric, Metric
from nearfar.columns import Columns
from nearfar.columns.guess import Boolean, Category, Date, Number, Vector
from nearfar.metrics.feature_maps import KernelMap
from nearfar.metrics.file_format import read_metadata
from nearfar.metrics.metric import Votes

OLD_FILES = Path(__file__).parent / "files"


@pytest.fixture
def metric(rng):
    return Metric(rng.standard_normal((3, 5)), feature_names=["a", "b", "ü", "d d", "e"])


def test_round_trip_is_exact(metric, tmp_path):
    path = tmp_path / "metric.safetensors"
    metric.save(path)
    loaded = Metric.load(path)
    assert loaded.L.tobytes() == metric.L.tobytes()
    assert loaded.feature_names == metric.feature_names
    assert pickle.loads(pickle.dumps(metric)).L.tobytes() == metric.L.tobytes()
    assert os.listdir(tmp_path) == ["metric.safetensors"]


L = np.array([[1.0, -2.0, 1 / 3], [0.1, 1e-300, 7.0]])
VOTES = Votes(L, np.array([0.5, -0.25]), np.array([1.0, 4.0]))
BASIS = KernelMap(
    points=np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]),
    whitening=np.array([[1.0, 0.5, 0.0], [0.5, 2.0, 0.0], [0.0, 0.0, 3.0]]),
    kernel="rbf",
    parameters={"gamma": 0.1},
    center=np.array([1.0, 2.0]),
    scale=np.array([3.0, 4.0]),
)
NAMES = ["a", "b", "c"]
GATED = GatedMetric(
    [Metric(L, NAMES), Metric(L[:1], NAMES)], [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.1]], [0.0, 0.3]
)
KINDS = {
    "version-1": Metric(L, ["a", "ü", "d d"]),
    "version-1-votes": Metric(L, votes=VOTES),
    "version-2": Metric(L, ["p", "q"], feature_map=BASIS),
    "version-3": GATED,
}


def _arrays(metric):
    """All arrays of a metric, as bytes."""
    owners = [*metric.parts, metric.votes, metric.feature_map, metric]
    values = [value for owner in owners if owner is not None for value in vars(owner).values()]
    return [value.tobytes() for value in values if isinstance(value, np.ndarray)]


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_the_first_writer_are_read(kind):
    """The files in `files` were written before safetensors was used, by a writer of our own."""
    loaded, expected = Metric.load(OLD_FILES / f"{kind}.safetensors"), KINDS[kind]
    assert type(loaded) is type(expected)
    assert _arrays(loaded) == _arrays(expected)
    assert loaded.feature_names == expected.feature_names
    X = np.arange(4.0 * expected.n_features).reshape(4, -1)
    assert loaded.distances(X).tobytes() == expected.distances(X).tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_the_same_arrays_and_metadata_as_before(kind, tmp_path):
    path, old = tmp_path / "metric.safetensors", OLD_FILES / f"{kind}.safetensors"
    KINDS[kind].save(path)
    with safe_open(path, "numpy") as new, safe_open(old, "numpy") as before:
        assert new.metadata() == before.metadata()
    arrays, expected = load_file(path), load_file(old)
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        assert array.tobytes() == expected[name].tobytes()


def test_equal_metrics_give_equal_files(tmp_path):
    """safetensors itself orders metadata at random."""
    metadata = {f"key {i} ü": f'value "{i}"' for i in range(20)}
    for name in ("one", "two"):
        GATED.save(tmp_path / name, metadata=metadata)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert read_metadata(tmp_path / "one") == metadata


def test_arrays_of_any_memory_order_are_written_as_they_are(tmp_path):
    path = tmp_path / "metric.safetensors"
    whitening = np.asfortranarray(np.arange(9.0).reshape(3, 3))
    basis = KernelMap(BASIS.points[::-1], whitening, "rbf", {}, BASIS.center, BASIS.scale)
    Metric(L, feature_map=basis).save(path)
    loaded = Metric.load(path).feature_map
    np.testing.assert_array_equal(loaded.whitening, whitening)
    np.testing.assert_array_equal(loaded.points, BASIS.points[::-1])


def test_a_gate_of_one_metric_stays_a_gate(tmp_path):
    GatedMetric([Metric.identity(2)], [[1.0, 0.0]], [0.0]).save(tmp_path / "gate.safetensors")
    assert isinstance(Metric.load(tmp_path / "gate.safetensors"), GatedMetric)


def test_metadata_of_the_caller(metric, tmp_path):
    path = tmp_path / "metric.safetensors"
    metric.save(path, metadata={"seed": "7", "note": "ü"})
    assert read_metadata(path) == {"seed": "7", "note": "ü"}
    assert Metric.load(path).L.tobytes() == metric.L.tobytes()
    metric.save(path)
    assert read_metadata(path) == {}
    with pytest.raises(ValueError, match="'version' is reserved"):
        metric.save(path, metadata={"version": "7"})
    save_file({"L": np.eye(2)}, path)
    with pytest.raises(ValueError, match="another format"):
        read_metadata(path)


def test_what_cannot_be_saved(tmp_path):
    path = tmp_path / "metric.safetensors"
    own = KernelMap(BASIS.points, np.eye(3), np.dot, {}, BASIS.center, BASIS.scale)
    with pytest.raises(ValueError, match="Python function"):
        Metric(L, feature_map=own).save(path)
    with pytest.raises(ValueError, match="header too large"):
        Metric(L).save(path, metadata={"long": "x" * 100_000_000})
    assert os.listdir(tmp_path) == []


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
    "unknown type": _header({"dtype": "XYZ"}),
    "complex": _header({"dtype": "C64"}),
    "too many dimensions": _header({"shape": [1] * 70 + [2]}),
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
    "names not text": _header(metadata={"feature_names": "[1, null]"}),
    "names in names": _header(metadata={"feature_names": "[" * 10**5 + "]" * 10**5}),
    "too few names": _header(metadata={"feature_names": '["a"]'}),
    "not finite": _header(data=np.array([np.nan, 1.0]).tobytes()),
    "too large": _header(data=np.array([1.0, -1e308]).tobytes()),
    "squares overflow": _header(data=np.array([1e200, 1e-200]).tobytes()),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_are_refused_by_name(kind, tmp_path):
    path = tmp_path / "broken.safetensors"
    path.write_bytes(BROKEN[kind])
    with pytest.raises(ValueError, match=r"broken\.safetensors"):
        Metric.load(path)


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
    with pytest.raises(ValueError, match=r"[Vv]ote"):
        Metric(np.eye(5), votes=Votes(*votes))
    names = ("votes.directions", "votes.alphas", "votes.thresholds")
    tensors = {"L": np.eye(5)} | dict(zip(names, votes, strict=True))
    _refused(tmp_path, tensors, {"version": "1"})
    del tensors["votes.alphas"]
    _refused(tmp_path, tensors, {"version": "1"})


@pytest.mark.parametrize(
    "kernel",
    [
        '["rbf", {"gamma": NaN}]',
        '["rbf", {"gamma": 1%s}]' % ("0" * 400),
        '["rbf", {"metric": 1.0}]',
        '["system", {}]',
        '["rbf"]',
        "{}",
        "[" * 5000,
    ],
)
def test_malformed_kernels_are_refused(kernel, tmp_path):
    tensors = load_file(OLD_FILES / "version-2.safetensors")
    _refused(tmp_path, tensors, {"version": "2", "kernel": kernel})


def _refused(folder, tensors, metadata):
    path = folder / "broken.safetensors"
    save_file(tensors, path, {"format": "nearfar.metric", **metadata})
    with pytest.raises(ValueError, match=r"broken\.safetensors: not a valid metric: .*\.$"):
        Metric.load(path)


def test_unreadable_files_are_os_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        Metric.load(tmp_path / "missing.safetensors")
    with pytest.raises(IsADirectoryError):
        Metric.load(tmp_path)


_KILLED_AT_EACH_STEP = """
import os, signal, sys
from pathlib import Path
from nearfar import Metric
from nearfar.runtime import tensor_file

def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

steps = [(tensor_file, "with_sorted_metadata"), (os, "fsync"), (Path, "chmod"), (Path, "replace")]
for owner, name in steps:
    child = os.fork()
    if child == 0:
        setattr(owner, name, die)
        Metric.identity(600).save(sys.argv[1])
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, name
"""


@pytest.mark.slow
def test_killed_while_saving_leaves_the_old_file(metric, tmp_path):
    path = tmp_path / "metric.safetensors"
    metric.save(path)
    before = path.read_bytes()
    subprocess.run([sys.executable, "-c", _KILLED_AT_EACH_STEP, path], check=True)
    assert path.read_bytes() == before


def test_a_huge_file_is_refused_unread(tmp_path):
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
    with pytest.raises(ValueError, match="more than the limit of 4294967296"):
        Metric.load(path)


COLUMNS = Columns.of(
    (
        Number("age", (30.5,), True),
        Boolean("paid", (1.0,), False),
        Category("city", ("Köln", "Ulm"), True, 3),
        Date("joined", (2021.0, 6.5, 2.0, 100.25), False, "2020-02-29"),
        Vector("emb", (0.1, 1 / 3), False),
    ),
    {"id": "looks like ids"},
)
WITH_COLUMNS = Metric(np.arange(24.0).reshape(2, 12) / 7).with_columns(COLUMNS)


def test_files_with_columns_stay_readable(tmp_path):
    """`version-5.safetensors` was written by the first version that had columns."""
    old = OLD_FILES / "version-5.safetensors"
    loaded = Metric.load(old)
    assert loaded.columns == COLUMNS
    assert loaded.L.tobytes() == WITH_COLUMNS.L.tobytes()
    WITH_COLUMNS.save(tmp_path / "new.safetensors")
    assert (tmp_path / "new.safetensors").read_bytes() == old.read_bytes()


@pytest.mark.parametrize("columns", ["junk", "{}", "[]", "null", None, "{}" * 1000])
def test_damaged_columns_are_refused(tmp_path, columns):
    old = OLD_FILES / "version-5.safetensors"
    with safe_open(old, framework="numpy") as file:
        metadata = file.metadata()
    del metadata["columns"]
    if columns is not None:
        metadata["columns"] = columns
    save_file(load_file(old), tmp_path / "bad.safetensors", metadata=metadata)
    with pytest.raises(ValueError, match=r"bad\.safetensors: not a valid metric"):
        Metric.load(tmp_path / "bad.safetensors")


@pytest.mark.parametrize("name", [5, None, ["a"], {}])
def test_names_of_columns_are_text(tmp_path, name):
    old = OLD_FILES / "version-5.safetensors"
    with safe_open(old, framework="numpy") as file:
        metadata = file.metadata()
    columns = json.loads(metadata["columns"])
    columns["columns"][0]["name"] = name
    metadata["columns"] = json.dumps(columns)
    save_file(load_file(old), tmp_path / "bad.safetensors", metadata=metadata)
    with pytest.raises(ValueError, match="is not the name of a column"):
        Metric.load(tmp_path / "bad.safetensors")


@pytest.mark.parametrize("name", ["gate.V", "L.1", "votes.directions"])
def test_maps_whose_distances_overflow_are_refused(tmp_path, name):
    parts = [Metric.identity(2), Metric.identity(2)]
    metric = GatedMetric(parts, np.eye(2), np.zeros(2))
    if name.startswith("votes"):
        metric = Metric(np.eye(2), votes=Votes(np.eye(2), np.ones(2), np.ones(2)))
    path = tmp_path / "metric.safetensors"
    metric.save(path)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    save_file(load_file(path) | {name: np.full((2, 2), 1e151)}, path, metadata=metadata)
    with pytest.raises(ValueError, match=f"its array '{name}' has numbers up to 1e.151"):
        Metric.load(path)
