"""`Study`: what a report is about, and the held-out rows that its figures show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from nearfar.columns.columns import ColumnExample
from nearfar.comparison import GoalComparison
from nearfar.frames.features import read_examples
from nearfar.frames.formats import FORMATS, TABLES, kind_of, shown_name
from nearfar.frames.table import Table
from nearfar.learners.base import MetricLearner
from nearfar.metrics.explanations import several_features
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.page.blocks import shortened
from nearfar.runtime.messages import Note
from nearfar.supervision import Pairs, Triplets
from nearfar.tables.held_out import HeldOut
from nearfar.typing import Array, Floats, Ints

Judgements = Triplets | Pairs


@dataclass(frozen=True, eq=False)
class Study:
    """What a report is about.

    Attributes
    ----------
    table: The rows, and what is known of them.
    metric: Learned from all rows.
    held_out: What it is worth; what figures show is its first split.
    sentence: The outcome.
    learner: What learned the metric; None for the metric of a file.
    metric_file, command: File of the metric, and the command that writes the report.
    title: Heading of the page.
    findings: What to say at the top.
    image_shape: Height and width (and channels), if the rows are images.
    """

    table: Table
    metric: Metric
    held_out: HeldOut
    sentence: str
    learner: MetricLearner | None = None
    metric_file: str | None = None
    command: str = ""
    title: str = ""
    findings: tuple[Note, ...] = ()
    image_shape: tuple[int, ...] | None = None
    random_state: int = 0

    @property
    def method(self) -> str:
        """Name of the metric."""
        return self.held_out.results[0].name

    @property
    def baseline(self) -> str:
        """Name of the Euclidean distance that it is compared with."""
        return self.held_out.goal.reference.name

    @property
    def supervision(self) -> str:
        """The supervision: "labels", "numbers", "triplets" or "pairs"."""
        return self.table.kind

    @property
    def labels(self) -> Array | None:
        """Labels, or None if there are numbers or judgements."""
        return self.table.y if self.table.kind == "labels" else None

    @property
    def judgements(self) -> Judgements | None:
        """Triplets or pairs, or None if there are labels."""
        known = self.table.supervision
        return known if isinstance(known, Judgements) else None

    @property
    def goals(self) -> list[GoalComparison]:
        """The metric compared with Euclidean distance, for each goal; the first decides."""
        return self.held_out.goals

    @property
    def X(self) -> Floats:  # noqa: N802
        """All rows, with the features that the first split learned from."""
        return self.held_out.first.X

    @property
    def split(self) -> tuple[Ints, Ints]:
        """Numbers of training rows and of held-out rows; for judgements, all rows are both."""
        return self.held_out.first.train, self.held_out.first.test

    @property
    def judgement_split(self) -> tuple[Judgements, Judgements]:
        """Judgements to learn from, and held-out ones."""
        split = self.held_out.first.judgements
        assert split is not None
        return split

    @property
    def metrics(self) -> dict[str, Metric]:
        """Euclidean distance and the metric, learned from the training data of the first split."""
        learned, plain = self.held_out.first.metrics
        return {self.baseline: plain, self.method: learned}

    @property
    def predicted_classes(self) -> dict[str, Array]:
        """Classes of the held-out rows of the first split, by what predicts them."""
        learned, plain = self.held_out.first.predicted
        return {self.baseline: plain, self.method: learned}

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        names = self.table.feature_names or self.metric.feature_names
        return list(names) if names is not None else [f"x{j}" for j in range(self.n_features)]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.table.X.shape[1]

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The column of each feature, if some column has several and is not the only one."""
        return several_features(self.metric)

    @property
    def source(self) -> str:
        """File of the rows, for commands to copy."""
        source = self.table.source
        return shown_name(source) if kind_of(Path(source)) in FORMATS else ""

    @property
    def is_table(self) -> bool:
        """Whether the rows are of a file with named columns."""
        return kind_of(Path(self.table.source)) in TABLES

    @cached_property
    def column_examples(self) -> list[ColumnExample]:
        """What each column of the table became."""
        return read_examples(self.table.frame or Path(self.table.source), self.table.columns)

    def row_title(self, row: int) -> str:
        """Return the text of a row, its id, or its number; and its class."""
        table = self.table
        if table.texts is not None:
            name = shortened(table.texts[row])
        else:
            name = f"row {table.row_name(row)}" if table.ids is None else table.row_name(row)
        return name if table.y is None else f"{name} [{table.y[row]}]"

    def most_changed(self, number: int, n_neighbors: int) -> list[int]:
        """Return held-out rows whose neighbours change most, with different classes first.

        The change is that in the number of neighbours of the same class. Gains and losses count
        alike, so that the choice does not favour the metric. Without labels it is the number of
        neighbours that differ.
        """
        train, test = self.split
        one, other = (
            kneighbors(metric, self.X[train], self.X[test], n_neighbors=n_neighbors)[1]
            for metric in self.metrics.values()
        )
        if self.labels is None:
            n_common = (one[:, :, None] == other[:, None, :]).any(axis=2).sum(axis=1)
            return [int(row) for row in test[np.argsort(n_common, kind="stable")][:number]]
        near, own = self.labels[train], self.labels[test][:, None]
        n_same = [(near[indices] == own).sum(axis=1) for indices in (one, other)]
        order = test[np.argsort(-np.abs(n_same[1] - n_same[0]), kind="stable")]
        firsts = np.sort(np.unique(self.labels[order], return_index=True)[1])
        rest = np.setdiff1d(np.arange(len(order)), firsts)
        return [int(row) for row in order[np.concatenate([firsts, rest])][:number]]
