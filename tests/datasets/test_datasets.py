from __future__ import annotations

import os
import pickle
import urllib.error
from email.message import Message
from http.client import IncompleteRead
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sklearn.datasets
from scipy.spatial.distance import cdist
from sklearn.covariance import empirical_covariance
from sklearn.neighbors import KNeighborsClassifier

from nearfar.datasets import (
    Dataset,
    available,
    load,
    make_circles,
    make_helix,
    make_known_metric,
    make_triplets_from_metric,
    make_twin_peaks,
    openml,
)
from nearfar.datasets.catalogue import COLLECTIONS, DESCRIPTIONS

REAL = os.environ.get("NEARFAR_DATA", "")
needs_files = pytest.mark.skipif(
    not Path(REAL).is_dir() or not REAL,
    reason="NEARFAR_DATA does not name a folder of .npz files",
)
BUNDLED = ("digits", "iris", "wdbc", "wine")
X4 = np.arange(8, dtype=np.float32).reshape(4, 2)
Y4 = np.array([0, 1, 1, 0], dtype=np.int16)


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """No folder from outside, and no network, unless a test says so."""

    def refuse(**arguments):
        raise AssertionError(f"fetch_openml called with {arguments}")

    monkeypatch.delenv("NEARFAR_DATA", raising=False)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", refuse)


def write(folder, name, **arrays):
    np.savez(folder / f"{name}.npz", **arrays)
    return folder / f"{name}.npz"


