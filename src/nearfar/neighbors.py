"""Nearest neighbours under a metric: exact search, as a function and an estimator; a classifier."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.columns.cells import is_frame
from nearfar.constraints import kind_of
from nearfar.evaluate.neighbor_votes import class_shares, majority
from nearfar.learners.base import MetricLearner
from nearfar.learners.boosting import BoostMetric
from nearfar.metrics.metric import Metric
from nearfar.metrics.search import Gallery, Search
from nearfar.metrics.signed_form import as_metric
from nearfar.numerics.missing import refuse_masked, refuse_missing
from nearfar.prediction import NeighborPredictor, Prediction
from nearfar.typing import Floats, Ints


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
        Rows to search.
    queries : array-like of shape (n_queries, n_features), optional
        Points whose neighbours are wanted; by default, each row of X among the others. Under a
        gated metric each query is searched in the space of its own metric.
    rows : array-like of int, optional
        Row numbers of X that are queries among the others, instead of all.
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
    return Gallery(metric, X).search(queries, rows=rows).nearest(n_neighbors)


class MetricNeighbors(BaseEstimator):
    """Exact search under a metric, with the methods of scikit-learn's `NearestNeighbors`.

    Memory is bounded: distances are computed for a few queries at a time.

    Parameters
    ----------
    metric : Metric, optional
        By default Euclidean distance.
    n_neighbors : int, default=5
    radius : float, default=1.0

    Attributes
    ----------
    gallery_ : Gallery
        The rows, ready to be searched.
    n_features_in_ : int
    n_samples_fit_ : int

    Examples
    --------
    >>> from nearfar import Metric
    >>> from nearfar.neighbors import MetricNeighbors
    >>> search = MetricNeighbors(Metric([[0.0, 1.0]]), n_neighbors=1)
    >>> search.fit([[0, 0], [0, 5], [9, 1]]).kneighbors([[7, 4]])
    (array([[1.]]), array([[1]]))
    >>> search.kneighbors_graph().toarray()
    array([[0., 0., 1.],
           [0., 0., 1.],
           [1., 0., 0.]])
    """

    def __init__(
        self, metric: Metric | None = None, n_neighbors: int = 5, radius: float = 1.0
    ) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.radius = radius

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Keep the rows to search; y is ignored.

        Columns of a DataFrame are found by name, if the metric has feature names.
        """
        points = self._points(X, reset=True)
        metric = Metric.identity(points.shape[1]) if self.metric is None else self.metric
        self.gallery_ = Gallery(metric, metric.features_of(points))
        self.n_samples_fit_ = len(points)
        return self

    def kneighbors(
        self,
        X: ArrayLike | None = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> Any:
        """Find the nearest rows to each query, or to each row among the others if X is None.

        Returns
        -------
        distances : array of shape (n_queries, n_neighbors)
            Only if `return_distance`. Nearest first.
        indices : array of shape (n_queries, n_neighbors)
        """
        number = self.n_neighbors if n_neighbors is None else n_neighbors
        distances, indices = self._search(X).nearest(number)
        return (distances, indices) if return_distance else indices

    def kneighbors_graph(
        self,
        X: ArrayLike | None = None,
        n_neighbors: int | None = None,
        mode: Literal["connectivity", "distance"] = "connectivity",
    ) -> csr_matrix:
        """Return the nearest rows as a sparse matrix, with ones or distances."""
        if mode not in ("connectivity", "distance"):
            raise ValueError(f'mode must be "connectivity" or "distance"; got {mode!r}.')
        distances, indices = self.kneighbors(X, n_neighbors)
        values = np.ones(indices.size) if mode == "connectivity" else distances.ravel()
        starts = np.arange(len(indices) + 1) * indices.shape[1]
        shape = (len(indices), self.n_samples_fit_)
        return csr_matrix((values, indices.ravel(), starts), shape=shape)

    def radius_neighbors(
        self,
        X: ArrayLike | None = None,
        radius: float | None = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:
        """Find the rows within a distance of each query, or of each row if X is None.

        Returns
        -------
        distances : array of shape (n_queries,) of arrays
            Only if `return_distance`.
        indices : array of shape (n_queries,) of arrays
            By distance if `sort_results`, else by row number.
        """
        limit = self.radius if radius is None else radius
        search = self._search(X)
        distances = np.empty(search.n_queries, dtype=object)
        indices = np.empty(search.n_queries, dtype=object)
        for numbers, table in search.tables():
            roots = np.sqrt(table)
            for number, row in zip(numbers, roots, strict=True):
                found = np.flatnonzero(row <= limit)
                if sort_results:
                    found = found[np.argsort(row[found], kind="stable")]
                distances[number], indices[number] = row[found], found
        return (distances, indices) if return_distance else indices

    def _search(self, X: ArrayLike | None) -> Search:
        check_is_fitted(self)
        if X is None:
            return self.gallery_.search()
        return self.gallery_.search(self._points(X, reset=False))

    def _points(self, X: Any, *, reset: bool) -> Floats:
        """Check rows; the metric finds its features in a table."""
        if self.metric is not None and self.metric.feature_names is not None and is_frame(X):
            X = self.metric.features_of(X)
        refuse_masked(X, "X")
        points: Floats = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
        return points


class MetricNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """k-nearest-neighbour classification under a learned metric.

    Parameters
    ----------
    learner : MetricLearner, default=BoostMetric()
        Learns the metric; cloned.
    n_neighbors : int, default=3
    gate : {"hard", "soft"}, default="hard"
        For gated metrics: "hard" takes the neighbours under the query's own metric, "soft" takes
        soft neighbours under every metric, weighted by the gate. Other metrics ignore it.

    Attributes
    ----------
    learner_ : MetricLearner
        The fitted learner.
    metric_ : Metric
        Its metric.
    gallery_ : Gallery
        The training rows, ready to be searched.
    classes_ : array of shape (n_classes,)

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
        """Learn the metric and keep the training rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels.
        """
        if kind_of(y) != "labels":
            raise ValueError(
                "A classifier needs class labels. "
                "Fit a learner to the constraints and use its metric."
            )
        refuse_masked(X, "X")
        refuse_missing(y, "y")
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
        fitted = learner.fit(X, labels)
        self.metric_ = as_metric(fitted.metric_)
        self.learner_ = fitted
        self.gallery_ = Gallery(self.metric_, points)
        self.classes_, self._codes = np.unique(labels, return_inverse=True)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most frequent class among the nearest neighbours, the first of ties."""
        check_is_fitted(self)
        codes = self._neighbor_classes(X)
        if codes is not None:
            return self.classes_[majority(codes)]
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the share of each class among the nearest neighbours."""
        check_is_fitted(self)
        codes = self._neighbor_classes(X)
        if codes is not None:
            return class_shares(codes, len(self.classes_))
        points = self._points(X)
        soft: Any = self.metric_
        shares: NDArray[np.float64] = soft.class_votes(self.gallery_.X, self._codes, points)[1]
        return shares

    def explain(self, X: ArrayLike) -> Prediction:
        """Return predictions with the neighbours that decided, and how sure they are.

        Its `probability` is how often votes that are as clear are right for training rows, where
        `predict_proba` has the shares of the vote. `p_value` is small for rows that are unlike all
        training rows. Each training row is compared with all others for this.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Prediction
        """
        check_is_fitted(self)
        if self._is_soft:
            raise ValueError('With gate="soft" no few neighbours decide; use gate="hard".')
        points = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        labels, k = self.classes_[self._codes], self.n_neighbors
        predictor = NeighborPredictor(self.metric_, self.gallery_.X, labels, n_neighbors=k)
        return predictor.predict(points)

    @property
    def _is_soft(self) -> bool:
        """Whether soft neighbours of a gate vote."""
        return self.gate == "soft" and hasattr(self.metric_, "class_votes")

    def _neighbor_classes(self, X: ArrayLike) -> Ints | None:
        """Return the classes of the nearest rows; None if soft neighbours of a gate vote."""
        if self._is_soft:
            return None
        return self._codes[self.gallery_.search(self._points(X)).nearest(self.n_neighbors)[1]]

    def _points(self, X: ArrayLike) -> Floats:
        refuse_masked(X, "X")
        points: Floats = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return points
