"""``nearfar report``: one HTML file about what a learned metric does to a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from sklearn.base import clone

from nearfar.cli import options
from nearfar.cli.command_line import command_line
from nearfar.cli.compare import run_comparison
from nearfar.cli.errors import UserError
from nearfar.cli.fit_checkpoint import FitCheckpoint
from nearfar.cli.method_options import Goal, MethodChoice, MethodFit, find_method, fit_method
from nearfar.cli.model_files import check_metric_output, check_output, load_metric
from nearfar.cli.reading_code import reading_code
from nearfar.cli.supervised_input import SupervisedInput
from nearfar.cli.terminal import bars, command, convergence_notes, say, show_json
from nearfar.comparison import Comparison, Method
from nearfar.comparison.method_results import NO_TIME
from nearfar.comparison.wording import described
from nearfar.learners.base import MetricLearner
from nearfar.metrics.learned_file import save_learned
from nearfar.metrics.metric import Metric
from nearfar.report import Study, write_report
from nearfar.runtime.notes import notes_so_far
from nearfar.tables.features import read_examples
from nearfar.tables.formats import FORMATS, TABLES, kind_of, shown_name, stem_of
from nearfar.tables.row_input import InputRows

_SHARE_OF_FIT = 0.25
"""Part of the budget that a learner which plans its time has for a fit, beside the comparison."""
_SHORTEST_FIT = 1.0


@command
def report(
    context: typer.Context,
    data: SupervisedInput,
    *,
    title: options.Title = None,
    show: options.Show = None,
    image_shape: options.ImageShape = None,
    method: options.Method = None,
    metric: options.GivenMetric = None,
    goal: options.GoalOption = Goal.classification,
    save_as: Annotated[
        Path | None, options.output("HTML file to write [default: SOURCE.html].")
    ] = None,
    budget: options.Budget = "60s",
    checkpoint: options.Checkpoint = None,
    testing: options.CrossValidation,
    json: options.Json = False,
) -> None:
    """Write a report on a metric: one HTML file that needs no network.

    Unless --metric is given, the method that the verdict recommends learns a metric, which is
    written beside the report. --method names another one.
    """
    path = save_as or Path(f"{stem_of(Path(data.source))}.html")
    metric_path = path.with_name(f"{path.stem}-metric.safetensors")
    check_output(path, (".html", ".htm"), [*data.files, metric])
    check_metric_output(metric_path, data.files)
    kept = FitCheckpoint(checkpoint, [*data.files, metric, path, metric_path])
    limit = options.seconds(budget)
    choice = find_method(method, seed=testing.seed)
    given = None if metric is None else load_metric(metric)
    rows = data.read(show=show, metric=given)
    known = rows.supervision
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
            wanted = goal.value if goal.value in comparison.goals else next(iter(comparison.goals))
            chosen = choose_subject(comparison, choice, wanted)
            share = None if limit is None else max(limit * _SHARE_OF_FIT, _SHORTEST_FIT)
            subject = _learn(rows, known, chosen, metric_path, kept, share)
        subject |= {"command": command_line(context), "title": title or ""}
        subject |= _source(data.source)
        if kind_of(Path(data.source)) in TABLES:
            subject |= {"label": data.label or "", "id_column": data.ids or ""}
        subject["column_examples"] = read_examples(Path(data.source), rows.columns)
        study = _study(rows, known, comparison, shape, testing.seed, subject)
        with bars() as shown, convergence_notes():
            write_report(path, study, progress=shown.update)
    if json:
        written = {"report": str(path), "metric": study.metric_file, "method": study.method}
        notes = [each.text for each in study.notes_on_top]
        show_json(written | {"notes": notes, "comparison": comparison.to_dict()})
        return
    say(comparison.verdict)
    say(f"Report on {study.method} written to {path}")
    if given is None:
        say(f"Metric written to {metric_path}: {study.written}")


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
        n_copies=rows.n_copies,
        comparison=comparison,
        feature_names=rows.feature_names,
        ids=rows.ids,
        texts=rows.texts,
        image_shape=shape,
        random_state=seed,
        notes=() if rows.columns is None else [("Columns", str(rows.columns))],
        findings=tuple(notes_so_far()),
        row_numbers=rows.places,
        **subject,
    )


def _source(source: str) -> dict[str, Any]:
    """Return what a report says about where the rows are."""
    is_file = kind_of(Path(source)) in FORMATS
    return {"source": shown_name(source) if is_file else "", "rows_code": reading_code(source)}


@dataclass(frozen=True)
class Subject:
    """What a report is about.

    Attributes
    ----------
    method : Method
        What it shows beside the baseline.
    written : Method
        What is written to the metric file: the same, or the baseline if that is recommended.
    reason : str
        Why, as a sentence.
    goal : str
        What it was chosen for.
    """

    method: Method
    written: Method
    reason: str
    goal: str


def choose_subject(comparison: Comparison, choice: MethodChoice, goal: str) -> Subject:
    """Return what to report on: the named method, or the one that the verdict recommends.

    If that is a baseline, the report shows the best other method beside it.
    """
    compared = comparison.by_goal(goal)
    named = choice.method.name if choice.named and choice.method is not None else None
    if choice.method is not None and named not in (None, compared.reference.name):
        for result in comparison.left_out:
            if result.name == named and result.note == NO_TIME:
                raise UserError(f"There was no time to try {named}; increase --budget.")
            if result.name == named:
                raise UserError(f"{named} was left out of the comparison: {result.note}.")
        reason = f"This report is about {named}, as asked with --method."
        return Subject(choice.method, choice.method, reason, goal)
    used = compared.recommended
    if used is None or compared.verdict.method is None:
        raise UserError("There was no time to try a method; increase --budget.")
    if named is not None:
        used = compared.reference
    if used.name != compared.reference.name:
        reason = f"This report is about {used.name}, which the comparison recommends for {goal}."
        return Subject(used.method, used.method, reason, goal)
    other = comparison[compared.verdict.method]
    why = f"asked for {used.name}" if named else f"the comparison recommends {used.name} for {goal}"
    reason = (
        f"The metric file has {described(used)}: {why}. "
        f"This report shows the best other method, {other.name}, beside it."
    )
    return Subject(other.method, used.method, reason, goal)


def _learn(
    rows: InputRows,
    known: Any,
    chosen: Subject,
    path: Path,
    checkpoint: FitCheckpoint,
    seconds: float | None,
) -> dict[str, Any]:
    """Learn from all rows, and save the metric."""

    def fit(method: Method) -> tuple[MethodFit, Metric]:
        found = fit_method(method, rows, known, checkpoint, seconds)
        if found.metric is None:
            raise UserError(f"{method.name} is not a linear map; name another --method.")
        return found, found.metric

    fitted, metric = fit(chosen.method)
    same = chosen.written.name == chosen.method.name
    save_learned(metric if same else fit(chosen.written)[1], path, rows.X)

    def relearn(X: Any, y: Any, groups: Any = None) -> Any:
        if isinstance(fitted.method.estimator, MetricLearner):
            return clone(fitted.method.estimator).fit(X, y, groups=groups)
        return chosen.method.learn(X, y)

    return {
        "metric": metric,
        "method": chosen.method.name,
        "written": chosen.written.name,
        "metric_file": str(path),
        "relearn": relearn,
        "learner": fitted.learner,
        "reason": chosen.reason,
        "goal": chosen.goal,
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