class TestBundled:
    @pytest.mark.parametrize(
        ("name", "shape", "classes"),
        [
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
        assert data.description.endswith("(scikit-learn)")

    def test_alias(self):
        assert load("breast_cancer").name == "wdbc"
        assert np.array_equal(load("breast_cancer").X, load("wdbc").X)

    def test_digits_know_their_image_shape(self):
        assert load("digits").extra["image_shape"].tolist() == [8, 8]

    def test_win_over_a_file_of_the_same_name(self, tmp_path):
        for name in (*BUNDLED, "breast_cancer"):
            write(tmp_path, name, X=X4)
            assert len(load(name, folder=tmp_path).X) > 4
        assert available(tmp_path) == BUNDLED

    def test_need_no_folder_even_if_the_variable_is_wrong(self, monkeypatch, tmp_path):
        monkeypatch.setenv("NEARFAR_DATA", str(tmp_path / "nowhere"))
        assert load("iris").X.shape == (150, 4)


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

    def test_only_the_rows_are_needed(self, tmp_path):
        write(tmp_path, "bare", X=X4)
        data = load("bare", folder=str(tmp_path))
        assert (data.y, data.target_names, data.feature_names, data.triplets) == (None,) * 4
        assert dict(data.extra) == {}

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

    def test_a_file_wins_over_openml(self, tmp_path):
        write(tmp_path, "vehicle", X=X4, y=Y4)
        assert load("vehicle", folder=tmp_path).X.shape == (4, 2)

    def test_a_home_folder_is_expanded(self, monkeypatch, tmp_path):
        monkeypatch.setenv("HOME", str(tmp_path))
        write(tmp_path, "mine", X=X4)
        assert "mine" in available("~")

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
            ({"X": X4[0]}, r"\(n, d\) array, not of shape \(2,\)"),
            ({"X": X4[:0]}, r"non-empty \(n, d\) array, not of shape \(0, 2\)"),
            ({"X": X4.astype(str)}, "X must be numeric"),
            ({"X": X4.astype(complex)}, "X must be numeric"),
            ({"X": X4, "y": Y4[:3]}, r"y has shape \(3,\), but X has 4 rows"),
            ({"X": X4, "y": Y4[:, None]}, r"y has shape \(4, 1\)"),
            ({"X": X4, "y": Y4 + 0.5}, "integer labels, not float64"),
            ({"X": X4, "y": Y4 - 1}, "labels from 0, but holds -1"),
            ({"X": X4, "y": Y4, "target_names": np.array(["a"])}, "y has label 1, but"),
            ({"X": X4, "target_names": np.array([1, 2])}, "target_names must be a list of strings"),
            ({"X": X4, "feature_names": np.array(["a"])}, "1 feature_names for 2 columns"),
            ({"X": X4, "triplets": np.zeros((2, 2), int)}, r"triplets must be \(m, 3\) integers"),
            ({"X": X4, "triplets": np.zeros((2, 3))}, r"triplets must be \(m, 3\) integers"),
            ({"X": X4, "triplets": np.array([[0, 1, 4]])}, r"rows outside 0\.\.3"),
            ({"X": X4, "triplets": np.array([[0, -1, 2]])}, r"rows outside 0\.\.3"),
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
        with pytest.raises(ValueError, match=r"did you mean 'vehicle'.*available\(\)"):
            load("vehicles")
        with pytest.raises(ValueError, match="did you mean 'balance_scale'"):
            load("Balance-Scale")
        with pytest.raises(ValueError, match="did you mean 'iris'"):
            load("iris.npz")

    def test_close_matches_of_the_folder(self, tmp_path):
        write(tmp_path, "our_own_measurements", X=X4)
        with pytest.raises(ValueError, match="'our_own_measurements'"):
            load("our_own_measurement", folder=tmp_path)

    def test_nothing_close(self):
        with pytest.raises(ValueError, match=r"no dataset 'qqqqqqqq'; see nearfar.*available\(\)"):
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
        with pytest.raises(TypeError, match="name must be a string, not int"):
            load(3)  # type: ignore[arg-type]


class TestDataset:
    def test_is_frozen_and_extra_is_read_only(self):
        data: Any = Dataset("four", X4, extra={"a": Y4.copy()})
        with pytest.raises(AttributeError):
            data.name = "five"
        with pytest.raises(TypeError):
            data.extra["b"] = Y4
        with pytest.raises(ValueError, match="read-only"):
            data.extra["a"][0] = 1

    def test_extra_does_not_freeze_the_array_it_was_given(self):
        mine = Y4.copy()
        Dataset("four", X4, extra={"a": mine})
        mine[0] = 1

    def test_survives_pickling(self):
        data: Any = load("iris")
        twin = pickle.loads(pickle.dumps(data))
        assert repr(twin) == repr(data)
        assert np.array_equal(twin.X, data.X)
        digits = pickle.loads(pickle.dumps(load("digits")))
        assert not digits.extra["image_shape"].flags.writeable


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
    source = openml.SETS[name]
    n, d = source.shape
    spelled = np.array(source.classes, dtype=object)[np.arange(n) % len(source.classes)]
    fake = FakeOpenML(np.arange(n * d, dtype=float).reshape(n, d) % 251, spelled)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fake)
    return fake


class TestOpenML:
    @pytest.mark.parametrize("name", sorted(set(openml.SETS) - {"mnist"}))
    def test_arguments_and_result(self, name, monkeypatch):
        fake = fake_table(name, monkeypatch)
        data: Any = load(name)
        assert fake.calls == [
            {
                "data_id": openml.SETS[name].data_id,
                "as_frame": False,
                "parser": "pandas",
                "cache": True,
            }
        ]
        assert data.X.dtype == np.float32
        assert np.array_equal(data.X, fake.bunch.data)
        assert data.target_names == openml.SETS[name].classes
        assert [data.target_names[label] for label in data.y] == fake.bunch.target.tolist()
        assert data.feature_names == tuple(fake.bunch.feature_names)
        assert data.description == f"{DESCRIPTIONS[name]} (OpenML {openml.SETS[name].data_id})"

    def test_data_ids(self):
        ids = {name: source.data_id for name, source in openml.SETS.items()}
        assert ids == {
            "artificial_characters": 1459, "balance_scale": 11, "blood_transfusion": 1464,
            "breast_cancer_wisconsin": 15, "glass": 41, "ionosphere": 59, "letter": 6,
            "mnist": 554, "optdigits": 28, "pima_diabetes": 37, "segmentation_2310": 36,
            "semeion": 1501, "sonar": 40, "vehicle": 54,
        }  # fmt: skip

    def test_classes_keep_the_order_of_the_files(self, monkeypatch):
        fake = fake_table("glass", monkeypatch)
        fake.bunch.target[:] = np.resize(np.sort(np.array(openml.SETS["glass"].classes)), 214)
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
        short = openml.Source(554, (7, 2), ("0", "1"), n_train=5)
        monkeypatch.setattr(openml, "SETS", {"mnist": short})
        fake_table("mnist", monkeypatch)
        assert load("mnist").extra["is_train"].tolist() == [True] * 5 + [False] * 2
        assert "is_train" not in load("digits").extra

    def test_without_pandas(self, monkeypatch):
        fake = fake_table("sonar", monkeypatch)
        monkeypatch.setattr(openml, "find_spec", lambda _: None)
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
    @pytest.mark.parametrize("name", sorted(openml.SETS))
    def test_the_table_agrees_with_the_files(self, name):
        if name not in available(REAL):
            pytest.skip(f"the folder has no {name}.npz")
        data: Any = load(name, folder=REAL)
        assert data.X.shape == openml.SETS[name].shape
        assert len(np.unique(data.y)) == len(openml.SETS[name].classes)


@needs_files
class TestRealFiles:
    @pytest.mark.parametrize("name", available(REAL) if Path(REAL).is_dir() and REAL else [])
    def test_loads(self, name):
        data: Any = load(name, folder=REAL)
        assert data.X.dtype in (np.float32, np.float64)
        assert data.y is not None or data.triplets is not None or "qrels" in data.extra
        assert np.isfinite(data.extra.get("X_filled", data.X)).all()
        assert data.description

    def test_every_file_is_offered(self):
        parts = {name: tuple(names) for name, names in COLLECTIONS.items()}
        for path in Path(REAL).glob("*.npz"):
            assert set(parts.get(path.stem, (path.stem,))) <= set(available(REAL))

    def test_generators_have_the_labels_of_the_files(self):
        if not {"twin_peaks", "helix", "concentric_circles_50d"} <= set(available(REAL)):
            pytest.skip("the folder lacks the synthetic sets")
        peaks: Any = load("twin_peaks", folder=REAL)
        helix: Any = load("helix", folder=REAL)
        circles: Any = load("concentric_circles_50d", folder=REAL)
        assert np.array_equal(peaks.y, np.maximum(np.round(peaks.X[:, 2]), 0))
        assert np.array_equal(helix.y, np.round(helix.extra["t"]))
        for stored, (X, y) in [
            (peaks, make_twin_peaks(20000, random_state=0)),
            (helix, make_helix(20000, random_state=0)),
            (circles, make_circles(1000, random_state=0)),
        ]:
            assert stored.X.shape == X.shape
            np.testing.assert_allclose(stored.X.std(axis=0), X.std(axis=0), rtol=0.15)
            top = max(y.max(), stored.y.max()) + 1
            shares = [np.bincount(labels, minlength=top) / len(y) for labels in (y, stored.y)]
            np.testing.assert_allclose(shares[0], shares[1], atol=0.05)


GENERATORS = {
    "twin_peaks": lambda seed: make_twin_peaks(60, random_state=seed),
    "helix": lambda seed: make_helix(60, random_state=seed),
    "circles": lambda seed: make_circles(60, n_features=5, random_state=seed),
    "known_metric": lambda seed: make_known_metric(60, random_state=seed),
    "triplets": lambda seed: (make_triplets_from_metric(X4, np.eye(2), 60, random_state=seed),),
}


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS.keys())
class TestSeeds:
    def test_same_seed_same_arrays(self, make):
        for seed in (3, lambda: np.random.RandomState(3), lambda: np.random.default_rng(3)):
            one, two = (make(seed() if callable(seed) else seed) for _ in range(2))
            assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))

    def test_a_stream_moves_on(self, make):
        for stream in (np.random.RandomState(3), np.random.default_rng(3), None):
            assert not np.array_equal(make(stream)[0], make(stream)[0])

    def test_other_seed_other_arrays(self, make):
        assert not np.array_equal(make(3)[0], make(4)[0])

    def test_not_a_seed(self, make):
        with pytest.raises(ValueError, match="seed"):
            make("three")


