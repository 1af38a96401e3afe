"""`Study`: the rows and the metric of a report, and a split to evaluate it on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from nearfar.comparison import Comparison
from nearfar.constraints import Pairs, Triplets
from nearfar.learners.base import MetricLearner
from nearfar.learners.scaler import Scaler
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.typing import Floats, Ints

_TEST_SHARE = 0.3
_MAX_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Study:
    """The rows and the metric of a report.

    Parameters
    ----------
    name : str
        Name of the data.
    X : array of shape (n_samples, n_features)
    y : array of shape (n_samples,) or None
        Labels; None if there are judgements instead.
    metric : Metric
        Learned from all rows.
    method : str
        Name of the method that learned it.
    relearn : callable, optional
        Learns from rows and labels, and returns a Metric or a fitted learner. It is called with the
        training rows, to evaluate on held-out rows. Without it `metric` is evaluated as it is.
    comparison : Comparison, optional
    judgements : Triplets or Pairs, optional
        What the metric was learned from, instead of labels.
    learner : MetricLearner, optional
        The learner fitted to all rows, for the plot of its history.
    feature_names, ids, texts : sequence of str, optional
        Names of the features; ids and texts of the rows.
    image_shape : tuple of int, optional
        Height and width (and channels), if the rows are images.
    metric_file : str, optional
        File of the metric.
    random_state : int, default=0
        Seed of the split.
    """

    name: str
    X: Floats
    y: Any
    metric: Metric
    method: str
    relearn: Callable[[Floats, NDArray[Any]], Any] | None = None
    comparison: Comparison | None = None
    judgements: Triplets | Pairs | None = None
    learner: MetricLearner | None = None
    feature_names: Sequence[str] | None = None
    ids: Sequence[str] | None = None
    texts: Sequence[str] | None = None
    image_shape: tuple[int, ...] | None = None
    metric_file: str | None = None
    random_state: int = 0

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        names = self.feature_names or self.metric.feature_names
        return list(names) if names is not None else [f"x{j}" for j in range(self.X.shape[1])]

    @cached_property
    def split(self) -> tuple[Ints, Ints]:
        """Row numbers of the training rows and of the held-out rows."""
        rows = np.arange(len(self.X))
        if len(rows) > _MAX_ROWS:
            rows = np.sort(
                np.random.default_rng(self.random_state).choice(rows, _MAX_ROWS, replace=False)
            )
        sizes = np.unique(self.y[rows], return_counts=True)[1]
        n_test = int(np.ceil(_TEST_SHARE * len(rows)))
        stratified = sizes.min() >= 2 and len(sizes) <= min(n_test, len(rows) - n_test)
        train, test = train_test_split(
            rows,
            test_size=n_test,
            random_state=self.random_state,
            stratify=self.y[rows] if stratified else None,
        )
        return np.sort(train), np.sort(test)

    @cached_property
    def relearned(self) -> Any:
        """The result of `relearn` on the training rows: a fitted learner or a metric."""
        if self.relearn is None:
            return self.metric
        train, _ = self.split
        return self.relearn(self.X[train], self.y[train])

    @property
    def evaluated_metric(self) -> Metric:
        """The metric learned from the training rows only, if it can be learned again."""
        found = self.relearned
        metric: Metric = found if isinstance(found, Metric) else found.metric_
        return metric

    @property
    def euclidean(self) -> Metric:
        """Euclidean distance on standardised features."""
        return Scaler.fit(self.X[self.split[0]], "standard").euclidean

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics to compare, by name."""
        return {"Euclidean": self.euclidean, self.method: self.evaluated_metric}

    def most_changed(self, number: int, n_neighbors: int) -> list[int]:
        """Return held-out rows whose neighbours change most, with different classes first.

        The change is that in the number of neighbours of the same class. Gains and losses count
        alike, so that the choice does not favour the metric.
        """
        train, test = self.split
        n_same = []
        for metric in self.metrics.values():
            found = kneighbors(
                metric, self.X[train], self.X[test], n_neighbors=min(n_neighbors, len(train))
            )[1]
            n_same.append((self.y[train][found] == self.y[test][:, None]).sum(axis=1))
        change = np.abs(n_same[1] - n_same[0])
        order = test[np.argsort(-change, kind="stable")]
        firsts = np.sort(np.unique(self.y[order], return_index=True)[1])
        rest = np.setdiff1d(np.arange(len(order)), firsts)
        return [int(row) for row in order[np.concatenate([firsts, rest])][:number]]
