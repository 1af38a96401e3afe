"""`MetricNeighborsRegressor`: numbers as the mean of nearest neighbours under a learned metric."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.learners.base import MetricLearner, learner_of
from nearfar.learners.selection.auto import AutoMetric
from nearfar.measures.neighbor_votes import NUMBERS, best_number
from nearfar.metrics.gallery import Gallery
from nearfar.metrics.variants import as_metric
from nearfar.neighbors.calibration import cross_fitted
from nearfar.neighbors.prediction import NeighborPredictor, Prediction
from nearfar.numerics.missing import naming_remedies, refuse_masked, refuse_missing
from nearfar.rows import as_rows
from nearfar.runtime.parameters import check_parameters, integer
from nearfar.supervision.supervision import checked_groups, counted_rows
from nearfar.typing import Array, Floats, Ints, Vector


class MetricNeighborsRegressor(RegressorMixin, BaseEstimator):
    """k-nearest-neighbour regression under a learned metric.

    Parameters
    ----------
    learner : MetricLearner, optional
        Learns the metric; cloned; by default AutoMetric. An AutoMetric takes y as numbers in any
        case.
    n_neighbors : int or "auto", default="auto"
        How many neighbours there is a mean of. "auto" chooses among 1, 3, 5, 9, 15 and 25 by the
        squared errors on rows that took no part: the metric is learned again without them, unless
        it is AutoMetric's, which puts rows aside itself.

    Attributes
    ----------
    learner_ : MetricLearner
        The fitted learner.
    metric_ : Metric
    n_neighbors_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from nearfar import MLKR, MetricNeighborsRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> regressor = MetricNeighborsRegressor(MLKR()).fit(X[::2], y[::2])
    >>> regressor.score(X[1::2], y[1::2]) > 0.4
    True
    """

    def __init__(
        self,
        learner: MetricLearner | None = None,
        n_neighbors: int | Literal["auto"] = "auto",
    ) -> None:
        self.learner = learner
        self.n_neighbors = n_neighbors

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the metric and keep the training rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Numbers.
        groups : array-like of shape (n_samples,), optional
            What rows belong to, for instance a person. Rows of one group are never both learned
            from and left out. By default, copies of a row are a group.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts for the learner. In means of neighbours, and where their
            number is chosen, each row counts once; rows of weight 0 are left out.
        """
        refuse_masked(X, "X")
        refuse_missing(y, "y")
        X, y, groups, weight = counted_rows(sample_weight, X, y, groups)
        if np.asarray(y).dtype.kind in "OSU":
            try:
                y = np.asarray(y, dtype=np.float64)
            except (TypeError, ValueError):
                raise ValueError(
                    "y has values that are not numbers; for classes, use MetricNeighborsClassifier."
                ) from None
        with naming_remedies():
            points, numbers = validate_data(
                self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2, y_numeric=True
            )
        numbers, known = numbers.astype(np.float64), checked_groups(groups, len(points))
        if self.n_neighbors != "auto":
            check_parameters({"n_neighbors": integer(at_least=1)}, self.get_params(deep=False))
            if int(self.n_neighbors) > len(points):
                raise ValueError(
                    f"n_neighbors={self.n_neighbors} is more than the {len(points)} rows of X."
                )
        self.learner_ = self._learned(points, numbers, known, weight)
        self.metric_ = as_metric(self.learner_.metric_)

        def numbers_of(learned: Ints, seen: Ints, asked: Ints) -> Array:
            """Learn from some rows, and return the numbers that others find."""
            own = None if known is None else known[learned]
            counts = None if weight is None else weight[learned]
            learner = self._learned(points[learned], numbers[learned], own, counts)
            metric = as_metric(learner.metric_)
            search = Gallery(metric, points[seen]).search(points[asked])
            return numbers[seen[search.nearest(min(NUMBERS[-1], len(seen)))[1]]]

        chosen: int | None = getattr(self.learner_, "n_neighbors_", None)
        if self.n_neighbors != "auto":
            chosen = int(self.n_neighbors)
        elif chosen is None:
            held_out = cross_fitted(numbers_of, points, numbers, known)
            chosen = best_number([held_out] if held_out else [], numbers=True)
        self.n_neighbors_ = min(chosen, len(points))
        self._known = points, numbers
        return self

    def predict(self, X: ArrayLike) -> Vector:
        """Return the mean of the numbers of the nearest neighbours.

        Rows that are not in memory (a path, a Dask array or Rows) are read in blocks.
        """
        check_is_fitted(self)
        rows = as_rows(X)
        if rows is not None:
            return rows.transformed(_means_of_block, rows.executor.hold(self))
        return _means_of_block(self._points(X), self)

    def explain(self, X: ArrayLike) -> Prediction:
        """Return predictions with the neighbours that they are the mean of.

        `p_value` is small for rows that are unlike all training rows, by the metric or not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Prediction
        """
        check_is_fitted(self)
        k = self.n_neighbors_
        predictor = NeighborPredictor(self.metric_, *self._known, n_neighbors=k, numbers=True)
        return predictor.predict(self._points(X))

    def _points(self, X: ArrayLike) -> Floats:
        refuse_masked(X, "X")
        with naming_remedies():
            points: Floats = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return points

    def _learned(
        self, X: Floats, y: Vector, groups: Ints | None, weight: Vector | None
    ) -> MetricLearner:
        learner = clone(learner_of(AutoMetric() if self.learner is None else self.learner))
        if isinstance(learner, AutoMetric):
            learner.set_params(goal="regression")
        return learner.fit(X, y, groups=groups, sample_weight=weight)


def _means_of_block(X: Floats, regressor: MetricNeighborsRegressor) -> Vector:
    known, numbers = regressor._known
    found = Gallery(regressor.metric_, known).search(X).nearest(regressor.n_neighbors_)[1]
    return np.asarray(numbers[found].mean(axis=1))
