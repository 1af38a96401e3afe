"""Axes, colours, markers and input checks that all plots share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from nearfar.metrics.metric import Metric
from nearfar.runtime.messages import optional_package
from nearfar.typing import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

AxesGrid = NDArray[np.object_]
"""Axes in rows and columns."""

AxesSource: TypeAlias = "Axes | Sequence[Axes] | AxesGrid | Callable[[], Axes] | None"
"""Axes to draw on, or a function that makes them; None for new ones."""

# Colours of classes. The first eight are from M. Petroff, Accessible color sequences for data
# visualization, 2021: distinct for colour-blind readers, and visible on white and on black.
PALETTE = (
    "#3f90da",
    "#ffa90e",
    "#bd1f01",
    "#832db6",
    "#a96b59",
    "#e76300",
    "#b9ac70",
    "#92dadd",
    "#f47cc0",
    "#5f6fe8",
)
# Colours of methods are none of these: the first is for the method that a plot is about, and the
# second for what it is compared with.
METHOD_PALETTE = ("#149954", "#808890", "#c2479b", "#8a8a00", "#008b9e")
MARKERS = "os^DvPX<>*"
NEUTRAL = "0.5"
HOVER_ID = "hover:"
"""How the ids in SVG of points begin that have a title; see `hover_id`."""
# Longer names would leave plots with a legend beside it too little room.
_MAX_NAME_LENGTH = 24
# Two plots beside each other fit a page, and a column of an article one.
_AXES_INCHES = (4.5, 3.5)
_PAD_INCHES = 0.08
# Width of a legend below a plot, in characters.
_LEGEND_WIDTH = 46
_LINE_STYLES = ("-", "--", "-.", ":")


@dataclass(frozen=True, eq=False)
class Classes:
    """Names of the classes, and the class number of each point."""

    names: tuple[str, ...]
    codes: Ints

    @classmethod
    def of(cls, y: ArrayLike | None, n_samples: int) -> Classes | None:
        """Encode labels, if there are any, after checking that each point has one."""
        if y is None:
            return None
        labels = np.asarray(y)
        if labels.shape != (n_samples,):
            raise ValueError(
                f"{n_samples} points need one label each; got labels of shape {labels.shape}."
            )
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise ValueError("Labels must not be NaN or infinite.")
        names, codes = np.unique(labels, return_inverse=True)
        return cls(tuple(str(name) for name in names), codes)

    def __len__(self) -> int:
        return len(self.names)

    def name_of(self, point: int) -> str:
        """Return the name of a point's class."""
        return self.names[self.codes[point]]

    def together(self, one: int, other: int) -> bool:
        """Return whether two points are of the same class."""
        return bool(self.codes[one] == self.codes[other])


def as_text(name: str) -> str:
    """Escape a name: matplotlib reads $ as mathematics and hides labels that start with _."""
    escaped = name.replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped


def short_text(name: str) -> str:
    """Escape a name, and cut it if it is long."""
    long = len(name) > _MAX_NAME_LENGTH
    return as_text(f"{name[: _MAX_NAME_LENGTH - 1]}…" if long else name)


def hover_id(group: int, title: str) -> str:
    """Return the id in SVG of points with a title; those of a group belong together."""
    return f"{HOVER_ID}{group}:{title}"


def check_finite(X: ArrayLike) -> Floats:
    """Return points as an array, after checking that they are finite."""
    return np.asarray(check_array(X, dtype=[np.float64, np.float32], input_name="X"))


def check_metrics(metrics: Mapping[str, Metric]) -> None:
    """Raise ValueError unless `metrics` maps at least one name to a metric."""
    if not isinstance(metrics, Mapping) or not metrics:
        raise ValueError('Pass at least one metric by name, as in {"learned": metric}.')
    for name, metric in metrics.items():
        if not isinstance(metric, Metric):
            raise ValueError(f"{name!r} is a {type(metric).__name__}, not a Metric.")


def line_style(number: int) -> dict[str, Any]:
    """Return the colour, marker and dashes of one of several lines."""
    return {
        "color": METHOD_PALETTE[number % len(METHOD_PALETTE)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": _LINE_STYLES[number % len(_LINE_STYLES)],
        "markersize": 4,
    }


def named_lines(
    lines: Mapping[str, tuple[ArrayLike, ArrayLike]], ax: Axes | None = None, **labels: object
) -> Axes:
    """Draw lines with a legend, on the given axes or on new ones.

    Parameters
    ----------
    lines: Coordinates x and y by name.
    **labels: Passed to `Axes.set`.
    """
    ax = one_axes(ax)
    for number, (name, (x, y)) in enumerate(lines.items()):
        ax.plot(x, y, label=as_text(name), **line_style(number))
    ax.set(**labels)
    ax.legend()
    return ax


def legend_columns(names: Sequence[str]) -> int:
    """Return how many names fit beside each other in a legend below a plot."""
    longest = max(map(len, names), default=0)
    return max(1, min(5, len(names), _LEGEND_WIDTH // (longest + 4)))


def legend_below(
    ax: Axes, names: Sequence[str], *, by: float, handles: Sequence[Artist] | None = None
) -> None:
    """Put a legend below a plot, at a distance relative to its height."""
    ax.legend(
        ax.get_legend_handles_labels()[0] if handles is None else handles,
        names,
        loc="upper center",
        bbox_to_anchor=(0.5, -by),
        ncols=legend_columns(names),
        frameon=False,
        fontsize=9,
        handletextpad=0.2,
    )


def integer_ticks(ax: Axes) -> None:
    """Put the ticks of the x-axis at integers only."""
    from matplotlib.ticker import MaxNLocator

    if ax.get_xscale() == "linear":
        ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))


def one_axes(given: Axes | None = None, size: tuple[float, float] = _AXES_INCHES) -> Axes:
    """Return the given axes, or new ones of a size in inches."""
    return grid(given, 1, 1, size)[0, 0]


def grid(
    given: AxesSource, n_rows: int, n_columns: int, cell: tuple[float, float] = _AXES_INCHES
) -> AxesGrid:
    """Return the given axes, or new ones, in rows and columns.

    Parameters
    ----------
    given: A callable makes axes and is called for each, for example to have each in its own
        figure.
    cell: Width and height of new axes, in inches.
    """
    if callable(given):
        given = [given() for _ in range(n_rows * n_columns)]
    if given is not None:
        axes: AxesGrid = np.asarray(given, dtype=object)
        if axes.size != n_rows * n_columns:
            raise ValueError(f"This plot needs {n_rows * n_columns} axes; got {axes.size}.")
        return axes.reshape(n_rows, n_columns)
    pyplot = optional_package("matplotlib.pyplot", "A plot", "nearfar[plots]")
    size = (cell[0] * n_columns, cell[1] * n_rows)
    figure = pyplot.figure(figsize=size, layout="constrained")
    figure.get_layout_engine().set(w_pad=_PAD_INCHES, h_pad=_PAD_INCHES)
    return figure.subplots(n_rows, n_columns, squeeze=False)
