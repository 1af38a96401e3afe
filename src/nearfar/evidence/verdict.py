"""What a difference means: its categories, the one rule that assigns them, and their sentences.

Every sentence that says whether something helps is here. Those on metrics have at most 25 words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from nearfar.evidence.gain import Gain
from nearfar.runtime.messages import option, plain
from nearfar.typing import Json

if TYPE_CHECKING:
    from nearfar.measures.judgements import ClassError
    from nearfar.measures.registry import Measure

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
    USELESS = "no better than a guess"
    NOTHING = "nothing to compare"

    def text(self, cases: str = "rows") -> str:
        """Return the words for what was tested: rows, triplets, pairs or searches.

        Examples
        --------
        >>> from nearfar.evidence.verdict import Category
        >>> Category.CANNOT_TELL.text("searches")
        'too few searches to tell'
        """
        return self.value.replace("rows", cases)

    @property
    def helps(self) -> bool:
        """Whether the method is clearly or probably better."""
        return self in (Category.CLEARLY_BETTER, Category.PROBABLY_BETTER)

    # Shown as its words, also within a verdict.
    __repr__ = str.__repr__


@dataclass(frozen=True)
class Verdict:
    """Which method to use for a goal.

    Attributes
    ----------
    recommended : str or None
        The method to use: `method` or `reference`; None if no other method was tried, or if the
        best is no better than a guess.
    method : str or None
        The best guess; None if no other method was tried.
    reference : str
        The baseline that it is compared with.
    category : Category
        "clearly better" (at least 95 % sure), "probably better" (at least 75 % sure), "no
        difference that matters" (at most 25 % sure, or not better when tried), "too few rows to
        tell" (in between), "worse" (at least 95 % sure), "no better than a guess" (than the
        largest class, or the mean), or "nothing to compare".
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
        return self.category.helps

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


def categorise(
    rise: float,
    probability: float,
    harm: float = 0.0,
    harm_of_unseen: float = 0.0,
    *,
    open_ended: bool = False,
) -> Category:
    """Return what a difference means.

    Parameters
    ----------
    rise: How much better the measure was when tried.
    probability, harm: That the change makes a practical difference for the better, and for
        the worse.
    harm_of_unseen: The same for searches for documents that were not learned from, which
        must not lose.
    open_ended: Whether the data allow a difference that matters, on either side: a change
        that is not better is then not known to be the same.
    """
    same = Category.CANNOT_TELL if open_ended else Category.SAME
    if rise <= 0:
        return Category.WORSE if rise < 0 and harm >= CLEAR else same
    if harm_of_unseen >= CLEAR:
        return Category.WORSE
    if probability >= PROBABLE and harm_of_unseen < PROBABLE:
        return Category.CLEARLY_BETTER if probability >= CLEAR else Category.PROBABLY_BETTER
    return Category.CANNOT_TELL if probability > 1 - PROBABLE else same


SHRUNK = "after shrinkage"
"""Why an expected gain is not the difference of the figures beside it."""
# Names in a sentence; more make it too long to read.
_MOST_CLASSES = 6
# Probabilities beyond this would be rounded to 100 % or to 0 %.
_ALMOST_SURE = 0.995
UNSCALED, STANDARDISED, COSINE = "Euclidean (unscaled)", "Euclidean (standardised)", "cosine"
"""What methods are compared with."""
_BASELINES = {
    UNSCALED: "Euclidean distance on unscaled rows",
    STANDARDISED: "Euclidean distance",
    COSINE: "cosine distance",
}
_REPORTED = {
    Category.CLEARLY_BETTER: "{method} improves on {reference}.",
    Category.PROBABLY_BETTER: "{method} probably improves on {reference}.",
    Category.CANNOT_TELL: "Keep {reference}: there is no clear difference to {method}.",
    Category.SAME: "Keep {reference}: {method} does not improve on it.",
    Category.WORSE: "Keep {reference}: {method} does worse.",
}
_REPORTED_SEARCH = {
    Category.CLEARLY_BETTER: "{method} vectors find better results.",
    Category.PROBABLY_BETTER: "{method} vectors probably find better results.",
    Category.CANNOT_TELL: "{method} vectors may find better results.",
    Category.SAME: "Keep the vectors as they are: adapting them does not clearly help.",
    Category.WORSE: "Keep the vectors as they are: adapting them does harm.",
    Category.NOTHING: "The vectors were searched as they are.",
}


def verdict_text(
    category: Category,
    measure: Measure,
    gain: Gain,
    *,
    reference: tuple[str, str],
    method: tuple[str, str],
    guess: str = "",
) -> str:
    """Say which method to use for a goal, and how sure that is.

    Parameters
    ----------
    gain: Of the method over the reference.
    reference, method: Names and figures.
    guess: What the method is no better than.
    """
    baseline, before = described(reference[0]), reference[1]
    (name, after), label = method, measure.label
    likely = probability_text(gain.probability)
    if category is Category.NOTHING:
        return f"No other method was tried: {label} {before} with {baseline}."
    if category is Category.USELESS:
        return f"No method is better than {guess}: {label} {after} with {described(name)}."
    if not category.helps:
        return (
            f"No clear difference: keep {baseline} ({label} {before}); the best other method, "
            f"{name}, has {after} ({likely} likely to help)."
        )
    expected = measure.write_gain(gain.gain, gain.low, gain.high)
    return (
        f"Use {name}: {label} {after} instead of {before} with {baseline} "
        f"({category}: {likely} sure). Expected gain {expected} {SHRUNK}."
    )


