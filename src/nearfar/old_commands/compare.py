"""``nearfar compare``: learners, plain methods and Euclidean distance on the same folds."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer

from nearfar.comparison import Comparison
from nearfar.comparison.methods import ALL
from nearfar.old_commands import options
from nearfar.old_commands.terminal import bars, command, command_line, say, show_json
from nearfar.runtime.messages import notes_so_far
from nearfar.tables.checkpoint import FitCheckpoint
from nearfar.tables.compare import compare_table
from nearfar.tables.fitting import parse_seconds
from nearfar.tables.methods import (
    BEST,
    METHOD_NAMES,
    choose_methods,
    find_method,
    name_of,
    settings_beside,
)


class HeldOutUnit(StrEnum):
    """What folds hold out."""

    rows = "rows"
    classes = "classes"


@command
def compare(
    context: typer.Context,
    data: options.SupervisedInput,
    *,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Method to compare; repeatable [default: AutoMetric, the papers' methods, NCA, "
            f"LMNN and closed forms]: {', '.join(METHOD_NAMES)}, {ALL}."
        ),
    ] = None,
    budget: options.Budget = options.DEFAULT_BUDGET,
    checkpoint: options.Checkpoint = None,
    split: Annotated[
        HeldOutUnit,
        typer.Option(help="What folds hold out: rows, or whole classes that nothing learned from."),
    ] = HeldOutUnit.rows,
    goal: Annotated[
        options.Goal | None,
        typer.Option("--goal", help="What the next command is for [default: both]."),
    ] = None,
    testing: options.CrossValidation,
    json: options.Json = False,
) -> None:
    """Compare Euclidean distance, plain methods and learners by cross-validation.

    Euclidean distance and the plain methods always take part. Methods learn from labels,
    numbers, triplets or pairs, and are tested on others.
    """
    limit = parse_seconds(budget)
    learners = choose_methods(method or [BEST], seed=testing.seed).learners
    table = data.read()
    for name in method or []:
        if name != ALL:
            find_method(name).check(table.kind)
    with FitCheckpoint(checkpoint, data.files, fits=False) as kept, bars() as shown:
        comparison = compare_table(
            table,
            learners,
            **testing.parameters,
            budget=limit,
            split=split.value,
            checkpoint=kept.comparison,
            progress=shown.update,
        )
    if json:
        notes = [each.text for each in [*notes_so_far(), *comparison.findings]]
        show_json({"source": data.source, **comparison.to_dict(), "notes": notes})
        return
    say(str(comparison))
    for line in _next_commands(context, comparison, goal):
        say(line)


def _next_commands(
    context: typer.Context, comparison: Comparison, wanted: options.Goal | None
) -> Iterator[str]:
    """Yield the command that learns what is recommended, once for each method."""
    names: set[str] = set()
    goals = dict(comparison.goals)
    if wanted is not None and wanted.value in goals:
        goals = {wanted.value: goals[wanted.value]}
    for goal, compared in goals.items():
        used = compared.recommended
        name = None if used is None else name_of(used.method)
        if used is None or name is None or name in names:
            continue
        first = not names
        names.add(name)
        changes: dict[str, object] = dict.fromkeys(["split", "json", "checkpoint", "budget"])
        changes["method"] = name
        changes["goal"] = None if first and wanted is None else goal
        changes["set"] = settings_beside(name, used.method)
        yield f"{'Next' if first else f'For {goal}'}: {command_line(context, 'learn', changes)}"
