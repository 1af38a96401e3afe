"""The section that compares methods: bars with intervals, and the table behind them."""

from __future__ import annotations

from nearfar.comparison import Comparison, GoalComparison, MethodResult
from nearfar.evaluate.measures import measures_for
from nearfar.report.blocks import Bar, BarGroup, Bars, Block, Markup, Section, Text
from nearfar.report.study import Study

# Of a goal, besides those that a reader looks for; all methods are in the table.
_MAX_BARS = 12


def comparison_section(study: Study) -> Section:
    """Return the verdict in words, bars for each goal, and the table."""
    comparison = study.comparison
    assert comparison is not None
    blocks: list[Block] = [Text(comparison.recommendations)]
    bars = [_bars(study, comparison, goal) for goal in study.compared_goals]
    blocks += [block for block in bars if block.groups]
    explanations = [measure.explanation for measure in measures_for(study.supervision)]
    how = {
        "labels": "Every method is fitted to some rows and evaluated on others.",
        "numbers": "Every method is fitted to some rows, and predicts the numbers of others.",
        "triplets": "Every method learns from the triplets of some anchors and is tested on those "
        "of others.",
        "pairs": "Every method learns from some pairs and is tested on others that, as far as "
        "possible, share no rows or no class with them.",
    }[study.supervision]
    if study.judgements is not None and study.judgements.n_raters > 1:
        how = (
            f"Every method learns from the {study.supervision} of some people and is tested on "
            "those of others."
        )
    sentences = [how, *filter(None, explanations)]
    explained = Text([" ".join(sentences)], summary="The measures")
    table = Markup(comparison.to_html(verdict=False), summary="All methods as a table")
    return Section("Does learning help?", "comparison", [*blocks, table, explained])


def _bars(study: Study, comparison: Comparison, goal: GoalComparison) -> Bars:
    measure, verdict = goal.measure, goal.verdict
    always = {study.method, goal.reference.name, verdict.method}
    ranked = sorted(comparison.results, key=goal.loss)
    drawn = [r for i, r in enumerate(ranked) if i < _MAX_BARS or r.name in always]
    longest = max((_ends(goal, result)[2] for result in drawn), default=1.0)
    scale = 100 / (longest or 1.0)
    roles = {
        "recommended": verdict.recommended,
        "baseline": goal.reference.name,
        "this report": study.method,
    }

    def bar(result: MethodResult) -> Bar:
        value, low, high = _ends(goal, result)
        return Bar(
            result.name,
            measure.write(value),
            scale * min(value, longest),
            scale * low,
            scale * min(high, longest),
            "best" if result.name == verdict.recommended else "",
            ", ".join(role for role, name in roles.items() if name == result.name),
        )

    left_out = len(comparison.results) - len(drawn)
    more = f" {left_out} more methods are in the table." if left_out else ""
    better = "Shorter" if measure.better == "lower" else "Longer"
    caption = (
        f"{better} is better. The lines are 90 % intervals. All methods are tested on the same "
        f"data, so their differences are surer than the lines suggest.{more}"
    )
    return Bars(
        f"{measure.title}: {measure.description}",
        [BarGroup("", [bar(result) for result in drawn])],
        caption,
    )


def _ends(goal: GoalComparison, result: MethodResult) -> tuple[float, float, float]:
    """Return the value of a result, and the ends of its interval."""
    low, high = sorted(goal.measure.value(end) for end in goal.interval(result))
    return goal.measure.value(goal.loss(result)), low, high
