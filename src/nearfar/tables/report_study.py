"""`Study`: the rows and the metric of a report, and a split to evaluate it on held-out data.

`write_report(path, Study(name, X, y, metric, method))` is the smallest report. Everything else that
a study has adds to the page: `comparison` the section on whether learning helps, `relearn` figures
on held-out data, `findings` the notes at the top.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from nearfar.columns.columns import ColumnExample
from nearfar.comparison import Comparison, GoalComparison, Method
from nearfar.comparison.goals import compare_losses
from nearfar.comparison.methods import baseline_metrics
from nearfar.comparison.tasks import score_numbers
from nearfar.evidence.intervals import OverlappingJudgements
from nearfar.evidence.verdict import COSINE
from nearfar.learners.base import MetricLearner
from nearfar.measures.neighbor_votes import DEFAULT_NEIGHBORS, majority
from nearfar.measures.registry import R2, HeldOutJudgements, measures_for
from nearfar.metrics.explanations import several_features
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.page.blocks import shortened
from nearfar.runtime.messages import Note, ordered
from nearfar.supervision import Pairs, Split, Supervision, Triplets, kind_of
from nearfar.typing import Array, Floats, Ints, Vector

Judgements = Triplets | Pairs

# Part of the rows that is held out: more would leave too few to learn from, fewer are noisier.
_TEST_SHARE = 0.3
# One of these is held out of judgements, and of rows in groups: about `_TEST_SHARE`.
_FOLDS = 3
# Of more rows a sample is split, as exact neighbours take time quadratic in their number.
_MAX_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Study:
    """The rows and the metric of a report.

    Parameters
    ----------
    name: Name of the data.
    y: shape (n_samples,). Labels, numbers, or judgements about the rows.
    metric: Learned from all rows.
    method: Name of the method that learned it.
    relearn: Learns from rows and labels, or from rows and judgements, and returns a Metric
        or a fitted learner. It is called with a part of the rows or judgements, to evaluate
        on the others, and with the `groups` of the rows if there are any. Without it
        `metric` is evaluated as it is.
    learner: The learner fitted to all rows, for the plot of its history.
    feature_names, ids, texts: Names of the features; ids and texts of the rows.
    pictures: A picture of each row.
    image_shape: Height and width (and channels), if the rows are images.
    metric_file: File of the metric.
    written: Name of the method in that file, if it is not `method`: a baseline that is
        recommended.
    random_state: Seed of the split.
    reason: Why the report is about this method, as a sentence.
    command: The command that writes the report.
    goal: Goal of the comparison that the headline is about; by default the first.
    notes: More to say in the appendix, such as how columns were prepared: names and texts.
    groups: shape (n_samples,). The number of the group of each row. A group is never on
        both sides of a split.
    n_copies: Number of rows that are copies of others, if these are the groups.
    title: Heading of the page, instead of the name of the data.
    findings: What to say at the top of the page, beside the findings of the comparison.
    source: File of the rows, for commands to copy.
    rows_code: Python code that reads X; without it, X is what the reader has. A table is
        indexed by ``[names]``, the names of the features. None says that a few lines cannot
        read the rows.
    row_numbers: shape (n_samples,). Number of each row in its file; by default its number
        in X.
    column_examples: What each column of the table became.
    label, id_column: Columns of the labels and of the ids, for commands to copy.
    numbers: Whether y has numbers to predict, not labels.
    """

    name: str
    X: Floats
    y: Array | Judgements
    metric: Metric
    method: str
    relearn: Method | Callable[..., Metric | MetricLearner] | None = None
    comparison: Comparison | None = None
    learner: MetricLearner | None = None
    feature_names: Sequence[str] | None = None
    ids: Sequence[str] | None = None
    texts: Sequence[str] | None = None
    pictures: Sequence[Path | None] | None = None
    image_shape: tuple[int, ...] | None = None
    metric_file: str | None = None
    random_state: int = 0
    reason: str = ""
    command: str = ""
    goal: str | None = None
    notes: Sequence[tuple[str, str]] = ()
    groups: Ints | None = None
    written: str = ""
    title: str = ""
    findings: Sequence[Note] = ()
    source: str = ""
    rows_code: str | None = ""
    row_numbers: Ints | None = None
    column_examples: Sequence[ColumnExample] = ()
    label: str = ""
    n_copies: int = 0
    id_column: str = ""
    numbers: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "written", self.written or self.method)

    @property
    def supervision(self) -> str:
        """The supervision: "labels", "numbers", "triplets" or "pairs"."""
        return kind_of(self.y, numbers=self.numbers)

    @property
    def labels(self) -> Array | None:
        """Labels, or None if there are numbers or judgements."""
        return None if self.numbers else self.targets

    @property
    def targets(self) -> Array | None:
        """Labels or numbers, or None if there are judgements."""
        return None if isinstance(self.y, Judgements) else self.y

    @property
    def judgements(self) -> Judgements | None:
        """Triplets or pairs, or None if there are labels."""
        return self.y if isinstance(self.y, Judgements) else None

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        names = self.feature_names or self.metric.feature_names
        return list(names) if names is not None else [f"x{j}" for j in range(self.X.shape[1])]

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The column of each feature, if some column has several and is not the only one."""
        return several_features(self.metric)

    @property
    def notes_on_top(self) -> list[Note]:
        """What to know first, each once, warnings first."""
        compared = [] if self.comparison is None else self.comparison.findings
        return ordered([*compared, *self.findings])

    def row_name(self, row: int) -> str:
        """Return the id of a row, or its number."""
        if self.ids is not None:
            return self.ids[row]
        return str(row if self.row_numbers is None else self.row_numbers[row])

    def row_title(self, row: int) -> str:
        """Return the text of a row, its id, or its number; and its class."""
        if self.texts is not None:
            name = shortened(self.texts[row])
        else:
            name = f"row {self.row_name(row)}" if self.ids is None else self.row_name(row)
        return name if self.targets is None else f"{name} [{self.targets[row]}]"

    @property
    def n_neighbors(self) -> int:
        """Number of neighbours that vote."""
        given = None if self.comparison is None else self.comparison.n_neighbors
        own = getattr(self.learner, "n_neighbors_", DEFAULT_NEIGHBORS)
        wanted = own if given is None or isinstance(given, str) else given
        return min(wanted, len(self.split[0]))

    @cached_property
    def split(self) -> tuple[Ints, Ints]:
        """Row numbers of the training rows and of the held-out rows.

        With judgements, these are the rows to search and the queries; the metric may be learned
        from judgements on all of them.
        """
        rows = np.arange(len(self.X))
        if len(rows) > _MAX_ROWS:
            rows = np.sort(
                np.random.default_rng(self.random_state).choice(rows, _MAX_ROWS, replace=False)
            )
        labels = None if self.labels is None else self.labels[rows]
        if self.groups is not None:
            split = self._hold_out(Supervision.of(labels, len(rows), groups=self.groups[rows]))
            return rows[split.rows], rows[split.unseen_rows]
        n_test = int(np.ceil(_TEST_SHARE * len(rows)))
        classes = None
        if labels is not None:
            sizes = np.unique(labels, return_counts=True)[1]
            # Otherwise scikit-learn refuses to stratify.
            if sizes.min() >= 2 and len(sizes) <= min(n_test, len(rows) - n_test):
                classes = labels
        train, test = train_test_split(
            rows, test_size=n_test, random_state=self.random_state, stratify=classes
        )
        return np.sort(train), np.sort(test)

    @cached_property
    def judgement_split(self) -> tuple[Judgements, Judgements]:
        """Judgements to learn from, and held-out ones."""
        split = self._hold_out(Supervision.of(self.judgements, len(self.X), groups=self.groups))
        return split.known.given, split.unseen.given

    def _hold_out(self, supervision: Supervision) -> Split:
        """Return the first of a few folds."""
        split = next(supervision.split(_FOLDS, check_random_state(self.random_state)), None)
        if split is None:
            raise ValueError(f"There is too little to hold out some of the {supervision.kind}.")
        return split

    @cached_property
    def relearned(self) -> Metric | MetricLearner:
        """The result of `relearn` on training data: a fitted learner or a metric."""
        if self.relearn is None:
            return self.metric
        X, y, groups = self.X, self.y, self.groups
        if self.targets is None:
            y = self.judgement_split[0]
        else:
            train, _ = self.split
            X, y, groups = X[train], self.targets[train], None if groups is None else groups[train]
        grouped = {} if groups is None else {"groups": groups}
        if not isinstance(self.relearn, Method):
            return self.relearn(X, y, **grouped)
        if isinstance(self.relearn.estimator, MetricLearner):
            return clone(self.relearn.estimator).fit(X, y, **grouped)
        metric = self.relearn.learn(X, y)
        if metric is None:
            raise ValueError(f"{self.relearn.name} does not learn a metric.")
        return metric

    @property
    def evaluated_metric(self) -> Metric:
        """The metric learned from the training data only, if it can be learned again."""
        learned = self.relearned
        return learned if isinstance(learned, Metric) else learned.metric_

    @property
    def goals(self) -> list[GoalComparison]:
        """What the method is compared by: the comparison's goals, or held-out data of the split."""
        if self.comparison is None or self.method not in self.comparison:
            return [self.held_out]
        return self.compared_goals

    @property
    def compared_goals(self) -> list[GoalComparison]:
        """The comparison by each of its goals; the first is that of the headline."""
        if self.comparison is None:
            return []
        goals = self.comparison.goals.values()
        return sorted(goals, key=lambda goal: goal.goal != self.goal)

    @property
    def baseline(self) -> str:
        """Name of the baseline that the whole report compares with.

        It is the best one of the comparison or, if there is none, on the held-out data.
        """
        if self.comparison is not None:
            return self.compared_goals[0].reference.name
        return self.held_out.reference.name

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """The metrics to compare, by name: the baseline, and the metric of the report."""
        return {
            self.baseline: self._baselines[self.baseline],
            self.method: self.evaluated_metric,
        }

    @cached_property
    def _baselines(self) -> dict[str, Metric]:
        """Euclidean distance on unscaled and standardised rows, and cosine distance."""
        return baseline_metrics(self.X if self.targets is None else self.X[self.split[0]])

    @cached_property
    def held_out(self) -> GoalComparison:
        """The metric and the baselines on held-out data, by the main measure."""
        metrics = dict(self._baselines)
        if self.comparison is not None:
            metrics = {self.baseline: metrics[self.baseline]}
        metrics[self.method] = self.evaluated_metric
        measure = measures_for(self.supervision)[0]
        if self.targets is not None:
            test = self.split[1]
            groups = None if self.groups is None else self.groups[test]
            compare = partial(compare_losses, measure.goal, groups=groups)
            losses = {name: self._row_losses(metric) for name, metric in metrics.items()}
        else:
            unseen = self.judgement_split[1]
            overlap = OverlappingJudgements.of(unseen, row_groups=self.groups)
            compare = partial(compare_losses, measure.goal, overlap=overlap)
            losses = {
                name: measure.losses(HeldOutJudgements(metric, self.X, unseen))
                for name, metric in metrics.items()
            }
        comparison = compare(losses)
        if COSINE not in losses or COSINE in (comparison.reference.name, self.method):
            return comparison
        # Cosine distance is a baseline only where it is the best of them.
        del losses[COSINE]
        return compare(losses)

    def _row_losses(self, metric: Metric) -> Vector:
        """Return the losses of the held-out rows by the main measure of labels or numbers."""
        y, (train, test) = np.asarray(self.targets), self.split
        if not self.numbers:
            return np.asarray(self.predicted(metric) != y[test], dtype=np.float64)
        gallery, queries = (self.X[train], y[train]), (self.X[test], y[test])
        settings: Any = {"unit": float(y.std()), "n_neighbors": self.n_neighbors, "sample": False}
        return score_numbers(metric, gallery, queries, **settings)[R2.name]

    @cached_property
    def predicted_classes(self) -> dict[str, Array]:
        """Classes of the held-out rows by the baseline, and by the metric of the report."""
        return {name: self.predicted(metric) for name, metric in self.metrics.items()}

    def predicted(self, metric: Metric) -> Array:
        """Classes of the held-out rows, by a vote of their nearest training rows."""
        assert self.labels is not None
        train, test = self.split
        gallery = self.X[train], self.labels[train]
        return predictions(metric, gallery, self.X[test], self.n_neighbors)

    def most_changed(self, number: int, n_neighbors: int) -> list[int]:
        """Return held-out rows whose neighbours change most, with different classes first.

        The change is that in the number of neighbours of the same class. Gains and losses count
        alike, so that the choice does not favour the metric. Without labels it is the number of
        neighbours that differ.
        """
        train, test = self.split
        k = min(n_neighbors, len(train))
        one, other = (
            kneighbors(metric, self.X[train], self.X[test], n_neighbors=k)[1]
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


def predictions(
    metric: Metric, gallery: tuple[Floats, Array], queries: Floats, n_neighbors: int
) -> Array:
    """Return the classes of queries by a vote of their nearest rows of a gallery."""
    X, y = gallery
    names, codes = np.unique(y, return_inverse=True)
    nearest = kneighbors(metric, X, queries, n_neighbors=n_neighbors)[1]
    return np.asarray(names[majority(codes[nearest])])
