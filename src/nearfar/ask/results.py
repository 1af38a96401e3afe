"""The page of results: agreement and its ceiling, the curve, the map, features and people."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nearfar.ask.chooser import Chooser
from nearfar.ask.collection import Collection
from nearfar.ask.progress import LATELY, Person, Progress, learning_curve, measure, people
from nearfar.comparison.methods import baseline_metrics
from nearfar.evidence.verdict import STANDARDISED
from nearfar.learners.boosting import BoostMetric
from nearfar.learners.classic import ITML
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.page.blocks import (
    Block,
    Figure,
    Figures,
    Neighbor,
    Queries,
    Query,
    Section,
    Table,
    Text,
    shortened,
)
from nearfar.page.figures import svgs
from nearfar.page.page import render_page
from nearfar.page.thumbnails import thumbnail
from nearfar.plots import before_and_after, importances, projections
from nearfar.plots.canvas import METHOD_PALETTE, one_axes
from nearfar.tables.report_sections import N_NEIGHBORS, N_QUERIES
from nearfar.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Fewer answers would give a map that the next ones change entirely.
_FEWEST_TO_LEARN = 20


def results_page(collection: Collection) -> str:
    """Return the page of results as HTML."""
    chooser = collection.snapshot()
    progress = measure(chooser)
    sections = [Section("Agreement", "agreement", _agreement(chooser, progress))]
    sections += _learned(collection, chooser)
    sections.append(Section("People", "people", [_people(people(chooser))]))
    name = collection.store.path.stem
    return render_page(
        name,
        title=f"{name}: answers so far",
        subject=f"{progress.n_answers} answers about {len(collection.objects)} objects",
        headlines=[],
        reason=str(progress),
        notes=[],
        sections=sections,
    )


def _agreement(chooser: Chooser, progress: Progress) -> list[Block]:
    if progress.agreement is None or progress.before is None:
        return [Text(["There are too few answers to say how good they are, or no vectors."])]
    rows = [
        ["After learning", str(progress.agreement)],
        ["Before", str(progress.before)],
    ]
    if progress.ceiling is not None:
        low, high = progress.ceiling
        rows.append(["Highest possible", f"{100 * low:.0f} to {100 * high:.0f} %"])
    if progress.lately is not None:
        rows.append([f"Change by the last {LATELY} answers", str(progress.lately)])
    ceiling = f"The highest possible agreement is that of {progress.n_repeats} repeated questions."
    lines = [
        f"Answers to {progress.agreement.n} random questions, each predicted from answers to "
        "others; 90 % intervals.",
        *([ceiling] if progress.ceiling is not None else []),
        f"{progress.n_unsure} of {progress.n_answers} answers are “can't tell”.",
    ]
    table = Table(["", "share of answers predicted"], rows)

    def draw() -> Axes:
        points = learning_curve(chooser)
        ax = one_axes(None, (5, 3))
        n = [count for count, _ in points]
        values = [100 * share.value for _, share in points]
        ax.plot(n, values, marker="o", color=METHOD_PALETTE[0], clip_on=False)
        low, high = [100 * s.low for _, s in points], [100 * s.high for _, s in points]
        ax.fill_between(n, low, high, color=METHOD_PALETTE[0], alpha=0.2, linewidth=0)
        ax.set(xlabel="answers", ylabel="agreement (%)", ylim=(min(45, min(low)), 100))
        return ax

    curve = svgs(draw, "Agreement by number of answers", "curve")
    caption = "Agreement on random questions by number of answers; 90 % interval."
    return [table, Text(lines), Figures([Figure(svg, caption) for svg in curve])]


def _learned(collection: Collection, chooser: Chooser) -> list[Section]:
    X = collection.objects.X
    if X is None:
        P = chooser.model.coordinates()
        drawn = svgs(lambda: projections(Metric.identity(P.shape[1]), P), "Map of objects", "map")
        caption = "Objects by their answers alone; near objects were judged alike."
        figures = Figures([Figure(svg, caption) for svg in drawn])
        by_answers = {"By the answers": Metric.identity(P.shape[1])}
        neighbours = _neighbors(collection, chooser, by_answers, P)
        return [Section("Map", "map", [figures]), neighbours]
    metric = learned_metric(collection, chooser)
    if metric is None:
        few = f"The map and the features are shown from {_FEWEST_TO_LEARN} answers on."
        return [Section("Map", "map", [Text([few])])]
    drawn = svgs(lambda: before_and_after(metric, X), "Objects before and after", "map")
    figures = Figures([Figure(svg, "Objects before and after learning.") for svg in drawn])
    bars = svgs(lambda: importances(metric, X), "Importance of features", "features")
    caption = "Share of each feature in the learned distance."
    matter = Figures([Figure(svg, caption) for svg in bars])
    before = baseline_metrics(X)[STANDARDISED]
    return [
        Section("Map", "map", [figures]),
        _neighbors(collection, chooser, {STANDARDISED: before, "Learned": metric}, X),
        Section("Features that matter", "features", [matter]),
    ]


def _neighbors(
    collection: Collection, chooser: Chooser, metrics: dict[str, Metric], X: Floats
) -> Section:
    """Return the objects that were asked about most, with their nearest objects."""
    objects = collection.objects
    asked = Counter(judged.question.objects[0] for judged in chooser.judgements)
    rows = [row for row, _ in asked.most_common(N_QUERIES)]
    n_neighbors = min(N_NEIGHBORS, len(objects) - 1)

    @cache
    def shown(row: int) -> Neighbor:
        text = objects.names[row] if objects.texts is None else shortened(objects.texts[row])
        return Neighbor(text, "" if objects.pictures is None else thumbnail(objects.pictures[row]))

    nearest = {
        name: kneighbors(metric, X, rows=rows, n_neighbors=n_neighbors)[1].tolist()
        for name, metric in metrics.items()
    }
    queries = []
    for n, row in enumerate(rows):
        found = {name: [shown(other) for other in near[n]] for name, near in nearest.items()}
        queries.append(Query(shown(row).text, found, shown(row).image))
    text = "No answers yet."
    if rows:
        text = "The objects that were asked about most, with those that are nearest."
    return Section("Nearest objects", "neighbours", [Text([text]), Queries(queries)])


def learned_metric(collection: Collection, chooser: Chooser) -> Metric | None:
    """Learn a metric from all answers; None if there are too few."""
    objects = collection.objects
    decided = sum(judged.value != 0.5 for judged in chooser.judgements)
    if objects.X is None or decided < _FEWEST_TO_LEARN:
        return None
    names = None if objects.feature_names is None else list(objects.feature_names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if chooser.kind == "pairs":
            pairs = chooser.pairs()
            if len(np.unique(pairs.similar)) < 2:
                return None
            metric = ITML(random_state=0).fit(objects.X, pairs).metric_
        else:
            learner = BoostMetric(loss="logistic", random_state=0)
            metric = learner.fit(objects.X, chooser.triplets()).metric_
    return metric.named(names)


def _people(persons: list[Person]) -> Table:
    rows = [
        [
            person.name,
            str(person.n_answers),
            str(person.agreement) if person.agreement.n else "",
            f"{person.weight:.2f}",
            "; ".join(person.notes),
        ]
        for person in persons
    ]
    caption = "Agreement with predictions on random questions, and the weight of the answers."
    return Table(["person", "answers", "agreement", "weight", "note"], rows, caption)
