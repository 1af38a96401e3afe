"""Tables as they are: from `learn` to every command that uses the metric."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nearfar import Metric
from nearfar.frames.reading import read_table
from nearfar.runtime.messages import collecting_notes

from .customers import customers

FAST = ["--label", "segment", "--method", "lda", "--write"]
FEATURES = 1 + 1 + 4 + 1 + 5
"""Age, three cities, active, four parts of a date; three of them with missing values."""


@pytest.fixture
def table(folder):
    found = customers()
    found.write_csv("c.csv")
    found.write_csv("c.tsv", separator="\t")
    found.write_csv("semicolons.csv", separator=";")
    found.write_parquet("c.parquet")
    found.write_ndjson("c.jsonl")
    with gzip.open("c.csv.gz", "wb") as file:
        file.write(Path("c.csv").read_bytes())
    return found


@pytest.fixture
def learned(table, run):
    run("learn", "c.csv", *FAST, "--out", "c.safetensors")
    return Metric.load("c.safetensors")


FORMATS = ["c.csv", "c.tsv", "semicolons.csv", "c.parquet", "c.jsonl", "c.csv.gz"]


@pytest.mark.parametrize("source", FORMATS)
def test_every_format_gives_the_same_metric(table, run, source):
    result = run("learn", source, *FAST, "--out", "m.safetensors")
    assert f"120 rows x {FEATURES} features, 3 classes" in result.stdout
    (note,) = [line for line in result.stderr.splitlines() if line.startswith("Note")]
    assert "read 4 columns as 12 features; left out customer_id (looks like ids), comment" in note
    run("learn", "c.csv", *FAST, "--out", "c.safetensors")
    assert Path("m.safetensors").read_bytes() == Path("c.safetensors").read_bytes()
    rows = read_table(
        source, label="segment", ids="customer_id", metric=Metric.load("m.safetensors")
    )
    np.testing.assert_array_equal(rows.X, Metric.load("c.safetensors").columns.apply(table))
    assert rows.name in {"c", "semicolons"}


def test_commands_take_the_table_as_it_is(learned, table, run, document):
    expected = learned.transform(table)
    run("transform", "c.safetensors", "c.parquet", "out.parquet", "--id", "customer_id")
    mapped = pl.read_parquet("out.parquet")
    assert mapped["customer_id"].to_list() == table["customer_id"].to_list()
    np.testing.assert_allclose(mapped.drop("customer_id").to_numpy(), expected, rtol=1e-9)
    found = document(
        "neighbors", "c.safetensors", "c.csv", "--id", "customer_id", "--row", "C-0007"
    )
    distances = learned.distances(table[7], table).ravel()
    distances[7] = np.inf
    assert found[0]["neighbor"] == f"C-{distances.argmin():04d}"
    pl.DataFrame(
        {"a": ["C-0000", "C-0001"], "b": ["C-0003", "C-0002"], "similar": [1, 0]}
    ).write_csv("p.csv")
    verified = document("verify", "c.safetensors", "c.jsonl", "p.csv", "--id", "customer_id")
    np.testing.assert_allclose(
        [pair["distance"] for pair in verified["decisions"]],
        learned.pair_distances(table, [[0, 3], [1, 2]]),
        rtol=1e-9,
    )
    scores = document("evaluate", "c.safetensors", "c.csv.gz", "--label", "segment")
    (error,) = [name for name in scores["learned"] if name.endswith("-NN error")]
    assert scores["learned"][error] < scores["Euclidean (standardised)"][error]
    shown = document("show", "c.safetensors")
    assert {c["name"] for c in shown["columns"]["columns"]} == {
        "age",
        "city",
        "is_active",
        "joined",
    }
    assert "Columns: 4, 2 left out; --columns" in run("show", "c.safetensors").stdout


def test_the_default_name_of_the_metric(table, run):
    run("learn", "c.csv.gz", *FAST)
    assert Path("c.safetensors").exists()


@pytest.mark.slow
def test_compare_and_report(table, run, folder):
    run("compare", "c.csv", "--label", "segment", "--id", "customer_id", "--method", "lda")
    run("report", "c.csv", *FAST[:4], "--out", "c.html")
    assert Metric.load("c-metric.safetensors").columns.names == (
        "age",
        "city",
        "is_active",
        "joined",
    )
    run("report", "c.csv", *FAST[:2], "--metric", "c-metric.safetensors", "--out", "again.html")


def test_new_rows(learned, run, document):
    new = (
        customers()
        .head(3)
        .drop("segment", "comment")
        .with_columns(
            pl.Series("city", ["Rome", None, "Ulm"]), pl.Series("is_active", [None, True, False])
        )
    )
    new.write_csv("new.csv")
    found = document(
        "neighbors", "c.safetensors", "c.csv", "--queries", "new.csv", "--neighbors", 1
    )
    assert len(found) == 3
    np.testing.assert_allclose(
        [line["distance"] for line in found],
        learned.distances(new, customers()).min(axis=1),
        atol=1e-9,
    )


class TestRules:
    def test_names_are_separated_by_commas_or_repeated(self, table):
        for drop in (["city,joined"], ["city", "joined"], ["city, joined"]):
            rows = read_table("c.csv", label="segment", drop=drop)
            assert rows.columns.names == ("age", "is_active")

    def test_a_name_with_a_comma(self, folder):
        pl.DataFrame({"a,b": [1.5, 2, 3], "a": [1, 1, 2], "y": [0, 1, 0]}).write_csv("x.csv")
        assert read_table("x.csv", label="y", drop=["a,b"]).feature_names == ("a",)

    def test_numbers_and_categories(self, table):
        kinds = read_table("c.csv", label="segment", categorical=["age"]).columns.kinds_
        assert [kind.kind for kind in kinds] == ["category", "category", "boolean", "date"]
        pl.DataFrame({"id": range(12), "x": [1.0, 2.0] * 6, "y": [0, 1] * 6}).write_csv("ids.csv")
        assert read_table("ids.csv", label="y").feature_names == ("x",)
        kept = read_table("ids.csv", label="y", numeric=["id"])
        assert kept.feature_names == ("id", "x")
        assert kept.columns is None
        rows = read_table("ids.csv", label="y", categorical=["x"])
        assert rows.feature_names == ("x=1", "x=2")

    def test_columns_with_one_value_are_left_out(self, folder):
        plain = {"x": [1.0, 2.5] * 6, "version": [3] * 12, "Sample No": range(7, 19)}
        pl.DataFrame(plain | {"y": [0, 1] * 6}).write_csv("x.csv")
        with collecting_notes() as notes:
            assert read_table("x.csv", label="y").feature_names == ("x",)
        assert [note.text for note in notes] == [
            "Left out column Sample No (looks like ids) and column version (one value). To "
            "keep, use numeric=['version', 'Sample No']."
        ]
        kept = read_table("x.csv", label="y", numeric=["version"])
        assert kept.feature_names == ("x", "version")

    def test_many_columns_with_one_value(self, folder):
        plain = {"x": [1.0, 2.5] * 6} | {f"pixel{n}": [0] * 12 for n in range(9)}
        pl.DataFrame(plain | {"y": [0, 1] * 6}).write_csv("x.csv")
        with collecting_notes() as notes:
            assert read_table("x.csv", label="y").feature_names == ("x",)
        assert notes[0].text.endswith("To keep, name them with numeric.")

    def test_missing_values_are_refused_if_asked(self, table, fail):
        line = fail("learn", "c.csv", *FAST, "--no-impute")
        assert "c.csv: Column age: the value in row 3" in line
        assert "or leave out --no-impute" in line

    def test_refusals(self, table, fail):
        assert "no column 'q'" in fail("learn", "c.csv", *FAST, "--numeric", "age,q")
        assert "not a feature" in fail("learn", "c.csv", *FAST, "--categorical", "segment")
        assert "either numeric" in fail(
            "learn", "c.csv", *FAST, "--numeric", "age", "--categorical", "age"
        )
        assert "Only tables" in fail("learn", "rows.npy", "--label", "labels.npy", "--numeric", "a")
        drops = ["--drop", "age,city,is_active,joined"]
        line = fail("learn", "c.csv", *FAST, *drops)
        assert "c.csv: No columns are left" in line

    def test_imputation_of_numbers_only(self, folder):
        Path("x.csv").write_text("x,y\n1,a\nNA,b\n4,a\n")
        rows = read_table("x.csv", label="y")
        assert rows.X.tolist() == [[1, 0], [2.5, 1], [4, 0]]


class TestLeftOut:
    def test_ids_among_numbers(self, run, iris):
        table = pl.DataFrame(iris[0], schema=list("abcd")).with_columns(y=iris[1])
        table.with_row_index("Unnamed: 0").write_csv("pandas.csv")
        result = run("learn", "pandas.csv", "--label", "y", *FAST[2:], "--out", "ids.safetensors")
        assert "150 rows x 4 features" in result.stdout
        assert "left out column Unnamed: 0 (looks like ids)" in result.stderr
        assert "--numeric 'Unnamed: 0'" in result.stderr
        table.write_csv("plain.csv")
        plain = run("learn", "plain.csv", "--label", "y", *FAST[2:], "--out", "plain.safetensors")
        assert "Note" not in plain.stderr
        assert Path("ids.safetensors").read_bytes() == Path("plain.safetensors").read_bytes()
        run("neighbors", "ids.safetensors", "pandas.csv", "--row", 3)

    def test_an_index_without_a_name(self, table, run):
        table.to_pandas().to_csv("pandas.csv")
        result = run("learn", "pandas.csv", *FAST, "--out", "m.safetensors")
        assert "left out the column without a name, customer_id (looks like ids)" in result.stderr
        run("transform", "m.safetensors", "pandas.csv", "out.csv", "--keep", "")
        assert Path("out.csv").read_text().startswith('"",nearfar_0,')
        table.select("age", "segment").drop_nulls().to_pandas().to_csv("numbers.csv")
        result = run("learn", "numbers.csv", *FAST, "--out", "m.safetensors")
        assert "left out column '' (looks like ids)" in result.stderr

    def test_metrics_of_numbers_are_saved_as_before(self, run, iris):
        pl.DataFrame(iris[0], schema=list("abcd")).with_columns(y=iris[1]).write_csv("x.csv")
        run("learn", "x.csv", "--label", "y", *FAST[2:], "--out", "x.safetensors")
        content = Path("x.safetensors").read_bytes()
        assert b'"version":"1"' in content
        assert b"columns" not in content


class TestLeakage:
    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_are_named_and_kept(self, table, run, kind):
        spoiled = table.with_columns(
            code=pl.col("segment").replace({"basic": "x", "plus": "y", "pro": "z"}),
            score=pl.col("segment").replace_strict({"basic": 3.0, "plus": 1.0, "pro": 2.5}),
        )
        getattr(spoiled, f"write_{kind}")(f"spoiled.{kind}")
        result = run("learn", f"spoiled.{kind}", *FAST, "--out", "m.safetensors")
        note = result.stderr.splitlines()[1]
        assert note.startswith("Note: columns code, score leak the label:")
        assert note.endswith("If new rows do not have them, use --drop code,score.")
        assert {"code", "score"} < set(Metric.load("m.safetensors").columns.names)

    def test_a_table_of_numbers(self, run, iris):
        X, y = iris
        pl.DataFrame(X, schema=list("abcd")).with_columns(y=(y == 0)).write_csv("two.csv")
        result = run("learn", "two.csv", "--label", "y", *FAST[2:], "--out", "m.safetensors")
        assert "Note: columns c, d leak the label:" in result.stderr
        pl.DataFrame(X, schema=list("abcd")).with_columns(y=y).write_csv("three.csv")
        assert "Note" not in run("learn", "three.csv", "--label", "y", *FAST[2:]).stderr


class TestVectors:
    @pytest.fixture
    def embeddings(self, folder):
        rng = np.random.default_rng(0)
        y = np.arange(90) % 3
        E = (rng.standard_normal((90, 6)) + 2 * np.eye(6)[y]).astype(np.float32)
        table = pl.DataFrame(
            {
                "doc": [f"text {i}" for i in range(90)],
                "emb": pl.Series(E.tolist(), dtype=pl.List(pl.Float32)),
                "topic": np.array(["a", "b", "c"])[y],
            }
        )
        table.write_parquet("emb.parquet")
        table.write_ndjson("emb.jsonl")
        return E

    @pytest.mark.parametrize("source", ["emb.parquet", "emb.jsonl"])
    def test_are_features(self, embeddings, run, source):
        options = ["--label", "topic", *FAST[2:], "--out", "e.safetensors"]
        result = run("learn", source, *options)
        assert "90 rows x 6 features" in result.stdout
        metric = Metric.load("e.safetensors")
        assert metric.feature_names == tuple(f"emb[{j}]" for j in range(6))
        np.testing.assert_allclose(
            metric.transform(pl.read_parquet("emb.parquet")),
            metric.transform(embeddings),
            rtol=1e-6,
        )

    def test_come_out_as_they_went_in(self, embeddings, run):
        options = ["--label", "topic", *FAST[2:], "--out", "e.safetensors"]
        run("learn", "emb.parquet", *options)
        keep = ["--keep", "doc,topic"]
        run("transform", "e.safetensors", "emb.parquet", "out.parquet", "--as-vector", *keep)
        mapped = pl.read_parquet("out.parquet")
        assert mapped.columns == ["doc", "topic", "nearfar"]
        assert mapped["nearfar"].dtype == pl.Array(pl.Float32, 2)
        expected = Metric.load("e.safetensors").transform(embeddings)
        np.testing.assert_allclose(mapped["nearfar"].to_numpy(), expected, rtol=1e-5)
        run("learn", "out.parquet", *options)
        assert Metric.load("e.safetensors").feature_names == ("nearfar[0]", "nearfar[1]")

    def test_need_parquet(self, embeddings, run, fail):
        run("learn", "emb.parquet", "--label", "topic", *FAST[2:], "--out", "e.safetensors")
        line = fail("transform", "e.safetensors", "emb.parquet", "out.csv", "--as-vector")
        assert "needs .parquet" in line


class TestNeededColumns:
    """A metric that needs a column never advises to leave it out."""

    @pytest.fixture
    def numbers(self, table, run):
        numeric = table.select(
            pl.col("age").fill_null(30), pl.col("is_active").cast(int), "segment"
        )
        numeric.write_csv("numbers.csv")
        run("learn", "numbers.csv", *FAST, "--out", "numbers.safetensors")

    def test_dropped(self, learned, numbers, fail):
        for metric in ("c.safetensors", "numbers.safetensors"):
            line = fail("neighbors", metric, "c.csv", "--drop", "is_active")
            assert "needs column is_active, which --drop is_active leaves out" in line

    @pytest.mark.parametrize("source", ["c.csv", "c.parquet"])
    def test_text(self, numbers, table, fail, source):
        line = fail("neighbors", "numbers.safetensors", source)
        assert "text in column is_active, where the metric needs numbers" in line
        assert "--drop" not in line

    def test_missing(self, learned, fail):
        customers().drop("age", "city").write_csv("less.csv")
        line = fail("neighbors", "c.safetensors", "less.csv")
        assert "less.csv lacks columns that the metric needs: age, city." in line

    def test_a_cell(self, learned, fail):
        text = Path("c.csv").read_text().replace("C-0100,", "C-0100,old", 1)
        Path("wrong.csv").write_text(text)
        line = fail("transform", "c.safetensors", "wrong.csv", "out.csv")
        assert "wrong.csv: Column age: 'old" in line
        assert "in row 100 (counting from 0) is not a number" in line


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_plain_distances_of_a_raw_table(table, document, distance):
    table.head(4).write_csv("asked.csv")
    options = ["--distance", distance, "--drop", "segment", "--neighbors", 1]
    found = document("neighbors", "c.csv", *options, "--queries", "asked.csv")
    np.testing.assert_allclose([line["distance"] for line in found], 0, atol=1e-9)
