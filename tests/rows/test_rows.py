import os
import pickle
from itertools import pairwise

import dask.array as da
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearfar import RCA, open_rows
from nearfar.rows import as_rows
from nearfar.rows import rows as base
from nearfar.rows.files import NpyRows, ParquetRows


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(base, "_PIECE_BYTES", 512)
    monkeypatch.setattr(base, "_TASKS", 3)


@pytest.fixture(name="X", params=["float32", "float64"])
def points(request):
    return np.random.default_rng(0).standard_normal((203, 5)).astype(request.param)


def npy(X, folder):
    np.save(folder / "X.npy", X)
    return folder / "X.npy"


def memmap(X, folder):
    return np.load(npy(X, folder), mmap_mode="r")


def sliced_memmap(X, folder):
    padded = np.vstack([np.zeros((7, X.shape[1]), X.dtype), X, X])
    return np.load(npy(padded, folder), mmap_mode="r")[7 : 7 + len(X)]


def write_parquet(X, path):
    table = pa.table({f"f{k}": X[:, k] for k in range(X.shape[1])})
    pq.write_table(table, path, row_group_size=60)
    return path


def parquet(X, folder):
    return write_parquet(X, folder / "X.parquet")


def parquet_folder(X, folder):
    for number, part in enumerate(np.array_split(X, 3)):
        write_parquet(part, folder / f"part-{number}.parquet")
    return str(folder)


def dask_array(X, folder):
    return da.from_array(X, chunks=(50, 2))


KINDS = [npy, memmap, sliced_memmap, parquet, parquet_folder, dask_array]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_array(kind, X, tmp_path):
    rows = open_rows(kind(X, tmp_path))
    assert rows.shape == X.shape
    assert rows.dtype == X.dtype
    np.testing.assert_array_equal(rows[:], X)
    np.testing.assert_array_equal(rows[40:130], X[40:130])
    np.testing.assert_array_equal(rows[::7], X[::7])
    np.testing.assert_array_equal(rows[[5, 200, 5, 0]], X[[5, 200, 5, 0]])
    np.testing.assert_array_equal(rows[X[:, 0] > 0], X[X[:, 0] > 0])
    assert rows[[]].shape == (0, 5)
    assert rows[50:50].shape == (0, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_cover_the_rows(kind, X, tmp_path):
    pieces = open_rows(kind(X, tmp_path)).pieces
    assert len(pieces) > 4
    assert (pieces[0].start, pieces[-1].stop) == (0, len(X))
    assert all(one.stop == other.start for one, other in pairwise(pieces))


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_those_of_the_array(kind, X, tmp_path):
    rng = np.random.default_rng(1)
    rows = open_rows(kind(X, tmp_path))
    V, Y = rng.standard_normal((5, 3)), rng.standard_normal((len(X), 2))
    tol = 1e-5 if X.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(rows.project(V), X @ V, rtol=tol, atol=tol)
    np.testing.assert_allclose(rows.project(V[:, 0]), X @ V[:, 0], rtol=tol, atol=tol)
    np.testing.assert_allclose(rows.pull(Y), X.T @ Y, rtol=tol, atol=10 * tol)
    np.testing.assert_allclose((rows @ V)[3:9], X[3:9] @ V, rtol=tol, atol=tol)
    np.testing.assert_array_equal((rows / 2)[3:9], X[3:9] / 2)


def test_functions_are_applied_as_rows_are_read(X, tmp_path):
    rows = open_rows(npy(X, tmp_path)).mapped(np.square)
    np.testing.assert_array_equal(rows[:], X**2)
    np.testing.assert_array_equal(rows[[9, 3]], X[[9, 3]] ** 2)
    assert rows.astype(np.float64)[:1].dtype == np.float64
    assert rows.astype(rows.dtype) is rows
    np.testing.assert_array_equal(rows.transformed(np.sqrt), np.sqrt(X**2))


@pytest.mark.parametrize("kind", KINDS[:5])
def test_pickled_rows_are_small(kind, tmp_path):
    X = np.zeros((20_000, 5), dtype=np.float32)
    rows = open_rows(kind(X, tmp_path))
    rows.project(np.ones(5))
    sent = pickle.dumps(rows)
    assert len(sent) < X.nbytes / 10
    np.testing.assert_array_equal(pickle.loads(sent)[-2:], X[-2:])


def test_other_numbers_become_double_precision(tmp_path):
    for kind in ("int64", ">f4", "float16", "bool"):
        rows = open_rows(npy(np.arange(8).reshape(4, 2).astype(kind), tmp_path))
        assert rows.dtype in (np.float32, np.float64)
        np.testing.assert_array_equal(rows[:], np.arange(8).reshape(4, 2).astype(kind))


@pytest.mark.parametrize("size", [-1, 7])
def test_a_column_of_lists_is_taken_without_the_others(tmp_path, size):
    X = np.random.default_rng(0).standard_normal((500, 7), dtype=np.float32)
    y = np.arange(500) % 3
    path = tmp_path / "X.parquet"
    lists = pa.array(list(X), pa.list_(pa.float32(), size))
    table = pa.table({"vector": lists, "label": list(map(str, y))})
    pq.write_table(table, path, row_group_size=90)
    rows = open_rows(path)
    assert rows.feature_names == tuple(f"vector[{k}]" for k in range(7))
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows[:], X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows))[80:200], X[80:200])
    in_blocks, in_memory = RCA().fit(path, y).metric_, RCA().fit(X, y).metric_
    np.testing.assert_allclose(in_blocks.matrix, in_memory.matrix, rtol=1e-3, atol=1e-5)


