"""Points in the plane: before and after a metric, and under each metric of a gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.learners.base import Scaler
from nearfar.metrics.metric import Metric
from nearfar.plots.canvas import (
    MARKERS,
    PALETTE,
    Axes,
    Classes,
    as_text,
    checked,
    grid,
)
from nearfar.typing import Floats, Ints

_MOST_POINTS = 2000
_MOST_NAMES = 40
_NO_SPREAD = 1e-12


def projections(
    metric: Metric, X: ArrayLike, y: ArrayLike | None = None, *, axes: Sequence[Any] | None = None
) -> Axes:
    """Draw points in the two leading coordinates of a metric, or of each metric of a gate.

    Under a gated metric each picture has the points that go by its metric (the paper's Figures 2,
    4, 8 and 10). The coordinates are the principal axes of the mapped points in the picture, each
    with its share of their squared distances. Where there is one coordinate only, the other way is
    by class.

    Parameters
    ----------
    metric : Metric
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), optional
        Labels, for colours and marks.
    axes : sequence of Axes, optional
        One for each metric.

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
    points = checked(X)
    classes = None if y is None else Classes.of(y, len(points))
    views = _views(metric, X)
    drawn = grid(axes, 1, len(views))[0]
    for number, (ax, view) in enumerate(zip(drawn, views, strict=True), 1):
        view.draw(ax, classes)
        ax.set_title(f"metric {number} ({len(view.rows)} points)" if len(views) > 1 else "")
    _explain(drawn[-1], classes)
    return drawn


def before_and_after(
    metric: Metric, X: ArrayLike, y: ArrayLike | None = None, *, axes: Sequence[Any] | None = None
) -> Axes:
    """Draw points before and after a metric, in two dimensions each.

    Before: the two leading principal axes of the standardised points. After: those of the points
    mapped by the metric; under a gated metric a picture for each of its metrics that points go by,
    with these points. Each axis has its share of the squared distances. The axes are those of all
    points; where there are more than 2000, a random choice of 2000 is drawn, the same every time,
    with as large a share of each class.

    Parameters
    ----------
    metric : Metric
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), optional
        Labels, for colours and marks. Up to 10 classes are named in a legend, up to 40 in the
        middle of their points.
    axes : sequence of Axes, optional
        Two, or one more than a gated metric has metrics that points go by.

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
    points = checked(X)
    classes = None if y is None else Classes.of(y, len(points))
    shown = _chosen(len(points), classes)
    few = f" ({len(shown)} of {len(points)} points)" if len(shown) < len(points) else ""
    views = [
        _View.of(np.arange(len(points)), Scaler.fit(points, "standard").transform(points)),
        *_views(metric, X),
    ]
    titles = ["before, standardised" + few, "after" + few]
    if len(metric.parts) > 1:
        counts = [np.isin(shown, view.rows).sum() for view in views[1:]]
        titles[1:] = [f"after, metric {s} ({count} points)" for s, count in enumerate(counts, 1)]
        used = [0] + [number for number, view in enumerate(views) if number and len(view.rows)]
        views, titles = [views[i] for i in used], [titles[i] for i in used]
    drawn = grid(axes, 1, len(views))[0]
    for ax, view, title in zip(drawn, views, titles, strict=True):
        view.draw(ax, classes, shown)
        ax.set_title(title)
    _explain(drawn[-1], classes)
    return drawn


@dataclass(frozen=True, eq=False)
class _View:
    """Some points in one or two coordinates.

    Attributes
    ----------
    rows : array of int
        Numbers of the points.
    flat : array of shape (n_rows, 1 or 2)
        Along the leading principal axes.
    shares : array of shape (1 or 2,)
        Of their squared distances.
    """

    rows: Ints
    flat: NDArray[np.float64]
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Ints, P: Floats) -> _View:
        """Look at points along their principal axes, each pointing to its largest loading."""
        if len(rows) == 0:
            return cls(rows, np.empty((0, 2)), np.empty(0))
        centered = np.asarray(P, dtype=np.float64) - P.mean(axis=0, dtype=np.float64)
        values, vectors = np.linalg.eigh(centered.T @ centered)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        n_axes = 2 if np.count_nonzero(values[:2] > _NO_SPREAD * values[0]) == 2 else 1
        axes = vectors[:, :n_axes]
        axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(n_axes)])
        return cls(rows, centered @ axes, values[:n_axes] / (values.sum() or 1.0))

    def draw(self, ax: Any, classes: Classes | None, shown: Ints | None = None) -> None:
        """Draw the points that are to be shown."""
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
            _name_in_place(ax, flat, codes, classes)
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
            if len(classes) <= _MOST_NAMES:
                ax.set_yticks(np.arange(len(classes)), [as_text(name) for name in classes.names])


def _views(metric: Metric, X: ArrayLike) -> list[_View]:
    """Return a view of the points that use each part of the metric, possibly none."""
    chosen, points = metric.assign(X), np.asarray(X)
    groups = [np.flatnonzero(chosen == number) for number in range(len(metric.parts))]
    pairs = zip(groups, metric.parts, strict=True)
    return [_View.of(rows, part.transform(points[rows])) for rows, part in pairs]


def _dots(marker: str) -> dict[str, Any]:
    # A star of the same width has far less to see.
    return {"s": 40 if marker == "*" else 18, "marker": marker, "alpha": 0.8, "linewidths": 0}


def _name_in_place(ax: Any, flat: Floats, codes: Ints, classes: Classes) -> None:
    """Write the name of each class in the middle of its points."""
    if len(classes) > _MOST_NAMES:
        return
    box = {"boxstyle": "round,pad=0.15", "fc": ax.get_facecolor(), "ec": "none", "alpha": 0.6}
    for code in np.unique(codes):
        middle = np.median(flat[codes == code], axis=0)
        name = as_text(classes.names[code])
        ax.text(*middle, name, ha="center", va="center", fontsize="x-small", bbox=box)


def _explain(ax: Any, classes: Classes | None) -> None:
    """Name few classes beside the picture, where they cover no point."""
    if classes is not None and len(classes) <= len(PALETTE):
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, markerscale=1.5)


def _chosen(n_samples: int, classes: Classes | None) -> Ints:
    """Rows to draw: all, or evenly many from a random order of each class."""
    if n_samples <= _MOST_POINTS:
        return np.arange(n_samples)
    order = np.random.default_rng(0).permutation(n_samples)
    if classes is not None:
        order = order[np.argsort(classes.codes[order], kind="stable")]
    picked = order[np.arange(_MOST_POINTS) * n_samples // _MOST_POINTS]
    return np.sort(picked)
