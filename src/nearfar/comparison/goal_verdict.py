"""Which method to use, how much it gains, and how sure that is.

`GoalComparison.verdict` is the best guess: the method with the largest expected gain over Euclidean
distance (`gains`), and how likely that gain is to be real. A plain method that does as well comes
first.

`GoalComparison.winner` is the strict rule: methods are compared with Euclidean distance by the
tests of `significance`, and p-values are adjusted for the number of methods (Holm).

Two methods are only compared on cells that both have. If that is one fold of several, rankings are
not tested, because there is no test by folds; fits that were stopped early are not compared at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nearfar.comparison.gains import (
    Gain,
    Observed,
    expected_gains,
    observe_judgements,
    observe_rows,
)
from nearfar.comparison.method_results import MethodResult, paired
from nearfar.comparison.significance import fold_test, holm, judgement_test, row_test, sign_test
from nearfar.comparison.wording import Wording
from nearfar.constraints.folds import joined_classes
from nearfar.evaluate.intervals import group_variance, mean_interval
from nearfar.evaluate.measures import measure_of
from nearfar.evaluate.overlap import OverlappingJudgements
from nearfar.typing import Ints, Vector

Category = Literal[
    "clearly better",
    "probably better",
    "no difference that matters",
    "too few rows to tell",
    "nothing to compare",
]

CLEAR, PROBABLE = 0.95, 0.75
"""Probabilities from which a method is clearly and probably better."""
EVEN = 0.5
"""A method does as well as another if that is better with at most this probability."""

SIGNIFICANCE_LEVEL = 0.05


class BaseVerdict:
    """What all verdicts have: a category and a headline."""

    category: Any
    headline: str

    @property
    def helps(self) -> bool:
        """Whether the method is clearly or probably better."""
        return self.category in ("clearly better", "probably better")

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain numbers and strings."""
        return dict(vars(self))

    def __str__(self) -> str:
        return self.headline


@dataclass(frozen=True)
class Verdict(BaseVerdict):
    """Which method to use for a goal.

    Attributes
    ----------
    method : str or None
        The best guess; None if no other method was tried.
    reference : str
        The Euclidean distance that it is compared with.
    category : str
        "clearly better" (at least 95 % sure), "probably better" (at least 75 % sure), "no
        difference that matters" (at most 25 % sure, or worse when tried), "too few rows to tell"
        (in between), or "nothing to compare".
    gain, low, high : float
        Expected gain over the reference and its 90 % interval, by the measure of the goal.
    probability : float
        Probability that the gain makes a practical difference (`gains.smallest_gain`).
    headline : str
        All of this in words.
    """

    method: str | None
    reference: str
    category: Category
    gain: float
    low: float
    high: float
    probability: float
    headline: str


