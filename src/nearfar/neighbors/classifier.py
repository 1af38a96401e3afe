"""`MetricNeighborsClassifier`: k nearest neighbours under a learned metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.learners.base import MetricLearner, features_of, fit_pipeline, learner_of
from nearfar.learners.boosting import BoostMetric
from nearfar.measures.neighbor_votes import (
    DEFAULT_NEIGHBORS,
    NUMBERS,
    Reliability,
    chosen_shares,
    class_shares,
)
from nearfar.metrics.gallery import Gallery
from nearfar.metrics.metric import Metric
from nearfar.metrics.variants import GatedMetric, as_metric
from nearfar.neighbors.calibration import cross_fitted
from nearfar.neighbors.prediction import NeighborPredictor, Prediction
from nearfar.numerics.missing import (
    at_rows,
    labelled_rows,
    naming_remedies,
    refuse_masked,
    refuse_missing,
)
from nearfar.rows import as_rows
from nearfar.runtime.parameters import check_parameters, integer
from nearfar.supervision import kind_of
from nearfar.supervision.copies import comparable_rows
from nearfar.supervision.supervision import check_classes, checked_groups, counted_rows
from nearfar.typing import Array, Floats, Ints, Vector


class MetricNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """k-nearest-neighbour classification under a learned metric.

    Parameters
    ----------
    learner : MetricLearner or Pipeline, default=BoostMetric()
        Learns the metric; cloned. All steps of a pipeline, which ends in a learner, are fitted
        again for the calibration.
    n_neighbors : int or "auto", default="auto"
        How many neighbours vote. "auto" chooses among 1, 3, 5, 9, 15 and 25 by the votes on rows
        that took no part (see `calibrate`).
    gate : {"hard", "soft"}, default="hard"
        For gated metrics: "hard" takes the neighbours under the query's own metric, "soft" takes
        soft neighbours under every metric, weighted by the gate. Other metrics ignore it.
    calibrate : bool, default=True
        Whether `predict_proba` returns probabilities, calibrated on rows that took no part. The
        metric is learned again for that, from four fifths of the rows at a time, until 1000 rows
        have been left out: five times for small tables, once for large ones. (`AutoMetric` puts
        rows aside itself, and chooses the number of neighbours on others.) Otherwise
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
    n_neighbors_ : int
        How many neighbours vote.
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
        n_neighbors: int | Literal["auto"] = "auto",
        gate: Literal["hard", "soft"] = "hard",
        calibrate: bool = True,
    ) -> None:
        self.learner = learner
        self.n_neighbors = n_neighbors
        self.gate = gate
        self.calibrate = calibrate

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
            Class labels. Rows that -1 marks as unlabelled are left out, with a warning.
        groups : array-like of shape (n_samples,), optional
            What rows belong to, for instance a person. Rows of one group are never both learned
            from and left out. By default, copies of a row are a group.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts for the learner. In votes, and in the calibration, each row
            counts once; rows of weight 0 are left out.
        """
        if kind_of(y) != "labels":
            raise ValueError(
                "A classifier needs class labels. "
                "Fit a learner to the constraints and use its metric."
            )
        refuse_masked(X, "X")
        refuse_missing(y, "y")
        if (labelled := labelled_rows(y)) is not None:
            X, y, groups, sample_weight = at_rows(labelled, X, y, groups, sample_weight)
        X, y, groups, weight = counted_rows(sample_weight, X, y, groups)
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
        check_classes(labels)
        if self.gate not in ("hard", "soft"):
            raise ValueError(f'gate must be "hard" or "soft"; got {self.gate!r}.')
        if self.n_neighbors != "auto":
            check_parameters({"n_neighbors": integer(at_least=1)}, self.get_params(deep=False))
            if int(self.n_neighbors) > len(points):
                raise ValueError(
                    f"n_neighbors={self.n_neighbors} is more than the {len(points)} rows of X."
                )
        known = checked_groups(groups, len(points))
        self.learner_, self.metric_ = self._learn(X, labels, known, weight)
        self.gallery_ = Gallery(self.metric_, features_of(self.learner_, rows))
        self.classes_, self._codes = np.unique(labels, return_inverse=True)

        def votes_of(learned: Ints, seen: Ints, asked: Ints) -> Array:
            """Learn from some rows, and return the votes of others."""
            own = None if known is None else known[learned]
            counts = None if weight is None else weight[learned]
            some = _safe_indexing(rows, learned)
            learner, metric = self._learn(some, labels[learned], own, counts)
            X, new = (features_of(learner, _safe_indexing(rows, part)) for part in (seen, asked))
            return self._votes(Gallery(metric, X), self._codes[seen], new)

        self._count_votes(votes_of, points, known)
        return self

    def _count_votes(
        self, votes_of: Callable[[Ints, Ints, Ints], Array], X: Floats, groups: Ints | None
    ) -> None:
        """Choose how many neighbours vote, and find how often they are right."""
        chosen: int | None = getattr(self.learner_, "n_neighbors_", None)
        if self.n_neighbors != "auto":
            chosen = int(self.n_neighbors)
        self.n_neighbors_, self.reliability_ = min(chosen or NUMBERS[-1], len(X)), None
        soft, n_classes = self._soft(self.metric_), len(self.classes_)
        held_out: tuple[Array, Ints] | None = getattr(self.learner_, "held_out_votes_", None)
        enough = held_out is not None and held_out[0].shape[1] >= self.n_neighbors_ and not soft
        if not enough and (self.calibrate or chosen is None):
            held_out = cross_fitted(votes_of, X, self._codes, groups)
        self.n_neighbors_ = min(chosen or DEFAULT_NEIGHBORS, len(X))
        if held_out is None:
            return
        shares, actual = held_out
        if not soft and chosen is None:
            self.n_neighbors_, shares = chosen_shares(shares, actual, n_classes)
        elif not soft:
            shares = class_shares(shares[:, : self.n_neighbors_], n_classes)
        if self.calibrate:
            self.reliability_ = Reliability.of(shares, actual, self.n_neighbors_)

    def predict(self, X: ArrayLike) -> Array:
        """Return the most frequent class among the nearest neighbours, the first of ties.

        Rows that are not in memory (a path, a Dask array or Rows) are read in blocks.
        """
        check_is_fitted(self)
        return self.classes_[self._shares(X).argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class.

        That of the class which wins the vote is how often votes as clear were right on rows that
        took no part (`reliability_`). Without it, return the shares of the vote.
        """
        check_is_fitted(self)
        shares = self._shares(X)
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
            n_neighbors=self.n_neighbors_,
            reliability=self.reliability_,
        )
        return predictor.predict(self._points(X))

    def _learn(
        self, X: ArrayLike, y: Array, groups: Ints | None, weight: Vector | None
    ) -> tuple[MetricLearner | Pipeline, Metric]:
        learner = BoostMetric() if self.learner is None else self.learner
        learner_of(learner)  # or says that there is none
        fitted = fit_pipeline(clone(learner), X, y, groups=groups, sample_weight=weight)
        return fitted, as_metric(learner_of(fitted).metric_)

    def _votes(self, gallery: Gallery, codes: Ints, points: Floats) -> Array:
        """Return classes of the nearest rows of a gallery, or of soft neighbours their shares."""
        if not self._soft(gallery.metric):
            k = min(self.n_neighbors_, len(gallery))
            return codes[gallery.search(points).nearest(k)[1]]
        present, votes = gallery.metric.class_votes(gallery.X, codes, points)
        out = np.zeros((len(points), len(self.classes_)))
        out[:, present] = votes
        return out

    def _shares(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the share of each class in the votes of the training rows."""
        rows = as_rows(X)
        if rows is not None:
            return rows.transformed(_shares_of_block, rows.executor.hold(self))
        return self._shares_of(self._points(X))

    def _shares_of(self, points: Floats) -> NDArray[np.float64]:
        votes = self._votes(self.gallery_, self._codes, points)
        return votes if self._soft(self.metric_) else class_shares(votes, len(self.classes_))

    def _soft(self, metric: object) -> TypeGuard[GatedMetric]:
        return self.gate == "soft" and isinstance(metric, GatedMetric)

    def _points(self, X: ArrayLike) -> Floats:
        if isinstance(self.learner_, Pipeline):
            return features_of(self.learner_, X)
        refuse_masked(X, "X")
        with naming_remedies():
            return validate_data(self, X, reset=False, dtype=[np.float64, np.float32])


def _shares_of_block(X: Floats, classifier: MetricNeighborsClassifier) -> NDArray[np.float64]:
    return classifier._shares_of(features_of(classifier.learner_, X))
