"""The section with the map: held-out rows, or judged objects, before and after; and its drawing.

The plane of a map: on it, what is known of the training rows separates best.

The points are mapped by a metric, so that their Euclidean distances are its distances. A plane is
an orthogonal projection: distances on it are parts of the distances, in the same units. This is why
discriminant analysis does not serve here. Its projection is the same after any invertible map, and
maps before and after learning would look alike.

With B the scatter between classes (of far and dissimilar rows) and W that within them (of near and
similar rows), the candidates are the planes of

    the leading eigenvectors of B + W, of B, and of W^-1 B (made orthonormal)

and of the first of the last with the widest axis across it. They are learned from one half of the
training data. The one that does best on the other half is learned again from both; of equally good
ones, it is the first. Doing best means that the nearest rows on the plane have the same class or,
with judgements, that most of them hold there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import coo_array

from nearfar.measures.neighbor_votes import majority
from nearfar.measures.registry import HeldOutJudgements, measures_for
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.page.blocks import Figure, Figures, Section, Text, shortened
from nearfar.page.figures import svgs
from nearfar.plots.canvas import (
    MARKERS,
    PALETTE,
    hover_id,
    legend_below,
    legend_columns,
    one_axes,
    short_text,
)
from nearfar.plots.scatters import place_labels
from nearfar.supervision import Pairs, Triplets, kind_of
from nearfar.tables.report_study import Study
from nearfar.typing import Array, Floats, Ints, Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More points cover each other.
_MAX_POINTS = 200
_MAX_CLASSES = len(PALETTE)
# Of rows with ids; more names leave no room for those of the errors.
_MAX_NAMES = 12
# Of judged objects, which are often few and all worth a name.
_MAX_OBJECT_NAMES = 100
# A plane has two axes; more judgements would only take time.
_MAX_JUDGEMENTS = 20_000
# Of a figure, in inches.
_WIDTH = 4.5
# Height of a line of a legend, in inches.
_LEGEND_LINE = 0.21
# Share of the points at either end of an axis that may be outside the frame.
_TAIL = 0.02
# Points are outside the frame if it would otherwise be this much wider.
_LONG_TAIL = 1.6
# Width of the frame beyond its points, relative to theirs: room for marks at the edge.
_MARGIN = 0.12
# Distance from the frame to points outside it, relative to its size.
_EDGE = 0.02
# Width of the frame relative to its height.
_RATIO = 1.15
# Spread across a line, relative to that along it.
_FLAT = 1e-6
# Share of the height of a class that its points use, and the step between two of them.
_BAND, _GOLDEN = 0.6, 0.6180339887498949


def map_section(study: Study) -> Section:
    """Return the map of the rows under the baseline, and under the metric of the report."""
    drawn = _DrawnRows.of(study)
    views = [view for name, metric in study.metrics.items() for view in drawn.views(name, metric)]
    if len(views) == 2:
        views[0] = views[0].turned_like(views[1])
    figures = [
        Figure(svg, view.caption(study), reacts=True)
        for number, view in enumerate(views)
        for svg in svgs(partial(draw_map, view.points), f"Map: {view.name}", f"map{number}")
    ]
    title = "Rows on a map" if study.judgements is None else "Objects on a map"
    text = [*drawn.explained(len(views)), _learned_from(study)]
    return Section(title, "map", [Text(text), Figures(figures)])


@dataclass(frozen=True, eq=False)
class _DrawnRows:
    """The rows that are drawn, and what the plane is learned from."""

    study: Study
    rows: Ints
    classes: Array
    n_candidates: int

    @classmethod
    def of(cls, study: Study) -> _DrawnRows:
        if study.labels is None:
            judged, counts = np.unique(study.judgement_split[1].index, return_counts=True)
            rows = judged[np.argsort(-counts, kind="stable")][:_MAX_POINTS]
            return cls(study, rows, np.empty(0), len(judged))
        test = study.split[1]
        classes = np.unique(study.labels)
        if len(classes) > _MAX_CLASSES:
            # Those with most errors before and after together.
            actual = study.labels[test]
            names, codes = np.unique(actual, return_inverse=True)
            wrong = sum((each != actual).astype(float) for each in study.predicted_classes.values())
            errors = np.bincount(codes, np.asarray(wrong))
            order = np.lexsort((-np.bincount(codes), -errors))
            classes = np.sort(names[order[:_MAX_CLASSES]])
        test = test[np.isin(study.labels[test], classes)]
        # Every m-th row of a random order that is sorted by class: stratified.
        order = np.random.default_rng(study.random_state).permutation(len(test))
        order = order[np.argsort(study.labels[test[order]], kind="stable")]
        n_points = min(_MAX_POINTS, len(test))
        picked = order[np.arange(n_points) * len(test) // max(n_points, 1)]
        return cls(study, np.sort(test[picked]), classes, len(test))

    def plane(self, part: Metric) -> Plane:
        """Return the plane on which the training data separate best."""
        study = self.study
        if study.labels is None:
            judgements = study.judgement_split[0]
            some = np.random.default_rng(study.random_state).permutation(len(judgements))
            judgements = judgements.take(some[:_MAX_JUDGEMENTS])
            return plane_of_judgements(part.transform(study.X), judgements, study.random_state)
        train = study.split[0]
        of_classes = np.isin(study.labels[train], self.classes)
        train = train[of_classes] if of_classes.any() else train
        mapped = part.transform(study.X[train])
        return plane_of_labels(mapped, study.labels[train], study.random_state)

    def predicted(self, name: str) -> tuple[Array, NDArray[np.bool_]]:
        """Return the classes of the rows by the vote of their neighbours, and which are wrong."""
        labels = self.study.labels
        if labels is None:
            return np.empty(len(self.rows)), np.zeros(len(self.rows), dtype=bool)
        places = np.searchsorted(self.study.split[1], self.rows)
        classes = self.study.predicted_classes[name][places]
        return classes, np.asarray(classes != labels[self.rows])

    @property
    def names(self) -> dict[str, int]:
        """Places of the rows to name: all judged objects, or some rows, those with errors first."""
        study, rows = self.study, self.rows.tolist()
        if study.labels is None:
            return {study.table.row_name(row): i for i, row in enumerate(rows[:_MAX_OBJECT_NAMES])}
        if study.table.ids is None:
            return {}
        one, other = (self.predicted(name)[1] for name in study.metrics)
        order = np.lexsort((~(one | other), one == other))
        return {study.table.row_name(rows[i]): int(i) for i in order[:_MAX_NAMES]}

    def views(self, name: str, metric: Metric) -> Iterator[_View]:
        """Yield the rows on a plane; for a gated metric, one view for each part that they use."""
        study, names = self.study, self.names
        groups = np.zeros(len(self.rows), dtype=np.intp)
        if study.labels is not None:
            groups = np.searchsorted(self.classes, study.labels[self.rows])
        predicted, wrong = self.predicted(name)
        titles = [shortened(study.row_title(row)) for row in self.rows.tolist()]
        for i in np.flatnonzero(wrong):
            titles[i] = f"{titles[i]}, classified as {predicted[i]}"
        chosen = metric.assign(study.X[self.rows])
        for number, part in enumerate(metric.parts):
            places = np.flatnonzero(chosen == number)
            if not len(places):
                continue
            mapped: Floats = part.transform(study.X[self.rows[places]])
            plane = self.plane(part)
            flat = plane.place(mapped)
            inside = {int(place): i for i, place in enumerate(places)}
            points = MapPoints(
                flat - flat.mean(axis=0),
                [titles[place] for place in places],
                groups[places],
                tuple(str(each) for each in self.classes),
                wrong[places],
                {each: inside[row] for each, row in names.items() if row in inside},
            )
            title = name if len(metric.parts) == 1 else f"{name}, local metric {number + 1}"
            yield _View(title, points, plane.share(mapped))

    def explained(self, n_views: int) -> list[str]:
        """Say which rows are drawn, and on what plane."""
        study = self.study
        some = f" of {self.n_candidates}" if len(self.rows) < self.n_candidates else ""
        if study.labels is None:
            text = f"{len(self.rows)}{some} objects of held-out {study.supervision}. "
            text += "Names are there where there is room."
            best = f"the {study.supervision} to learn from hold best"
        else:
            which = "held-out rows"
            text = f"{len(self.rows)}{some} {which}."
            n_classes = len(np.unique(study.labels))
            if n_classes != len(self.classes):
                text += (
                    f" They are of {len(self.classes)} of the {n_classes} classes: those with most "
                    "errors before and after."
                )
            text += " Hollow marks are rows that their nearest training rows classify wrongly."
            best = "the classes of training rows separate best"
        n_parts = len(study.metrics[study.method].parts)
        if n_parts > 1:
            text += f" These rows use {n_views - 1} of the metric's {n_parts} local metrics."
        how = (
            f"Each map is the plane on which {best}, with nothing stretched. What is near there "
            "may differ in other coordinates. Point at a mark to see what it is."
        )
        return [text, how]


def _learned_from(study: Study) -> str:
    """Say what the metric of the maps was learned from."""
    if study.learner is None:
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
    together = " A row and its copies are on one side." if study.table.n_copies else ""
    if study.table.groups is not None and not together:
        together = " No group is among both."
    return f"{n_test} rows are held out; {n_train} other rows were learned from.{together}"


@dataclass(frozen=True, eq=False)
class _View:
    """Points of one map, with what its caption needs."""

    name: str
    points: MapPoints
    share: float

    def turned_like(self, other: _View) -> _View:
        """Return the view turned and mirrored so that points are where the other has them."""
        U, _, Vt = np.linalg.svd(self.points.flat.T @ other.points.flat)
        return replace(self, points=replace(self.points, flat=self.points.flat @ U @ Vt))

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


@dataclass(frozen=True, eq=False)
class MapPoints:
    """Points of a map.

    Attributes
    ----------
    titles: What to show under the pointer.
    groups: shape (n_points,). The number of the class of each point.
    classes: Names of the classes, for the legend; none without classes.
    hollow: shape (n_points,). Points that are drawn as outlines.
    names: Points to name, most important first.
    """

    flat: Matrix
    titles: list[str]
    groups: Ints
    classes: tuple[str, ...]
    hollow: NDArray[np.bool_]
    names: dict[str, int] = field(default_factory=dict)

    @property
    def is_line(self) -> bool:
        """Whether all points are on one line."""
        sizes = np.linalg.svd(self.flat - self.flat.mean(axis=0), compute_uv=False)
        return bool(sizes[-1] <= _FLAT * sizes[0]) and len(self.flat) > 2

    @property
    def places(self) -> Matrix:
        """Where points are drawn: those of a line in a band for each class."""
        if not self.is_line:
            return self.flat
        axis = np.linalg.svd(self.flat - self.flat.mean(axis=0), full_matrices=False)[2][0]
        along = self.flat @ (axis if axis[0] >= 0 else -axis)
        number = np.arange(len(along))
        band = self.groups - self.groups.max(initial=0) / 2
        height = band + _BAND * ((number * _GOLDEN) % 1.0 - 0.5)
        unit = np.ptp(along) / (_RATIO * (1 + int(self.groups.max(initial=0))))
        return np.column_stack([along, -height * (unit or 1.0)])

    @property
    def limits(self) -> Matrix:
        """Ends of the axes: all points are inside, but for a few that are far from all others."""
        ends = np.quantile(self.places, [0.0, _TAIL, 1 - _TAIL, 1.0], axis=0)
        widths = np.ptp(ends[1:3], axis=0)
        tails = np.array([ends[1] - ends[0], ends[3] - ends[2]])
        cut = tails > (_LONG_TAIL - 1) * np.where(widths > 0, widths, np.inf)
        frame = np.where(cut, ends[1:3], ends[[0, 3]])
        width, height = np.ptp(frame, axis=0)
        width = (1 + _MARGIN) * (max(width, height * _RATIO) or 1.0)
        half = np.array([width, width / _RATIO]) / 2
        return frame.mean(axis=0) + half * np.array([[-1.0], [1.0]])

    @property
    def n_outside(self) -> int:
        """Number of points beyond the ends of the axes."""
        low, high = self.limits
        return int(((self.places < low) | (self.places > high)).any(axis=1).sum())


def draw_map(points: MapPoints) -> Axes:
    """Draw points on new axes, with the same scale in both directions, and return the axes."""
    from matplotlib.lines import Line2D

    names = [short_text(name) for name in points.classes]
    n_lines = -(-len(names) // legend_columns(names))
    ax = one_axes(size=(_WIDTH, _WIDTH / _RATIO + n_lines * _LEGEND_LINE))
    low, high = points.limits
    inset = _EDGE * (high - low)
    places = np.clip(points.places, low + inset, high - inset)
    for place, group, title, hollow in zip(
        places, points.groups.tolist(), points.titles, points.hollow, strict=True
    ):
        ax.plot(*place, gid=hover_id(group, title), **_mark(group, hollow=hollow))
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
    ax.set_aspect("equal", adjustable="box")
    ax.spines[["top", "right"]].set_visible(True)
    ax.spines[:].set(alpha=0.3)
    if names:
        handles = [Line2D([], [], **_mark(code, hollow=False)) for code in range(len(names))]
        legend_below(ax, names, by=0.02, handles=handles)
    place_labels(ax, {name: places[row] for name, row in points.names.items()}, points=places)
    return ax


def _mark(group: int, *, hollow: bool) -> dict[str, Any]:
    color, marker = PALETTE[group % len(PALETTE)], MARKERS[group % len(MARKERS)]
    return {
        "color": color,
        "marker": marker,
        "linestyle": "",
        # A star has a smaller area than other markers of the same size.
        "markersize": 7 if marker == "*" else 5,
        "markerfacecolor": "none" if hollow else color,
        "markeredgewidth": 1.2,
    }


# More training rows hardly move a plane, and voting takes time quadratic in their number.
_MAX_ROWS = 2000
# Leading principal axes that planes are made of; more would fit noise.
_MAX_AXES = 50
# Added to W, in units of its mean eigenvalue: little for many rows, more for few.
_RIDGES = (0.001, 0.1)
# Planes on which points spread less than this across, relative to along, are no maps.
_NARROW = 0.2
# A few more than usual, as single neighbours on a plane are there by chance.
_NEIGHBORS = 5
# Far above rounding, far below any spread that a map could show.
_RELATIVE_ZERO = 1e-9

Scatters = tuple[Matrix, Matrix]


@dataclass(frozen=True, eq=False)
class Plane:
    """An orthogonal projection to two coordinates.

    Attributes
    ----------
    center: shape (n_components,). The point that is mapped to the origin.
    axes: shape (n_components, 2). Orthonormal; the second one is zero if the points lie on
        a line.
    """

    center: Floats
    axes: Matrix

    def place(self, P: Floats) -> Matrix:
        """Return the coordinates of mapped points on the plane."""
        return np.asarray((P - self.center) @ self.axes, dtype=np.float64)

    def share(self, P: Floats) -> float:
        """Return the share of the mean squared distance of points that is on the plane."""
        total = float(np.var(P, axis=0, dtype=np.float64).sum())
        return float(self.place(P).var(axis=0).sum()) / total if total > 0 else 1.0


def plane_of_labels(P: Floats, labels: Array, seed: int = 0) -> Plane:
    """Return the plane on which the nearest rows have the same class most often.

    Parameters
    ----------
    P: shape (n_samples, n_components). Training rows, mapped by a metric.
    """
    chosen = np.random.default_rng(seed).permutation(len(P))[:_MAX_ROWS]
    points, codes = P[chosen], np.unique(labels[chosen], return_inverse=True)[1]
    # Rows in the order of their classes, so that every second one has half of each class.
    order = np.argsort(codes, kind="stable")
    first, second = order[::2], order[1::2]

    def score(flat: Matrix) -> float:
        k = min(_NEIGHBORS, len(first))
        metric = Metric.identity(2)
        nearest = kneighbors(metric, flat[first], flat[second], n_neighbors=k)[1]
        classes = majority(codes[first][nearest])
        return float((classes == codes[second]).mean())

    def scatters(Z: Matrix, half: bool) -> Scatters:
        """Return the scatters of class means and around them."""
        rows = first if half else order
        Z, of_rows = Z[rows], codes[rows]
        counts = np.maximum(np.bincount(of_rows), 1)
        sums = np.zeros((len(counts), Z.shape[1]))
        np.add.at(sums, of_rows, Z)
        means = (sums / counts[:, None])[of_rows]
        around, apart = Z - means, means - Z.mean(axis=0)
        return apart.T @ apart / len(Z), around.T @ around / len(Z)

    return _best_plane(points, scatters, score if len(second) else None)


def plane_of_judgements(P: Floats, judgements: Triplets | Pairs, seed: int = 0) -> Plane:
    """Return the plane on which most triplets hold, or pairs are told apart best.

    Parameters
    ----------
    P: shape (n_samples, n_components). Rows, mapped by a metric.
    judgements: To learn from.
    """
    order = np.random.default_rng(seed).permutation(len(judgements))
    first, second = judgements.take(order[::2]), judgements.take(order[1::2])
    measure = measures_for(kind_of(judgements))[0]

    def score(flat: Matrix) -> float:
        return -float(measure.losses(HeldOutJudgements(Metric.identity(2), flat, second)).mean())

    def scatters(Z: Matrix, half: bool) -> Scatters:
        """Return the scatters of far and near rows, or of dissimilar and similar ones."""
        some = first if half else judgements
        if isinstance(some, Triplets):
            anchor, near, far = some.index.T
            return _scatter(Z, anchor, far), _scatter(Z, anchor, near)
        i, j = some.index.T
        similar = some.similar
        return _scatter(Z, i[~similar], j[~similar]), _scatter(Z, i[similar], j[similar])

    return _best_plane(P, scatters, score if len(second) else None)


def _best_plane(
    P: Floats,
    scatters: Callable[[Matrix, bool], Scatters],
    score: Callable[[Matrix], float] | None,
) -> Plane:
    """Return the best candidate by its score after learning from half of the data."""
    center = P.mean(axis=0, dtype=np.float64)
    centered = np.asarray(P, dtype=np.float64) - center
    if centered.shape[1] > len(centered):
        leading = np.linalg.svd(centered, full_matrices=False)[2][:_MAX_AXES].T
    else:
        leading = np.linalg.eigh(centered.T @ centered)[1][:, ::-1][:, :_MAX_AXES]
    Z = centered @ leading
    best = 0
    if score is not None:
        scores = []
        for axes in _candidates(*scatters(Z, True)):
            flat = Z @ axes
            narrow, wide = np.linalg.eigvalsh(flat.T @ flat)
            scores.append(score(flat) if narrow > _NARROW**2 * wide else -np.inf)
        best = int(np.argmax(scores))
    axes = list(_candidates(*scatters(Z, False)))[best]
    # Axes of the same plane, along which points vary most and least.
    flat = Z @ axes
    return Plane(center, leading @ (axes @ np.linalg.eigh(flat.T @ flat)[1][:, ::-1]))


def _candidates(between: Matrix, within: Matrix) -> Iterator[Matrix]:
    """Yield orthonormal axes: by the sum of the scatters, by that between, and by their ratio."""
    total = between + within
    yield _filled(_leading(total), total)
    yield _filled(_leading(between), total)
    unit = (np.trace(within) + _RELATIVE_ZERO * np.trace(total)) / len(within) or 1.0
    for ridge in _RIDGES:
        ratios = eigh(between, within + ridge * unit * np.eye(len(within)))[1][:, ::-1]
        axes = np.linalg.qr(ratios[:, : _rank(between)])[0]
        yield _filled(axes, total)
        yield _filled(axes[:, :1], total)


def _rank(between: Matrix) -> int:
    """Return how many axes tell rows apart, at most two."""
    values = np.linalg.eigvalsh(between)
    return max(1, min(2, int((values > _RELATIVE_ZERO * values[-1]).sum())))


def _leading(scatter: Matrix) -> Matrix:
    return np.asarray(np.linalg.eigh(scatter)[1][:, ::-1][:, : _rank(scatter)])


def _filled(axes: Matrix, total: Matrix) -> Matrix:
    """Return two axes; one that is missing is the widest one across the other."""
    if axes.shape[1] == 2:
        return axes
    if len(axes) == 1:
        return np.column_stack([axes, np.zeros(1)])
    across = np.eye(len(axes)) - axes @ axes.T
    return np.column_stack([axes, np.linalg.eigh(across @ total @ across)[1][:, -1]])


def _scatter(Z: Matrix, i: Ints, j: Ints) -> Matrix:
    """Return the mean outer product of differences of rows, without forming the differences."""
    weights = coo_array((np.full(len(i), 1.0 / max(len(i), 1)), (i, j)), (len(Z), len(Z))).tocsr()
    weights = weights + weights.T
    return np.asarray(Z.T @ (weights.sum(axis=1)[:, None] * Z) - Z.T @ (weights @ Z))
