"""Nearest neighbours under a metric: exact search, and a classifier."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.constraints import Chunklets, ConstraintsOver, Pairs, Triplets
from nearfar.evaluate.search import others
from nearfar.learners.base import MetricLearner
from nearfar.learners.boosting import BoostMetric
from nearfar.metrics.gated import GatedMetric
from nearfar.metrics.metric import Metric


def kneighbors(
    metric: Metric,
    X: ArrayLike,
    queries: ArrayLike | None = None,
    *,
    rows: ArrayLike | None = None,
    n_neighbors: int = 5,
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Find the nearest rows of X to each query, exactly.

    Parameters
    ----------
    metric : Metric
    X : array-like of shape (n_samples, n_features)
        What is searched.
    queries : array-like of shape (n_queries, n_features), optional
        Points to search for; by default each row of X among the others. Under a gated metric each
        is searched for in the space of the metric that it goes by.
    rows : array-like of int, optional
        Numbers of the rows of X to search for among the others, in place of all.
    n_neighbors : int, default=5

    Returns
    -------
    distances : array of shape (n_queries, n_neighbors)
        Nearest first.
    indices : array of shape (n_queries, n_neighbors)
        Row numbers of X.

    Examples
    --------
    >>> from nearfar import Metric
    >>> from nearfar.neighbors import kneighbors
    >>> metric = Metric([[0.0, 1.0]])
    >>> kneighbors(metric, [[0, 0], [0, 5], [9, 1]], n_neighbors=1)[1].ravel()
    array([2, 2, 0])
    """
    if rows is not None:
        if queries is not None:
            raise ValueError("Give either queries or rows.")
        numbers = np.asarray(rows, dtype=np.intp)
        found = kneighbors(metric, X, np.asarray(X)[numbers], n_neighbors=n_neighbors + 1)
        mask = others(found[1], numbers)
        shape = len(numbers), n_neighbors
        return found[0][mask].reshape(shape), found[1][mask].reshape(shape)
    sought = X if queries is None else queries
    n_queries = np.shape(sought)[0]
    distances = np.empty((n_queries, n_neighbors))
    indices = np.empty((n_queries, n_neighbors), dtype=np.intp)
    for part, space in metric.spaces(sought):
        embedded = space.transform(X)
        center = embedded.mean(axis=0)
        search = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(embedded - center)
        if queries is None:
            found = search.kneighbors()
            distances[part], indices[part] = found[0][part], found[1][part]
        else:
            own = space.transform(queries)[part] - center
            distances[part], indices[part] = search.kneighbors(own)
    return distances, indices


class MetricNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """k-nearest-neighbour classification under a learned metric.

    Parameters
    ----------
    learner : MetricLearner, default=BoostMetric()
        What learns the metric; it is cloned.
    n_neighbors : int, default=3
    gate : {"hard", "soft"}, default="hard"
        Under a gated metric: neighbours by the metric that a point goes by, or soft neighbours by
        all of them, weighed by the gate. Plain metrics ignore it.

    Attributes
    ----------
    learner_ : MetricLearner
        The fitted learner.
    metric_ : Metric
        Its metric.
    neighbors_ : KNeighborsClassifier
        The classifier on the mapped training points; under a gated metric that of the first.
    classes_ : array
        Labels.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from nearfar import MetricNeighborsClassifier
    >>> split = train_test_split(*load_wine(return_X_y=True), random_state=0)
    >>> X, X_test, y, y_test = split
    >>> MetricNeighborsClassifier().fit(X, y).score(X_test, y_test) > 0.9
    True
    """

    def __init__(
        self,
        learner: MetricLearner | None = None,
        n_neighbors: int = 3,
        gate: Literal["hard", "soft"] = "hard",
    ) -> None:
        self.learner = learner
        self.n_neighbors = n_neighbors
        self.gate = gate

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the metric, and remember the mapped points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels.
        """
        if isinstance(y, Triplets | Pairs | Chunklets | ConstraintsOver):
            raise ValueError(
                "A classifier needs class labels. "
                "Fit a learner to the constraints, and use its metric."
            )
        points, labels = validate_data(
            self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2
        )
        check_classification_targets(labels)
        if self.gate not in ("hard", "soft"):
            raise ValueError(f'gate must be "hard" or "soft"; got {self.gate!r}.')
        if self.n_neighbors > len(points):
            raise ValueError(
                f"n_neighbors={self.n_neighbors} is more than the {len(points)} rows of X."
            )
        learner = BoostMetric() if self.learner is None else clone(self.learner)
        self.learner_ = learner.fit(X, labels)
        self.metric_ = self.learner_.metric_
        gated = isinstance(self.metric_, GatedMetric)
        metrics = self.metric_.metrics if gated else [self.metric_]
        self._rooms = [_Room(metric, points, labels, self.n_neighbors) for metric in metrics]
        self.neighbors_ = self._rooms[0].neighbors
        self.classes_ = self.neighbors_.classes_
        self._soft = (points, labels) if gated and self.gate == "soft" else None
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class that most of the nearest neighbours have."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the share that each class has among the nearest neighbours."""
        check_is_fitted(self)
        points = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        if self._soft is not None and isinstance(self.metric_, GatedMetric):
            return self.metric_.class_votes(*self._soft, points)[1]
        shares = np.empty((len(points), len(self.classes_)))
        for rows, space in self.metric_.spaces(points):
            room = next(room for room in self._rooms if room.metric is space)
            shares[rows] = room.shares(points[rows])
        return shares


class _Room:
    """Training points in the space of one metric, and who votes there."""

    def __init__(self, metric: Metric, X: NDArray[Any], y: NDArray[Any], n_neighbors: int) -> None:
        self.metric = metric
        embedded = metric.transform(X)
        self.center = embedded.mean(axis=0)
        self.neighbors = KNeighborsClassifier(n_neighbors, algorithm="brute")
        self.neighbors.fit(embedded - self.center, y)

    def shares(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Share of each class among the neighbours of points."""
        embedded = self.metric.transform(X) - self.center
        return np.asarray(self.neighbors.predict_proba(embedded))
