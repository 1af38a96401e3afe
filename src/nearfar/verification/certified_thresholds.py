"""Thresholds that are certified to meet a target, with a stated confidence.

An error q (the false match rate, or 1 - recall) measured on m pairs of C classes is less certain
than on m independent pairs. As in surveys of clusters (E. L. Korn, B. I. Graubard: Confidence
intervals for proportions with small expected number of positive counts estimated from survey data,
Survey Methodology 24, 1998), the effective number of independent pairs is

    n = m / d (z / t)^2,        d = v m / (q (1 - q)),

where v is the variance by classes (`evidence`), z and t are quantiles of the normal
distribution and of Student's with C - 1 degrees of freedom. The bound on the error is that of
Clopper and Pearson for n q errors among n.

The design effect d is the larger of that at the threshold and that where the pairs just meet the
target. With hardly any errors, v is not informative: the next errors may all be of two classes.
Without errors, the bound is the rule of three, 1 - (1 - confidence)^(1/n).

The threshold is the largest (for recall the smallest) at which the bound meets the target. If the
error grows with the threshold, it misses the target only if the bound fails at the one threshold
where the error is what is allowed, so that trying many thresholds costs no confidence.
`benchmarks/verification.py` counts how often targets are missed on classes that are new.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta, norm
from scipy.stats import t as student

from nearfar.typing import Floats, Ints, Vector
from nearfar.verification.evidence import PairEvidence, Rates, UnlabelledPairs
from nearfar.verification.operating_point import OperatingPoint, at_threshold
from nearfar.verification.targets import Bound, Costs, EqualErrors, Target

# The most thresholds that are tried on each side.
_CANDIDATES = 200
# With fewer, a variance over classes has one degree of freedom or none.
_FEWEST_CLASSES = 3
MORE = np.geomspace(1.05, 1e5, 100)
"""Multiples of the data that a refusal tries."""


class TargetNotCertifiedError(ValueError):
    """The data cannot certify that a target is met.

    Attributes
    ----------
    classes_needed, pairs_needed, queries_needed : int or None
        How many would be needed; None if more data of this kind would not help. Queries are those
        of a search that take no part in learning.
    strongest : str or None
        The strongest target of the same kind, in round numbers, that the data can certify.

    Examples
    --------
    >>> from nearfar.verification import TargetNotCertifiedError
    >>> TargetNotCertifiedError("Too few classes.", classes_needed=300).classes_needed
    300
    """

    def __init__(
        self,
        message: str,
        classes_needed: int | None = None,
        pairs_needed: int | None = None,
        strongest: str | None = None,
        queries_needed: int | None = None,
    ) -> None:
        super().__init__(message)
        self.classes_needed, self.pairs_needed = classes_needed, pairs_needed
        self.strongest, self.queries_needed = strongest, queries_needed


def choose_threshold(
    evidence: PairEvidence,
    target: Target,
    *,
    confidence: float = 0.95,
    prevalence: float | None = None,
    unlabelled: UnlabelledPairs | None = None,
) -> OperatingPoint:
    """Choose the threshold for a target.

    Parameters
    ----------
    prevalence: Share of similar pairs where the threshold is used; by default that of the
        evidence.
    unlabelled: The pairs that the threshold is used on. A precision is then that among
        these, and their prevalence is not needed.

    Raises
    ------
    TargetNotCertifiedError
        If the pairs are too few to certify the target, or do not meet it.
    """
    for name, kind in (("similar", evidence.similar), ("dissimilar", evidence.dissimilar)):
        if kind.n_classes < _FEWEST_CLASSES:
            raise TargetNotCertifiedError(
                f"{target} cannot be certified with {evidence}: {kind.n_classes} of them have "
                f"{name} pairs; at least {_FEWEST_CLASSES} are needed, and usually many more.",
                _FEWEST_CLASSES,
            )
    share = evidence.prevalence if prevalence is None else prevalence
    if isinstance(target, Bound):
        try:
            point = _CertifiedSearch(evidence, target, share, confidence, unlabelled).choose()
            return at_threshold(point, point.threshold, evidence, unlabelled)
        except TargetNotCertifiedError as error:
            message, strongest = str(error), None
            for weaker in target.weaker:
                with suppress(TargetNotCertifiedError):
                    _CertifiedSearch(evidence, weaker, share, confidence, unlabelled).choose()
                    strongest = str(weaker)
                    message = f"{message} With these pairs, {strongest} can be certified."
                    break
            needed = error.classes_needed, error.pairs_needed
            raise TargetNotCertifiedError(message, *needed, strongest) from None
    if isinstance(target, EqualErrors):
        return _equal_errors(evidence, share, confidence)
    prior = share if target.prior is None else target.prior
    return _smallest_cost(evidence, target, prior, confidence)


class _Look(NamedTuple):
    """The error at a threshold."""

    error: float
    allowed: float
    design_effect: float


class _CertifiedSearch:
    """The search for a threshold that is certified to meet a bound."""

    def __init__(
        self,
        evidence: PairEvidence,
        target: Bound,
        prevalence: float,
        confidence: float,
        unlabelled: UnlabelledPairs | None,
    ) -> None:
        self.evidence, self.target = evidence, target
        self.unlabelled = unlabelled if target.measure == "precision" else None
        self.prevalence, self.confidence = prevalence, confidence
        self.odds = prevalence / (1 - prevalence) * target.error / (1 - target.error)
        self.grows = target.measure != "recall"
        kind = evidence.dissimilar if self.grows else evidence.similar
        self.n_pairs = len(kind.distances)
        quantile = student.ppf(confidence, kind.n_classes - 1)
        self.few_classes = float((norm.ppf(confidence) / quantile) ** 2)

    def choose(self) -> OperatingPoint:
        thresholds = self.evidence.thresholds
        met = self.just_met()
        self.design_effect = self._look(met).design_effect
        place = int(np.searchsorted(thresholds, met))
        below, above = np.arange(place, -1, -1), np.arange(place, len(thresholds))
        safe, other = (below, above) if self.grows else (above, below)
        looks = []
        for certified in self._some(safe):
            look = self._look(certified)
            upper = float(self._bounds(look)[1])
            if upper <= look.allowed:
                break
            looks.append(look)
        else:
            raise self.refusal(looks)
        # The other end certainly misses the target, or is the last threshold of all.
        open_end = float(thresholds[other[-1]])
        for threshold in self._some(other):
            miss = self._look(threshold)
            if self._bounds(miss)[0] > miss.allowed:
                open_end = threshold
                break
        rates = self.evidence.rates(certified)[0]
        estimate, bound = (self._figure(rates, certified, e) for e in (look.error, upper))
        return _point(
            self.evidence,
            certified,
            (min(certified, open_end), max(certified, open_end)),
            estimate,
            self.prevalence,
            self.confidence,
            bound=bound,
            effective_pairs=self._effective_pairs(look),
        )

    def just_met(self) -> float:
        """Return the last threshold at which the calibration pairs themselves meet the target."""
        thresholds = self.evidence.thresholds
        curve = self.evidence.curve(thresholds)
        error, allowed = self._error(curve), self._allowed(curve, thresholds)
        met = np.flatnonzero((error <= allowed) & (curve.recall > 0))
        if len(met):
            return float(thresholds[met[-1 if self.grows else 0]])
        if self.target.measure == "fmr":
            return float(thresholds[0])
        precision = self._precision(curve, thresholds)
        best = int(np.nanargmax(precision))
        share = "" if self.unlabelled else f" and a prevalence of {self.prevalence:.3g}"
        raise TargetNotCertifiedError(
            f"{self.target} cannot be met: the largest precision of the calibration pairs is "
            f"{precision[best]:.3g}, at the threshold {thresholds[best]:.4g}{share}; choose a "
            "weaker target or a better metric."
        )

    def _error(self, rates: Rates) -> Floats:
        return rates.fmr if self.grows else 1 - rates.recall

    def _allowed(self, rates: Rates, thresholds: Floats | float) -> Floats:
        if self.unlabelled is not None:
            found = self.unlabelled.found(thresholds)
            return np.asarray(self.target.error * found / self.unlabelled.n_pairs)
        if self.target.measure == "precision":
            return np.asarray(rates.recall * self.odds)
        return np.asarray(self.target.error)

    def _precision(self, rates: Rates, thresholds: Floats | float) -> Floats:
        if self.unlabelled is not None:
            return self.unlabelled.precision(thresholds, rates.fmr)
        return rates.precision(self.prevalence)

    def _figure(self, rates: Rates, threshold: float, error: float) -> float:
        """Return what the target is about, if the error is this large."""
        if self.target.measure == "precision":
            return float(self._precision(Rates(np.asarray(error), rates.recall), threshold))
        return error if self.target.measure == "fmr" else 1 - error

    def _look(self, threshold: float) -> _Look:
        rates, without = self.evidence.rates(threshold)
        error, allowed = float(self._error(rates)), float(self._allowed(rates, threshold))
        if not 0 < error < 1:
            return _Look(error, allowed, 1.0)
        changes = self._error(without)
        if self.target.measure == "precision" and self.unlabelled is None:
            with np.errstate(invalid="ignore", divide="ignore"):
                changes = np.where(without.recall > 0, changes / without.recall, np.nan)
            changes = changes * rates.recall
        effect = jackknife_variance(changes) * self.n_pairs / (error * (1 - error))
        return _Look(error, allowed, max(1.0, effect))

    def _effective_pairs(self, look: _Look, more: float = 1.0) -> float:
        """Return the effective number of independent pairs, with a multiple of the evidence."""
        n = more * self.n_pairs * self.few_classes
        if self.unlabelled is not None:
            n = 1 / (1 / n + 1 / self.unlabelled.n_pairs)
        return n / max(self.design_effect, look.design_effect)

    def _bounds(self, look: _Look) -> tuple[Vector, Vector]:
        return clopper_pearson(look.error, self._effective_pairs(look), self.confidence)

    def _some(self, places: Ints) -> Iterable[float]:
        """Return some of the thresholds, close to each other at the start."""
        steps = np.arange(len(places))
        if len(steps) > _CANDIDATES:
            even = np.linspace(0, len(steps) - 1, _CANDIDATES // 2)
            near = np.geomspace(1, len(steps) - 1, _CANDIDATES // 2)
            steps = np.unique(np.concatenate([even, near]).astype(np.intp))
        return map(float, self.evidence.thresholds[places[steps]])

    def refusal(self, looks: list[_Look]) -> TargetNotCertifiedError:
        """Say how many classes are needed if they are like these."""
        if self.target.measure == "fmr":
            looks = [*looks, looks[0]._replace(error=0.0)]
        error, allowed = np.array([(look.error, look.allowed) for look in looks]).T
        for more in MORE:
            effective = np.array([self._effective_pairs(look, more) for look in looks])
            if (clopper_pearson(error, effective, self.confidence)[1] <= allowed).any():
                break
        else:
            if self.unlabelled is not None:
                return TargetNotCertifiedError(
                    f"{self.target} cannot be certified: too few of the "
                    f"{self.unlabelled.n_pairs} pairs without labels are similar; choose a weaker "
                    "target."
                )
        classes, pairs = (math.ceil(more * n) for n in (self.evidence.n_classes, self.n_pairs))
        kind = "dissimilar" if self.grows else "similar"
        return TargetNotCertifiedError(
            f"{self.target} cannot be certified at {100 * self.confidence:g} % confidence with "
            f"{self.evidence}: the {kind} pairs share classes and count as about "
            f"{self._effective_pairs(looks[0]):.0f} independent ones; give about {classes} "
            f"classes to calibrate on ({pairs} {kind} pairs), or choose a weaker target.",
            classes,
            pairs,
        )


def jackknife_variance(without: Floats) -> float:
    """Return the variance of a figure from its values without each class."""
    values = without[~np.isnan(without)]
    n = len(values)
    return float((n - 1) / n * ((values - values.mean()) ** 2).sum()) if n > 1 else math.inf


def clopper_pearson(
    share: ArrayLike, n: ArrayLike, confidence: float | Floats
) -> tuple[Vector, Vector]:
    """Return bounds on a share, from below and from above, each with the confidence.

    Parameters
    ----------
    share: Observed.
    n: Number of independent cases, not necessarily an integer.
    """
    share, n = np.asarray(share, dtype=np.float64), np.asarray(n, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        low = beta.ppf(1 - confidence, n * share, n * (1 - share) + 1)
        high = beta.ppf(confidence, n * share + 1, n * (1 - share))
    return np.where(share > 0, low, 0.0), np.where(share < 1, high, 1.0)


def _equal_errors(evidence: PairEvidence, prevalence: float, confidence: float) -> OperatingPoint:
    """The threshold of equal errors, and those at which the errors may be equal."""
    thresholds = evidence.thresholds

    def excess(rates: Rates) -> Floats:
        return rates.fmr + rates.recall - 1

    best = float(thresholds[int(np.argmin(np.abs(excess(evidence.curve(thresholds)))))])
    quantile = student.ppf(confidence, evidence.n_counted - 1)
    interval = _plausible(thresholds, best, lambda t: map(excess, evidence.rates(t)), quantile)
    rates = evidence.rates(best)[0]
    estimate = float(rates.fmr + 1 - rates.recall) / 2
    return _point(evidence, best, interval, estimate, prevalence, confidence)


def _smallest_cost(
    evidence: PairEvidence, costs: Costs, prior: float, confidence: float
) -> OperatingPoint:
    """The threshold of the smallest cost, and those that may cost no more."""

    def cost(rates: Rates) -> Floats:
        missed = prior * costs.false_non_match * (1 - rates.recall)
        return np.asarray(missed + (1 - prior) * costs.false_match * rates.fmr)

    def excess(threshold: float) -> Iterable[Floats]:
        return (
            cost(rates) - least
            for rates, least in zip(evidence.rates(threshold), at_best, strict=True)
        )

    thresholds = np.concatenate([[-np.inf], evidence.thresholds])
    best = float(thresholds[int(np.argmin(cost(evidence.curve(thresholds))))])
    at_best = [cost(rates) for rates in evidence.rates(best)]
    quantile = student.ppf(confidence, evidence.n_counted - 1)
    interval = _plausible(thresholds, best, excess, quantile)
    return _point(evidence, best, interval, float(at_best[0]), prior, confidence)


def _plausible(
    thresholds: Vector, best: float, excess: Callable[[float], Iterable[Floats]], quantile: float
) -> tuple[float, float]:
    """Return the range of thresholds at which an excess may be zero."""
    places = np.linspace(0, len(thresholds) - 1, min(len(thresholds), _CANDIDATES))
    near = [best]
    for t in map(float, thresholds[places.astype(np.intp)]):
        here, without = excess(t)
        if abs(here) <= quantile * math.sqrt(jackknife_variance(without)):
            near.append(t)
    return min(near), max(near)


def _point(
    evidence: PairEvidence,
    threshold: float,
    interval: tuple[float, float],
    estimate: float,
    prevalence: float,
    confidence: float,
    *,
    bound: float | None = None,
    effective_pairs: float | None = None,
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
