"""Scatter plots of points before and after a metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.learners.scaler import Scaler
from nearfar.metrics.metric import Metric
from nearfar.plots.canvas import (
    MARKERS,
    PALETTE,
    Axes,
    Classes,
    as_text,
    check_finite,
    grid,
)
from nearfar.typing import Floats, Ints

_MAX_POINTS = 2000
_MAX_CLASS_NAMES = 40
_RELATIVE_ZERO = 1e-12


def projections(
    metric: Metric, X: ArrayLike, y: ArrayLike | None = None, *, axes: Sequence[Any] | None = None
) -> Axes:
    """Draw points along the two leading principal axes after a metric's map.

    A gated metric has one plot for each of its parts, with the points that use it. The axis labels
    have the axes' shares of the squared distances. If there is only one coordinate, the other axis
    is the class.

    Parameters
    ----------
    metric : Metric
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), optional
        Labels, for colours and markers.
    axes : sequence of Axes, optional
        One for each part of the metric.

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
    classes = None if y is None else Classes.of(y, len(points))
    views = _views(metric, X)
    drawn = grid(axes, 1, len(views))[0]
    for number, (ax, view) in enumerate(zip(drawn, views, strict=True), 1):
        view.draw(ax, classes)
        ax.set_title(f"metric {number} ({len(view.rows)} points)" if len(views) > 1 else "")
    _add_legend(drawn[-1], classes)
    return drawn


def before_and_after(
    metric: Metric, X: ArrayLike, y: ArrayLike | None = None, *, axes: Sequence[Any] | None = None
) -> Axes:
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
        Labels, for colours and markers. Up to 10 classes are named in a legend, and up to 40 in
        the middle of their points.
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
    classes = None if y is None else Classes.of(y, len(points))
    shown = _sample(len(points), classes)
    count = f" ({len(shown)} of {len(points)} points)" if len(shown) < len(points) else ""
    views = [
        _View.of(np.arange(len(points)), Scaler.fit(points, "standard").transform(points)),
        *_views(metric, X),
    ]
    titles = ["before, standardised" + count, "after" + count]
    if len(metric.parts) > 1:
        counts = [np.isin(shown, view.rows).sum() for view in views[1:]]
        titles[1:] = [f"after, metric {s} ({count} points)" for s, count in enumerate(counts, 1)]
        used = [0] + [number for number, view in enumerate(views) if number and len(view.rows)]
        views, titles = [views[i] for i in used], [titles[i] for i in used]
    drawn = grid(axes, 1, len(views))[0]
    for ax, view, title in zip(drawn, views, titles, strict=True):
        view.draw(ax, classes, shown)
        ax.set_title(title)
    _add_legend(drawn[-1], classes)
    return drawn


@dataclass(frozen=True, eq=False)
class _View:
    """Some points in one or two coordinates.

    Attributes
    ----------
    rows : array of int
        Row numbers of the points.
    flat : array of shape (n_rows, 1 or 2)
        Coordinates along the leading principal axes.
    shares : array of shape (1 or 2,)
        Share of the squared distances along each axis.
    """

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

    def draw(self, ax: Any, classes: Classes | None, shown: Ints | None = None) -> None:
        """Draw the points whose rows are in `shown` (default: all)."""
        visible = np.ones(len(self.rows), bool) if shown is None else np.isin(self.rows, shown)
        codes = None if classes is None else classes.codes[self.rows]
        flat = self.flat
        if flat.shape[1] == 1:
            flat = np.column_stack([flat, np.zeros(len(flat)) if codes is None else codes])
        if classes is None or codes is None:
            ax.scatter(*flat[visible].T, color=PALETTE[0], **_dots("o"))
        elif len(classes) <= len(PALETTE):
            for code, name in enumerate(classes.names):
                points = flat[visible & (codes == code)]
                ax.scatter(
                    *points.T, color=PALETTE[code], label=as_text(name), **_dots(MARKERS[code])
                )
        else:
            limits = {"vmin": 0, "vmax": len(classes) - 1, "cmap": "viridis"}
            ax.scatter(*flat[visible].T, c=codes[visible], **limits, **_dots("o"))
            _write_class_names(ax, flat, codes, classes)
        self._label(ax, classes)

    def _label(self, ax: Any, classes: Classes | None) -> None:
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
            if len(classes) <= _MAX_CLASS_NAMES:
                ax.set_yticks(np.arange(len(classes)), [as_text(name) for name in classes.names])


def _views(metric: Metric, X: ArrayLike) -> list[_View]:
    """Return a view of the points that use each part of the metric, possibly none."""
    chosen, points = metric.assign(X), np.asarray(X)
    groups = [np.flatnonzero(chosen == number) for number in range(len(metric.parts))]
    pairs = zip(groups, metric.parts, strict=True)
    return [_View.of(rows, part.transform(points[rows])) for rows, part in pairs]


def _dots(marker: str) -> dict[str, Any]:
    # A star has a smaller area than other markers of the same size.
    return {"s": 40 if marker == "*" else 18, "marker": marker, "alpha": 0.8, "linewidths": 0}


def _write_class_names(ax: Any, flat: Floats, codes: Ints, classes: Classes) -> None:
    """Write the name of each class at the median of its points."""
    if len(classes) > _MAX_CLASS_NAMES:
        return
    box = {"boxstyle": "round,pad=0.15", "fc": ax.get_facecolor(), "ec": "none", "alpha": 0.6}
    for code in np.unique(codes):
        middle = np.median(flat[codes == code], axis=0)
        name = as_text(classes.names[code])
        ax.text(*middle, name, ha="center", va="center", fontsize="x-small", bbox=box)


def _add_legend(ax: Any, classes: Classes | None) -> None:
    """Put the names of few classes beside the plot, where they cover no point."""
    if classes is not None and len(classes) <= len(PALETTE):
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, markerscale=1.5)


def _sample(n_samples: int, classes: Classes | None) -> Ints:
    """Return the rows to draw: all, or a fixed sample stratified by class."""
    if n_samples <= _MAX_POINTS:
        return np.arange(n_samples)
    order = np.random.default_rng(0).permutation(n_samples)
    if classes is not None:
        order = order[np.argsort(classes.codes[order], kind="stable")]
    picked = order[np.arange(_MAX_POINTS) * n_samples // _MAX_POINTS]
    return np.sort(picked)
