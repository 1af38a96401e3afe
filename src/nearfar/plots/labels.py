"""Names of classes beside their points, placed so that no two of them overlap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nearfar.plots.canvas import short_text
from nearfar.typing import Matrix, Vector

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
