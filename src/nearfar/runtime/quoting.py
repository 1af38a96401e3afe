"""Values of users in messages: quoted, and cut if they are long."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

# Characters of a value in a message: about a line of a terminal.
_LONGEST = 80
# Escapes, what changes the direction of writing, and halves of characters.
_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def quoted(value: object) -> str:
    r"""Return what `repr` returns, cut if it is long.

    Examples
    --------
    >>> from nearfar.runtime.quoting import quoted
    >>> quoted("a\0b"), len(quoted("9" * 1_000_000))
    ("'a\\x00b'", 80)
    """
    # The text of a long value is not made only to be cut.
    return cut(repr(value[: 2 * _LONGEST] if isinstance(value, str) else value))


def printable(text: str) -> str:
    r"""Return a text with what controls terminals written out; line ends and tabs stay.

    Names in the files of others may have such characters.

    Examples
    --------
    >>> from nearfar.runtime.quoting import printable
    >>> print(printable("a\x1b[2J"))
    a\x1b[2J
    """
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def cut(text: str, length: int = _LONGEST) -> str:
    """Return a text with its middle left out if it is longer than `length` characters.

    Examples
    --------
    >>> from nearfar.runtime.quoting import cut
    >>> cut("temperature", 8)
    'temp...e'
    """
    return text if len(text) <= length else f"{text[: length - 4]}...{text[-1:]}"


def named(name: str) -> str:
    r"""Return a name as it is if it is short and can be printed, otherwise quoted.

    Examples
    --------
    >>> from nearfar.runtime.quoting import named
    >>> named("a b"), named(""), named("a\0")
    ('a b', "''", "'a\\x00'")
    """
    return name if name.isprintable() and 0 < len(name) <= _LONGEST else quoted(name)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> from nearfar.runtime.quoting import counted
    >>> counted(1, "row"), counted(2, "match")
    ('1 row', '2 matches')
    """
    ending = "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number} {noun if number == 1 else noun + ending}"


def plain(value: float, spec: str = ".4g") -> str:
    """Write a number, below a million without an exponent.

    Examples
    --------
    >>> from nearfar.runtime.quoting import plain
    >>> plain(29963.2), plain(0.51239), plain(2.5e7)
    ('29,960', '0.5124', '2.5e+07')
    """
    text = f"{value:{spec}}"
    return f"{float(text):,.0f}" if "e+0" in text and abs(float(text)) < 1e6 else text


def amount(n_bytes: float) -> str:
    """Write an amount of memory.

    Examples
    --------
    >>> from nearfar.runtime.quoting import amount
    >>> amount(3e5), amount(2.5e8), amount(1.2e10)
    ('less than 1 MB', '250 MB', '12 GB')
    """
    if n_bytes < 1e6:
        return "less than 1 MB"
    return f"{n_bytes / 1e6:.0f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:.3g} GB"


def duration(seconds: float) -> str:
    """Write a duration.

    Examples
    --------
    >>> from nearfar.runtime.quoting import duration
    >>> duration(0.2), duration(42), duration(500), duration(90_000)
    ('less than 1 s', '42 s', '8 min', '25 h')
    """
    if seconds < 100:
        return "less than 1 s" if seconds < 1 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.0f} h"


def text_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in a frame; the first column is text, the others are numbers.

    Examples
    --------
    >>> from nearfar.runtime.quoting import text_table
    >>> print(text_table(["city", "km"], [["Ulm", "70"], ["Bonn", "480"]]))
    ┏━━━━━━┳━━━━━┓
    ┃ city ┃  km ┃
    ┡━━━━━━╇━━━━━┩
    │ Ulm  │  70 │
    │ Bonn │ 480 │
    └──────┴─────┘
    """
    lines = [[printable(cell).replace("\n", " ") for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    room = shutil.get_terminal_size().columns - 3 * len(widths) - 1
    while sum(widths) > max(room, 8 * len(widths)):
        widest = max(range(len(widths)), key=lambda place: (widths[place], place))
        widths[widest] -= 1
    head, *body = ([*_folded(line, widths)] for line in lines)
    rule = ["━" * (width + 2) for width in widths]
    return "\n".join(
        [
            f"┏{'┳'.join(rule)}┓",
            *(f"┃{'┃'.join(cells)}┃" for cells in head),
            f"┡{'╇'.join(rule)}┩",
            *(f"│{'│'.join(cells)}│" for line in body for cells in line),
            f"└{'┴'.join(rule).replace('━', '─')}┘",
        ]
    )


def _folded(line: Sequence[str], widths: Sequence[int]) -> Iterator[list[str]]:
    """Yield the lines that a row of a table takes."""
    cells = [textwrap.wrap(cell, width) for cell, width in zip(line, widths, strict=True)]
    for parts in zip_longest(*(each or [""] for each in cells), fillvalue=""):
        yield [
            f" {part:{'>' if place else '<'}{widths[place]}} " for place, part in enumerate(parts)
        ]
