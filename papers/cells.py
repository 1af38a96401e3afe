"""The printed numbers of the five papers, as typed in ``published/*.toml``.

A cell is one printed number. Its id is ``paper/table/row/method``; rows are data sets. Names may
contain a slash ("Fig2/text", "Yale 5/5"): compare ids, do not take them apart.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

FOLDER = Path(__file__).parent / "published"

Document = dict[str, Any]
T = TypeVar("T")

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(?: \((\d+(?:\.\d+)?)\)| ± (\d+(?:\.\d+)?))?")


@dataclass(frozen=True)
class Cell:
    """One printed number.

    Parameters
    ----------
    paper, table, row, method : str
        Where it stands.
    value : float
        The number, in percent if it is a share.
    sd : float or None
        The printed spread, in the unit of ``value``.
    decimals, sd_decimals : int
        Decimals of ``value`` and ``sd`` as printed.
    better : str
        "lower" or "higher".
    own : bool
        Whether the method is the paper's own.
    obtainable : bool
        Whether the data at hand, or a stand-in for them, can give the number.
    reason : str
        Why it is not obtainable, or what stands in for the data; else empty.
    measure : str
        What the number measures.
    page : int
        Page of the paper, from 1.

    Examples
    --------
    >>> from papers.cells import published
    >>> cell = published()[3]
    >>> cell.id, cell.value, cell.sd, cell.own
    ('boostmetric/T1/USPS-1/BoostMetric', 2.96, None, True)
    """

    paper: str
    table: str
    row: str
    method: str
    value: float
    sd: float | None
    decimals: int
    sd_decimals: int
    better: str
    own: bool
    obtainable: bool
    reason: str
    measure: str
    page: int

    @property
    def id(self) -> str:
        """The name of the cell in results, readings and commands."""
        return f"{self.paper}/{self.table}/{self.row}/{self.method}"


@cache
def documents() -> dict[str, Document]:
    """Return the content of ``published/*.toml`` by the key of the paper.

    Beside the tables it has each paper's figures, claims, sizes of data and quoted results.
    """
    found = [tomllib.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.toml"))]
    return {document["paper"]["key"]: document for document in found}


def published() -> list[Cell]:
    """Return all printed cells, in the order of the papers, tables, rows and columns."""
    return [
        cell
        for paper, document in documents().items()
        for table in document["table"]
        for cell in table_cells(paper, table)
    ]


def table_cells(paper: str, table: Document) -> Iterator[Cell]:
    """Yield the cells of one table."""
    by_method = table.get("rows_are") == "methods"
    power = 2 if table.get("printed_as") == "fraction" else 0
    unobtainable, stand_ins = table.get("unobtainable", {}), table.get("stand_in", {})
    for name, texts in table["rows"].items():
        for column, text in zip(table["columns"], texts, strict=True):
            if not text:
                continue
            row, method = (column, name) if by_method else (name, column)
            value, sd = parse(text, power)
            missing = match(unobtainable, f"{row}/{method}")
            yield Cell(
                paper=paper,
                table=table["id"],
                row=row,
                method=method,
                value=float(value),
                sd=None if sd is None else float(sd),
                decimals=_decimals(value),
                sd_decimals=_decimals(sd),
                better=table["better"],
                own=method in table["own"],
                obtainable=not missing,
                reason=missing or match(stand_ins, f"{row}/{method}") or "",
                measure=table["measure"],
                page=table["page"],
            )


def parse(text: str, power: int = 0) -> tuple[Decimal, Decimal | None]:
    """Read a printed number and its spread, and multiply both by a power of ten.

    Examples
    --------
    >>> from papers.cells import parse
    >>> parse("3.56 (0.28)")
    (Decimal('3.56'), Decimal('0.28'))
    >>> parse("0.7240", power=2)
    (Decimal('72.40'), None)
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"Cannot read {text!r}: write 3.56, 3.56 (0.28) or 3.56 ± 0.28.")
    spread = match[2] or match[3]
    return Decimal(match[1]).scaleb(power), Decimal(spread).scaleb(power) if spread else None


def _decimals(value: Decimal | None) -> int:
    return len(str(value).partition(".")[2]) if value is not None else 0


def match(patterns: dict[str, T], name: str) -> T | None:
    """Return what belongs to the first pattern, with wildcards, that matches the name."""
    return next((found for key, found in patterns.items() if fnmatchcase(name, key)), None)
