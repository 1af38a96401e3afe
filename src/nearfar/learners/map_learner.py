"""What learners that optimise a map L by gradients share, whatever their objective.

`named_map` and `given_map` are where they begin: what `init` names, as a map of scaled points.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from nearfar.learners.base import MetricLearner
from nearfar.learners.declaration import Init, MaxRows, learner
from nearfar.learners.problem import FitInput, Problem, factor_on_scaled_points
from nearfar.metrics.metric import Metric
from nearfar.numerics.linear_algebra import by_spread
from nearfar.rows import Points, Rows, column_ranges, column_variances, gram
from nearfar.runtime.history import History
from nearfar.typing import Floats, Ints, Matrix

EXACT_ROWS = 1000
"""Up to this number of points, sums over pairs are in the precision of X, else in float32."""

# Standardised rows have a mean variance of one but for rounding; they are not divided again.
_UNIT_VARIANCE_TOLERANCE = 1e-6

# Shrinkage of the covariance within classes, for discriminant axes: enough that it is regular.
_SHRINKAGE = 0.1

# Rows that are read for discriminant axes, if rows are not in memory.
_MOST_ROWS = 20_000


class MapProblem(Problem):
    """Base of the problems over maps; the payload of an iteration is the map."""

    fixed_iterations = False
    """Whether the number of iterations is part of the method."""

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn where the objective has not settled."""
        if history.stopped == "max_iter" and not self.fixed_iterations:
            return f"max_iter={self.max_iter} was reached before the objective settled to tol."
        return ""


@learner
class MapLearner(MetricLearner):
    """Base of the learners that optimise a map, from `init` on."""

    warm_start: bool = False
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0
    max_rows: MaxRows = "auto"
    max_iter: int
    init: Init = "identity"
    tol: float = 1e-4

    local_metrics: ClassVar[bool] = False
    """Whether the learner may begin with several metrics and a gate."""

    def _in_units(self, data: FitInput) -> tuple[Any, float]:
        """Return points with a mean variance of one, and the variance they were divided by."""
        Z, span = data.Z, data.scaler.span
        if len(Z) > EXACT_ROWS:
            Z = Z.astype(np.float32, copy=False)
        variance = column_variances(Z)
        varying = np.count_nonzero(variance) if span is None else span.n_varying
        mean = float(variance.sum() / max(1, varying))
        if self.scale is None or mean == 0 or abs(mean - 1) < _UNIT_VARIANCE_TOLERANCE:
            return Z, 1.0
        return Z / Z.dtype.type(np.sqrt(mean)), mean

    def _first_map(
        self, Z: Points, data: FitInput, unit: float, n_components: int | None
    ) -> Matrix:
        """Return where to begin: the last fit, or `init`."""
        start = self.init if data.warm is None else data.warm
        if isinstance(start, Metric) and (len(start.parts) == 1 or not self.local_metrics):
            L = given_map(start, data, n_components)
            L = L * np.sqrt(unit)
        elif start in ("lda", "random") or (start == "auto" and prefers_lda(n_components, data)):
            L = named_map(start, Z, data, n_components)
            share = len(L) / max(1, int(np.count_nonzero(column_ranges(Z))))
            return np.asarray(L * share**0.25 / np.sqrt(np.linalg.norm(L @ L.T)))
        else:
            # The identity with |M|_F = 1 on features that vary.
            L, span = np.eye(Z.shape[1]), data.scaler.span
            varying = column_ranges(Z) > 0
            if span is not None:
                L = L[: span.rank + self._keeps_outside()] / span.n_varying**0.25
            elif varying.any():
                L = L[varying] / varying.sum() ** 0.25
        if n_components is None or n_components >= len(L):
            return L
        return principal_axes(L, Z)[:n_components]

    def _keeps_outside(self) -> bool:
        """Whether the first map stays where points do not differ; a penalty makes it vanish."""
        return True


def given_map(metric: Metric, data: FitInput, n_components: int | None) -> Matrix:
    """Return the map of a metric to begin with, for scaled points.

    One that a user gave may have more rows than `n_components`, to be reduced, but not fewer: no
    choice of the others is better than another. A metric to continue from may have fewer.
    """
    L = factor_on_scaled_points(metric, data.scaler, "metric to begin with")
    if data.warm is None and n_components is not None and len(L) < n_components:
        raise ValueError(
            f"The metric to begin with has {len(L)} components, fewer than "
            f"n_components={n_components}."
        )
    return L


def prefers_lda(n_components: int | None, data: FitInput) -> bool:
    """Return whether ``init="auto"`` is "lda": if there are more classes than components."""
    if n_components is None or _n_classes(data) < 2:
        return False
    return n_components < len(np.unique(data.supervision.codes))


def named_map(init: str, X: Points, data: FitInput, n_components: int | None) -> Matrix:
    """Return the map that a word stands for.

    Parameters
    ----------
    X: shape (n_samples, n_features). The points that the map is for.
    data: Class labels, and what to draw at random from.
    n_components: Rows of the map; None for as many as there are features that vary.

    Returns
    -------
    array of shape (n_components, n_features)
        For "identity" and "pca", principal axes, or the identity if none is left out. For "lda",
        the axes of linear discriminant analysis, followed by axes that do not discriminate, by
        their spread.
    """
    varying = np.flatnonzero(column_ranges(X) > 0)
    if len(varying) == 0:
        varying = np.arange(X.shape[1])
    axes = np.eye(X.shape[1])[varying]
    k = len(axes) if n_components is None else min(n_components, len(axes))
    if init == "lda" or (init == "auto" and prefers_lda(n_components, data)):
        return _discriminant_axes(X, data, varying)[:k] @ axes
    if init == "random":
        return np.asarray(data.random_state.standard_normal((k, len(axes))) @ axes)
    return principal_axes(axes, X)[:k] if k < len(axes) else axes


def principal_axes(L: Matrix, X: Points) -> Matrix:
    """Rotate the rows of a map so that mapped points are uncorrelated, the most spread first."""
    return by_spread(L, gram(X) / len(X))[1]


def _n_classes(data: FitInput) -> int:
    """Return the number of classes with two members; 0 without labels."""
    known = data.supervision
    return int(np.count_nonzero(np.bincount(known.codes) > 1)) if known.kind == "labels" else 0


def _discriminant_axes(X: Points, data: FitInput, varying: Ints) -> Matrix:
    """Return square discriminant axes of the features that vary, the best ones first."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    n_classes = _n_classes(data)
    if n_classes < 2:
        raise ValueError('init="lda" needs labels of at least two classes with two members.')
    codes = data.supervision.codes
    rows: Any = np.flatnonzero(np.bincount(codes)[codes] > 1)
    if isinstance(X, Rows) and len(rows) > _MOST_ROWS:
        rows = np.sort(data.random_state.choice(rows, _MOST_ROWS, replace=False))
    points: Floats = X[rows][:, varying].astype(np.float64)
    if all(np.ptp(points[codes[rows] == code], axis=0).max() == 0 for code in np.unique(codes)):
        return principal_axes(np.eye(len(varying)), points)
    analysis = LinearDiscriminantAnalysis(solver="eigen", shrinkage=_SHRINKAGE)
    axes: Matrix = analysis.fit(points, codes[rows]).scalings_.T
    n_best = min(n_classes - 1, len(axes))
    rest = np.linalg.svd(axes[n_best:], full_matrices=False)
    # Axes of unit variance within classes: the shorter, the more spread.
    return np.vstack([axes[:n_best], (rest[1][:, None] * rest[2])[::-1]])
