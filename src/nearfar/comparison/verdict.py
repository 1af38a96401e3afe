"""The verdict of a comparison: which method to use for a goal, how much it gains, and how sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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
    recommended : str or None
        The method to use: `method` or `reference`; None if no other method was tried.
    method : str or None
        The best guess; None if no other method was tried.
    reference : str
        The baseline that it is compared with.
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

    recommended: str | None
    method: str | None
    reference: str
    category: Category
    gain: float
    low: float
    high: float
    probability: float
    headline: str


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
