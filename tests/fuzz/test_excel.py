"""Damaged .xlsx files: a table or a TableError, in bounded memory; never an abort or a hang."""

from __future__ import annotations

import multiprocessing
import re
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from fuzz.inputs import N_CASES
from nearfar.frames import TableError, read_table
from table_files import excel_parts, zipped

# The long run of .ci/long has 10,000 files.
N_FILES = 20 * N_CASES or 200
# Beyond what the libraries take.
MOST_BYTES = 1 << 30
MOST_SECONDS = 60
# What is in an attribute, or between the tags of an element.
VALUE = re.compile(r"""(?<==")([^"<]*)(?=")|(?<=>)([^<]*)(?=<)""")
VALUES = (
    "XFD1048576", "ZZZ9", "A0", "A", "a1", "", "s", "e", "d", "b", "n", "str", "inlineStr", "0",
    "1", "99", "-1", "1e999", "nan", "inf", "9" * 30, "1e300", "2024-13-45", "2024-01-31",
    "2958465.9", "-700000", "rId2", "../../x", "&#65;", "&amp;", "\ud7ff", "x" * 1000, "label",
)  # fmt: skip
TOKENS = (
    "<c>", "</c>", "<row/>", "</row>", "<v>", "</v>", "<is><t>", "&e;", "]]>", "<!--", "&#0;",
    '<!DOCTYPE a [<!ENTITY e "x">]>', 'r="XFD1048576"', 't="s"', "xmlns:a='b' ", 'date1904="1"',
)  # fmt: skip


def good_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3)).round(3).tolist()
    rows = [
        [*x, f"level {i % 3}", datetime(2024, 1, 1 + i, i), i % 4 == 0, f"class {i % 2}"]
        for i, x in enumerate(X)
    ]
    return [["a", "b", "c", "level", "day", "paid", "label"], *rows]


def damaged(seed):
    """A workbook with a few random faults, in its bytes or in the XML of its parts."""
    rng = np.random.default_rng(seed)
    parts = excel_parts(good_rows())
    if seed % 2:
        for _ in range(rng.integers(1, 4)):
            name = str(rng.choice(list(parts)))
            text = parts[name]
            if rng.random() < 0.7:
                # The XML stays well-formed: another value of an attribute or of a cell.
                start, stop = rng.choice([m.span() for m in VALUE.finditer(text)])
                piece = str(rng.choice([*VALUES, *map("".join, VALUE.findall(text))]))
            else:
                start, stop = np.sort(rng.integers(0, len(text) + 1, 2))
                stop = min(stop, start + int(rng.choice([0, 1, 30, len(text)])))
                piece = str(rng.choice([*TOKENS, "", text[start:stop] * 2]))
            parts[name] = text[:start] + piece + text[stop:]
        if rng.random() < 0.1:
            parts.pop(str(rng.choice(list(parts))))
        return zipped(parts)
    content = bytearray(zipped(parts))
    for _ in range(rng.integers(0, 6)):
        content[rng.integers(len(content))] = rng.integers(256)
    return bytes(content[: rng.integers(len(content)) if rng.random() < 0.3 else len(content)])


resource = pytest.importorskip("resource")


def limit():
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, used + MOST_BYTES))


def outcome(seed, path):
    """Read a damaged file, and return "table" or the error's message."""
    path = Path(path) / f"{seed}.xlsx"
    path.write_bytes(damaged(seed))
    signal.alarm(MOST_SECONDS)
    try:
        assert len(read_table(path, label="label")) > 0
        return "table"
    except TableError as error:
        return str(error)
    finally:
        signal.alarm(0)
        path.unlink()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_damaged_workbooks(tmp_path):
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context, limit) as pool:
        seeds = range(N_FILES)
        found = list(pool.map(outcome, seeds, [str(tmp_path)] * N_FILES, chunksize=25))
    assert 0.1 * N_FILES < found.count("table") < 0.9 * N_FILES
    assert all(len(text) < 600 and "\n" not in text for text in found)
