"""Draw the stored figures as SVG: means over runs, with the spread of several runs as a band."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nearfar.plots.canvas import METHOD_PALETTE, integer_ticks, line_style
from papers.cells import documents
from papers.curves.curve import Panels, all_curves, stored

FOLDER = Path(__file__).parent.parent / "figures"
SETTINGS: Any = {
    "svg.hashsalt": "nearfar",
    "svg.fonttype": "none",
    "font.size": 9,
    "legend.fontsize": 8,
}
MOST_INSIDE = 5
"""The legend of more lines is below the axes, once for all panels."""
MOST_MARKERS = 15
"""Lines of more points have no markers."""
OWN = {
    "boostmetric": "BoostMetric",
    "metricboost": "MetricBoost",
    "drmetric": "DRMetric",
    "maxmargin": "max-margin",
    "msnca": "msNCA",
}
"""How the lines of a paper's own method begin."""
LOGARITHMIC = ("boostmetric/F1", "metricboost/T3", "metricboost/pairs")
"""Figures whose y-axis is logarithmic here."""


def file_of(name: str) -> str:
    """Return the file of a figure."""
    return re.sub(r"\W+", "-", name) + ".svg"


def drawn() -> Iterator[tuple[str, str]]:
    """Yield file names and SVG texts of the figures that have runs."""
    for name, runs in stored().items():
        if runs:
            yield file_of(name), svg(name, runs)


def svg(name: str, runs: list[Panels]) -> str:
    """Return a figure."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(SETTINGS):
        titles = list(runs[0])
        columns = min(len(titles), 2)
        rows = -(-len(titles) // columns)
        figure = Figure(figsize=(4.6 * columns, 3.6 * rows))
        for number, title in enumerate(titles, 1):
            panels = [run[title] for run in runs if title in run]
            kind = next(kind for kind in KINDS if kind in panels[0])
            ax = figure.add_subplot(rows, columns, number)
            KINDS[kind](ax, panels, OWN[name.partition("/")[0]])
            if title:
                ax.set_title(title)
            if name in LOGARITHMIC:
                ax.set_yscale("log")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        below = -(-len(labels) // (2 + columns)) if len(labels) > MOST_INSIDE else 0
        if below:
            figure.legend(handles, labels, loc="lower center", ncols=2 + columns)
        _arrange(figure, rows, columns, below)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return re.sub(r"[ \t]+\n", "\n", out.getvalue())


def _arrange(figure: Any, rows: int, columns: int, legend_rows: int) -> None:
    """Place the axes with fixed margins in inches: a layout that measures texts takes longer."""
    width, height = figure.get_size_inches()
    left, right, top, bottom, gap = 0.75, 0.15, 0.35, 0.55, 0.9
    bottom += 0.1 + 0.19 * legend_rows if legend_rows else 0.0
    across = (width - left - right - (columns - 1) * gap) / columns
    down = (height - top - bottom - (rows - 1) * gap) / rows
    figure.subplots_adjust(
        left=left / width,
        right=1 - right / width,
        top=1 - top / height,
        bottom=bottom / height,
        wspace=gap / across,
        hspace=gap / down,
    )


def caption(name: str) -> str:
    """Return what the paper's figure shows, what differs here, and what was seen."""
    paper, _, number = name.partition("/")
    mine = next(curve for curve in all_curves() if curve.name == name)
    printed = (each for each in documents()[paper]["figure"] if each["id"] == number)
    found = next(printed, {"shows": mine.shows, "reason": ""})
    return " ".join(each for each in (found["shows"].strip(), found["reason"], mine.seen) if each)


def _lines(ax: Any, panels: list[dict[str, Any]], own: str) -> None:
    first = panels[0]
    names = list(first["lines"])
    for name, style in _styles(names, own).items():
        x = first["lines"][name][0]
        values = np.array([p["lines"][name][1] for p in panels if p["lines"][name][0] == x])
        mean, spread = values.mean(axis=0), values.std(axis=0, ddof=len(values) > 1)
        ax.plot(x, mean, label=name, **(style | ({"marker": ""} if len(x) > MOST_MARKERS else {})))
        if len(values) > 1 and (name.startswith(own) or len(names) <= MOST_INSIDE):
            band = {"alpha": 0.12, "color": style["color"], "linewidth": 0}
            ax.fill_between(x, mean - spread, mean + spread, **band)
        if first.get("mark") in x:
            place = x.index(first["mark"])
            ax.plot(x[place], mean[place], "o", color="black", markersize=8, zorder=4)
    ax.set(xlabel=first["xlabel"], ylabel=first["ylabel"])
    integer_ticks(ax)
    if len(names) <= MOST_INSIDE:
        ax.legend()


def _styles(names: list[str], own: str) -> dict[str, dict[str, Any]]:
    """Return the style of each line: thick and in the first colour for the paper's own method."""
    colors = len(METHOD_PALETTE)
    mine = [name for name in names if name.startswith(own)]
    others = [name for name in names if name not in mine]
    free = (number for number in range(1, colors * len(names) + colors) if number % colors)
    styles = {name: line_style(number) for name, number in zip(others, free, strict=False)}
    thick = {"linewidth": 2.2, "zorder": 3}
    styles |= {name: line_style(colors * place) | thick for place, name in enumerate(mine)}
    return {name: styles[name] for name in names}


def _points(ax: Any, panels: list[dict[str, Any]], _: str) -> None:
    x, y, labels = (np.array(each) for each in panels[0]["points"])
    for label in np.unique(labels):
        mine = labels == label
        color = METHOD_PALETTE[int(label) % len(METHOD_PALETTE)]
        marker = "os^Dvx+P*<>"[int(label) % 11]
        ax.scatter(x[mine], y[mine], s=10, color=color, marker=marker, linewidths=0.6)
    ax.set(xlabel=panels[0]["xlabel"], ylabel=panels[0]["ylabel"])


def _pictures(ax: Any, panels: list[dict[str, Any]], _: str) -> None:
    rows, shape = panels[0]["pictures"], tuple(panels[0]["shape"])
    height, width = shape
    for number, (name, row) in enumerate(rows.items()):
        for place, (text, same) in enumerate(zip(row["grey"], row["same"], strict=True)):
            grey = np.frombuffer(base64.b64decode(text), dtype=np.uint8).reshape(shape)
            left, top = place * (width + 2), number * (height + 2)
            ax.imshow(grey, cmap="gray", extent=(left, left + width, top + height, top))
            if place:
                color = "#2b8a3e" if same else "#c92a2a"
                box = (
                    [left, left + width, left + width, left, left],
                    [top, top, *[top + height] * 2, top],
                )
                ax.plot(*box, color=color, linewidth=1.5)
        ax.text(-2, number * (height + 2) + height / 2, name, ha="right", va="center")
    ax.set_xlim(-12, 4 * (width + 2))
    ax.set_ylim(max(len(rows), 1) * (height + 2), -1)
    ax.set_axis_off()


KINDS: dict[str, Callable[[Any, list[dict[str, Any]], str], None]] = {
    "lines": _lines,
    "points": _points,
    "pictures": _pictures,
}
