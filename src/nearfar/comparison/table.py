"""The result of a comparison: a table with marks and a verdict in words."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nearfar.comparison.significance import NO_TIME, Goal, GoalComparison, MethodResult, described

_COLUMNS = ("", "error %", "triplets %", "MAP@R", "fit s")


class Comparison(Mapping[str, MethodResult]):
    """Methods on the same folds; prints as a table, also in a notebook.

    A mapping from the names of the methods to their results.

    Parameters
    ----------
    results : list of MethodResult
    n_neighbors, n_folds, n_rows : int
    test_share : float, default=0.25
        Test rows for each training row of a fold.

    Attributes
    ----------
    results : list of MethodResult
        Methods that finished all folds.
    left_out : list of MethodResult
        The others, each with a `note` that says why.
    classification, ranking : GoalComparison
        Which methods are clearly better than Euclidean distance, by error and by MAP@R.
    """

    def __init__(
        self,
        results: list[MethodResult],
        *,
        n_neighbors: int,
        n_folds: int,
        n_rows: int,
        test_share: float = 0.25,
    ) -> None:
        self.results = [result for result in results if not result.note]
        self.left_out = [result for result in results if result.note]
        self.n_neighbors, self.n_folds, self.n_rows = n_neighbors, n_folds, n_rows
        if not any(result.method.kind == "baseline" for result in self.results):
            raise ValueError(f"Euclidean distance {self.left_out[0].note}.")
        self.classification, self.ranking = (
            GoalComparison(self.results, goal, test_share=test_share, incomplete=self.incomplete)
            for goal in ("classification", "ranking")
        )

    def __getitem__(self, name: str) -> MethodResult:
        return {result.name: result for result in self.results}[name]

    def __iter__(self) -> Iterator[str]:
        return (result.name for result in self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def not_tried(self) -> list[str]:
        """Names of the methods that were left out for lack of time."""
        return [result.name for result in self.left_out if result.note == NO_TIME]

    @property
    def incomplete(self) -> bool:
        """Whether methods were left out for lack of time."""
        return bool(self.not_tried)

    def by_goal(self, goal: Goal) -> GoalComparison:
        """Return `ranking` or `classification`."""
        return self.ranking if goal == "ranking" else self.classification

    @property
    def verdict(self) -> str:
        """What to use for each goal, in words; one sentence a line."""
        return "\n".join(self.verdicts)

    @property
    def verdicts(self) -> list[str]:
        """The lines of the verdict: what was not tried, then one line for each goal."""
        votes = "1 neighbour" if self.n_neighbors == 1 else f"{self.n_neighbors} neighbours"
        goals = {
            f"classification with {votes}": self.classification.verdict,
            "ranking and search": self.ranking.verdict,
        }
        lines = [f"For {goal}, {text[0].lower()}{text[1:]}" for goal, text in goals.items()]
        if self.not_tried:
            lines.insert(0, f"Not tried for lack of time: {', '.join(self.not_tried)}.")
        return lines

    def rows(self) -> list[dict[str, Any]]:
        """Return the table as one dict of plain numbers and strings for each method."""
        return [
            {
                "name": result.name,
                "kind": result.method.kind,
                "error": result.error,
                "error_std": float(result.errors.std(ddof=1)) if self.n_folds > 1 else 0.0,
                "error_mark": self.classification.mark(result),
                "error_p_value": self.classification.p_values.get(result.name),
                "triplet_accuracy": result.triplet_accuracy,
                "map_at_r": result.map_at_r,
                "map_at_r_mark": self.ranking.mark(result),
                "map_at_r_p_value": self.ranking.p_values.get(result.name),
                "fit_seconds": float(np.mean(result.seconds)),
            }
            for result in self.results
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and strings, ready for JSON."""
        winners = self.classification.winner, self.ranking.winner
        classification, ranking = (None if w is None else w.name for w in winners)
        return {
            "n_rows": self.n_rows,
            "n_folds": self.n_folds,
            "n_neighbors": self.n_neighbors,
            "winner": {"classification": classification, "ranking": ranking},
            "verdict": self.verdicts,
            "methods": self.rows(),
            "left_out": [{"name": r.name, "why": r.note} for r in self.left_out],
        }

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame; needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("A DataFrame needs pandas: pip install pandas.") from error
        return pandas.DataFrame(self.rows()).set_index("name")

    def __str__(self) -> str:
        cells = [list(_COLUMNS)] + [_cells(row) for row in self.rows()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [self.title]
        for row in cells:
            padded = [row[0].ljust(widths[0])]
            padded += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            lines.append("  ".join(padded).rstrip())
        return "\n".join([*lines, self.legend, *self.notes, *self.verdicts])

    def __repr__(self) -> str:
        return f"<Comparison: {len(self)} methods, {self.n_folds} folds>"

    @property
    def title(self) -> str:
        """Title of the table."""
        return f"{self.n_neighbors}-NN error ± std over {self.n_folds} folds, {self.n_rows} rows"

    @property
    def legend(self) -> str:
        """What the marks mean."""
        references = {described(goal.reference) for goal in (self.classification, self.ranking)}
        reference = references.pop() if len(references) == 1 else "the better Euclidean distance"
        return f"+ clearly better, - clearly worse than {reference} (p < 0.05, Holm-adjusted)."

    @property
    def notes(self) -> list[str]:
        """Which methods were left out for other reasons than time, and why."""
        return [
            f"Left out: {result.name} ({result.note})."
            for result in self.left_out
            if result.note != NO_TIME
        ]

    def to_html(self, *, verdict: bool = True) -> str:
        """Return the table, with or without the verdict, as an HTML fragment."""
        head = "".join(f'<th scope="col">{column}</th>' for column in _COLUMNS[1:])
        body = []
        for row in self.rows():
            name, *cells = _cells(row)
            numbers = "".join(f"<td>{cell}</td>" for cell in cells)
            body.append(f'<tr><th scope="row">{html.escape(name)}</th>{numbers}</tr>')
        after = " ".join(html.escape(line) for line in [self.legend, *self.notes])
        lines = self.verdicts if verdict else []
        verdicts = "".join(f"<p><strong>{html.escape(line)}</strong></p>" for line in lines)
        return (
            f'<table class="comparison"><caption>{self.title}</caption>'
            f'<thead><tr><th scope="col">distance</th>{head}</tr></thead>'
            f"<tbody>{''.join(body)}</tbody></table>"
            f"<p>{after}</p>{verdicts}"
        )

    def _repr_html_(self) -> str:
        return self.to_html()


def _cells(row: Mapping[str, Any]) -> list[str]:
    """Return a row as strings; marks have their own column, so that figures stay aligned."""
    return [
        row["name"],
        f"{100 * row['error']:.1f} ± {100 * row['error_std']:.1f} {row['error_mark'] or ' '}",
        f"{100 * row['triplet_accuracy']:.1f}",
        f"{row['map_at_r']:.3f} {row['map_at_r_mark'] or ' '}",
        f"{row['fit_seconds']:.2f}",
    ]
