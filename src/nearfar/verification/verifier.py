"""`PairVerifier`: a threshold on a learned distance tells same from different pairs."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, assert_all_finite, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from nearfar.columns.cells import is_frame
from nearfar.evidence.certify import Bound, PairEvidence, choose_threshold, parse_target
from nearfar.learners.base import MetricLearner, features_of, fit_pipeline, learner_of
from nearfar.learners.max_margin import MaxMarginMetric
from nearfar.measures import LikelihoodRatios, verification, verification_curve
from nearfar.metrics.metric import Metric
from nearfar.metrics.variants import as_metric
from nearfar.numerics.missing import at_rows, labelled_rows, naming_remedies, refuse_masked
from nearfar.runtime.parameters import check_parameters, choice, instance, number, optional
from nearfar.supervision import (
    ConstraintsOver,
    Pairs,
    RandomPairs,
    Supervision,
    keep_copies_together,
    kind_of,
    unwrapped,
)
from nearfar.supervision.copies import comparable_rows
from nearfar.typing import Array, Floats, Vector
from nearfar.verification.splits import (
    CalibrationSplit,
    SplitBy,
    all_given,
    all_pairs,
    split_labels,
    split_pairs,
)


class PairVerifier(BaseEstimator):
    """Tell whether two points are of the same kind, by a threshold on a learned distance.

    The metric is learned from one part of the data; the threshold and the probabilities are
    calibrated on the rest. With a `metric`, nothing is learned, and all data calibrate.

    With a `target`, the threshold is certified to meet it on new classes, with the stated
    confidence. The metric is then learned from some classes and calibrated on others, and the
    confidence counts classes and not pairs. If the data cannot certify this, `fit` raises
    `TargetNotCertifiedError`, which says how many classes and pairs are needed.

    Parameters
    ----------
    learner : MetricLearner or Pipeline, default=MaxMarginMetric()
        Learns the metric; cloned. All steps of a pipeline, which ends in a learner, are fitted to
        what the metric is learned from, and only transform what calibrates. Features that were
        fitted to all rows before, such as principal components or TF-IDF, break a certificate.
    metric : Metric, optional
        A metric to calibrate, in place of a learner. The pairs should be others than those that it
        was learned from.
    calibration : float, default=0.25
        Share of the classes, rows or pairs used to choose the threshold.
    n_pairs : int, optional
        Number of pairs to draw from labels; by default ten per row, and at least 2,000.
    target : str, optional
        What to certify: "precision>=0.99", "fmr<=1e-3" (false match rate) or "recall>=0.9". Without
        a target, the threshold classifies the largest share of the calibration pairs correctly, and
        promises nothing for other pairs.
    confidence : float, default=0.95
        Confidence with which the target is certified.
    prevalence : float, optional
        Share of similar pairs where the verifier is used, for precision and probabilities.
        By default the share in the calibration pairs. With labels and split="classes" these are
        all pairs of the held-out rows.
    split : {"classes", "rows"}, optional
        What the metric and the calibration do not share. "classes": whole classes; for given pairs,
        rows that are joined by similar pairs are one class, so that the pairs should join all rows
        of a class. "rows": rows of the same classes; given
        pairs are split by pair, and may share rows. By default "classes" with a target, and "rows"
        without.
    random_state : int, RandomState or None, default=None
        For drawing and splitting pairs.

    Attributes
    ----------
    learner_ : MetricLearner or Pipeline
        Not with a `metric`.
    metric_ : Metric
        Of the learner; in a pipeline, it measures what the steps before give.
    threshold_ : float
        Pairs at this distance or less are the same; -inf if no pair is.
    operating_point_ : OperatingPoint
        With a target: rates at the threshold, and the certified bound.
    likelihood_ratios_ : LikelihoodRatios
        By distance; they never rise with it.
    prevalence_ : float
    curve_ : RocCurve
        ROC curve of the calibration pairs.
    n_features_in_ : int
    feature_names_in_ : array of str
        Names of the columns, if X is a table with names.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import PairVerifier
    >>> X, y = load_wine(return_X_y=True)
    >>> verifier = PairVerifier(random_state=0).fit(X, y)
    >>> verifier.predict(X, [[0, 1], [0, 177]])
    array([ True, False])

    A threshold for a metric that is there already, on pairs of one's own:

    >>> from nearfar import Metric, Pairs
    >>> pairs = Pairs([[0, 1], [1, 2], [0, 177], [1, 70]], [True, True, False, False])
    >>> verifier = PairVerifier(metric=Metric.identity(13)).fit(X, pairs)
    >>> verifier.score(X, pairs)
    1.0

    At most 5 % false matches among classes that were not learned from:

    >>> import numpy as np
    >>> from nearfar import RCA
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(80), 5)
    >>> X = rng.normal(size=(80, 6))[y] + 0.3 * rng.normal(size=(400, 6))
    >>> verifier = PairVerifier(RCA(), target="fmr<=0.05", calibration=0.5, random_state=0)
    >>> point = verifier.fit(X, y).operating_point_
    >>> point.n_classes, point.fmr < point.bound <= 0.05
    (40, True)

    Features are fitted inside, to the classes that the metric is learned from:

    >>> from sklearn.decomposition import PCA
    >>> from sklearn.pipeline import make_pipeline
    >>> verifier.set_params(learner=make_pipeline(PCA(4), RCA())).fit(X, y).metric_
    <Metric: 4 features -> 4>
    >>> verifier.predict(X, [[0, 1], [0, 5]])
    array([ True, False])
    """

    def __init__(
        self,
        learner: MetricLearner | Pipeline | None = None,
        *,
        metric: Metric | None = None,
        calibration: float = 0.25,
        n_pairs: int | None = None,
        target: str | Bound | None = None,
        confidence: float = 0.95,
        prevalence: float | None = None,
        split: SplitBy | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.learner = learner
        self.metric = metric
        self.calibration = calibration
        self.n_pairs = n_pairs
        self.target = target
        self.confidence = confidence
        self.prevalence = prevalence
        self.split = split
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object) -> Self:
        """Learn the metric, unless it is given, then choose the threshold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            With a pipeline, whatever its first step takes.
        y : Pairs, or array-like of shape (n_samples,)
            Pairs of rows of X, or labels to draw them from. Rows that -1 marks as unlabelled are
            left out, with a warning.
        """
        self._check_parameters()
        target = None if self.target is None else parse_target(self.target)
        refuse_masked(X, "X")
        labelled = labelled_rows(y) if kind_of(y) == "labels" else None
        if labelled is not None:
            X, y = at_rows(labelled, X, y)
        if isinstance(self.learner, Pipeline):
            validate_data(self, X, skip_check_array=True)
            points = comparable_rows(X)
        else:
            with naming_remedies():
                points = validate_data(
                    self, X, dtype=[np.float64, np.float32], ensure_min_samples=2
                )
        parts, labels = self._split(points, y, check_random_state(self.random_state))
        metric = self.metric
        if metric is None:
            self.learner_ = self._learn(X, parts, labels)
            metric = learner_of(self.learner_).metric_
        self.metric_ = as_metric(metric)
        if isinstance(self.learner, Pipeline):
            points = features_of(self.learner_, X)
        held_out = parts.held_out
        distances = self.metric_.pair_distances(points, held_out)
        evidence = PairEvidence(
            distances, held_out.similar, parts.classes, held_out.weight, unlike=parts.unlike
        )
        self.curve_ = verification_curve(self.metric_, points, held_out)
        self.prevalence_ = evidence.prevalence if self.prevalence is None else self.prevalence
        if target is None:
            self.threshold_ = verification(self.metric_, points, held_out).accuracy_threshold
        else:
            point = choose_threshold(
                evidence, target, confidence=self.confidence, prevalence=self.prevalence_
            )
            self.operating_point_ = point
            self.threshold_ = point.threshold
        extra = evidence.one_class if parts.whole_classes else (1.0, 1.0)
        self.likelihood_ratios_ = LikelihoodRatios.fit(distances, held_out, extra)
        return self

    def decision_function(self, X: ArrayLike, pairs: Pairs | ArrayLike) -> Vector:
        """Return threshold minus distance: not negative for pairs that are the same."""
        distances = self._distances(X, pairs)
        return self.threshold_ - distances

    def predict(self, X: ArrayLike, pairs: Pairs | ArrayLike) -> NDArray[np.bool_]:
        """Tell which pairs of rows of X are the same."""
        return self.decision_function(X, pairs) >= 0

    def predict_proba(self, X: ArrayLike, pairs: Pairs | ArrayLike) -> Vector:
        """Return the probability that a pair is the same, at the prevalence.

        It never rises with the distance.

        Returns
        -------
        array of shape (n_pairs,)
        """
        return np.asarray(expit(self.log_likelihood_ratios(X, pairs) + logit(self.prevalence_)))

    def log_likelihood_ratios(self, X: ArrayLike, pairs: Pairs | ArrayLike) -> Vector:
        """Return how much more likely the distance of a pair is if it is the same, as logarithms.

        They are natural logarithms, and do not depend on the prevalence.

        Returns
        -------
        array of shape (n_pairs,)
        """
        distances = self._distances(X, pairs)
        return self.likelihood_ratios_(distances)

    def _distances(self, X: ArrayLike, pairs: Pairs | ArrayLike) -> Vector:
        check_is_fitted(self)
        if isinstance(getattr(self, "learner_", None), Pipeline):
            points = features_of(self.learner_, X)
        elif self.metric_.feature_names is not None and is_frame(X):
            points = self.metric_.features_of(X)
            assert_all_finite(points, input_name="X")
        else:
            refuse_masked(X, "X")
            with naming_remedies():
                points = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self.metric_.pair_distances(points, pairs)

    def score(self, X: ArrayLike, y: Pairs | ConstraintsOver | ArrayLike) -> float:
        """Return the share of pairs classified correctly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Pairs, or array-like of shape (n_samples,)
            Pairs of rows of X, or labels, from which `n_pairs` are drawn: as many similar as
            dissimilar ones, or only similar ones if all labels are the same.
        """
        pairs: Any = unwrapped(y)
        kind = kind_of(pairs)
        if kind == "labels":
            if (labelled := labelled_rows(y)) is not None:
                X, y = at_rows(labelled, X, y)
            codes = np.unique(column_or_1d(y), return_inverse=True)[1]
            check_consistent_length(X, codes)
            unused: Any = None
            pairs = RandomPairs(self.n_pairs)(unused, codes, np.random.RandomState(0))
        elif kind != "pairs":
            raise ValueError(f"score needs Pairs or labels; got {kind}.")
        if len(pairs) == 0:
            raise ValueError("There are no pairs to score.")
        return float(np.average(self.predict(X, pairs) == pairs.similar, weights=pairs.weight))

    def _check_parameters(self) -> None:
        rules = {
            "metric": optional(instance(Metric, "a Metric, such as the metric_ of a learner")),
            "calibration": number(above=0.0, below=1.0),
            "confidence": number(above=0.5, below=1.0),
            "prevalence": optional(number(above=0.0, below=1.0)),
            "split": optional(choice("classes", "rows")),
        }
        check_parameters(rules, {name: getattr(self, name) for name in rules})
        if self.learner is not None:
            learner_of(self.learner)
        if self.metric is not None and self.learner is not None:
            raise ValueError("Give a learner or a metric, not both.")

    def _split(
        self, X: Floats, y: object, rng: np.random.RandomState
    ) -> tuple[CalibrationSplit, Array | None]:
        """Return what to learn from and to calibrate on, and the labels if there are any."""
        kind = kind_of(y)
        if y is None:
            raise ValueError("PairVerifier requires y to be passed, but the target y is None.")
        if kind in ("triplets", "chunklets"):
            raise ValueError(
                f"{kind.capitalize()} do not say which pairs are dissimilar; give Pairs or labels."
            )
        split: SplitBy = self.split or ("rows" if self.target is None else "classes")
        if kind == "pairs" and self.metric is not None:
            return all_given(unwrapped(y)), None
        if self.metric is not None:
            labels = column_or_1d(y)
            check_consistent_length(X, labels)
            check_classification_targets(labels)
            codes = np.unique(labels, return_inverse=True)[1]
            every = all_pairs(codes, np.arange(len(codes)), self.n_pairs, rng)
            return all_given(every, codes), None
        known, copies = keep_copies_together(X, Supervision.of(y, len(X)))
        if copies is not None:
            warnings.warn(f"{copies}.", stacklevel=3)
        if kind == "pairs":
            parts = split_pairs(known.given, split, self.calibration, rng)
            # Rows of no pair are learned from; copies of rows that are held out are in a pair.
            kept = ~np.isin(np.arange(len(X)), unwrapped(y).index)
            kept[parts.seen.index] = True
            return replace(parts, rows=np.flatnonzero(kept)), None
        share, groups = self.calibration, known.groups
        return split_labels(known.codes, split, share, self.n_pairs, rng, groups), column_or_1d(y)

    def _learn(
        self, X: ArrayLike, parts: CalibrationSplit, labels: Array | None
    ) -> MetricLearner | Pipeline:
        """Learn from pairs, or from the labels of whole classes; from the learning rows only."""
        estimator = MaxMarginMetric() if self.learner is None else clone(self.learner)
        learner, rows = learner_of(estimator), parts.rows
        assert rows is not None
        known = None if labels is None else labels[rows]
        y: Pairs | Array = parts.seen.restrict(rows)
        if known is not None and parts.whole_classes and "labels" in learner.supervision:
            y = known
            if "validation" in learner.get_params():
                learner.set_params(validation="classes")
        return fit_pipeline(estimator, _safe_indexing(X, rows), y, labels=known)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
