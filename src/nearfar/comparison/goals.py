"""Methods compared by the measure of one goal.

Methods are compared with a baseline, the best of what people do without learning: Euclidean
distance on unscaled or standardised rows or, where it is probably better than both, cosine
distance.

`GoalComparison.verdict` has three outcomes. A method helps if its gain is at least 75 % sure; a
plain method that does as well comes first. Otherwise the baseline is recommended. If even that is
no better than naming the largest class, or than the mean of numbers, nothing is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property

import numpy as np

from nearfar.comparison.methods import Method, default_methods
from nearfar.evidence.gain import Gain, Observed, expected_gains, observe_judgements, observe_rows
from nearfar.evidence.intervals import (
    OverlappingJudgements,
    group_variance,
    known_mean,
    mean_interval,
    ratio_interval,
    value_interval,
)
from nearfar.evidence.splits import classes_in_groups
from nearfar.evidence.verdict import (
    COSINE,
    EVEN,
    PROBABLE,
    Category,
    Verdict,
    categorise,
    verdict_text,
)
from nearfar.measures.registry import Measure, measure_of
from nearfar.metrics.metric import Metric
from nearfar.typing import Array, Floats, Ints, Vector


@dataclass(frozen=True, eq=False)
class MethodResult:
    """Scores of a method on all folds.

    Attributes
    ----------
    losses: shape (n_rows,). Mean loss of each row, or judgement, by the name of the
        measure, the main one first; nan for those never scored. It is the measure, or one
        minus it where more is better.
    fold_losses: shape (n_folds,). Mean loss on each fold.
    seconds: shape (n_folds,). Time of the fits.
    n_neighbors: shape (n_folds,). Number of neighbours that vote; empty where nothing
        votes.
    note: Why the method was left out, if it was.
    """

    method: Method
    losses: dict[str, Vector] = field(default_factory=dict)
    fold_losses: dict[str, Vector] = field(default_factory=dict)
    seconds: Vector = field(default_factory=lambda: np.empty(0))
    n_neighbors: Ints = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    note: str = ""

    @property
    def name(self) -> str:
        """Name of the method."""
        return self.method.name

    def loss(self, measure: str) -> float:
        """Return the mean loss over the folds that could be scored."""
        return known_mean(self.fold_losses[measure])

    @property
    def wrong(self) -> Vector:
        """Loss of each row by the main measure: how often it was wrong, from 0 to 1."""
        return next(iter(self.losses.values()))

    @property
    def errors(self) -> Vector:
        """Mean loss on each fold by the main measure."""
        return next(iter(self.fold_losses.values()), np.empty(0))

    @property
    def error(self) -> float:
        """Mean error over the folds: k-NN error, or share of wrong judgements."""
        return known_mean(self.errors)

    @property
    def triplet_accuracy(self) -> float:
        """Mean triplet accuracy over the folds that have triplets."""
        return 1.0 - self.loss("triplet_accuracy")

    @property
    def map_at_r(self) -> float:
        """Mean MAP@R over the folds that have rows to rank."""
        return 1.0 - self.loss("map_at_r")


class GoalComparison:
    """Methods compared by the measure of one goal.

    Parameters
    ----------
    results: Simplest methods first.
    goal: The goal of a measure: "classification", "ranking", "regression", "triplets" or
        "pairs"; or the measure.
    overlap: The judgements, for triplets and pairs.
    unseen: shape (n_rows,). The class of each row, if methods did not learn from it. What
        counts is then the mean over the rows of a class.
    groups: shape (n_rows,). The group of each row. What counts is then the mean over the
        rows of a group, or over unseen classes that share groups.
    numbers: shape (n_rows,). What is predicted, if these are numbers.
    labels: shape (n_rows,). The class of each row, to tell whether a method is better than
        naming the largest one.

    Attributes
    ----------
    measure: What decides.
    goal: What methods that are better by it are good for.
    cases: What was tested: rows, groups or classes of them, triplets or pairs.
    reference: The baseline: Euclidean distance on unscaled or standardised rows, whichever
        is better, or cosine distance if that is probably better than both.
    gains: Expected gain of each method over the reference.
    verdict: Which method to use.
    """

    def __init__(
        self,
        results: list[MethodResult],
        goal: str | Measure,
        *,
        overlap: OverlappingJudgements | None = None,
        unseen: Ints | None = None,
        groups: Ints | None = None,
        numbers: Vector | None = None,
        labels: Array | None = None,
    ) -> None:
        self.results, self.overlap = results, overlap
        self.numbers, self.labels = numbers, labels
        self.measure = measure_of(goal) if isinstance(goal, str) else goal
        self.goal = self.measure.goal
        self.noise = self.measure.noise if unseen is None else self.measure.class_noise
        # What counts as one in probabilities and intervals; None for rows.
        self._units = groups if unseen is None else unseen
        if overlap is not None:
            self._units = None
        elif unseen is not None and groups is not None:
            self._units = classes_in_groups(unseen, groups)
        self.cases = self.measure.supervision[0] if self.measure.of == "judgements" else "rows"
        # Of groups that are mostly single rows there are hardly fewer than rows.
        if self._units is not None and len(self._units) >= 2 * len(np.unique(self._units)):
            self.cases = "groups" if unseen is None else "classes"

    @cached_property
    def reference(self) -> MethodResult:
        """The best of what people do without learning."""
        baselines = [result for result in self.results if result.method.kind == "baseline"]
        cosine = next((result for result in self.results if result.name == COSINE), None)
        if cosine is not None and not baselines:
            return cosine
        euclidean = min(baselines[::-1], key=self.loss)
        better = cosine is not None and self.probability_better(cosine, euclidean) >= PROBABLE
        return cosine if cosine is not None and better else euclidean

    @cached_property
    def gains(self) -> dict[str, Gain]:
        """Expected gain of each method over the reference."""
        reference = self.reference
        compared = [r for r in self.results if r.method.kind != "baseline" and r is not reference]
        observed = [self._observed(self._losses(reference), self._losses(r)) for r in compared]
        gains = expected_gains(observed, self.loss(reference), self.measure.spreads)
        return {result.name: gain for result, gain in zip(compared, gains, strict=True)}

    def loss(self, result: MethodResult) -> float:
        """Mean loss by the measure of the goal; 1 if nothing could be scored."""
        loss = result.loss(self.measure.name)
        return 1.0 if np.isnan(loss) else loss

    def write(self, result: MethodResult) -> str:
        """Return the measure of a result as text."""
        return self.measure.write(self.measure.value(result.loss(self.measure.name)))

    def interval(self, result: MethodResult) -> tuple[float, float]:
        """Return the 90 % interval of the mean loss of a method."""
        losses = self._losses(result)
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

    def category(self, result: MethodResult) -> Category:
        """Return what the difference between a method and the reference means."""
        gain = self.gains.get(result.name)
        rise = self.loss(self.reference) - self.loss(result)
        harm = self.probability_better(self.reference, result) if rise < 0 else 0.0
        # The reference is the best of the baselines.
        return categorise(rise, 0.0 if gain is None else gain.probability, harm)

    def mark(self, result: MethodResult) -> str:
        """Return "+" or "-" if a method is clearly better or worse than the reference."""
        marks = {Category.CLEARLY_BETTER: "+", Category.WORSE: "-"}
        return marks.get(self.category(result), "")

    @property
    def recommended(self) -> MethodResult | None:
        """The result of the method that the verdict recommends; None if there is none."""
        return next((r for r in self.results if r.name == self.verdict.recommended), None)

    def probability_better(self, one: MethodResult, other: MethodResult) -> float:
        """Probability that one method is better than another by what makes a difference."""
        return self.gain_over(other, one).probability

    def gain_over(self, other: MethodResult, one: MethodResult) -> Gain:
        """Return the expected gain of one method over another, if neither is expected to be
        better.
        """
        return self._gain(self._losses(other), self.loss(other), self._losses(one))

    def better_than_guess(self, result: MethodResult) -> bool:
        """Tell whether a method beats the largest class, or the mean of the numbers."""
        losses = self._losses(result)
        if self.numbers is not None:
            guess = (self.numbers - self.numbers.mean()) ** 2 / (self.numbers.var() or 1.0)
        elif self.labels is not None:
            _, codes, sizes = np.unique(self.labels, return_inverse=True, return_counts=True)
            guess = (codes != sizes.argmax()).astype(np.float64)
        else:
            return True
        guess = np.where(np.isnan(losses), np.nan, guess)
        return self._gain(guess, known_mean(guess), losses).probability >= EVEN

    def _losses(self, result: MethodResult) -> Vector:
        return result.losses[self.measure.name]

    def _gain(self, before: Vector, loss: float, after: Vector) -> Gain:
        observed = self._observed(before, after)
        return expected_gains([observed], loss, self.measure.spreads, prior_mean=0.0)[0]

    def _observed(self, before: Vector, after: Vector) -> Observed:
        """How much smaller losses are than others of the same rows."""
        difference = self.counted(before - after)
        if self.overlap is not None:
            return observe_judgements(difference, self.overlap)
        return observe_rows(difference, self.noise * self.measure.gain_noise)

    @cached_property
    def verdict(self) -> Verdict:
        """Which method to use: one that helps, or the baseline."""
        reference = self.reference
        tried = [r for r in self.results if r.name in self.gains and r.method.gives_metric]
        helping = [r for r in tried if self.category(r).helps]
        if not tried:
            chosen, category, gain = None, Category.NOTHING, Gain(0.0, -np.inf, np.inf, 0.0)
        else:
            chosen = max(helping or tried, key=lambda r: self.gains[r.name].gain)
            plain = [r for r in helping if r.method.kind == "plain"]
            best = max(plain, key=lambda r: self.gains[r.name].gain, default=chosen)
            if self.probability_better(chosen, best) < EVEN:
                chosen = best
            category, gain = self.category(chosen), self.gains[chosen.name]
        used = chosen if chosen is not None and category.helps else reference
        if not self.better_than_guess(used):
            category = Category.USELESS
        unknown = category in (Category.NOTHING, Category.USELESS)
        shown = used if chosen is None or category is Category.USELESS else chosen
        return Verdict(
            None if unknown else used.name,
            None if chosen is None else chosen.name,
            reference.name,
            category,
            **asdict(gain),
            headline=verdict_text(
                category,
                self.measure,
                gain,
                reference=(reference.name, self.write(reference)),
                method=(shown.name, self.write(shown)),
                guess="the mean" if self.labels is None else "naming the largest class",
            ),
        )


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
    losses: shape (n,). By the names of methods; those of baselines and plain methods are
        known.
    baseline: The name of the baseline, if it is another.
    overlap: The judgements, if these are not rows.
    groups: shape (n,). The group of each row.
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
