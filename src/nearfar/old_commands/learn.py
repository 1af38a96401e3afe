"""``nearfar learn``: learn a metric from labels, numbers or judgements; say whether it helps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from nearfar.frames.formats import stem_of
from nearfar.frames.metric_files import check_metric_output
from nearfar.old_commands import options
from nearfar.old_commands.terminal import (
    NOT_HELPFUL,
    bars,
    command,
    command_line,
    say,
    show_result,
)
from nearfar.runtime.progress import parse_seconds
from nearfar.tables.checkpoint import FitCheckpoint
from nearfar.tables.learn import learn as learn_table
from nearfar.tables.learn import summary
from nearfar.tables.methods import find_method, name_of


@command
def learn(
    context: typer.Context,
    data: options.SupervisedInput,
    *,
    method: options.Method = None,
    save_as: Annotated[
        Path | None, options.output("Metric file to write [default: SOURCE.safetensors].")
    ] = None,
    max_iter: options.MaxIter = None,
    scale: options.Scale = None,
    settings: options.Settings = None,
    budget: options.TotalBudget = options.DEFAULT_BUDGET,
    goal: options.GoalOption = options.Goal.classification,
    only_if_significant: Annotated[
        bool,
        typer.Option(
            "--only-if-significant",
            help="Write a metric only if it is clearly better than the baseline (95 % sure).",
        ),
    ] = False,
    comparison: Annotated[bool, typer.Option(help="Cross-validate beside plain methods.")] = True,
    checkpoint: options.Checkpoint = None,
    testing: options.CrossValidation,
    json: options.Json = False,
) -> None:
    """Learn a metric, and say whether it helps.

    AutoMetric, which blends what several learners learn, is compared with simple methods, and the
    method that the verdict recommends is written.
    """
    started = time.perf_counter()
    settings = [*([] if scale is None else [f"scale={scale}"]), *(settings or [])]
    learner: dict[str, Any] = {"seed": testing.seed, "max_iter": max_iter, "settings": settings}
    choice = find_method(method, goal=goal.value, **learner)
    if not comparison:
        choice.check_without_comparison(strict=only_if_significant)
    request: dict[str, Any] = {"goal": goal.value, "budget": parse_seconds(budget)}
    request |= {
        "started": started,
        "comparison": comparison,
        "strict": only_if_significant,
        "checkpoint": checkpoint,
    }
    path = save_as or Path(f"{stem_of(Path(data.source))}.safetensors")
    check_metric_output(path, data.files, checkpoint)
    FitCheckpoint(checkpoint, data.files)
    table = data.read(numbers=choice.numbers)
    choice.check(table.kind)
    if not json:
        say(summary(table))
    with bars() as shown:
        request |= {**testing.parameters, "progress": shown.update}
        learned = learn_table(table, methods=choice, **request)
    if learned.metric is not None:
        learned.save(path)
    if (other := learned.alternative) is not None:
        changes = dict.fromkeys(["max_iter", "scale", "settings", "checkpoint"])
        learned.other_call = command_line(context, None, {"method": name_of(other), **changes})
    show_result(learned, json=json)
    if learned.path is None:
        raise typer.Exit(NOT_HELPFUL)
