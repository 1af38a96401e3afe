"""What a report is about: rows, a metric, and what it does to rows that it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from nearfar.comparison import Comparison
from nearfar.learners.base import MetricLearner, Scaler
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.typing import Floats, Ints

_HELD_OUT = 0.3
_MOST_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Study:
    """What a report is about.

    Parameters
    ----------
    name : str
        What the rows are called.
    X : array of shape (n_samples, n_features)
    y : array of shape (n_samples,)
        Labels.
    metric : Metric
        Learned from all rows.
    method : str
        What learned it.
    relearn : callable, optional
        Rows and labels -> Metric, or a fitted learner: for judging by rows held out. Without it
        the metric counts as learned from other rows.
    comparison : Comparison, optional
    learner : MetricLearner, optional
        The learner that was fitted to all rows, for its rounds.
    feature_names, ids, texts : sequence of str, optional
        Names of features and rows, and what the rows stand for.
    image_shape : tuple of int, optional
        Height and width, if the rows are pictures.
    metric_file : str, optional
        Where the metric is.
    """

    name: str
    X: Floats
    y: NDArray[Any]
    metric: Metric
    method: str
    relearn: Callable[[Floats, NDArray[Any]], Any] | None = None
    comparison: Comparison | None = None
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
        """Rows to learn from, and rows held out."""
        rows = np.arange(len(self.X))
        if len(rows) > _MOST_ROWS:
            rows = np.sort(
                np.random.default_rng(self.random_state).choice(rows, _MOST_ROWS, replace=False)
            )
        sizes = np.unique(self.y[rows], return_counts=True)[1]
        n_held_out = int(np.ceil(_HELD_OUT * len(rows)))
        stratified = sizes.min() >= 2 and len(sizes) <= min(n_held_out, len(rows) - n_held_out)
        seen, unseen = train_test_split(
            rows,
            test_size=n_held_out,
            random_state=self.random_state,
            stratify=self.y[rows] if stratified else None,
        )
        return np.sort(seen), np.sort(unseen)

    @cached_property
    def relearned(self) -> Any:
        """What was learned without the rows held out: a learner, or a metric."""
        if self.relearn is None:
            return self.metric
        seen, _ = self.split
        return self.relearn(self.X[seen], self.y[seen])

    @property
    def judged(self) -> Metric:
        """The metric that has not seen the rows held out."""
        found = self.relearned
        metric: Metric = found if isinstance(found, Metric) else found.metric_
        return metric

    @property
    def euclidean(self) -> Metric:
        """Euclidean distance on standardised features."""
        return Scaler.fit(self.X[self.split[0]], "standard").euclidean

    @property
    def metrics(self) -> dict[str, Metric]:
        """What is looked at side by side."""
        return {"Euclidean": self.euclidean, self.method: self.judged}

    def queries(self, number: int, n_neighbors: int) -> list[int]:
        """Pick rows held out whose neighbours the metric changes most, of different classes first.

        Gains and losses are taken alike, by the change in the number of neighbours of the right
        class, so that what is shown is not chosen in the metric's favour.
        """
        seen, unseen = self.split
        right = []
        for metric in self.metrics.values():
            found = kneighbors(
                metric, self.X[seen], self.X[unseen], n_neighbors=min(n_neighbors, len(seen))
            )[1]
            right.append((self.y[seen][found] == self.y[unseen][:, None]).sum(axis=1))
        change = np.abs(right[1] - right[0])
        order = unseen[np.argsort(-change, kind="stable")]
        firsts = np.sort(np.unique(self.y[order], return_index=True)[1])
        rest = np.setdiff1d(np.arange(len(order)), firsts)
        return [int(row) for row in order[np.concatenate([firsts, rest])][:number]]
