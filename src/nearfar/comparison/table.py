"""Tables of results as text and as HTML, and the result of a comparison of methods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from typing import Any

import numpy as np

from nearfar.comparison.goals import GoalComparison, MethodResult
from nearfar.evidence.intervals import OverlappingJudgements, known_mean
from nearfar.evidence.verdict import (
    described,
    hardly_found_text,
    sampled_text,
    use_in_words,
)
from nearfar.measures.judgements import LargestClass, hardly_found
from nearfar.measures.registry import (
    BALANCED_ERROR,
    ERROR,
    R2,
    ClassifiedRows,
    measures_for,
)
from nearfar.runtime.messages import Note, ResultsTable, bars, fragment, optional_package
from nearfar.typing import Array, Ints

NO_METRIC = "for comparison (not metrics)"
"""Heading of the part of the table that has classifiers."""
Row = dict[str, Any]
"""Plain numbers and strings by name."""
# Of a class; a longer one would widen the first column of every row.
_LONGEST_NAME = 16


GAIN_NAMES = ("gain", "gain_low", "gain_high", "gain_probability")
"""Names of the figures of a `Gain` in rows."""


class Comparison(ResultsTable[MethodResult]):
    """Methods on the same folds; prints as a table, also in a notebook.

    A mapping from the names of the methods to their results.

    Parameters
    ----------
    results : list of MethodResult
    n_neighbors : int or "auto"
    n_folds, n_rows : int
    supervision : {"labels", "numbers", "triplets", "pairs"}, default="labels"
        What methods learned from.
    overlap : OverlappingJudgements, optional
        The judgements, for triplets and pairs.
    unseen : array of shape (n_rows,), optional
        The class of each row, if methods were tested on classes that they did not learn from.
    groups : array of shape (n_rows,), optional
        The group of each row, if no group is on both sides of a fold.
    labels : array of shape (n_rows,), optional
        The class of each row, for balanced errors and the largest class; or its number.
    note : str, optional
        More to say below the table.
    n_copies : int, default=0
        Number of rows that are copies of others, if these are the groups.
    sample : array of int, optional
        The rows, or judgements, that were compared, if there was no time for all.

    Attributes
    ----------
    results : list of MethodResult
    classifiers : list of MethodResult
        Reference classifiers, which are no distances (`comparison.methods`).
    largest_class : LargestClass or None
        The largest class, and the errors of always naming it.
    left_out : list of MethodResult
        What was not run, each with a `note` that says why.
    goals : dict of str to GoalComparison
        What to use, and which methods are better than the baseline, for each goal.
    caveat : str
        A clause that ends each verdict, such as on a column that leaks the label; "" at first.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfar import compare
    >>> X, y = load_iris(return_X_y=True)
    >>> found = compare(X, y, ["RCA"], n_neighbors=3, classifiers=False)
    >>> found["RCA"].error < 0.1
    True
    >>> found.classification.verdict.reference
    'Euclidean (unscaled)'
    """

    def __init__(
        self,
        results: list[MethodResult],
        *,
        n_neighbors: int | str,
        n_folds: int,
        n_rows: int,
        supervision: str = "labels",
        overlap: OverlappingJudgements | None = None,
        unseen: Ints | None = None,
        groups: Ints | None = None,
        labels: Array | None = None,
        note: str = "",
        n_copies: int = 0,
        sample: Ints | None = None,
    ) -> None:
        run = [result for result in results if not result.note]
        self.results = [result for result in run if result.method.kind != "classifier"]
        self.classifiers = [result for result in run if result.method.kind == "classifier"]
        self.left_out = [result for result in results if result.note]
        self.n_neighbors, self.n_folds, self.n_rows = n_neighbors, n_folds, n_rows
        if not any(result.method.kind == "baseline" for result in self.results):
            raise ValueError(f"{self.left_out[0].name} {self.left_out[0].note}.")
        self.n_judgements = None if overlap is None else len(overlap)
        self.supervision = supervision
        self._n_unseen = None if unseen is None else len(np.unique(unseen))
        self.split = "rows" if unseen is None else "classes"
        self.n_groups = None if groups is None else len(np.unique(groups))
        self.note = note
        self.caveat, self.sample = "", sample
        numbers = labels if supervision == "numbers" else None
        self.labels = labels = None if supervision == "numbers" else labels
        self.largest_class = (
            None if labels is None or unseen is not None else LargestClass.of(labels)
        )
        main, *others = measures_for(supervision)
        by_class = [] if labels is None else measures_for("classes")
        self.measures = [main, *by_class, *others]
        self.goals: dict[str, GoalComparison] = {
            measure.goal: GoalComparison(
                self.results,
                measure.goal,
                overlap=overlap,
                unseen=unseen,
                groups=groups,
                numbers=numbers if measure.goal == R2.goal else None,
                labels=labels if self.largest_class and measure.goal == ERROR.goal else None,
            )
            for measure in self.measures
            if measure.goal
        }
        self.name_copies(n_copies)

    def name_copies(self, n_copies: int) -> None:
        """Tell how many rows are copies of others, if these are the groups; they stay rows."""
        self.n_copies = n_copies
        for goal in self.goals.values():
            if n_copies and goal.cases == "groups":
                goal.cases = "rows"

    def __getitem__(self, name: str) -> MethodResult:
        return {result.name: result for result in self.results}[name]

    def __iter__(self) -> Iterator[str]:
        return (result.name for result in self.results)

    def __len__(self) -> int:
        return len(self.results)

    def by_goal(self, goal: str) -> GoalComparison:
        """Return which methods are better by a goal."""
        if goal not in self.goals:
            raise ValueError(f"Methods were compared by {' and '.join(self.goals)}, not by {goal}.")
        return self.goals[goal]

    @property
    def classification(self) -> GoalComparison:
        """Which methods are better by their error, if there are labels."""
        return self.by_goal("classification")

    @property
    def ranking(self) -> GoalComparison:
        """Which methods are better by MAP@R, if there are labels."""
        return self.by_goal("ranking")

    @property
    def verdict(self) -> str:
        """What to use for each goal, in words; one sentence a line."""
        return "\n".join(self.verdicts)

    @property
    def verdicts(self) -> list[str]:
        """The lines of the verdict: what to know first, then one line for each goal."""
        return [*(note.text for note in self.findings), *self.recommendations]

    @property
    def recommendations(self) -> list[str]:
        """What to use, one line for each goal."""
        lines = []
        for goal in self.goals.values():
            text, use = goal.verdict.headline, use_in_words(goal.measure, self.n_neighbors)
            if self.caveat:
                text = f"{text.removesuffix('.')}; but {self.caveat}."
            lines.append(f"For {use}, {text[0].lower()}{text[1:]}" if use else text)
        return lines

    @property
    def findings(self) -> list[Note]:
        """What was not tried, and what is wrong with the result, if anything is."""
        texts = []
        if self.sample is not None:
            of, unit = self.n_rows, "rows"
            if self.n_judgements is not None:
                of, unit = self.n_judgements, self.supervision
            texts.append(sampled_text(len(self.sample), of, unit))
        if self.labels is not None and self.largest_class is not None:
            used = self.classification.recommended
            if used is not None and (lost := hardly_found(self.labels, used.wrong)):
                texts.append(hardly_found_text(used.name, lost, self.largest_class.n_classes))
        return [Note(text, warning=True) for text in texts]

    def rows(self) -> list[Row]:
        """Return the table as one dict of plain numbers and strings for each method."""
        return [self._row(result) for result in self.results]

    def _figures(self, result: MethodResult) -> Row:
        """Return the figures of a result as plain numbers."""
        row: Row = {"name": result.name, "kind": result.method.kind, "folds": len(result.errors)}
        if len(result.n_neighbors):
            row["n_neighbors"] = result.n_neighbors.tolist()
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

    def _row(self, result: MethodResult) -> Row:
        row = self._figures(result)
        for compared in self.goals.values():
            measure, gain = compared.measure.name, compared.gains.get(result.name)
            figures = (None,) * 4 if gain is None else astuple(gain)
            row[f"{measure}_mark"] = compared.mark(result)
            row |= {f"{measure}_{name}": x for name, x in zip(GAIN_NAMES, figures, strict=True)}
        return row

    @property
    def _votes(self) -> bool:
        """Whether each method has its own number of neighbours."""
        return self.n_judgements is None and self.n_neighbors == "auto"

    @property
    def _headings(self) -> list[str]:
        return [*(measure.heading for measure in self.measures), *["k"] * self._votes, "fit s"]

    def _groups(self) -> dict[str, list[list[str]]]:
        """Metrics and distances first, then what is none."""
        groups = {"": self.rows(), NO_METRIC: self.reference_rows}
        return {name: list(map(self._cells, rows)) for name, rows in groups.items() if rows}

    def _cells(self, row: Row) -> list[str]:
        """Return a row as strings; marks have a place of their own, so that figures are aligned."""
        cells = [row["name"]]
        for number, measure in enumerate(self.measures):
            value = row[measure.name]
            text = "" if value is None or np.isnan(value) else measure.number(value)
            if number == 0 and row["folds"] > 1:
                text += f" ± {measure.number(row[f'{measure.name}_std'])}"
            mark = f" {row.get(f'{measure.name}_mark') or ' '}" if measure.goal else ""
            cells.append(f"{text}{mark}")
        if self._votes:
            votes = row.get("n_neighbors")
            cells.append(f"{np.median(votes):.0f}" if votes else "")
        seconds = row["fit_seconds"]
        return [*cells, "" if seconds is None else f"{seconds:.2f}"]

    @property
    def _footnotes(self) -> list[str]:
        return [self.legend, *self.notes]

    def to_dict(self) -> Row:
        """Return everything as plain numbers and strings, ready for JSON."""
        number = "n_neighbors" if self.n_judgements is None else f"n_{next(iter(self.goals))}"
        no_metrics: Row = {}
        if self.supervision == "numbers":
            no_metrics = {"classifiers": [self._figures(result) for result in self.classifiers]}
        if (largest := self.largest_class) is not None:
            names = ("name", "share", "error", "balanced_error")
            no_metrics = {
                "largest_class": {name: getattr(largest, name) for name in names},
                "classifiers": [self._figures(result) for result in self.classifiers],
            }
        return {
            "n_rows": self.n_rows,
            "n_folds": self.n_folds,
            number: self.n_neighbors if self.n_judgements is None else self.n_judgements,
            **({} if self.split == "rows" else {"split": self.split}),
            **({} if self.n_groups is None else {"n_groups": self.n_groups}),
            "verdict": self.verdicts,
            **{goal: compared.verdict.to_dict() for goal, compared in self.goals.items()},
            "n_sampled": None if self.sample is None else len(self.sample),
            "notes": [note.text for note in self.findings],
            "methods": self.rows(),
            **no_metrics,
            "left_out": [{"name": r.name, "why": r.note} for r in self.left_out],
        }

    @property
    def reference_rows(self) -> list[Row]:
        """Figures of what is no metric: always naming the largest class, and classifiers."""
        figures = [self._figures(result) for result in self.classifiers]
        if (largest := self.largest_class) is None:
            return figures
        name = str(largest.name)
        short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
        row: Row = dict.fromkeys([measure.name for measure in self.measures])
        row |= {"name": f"largest class ({short})", "folds": 0, "fit_seconds": None}
        row |= {ERROR.name: largest.error, BALANCED_ERROR.name: largest.balanced_error}
        return [row, *figures]

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame; needs pandas."""
        pandas = optional_package("pandas", "A DataFrame", "pandas")
        return pandas.DataFrame(self.rows()).set_index("name")

    def __repr__(self) -> str:
        return f"<Comparison: {len(self)} methods, {self.n_folds} folds>"

    @property
    def title(self) -> str:
        """Title of the table; copies of rows are groups that need no other name."""
        main = self.measures[0]
        k = "k" if self.n_neighbors == "auto" else self.n_neighbors
        what, unseen, rows = f"{k}-NN {main.column}", "", f"{self.n_rows} rows"
        if self.n_judgements is not None:
            what = f"{main.column} of held-out {self.supervision}"
            rows = f"{self.n_judgements} {self.supervision} of {rows}"
        elif self._n_unseen is not None:
            unseen, rows = " of unseen classes", f"{rows} of {self._n_unseen} classes"
        groups = "" if self.n_groups is None else f" in {self.n_groups} groups"
        if self.n_copies:
            groups = f" ({self.n_copies} of them copies)"
        return f"{what} ± std over {self.n_folds} folds{unseen}, {rows}{groups}"

    @property
    def legend(self) -> str:
        """What the marks mean."""
        by_goal = {g.measure.label: described(g.reference.name) for g in self.goals.values()}
        reference = " and ".join(f"{name} by {label}" for label, name in by_goal.items())
        if len(set(by_goal.values())) == 1:
            reference = next(iter(by_goal.values()))
        return f"+ clearly better, - clearly worse than {reference} (95 % probability)."

    @property
    def notes(self) -> list[str]:
        """Which methods were left out, and why."""
        left_out: dict[str, list[str]] = {}
        for result in self.left_out:
            left_out.setdefault(result.note, []).append(result.name)
        most = {r.name: r.method.estimator.max_rows for r in self.classifiers}
        n = self.n_rows if self.sample is None else len(self.sample)
        return [
            *([self.note] if self.note else []),
            *(f"Left out: {', '.join(names)} ({why})." for why, names in left_out.items()),
            *(
                f"{name.capitalize()} learns from at most {limit} rows."
                for name, limit in most.items()
                if n > limit
            ),
        ]

    def _repr_html_(self) -> str:
        losses = {result.name: known_mean(result.wrong) for result in self.results}
        what = (
            "of the variance that is missed" if self.supervision == "numbers" else "that is wrong"
        )
        title = f"{self.measures[0].label}: the share {what}"
        return fragment(title, self.verdicts, bars(losses)) + self.to_html(verdict=False)
