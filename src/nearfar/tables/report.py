"""`report`: one HTML file about what a metric does to a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearfar.comparison import GoalComparison
from nearfar.evidence.verdict import described, expectation_text, reported_sentence
from nearfar.frames.formats import check_output, stem_of
from nearfar.frames.metric_files import check_metric_output, load_metric
from nearfar.frames.reading import read_table
from nearfar.metrics.training_facts import note_learned_rows, share_learned_from
from nearfar.page.page import LOOKS, Headline, check_packages, render_page, write_page
from nearfar.runtime.messages import Note, collecting_notes, command_line, forwards, option, ordered
from nearfar.runtime.progress import parse_seconds
from nearfar.tables.fitting import convergence_notes, no_progress
from nearfar.tables.held_out import tested
from nearfar.tables.learn import (
    READING,
    learn,
    learn_from_table,
    outcome_sentence,
    table_to_learn_from,
)
from nearfar.tables.methods import find_learner
from nearfar.tables.report_sections import Progress, sections
from nearfar.tables.report_study import Study

if TYPE_CHECKING:
    from nearfar.tables.learn import Learned

# Fewer rows leave too few to hold out, and a page of figures would mislead.
_MIN_ROWS = 10


@forwards(learn, "method max_iter scale set goal budget random_state")
@forwards(read_table, f"{READING} show image pictures")
def report(
    source: object = "",
    *,
    metric: str | PathLike[str] | None = None,
    title: str = "",
    image_shape: str | None = None,
    out: str | PathLike[str] | None = None,
    progress: Callable[[int, int, str], None] = no_progress,
    **options: Any,
) -> Reported:
    """Write a report on a metric: one HTML file that needs no network.

    Unless `metric` is given, one is learned. If it helps, it is written beside the report.

    Parameters
    ----------
    source : path, name of a dataset, DataFrame or array
        Table (.csv, .tsv, .parquet, .feather, .arrow, .jsonl, .xlsx), array (.npy, .npz), or the
        name of a dataset.
    metric : path, optional
        Report on this metric file instead of learning a metric.
    title : str, optional
        Heading of the report; by default the name of the table.
    image_shape : str, optional
        Shape of images, such as 28x28 or 32x32x3.
    out : path, optional
        HTML file to write; by default SOURCE.html.
    progress : callable, optional
        Called with what is done, the total, and what is next.
    **options
        How to learn, and how rows are read: see `learn` and `read_table`.
    """
    check_packages()
    path = Path(fspath(out or f"{stem_of(Path(str(source or 'report')))}.html"))
    beside = path.with_name(f"{path.stem}-metric.safetensors")
    files = [source, metric, *(options.get(name) for name in ("label", "triplets", "pairs"))]
    inputs = [each for each in files if isinstance(each, str | Path)]
    check_output(path, (".html", ".htm"), inputs)
    check_metric_output(beside, inputs)
    reading = {"show", "image", "pictures", *READING.split()} & options.keys()
    kept = {name: options.pop(name) for name in reading}
    page: dict[str, Any] = {"title": title, "command": command_line()}
    with collecting_notes() as notes:
        seconds, seed = parse_seconds(options.pop("budget", "60s")), options.pop("random_state", 0)
        goal = options.pop("goal", "classification")
        work: Any = {"seed": seed, "seconds": seconds, "progress": progress}
        if metric is None:
            options["settings"] = options.pop("set", ())
            learner = find_learner(options.pop("method", None), seed=seed, goal=goal, **options)
            table = table_to_learn_from(source, learner, **kept)
            shape = parse_image_shape(image_shape, table.X.shape[1])
            learned = learn_from_table(table, learner, goal, **work)
            if learned.outcome == "helps":
                learned.save(beside)
            study = report_on_learned(learned, path, image_shape=shape, **page, progress=progress)
            return Reported(study, path)
        file, given = Path(fspath(metric)), load_metric(Path(fspath(metric)))
        table = read_table(source, **kept, metric=given, required=True)
        note_learned_rows(file, table.X)
        found = tested(table, given, goal, **work)
    study = Study(
        table,
        given,
        found,
        outcome_sentence(found, table),
        metric_file=str(file),
        findings=tuple(dict.fromkeys([*table.notes, *notes])),
        image_shape=parse_image_shape(image_shape, table.X.shape[1]),
        random_state=seed,
        **page,
    )
    write_report(path, study, progress=progress)
    return Reported(study, path)


@dataclass(frozen=True)
class Reported:
    """A report that was written; prints as the outcome and the files."""

    study: Study
    path: Path

    def to_dict(self) -> dict[str, object]:
        """Return the files and the figures, for JSON."""
        study = self.study
        written = {"report": str(self.path), "metric": study.metric_file, "method": study.method}
        return {
            **written,
            **study.held_out.to_dict(),
            "notes": [each.text for each in ordered([*study.findings])],
        }

    def __str__(self) -> str:
        lines = [self.study.sentence, f"Report on {self.study.method} written to {self.path}."]
        if self.study.metric_file is not None and self.study.learner is not None:
            lines.append(f"Metric written to {self.study.metric_file}.")
        return "\n".join(lines)


def report_on_learned(
    learned: Learned,
    path: Path,
    *,
    title: str = "",
    image_shape: tuple[int, ...] | None = None,
    command: str = "",
    progress: Progress = no_progress,
) -> Study:
    """Write a report on what was learned; see `Learned.report`."""
    study = Study(
        learned.table,
        learned.metric,
        learned.held_out,
        learned.sentence,
        learner=learned.learner,
        metric_file=None if learned.path is None else str(learned.path),
        command=command,
        title=title,
        findings=tuple(learned.notes),
        image_shape=image_shape,
        random_state=learned.random_state,
    )
    write_report(path, study, progress=progress)
    return study


def write_report(path: Path, study: Study, *, progress: Progress | None = None) -> None:
    """Write a report; an existing file is replaced once the report is complete."""
    if len(study.table) < _MIN_ROWS:
        raise ValueError(f"A report needs at least {_MIN_ROWS} rows; got {len(study.table)}.")
    with convergence_notes():
        write_page(path, render(study, progress))


def render(study: Study, progress: Progress | None = None) -> str:
    """Return the page as HTML."""
    n_components, name = study.metric.n_components, study.title or study.table.name
    coordinates = "coordinate" if n_components == 1 else "coordinates"
    mapped = f"{study.metric.n_features} features mapped to {n_components} {coordinates}"
    notes: list[Note] = ordered([*study.findings])
    return render_page(
        name,
        title=study.title or f"{name}: a learned distance",
        subject=f"{study.method}, {mapped}",
        headlines=[headline(study, goal) for goal in study.goals],
        reason=study.sentence,
        notes=notes,
        sections=sections(study, progress),
    )


def headline(study: Study, goal: GoalComparison) -> Headline:
    """Return a goal in two numbers and a badge."""
    baseline, metric = goal.results
    category, gain, measure = goal.category(metric), goal.gains[metric.name], goal.measure
    text = measure.write_gain(gain.gain, gain.low, gain.high)
    sentence = reported_sentence(category, study.method, baseline.name, None)
    found = study.held_out
    what = "rows" if study.judgements is None else study.supervision
    basis = f"Measured on {found.n} held-out {what}"
    file = Path(study.metric_file or "")
    if study.learner is None and file.is_file() and (share := share_learned_from(file, study.X)):
        basis += f"; the metric was learned from {100 * share:.0f}% of all rows"
    return Headline(
        measure.description,
        measure.title,
        described(baseline.name),
        study.method,
        goal.write(baseline),
        goal.write(metric),
        category.text(goal.cases),
        LOOKS[category],
        sentence,
        expectation_text(text, gain.probability),
        f"{basis}.",
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
