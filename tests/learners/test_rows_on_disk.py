"""Fits to rows on disk, against the same fits in memory."""

from __future__ import annotations

import subprocess
import sys

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone

import nearfar
from nearfar import (
    DCA,
    GMML,
    KISSME,
    LFDA,
    LMNN,
    MLKR,
    NCA,
    PLDA,
    RCA,
    XQDA,
    AutoMetric,
    BoostMetric,
    Chunklets,
    DRMetric,
    FarTargetTriplets,
    InverseCovariance,
    MaxMarginMetric,
    RandomPairs,
    RandomTriplets,
    SparseNCA,
    open_rows,
)
from nearfar.learners import fitting
from nearfar.learners.base import known_learners
from nearfar.learners.selection.held_out import sample
from nearfar.rows import files as opening
from nearfar.rows import rows as base

N, D = 1500, 6


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(base, "_PIECE_BYTES", 4000)


def labelled_rows(dtype):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, N)
    spread = np.linspace(0.3, 3.0, D)
    X = rng.standard_normal((4, D))[y] + spread * rng.standard_normal((N, D)) + 2.0
    return X.astype(dtype), y


def saved(X, folder):
    np.save(folder / "X.npy", X)
    return folder / "X.npy"


def supervision(kind, X, y):
    if kind == "triplets":
        return RandomTriplets(4000)(X, y, np.random.RandomState(0))
    if kind == "pairs":
        return RandomPairs(3000)(X, y, np.random.RandomState(0))
    return y


