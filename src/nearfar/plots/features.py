"""Plots of features: their importances, and where in a feature distance matters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nearfar.metrics.explanations import (
    column_shares,
    comparable_shares,
    feature_importances,
    feature_names,
)
from nearfar.metrics.metric import Metric
from nearfar.plots.canvas import METHOD_PALETTE, one_axes, short_text
from nearfar.runtime.parameters import check_parameters, integer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More numbers would touch each other on a narrow figure.
_MOST_TICKS = 5
# Points that are moved along a feature.
_MOVED = 100


def importances(
    metric: Metric,
    X: ArrayLike | None = None,
    *,
    n_features: int = 15,
    columns: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of the mean squared distance that each feature contributes.

    The shares are those of `nearfar.metrics.explanations.feature_importances`; they sum to one. The
    title has the total of the features that are not drawn. A negative share means that the feature
    mostly cancels differences in features that it correlates with.

    Metrics such as those of linear discriminant analysis use differences of correlated features.
    Their shares can be far above one and far below zero. If the absolute values of the shares sum
    to more than two, the bars are divided by that sum, and the label of the axis says so.

    Parameters
    ----------
    metric : Metric
        A metric without kernel or gate.
    X : array-like of shape (n_samples, n_features), optional
        Points. Without them the shares are those of diag(M), which depend on the units of the
        features.
    n_features : int, default=15
        Number of features to draw: those with the largest shares in absolute value.
    columns : sequence of str, optional
        The column of each feature. Columns are drawn instead of features, with the sums of their
        shares.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> from nearfar import Metric, plots
    >>> metric = Metric([[3.0, 0.0], [0.0, 1.0]], ["length", "width"])
    >>> ax = plots.importances(metric, [[0, 0], [1, 1], [0, 1], [1, 0]])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['length', 'width']
    """
    check_parameters({"n_features": integer(at_least=1)}, {"n_features": n_features})
    shares = feature_importances(metric, X)
    names, what = feature_names(metric), "features"
    if columns is not None:
        (names, shares), what = column_shares(shares, columns), "columns"
    order = np.argsort(-np.abs(shares), kind="stable")
    drawn, others = order[:n_features], order[n_features:]
    label = "share of diag(M)" if X is None else "share of the mean squared distance"
    shares, relative = comparable_shares(shares)
    if relative:
        label = "share of absolute contributions"
    ax = one_axes(ax, (4.5, 1.2 + 0.25 * len(drawn)))
    cancels = shares[drawn] < 0
    bars = ax.barh(np.arange(len(drawn)), shares[drawn], color=METHOD_PALETTE[0])
    for bar in np.array(bars, dtype=object)[cancels]:
        bar.set(color=METHOD_PALETTE[1])
    ax.axvline(0.0, color=ax.spines["left"].get_edgecolor(), linewidth=0.8)
    ax.set_yticks(np.arange(len(drawn)), [short_text(names[j]) for j in drawn])
    ax.set_ylim(len(drawn) - 0.4, -0.6)
    ax.set_xlabel(label)
    ax.locator_params(axis="x", nbins=_MOST_TICKS)
    rest = round(100 * float(shares[others].sum()))
    what = what if len(others) > 1 else what.removesuffix("s")
    ax.set_title(f"the other {len(others)} {what}: {rest} %" if len(others) else "")
    return ax


def column_curve(
    metric: Metric,
    X: ArrayLike,
    feature: str | int,
    *,
    n_values: int = 60,
    ax: Axes | None = None,
) -> Axes:
    """Draw how far points move if one feature changes and the others stay.

    The curve is the mean distance of the points, with the feature set to a value, from themselves
    with the feature at its median. Distance matters where the curve is steep. It is straight for a
    linear metric, and bends with trees, pieces or a kernel.

    Parameters
    ----------
    metric : Metric
    X : array-like of shape (n_samples, n_features)
        Points; a random sample of at most 100 of them is moved.
    feature : str or int
        Name or number of the feature.
    n_values : int, default=60
        Values from the smallest to the largest one, beside the median.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> from nearfar import Metric, plots
    >>> metric = Metric([[3.0, 0.0], [0.0, 1.0]], ["length", "width"])
    >>> ax = plots.column_curve(metric, [[0, 0], [1, 1], [2, 1]], "length", n_values=3)
    >>> ax.lines[0].get_ydata()
    array([3., 0., 3.])
    """
    check_parameters({"n_values": integer(at_least=2)}, {"n_values": n_values})
    points, names = metric.features_of(X), feature_names(metric)
    if isinstance(feature, str) and feature not in names:
        raise ValueError(f"The metric has no feature {feature!r}.")
    j = names.index(feature) if isinstance(feature, str) else feature
    median = np.median(points[:, j])
    values = np.linspace(points[:, j].min(), points[:, j].max(), n_values)
    values = np.union1d(values, median)
    rows = np.random.RandomState(0).permutation(len(points))[:_MOVED]
    moved = np.repeat(points[rows], len(values), axis=0)
    moved[:, j] = np.tile(values, len(rows))
    place = np.arange(len(moved)).reshape(len(rows), len(values))
    start = np.repeat(place[:, np.searchsorted(values, median)], len(values))
    distances = metric.pair_distances(moved, np.column_stack([start, place.ravel()]))
    ax = one_axes(ax)
    ax.plot(values, distances.reshape(place.shape).mean(axis=0), color=METHOD_PALETTE[0])
    ax.set_ylim(bottom=0)
    ax.set_xlabel(short_text(names[j]))
    ax.set_ylabel("mean distance from the median")
    return ax
