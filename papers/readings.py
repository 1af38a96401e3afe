"""The choices that the papers do not print, with the evidence for each: ``readings.toml``.

The same file says for cells that are worse than printed which experiments were to decide why.
"""

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


@dataclass(frozen=True)
class Experiment:
    """What was tried for cells that are worse than printed, and what came out."""

    cells: tuple[str, ...]
    variants: tuple[str, ...]
    says: str


def experiment(cell: str, variant: str) -> Experiment | None:
    """Return the first experiment of the file that concerns a cell and variant."""
    return next(
        (
            each
            for each in experiments()
            if variant in each.variants and any(fnmatchcase(cell, name) for name in each.cells)
        ),
        None,
    )


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
        for reading in _document()["reading"]
    )


@cache
def experiments() -> tuple[Experiment, ...]:
    """Return the experiments, in the order of the file."""
    return tuple(
        Experiment(tuple(each["cells"]), tuple(each["variants"]), each["says"])
        for each in _document()["experiment"]
    )


@cache
def _document() -> dict[str, Any]:
    return tomllib.loads(PATH.read_text("utf-8"))


def _candidate(entry: dict[str, Any]) -> Candidate:
    evidence = tuple(Evidence(**item) for item in entry["evidence"])
    return Candidate(**{**entry, "evidence": evidence})
