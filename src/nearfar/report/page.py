"""The sections of a report, and the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearfar import plots
from nearfar.constraints import RandomPairs
from nearfar.metrics.gated import GatedMetric
from nearfar.metrics.importance import leading_directions
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.report.figures import svg
from nearfar.report.study import Study
from nearfar.runtime.atomic_write import atomic_write

Progress = Callable[[int, int, str], None]

_LEAST_ROWS = 10
_ORDER = ("data", "comparison", "pictures", "neighbours", "features", "use")
_QUERIES = 4
_NEIGHBORS = 5
_MOST_CLASSES = 30
_MOST_FEATURES = 30
_TEXT_WIDTH = 120
_BEFORE_AND_AFTER = "{}, before and after: the two axes along which they differ most."
_ROUNDS = "How the fit went, round by round."


@dataclass(frozen=True)
class Figure:
    """A picture with its caption; a wide one has a line of the page to itself."""

    svg: str
    caption: str
    wide: bool = False


@dataclass(frozen=True)
class Answer:
    """A query and what two metrics find for it: (text, whether it has the query's class)."""

    query: str
    found: dict[str, list[tuple[str, bool]]]


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    title: str
    anchor: str
    text: list[str] = field(default_factory=list)
    table: tuple[list[str], list[list[str]]] | None = None
    html: str = ""
    figures: list[Figure] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    code: list[tuple[str, str]] = field(default_factory=list)


def write_report(
    path: str | os.PathLike[str], study: Study, *, progress: Progress | None = None
) -> None:
    """Write a report as one HTML file that needs no network.

    Parameters
    ----------
    path : path-like
        Replaced only once the report is complete.
    study : Study
    progress : callable, optional
        Called with the number of sections done, their total, and what is next.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from nearfar import BoostMetric
    >>> from nearfar.report import Study, write_report
    >>> X, y = load_iris(return_X_y=True)
    >>> def learn(X, y):
    ...     return BoostMetric(max_iter=10).fit(X, y)
    >>> study = Study("iris", X, y, learn(X, y).metric_, "BoostMetric", relearn=learn)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "iris.html"
    ...     write_report(path, study)
    ...     path.read_text()[:15]
    '<!DOCTYPE html>'
    """
    if len(study.X) < _LEAST_ROWS:
        raise ValueError(f"A report needs at least {_LEAST_ROWS} rows; got {len(study.X)}.")
    text = render(study, progress)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def render(study: Study, progress: Progress | None = None) -> str:
    """Return the page; see `write_report`."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError('A report needs Jinja: pip install "nearfar[report]".') from error
    environment = Environment(
        loader=PackageLoader("nearfar.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    from nearfar import __version__

    return environment.get_template("page.html").render(
        study=study, sections=list(_sections(study, progress)), version=__version__
    )


def _sections(study: Study, progress: Progress | None) -> Iterator[Section]:
    wanted = {"data": _data, "pictures": _pictures, "neighbours": _neighbours, "use": _loading}
    if study.comparison is not None:
        wanted["comparison"] = _comparison
    if not isinstance(study.metric, GatedMetric) and study.metric.kernel_map is None:
        wanted["features"] = _features
    order = [name for name in _ORDER if name in wanted]
    for number, name in enumerate(order):
        if progress is not None:
            progress(number, len(order), f"report, {name}")
        yield wanted[name](study)


def _comparison(study: Study) -> Section:
    assert study.comparison is not None
    return Section(
        "Is it worth it?",
        "comparison",
        text=[
            "Every distance is learned from some rows and judged by others. Triplets: share of "
            "(row, near of its class, far of another) in the right order. MAP@R: how purely a "
            "row's class comes first when all others are ranked."
        ],
        html=study.comparison.to_html(verdict=False),
    )


def _data(study: Study) -> Section:
    names, counts = np.unique(study.y, return_counts=True)
    n_rows, n_features = study.X.shape
    spread = study.X.std(axis=0)
    text = [f"{n_rows} rows, {n_features} features, {len(names)} classes."]
    same = np.ptp(study.X, axis=0) == 0
    constant = [name for name, flat in zip(study.features, same, strict=True) if flat]
    if constant:
        text.append(f"Features that are the same in all rows: {_listed(constant)}.")
    varied = spread[~same]
    if len(varied) and varied.max() > 100 * varied.min():
        text.append(
            f"The spread of features differs by a factor of {varied.max() / varied.min():,.0f}: "
            "without standardising, a few of them decide every distance."
        )
    twins = n_rows - len(np.unique(study.X, axis=0))
    if twins:
        text.append(f"Copies of other rows: {twins}.")
    order = np.argsort(-counts, kind="stable")
    rows = [
        [str(names[i]), str(counts[i]), f"{100 * counts[i] / n_rows:.1f} %"]
        for i in order[:_MOST_CLASSES]
    ]
    if len(names) > _MOST_CLASSES:
        rows.append(
            [f"{len(names) - _MOST_CLASSES} more", str(counts[order[_MOST_CLASSES:]].sum()), ""]
        )
    return Section("The data", "data", text=text, table=(["class", "rows", "share"], rows))


def _pictures(study: Study) -> Section:
    """Draw the metric, and what it does to rows held out."""
    seen, unseen = study.split
    X, y = study.X, study.y
    pairs = RandomPairs()(X[unseen], y[unseen], np.random.RandomState(study.random_state))
    most = min(30, len(seen) - 1)
    rows = "Rows held out" if study.relearn is not None else "Some rows"
    before_and_after = _BEFORE_AND_AFTER.format(rows)
    wanted: list[tuple[Callable[[], Any], str]] = [
        (
            lambda: plots.before_and_after(study.judged, X[unseen], y[unseen]),
            before_and_after,
        ),
        (
            lambda: plots.neighbor_curve(
                study.metrics, X[seen], y[seen], max_k=most, X_query=X[unseen], y_query=y[unseen]
            ),
            f"{rows}: how often the k-th neighbour has the row's class.",
        ),
        (
            lambda: plots.spectra({study.method: study.metric}),
            "Eigenvalues of the metric: how many directions it looks in.",
        ),
    ]
    if pairs.similar.any() and not pairs.similar.all():
        wanted.insert(
            2,
            (
                lambda: plots.roc(study.metrics, X[unseen], pairs),
                f"{rows}, in pairs: same or different, by a threshold on the distance.",
            ),
        )
    if study.learner is not None and len(study.learner.history_) > 1:
        trace = study.learner.history_
        wanted.append((lambda: plots.rounds(trace), _ROUNDS))
    fitted = study.relearned
    if hasattr(fitted, "staged_metrics") and len(fitted.history_) > 1:
        wanted.append(
            (
                lambda: plots.accuracy_by_rank(fitted, X[seen], y[seen], X[unseen], y[unseen]),
                f"{rows}: accuracy as the metric grows.",
            )
        )
    wide = (before_and_after, _ROUNDS)
    text = [_held_out(study)]
    if isinstance(study.judged, GatedMetric):
        used = len(np.unique(study.judged.assign(X[unseen])))
        text.append(f"Of the metric's {len(study.judged.metrics)} local metrics {used} are used.")
    figures = [
        Figure(svg(draw, caption, f"figure{number}"), caption, wide=caption in wide)
        for number, (draw, caption) in enumerate(wanted)
    ]
    return Section("In pictures", "pictures", text=text, figures=figures)


def _held_out(study: Study) -> str:
    if study.relearn is None:
        return (
            "The pictures are honest if the metric was not learned from these rows: "
            "it is taken as it is."
        )
    n_seen, n_unseen = map(len, study.split)
    chosen = ""
    if study.comparison is not None:
        chosen = " (The method itself may have been chosen by all rows.)"
    return f"The metric was learned from {n_seen} rows for this, and {n_unseen} held out.{chosen}"


def _neighbours(study: Study) -> Section:
    """Show neighbours of a few rows before and after."""
    number = min(_NEIGHBORS, len(study.split[0]) - 1)
    rows = study.queries(_QUERIES, number)
    which = "Rows held out" if study.relearn is not None else "Rows"
    text = [
        f"{which} whose neighbours change most, for better or worse. A cross marks neighbours of "
        "another class."
    ]
    if study.image_shape is not None:
        return Section(
            "Neighbours, before and after",
            "neighbours",
            text=text,
            figures=[_pictured(study, row, number) for row in rows],
        )
    answers = []
    for row in rows:
        found = {
            name: _answers(study, metric, row, number) for name, metric in study.metrics.items()
        }
        answers.append(Answer(f"{_called(study, row)} [{study.y[row]}]", found))
    return Section("Neighbours, before and after", "neighbours", text=text, answers=answers)


def _pictured(study: Study, row: int, number: int) -> Figure:
    """Draw a query and its neighbours among the rows that were not held out."""
    picked = np.concatenate([[row], study.split[0]])

    def draw() -> Any:
        return plots.neighbor_pictures(
            study.metrics,
            study.X[picked],
            [0],
            image_shape=study.image_shape or (),
            n_neighbors=number,
            y=study.y[picked],
        )

    caption = f"{_called(study, row)} and its neighbours, nearest first"
    return Figure(svg(draw, caption, f"query{row}"), caption, wide=True)


def _answers(study: Study, metric: Metric, row: int, number: int) -> list[tuple[str, bool]]:
    seen, _ = study.split
    found = kneighbors(metric, study.X[seen], study.X[[row]], n_neighbors=number)[1][0]
    return [
        (f"{_called(study, other)} [{study.y[other]}]", bool(study.y[other] == study.y[row]))
        for other in seen[found]
    ]


def _called(study: Study, row: int) -> str:
    name = f"row {row}" if study.ids is None else study.ids[row]
    if study.texts is None:
        return name
    line = " ".join(study.texts[row].split())
    return line if len(line) <= _TEXT_WIDTH else f"{line[: _TEXT_WIDTH - 1]}…"


def _features(study: Study) -> Section:
    named = study.metric.named(study.features)
    figure = svg(
        lambda: plots.importances(named, study.X, n_features=_MOST_FEATURES),
        "Share of each feature in the mean squared distance",
        "features",
    )
    return Section(
        "Which features matter",
        "features",
        text=[
            "A feature's share of the mean squared distance between two rows; the shares add up to "
            "one, and one is negative where a feature mostly takes back what others add."
        ],
        figures=[Figure(figure, "Share of the mean squared distance.")],
        lines=[str(direction) for direction in leading_directions(named, study.X)],
    )


def _loading(study: Study) -> Section:
    file = study.metric_file or "metric.safetensors"
    python = (
        "from nearfar import Metric\n\n"
        f"metric = Metric.load({file!r})\n"
        "metric.transform(X)      # where Euclidean distance is the metric\n"
        "metric.distances(X, Y)   # all distances\n"
    )
    shell = (
        f"nearfar show {file}\n"
        f"nearfar transform {file} table.csv mapped.parquet\n"
        f"nearfar neighbors {file} table.csv\n"
    )
    code = [("Python", python), ("Shell", shell)]
    if not isinstance(study.metric, GatedMetric) and study.metric.kernel_map is None:
        other = (
            "from safetensors.numpy import load_file\n\n"
            f"L = load_file({file!r})['L']   # {study.metric.n_components} x "
            f"{study.metric.n_features}\n"
            "mapped = X @ L.T\n"
        )
        code.append(("Without nearfar, in any language that reads safetensors", other))
    return Section("Use the metric", "use", code=code)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
