"""Curves that compare the accuracy of metrics.

Plots of a fit: eigenvalues of its metric, objective by iteration, accuracy by rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.learners.base import MetricLearner
from nearfar.learners.scaling import Scaler
from nearfar.measures import knn_error, neighbor_accuracy_curve, verification, verification_curve
from nearfar.metrics.metric import Metric
from nearfar.plots.canvas import (
    METHOD_PALETTE,
    NEUTRAL,
    AxesGrid,
    AxesSource,
    as_text,
    check_finite,
    check_metrics,
    grid,
    integer_ticks,
    line_style,
    named_lines,
    one_axes,
)
from nearfar.runtime.history import History
from nearfar.runtime.parameters import check_parameters, integer
from nearfar.supervision import Pairs, kind_of, unwrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Axes with equal scales, and room for their labels.
_SQUARE = (4.5, 4.3)
# Distance of markers; one for each pair would hide the curve.
_MARK_EVERY = 0.1


def curves(
    values: Mapping[str, Mapping[int, float]], xlabel: str, *, ax: Axes | None = None
) -> Axes:
    """Draw accuracies against a number.

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

    The values are those of `measures.neighbor_accuracy_curve`.

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
    `measures.verification`.

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
    check_metrics(metrics)
    check_finite(X)
    pairs = unwrapped(pairs)
    if kind_of(pairs) != "pairs":
        raise ValueError(f"A ROC curve needs Pairs; got {type(pairs).__name__}.")
    ax = one_axes(ax, _SQUARE)
    for number, (name, metric) in enumerate(metrics.items()):
        curve, result = verification_curve(metric, X, pairs), verification(metric, X, pairs)
        label = f"{as_text(name)}: AUC {result.auc:.3f}, EER {100 * result.eer:.1f} %"
        rates = curve.false_positive_rate, curve.true_positive_rate
        ax.plot(*rates, label=label, markevery=_MARK_EVERY, **line_style(number))
    ax.plot([0, 1], [0, 1], color=NEUTRAL, linestyle=":", linewidth=1)
    ax.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
    ax.legend(loc="lower right", fontsize="small")
    return ax


# Axes whose values differ by this factor or more are logarithmic.
_LOG_SCALE_RATIO = 50.0

# Room below and above the lines, relative to their height.
_LEGEND_HEIGHT, _TOP_MARGIN = 0.35, 0.05


def spectra(metrics: Mapping[str, Metric], *, ax: Axes | None = None) -> Axes:
    """Draw the eigenvalues of several metrics, each relative to its largest one.

    A gated metric has a line for each of its parts. For a metric with a kernel, they are the
    eigenvalues of M in the space of the kernel features.

    Examples
    --------
    >>> from nearfar import Metric, plots
    >>> ax = plots.spectra({"plain": Metric.identity(3), "narrow": Metric([[1.0, 1.0, 0.0]])})
    >>> ax.lines[1].get_ydata()
    array([1., 0., 0.])
    """
    check_metrics(metrics)
    lines = {}
    for name, metric in metrics.items():
        for number, part in enumerate(metric.parts, 1):
            values = eigenvalues(part)
            label = name if len(metric.parts) == 1 else f"{name}, metric {number}"
            lines[label] = np.arange(1, len(values) + 1), values / (values[0] or 1.0)
    ylabel = "value, relative to the largest"
    ax = named_lines(lines, ax, xlabel="eigenvalue", ylabel=ylabel, ylim=(0, None))
    integer_ticks(ax)
    return ax


def eigenvalues(metric: Metric) -> NDArray[np.float64]:
    """Return the eigenvalues of M, largest first, one for each feature.

    Examples
    --------
    >>> from nearfar import Metric
    >>> from nearfar.plots import eigenvalues
    >>> eigenvalues(Metric([[2.0, 0.0]]))
    array([4., 0.])
    """
    values = np.zeros(metric.L.shape[1])
    singular_values = np.linalg.svd(metric.L, compute_uv=False)
    values[: len(singular_values)] = singular_values**2
    return values


