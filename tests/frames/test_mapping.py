from __future__ import annotations

import stat

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from pyarrow.feather import write_feather

from nearfar import GatedMetric, Metric
from nearfar.frames import arrow as arrow_formats
from nearfar.frames import csv as csv_format
from nearfar.frames import reader
from nearfar.metrics.feature_maps import KernelMap
from nearfar.tables import transform as mapping
from nearfar.tables.transform import transform_file

SEPARATORS = {".csv": ",", ".tsv": "\t"}
ARROW = (".feather", ".arrow")
TABLES = ["csv", "tsv", "parquet", "feather", "arrow"]
KINDS = [*TABLES, "npy", "npz"]
TARGETS = [*TABLES, "npy"]


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Batches, blocks and slabs of a few rows."""
    monkeypatch.setattr(csv_format, "_CSV_BLOCK_BYTES", 97)
    monkeypatch.setattr(reader, "_BATCH_BYTES", 500)
    monkeypatch.setattr(arrow_formats, "_PARQUET_MAX_PAGES_BYTES", 300)
    monkeypatch.setattr(arrow_formats, "_PARQUET_GROUP_PAGES_BYTES", 200)
    monkeypatch.setattr(mapping, "_BATCH_BYTES", 250)


@pytest.fixture
def metric(rng):
    return Metric(rng.standard_normal((2, 3)))


@pytest.fixture(name="X")
def points(rng):
    return rng.standard_normal((101, 3)) * [1e-9, 1.0, 1e12]


def write(path, X, names=None, **columns):
    names = names or [f"f{i}" for i in range(X.shape[1])]
    frame = pl.DataFrame(X, schema=names).with_columns(
        **{k: pl.Series(v) for k, v in columns.items()}
    )
    kind = path.suffix
    if kind == ".parquet":
        frame.write_parquet(path, row_group_size=13)
    elif kind == ".npy":
        np.save(path, X)
    elif kind == ".npz":
        np.savez_compressed(path, X=X, y=np.arange(len(X)))
    elif kind in ARROW:
        write_feather(frame.to_arrow(), path, compression="uncompressed", chunksize=13)
    else:
        frame.write_csv(path, separator=SEPARATORS[kind])
    return path


def read(path, **options):
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".parquet":
        return pl.read_parquet(path)
    if path.suffix in ARROW:
        return pl.read_ipc(path)
    return pl.read_csv(path, separator=SEPARATORS[path.suffix], **options)


def coordinates(path):
    table = read(path)
    return table if path.suffix == ".npy" else table.select(pl.col("^nearfar_.*$")).to_numpy()


def files(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", TARGETS)
def test_every_kind_to_every_kind(tmp_path, metric, X, kind, end):
    source = write(tmp_path / f"in.{kind}", X)
    target = tmp_path / f"out.{end}"
    assert transform_file(metric, source, target) == 101
    Y = coordinates(target)
    assert Y.shape == (101, 2)
    assert Y.dtype == np.float64
    np.testing.assert_allclose(Y, metric.transform(X), rtol=1e-12)
    assert files(tmp_path) == sorted([source.name, target.name])


@pytest.mark.slow
def test_the_same_bits_from_any_kind_to_any_kind(tmp_path, metric, X):
    results = []
    for kind in KINDS:
        source = write(tmp_path / f"in.{kind}", X)
        for end in TARGETS:
            transform_file(metric, source, tmp_path / f"{kind}.{end}")
            results.append(coordinates(tmp_path / f"{kind}.{end}").tobytes())
    assert len(set(results)) == 1


def test_one_batch_is_transform_to_the_last_bit(tmp_path, metric, X, monkeypatch):
    monkeypatch.setattr(mapping, "_BATCH_BYTES", 1 << 24)
    source = write(tmp_path / "in.csv", X)
    transform_file(metric, source, tmp_path / "out.csv")
    assert np.array_equal(coordinates(tmp_path / "out.csv"), metric.transform(X))


@pytest.mark.parametrize("kind", ["parquet", "npy", "npz"])
@pytest.mark.parametrize("end", TARGETS)
def test_float32_stays(tmp_path, metric, X, kind, end):
    X = X.astype(np.float32)
    source, target = write(tmp_path / f"in.{kind}", X), tmp_path / f"out.{end}"
    transform_file(metric, source, target)
    if end in ("parquet", "npy"):
        assert coordinates(target).dtype == np.float32
    np.testing.assert_allclose(coordinates(target), metric.transform(X), rtol=1e-3)


def test_integers_and_mixed_columns(tmp_path, metric):
    frame = pl.DataFrame(
        {
            "a": pl.Series([1, 2, 3], dtype=pl.Int8),
            "b": pl.Series([1.5, 2.5, 3.5], dtype=pl.Float32),
            "c": pl.Series([2**40, 0, -5], dtype=pl.Int64),
        }
    )
    frame.write_parquet(tmp_path / "in.parquet")
    transform_file(metric, tmp_path / "in.parquet", tmp_path / "out.npy")
    Y = np.load(tmp_path / "out.npy")
    assert Y.dtype == np.float64
    np.testing.assert_allclose(Y, metric.transform(frame.to_numpy()), rtol=1e-12)
    np.save(tmp_path / "in.npy", np.arange(12, dtype=np.int16).reshape(4, 3))
    transform_file(metric, tmp_path / "in.npy", tmp_path / "out.npy")
    np.testing.assert_allclose(
        np.load(tmp_path / "out.npy"), metric.transform(np.arange(12.0).reshape(4, 3)), rtol=1e-12
    )


@pytest.mark.parametrize("pack", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_any_order_and_name(tmp_path, metric, X, pack, order):
    pack(tmp_path / "in.npz", points=np.asarray(X, order=order))
    np.save(tmp_path / "in.npy", np.asarray(X, order=order))
    for kind in ("npz", "npy"):
        transform_file(metric, tmp_path / f"in.{kind}", tmp_path / "out.npy")
        np.testing.assert_allclose(np.load(tmp_path / "out.npy"), metric.transform(X), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("end", TABLES)
def test_names_in_any_order_and_columns_to_keep(tmp_path, X, metric, kind, end):
    texts = [f"{i:03}" if i % 3 else f'"{i}",\n\t' for i in range(101)]
    named = metric.named(["c", "a", "b"])
    source = write(tmp_path / f"in.{kind}", X, ["b", "c", "a"], id=texts, other=["x"] * 101)
    target = tmp_path / f"out.{end}"
    transform_file(named, source, target, keep=["id", "b"])
    table = read(target, infer_schema=False)
    assert table.columns == ["id", "b", "nearfar_0", "nearfar_1"]
    assert table["id"].to_list() == texts
    assert np.array_equal(table["b"].cast(pl.Float64).to_numpy(), X[:, 0])
    Y = table.select(pl.col("^nearfar_.*$").cast(pl.Float64)).to_numpy()
    np.testing.assert_allclose(Y, named.transform(X[:, [1, 2, 0]]), rtol=1e-12)


def test_without_names_keep_and_drop_leave_the_features(tmp_path, X, metric):
    source = write(tmp_path / "in.csv", X, id=range(101), note=["x"] * 101)
    transform_file(metric, source, tmp_path / "out.csv", keep=["id"], drop=["note"])
    assert read(tmp_path / "out.csv")["id"].to_list() == list(range(101))


def test_kept_columns_of_parquet_keep_their_types(tmp_path, metric, X):
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 4, 10), eager=True)
    numbers = [None if i % 7 == 0 else i for i in range(101)]
    source = write(tmp_path / "in.parquet", X, day=days, number=numbers)
    transform_file(metric, source, tmp_path / "out.parquet", keep=["number", "day"])
    before, after = pl.read_parquet(source), pl.read_parquet(tmp_path / "out.parquet")
    assert after.select("number", "day").equals(before.select("number", "day"))


@pytest.mark.parametrize("at_once", [1, 2, 3])
@pytest.mark.parametrize("keep", [[], ["f1", "id"]])
def test_some_columns_of_parquet_at_a_time(tmp_path, X, metric, monkeypatch, at_once, keep):
    source = write(tmp_path / "in.parquet", X, id=[f"row {i}" for i in range(101)])
    monkeypatch.setattr(arrow_formats, "_PARQUET_PAGE_BYTES", 100)
    monkeypatch.setattr(arrow_formats, "_PARQUET_MAX_PAGES_BYTES", 100 * at_once)
    monkeypatch.setattr(arrow_formats, "_PARQUET_GROUP_PAGES_BYTES", 100 * at_once)
    drop = [] if keep else ["id"]
    named = metric.named(["f0", "f1", "f2"])
    transform_file(named, source, tmp_path / "out.parquet", keep=keep, drop=drop)
    table = pl.read_parquet(tmp_path / "out.parquet")
    assert table.select(keep).equals(pl.read_parquet(source).select(keep))
    np.testing.assert_allclose(table.drop(keep).to_numpy(), named.transform(X), rtol=1e-12)
    assert files(tmp_path) == ["in.parquet", "out.parquet"]


@pytest.mark.parametrize(
    "text",
    [
        b"id,a,b,c\n007,1,2,3\n,4,5,6\n",
        b"id,a,b,c\r\n007,1,2,3\r\n,4,5,6\r\n",
        b"\xef\xbb\xbfid,a,b,c\n007,1,2,3\n,4,5,6",
        b'"id","a","b","c"\n"007","1","2","3"\n,4,5,6\n\n\r\n',
        b"c,id,b,a\n3.0,007,2e0,+1\n6.,,5,.4e1",
    ],
)
def test_dialects(tmp_path, metric, text):
    (tmp_path / "in.csv").write_bytes(text)
    transform_file(
        metric.named(["a", "b", "c"]), tmp_path / "in.csv", tmp_path / "out.csv", keep=["id"]
    )
    table = pl.read_csv(tmp_path / "out.csv", schema_overrides={"id": pl.String})
    assert table["id"].to_list() == ["007", None]
    np.testing.assert_allclose(
        table.drop("id").to_numpy(), metric.transform([[1.0, 2, 3], [4, 5, 6]]), rtol=1e-12
    )


@pytest.mark.parametrize("size", [*range(1, 40), 1000])
def test_blocks_end_where_records_end(tmp_path, monkeypatch, size):
    monkeypatch.setattr(csv_format, "_CSV_BLOCK_BYTES", size)
    texts = ["a", "", 'say "hi"', "x,\ny", "\n\n", '"', "é", ",", "\r\n", "end"]
    frame = pl.DataFrame({"t": texts, "a": np.arange(10.0)})
    frame.write_csv(tmp_path / "in.csv")
    transform_file(Metric([[2.0]]), tmp_path / "in.csv", tmp_path / "out.csv", keep=["t"])
    table = pl.read_csv(tmp_path / "out.csv")
    assert [text or "" for text in table["t"]] == texts
    assert table["nearfar_0"].to_list() == list(2 * np.arange(10.0))


def test_decimals_after_many_integers(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_format, "_CSV_BLOCK_BYTES", 1 << 12)
    values = [*range(12_000), 0.5]
    (tmp_path / "in.csv").write_text("a,id\n" + "".join(f"{v},{v}\n" for v in values))
    transform_file(Metric([[1.0]]), tmp_path / "in.csv", tmp_path / "out.npy", drop=["id"])
    assert np.load(tmp_path / "out.npy")[:, 0].tolist() == values


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", TARGETS)
def test_no_rows(tmp_path, metric, kind, end):
    source = write(tmp_path / f"in.{kind}", np.empty((0, 3)))
    assert transform_file(metric, source, tmp_path / f"out.{end}") == 0
    assert coordinates(tmp_path / f"out.{end}").shape == (0, 2)


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
def test_floats_round_trip(tmp_path, kind):
    values = np.array([1 / 3, 1e-300, 5e-324, -0.0, 1e22, 1.7976931348623157e308, 0.1 + 0.2])
    source = write(tmp_path / f"in.{kind}", values[:, None])
    transform_file(Metric([[1.0]]), source, tmp_path / "out.csv")
    assert np.array_equal(coordinates(tmp_path / "out.csv")[:, 0], values)


def test_kernel_metric(tmp_path, X, rng):
    points = rng.standard_normal((5, 3))
    kernel = KernelMap(points, np.eye(5), "rbf", {"gamma": 0.5}, np.zeros(3), np.ones(3))
    metric = Metric(rng.standard_normal((2, 5)), feature_map=kernel)
    X = X / [1e-9, 1.0, 1e12]
    transform_file(metric, write(tmp_path / "in.parquet", X), tmp_path / "out.npy")
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), metric.transform(X), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_progress(tmp_path, metric, X, kind):
    calls = []
    source = write(tmp_path / f"in.{kind}", X)
    transform_file(
        metric,
        source,
        tmp_path / "out.npy",
        progress=lambda done, total: calls.append((done, total)),
    )
    done = [call[0] for call in calls]
    assert len(calls) > 5
    assert done == sorted(done)
    assert calls[-1] == (101, 101)
    assert all(d <= total and 70 < total < 150 for d, total in calls)
    if kind not in ("csv", "tsv"):
        assert {total for _, total in calls} == {101}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hole", [np.nan, np.inf, -np.inf])
def test_holes_are_named(tmp_path, metric, X, kind, hole):
    X[50, 1] = X[77, 0] = hole
    source = write(tmp_path / f"in.{kind}", X)
    column = "1" if kind in ("npy", "npz") else "f1"
    with pytest.raises(
        ValueError, match=f"missing or infinite values in column {column}, first in row 50 "
    ):
        transform_file(metric, source, tmp_path / "out.csv")
    assert files(tmp_path) == [source.name]


@pytest.mark.parametrize("kind", TABLES)
def test_nulls_are_named(tmp_path, metric, X, kind):
    source = tmp_path / f"in.{kind}"
    write(source, X)
    frame = read(source).with_columns(f2=pl.Series([None if i == 90 else 1.0 for i in range(101)]))
    write(source, frame.to_numpy(), frame.columns, f2=frame["f2"])
    with pytest.raises(ValueError, match=r"missing .* in column f2, first in row 90 "):
        transform_file(metric, source, tmp_path / "out.csv")


@pytest.mark.parametrize("keep", [[], ["f1"]])
def test_text_among_numbers_is_named(tmp_path, metric, X, keep):
    source = write(tmp_path / "in.csv", X)
    lines = source.read_text().splitlines()
    lines[60] = "1,NA,x"
    source.write_text("\n".join(lines))
    named = metric.named(["f0", "f1", "f2"])
    with pytest.raises(ValueError, match=r"'NA' in column f1, row 59 .* not a number"):
        transform_file(named, source, tmp_path / "out.csv", keep=keep)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "has no header"),
        (b"a,b\n1,2\n", "needs 3 features, but .* has 2"),
        (b"a,a,b\n1,2,3\n", "several columns named 'a'"),
        (b"a,b,c\n1,2,3\n1,2,3,4\n", "has 4 values in row 1 .* 3 columns"),
        (b"a,b,c\n1,2\n", "missing .* in column c, first in row 0 "),
        (b'a,b,c\n1,2,"3' + b"\n1,2,3" * 100, "a quote that is not closed"),
        ("ä,b,c\n1,2,3\n".encode("utf-16"), "save it in UTF-8"),
        (b"a,b,c\n1,2,\xff\n", "has text in column c"),
    ],
)
def test_broken_text(tmp_path, metric, monkeypatch, text, message):
    monkeypatch.setattr(csv_format, "_CSV_MAX_RECORD_BYTES", 300)
    (tmp_path / "in.csv").write_bytes(text)
    with pytest.raises(ValueError, match=message) as caught:
        transform_file(metric, tmp_path / "in.csv", tmp_path / "out.csv")
    assert "\n" not in str(caught.value)
    assert files(tmp_path) == ["in.csv"]


@pytest.mark.parametrize(
    ("source", "target", "options", "message"),
    [
        ("in.txt", "out.csv", {}, "not in a supported format"),
        ("in.csv", "out.npz", {}, "cannot be written in this format"),
        ("none.csv", "out.csv", {}, "There is no file"),
        ("in.csv", "no/out.csv", {}, "There is no folder"),
        ("in.csv", "folder.csv", {}, "is a folder"),
        ("in.csv", "in.csv", {}, "is an input"),
        ("in.csv", "link.csv", {}, "is an input"),
        ("in.csv", "out.csv", {"keep": ["z"]}, "has no column 'z'; it has f0, f1, f2"),
        ("in.csv", "out.csv", {"drop": ["z"]}, "has no column 'z'"),
        ("in.csv", "out.csv", {"keep": ["f0"], "drop": ["f0"]}, "cannot be dropped"),
        ("in.csv", "out.npy", {"keep": ["f0"]}, "coordinates only"),
        ("in.npy", "out.csv", {"keep": ["f0"]}, "without named columns"),
        ("in.npy", "out.csv", {"drop": ["f0"]}, "without named columns"),
        ("words.parquet", "out.csv", {}, "text in column f0. .*drop="),
        ("broken.parquet", "out.csv", {}, "cannot be read"),
        ("broken.npy", "out.csv", {}, "cannot be read"),
        ("broken.npz", "out.csv", {}, "cannot be read"),
        ("wide.npy", "out.csv", {}, "needs 3 features, but .* has 6"),
        ("words.npy", "out.csv", {}, "must have a 2-d array of numbers"),
        ("two.npz", "out.csv", {}, "no array X; it has a, b"),
        ("named.csv", "out.csv", {"keep": ["nearfar_0"]}, "name of a coordinate"),
    ],
)
def test_what_cannot_be_done(tmp_path, metric, X, source, target, options, message):
    write(tmp_path / "in.csv", X)
    write(tmp_path / "in.npy", X)
    write(tmp_path / "named.csv", X, nearfar_0=["x"] * 101)
    write(tmp_path / "words.parquet", X, f0=["x"] * 101)
    np.save(tmp_path / "wide.npy", np.hstack([X, X]))
    np.save(tmp_path / "words.npy", X.astype(str))
    np.savez(tmp_path / "two.npz", a=X, b=X)
    for name in ("in.txt", "broken.parquet", "broken.npy", "broken.npz"):
        (tmp_path / name).write_text("not what it says it is")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "in.csv")
    before = files(tmp_path)
    with pytest.raises(ValueError, match=message) as caught:
        transform_file(metric, tmp_path / source, tmp_path / target, **options)
    assert "\n" not in str(caught.value)
    assert files(tmp_path) == before


def test_missing_features_are_named(tmp_path, metric, X):
    source = write(tmp_path / "in.csv", X)
    named = metric.named(["f0", "height", "width"])
    with pytest.raises(ValueError, match="height, width"):
        transform_file(named, source, tmp_path / "out.csv")
    with pytest.raises(ValueError, match="needs column f2, which drop="):
        transform_file(metric.named(["f0", "f1", "f2"]), source, tmp_path / "o.csv", drop=["f2"])


def test_a_gated_metric_has_several_maps(tmp_path, X, metric):
    source = write(tmp_path / "in.csv", X)
    gated = GatedMetric([metric, metric], np.zeros((2, 3)), np.zeros(2))
    with pytest.raises(ValueError, match="several maps"):
        transform_file(gated, source, tmp_path / "out.csv")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("end", TARGETS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_run_leaves_nothing(tmp_path, metric, X, kind, end, error):
    source, target = write(tmp_path / f"in.{kind}", X), tmp_path / f"out.{end}"

    def stop(done, total):
        if done > 50:
            raise error

    with pytest.raises(error):
        transform_file(metric, source, target, progress=stop)
    assert files(tmp_path) == [source.name]
    target.write_text("old")
    with pytest.raises(error):
        transform_file(metric, source, target, progress=stop)
    assert target.read_text() == "old"
    assert files(tmp_path) == sorted([source.name, target.name])


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_a_table_that_cannot_be_written(tmp_path, metric, X, end, monkeypatch):
    def full(*args, **options):
        raise OSError("no room\nat all")

    monkeypatch.setattr(pl.DataFrame, "write_csv", full)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    np.save(tmp_path / "in.npy", X)
    with pytest.raises(ValueError, match=f"out.{end} cannot be written: no room$"):
        transform_file(metric, tmp_path / "in.npy", tmp_path / f"out.{end}")
    assert files(tmp_path) == ["in.npy"]


@pytest.mark.parametrize("end", TARGETS)
def test_permissions(tmp_path, metric, X, end):
    source, target = write(tmp_path / "in.csv", X), tmp_path / f"out.{end}"
    new = tmp_path / "new"
    new.touch()
    transform_file(metric, source, target)
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(new.stat().st_mode)
    target.chmod(0o600)
    transform_file(metric, source, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_link_is_followed(tmp_path, metric, X):
    source = write(tmp_path / "in.csv", X)
    (tmp_path / "link.npy").symlink_to(tmp_path / "real.npy")
    transform_file(metric, source, tmp_path / "link.npy")
    assert (tmp_path / "link.npy").is_symlink()
    assert len(np.load(tmp_path / "real.npy")) == 101


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_that_are_too_large(tmp_path, dtype):
    """Infinite coordinates are an error, without a file and without a warning."""
    rows = np.ones((2000, 2), dtype=dtype)
    rows[1500, 1] = np.finfo(dtype).max
    np.save(tmp_path / "in.npy", rows)
    with pytest.raises(ValueError, match="Row 1500 has values that are too large for the metric"):
        transform_file(Metric(10 * np.eye(2)), tmp_path / "in.npy", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
