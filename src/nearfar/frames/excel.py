"""The first sheet of an Excel workbook (.xlsx), read with the standard library.

Files may be made by anybody: nothing is unpacked that grows too much, document types and entities
are refused, and a table of many more cells than the file can have is never made.
"""

from __future__ import annotations

import lzma
import os
import posixpath
import re
import struct
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache, lru_cache, reduce
from pathlib import Path
from xml.parsers import expat

import polars as pl

from nearfar.frames.reader import ColumnChoice, columns_named, first_line
from nearfar.frames.table import TableError, check_growth
from nearfar.runtime.messages import quoted

_Cell = bool | float | str | datetime
_CHUNK_BYTES = 1 << 18
# Parts of workbooks have elements in no more elements than about ten.
_DEEPEST = 100
# Numbers of the date formats that Excel has built in; times of a day stay numbers.
_DATE_FORMATS = frozenset(map(str, [14, 15, 16, 17, 22]))
# Larger whole numbers are not exact, so that they stay decimal.
_LARGEST_INT = 1 << 53
# A cell of a few bytes takes about four times as many in memory.
_BYTES_IN_MEMORY = 4
# Excel has no more columns.
_MOST_COLUMNS = 1 << 14
# What in the code of a format does not say that it is a date: text, colours, escapes.
_NOT_CODE = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.|_.')
_ERRORS = (
    expat.ExpatError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    ArithmeticError,
    LookupError,
    RuntimeError,
    EOFError,
    OSError,
)


def read_excel(path: Path) -> pl.DataFrame:
    """Read the first sheet; its first row with a value names the columns, empty rows are left out.

    Columns of numbers, dates and truth values have their types; all others are text.
    """
    with path.open("rb") as file:
        state = os.fstat(file.fileno())
    try:
        return _read(path, state.st_size, state.st_mtime_ns)
    except _ERRORS as error:
        raise TableError(
            f"{path} cannot be read as an Excel workbook ({first_line(error)}). Save it again as "
            ".xlsx without a password, or as .csv."
        ) from error


# A file is opened several times, for its names and for its rows.
@lru_cache(maxsize=1)
def _read(path: Path, size: int, _: int) -> pl.DataFrame:
    with zipfile.ZipFile(path) as archive:
        sheet, strings, styles, start = _workbook(path, archive)
        cells: defaultdict[int, dict[int, _Cell]] = defaultdict(dict)
        row = column = 0
        content: list[str] = []
        for tag, attributes, text, parent in _elements(path, archive, sheet):
            if tag == "v" or (tag == "t" and parent != "rPh"):
                content.append(text)
            elif tag == "c":
                place = attributes.get("r")
                column = column + 1 if place is None else _number(place.rstrip("0123456789"))
                value = _value("".join(content), attributes, strings, styles, start)
                if column > _MOST_COLUMNS:
                    raise LookupError(f"it has more than {_MOST_COLUMNS} columns")
                if value is not None:
                    cells[column][row] = value
                content.clear()
            elif tag == "row":
                row, column = row + 1, 0
    rows = sorted({row for values in cells.values() for row in values})
    if not rows:
        raise TableError(f"{path} has no values in its first sheet.")
    check_growth(path, size, 8 * len(rows) * len(cells))
    unnamed = [column for column in sorted(cells) if rows[0] not in cells[column]]
    if len(unnamed) > 1:
        where = columns_named([str(column) for column in unnamed])
        raise TableError(
            f"{path} has values in {where}, which its first row does not name. Name them, and "
            "delete what is above or beside the table."
        )
    names = [_text(cells[column].get(rows[0], "")) for column in sorted(cells)]
    ColumnChoice().features(path, names)  # refuses a name that comes twice
    series = [_series([cells[column].get(row) for row in rows[1:]]) for column in sorted(cells)]
    return pl.DataFrame(dict(zip(names, series, strict=True)))


