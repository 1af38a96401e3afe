"""The sentences of verdicts: on metrics, on searches, and in reports.

Every sentence that says whether something helps is here. Those on metrics have at most 25 words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nearfar.comparison.compared_methods import COSINE, STANDARDISED, UNSCALED
from nearfar.comparison.verdict import Category, Gain
from nearfar.measures.judgements import ClassError
from nearfar.measures.registry import NDCG, Measure
from nearfar.runtime.messages import option

SHRUNK = "after shrinkage"
"""Why an expected gain is not the difference of the figures beside it."""
# Names in a sentence; more make it too long to read.
_MOST_CLASSES = 6
# Probabilities beyond this would be rounded to 100 % or to 0 %.
_ALMOST_SURE = 0.995
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
    write_gain: Callable[[float, float, float], str] = NDCG.write_gain,
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
