"""Accuracy as a function of one parameter of a learner."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import clone

from nearfar.evaluate.retrieval import knn_error


def accuracy_by(
    parameter: str,
    values: Iterable[Any],
    learner: Any,
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike,
    y_test: ArrayLike,
    *,
    n_neighbors: int = 3,
) -> dict[Any, float]:
    """Return k-NN accuracy on test rows for several values of a learner's parameter.

    ``accuracy_by("n_components", [2, 4, 8], NCA(), ...)`` is Figure 5 of the msNCA paper, and
    ``accuracy_by("n_metrics", [1, 2, 4], MixtureNCA(), ...)`` its Figure 6. For accuracy as a
    function of the number of iterations, `staged_metrics` of the boosting learners needs only one
    fit.

    Parameters
    ----------
    parameter : str
    values : iterable
    learner : estimator
        Cloned and fitted to X and y for each value.
    X, y : array-like
        Training rows and labels.
    X_test, y_test : array-like
        Test rows and labels.
    n_neighbors : int, default=3

    Returns
    -------
    dict
        Accuracy for each value.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import NCA, evaluate
    >>> X, y = load_wine(return_X_y=True)
    >>> parts = X[::2], y[::2], X[1::2], y[1::2]
    >>> found = evaluate.accuracy_by("n_components", [1, 2], NCA(), *parts)
    >>> found[2] > found[1]
    True
    """
    found = {}
    for value in values:
        metric = clone(learner).set_params(**{parameter: value}).fit(X, y).metric_
        error = knn_error(metric, X, y, X_test, y_test, n_neighbors=n_neighbors)
        found[value] = 1.0 - error
    return found
