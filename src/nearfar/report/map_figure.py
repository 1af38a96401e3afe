"""Draws a map: points with colours of classes, names, and titles under the pointer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.plots.canvas import MARKERS, PALETTE, hover_id, one_axes, short_text
from nearfar.plots.labels import place_labels
from nearfar.typing import Ints, Matrix

_WIDTH = 4.5
"""Of a figure, in inches."""
_LEGEND_LINE = 0.21
"""Height of a line of a legend, in inches."""
_LEGEND_WIDTH = 46
"""Width of a legend, in characters."""
_TAIL = 0.02
"""Share of the points at either end of an axis that may be outside the frame."""
_LONG_TAIL = 1.6
"""Points are outside the frame if it would otherwise be this much wider."""
_MARGIN = 0.12
_EDGE = 0.02
"""Distance from the frame to points outside it, relative to its size."""
_RATIO = 1.15
"""Width of the frame relative to its height."""
_FLAT = 1e-6
"""Spread across a line, relative to that along it."""
_BAND, _GOLDEN = 0.6, 0.6180339887498949
"""Share of the height of a class that its points use, and the step between two of them."""


@dataclass(frozen=True, eq=False)
class MapPoints:
    """Points of a map.

    Attributes
    ----------
    flat : array of shape (n_points, 2)
    titles : list of str
        What to show under the pointer.
    groups : array of int of shape (n_points,)
        The number of the class of each point.
    classes : tuple of str
        Names of the classes, for the legend; none without classes.
    hollow : array of bool of shape (n_points,)
        Points that are drawn as outlines.
    names : dict of str to int
        Points to name, most important first.
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
        found = np.where(cut, ends[1:3], ends[[0, 3]])
        width, height = np.ptp(found, axis=0)
        width = (1 + _MARGIN) * (max(width, height * _RATIO) or 1.0)
        half = np.array([width, width / _RATIO]) / 2
        return found.mean(axis=0) + half * np.array([[-1.0], [1.0]])

    @property
    def n_outside(self) -> int:
        """Number of points beyond the ends of the axes."""
        low, high = self.limits
        return int(((self.places < low) | (self.places > high)).any(axis=1).sum())


def draw_map(points: MapPoints) -> Any:
    """Draw points on new axes, with the same scale in both directions, and return the axes."""
    columns, n_lines = _legend_shape(points.classes)
    ax = one_axes(size=(_WIDTH, _WIDTH / _RATIO + n_lines * _LEGEND_LINE))
    low, high = points.limits
    inset = _EDGE * (high - low)
    places = np.clip(points.places, low + inset, high - inset)
    for place, group, title, hollow in zip(
        places, points.groups, points.titles, points.hollow, strict=True
    ):
        ax.plot(*place, gid=hover_id(group, title), **_mark(group, hollow=hollow))
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
    ax.set_aspect("equal", adjustable="box")
    ax.spines[["top", "right"]].set_visible(True)
    ax.spines[:].set(alpha=0.3)
    if columns:
        _legend(ax, points.classes, columns)
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


def _legend_shape(classes: tuple[str, ...]) -> tuple[int, int]:
    """Return the numbers of columns and lines of a legend; 0 and 0 if there are no classes."""
    if not classes:
        return 0, 0
    longest = max(len(short_text(name)) for name in classes)
    columns = max(1, min(5, len(classes), _LEGEND_WIDTH // (longest + 4)))
    return columns, -(-len(classes) // columns)


def _legend(ax: Any, classes: tuple[str, ...], columns: int) -> None:
    """Name the classes in a legend below the map."""
    from matplotlib.lines import Line2D

    names = [short_text(name) for name in classes]
    handles = [Line2D([], [], **_mark(code, hollow=False)) for code in range(len(names))]
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.02)}
    ax.legend(handles, names, **place, ncols=columns, fontsize=9, handletextpad=0.2)
