"""The nearest rows of queries under several metrics, as images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

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
    check_metrics(metrics)
    (rows,) = check_rows(np.reshape(queries, (-1, 1)), 1, len(points))
    if len(rows) == 0:
        raise ValueError("There are no queries.")
    nearest = {
        name: kneighbors(metric, X, rows=rows, n_neighbors=n_neighbors)[1]
        for name, metric in metrics.items()
    }
    low, high = float(points.min()), float(points.max())
    images = ((points - low) / ((high - low) or 1.0)).reshape(-1, *shape)
    drawn = grid(axes, len(rows) * len(metrics), 1 + n_neighbors, cell=(1.1, 1.3))
    pairs = [(place, name) for place in range(len(rows)) for name in metrics]
    for row, (place, metric) in zip(drawn, pairs, strict=True):
        query = rows[place]
        row[0].set_ylabel(metric)
        for ax, number in zip(row, (query, *nearest[metric][place]), strict=True):
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
