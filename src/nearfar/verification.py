"""`PairVerifier`: a threshold on a learned distance tells same from different pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from nearfar.constraints import Chunklets, ConstraintsOver, Pairs, RandomPairs, Triplets
from nearfar.constraints.base import group_splitter
from nearfar.evaluate import RocCurve, verification, verification_curve
from nearfar.learners.base import MetricLearner
from nearfar.learners.max_margin import MaxMarginMetric
from nearfar.metrics.metric import Metric
from nearfar.metrics.signed_form import as_metric
from nearfar.runtime.parameters import check_parameters, choice, number
from nearfar.typing import Ints, Vector

Criterion = Literal["margin", "accuracy", "eer", "fpr", "fbeta"]

_CRITERIA = ("margin", "accuracy", "eer", "fpr", "fbeta")
_UNREGULARISED_C = 1e6


class PairVerifier(BaseEstimator):
    """Tell whether two points are of the same kind, by a threshold on a learned distance.

    The metric is learned from one part of the data; the threshold and the probabilities are
    calibrated on the rest. Labels are split by row. Given pairs are split by pair, so that both
    parts may share rows; the threshold may then be too small for new rows.

    Parameters
    ----------
    learner : MetricLearner, default=MaxMarginMetric()
        Learns the metric; cloned.
    criterion : {"margin", "accuracy", "eer", "fpr", "fbeta"}, default="accuracy"
        How to choose the threshold:

        - "accuracy": largest share of pairs classified correctly;
        - "eer": equal false positive and false negative rates;
        - "fpr": false positive rate of at most `max_fpr`;
        - "fbeta": largest F-beta score;
        - "margin": the threshold that the learner learned (`MaxMarginMetric`).
    max_fpr : float, default=0.01
        Share of dissimilar pairs that may be called the same, for "fpr".
    beta : float, default=1.0
        Weight of recall relative to precision, for "fbeta".
    calibration : float, default=0.25
        Share of the rows, or of the pairs, used to choose the threshold.
    n_pairs : int, optional
        Number of pairs to draw from labels; by default ten per row, and at least 2,000.
    random_state : int, RandomState or None, default=None
        For drawing and splitting pairs.

    Attributes
    ----------
    learner_ : MetricLearner
    metric_ : Metric
    threshold_ : float
        Pairs at this distance or less are the same; -inf if no pair is.
    curve_ : RocCurve
        ROC curve of the calibration pairs.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import PairVerifier
    >>> X, y = load_wine(return_X_y=True)
    >>> verifier = PairVerifier(random_state=0).fit(X, y)
    >>> verifier.predict(X, [[0, 1], [0, 177]])
    array([ True, False])
    """

    def __init__(
        self,
        learner: MetricLearner | None = None,
        *,
        criterion: Criterion = "accuracy",
        max_fpr: float = 0.01,
        beta: float = 1.0,
        calibration: float = 0.25,
        n_pairs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.learner = learner
        self.criterion = criterion
        self.max_fpr = max_fpr
        self.beta = beta
        self.calibration = calibration
        self.n_pairs = n_pairs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any) -> Self:
        """Learn the metric, then choose the threshold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Pairs, or array-like of shape (n_samples,)
            Pairs of rows of X, or labels to draw them from.
        """
        self._check_parameters()
        rng = check_random_state(self.random_state)
        seen, held_out = self._split(X, y, rng)
        learner = MaxMarginMetric() if self.learner is None else clone(self.learner)
        fitted = learner.fit(X, seen)
        self.metric_ = as_metric(fitted.metric_)
        self.learner_ = fitted
        self.curve_ = verification_curve(self.metric_, X, held_out)
        self.threshold_ = self._threshold(X, held_out)
        distances = self.metric_.pair_distances(X, held_out)
        self._distance_scale = float(distances.std()) or 1.0
        weight = None if held_out.weight is None else held_out.weight / held_out.weight.mean()
        self._calibrator = LogisticRegression(C=_UNREGULARISED_C).fit(
            distances[:, None] / self._distance_scale, held_out.similar, sample_weight=weight
        )
        return self

    def decision_function(self, X: ArrayLike, pairs: Pairs | ArrayLike) -> Vector:
        """Return threshold minus distance: not negative for pairs that are the same."""
        check_is_fitted(self)
        return self.threshold_ - self.metric_.pair_distances(X, pairs)

    def predict(self, X: ArrayLike, pairs: Pairs | ArrayLike) -> NDArray[np.bool_]:
        """Tell which pairs of rows of X are the same."""
        return self.decision_function(X, pairs) >= 0

    def predict_proba(self, X: ArrayLike, pairs: Pairs | ArrayLike) -> Vector:
        """Return the probability that a pair is the same, calibrated by logistic regression.

        Returns
        -------
        array of shape (n_pairs,)
        """
        check_is_fitted(self)
        distances = self.metric_.pair_distances(X, pairs)
        return np.asarray(
            self._calibrator.predict_proba(distances[:, None] / self._distance_scale)[:, 1]
        )

    def score(self, X: ArrayLike, y: Pairs | ConstraintsOver) -> float:
        """Return the share of pairs classified correctly."""
        pairs = y.constraints if isinstance(y, ConstraintsOver) else y
        if not isinstance(pairs, Pairs):
            raise ValueError(f"score needs Pairs; got {type(pairs).__name__}.")
        return float(np.average(self.predict(X, pairs) == pairs.similar, weights=pairs.weight))

    def _check_parameters(self) -> None:
        rules = {
            "criterion": choice(*_CRITERIA),
            "max_fpr": number(at_least=0.0, at_most=1.0),
            "calibration": number(above=0.0, below=1.0),
            "beta": number(above=0.0),
        }
        check_parameters(rules, {name: getattr(self, name) for name in rules})

    def _split(self, X: ArrayLike, y: Any, rng: np.random.RandomState) -> tuple[Pairs, Pairs]:
        """Return pairs to learn from and pairs to choose the threshold on."""
        if isinstance(y, ConstraintsOver):
            y = y.constraints
        if isinstance(y, Triplets | Chunklets):
            kind = type(y).__name__
            raise ValueError(f"{kind} do not say which pairs are dissimilar; give Pairs or labels.")
        split = StratifiedShuffleSplit(1, test_size=self.calibration, random_state=rng)
        if isinstance(y, Pairs):
            counts = np.bincount(y.similar.astype(np.intp), minlength=2)
            if counts.min() * min(self.calibration, 1 - self.calibration) < 1:
                raise ValueError(
                    "There are too few pairs to learn from some and calibrate on others: "
                    f"{counts[1]} similar, {counts[0]} dissimilar."
                )
            seen, unseen = next(split.split(y.index, y.similar))
            return y.take(seen), y.take(unseen)
        labels = column_or_1d(y)
        check_consistent_length(X, labels)
        check_classification_targets(labels)
        codes = np.unique(labels, return_inverse=True)[1]
        return self._draw_pairs(codes, rng)

    def _draw_pairs(self, codes: Ints, rng: np.random.RandomState) -> tuple[Pairs, Pairs]:
        """Draw pairs within each of two parts of the rows."""
        order = rng.permutation(len(codes))
        order = order[np.argsort(codes[order], kind="stable")]
        rank = np.arange(len(codes)) - np.searchsorted(codes[order], codes[order])
        size = np.bincount(codes)[codes[order]]
        held_out = rank < np.round(self.calibration * size)
        parts = []
        for rows in (order[~held_out], order[held_out]):
            points = np.zeros((len(rows), 1))
            pairs = RandomPairs(self.n_pairs)(points, codes[rows], rng)
            if len(pairs) == 0 or pairs.similar.all() or not pairs.similar.any():
                raise ValueError(
                    "There are too few rows: both parts need two classes, one of them with two "
                    "rows. Give Pairs, or change calibration."
                )
            parts.append(Pairs(rows[pairs.index], pairs.similar))
        return parts[0], parts[1]

    def _threshold(self, X: ArrayLike, held_out: Pairs) -> float:
        if self.criterion == "margin":
            squared = getattr(self.learner_, "threshold_", None)
            if squared is None:
                raise ValueError(
                    f"{type(self.learner_).__name__} learns no threshold; choose another criterion."
                )
            return float(np.sqrt(squared)) if squared > 0 else -np.inf
        if self.criterion in ("accuracy", "eer"):
            return float(
                getattr(verification(self.metric_, X, held_out), f"{self.criterion}_threshold")
            )
        return threshold_on(self.curve_, held_out, self.criterion, self.max_fpr, self.beta)


def held_out_decisions(
    metric: Metric,
    X: ArrayLike,
    pairs: Pairs,
    choose: Callable[[Pairs], float],
    *,
    n_folds: int = 5,
    random_state: int = 0,
) -> NDArray[np.bool_] | None:
    """Tell which pairs are the same, each by a threshold chosen on other pairs.

    Pairs are split as in `Pairs.folds`, so that pairs that share rows stay together where they can.

    Parameters
    ----------
    metric : Metric
    X : array-like of shape (n_samples, n_features)
    pairs : Pairs
    choose : callable
        Pairs -> threshold.
    n_folds : int, default=5
        The most parts to split pairs in.
    random_state : int, default=0

    Returns
    -------
    array of bool of shape (n_pairs,) or None
        None if there are too few pairs to split.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from nearfar import Metric, RandomPairs, evaluate
    >>> from nearfar.verification import held_out_decisions
    >>> X, y = load_iris(return_X_y=True)
    >>> pairs, metric = RandomPairs(200)(X, y, np.random.RandomState(0)), Metric.identity(4)
    >>> def choose(known):
    ...     return evaluate.verification(metric, X, known).accuracy_threshold
    >>> same = held_out_decisions(metric, X, pairs, choose)
    >>> bool(np.mean(same == pairs.similar) <= evaluate.verification(metric, X, pairs).accuracy)
    True
    """
    groups = pairs.groups(n_folds)
    counts = np.bincount(pairs.similar.astype(np.intp), minlength=2)
    n_groups = len(np.unique(groups))
    n_folds = min(n_folds, int(counts.min()), n_groups)
    if n_folds < 2:
        return None
    split = group_splitter(n_folds, n_groups, random_state)
    distances = metric.pair_distances(X, pairs)
    same = np.zeros(len(pairs), dtype=np.bool_)
    for seen, unseen in split.split(pairs.index, pairs.similar, groups):
        known = pairs.take(seen)
        if known.similar.all() or not known.similar.any():
            return None
        same[unseen] = distances[unseen] <= choose(known)
    return same


def threshold_on(
    curve: RocCurve, pairs: Pairs, criterion: str, max_fpr: float, beta: float
) -> float:
    """Return the best threshold of a curve by false positive rate or F-beta."""
    if criterion == "fpr":
        allowed = np.flatnonzero(curve.false_positive_rate <= max_fpr)
        return float(curve.thresholds[allowed[-1]])
    weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight
    found = curve.true_positive_rate * weight[pairs.similar].sum()
    wrong = curve.false_positive_rate * weight[~pairs.similar].sum()
    missed = weight[pairs.similar].sum() - found
    b2 = beta * beta
    score = (1 + b2) * found / ((1 + b2) * found + b2 * missed + wrong)
    return float(curve.thresholds[int(score.argmax())])