def error_of_nearest_neighbour(Z, y):
    half = len(Z) // 2
    model = KNeighborsClassifier(1).fit(Z[:half], y[:half])
    return float(np.mean(model.predict(Z[half:]) != y[half:]))


def error_of_nearest_mean(Z, y):
    means = np.array([Z[y == c].mean(axis=0) for c in range(y.max() + 1)])
    return float(np.mean(cdist(Z, means).argmin(axis=1) != y))


def factor(M):
    values, vectors = np.linalg.eigh(M)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


class TestPeaksHelixCircles:
    def test_twin_peaks_without_noise_are_the_formula(self):
        X, y = make_twin_peaks(2000, noise=0.0, random_state=0)
        height = 10 * np.sin(np.pi * X[:, 0]) * np.tanh(3 * X[:, 1])
        np.testing.assert_allclose(X[:, 2], height, atol=1e-12)
        assert np.abs(X[:, :2]).max() <= 1
        assert np.array_equal(y, np.maximum(np.round(height), 0))
        assert y.max() == 10

    def test_twin_peaks_noise_is_scaled_with_the_height(self):
        X, y = make_twin_peaks(5000, noise=0.05, random_state=0)
        quiet, _ = make_twin_peaks(5000, noise=0.0, random_state=0)
        np.testing.assert_allclose((X - quiet).std(axis=0), [0.05, 0.05, 0.5], rtol=0.05)
        assert np.array_equal(y, np.maximum(np.round(X[:, 2]), 0))

    def test_twin_peaks_are_told_by_height_alone(self):
        X, y = make_twin_peaks(4000, random_state=0)
        assert error_of_nearest_neighbour(X[:, 2:], y) < 0.01
        assert error_of_nearest_neighbour(X[:, :2], y) > 0.2

    def test_helix_without_noise_is_the_formula(self):
        X, y = make_helix(500, noise=0.0, random_state=0)
        t = np.mod(np.arctan2(X[:, 1], X[:, 0]), 2 * np.pi)
        t[t < 1e-9] = 2 * np.pi
        np.testing.assert_allclose(np.sort(t), 2 * np.pi * np.arange(1, 501) / 500, atol=1e-9)
        np.testing.assert_allclose(np.hypot(X[:, 0], X[:, 1]), 2 + np.cos(8 * t), atol=1e-9)
        np.testing.assert_allclose(X[:, 2], np.sin(8 * t), atol=1e-9)
        assert np.array_equal(y, np.round(t))
        assert not np.array_equal(t, np.sort(t))

    def test_helix_is_easy(self):
        X, y = make_helix(4000, random_state=0)
        assert error_of_nearest_neighbour(X, y) < 0.03

    def test_circles(self):
        X, y = make_circles(2000, n_features=30, n_classes=3, noise=0.1, random_state=0)
        radius = np.hypot(X[:, 0], X[:, 1])
        assert X.shape == (2000, 30)
        assert np.unique(y).tolist() == [0, 1, 2]
        assert np.std(radius - y - 1) == pytest.approx(0.1, rel=0.1)
        np.testing.assert_allclose(X[:, 2:].std(axis=0), 1.0, atol=0.1)

    def test_circles_need_the_plane(self):
        X, y = make_circles(random_state=0)
        assert error_of_nearest_neighbour(X[:, :2], y) < 0.05
        assert error_of_nearest_neighbour(X, y) > 0.4


