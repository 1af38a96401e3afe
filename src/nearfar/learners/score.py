"""`score`: how well a fitted metric does on rows and what is known of them, as one number.

    labels      share of triplets of a row, the nearest of its class and the nearest of others whose
                near is nearer than its far
    numbers     R2 of the mean of the five nearest other rows
    triplets    weighted share whose near is nearer than its far
    pairs       probability that a similar pair is nearer than a dissimilar one

scikit-learn's `KFold` cuts rows that are sorted by class into folds of one class. A learner keeps
some of the labelled rows that it was fitted to, so that such a fold has something to be told from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from nearfar.learners import fitting
from nearfar.learners.fitting import Data
from nearfar.learners.scaling import Scaler
from nearfar.learners.selection.held_out import sample
from nearfar.rows import Rows
from nearfar.supervision import NearestTriplets, Supervision, kind_of
from nearfar.supervision.supervision import are_numbers
from nearfar.typing import Array, Floats

if TYPE_CHECKING:
    from nearfar.learners.base import MetricLearner

# Neighbours whose mean predicts numbers, as many as scikit-learn's regressor takes.
_NEIGHBORS = 5
# The most labelled rows that a learner keeps, and numbers in them, of 8 MB, but for a few rows.
_KEPT_ROWS, _KEPT_NUMBERS, _FEWEST_ROWS = 256, 1 << 20, 16


def labelled_sample(data: Data, y: Any) -> tuple[Floats, Array] | None:
    """Return some of the rows of a fit, with labels; None without labels, or rows in memory."""
    known: Any = data.supervision
    if known.kind == "labels":
        names, codes = known.names, known.codes
    elif known.kind == "nothing" and kind_of(y) == "labels" and not are_numbers(y):
        # A learner that ignores labels may be scored on them.
        labels = np.asarray(y)
        labels = labels.astype(str) if labels.dtype.kind == "O" else labels
        names, codes = np.unique(labels, return_inverse=True)
    else:
        return None
    if codes.shape != (len(data.X),) or isinstance(data.X, Rows):
        return None
    size = min(_KEPT_ROWS, max(_FEWEST_ROWS, _KEPT_NUMBERS // data.X.shape[1]))
    rows = sample(np.arange(len(codes)), size, np.random.RandomState(0), codes)
    return data.X[rows], names[codes[rows]]


def score(
    self: MetricLearner, X: ArrayLike, y: object, sample_weight: ArrayLike | None = None
) -> float:
    """Return how much of what is known of some rows the metric gets right.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), Triplets or Pairs
        Triplets: the weighted share whose near is nearer than its far. Labels: the same for
        `NearestTriplets` of X, standardised, whatever the learner's parameters are, so that scores
        of different parameters can be compared. If all labels are the same, rows of other classes
        are some that the learner was fitted to. Pairs: the probability that a similar pair is
        nearer than a dissimilar one (the area under the ROC curve). Numbers: R2 of predictions by
        the mean of the five nearest other rows of X; 1 is the best score, and 0 that of the mean.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the anchors of labels, or of the squared errors of numbers.
    """
    check_is_fitted(self)
    # A few numbers of a fold may look like classes.
    numbers = self._takes_numbers(y) or (self._learned_numbers and kind_of(y) == "labels")
    options = {"ignores_y": False, "numbers": numbers, "reset": False}
    data = self._checked(X, y, sample_weight=sample_weight, **options)
    fitting.check_in_memory(data.X)
    points, known, n_scored = data.X, data.supervision, len(data.X)
    if known.kind == "numbers":
        neighbors = NearestNeighbors(n_neighbors=min(_NEIGHBORS, n_scored - 1))
        nearest = neighbors.fit(self.metric_.transform(points)).kneighbors(return_distance=False)
        predicted = known.given[nearest].mean(axis=1)
        return float(r2_score(known.given, predicted, sample_weight=known.row_weight))
    if known.kind == "pairs":
        if not known.can_teach:
            raise ValueError("To score pairs, both similar and dissimilar ones are needed.")
        distance = self.metric_.pair_distances(points, known.given.index)
        return float(roc_auc_score(known.given.similar, -distance, sample_weight=known.weight))
    if len(known) == 0:
        raise ValueError("There are no triplets to score.")
    if known.kind == "labels" and not known.can_teach:
        points, known = _beside_other_classes(self, data)
    Z = points
    if known.kind != "triplets":
        Z = Scaler.fit(points, "standard").transform(points)
    triplets = known.triplets(Z, NearestTriplets(), np.random.RandomState(0))
    if len(points) > n_scored:
        triplets = triplets.take(triplets.index[:, 0] < n_scored)
        if len(triplets) == 0:
            raise ValueError("A single row cannot be scored.")
    right = self.metric_.prefers(points, triplets.index)
    return float(np.average(right, weights=triplets.weight))


def _beside_other_classes(learner: MetricLearner, data: Data) -> tuple[Floats, Supervision]:
    """Add rows of other classes that the learner was fitted to."""
    known: Any = data.supervision
    rows, labels = learner._labelled_sample or (data.X[:0], known.names[:0])
    others = np.flatnonzero(labels != known.names[0])
    if len(others) == 0:
        raise ValueError(
            "All labels to score on are the same, and the learner was not fitted to labels of "
            "other classes. If this is a fold of rows that are sorted by class, use "
            "cv=StratifiedKFold(5, shuffle=True)."
        )
    weight = known.row_weight
    if weight is not None:
        weight = np.append(weight, np.ones(len(others)))
    joined = Supervision.of(
        np.append(known.names[known.codes], labels[others]),
        known.n_rows + len(others),
        sample_weight=weight,
    )
    return np.vstack([data.X, rows[others].astype(data.X.dtype, copy=False)]), joined
