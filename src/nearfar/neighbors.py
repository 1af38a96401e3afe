"""Nearest neighbours under a metric: exact search, and a classifier."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.boosting import BoostMetric
from nearfar.learner import MetricLearner
from nearfar.metric import Metric
from nearfar.supervision import Chunklets, ConstraintsOver, Pairs, Triplets


def kneighbors(
    metric: Metric, X: ArrayLike, queries: ArrayLike | None = None, *, n_neighbors: int = 5
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Find the nearest rows of X to each query, exactly.

    Parameters
    ----------
    metric : Metric
    X : array-like of shape (n_samples, n_features)
        What is searched.
    queries : array-like of shape (n_queries, n_features), optional
        Points to search for; by default each row of X among the others.
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
    embedded = metric.transform(X)
    center = embedded.mean(axis=0)
    search = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(embedded - center)
    sought = None if queries is None else metric.transform(queries) - center
    distances, indices = search.kneighbors(sought)
    return distances, indices


class MetricNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """k-nearest-neighbour classification under a learned metric.

    Parameters
    ----------
    learner : MetricLearner, default=BoostMetric()
        What learns the metric; it is cloned.
    n_neighbors : int, default=3

    Attributes
    ----------
    learner_ : MetricLearner
        The fitted learner.
    metric_ : Metric
        Its metric.
    neighbors_ : KNeighborsClassifier
        The classifier on the mapped training points.
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

    def __init__(self, learner: MetricLearner | None = None, n_neighbors: int = 3) -> None:
        self.learner = learner
        self.n_neighbors = n_neighbors

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
        if self.n_neighbors > len(points):
            raise ValueError(
                f"n_neighbors={self.n_neighbors} is more than the {len(points)} rows of X."
            )
        learner = BoostMetric() if self.learner is None else clone(self.learner)
        self.learner_ = learner.fit(X, labels)
        self.metric_ = self.learner_.metric_
        embedded = self.metric_.transform(points)
        self._center = embedded.mean(axis=0)
        self.neighbors_ = KNeighborsClassifier(self.n_neighbors, algorithm="brute")
        self.neighbors_.fit(embedded - self._center, labels)
        self.classes_ = self.neighbors_.classes_
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class that most of the nearest neighbours have."""
        embedded = self._embed(X)
        return self.neighbors_.predict(embedded)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the share that each class has among the nearest neighbours."""
        embedded = self._embed(X)
        return self.neighbors_.predict_proba(embedded)

    def _embed(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        points = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self.metric_.transform(points) - self._center
