"""The headline of a report: two numbers, before and after, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass

from nearfar.comparison import GoalComparison, MethodResult
from nearfar.comparison.method_results import paired
from nearfar.comparison.table import use_in_words
from nearfar.comparison.verdict import categorise
from nearfar.comparison.wording import CORRECTED, described, probability_text
from nearfar.report.study import Study

WORSE, NOT_TESTED = "worse", "not tested"
_LOOKS = {
    "clearly better": "good",
    "probably better": "promising",
    "no difference that matters": "same",
    "too few rows to tell": "unsure",
    NOT_TESTED: "unsure",
    WORSE: "bad",
}
_SENTENCES = {
    "clearly better": "{method} improves on {reference}.",
    "probably better": "{method} probably improves on {reference}.",
    "no difference that matters": "{method} does not improve on {reference}.",
    "too few rows to tell": "{method} may improve on {reference}.",
    NOT_TESTED: "{method} had too little time to be compared with {reference}.",
    WORSE: "{method} does worse than {reference}.",
}
_USE = {"too few rows to tell": "Use {method}, the better guess: it may improve on {reference}."}
"""Other sentences if the method is recommended."""
_KEEP = {
    "no difference that matters": "Keep {reference}: {method} does not improve on it.",
    "too few rows to tell": "Keep {reference}: a tie with {method}.",
    WORSE: "Keep {reference}: {method} does worse.",
}
"""Other sentences if the reference is recommended."""


@dataclass(frozen=True)
class Headline:
    """A goal in two numbers and a badge.

    Attributes
    ----------
    measure, title : str
        What is measured, and what for.
    reference, method : str
        Names of what is compared.
    before, after : str
        The numbers.
    badge : str
        Which of a few categories the difference belongs to.
    look : str
        Class of the badge in the style sheet.
    sentence : str
        What follows for the method.
    gain : str
        Expected gain with its interval and probability, in words; empty if unknown.
    basis : str
        What the numbers were measured on.
    """

    measure: str
    title: str
    reference: str
    method: str
    before: str
    after: str
    badge: str
    look: str
    sentence: str
    gain: str
    basis: str


def headlines(study: Study) -> list[Headline]:
    """Return the headline of each goal; the first is the main one."""
    each = (_headline(study, goal) for goal in study.goals)
    return [headline for headline in each if headline is not None]


def reason(study: Study) -> str:
    """Say why the report is about its method."""
    return study.reason or f"This report is about {study.method}."


def _headline(study: Study, goal: GoalComparison) -> Headline | None:
    result = next(result for result in goal.results if result.name == study.method)
    pair = paired(goal.reference, result)
    if pair is None:
        return None
    measure = goal.measure
    before, after = (measure.write(measure.value(goal.loss(each))) for each in pair)
    gain, expectation = goal.gains.get(result.name), ""
    if gain is not None:
        text = measure.write_gain(gain.gain, gain.low, gain.high)
        expectation = expectation_text(text, gain.probability)
    if goal.mark(result) == "-":
        badge = WORSE
        if gain is not None:
            expectation = f"The difference is significant (p = {goal.p_values[result.name]:.2g})."
    elif result.method.kind == "baseline":
        # The reference is the best of them.
        badge = "no difference that matters"
    elif gain is None:
        badge = NOT_TESTED
    else:
        badge = categorise(gain.probability, promising=goal.promises(result))
    return Headline(
        measure.description,
        measure.title,
        described(goal.reference),
        study.method,
        before,
        after,
        badge.replace("rows", "rows" if study.judgements is None else study.supervision),
        _LOOKS[badge],
        _sentence(study, goal, badge),
        expectation,
        _basis(study, goal, pair[1]),
    )


def _sentence(study: Study, goal: GoalComparison, badge: str) -> str:
    """Say what follows for the method, and what the comparison recommends instead."""
    verdict = goal.verdict
    if study.comparison is not None:
        verdict = study.comparison.by_goal(goal.goal).verdict
    used, words = verdict.recommended, _SENTENCES
    if used in (study.method, goal.reference.name):
        words = _SENTENCES | (_USE if used == study.method else _KEEP)
    sentence = words[badge].format(method=study.method, reference=described(goal.reference))
    if used not in (None, study.method, goal.reference.name):
        sentence = f"{sentence} The comparison recommends {used}."
    if study.comparison is not None and study.comparison.caveat:
        sentence = f"{sentence.removesuffix('.')}; but {study.comparison.caveat}."
    return sentence


def expectation_text(gain: str, probability: float) -> str:
    """Return a sentence on an expected gain."""
    return (
        f"Expected gain {gain}, {CORRECTED}, which favours the best of several methods. "
        "Probability that the gain makes a practical difference: "
        f"{probability_text(probability)}."
    )


def _basis(study: Study, goal: GoalComparison, result: MethodResult) -> str:
    """Say what the numbers were measured on."""
    cases = "rows" if study.judgements is None else study.supervision
    use = use_in_words(goal.measure, study.n_neighbors)
    how = f"{use.capitalize()}. " if goal.measure.of == "votes" and use else ""
    if study.relearn is None and result.trials is None:
        return (
            f"{how}Measured on {len(result.wrong)} {cases}, which the metric may have been "
            "learned from."
        )
    if result.trials is None:
        return f"{how}Measured on {len(result.wrong)} held-out {cases}."
    return f"{how}Cross-validated on {result.partial or f'{result.n_folds} folds'}."
