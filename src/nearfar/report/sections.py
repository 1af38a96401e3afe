"""The sections of a report: their text, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearfar import plots
from nearfar.constraints import RandomPairs
from nearfar.metrics.importance import leading_directions
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.report.figures import svg
from nearfar.report.judgements import describe, how_compared
from nearfar.report.study import Study

Progress = Callable[[int, int, str], None]

_N_QUERIES = 4
_N_NEIGHBORS = 5
_MAX_CURVE_NEIGHBORS = 30
_MAX_CLASSES = 30
_MAX_FEATURES = 30
_MAX_NAMES = 10
_MAX_TEXT_LENGTH = 120
_LARGE_SPREAD_RATIO = 100


@dataclass(frozen=True)
class Figure:
    """A figure with its caption; a wide one takes the full width of the page."""

    svg: str
    caption: str
    wide: bool = False


@dataclass(frozen=True)
class QueryNeighbors:
    """A query and its neighbours by metric: (text, whether it has the query's class)."""

    query: str
    neighbors: dict[str, list[tuple[str, bool]]]


@dataclass(frozen=True)
class Section:
    """A section of the page; fields that are empty are left out."""

    title: str
    anchor: str
    text: list[str] = field(default_factory=list)
    table: tuple[list[str], list[list[str]]] | None = None
    html: str = ""
    figures: list[Figure] = field(default_factory=list)
    queries: list[QueryNeighbors] = field(default_factory=list)
    directions: list[str] = field(default_factory=list)
    code: list[tuple[str, str]] = field(default_factory=list)


def sections(study: Study, progress: Progress | None = None) -> Iterator[Section]:
    """Yield the sections that apply to a study, in the order of the page."""
    builders: dict[str, Callable[[Study], Section]] = {"data": _data}
    if study.comparison is not None:
        builders["comparison"] = _comparison
    if study.judgements is None:
        builders |= {"plots": _plots, "neighbours": _neighbours}
    if study.metric.is_linear:
        builders["features"] = _features
    builders["usage"] = _usage
    for number, (name, build) in enumerate(builders.items()):
        if progress is not None:
            progress(number, len(builders), f"report, {name}")
        yield build(study)


def _data(study: Study) -> Section:
    n_rows, n_features = study.X.shape
    if study.judgements is not None:
        text = [f"{n_rows} rows, {n_features} features.", describe(study.judgements)]
        return Section("The data", "data", text=text + _remarks(study))
    names, counts = np.unique(study.y, return_counts=True)
    text = [f"{n_rows} rows, {n_features} features, {len(names)} classes.", *_remarks(study)]
    order = np.argsort(-counts, kind="stable")
    rows = [
        [str(names[i]), str(counts[i]), f"{100 * counts[i] / n_rows:.1f} %"]
        for i in order[:_MAX_CLASSES]
    ]
    if len(names) > _MAX_CLASSES:
        others = counts[order[_MAX_CLASSES:]]
        rows.append([f"{len(others)} more", str(others.sum()), ""])
    return Section("The data", "data", text=text, table=(["class", "rows", "share"], rows))


def _remarks(study: Study) -> list[str]:
    """Return what is unusual about the rows."""
    text = []
    is_constant = np.ptp(study.X, axis=0) == 0
    constant = [name for name, flat in zip(study.features, is_constant, strict=True) if flat]
    if constant:
        text.append(f"Features with the same value in all rows: {_listed(constant)}.")
    spread = study.X.std(axis=0)[~is_constant]
    if len(spread) and spread.max() > _LARGE_SPREAD_RATIO * spread.min():
        text.append(
            f"The standard deviations of the features differ by a factor of up to "
            f"{spread.max() / spread.min():,.0f}. Without standardisation, the features with the "
            "largest ones dominate the distances."
        )
    n_duplicates = len(study.X) - len(np.unique(study.X, axis=0))
    if n_duplicates:
        text.append(f"Rows that are copies of other rows: {n_duplicates}.")
    return text


def _comparison(study: Study) -> Section:
    assert study.comparison is not None
    return Section(
        "Does learning help?",
        "comparison",
        text=[
            "Every method is fitted to some rows and evaluated on others. Triplets: the share of "
            "triplets (a row, a row of the same class, a row of another class) in which the row "
            "of the same class is nearer. MAP@R: the mean average precision of the first R "
            "results for a row, where R is the number of other rows in its class."
            if study.judgements is None
            else how_compared(study.judgements)
        ],
        html=study.comparison.to_html(verdict=False),
    )


def _plots(study: Study) -> Section:
    text = [_held_out(study)]
    n_parts = len(study.evaluated_metric.parts)
    if n_parts > 1:
        n_used = len(list(study.evaluated_metric.spaces(study.X[study.split[1]])))
        text.append(f"These rows use {n_used} of the metric's {n_parts} local metrics.")
    figures = [
        Figure(svg(draw, caption, f"figure{number}"), caption, wide)
        for number, (draw, caption, wide) in enumerate(_figures(study))
    ]
    return Section("Plots", "plots", text=text, figures=figures)


def _held_out(study: Study) -> str:
    if study.relearn is None:
        return (
            "The metric was not learned again for this report. If it was learned from these rows, "
            "the plots are too optimistic."
        )
    n_train, n_test = map(len, study.split)
    note = ""
    if study.comparison is not None:
        note = " The choice of the method may have used all rows."
    return f"The plots show {n_test} held-out rows; {n_train} other rows were learned from.{note}"


def _figures(study: Study) -> Iterator[tuple[Callable[[], Any], str, bool]]:
    """Yield a function that draws, the caption, and whether the figure is wide."""
    X, y, metrics = study.X, study.y, study.metrics
    train, test = study.split
    rows = "Held-out rows" if study.relearn is not None else "Some rows"
    yield (
        lambda: plots.before_and_after(study.evaluated_metric, X[test], y[test]),
        f"{rows} before and after learning, along the two axes with the largest variance.",
        True,
    )
    max_k = min(_MAX_CURVE_NEIGHBORS, len(train) - 1)
    yield (
        lambda: plots.neighbor_curve(
            metrics, X[train], y[train], max_k=max_k, X_query=X[test], y_query=y[test]
        ),
        f"{rows}: how often the k-th nearest neighbour has the same class.",
        False,
    )
    pairs = RandomPairs()(X[test], y[test], np.random.RandomState(study.random_state))
    if pairs.similar.any() and not pairs.similar.all():
        yield (
            lambda: plots.roc(metrics, X[test], pairs),
            f"Pairs of {rows.lower()}: same class or not, by a threshold on the distance.",
            False,
        )
    yield (
        lambda: plots.spectra({study.method: study.metric}),
        "Eigenvalues of the metric: the number of large ones is its effective dimension.",
        False,
    )
    learner, relearned = study.learner, study.relearned
    if learner is not None and len(learner.history_) > 1:
        yield lambda: plots.iterations(learner.history_), "The fit, iteration by iteration.", True
    if hasattr(relearned, "staged_metrics") and len(relearned.history_) > 1:
        yield (
            lambda: plots.accuracy_by_rank(relearned, X[train], y[train], X[test], y[test]),
            f"{rows}: accuracy as the metric grows.",
            False,
        )


def _neighbours(study: Study) -> Section:
    n_neighbors = min(_N_NEIGHBORS, len(study.split[0]) - 1)
    rows = study.most_changed(_N_QUERIES, n_neighbors)
    which = "Held-out rows" if study.relearn is not None else "Rows"
    text = [
        f"{which} whose neighbours change most, for better or worse. A cross marks neighbours of "
        "another class."
    ]
    section = Section("Neighbours before and after", "neighbours", text=text)
    for row in rows:
        if study.image_shape is not None:
            section.figures.append(_neighbor_images(study, row, n_neighbors))
            continue
        neighbors = {
            name: _neighbor_texts(study, metric, row, n_neighbors)
            for name, metric in study.metrics.items()
        }
        section.queries.append(QueryNeighbors(f"{_text(study, row)} [{study.y[row]}]", neighbors))
    return section


def _neighbor_images(study: Study, row: int, n_neighbors: int) -> Figure:
    """Draw a query and its neighbours among the training rows."""
    rows = np.concatenate([[row], study.split[0]])

    def draw() -> Any:
        return plots.neighbor_pictures(
            study.metrics,
            study.X[rows],
            [0],
            image_shape=study.image_shape or (),
            n_neighbors=n_neighbors,
            y=study.y[rows],
        )

    caption = f"{_text(study, row)} and its neighbours, nearest first"
    return Figure(svg(draw, caption, f"query{row}"), caption, wide=True)


def _neighbor_texts(
    study: Study, metric: Metric, row: int, n_neighbors: int
) -> list[tuple[str, bool]]:
    train, _ = study.split
    found = kneighbors(metric, study.X[train], study.X[[row]], n_neighbors=n_neighbors)[1][0]
    return [
        (f"{_text(study, other)} [{study.y[other]}]", bool(study.y[other] == study.y[row]))
        for other in train[found]
    ]


def _text(study: Study, row: int) -> str:
    """Return the text of a row on one line, its id, or its number."""
    if study.texts is None:
        return f"row {row}" if study.ids is None else study.ids[row]
    line = " ".join(study.texts[row].split())
    return line if len(line) <= _MAX_TEXT_LENGTH else f"{line[: _MAX_TEXT_LENGTH - 1]}…"


def _features(study: Study) -> Section:
    named = study.metric.named(study.features)
    figure = svg(
        lambda: plots.importances(named, study.X, n_features=_MAX_FEATURES),
        "Share of each feature in the mean squared distance",
        "features",
    )
    return Section(
        "Which features matter",
        "features",
        text=[
            "The share of each feature in the mean squared distance between two rows. The shares "
            "sum to one. A negative share means that the feature mostly cancels differences in "
            "other features."
        ],
        figures=[Figure(figure, "Shares of the mean squared distance.")],
        directions=[str(direction) for direction in leading_directions(named, study.X)],
    )


def _usage(study: Study) -> Section:
    file = study.metric_file or "metric.safetensors"
    python = (
        "from nearfar import Metric\n\n"
        f"metric = Metric.load({file!r})\n"
        "metric.transform(X)      # Euclidean distance in this space is the metric\n"
        "metric.distances(X, Y)   # all distances\n"
    )
    shell = (
        f"nearfar show {file}\n"
        f"nearfar transform {file} table.csv mapped.parquet\n"
        f"nearfar neighbors {file} table.csv\n"
    )
    code = [("Python", python), ("Shell", shell)]
    if study.metric.is_linear:
        shape = f"{study.metric.n_components} x {study.metric.n_features}"
        other = (
            "from safetensors.numpy import load_file\n\n"
            f"L = load_file({file!r})['L']   # {shape}\n"
            "mapped = X @ L.T\n"
        )
        code.append(("Without nearfar, in any language that reads safetensors", other))
    return Section("Use the metric", "usage", code=code)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_MAX_NAMES])
    return shown if len(names) <= _MAX_NAMES else f"{shown} and {len(names) - _MAX_NAMES} more"
