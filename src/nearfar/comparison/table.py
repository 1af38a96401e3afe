"""The result of a comparison: a table with marks, and a verdict in words."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nearfar.comparison.significance import NO_TIME, Goal, GoalComparison, MethodResult, called

_COLUMNS = ("", "error %", "triplets %", "MAP@R", "fit s")


class Comparison(Mapping[str, MethodResult]):
    """Contenders on the same folds; prints as a table, and shows as one in a notebook.

    Parameters
    ----------
    entries : list of MethodResult
    n_neighbors, n_folds, n_rows : int
    test_share : float, default=0.25
        Test rows for each training row of a fold.

    Attributes
    ----------
    entries : list of MethodResult
        Those that ran on all folds.
    left_out : list of MethodResult
        The others, with a `note` each.
    classification, ranking : GoalComparison
        Who is better than Euclidean distance beyond noise by the error of votes, and by MAP@R.
    """

    def __init__(
        self,
        entries: list[MethodResult],
        *,
        n_neighbors: int,
        n_folds: int,
        n_rows: int,
        test_share: float = 0.25,
    ) -> None:
        self.entries = [entry for entry in entries if not entry.note]
        self.left_out = [entry for entry in entries if entry.note]
        self.n_neighbors, self.n_folds, self.n_rows = n_neighbors, n_folds, n_rows
        if not any(entry.contender.kind == "nothing" for entry in self.entries):
            raise ValueError(f"Euclidean distance {self.left_out[0].note}.")
        self.classification, self.ranking = (
            GoalComparison(self.entries, goal, test_share=test_share, incomplete=self.incomplete)
            for goal in ("classification", "ranking")
        )

    def __getitem__(self, name: str) -> MethodResult:
        return {entry.name: entry for entry in self.entries}[name]

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def incomplete(self) -> bool:
        """Whether some were left out for lack of time."""
        return any(entry.note == NO_TIME for entry in self.left_out)

    def contest(self, goal: Goal) -> GoalComparison:
        """Return the contest for a goal."""
        return self.ranking if goal == "ranking" else self.classification

    @property
    def verdict(self) -> str:
        """Whether a metric is worth learning, in a sentence for each goal."""
        return "\n".join(self.verdicts)

    @property
    def verdicts(self) -> list[str]:
        """The sentences of the verdict."""
        late = [entry.name for entry in self.left_out if entry.note == NO_TIME]
        undecided = [f"No time was left for {', '.join(late)}: they may be better."] if late else []
        return [
            f"Classification by {self.n_neighbors} neighbours: {self.classification.verdict}",
            f"Ranking and search: {self.ranking.verdict}",
            *undecided,
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Return the table as one dict of plain numbers and texts for each contender."""
        return [
            {
                "name": entry.name,
                "kind": entry.contender.kind,
                "error": entry.error,
                "error_std": float(entry.errors.std(ddof=1)) if self.n_folds > 1 else 0.0,
                "error_mark": self.classification.mark(entry),
                "error_p_value": self.classification.p_values.get(entry.name),
                "triplet_accuracy": entry.triplet_accuracy,
                "map_at_r": entry.map_at_r,
                "map_at_r_mark": self.ranking.mark(entry),
                "map_at_r_p_value": self.ranking.p_values.get(entry.name),
                "fit_seconds": float(np.mean(entry.seconds)),
            }
            for entry in self.entries
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and texts, ready for JSON."""
        winners = self.classification.winner, self.ranking.winner
        classification, ranking = (None if w is None else w.name for w in winners)
        return {
            "n_rows": self.n_rows,
            "n_folds": self.n_folds,
            "n_neighbors": self.n_neighbors,
            "winner": {"classification": classification, "ranking": ranking},
            "verdict": self.verdicts,
            "contenders": self.rows(),
            "left_out": [{"name": e.name, "why": e.note} for e in self.left_out],
        }

    def to_pandas(self) -> Any:
        """Return the table as a pandas data scaler; needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("A data scaler needs pandas: pip install pandas.") from error
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
        return f"<Comparison: {len(self)} contenders, {self.n_folds} folds>"

    @property
    def title(self) -> str:
        """What the table is of."""
        return f"{self.n_neighbors}-NN error ± std over {self.n_folds} folds, {self.n_rows} rows"

    @property
    def legend(self) -> str:
        """What the marks mean."""
        references = {called(c.reference) for c in (self.classification, self.ranking)}
        against = references.pop() if len(references) == 1 else "the better Euclidean distance"
        return f"+ better, - worse than {against}, beyond noise."

    @property
    def notes(self) -> list[str]:
        """Who was left out, and why."""
        return [
            f"Left out: {entry.name} ({entry.note})."
            for entry in self.left_out
            if entry.note != NO_TIME
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
        said = self.verdicts if verdict else []
        verdicts = "".join(f"<p><strong>{html.escape(line)}</strong></p>" for line in said)
        return (
            f'<table class="comparison"><caption>{self.title}</caption>'
            f'<thead><tr><th scope="col">distance</th>{head}</tr></thead>'
            f"<tbody>{''.join(body)}</tbody></table>"
            f"<p>{after}</p>{verdicts}"
        )

    def _repr_html_(self) -> str:
        return self.to_html()


def _cells(row: Mapping[str, Any]) -> list[str]:
    """Return a row as texts; marks take a place of their own, so that figures stay aligned."""
    return [
        row["name"],
        f"{100 * row['error']:.1f} ± {100 * row['error_std']:.1f} {row['error_mark'] or ' '}",
        f"{100 * row['triplet_accuracy']:.1f}",
        f"{row['map_at_r']:.3f} {row['map_at_r_mark'] or ' '}",
        f"{row['fit_seconds']:.2f}",
    ]
