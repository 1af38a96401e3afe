"""Which methods are better than Euclidean distance by more than noise, and which one to use.

Errors are compared by the sign test: among the rows on which two methods differ, one is wrong less
often than a fair coin would explain.

Rankings must pass two tests on the mean difference in average precision:

- by rows: each row is a query, and also a result in the rankings of the other rows. The mean is
  therefore a U-statistic of degree two, and its standard error twice that of independent rows;
- by folds: Student's test with the variance increased for training rows that folds share (C.
  Nadeau, Y. Bengio: Inference for the generalization error, Machine Learning 52, 2003). It covers
  the variation between training sets.

p-values against Euclidean distance are adjusted for the number of methods (Holm).
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

NO_TIME = "no time left"
_SIGNIFICANCE_LEVEL = 0.05
_ROUNDING = 1e-9


def _no_values() -> Vector:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class MethodResult:
    """Scores of a method on all folds.

    Attributes
    ----------
    method : Method
    errors, triplet_accuracies, maps_at_r, seconds : array of shape (n_folds,)
        k-NN error, triplet accuracy, MAP@R and fit time on each fold; empty if left out.
    wrong : array of shape (n_rows,)
        How often each row was classified wrongly, from 0 to 1; nan for rows never tested.
    average_precision : array of shape (n_rows,)
        Mean average precision of each row's rankings; nan for rows never ranked.
    note : str
        Why the method was left out, if it was.
    """

    method: Method
    errors: Vector = field(default_factory=_no_values)
    triplet_accuracies: Vector = field(default_factory=_no_values)
    maps_at_r: Vector = field(default_factory=_no_values)
    seconds: Vector = field(default_factory=_no_values)
    wrong: Vector = field(default_factory=_no_values)
    average_precision: Vector = field(default_factory=_no_values)
    note: str = ""

    @property
    def name(self) -> str:
        """Name of the method."""
        return self.method.name

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
    """Methods compared by one goal: the error of classification, or MAP@R.

    Parameters
    ----------
    results : list of MethodResult
        Simplest methods first.
    goal : {"classification", "ranking"}
    test_share : float, default=0.25
        Test rows for each training row of a fold.
    incomplete : bool, default=False
        Whether other methods were left out for lack of time.

    Attributes
    ----------
    reference : MethodResult
        Euclidean distance on unscaled or standardised rows, whichever is better.
    p_values : dict of str to float
        p-value of each method against the reference, adjusted for their number (Holm).
    """

    def __init__(
        self,
        results: list[MethodResult],
        goal: Goal,
        *,
        test_share: float = 0.25,
        incomplete: bool = False,
    ) -> None:
        self.results, self.goal = results, goal
        self.test_share, self.incomplete = test_share, incomplete
        baselines = [result for result in results if result.method.kind == "baseline"]
        self.reference = self._best(baselines[::-1])
        self.p_values = self._adjusted_p_values()

    def loss(self, result: MethodResult) -> float:
        """Mean error, or 1 - MAP@R; 1 if nothing could be ranked."""
        if self.goal == "classification":
            return result.error
        return 1.0 if np.isnan(result.map_at_r) else 1.0 - result.map_at_r

    def p_value(self, one: MethodResult, other: MethodResult) -> float:
        """Probability of such a difference between two methods that are equally good.

        Examples
        --------
        >>> import numpy as np
        >>> from nearfar.comparison import GoalComparison, MethodResult, default_methods
        >>> methods = default_methods([])
        >>> right = MethodResult(methods[0], errors=np.zeros(1), wrong=np.zeros(6))
        >>> wrong = MethodResult(methods[1], errors=np.ones(1), wrong=np.ones(6))
        >>> GoalComparison([right, wrong], "classification").p_value(right, wrong)
        0.03125
        """
        if self.goal == "classification":
            return _sign_test(one.wrong - other.wrong, self.loss(one) - self.loss(other))
        return max(
            _row_test(one.average_precision - other.average_precision),
            _fold_test(one.maps_at_r - other.maps_at_r, self.test_share),
        )

    def is_better(self, one: MethodResult, other: MethodResult) -> bool:
        """Tell whether one method is better than another by more than noise, unadjusted."""
        return self.loss(one) < self.loss(other) and self.p_value(one, other) < _SIGNIFICANCE_LEVEL

    def mark(self, result: MethodResult) -> str:
        """Return "+" or "-" if a method is clearly better or worse than the reference, else ""."""
        if self.p_values.get(result.name, 1.0) >= _SIGNIFICANCE_LEVEL:
            return ""
        return "+" if self.loss(result) < self.loss(self.reference) else "-"

    @property
    def winner(self) -> MethodResult | None:
        """The method to use, or None if none is clearly better than Euclidean distance.

        The best of the methods marked "+"; or the best plain one of them, unless the best of all
        is clearly better.
        """
        better = [result for result in self.results if self.mark(result) == "+"]
        if not better:
            return None
        best = self._best(better)
        plain = self._plain_rivals(best, better)
        return self._best(plain) if plain else best

    def _plain_rivals(self, best: MethodResult, results: list[MethodResult]) -> list[MethodResult]:
        """Plain methods better than the reference to which the best is not clearly superior."""
        limit = self.loss(self.reference)
        plain = [r for r in results if r.method.kind == "plain" and self.loss(r) < limit]
        return [result for result in plain if not self.is_better(best, result)]

    @property
    def verdict(self) -> str:
        """What to use, in words.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from nearfar import compare
        >>> compare(*load_wine(return_X_y=True), []).ranking.verdict
        'Use LDA: MAP@R 0.912 instead of 0.721 with Euclidean distance.'
        """
        winner = self.winner
        learned = [result for result in self.results if result.method.kind == "learned"]
        if winner is None:
            return self._verdict_without_winner(complete=bool(learned) and not self.incomplete)
        verdict = (
            f"Use {winner.name}: {self._measure(winner)} instead of "
            f"{self._figure(self.reference)} with {described(self.reference)}."
        )
        if winner.method.kind == "plain" and learned:
            best = self._best(learned)
            noise = " (within noise)" if self.loss(best) < self.loss(winner) else ""
            return f"{verdict} The best learner, {best.name}, has {self._figure(best)}{noise}."
        plain = self._plain_rivals(winner, self.results)
        if winner.method.kind == "learned" and plain:
            best = self._best(plain)
            return f"{verdict} It is not clearly better than {best.name} ({self._figure(best)})."
        return verdict

    def _verdict_without_winner(self, *, complete: bool) -> str:
        reference, best = self.reference, self._best(self.results)
        if self.loss(best) > self.loss(reference) - _ROUNDING:
            start = "Learning did not help" if complete else "No method tried is better"
            return f"{start}: {described(reference)} is best, with {self._measure(reference)}."
        start = "Learning did not clearly help" if complete else "No method tried is clearly better"
        return (
            f"{start}: {self._measure(reference)} with {described(reference)}, "
            f"{self._figure(best)} with the best method, {best.name} (within noise)."
        )

    def _measure(self, result: MethodResult) -> str:
        figure = self._figure(result)
        return f"{figure} error" if self.goal == "classification" else f"MAP@R {figure}"

    def _figure(self, result: MethodResult) -> str:
        if self.goal == "classification":
            return f"{100 * result.error:.1f} %"
        return f"{result.map_at_r:.3f}"

    def _best(self, results: list[MethodResult]) -> MethodResult:
        return min(results, key=self.loss)

    def _adjusted_p_values(self) -> dict[str, float]:
        others = [result for result in self.results if result is not self.reference]
        p = np.array([self.p_value(result, self.reference) for result in others])
        order = np.argsort(p, kind="stable")
        raised = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
        adjusted = np.empty(len(p))
        adjusted[order] = np.maximum.accumulate(raised)
        return {result.name: float(v) for result, v in zip(others, adjusted, strict=True)}


def _mean(values: Vector) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _sign_test(difference: Vector, mean: float) -> float:
    """p-value of a fair coin on the rows that differ; 1 if the mean has the other sign."""
    better, worse = int((difference < 0).sum()), int((difference > 0).sum())
    if (worse - better) * mean <= 0:
        return 1.0
    return float(binomtest(better, better + worse).pvalue)


def _row_test(difference: Vector) -> float:
    """p-value of the mean of a U-statistic of degree two, from its projections on rows."""
    known = difference[~np.isnan(difference)]
    return _student_test(known, 4 / len(known)) if len(known) > 1 else 1.0


def _fold_test(difference: Vector, test_share: float) -> float:
    """p-value of the mean over folds that share training rows; 0 for a single fold."""
    known = difference[~np.isnan(difference)]
    return _student_test(known, 1 / len(known) + test_share) if len(known) > 1 else 0.0


def _student_test(difference: Vector, variance_factor: float) -> float:
    """Test that a mean is zero whose variance is a multiple of the variance of the values."""
    if not difference.any():
        return 1.0
    error = float(difference.std(ddof=1)) * math.sqrt(variance_factor)
    ratio = abs(float(difference.mean())) / error if error > 0 else math.inf
    return float(2 * student.sf(ratio, len(difference) - 1))


def described(reference: MethodResult) -> str:
    """Return a phrase for one of the Euclidean distances."""
    return "Euclidean distance" + (" on unscaled rows" if reference.method.raw else "")
