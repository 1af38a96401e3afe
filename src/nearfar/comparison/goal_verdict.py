"""Which method to use, how much it gains, and how sure that is.

The reference is the best of what people do without learning: Euclidean distance on unscaled or
standardised rows or, where it is probably better than both, cosine distance.

`GoalComparison.verdict` is the answer, and the only one: `nearfar learn` writes what it recommends,
and reports show it. The best guess is the method with the largest expected gain over the reference
(`gains`), of those that are metrics and were not worse when tried; a plain method that does as well
comes first. It is recommended if it is more likely than not to be better by what makes a practical
difference. If it is not, the reference is recommended.

`GoalComparison.winner` is the strict rule: methods are compared with the reference by the tests of
`significance`, and p-values are adjusted for the number of methods (Holm).

Two methods are only compared on cells that both have. If that is one fold of several, rankings are
not tested, because there is no test by folds; fits that were stopped early are not compared at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property

import numpy as np

from nearfar.comparison.compared_methods import COSINE, Method, default_methods
from nearfar.comparison.gains import (
    Gain,
    Observed,
    expected_gains,
    observe_judgements,
    observe_rows,
)
from nearfar.comparison.method_results import MethodResult, paired
from nearfar.comparison.significance import fold_test, holm, judgement_test, row_test, sign_test
from nearfar.comparison.verdict import EVEN, PROBABLE, Category, Verdict, categorise
from nearfar.comparison.verdict_wording import Wording
from nearfar.constraints.folds import joined_classes
from nearfar.evaluate.intervals import group_variance, mean_interval, ratio_interval, value_interval
from nearfar.evaluate.measures import Measure, measure_of
from nearfar.evaluate.overlap import OverlappingJudgements
from nearfar.metrics.metric import Metric
from nearfar.typing import Floats, Ints, Vector

SIGNIFICANCE_LEVEL = 0.05
"""The usual one; marks in tables say it."""


class GoalComparison:
    """Methods compared by the measure of one goal.

    Parameters
    ----------
    results : list of MethodResult
        Simplest methods first.
    goal : str or Measure
        The goal of a measure: "classification", "ranking", "regression", "triplets" or "pairs"; or
        the measure.
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
    numbers : array of shape (n_rows,), optional
        What is predicted, if these are numbers.

    Attributes
    ----------
    measure : Measure
        What decides.
    goal : str
        What methods that are better by it are good for.
    cases : str
        What was tested: rows, groups or classes of them, triplets or pairs.
    reference : MethodResult
        The baseline: Euclidean distance on unscaled or standardised rows, whichever is better, or
        cosine distance if that is probably better than both.
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
        goal: str | Measure,
        *,
        test_share: float = 0.25,
        overlap: OverlappingJudgements | None = None,
        unseen: Ints | None = None,
        groups: Ints | None = None,
        numbers: Vector | None = None,
    ) -> None:
        self.results, self.test_share, self.overlap = results, test_share, overlap
        self.numbers = numbers
        self.measure = measure_of(goal) if isinstance(goal, str) else goal
        self.goal = self.measure.goal
        self.noise = self.measure.noise if unseen is None else self.measure.class_noise
        # What counts as one in tests and intervals; None for rows.
        self._units = groups if unseen is None else unseen
        if overlap is not None:
            self._units = None
        elif unseen is not None and groups is not None:
            self._units = joined_classes(unseen, groups)
        self.cases = self.measure.supervision[0] if self.measure.of == "judgements" else "rows"
        # Of groups that are mostly single rows there are hardly fewer than rows.
        if self._units is not None and len(self._units) >= 2 * len(np.unique(self._units)):
            self.cases = "groups" if unseen is None else "classes"

    @cached_property
    def reference(self) -> MethodResult:
        """The best of what people do without learning."""
        baselines = [result for result in self.results if result.method.kind == "baseline"]
        plain = [result for result in self.results if result.method.kind == "plain"]
        cosine = next((result for result in plain if result.name == COSINE), None)
        if cosine is not None and not baselines:
            return cosine
        euclidean = self._best(baselines[::-1])
        if cosine is None or cosine.extent < euclidean.extent:
            return euclidean
        return cosine if self.probability_better(cosine, euclidean) >= PROBABLE else euclidean

    @cached_property
    def p_values(self) -> dict[str, float]:
        """p-value of each method against the reference, adjusted for their number (Holm)."""
        tested = [result for result in self.results if not result.stopped_early]
        others = [result for result in tested if result is not self.reference]
        p = np.array([self.p_value(result, self.reference) for result in others])
        return {result.name: float(v) for result, v in zip(others, holm(p), strict=True)}

    @cached_property
    def _levels(self) -> list[list[MethodResult]]:
        """Methods to compare with the reference, by number of training rows, most first."""
        levels: dict[float, list[MethodResult]] = {}
        for result in self.results:
            compared = result.method.kind != "baseline" and result is not self.reference
            tried = not result.stopped_early and paired(result, self.reference) is not None
            if compared and tried:
                levels.setdefault(result.n_train, []).append(result)
        return [levels[n_train] for n_train in sorted(levels, reverse=True)]

    @cached_property
    def gains(self) -> dict[str, Gain]:
        """Expected gain of each method over the reference."""
        gains: dict[str, Gain] = {}
        for level in self._levels:
            pairs = [paired(self.reference, result) or (self.reference, result) for result in level]
            loss = float(np.mean([self.loss(reference) for reference, _ in pairs]))
            observed = [self._observed(*pair) for pair in pairs]
            expected = expected_gains(observed, loss, self.measure.spreads)
            gains |= {result.name: gain for result, gain in zip(level, expected, strict=True)}
        return gains

    def loss(self, result: MethodResult) -> float:
        """Mean loss by the measure of the goal; 1 if nothing could be scored."""
        loss = result.loss(self.measure.name)
        return 1.0 if np.isnan(loss) else loss

    def interval(self, result: MethodResult) -> tuple[float, float]:
        """Return the 90 % interval of the mean loss of a method."""
        losses = result.losses[self.measure.name]
        if self.overlap is not None:
            return self.overlap.interval(losses)
        scored = ~np.isnan(losses)
        if self.numbers is not None:
            y = self.numbers[scored]
            units = None if self._units is None else self._units[scored]
            unit = (y - y.mean()) ** 2
            unit /= unit.mean() or 1.0
            return ratio_interval(losses[scored], unit, groups=units, noise=self.noise)
        if self._units is None or not scored.any():
            return value_interval(losses[scored], self.noise)
        mean = float(losses[scored].mean())
        variance, n_units = group_variance(losses[scored] - mean, self._units[scored])
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
        name = self.measure.name
        difference = self.counted(one.losses[name] - other.losses[name])
        if self.overlap is not None:
            return judgement_test(difference, self.overlap)
        if self.measure.binary:
            return sign_test(difference, self.loss(one) - self.loss(other))
        if len(one.cells) == 1 < one.n_folds:
            return 1.0
        by_fold = one.fold_losses[name] - other.fold_losses[name]
        return max(row_test(difference, self.noise), fold_test(by_fold, self.test_share))

    def counted(self, values: Vector) -> Vector:
        """Return values of rows as what counts: rows, or means over groups or unseen classes.

        nan marks rows, groups and classes without values.
        """
        if self._units is None:
            return values
        tested = ~np.isnan(values)
        n = int(self._units.max()) + 1
        sums, numbers = (np.bincount(self._units[tested], w, n) for w in (values[tested], None))
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

    def category(self, result: MethodResult) -> Category:
        """Return what the difference between a method and the reference means."""
        worse, gain = self.mark(result) == "-", self.gains.get(result.name)
        if result.method.kind == "baseline" and not worse:
            # The reference is the best of them.
            return Category.SAME
        if gain is None and not worse:
            return Category.NOT_TESTED
        probability = 0.0 if gain is None else gain.probability
        return categorise(probability, promising=self.promises(result), worse=worse)

    @property
    def winner(self) -> MethodResult | None:
        """The best of the methods that are significantly better than the reference, or None.

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
    def recommended(self) -> MethodResult | None:
        """The result of the method that the verdict recommends; None if nothing was compared."""
        return next((r for r in self.results if r.name == self.verdict.recommended), None)

    def promises(self, result: MethodResult) -> bool:
        """Tell whether a method is expected to gain something, and was not worse when tried."""
        gain = self.gains.get(result.name)
        return gain is not None and gain.gain > 0 and self.difference(result, self.reference) >= 0

    def probability_better(self, one: MethodResult, other: MethodResult) -> float:
        """Probability that one method is better than another by what makes a difference.

        It is 0 if they were tried on nothing in common.
        """
        pair = paired(other, one)
        return 0.0 if pair is None else self.gain_over(*pair).probability

    def gain_over(self, other: MethodResult, one: MethodResult) -> Gain:
        """Return the expected gain of one method over another, if neither is expected to be better.

        Both were tried on the same data.
        """
        observed, loss = self._observed(other, one), self.loss(other)
        return expected_gains([observed], loss, self.measure.spreads, prior_mean=0.0)[0]

    def _observed(self, other: MethodResult, one: MethodResult) -> Observed:
        """How much smaller the loss of one method is than another's."""
        name = self.measure.name
        difference = self.counted(other.losses[name] - one.losses[name])
        if self.overlap is not None:
            return observe_judgements(difference, self.overlap)
        return observe_rows(difference, self.noise * self.measure.gain_noise)

    @cached_property
    def verdict(self) -> Verdict:
        """The best guess on the most data on which a method is better, or on the most."""
        levels = [[r for r in level if r.method.gives_metric] for level in self._levels]
        levels = [level for level in levels if level]
        verdicts = [self._verdict_on(levels[number:]) for number in range(len(levels))]
        if verdicts:
            return next((verdict for verdict in verdicts if verdict.helps), verdicts[0])
        headline = Wording(self.measure, self.reference, self.cases).untried()
        unknown = 0.0, -math.inf, math.inf, 0.0
        return Verdict(None, None, self.reference.name, Category.NOTHING, *unknown, headline)

    def _verdict_on(self, levels: list[list[MethodResult]]) -> Verdict:
        """Return the best guess among the methods of the first level."""

        def expected_gain(result: MethodResult) -> float:
            return self.gains[result.name].gain

        def best_of(results: list[MethodResult]) -> MethodResult:
            """Return the best guess among methods that gain something, or the least bad one."""
            # Of a method that is worse by an uncertain amount, the expected gain is that of any
            # method before it was tried.
            promising = [result for result in results if self.promises(result)]
            if promising:
                return max(promising, key=expected_gain)
            return max(results, key=lambda result: self.difference(result, self.reference))

        def best_of_kind(kind: str, levels: list[list[MethodResult]]) -> MethodResult | None:
            """Return the best method of a kind that gains something, on the most data."""
            promising = (
                [r for r in level if r.method.kind == kind and self.promises(r)] for level in levels
            )
            return max(next(filter(None, promising), []), key=expected_gain, default=None)

        # A method with fewer folds must probably be better on the folds that it shares with the
        # best of the others.
        best = best_of(levels[0])
        most = max(len(result.cells) for result in levels[0])
        thorough = best_of([r for r in levels[0] if len(r.cells) == most])
        if self.probability_better(best, thorough) < PROBABLE:
            best = thorough
        plain = best_of_kind("plain", levels[:1])
        as_good = plain is not None and self.probability_better(best, plain) < EVEN
        chosen = plain if plain is not None and as_good else best
        gain = self.gains[chosen.name]
        category = categorise(gain.probability, promising=self.promises(chosen))
        likely = gain.probability >= EVEN and self.difference(chosen, self.reference) > 0
        used = chosen if likely else self.reference
        wording = Wording(self.measure, self.reference, self.cases)
        headline = wording.verdict(chosen, category, gain, recommended=likely)
        if likely:
            is_plain = chosen.method.kind == "plain"
            other = best_of_kind("learned", levels) if is_plain else plain
            if other is not None:
                headline += wording.beside(chosen, other, self._manner(chosen, other))
        # A distance that does better than what is recommended, but is no metric.
        better = [
            result
            for level in self._levels
            for result in level
            if not result.method.gives_metric and self.probability_better(result, used) >= EVEN
        ]
        if better:
            headline += wording.without_file(used, self._best(better))
        names = used.name, chosen.name, self.reference.name
        return Verdict(*names, category, **asdict(gain), headline=headline)

    def _manner(self, chosen: MethodResult, other: MethodResult) -> str:
        """Return how another method compares with the chosen one, for `Wording.beside`."""
        probability = self.probability_better(chosen, other)
        if probability < EVEN:
            return "tie" if self.probability_better(other, chosen) < EVEN else "less tried"
        return "may do as well" if probability < PROBABLE else ""

    def _best(self, results: list[MethodResult]) -> MethodResult:
        """Return the best of the results that come from the most data."""
        most = max(result.extent for result in results)
        return min((r for r in results if r.extent == most), key=self.loss)


