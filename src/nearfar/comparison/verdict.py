"""The verdict of a comparison: which method to use for a goal, how much it gains, and how sure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from nearfar.typing import Json

Outcome = Literal["better", "same", "cannot tell", "worse"]

CLEAR, PROBABLE = 0.95, 0.75
"""Probabilities from which a method is clearly and probably better: one in twenty and one in four
of such statements may be wrong (`benchmarks/verdict_calibration.py`)."""
EVEN = 0.5
"""A method does as well as another if that is better with at most this probability."""


class Category(StrEnum):
    """What the difference between a method and the baseline means; equal to its words."""

    CLEARLY_BETTER = "clearly better"
    PROBABLY_BETTER = "probably better"
    CANNOT_TELL = "too few rows to tell"
    SAME = "no difference that matters"
    WORSE = "worse"
    NOT_TESTED = "not tested"
    NOTHING = "nothing to compare"

    def text(self, cases: str = "rows", *, recommended: bool = False, complete: bool = True) -> str:
        """Return the words for a method, which may be recommended, or not completely tried.

        `cases` is what was tested: rows, triplets, pairs or searches.

        Examples
        --------
        >>> from nearfar.comparison.verdict import Category
        >>> Category.CANNOT_TELL.text("searches")
        'too few searches to tell'
        >>> Category.CANNOT_TELL.text(recommended=True)
        'possibly better'
        """
        if recommended and self is Category.CANNOT_TELL:
            return "possibly better"
        if not complete and self in (Category.CANNOT_TELL, Category.SAME):
            return "too little was tried to tell"
        return self.value.replace("rows", cases)

    # Shown as its words, also within a verdict.
    __repr__ = str.__repr__


@dataclass(frozen=True)
class Verdict:
    """Which method to use for a goal.

    Attributes
    ----------
    recommended : str or None
        The method to use: `method` or `reference`; None if no other method was tried.
    method : str or None
        The best guess; None if no other method was tried.
    reference : str
        The baseline that it is compared with.
    category : Category
        "clearly better" (at least 95 % sure), "probably better" (at least 75 % sure), "no
        difference that matters" (at most 25 % sure, or worse when tried), "too few rows to tell"
        (in between), or "nothing to compare"; of searches also "worse" (at least 95 % sure).
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

    @property
    def helps(self) -> bool:
        """Whether the method is clearly or probably better."""
        return self.category in (Category.CLEARLY_BETTER, Category.PROBABLY_BETTER)

    @property
    def outcome(self) -> Outcome:
        """What the difference means, in a word or two."""
        others: dict[Category, Outcome] = {
            Category.WORSE: "worse",
            Category.CANNOT_TELL: "cannot tell",
        }
        return "better" if self.helps else others.get(self.category, "same")

    def to_dict(self) -> dict[str, Json]:
        """Return the verdict as plain numbers and strings."""
        return vars(self) | {"category": self.category.value}

    def __str__(self) -> str:
        return self.headline


def categorise_change(
    rise: float,
    probability: float,
    harm: float,
    harm_of_unseen: float = 0.0,
    *,
    open_ended: bool = False,
) -> Category:
    """Return what a change means, where a loss is sure or not, too.

    Parameters
    ----------
    rise : float
        How much the measure rose.
    probability, harm : float
        That the change makes a practical difference for the better, and for the worse.
    harm_of_unseen : float, default=0.0
        The same for searches for documents that were not learned from, which must not lose.
    open_ended : bool, default=False
        Whether the data allow a difference that matters, on either side: a change that is not
        better is then not known to be the same.

    Examples
    --------
    >>> from nearfar.comparison.verdict import categorise_change
    >>> categorise_change(0.1, 0.97, 0.0), categorise_change(-0.1, 0.0, 0.97)
    ('clearly better', 'worse')
    >>> categorise_change(0.1, 0.97, 0.0, harm_of_unseen=0.8)
    'too few rows to tell'
    >>> categorise_change(-0.001, 0.2, 0.3, open_ended=True)
    'too few rows to tell'
    """
    worse, same = rise < 0 and harm >= CLEAR, Category.SAME
    if open_ended:
        same = Category.CANNOT_TELL
    if rise <= 0 and not worse:
        return same
    category = categorise(probability, worse=worse)
    category = same if category is Category.SAME else category
    if harm_of_unseen >= CLEAR:
        return Category.WORSE
    better = category in (Category.CLEARLY_BETTER, Category.PROBABLY_BETTER)
    return Category.CANNOT_TELL if better and harm_of_unseen >= PROBABLE else category


def categorise(probability: float, *, promising: bool = True, worse: bool = False) -> Category:
    """Return what a difference means.

    Parameters
    ----------
    probability : float
        That a method is better.
    promising : bool
        Whether it was not worse when it was tried.
    worse : bool
        Whether it is surely worse.

    Examples
    --------
    >>> from nearfar.comparison.verdict import categorise
    >>> categorise(0.96), categorise(0.6), categorise(0.01, worse=True)
    ('clearly better', 'too few rows to tell', 'worse')
    """
    if worse:
        return Category.WORSE
    if probability >= CLEAR:
        return Category.CLEARLY_BETTER
    if probability >= PROBABLE:
        return Category.PROBABLY_BETTER
    possible = promising and probability > 1 - PROBABLE
    return Category.CANNOT_TELL if possible else Category.SAME