class GoalComparison:
    """Methods compared by the measure of one goal.

    Parameters
    ----------
    results : list of MethodResult
        Simplest methods first.
    goal : str
        The goal of a measure: "classification", "ranking", "triplets" or "pairs".
    test_share : float, default=0.25
        Test rows for each training row of a fold.
    overlap : OverlappingJudgements, optional
        The judgements, for triplets and pairs.
    unseen : array of shape (n_rows,), optional
        The class of each row, if methods did not learn from it. What counts is then the mean over
        the rows of a class.
    groups : array of shape (n_rows,), optional
        The group of each row. What counts is then the mean over the rows of a group, or over
        unseen classes that share groups.

    Attributes
    ----------
    measure : Measure
        What decides.
    reference : MethodResult
        Euclidean distance on unscaled or standardised rows, whichever is better.
    p_values : dict of str to float
        p-value of each method against the reference, adjusted for their number (Holm).
    gains : dict of str to Gain
        Expected gain of each method over the reference.
    verdict : Verdict
        Which method to use.
    """

    def __init__(
        self,
        results: list[MethodResult],
        goal: str,
        *,
        test_share: float = 0.25,
        overlap: OverlappingJudgements | None = None,
        unseen: Ints | None = None,
        groups: Ints | None = None,
    ) -> None:
        self.results, self.goal, self.test_share = results, goal, test_share
        self.measure, self.overlap = measure_of(goal), overlap
        self._units = _units(unseen, groups) if overlap is None else None
        self.noise = self.measure.noise if unseen is None else self.measure.class_noise
        baselines = [result for result in results if result.method.kind == "baseline"]
        self.reference = self._best(baselines[::-1])
        self.p_values = self._adjusted_p_values()
        self._levels = self._levels_of_data()
        self.gains = {n: g for level in self._levels for n, g in self._gains(level).items()}
        self.verdict = self._verdict()

    def loss(self, result: MethodResult) -> float:
        """Mean loss by the measure of the goal; 1 if nothing could be scored."""
        loss = result.loss(self.measure.name)
        return 1.0 if np.isnan(loss) else loss

    def interval(self, result: MethodResult) -> tuple[float, float]:
        """Return the 90 % interval of the mean loss of a method."""
        losses = result.losses[self.measure.name]
        if self.overlap is not None:
            return self.overlap.interval(losses)
        known = ~np.isnan(losses)
        losses = losses[known]
        n = len(losses)
        if n == 0:
            return 0.0, 1.0
        mean = float(losses.mean())
        if self._units is None:
            return mean_interval(mean, self.noise * float(losses.var()) / n, n)
        variance, n_units = group_variance(losses - mean, self._units[known])
        return mean_interval(mean, self.noise * variance, n_units, grouped=True)

    def p_value(self, one: MethodResult, other: MethodResult) -> float:
        """Probability of such a difference between two methods that are equally good.

        Examples
        --------
        >>> import numpy as np
        >>> from nearfar.comparison import GoalComparison, MethodResult, default_methods
        >>> methods = default_methods([])
        >>> zeros, ones = {"error": np.zeros(6)}, {"error": np.ones(6)}
        >>> right, wrong = (MethodResult(m, e, e) for m, e in zip(methods, (zeros, ones)))
        >>> GoalComparison([right, wrong], "classification").p_value(right, wrong)
        0.03125
        """
        pair = paired(one, other)
        if pair is None or any(result.stopped_early for result in pair):
            return 1.0
        one, other = pair
        difference = self._by_row(one, other)
        if self.overlap is not None:
            return judgement_test(difference, self.overlap)
        if self.measure.binary:
            return sign_test(difference, self.loss(one) - self.loss(other))
        if len(one.cells) == 1 < one.n_folds:
            return 1.0
        name = self.measure.name
        by_fold = one.fold_losses[name] - other.fold_losses[name]
        return max(row_test(difference, self.noise), fold_test(by_fold, self.test_share))

    def _by_row(self, one: MethodResult, other: MethodResult) -> Vector:
        """Return how much larger the losses of one method are than another's."""
        name = self.measure.name
        return self.counted(one.losses[name] - other.losses[name])

    def counted(self, values: Vector) -> Vector:
        """Return values of rows as what counts: rows, or means over groups or unseen classes.

        nan marks rows, groups and classes without values.
        """
        if self._units is None:
            return values
        known = ~np.isnan(values)
        n = int(self._units.max()) + 1
        sums, numbers = (np.bincount(self._units[known], w, n) for w in (values[known], None))
        return np.divide(sums, numbers, out=np.full(n, np.nan), where=numbers > 0)

    def difference(self, one: MethodResult, other: MethodResult) -> float:
        """Return how much smaller the loss of one method is than another's, where both were tried.

        It is -infinity if they were tried on nothing in common.
        """
        pair = paired(one, other)
        return -math.inf if pair is None else self.loss(pair[1]) - self.loss(pair[0])

    def is_better(self, one: MethodResult, other: MethodResult) -> bool:
        """Tell whether one method is significantly better than another, unadjusted."""
        return self.difference(one, other) > 0 and self.p_value(one, other) < SIGNIFICANCE_LEVEL

    def mark(self, result: MethodResult) -> str:
        """Return "+" or "-" if a method is significantly better or worse than the reference."""
        if self.p_values.get(result.name, 1.0) >= SIGNIFICANCE_LEVEL:
            return ""
        return "+" if self.difference(result, self.reference) > 0 else "-"

    @property
    def winner(self) -> MethodResult | None:
        """The best of the methods that are significantly better than Euclidean distance, or None.

        It is the best plain one of them, unless the best of all is significantly better. Of methods
        tried on different data, those with the most training rows count; of these, one with fewer
        folds is better only if it is so on the folds that both have, by more than noise.
        """
        better = [result for result in self.results if self.mark(result) == "+"]
        if not better:
            return None
        most = max(result.n_train for result in better)
        rivals = [result for result in better if result.n_train == most]
        best = self._best(rivals)
        for result in sorted(rivals, key=lambda r: (-len(r.cells), self.loss(r))):
            if result.cells != best.cells and self.is_better(result, best):
                best = result
        plain = [result for result in rivals if result.method.kind == "plain"]
        as_good = [result for result in plain if not self.is_better(best, result)]
        return self._best(as_good) if as_good else best

    @property
    def best(self) -> MethodResult | None:
        """The method of the verdict, or None if it does not promise to gain anything."""
        named = [result for result in self.results if result.name == self.verdict.method]
        return next((result for result in named if self.promises(result)), None)

    def promises(self, result: MethodResult) -> bool:
        """Tell whether a method is expected to gain something, and was not worse when tried."""
        gain = self.gains.get(result.name)
        return gain is not None and gain.gain > 0 and self.difference(result, self.reference) >= 0

    def probability_better(self, one: MethodResult, other: MethodResult) -> float:
        """Probability that one method is better than another by what makes a difference.

        It is 0 if they were tried on nothing in common.
        """
        pair = paired(other, one)
        if pair is None:
            return 0.0
        observed, loss = self._observed(*pair), self.loss(pair[0])
        return expected_gains([observed], loss, self.measure.spreads, prior_mean=0.0)[0].probability

    def _levels_of_data(self) -> list[list[MethodResult]]:
        """Methods to compare with the reference, by number of training rows, most first."""
        levels: dict[float, list[MethodResult]] = {}
        for result in self.results:
            untried = result.stopped_early or paired(result, self.reference) is None
            if result.method.kind != "baseline" and not untried:
                levels.setdefault(result.n_train, []).append(result)
        return [levels[n_train] for n_train in sorted(levels, reverse=True)]

    def _gains(self, level: list[MethodResult]) -> dict[str, Gain]:
        pairs = [paired(self.reference, result) or (self.reference, result) for result in level]
        loss = float(np.mean([self.loss(reference) for reference, _ in pairs]))
        observed = [self._observed(*pair) for pair in pairs]
        gains = expected_gains(observed, loss, self.measure.spreads)
        return {result.name: gain for result, gain in zip(level, gains, strict=True)}

    def _observed(self, other: MethodResult, one: MethodResult) -> Observed:
        """How much smaller the loss of one method is than another's."""
        difference = self._by_row(other, one)
        if self.overlap is not None:
            return observe_judgements(difference, self.overlap)
        return observe_rows(difference, self.noise * self.measure.gain_noise)

    def _verdict(self) -> Verdict:
        """Return the best guess on the most data on which a method is better, or on the most."""
        verdicts = [self._verdict_on(number) for number in range(len(self._levels))]
        found = next((verdict for verdict in verdicts if verdict.helps), None)
        if found is not None or verdicts:
            return found or verdicts[0]
        headline = Wording(self.measure, self.reference).untried()
        category: Category = "nothing to compare"
        return Verdict(None, self.reference.name, category, 0.0, -math.inf, math.inf, 0.0, headline)

    def _verdict_on(self, number: int) -> Verdict:
        """Return the best guess among the methods of a level."""
        level = self._levels[number]
        best = self._best_guess(level)
        plain = self._best_of_kind("plain", [level])
        as_good = plain is not None and self.probability_better(best, plain) < EVEN
        chosen = plain if plain is not None and as_good else best
        gain = self.gains[chosen.name]
        category = categorise(gain.probability, promising=self.promises(chosen))
        wording = Wording(self.measure, self.reference)
        if category == "no difference that matters":
            headline = wording.unchanged(chosen, gain)
        else:
            headline = (
                wording.undecided(chosen, gain)
                if category == "too few rows to tell"
                else wording.recommended(chosen, category, gain)
            )
            other = plain
            if chosen.method.kind == "plain":
                other = self._best_of_kind("learned", self._levels[number:])
            if other is not None:
                headline += wording.beside(chosen, other, self._manner(chosen, other))
        figures = gain.gain, gain.low, gain.high, gain.probability
        return Verdict(chosen.name, self.reference.name, category, *figures, headline)

    def _best_guess(self, level: list[MethodResult]) -> MethodResult:
        """Return the method with the largest expected gain.

        One with fewer folds must probably be better on the folds that it shares with the best of
        the others.
        """
        best = max(level, key=self._expected_gain)
        most = max(len(result.cells) for result in level)
        thorough = max((r for r in level if len(r.cells) == most), key=self._expected_gain)
        return best if self.probability_better(best, thorough) >= PROBABLE else thorough

    def _expected_gain(self, result: MethodResult) -> float:
        return self.gains[result.name].gain

    def _best_of_kind(self, kind: str, levels: list[list[MethodResult]]) -> MethodResult | None:
        """Return the best method of a kind that gains something, on the most data."""
        for level in levels:
            found = [r for r in level if r.method.kind == kind and self.promises(r)]
            if found:
                return max(found, key=self._expected_gain)
        return None

    def _manner(self, chosen: MethodResult, other: MethodResult) -> str:
        probability = self.probability_better(chosen, other)
        if probability < EVEN:
            return "does as well"
        return "may do as well" if probability < PROBABLE else ""

    def _best(self, results: list[MethodResult]) -> MethodResult:
        """Return the best of the results that come from the most data."""
        most = max(result.extent for result in results)
        return min((r for r in results if r.extent == most), key=self.loss)

    def _adjusted_p_values(self) -> dict[str, float]:
        tested = [result for result in self.results if not result.stopped_early]
        others = [result for result in tested if result is not self.reference]
        p = np.array([self.p_value(result, self.reference) for result in others])
        return {result.name: float(v) for result, v in zip(others, holm(p), strict=True)}


def _units(unseen: Ints | None, groups: Ints | None) -> Ints | None:
    """Return the number of what counts as one in tests and intervals; None for rows."""
    if unseen is None or groups is None:
        return groups if unseen is None else unseen
    return joined_classes(unseen, groups)


def categorise(probability: float, *, promising: bool = True) -> Category:
    """Return what a probability means in words.

    Parameters
    ----------
    probability : float
        That a method is better.
    promising : bool
        Whether it was not worse when it was tried.

    Examples
    --------
    >>> from nearfar.comparison.goal_verdict import categorise
    >>> categorise(0.96), categorise(0.6)
    ('clearly better', 'too few rows to tell')
    """
    if probability >= CLEAR:
        return "clearly better"
    if probability >= PROBABLE:
        return "probably better"
    possible = promising and probability > 1 - PROBABLE
    return "too few rows to tell" if possible else "no difference that matters"
