"""The headline of a report: two numbers, before and after, and what they mean."""

from __future__ import annotations

from pathlib import Path

from nearfar.comparison import GoalComparison, MethodResult
from nearfar.evidence.verdict import (
    described,
    expectation_text,
    reported_sentence,
    use_in_words,
)
from nearfar.metrics.training_facts import share_learned_from
from nearfar.page.page import LOOKS, Headline
from nearfar.tables.report_study import Study


def headlines(study: Study) -> list[Headline]:
    """Return the headline of each goal; the first is the main one."""
    return [_headline(study, goal) for goal in study.goals]


def reason(study: Study) -> str:
    """Say why the report is about its method."""
    return study.reason or f"This report is about {study.method}."


def _headline(study: Study, goal: GoalComparison) -> Headline:
    result = next(result for result in goal.results if result.name == study.method)
    measure = goal.measure
    before, after = goal.write(goal.reference), goal.write(result)
    category = goal.category(result)
    compared = study.comparison
    verdict = goal.verdict if compared is None else compared.by_goal(goal.goal).verdict
    sentence = reported_sentence(category, study.method, goal.reference.name, verdict.recommended)
    if compared is not None and compared.caveat:
        sentence = f"{sentence.removesuffix('.')}; but {compared.caveat}."
    gain, expectation = goal.gains.get(result.name), ""
    if gain is not None:
        text = measure.write_gain(gain.gain, gain.low, gain.high)
        expectation = expectation_text(text, gain.probability)
    return Headline(
        measure.description,
        measure.title,
        described(goal.reference.name),
        study.method,
        before,
        after,
        category.text(goal.cases),
        LOOKS[category],
        sentence,
        expectation,
        _basis(study, goal, result),
    )


def _basis(study: Study, goal: GoalComparison, result: MethodResult) -> str:
    """Say what the numbers were measured on."""
    cases = "rows" if study.judgements is None else study.supervision
    use = use_in_words(goal.measure, study.n_neighbors)
    how = f"{use.capitalize()}. " if goal.measure.of == "votes" and use else ""
    compared = study.comparison is not None and study.method in study.comparison
    if study.relearn is None and not compared:
        file = Path(study.metric_file or "")
        if file.is_file() and (share := share_learned_from(file, study.X)):
            which = f"the metric was learned from {100 * share:.0f} % of them"
            return f"{how}Measured on {len(result.wrong)} {cases}; {which}."
        return (
            f"{how}Measured on {len(result.wrong)} {cases}, which the metric may have been "
            "learned from."
        )
    if not compared:
        return f"{how}Measured on {len(result.wrong)} held-out {cases}."
    return f"{how}Cross-validated on {len(result.errors)} folds."
