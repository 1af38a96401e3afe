"""The columns of a comparison's table: one for each measure of the supervision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nearfar.comparison.method_results import MethodResult
from nearfar.evaluate.measures import Measure, measures_for

EARLY = "*"


@dataclass(frozen=True)
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
    """

    supervision: str
    n_neighbors: int
    n_judgements: int = 0
    n_unseen: int | None = None
    n_groups: int | None = None

    @cached_property
    def measures(self) -> list[Measure]:
        """The measures, the main one first."""
        return measures_for(self.supervision)

    @property
    def headings(self) -> list[str]:
        """Headings of the columns; the first is empty."""
        return ["", *(measure.heading for measure in self.measures), "fit s"]

    def title(self, n_folds: int, n_rows: int) -> str:
        """Return the title of the table."""
        main = self.measures[0]
        what, unseen, rows = f"{self.n_neighbors}-NN {main.column}", "", f"{n_rows} rows"
        if self.supervision != "labels":
            what = f"{main.column} of held-out {self.supervision}"
            rows = f"{self.n_judgements} {self.supervision} of {rows}"
        elif self.n_unseen is not None:
            unseen, rows = " of unseen classes", f"{rows} of {self.n_unseen} classes"
        groups = "" if self.n_groups is None else f" in {self.n_groups} groups"
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
            row[measure.name] = measure.value(result.loss(measure.name))
            if number == 0:
                many = len(result.errors) > 1
                row[f"{measure.name}_std"] = float(result.errors.std(ddof=1)) if many else 0.0
        return row | {"fit_seconds": float(np.mean(result.seconds))}

    def cells(self, row: Mapping[str, Any]) -> list[str]:
        """Return a row as strings; marks have a place of their own, so that figures are aligned."""
        cells = [row["name"] + (f" {EARLY}" if row.get("stopped_early") else "")]
        for number, measure in enumerate(self.measures):
            text = measure.number(row[measure.name])
            if number == 0 and row["folds"] > 1:
                text += f" ± {measure.number(row[f'{measure.name}_std'])}"
            cells.append(
                f"{text} {row.get(f'{measure.name}_mark') or ' '}" if measure.goal else text
            )
        return [*cells, f"{row['fit_seconds']:.2f}"]
