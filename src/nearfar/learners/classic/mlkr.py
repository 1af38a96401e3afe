"""MLKR: metric learning for kernel regression (Weinberger and Tesauro, AISTATS 2007).

y is a number. Every point is predicted by all others, each with a weight that falls with its
distance under the map L (the Nadaraya-Watson estimator):

    q_i = sum_j k_ij y_j / sum_j k_ij,      k_ij = exp(-|L x_i - L x_j|^2),   j != i

The squared error of these leave-one-out predictions is minimised over L:

    min  sum_i (q_i - y_i)^2 / sum_i (y_i - mean y)^2

Weights of points multiply the terms of both sums, not the k_ij.

With p_ij = k_ij / sum_j k_ij, the gradient of the sum by M = L'L is

    sum_ij w_ij (x_i - x_j)(x_i - x_j)',     w_ij = 2 (q_i - y_i) p_ij (q_i - y_j)

which is X' (Laplacian of w + w') X, as rows of w sum to zero. One pass over bands of pairs gives
value and gradient; no n x n array is stored (`pair_tiles`). The scale of L is the width of the
kernel, and is learned.

Where nearfar departs from the paper, and why:

- The error is relative to the variance of y, so that results do not depend on the units of y.
- L-BFGS in place of conjugate gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nearfar.learners.declaration import learner
from nearfar.learners.map_learner import MapLearner, MapProblem
from nearfar.learners.problem import FitInput
from nearfar.numerics.optimizers import lbfgs
from nearfar.numerics.pair_tiles import Band, Embedded, PairTiles
from nearfar.runtime.history import Iteration, Iterations, map_iterations
from nearfar.typing import Floats, Matrix, Vector


@learner
class MLKR(MapLearner):
    """Metric learning for kernel regression: learn a map under which neighbours have similar y.

    Parameters
    ----------
    max_iter : int, default=200
        The most iterations of L-BFGS.
    n_components : int, optional
        Rows of the map that is learned; by default as many as there are features.
    tol : float, default=1e-2
        Decrease of the objective in an iteration, as a share of the variance of y, at which to end.
        Smaller values, such as 1e-5, find the minimum. Then the map adapts to the noise of y: of
        noisy numbers, predictions are worse.

    Attributes
    ----------
    history_ : History
        Objective after every iteration: the error of leave-one-out predictions, as a share of the
        variance of y; ``history_.stopped`` says why they ended.

    References
    ----------
    K. Q. Weinberger, G. Tesauro. Metric learning for kernel regression. AISTATS 2007.

    Examples
    --------
    Nearest neighbours predict numbers better under the learned metric:

    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> from nearfar import MLKR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> plain = KNeighborsRegressor(10).fit(X[::2], y[::2])
    >>> learner = MLKR(scale="standard")
    >>> learned = make_pipeline(learner, KNeighborsRegressor(10)).fit(X[::2], y[::2])
    >>> learned.score(X[1::2], y[1::2]) > plain.score(X[1::2], y[1::2])
    True
    """

    max_iter: int = 200
    tol: float = 1e-2

    supervision: ClassVar[tuple[str, ...]] = ("numbers",)
    rotates: ClassVar[bool] = True
    compare_order: ClassVar[int | None] = 18
    compared_on_labels: ClassVar[bool] = False

    def _build_problem(self, data: FitInput) -> MLKRProblem:
        y = data.supervision.usable().numbers("MLKR")
        y = y / np.abs(y).max()
        weight = data.supervision.row_weight
        if weight is None:
            y = y - y.mean()
            y = np.asarray(y / y.std())
        else:
            y = y - np.average(y, weights=weight)
            y = y / np.sqrt(np.average(y**2, weights=weight))
        Z, unit = self._in_units(data)
        regression = LeaveOneOutRegression(Z, y, weight)
        start = self._first_map(Z, data, unit, self.n_components)
        return MLKRProblem(regression, start, unit, self.max_iter, self.tol)


@dataclass(eq=False)
class MLKRProblem(MapProblem):
    """The error of leave-one-out predictions over maps of a given number of rows.

    Attributes
    ----------
    start: shape (k, n_features). The first map.
    """

    regression: LeaveOneOutRegression
    start: Matrix
    unit: float
    max_iter: int
    tol: float

    def solve(self) -> Iterations:
        """Minimise by L-BFGS."""
        shape, weight = self.start.shape, self.regression.weight
        n = len(self.regression.y) if weight is None else float(weight.sum())

        def objective(flat: Vector) -> tuple[float, Vector]:
            error, gradient = self.regression.evaluate(flat.reshape(shape))
            return error / n, gradient.ravel() / n

        steps = lbfgs(objective, self.start.ravel(), max_iter=self.max_iter, tol=self.tol)
        return map_iterations(steps, lambda at: Iteration(at[0], payload=at[1].reshape(shape)))


class LeaveOneOutRegression:
    """Points and numbers, ready for kernel regression under any map.

    Parameters
    ----------
    X: shape (n_samples, n_features). Points, float32 or float64.
    weight: shape (n_samples,). Weights of the squared errors.
    """

    def __init__(self, X: Floats, y: Vector, weight: Vector | None = None) -> None:
        self.X, self.y, self.weight = np.ascontiguousarray(X), y, weight
        self.pairs = PairTiles(np.zeros(len(X), dtype=np.intp))
        self._y = y.astype(X.dtype)

    def evaluate(self, L: Matrix) -> tuple[float, Matrix]:
        """Return the sum of squared errors, and its gradient by L."""
        form = Embedded(self.X @ L.T.astype(self.X.dtype), np.ones(len(L)))
        errors = np.empty(len(self.y))

        def gradient_weights(band: Band) -> Floats:
            weights = form.soft_weights(band)
            total = weights.sum(axis=1)
            predicted = (weights @ self._y) / total
            errors[band.rows] = predicted - self.y[band.rows]
            weights *= np.subtract.outer(predicted, self._y)
            slopes = 2.0 * errors[band.rows] / total
            if self.weight is not None:
                slopes *= self.weight[band.rows]
            weights *= slopes.astype(weights.dtype)[:, None]
            return weights

        # A narrow map's gradient needs products of the weights with L X, a wide one's with X.
        if 2 * len(L) < self.X.shape[1]:
            pulled = self.pairs.laplacian(gradient_weights, form.P).astype(self.X.dtype)
            gradient = 2.0 * np.asarray(pulled.T @ self.X, dtype=np.float64)
        else:
            gradient = 2.0 * L @ self.pairs.scatter_matrix(gradient_weights, self.X)
        weighted = errors if self.weight is None else self.weight * errors
        return float(weighted @ errors), gradient
