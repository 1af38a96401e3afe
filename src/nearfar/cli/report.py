"""``nearfar report``: one HTML file about what a learned metric does to a table."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from sklearn.base import clone

from nearfar.cli import options
from nearfar.cli.compare import run_comparison
from nearfar.cli.errors import UserError
from nearfar.cli.fit_checkpoint import FitCheckpoint
from nearfar.cli.method_options import AUTO, MethodChoice, find_method, fit_method
from nearfar.cli.metric_files import check_metric_output, check_output, load_metric, save_metric
from nearfar.cli.row_input import InputRows
from nearfar.cli.supervised_input import SupervisedInput
from nearfar.cli.table_formats import stem_of
from nearfar.cli.terminal import bars, command, convergence_notes, say, show_json
from nearfar.comparison import Comparison, Method
from nearfar.comparison.method_results import NO_TIME
from nearfar.learners.base import MetricLearner
from nearfar.report import Study, write_report

_SHARE_OF_FIT = 0.25
"""Part of the budget that a learner which plans its time has for a fit, beside the comparison."""
_SHORTEST_FIT = 1.0


@command
def report(
    context: typer.Context,
    data: SupervisedInput,
    *,
    text: options.Text = None,
    image_shape: options.ImageShape = None,
    method: options.Method = AUTO,
    metric: options.GivenMetric = None,
    save_as: Annotated[
        Path | None, options.output("HTML file to write [default: SOURCE.html].")
    ] = None,
    budget: options.Budget = "60s",
    checkpoint: options.Checkpoint = None,
    testing: options.CrossValidation,
    json: options.Json = False,
) -> None:
    """Write a report on a metric: one HTML file that needs no network.

    Unless --metric is given, a metric is learned and written beside the report.
    """
    path = save_as or Path(f"{stem_of(Path(data.source))}.html")
    metric_path = path.with_name(f"{path.stem}-metric.safetensors")
    check_output(path, (".html", ".htm"), [*data.files, metric])
    check_metric_output(metric_path, data.files)
    kept = FitCheckpoint(checkpoint, [*data.files, metric, path, metric_path])
    limit = options.seconds(budget)
    choice = find_method(method, seed=testing.seed)
    given = None if metric is None else load_metric(metric)
    rows, known = data.read(text=text, metric=given)
    choice.check(known)
    shape = _image_shape(image_shape, rows)
    with kept:
        kept.check(choice.learner, rows.X, known, rows.groups)
        comparison = run_comparison(
            rows,
            known,
            choice.learners if given is None else None,
            testing,
            limit,
            checkpoint=kept.comparison,
        )
        subject: dict[str, Any] = {
            "metric": given,
            "method": "metric",
            "metric_file": str(metric),
            "reason": f"This report is about the metric in {metric}, as asked with --metric.",
        }
        if given is None:
            chosen = choose_subject(comparison, choice)
            share = None if limit is None else max(limit * _SHARE_OF_FIT, _SHORTEST_FIT)
            subject = _learn(rows, known, chosen.method, metric_path, kept, share)
            subject |= {"reason": chosen.reason, "goal": chosen.goal}
        subject["command"] = command_line(context)
        study = _study(rows, known, comparison, shape, testing.seed, subject)
        with bars() as shown, convergence_notes():
            write_report(path, study, progress=shown.update)
    if json:
        written = {"report": str(path), "metric": study.metric_file, "method": study.method}
        show_json(written | {"comparison": comparison.to_dict()})
        return
    say(comparison.verdict)
    say(f"Report on {study.method} written to {path}")
    if given is None:
        say(f"Metric written to {metric_path}")


def _study(
    rows: InputRows,
    known: Any,
    comparison: Comparison,
    shape: tuple[int, ...] | None,
    seed: int,
    subject: dict[str, Any],
) -> Study:
    return Study(
        rows.name,
        rows.X,
        known,
        groups=rows.groups,
        comparison=comparison,
        feature_names=rows.feature_names,
        ids=rows.ids,
        texts=rows.texts,
        image_shape=shape,
        random_state=seed,
        notes=() if rows.columns is None else [("Columns", str(rows.columns))],
        **subject,
    )


@dataclass(frozen=True)
class Subject:
    """What a report is about.

    Attributes
    ----------
    method : Method
    reason : str
        Why, as a sentence.
    goal : str or None
        The goal that it was chosen for.
    """

    method: Method
    reason: str
    goal: str | None = None


def choose_subject(comparison: Comparison, choice: MethodChoice) -> Subject:
    """Return what to report on: the named method, or one that the comparison chooses.

    That is the best guess for the first goal that has one, or else the learner, or the plain
    method, with the smallest error.
    """
    if choice.method is not None:
        name = choice.method.name
        for result in comparison.left_out:
            if result.name == name and result.note == NO_TIME:
                raise UserError(f"There was no time to try {name}; increase --budget.")
            if result.name == name:
                raise UserError(f"{name} was left out of the comparison: {result.note}.")
        why = "the default method" if choice.name == AUTO else "as asked with --method"
        return Subject(choice.method, f"This report is about {name}, {why}.")
    for goal in comparison.goals.values():
        best = goal.best
        if best is not None and best.method.gives_metric:
            why = f"the method with the largest expected gain for {goal.goal}"
            return Subject(best.method, f"This report is about {best.name}, {why}.", goal.goal)
    able = [r for r in comparison.results if r.method.gives_metric and r.method.kind != "baseline"]
    learned = [r for r in able if isinstance(r.method.estimator, MetricLearner)]
    tried = learned or able
    if not tried:
        raise UserError("There was no time to try a method; increase --budget.")
    most = max(result.extent for result in tried)
    found = min((r for r in tried if r.extent == most), key=lambda result: result.error)
    kind = "learner" if learned else "method"
    reason = (
        f"No method that gives a metric promises a gain. This report is about {found.name}, the "
        f"{kind} with the smallest error."
    )
    return Subject(found.method, reason)


def command_line(context: typer.Context) -> str:
    """Return the command that is running, with the options that are not the defaults."""
    words = ["nearfar", context.info_name or ""]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif value is not None and value != parameter.get_default(context):
            option = max(parameter.opts, key=len)
            for each in value if isinstance(value, list | tuple) else [value]:
                words += [option] if each is True else [option, str(each)]
    return shlex.join(words)


def _learn(
    rows: InputRows,
    known: Any,
    method: Method,
    path: Path,
    checkpoint: FitCheckpoint,
    seconds: float | None,
) -> dict[str, Any]:
    """Learn from all rows, and save the metric."""
    fit = fit_method(method, rows, known, checkpoint, seconds)
    if fit.metric is None:
        raise UserError(f"{method.name} is not a linear map; name another --method.")
    save_metric(fit.metric, path, rows.X)

    def relearn(X: Any, y: Any, groups: Any = None) -> Any:
        if isinstance(fit.method.estimator, MetricLearner):
            return clone(fit.method.estimator).fit(X, y, groups=groups)
        return method.learn(X, y)

    return {
        "metric": fit.metric,
        "method": method.name,
        "metric_file": str(path),
        "relearn": relearn,
        "learner": fit.learner,
    }


def _image_shape(text: str | None, rows: InputRows) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        shape = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        shape = ()
    n_features = rows.X.shape[1]
    if len(shape) not in (2, 3) or math.prod(shape) != n_features:
        raise UserError(f"--image-shape {text}: write HEIGHTxWIDTH with {n_features} pixels.")
    return shape