class TestKnownMetric:
    def test_rank_and_shape(self):
        X, y, M = make_known_metric(101, 12, 3, 5, random_state=0)
        assert X.shape == (101, 12)
        assert sorted(np.bincount(y)) == [20, 20, 20, 20, 21]
        values = np.linalg.eigvalsh(M)
        assert np.array_equal(M, M.T)
        assert values[:-3] == pytest.approx(0.0, abs=1e-12)
        assert (values[-3:] >= 0.25 - 1e-12).all()
        assert (values[-3:] <= 4.0 + 1e-12).all()

    def test_metric_is_the_restricted_inverse_of_the_covariance_within(self):
        X, y, M = make_known_metric(60000, 6, 2, 3, random_state=0)
        within = empirical_covariance(X - np.array([X[y == c].mean(axis=0) for c in range(3)])[y])
        values, vectors = np.linalg.eigh(M)
        U = vectors[:, values > 1e-9]
        restricted = U @ np.linalg.inv(U.T @ within @ U) @ U.T
        np.testing.assert_allclose(restricted, M, atol=0.05)
        np.testing.assert_allclose(U.T @ np.linalg.inv(within) @ U, U.T @ M @ U, atol=0.05)

    def test_class_means_differ_in_the_subspace_only_and_as_far_as_asked(self):
        X, y, M = make_known_metric(200000, 5, 2, 4, separation=5.0, noise=2.0, random_state=1)
        means = np.array([X[y == c].mean(axis=0) for c in range(4)])
        a, b = np.triu_indices(4, 1)
        differences = means[a] - means[b]
        squared = np.einsum("ij,jk,ik->i", differences, M, differences)
        assert np.sqrt(squared).min() == pytest.approx(5.0, abs=0.05)
        values, vectors = np.linalg.eigh(M)
        assert np.abs(differences @ vectors[:, values < 1e-9]).max() < 0.05

    @pytest.mark.parametrize("seed", range(3))
    def test_nearest_neighbours_are_best_in_it(self, seed):
        X, y, M = make_known_metric(1200, 20, 3, 4, separation=4.0, random_state=seed)
        within = empirical_covariance(X - np.array([X[y == c].mean(axis=0) for c in range(4)])[y])
        others = {
            "euclidean": np.eye(20),
            "standardised": np.diag(1 / X.var(axis=0)),
            "inverse covariance": np.linalg.inv(empirical_covariance(X)),
            "inverse covariance within": np.linalg.inv(within),
        }
        best = error_of_nearest_neighbour(X @ factor(M).T, y)
        errors = {k: error_of_nearest_neighbour(X @ factor(A).T, y) for k, A in others.items()}
        assert best < 0.08
        assert errors["euclidean"] > 0.5
        assert min(errors.values()) > best, (best, errors)

    @pytest.mark.parametrize("seed", range(3))
    def test_nearest_means_need_its_scales_and_not_only_its_subspace(self, seed):
        X, y, M = make_known_metric(20000, 8, 3, 4, separation=3.0, random_state=seed)
        values, vectors = np.linalg.eigh(M)
        U = vectors[:, values > 1e-9]
        true = error_of_nearest_mean(X @ factor(M).T, y)
        plain = error_of_nearest_mean(X @ U, y)
        assert true < plain < error_of_nearest_mean(X, y)

    def test_all_directions_may_be_informative_and_noise_absent(self):
        X, _, M = make_known_metric(50, 4, 4, 2, random_state=0)
        assert np.linalg.matrix_rank(M) == 4
        X, _, M = make_known_metric(50, 4, 1, 2, noise=0.0, random_state=0)
        assert np.linalg.matrix_rank(X - X.mean(axis=0), tol=1e-9) == 1


