"""Who is worth it: better than Euclidean distance beyond noise, with no simpler one as good.

Errors are compared by the sign test: of the rows on which two contenders differ, one errs on fewer
than a fair coin would give. Rankings must pass two tests on the mean difference of their average
precision. By rows: each takes part as a query and, in the rankings of all others, as one that is
found, so that the mean is a U-statistic of degree two and its standard error twice that of
independent rows. By folds: Student's test with the variance enlarged for training rows that folds
share (C. Nadeau, Y. Bengio: Inference for the generalization error, Machine Learning 52, 2003),
which sees what a learner owes to its particular training rows. Marks allow for the number of
contenders (Holm).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.stats import binomtest
from scipy.stats import t as student

from nearfar.comparison.methods import Method
from nearfar.typing import Vector

Goal = Literal["classification", "ranking"]

SIGNIFICANT = 0.05
NO_TIME = "no time left"
_ROUNDING = 1e-9


def _nothing() -> Vector:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class MethodResult:
    """What a contender has achieved.

    Attributes
    ----------
    contender : Method
    errors, triplet_accuracies, maps_at_r, seconds : array of shape (n_folds,)
        k-NN error, triplet accuracy, MAP@R and time of the fit on each fold; empty if left out.
    wrong : array of shape (n_rows,)
        How often each row was classified wrongly, from 0 to 1; nan for rows never tested.
    average_precision : array of shape (n_rows,)
        How well each row ranked its class; nan for rows never ranked.
    note : str
        Why it was left out, if it was.
    """

    contender: Method
    errors: Vector = field(default_factory=_nothing)
    triplet_accuracies: Vector = field(default_factory=_nothing)
    maps_at_r: Vector = field(default_factory=_nothing)
    seconds: Vector = field(default_factory=_nothing)
    wrong: Vector = field(default_factory=_nothing)
    average_precision: Vector = field(default_factory=_nothing)
    note: str = ""

    @property
    def name(self) -> str:
        """Who it is."""
        return self.contender.name

    @property
    def error(self) -> float:
        """Mean error over the folds."""
        return _mean(self.errors)

    @property
    def triplet_accuracy(self) -> float:
        """Mean triplet accuracy over the folds that have triplets."""
        return _mean(self.triplet_accuracies)

    @property
    def map_at_r(self) -> float:
        """Mean MAP@R over the folds that have rows to rank."""
        return _mean(self.maps_at_r)


class GoalComparison:
    """Contenders by one goal.

    Parameters
    ----------
    entries : list of MethodResult
        Simplest first.
    goal : {"classification", "ranking"}
        Few errors of the vote of neighbours, or a high MAP@R.
    test_share : float, default=0.25
        Test rows for each training row of a fold: 1 / (k - 1) for k folds.
    incomplete : bool, default=False
        Whether some were left out for lack of time, so that nobody's winning tells little.

    Attributes
    ----------
    reference : MethodResult
        Euclidean distance, on rows as they are or standardised, whichever does better.
    p_values : dict of str to float
        Of each contender against the reference, adjusted for their number (Holm).
    """

    def __init__(
        self,
        entries: list[MethodResult],
        goal: Goal,
        *,
        test_share: float = 0.25,
        incomplete: bool = False,
    ) -> None:
        self.entries, self.goal = entries, goal
        self.test_share, self.incomplete = test_share, incomplete
        nothing = [entry for entry in entries if entry.contender.kind == "nothing"]
        self.reference = self._best(nothing[::-1])
        self.p_values = self._adjusted()

    def loss(self, entry: MethodResult) -> float:
        """Mean error, or what MAP@R lacks; all of it where nothing could be ranked."""
        if self.goal == "classification":
            return entry.error
        return 1.0 if np.isnan(entry.map_at_r) else 1.0 - entry.map_at_r

    def p_value(self, one: MethodResult, other: MethodResult) -> float:
        """Chance of such a difference between two that are equally good.

        Examples
        --------
        >>> import numpy as np
        >>> from nearfar.comparison import GoalComparison, MethodResult, default_methods
        >>> plain = default_methods([])[:2]
        >>> right = MethodResult(plain[0], errors=np.zeros(1), wrong=np.zeros(6))
        >>> wrong = MethodResult(plain[1], errors=np.ones(1), wrong=np.ones(6))
        >>> GoalComparison([right, wrong], "classification").p_value(right, wrong)
        0.03125
        """
        if self.goal == "classification":
            return _sign_test(one.wrong - other.wrong, self.loss(one) - self.loss(other))
        return max(
            _row_test(one.average_precision - other.average_precision),
            _fold_test(one.maps_at_r - other.maps_at_r, self.test_share),
        )

    def beats(self, one: MethodResult, other: MethodResult) -> bool:
        """Whether one does better than the other by more than noise."""
        return self.loss(one) < self.loss(other) and self.p_value(one, other) < SIGNIFICANT

    def mark(self, entry: MethodResult) -> str:
        """Return "+" or "-" for better or worse than the reference beyond noise, or ""."""
        if self.p_values.get(entry.name, 1.0) >= SIGNIFICANT:
            return ""
        return "+" if self.loss(entry) < self.loss(self.reference) else "-"

    @property
    def winner(self) -> MethodResult | None:
        """Who is worth it, or None.

        The best of those that are better than Euclidean distance beyond noise; or the best plain
        one of them, if that one does not do better beyond noise.
        """
        better = [entry for entry in self.entries if self.mark(entry) == "+"]
        if not better:
            return None
        best = self._best(better)
        plain = self._as_good_as(best, better)
        return self._best(plain) if plain else best

    def _as_good_as(self, best: MethodResult, entries: list[MethodResult]) -> list[MethodResult]:
        """Return plain entries that do better than the reference and not worse than the best."""
        limit = self.loss(self.reference)
        plain = [e for e in entries if e.contender.kind == "plain" and self.loss(e) < limit]
        return [entry for entry in plain if not self.beats(best, entry)]

    @property
    def verdict(self) -> str:
        """Whether a metric is worth learning, in words."""
        reference = f"{called(self.reference)} at {self._score(self.reference)}"
        winner, best = self.winner, self._best(self.entries)
        if winner is None:
            least = f"; the best is {self._named(best)}"
            if self.loss(best) > self.loss(self.reference) - _ROUNDING:
                least = ""
            nothing = f"nothing is better than {reference} beyond noise{least}."
            return nothing if self.incomplete else f"no metric is worth learning, {nothing}"
        take = f"take {self._named(winner)}; it is better than {reference}"
        learned = [entry for entry in self.entries if entry.contender.kind == "learned"]
        if winner.contender.kind == "plain" and learned:
            return (
                f"{take}, and nothing learned is better beyond noise "
                f"(the best is {self._named(self._best(learned))})."
            )
        plain = self._as_good_as(winner, self.entries)
        if winner.contender.kind == "learned" and plain:
            return f"{take} beyond noise, though not than {self._named(self._best(plain))}."
        return f"{take} beyond noise."

    def _named(self, entry: MethodResult) -> str:
        return f"{entry.name} at {self._score(entry)}"

    def _score(self, entry: MethodResult) -> str:
        if self.goal == "classification":
            return f"{100 * entry.error:.1f} % error"
        return f"MAP@R {entry.map_at_r:.3f}"

    def _best(self, entries: list[MethodResult]) -> MethodResult:
        return min(entries, key=self.loss)

    def _adjusted(self) -> dict[str, float]:
        others = [entry for entry in self.entries if entry is not self.reference]
        p = np.array([self.p_value(entry, self.reference) for entry in others])
        order = np.argsort(p, kind="stable")
        raised = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
        adjusted = np.empty(len(p))
        adjusted[order] = np.maximum.accumulate(raised)
        return {entry.name: float(v) for entry, v in zip(others, adjusted, strict=True)}


def _mean(values: Vector) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _sign_test(difference: Vector, mean: float) -> float:
    """Chance that a fair coin is so one-sided on the rows that differ; 1 if the mean disagrees."""
    better, worse = int((difference < 0).sum()), int((difference > 0).sum())
    if (worse - better) * mean <= 0:
        return 1.0
    return float(binomtest(better, better + worse).pvalue)


def _row_test(difference: Vector) -> float:
    """Chance of so large a mean of a U-statistic of degree two, from its projections on rows."""
    known = difference[~np.isnan(difference)]
    return _student_test(known, 4 / len(known)) if len(known) > 1 else 1.0


def _fold_test(difference: Vector, test_share: float) -> float:
    """Chance of so large a mean over folds that share training rows; no objection from one fold."""
    known = difference[~np.isnan(difference)]
    return _student_test(known, 1 / len(known) + test_share) if len(known) > 1 else 0.0


def _student_test(difference: Vector, variance: float) -> float:
    """Test that the mean is zero, its variance being so many times that of the values."""
    if not difference.any():
        return 1.0
    error = float(difference.std(ddof=1)) * math.sqrt(variance)
    ratio = abs(float(difference.mean())) / error if error > 0 else math.inf
    return float(2 * student.sf(ratio, len(difference) - 1))


def called(entry: MethodResult) -> str:
    """Return what Euclidean distance is called in a sentence."""
    as_is = " on rows as they are" if entry.contender.raw else ""
    return f"Euclidean distance{as_is}"