def compare_losses(
    goal: str | Measure,
    losses: Mapping[str, Vector],
    *,
    baseline: str | None = None,
    overlap: OverlappingJudgements | None = None,
    groups: Ints | None = None,
) -> GoalComparison:
    """Compare methods with a baseline by their losses on the same rows, judgements or searches.

    Parameters
    ----------
    goal : str or Measure
    losses : dict of str to array of shape (n,)
        By the names of methods; those of baselines and plain methods are known.
    baseline : str, optional
        The name of the baseline, if it is another.
    overlap : OverlappingJudgements, optional
        The judgements, if these are not rows.
    groups : array of shape (n,), optional
        The group of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.comparison.goal_verdict import compare_losses
    >>> losses = {"Euclidean (unscaled)": np.repeat([1.0, 0.0], [50, 50]), "NCA": np.zeros(100)}
    >>> compare_losses("classification", losses).verdict.category
    'clearly better'
    """

    def unused(X: Floats, y: object) -> Metric:
        raise NotImplementedError("The losses of this method are known; it is not fitted.")

    known = default_methods([]) if baseline is None else [Method(baseline, "baseline", unused)]
    methods = {method.name: method for method in known}
    name = measure_of(goal).name if isinstance(goal, str) else goal.name
    results = [
        MethodResult(
            methods.get(method, Method(method, "learned", unused)),
            losses={name: values},
            fold_losses={name: np.array([values.mean()])},
        )
        for method, values in losses.items()
    ]
    return GoalComparison(results, goal, overlap=overlap, groups=groups)
