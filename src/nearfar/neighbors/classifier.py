"""`MetricNeighborsClassifier`: k nearest neighbours under a learned metric."""

from __future__ import annotations

from typing import Literal, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.constraints import kind_of
from nearfar.constraints.copies import comparable_rows
from nearfar.constraints.supervision import checked_groups
from nearfar.evaluate.neighbor_votes import Reliability, class_shares
from nearfar.learners.base import MetricLearner
from nearfar.learners.boosting import BoostMetric
from nearfar.learners.pipelines import features_of, fit_pipeline, learner_of
from nearfar.metrics.gated import GatedMetric
from nearfar.metrics.metric import Metric
from nearfar.metrics.search import Gallery
from nearfar.metrics.signed_form import as_metric
from nearfar.neighbors.calibration import cross_fitted
from nearfar.neighbors.prediction import NeighborPredictor, Prediction
from nearfar.numerics.missing import (
    at_rows,
    labelled_rows,
    naming_remedies,
    refuse_masked,
    refuse_missing,
)
from nearfar.typing import Array, Floats, Ints


class MetricNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """k-nearest-neighbour classification under a learned metric.

    Parameters
    ----------
    learner : MetricLearner or Pipeline, default=BoostMetric()
        Learns the metric; cloned. All steps of a pipeline, which ends in a learner, are fitted
        again for the calibration.
    n_neighbors : int, default=3
    gate : {"hard", "soft"}, default="hard"
        For gated metrics: "hard" takes the neighbours under the query's own metric, "soft" takes
        soft neighbours under every metric, weighted by the gate. Other metrics ignore it.
    calibrate : bool, default=True
        Whether `predict_proba` returns probabilities, calibrated on rows that took no part. The
        metric is learned again for that, from four fifths of the rows at a time, until 1000 rows
        have been left out: five times for small tables, once for large ones. (`AutoMetric` puts
        rows aside itself.) Otherwise
        `predict_proba` returns shares of votes, which claim too much.

    Attributes
    ----------
    learner_ : MetricLearner or Pipeline
        The fitted learner.
    metric_ : Metric
        Its metric; in a pipeline, of what the steps before give.
    gallery_ : Gallery
        The training rows, ready to be searched.
    classes_ : array of shape (n_classes,)
    reliability_ : Reliability or None
        How often votes were right on rows that took no part; it prints as a table. None without
        `calibrate`, or if there are too few rows.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from nearfar import MetricNeighborsClassifier
    >>> split = train_test_split(*load_wine(return_X_y=True), random_state=0)
    >>> X, X_test, y, y_test = split
    >>> classifier = MetricNeighborsClassifier().fit(X, y)
    >>> classifier.score(X_test, y_test) > 0.9
    True
    >>> bool(classifier.reliability_.right.sum() > 0.9 * len(X))
    True
    """

    def __init__(
        self,
        learner: MetricLearner | Pipeline | None = None,
        n_neighbors: int = 3,
        gate: Literal["hard", "soft"] = "hard",
        calibrate: bool = True,
    ) -> None:
        self.learner = learner
        self.n_neighbors = n_neighbors
        self.gate = gate
        self.calibrate = calibrate

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Learn the metric and keep the training rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels. Rows that -1 marks as unlabelled are left out, with a warning.
        groups : array-like of shape (n_samples,), optional
            What rows belong to, for instance a person. Rows of one group are never both learned
            from and left out. By default, copies of a row are a group.
        """
        if kind_of(y) != "labels":
            raise ValueError(
                "A classifier needs class labels. "
                "Fit a learner to the constraints and use its metric."
            )
        refuse_masked(X, "X")
        refuse_missing(y, "y")
        if (labelled := labelled_rows(y)) is not None:
            X, y, groups = at_rows(labelled, X, y, groups)
        rows: ArrayLike
        if isinstance(self.learner, Pipeline):
            validate_data(self, X, skip_check_array=True)
            rows, points, labels = X, comparable_rows(X), column_or_1d(y)
            check_consistent_length(points, labels)
        else:
            with naming_remedies():
                points, labels = validate_data(
                    self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2
                )
            rows = points
        check_classification_targets(labels)
        if self.gate not in ("hard", "soft"):
            raise ValueError(f'gate must be "hard" or "soft"; got {self.gate!r}.')
        if self.n_neighbors > len(points):
            raise ValueError(
                f"n_neighbors={self.n_neighbors} is more than the {len(points)} rows of X."
            )
        known = checked_groups(groups, len(points))
        self.learner_, self.metric_ = self._learn(X, labels, known)
        self.gallery_ = Gallery(self.metric_, features_of(self.learner_, rows))
        self.classes_, self._codes = np.unique(labels, return_inverse=True)

        def votes_of(learned: Ints, seen: Ints, asked: Ints) -> Floats:
            """Learn from some rows, and return the shares of the votes of others."""
            own = None if known is None else known[learned]
            learner, metric = self._learn(_safe_indexing(rows, learned), labels[learned], own)
            X, new = (features_of(learner, _safe_indexing(rows, part)) for part in (seen, asked))
            return self._shares(Gallery(metric, X), self._codes[seen], new)

        self.reliability_, k = None, self.n_neighbors
        aside: tuple[Ints, Ints] | None = getattr(self.learner_, "held_out_votes_", None)
        held_out: tuple[Array, Ints] | None = None
        if self.calibrate and aside and aside[0].shape[1] >= k and not self._soft(self.metric_):
            held_out = class_shares(aside[0][:, :k], len(self.classes_)), aside[1]
        elif self.calibrate:
            held_out = cross_fitted(votes_of, points, self._codes, known)
        if held_out is not None:
            self.reliability_ = Reliability.of(*held_out, k)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Return the most frequent class among the nearest neighbours, the first of ties."""
        check_is_fitted(self)
        return self.classes_[self._shares(self.gallery_, self._codes, self._points(X)).argmax(1)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class.

        That of the class which wins the vote is how often votes as clear were right on rows that
        took no part (`reliability_`). Without it, return the shares of the vote.
        """
        check_is_fitted(self)
        shares = self._shares(self.gallery_, self._codes, self._points(X))
        if self.reliability_ is None:
            return shares
        totals = np.bincount(self._codes) / len(self._codes)
        return self.reliability_.probabilities(shares, totals)

    def explain(self, X: ArrayLike) -> Prediction:
        """Return predictions with the neighbours that decided, and how sure they are.

        Its `probability` is the largest of `predict_proba`. `p_value` is small for rows that are
        unlike all training rows, by the metric or not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Prediction
        """
        check_is_fitted(self)
        if self._soft(self.metric_):
            raise ValueError('With gate="soft" no few neighbours decide; use gate="hard".')
        predictor = NeighborPredictor(
            self.metric_,
            self.gallery_.X,
            self.classes_[self._codes],
            n_neighbors=self.n_neighbors,
            reliability=self.reliability_,
        )
        return predictor.predict(self._points(X))

    def _learn(
        self, X: ArrayLike, y: Array, groups: Ints | None
    ) -> tuple[MetricLearner | Pipeline, Metric]:
        learner = BoostMetric() if self.learner is None else clone(self.learner)
        learner_of(learner)  # or says that there is none
        fitted = fit_pipeline(learner, X, y, groups=groups)
        return fitted, as_metric(learner_of(fitted).metric_)

    def _shares(self, gallery: Gallery, codes: Ints, points: Floats) -> NDArray[np.float64]:
        """Return the share of each class in the votes of a gallery."""
        if not self._soft(gallery.metric):
            neighbors = gallery.search(points).nearest(self.n_neighbors)[1]
            return class_shares(codes[neighbors], len(self.classes_))
        present, votes = gallery.metric.class_votes(gallery.X, codes, points)
        out = np.zeros((len(points), len(self.classes_)))
        out[:, present] = votes
        return out

    def _soft(self, metric: object) -> TypeGuard[GatedMetric]:
        return self.gate == "soft" and isinstance(metric, GatedMetric)

    def _points(self, X: ArrayLike) -> Floats:
        if isinstance(self.learner_, Pipeline):
            return features_of(self.learner_, X)
        refuse_masked(X, "X")
        with naming_remedies():
            return validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
