"""Rows and supervision, as options of the commands that learn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from nearfar.cli import options
from nearfar.cli.answer_files import read_judgements
from nearfar.cli.errors import UserError
from nearfar.constraints import Pairs, Supervision, Triplets, keep_copies_together
from nearfar.metrics.metric import Metric
from nearfar.runtime.notes import note
from nearfar.tables.formats import TABLES, column_names, kind_of
from nearfar.tables.judgements import judgements_in, read_pairs, read_triplets
from nearfar.tables.preparation import ColumnRules, Imputation
from nearfar.tables.reader import named_columns
from nearfar.tables.row_input import InputRows, read_rows

FEWEST_PEOPLE = 5
"""With fewer people, objects are held out, and not people."""

Judgements = TypeVar("Judgements", Triplets, Pairs)


@dataclass(frozen=True)
class SupervisedInput:
    """Where rows come from, what their columns are, and what to learn from."""

    source: options.SourceOrNothing = ""
    label: options.Label = None
    drop: options.Drop = None
    numeric: options.Numeric = None
    categorical: options.Categorical = None
    text: options.FreeText = None
    impute: options.Impute = Imputation.auto
    triplets: options.TripletsPath = None
    pairs: options.PairsPath = None
    ids: options.Id = None
    group: options.Group = None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.label, self.triplets, self.pairs)) > 1:
            raise UserError("Give only one of --label, --triplets and --pairs.")
        self._check_rows_given()

    def _check_rows_given(self) -> None:
        """Refuse triplets and pairs of objects that have no vectors."""
        judged = self.triplets or self.pairs
        if judged is None and not self.source:
            raise UserError("Name the rows to learn from: a table, an array or a dataset.")
        if self.label is not None or self._may_have_vectors():
            return
        kind = judgements_in(self._columns) if judged is None else ""
        option = kind or ("triplets" if self.triplets else "pairs")
        file = judged or self.source
        alone = (
            " Triplets alone give coordinates: OrdinalEmbedding in Python."
            if option == "triplets"
            else ""
        )
        if self.source and judged is not None and not judgements_in(self._columns):
            raise UserError(
                f"{self.source} has names of objects and no other column; a metric measures "
                f"distances of vectors, so that it needs features.{alone}"
            )
        raise UserError(
            f"A metric measures distances of vectors, which {file} does not have; give a table "
            "with a row of features for each object, for example: nearfar learn OBJECTS.csv --id "
            f"NAME --{option} {file}.{alone}"
        )

    def _may_have_vectors(self) -> bool:
        """Tell whether the rows are more than triplets, pairs, or names of objects."""
        if not self.source or not self._columns:
            return bool(self.source)
        if judgements_in(self._columns):
            return False
        named = {*named_columns(self.drop, self._columns), self.ids, self.group}
        return not (self.triplets or self.pairs) or bool(set(self._columns) - named)

    @property
    def _columns(self) -> list[str]:
        """Columns of the rows, if they are a table."""
        path = Path(self.source)
        return column_names(path) if kind_of(path) in TABLES and path.is_file() else []

    @property
    def files(self) -> list[str | Path | None]:
        """The files that are read."""
        return [self.source, self.label, self.triplets, self.pairs, self.group]

    def read(
        self, *, numbers: bool = False, show: str | None = None, metric: Metric | None = None
    ) -> tuple[InputRows, Any]:
        """Return the rows, and their labels, triplets or pairs.

        Parameters
        ----------
        numbers : bool
            Whether labels are numbers, not classes.
        show : str, optional
            Column to show for each row.
        metric : Metric, optional
            The metric whose features are wanted.
        """
        rows = read_rows(
            self.source,
            label=self.label,
            ids=self.ids,
            group=self.group,
            text=show,
            metric=metric,
            rules=ColumnRules(self.drop, self.numeric, self.categorical, self.impute, self.text),
            labelled=self.triplets is None and self.pairs is None,
            numeric=numbers,
            skip_unlabelled=True,
        )
        known: Any
        if self.triplets is not None:
            known = people_together(
                read_triplets(read_judgements(self.triplets, "triplets"), self.triplets, rows), rows
            )
        elif self.pairs is not None:
            known = people_together(
                read_pairs(read_judgements(self.pairs, "pairs"), self.pairs, rows), rows
            )
        else:
            known = rows.numbers if numbers else rows.labels
        return copies_together(rows, known, numbers=numbers)


def people_together(known: Judgements, rows: InputRows) -> Judgements:
    """Keep the judgements of a person on one side of every split if there are enough people.

    Groups of rows are held out instead if they are given.
    """
    weighted = known if known.weight is None else known.take(known.weight > 0)
    number = weighted.n_raters
    if rows.groups is None and number >= FEWEST_PEOPLE:
        note(f"{number} people answered; no person is both learned from and tested on.")
        return known
    if rows.groups is None and number > 1:
        note(f"{number} people answered, too few to hold out people; objects are held out instead.")
    return replace(known, raters=None)


def copies_together(rows: InputRows, known: Any, *, numbers: bool = False) -> tuple[InputRows, Any]:
    """Keep copies of rows on one side of every split, and say so."""
    given = Supervision.of(known, len(rows), groups=rows.groups, numbers=numbers)
    found, copies = keep_copies_together(rows.X, given)
    if copies is None:
        return rows, known
    note(f"{copies}.")
    n_copies = 0 if found.groups is None else len(copies)
    rows = replace(rows, groups=found.groups, n_copies=n_copies)
    return rows, found.given if found.listed else known
