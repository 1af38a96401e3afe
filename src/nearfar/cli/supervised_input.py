"""Rows and supervision, as options of the commands that learn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nearfar.cli import options
from nearfar.cli.errors import UserError
from nearfar.cli.model_files import check_output
from nearfar.metrics.metric import Metric
from nearfar.tables.formats import TABLES, column_names, kind_of
from nearfar.tables.judgements import judgements_in
from nearfar.tables.preparation import ColumnRules, Imputation
from nearfar.tables.reader import named_columns
from nearfar.workflow.checkpoint import FitCheckpoint
from nearfar.workflow.training_table import TrainingTable, read_training_table


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
    ) -> TrainingTable:
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
        return read_training_table(
            self.source,
            label=self.label,
            triplets=self.triplets,
            pairs=self.pairs,
            group=self.group,
            ids=self.ids,
            rules=ColumnRules(self.drop, self.numeric, self.categorical, self.impute, self.text),
            numbers=numbers,
            show=show,
            metric=metric,
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
