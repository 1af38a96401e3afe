"""Draw the stored figures as SVG: means over runs, with the spread of several runs as a band."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nearfar.plots.canvas import METHOD_PALETTE, integer_ticks, line_style, named_lines
from papers.cells import documents
from papers.curves.curve import Panels, stored

FOLDER = Path(__file__).parent.parent / "figures"
SETTINGS: Any = {
    "svg.hashsalt": "nearfar",
    "svg.fonttype": "none",
    "font.size": 9,
    "legend.fontsize": 8,
}
MOST_INSIDE = 5
"""Legends of more lines are beside the axes."""
LOGARITHMIC = ("boostmetric/F1",)
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
        figure = Figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained")
        for number, title in enumerate(titles, 1):
            panels = [run[title] for run in runs if title in run]
            kind = next(kind for kind in KINDS if kind in panels[0])
            ax = figure.add_subplot(rows, columns, number)
            KINDS[kind](ax, panels)
            if title:
                ax.set_title(title)
            if name in LOGARITHMIC:
                ax.set_yscale("log")
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return re.sub(r"[ \t]+\n", "\n", out.getvalue())


def caption(name: str) -> str:
    """Return what the paper's figure shows, and what differs here."""
    paper, _, number = name.partition("/")
    found = {figure["id"]: figure for figure in documents()[paper]["figure"]}[number]
    return f"{found['shows'].strip()} {found['reason']}"


def _lines(ax: Any, panels: list[dict[str, Any]]) -> None:
    first = panels[0]
    lines = {}
    for number, (name, (x, _)) in enumerate(first["lines"].items()):
        same = [panel["lines"][name][1] for panel in panels if panel["lines"][name][0] == x]
        values = np.array(same)
        lines[name] = (x, values.mean(axis=0))
        if len(values) > 1:
            spread = values.std(axis=0, ddof=1)
            low, high = values.mean(axis=0) - spread, values.mean(axis=0) + spread
            color = line_style(number)["color"]
            ax.fill_between(x, low, high, alpha=0.12, color=color, linewidth=0)
    named_lines(lines, ax, xlabel=first["xlabel"], ylabel=first["ylabel"])
    integer_ticks(ax)
    if len(lines) > MOST_INSIDE:
        ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
    if "mark" in first:
        x, y = next(iter(lines.values()))
        if first["mark"] in x:
            ax.plot(first["mark"], y[x.index(first["mark"])], "o", color="black", markersize=8)


def _points(ax: Any, panels: list[dict[str, Any]]) -> None:
    x, y, labels = (np.array(each) for each in panels[0]["points"])
    for label in np.unique(labels):
        mine = labels == label
        color = METHOD_PALETTE[int(label) % len(METHOD_PALETTE)]
        marker = "os^Dvx+P*<>"[int(label) % 11]
        ax.scatter(x[mine], y[mine], s=10, color=color, marker=marker, linewidths=0.6)
    ax.set(xlabel=panels[0]["xlabel"], ylabel=panels[0]["ylabel"])


def _pictures(ax: Any, panels: list[dict[str, Any]]) -> None:
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


KINDS: dict[str, Callable[[Any, list[dict[str, Any]]], None]] = {
    "lines": _lines,
    "points": _points,
    "pictures": _pictures,
}
