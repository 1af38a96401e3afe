"""The sections of a report, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from nearfar import plots
from nearfar.constraints import RandomPairs
from nearfar.metrics.importance import feature_importances, leading_directions
from nearfar.plots.canvas import one_axes
from nearfar.report.appendix import appendix_section
from nearfar.report.bars import comparison_section
from nearfar.report.blocks import Block, Code, Figure, Figures, Items, Section, Table, Text
from nearfar.report.classes import classes_section
from nearfar.report.figures import svgs
from nearfar.report.judgements import describe
from nearfar.report.neighbor_section import neighbors_section
from nearfar.report.study import Study

Progress = Callable[[int, int, str], None]

_MAX_CURVE_NEIGHBORS = 30
_MAP_SIZE = (4.5, 4.2)
"""Inches, with room for a legend below."""
_LONG_TABLE = 12
_MAX_FEATURES = 20
_MAX_NAMES = 10
_LARGE_SPREAD_RATIO = 100
_LARGEST_SHARE_SUM = 2.0


def sections(study: Study, progress: Progress | None = None) -> Iterator[Section]:
    """Yield the sections that apply to a study, in the order of the page."""
    builders: dict[str, Callable[[Study], Section]] = {}
    if study.comparison is not None:
        builders["comparison"] = comparison_section
    if study.labels is not None:
        builders["classes"] = classes_section
    builders |= {"plots": _plots, "neighbours": neighbors_section}
    if study.metric.is_linear:
        builders["features"] = _features
    builders |= {"data": _data, "usage": _usage, "appendix": appendix_section}
    for number, (name, build) in enumerate(builders.items()):
        if progress is not None:
            progress(number, len(builders), f"report, {name}")
        yield build(study)


def _data(study: Study) -> Section:
    n_rows, n_features = study.X.shape
    text = [f"{n_rows} rows, {n_features} features."]
    if study.labels is not None:
        text = [f"{n_rows} rows, {n_features} features, {len(np.unique(study.labels))} classes."]
    elif study.judgements is not None:
        text.append(describe(study.judgements))
    if study.groups is not None:
        text.append(
            f"The rows are in {len(np.unique(study.groups))} groups. No group is both learned from "
            "and tested on, and tests and intervals count groups instead of rows."
        )
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
    n_duplicates = n_rows - len(np.unique(study.X, axis=0))
    if n_duplicates:
        text.append(f"Rows that are copies of other rows: {n_duplicates}.")
    blocks: list[Block] = [Text(text)]
    if study.labels is not None:
        names, counts = np.unique(study.labels, return_counts=True)
        rows = [
            [str(names[i]), str(counts[i]), f"{100 * counts[i] / n_rows:.1f} %"]
            for i in np.argsort(-counts, kind="stable")
        ]
        summary = f"Sizes of all {len(names)} classes" if len(names) > _LONG_TABLE else ""
        blocks.append(Table(["class", "rows", "share"], rows, summary=summary))
    return Section("The data", "data", blocks)


def _plots(study: Study) -> Section:
    text = [_held_out(study)]
    n_parts = len(study.evaluated_metric.parts)
    if n_parts > 1:
        n_used = len(list(study.evaluated_metric.spaces(study.X[study.split[1]])))
        text.append(f"These rows use {n_used} of the metric's {n_parts} local metrics.")
    figures = [
        Figure(svg, caption, reacts="<title>" in svg)
        for number, (draw, caption) in enumerate(_figures(study))
        for svg in svgs(draw, caption, f"figure{number}")
    ]
    return Section("Plots", "plots", [Text(text), Figures(figures)])


def _held_out(study: Study) -> str:
    if study.relearn is None:
        return (
            "The metric was not learned again for this report. If it was learned from these rows, "
            "the plots are too optimistic."
        )
    if study.judgements is not None:
        n_train, n_test = map(len, study.judgement_split)
        return (
            f"The metric of the plots was learned from {n_train} {study.supervision}; {n_test} are "
            "held out. "
            "The rows themselves are not held out."
        )
    n_train, n_test = map(len, study.split)
    note = ""
    if study.comparison is not None:
        note = " The choice of the method may have used all rows."
    if study.groups is not None:
        note = f" No group is among both.{note}"
    return f"The plots show {n_test} held-out rows; {n_train} other rows were learned from.{note}"


def _figures(study: Study) -> Iterator[tuple[Callable[[], Any], str]]:
    """Yield functions that draw, and captions."""
    yield from _maps(study)
    if study.labels is not None:
        yield from _label_curves(study)
    elif study.supervision == "pairs":
        unseen: Any = study.judgement_split[1]
        if unseen.similar.any() and not unseen.similar.all():
            yield (
                lambda: plots.roc(_method_first(study), study.X, unseen),
                "Held-out pairs: similar or not, by a threshold on the distance.",
            )
    yield (
        lambda: plots.spectra({study.method: study.metric}),
        "Eigenvalues of the metric: the number of large ones is its effective dimension.",
    )
    learner = study.learner
    if learner is not None and len(learner.history_) > 1:
        yield (
            lambda: plots.iterations(learner.history_, axes=one_axes),
            "The fit, iteration by iteration.",
        )
    yield from _growth(study)


def _maps(study: Study) -> Iterator[tuple[Callable[[], Any], str]]:
    """Yield scatter plots of the rows before and after."""
    rows = "Held-out rows" if _rows_held_out(study) else "Rows"
    test = study.split[1] if study.labels is not None else np.arange(len(study.X))
    labels = None if study.labels is None else study.labels[test]
    for name, metric in study.metrics.items():
        draw = partial(
            plots.projections, metric, study.X[test], labels, axes=partial(one_axes, size=_MAP_SIZE)
        )
        yield draw, f"{name}: {rows.lower()} along the two axes with the largest variance."


def _label_curves(study: Study) -> Iterator[tuple[Callable[[], Any], str]]:
    """Yield how often neighbours and pairs have the same class."""
    X, y = study.X, study.labels
    assert y is not None
    train, test = study.split
    rows = "Held-out rows" if _rows_held_out(study) else "Some rows"
    max_k = min(_MAX_CURVE_NEIGHBORS, len(train) - 1)
    yield (
        lambda: plots.neighbor_curve(
            _method_first(study),
            X[train],
            y[train],
            max_k=max_k,
            X_query=X[test],
            y_query=y[test],
        ),
        f"{rows}: how often the k-th nearest neighbour has the same class.",
    )
    pairs = RandomPairs()(X[test], y[test], np.random.RandomState(study.random_state))
    if pairs.similar.any() and not pairs.similar.all():
        yield (
            lambda: plots.roc(_method_first(study), X[test], pairs),
            f"Pairs of {rows.lower()}: same class or not, by a threshold on the distance.",
        )


def _growth(study: Study) -> Iterator[tuple[Callable[[], Any], str]]:
    """Yield the accuracy by rank, for learners that grow a metric."""
    learner, y = study.relearned, study.labels
    if y is None or not hasattr(learner, "staged_metrics") or len(learner.history_) < 2:
        return
    train, test = study.split
    baseline = {study.baseline: study.metrics[study.baseline]}
    yield (
        lambda: plots.accuracy_by_rank(
            learner,
            study.X[train],
            y[train],
            study.X[test],
            y[test],
            n_neighbors=study.n_neighbors,
            baseline=baseline,
        ),
        "Held-out rows: accuracy as the metric grows.",
    )


def _method_first(study: Study) -> dict[str, Any]:
    """Return the metrics with the report's own first, which gives it the main colour."""
    return dict(reversed(study.metrics.items()))


