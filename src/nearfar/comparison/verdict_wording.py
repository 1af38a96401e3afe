"""The sentences of verdicts: on metrics, on searches, and in reports.

Every sentence that says whether something helps is here. `Wording` has those on metrics,
`search_headline` those on searches and new versions; reports have shorter ones beside their two
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nearfar.comparison.compared_methods import COSINE, STANDARDISED, UNSCALED
from nearfar.comparison.gains import Gain
from nearfar.comparison.method_results import MethodResult, paired
from nearfar.comparison.verdict import Category
from nearfar.evaluate.class_errors import ClassError, LargestClass
from nearfar.evaluate.measures import NDCG, Measure
from nearfar.runtime.option_names import option

SHRUNK = "after shrinkage"
"""Why an expected gain is not the difference of the figures beside it."""
# Names in a sentence; more make it too long to read.
_MOST_METHODS, _MOST_CLASSES = 8, 6
# Probabilities beyond this would be rounded to 100 % or to 0 %.
_ALMOST_SURE = 0.995
_TIE = "a tie, which goes to the simpler method"
_BASELINES = {
    UNSCALED: "Euclidean distance on unscaled rows",
    STANDARDISED: "Euclidean distance",
    COSINE: "cosine distance",
}
_REPORTED = {
    Category.CLEARLY_BETTER: "{method} improves on {reference}.",
    Category.PROBABLY_BETTER: "{method} probably improves on {reference}.",
    Category.CANNOT_TELL: "{method} may improve on {reference}.",
    Category.SAME: "{method} does not improve on {reference}.",
    Category.WORSE: "{method} does worse than {reference}.",
    Category.NOT_TESTED: "{method} had too little time to be compared with {reference}.",
}
# Other sentences if the method is recommended.
_REPORTED_USE = {
    Category.CANNOT_TELL: "Use {method}: it may improve on {reference}.",
}
# Other sentences if the reference is recommended.
_REPORTED_KEEP = {
    Category.CANNOT_TELL: "Keep {reference}: a tie with {method}.",
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


@dataclass(frozen=True)
class Wording:
    """Words for results by one measure.

    Attributes
    ----------
    measure : Measure
    reference : MethodResult
        The baseline that methods are compared with.
    cases : str
        What was tested: rows, groups, classes, triplets or pairs.
    """

    measure: Measure
    reference: MethodResult
    cases: str = "rows"

    def verdict(
        self, chosen: MethodResult, category: Category, gain: Gain, *, recommended: bool
    ) -> str:
        """Say whether to use a method or the reference, and how sure that is."""
        reference, result = paired(self.reference, chosen) or (self.reference, chosen)
        baseline, before = described(reference), self._figure(reference)
        after, on = self._figure(result), _on(result)
        label, sure = self.measure.label, probability_text(gain.probability)
        doubt = f"Too few {self.cases}" if result.complete else "Too little was tried"
        expected = self.measure.write_gain(gain.gain, gain.low, gain.high)
        instead = f"{label} {after} instead of {before} with {baseline}{on}"
        if recommended and category is Category.CANNOT_TELL:
            return (
                f"Use {chosen.name}: {instead}. {doubt} to be sure ({sure} probability that it is "
                f"better). Expected gain {expected} {SHRUNK}."
            )
        if recommended:
            return (
                f"Use {chosen.name}: {instead} ({category}: {sure}). "
                f"Expected gain {expected} {SHRUNK}."
            )
        keep, there = f"Keep {baseline}: {label} {before}{on}", " there" if on else ""
        if category is Category.CANNOT_TELL:
            return (
                f"{keep}. A tie with the best other method, {chosen.name}: {after}{there}. "
                f"{doubt} to tell them apart ({sure} probability that it is better)."
            )
        return (
            f"{keep}. No other method that was tried makes a difference that matters; the best, "
            f"{chosen.name}, has {after}{there} ({sure} probability that it is better)."
        )

    def untried(self) -> str:
        """Say that there is nothing to compare."""
        return (
            f"No other method was tried: {self.measure.label} {self._figure(self.reference)} with "
            f"{described(self.reference)}{_on(self.reference)}."
        )

    def beside(self, chosen: MethodResult, other: MethodResult, manner: str) -> str:
        """Say how another method does, where both were tried.

        `manner` is "tie", "may do as well", "less tried" if it is better where both were tried, or
        empty if it is worse.
        """
        pair = paired(chosen, other)
        if pair is None:
            return ""
        one, two = (self._figure(result) for result in pair)
        name = other.name[0].upper() + other.name[1:]
        if pair[0].cells != chosen.cells:
            why = {"tie": f": {_TIE}", "less tried": f", but {other.name} was tried on less"}
            more = why.get(manner, "")
            return f" On {pair[1].partial}, {other.name} has {two} and {chosen.name} {one}{more}."
        if manner == "less tried":
            return f" {name} has {two}, but was tried on less."
        losses = [result.loss(self.measure.name) for result in pair]
        if manner == "tie" and one != two and losses[1] < losses[0]:
            return f" {name} has {two}, too small a difference to count: {_TIE}."
        if manner == "tie":
            return f" {name} does as well ({two}): {_TIE}."
        if manner:
            return f" {name} {manner} ({two})."
        kind = "plain method" if other.method.kind == "plain" else "learner"
        return f" The best {kind}, {other.name}, has {two}."

    def without_file(self, used: MethodResult, other: MethodResult) -> str:
        """Say that a distance which is not a metric does better than what is recommended."""
        pair = paired(used, other)
        if pair is None:
            return ""
        return (
            f" {other.name[0].upper()}{other.name[1:]} has {self._figure(pair[1])}{_on(pair[1])}, "
            "but is not a linear map, "
            "and cannot be written as a metric."
        )

    def _figure(self, result: MethodResult) -> str:
        return self.measure.write(self.measure.value(result.loss(self.measure.name)))


def described(reference: MethodResult) -> str:
    """Return a phrase for one of the baselines.

    Examples
    --------
    >>> from nearfar.comparison import MethodResult, default_methods
    >>> from nearfar.comparison.verdict_wording import described
    >>> [described(MethodResult(method)) for method in default_methods([])[:3]]
    ['Euclidean distance on unscaled rows', 'Euclidean distance', 'cosine distance']
    """
    return _BASELINES.get(reference.name, reference.name)


def probability_text(probability: float) -> str:
    """Return a probability in percent.

    Examples
    --------
    >>> from nearfar.comparison.verdict_wording import probability_text
    >>> probability_text(0.871), probability_text(0.999), probability_text(0.002)
    ('87 %', 'over 99 %', 'under 1 %')
    """
    if probability < 1 - _ALMOST_SURE:
        return "under 1 %"
    return "over 99 %" if probability > _ALMOST_SURE else f"{100 * probability:.0f} %"


def use_in_words(measure: Measure, n_neighbors: int | str) -> str:
    """Return what methods that are better by a measure are good for.

    Examples
    --------
    >>> from nearfar.comparison.verdict_wording import use_in_words
    >>> from nearfar.evaluate.measures import ERROR
    >>> use_in_words(ERROR, 3)
    'classification with 3 neighbours'
    """
    votes = "1 neighbour" if n_neighbors == 1 else f"{n_neighbors} neighbours"
    votes = "nearest neighbours" if n_neighbors == "auto" else votes
    return measure.use.format(neighbours=votes)


def _on(result: MethodResult) -> str:
    """Return a phrase for what a result was measured on, if not on all folds."""
    return f", measured on {result.partial}" if result.partial else ""


def short_of_time(
    names: Sequence[str], partly: Mapping[str, str], not_tried: Sequence[str], remedy: str = ""
) -> str:
    """Say which methods were not tried, or only partly.

    Parameters
    ----------
    names : sequence of str
        Methods that were tried.
    partly : mapping of str to str
        Those that did not finish, and what they were tried on.
    not_tried : sequence of str
        Methods that there was no time for.
    remedy : str, optional
        What to do about it.

    Examples
    --------
    >>> from nearfar.comparison.verdict_wording import short_of_time
    >>> short_of_time(["cosine", "RCA"], {"RCA": "1 of 5 folds"}, ["NCA"])
    'Not tried for lack of time: NCA. Only partly tried for lack of time: RCA (1 of 5 folds).'
    """
    sentences = []
    if not_tried:
        sentences.append(f"Not tried for lack of time: {_some(not_tried)}.")
    by_data: dict[str, list[str]] = {}
    for name, data in partly.items():
        by_data.setdefault(data, []).append(name)
    if len(by_data) == 1 and set(names) <= partly.keys():
        which = "others" if not_tried else "methods"
        sentences.append(f"All {which} were tried on {next(iter(by_data))} only, for lack of time.")
    elif by_data:
        groups = "; ".join(f"{_some(group)} ({data})" for data, group in by_data.items())
        sentences.append(f"Only partly tried for lack of time: {groups}.")
    if remedy:
        sentences.append(f"{remedy}.")
    return " ".join(sentences)


def _some(names: Sequence[str]) -> str:
    """Return the first names, and how many there are beside them."""
    more = len(names) - _MOST_METHODS
    return ", ".join(names[:_MOST_METHODS]) + (f" and {more} more" if more > 0 else "")


def useless_text(used: MethodResult, largest: LargestClass) -> str:
    """Say that a method is no better than a guess, whatever it improves on."""
    return (
        f"{used.name} is no better than always naming the largest class, {largest.name}: "
        f"{100 * used.error:.1f} % error instead of {100 * largest.error:.1f} %."
    )


def classifier_text(
    measure: Measure, best: MethodResult, used: MethodResult, probability: float
) -> str:
    """Say that a classifier, or a regression, errs less than the method to use."""
    name = best.name[0].upper() + best.name[1:]
    one, two = (measure.write(measure.value(each.error)) for each in (best, used))
    of, what = (
        (f"{measure.label} ", "number") if "numbers" in measure.supervision else ("", "class")
    )
    return (
        f"{name} errs less: {of}{one}, and {two} with "
        f"{used.name} ({Category.CLEARLY_BETTER}: {probability_text(probability)}). If only the "
        f"{what} is wanted, use that; it has no neighbours to show."
    )


def hardly_found_text(method: str, lost: Sequence[ClassError], n_classes: int) -> str:
    """Name the classes that a method hardly ever finds.

    Examples
    --------
    >>> from nearfar.evaluate.class_errors import ClassError
    >>> from nearfar.comparison.verdict_wording import hardly_found_text
    >>> hardly_found_text("LDA", [ClassError("tin", 30, 1.0), ClassError("gold", 12, 0.0)], 7)
    'LDA hardly ever finds 2 of 7 classes: tin (1 of 30 rows found), gold (0 of 12).'
    """
    first, *others = lost
    names = [f"{first.name} ({first.n_found:.0f} of {first.n_rows} rows found)"]
    names += [f"{o.name} ({o.n_found:.0f} of {o.n_rows})" for o in others[: _MOST_CLASSES - 1]]
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
    category : Category
    name : str
        Name of the adapter.
    figures : str
        The measure before and after.
    gain : Gain
    harm : float
        Probability that untouched vectors are better.
    alone : bool, default=True
        Whether no other adapter was tried.
    unseen : bool, default=True
        Whether it did not learn from these queries.
    lowered : bool, default=False
        Whether it is better on the whole, but worse for documents that it has not learned from.
    old : str, default="untouched"
        What it is compared with.
    cases : str, default="searches"
        What was tested.
    write_gain : callable, optional
        Writes a gain and its interval.
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
    category: Category, method: str, reference: MethodResult, recommended: str | None
) -> str:
    """Say in a report what follows for its method, and what the comparison recommends instead."""
    sentences = _REPORTED
    if recommended == method:
        sentences = _REPORTED | _REPORTED_USE
    elif recommended == reference.name:
        sentences = _REPORTED | _REPORTED_KEEP
    sentence = sentences[category].format(method=method, reference=described(reference))
    if recommended in (None, method, reference.name):
        return sentence
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
