"""``nearfar report``: one HTML file on what learning a distance does to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from sklearn.base import clone

from nearfar.cli import options
from nearfar.cli.files import check_target, load_metric
from nearfar.cli.judge import compare_labels
from nearfar.cli.methods import AUTO, make_learner
from nearfar.cli.source import Source, SourceError, read_source
from nearfar.cli.terminal import bars, command, convergence_notes, say, show_json
from nearfar.comparison import Comparison, Method
from nearfar.learners.base import MetricLearner
from nearfar.metrics.metric import Metric
from nearfar.report import Study, write_report


@command
def report(
    source: options.Rows,
    label: options.Label = None,
    drop: options.Drop = None,
    ids: options.Id = None,
    text: Annotated[str | None, typer.Option(help="Column to show for each row.")] = None,
    image_shape: Annotated[
        str | None, typer.Option(metavar="HxW", help="If rows are pictures: 28x28, 32x32x3.")
    ] = None,
    method: options.Method = AUTO,
    metric: Annotated[
        Path | None, typer.Option(help="A metric's file to report on, instead of learning one.")
    ] = None,
    save_as: Annotated[
        Path | None, typer.Option("--out", help="Where to write the report [SOURCE.html].")
    ] = None,
    budget: options.Budget = "60s",
    folds: options.Folds = 5,
    neighbors: options.Neighbors = 3,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Learn or take a metric, and write a report on it: one HTML file, to read offline.

    The metric that is learned is written beside the report.
    """
    path = save_as or Path(f"{Path(source).stem}.html")
    check_target(path, (".html", ".htm"), [source, metric])
    check_target(_beside(path), None, [source])
    given = None if metric is None else load_metric(metric)
    limit = options.seconds(budget)
    chosen = None
    if given is None:
        chosen = make_learner(method, rounds=None, settings=[], seed=seed)
    data = read_source(
        source, label=label, drop=drop or [], ids=ids, text=text, metric=given, labelled=True
    )
    shape = _shape(image_shape, data)
    judging = {"folds": folds, "n_neighbors": neighbors, "seed": seed}
    found = compare_labels(data, _learners(chosen), budget=limit, **judging)
    with bars() as shown, convergence_notes():
        if given is not None:
            subject = {"metric": given, "method": "metric", "metric_file": str(metric)}
        else:
            subject = _learn(data, _subject(found, chosen), path)
        study = _study(data, found, subject, shape, seed)
        write_report(path, study, progress=shown.update)
    if json:
        written = {"report": str(path), "metric": study.metric_file, "method": study.method}
        show_json(written | {"comparison": found.to_dict()})
        return
    say(found.verdict)
    say(f"Report on {study.method} written to {path}")
    if given is None:
        say(f"Metric written to {study.metric_file}")


def _study(
    data: Source,
    found: Comparison,
    subject: dict[str, Any],
    shape: tuple[int, ...] | None,
    seed: int,
) -> Study:
    return Study(
        data.name,
        data.X,
        data.labels,
        comparison=found,
        feature_names=data.feature_names,
        ids=data.ids,
        texts=data.texts,
        image_shape=shape,
        random_state=seed,
        **subject,
    )


def _beside(path: Path) -> Path:
    """Where the metric of a report goes."""
    return path.with_name(f"{path.stem}-metric.safetensors")


def _learn(data: Source, contender: Method, path: Path) -> dict[str, Any]:
    """Learn from all rows, and save the metric."""
    learner = None
    if isinstance(contender.estimator, MetricLearner):
        learner = clone(contender.estimator).fit(data.X, data.labels)
        metric: Metric | None = learner.metric_
    else:
        metric = contender.learn(data.X, data.labels)
    if metric is None:
        raise SourceError(f"{contender.name} has no map to report on; name a --method.")
    file = _beside(path)
    metric = metric.named(data.feature_names)
    metric.save(file)

    def relearn(X: Any, y: Any) -> Any:
        if learner is not None:
            return clone(learner).fit(X, y)
        return contender.learn(X, y)

    return {
        "metric": metric,
        "method": contender.name,
        "metric_file": str(file),
        "relearn": relearn,
        "learner": learner,
    }


def _learners(chosen: MetricLearner | Method | None) -> list[MetricLearner] | None:
    """Whom to compare: all, unless somebody is named."""
    if chosen is None:
        return None
    return [chosen] if isinstance(chosen, MetricLearner) else []


def _subject(found: Comparison, chosen: MetricLearner | Method | None) -> Method:
    """Who the report is on: who was named; the winner if it has a map; the best learned; LDA."""
    if chosen is not None:
        name = chosen.name if isinstance(chosen, Method) else type(chosen).__name__
        if name not in found:
            raise SourceError(found.verdicts[-1] if found.incomplete else found.notes[-1])
        return found[name].contender
    winner = found.classification.winner or found.ranking.winner
    if winner is not None and winner.contender.maps:
        return winner.contender
    learned = [e for e in found.entries if isinstance(e.contender.estimator, MetricLearner)]
    if learned:
        return min(learned, key=lambda entry: entry.error).contender
    return found["LDA"].contender


def _shape(text: str | None, data: Source) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        shape = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        shape = ()
    pixels = 1
    for size in shape:
        pixels *= size
    if len(shape) not in (2, 3) or pixels != data.X.shape[1]:
        raise SourceError(
            f"--image-shape {text}: write HEIGHTxWIDTH with {data.X.shape[1]} pixels in all."
        )
    return shape
