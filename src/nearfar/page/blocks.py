"""What sections are made of: text, tables, figures, bars, neighbours and code.

Each block names its `kind`, which is the macro of the template that writes it. A block with a
`summary` is folded behind it.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar

# About two lines of a list of neighbours.
_MAX_TEXT_LENGTH = 120
_PACKAGES = ("nearfar", "numpy", "scipy", "scikit-learn", "matplotlib")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a section."""

    kind: ClassVar[str]
    summary: str = ""


@dataclass(frozen=True)
class Text(Block):
    """Paragraphs."""

    lines: list[str]
    kind = "text"


@dataclass(frozen=True)
class Table(Block):
    """A table; the first cell of a row is its heading."""

    header: list[str]
    rows: list[list[str]]
    caption: str = ""
    kind = "table"


@dataclass(frozen=True)
class Markup(Block):
    """HTML that is safe to insert."""

    html: str
    kind = "markup"


@dataclass(frozen=True)
class MatrixCell:
    """A number of a matrix.

    Attributes
    ----------
    shade: How dark it is, from 0 to 1.
    right: Whether it is on the diagonal.
    """

    text: str
    shade: float
    right: bool


@dataclass(frozen=True)
class Matrix(Block):
    """A matrix of counts with the same names for rows and columns."""

    names: list[str]
    rows: list[list[MatrixCell]]
    caption: str
    kind = "matrix"


@dataclass(frozen=True)
class Figure:
    """An SVG with its caption; one that reacts to the pointer names what is under it."""

    svg: str
    caption: str
    reacts: bool = False


@dataclass(frozen=True)
class Figures(Block):
    """Figures side by side, or below each other on a narrow page."""

    figures: list[Figure]
    kind = "figures"


@dataclass(frozen=True)
class Bar:
    """A bar with an interval; lengths are in percent of the widest.

    Attributes
    ----------
    name, text: What it is, and its value.
    look: Classes of the style sheet.
    note: A few words beside the name.
    """

    name: str
    text: str
    length: float
    low: float
    high: float
    look: str = ""
    note: str = ""


@dataclass(frozen=True)
class BarGroup:
    """Bars that may be compared with each other."""

    title: str
    bars: list[Bar]
    folded: bool = False


@dataclass(frozen=True)
class Bars(Block):
    """Groups of bars with a heading and a caption."""

    title: str
    groups: list[BarGroup]
    caption: str
    kind = "bars"


@dataclass(frozen=True)
class Neighbor:
    """A neighbour of a query: its text, its image, and whether it has the query's class."""

    text: str
    image: str = ""
    same_class: bool | None = None


@dataclass(frozen=True)
class Query:
    """A query and its neighbours by metric."""

    text: str
    neighbors: dict[str, list[Neighbor]]
    image: str = ""


@dataclass(frozen=True)
class Queries(Block):
    """Queries with their neighbours under several metrics."""

    queries: list[Query]
    kind = "queries"


@dataclass(frozen=True)
class Items(Block):
    """A numbered list."""

    title: str
    lines: list[str]
    kind = "items"


@dataclass(frozen=True)
class Code(Block):
    """Code to copy."""

    title: str
    text: str
    kind = "code"


@dataclass(frozen=True)
class Facts(Block):
    """Names and what they stand for."""

    pairs: list[tuple[str, str]]
    kind = "facts"


def versions() -> str:
    """Return the versions of Python and of the packages that matter."""
    names = [f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            names.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(names)


def shortened(text: str) -> str:
    """Return a text on one line, cut if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT_LENGTH else f"{line[: _MAX_TEXT_LENGTH - 1]}…"


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    title: str
    anchor: str
    blocks: list[Block] = field(default_factory=list)
