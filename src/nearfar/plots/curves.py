"""Curves that compare the accuracy of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from nearfar.measures import neighbor_accuracy_curve, verification, verification_curve
from nearfar.measures.verification import RocCurve, Verification
from nearfar.metrics.metric import Metric
from nearfar.plots.canvas import (
    NEUTRAL,
    as_text,
    check_finite,
    check_metrics,
    integer_ticks,
    line_style,
    named_lines,
    one_axes,
)
from nearfar.supervision import Pairs, kind_of, unwrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DET_TICKS = (0.001, 0.01, 0.05, 0.2, 0.5, 0.8)
# Beyond these rates, curves of usual numbers of pairs are steps of single pairs.
_DET_LIMITS = (0.0005, 0.9)
# Axes with equal scales, and room for their labels.
_SQUARE = (4.5, 4.3)
# Distance of markers; one for each pair would hide the curve.
_MARK_EVERY = 0.1


def curves(
    values: Mapping[str, Mapping[int, float]], xlabel: str, *, ax: Axes | None = None
) -> Axes:
    """Draw accuracies against a number, as returned by `evaluate.accuracy_by`.

    Examples
    --------
    >>> from nearfar import plots
    >>> ax = plots.curves({"NCA": {1: 0.81, 2: 0.93}}, "components")
    >>> ax.lines[0].get_xydata().tolist()
    [[1.0, 0.81], [2.0, 0.93]]
    """
    if not values:
        raise ValueError("There are no curves to draw.")
    lines = {name: (list(points), list(points.values())) for name, points in values.items()}
    return named_lines(lines, ax, xlabel=xlabel, ylabel="accuracy")


def neighbor_curve(
    metrics: Mapping[str, Metric],
    X: ArrayLike,
    y: ArrayLike,
    *,
    max_k: int = 30,
    X_query: ArrayLike | None = None,
    y_query: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how often the k-th nearest row has the query's class, for several metrics.

    The values are those of `evaluate.neighbor_accuracy_curve`.

    Parameters
    ----------
    metrics : mapping of str to Metric
    X, y : array-likes of shape (n_samples, n_features) and (n_samples,)
        Rows to search, and their classes.
    max_k : int, default=30
    X_query, y_query : array-likes, optional
        Queries and their classes. By default every row of X is a query against all others.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> from nearfar import Metric, plots
    >>> X, y = [[0.0], [1.0], [3.0], [7.0]], [0, 0, 1, 1]
    >>> ax = plots.neighbor_curve({"plain": Metric.identity(1)}, X, y, max_k=2)
    >>> ax.lines[0].get_ydata()
    array([0.75, 0.  ])
    """
    check_metrics(metrics)
    check_finite(X)
    queries = {"X_query": X_query, "y_query": y_query}
    lines = {
        name: (
            np.arange(1, max_k + 1),
            neighbor_accuracy_curve(metric, X, y, max_k=max_k, **queries),
        )
        for name, metric in metrics.items()
    }
    ax = named_lines(lines, ax, xlabel="k", ylabel="k-th neighbour of the same class")
    integer_ticks(ax)
    return ax


def roc(
    metrics: Mapping[str, Metric], X: ArrayLike, pairs: Pairs, *, ax: Axes | None = None
) -> Axes:
    """Draw the ROC curves of several metrics for telling similar from dissimilar pairs.

    The legend has the area under each curve (AUC) and the equal error rate (EER), as computed by
    `evaluate.verification`.

    Parameters
    ----------
    metrics : mapping of str to Metric
    X : array-like of shape (n_samples, n_features)
    pairs : Pairs
        Similar and dissimilar pairs of rows.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> from nearfar import Metric, Pairs, plots
    >>> pairs = Pairs([[0, 1], [1, 2], [0, 2]], [True, False, False])
    >>> ax = plots.roc({"plain": Metric.identity(1)}, [[0.0], [1.0], [3.0]], pairs)
    >>> ax.get_legend().get_texts()[0].get_text()
    'plain: AUC 1.000, EER 0.0 %'
    """
    verified = _verified("ROC", metrics, X, pairs)
    ax = one_axes(ax, _SQUARE)
    for number, (name, curve, result) in enumerate(verified):
        label = f"{as_text(name)}: AUC {result.auc:.3f}, EER {100 * result.eer:.1f} %"
        rates = curve.false_positive_rate, curve.true_positive_rate
        ax.plot(*rates, label=label, markevery=_MARK_EVERY, **line_style(number))
    ax.plot([0, 1], [0, 1], color=NEUTRAL, linestyle=":", linewidth=1)
    ax.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
    ax.legend(loc="lower right", fontsize="small")
    return ax


def det(
    metrics: Mapping[str, Metric], X: ArrayLike, pairs: Pairs, *, ax: Axes | None = None
) -> Axes:
    """Draw how false matches are traded for false non-matches (detection error trade-off).

    Both axes are on the scale of normal quantiles, on which normal distances give straight lines.
    Rates of 0 are left out. The legend has the equal error rate (EER).

    Parameters
    ----------
    metrics : mapping of str to Metric
    X : array-like of shape (n_samples, n_features)
    pairs : Pairs
        Similar and dissimilar pairs of rows.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> from nearfar import Metric, Pairs, plots
    >>> pairs = Pairs([[0, 1], [2, 3], [0, 2], [1, 3]], [True, True, False, False])
    >>> ax = plots.det({"plain": Metric.identity(1)}, [[0.0], [2.0], [1.0], [9.0]], pairs)
    >>> ax.get_legend().get_texts()[0].get_text()
    'plain: EER 50.0 %'
    """
    verified = _verified("DET", metrics, X, pairs)
    ax = one_axes(ax, _SQUARE)
    for number, (name, curve, result) in enumerate(verified):
        rates = np.array([curve.false_positive_rate, 1 - curve.true_positive_rate])
        inside = ((rates > 0) & (rates < 1)).all(axis=0)
        x, y = ndtri(rates[:, inside])
        label = f"{as_text(name)}: EER {100 * result.eer:.1f} %"
        ax.plot(x, y, label=label, markevery=_MARK_EVERY, **line_style(number))
    places = ndtri(_DET_TICKS)
    names = [f"{100 * rate:g}" for rate in _DET_TICKS]
    ax.set_xticks(places, names)
    ax.set_yticks(places, names)
    ax.set(xlabel="false match rate, %", ylabel="false non-match rate, %", aspect="equal")
    ax.set(xlim=ndtri(_DET_LIMITS), ylim=ndtri(_DET_LIMITS))
    ax.legend(loc="upper right", fontsize="small")
    return ax


def _verified(
    kind: str, metrics: Mapping[str, Metric], X: ArrayLike, pairs: Pairs
) -> list[tuple[str, RocCurve, Verification]]:
    """Return the name, the curve and the measures of each metric."""
    check_metrics(metrics)
    check_finite(X)
    pairs = unwrapped(pairs)
    if kind_of(pairs) != "pairs":
        raise ValueError(f"A {kind} curve needs Pairs; got {type(pairs).__name__}.")
    return [
        (name, verification_curve(metric, X, pairs), verification(metric, X, pairs))
        for name, metric in metrics.items()
    ]