def outcome_text(label: str, verdict: Verdict, before: str, after: str) -> str:
    """Say whether a metric helps, and how sure that is; figures are of the same held-out rows."""
    baseline, name = described(verdict.reference), verdict.method
    likely = probability_text(verdict.probability)
    if verdict.helps:
        return f"{name} helps: {label} {after} instead of {before} with {baseline} ({likely} sure)."
    return (
        f"No clear difference: keep {baseline} ({label} {before}); {name} has {after} "
        f"({likely} likely to help)."
    )


def described(name: str) -> str:
    """Return a phrase for one of the baselines, and the name of another method."""
    return _BASELINES.get(name, name)


def probability_text(probability: float) -> str:
    """Return a probability in percent."""
    if probability < 1 - _ALMOST_SURE:
        return "under 1 %"
    return "over 99 %" if probability > _ALMOST_SURE else f"{100 * probability:.0f} %"


def use_in_words(measure: Measure, n_neighbors: int | str) -> str:
    """Return what methods that are better by a measure are good for."""
    votes = "1 neighbour" if n_neighbors == 1 else f"{n_neighbors} neighbours"
    if n_neighbors == "auto":
        return measure.use.removesuffix(" with {neighbours}")
    return measure.use.format(neighbours=votes)


def sampled_text(n_rows: int, of: int, unit: str) -> str:
    """Say that a sample was compared."""
    remedy = f"increase {option('budget')} for more"
    return f"There was time for {n_rows} of {of} {unit}, the same for all methods; {remedy}."


def hardly_found_text(method: str, lost: Sequence[ClassError], n_classes: int) -> str:
    """Name the classes that a method hardly ever finds."""
    names = [f"{c.name} ({c.n_found:.0f} of {c.n_rows} rows found)" for c in lost[:_MOST_CLASSES]]
    more = f" and {len(lost) - _MOST_CLASSES} more" if len(lost) > _MOST_CLASSES else ""
    return (
        f"{method} hardly ever finds {len(lost)} of {n_classes} classes: {', '.join(names)}{more}."
    )


def write_gain(gain: float, low: float, high: float) -> str:
    """Return an expected gain and its interval as text."""
    gain_text, low_text, high_text = (plain(value, "z.3f") for value in (gain, low, high))
    return f"{gain_text} ({low_text} to {high_text})"


def search_headline(
    category: Category,
    name: str,
    figures: str,
    gain: Gain,
    harm: float,
    *,
    alone: bool = True,
    unseen: bool = True,
    lowered: bool = False,
    old: str = "untouched",
    cases: str = "searches",
    write_gain: Callable[[float, float, float], str] = write_gain,
) -> str:
    """Say whether to search with adapted vectors, or to use a new version.

    Parameters
    ----------
    name: Name of the adapter.
    figures: The measure before and after.
    harm: Probability that untouched vectors are better.
    alone: Whether no other adapter was tried.
    unseen: Whether it did not learn from these queries.
    lowered: Whether it is better on the whole, but worse for documents that it has not
        learned from.
    old: What it is compared with.
    cases: What was tested.
    write_gain: Writes a gain and its interval.
    """
    if category is Category.NOTHING:
        return f"Nothing to compare: {figures} with untouched vectors."
    helps, probably, harms, which = "It helps", "It probably helps", "It does harm", ""
    if not alone:
        helps = probably = f"Use {name}"
        harms, which = f"Adapting does harm ({name})", f" ({name})"
    figures += " on searches it has not seen" if unseen else f" on these {cases}"
    expected = f"Expected gain {write_gain(gain.gain, gain.low, gain.high)} {SHRUNK}."
    sure, worse = probability_text(gain.probability), probability_text(harm)
    keep, doubt = "Keep the untouched vectors.", ""
    if old != "untouched":
        helps, probably, harms = "Better", "Probably better", "Worse"
        keep, doubt = f"Keep {old}.", f" ({worse} probability that it is worse)"
    if lowered:
        return (
            f"{keep} {figures}, but searches for documents that it has not learned from become "
            f"worse{which}."
            + f" If there will be no such searches, use {option('answers', 'seen')}."
            * (old == "untouched")
        )
    return {
        Category.CLEARLY_BETTER: f"{helps}: {figures} ({category}: {sure}). {expected}",
        Category.PROBABLY_BETTER: f"{probably}: {figures} ({category}: {sure}). {expected}",
        Category.CANNOT_TELL: (
            f"These {cases} cannot tell{which}: {figures} ({sure} probability that it is better). "
            f"{expected}"
        ),
        Category.SAME: f"No clear gain{which}: {figures}{doubt}. {keep}",
        Category.WORSE: f"{harms}: {figures} (clearly worse: {worse}). {keep}",
    }[category]


def reported_sentence(
    category: Category, method: str, reference: str, recommended: str | None
) -> str:
    """Say in a report what follows for its method, and what the comparison recommends instead."""
    sentence = _REPORTED[category].format(method=method, reference=described(reference))
    if recommended in (None, method, reference):
        return sentence
    if not category.helps:
        sentence = f"{method} does not improve on {described(reference)}."
    return f"{sentence} The comparison recommends {recommended}."


def reported_search(category: Category, method: str) -> str:
    """Say in a report what follows for vectors."""
    return _REPORTED_SEARCH[category].format(method=method.capitalize())


def expectation_text(gain: str, probability: float) -> str:
    """Return a sentence on an expected gain."""
    return (
        f"Expected gain {gain} {SHRUNK}, as chance favours the best of several methods. "
        "Probability that the gain makes a practical difference: "
        f"{probability_text(probability)}."
    )