def iterations(history: History, *, axes: AxesSource = None) -> AxesGrid:
    """Draw the objective of each iteration, and what certifies it.

    Boosting learners have the leading eigenvalue, and solvers with a certificate the gap between
    the objective and its lower bound. Others, such as NCA, have only the first plot. The scale is
    logarithmic if all values are positive and differ by a factor of 50 or more.

    Parameters
    ----------
    history : History
        The `history_` of a fitted learner.
    axes : sequence of Axes or callable, optional
        One for each plot, or a function that makes them.

    Returns
    -------
    array of one to three Axes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfar import BoostMetric, plots
    >>> learner = BoostMetric(max_iter=20).fit(*load_iris(return_X_y=True))
    >>> objective, eigenvalue = plots.iterations(learner.history_)
    >>> bool((objective.lines[0].get_ydata() == learner.history_.objective).all())
    True
    """
    if len(history) == 0:
        raise ValueError("The history has no iterations to draw.")
    candidates = {
        "objective": history.objective,
        "leading eigenvalue": history.eigenvalue,
        "gap": history.gap,
    }
    series = {name: values for name, values in candidates.items() if not np.isnan(values).all()}
    drawn = grid(axes, 1, len(series))[0]
    number = np.arange(1, len(history) + 1)
    for ax, (name, values) in zip(drawn, series.items(), strict=True):
        ax.plot(number, values, **line_style(0) | {"marker": "o" if len(history) == 1 else ""})
        ax.set(xlabel="iteration", ylabel=name)
        integer_ticks(ax)
        if np.min(values) > 0 and np.max(values) >= _LOG_SCALE_RATIO * np.min(values):
            ax.set_yscale("log")
    drawn[0].set_title(f"stopped: {history.stopped}" if history.stopped else "")
    return drawn


def accuracy_by_rank(
    learner: MetricLearner,
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike,
    y_test: ArrayLike,
    *,
    n_neighbors: int = 3,
    max_points: int = 30,
    baseline: Mapping[str, Metric] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the k-NN accuracy on test rows against the rank of the metric, from one fit.

    The metrics come from the `staged_metrics` of a boosting learner; if several have the same
    rank, the last is used. If the rank does not grow, because of a prior or of `n_components`, the
    accuracy is drawn against the number of iterations instead. A dashed line shows the accuracy
    of a baseline.

    Parameters
    ----------
    learner : BoostMetric, MetricBoost or DRMetric
        A learner fitted to X and y.
    X, y : array-like
        Training rows and labels.
    X_test, y_test : array-like
        Test rows and labels.
    n_neighbors : int, default=3
    max_points : int, default=30
        Largest number of metrics to evaluate, spaced evenly on a logarithmic scale.
    baseline : mapping of str to Metric, optional
        Name of the baseline, and its metric; by default Euclidean distance on standardised
        features.
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
    check_parameters({"max_points": integer(at_least=1)}, {"max_points": max_points})
    name = type(learner).__name__
    if not hasattr(learner, "staged_metrics"):
        raise ValueError(f"{name} has no `staged_metrics`; only boosting learners have them.")
    first = next(learner.staged_metrics(), None)
    if first is None:
        raise ValueError(
            f"This {name} stopped before its first iteration; there is nothing to draw."
        )
    if not isinstance(first, Metric):
        raise ValueError(
            f"This {name} was fitted with variant='paper'; its result is not a metric."
        )
    ranks = first.n_components, learner.metric_.n_components
    grows = ranks[0] != ranks[1]
    low, high = ranks if grows else (1, len(learner.history_))
    # Logarithmic steps: the first terms matter most. The last metric is always included.
    wanted = set(np.geomspace(high, low, max_points).round().astype(int).tolist())
    stages: dict[int, Metric] = {}
    for iteration, metric in enumerate(learner.staged_metrics(), 1):
        number = metric.n_components if grows else iteration
        if number in wanted:
            stages[number] = metric
    if baseline is None:
        euclidean = Scaler.fit(check_finite(X), "standard").euclidean
        baseline = {"Euclidean, standardised": euclidean.named(learner.metric_.feature_names)}
    check_metrics(baseline)

    def accuracy(metric: Metric) -> float:
        return 1.0 - knn_error(metric, X, y, X_test, y_test, n_neighbors=n_neighbors)

    ax = one_axes(ax)
    numbers = sorted(stages)
    accuracies = [accuracy(stages[number]) for number in numbers]
    ax.plot(numbers, accuracies, label=name, **line_style(0))
    for title, metric in baseline.items():
        level = accuracy(metric)
        ax.axhline(level, color=METHOD_PALETTE[1], linestyle="--", label=as_text(title))
    xlabel = "rank" if grows else f"iterations (rank {ranks[0]} from the start)"
    ax.set(xlabel=xlabel, ylabel=f"{n_neighbors}-NN accuracy")
    if numbers[-1] >= _LOG_SCALE_RATIO:
        ax.set_xscale("log")
    integer_ticks(ax)
    # The legend is below all lines, as accuracies leave no corner free.
    bottom, top = ax.dataLim.intervaly
    height = (top - bottom) or 0.01
    ax.set_ylim(bottom - _LEGEND_HEIGHT * height, top + _TOP_MARGIN * height)
    ax.legend(loc="lower right")
    return ax
