"""The choices that the papers do not print, with the evidence for each: ``readings.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

PATH = Path(__file__).parent / "readings.toml"

STATUSES = ("settled", "open", "refuted")
SOURCES = (
    "text",
    "arithmetic",
    "inferred",
    "tried",
    "reported",
    "data",
    "code",
    "stored",
    "afterwards",
)


@dataclass(frozen=True)
class Evidence:
    """What speaks for or against a candidate, and where it comes from (see `SOURCES`)."""

    source: str
    says: str


@dataclass(frozen=True)
class Candidate:
    """One way to read the paper: what it is, how to run it, and its status."""

    id: str
    what: str
    how: str
    status: str
    evidence: tuple[Evidence, ...]

    @property
    def afterwards(self) -> bool:
        """Whether the candidate was added after results of another one were seen."""
        return any(each.source == "afterwards" for each in self.evidence)


@dataclass(frozen=True)
class Reading:
    """A question that the paper leaves open, for the cells that match one of the patterns."""

    id: str
    cells: tuple[str, ...]
    question: str
    candidates: tuple[Candidate, ...]

    def concerns(self, cell: str) -> bool:
        """Return whether the cell of this id depends on the answer."""
        return any(fnmatchcase(cell, pattern) for pattern in self.cells)


def readings(cell: str | None = None) -> list[Reading]:
    """Return the readings, or those that concern a cell, in the order of the file.

    Examples
    --------
    >>> from papers.readings import readings
    >>> [reading.id for reading in readings("boostmetric/T1/USPS-1/RCA")]
    ['B-T1-draw', 'B-T1-spread', 'B-T1-usps1', 'B-T1-vote', 'B-T1-neighbours']
    """
    return [reading for reading in _all() if cell is None or reading.concerns(cell)]


@cache
def _all() -> tuple[Reading, ...]:
    return tuple(
        Reading(
            id=reading["id"],
            cells=tuple(reading["cells"]),
            question=reading["question"],
            candidates=tuple(_candidate(candidate) for candidate in reading["candidate"]),
        )
        for reading in tomllib.loads(PATH.read_text("utf-8"))["reading"]
    )


def _candidate(entry: dict[str, Any]) -> Candidate:
    evidence = tuple(Evidence(**item) for item in entry["evidence"])
    return Candidate(**{**entry, "evidence": evidence})
