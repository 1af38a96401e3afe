"""The columns of a comparison's table: what is shown of methods, by labels, triplets or pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from nearfar.comparison.gains import Goal
from nearfar.comparison.results import MethodResult

EARLY = "*"


class Layout(ABC):
    """Columns of a table.

    Attributes
    ----------
    columns : tuple of str
        Headings, the first of them empty.
    measures : dict of str to str
        What a method is compared by, for each goal, as it is named in JSON.
    """

    columns: tuple[str, ...]
    measures: dict[Goal, str]

    def figures(self, result: MethodResult) -> dict[str, Any]:
        """Return the figures of a result as plain numbers."""
        return {
            "name": result.name,
            "kind": result.method.kind,
            "folds": len(result.errors),
            **self._size(result),
            **self._scores(result),
            "fit_seconds": float(np.mean(result.seconds)),
        }

    def cells(self, row: Mapping[str, Any]) -> list[str]:
        """Return a row as strings; marks have their own column, so that figures stay aligned."""
        name = row["name"] + (f" {EARLY}" if row.get("stopped_early") else "")
        return [name, *self._score_cells(row), f"{row['fit_seconds']:.2f}"]

    @abstractmethod
    def title(self, n_folds: int, n_rows: int) -> str:
        """Return the title of the table."""

    @abstractmethod
    def _size(self, result: MethodResult) -> dict[str, Any]: ...

    @abstractmethod
    def _scores(self, result: MethodResult) -> dict[str, Any]: ...

    @abstractmethod
    def _score_cells(self, row: Mapping[str, Any]) -> list[str]: ...


class LabelsLayout(Layout):
    """Error, triplet accuracy and MAP@R."""

    columns = ("", "error %", "triplets %", "MAP@R", "fit s")

    def __init__(self, n_neighbors: int, n_unseen: int | None = None) -> None:
        self.n_neighbors, self.n_unseen = n_neighbors, n_unseen
        self.measures = {"classification": "error", "ranking": "map_at_r"}

    def title(self, n_folds: int, n_rows: int) -> str:
        """Return the title of the table."""
        data = f"{n_folds} folds, {n_rows} rows"
        if self.n_unseen is not None:
            data = f"{n_folds} folds of unseen classes, {n_rows} rows of {self.n_unseen} classes"
        return f"{self.n_neighbors}-NN error ± std over {data}"

    def _size(self, result: MethodResult) -> dict[str, Any]:
        return {"training_rows": _mean_training_size(result)}

    def _scores(self, result: MethodResult) -> dict[str, Any]:
        return {
            "error": result.error,
            "error_std": _std(result),
            "triplet_accuracy": result.triplet_accuracy,
            "map_at_r": result.map_at_r,
        }

    def _score_cells(self, row: Mapping[str, Any]) -> list[str]:
        std = f" ± {100 * row['error_std']:.1f}" if row["folds"] > 1 else ""
        return [
            f"{100 * row['error']:.1f}{std} {row.get('error_mark') or ' '}",
            f"{100 * row['triplet_accuracy']:.1f}",
            f"{row['map_at_r']:.3f} {row.get('map_at_r_mark') or ' '}",
        ]


class JudgementsLayout(Layout):
    """Accuracy of triplets, or the area under the ROC curve of pairs."""

    def __init__(self, goal: Goal, number: int) -> None:
        self.goal, self.number = goal, number
        measure, self.heading = _JUDGED[goal]
        self.measures = {goal: measure}
        self.measure = measure
        self.columns = ("", f"{self.heading} %" if goal == "triplets" else self.heading, "fit s")

    def title(self, n_folds: int, n_rows: int) -> str:
        """Return the title of the table."""
        data = f"{self.number} {self.goal} of {n_rows} rows"
        return f"{self.heading} of held-out {self.goal} ± std over {n_folds} folds, {data}"

    def _size(self, result: MethodResult) -> dict[str, Any]:
        return {f"training_{self.goal}": _mean_training_size(result)}

    def _scores(self, result: MethodResult) -> dict[str, Any]:
        return {self.measure: 1 - result.error, f"{self.measure}_std": _std(result)}

    def _score_cells(self, row: Mapping[str, Any]) -> list[str]:
        scale, digits = (100, 1) if self.goal == "triplets" else (1, 3)
        value, std = scale * row[self.measure], scale * row[f"{self.measure}_std"]
        spread = f" ± {std:.{digits}f}" if row["folds"] > 1 else ""
        return [f"{value:.{digits}f}{spread} {row.get(f'{self.measure}_mark') or ' '}"]


_JUDGED: dict[Goal, tuple[str, str]] = {
    "triplets": ("triplet_accuracy", "accuracy"),
    "pairs": ("auc", "AUC"),
}


def _std(result: MethodResult) -> float:
    return float(result.errors.std(ddof=1)) if len(result.errors) > 1 else 0.0


def _mean_training_size(result: MethodResult) -> float | None:
    return float(np.mean([cell.n_train for cell in result.cells])) if result.cells else None
