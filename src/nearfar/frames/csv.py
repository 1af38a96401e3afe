"""Text files: .csv and .tsv, also compressed, in blocks of whole records."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from nearfar.frames.reader import (
    Batch,
    ColumnChoice,
    TableFormat,
    TableReader,
    TableWriter,
    first_line,
    first_row_hint,
)
from nearfar.frames.table import NotNumbersError, TableError, unpacked_copy
from nearfar.runtime.messages import note, quoted
from nearfar.typing import Matrix

# Smaller blocks are parsed more slowly, and larger ones take more memory.
_CSV_BLOCK_BYTES = 1 << 22
# A longer record has a quote that is not closed.
_CSV_MAX_RECORD_BYTES = 1 << 26
# More blank lines at the end would be rows.
_CSV_TAIL_BYTES = 1 << 12
# Bytes in which decimal commas are looked for.
_CSV_SNIFFED_BYTES = 1 << 16
# The marks that files of other encodings begin with.
_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_DECIMAL_COMMA = r"^([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)$"
_HAS_DECIMAL_COMMA = re.compile(rb'(?:^|;)"?[+-]?\d*,\d+"?\r?(?:;|$)', re.MULTILINE)


class CsvReader(TableReader):
    """A .csv or .tsv file. Features are float64; other columns stay the text they are.

    A .csv file without commas in its first line may be separated by semicolons, tabs or bars. With
    semicolons, numbers may have a decimal comma.

    Blocks of whole records are cut here and parsed by polars. pyarrow's incremental reader loses a
    newline if a block ends between the CR and LF of a quoted value, cannot read a record that is
    longer than a block, and takes everything after an unclosed quote as one value. That of polars
    holds more of the file the more cores there are.
    """

    dtype = np.dtype(np.float64)

    def __init__(
        self,
        path: Path,
        choice: ColumnChoice,
        scratch: Path | None = None,
        *,
        separator: str = ",",
        content: Path | None = None,
    ) -> None:
        self.path, self._content = path, content or path
        self._separator = separator
        with self._content.open("rb") as file:
            header = self._header(file)
            self._start = file.tell()
            # A blank line at the end is not a row.
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._start, size - _CSV_TAIL_BYTES))
            tail = file.read()
            self._end = size - len(tail) + len(tail.rstrip(b"\r\n"))
            file.seek(self._start)
            sample = file.read(_CSV_SNIFFED_BYTES) if self._separator == ";" else b""
        self._decimal_comma = _HAS_DECIMAL_COMMA.search(sample) is not None
        self._columns = self._names(header)
        self.features = choice.features(path, self._columns)
        self.needed = choice.needed
        self.others = pl.Schema(dict.fromkeys(choice.others, pl.String))
        # A column that is both is read as text and converted later.
        self._types: dict[str, Any] = dict.fromkeys(self.features, pl.Float64)
        self._types |= dict.fromkeys(choice.others, pl.String)

    def _header(self, file: BinaryIO) -> str:
        """Return the first record, or say what is wrong with it."""
        record = file.readline(_CSV_MAX_RECORD_BYTES)
        encoding = next((name for mark, name in _MARKS.items() if record.startswith(mark)), None)
        if encoding is not None:
            raise TableError(f"{self.path} is in {encoding}; save it in UTF-8.")
        if b"\0" in record:
            raise TableError(
                f"{self.path} has zero bytes in its first line; save it as text in UTF-8, not in "
                "UTF-16 or UTF-32."
            )
        if self._separator == "," and b"," not in record:
            others = [mark for mark in (";", "\t", "|") if mark.encode() in record]
            self._separator = others[0] if others else ","
        lines, left = [record], _CSV_MAX_RECORD_BYTES - len(record)
        is_open = record.count(b'"') % 2 == 1
        while is_open and left > 0 and (more := file.readline(left)):
            lines.append(more)
            left -= len(more)
            is_open ^= more.count(b'"') % 2 == 1
        record = b"".join(lines)
        if not record.removeprefix(codecs.BOM_UTF8).strip():
            raise TableError(f"{self.path} has no header; its first line must name the columns.")
        return self._utf8(record).decode("utf-8-sig")

    def _utf8(self, text: bytes) -> bytes:
        """Return text in UTF-8; any other is taken as Windows-1252, of which Latin-1 is a part."""
        try:
            text.decode()
        except UnicodeDecodeError:
            note(
                f"{self.path} is not in UTF-8; it is read as Western European (Windows-1252). If "
                "letters are wrong, save it in UTF-8."
            )
            return text.decode("cp1252", errors="replace").encode()
        return text

    def _names(self, header: str) -> list[str]:
        """Return the names of the columns, or say what is wrong with them."""
        records = csv.reader(io.StringIO(header, newline=""), delimiter=self._separator)
        try:
            names, more = next(records), next(records, None)
        except csv.Error as error:
            longest = f"{csv.field_size_limit():,}"
            raise TableError(
                f"{self.path} has a column name that is not closed or has more than {longest} "
                "characters; its first line must name the columns."
            ) from error
        if more is not None:
            raise TableError(
                f"{self.path} has the line ends of old Macs (CR); save it with those of Unix (LF) "
                "or Windows (CRLF)."
            )
        return names

    def _read_batches(self) -> Iterator[Batch]:
        """Yield one batch per block; the total is estimated from the bytes read so far."""
        if hint := first_row_hint(self._columns):
            note(f"{self.path}:{hint}", warning=True)
        size = self._end - self._start
        rows = done = 0
        for block in self._blocks():
            try:
                frame = self._parse(block, self._types)
                X = _numbers(frame, self.features)
            except pl.exceptions.PolarsError as error:
                raise self._explained(error, block, rows) from error
            others = frame.select(self.others.names())
            rows += len(X)
            done += len(block)
            yield Batch(X, others, max(rows, rows * size // done))

    def _blocks(self) -> Iterator[bytes]:
        """Yield whole records, about as many bytes each time."""
        with self._content.open("rb") as file:
            file.seek(self._start)
            rest = b""
            while more := file.read(min(_CSV_BLOCK_BYTES, self._end - file.tell())):
                block = rest + more
                if file.tell() == self._end and block.count(b'"') % 2 == 0:
                    yield block
                    return
                end = end_of_records(block)
                rest = block[end:]
                if end:
                    yield block[:end]
                elif len(rest) > _CSV_MAX_RECORD_BYTES:
                    break
            if rest:
                raise TableError(f"{self.path} has a quote that is not closed.")

    def _parse(self, block: bytes, types: dict[str, Any]) -> pl.DataFrame:
        """Parse some columns of whole records; short records are filled with nulls."""
        # Names of our own need no quotes.
        aliases = {name: f"c{number}" for number, name in enumerate(self._columns)}
        comma = self._decimal_comma
        wanted = {aliases[name]: pl.String if comma else kind for name, kind in types.items()}
        frame = pl.read_csv(
            self._separator.join(aliases.values()).encode() + b"\n" + self._utf8(block),
            separator=self._separator,
            columns=list(wanted),
            schema_overrides=wanted,
            infer_schema=False,
        )
        if comma:
            frame = frame.with_columns(pl.all().str.replace(_DECIMAL_COMMA, "$1.$2"))
        return frame.select(
            pl.col(aliases[name]).cast(kind).alias(name) for name, kind in types.items()
        )

    def _explained(self, error: Exception, block: bytes, before: int) -> TableError:
        """Name a row that is too long, columns of text, or the first cell that is not a number."""
        # What polars says of a cell names no column of the file.
        cause = "look for quotes that are not closed"
        if "could not parse" not in str(error):
            cause = first_line(error)
        unreadable = TableError(f"{self.path} cannot be read after row {before}: {cause}")
        text = io.StringIO(self._utf8(block).decode(), newline="")
        # The reader refuses long values, whose row then is not checked.
        with suppress(csv.Error):
            for row, record in enumerate(csv.reader(text, delimiter=self._separator), start=before):
                if len(record) > len(self._columns):
                    return TableError(
                        f"{self.path} has {len(record)} values in row {row} (counting from 0), but "
                        f"{len(self._columns)} columns."
                    )
        try:
            cells = self._parse(block, dict.fromkeys(self.features, pl.String))
        except pl.exceptions.PolarsError:
            return unreadable
        is_text = pl.all().is_not_null() & pl.all().cast(pl.Float64, strict=False).is_null()
        wrong = cells.select(is_text)
        words = [c.name for c in wrong if c.any() and c.sum() == cells[c.name].count()]
        if words:
            return self.not_numbers(words)
        for column in wrong:
            if column.any():
                row = int(column.to_numpy().argmax())
                value = quoted(cells[column.name][row])
                return NotNumbersError(
                    f"{self.path} has {value} in column {column.name}, row {before + row} "
                    "(counting from 0), which is not a number. Correct it, or leave out the row or "
                    "the column."
                )
        return unreadable


def _numbers(frame: pl.DataFrame, names: Sequence[str]) -> Matrix:
    """Return columns as an array; polars before 1.38 makes none of no columns."""
    if not names:
        return np.empty((len(frame), 0))
    return frame.select(pl.col(names).cast(pl.Float64)).to_numpy(order="c")


def end_of_records(block: bytes) -> int:
    r"""Return where the last whole record ends: after a newline with an even number of quotes."""
    end, quotes = len(block), block.count(b'"')
    while end > 0:
        start = block.rfind(b"\n", 0, end) + 1
        quotes -= block.count(b'"', start, end)
        if quotes % 2 == 0:
            return start
        end = start - 1
    return 0


@contextmanager
def _open_gzip(
    path: Path, choice: ColumnChoice, scratch: Path | None, *, separator: str
) -> Iterator[CsvReader]:
    with gzip.open(path) as packed, unpacked_copy(path, packed, scratch) as content:
        yield CsvReader(path, choice, separator=separator, content=content)


class CsvWriter(TableWriter):
    """Writes text; floats have as many digits as needed to read them back exactly."""

    def __init__(self, path: Path, schema: pl.Schema, *, separator: str = ",") -> None:
        self._schema, self._separator = schema, separator
        self._header = True
        self._file = path.open("wb")

    def write(self, table: pl.DataFrame) -> None:
        """Append rows."""
        text = table.write_csv(include_header=self._header, separator=self._separator)
        self._file.write(text.encode())
        self._header = False

    def finish(self) -> None:
        """Write a header if there are no rows."""
        if self._header:
            self.write(self._schema.to_frame())
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


CSV_FORMATS = (
    TableFormat(".csv", CsvReader, CsvWriter),
    TableFormat(".tsv", partial(CsvReader, separator="\t"), partial(CsvWriter, separator="\t")),
    TableFormat(".csv.gz", partial(_open_gzip, separator=","), start=rb"\x1f\x8b"),
    TableFormat(".tsv.gz", partial(_open_gzip, separator="\t")),
)
