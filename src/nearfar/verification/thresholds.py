"""Thresholds that are shown to meet a target, with a stated confidence.

An error q (the false match rate, 1 - precision or 1 - recall) measured on m pairs of C classes is
less certain than on m independent pairs. As in surveys of clusters (E. L. Korn, B. I. Graubard:
Confidence intervals for proportions with small expected number of positive counts estimated from
survey data, Survey Methodology 24, 1998), the pairs are worth

    n = m / d (z / t)^2,        d = v m / (q (1 - q)),

independent ones: v is the variance by classes (`evidence`), z and t are quantiles of the normal
distribution and of Student's with C - 1 degrees of freedom. The bound on the error is that of
Clopper and Pearson for n q errors among n.

The design effect d is the larger of that at the threshold and that where the pairs just meet the
target. Close to no errors v says nothing: the errors that would be seen next may all be of two
classes. Without errors, the bound is the rule of three, 1 - (1 - confidence)^(1/n).

The threshold is the largest (for recall the smallest) at which the bound meets the target. If the
error grows with the threshold, it misses the target only if the bound fails at the one threshold
where the error is what is allowed, so that trying many thresholds costs no confidence.
`benchmarks/verification.py` counts how often targets are missed on classes that are new.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta, norm
from scipy.stats import t as student

from nearfar.typing import Floats, Ints, Vector
from nearfar.verification.evidence import Evidence, Rates
from nearfar.verification.targets import Bound, Costs, EqualErrors, Target

_CANDIDATES = 200
"""The most thresholds that are tried on each side."""
_FEWEST_CLASSES = 3


class TargetNotShownError(ValueError):
    """The data cannot show that a target is met.

    Attributes
    ----------
    classes_needed, pairs_needed : int or None
        How many would be needed; None if more of the same would not do.
    """

    def __init__(
        self, message: str, classes_needed: int | None = None, pairs_needed: int | None = None
    ) -> None:
        super().__init__(message)
        self.classes_needed, self.pairs_needed = classes_needed, pairs_needed


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold, and what is known of it.

    Attributes
    ----------
    threshold : float
        Pairs at this distance or less are the same.
    interval : tuple of float
        Confidence interval of the threshold that exactly meets the target; each end has the
        stated confidence. For a bound, `threshold` is the safe end of it.
    estimate : float
        The figure of the target on the calibration pairs: precision, false match rate, recall,
        equal error rate, or expected cost.
    bound : float or None
        What the figure is shown to reach; None if the target is not a bound.
    fmr, recall, precision : float
        Rates on the calibration pairs; the precision is that at the prevalence.
    prevalence : float
        Share of similar pairs that precision and costs are for.
    confidence : float
    n_classes, n_pairs : int
        Calibration data.
    effective_pairs : float or None
        Number of independent pairs that those of the figure are worth.
    """

    threshold: float
    interval: tuple[float, float]
    estimate: float
    bound: float | None
    fmr: float
    recall: float
    precision: float
    prevalence: float
    confidence: float
    n_classes: int
    n_pairs: int
    effective_pairs: float | None


def choose_threshold(
    evidence: Evidence,
    target: Target,
    *,
    confidence: float = 0.95,
    prevalence: float | None = None,
) -> OperatingPoint:
    """Choose the threshold for a target.

    Parameters
    ----------
    evidence : Evidence
    target : Bound, EqualErrors or Costs
    confidence : float, default=0.95
    prevalence : float, optional
        Share of similar pairs where the threshold is used; by default that of the evidence.

    Raises
    ------
    TargetNotShownError
        If the pairs are too few to show that the target is met, or do not meet it.
    """
    if evidence.n_classes < _FEWEST_CLASSES:
        raise TargetNotShownError(
            f"{target} cannot be shown with {evidence}; at least {_FEWEST_CLASSES} classes are "
            "needed, and usually many more.",
            _FEWEST_CLASSES,
        )
    share = evidence.prevalence if prevalence is None else prevalence
    if isinstance(target, Bound):
        return _Shown(evidence, target, share, confidence).choose()
    if isinstance(target, EqualErrors):
        return _equal_errors(evidence, share, confidence)
    prior = share if target.prior is None else target.prior
    return _smallest_cost(evidence, target, prior, confidence)


