"""Columns as people have them, from `learn` to the commands that use the metric."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nearfar import Metric
from nearfar.frames.reading import read_table

N = 60
FAST = ["--label", "grade", "--method", "lda", "--write"]
STORIES = ["wet and cold in the north", "dry and warm in the south", "stones near the old fence"]


def soils():
    rng = np.random.default_rng(0)
    depth = np.round(rng.uniform(0.2, 9, N), 2)
    clay = rng.integers(5, 70, N)
    return pl.DataFrame(
        {
            "depth": [f"{d:.2f} m" if n % 3 else f"{100 * d:.0f} cm" for n, d in enumerate(depth)],
            "clay": [f"{c}%" for c in clay],
            "price": [f"€{1000 + 37 * n:,.2f}" for n in range(N)],
            "zip": rng.choice(["00501", "02139", "90210"], N),
            "P": ["<5", "12.5", "n.d.", "7"] * (N // 4),
            "story": [f"{STORIES[n % 3]} no. {n}" for n in range(N)],
            "grade": np.where(clay > 35, "good", "poor"),
        }
    ), depth


@pytest.fixture
def table(folder):
    found, _ = soils()
    found.write_csv("soils.csv")
    return found


@pytest.fixture
def learned(table, run):
    run("learn", "soils.csv", *FAST, "--out", "soils.safetensors")
    return Metric.load("soils.safetensors")


def test_one_line_says_where_to_see_what_was_read(table, run, document):
    result = run("learn", "soils.csv", *FAST, "--out", "m.safetensors")
    (note,) = (line for line in result.stderr.splitlines() if "--columns" in line)
    assert note == (
        "Note: read 5 columns as 8 features; left out story (free text). See how with `nearfar "
        "show METRIC --columns`; change it with --numeric, --categorical, --text, --drop."
    )
    shown = document("show", "m.safetensors", "--columns")
    examples = {each["column"]: each["example"] for each in shown}
    for part in ("'581 cm' → 5.81 m", "'42%' → 42", "'€1,000.00' → 1000", "'<5' → 5"):
        assert part in examples.values()
    assert {each["taken_as"] for each in shown} >= {"category, 3 levels", "left out: free text"}


def test_cells_that_cannot_be_read_are_counted(table, run, document):
    cells = pl.Series("clay", ["probe broken", *table["clay"][1:]])
    table.with_columns(cells).write_csv("gaps.csv")
    result = run("learn", "gaps.csv", *FAST, "--out", "m.safetensors")
    assert "; 1 cell unreadable (clay: 'probe broken'). See" in result.stderr
    shown = document("show", "m.safetensors", "--columns")
    (clay,) = (each["taken_as"] for each in shown if each["column"] == "clay")
    assert clay.startswith("number in %; 1 cell unreadable ('probe broken'); missing values")


def test_new_rows_are_read_in_the_same_way(learned, table, run, document):
    depth = soils()[1]
    X = learned.columns.apply(table)
    np.testing.assert_allclose(X[:, 0], depth)
    new = table.head(4).with_columns(
        depth=pl.Series([f"{1000 * d:.0f}mm" for d in depth[:4]]),
        clay=pl.col("clay").str.strip_chars("%"),
        price=pl.col("price").str.replace("€", "EUR "),
    )
    new.write_csv("new.csv")
    run("transform", "soils.safetensors", "new.csv", "new.parquet")
    mapped = pl.read_parquet("new.parquet").to_numpy()
    np.testing.assert_allclose(mapped, learned.transform(table)[:4], atol=1e-9)
    found = document("neighbors", "soils.safetensors", "soils.csv", "--queries", "new.csv",
                     "--neighbors", 1)  # fmt: skip
    assert [line["neighbor"] for line in found] == [0, 1, 2, 3]
    assert "Columns: 5, 1 left out; --columns" in run("show", "soils.safetensors").stdout


def test_a_cell_in_another_unit_is_named(learned, table, fail):
    table.head(2).with_columns(depth=pl.Series(["1 m", "3 kg"])).write_csv("new.csv")
    line = fail("transform", "soils.safetensors", "new.csv", "out.csv")
    assert "Column depth: '3 kg' in row 1" in line


class TestCodes:
    """Of a table in which every other column is a plain number."""

    CODES = ["00501", "02139", "90210"] * 10

    def table(self):
        return pl.DataFrame({"x": np.arange(30) ** 2, "zip": self.CODES, "y": ["a", "b"] * 15})

    def test_are_categories(self, folder):
        self.table().write_csv("zip.csv")
        rows = read_table("zip.csv", label="y")
        assert rows.feature_names == ("x", "zip=00501", "zip=02139", "zip=90210")
        self.table().write_csv("zip.csv.gz", compression="gzip")
        assert read_table("zip.csv.gz", label="y").feature_names == rows.feature_names

    def test_unless_they_are_asked_for_as_numbers(self, folder):
        self.table().write_csv("zip.csv")
        rows = read_table("zip.csv", label="y", numeric=["zip"])
        assert rows.columns is None
        assert rows.X[:3, 1].tolist() == [501, 2139, 90210]

    def test_typed_columns_have_none(self, folder):
        self.table().with_columns(pl.col("zip").cast(pl.Int64)).write_parquet("zip.parquet")
        assert read_table("zip.parquet", label="y").columns is None


class TestRowsWithoutLabel:
    @pytest.fixture
    def gaps(self, folder, iris):
        X, y = iris
        labels = ["", "NA", *map(str, y[2:-1]), "?"]
        found = pl.DataFrame(X, schema=list("abcd")).with_columns(
            y=pl.Series(labels), name=pl.Series([f"n{n}" for n in range(150)])
        )
        found.write_csv("gaps.csv")
        found[2:-1].write_csv("whole.csv")
        return found

    NOTE = "Note: left out 3 rows without a label in column y (such as '?', 'NA').\n"
    OPTIONS = ("--label", "y", "--drop", "name")

    def test_learn(self, gaps, run):
        options = [*self.OPTIONS, "--method", "lda", "--write"]
        result = run("learn", "gaps.csv", *options, "--out", "a.safetensors")
        assert self.NOTE in result.stderr
        assert "147 rows x 4 features, 3 classes" in result.stdout
        result = run("learn", "whole.csv", *options, "--out", "b.safetensors")
        assert "left out" not in result.stderr
        assert Path("a.safetensors").read_bytes() == Path("b.safetensors").read_bytes()

    @pytest.mark.usefixtures("plain_figures")
    def test_compare_and_report(self, gaps, run):
        options = [*self.OPTIONS, "--method", "lda"]
        compared = run("compare", "gaps.csv", *options)
        assert self.NOTE in compared.stderr
        assert "147 rows" in compared.stdout
        assert self.NOTE in run("report", "gaps.csv", *options, "--out", "r.html").stderr

    def test_evaluate(self, gaps, run, document):
        run("learn", "whole.csv", *self.OPTIONS, "--method", "lda", "--write", "--out",
            "m.safetensors")  # fmt: skip
        assert self.NOTE in run("evaluate", "m.safetensors", "gaps.csv", *self.OPTIONS).stderr
        found, expected = (
            document("evaluate", "m.safetensors", source, *self.OPTIONS)
            for source in ("gaps.csv", "whole.csv")
        )
        assert found == expected

    def test_evaluate_with_another_word(self, gaps, run, document):
        words = pl.col("y").replace({"NA": "unknown", "?": "Not recorded"})
        gaps.with_columns(words).write_csv("words.csv")
        arguments = ["evaluate", "metric.safetensors"]
        result = run(*arguments, "words.csv", *self.OPTIONS)
        assert self.NOTE.replace("'?', 'NA'", "'Not recorded', 'unknown'") in result.stderr
        found = document(*arguments, "words.csv", *self.OPTIONS)
        assert found == document(*arguments, "whole.csv", *self.OPTIONS)

    def test_words_that_are_classes(self, folder):
        Path("t.csv").write_text("x,y\n1,none\n2,-\n3,+\n4,nd\n")
        rows = read_table("t.csv", label="y")
        assert rows.y.tolist() == ["none", "-", "+", "nd"]

    def test_pairs_need_all_labels(self, gaps, fail):
        line = fail("verify", "metric.safetensors", "gaps.csv", "pairs.csv", *self.OPTIONS)
        assert "gaps.csv has rows that have no label in column y." in line

    @pytest.mark.usefixtures("plain_figures")
    def test_a_report_has_the_numbers_of_the_file(self, gaps, run):
        options = ["--label", "y", "--method", "lda"]
        run("report", "gaps.csv", *options, "--drop", "name", "--out", "r.html")
        run("report", "gaps.csv", *options, "--id", "name", "--out", "n.html")
        numbers = re.findall(r"\brow (\d+) \[", Path("r.html").read_text())
        names = re.findall(r"\bn(\d+) \[", Path("n.html").read_text())
        assert numbers
        assert numbers == names

    def test_neighbors_keep_their_numbers(self, gaps, run, document):
        found = document("neighbors", "metric.safetensors", "gaps.csv", "--label", "y", "--row", 1)
        assert [line["query"] for line in found] == [1] * 5
        assert {line["label"] for line in found} <= {"", "0"}

    def test_footers_do_not_count(self, folder, run):
        Path("t.csv").write_text("x,y\n" + "1,a\n2.5,b\n7,a\n" * 9 + "Total: 3 rows,\n")
        rows = read_table("t.csv", label="y")
        assert rows.X.tolist() == [[1], [2.5], [7]] * 9

    def test_typed_and_numeric_labels(self, folder):
        y = [0.5, None, float("nan"), 2.5]
        pl.DataFrame({"x": [1.0, 2, 3, 5], "y": y}).write_parquet("t.parquet")
        rows = read_table("t.parquet", label="y", numbers=True)
        assert rows.y.tolist() == [0.5, 2.5]
        assert rows.X.tolist() == [[1], [5]]

    def test_no_labels_at_all(self, folder, fail):
        Path("t.csv").write_text("x,y\n1,\n2,\n")
        line = fail("learn", "t.csv", "--label", "y")
        assert "t.csv has a label in column y" in line


class TestText:
    def test_free_text_is_used_if_asked(self, table, run):
        options = [*FAST, "--text", "story", "--drop", "zip,P"]
        result = run("learn", "soils.csv", *options, "--out", "m.safetensors")
        assert "Note: read 4 columns as 17 features." in result.stderr
        metric = Metric.load("m.safetensors")
        assert [kind.kind for kind in metric.columns.kinds_] == ["number"] * 3 + ["text"]
        run("transform", "m.safetensors", "soils.csv", "out.parquet")
        mapped = pl.read_parquet("out.parquet").to_numpy()
        np.testing.assert_allclose(mapped, metric.transform(table), atol=1e-9)

    def test_text_may_be_shown_too(self, table, run):
        options = [*FAST[:4], "--goal", "ranking", "--text", "story", "--show", "story"]
        run("report", "soils.csv", *options, "--out", "r.html")
        assert "stones near the old fence" in Path("r.html").read_text()

    def test_refusals(self, table, fail):
        assert "not a feature" in fail("learn", "soils.csv", *FAST, "--text", "grade")
        line = fail("learn", "soils.csv", *FAST, "--text", "clay", "--numeric", "clay")
        assert "either numeric or text, not both" in line
        assert "Did you mean 'story'?" in fail("learn", "soils.csv", *FAST, "--text", "storys")
        assert "Only tables" in fail("learn", "rows.npy", "--label", "labels.npy", "--text", "a")


@pytest.mark.parametrize(
    ("n_levels", "taken"),
    [(15, "read 5 columns as 19 features"), (75, "left out Individual ID (too many levels)")],
)
def test_repeated_ids_are_suggested_as_groups(folder, run, iris, n_levels, taken):
    names = pl.Series("Individual ID", [f"N{row % n_levels}" for row in range(150)])
    table = pl.DataFrame(iris[0], schema=list("abcd")).with_columns(names, y=pl.Series(iris[1]))
    table.write_csv("birds.csv")
    options = ["--label", "y", "--method", "lda", "--write"]
    result = run("learn", "birds.csv", *options)
    assert taken in result.stderr
    assert "--group 'Individual ID'" in result.stderr
    again = run("learn", "birds.csv", *options, "--group", "Individual ID")
    assert "belong together" not in again.stderr


@pytest.mark.usefixtures("plain_figures")
def test_verdicts_repeat_that_a_column_leaks(folder, run, iris):
    table = pl.DataFrame(iris[0], schema=list("abcd")).with_columns(y=pl.Series(iris[1]))
    table.with_columns(code=10 * pl.col("y")).write_csv("leak.csv")
    options = ["--label", "y", "--method", "lda"]
    clause = "; but see the note on column code."
    assert clause in run("learn", "leak.csv", *options, code=3).stdout
    run("report", "leak.csv", *options, "--out", "leak.html")
    page = Path("leak.html").read_text()
    assert clause in page
    assert "nearfar predict metric.safetensors leak.csv NEW.csv --label y" in page
    assert "after shrinkage" in page
    clean = run("learn", "leak.csv", *options, "--drop", "code", code=None).stdout
    assert "see the note" not in clean