def test_lists_that_do_not_fit_are_named(tmp_path):
    path = tmp_path / "X.parquet"
    for last in ([1.0], None):
        pq.write_table(pa.table({"v": [[1.0, 2.0], [3.0, 4.0], last]}), path)
        with pytest.raises(ValueError, match=r"'v' .* lengths.* 2"):
            open_rows(path)[:]
    pq.write_table(pa.table({"v": [[1.0]], "w": [[1.0]]}), path)
    with pytest.raises(ValueError, match="several columns of lists: v, w"):
        open_rows(path)
    pq.write_table(pa.table({"v": [["a"]]}), path)
    with pytest.raises(ValueError, match="has no numbers, but list"):
        open_rows(path)


def test_columns_of_a_parquet_file_are_features(X, tmp_path):
    rows = ParquetRows(parquet(X, tmp_path), columns=["f3", "f1"])
    assert rows.feature_names == ("f3", "f1")
    np.testing.assert_array_equal(rows[10:80], X[10:80][:, [3, 1]])


def test_arrays_and_small_memmaps_belong_in_memory(X, tmp_path):
    assert as_rows(X) is None
    assert as_rows(memmap(X, tmp_path)) is None
    assert as_rows(np.load(npy(X, tmp_path), mmap_mode="c")) is None
    with pytest.raises(TypeError, match="got ndarray"):
        open_rows(X)


def test_memmaps_that_are_not_rows_of_a_file(X, tmp_path):
    mapped = memmap(X, tmp_path)
    assert NpyRows.of_memmap(mapped[:, :2]) is None
    assert NpyRows.of_memmap(mapped[::2]) is None
    assert NpyRows.of_memmap(mapped[[1, 2]]) is None


def test_rows_do_not_become_an_array_by_accident(X, tmp_path):
    with pytest.raises(TypeError, match="not in memory"):
        np.asarray(open_rows(npy(X, tmp_path)))


def test_what_cannot_be_read(X, tmp_path):
    with pytest.raises(ValueError, match="Fortran"):
        open_rows(npy(np.asfortranarray(X), tmp_path))
    with pytest.raises(ValueError, match="2-d"):
        open_rows(npy(X[:, 0], tmp_path))
    with pytest.raises(ValueError, match="numbers"):
        open_rows(npy(np.array([["a"]]), tmp_path))
    with pytest.raises(FileNotFoundError):
        open_rows(tmp_path / "missing.npy")
    with pytest.raises(ValueError, match="no Parquet files"):
        open_rows(tmp_path)
    with pytest.raises(ValueError, match=r"\.npy file"):
        open_rows(tmp_path / "X.txt")
    pq.write_table(pa.table({"a": [1.0], "name": ["x"]}), tmp_path / "X.parquet")
    with pytest.raises(ValueError, match=r"'name'.*no numbers"):
        open_rows(tmp_path / "X.parquet")
    with pytest.raises(ValueError, match="no column 'b'"):
        ParquetRows(tmp_path / "X.parquet", columns=["b"])
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        open_rows(da.from_array(X, chunks=50)[da.from_array(X[:, 0] > 0, chunks=50)])
    with pytest.raises(ValueError, match="two-dimensional"):
        open_rows(da.ones(4))


def test_a_truncated_file_is_an_error(X, tmp_path):
    path = npy(X, tmp_path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match="shorter"):
        open_rows(path)[:]


@pytest.mark.parametrize("ending", ["npy", "parquet"])
@pytest.mark.parametrize("how", ["written to", "replaced"])
def test_a_file_that_changes_is_an_error(X, tmp_path, ending, how):
    path = tmp_path / f"X.{ending}"

    def save(values):
        if ending == "npy":
            np.save(path, values)
        else:
            pl.DataFrame(values).write_parquet(path)

    save(X)
    rows = open_rows(path)
    if how == "replaced":
        path.unlink()
    save(-X)
    os.utime(path, ns=(0, 0))
    with pytest.raises(ValueError, match="has changed"):
        rows[2:4]
    np.testing.assert_array_equal(open_rows(path)[2:4], -X[2:4])
    # A worker may have a copy, with another time.
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows))[2:4], -X[2:4])