CASES = [
    (BoostMetric(max_iter=12), "triplets"),
    (BoostMetric(max_iter=12), "pairs"),
    (BoostMetric(max_iter=12, scale="cosine", n_components=3), "triplets"),
    (BoostMetric(max_iter=12, scale="unit", prior=None), "triplets"),
    (BoostMetric(max_iter=12, scale=None), "triplets"),
    (BoostMetric(max_iter=12, constraints=RandomTriplets(2000), random_state=0), "labels"),
    (BoostMetric(max_iter=12), "labels"),
    (BoostMetric(max_iter=12, constraints=FarTargetTriplets(), random_state=0), "labels"),
    (DRMetric(max_iter=6), "labels"),
    (LMNN(max_iter=12), "labels"),
    (NCA(max_iter=3), "labels"),
    (MaxMarginMetric(), "pairs"),
    (MaxMarginMetric(scale="standard", n_components=2), "pairs"),
    (MaxMarginMetric(random_state=0), "labels"),
    (RCA(), "labels"),
    (RCA(validation_fraction=0.2), "labels"),
    (RCA(), "pairs"),
    (DCA(), "labels"),
    (KISSME(), "labels"),
    (KISSME(), "pairs"),
    (XQDA(), "labels"),
    (GMML(), "labels"),
    (PLDA(), "labels"),
    (InverseCovariance(), "labels"),
    (NCA(batch_size=200, max_iter=3, random_state=0), "labels"),
    (NCA(batch_size=200, max_iter=3, random_state=0, n_components=2), "labels"),
    (NCA(batch_size=5000, max_iter=3), "labels"),
    (SparseNCA(batch_size=200, max_iter=3, random_state=0, scale="unit"), "labels"),
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("learner", "kind"), CASES, ids=[f"{learner!r} {kind}" for learner, kind in CASES]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_metric_is_that_of_the_fit_in_memory(learner, kind, dtype, tmp_path):
    X, y = labelled_rows(dtype)
    path, known = saved(X, tmp_path), supervision(kind, X, y)
    expected = learner.fit(X, known)
    M, scale, embedded = expected.metric_.matrix, expected.scale_, expected.transform(X[:3])
    found = learner.fit(path, known)
    # In double precision only the order of sums differs. NCA learns in single precision.
    tol = 1e-6 if dtype == "float32" or isinstance(learner, NCA | SparseNCA) else 1e-10
    difference = np.linalg.norm(found.metric_.matrix - M)
    if dtype == "float32" and difference > tol * np.linalg.norm(M):
        # Rounding makes that of the fit in memory: sums on disk are more accurate.
        exact = clone(learner).fit(X.astype(np.float64), known).metric_.matrix
        assert np.linalg.norm(found.metric_.matrix - exact) <= tol * np.linalg.norm(exact)
    else:
        assert difference <= tol * np.linalg.norm(M)
    assert found.scale_ == scale
    assert found.n_features_in_ == D
    assert found.transform(path).shape == (N, embedded.shape[1])
    assert found.transform(path).dtype == embedded.dtype
    np.testing.assert_array_equal(found.transform(path), found.transform(X))


READERS = [
    (cls, kind)
    for cls in known_learners().values()
    for kind in cls()._kinds_read()
    if cls.reads_rows and (kind in cls.supervision or cls.ignores_y)
]


@pytest.mark.parametrize(
    ("cls", "kind"), READERS, ids=[f"{cls.__name__} {kind}" for cls, kind in READERS]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_metric_of_a_dask_array_is_that_of_the_fit_in_memory(cls, kind):
    """Every learner that reads rows, but those in batches, which refuse Dask arrays."""
    X, y = labelled_rows("float64")
    known = Chunklets(np.where(y, y, -1)) if kind == "chunklets" else supervision(kind, X, y)
    options = {"max_iter": 12, "random_state": 0}
    learner = cls(**{name: v for name, v in options.items() if name in cls().get_params()})
    M = learner.fit(X, known).metric_.matrix
    found = learner.fit(da.from_array(X, chunks=(400, 4)), known).metric_.matrix
    assert np.linalg.norm(found - M) <= 1e-10 * np.linalg.norm(M)


def test_optimal_factors_are_found_from_disk(tmp_path):
    X, y = labelled_rows("float64")
    triplets = supervision("triplets", X, y)
    learner = BoostMetric(corrective=True, penalty=1e-3, scale="standard")
    M = learner.fit(X, triplets).metric_.matrix
    N_ = learner.fit(saved(X, tmp_path), triplets).metric_.matrix
    assert np.linalg.norm(N_ - M) <= 1e-6 * np.linalg.norm(M)


@pytest.mark.slow
def test_wide_rows_take_lanczos(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 900)) * np.linspace(0.1, 2, 900)
    triplets = RandomTriplets(300)(X, rng.integers(0, 3, 300), np.random.RandomState(0))
    learner = BoostMetric(max_iter=2, scale="unit")
    M = learner.fit(X, triplets).metric_.matrix
    N_ = learner.fit(saved(X, tmp_path), triplets).metric_.matrix
    assert np.linalg.norm(N_ - M) <= 1e-6 * np.linalg.norm(M)


def test_a_warm_start_goes_on_from_disk(tmp_path):
    X, y = labelled_rows("float64")
    path, pairs = saved(X, tmp_path), supervision("pairs", X, y)
    learner = MaxMarginMetric(warm_start=True, scale="standard")
    first = learner.fit(path, pairs).n_iter_
    assert learner.fit(path, pairs).n_iter_ < first
    triplets = supervision("triplets", X, y)
    whole = BoostMetric(max_iter=6, scale="standard").fit(X, triplets)
    parts = BoostMetric(max_iter=3, scale="standard", warm_start=True).fit(path, triplets)
    parts.fit(path, triplets)
    np.testing.assert_allclose(parts.metric_.matrix, whole.metric_.matrix, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("learner", [BoostMetric(max_iter=8), MaxMarginMetric()])
def test_constraints_on_few_rows(learner, tmp_path):
    X, y = labelled_rows("float64")
    kind = "pairs" if isinstance(learner, MaxMarginMetric) else "triplets"
    known = supervision(kind, X[:150], y[:150])
    M = learner.fit(X, known).metric_.matrix
    found = learner.fit(saved(X, tmp_path), known).metric_.matrix
    assert np.linalg.norm(found - M) <= 1e-10 * np.linalg.norm(M)


def test_large_memmaps_are_read_in_blocks(tmp_path, monkeypatch):
    X, y = labelled_rows("float64")
    monkeypatch.setattr(opening, "_SMALL_BYTES", 1000)
    mapped = np.load(saved(X, tmp_path), mmap_mode="r")
    read = []
    own = nearfar.rows.files.NpyRows.read
    monkeypatch.setattr(
        nearfar.rows.files.NpyRows, "read", lambda self, part: (read.append(1), own(self, part))[1]
    )
    RCA().fit(mapped, y)
    assert read
    read.clear()
    LFDA(n_components=2, max_rows="all").fit(mapped, y)
    assert not read


@pytest.mark.parametrize(
    "learner",
    [
        LMNN(max_rows="all"),
        LFDA(max_rows=None),
        AutoMetric(),
        BoostMetric(constraints=FarTargetTriplets(), max_rows="all"),
        MaxMarginMetric(kernel="rbf"),
    ],
)
def test_learners_that_need_rows_in_memory_say_so(learner, tmp_path):
    X, y = labelled_rows("float64")
    with pytest.raises(ValueError, match=r"not in memory.*max_rows"):
        learner.fit(saved(X, tmp_path), y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("learner", [BoostMetric(max_iter=6), LMNN(max_iter=6), LFDA()])
@pytest.mark.parametrize("dask", [False, True])
def test_a_sample_of_labelled_rows_is_read(learner, dask, tmp_path, monkeypatch):
    """The metric is that of the same sample in memory, and the notes have its size."""
    monkeypatch.setattr(fitting, "MOST_ROWS", 400)
    X, y = labelled_rows("float64")
    y[:1400] = 0
    rows = sample(np.arange(N), 400, np.random.RandomState(0), y)
    assert len(np.unique(y[rows])) == 4
    expected = clone(learner).fit(X[rows], y[rows]).metric_.matrix
    found = clone(learner).fit(da.from_array(X, (400, D)) if dask else saved(X, tmp_path), y)
    np.testing.assert_array_equal(found.metric_.matrix, expected)
    assert "400 of 1,500 rows" in found.history_.notes[0]
    fewer = clone(learner).set_params(max_rows=100).fit(saved(X, tmp_path), y)
    assert "100 of 1,500 rows" in fewer.history_.notes[0]
    assert clone(learner).set_params(max_rows=N).fit(saved(X, tmp_path), y).history_.notes == ()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_numbers_are_sampled(tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "MOST_ROWS", 300)
    X, _ = labelled_rows("float64")
    learner = MLKR(max_iter=3).fit(saved(X, tmp_path), X[:, 0] + 0.5)
    assert "300 of 1,500 rows" in learner.history_.notes[0]


def test_batches_need_random_access(tmp_path):
    X, y = labelled_rows("float64")
    with pytest.raises(ValueError, match=r"save X as a \.npy file"):
        NCA(batch_size=100).fit(da.from_array(X, chunks=400), y)


def test_wrong_input_from_disk(tmp_path):
    X, y = labelled_rows("float64")
    triplets = supervision("triplets", X, y)
    path = saved(X, tmp_path)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        RCA().fit(path, y[:-1])
    with pytest.raises(ValueError, match="y is None"):
        RCA().fit(path, None)
    with pytest.raises(ValueError, match="refer to row"):
        BoostMetric().fit(open_rows(saved(X[:20], tmp_path)), triplets)
    with pytest.raises(ValueError, match="validation_fraction=None"):
        BoostMetric(validation_fraction=0.2).fit(saved(X, tmp_path), triplets)
    with pytest.raises(ValueError, match="need rows in memory"):
        RCA().fit(X, y).score(path, y)
    with pytest.raises(ValueError, match="need rows in memory"):
        RCA().partial_fit(path, y)
    with pytest.raises(ValueError, match="at least one row"):
        RCA().fit(saved(X[:0], tmp_path), y)
    X[3, 3] = np.nan
    with pytest.raises(ValueError, match=r"NaN or infinite values, first in row 3 \("):
        BoostMetric().fit(saved(X, tmp_path), triplets)
    X[3, 3] = 1e200
    with pytest.raises(ValueError, match=r"Column 3.*overflow"):
        BoostMetric().fit(saved(X, tmp_path), triplets)
    with pytest.raises(ValueError, match="features"):
        RCA().fit(X[:, :3] * 0 + labelled_rows("float64")[0][:, :3], y).transform(
            saved(X, tmp_path)
        )


def test_names_of_parquet_columns_are_kept(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = labelled_rows("float32")
    names = [f"feature {k}" for k in range(D)]
    pq.write_table(pa.table(dict(zip(names, X.T, strict=True))), tmp_path / "X.parquet")
    learner = RCA().fit(tmp_path / "X.parquet", y)
    assert list(learner.feature_names_in_) == names
    assert learner.metric_.feature_names == tuple(names)
    assert not hasattr(learner.fit(saved(X, tmp_path), y), "feature_names_in_")


_MEMORY_SCRIPT = """
import sys
import numpy as np
from pathlib import Path
from nearfar import BoostMetric, MaxMarginMetric, RandomPairs, RandomTriplets, RCA
from nearfar.runtime.threads import limited_threads

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

path, n = Path(sys.argv[1], "X.npy"), 400_000
X = np.lib.format.open_memmap(path, "w+", np.float32, (n, 64))
rng = np.random.default_rng(0)
for top in range(0, n, 20_000):
    X[top : top + 20_000] = rng.standard_normal((20_000, 64), dtype=np.float32)
del X
y = np.arange(n) % 5
triplets = RandomTriplets(30_000)(None, y, np.random.RandomState(0))
pairs = RandomPairs(60_000)(None, y, np.random.RandomState(0))
Path("/proc/self/clear_refs").write_text("5")
before = peak()
with limited_threads(2):
    for learner, known in (
        (RCA(), y),
        (BoostMetric(max_iter=2), triplets),
        (MaxMarginMetric(tol=0.5), pairs),
    ):
        learner.fit(path, known)
        print(peak() - before)
"""


@pytest.mark.slow
def test_memory_stays_far_below_that_of_arrays(tmp_path):
    """X takes 98 MB in memory, and as much again once it is scaled; blocks take a constant."""
    done = subprocess.run(
        [sys.executable, "-c", _MEMORY_SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert max(map(float, done.stdout.split())) < 130
