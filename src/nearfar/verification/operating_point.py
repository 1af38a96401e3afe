"""A threshold that was chosen for a target, with its error rates."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nearfar.verification.evidence import PairEvidence, UnlabelledPairs


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold, and its error rates.

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
        Certified bound on the figure; None if the target is not a bound.
    fmr, recall, precision : float
        Rates on the calibration pairs; the precision is that at the prevalence.
    prevalence : float
        Share of similar pairs that precision and costs are for.
    confidence : float
    n_classes, n_pairs : int
        Calibration data.
    effective_pairs : float or None
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

    def promise(self, target: str) -> str:
        """Say what the threshold is certified for."""
        figure = f"{self.estimate:.4g}"
        if self.bound is None:
            return f"Chosen for {target}: {figure}."
        side = "most" if "<=" in target else "least"
        confidence = f"{100 * self.confidence:g} % confidence"
        return f"{target} is certified with {confidence}: {figure}, at {side} {self.bound:.4g}."

    def describe(self, target: str) -> str:
        """Say what the threshold is certified for, and its error rates."""
        low, high = self.interval
        prevalence = f"{100 * self.prevalence:.3g} % of pairs are similar"
        return (
            f"{self.promise(target)}\n"
            f"On {self.n_pairs} pairs of {self.n_classes} classes: false match rate "
            f"{self.fmr:.3g}, recall {100 * self.recall:.1f} %, precision "
            f"{100 * self.precision:.1f} % if {prevalence}.\n"
            f"Interval of the threshold: {low:.6g} to {high:.6g}."
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
