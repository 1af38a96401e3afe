"""Excel workbooks: types of columns, and files that are made to take much memory."""

from __future__ import annotations

import tracemalloc
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nearfar.frames import TableError
from nearfar.frames import excel as excel_format
from nearfar.frames.excel import read_excel
from nearfar.frames.reading import read_table
from table_files import SHEET, excel_parts, zipped

SHEET_PART = "xl/worksheets/sheet1.xml"
HOSTILE = {
    "a cell far away": '<row r="1"><c r="A1"><v>1</v></c></row>'
    '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
    "a row of many names": "<row>" + "<c><v>1</v></c>" * 16384 + "</row>"
    "<row><c><v>1</v></c></row>" * 100_000,
    "an undefined entity": "<row><c><v>&laugh;</v></c></row>",
    "too many columns": "<row>" + "<c><v>1</v></c>" * 16385 + "</row>",
    "deep": "<a>" * 100_000,
    "no end": "<row><c><v>" + "1" * 5_000_000,
    "a long attribute": f'<row a="{"1" * 5_000_000}">',
    "many cells": "<row>" + "<c/>" * 30_000_000,
    "not a number": "<row><c><v>1x</v></c></row>",
    "not a text": '<row><c t="s"><v>7</v></c></row>',
    "not a date": '<row><c s="1"><v>1e300</v></c></row>',
    "no cell": '<row><c r="7"><v>1</v></c></row>',
    "digits": f'<row><c t="s"><v>{"9" * 5000}</v></c></row>',
}
LAUGHS = f"""<!DOCTYPE a [<!ENTITY e "{"ha" * 1000}"><!ENTITY f "{"&e;" * 1000}">]>
<worksheet xmlns="{SHEET}"><sheetData><row><c t="str"><v>&f;</v></c></row></sheetData>
</worksheet>"""


@pytest.fixture
def written(folder):
    """Write a workbook."""

    def write(rows, **parts):
        content = zipped(excel_parts(rows) | parts)
        Path("x.xlsx").write_bytes(content)
        return content

    return write


def test_rows(folder, iris, written):
    X, y = iris
    names = ["setosa", "versicolor", "virginica"]
    written(
        [["a", "b", "c", "d", "species"]]
        + [[*x, names[c]] for x, c in zip(X.tolist(), y, strict=True)]
    )
    rows = read_table("x.xlsx", label="species")
    np.testing.assert_array_equal(rows.X, X)
    assert rows.labels.tolist() == [names[c] for c in y]


def test_types(written):
    day = datetime(2024, 2, 29, 13, 5)
    rows = [["n", "x", "when", "ok", "word", "mixed", "none"]]
    rows += [[1, 0.5, day, True, "a & b", 5, None], [None, 1, None, None, None, "n/a", None]]
    written([[None], *rows, [None, None]])
    table = read_excel(Path("x.xlsx"))
    assert table.row(0, named=True) == dict(zip(rows[0], [*rows[1][:5], "5", None], strict=True))
    kinds = [pl.Int64, pl.Float64, pl.Datetime("us"), pl.Boolean, pl.String, pl.String]
    assert table.dtypes == [*kinds, pl.Null]


def test_texts_in_cells_and_in_pieces(written):
    written(
        '<row><c t="inlineStr"><is><t>a</t></is></c><c t="str"><v>b</v></c></row>'
        '<row><c t="inlineStr"><is><r><t>x</t></r><r><t>y</t></r><rPh><t>z</t></rPh></is></c>'
        '<c t="e"><v>#N/A</v></c></row><row><c t="d"><v>2024-01-31</v></c></row>'
    )
    assert read_excel(Path("x.xlsx")).to_dict(as_series=False) == {
        "a": ["xy", "2024-01-31 00:00:00"],
        "b": [None] * 2,
    }


def test_days_of_old_macs(written):
    rows = [["when"], [datetime(1899, 12, 31)]]
    book = excel_parts(rows)["xl/workbook.xml"].replace(
        "<sheets>", '<workbookPr date1904="1"/><sheets>'
    )
    written(rows, **{"xl/workbook.xml": book})
    assert read_excel(Path("x.xlsx"))["when"][0] == datetime(1904, 1, 2)


def test_a_file_that_changed_is_read_again(written):
    written([["a"], [1.5]])
    read_excel(Path("x.xlsx"))
    written([["a"], [2.5], [3.5]])
    assert read_excel(Path("x.xlsx"))["a"].to_list() == [2.5, 3.5]


def test_a_title_above_the_table(written):
    written([["Report of 2024"], ["a", "b", "label"], [1, 2, "p"]])
    with pytest.raises(
        TableError, match="has values in columns 2, 3, which its first row does not"
    ):
        read_excel(Path("x.xlsx"))


@pytest.mark.parametrize("fault", HOSTILE)
def test_hostile_sheets(written, fault):
    assert len(written(HOSTILE[fault])) < 1 << 19
    tracemalloc.start()
    try:
        with pytest.raises(TableError, match=r"^x.xlsx .{9,500}$"):
            read_table("x.xlsx", label="label")
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1 << 27


def test_document_types(written):
    written([["a"]], **{SHEET_PART: LAUGHS})
    with pytest.raises(TableError, match="it has a document type"):
        read_excel(Path("x.xlsx"))


@pytest.mark.parametrize("content", [b"", b"PK", b"a,b\n1,2\n", b"\xd0\xcf\x11\xe0" * 200])
def test_other_files(folder, fail, content):
    Path("x.xlsx").write_bytes(content)
    line = fail("learn", "x.xlsx", "--label", "label")
    assert "x.xlsx cannot be read as an Excel workbook" in line
    assert "without a password" in line


def test_linear_in_columns(written, monkeypatch):
    """Elements are visited once, however many columns there are."""
    visited = []
    number = excel_format._number.__wrapped__
    monkeypatch.setattr(
        excel_format, "_number", lambda letters: visited.append(0) or number(letters)
    )
    names = [f"{a}{b}" for a in "ABCDEFGHIJ" for b in "ABCDEFGHIJ"]
    row = "".join(f'<c r="{name}1"><v>{n}</v></c>' for n, name in enumerate(names))
    written(f"<row>{row}</row><row>{row}</row>")
    read_table("x.xlsx")
    assert len(visited) == 2 * len(names)
