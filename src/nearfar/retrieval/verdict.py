"""Whether adapted vectors search better than untouched ones, in words.

The verdict is on the main measure, nDCG@k. How sure it is comes from one model, `comparison.gains`:
the probability that adapting makes a practical difference for the better and, with the roles
exchanged, for the worse. Marks in tables are the same probabilities. There is no test beside them:
a test by folds has five numbers to go by, and misses most gains that are real
(`benchmarks/search_calibration.py`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from nearfar.comparison.gains import Gain
from nearfar.comparison.verdict import CLEAR, PROBABLE, BaseVerdict
from nearfar.comparison.wording import CORRECTED, probability_text

Category = Literal[
    "clearly better",
    "probably better",
    "too few searches to tell",
    "no clear gain",
    "worse",
    "nothing to compare",
]


@dataclass(frozen=True)
class SearchVerdict(BaseVerdict):
    """Whether to use adapted vectors.

    Attributes
    ----------
    method : str or None
        The adapter with the largest expected gain; None if none was tried.
    measure : str
        What is measured, such as "nDCG@10".
    before, after : float
        Its mean over the queries with untouched and with adapted vectors.
    category : str
        "clearly better" (at least 95 % sure), "probably better" (at least 75 % sure), "too few
        searches to tell", "no clear gain" (at most 25 % sure, or not better when tried), "worse"
        (at least 95 % sure), or "nothing to compare".
    gain, low, high : float
        Expected gain and its 90 % interval.
    probability : float
        Probability that the gain makes a practical difference.
    harm : float
        Probability that the loss does, if neither side is expected to be better.
    headline : str
        All of this in words.
    """

    method: str | None
    measure: str
    before: float
    after: float
    category: Category
    gain: float
    low: float
    high: float
    probability: float
    harm: float
    headline: str


def judge(
    name: str,
    measure: str,
    before: float,
    after: float,
    gain: Gain,
    harm: float,
    *,
    alone: bool,
    unseen: bool = True,
) -> SearchVerdict:
    """Return the verdict on one adapter.

    `alone` says that no other was tried, and `unseen` that it did not learn from these queries.
    """
    found = category(before, after, gain, harm)
    helps, harms, which = "It helps", "It does harm", ""
    probably = "It probably helps"
    if not alone:
        helps = probably = f"Use {name}"
        harms, which = f"Adapting does harm ({name})", f" ({name})"
    searches = "searches it has not seen" if unseen else "these searches"
    figures = f"{measure} {before:.3f} -> {after:.3f} on {searches}"
    interval = f"({gain.low:z.3f} to {gain.high:z.3f})"
    expected = f"Expected gain {gain.gain:z.3f} {interval}, {CORRECTED}."
    sure = probability_text(gain.probability)
    keep = "Keep the untouched vectors."
    headline = {
        "clearly better": f"{helps}: {figures} (clearly better: {sure}). {expected}",
        "probably better": f"{probably}: {figures} (probably better: {sure}). {expected}",
        "too few searches to tell": (
            f"These searches cannot tell{which}: {figures} (better: {sure}). {expected}"
        ),
        "no clear gain": f"No clear gain{which}: {figures}. {keep}",
        "worse": f"{harms}: {figures} (clearly worse: {probability_text(harm)}). {keep}",
    }[found]
    gains = asdict(gain)
    return SearchVerdict(name, measure, before, after, found, **gains, harm=harm, headline=headline)


def untried(measure: str, before: float) -> SearchVerdict:
    """Return the verdict if no adapter was tried."""
    headline = f"Nothing to compare: {measure} {before:.3f} with untouched vectors."
    return SearchVerdict(
        None, measure, before, before, "nothing to compare", 0.0, 0.0, 0.0, 0.0, 0.0, headline
    )


def category(before: float, after: float, gain: Gain, harm: float) -> Category:
    """Return what a difference means.

    Examples
    --------
    >>> from nearfar.comparison.gains import Gain
    >>> from nearfar.retrieval.verdict import category
    >>> category(0.40, 0.46, Gain(0.05, 0.02, 0.08, probability=0.98), harm=0.0)
    'clearly better'
    >>> category(0.40, 0.39, Gain(0.00, -0.02, 0.01, probability=0.30), harm=0.4)
    'no clear gain'
    """
    if after < before and harm >= CLEAR:
        return "worse"
    if after <= before:
        return "no clear gain"
    if gain.probability >= CLEAR:
        return "clearly better"
    if gain.probability >= PROBABLE:
        return "probably better"
    undecided = gain.probability > 1 - PROBABLE
    return "too few searches to tell" if undecided else "no clear gain"
