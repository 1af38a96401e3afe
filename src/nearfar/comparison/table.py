"""The result of a comparison: a table with marks and a verdict in words."""

from __future__ import annotations

import html
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any, TypeVar

import numpy as np

from nearfar.comparison.compared_methods import current_name
from nearfar.comparison.goal_verdict import GoalComparison
from nearfar.comparison.method_results import NO_TIME, MethodResult, paired
from nearfar.comparison.scoring import known_mean
from nearfar.comparison.table_columns import EARLY, TableColumns
from nearfar.comparison.wording import (
    described,
    hardly_found_text,
    short_of_time,
    use_in_words,
    useless_text,
)
from nearfar.evaluate.class_errors import LargestClass, hardly_found
from nearfar.evaluate.overlap import OverlappingJudgements
from nearfar.runtime.notebook_html import bars, fragment
from nearfar.runtime.notes import Note
from nearfar.runtime.optional_package import optional_package
from nearfar.typing import Array, Ints

NO_METRIC = "not metrics: no neighbours, no search, but errors to know of"
"""Heading of the part of the table that has classifiers."""
GAIN_NAMES = ("gain", "gain_low", "gain_high", "gain_probability")
"""Names of the figures of a `Gain` in rows."""


Result = TypeVar("Result")


class ResultsTable(Mapping[str, Result]):
    """Results by name that print as a table with a verdict, also in a notebook.

    A subclass gives the texts: `title`, `_headings`, `_groups`, `_footnotes` and `verdicts`.
    """

    _compared = "distance"
    """Heading of the names in HTML; empty in a terminal."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Title of the table."""

    @property
    @abstractmethod
    def _headings(self) -> list[str]:
        """Headings of the columns, without that of the names."""

    @abstractmethod
    def _groups(self) -> dict[str, list[list[str]]]:
        """Lines of the table as cells, by the heading of each group; "" for the first."""

    @property
    @abstractmethod
    def _footnotes(self) -> list[str]:
        """Sentences below the table."""

    @property
    @abstractmethod
    def verdicts(self) -> list[str]:
        """The lines of the verdict."""

    def __str__(self) -> str:
        header, groups = ["", *self._headings], self._groups()
        lines = [header, *(cells for group in groups.values() for cells in group)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

        def aligned(cells: Sequence[str]) -> str:
            name, *numbers = cells
            padded = [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
            return "  ".join([name.ljust(widths[0]), *padded]).rstrip()

        table = [aligned(header)]
        for heading, group in groups.items():
            table += [f"{heading}:"] * bool(heading) + [aligned(cells) for cells in group]
        return "\n".join([self.title, *table, *self._footnotes, *self.verdicts])

    def to_html(self, *, verdict: bool = True) -> str:
        """Return the table, with or without the verdict, as an HTML fragment."""
        head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in self._headings)
        body = ""
        for heading, group in self._groups().items():
            width = len(self._headings) + 1
            rows = "".join(
                f'<tr><th scope="row">{html.escape(name)}</th>'
                f"{''.join(f'<td>{cell}</td>' for cell in numbers)}</tr>"
                for name, *numbers in group
            )
            if heading:
                title = f'<th scope="rowgroup" colspan="{width}">{html.escape(heading)}</th>'
                rows = f"<tr>{title}</tr>{rows}"
            body += f"<tbody>{rows}</tbody>"
        after = " ".join(html.escape(line) for line in self._footnotes)
        lines = self.verdicts if verdict else []
        verdicts = "".join(f"<p><strong>{html.escape(line)}</strong></p>" for line in lines)
        return (
            f'<table class="comparison"><caption>{self.title}</caption>'
            f'<thead><tr><th scope="col">{self._compared}</th>{head}</tr></thead>'
            f"{body}</table><p>{after}</p>{verdicts}"
        )

    def _repr_html_(self) -> str:
        return self.to_html()


class Comparison(ResultsTable[MethodResult]):
    """Methods on the same folds; prints as a table, also in a notebook.

    A mapping from the names of the methods to their results.

    Parameters
    ----------
    results : list of MethodResult
    n_neighbors, n_folds, n_rows : int
    test_share : float, default=0.25
        Test rows for each training row of a fold.
    supervision : {"labels", "triplets", "pairs"}, default="labels"
        What methods learned from.
    overlap : OverlappingJudgements, optional
        The judgements, for triplets and pairs.
    unseen : array of shape (n_rows,), optional
        The class of each row, if methods were tested on classes that they did not learn from.
    groups : array of shape (n_rows,), optional
        The group of each row, if no group is on both sides of a fold.
    labels : array of shape (n_rows,), optional
        The class of each row, for balanced errors and the largest class.
    note : str, optional
        More to say below the table.
    n_copies : int, default=0
        Number of rows that are copies of others, if these are the groups.

    Attributes
    ----------
    results : list of MethodResult
        Methods with results on all folds (`MethodResult.complete`) or, for lack of time, on less.
    classifiers : list of MethodResult
        Reference classifiers, which are no distances (`comparison.classifiers`).
    largest_class : LargestClass or None
        The largest class, and the errors of always naming it.
    left_out : list of MethodResult
        What was not run, each with a `note` that says why.
    goals : dict of str to GoalComparison
        What to use, and which methods are better than the baseline, for each goal.
    caveat : str
        A clause that ends each verdict, such as on a column that leaks the label; "" at first.
    remedy : str
        A sentence on what to do about methods that there was no time for; "" at first.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfar import compare
    >>> X, y = load_iris(return_X_y=True)
    >>> found = compare(X, y, ["RCA"], classifiers=False)
    >>> found["RCA"].error < 0.1
    True
    >>> found.classification.verdict.reference
    'Euclidean (unscaled)'
    """

    def __init__(
        self,
        results: list[MethodResult],
        *,
        n_neighbors: int,
        n_folds: int,
        n_rows: int,
        test_share: float = 0.25,
        supervision: str = "labels",
        overlap: OverlappingJudgements | None = None,
        unseen: Ints | None = None,
        groups: Ints | None = None,
        labels: Array | None = None,
        note: str = "",
        n_copies: int = 0,
    ) -> None:
        run = [result for result in results if not result.note]
        self.results = [result for result in run if result.method.kind != "classifier"]
        self.classifiers = [result for result in run if result.method.kind == "classifier"]
        self.left_out = [result for result in results if result.note]
        self.n_neighbors, self.n_folds, self.n_rows = n_neighbors, n_folds, n_rows
        if not any(result.method.kind == "baseline" for result in self.results):
            raise ValueError(f"{self.left_out[0].name} {self.left_out[0].note}.")
        self.n_judgements = None if overlap is None else len(overlap)
        n_unseen = None if unseen is None else len(np.unique(unseen))
        self.split = "rows" if unseen is None else "classes"
        self.n_groups = None if groups is None else len(np.unique(groups))
        self.note, self.n_copies = note, n_copies
        self.caveat = self.remedy = ""
        self.labels = labels
        self.largest_class = (
            None if labels is None or unseen is not None else LargestClass.of(labels)
        )
        self._columns = TableColumns(
            supervision, n_neighbors, self.n_judgements or 0, n_unseen, self.n_groups, labels
        )
        self.goals: dict[str, GoalComparison] = {
            measure.goal: GoalComparison(
                self.results,
                measure.goal,
                test_share=test_share,
                overlap=overlap,
                unseen=unseen,
                groups=groups,
            )
            for measure in self._columns.measures
            if measure.goal
        }

    def __getitem__(self, name: str) -> MethodResult:
        results = {result.name: result for result in self.results}
        return results[name if name in results else current_name(name)]

    def __iter__(self) -> Iterator[str]:
        return (result.name for result in self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def not_tried(self) -> list[str]:
        """Names of the methods that were left out for lack of time."""
        return [
            result.name
            for result in self.left_out
            if result.note == NO_TIME and result.method.kind != "classifier"
        ]

    @property
    def partly_tried(self) -> dict[str, str]:
        """Methods that did not finish for lack of time, and what they were tried on."""
        return {r.name: _tried_on(r) for r in self.results if not r.complete}

    @property
    def incomplete(self) -> bool:
        """Whether methods were left out, or only partly tried, for lack of time."""
        return bool(self.not_tried or self.partly_tried)

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
        if self.incomplete:
            names = [result.name for result in self.results]
            texts = [short_of_time(names, self.partly_tried, self.not_tried, self.remedy)]
        if self.labels is not None and (largest := self.largest_class) is not None:
            used = self.classification.recommended or self.classification.reference
            if used.error >= largest.error:
                texts.append(useless_text(used, largest))
            if lost := hardly_found(self.labels, used.wrong):
                texts.append(hardly_found_text(used.name, lost, largest.n_classes))
        return [Note(text, warning=True) for text in texts]

    def rows(self) -> list[dict[str, Any]]:
        """Return the table as one dict of plain numbers and strings for each method.

        Methods that were only partly tried come with the figures of the baseline on the same rows,
        as ``reference``.
        """
        return [self._row(result) for result in self.results]

    def _row(self, result: MethodResult) -> dict[str, Any]:
        row = self._columns.figures(result)
        for compared in self.goals.values():
            measure, gain = compared.measure.name, compared.gains.get(result.name)
            figures = (None,) * 4 if gain is None else astuple(gain)
            row |= {
                f"{measure}_mark": compared.mark(result),
                f"{measure}_p_value": compared.p_values.get(result.name),
                **{f"{measure}_{name}": x for name, x in zip(GAIN_NAMES, figures, strict=True)},
            }
        row |= {
            "complete": result.complete,
            "tried_on": _tried_on(result),
            "stopped_early": result.stopped_early,
            "reference": None,
        }
        references = {goal.reference.name: goal.reference for goal in self.goals.values()}
        beside = [pair[1] for r in references.values() if (pair := paired(result, r)) is not None]
        if not result.complete and result.method.kind != "baseline":
            row["reference"] = [self._columns.figures(reference) for reference in beside]
        return row

    @property
    def _headings(self) -> list[str]:
        return self._columns.headings

    def _groups(self) -> dict[str, list[list[str]]]:
        """Rows by what the methods were tried on: all folds first, then less and less.

        A group with part of the data begins with the baseline on the same rows.
        """
        groups: dict[str, list[dict[str, Any]]] = {}
        for result in sorted(self.results, key=lambda r: (r.complete, *r.extent[1:]), reverse=True):
            row = self._row(result)
            group = groups.setdefault("" if result.complete else row["tried_on"], [])
            names = {other["name"] for other in group}
            group += [r for r in row["reference"] or [] if r["name"] not in names]
            group.append(row)
        if rows := self.reference_rows:
            groups[NO_METRIC] = rows
        return {data: list(map(self._columns.cells, rows)) for data, rows in groups.items()}

    @property
    def _footnotes(self) -> list[str]:
        return [self.legend, *self.notes]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and strings, ready for JSON."""
        winners = {goal: compared.winner for goal, compared in self.goals.items()}
        number = "n_neighbors" if self.n_judgements is None else f"n_{next(iter(self.goals))}"
        no_metrics: dict[str, Any] = {}
        if (largest := self.largest_class) is not None:
            names = ("name", "share", "error", "balanced_error")
            no_metrics = {
                "largest_class": {name: getattr(largest, name) for name in names},
                "classifiers": [self._columns.figures(result) for result in self.classifiers],
            }
        return {
            "n_rows": self.n_rows,
            "n_folds": self.n_folds,
            number: self.n_neighbors if self.n_judgements is None else self.n_judgements,
            **({} if self.split == "rows" else {"split": self.split}),
            **({} if self.n_groups is None else {"n_groups": self.n_groups}),
            "winner": {goal: w and w.name for goal, w in winners.items()},
            "verdict": self.verdicts,
            **{goal: compared.verdict.to_dict() for goal, compared in self.goals.items()},
            "incomplete": self.incomplete,
            "notes": [note.text for note in self.findings],
            "methods": self.rows(),
            **no_metrics,
            "left_out": [{"name": r.name, "why": r.note} for r in self.left_out],
        }

    @property
    def reference_rows(self) -> list[dict[str, Any]]:
        """Figures of what is no metric: always naming the largest class, and classifiers."""
        if self.largest_class is None:
            return []
        rows = [self._columns.figures(result) for result in self.classifiers]
        return [self._columns.largest_class(self.largest_class), *rows]

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame; needs pandas."""
        pandas = optional_package("pandas", "A DataFrame", "pandas")
        return pandas.DataFrame(self.rows()).set_index("name")

    def __repr__(self) -> str:
        return f"<Comparison: {len(self)} methods, {self.n_folds} folds>"

    @property
    def title(self) -> str:
        """Title of the table."""
        return self._columns.title(self.n_folds, self.n_rows, self.n_copies)

    @property
    def legend(self) -> str:
        """What the marks mean."""
        references = {described(goal.reference) for goal in self.goals.values()}
        reference = " and ".join(
            f"{described(goal.reference)} by {goal.measure.label}" for goal in self.goals.values()
        )
        if len(references) == 1:
            reference = references.pop()
        significant = "+ significantly better, - significantly worse"
        return f"{significant} than {reference} (p < 0.05, Holm-adjusted)."

    @property
    def notes(self) -> list[str]:
        """Which methods were left out for other reasons than time, and why; early stops."""
        early = any(result.stopped_early for result in self.results)
        left_out: dict[str, list[str]] = {}
        for result in self.left_out:
            if result.name not in self.not_tried:
                left_out.setdefault(result.note, []).append(result.name)
        # Classifiers that learn from a sample of the rows of a fold.
        sampled = {r.name: (r.method.estimator.max_rows, r.cells) for r in self.classifiers}
        return [
            *([self.note] if self.note else []),
            *([f"{EARLY} fit stopped early, not tested."] * early),
            *(f"Left out: {', '.join(names)} ({why})." for why, names in left_out.items()),
            *(
                f"{result.name.capitalize()} was tested on {result.partial}."
                for result in self.classifiers
                if result.partial
            ),
            *(
                f"{name.capitalize()} learns from {limit} of {max(c.n_train for c in cells)} rows."
                for name, (limit, cells) in sampled.items()
                if any(cell.n_train > limit for cell in cells)
            ),
        ]

    def _repr_html_(self) -> str:
        measure = self._columns.measures[0]
        losses = {result.name: known_mean(result.wrong) for result in self.results}
        title = f"{measure.label}: the share that is wrong"
        return fragment(title, self.verdicts, bars(losses)) + self.to_html(verdict=False)


def _tried_on(result: MethodResult) -> str:
    """Return what a method was tried on, in words."""
    return result.partial or "all folds"
