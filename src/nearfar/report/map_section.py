"""The section with the map: held-out rows, or judged objects, before and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.metrics.metric import Metric
from nearfar.plots.canvas import PALETTE
from nearfar.report.blocks import Figure, Figures, Section, Text, shortened
from nearfar.report.figures import svgs
from nearfar.report.map_figure import MapPoints, draw_map
from nearfar.report.planes import Plane, plane_of_judgements, plane_of_labels
from nearfar.report.study import Study
from nearfar.typing import Floats, Ints, Matrix

_MAX_POINTS = 200
_MAX_CLASSES = len(PALETTE)
_MAX_NAMES = 12
_MAX_OBJECT_NAMES = 100
_MAX_JUDGEMENTS = 20_000
_HOLLOW = "Hollow marks are rows that their {} nearest training rows classify wrongly."


def map_section(study: Study) -> Section:
    """Return the map of the rows under the baseline, and under the metric of the report."""
    shown = _Shown.of(study)
    views = [view for name, metric in study.metrics.items() for view in _views(shown, name, metric)]
    if len(views) == 2:
        views[0] = views[0].turned_like(views[1])
    figures = [
        Figure(svg, view.caption(study), reacts=True)
        for number, view in enumerate(views)
        for svg in svgs(partial(draw_map, view.points), f"Map: {view.name}", f"map{number}")
    ]
    title = "Rows on a map" if study.judgements is None else "Objects on a map"
    return Section(title, "map", [Text(_explained(shown, views)), Figures(figures)])


@dataclass(frozen=True, eq=False)
class _Shown:
    """The rows that are drawn, and what the plane is learned from.

    Attributes
    ----------
    study : Study
    rows : array of int
        Rows to draw.
    classes : array
        Labels of the classes that are drawn; empty without labels.
    n_candidates : int
        Number of rows that they were chosen from.
    """

    study: Study
    rows: Ints
    classes: NDArray[Any]
    n_candidates: int

    @classmethod
    def of(cls, study: Study) -> _Shown:
        if study.judgements is not None:
            judged, counts = np.unique(study.judgement_split[1].index, return_counts=True)
            rows = judged[np.argsort(-counts, kind="stable")][:_MAX_POINTS]
            return cls(study, rows, np.empty(0), len(judged))
        test = study.split[1]
        classes = _most_confused(study)
        test = test[np.isin(study.labels[test], classes)]
        order = np.random.default_rng(study.random_state).permutation(len(test))
        order = order[np.argsort(study.labels[test[order]], kind="stable")]
        n_points = min(_MAX_POINTS, len(test))
        picked = order[np.arange(n_points) * len(test) // max(n_points, 1)]
        return cls(study, np.sort(test[picked]), classes, len(test))

    @property
    def groups(self) -> Ints:
        """The number of the class of each row."""
        if self.study.labels is None:
            return np.zeros(len(self.rows), dtype=np.intp)
        return np.searchsorted(self.classes, self.study.labels[self.rows])

    def plane(self, part: Metric) -> Plane:
        """Return the plane on which the training data separate best."""
        study = self.study
        if study.judgements is not None:
            known = study.judgement_split[0]
            some = np.random.default_rng(study.random_state).permutation(len(known))
            known = known.take(some[:_MAX_JUDGEMENTS])
            return plane_of_judgements(part.transform(study.X), known, study.random_state)
        train = study.split[0]
        of_classes = np.isin(study.labels[train], self.classes)
        train = train[of_classes] if of_classes.any() else train
        mapped = part.transform(study.X[train])
        return plane_of_labels(mapped, study.labels[train], study.random_state)

    def predicted(self, name: str) -> NDArray[Any]:
        """Return the classes of the rows by the vote of their neighbours, if there are labels."""
        places = np.searchsorted(self.study.split[1], self.rows)
        return np.asarray(self.study.predicted_classes[name][places])

    def wrong(self, name: str) -> NDArray[np.bool_]:
        """Return which rows are classified wrongly; none without labels."""
        if self.study.labels is None:
            return np.zeros(len(self.rows), dtype=bool)
        return np.asarray(self.predicted(name) != self.study.labels[self.rows])

    def titles(self, name: str) -> list[str]:
        """Return what each row is, for the pointer."""
        found = [shortened(self.study.row_title(row)) for row in self.rows.tolist()]
        if self.study.labels is None:
            return found
        pairs = zip(found, self.predicted(name), self.wrong(name), strict=True)
        return [f"{title}, classified as {as_}" if wrong else title for title, as_, wrong in pairs]

    @property
    def names(self) -> dict[str, int]:
        """Places of the rows to name: all judged objects, or some rows, those with errors first."""
        study = self.study
        if study.labels is None:
            return {study.row_name(r): i for i, r in enumerate(self.rows[:_MAX_OBJECT_NAMES])}
        if study.ids is None:
            return {}
        one, other = (self.wrong(name) for name in study.metrics)
        order = np.lexsort((~(one | other), one == other))
        return {study.row_name(self.rows[i]): int(i) for i in order[:_MAX_NAMES]}


@dataclass(frozen=True, eq=False)
class _View:
    """Points of one map, with what its caption needs."""

    name: str
    points: MapPoints
    share: float

    def turned_like(self, other: _View) -> _View:
        """Return the view turned and mirrored so that points are where the other has them."""
        U, _, Vt = np.linalg.svd(self.points.flat.T @ other.points.flat)
        points = MapPoints(**(vars(self.points) | {"flat": self.points.flat @ U @ Vt}))
        return _View(self.name, points, self.share)

    def caption(self, study: Study) -> str:
        share = f"{100 * self.share:.0f} %"
        parts = [f"{self.name}: {share} of the mean squared distance is on the map"]
        if self.points.is_line:
            parts.append("it has one dimension, and the height only tells marks apart")
        if study.labels is not None:
            n_wrong, n = int(self.points.hollow.sum()), len(self.points.hollow)
            is_ = "is" if n_wrong == 1 else "are"
            parts.append(f"{n_wrong} of {n} rows {is_} classified wrongly")
        if n := self.points.n_outside:
            far = "one that is far outside is" if n == 1 else f"{n} that are far outside are"
            parts.append(f"{far} drawn at the edge")
        return f"{'; '.join(parts)}."


def _views(shown: _Shown, name: str, metric: Metric) -> Iterator[_View]:
    """Yield the rows on a plane; for a gated metric, one view for each part that they use."""
    chosen = metric.assign(shown.study.X[shown.rows])
    for number, part in enumerate(metric.parts):
        places = np.flatnonzero(chosen == number)
        if len(places):
            title = name if len(metric.parts) == 1 else f"{name}, local metric {number + 1}"
            yield _view(shown, name, title, part, places)


def _view(shown: _Shown, name: str, title: str, part: Metric, places: Ints) -> _View:
    mapped: Floats = part.transform(shown.study.X[shown.rows[places]])
    plane = shown.plane(part)
    flat: Matrix = plane.place(mapped)
    titles, inside = shown.titles(name), {int(place): i for i, place in enumerate(places)}
    names = {name: inside[row] for name, row in shown.names.items() if row in inside}
    points = MapPoints(
        flat - flat.mean(axis=0),
        [titles[place] for place in places],
        shown.groups[places],
        tuple(str(each) for each in shown.classes),
        shown.wrong(name)[places],
        names,
    )
    return _View(title, points, plane.share(mapped))


def _most_confused(study: Study) -> NDArray[Any]:
    """Return all classes or, of many, those with most errors before and after together."""
    names = np.unique(study.labels)
    if len(names) <= _MAX_CLASSES:
        return names
    test = study.labels[study.split[1]]
    names, codes = np.unique(test, return_inverse=True)
    wrong = sum((found != test).astype(float) for found in study.predicted_classes.values())
    errors = np.bincount(codes, np.asarray(wrong))
    order = np.lexsort((-np.bincount(codes), -errors))
    return np.asarray(np.sort(names[order[:_MAX_CLASSES]]))


def _explained(shown: _Shown, views: list[_View]) -> list[str]:
    study = shown.study
    some = f" of {shown.n_candidates}" if len(shown.rows) < shown.n_candidates else ""
    if study.judgements is not None:
        text = f"{len(shown.rows)}{some} objects of held-out {study.supervision}. "
        text += "Names are there where there is room."
        best = f"the {study.supervision} to learn from hold best"
    else:
        which = "rows" if study.relearn is None else "held-out rows"
        hollow = _HOLLOW.format(study.n_neighbors)
        text = f"{len(shown.rows)}{some} {which}.{_which_classes(shown)} {hollow}"
        best = "the classes of training rows separate best"
    n_parts = len(study.evaluated_metric.parts)
    if n_parts > 1:
        text += f" These rows use {len(views) - 1} of the metric's {n_parts} local metrics."
    how = (
        f"Each map is the plane on which {best}, with nothing stretched. What is near there may "
        "differ in other coordinates. Point at a mark to see what it is."
    )
    return [text, how, _held_out(study)]


def _which_classes(shown: _Shown) -> str:
    n_classes = len(np.unique(shown.study.labels))
    if n_classes == len(shown.classes):
        return ""
    return (
        f" They are of {len(shown.classes)} of the {n_classes} classes: those with most errors "
        "before and after."
    )


def _held_out(study: Study) -> str:
    """Say what the metric of the maps was learned from."""
    if study.relearn is None:
        return (
            "The metric was not learned again for this report. If it was learned from these rows, "
            "the map is too optimistic."
        )
    if study.judgements is not None:
        n_train, n_test = map(len, study.judgement_split)
        return (
            f"The metric of the map was learned from {n_train} {study.supervision}; {n_test} are "
            "held out. The objects themselves are not held out."
        )
    n_train, n_test = map(len, study.split)
    note = ""
    if study.comparison is not None:
        note = " The choice of the method may have used all rows."
    if study.n_copies:
        note = f" A row and its copies are on one side.{note}"
    elif study.groups is not None:
        note = f" No group is among both.{note}"
    return f"{n_test} rows are held out; {n_train} other rows were learned from.{note}"
