"""Reports on what was learned, or on a metric of a file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nearfar.comparison import Comparison, Method
from nearfar.evidence.verdict import described
from nearfar.frames.features import read_examples
from nearfar.frames.formats import FORMATS, STREAM, TABLES, array_names, kind_of, shown_name
from nearfar.frames.table import Table
from nearfar.metrics.metric import Metric
from nearfar.metrics.training_facts import note_learned_rows
from nearfar.page.page import render_page, write_page
from nearfar.runtime.messages import collecting_notes, option
from nearfar.tables.checkpoint import FitCheckpoint
from nearfar.tables.compare import compare_table
from nearfar.tables.fitting import (
    Progress,
    convergence_notes,
    fit_method,
    no_progress,
    supervision_of,
)
from nearfar.tables.methods import MethodChoice
from nearfar.tables.report_headline import headlines, reason
from nearfar.tables.report_sections import sections
from nearfar.tables.report_study import Study

if TYPE_CHECKING:
    from nearfar.tables.learn import Learned


# Fewer rows leave too few to hold out, and a page of figures would mislead.
_MIN_ROWS = 10


@dataclass(frozen=True)
class Subject:
    """What a report is about.

    Attributes
    ----------
    method: What it shows beside the baseline.
    written: What was learned: the same, or the baseline if that is recommended.
    reason: Why, as a sentence.
    goal: What it was chosen for.
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
            if result.name == named:
                raise ValueError(f"{named} was left out of the comparison: {result.note}.")
        reason = f"This report is about {named}, as asked with {option('method')}."
        return Subject(choice.method, choice.method, reason, goal)
    if compared.verdict.method is None:
        raise ValueError(f"There is no method to compare with {compared.reference.name}.")
    # Where nothing is better than a guess, the report shows what was tried.
    used = compared.recommended if named is None else None
    used = used or compared.reference
    if used.name != compared.reference.name:
        reason = f"This report is about {used.name}, which the comparison recommends for {goal}."
        return Subject(used.method, used.method, reason, goal)
    other = comparison[compared.verdict.method]
    if named is None and compared.recommended is None:
        reason = f"Nothing is recommended for {goal}. This report shows {other.name}."
        return Subject(other.method, other.method, reason, goal)
    why = f"asked for {used.name}" if named else f"the comparison recommends {used.name} for {goal}"
    reason = (
        f"The metric file has {described(used.name)}: {why}. "
        f"This report shows the best other method, {other.name}, beside it."
    )
    return Subject(other.method, used.method, reason, goal)


def report_on_learned(
    learned: Learned,
    path: Path,
    metric_path: Path | None = None,
    *,
    title: str = "",
    image_shape: tuple[int, ...] | None = None,
    command: str = "",
    progress: Progress = no_progress,
) -> Study:
    """Write a report on what was learned, and the metric; see `Learned.report`.

    If that is a baseline, the best other method learns from all rows first, to be shown beside it.
    """
    if learned.comparison is None:
        raise ValueError("A report needs a comparison by labels, numbers, triplets or pairs.")
    subject = choose_subject(learned.comparison, learned.choice, learned.compared_goal)
    with collecting_notes() as notes:
        fit = learned.fit
        if fit is None or fit.method.name != subject.method.name:
            seconds = learned.fit_seconds
            fit = fit_method(subject.method, learned.table, FitCheckpoint(None), seconds, progress)
    if fit.metric is None:
        raise ValueError(f"{fit.method.name} is not a linear map; name another {option('method')}.")
    if metric_path is not None:
        learned.save(metric_path)
    study = describe_table(
        learned.table,
        comparison=learned.comparison,
        image_shape=image_shape,
        metric=fit.metric,
        method=subject.method.name,
        written=subject.written.name,
        metric_file=None if learned.path is None else str(learned.path),
        relearn=fit.method,
        learner=fit.learner,
        reason=subject.reason,
        goal=subject.goal,
        findings=(*learned._notes, *notes),
        title=title,
        command=command,
        random_state=learned.random_state,
    )
    with convergence_notes():
        write_report(path, study, progress=progress)
    return study