class _Shown:
    """The search for a threshold that is shown to meet a bound."""

    def __init__(
        self, evidence: Evidence, target: Bound, prevalence: float, confidence: float
    ) -> None:
        self.evidence, self.target = evidence, target
        self.prevalence, self.confidence = prevalence, confidence
        quantile = student.ppf(confidence, evidence.n_classes - 1)
        self.few_classes = float((norm.ppf(confidence) / quantile) ** 2)
        self.allowed = target.error
        self.grows = target.measure != "recall"

    def choose(self) -> OperatingPoint:
        met = self._just_met()
        self.design_effect = self._design_effect(met)
        place = int(np.searchsorted(self.evidence.thresholds, met))
        below, above = np.arange(place, -1, -1), np.arange(place, len(self.evidence.thresholds))
        safe, other = (below, above) if self.grows else (above, below)
        shown = next((t for t in self._some(safe) if self._upper(t) <= self.allowed), None)
        if shown is None:
            raise self._refusal(met)
        open_end = next((t for t in self._some(other) if self._lower(t) > self.allowed), None)
        if open_end is None:
            open_end = float(self.evidence.thresholds[other[-1]])
        error, n, _ = self._worth(shown)
        bound = _clopper_pearson_upper(error, n, self.confidence)
        flip = self.target.measure != "fmr"
        return _point(
            self.evidence,
            shown,
            interval=(min(shown, open_end), max(shown, open_end)),
            estimate=1 - error if flip else error,
            bound=1 - bound if flip else bound,
            prevalence=self.prevalence,
            confidence=self.confidence,
            effective_pairs=n,
        )

    def _just_met(self) -> float:
        """Return the last threshold at which the calibration pairs themselves meet the target."""
        thresholds = self.evidence.thresholds
        errors = self._errors(thresholds)
        met = np.flatnonzero(errors <= self.allowed)
        if len(met):
            return float(thresholds[met[-1 if self.grows else 0]])
        if self.target.measure == "fmr":
            return float(thresholds[0])
        best = thresholds[int(np.nanargmin(errors))]
        raise TargetNotShownError(
            f"{self.target} cannot be met: the largest {self.target.measure} of the calibration "
            f"pairs is {1 - float(np.nanmin(errors)):.3g}, at the threshold {best:.4g} and a "
            f"prevalence of {self.prevalence:.3g}; choose a weaker target or a better metric."
        )

    def _errors(self, thresholds: Vector) -> Vector:
        """Errors at many thresholds."""
        return np.asarray(self._error(self.evidence.curve(thresholds)))

    def _error(self, rates: Rates) -> Floats:
        if self.target.measure == "fmr":
            return rates.fmr
        if self.target.measure == "recall":
            return 1 - rates.recall
        return 1 - rates.precision(self.prevalence)

    def _size(self, threshold: float) -> int:
        """Return the number of pairs that the error is a share of."""
        dissimilar, similar = self.evidence.dissimilar, self.evidence.similar
        if self.target.measure == "fmr":
            return len(dissimilar.distances)
        if self.target.measure == "recall":
            return len(similar.distances)
        return dissimilar.count(threshold) + similar.count(threshold)

    def _design_effect(self, threshold: float) -> float:
        rates, without = self.evidence.rates(threshold)
        error = float(self._error(rates))
        if not 0 < error < 1:
            return 1.0
        v = jackknife_variance(self._error(without))
        return max(1.0, v * self._size(threshold) / (error * (1 - error)))

    def _worth(self, threshold: float) -> tuple[float, float, float]:
        """Return the error at a threshold, the independent pairs it is worth, and per pair."""
        error = float(self._error(self.evidence.rates(threshold)[0]))
        effect = max(self.design_effect, self._design_effect(threshold))
        each = self.few_classes / effect
        return error, self._size(threshold) * each, each

    def _upper(self, threshold: float) -> float:
        error, n, _ = self._worth(threshold)
        return _clopper_pearson_upper(error, n, self.confidence)

    def _lower(self, threshold: float) -> float:
        error, n, _ = self._worth(threshold)
        return _clopper_pearson_lower(error, n, self.confidence)

    def _some(self, places: Ints) -> Iterable[float]:
        """Return some of the thresholds, close to each other at the start."""
        steps = np.arange(len(places))
        if len(steps) > _CANDIDATES:
            even = np.linspace(0, len(steps) - 1, _CANDIDATES // 2)
            near = np.geomspace(1, len(steps) - 1, _CANDIDATES // 2)
            steps = np.unique(np.concatenate([even, near]).astype(np.intp))
        return map(float, self.evidence.thresholds[places[steps]])

    def _refusal(self, met: float) -> TargetNotShownError:
        needed = math.log(1 - self.confidence) / math.log1p(-self.allowed)
        _, n, each = self._worth(met)
        n = max(n, 1e-9)
        classes = max(math.ceil(self.evidence.n_classes * needed / n), self.evidence.n_classes + 1)
        pairs = max(math.ceil(needed / each), self._size(met) + 1)
        kinds = {"fmr": "dissimilar pairs", "recall": "similar pairs"}
        kind = kinds.get(self.target.measure, "pairs called the same")
        return TargetNotShownError(
            f"{self.target} cannot be shown at {100 * self.confidence:g} % confidence with "
            f"{self.evidence}: their {self._size(met)} {kind} are worth about {n:.0f} independent "
            f"ones, and {needed:.0f} without an error are needed; give at least about {classes} "
            f"classes ({pairs} {kind}), or choose a weaker target.",
            classes,
            pairs,
        )


def jackknife_variance(without: Floats) -> float:
    """Return the variance of a figure from its values without each class."""
    known = without[~np.isnan(without)]
    n = len(known)
    return float((n - 1) / n * ((known - known.mean()) ** 2).sum()) if n > 1 else math.inf


def _clopper_pearson_upper(share: float, n: float, confidence: float) -> float:
    if not share < 1 or n <= 0:
        return 1.0
    return float(beta.ppf(confidence, n * share + 1, n * (1 - share)))


def _clopper_pearson_lower(share: float, n: float, confidence: float) -> float:
    if not share > 0 or n <= 0:
        return 0.0
    return float(beta.ppf(1 - confidence, n * share, n * (1 - share) + 1))


def _equal_errors(evidence: Evidence, prevalence: float, confidence: float) -> OperatingPoint:
    """The threshold of equal errors, and those at which the errors may be equal."""
    quantile = float(student.ppf(confidence, evidence.n_classes - 1))

    def excess(threshold: float) -> tuple[float, float]:
        (fmr, recall), without = evidence.rates(threshold)
        error = math.sqrt(jackknife_variance(without.fmr + without.recall))
        return float(fmr + recall - 1), quantile * error

    curve = evidence.curve(evidence.thresholds)
    exact = float(evidence.thresholds[int(np.argmin(np.abs(curve.fmr + curve.recall - 1)))])
    near = [exact]
    for t in map(float, _spread(evidence.thresholds)):
        difference, reach = excess(t)
        if abs(difference) <= reach:
            near.append(t)
    rates = evidence.rates(exact)[0]
    return _point(
        evidence,
        exact,
        interval=(min(near), max(near)),
        estimate=float(rates.fmr + 1 - rates.recall) / 2,
        bound=None,
        prevalence=prevalence,
        confidence=confidence,
        effective_pairs=None,
    )


def _smallest_cost(
    evidence: Evidence, costs: Costs, prior: float, confidence: float
) -> OperatingPoint:
    """The threshold of the smallest cost, and those not shown to cost more."""
    quantile = float(student.ppf(confidence, evidence.n_classes - 1))

    def cost(rates: Rates) -> Floats:
        missed = prior * costs.false_non_match * (1 - rates.recall)
        return np.asarray(missed + (1 - prior) * costs.false_match * rates.fmr)

    thresholds = np.concatenate([[-np.inf], evidence.thresholds])
    best = float(thresholds[int(np.argmin(cost(evidence.curve(thresholds))))])
    at_best, without_best = (cost(rates) for rates in evidence.rates(best))
    near = [best]
    for t in _spread(thresholds):
        here, without = (cost(rates) for rates in evidence.rates(float(t)))
        error = math.sqrt(jackknife_variance(without - without_best))
        if float(here - at_best) <= quantile * error:
            near.append(float(t))
    return _point(
        evidence,
        best,
        interval=(min(near), max(near)),
        estimate=float(at_best),
        bound=None,
        prevalence=prior,
        confidence=confidence,
        effective_pairs=None,
    )


def _spread(thresholds: Vector) -> Vector:
    """Return at most so many thresholds, evenly among those that occur."""
    places = np.linspace(0, len(thresholds) - 1, min(len(thresholds), _CANDIDATES))
    return np.asarray(thresholds[places.astype(np.intp)])


def _point(
    evidence: Evidence,
    threshold: float,
    *,
    interval: tuple[float, float],
    estimate: float,
    bound: float | None,
    prevalence: float,
    confidence: float,
    effective_pairs: float | None,
) -> OperatingPoint:
    rates = evidence.rates(threshold)[0]
    return OperatingPoint(
        threshold,
        interval,
        estimate,
        bound,
        float(rates.fmr),
        float(rates.recall),
        float(rates.precision(prevalence)),
        prevalence,
        confidence,
        evidence.n_classes,
        evidence.n_pairs,
        effective_pairs,
    )
