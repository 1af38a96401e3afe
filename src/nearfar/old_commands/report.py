"""``nearfar report``: one HTML file about what a learned metric does to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearfar.frames.formats import check_output, stem_of
from nearfar.frames.metric_files import check_metric_output, load_metric
from nearfar.old_commands import options
from nearfar.old_commands.terminal import bars, command, command_line, say, show_json
from nearfar.page.page import check_packages
from nearfar.runtime.progress import parse_seconds
from nearfar.tables.checkpoint import FitCheckpoint
from nearfar.tables.learn import learn
from nearfar.tables.methods import find_method
from nearfar.tables.report import parse_image_shape, report_on_learned, report_on_metric
from nearfar.tables.report_study import Study

# Part of the budget that a learner which plans its time has for a fit, beside the comparison.
_SHARE_OF_FIT = 0.25
# A fit that plans its time needs some, also without a budget.
_SHORTEST_FIT = 1.0


@command
def report(
    context: typer.Context,
    data: options.SupervisedInput,
    *,
    title: options.Title = None,
    show: options.Show = None,
    image: options.Image = None,
    pictures: options.Pictures = None,
    image_shape: options.ImageShape = None,
    method: options.Method = None,
    metric: options.GivenMetric = None,
    goal: options.GoalOption = options.Goal.classification,
    save_as: Annotated[
        Path | None, options.output("HTML file to write [default: SOURCE.html].")
    ] = None,
    budget: options.Budget = options.DEFAULT_BUDGET,
    checkpoint: options.Checkpoint = None,
    testing: options.CrossValidation,
    json: options.Json = False,
) -> None:
    """Write a report on a metric: one HTML file that needs no network.

    Unless --metric is given, the method that the verdict recommends learns a metric, which is
    written beside the report. --method names another one.
    """
    check_packages()
    path = save_as or Path(f"{stem_of(Path(data.source))}.html")
    metric_path = path.with_name(f"{path.stem}-metric.safetensors")
    check_output(path, (".html", ".htm"), [*data.files, metric])
    check_metric_output(metric_path, data.files)
    FitCheckpoint(checkpoint, [*data.files, metric, path, metric_path], fits=metric is None)
    limit = parse_seconds(budget)
    choice = find_method(method, seed=testing.seed)
    given = None if metric is None else load_metric(metric)
    table = data.read(
        numbers=choice.numbers, show=show, image=image, pictures=pictures, metric=given
    )
    choice.check(table.kind)
    page: dict[str, Any] = {"title": title or "", "command": command_line(context)}
    page["image_shape"] = parse_image_shape(image_shape, table.X.shape[1])
    with bars() as shown:
        work = {**testing.parameters, "checkpoint": checkpoint, "progress": shown.update}
        if metric is not None and given is not None:
            study = report_on_metric(given, metric, table, path, budget=limit, **work, page=page)
        else:
            limits = limit, None if limit is None else max(limit * _SHARE_OF_FIT, _SHORTEST_FIT)
            learned = learn(table, methods=choice, goal=goal.value, budget=limits, **work)
            study = report_on_learned(learned, path, metric_path, **page, progress=shown.update)
    _show(study, path, None if given is not None else metric_path, json=json)


def _show(study: Study, path: Path, metric_path: Path | None, *, json: bool) -> None:
    assert study.comparison is not None
    if json:
        written = {"report": str(path), "metric": study.metric_file, "method": study.method}
        notes = [each.text for each in study.notes_on_top]
        show_json(written | {"notes": notes, "comparison": study.comparison.to_dict()})
        return
    say(study.comparison.verdict)
    say(f"Report on {study.method} written to {path}")
    if metric_path is not None:
        say(f"Metric written to {metric_path}: {study.written}")
