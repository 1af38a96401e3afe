"""Pictures of metrics. Every function takes axes to draw on, or makes some, and returns them.

Needs matplotlib: ``pip install "nearfar[plots]"``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.gated import GatedMetric
from nearfar.metric import Metric

_PALETTE = "tab10"
_PALETTE_SIZE = 10


def projections(
    metric: Metric, X: ArrayLike, y: ArrayLike | None = None, *, axes: Sequence[Any] | None = None
) -> NDArray[Any]:
    """Draw points in the two leading coordinates of a metric, or of each metric of a gate.

    Under a gated metric each picture has the points that go by its metric (the paper's Figures 2,
    4, 8 and 10).

    Parameters
    ----------
    metric : Metric
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), optional
        Labels, for colours.
    axes : sequence of Axes, optional
        One for each metric.

    Returns
    -------
    array of Axes
    """
    gated = metric if isinstance(metric, GatedMetric) else None
    one = np.zeros((1, metric.n_features))
    plain = GatedMetric([metric], one, np.zeros(1)) if gated is None else gated
    flat, chosen = plain.projections(X)
    codes = None if y is None else np.unique(np.asarray(y), return_inverse=True)[1]
    drawn = _axes(axes, len(plain.metrics))
    for number, ax in enumerate(drawn):
        rows = chosen == number
        colours = {} if codes is None else _colours(codes, rows)
        ax.scatter(*flat[rows].T, s=12, **colours)
        ax.set_title(f"metric {number + 1} ({np.count_nonzero(rows)} points)" if gated else "")
    return drawn


def spectra(metrics: Mapping[str, Metric], *, ax: Any = None) -> Any:
    """Draw the eigenvalues of several metrics, each relative to its largest (Figure 3).

    Examples
    --------
    >>> from nearfar import Metric, plots
    >>> ax = plots.spectra({"plain": Metric.identity(3)})  # doctest: +SKIP
    """
    ax = _axes(None if ax is None else [ax], 1)[0]
    for name, metric in metrics.items():
        values = eigenvalues(metric)
        ax.plot(np.arange(1, len(values) + 1), values / values[0], "o-", label=name, markersize=4)
    ax.set(xlabel="eigenvalue", ylabel="size, relative to the largest", ylim=(0, None))
    ax.legend()
    return ax


def curves(values: Mapping[str, Mapping[int, float]], xlabel: str, *, ax: Any = None) -> Any:
    """Draw accuracies against a number, such as `evaluate.accuracy_by` gives (Figures 5 and 6)."""
    ax = _axes(None if ax is None else [ax], 1)[0]
    for name, points in values.items():
        ax.plot(list(points), list(points.values()), "o-", label=name, markersize=4)
    ax.set(xlabel=xlabel, ylabel="accuracy")
    ax.legend()
    return ax


def eigenvalues(metric: Metric) -> NDArray[np.float64]:
    """Eigenvalues of M, largest first, as many as there are features.

    Examples
    --------
    >>> from nearfar import Metric
    >>> from nearfar.plots import eigenvalues
    >>> eigenvalues(Metric([[2.0, 0.0]]))
    array([4., 0.])
    """
    found = np.linalg.svd(metric.L, compute_uv=False) ** 2
    values = np.zeros(metric.L.shape[1])
    values[: len(found)] = found
    return values


def _colours(codes: NDArray[np.intp], rows: NDArray[np.bool_]) -> dict[str, Any]:
    """Colours of some points, the same for a class wherever it is drawn."""
    most = int(codes.max())
    palette = _PALETTE if most < _PALETTE_SIZE else "viridis"
    return {"c": codes[rows], "cmap": palette, "vmin": 0, "vmax": max(most, _PALETTE_SIZE - 1)}


def _axes(given: Sequence[Any] | None, number: int) -> NDArray[Any]:
    if given is not None:
        if len(given) != number:
            raise ValueError(f"{number} axes are needed; got {len(given)}.")
        return np.asarray(given, dtype=object)
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('Pictures need matplotlib: pip install "nearfar[plots]".') from error
    size = (4.0 * number, 3.5)
    figure = pyplot.figure(figsize=size, layout="constrained")
    axes: NDArray[Any] = figure.subplots(1, number, squeeze=False)[0]
    return axes
