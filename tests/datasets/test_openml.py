"""OpenML, with a stand-in for scikit-learn's `fetch_openml`."""

from __future__ import annotations

import os
import urllib.error
from email.message import Message
from http.client import IncompleteRead
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sklearn.datasets

from nearfar.datasets import available, load, loading
from nearfar.datasets.loading import DESCRIPTIONS

REAL = os.environ.get("NEARFAR_DATA", "")
needs_files = pytest.mark.skipif(
    not Path(REAL).is_dir() or not REAL,
    reason="NEARFAR_DATA does not name a folder of .npz files",
)


class FakeOpenML:
    """Answers like `fetch_openml(as_frame=False)` and remembers what it was asked."""

    def __init__(self, data, target):
        self.bunch = SimpleNamespace(
            data=data, target=target, feature_names=[f"V{i}" for i in range(data.shape[1])]
        )
        self.calls: list[dict[str, object]] = []

    def __call__(self, **arguments):
        self.calls.append(arguments)
        return self.bunch


def fake_table(name, monkeypatch):
    source = loading.SETS[name]
    n, d = source.shape
    spelled = np.array(source.classes, dtype=object)[np.arange(n) % len(source.classes)]
    fake = FakeOpenML(np.arange(n * d, dtype=float).reshape(n, d) % 251, spelled)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fake)
    return fake


class TestOpenML:
    @pytest.mark.parametrize("name", sorted(set(loading.SETS) - {"mnist"}))
    def test_arguments_and_result(self, name, monkeypatch):
        fake = fake_table(name, monkeypatch)
        data: Any = load(name)
        assert fake.calls == [
            {
                "data_id": loading.SETS[name].data_id,
                "as_frame": False,
                "parser": "pandas",
                "cache": True,
            }
        ]
        assert data.X.dtype == np.float32
        assert np.array_equal(data.X, fake.bunch.data)
        assert data.target_names == loading.SETS[name].classes
        assert [data.target_names[label] for label in data.y] == fake.bunch.target.tolist()
        assert data.feature_names == tuple(fake.bunch.feature_names)
        assert data.description == f"{DESCRIPTIONS[name]} (OpenML {loading.SETS[name].data_id})"

    def test_classes_keep_the_order_of_the_files(self, monkeypatch):
        fake = fake_table("glass", monkeypatch)
        fake.bunch.target[:] = np.resize(np.sort(np.array(loading.SETS["glass"].classes)), 214)
        assert np.asarray(load("glass").y)[:6].tolist() == [0, 1, 3, 5, 4, 2]

    def test_rows_with_missing_values_are_dropped_where_the_files_drop_them(self, monkeypatch):
        whole = np.arange(683 * 9, dtype=float).reshape(683, 9)
        torn = np.full((16, 9), 1.0)
        torn[:, 5] = np.nan
        target = np.resize(np.array(["malignant", "benign"], dtype=object), 699)
        fake = FakeOpenML(np.vstack([torn, whole]), target)
        monkeypatch.setattr(sklearn.datasets, "fetch_openml", fake)
        data: Any = load("breast_cancer_wisconsin")
        assert np.array_equal(data.X, whole)
        assert data.y[:2].tolist() == [1, 0]

    def test_numbers_that_arrive_as_objects(self, monkeypatch):
        fake = fake_table("balance_scale", monkeypatch)
        fake.bunch.data = fake.bunch.data.astype(int).astype(str).astype(object)
        assert load("balance_scale").X.dtype == np.float32

    def test_agreed_training_part(self, monkeypatch):
        short = loading.OpenMLTable(554, (7, 2), ("0", "1"), n_train=5)
        monkeypatch.setattr(loading, "SETS", {"mnist": short})
        fake_table("mnist", monkeypatch)
        assert load("mnist").extra["is_train"].tolist() == [True] * 5 + [False] * 2
        assert "is_train" not in load("digits").extra

    def test_without_pandas(self, monkeypatch):
        fake = fake_table("sonar", monkeypatch)
        monkeypatch.setattr(loading, "find_spec", lambda _: None)
        load("sonar")
        assert fake.calls[0]["parser"] == "liac-arff"

    @pytest.mark.parametrize(
        "failure",
        [
            urllib.error.URLError("no route"),
            urllib.error.HTTPError("address", 503, "overloaded", Message(), None),
            TimeoutError("timed out"),
            IncompleteRead(b""),
            ValueError("Dataset with data_id 54 not found."),
        ],
        ids=lambda failure: type(failure).__name__,
    )
    def test_one_error_for_all_failures(self, failure, monkeypatch):
        def fail(**arguments):
            raise failure

        monkeypatch.setattr(sklearn.datasets, "fetch_openml", fail)
        with pytest.raises(ConnectionError, match=r"NEARFAR_DATA .*folder with vehicle\.npz") as e:
            load("vehicle")
        assert e.value.__cause__ is failure

    def test_the_error_of_openml_itself_is_one_of_them(self):
        from sklearn.datasets._openml import OpenMLError

        assert issubclass(OpenMLError, ValueError)

    @pytest.mark.parametrize("change", ["shape", "classes", "text", "missing target"])
    def test_another_table_than_expected(self, change, monkeypatch):
        bunch = fake_table("vehicle", monkeypatch).bunch
        if change == "shape":
            bunch.data = bunch.data[:, :-1]
        elif change == "classes":
            bunch.target[0] = "tram"
        elif change == "text":
            bunch.data = np.full((846, 18), "x", dtype=object)
        else:
            bunch.target = None
        with pytest.raises(ValueError, match="OpenML's data 54 is not 'vehicle'"):
            load("vehicle")

    @needs_files
    @pytest.mark.parametrize("name", sorted(loading.SETS))
    def test_the_table_agrees_with_the_files(self, name):
        if name not in available(REAL):
            pytest.skip(f"the folder has no {name}.npz")
        data: Any = load(name, folder=REAL)
        assert data.X.shape == loading.SETS[name].shape
        assert len(np.unique(data.y)) == len(loading.SETS[name].classes)
