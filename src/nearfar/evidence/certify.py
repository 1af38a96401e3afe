"""Thresholds that are certified to meet a target, with a stated confidence.

Counts give an effective number of independent cases, and this a bound. It serves pairs (here),
records (`nearfar.records`) and queries (`nearfar.search`). What cannot be certified is refused,
with the weaker targets that can be.

Effective numbers
-----------------
An error q (the false match rate, or 1 - recall) measured on m pairs of C classes is less certain
than on m independent pairs. As in surveys of clusters (E. L. Korn, B. I. Graubard: Confidence
intervals for proportions with small expected number of positive counts estimated from survey data,
Survey Methodology 24, 1998), the effective number of independent pairs is

    n = m / d (z / t)^2,        d = v m / (q (1 - q)),

where v is the variance by classes, z and t are quantiles of the normal distribution and of
Student's with C - 1 degrees of freedom. The bound on the error is that of Clopper and Pearson for
n q errors among n.

The design effect d is the larger of that at the threshold and that where the pairs just meet the
target. With hardly any errors, v is not informative: the next errors may all be of two classes.
Without errors, the bound is the rule of three, 1 - (1 - confidence)^(1/n).

The threshold is the largest (for recall the smallest) at which the bound meets the target. If the
error grows with the threshold, it misses the target only if the bound fails at the one threshold
where the error is what is allowed, so that trying many thresholds costs no confidence.
`benchmarks/verification.py` counts how often targets are missed on classes that are new.

Variances
---------
Pairs within a class, and pairs of the same two classes, are alike: what counts as independent is a
class (a person, a product). For given pairs, rows that are joined by similar pairs are one class.
The variance of an error rate q over C classes is that of the jackknife,

    v = (C - 1) / C  sum_c (q_(c) - mean q_(c))^2,

where q_(c) is the rate of the pairs without class c. For dissimilar pairs, which have two classes
each, it is the variance of a U-statistic of degree two. What only the two classes of a pair have in
common counts twice, so that the variance is too large rather than too small: dissimilar pairs that
share no class at all count half.

Targets
-------
- ``precision>=0.99``: share of similar pairs among those called the same;
- ``fmr<=1e-3``, the false match rate: share of dissimilar pairs called the same;
- ``recall>=0.9``: share of similar pairs called the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, norm
from scipy.stats import t as student

from nearfar.typing import Floats, Ints, Vector

Measure = Literal["precision", "fmr", "recall"]
# The most thresholds that are tried.
_CANDIDATES = 200
# With fewer, a variance over classes has one degree of freedom or none.
_FEWEST_CLASSES = 3
# Multiples of the data that a refusal tries.
_MORE = np.geomspace(1.05, 1e5, 100)
# What is needed, relative to what a refusal estimates, in nine of ten simulations.
_RANGES = {"fmr": (0.6, 2.0), "recall": (0.6, 2.0), "precision": (0.3, 3.0)}

_BOUND = re.compile(r"\s*(precision|fmr|recall)\s*(>=|<=)\s*(\S+)\s*")
_NEARLY = re.compile(r"([a-z]+)\s*([<>=]+)\s*(\d+|\d*\.\d+|\d+e-\d+)\s*(%?)")
_OTHER_NAMES = {"fpr": "fmr", "far": "fmr", "tpr": "recall", "tmr": "recall"}
_SIGNS = {"precision": ">=", "fmr": "<=", "recall": ">="}
# Errors in round numbers, for the strongest target that can be certified.
_SIZES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
_ROUND = (
    *(value * size for size in _SIZES for value in (1.0, 1.5, 2.0, 3.0, 5.0)),
    *(0.1, 0.15, 0.2, 0.3, 0.4, 0.5),
)
# A bound is weaker only if its error is larger by more than 1 - 0.9 - 0.1 is.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Bound:
    """A bound on a share: on precision or recall from below, on the false match rate from above."""

    measure: Measure
    value: float

    @property
    def error(self) -> float:
        """The largest error allowed: the false match rate, or 1 - precision or recall."""
        return self.value if self.measure == "fmr" else 1 - self.value

    def __str__(self) -> str:
        return f"{self.measure}{_SIGNS[self.measure]}{self.value:g}"

    @property
    def weaker(self) -> Iterator[Bound]:
        """Bounds on the same share that allow larger errors, in round numbers, strongest first."""
        for error in _ROUND:
            if error > self.error + _ROUNDING:
                value = error if self.measure == "fmr" else 1 - error
                yield Bound(self.measure, round(value, 7))


def parse_target(target: object) -> Bound:
    """Return what a target means."""
    if isinstance(target, Bound):
        return target
    parts = _BOUND.fullmatch(target) if isinstance(target, str) else None
    if parts is not None and _SIGNS[parts[1]] == parts[2]:
        with suppress(ValueError):
            if 0 < (value := float(parts[3])) < 1:
                return Bound(parts[1], value)  # type: ignore[arg-type]
    raise ValueError(
        'target must be "precision>=P", "fmr<=P" or "recall>=P" with P between 0 and 1; got '
        f"{target!r}.{suggested(target)}"
    )


def suggested(target: object) -> str:
    """Say what a target that is nearly one may stand for."""
    parts = _NEARLY.fullmatch(str(target).strip().lower())
    measure = _OTHER_NAMES.get(parts[1], parts[1]) if parts else ""
    if parts is None or measure not in _SIGNS:
        return ""
    value = float(parts[3]) / (100 if parts[4] else 1)
    return f' Did you mean "{measure}{_SIGNS[measure]}{value:g}"?' if 0 < value < 1 else ""


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


def few_units(n_units: ArrayLike, confidence: float | Floats) -> Floats:
    """Return the share of cases that count if their variance comes from few units."""
    quantile = student.ppf(confidence, np.asarray(n_units) - 1)
    return np.asarray((norm.ppf(confidence) / quantile) ** 2)


def times_needed(
    error: ArrayLike,
    allowed: ArrayLike,
    effective: Callable[[float], ArrayLike],
    confidence: float | Floats,
) -> float | None:
    """Return how many times the data would certify one of several errors, if they are alike.

    Parameters
    ----------
    effective: Effective numbers with a multiple of the data.
    """
    for more in _MORE:
        high = clopper_pearson(error, effective(more), confidence)[1]
        if (high <= np.asarray(allowed)).any():
            return float(more)
    return None


def strongest(bounds: Iterable[Bound], certify: Callable[[Bound], object]) -> str | None:
    """Return the first of several bounds, from strong to weak, that can be certified."""
    return next((str(bound) for bound in bounds if certify(bound) is not None), None)


class Rates(NamedTuple):
    """Rates at a threshold, of all pairs or without each class in turn.

    Attributes
    ----------
    fmr: shape (n_classes,). Share of dissimilar pairs at the threshold or nearer.
    recall: shape (n_classes,). Share of similar pairs at the threshold or nearer.
    """

    fmr: Floats
    recall: Floats

    def precision(self, prevalence: float) -> Floats:
        """Share of similar ones among pairs called the same; nan if there are none."""
        true, false = prevalence * self.recall, (1 - prevalence) * self.fmr
        with np.errstate(invalid="ignore"):
            return np.asarray(true / (true + false))


class PairEvidence:
    """Distances of pairs whose classes are known.

    Parameters
    ----------
    similar: shape (n_pairs,). Whether the two are the same.
    classes: shape (n_pairs, 2). Class numbers of the two rows of each pair, from 0.
    unlike: Share of the similar pairs of the data in classes that are far larger than all of
        these. Nothing is known of them: a recall can only be certified if it allows to lose them.
    units: What messages call the classes.

    Attributes
    ----------
    thresholds: Every distance that occurs, in ascending order.
    prevalence: Share of similar pairs.
    """

    def __init__(
        self,
        distances: Vector,
        similar: NDArray[np.bool_],
        classes: Ints,
        weight: Vector | None = None,
        *,
        unlike: float = 0.0,
        units: str = "classes",
    ) -> None:
        names, codes = np.unique(classes, return_inverse=True)
        codes = codes.reshape(-1, 2)
        self.n_classes = len(names)
        self.thresholds = np.unique(distances)
        self.unlike, self.units = unlike, units
        weight = np.ones(len(similar)) if weight is None else weight
        self.prevalence = float(weight[similar].sum() / weight.sum())
        self.similar = _Kind.of(distances, weight, codes, similar, self.n_classes)
        self.dissimilar = _Kind.of(distances, weight, codes, ~similar, self.n_classes)

    def rates(self, threshold: float) -> tuple[Rates, Rates]:
        """Return the rates at a threshold, of all pairs and without each class."""
        fmr, fmr_without = self.dissimilar.shares(threshold)
        recall, recall_without = self.similar.shares(threshold)
        return Rates(fmr, recall), Rates(fmr_without, recall_without)

    def curve(self, thresholds: Vector) -> Rates:
        """Return the rates of all pairs at many thresholds."""
        return Rates(self.dissimilar.curve(thresholds), self.similar.curve(thresholds))

    @property
    def n_counted(self) -> int:
        """Number of classes with similar pairs, or with dissimilar ones if that is smaller."""
        return min(self.similar.n_classes, self.dissimilar.n_classes)

    @property
    def one_class(self) -> tuple[float, float]:
        """How many similar pairs a class has, and dissimilar ones two classes, on average."""
        n = self.n_classes
        similar, dissimilar = len(self.similar.distances), len(self.dissimilar.distances)
        return max(1.0, similar / n), max(1.0, 2 * dissimilar / (n * (n - 1)))

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self.similar.distances) + len(self.dissimilar.distances)

    def __str__(self) -> str:
        return (
            f"{self.n_classes} {self.units} ({len(self.similar.distances)} similar and "
            f"{len(self.dissimilar.distances)} dissimilar pairs)"
        )


@dataclass(frozen=True, eq=False)
class UnlabelledPairs:
    """Pairs that a threshold is used on, of which it is not known whether they are similar.

    Of n pairs, K(t) are at the threshold t or nearer. At most n fmr(t) of these are dissimilar, so
    that the precision is at least 1 - n fmr(t) / K(t), whatever share of the pairs is similar.

    Attributes
    ----------
    distances: In ascending order; pairs without one are infinitely far apart.
    """

    distances: Vector
    n_pairs: int

    def found(self, thresholds: Floats | float) -> Ints:
        """Return K(t): how many pairs are at the threshold or nearer."""
        return np.asarray(np.searchsorted(self.distances, thresholds, "right"))

    def precision(self, thresholds: Floats | float, fmr: Floats | float) -> Floats:
        """Return the smallest precision with this false match rate; nan if no pair is found."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.maximum(0.0, 1 - self.n_pairs * np.asarray(fmr) / self.found(thresholds))

    def prevalence(self, threshold: float, rates: Rates) -> float:
        """Estimate the share of similar pairs from how many are found at a threshold."""
        true = self.found(threshold) / self.n_pairs - rates.fmr
        return float(np.clip(true / rates.recall, 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class _Kind:
    """Pairs of one kind, by distance."""

    distances: Vector
    weight: Vector
    classes: Ints
    total: Vector

    @classmethod
    def of(
        cls, distances: Vector, weight: Vector, classes: Ints, chosen: NDArray[np.bool_], n: int
    ) -> _Kind:
        order = np.flatnonzero(chosen)[np.argsort(distances[chosen], kind="stable")]
        total = _by_class(classes[order], weight[order], n)
        return cls(distances[order], weight[order], classes[order], total)

    @property
    def n_classes(self) -> int:
        """Number of classes that have such pairs."""
        return int((self.total > 0).sum())

    def curve(self, thresholds: Vector) -> Vector:
        """Return the shares at thresholds or nearer."""
        sums = np.concatenate([[0.0], np.cumsum(self.weight)]) / self.weight.sum()
        return np.asarray(sums[np.searchsorted(self.distances, thresholds, "right")])

    def shares(self, threshold: float) -> tuple[Floats, Floats]:
        """Return the share at a threshold or nearer, of all and without each class."""
        k = int(np.searchsorted(self.distances, threshold, "right"))
        near, every = self.weight[:k].sum(), self.weight.sum()
        without = near - _by_class(self.classes[:k], self.weight[:k], len(self.total))
        with np.errstate(invalid="ignore", divide="ignore"):
            left = every - self.total
            # What is left may be rounding: then there is no rate without the class.
            shares = np.where(left > 1e-9 * every, without / left, np.nan)
        return np.asarray(near / every), np.clip(shares, 0.0, 1.0)


def _by_class(classes: Ints, weight: Vector, n: int) -> Vector:
    """Sum weights by class; a pair within a class counts once."""
    first, second = classes.T
    sums = np.bincount(first, weight, n)
    across = first != second
    return np.asarray(sums + np.bincount(second[across], weight[across], n))


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold, and its error rates.

    Attributes
    ----------
    threshold : float
        Pairs at this distance or less are the same.
    estimate : float
        The figure of the target on the calibration pairs: precision, false match rate or recall.
    bound : float
        Certified bound on the figure.
    fmr, recall, precision : float
        Rates on the calibration pairs; the precision is that at the prevalence.
    prevalence : float
        Share of similar pairs that precision and costs are for.
    confidence : float
    n_classes, n_pairs : int
        Calibration data.
    effective_pairs : float
        Effective number of independent pairs behind the figure.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import PairVerifier, RCA
    >>> rng = np.random.default_rng(0)
    >>> person = np.repeat(np.arange(200), 4)
    >>> X = rng.normal(size=(200, 8))[person] + 0.3 * rng.normal(size=(800, 8))
    >>> verifier = PairVerifier(RCA(), target="fmr<=0.02", calibration=0.5, random_state=0)
    >>> point = verifier.fit(X, person).operating_point_
    >>> point.fmr < point.bound <= 0.02
    True
    """

    threshold: float
    estimate: float
    bound: float
    fmr: float
    recall: float
    precision: float
    prevalence: float
    confidence: float
    n_classes: int
    n_pairs: int
    effective_pairs: float

    def promise(self, target: str) -> str:
        """Say what the threshold is certified for."""
        figure = f"{self.estimate:.4g}"
        side = "most" if "<=" in target else "least"
        confidence = f"{100 * self.confidence:g} % confidence"
        return f"{target} is certified with {confidence}: {figure}, at {side} {self.bound:.4g}."

    def describe(self, target: str) -> str:
        """Say what the threshold is certified for, and its error rates."""
        prevalence = f"{100 * self.prevalence:.3g} % of pairs are similar"
        return (
            f"{self.promise(target)}\n"
            f"On {self.n_pairs} pairs of {self.n_classes} classes: false match rate "
            f"{self.fmr:.3g}, recall {100 * self.recall:.1f} %, precision "
            f"{100 * self.precision:.1f} % if {prevalence}."
        )


def at_threshold(
    point: OperatingPoint,
    threshold: float,
    evidence: PairEvidence,
    unlabelled: UnlabelledPairs | None = None,
) -> OperatingPoint:
    """Return an operating point with another threshold, and the rates there."""
    rates, share = evidence.rates(threshold)[0], point.prevalence
    precision = rates.precision(share)
    if unlabelled is not None:
        share = unlabelled.prevalence(threshold, rates)
        precision = unlabelled.precision(threshold, rates.fmr)
    return replace(
        point,
        threshold=threshold,
        fmr=float(rates.fmr),
        recall=float(rates.recall),
        precision=float(precision),
        prevalence=share,
    )


def choose_threshold(
    evidence: PairEvidence,
    target: Bound,
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

    def certify(bound: Bound) -> OperatingPoint | None:
        return _PairTrials(evidence, bound, share, confidence, unlabelled).certified()

    found = certify(target)
    if found is None:
        trials = _PairTrials(evidence, target, share, confidence, unlabelled)
        raise trials.refusal(strongest(target.weaker, certify))
    return at_threshold(found, found.threshold, evidence, unlabelled)


class _Look(NamedTuple):
    """The error at a threshold."""

    error: float
    allowed: float
    design_effect: float


class _PairTrials:
    """Thresholds that are tried until one is certified to meet a bound."""

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
        self.few_classes = float(few_units(kind.n_classes, confidence))
        thresholds = evidence.thresholds
        curve = evidence.curve(thresholds)
        met = np.flatnonzero(
            (self._error(curve) <= self._allowed(curve, thresholds)) & (curve.recall > 0)
        )
        # The last threshold at which the pairs themselves meet the target, and those beyond.
        place = int(met[-1 if self.grows else 0]) if len(met) else 0
        self.can_be_met = len(met) > 0 or target.measure == "fmr"
        self.just_met = self.look(float(thresholds[place]))
        places = np.arange(place, -1, -1) if self.grows else np.arange(place, len(thresholds))
        if len(places) > _CANDIDATES:
            # Close to each other at the start.
            even = np.linspace(0, len(places) - 1, _CANDIDATES // 2)
            near = np.geomspace(1, len(places) - 1, _CANDIDATES // 2)
            places = places[np.unique(np.concatenate([even, near]).astype(np.intp))]
        self.thresholds = thresholds[places]

    def certified(self) -> OperatingPoint | None:
        """Return the first threshold that is certified, with its rates; None if none is."""
        if not self.can_be_met or (not self.grows and self.evidence.unlike > self.target.error):
            return None
        for threshold in self.thresholds.tolist():
            look = self.look(threshold)
            effective = self._effective_pairs(look)
            upper = float(clopper_pearson(look.error, effective, self.confidence)[1])
            if upper <= look.allowed:
                rates = self.evidence.rates(threshold)[0]
                estimate, bound = (self._figure(rates, threshold, e) for e in (look.error, upper))
                return OperatingPoint(
                    threshold,
                    estimate,
                    bound,
                    float(rates.fmr),
                    float(rates.recall),
                    float(rates.precision(self.prevalence)),
                    self.prevalence,
                    self.confidence,
                    self.evidence.n_classes,
                    self.evidence.n_pairs,
                    effective,
                )
        return None

    def look(self, threshold: float) -> _Look:
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

    def _effective_pairs(self, look: _Look, more: float = 1.0) -> float:
        """Return the effective number of independent pairs, with a multiple of the evidence."""
        n = more * self.n_pairs * self.few_classes
        if self.unlabelled is not None:
            n = 1 / (1 / n + 1 / self.unlabelled.n_pairs)
        return n / max(self.just_met.design_effect, look.design_effect)

    def refusal(self, weaker: str | None) -> TargetNotCertifiedError:
        """Say why, and how many classes are needed if they are like these."""
        target, evidence, classes, pairs = self.target, self.evidence, None, None
        if not self.can_be_met:
            thresholds = evidence.thresholds
            precision = self._precision(evidence.curve(thresholds), thresholds)
            best = int(np.nanargmax(precision))
            share = "" if self.unlabelled else f" and a prevalence of {self.prevalence:.3g}"
            why = (
                f"{target} cannot be met: the largest precision of the calibration pairs is "
                f"{precision[best]:.3g}, at the threshold {thresholds[best]:.4g}{share}; choose a "
                "weaker target or a better metric."
            )
        elif not self.grows and evidence.unlike > target.error:
            why = (
                f"{target} cannot be certified with {evidence}: {100 * evidence.unlike:.0f} % of "
                "the similar pairs are in classes far larger than these. Calibrate on such classes "
                "(another random_state, or a larger share), or give classes of one size."
            )
        else:
            looks = [self.look(threshold) for threshold in self.thresholds.tolist()]
            if target.measure == "fmr":
                looks.append(looks[0]._replace(error=0.0))
            error, allowed = np.array([(look.error, look.allowed) for look in looks]).T
            more = times_needed(
                error,
                allowed,
                lambda more: [self._effective_pairs(look, more) for look in looks],
                self.confidence,
            )
            if more is None and self.unlabelled is not None:
                why = (
                    f"{target} cannot be certified: too few of the {self.unlabelled.n_pairs} pairs "
                    "without labels are similar; choose a weaker target."
                )
            else:
                more = float(_MORE[-1]) if more is None else more
                classes, pairs = (math.ceil(more * n) for n in (evidence.n_classes, self.n_pairs))
                low, high = (math.ceil(share * pairs) for share in _RANGES[target.measure])
                kind = "dissimilar" if self.grows else "similar"
                why = (
                    f"{target} cannot be certified at {100 * self.confidence:g} % confidence with "
                    f"{evidence}: the {kind} pairs count as about "
                    f"{self._effective_pairs(looks[0]):.0f} independent ones; give about {classes} "
                    f"{evidence.units} to calibrate on ({pairs} {kind} pairs, most likely "
                    f"{max(low, self.n_pairs + 1)} to {high}), or choose a weaker target."
                )
        can = f" With these pairs, {weaker} can be certified." if weaker else ""
        return TargetNotCertifiedError(why + can, classes, pairs, weaker)


def jackknife_variance(without: Floats) -> float:
    """Return the variance of a figure from its values without each class."""
    values = without[~np.isnan(without)]
    n = len(values)
    return float((n - 1) / n * ((values - values.mean()) ** 2).sum()) if n > 1 else math.inf
