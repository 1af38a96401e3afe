"""Rows and supervision, as options of the commands that learn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nearfar.cli import options
from nearfar.cli.errors import UserError
from nearfar.cli.model_files import check_output
from nearfar.metrics.metric import Metric
from nearfar.tables.judgements import check_vectors
from nearfar.tables.reading import read_table
from nearfar.tables.table import Table
from nearfar.workflow.checkpoint import FitCheckpoint
from nearfar.workflow.learning import judgement_source


@dataclass(frozen=True)
class SupervisedInput:
    """Where rows come from, what their columns are, and what to learn from."""

    source: options.SourceOrNothing = ""
    label: options.Label = None
    drop: options.Drop = None
    numeric: options.Numeric = None
    categorical: options.Categorical = None
    text: options.FreeText = None
    impute: options.Impute = options.Imputation.auto
    triplets: options.TripletsPath = None
    pairs: options.PairsPath = None
    ids: options.Id = None
    group: options.Group = None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.label, self.triplets, self.pairs)) > 1:
            raise UserError("Give only one of --label, --triplets and --pairs.")
        judged = self.triplets or self.pairs
        if judged is None and not self.source:
            raise UserError("Name the rows to learn from: a table, an array or a dataset.")
        if self.label is None:
            kind = "triplets" if self.triplets else "pairs"
            left_out = (self.ids, self.group)
            check_vectors(self.source, judged, kind, left_out=left_out, drop=self.drop)

    @property
    def files(self) -> list[str | Path | None]:
        """The files that are read."""
        return [self.source, self.label, self.triplets, self.pairs, self.group]

    def read(
        self, *, numbers: bool = False, show: str | None = None, metric: Metric | None = None
    ) -> Table:
        """Read the rows, and their labels, triplets or pairs.

        Parameters
        ----------
        numbers : bool
            Whether labels are numbers, not classes.
        show : str, optional
            Column to show for each row.
        metric : Metric, optional
            The metric whose features are wanted.
        """
        return read_table(
            self.source,
            label=self.label,
            triplets=judgement_source(self.triplets, "triplets"),
            pairs=judgement_source(self.pairs, "pairs"),
            group=self.group,
            ids=self.ids,
            drop=self.drop,
            numeric=self.numeric,
            categorical=self.categorical,
            text=self.text,
            show=show,
            impute=self.impute is options.Imputation.auto,
            numbers=numbers,
            metric=metric,
            required=True,
        )


def check_checkpoint(
    checkpoint: Path | None,
    inputs: Iterable[str | Path | None],
    metric: Path | None = None,
    *,
    fits: bool = True,
) -> None:
    """Raise UserError unless the files of a checkpoint can be written beside those of a command."""
    if checkpoint is not None and metric is not None and checkpoint.resolve() == metric.resolve():
        raise UserError("--checkpoint and --out name the same file.")
    for file in FitCheckpoint(checkpoint, fits=fits).files:
        check_output(file, None, inputs)
