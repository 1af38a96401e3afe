"""Scatter plots of points before and after a metric.

Names of classes beside their points, placed so that no two of them overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.learners.scaling import Scaler
from nearfar.metrics.metric import Metric
from nearfar.plots.canvas import (
    MARKERS,
    NEUTRAL,
    PALETTE,
    AxesGrid,
    AxesSource,
    Classes,
    check_finite,
    grid,
    hover_id,
    legend_below,
    short_text,
)
from nearfar.typing import Floats, Ints, Matrix, Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More points cover each other, and make large SVG files.
_MAX_POINTS = 2000
# Classes with a colour and a label, if there are more classes than colours.
_N_LABELLED = 8
# Names of classes on an axis; more would overlap.
_MAX_TICKS = 10
# Eigenvalues below this share of the largest are rounding: there is no second axis.
_RELATIVE_ZERO = 1e-12


def projections(
    metric: Metric, X: ArrayLike, y: ArrayLike | None = None, *, axes: AxesSource = None
) -> AxesGrid:
    """Draw points along the two leading principal axes after a metric's map.

    A gated metric has one plot for each of its parts, with the points that use it. The axis labels
    have the axes' shares of the squared distances. If there is only one coordinate, the other axis
    is the class. If there are more than 2000 points, the axes are computed from all of them, and a
    fixed random sample of 2000 is drawn, stratified by class.

    Up to 10 classes have colours and are named in a legend. Of more classes, the eight largest have
    colours and are named beside their points, and the others are grey. In SVG, the points of a
    class are a group whose id has the name of the class.

    Parameters
    ----------
    metric : Metric
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), optional
        Labels, for colours and markers.
    axes : sequence of Axes or callable, optional
        One for each part of the metric, or a function that makes them.

    Returns
    -------
    array of Axes

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import NCA, plots
    >>> X, y = load_wine(return_X_y=True)
    >>> (ax,) = plots.projections(NCA().fit(X, y).metric_, X, y)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['0', '1', '2']
    """
    points = check_finite(X)
    drawn = _Sample.of(Classes.of(y, len(points)), len(points))
    views = _views(metric, X)
    if len(views) == 1:
        return drawn.draw(axes, views, [drawn.count])
    titles = [f"metric {s} ({drawn.number(view)} points)" for s, view in enumerate(views, 1)]
    return drawn.draw(axes, views, titles)


def before_and_after(
    metric: Metric, X: ArrayLike, y: ArrayLike | None = None, *, axes: AxesSource = None
) -> AxesGrid:
    """Draw points in two dimensions before and after a metric.

    The left plot shows the two leading principal axes of the standardised points, the right one
    those of the points mapped by the metric. A gated metric has one plot for each of its parts that
    is used, with the points that use it. The axis labels have the axes' shares of the squared
    distances. If there are more than 2000 points, the axes are computed from all of them, and a
    fixed random sample of 2000 is drawn, stratified by class.

    Parameters
    ----------
    metric : Metric
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), optional
        Labels, for colours and markers, as in `projections`.
    axes : sequence of Axes, optional
        Two, or one more than the number of parts of a gated metric that are used.

    Returns
    -------
    array of Axes

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import NCA, plots
    >>> X, y = load_wine(return_X_y=True)
    >>> before, after = plots.before_and_after(NCA().fit(X, y).metric_, X, y)
    >>> after.get_title()
    'after'
    """
    points = check_finite(X)
    drawn = _Sample.of(Classes.of(y, len(points)), len(points))
    before = _View.of(np.arange(len(points)), Scaler.fit(points, "standard").transform(points))
    after = {f"after, metric {s}": view for s, view in enumerate(_views(metric, X), 1)}
    titles = {f"{name} ({drawn.number(v)} points)": v for name, v in after.items() if len(v.rows)}
    count = f" ({drawn.count})" if drawn.count else ""
    if len(after) == 1:
        titles = {f"after{count}": view for view in after.values()}
    return drawn.draw(axes, [before, *titles.values()], [f"before, standardised{count}", *titles])


@dataclass(frozen=True, eq=False)
class _Sample:
    """The points that are drawn: all, or a fixed sample stratified by class."""

    classes: Classes | None
    rows: Ints
    count: str = ""

    @classmethod
    def of(cls, classes: Classes | None, n_samples: int) -> _Sample:
        if n_samples <= _MAX_POINTS:
            return cls(classes, np.arange(n_samples))
        order = np.random.default_rng(0).permutation(n_samples)
        if classes is not None:
            order = order[np.argsort(classes.codes[order], kind="stable")]
        picked = order[np.arange(_MAX_POINTS) * n_samples // _MAX_POINTS]
        return cls(classes, np.sort(picked), f"{_MAX_POINTS} of {n_samples} points")

    def number(self, view: _View) -> int:
        """Return how many points of a view are drawn."""
        return int(np.isin(self.rows, view.rows).sum())

    def draw(self, given: AxesSource, views: list[_View], titles: list[str]) -> AxesGrid:
        """Draw views side by side."""
        axes = grid(given, 1, len(views))[0]
        for ax, view, title in zip(axes, views, titles, strict=True):
            view.draw(ax, self.classes, self.rows)
            ax.set_title(title)
        if self.classes is None:
            return axes
        if len(self.classes) <= len(PALETTE):
            names = [short_text(name) for name in self.classes.names]
            legend_below(axes[-1], names, by=0.16)
        else:
            for ax, view in zip(axes, views, strict=True):
                view.name_classes(ax, self.classes)
        return axes


@dataclass(frozen=True, eq=False)
class _View:
    """Some points in one or two coordinates."""

    rows: Ints
    flat: NDArray[np.float64]
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Ints, P: Floats) -> _View:
        """Project points on their principal axes, whose largest loadings are positive."""
        if len(rows) == 0:
            return cls(rows, np.empty((0, 2)), np.empty(0))
        centered = np.asarray(P, dtype=np.float64) - P.mean(axis=0, dtype=np.float64)
        values, vectors = np.linalg.eigh(centered.T @ centered)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        n_axes = 2 if np.count_nonzero(values[:2] > _RELATIVE_ZERO * values[0]) == 2 else 1
        axes = vectors[:, :n_axes]
        axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(n_axes)])
        return cls(rows, centered @ axes, values[:n_axes] / (values.sum() or 1.0))

    def draw(self, ax: Axes, classes: Classes | None, shown: Ints) -> None:
        """Draw the points whose rows are in `shown`."""
        visible = np.isin(self.rows, shown)
        flat = self.places(classes)
        if classes is None:
            ax.scatter(*flat[visible].T, color=PALETTE[0], **_dots("o"))
        else:
            codes = classes.codes[self.rows]
            colored = _colored(classes)
            # Grey points first, so that they do not cover the others.
            for code in sorted(range(len(classes)), key=lambda code: code in colored):
                points, name = flat[visible & (codes == code)], classes.names[code]
                style = _dots("o", faint=True) | {"color": NEUTRAL}
                if code in colored:
                    number = colored.index(code)
                    style = _dots(MARKERS[number]) | {"color": PALETTE[number]}
                if len(points) or len(colored) == len(classes):
                    gid = hover_id(code, name)
                    ax.scatter(*points.T, label=short_text(name), gid=gid, **style)
        for number, (share, axis) in enumerate(zip(self.shares, "xy", strict=False), 1):
            ax.set(**{f"{axis}label": f"axis {number} ({100 * share:.0f} %)"})
        if len(self.rows) == 0:
            ax.set(xticks=[], yticks=[])
        elif self.flat.shape[1] == 2:
            ax.set_aspect("equal", adjustable="datalim")
        elif classes is None:
            ax.set_yticks([])
        else:
            ax.set_ylabel("class")
            named = range(0, len(classes), -(-len(classes) // _MAX_TICKS))
            ax.set_yticks(list(named), [short_text(classes.names[code]) for code in named])

    def places(self, classes: Classes | None) -> Floats:
        """Two coordinates of each point; with one axis only, the other is the class."""
        if self.flat.shape[1] == 2:
            return self.flat
        heights = np.zeros(len(self.rows)) if classes is None else classes.codes[self.rows]
        return np.column_stack([self.flat, heights])

    def name_classes(self, ax: Axes, classes: Classes) -> None:
        """Name the classes with a colour beside their points."""
        if self.flat.shape[1] == 2:
            codes = classes.codes[self.rows]
            present = [code for code in _colored(classes) if (codes == code).any()]
            medians = {c: np.median(self.flat[codes == c], axis=0) for c in present}
            place_labels(ax, {classes.names[code]: middle for code, middle in medians.items()})


def _views(metric: Metric, X: ArrayLike) -> list[_View]:
    """Return a view of the points that use each part of the metric, possibly none."""
    chosen, points = metric.assign(X), np.asarray(X)
    groups = [np.flatnonzero(chosen == number) for number in range(len(metric.parts))]
    pairs = zip(groups, metric.parts, strict=True)
    return [_View.of(rows, part.transform(points[rows])) for rows, part in pairs]


def _dots(marker: str, *, faint: bool = False) -> dict[str, Any]:
    # A star has a smaller area than other markers of the same size.
    size = 40 if marker == "*" else 8 if faint else 18
    return {"s": size, "marker": marker, "alpha": 0.45 if faint else 0.8, "linewidths": 0}


def _colored(classes: Classes) -> list[int]:
    """Return the classes that have a colour: all of few, or the largest of many."""
    if len(classes) <= len(PALETTE):
        return list(range(len(classes)))
    sizes = np.bincount(classes.codes, minlength=len(classes))
    return [int(code) for code in np.argsort(-sizes, kind="stable")[:_N_LABELLED]]


LABEL_ID = "label"
"""The id in SVG of a label that lies on points."""

_FONT_SIZE = 8.0
# Room for a label relative to its size, as other programs draw text in other fonts.
_PADDING = 1.25
_POINTS_PER_INCH = 72
# Names farther away than this could belong to any point.
_MAX_RINGS, _MAX_RINGS_BESIDE = 8, 4
# Half of the size of a point, in pixels.
_DOT = 4.0
# Places on a ring around a point: finer steps hardly find another place.
_N_DIRECTIONS = 12
_LEADER = {"arrowstyle": "-", "linewidth": 0.6, "alpha": 0.6, "shrinkA": 0, "shrinkB": 0}


def place_labels(ax: Any, anchors: Mapping[str, Vector], *, points: Matrix | None = None) -> None:
    """Write names near points of an axes whose limits are final.

    A name is at its point or, if another name is there, as near to it as possible with a line to
    the point. A name without a free place is left out.

    If all points are given, names are beside their own one, and cover none.

    Parameters
    ----------
    anchors: shape (2,). Points in the coordinates of the data, by name. The first names
        have the best places.
    points: shape (n_points, 2). Points that names must not cover.
    """
    if not anchors:
        return
    ax.figure.draw_without_rendering()
    frame = ax.get_window_extent()
    color = ax.patch.get_facecolor()
    # A box in the colour of the axes; none if they are transparent.
    box_style = {"boxstyle": "round,pad=0.1", "fc": color, "ec": "none", "alpha": 0.7}
    occupied: list[tuple[Vector, Vector]] = []
    if points is not None:
        occupied = [(center, np.full(2, _DOT)) for center in ax.transData.transform(points)]
    for name, anchor in anchors.items():
        text = ax.annotate(
            short_text(name),
            anchor,
            xytext=(0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=_FONT_SIZE,
            gid=LABEL_ID,
            bbox=box_style if color[3] else None,
            arrowprops=_LEADER | {"color": ax.xaxis.label.get_color()},
        )
        box = text.get_window_extent()
        half = _PADDING * np.array([box.width, box.height]) / 2
        point = ax.transData.transform(anchor)
        low, high = np.array([frame.x0, frame.y0]) + half, np.array([frame.x1, frame.y1]) - half
        for step in _steps(box.height, half, beside=points is not None):
            center = point + step
            inside = bool(np.all((low <= center) & (center <= high)))
            if inside and all(np.any(np.abs(center - c) >= half + h) for c, h in occupied):
                break
        else:
            text.remove()
            continue
        occupied.append((center, half))
        # Not in pixels: SVG has others than the screen.
        text.set_position(tuple(step * _POINTS_PER_INCH / ax.figure.dpi))
        is_near = not step.any() if points is None else np.all(np.abs(step) <= half + 2 * _DOT)
        text.arrow_patch.set_visible(not is_near)


def _steps(height: float, half: Vector, *, beside: bool) -> Iterator[Vector]:
    """Yield places to try, relative to the point."""
    if beside:
        for ring in range(1, _MAX_RINGS_BESIDE + 1):
            for side in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)):
                yield np.array(side) * (half + 1.2 * _DOT + (ring - 1) * half[1])
        return
    yield np.zeros(2)
    for ring in range(1, _MAX_RINGS + 1):
        for angle in np.linspace(0, 2 * np.pi, _N_DIRECTIONS, endpoint=False) + np.pi / 2:
            yield 1.2 * height * ring * np.array([1.5 * np.cos(angle), np.sin(angle)])
