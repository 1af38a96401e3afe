"""The headline of a report: two numbers, before and after, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass

from nearfar.comparison import GoalComparison, MethodResult
from nearfar.comparison.results import paired
from nearfar.comparison.verdict import categorise
from nearfar.comparison.wording import described
from nearfar.report.measures import Measure
from nearfar.report.study import Study, compared_goals

WORSE, NOT_TESTED = "worse", "not tested"
_ALMOST_SURE = 0.995
_LOOKS = {
    "clearly better": "good",
    "probably better": "promising",
    "no difference that matters": "same",
    "too few rows to tell": "unsure",
    NOT_TESTED: "unsure",
    WORSE: "bad",
}
_SENTENCES = {
    "clearly better": "{method} is clearly better than {reference}.",
    "probably better": "{method} is probably better than {reference}.",
    "no difference that matters": "{method} makes no difference that matters to {reference}.",
    "too few rows to tell": "Too few rows to tell whether {method} is better than {reference}.",
    NOT_TESTED: "{method} had too little time to be compared with {reference}.",
    WORSE: "{method} is worse than {reference}.",
}


@dataclass(frozen=True)
class Headline:
    """A goal in two numbers and a badge.

    Attributes
    ----------
    measure : Measure
    reference, method : str
        Names of what is compared.
    before, after : str
        The numbers.
    badge : str
        Which of a few categories the difference belongs to.
    look : str
        Class of the badge in the style sheet.
    sentence : str
        The badge as a sentence.
    gain : str
        Expected gain with its interval and probability; empty if unknown.
    basis : str
        What the numbers were measured on.
    """

    measure: Measure
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
    found = (_headline(study, measure, goal) for measure, goal in study.goals)
    return [headline for headline in found if headline is not None]


def reason(study: Study) -> str:
    """Say why the report is about its method, and what the comparison recommends instead."""
    sentences = [study.reason or f"This report is about {study.method}."]
    if study.comparison is None:
        return sentences[0]
    verdict = compared_goals(study.comparison)[0].verdict
    if not verdict.helps:
        return sentences[0]
    if verdict.method != study.method:
        sentences.append(f"The comparison recommends {verdict.method} instead; see below.")
    return " ".join(sentences)


def category_of(goal: GoalComparison, result: MethodResult) -> str:
    """Return the category of the difference between a method and the reference."""
    gain = goal.gains.get(result.name)
    if gain is None:
        return NOT_TESTED
    if gain.high < 0:
        return WORSE
    return categorise(gain.probability, promising=goal.promises(result))


def _headline(study: Study, measure: Measure, goal: GoalComparison) -> Headline | None:
    result = next(result for result in goal.results if result.name == study.method)
    pair = paired(goal.reference, result)
    if pair is None:
        return None
    before, after = (measure.write(measure.value(goal.loss(each))) for each in pair)
    badge = category_of(goal, result)
    reference = described(goal.reference)
    sentence = _SENTENCES[badge].format(method=study.method, reference=reference)
    gain = goal.gains.get(result.name)
    expected = ""
    if gain is not None:
        sure = "over 99 %"
        if gain.probability <= _ALMOST_SURE:
            sure = f"{100 * gain.probability:.0f} %"
        expected = (
            f"Expected gain {measure.write_gain(gain)}; probability that it makes a practical "
            f"difference: {sure}."
        )
    return Headline(
        measure,
        reference,
        study.method,
        before,
        after,
        badge,
        _LOOKS[badge],
        sentence,
        expected,
        _basis(study, pair[1]),
    )


def _basis(study: Study, result: MethodResult) -> str:
    """Say what the numbers were measured on."""
    if study.judgements is None:
        votes = f"{study.n_neighbors} neighbours" if study.n_neighbors > 1 else "1 neighbour"
        how = f"classification with {votes}"
        cases = "rows"
    else:
        how, cases = "", type(study.judgements).__name__.lower()
    if result.trials is None:
        where = f"{len(result.wrong)} held-out {cases}"
    else:
        where = result.partial or f"cross-validation in {result.n_folds} folds"
    return f"{how}, {where}" if how else where
