"""The section that compares methods: bars with intervals, and the table behind them."""

from __future__ import annotations

from collections.abc import Iterator

from nearfar.comparison import Comparison, GoalComparison, MethodResult
from nearfar.comparison.results import paired
from nearfar.report.blocks import Bar, BarGroup, Bars, Block, Markup, Section, Text
from nearfar.report.judgements import how_compared
from nearfar.report.measures import MEASURES, Measure, loss_interval
from nearfar.report.study import Study

_MAX_BARS = 12
_ALL_FOLDS = "all folds"
_LABEL_MEASURES = (
    "Every method is fitted to some rows and evaluated on others. Triplets: the share of triplets "
    "(a row, a row of the same class, a row of another class) in which the row of the same class "
    "is nearer. MAP@R: the mean average precision of the first R results for a row, where R is "
    "the number of other rows in its class."
)


def comparison_section(study: Study) -> Section:
    """Return the verdict in words, bars for each goal, and the table."""
    comparison = study.comparison
    assert comparison is not None
    blocks: list[Block] = [Text(comparison.verdicts)]
    bars = [_bars(study, comparison, goal) for goal in study.compared_goals]
    blocks += [block for block in bars if block.groups]
    measures = _LABEL_MEASURES if study.judgements is None else how_compared(study.judgements)
    explained = Text([measures], summary="The measures")
    table = Markup(comparison.to_html(verdict=False), summary="All methods as a table")
    return Section("Does learning help?", "comparison", [*blocks, table, explained])


def _bars(study: Study, comparison: Comparison, goal: GoalComparison) -> Bars:
    measure = MEASURES[goal.goal]
    verdict = goal.verdict
    winner = verdict.method if verdict.helps else None
    if verdict.category == "no difference that matters":
        winner = goal.reference.name
    groups = list(_groups(study, comparison, goal))
    ends = [_ends(goal, measure, result)[2] for _, results in groups for result in results]
    longest = max(ends, default=1.0)
    main = {study.method, verdict.method}
    drawn = [
        BarGroup(
            title if len(groups) > 1 else "",
            [_bar(study, goal, measure, result, winner, longest) for result in results],
            folded=number > 0 and main.isdisjoint(result.name for result in results),
        )
        for number, (title, results) in enumerate(groups)
    ]
    left_out = len(comparison.results) - len({bar.name for group in drawn for bar in group.bars})
    more = f" {left_out} more methods are in the table." if left_out else ""
    better = "Shorter" if measure.is_loss else "Longer"
    caption = (
        f"{better} is better. The lines are 90 % intervals. All methods are tested on the same "
        f"data, so their differences are surer than the lines suggest.{more}"
    )
    return Bars(f"{measure.title}: {measure.name}", drawn, caption)


def _groups(
    study: Study, comparison: Comparison, goal: GoalComparison
) -> Iterator[tuple[str, list[MethodResult]]]:
    """Yield what methods were tried on, most data first, and the best methods, best first.

    Euclidean distance and the method of the report are always among them. A group with part of the
    data has Euclidean distance on the same data.
    """
    groups: dict[str, list[MethodResult]] = {}
    for result in sorted(comparison.results, key=lambda r: r.extent, reverse=True):
        group = groups.setdefault(result.partial or _ALL_FOLDS, [])
        pair = paired(result, goal.reference)
        if not any(other.name == goal.reference.name for other in group) and pair is not None:
            group.append(pair[1])
        if result.name != goal.reference.name:
            group.append(result)
    always = {study.method, goal.reference.name, goal.verdict.method}
    for title, results in groups.items():
        ranked = sorted(results, key=goal.loss)
        kept = [r for i, r in enumerate(ranked) if i < _MAX_BARS or r.name in always]
        if any(result.name != goal.reference.name for result in kept):
            yield title, kept


def _ends(
    goal: GoalComparison, measure: Measure, result: MethodResult
) -> tuple[float, float, float]:
    """Return the value of a result, and the ends of its interval."""
    low, high = loss_interval(goal, result)
    ends = sorted([measure.value(low), measure.value(high)])
    return measure.value(goal.loss(result)), ends[0], ends[1]


def _bar(
    study: Study,
    goal: GoalComparison,
    measure: Measure,
    result: MethodResult,
    winner: str | None,
    longest: float,
) -> Bar:
    value, low, high = _ends(goal, measure, result)
    scale = 100 / (longest or 1.0)
    notes = [
        ("recommended", result.name == winner),
        ("baseline", result.name == goal.reference.name),
        ("this report", result.name == study.method),
    ]
    look = "best" if result.name == winner else ""
    return Bar(
        result.name,
        measure.write(value),
        scale * min(value, longest),
        scale * low,
        scale * min(high, longest),
        look,
        ", ".join(note for note, applies in notes if applies),
    )