def _rows_held_out(study: Study) -> bool:
    return study.relearn is not None and study.labels is not None


def _features(study: Study) -> Section:
    named = study.metric.named(study.features)
    label = "Share of each feature in the mean squared distance"
    (figure,) = svgs(
        lambda: plots.importances(named, study.X, n_features=_MAX_FEATURES), label, "features"
    )
    text = (
        "The share of each feature in the mean squared distance between two rows. A negative "
        "share means that the feature mostly cancels differences in other features."
    )
    size = float(np.abs(feature_importances(named, study.X)).sum())
    if size > _LARGEST_SHARE_SUM:
        text += (
            f" Here features mostly cancel each other: the absolute values of the shares sum to "
            f"{size:.1f}. The bars are divided by this sum, and the leading directions say more."
        )
    directions = [str(direction) for direction in leading_directions(named, study.X)]
    return Section(
        "Which features matter",
        "features",
        [
            Text([text]),
            Figures([Figure(figure, f"{label}.")]),
            Items("Leading directions", directions),
        ],
    )


def _usage(study: Study) -> Section:
    file = study.metric_file or "metric.safetensors"
    python = (
        "from nearfar import Metric\n\n"
        f"metric = Metric.load({file!r})\n"
        "mapped = metric.transform(X)   # compare these rows by Euclidean distance\n"
        "metric.distances(X, Y)\n"
    )
    shell = (
        f"nearfar show {file}\n"
        f"nearfar transform {file} table.csv mapped.parquet\n"
        f"nearfar neighbors {file} table.csv\n"
    )
    blocks: list[Block] = [Code("Python", python), Code("Shell", shell)]
    if study.metric.is_linear:
        shape = f"{study.metric.n_components} x {study.metric.n_features}"
        other = (
            "from safetensors.numpy import load_file\n\n"
            f"L = load_file({file!r})['L']   # {shape}\n"
            "mapped = X @ L.T\n"
        )
        title = "Without nearfar, in any language that reads safetensors"
        blocks.append(Code(title, other))
    return Section("Use the metric", "usage", blocks)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_MAX_NAMES])
    return shown if len(names) <= _MAX_NAMES else f"{shown} and {len(names) - _MAX_NAMES} more"
