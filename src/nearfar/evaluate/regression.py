"""Numbers predicted by the mean of nearest neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import r2_score

from nearfar.metrics.metric import Metric
from nearfar.metrics.search import Gallery


def knn_r2(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    *,
    n_neighbors: int = 3,
) -> float:
    """R^2 of numbers that are predicted by the mean of the nearest neighbours in X.

    It is 1 for perfect predictions, and 0 for those that are as good as the mean of the test rows.

    Parameters
    ----------
    metric : Metric
    X, y : array-likes of shape (n_samples, n_features) and (n_samples,)
        Training rows and their numbers.
    X_test, y_test : array-likes of shape (n_test, n_features) and (n_test,), optional
        By default, each row of X is predicted from all others.
    n_neighbors : int, default=3

    Examples
    --------
    >>> from nearfar import Metric, evaluate
    >>> X, y = [[0.0], [1.0], [2.0]], [0.0, 10.0, 20.0]
    >>> evaluate.knn_r2(Metric.identity(1), X, y, [[0.4], [1.9]], [4.0, 19.0], n_neighbors=1)
    0.8488888888888889
    """
    if (X_test is None) != (y_test is None):
        raise ValueError("Test rows need both rows and numbers; got only one of them.")
    known = np.asarray(y, dtype=np.float64)
    found = Gallery(metric, X).search(X_test).nearest(n_neighbors)[1]
    actual = known if y_test is None else np.asarray(y_test, dtype=np.float64)
    return float(r2_score(actual, known[found].mean(axis=1)))