def _workbook(path: Path, archive: zipfile.ZipFile) -> tuple[str, list[str], list[bool], datetime]:
    """Return the part of the first sheet, the shared texts, which styles are dates, and day 0."""
    parts: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for tag, attributes, _, _ in _elements(path, archive, "xl/_rels/workbook.xml.rels"):
        if tag == "Relationship":
            target = posixpath.normpath(posixpath.join("/xl", attributes["Target"])).strip("/")
            kind = attributes["Type"].rpartition("/")[2]
            kinds[kind] = target
            if kind == "worksheet":
                parts[attributes["Id"]] = target
    sheets, start = [], datetime(1899, 12, 30)
    for tag, attributes, _, _ in _elements(path, archive, "xl/workbook.xml"):
        if tag == "sheet":
            key = next((key for key in attributes if key.endswith(" id")), "")
            sheets += [parts[attributes[key]]] if attributes.get(key) in parts else []
        elif tag == "workbookPr" and attributes.get("date1904") in ("1", "true"):
            start = datetime(1904, 1, 1)
    if not sheets:
        raise LookupError("it has no sheet of cells")
    strings: list[str] = []
    pieces: list[str] = []
    for tag, _, text, parent in _elements(path, archive, kinds.get("sharedStrings")):
        if tag == "t" and parent != "rPh":
            pieces.append(text)
        elif tag == "si":
            strings.append("".join(pieces))
            pieces.clear()
    dates, styles = set(_DATE_FORMATS), []
    for tag, attributes, _, parent in _elements(path, archive, kinds.get("styles")):
        if tag == "numFmt" and re.search("[dy]", _NOT_CODE.sub("", attributes["formatCode"]), re.I):
            dates.add(attributes["numFmtId"])
        elif tag == "xf" and parent == "cellXfs":
            styles.append(attributes.get("numFmtId") in dates)
    return sheets[0], strings, styles, start


def _elements(
    path: Path, archive: zipfile.ZipFile, name: str | None
) -> Iterator[tuple[str, dict[str, str], str, str]]:
    """Yield the elements of a part as they end: name, attributes, text, and the element around."""
    if name is None:
        return
    unpacked = archive.getinfo(name).file_size
    check_growth(path, path.stat().st_size, _BYTES_IN_MEMORY * unpacked)
    opened: list[tuple[str, dict[str, str]]] = [("", {})]
    # Elements have either text or others in them.
    text: list[str] = []
    ended: list[tuple[str, dict[str, str], str, str]] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        opened.append((tag.rpartition(" ")[2], attributes))
        text.clear()

    def end(_: str) -> None:
        ended.append((*opened.pop(), "".join(text), opened[-1][0]))
        text.clear()

    def refuse(*_: object) -> None:
        raise RuntimeError("it has a document type, which workbooks do not have")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = text.append
    parser.StartDoctypeDeclHandler = refuse
    with archive.open(name) as part:
        while chunk := part.read(_CHUNK_BYTES):
            parser.Parse(chunk)
            # Workbooks end many elements in as many bytes.
            if not ended or len(opened) > _DEEPEST:
                raise RuntimeError("its elements are too long or too deep")
            yield from ended
            ended.clear()
        parser.Parse(b"", True)
    yield from ended


def _value(
    text: str,
    attributes: dict[str, str],
    strings: Sequence[str],
    styles: Sequence[bool],
    start: datetime,
) -> _Cell | None:
    """Return the value of a cell; None if it is empty or an error such as #N/A."""
    kind = attributes.get("t", "n")
    if not text or kind == "e":
        return None
    if kind == "s":
        return strings[int(text)] or None
    if kind in ("str", "inlineStr"):
        return text
    if kind == "b":
        return text == "1"
    if kind == "d":
        return datetime.fromisoformat(text).replace(tzinfo=None)
    if "s" in attributes and styles and styles[int(attributes["s"])]:
        # Days are stored with an error of some microseconds.
        return start + timedelta(milliseconds=round(86_400_000 * float(text)))
    return float(text)


def _series(values: list[_Cell | None]) -> pl.Series:
    """Return a column with the type that all its values have, or as text."""
    kinds = {type(value) for value in values if value is not None}
    numbers = [value for value in values if isinstance(value, float)]
    if kinds == {float} and all(v.is_integer() and abs(v) < _LARGEST_INT for v in numbers):
        return pl.Series(values, dtype=pl.Float64).cast(pl.Int64)
    if len(kinds) < 2:
        return pl.Series(values)
    return pl.Series([None if value is None else _text(value) for value in values])


def _text(value: _Cell) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@cache
def _number(letters: str) -> int:
    """Return the number of a column, from 1."""
    if not re.fullmatch("[A-Z]{1,3}", letters):
        raise LookupError(f"there is no column {quoted(letters)}")
    return reduce(lambda number, letter: 26 * number + ord(letter) - 64, letters, 0)
