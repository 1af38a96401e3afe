"""Which method to use, and the sentence that says so.

Methods are compared with Euclidean distance by the tests of `significance`; p-values are adjusted
for the number of methods (Holm). Two methods are only compared on cells that both have. If that is
one fold of several, rankings are not tested, because there is no test by folds; fits that were
stopped early are not tested at all.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from nearfar.comparison.results import MethodResult, paired
from nearfar.comparison.significance import fold_test, row_test, sign_test

Goal = Literal["classification", "ranking"]

_SIGNIFICANCE_LEVEL = 0.05
_ROUNDING = 1e-9


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
        Whether methods were left out, or only partly tried, for lack of time.

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
        pair = paired(one, other)
        if pair is None or any(result.stopped_early for result in pair):
            return 1.0
        one, other = pair
        if self.goal == "classification":
            return sign_test(one.wrong - other.wrong, self.loss(one) - self.loss(other))
        if self._untested(one):
            return 1.0
        return max(
            row_test(one.average_precision - other.average_precision),
            fold_test(one.maps_at_r - other.maps_at_r, self.test_share),
        )

    def gain(self, one: MethodResult, other: MethodResult) -> float:
        """Return how much smaller the loss of one method is than another's, where both were tried.

        It is -infinity if they were tried on nothing in common.
        """
        pair = paired(one, other)
        return -math.inf if pair is None else self.loss(pair[1]) - self.loss(pair[0])

    def is_better(self, one: MethodResult, other: MethodResult) -> bool:
        """Tell whether one method is better than another by more than noise, unadjusted."""
        return self.gain(one, other) > 0 and self.p_value(one, other) < _SIGNIFICANCE_LEVEL

    def mark(self, result: MethodResult) -> str:
        """Return "+" or "-" if a method is clearly better or worse than the reference, else ""."""
        if self.p_values.get(result.name, 1.0) >= _SIGNIFICANCE_LEVEL:
            return ""
        return "+" if self.gain(result, self.reference) > 0 else "-"

    @property
    def winner(self) -> MethodResult | None:
        """The method to use, or None if none is clearly better than Euclidean distance.

        The best of the methods marked "+"; or the best plain one of them, unless the best of all
        is clearly better. Of methods tried on different data, those with the most training rows
        count; of these, one with fewer folds is better only if it is so on the folds that both
        have, by more than noise.
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
        plain = self._plain_rivals(best, rivals)
        return self._best(plain) if plain else best

    def _plain_rivals(self, best: MethodResult, results: list[MethodResult]) -> list[MethodResult]:
        """Plain methods better than the reference to which the best is not clearly superior."""
        plain = [r for r in results if r.method.kind == "plain"]
        good = [r for r in plain if self.gain(r, self.reference) > 0]
        return [result for result in good if not self.is_better(best, result)]

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
        found, reference = paired(winner, self.reference) or (winner, self.reference)
        verdict = (
            f"Use {winner.name}: {self._measure(found)} instead of "
            f"{self._figure(reference)} with {described(reference)}{_on(found)}."
        )
        if winner.method.kind == "plain" and learned:
            return f"{verdict} {self._best_learner(self._best(learned), winner)}".rstrip()
        plain = self._plain_rivals(winner, self.results)
        pair = paired(winner, self._best(plain)) if plain else None
        if winner.method.kind == "learned" and pair is not None:
            rival = pair[1]
            return f"{verdict} It is not clearly better than {rival.name} ({self._figure(rival)})."
        return verdict

    def _best_learner(self, best: MethodResult, winner: MethodResult) -> str:
        """Say how the best learner did beside a plain method, on what both were tried on."""
        pair = paired(best, winner)
        if pair is None:
            return ""
        learner, plain = pair
        noise = " (within noise)" if self.loss(learner) < self.loss(plain) else ""
        if learner.cells == winner.cells:
            return f"The best learner, {best.name}, has {self._figure(learner)}{noise}."
        return (
            f"The best learner, {best.name}, has {self._figure(learner)}, {plain.name} "
            f"{self._figure(plain)}{noise}{_on(learner)}."
        )

    def _verdict_without_winner(self, *, complete: bool) -> str:
        reference, best = self.reference, self._best(self.results)
        promising = self._promising()
        level = self.loss(best) > self.loss(reference) - _ROUNDING
        if level and not promising:
            start = "Learning did not help" if complete else "No method tried is better"
            return (
                f"{start}: {described(reference)} is best, with {self._measure(reference)}"
                f"{_on(reference)}."
            )
        start = "Learning did not clearly help" if complete else "No method tried is clearly better"
        verdict = f"{start}: {self._measure(reference)} with {described(reference)}"
        if not level:
            noise = f"{self._doubt(best)}{_on(reference)}"
            verdict += f", {self._figure(best)} with the best method, {best.name} {noise}"
        return f"{verdict}.{promising}"

    def _promising(self) -> str:
        """Say which method may be better by what it was partly tried on."""
        found = [
            result
            for result in self.results
            if result.cells != self.reference.cells
            and not result.stopped_early
            and self.gain(result, self.reference) > _ROUNDING
        ]
        pair = paired(self._best(found), self.reference) if found else None
        if pair is None:
            return ""
        best, reference = pair
        return (
            f" {best.name} has {self._figure(best)} instead of {self._figure(reference)}"
            f"{_on(best)} {self._doubt(best)}."
        )

    def _doubt(self, result: MethodResult) -> str:
        """Say why a better figure is not enough."""
        return "(one fold is too few to tell)" if self._untested(result) else "(within noise)"

    def _untested(self, result: MethodResult) -> bool:
        """Tell whether a ranking cannot be tested, for there is only one fold of several."""
        return self.goal == "ranking" and len(result.cells) == 1 < result.n_folds

    def _measure(self, result: MethodResult) -> str:
        figure = self._figure(result)
        return f"{figure} error" if self.goal == "classification" else f"MAP@R {figure}"

    def _figure(self, result: MethodResult) -> str:
        if self.goal == "classification":
            return f"{100 * result.error:.1f} %"
        return f"{result.map_at_r:.3f}"

    def _best(self, results: list[MethodResult]) -> MethodResult:
        """Return the best of the results that come from the most data."""
        most = max(result.extent for result in results)
        return min((r for r in results if r.extent == most), key=self.loss)

    def _adjusted_p_values(self) -> dict[str, float]:
        tested = [result for result in self.results if not result.stopped_early]
        others = [result for result in tested if result is not self.reference]
        p = np.array([self.p_value(result, self.reference) for result in others])
        order = np.argsort(p, kind="stable")
        raised = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
        adjusted = np.empty(len(p))
        adjusted[order] = np.maximum.accumulate(raised)
        return {result.name: float(v) for result, v in zip(others, adjusted, strict=True)}


def described(reference: MethodResult) -> str:
    """Return a phrase for one of the Euclidean distances."""
    return "Euclidean distance" + (" on unscaled rows" if reference.method.raw else "")


def _on(result: MethodResult) -> str:
    """Return a phrase for what a result was measured on, if not on all folds."""
    return f", on {result.partial}" if result.partial else ""
