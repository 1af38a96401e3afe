"""Rows and supervision, as options of the commands that learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearfar.cli import options
from nearfar.cli.constraint_tables import read_pairs, read_triplets
from nearfar.cli.errors import UserError
from nearfar.cli.preparation import ColumnRules, Imputation
from nearfar.cli.row_input import InputRows, read_rows
from nearfar.metrics.metric import Metric


@dataclass(frozen=True)
class SupervisedInput:
    """Where rows come from, what their columns are, and what to learn from."""

    source: options.Source
    label: options.Label = None
    drop: options.Drop = None
    numeric: options.Numeric = None
    categorical: options.Categorical = None
    impute: options.Impute = Imputation.auto
    triplets: options.TripletsPath = None
    pairs: options.PairsPath = None
    ids: options.Id = None
    group: options.Group = None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.label, self.triplets, self.pairs)) > 1:
            raise UserError("Give only one of --label, --triplets and --pairs.")

    @property
    def files(self) -> list[str | Path | None]:
        """The files that are read."""
        return [self.source, self.label, self.triplets, self.pairs, self.group]

    def read(
        self, *, numbers: bool = False, text: str | None = None, metric: Metric | None = None
    ) -> tuple[InputRows, Any]:
        """Return the rows, and their labels, triplets or pairs.

        Parameters
        ----------
        numbers : bool
            Whether labels are numbers, not classes.
        text : str, optional
            Column with texts of the rows.
        metric : Metric, optional
            The metric whose features are wanted.
        """
        rows = read_rows(
            self.source,
            label=self.label,
            ids=self.ids,
            group=self.group,
            text=text,
            metric=metric,
            rules=ColumnRules(self.drop, self.numeric, self.categorical, self.impute),
            labelled=self.triplets is None and self.pairs is None,
            numeric=numbers,
        )
        if self.triplets is not None:
            return rows, read_triplets(self.triplets, rows)
        if self.pairs is not None:
            return rows, read_pairs(self.pairs, rows)
        return rows, rows.numbers if numbers else rows.labels