class TestTriplets:
    @pytest.fixture(scope="class")
    @staticmethod
    def problem():
        X, _, M = make_known_metric(80, 8, 2, 3, random_state=0)
        return X, M

    @staticmethod
    def agreement(X, M, triplets):
        i, j, k = triplets.T
        near, far = X[i] - X[j], X[i] - X[k]
        margin = ((far @ M) * far).sum(axis=1) - ((near @ M) * near).sum(axis=1)
        return np.mean(margin > 0)

    def test_agree_with_the_metric(self, problem):
        X, M = problem
        triplets = make_triplets_from_metric(X, M, 70000, random_state=0)
        assert triplets.shape == (70000, 3)
        assert triplets.dtype == np.intp
        assert self.agreement(X, M, triplets) == 1.0
        assert self.agreement(X, np.eye(8), triplets) < 0.7
        i, j, k = triplets.T
        assert ((i != j) & (i != k) & (j != k)).all()

    @pytest.mark.parametrize("noise", [0.2, 1.0])
    def test_a_share_is_flipped(self, problem, noise):
        X, M = problem
        triplets = make_triplets_from_metric(X, M, 1000, noise=noise, random_state=0)
        assert self.agreement(X, M, triplets) == pytest.approx(1 - noise)

    def test_are_drawn_uniformly(self):
        X = np.array([[0.0], [1.0], [3.0], [7.0]])
        triplets = make_triplets_from_metric(X, [[2.0]], 24000, random_state=0)
        unordered = np.column_stack([triplets[:, :1], np.sort(triplets[:, 1:], axis=1)])
        kinds, counts = np.unique(unordered, axis=0, return_counts=True)
        assert len(kinds) == 12
        np.testing.assert_allclose(counts, 2000, rtol=0.1)

    def test_do_not_depend_on_the_scale_or_the_place(self, problem):
        X, M = problem
        one = make_triplets_from_metric(X, M, 500, random_state=0)
        assert np.array_equal(one, make_triplets_from_metric(X + 1e4, M * 1e6, 500, random_state=0))

    def test_ties_are_not_judged(self):
        X = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [5.0, 0.0]])
        triplets = make_triplets_from_metric(X, np.diag([1.0, 0.0]), 300, random_state=0)
        assert np.all(triplets[:, 0] != 3)
        assert np.all(triplets[:, 2] == 3)
        with pytest.raises(ValueError, match="all distances as equal"):
            make_triplets_from_metric(X, np.zeros((2, 2)), 5, random_state=0)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((X4, np.eye(3), 5), r"M has shape \(3, 3\), but X has 2 columns"),
            ((X4, [[1.0, 2.0], [0.0, 1.0]], 5), "symmetric"),
            ((X4, np.diag([1.0, -1.0]), 5), "positive semidefinite"),
            ((X4[:2], np.eye(2), 5), "minimum of 3"),
            ((X4 * np.nan, np.eye(2), 5), "NaN"),
            ((X4, np.eye(2), 0), "n_triplets must be at least 1"),
        ],
    )
    def test_wrong_arguments(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            make_triplets_from_metric(*arguments)

    @pytest.mark.parametrize("noise", [-0.1, 1.1, np.nan])
    def test_noise_is_a_share(self, noise):
        with pytest.raises(ValueError, match="noise must be a share"):
            make_triplets_from_metric(X4, np.eye(2), 5, noise=noise)


class TestWrongArguments:
    @pytest.mark.parametrize("make", [make_twin_peaks, make_helix, make_circles, make_known_metric])
    def test_samples_and_noise(self, make):
        with pytest.raises(ValueError, match="n_samples must be at least"):
            make(0)
        with pytest.raises(TypeError, match="n_samples must be an integer"):
            make(10.0)
        for noise in (-1.0, np.nan, np.inf):
            with pytest.raises(ValueError, match="noise must be finite"):
                make(10, noise=noise)

    def test_circles(self):
        with pytest.raises(ValueError, match="n_features must be at least 2"):
            make_circles(10, n_features=1)
        with pytest.raises(ValueError, match="n_classes must be at least 1"):
            make_circles(10, n_classes=0)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"n_classes": 1}, "n_classes must be at least 2"),
            ({"n_samples": 3}, "n_samples must be at least 4"),
            ({"n_informative": 0}, "n_informative must be at least 1"),
            ({"n_features": 2}, "n_features must be at least 3"),
            ({"separation": 0.0}, "separation must be positive"),
            ({"separation": np.nan}, "separation must be positive"),
        ],
    )
    def test_known_metric(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            make_known_metric(**arguments)
