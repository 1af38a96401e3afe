"""Loading by name: bundled sets, files in a folder, and names that do not exist."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearfar.datasets import available, load
from nearfar.datasets.loading import COLLECTIONS, DESCRIPTIONS

REAL = os.environ.get("NEARFAR_DATA", "")
needs_files = pytest.mark.skipif(
    not Path(REAL).is_dir() or not REAL,
    reason="NEARFAR_DATA does not name a folder of .npz files",
)
BUNDLED = ("circles", "digits", "iris", "shoes", "wdbc", "wine")
X4 = np.arange(8, dtype=np.float32).reshape(4, 2)
Y4 = np.array([0, 1, 1, 0], dtype=np.int16)


def write(folder, name, **arrays):
    np.savez(folder / f"{name}.npz", **arrays)
    return folder / f"{name}.npz"


class TestBundled:
    @pytest.mark.parametrize(
        ("name", "shape", "classes"),
        [
            ("circles", (300, 10), 3),
            ("digits", (1797, 64), 10),
            ("iris", (150, 4), 3),
            ("wdbc", (569, 30), 2),
            ("wine", (178, 13), 3),
        ],
    )
    def test_shapes_and_names(self, name, shape, classes):
        data: Any = load(name)
        assert data.name == name
        assert data.X.shape == shape
        assert data.X.dtype == np.float64
        assert np.array_equal(np.unique(data.y), np.arange(classes))
        assert len(data.target_names) == classes
        assert len(data.feature_names) == shape[1]
        assert data.triplets is None
        source = "generated" if name == "circles" else "scikit-learn"
        assert data.description.endswith(f"({source})")

    def test_alias(self):
        assert load("breast_cancer").name == "wdbc"
        assert np.array_equal(load("breast_cancer").X, load("wdbc").X)

    def test_win_over_a_file_of_the_same_name(self, tmp_path):
        for name in (*BUNDLED, "breast_cancer"):
            write(tmp_path, name, X=X4)
            assert len(load(name, folder=tmp_path).X) > 4
        assert available(tmp_path) == BUNDLED


class TestFiles:
    def test_every_field(self, tmp_path):
        triplets = np.array([[0, 1, 2], [3, 2, 1]], dtype=np.int16)
        names = np.array(["no", "yes"])
        write(
            tmp_path, "mine", X=X4, y=Y4, target_names=names, feature_names=np.array(["a", "b"]),
            triplets=triplets, is_train=Y4 == 0, Q=np.ones(3, dtype=np.float16),
        )  # fmt: skip
        data: Any = load("mine", folder=tmp_path)
        assert np.array_equal(data.X, X4)
        assert data.y.dtype == data.triplets.dtype == np.intp
        assert np.array_equal(data.y, Y4)
        assert np.array_equal(data.triplets, triplets)
        assert data.target_names == ("no", "yes")
        assert data.feature_names == ("a", "b")
        assert sorted(data.extra) == ["Q", "is_train"]
        assert data.extra["Q"].dtype == np.float32
        assert data.description == "from mine.npz"
        assert repr(data) == "<Dataset mine: 4 x 2, 2 classes, 2 triplets; from mine.npz>"

    @pytest.mark.parametrize(
        ("stored", "returned"),
        [
            *[(small, "f4") for small in ("u1", "i1", "?", "f2", "u2", "f4", ">f4")],
            *[(wide, "f8") for wide in ("i4", "u4", "i8", "f8", "longdouble")],
        ],
    )
    def test_types_of_the_rows(self, tmp_path, stored, returned):
        write(tmp_path, "typed", X=X4.astype(stored))
        X = load("typed", folder=tmp_path).X
        assert X.dtype == np.dtype(returned)
        assert np.array_equal(X, X4.astype(stored).astype(float))

    def test_missing_values_are_kept(self, tmp_path):
        holes = X4.copy()
        holes[1, 1] = np.nan
        write(tmp_path, "heart_cleveland", X=holes, X_filled=X4, y=Y4)
        data: Any = load("heart_cleveland", folder=tmp_path)
        assert np.array_equal(data.X, holes, equal_nan=True)
        assert np.array_equal(data.extra["X_filled"], X4)
        assert data.description == DESCRIPTIONS["heart_cleveland"]

    def test_the_variable_names_the_folder_and_the_argument_wins(self, monkeypatch, tmp_path):
        near, far = tmp_path / "near", tmp_path / "far"
        near.mkdir()
        far.mkdir()
        write(near, "mine", X=X4)
        write(far, "mine", X=X4 + 1)
        monkeypatch.setenv("NEARFAR_DATA", str(far))
        assert load("mine").X[0, 0] == 1
        assert load("mine", folder=near).X[0, 0] == 0

    def test_a_file_of_several_problems(self, tmp_path):
        words = np.arange(2 * 4 * 3, dtype=np.uint16).reshape(2, 4, 3)
        train = np.array([[1, 1, 0, 0], [0, 1, 1, 0]], dtype=bool)
        parts = {"bow100": words, "bow200": words + 1, "train": train, "y": Y4}
        arrays = {f"{p}_{k}": a for p in ("motor_air", "face_bg") for k, a in parts.items()}
        write(tmp_path, "caltech4_bow_splits", **arrays)
        assert available(tmp_path) == ("caltech4_face_bg", "caltech4_motor_air", *BUNDLED)
        data: Any = load("caltech4_face_bg", folder=tmp_path)
        assert np.array_equal(data.X, words[0] + 1)
        assert np.array_equal(data.extra["is_train"], train[0])
        assert np.array_equal(data.extra["bow100"], words)
        with pytest.raises(ValueError, match="load 'caltech4_motor_air' or 'caltech4_face_bg'"):
            load("caltech4_bow_splits", folder=tmp_path)

    def test_available_offers_what_loads_and_nothing_else(self, monkeypatch, tmp_path):
        assert available() == BUNDLED
        monkeypatch.setenv("NEARFAR_DATA", "")
        assert available() == BUNDLED
        write(tmp_path, "zebra", X=X4)
        write(tmp_path, "adult", X=X4)
        write(tmp_path, ".hidden", X=X4)
        (tmp_path / "text.csv.gz").write_bytes(b"")
        (tmp_path / "folder.npz").mkdir()
        assert available(tmp_path) == ("adult", *BUNDLED, "zebra")
        for name in available(tmp_path):
            assert load(name, folder=tmp_path).name == name


class TestBrokenFiles:
    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"Z": X4}, "no array X; it has Z"),
            ({}, "no array X; it has none"),
            ({"X": X4[0]}, r"\(n, d\) array; got shape \(2,\)"),
            ({"X": X4[:0]}, r"non-empty \(n, d\) array; got shape \(0, 2\)"),
            ({"X": X4.astype(str)}, "X must be numeric"),
            ({"X": X4.astype(complex)}, "X must be numeric"),
            ({"X": X4, "y": Y4[:3]}, r"y has shape \(3,\), but X has 4 rows"),
            ({"X": X4, "y": Y4[:, None]}, r"y has shape \(4, 1\)"),
            ({"X": X4, "y": Y4 + 0.5}, "integer labels; got float64"),
            ({"X": X4, "y": Y4 - 1}, "labels from 0; got -1"),
            ({"X": X4, "y": Y4, "target_names": np.array(["a"])}, "y has label 1, but"),
            ({"X": X4, "target_names": np.array([1, 2])}, "target_names must be a list of strings"),
            ({"X": X4, "feature_names": np.array(["a"])}, "1 feature_names for 2 columns"),
            ({"X": X4, "triplets": np.zeros((2, 2), int)}, "triplets need row numbers"),
            ({"X": X4, "triplets": np.zeros((2, 3))}, "triplets need integer"),
            ({"X": X4, "triplets": np.array([[0, 1, 4]])}, r"rows outside 0\.\.3"),
            ({"X": X4, "triplets": np.array([[0, -1, 2]])}, "0 or more"),
            ({"X": X4.astype(object)}, "plain .* arrays"),
            ({"X": X4, "names": np.array([{}])}, "plain .* arrays"),
        ],
    )
    def test_wrong_arrays(self, tmp_path, arrays, message):
        path = write(tmp_path, "broken", **arrays)
        with pytest.raises(ValueError, match=message) as caught:
            load("broken", folder=tmp_path)
        assert str(path) in str(caught.value)

    @pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut short"])
    def test_not_an_archive(self, tmp_path, content):
        (tmp_path / "broken.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"broken\.npz cannot be read"):
            load("broken", folder=tmp_path)

    def test_damaged_archive(self, tmp_path):
        np.savez_compressed(tmp_path / "broken.npz", X=np.random.default_rng(0).random((50, 4)))
        content = bytearray((tmp_path / "broken.npz").read_bytes())
        content[200:260] = bytes(60)
        (tmp_path / "broken.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"broken\.npz cannot be read"):
            load("broken", folder=tmp_path)

    def test_a_single_array_under_a_wrong_name(self, tmp_path):
        np.save(tmp_path / "single.npy", X4)
        (tmp_path / "single.npy").rename(tmp_path / "single.npz")
        with pytest.raises(ValueError, match=r"single\.npz cannot be read .*single array"):
            load("single", folder=tmp_path)

    def test_incomplete_file_of_several_problems(self, tmp_path):
        write(tmp_path, "caltech4_bow_splits", motor_air_y=Y4)
        with pytest.raises(ValueError, match="no array motor_air_bow200"):
            load("caltech4_motor_air", folder=tmp_path)


class TestNotFound:
    def test_close_matches(self):
        with pytest.raises(ValueError, match=r"Did you mean 'vehicle'.*available\(\)"):
            load("vehicles")
        with pytest.raises(ValueError, match="Did you mean 'balance_scale'"):
            load("Balance-Scale")
        with pytest.raises(ValueError, match="Did you mean 'iris'"):
            load("iris.npz")

    def test_close_matches_of_the_folder(self, tmp_path):
        write(tmp_path, "our_own_measurements", X=X4)
        with pytest.raises(ValueError, match="'our_own_measurements'"):
            load("our_own_measurement", folder=tmp_path)

    def test_nothing_close(self):
        with pytest.raises(ValueError, match=r"no dataset 'qqqqqqqq'\. nearfar.*available\(\)"):
            load("qqqqqqqq")

    def test_known_but_without_its_file(self, tmp_path):
        with pytest.raises(ValueError, match=r"needs the file spect\.npz.*NEARFAR_DATA"):
            load("spect", folder=tmp_path)
        with pytest.raises(ValueError, match=r"needs the file caltech4_bow_splits\.npz"):
            load("caltech4_face_bg")

    def test_names_do_not_leave_the_folder(self, tmp_path):
        inside = tmp_path / "inside"
        inside.mkdir()
        write(tmp_path, "outside", X=X4)
        with pytest.raises(ValueError, match="no dataset"):
            load("../outside", folder=inside)

    def test_no_folder(self, monkeypatch, tmp_path):
        nowhere = tmp_path / "nowhere"
        with pytest.raises(ValueError, match=r"folder is .*nowhere.* not a folder"):
            load("spect", folder=nowhere)
        monkeypatch.setenv("NEARFAR_DATA", str(nowhere))
        with pytest.raises(ValueError, match=r"NEARFAR_DATA is .*nowhere.* not a folder"):
            available()

    def test_a_name_is_a_string(self):
        with pytest.raises(TypeError, match="name must be a string; got int"):
            load(3)  # type: ignore[arg-type]


@needs_files
class TestRealFiles:
    @pytest.mark.parametrize("name", available(REAL) if Path(REAL).is_dir() and REAL else [])
    def test_loads(self, name):
        data: Any = load(name, folder=REAL)
        assert data.X.dtype in (np.float32, np.float64)
        judged = any(key.startswith("qrels") for key in data.extra)
        assert data.y is not None or data.triplets is not None or judged
        assert np.isfinite(data.extra.get("X_filled", data.X)).all()
        assert data.description

    def test_every_file_is_offered(self):
        parts = {name: tuple(names) for name, names in COLLECTIONS.items()}
        for path in Path(REAL).glob("*.npz"):
            assert set(parts.get(path.stem, (path.stem,))) <= set(available(REAL))
