"""A table of text cells, and what each of its columns should become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUMBER, CATEGORY, DATE, LEFT_OUT = "number", "category", "date", "left out"

Array = NDArray[Any]


@dataclass(frozen=True)
class Answer:
    """What a column should become.

    Attributes
    ----------
    kind : str
        "number", "category", "date" or "left out".
    values : array
        Numbers, with nan where they are missing, one row for each row of the table and one column
        for each number of a cell; words, with "" where they are missing; dates, with NaT. Empty for
        columns to leave out.
    """

    kind: str
    values: Array = field(default_factory=lambda: np.empty(0))

    def head(self, n_rows: int) -> Answer:
        """Return the answer for the first rows."""
        return Answer(self.kind, self.values[:n_rows])


@dataclass(frozen=True)
class MessyTable:
    """A table as a .csv file has it.

    Attributes
    ----------
    name : str
    label : str
        Name of the column of labels.
    cells : dict of str to list of str
        The cells of each column.
    answers : dict of str to Answer
        Of all columns but the label.
    """

    name: str
    label: str
    cells: dict[str, list[str]]
    answers: dict[str, Answer]


@dataclass(frozen=True)
class Form:
    """A way to write numbers.

    Attributes
    ----------
    write : callable
        Number -> text.
    digits : int
        Decimal digits that are written.
    share : float or None
        Its share of the cells; None means an equal part of the rest.
    unit : float
        Value of 1 in its unit.
    """

    write: Callable[[float], str]
    digits: int = 2
    share: float | None = None
    unit: float = 1.0


class Maker:
    """Makes a table column by column.

    Parameters
    ----------
    name, label : str
    n_rows : int
    """

    def __init__(self, name: str, label: str, n_rows: int) -> None:
        self.n = n_rows
        self.rng = np.random.default_rng(sum(map(ord, name)))
        self._table = MessyTable(name, label, {}, {})

    def add(self, name: str, cells: Sequence[str], kind: str, values: Any = ()) -> None:
        """Add a column."""
        assert len(cells) == self.n
        self._table.cells[name] = list(cells)
        self._table.answers[name] = Answer(kind, np.asarray(values))

    def numbers(
        self,
        name: str,
        values: Any,
        *forms: Form,
        gaps: Sequence[str] = ("",),
        missing: float = 0.03,
    ) -> None:
        """Add numbers that are written in one or more forms."""
        shares = np.array([np.nan if form.share is None else form.share for form in forms])
        free = np.isnan(shares)
        shares[free] = (1 - np.nansum(shares)) / max(1, free.sum())
        chosen = self.rng.choice(len(forms), self.n, p=shares)
        truth = np.asarray(values, dtype=np.float64).copy()
        cells = []
        for row, number in enumerate(chosen):
            form = forms[number]
            # What the cell says is the truth: digits that are not written do not count.
            written = round(truth[row] / form.unit, form.digits)
            truth[row] = written * form.unit
            cells.append(form.write(written))
        self.add(name, self._with_gaps(cells, truth, gaps, missing, np.nan), NUMBER, truth)

    def words(
        self,
        name: str,
        words: Sequence[str] | Array,
        *,
        spellings: Mapping[str, Sequence[str]] | None = None,
        gaps: Sequence[str] = ("",),
        missing: float = 0.0,
    ) -> None:
        """Add categories; some have several spellings."""
        known = spellings or {}
        truth = np.array(words, dtype=object)
        cells = [str(self.rng.choice(known[word])) if word in known else word for word in truth]
        self.add(name, self._with_gaps(cells, truth, gaps, missing, ""), CATEGORY, truth)

    def dates(self, name: str, days: Array, form: str, *, missing: float = 0.0) -> None:
        """Add dates in one form of strftime."""
        truth = days.astype("datetime64[s]")
        cells = [day.strftime(form) for day in truth.tolist()]
        gone = np.datetime64("NaT", "s")
        self.add(name, self._with_gaps(cells, truth, ("",), missing, gone), DATE, truth)

    def unused(self, name: str, cells: Sequence[str]) -> None:
        """Add a column to leave out."""
        self.add(name, cells, LEFT_OUT)

    def pick(self, words: Sequence[str], weights: Sequence[float] | None = None) -> Array:
        """Draw words."""
        p = None if weights is None else np.asarray(weights) / np.sum(weights)
        return self.rng.choice(np.array(words, dtype=object), self.n, p=p)

    def finish(
        self, score: Array, classes: Sequence[str], *, unlabelled: float = 0.0
    ) -> MessyTable:
        """Label the rows by a score, in classes of equal size, and return the table."""
        ranks = np.argsort(np.argsort(score + 0.3 * score.std() * self.rng.standard_normal(self.n)))
        labels = [classes[rank * len(classes) // self.n] for rank in ranks]
        gone = self.rng.random(self.n) < unlabelled
        cells = ["" if g else label for label, g in zip(labels, gone, strict=True)]
        self._table.cells[self._table.label] = cells
        return self._table

    def _with_gaps(
        self, cells: list[str], truth: Array, gaps: Sequence[str], missing: float, value: Any
    ) -> list[str]:
        gone = self.rng.random(self.n) < missing
        truth[gone] = value
        return [str(self.rng.choice(gaps)) if g else c for c, g in zip(cells, gone, strict=True)]
