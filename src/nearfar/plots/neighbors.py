"""The nearest rows of queries under several metrics, as images or as lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.metrics.metric import Metric
from nearfar.metrics.points import check_rows
from nearfar.neighbors import kneighbors
from nearfar.plots.canvas import (
    PALETTE,
    AxesGrid,
    AxesSource,
    Classes,
    as_text,
    check_finite,
    check_metrics,
    grid,
)
from nearfar.runtime.parameters import check_parameters, integer
from nearfar.typing import Floats, Ints

_COLOR_CHANNELS = (3, 4)


def neighbor_pictures(
    metrics: Mapping[str, Metric],
    X: ArrayLike,
    queries: ArrayLike,
    *,
    image_shape: Sequence[int],
    n_neighbors: int = 5,
    y: ArrayLike | None = None,
    axes: AxesSource = None,
) -> AxesGrid:
    """Draw queries and their nearest rows under several metrics, for rows that are images.

    Each query has one row of images per metric: the query, then its neighbours, nearest first.
    The titles are the labels, or row numbers if there are no labels. A neighbour of another class
    has a cross in its title, and a dashed frame of another colour.

    Parameters
    ----------
    metrics : mapping of str to Metric
    X : array-like of shape (n_samples, n_features)
        Images to search.
    queries : array-like of int
        Row numbers of X. A query is not its own neighbour.
    image_shape : sequence of int
        Height and width, and 3 or 4 channels for colour images.
    n_neighbors : int, default=5
    y : array-like of shape (n_samples,), optional
        Labels.
    axes : array-like of Axes, optional
        (n_queries * n_metrics) rows of (1 + n_neighbors) axes.

    Returns
    -------
    array of Axes, of shape (n_queries * n_metrics, 1 + n_neighbors)

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from nearfar import Metric, plots
    >>> X, y = load_digits(return_X_y=True)
    >>> plain = {"plain": Metric.identity(64)}
    >>> axes = plots.neighbor_pictures(plain, X, [3, 5], image_shape=(8, 8), n_neighbors=2, y=y)
    >>> [ax.get_title() for ax in axes[1]]
    ['query: 5', '× 9', '× 9']
    """
    shape = tuple(image_shape)
    points = check_finite(X)
    fits = len(shape) == 2 or (len(shape) == 3 and shape[2] in _COLOR_CHANNELS)
    if not fits or np.prod(shape) != points.shape[1]:
        raise ValueError(
            f"image_shape must be (height, width) or (height, width, 3 or 4) with a product of "
            f"{points.shape[1]}; got {shape}."
        )
    classes = Classes.of(y, len(points))
    results = _search(metrics, X, queries, n_neighbors)
    low, high = float(points.min()), float(points.max())
    images = ((points - low) / ((high - low) or 1.0)).reshape(-1, *shape)
    drawn = grid(axes, len(results), 1 + n_neighbors, cell=(1.1, 1.3))
    for row, (metric, query, nearest, _) in zip(drawn, results, strict=True):
        row[0].set_ylabel(metric)
        for ax, number in zip(row, (query, *nearest), strict=True):
            other = classes is not None and not classes.together(query, number)
            name = f"row {number}" if classes is None else classes.name_of(number)
            title = f"query: {name}" if number == query else f"× {name}" if other else name
            ax.imshow(images[number], cmap="gray", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
            ax.set_title(as_text(title), fontsize="small")
            if classes is not None and number != query:
                color, line = (PALETTE[5], "--") if other else (PALETTE[0], "-")
                for spine in ax.spines.values():
                    spine.set(color=color, linewidth=2.5, visible=True, linestyle=line)
    return drawn


def neighbor_lines(
    metrics: Mapping[str, Metric],
    X: ArrayLike,
    queries: ArrayLike,
    texts: Sequence[str],
    *,
    n_neighbors: int = 5,
    y: ArrayLike | None = None,
    width: int = 100,
) -> str:
    """Return queries and their nearest rows under several metrics, as lines of text.

    Each neighbour is shown with its distance and its text, cut to the width. With labels, each
    line ends with the label in brackets, and neighbours of another class start with a cross.

    Parameters
    ----------
    metrics, X, queries, n_neighbors, y
        As in `neighbor_pictures`.
    texts : sequence of str
        A text for each row of X.
    width : int, default=100
        Width of a line, in characters.

    Examples
    --------
    >>> from nearfar import Metric, plots
    >>> X, texts = [[0.0], [1.0], [3.0]], ["a cat", "a lion", "a dog"]
    >>> plain = {"plain": Metric.identity(1)}
    >>> print(plots.neighbor_lines(plain, X, [0], texts, n_neighbors=2, y=["cat", "cat", "dog"]))
    a cat [cat]
      plain
           1.000  a lion [cat]
        x  3.000  a dog [dog]
    """
    points = check_finite(X)
    check_parameters({"width": integer(at_least=20)}, {"width": width})
    if len(texts) != len(points):
        raise ValueError(f"{len(points)} rows of X need one text each; got {len(texts)}.")
    classes = Classes.of(y, len(points))
    lines: list[str] = []

    def line(head: str, number: int) -> str:
        """Return head, text and label, with the text cut to fit."""
        tail = "" if classes is None else f" [{classes.name_of(number)}]"
        text = " ".join(str(texts[number]).split())
        room = max(1, width - len(head) - len(tail))
        return head + (text if len(text) <= room else text[: room - 1] + "…") + tail

    results = _search(metrics, X, queries, n_neighbors)
    for place, (metric, query, nearest, distances) in enumerate(results):
        if place % len(metrics) == 0:
            lines += [""] * bool(lines) + [line("", query)]
        lines.append(f"  {metric}")
        figures = [f"{distance:#.4g}" for distance in distances]
        widest = max(map(len, figures))
        for figure, number in zip(figures, nearest, strict=True):
            other = classes is not None and not classes.together(query, number)
            lines.append(line(f"    {'x' if other else ' '}  {figure:>{widest}}  ", number))
    return "\n".join(lines)


def _search(
    metrics: Mapping[str, Metric], X: ArrayLike, queries: ArrayLike, n_neighbors: int
) -> list[tuple[str, int, Ints, NDArray[np.float64]]]:
    """Return metric, query, nearest rows and their distances, query by query."""
    check_metrics(metrics)
    points: Floats = np.asarray(X)
    (rows,) = check_rows(np.reshape(queries, (-1, 1)), 1, len(points))
    if len(rows) == 0:
        raise ValueError("There are no queries.")
    check_parameters({"n_neighbors": integer(at_least=1)}, {"n_neighbors": n_neighbors})
    if n_neighbors >= len(points):
        raise ValueError(
            f"n_neighbors must be less than the {len(points)} rows of X; got {n_neighbors}."
        )
    nearest = {
        name: kneighbors(metric, X, rows=rows, n_neighbors=n_neighbors)
        for name, metric in metrics.items()
    }
    return [
        (name, query, indices[place], distances[place])
        for place, query in enumerate(rows.tolist())
        for name, (distances, indices) in nearest.items()
    ]
