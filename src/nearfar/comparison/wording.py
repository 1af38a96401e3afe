"""The sentences of a verdict."""

from __future__ import annotations

from dataclasses import dataclass

from nearfar.comparison.gains import Gain, Goal
from nearfar.comparison.results import MethodResult, paired

_ALMOST_SURE = 0.995
_MEASURES: dict[Goal, str] = {
    "classification": "error",
    "ranking": "MAP@R",
    "triplets": "triplet accuracy",
    "pairs": "AUC",
}


@dataclass(frozen=True)
class Wording:
    """Words for results of one goal.

    Attributes
    ----------
    goal : {"classification", "ranking", "triplets", "pairs"}
    reference : MethodResult
        Euclidean distance, with which methods are compared.
    """

    goal: Goal
    reference: MethodResult

    def recommended(self, chosen: MethodResult, category: str, gain: Gain) -> str:
        """Say that a method is better than Euclidean distance."""
        reference, found = paired(self.reference, chosen) or (self.reference, chosen)
        return (
            f"Use {chosen.name}: {self._measure(found)} instead of {self._figure(reference)} with "
            f"{described(reference)}{_on(found)} ({category}: {percent(gain)}). "
            f"{self._expected(gain)}"
        )

    def undecided(self, chosen: MethodResult, gain: Gain) -> str:
        """Say that a method may be better."""
        reference, found = paired(self.reference, chosen) or (self.reference, chosen)
        doubt = f"Too few {self._cases}" if found.complete else "Too little was tried"
        return (
            f"{doubt} to tell: {self._measure(reference)} with "
            f"{described(reference)}, {self._figure(found)} with {chosen.name}{_on(found)} "
            f"(better: {percent(gain)}). {self._expected(gain)}"
        )

    def unchanged(self, chosen: MethodResult, gain: Gain) -> str:
        """Say that the best method makes no difference."""
        reference, found = paired(self.reference, chosen) or (self.reference, chosen)
        return (
            f"Keep {described(reference)}: {self._measure(reference)}. No other method makes a "
            f"difference that matters; the best, {chosen.name}, has {self._figure(found)}"
            f"{_on(found)} (better: {percent(gain)})."
        )

    def untried(self) -> str:
        """Say that there is nothing to compare."""
        return (
            f"No other method was tried: {self._measure(self.reference)} with "
            f"{described(self.reference)}{_on(self.reference)}."
        )

    def beside(self, chosen: MethodResult, other: MethodResult, manner: str) -> str:
        """Say how another method does, where both were tried.

        `manner` is "does as well", "may do as well", or empty if it is worse.
        """
        pair = paired(chosen, other)
        if pair is None:
            return ""
        one, two = (self._figure(result) for result in pair)
        if pair[0].cells != chosen.cells:
            return f" {other.name} has {two}, {chosen.name} {one}{_on(pair[1])}."
        if manner:
            return f" {other.name} {manner} ({two})."
        kind = "plain method" if other.method.kind == "plain" else "learner"
        return f" The best {kind}, {other.name}, has {two}."

    @property
    def _cases(self) -> str:
        return self.goal if self.goal in ("triplets", "pairs") else "rows"

    @property
    def _in_percent(self) -> bool:
        return self.goal in ("classification", "triplets")

    def _expected(self, gain: Gain) -> str:
        scale, digits, unit = (100, 1, " points") if self._in_percent else (1, 3, "")
        expected, low, high = (
            f"{scale * value:z.{digits}f}" for value in (gain.gain, gain.low, gain.high)
        )
        return f"Expected gain {expected}{unit} ({low} to {high})."

    def _measure(self, result: MethodResult) -> str:
        return f"{_MEASURES[self.goal]} {self._figure(result)}"

    def _figure(self, result: MethodResult) -> str:
        value = {
            "classification": result.error,
            "ranking": result.map_at_r,
            "triplets": 1 - result.error,
            "pairs": 1 - result.error,
        }[self.goal]
        return f"{100 * value:.1f} %" if self._in_percent else f"{value:.3f}"


def described(reference: MethodResult) -> str:
    """Return a phrase for one of the Euclidean distances."""
    return "Euclidean distance" + (" on unscaled rows" if reference.method.raw else "")


def percent(gain: Gain) -> str:
    """Return the probability of a gain in words."""
    return "over 99 %" if gain.probability > _ALMOST_SURE else f"{100 * gain.probability:.0f} %"


def _on(result: MethodResult) -> str:
    """Return a phrase for what a result was measured on, if not on all folds."""
    return f", on {result.partial}" if result.partial else ""
