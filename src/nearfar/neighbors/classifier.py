"""`MetricNeighborsClassifier`: k nearest neighbours under a learned metric."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.constraints import kind_of
from nearfar.evaluate.neighbor_votes import class_shares, majority
from nearfar.learners.base import MetricLearner
from nearfar.learners.boosting import BoostMetric
from nearfar.metrics.gated import GatedMetric
from nearfar.metrics.search import Gallery
from nearfar.metrics.signed_form import as_metric
from nearfar.neighbors.prediction import NeighborPredictor, Prediction
from nearfar.numerics.missing import naming_remedies, refuse_masked, refuse_missing
from nearfar.typing import Array, Floats, Ints


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
        with naming_remedies():
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

    def predict(self, X: ArrayLike) -> Array:
        """Return the most frequent class among the nearest neighbours, the first of ties."""
        check_is_fitted(self)
        if self._soft_metric is not None:
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        return self.classes_[majority(self._neighbor_classes(X))]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the share of each class among the nearest neighbours."""
        check_is_fitted(self)
        if (gated := self._soft_metric) is not None:
            return gated.class_votes(self.gallery_.X, self._codes, self._points(X))[1]
        return class_shares(self._neighbor_classes(X), len(self.classes_))

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
        if self._soft_metric is not None:
            raise ValueError('With gate="soft" no few neighbours decide; use gate="hard".')
        labels, k = self.classes_[self._codes], self.n_neighbors
        predictor = NeighborPredictor(self.metric_, self.gallery_.X, labels, n_neighbors=k)
        return predictor.predict(self._points(X))

    @property
    def _soft_metric(self) -> GatedMetric | None:
        """The metric whose soft neighbours vote, if they do."""
        if self.gate == "soft" and isinstance(self.metric_, GatedMetric):
            return self.metric_
        return None

    def _neighbor_classes(self, X: ArrayLike) -> Ints:
        return self._codes[self.gallery_.search(self._points(X)).nearest(self.n_neighbors)[1]]

    def _points(self, X: ArrayLike) -> Floats:
        refuse_masked(X, "X")
        with naming_remedies():
            return validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
