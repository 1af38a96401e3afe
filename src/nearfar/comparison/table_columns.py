"""The columns of a comparison's table: one for each measure of the supervision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nearfar.comparison.method_results import MethodResult
from nearfar.comparison.scoring import known_mean
from nearfar.evaluate.class_errors import LargestClass
from nearfar.evaluate.measures import (
    BALANCED_ERROR,
    ERROR,
    ClassifiedRows,
    Measure,
    measures_for,
)
from nearfar.typing import Array

EARLY = "*"
_LONGEST_NAME = 16
"""Of a class; a longer one would widen the first column of every row."""


@dataclass(frozen=True, eq=False)
class TableColumns:
    """Columns of a table.

    Attributes
    ----------
    supervision : {"labels", "triplets", "pairs"}
    n_neighbors : int
    n_judgements : int
        Number of triplets or pairs.
    n_unseen : int or None
        Number of classes, if methods were tested on classes that they did not learn from.
    n_groups : int or None
        Number of groups of rows.
    labels : array of shape (n_rows,) or None
        The class of each row, for balanced errors.
    """

    supervision: str
    n_neighbors: int
    n_judgements: int = 0
    n_unseen: int | None = None
    n_groups: int | None = None
    labels: Array | None = None

    @cached_property
    def measures(self) -> list[Measure]:
        """The measures, the main one first."""
        main, *others = measures_for(self.supervision)
        by_class = [] if self.labels is None else measures_for("classes")
        return [main, *by_class, *others]

    @property
    def headings(self) -> list[str]:
        """Headings of the columns, without that of the names."""
        return [*(measure.heading for measure in self.measures), "fit s"]

    def title(self, n_folds: int, n_rows: int, n_copies: int = 0) -> str:
        """Return the title of the table; copies of rows are groups that need no other name."""
        main = self.measures[0]
        what, unseen, rows = f"{self.n_neighbors}-NN {main.column}", "", f"{n_rows} rows"
        if self.supervision != "labels":
            what = f"{main.column} of held-out {self.supervision}"
            rows = f"{self.n_judgements} {self.supervision} of {rows}"
        elif self.n_unseen is not None:
            unseen, rows = " of unseen classes", f"{rows} of {self.n_unseen} classes"
        groups = "" if self.n_groups is None else f" in {self.n_groups} groups"
        groups = f" ({n_copies} of them copies)" if n_copies else groups
        return f"{what} ± std over {n_folds} folds{unseen}, {rows}{groups}"

    def figures(self, result: MethodResult) -> dict[str, Any]:
        """Return the figures of a result as plain numbers."""
        unit = "rows" if self.supervision == "labels" else self.supervision
        sizes = [cell.n_train for cell in result.cells]
        row: dict[str, Any] = {
            "name": result.name,
            "kind": result.method.kind,
            "folds": len(result.errors),
            f"training_{unit}": float(np.mean(sizes)) if sizes else None,
        }
        for number, measure in enumerate(self.measures):
            if measure.of == "classes" and self.labels is not None:
                loss = known_mean(measure.losses(ClassifiedRows(self.labels, result.wrong)))
            else:
                loss = result.loss(measure.name)
            row[measure.name] = measure.value(loss)
            if number == 0:
                many = len(result.errors) > 1
                row[f"{measure.name}_std"] = float(result.errors.std(ddof=1)) if many else 0.0
        return row | {"fit_seconds": float(np.mean(result.seconds))}

    def largest_class(self, largest: LargestClass) -> dict[str, Any]:
        """Return the figures of always naming the largest class."""
        row: dict[str, float | None] = dict.fromkeys([measure.name for measure in self.measures])
        row |= {ERROR.name: largest.error, BALANCED_ERROR.name: largest.balanced_error}
        name = str(largest.name)
        short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
        return {"name": f"largest class ({short})", "folds": 0, **row, "fit_seconds": None}

    def cells(self, row: Mapping[str, Any]) -> list[str]:
        """Return a row as strings; marks have a place of their own, so that figures are aligned."""
        cells = [row["name"] + (f" {EARLY}" if row.get("stopped_early") else "")]
        for number, measure in enumerate(self.measures):
            value = row[measure.name]
            text = "" if value is None or np.isnan(value) else measure.number(value)
            if number == 0 and row["folds"] > 1:
                text += f" ± {measure.number(row[f'{measure.name}_std'])}"
            mark = f" {row.get(f'{measure.name}_mark') or ' '}" if measure.goal else ""
            cells.append(f"{text}{mark}")
        seconds = row["fit_seconds"]
        return [*cells, "" if seconds is None else f"{seconds:.2f}"]