def report_on_metric(
    metric: Metric,
    metric_file: Path,
    table: Table,
    path: Path,
    *,
    cv: int = 5,
    n_neighbors: int | Literal["auto"] = "auto",
    random_state: int = 0,
    classifiers: bool = True,
    budget: float | None = None,
    checkpoint: Path | None = None,
    page: Mapping[str, Any],
    progress: Progress = no_progress,
) -> Study:
    """Write a report on the metric of a file, beside a comparison of the usual methods.

    Parameters
    ----------
    metric_file: Its file.
    table: Rows to evaluate it on.
    path: Report to write.
    cv, n_neighbors, random_state, classifiers, budget, checkpoint: As for `compare`.
    page: The title, image_shape and command of the report.
    progress: Called with what is done, the total, and what is next.
    """
    with FitCheckpoint(checkpoint, fits=False) as kept:
        with collecting_notes() as notes:
            note_learned_rows(metric_file, table.X)
            comparison = compare_table(
                table,
                cv=cv,
                n_neighbors=n_neighbors,
                random_state=random_state,
                classifiers=classifiers,
                budget=budget,
                checkpoint=kept.comparison,
                progress=progress,
            )
        study = describe_table(
            table,
            comparison=comparison,
            metric=metric,
            method="metric",
            metric_file=str(metric_file),
            reason=f"This report is about the metric in {metric_file}, as asked with --metric.",
            findings=(*table.notes, *notes),
            random_state=random_state,
            **page,
        )
        with convergence_notes():
            write_report(path, study, progress=progress)
    return study


def describe_table(table: Table, **subject: Any) -> Study:
    """Return a study of a table; `subject` has the other parameters of `Study`."""
    path, is_table = Path(table.source), kind_of(Path(table.source)) in TABLES
    return Study(
        table.name,
        table.X,
        supervision_of(table),
        numbers=table.kind == "numbers",
        groups=table.groups,
        n_copies=table.n_copies,
        feature_names=table.feature_names,
        ids=table.ids,
        texts=table.texts,
        pictures=table.pictures,
        row_numbers=table.places,
        source=shown_name(table.source) if kind_of(path) in FORMATS else "",
        rows_code=reading_code(table.source) if table.source else "",
        column_examples=read_examples(table.frame or path, table.columns),
        label=(table.label or "") if is_table else "",
        id_column=(table.id_column or "") if is_table else "",
        **subject,
    )


def parse_image_shape(text: str | None, n_features: int) -> tuple[int, ...] | None:
    """Read the shape of images with as many pixels as there are features."""
    if text is None:
        return None
    try:
        shape = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        shape = ()
    if len(shape) not in (2, 3) or math.prod(shape) != n_features:
        given = option("image-shape", text)
        raise ValueError(f"{given}: write HEIGHTxWIDTH with {n_features} pixels.")
    return shape


def reading_code(source: str) -> str | None:
    """Return code that reads X from a file; None if a few lines cannot.

    Columns of tables are selected by `names`, which the code around it must have.
    """
    path, shown = Path(source), shown_name(source)
    kind = kind_of(path)
    if shown == STREAM:
        return None
    if kind == ".npy":
        return f"import numpy as np\nX = np.load({shown!r})\n"
    if kind == ".npz":
        names = array_names(path)
        array = "X" if "X" in names else names[0]
        return f"import numpy as np\nX = np.load({shown!r})[{array!r}]\n"
    if kind == ".parquet":
        return f"import pandas as pd\nX = pd.read_parquet({shown!r})[names].to_numpy()\n"
    if kind == ".csv":
        with path.open("rb") as file:
            has_commas = b"," in file.readline()
        if has_commas:
            return f"import pandas as pd\nX = pd.read_csv({shown!r})[names].to_numpy()\n"
    return None


def write_report(
    path: str | os.PathLike[str], study: Study, *, progress: Progress | None = None
) -> None:
    """Write a report as one HTML file that needs no network.

    Parameters
    ----------
    path: An existing file is replaced only once the report is complete.
    progress: Called before each section with the number of finished sections, their total,
        and the name of the next one.
    """
    if len(study.X) < _MIN_ROWS:
        raise ValueError(f"A report needs at least {_MIN_ROWS} rows; got {len(study.X)}.")
    write_page(path, render(study, progress))


def render(study: Study, progress: Progress | None = None) -> str:
    """Return the page as HTML; see `write_report`."""
    n_components = study.metric.n_components
    coordinates = "coordinate" if n_components == 1 else "coordinates"
    mapped = f"{study.metric.n_features} features mapped to {n_components} {coordinates}"
    return render_page(
        study.title or study.name,
        title=study.title or f"{study.name}: a learned distance",
        subject=f"{study.method}, {mapped}",
        headlines=headlines(study),
        reason=reason(study),
        notes=study.notes_on_top,
        sections=sections(study, progress),
    )
