"""`MetricNeighborsRegressor`: numbers from a linear model and nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.learners.base import MetricLearner, learner_of
from nearfar.learners.selection.auto import AutoMetric
from nearfar.measures.neighbor_votes import LinearPrior
from nearfar.metrics.metric import Metric
from nearfar.metrics.variants import as_metric
from nearfar.neighbors.calibration import as_chosen, decide, held_out_votes
from nearfar.neighbors.prediction import NeighborPredictor, Prediction
from nearfar.numerics.missing import naming_remedies, refuse_masked, refuse_missing
from nearfar.rows import as_rows
from nearfar.runtime.parameters import check_parameters, integer
from nearfar.supervision.supervision import checked_groups, counted_rows
from nearfar.typing import Floats, Ints, Vector


class MetricNeighborsRegressor(RegressorMixin, BaseEstimator):
    """k-nearest-neighbour regression under a learned metric.

    Parameters
    ----------
    learner : MetricLearner, default=AutoMetric()
        Learns the metric; cloned. An AutoMetric takes y as numbers in any case.
    n_neighbors : int or "auto", default="auto"
        How many neighbours count. "auto" chooses among up to 300 by the squared errors on held-out
        rows, and with whole votes among up to 25.
    votes : {"soft", "whole"}, default="soft"
        With "soft", the metric is learned from what ridge regression, fitted to other rows, leaves
        over. Neighbours add their mean of that, with weights that fall with the distance. With
        "whole", the metric is learned from y, and numbers are plain means of neighbours.

    Attributes
    ----------
    learner_ : MetricLearner
        The fitted learner.
    metric_ : Metric
    votes_ : SoftVotes
        How neighbours count.
    n_neighbors_ : int
        How many neighbours count.
    linear_ : LinearPrior or None
        The linear part; None with whole votes.

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
        votes: Literal["soft", "whole"] = "soft",
    ) -> None:
        self.learner = learner
        self.n_neighbors = n_neighbors
        self.votes = votes

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
            How often each row counts for the learner. In means of neighbours each row counts once;
            rows of weight 0 are left out.
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
        if self.votes not in ("soft", "whole"):
            raise ValueError(f'votes must be "soft" or "whole"; got {self.votes!r}.')
        if self.n_neighbors != "auto":
            check_parameters({"n_neighbors": integer(at_least=1)}, self.get_params(deep=False))
            if int(self.n_neighbors) > len(points):
                raise ValueError(
                    f"n_neighbors={self.n_neighbors} is more than the {len(points)} rows of X."
                )
        # A distance learned from what a linear model leaves over finds what it misses.
        linear = None if self.votes == "whole" else LinearPrior.of(points, numbers)
        left = numbers if linear is None else numbers - linear.unseen
        self.learner_ = self._learned(self._chosen_learner(), points, left, known, weight)
        self.metric_ = as_metric(self.learner_.metric_)

        def fit_to(some: Ints) -> tuple[Metric, Callable[[Ints], Floats]]:
            """Learn from some rows, and return the metric and the features of any."""
            own = None if known is None else known[some]
            counts = None if weight is None else weight[some]
            learner = as_chosen(self._chosen_learner(), self.learner_)
            fitted = self._learned(learner, points[some], left[some], own, counts)
            return as_metric(fitted.metric_), lambda asked: points[asked]

        self._voting = decide(
            self.learner_,
            lambda: held_out_votes(fit_to, points, left, known),
            None if self.n_neighbors == "auto" else int(self.n_neighbors),
            whole=self.votes == "whole",
        )
        self.votes_ = self._voting.votes
        self.n_neighbors_ = min(self.votes_.n_neighbors, len(points))
        self.linear_ = linear
        self.predictor_ = NeighborPredictor(
            self.metric_, points, left, votes=self.votes_, numbers=True, groups=known
        )
        return self

    def predict(self, X: ArrayLike) -> Vector:
        """Return numbers: a linear part, and what neighbours add to it.

        Rows that are not in memory (a path, a Dask array or Rows) are read in blocks.
        """
        check_is_fitted(self)
        rows = as_rows(X)
        if rows is not None:
            return rows.transformed(_numbers_of_block, rows.executor.hold(self))
        return self._numbers(self._points(X))[0]

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> NDArray[np.float64]:
        """Return intervals that hold with a probability of `level` or a little more.

        They are conformal: as wide as it takes for held-out rows, and wider where neighbours
        disagree. They are infinite if there are too few held-out rows for the level.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        level : float, default=0.9

        Returns
        -------
        array of shape (n_samples, 2)
        """
        check_is_fitted(self)
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1; got {level!r}.")
        if self._voting.margins is None:
            raise ValueError("Nothing was held out that intervals could be measured on.")
        values, spread = self._numbers(self._points(X))
        return self._voting.margins.intervals(values, spread, level)

    def explain(self, X: ArrayLike) -> Prediction:
        """Return predictions with the neighbours that add to them.

        `p_value` is small for rows that are unlike all training rows, by the metric or not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Prediction
        """
        check_is_fitted(self)
        points = self._points(X)
        found = self.predictor_.predict(points)
        return replace(found, values=found.values + self._base(points))

    def _base(self, points: Floats) -> Vector | float:
        return 0.0 if self.linear_ is None else self.linear_(points)

    def _numbers(self, points: Floats) -> tuple[Vector, Vector]:
        """Return numbers, and how much neighbours disagree."""
        added, spread, *_ = self.predictor_.outcome(points)
        assert spread is not None
        return np.asarray(added + self._base(points)), spread

    def _points(self, X: ArrayLike) -> Floats:
        refuse_masked(X, "X")
        with naming_remedies():
            points: Floats = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return points

    def _chosen_learner(self) -> MetricLearner:
        learner = clone(learner_of(AutoMetric() if self.learner is None else self.learner))
        if isinstance(learner, AutoMetric):
            learner.set_params(goal="regression")
        return learner

    @staticmethod
    def _learned(
        learner: MetricLearner, X: Floats, y: Vector, groups: Ints | None, weight: Vector | None
    ) -> MetricLearner:
        return learner.fit(X, y, groups=groups, sample_weight=weight)


def _numbers_of_block(X: Floats, regressor: MetricNeighborsRegressor) -> Vector:
    return regressor._numbers(X)[0]
