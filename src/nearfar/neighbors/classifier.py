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
from nearfar.learners.selection.auto import AutoMetric
from nearfar.measures.neighbor_votes import DEFAULT_NEIGHBORS, SoftVotes
from nearfar.metrics.metric import Metric
from nearfar.metrics.variants import GatedMetric, as_metric
from nearfar.neighbors.calibration import Voting, as_chosen, decide, held_out_votes
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
    learner : MetricLearner or Pipeline, default=AutoMetric()
        Learns the metric; cloned. A pipeline ends in a learner.
    n_neighbors : int or "auto", default="auto"
        How many neighbours vote. "auto" chooses among up to 300 on held-out rows, and with whole
        votes among up to 25.
    gate : {"hard", "soft"}, default="hard"
        For gated metrics: "hard" takes the neighbours under the query's own metric, "soft" takes
        soft neighbours under every metric, weighted by the gate. Other metrics ignore it.
    votes : {"soft", "whole"}, default="soft"
        "soft" votes have weights that fall with the distance, and are added to a prior: the
        classes' shares, or logistic regression. Held-out rows choose all of it by their log loss,
        among settings whose error is within noise of the smallest. `AutoMetric` puts rows aside
        itself; other learners are fitted again to half of the rows, with all that they have chosen,
        which takes about a tenth of the time. With "whole" each neighbour has one vote, and
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
    votes_ : SoftVotes
        How neighbours vote.
    n_neighbors_ : int
        How many neighbours vote.
    reliability_ : Reliability or None
        How often held-out rows have the predicted class, by its stated probability; it prints as a
        table. None if nothing was held out.

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
    >>> classifier.reliability_.error < 0.1
    True
    """

    def __init__(
        self,
        learner: MetricLearner | Pipeline | None = None,
        n_neighbors: int | Literal["auto"] = "auto",
        gate: Literal["hard", "soft"] = "hard",
        votes: Literal["soft", "whole"] = "soft",
    ) -> None:
        self.learner = learner
        self.n_neighbors = n_neighbors
        self.gate = gate
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
            Class labels. Rows that -1 marks as unlabelled are left out, with a warning.
        groups : array-like of shape (n_samples,), optional
            What rows belong to, for instance a person. Rows of one group are never both learned
            from and left out. By default, copies of a row are a group.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts for the learner. In votes each row counts once; rows of weight
            0 are left out.
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
        if self.votes not in ("soft", "whole"):
            raise ValueError(f'votes must be "soft" or "whole"; got {self.votes!r}.')
        if self.n_neighbors != "auto":
            check_parameters({"n_neighbors": integer(at_least=1)}, self.get_params(deep=False))
            if int(self.n_neighbors) > len(points):
                raise ValueError(
                    f"n_neighbors={self.n_neighbors} is more than the {len(points)} rows of X."
                )
        known = checked_groups(groups, len(points))
        self.learner_ = self._learned(self._chosen_learner(), X, labels, known, weight)
        self.metric_ = as_metric(learner_of(self.learner_).metric_)
        self.classes_, codes = np.unique(labels, return_inverse=True)

        def fit_to(some: Ints) -> tuple[Metric, Callable[[Ints], Floats]]:
            """Learn from some rows, and return the metric and the features of any."""
            own = None if known is None else known[some]
            counts = None if weight is None else weight[some]
            learner = as_chosen(self._chosen_learner(), self.learner_)
            fitted = self._learned(learner, _safe_indexing(rows, some), labels[some], own, counts)
            metric = as_metric(learner_of(fitted).metric_)
            return metric, lambda asked: features_of(fitted, _safe_indexing(rows, asked))

        if self._soft(self.metric_):
            k = min(self._n_neighbors or DEFAULT_NEIGHBORS, len(points))
            voting = Voting(SoftVotes(k), k)
        else:
            voting = decide(
                learner_of(self.learner_),
                lambda: held_out_votes(fit_to, points, codes, known),
                self._n_neighbors,
                whole=self.votes == "whole",
            )
        self.votes_, self.reliability_ = voting.votes, voting.reliability
        self.n_neighbors_ = min(self.votes_.n_neighbors, len(points))
        self.predictor_ = NeighborPredictor(
            self.metric_,
            features_of(self.learner_, rows),
            labels,
            votes=self.votes_,
            groups=known,
        )
        self.gallery_ = self.predictor_.gallery
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable class, the first of ties.

        Rows that are not in memory (a path, a Dask array or Rows) are read in blocks.
        """
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class: its share of the votes and of the prior."""
        check_is_fitted(self)
        rows = as_rows(X)
        if rows is not None:
            return rows.transformed(_probabilities_of_block, rows.executor.hold(self))
        return self._probabilities(self._points(X))

    def explain(self, X: ArrayLike) -> Prediction:
        """Return predictions with the neighbours that decided, and how sure they are.

        Its `probability` is the largest of `predict_proba`, and its `share` the part of it that
        comes from neighbours. `p_value` is small for rows that are unlike all training rows, by the
        metric or not.

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
        return self.predictor_.predict(self._points(X))

    @property
    def _n_neighbors(self) -> int | None:
        return None if self.n_neighbors == "auto" else int(self.n_neighbors)

    def _chosen_learner(self) -> MetricLearner | Pipeline:
        return AutoMetric() if self.learner is None else self.learner

    def _learned(
        self,
        learner: MetricLearner | Pipeline,
        X: ArrayLike,
        y: Array,
        groups: Ints | None,
        weight: Vector | None,
    ) -> MetricLearner | Pipeline:
        learner_of(learner)  # or says that there is none
        fitted: MetricLearner | Pipeline = fit_pipeline(
            clone(learner), X, y, groups=groups, sample_weight=weight
        )
        return fitted

    def _probabilities(self, points: Floats) -> NDArray[np.float64]:
        if not self._soft(self.metric_):
            return np.asarray(self.predictor_.outcome(points)[0])
        codes = self.predictor_.codes
        present, votes = self.metric_.class_votes(self.gallery_.X, codes, points)
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


def _probabilities_of_block(
    X: Floats, classifier: MetricNeighborsClassifier
) -> NDArray[np.float64]:
    return classifier._probabilities(features_of(classifier.learner_, X))
