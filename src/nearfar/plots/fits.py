"""What a fit did: eigenvalues of its metric, its rounds, and what the rounds were good for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.evaluate import knn_error
from nearfar.learners.base import Scaler, require_integer
from nearfar.metrics.metric import Metric
from nearfar.plots.canvas import (
    NEUTRAL,
    Axes,
    as_text,
    check_metrics,
    checked,
    grid,
    line,
    one_axes,
    whole_numbers,
)
from nearfar.runtime.history import History

_WIDE = 50.0
_LEGEND_ROOM = 0.35
_MARGIN = 0.05


def spectra(metrics: Mapping[str, Metric], *, ax: Any = None) -> Any:
    """Draw the eigenvalues of several metrics, each relative to its largest (Figure 3).

    A gated metric has a line for each of its metrics. With a kernel the eigenvalues are those of
    the map from the kernel's features.

    Examples
    --------
    >>> from nearfar import Metric, plots
    >>> ax = plots.spectra({"plain": Metric.identity(3), "narrow": Metric([[1.0, 1.0, 0.0]])})
    >>> ax.lines[1].get_ydata()
    array([1., 0., 0.])
    """
    check_metrics(metrics)
    parts: dict[str, Metric] = {}
    for name, metric in metrics.items():
        for number, part in enumerate(metric.parts, 1):
            parts[name if len(metric.parts) == 1 else f"{name}, metric {number}"] = part
    ax = one_axes(ax)
    for number, (name, metric) in enumerate(parts.items()):
        values = eigenvalues(metric)
        sizes = values / (values[0] or 1.0)
        ax.plot(np.arange(1, len(values) + 1), sizes, label=as_text(name), **line(number))
    ax.set(xlabel="eigenvalue", ylabel="size, relative to the largest", ylim=(0, None))
    whole_numbers(ax)
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


def rounds(trace: History, *, axes: Any = None) -> Axes:
    """Draw the objective by round, and how much each round promised.

    That is the leading eigenvalue, or for solvers without directions (max-margin) the gap between
    the objective and its lower bound. NCA and its like have neither, and one picture. Positive
    values that differ fifty times and more are drawn on a logarithmic scale.

    Parameters
    ----------
    trace : History
        The `history_` of a fitted learner.
    axes : sequence of one or two Axes, optional

    Returns
    -------
    array of one or two Axes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfar import BoostMetric, plots
    >>> learner = BoostMetric(max_iter=20).fit(*load_iris(return_X_y=True))
    >>> objective, eigenvalue = plots.rounds(learner.history_)
    >>> bool((objective.lines[0].get_ydata() == learner.history_.objective).all())
    True
    """
    if len(trace) == 0:
        raise ValueError("The trace has no rounds to draw.")
    promise = "gap" if trace[0].direction is None else "leading eigenvalue"
    known = {"objective": trace.objective, promise: trace.eigenvalue}
    if np.isnan(trace.eigenvalue).all():
        del known[promise]
    drawn = grid(axes, 1, len(known))[0]
    number = np.arange(1, len(trace) + 1)
    for ax, (name, values) in zip(drawn, known.items(), strict=True):
        ax.plot(number, values, **line(0) | {"marker": "o" if len(trace) == 1 else ""})
        ax.set(xlabel="round", ylabel=name)
        whole_numbers(ax)
        if np.min(values) > 0 and np.max(values) >= _WIDE * np.min(values):
            ax.set_yscale("log")
    drawn[0].set_title(f"stopped: {trace.stopped}" if trace.stopped else "")
    return drawn


def accuracy_by_rank(
    learner: Any,
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike,
    y_test: ArrayLike,
    *,
    n_neighbors: int = 3,
    max_points: int = 30,
    ax: Any = None,
) -> Any:
    """Draw the k-NN accuracy on test rows against the rank of the metric, from one fit.

    The metrics are those that `staged_metrics` of a boosting learner gives; of several rounds with
    the same rank, the last. With a prior of full rank, or where `n_components` is all that is ever
    kept, the rank says nothing: then the accuracy is drawn against the number of rounds, and the
    name of the axis says so. The level of Euclidean distance on standardised features is drawn
    too.

    Parameters
    ----------
    learner : BoostMetric, MetricBoost or DRMetric
        Fitted to X and y.
    X, y : array-like
        Training rows and labels.
    X_test, y_test : array-like
        Test rows and labels.
    n_neighbors : int, default=3
    max_points : int, default=30
        Number of metrics to try at most, more closely where they are small.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import BoostMetric, plots
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = BoostMetric(prior=None, max_iter=8).fit(X[::2], y[::2])
    >>> ax = plots.accuracy_by_rank(learner, X[::2], y[::2], X[1::2], y[1::2])
    >>> ax.get_xlabel(), ax.lines[0].get_xdata().tolist()
    ('rank', [1, 2, 3, 4, 5, 6, 7, 8])
    """
    require_integer("max_points", max_points, at_least=1)
    stages, xlabel = _stages(learner, max_points)
    rows = (X, y, X_test, y_test)
    plain = Scaler.fit(checked(X), "standard").euclidean.named(learner.metric_.feature_names)
    level = 1.0 - knn_error(plain, *rows, n_neighbors=n_neighbors)
    found = [1.0 - knn_error(metric, *rows, n_neighbors=n_neighbors) for _, metric in stages]
    ax = one_axes(ax)
    ax.plot([number for number, _ in stages], found, label=type(learner).__name__, **line(0))
    ax.axhline(level, color=NEUTRAL, linestyle="--", label="Euclidean, standardised")
    ax.set(xlabel=xlabel, ylabel=f"{n_neighbors}-NN accuracy")
    if stages[-1][0] >= _WIDE:
        ax.set_xscale("log")
    whole_numbers(ax)
    _legend_below(ax)
    return ax


def _stages(learner: Any, max_points: int) -> tuple[list[tuple[int, Metric]], str]:
    """A few metrics of a fit, each with its rank or the number of its rounds; and which."""
    name = type(learner).__name__
    if not hasattr(learner, "staged_metrics"):
        raise ValueError(f"{name} has no `staged_metrics`; only boosting adds a term a round.")
    first = next(learner.staged_metrics(), None)
    if first is None:
        raise ValueError(f"This {name} has learned nothing: there are no rounds to draw.")
    if not isinstance(first, Metric):
        raise ValueError(f"This {name} has learned a form that is no metric (psd=False).")
    ranks = first.n_components, learner.metric_.n_components
    grows = ranks[0] != ranks[1]
    low, high = ranks if grows else (1, len(learner.history_))
    # Even steps of the logarithm, as the first few terms matter most; the last is always there.
    wanted = set(np.geomspace(high, low, max_points).round().astype(int).tolist())
    kept: dict[int, Metric] = {}
    for iteration, metric in enumerate(learner.staged_metrics(), 1):
        number = metric.n_components if grows else iteration
        if number in wanted:
            kept[number] = metric
    return sorted(kept.items()), "rank" if grows else f"rounds (rank {ranks[0]} from the start)"


def _legend_below(ax: Any) -> None:
    """Make room for the legend under all lines: accuracies leave no corner free."""
    low, high = ax.dataLim.intervaly
    height = (high - low) or 0.01
    ax.set_ylim(low - _LEGEND_ROOM * height, high + _MARGIN * height)
    ax.legend(loc="lower right")
