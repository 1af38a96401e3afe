"""`ClosedFormLearner`: what metrics in closed form share.

A closed form is found in coordinates of the space that the rows span (`Span`), in which their
covariance is not singular: features that are constant or collinear, and more features than rows,
do no harm. There the mean variance of the rows is one. Directions outside the span have no weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh, qr

from nearfar.learners.base import MetricLearner
from nearfar.learners.classic.scatter import Groups, Shrinkage
from nearfar.learners.declaration import Validation, ValidationFraction, learner
from nearfar.learners.problem import MetricBuilder, Problem
from nearfar.rows import Points, column_variances
from nearfar.runtime import parameters
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.parameters import choice, either, number
from nearfar.typing import Floats, Matrix

_UNIT_VARIANCE_TOLERANCE = 1e-6


@learner
class ClosedFormLearner(MetricLearner):
    """Base of the learners whose metric is a formula of scatter matrices."""

    shrinkage: Shrinkage = "auto"
    validation_fraction: ValidationFraction = None
    validation: Validation = "rows"

    shrinks_without_prior: ClassVar[bool] = True
    rotates: ClassVar[bool] = True
    reads_rows: ClassVar[tuple[str, ...]] = ("labels", "chunklets", "pairs")
    auto_scales: ClassVar[tuple[str, ...]] = ("unit", "standard")
    parameter_rules: ClassVar[dict[str, parameters.ParameterRule]] = {
        "shrinkage": either(choice("auto"), number(at_least=0.0, at_most=1.0)),
    }


@dataclass(frozen=True, eq=False)
class Solution:
    """A metric in closed form.

    Attributes
    ----------
    L : array of shape (n_rows, n_coordinates)
        Its map, the most important row first; without rows if nothing can be learned.
    attributes : mapping of str to object
        Fitted attributes that the learner has beyond the common ones.
    """

    L: Matrix
    attributes: Mapping[str, Any] = field(default_factory=dict)


class ClosedFormProblem(Problem):
    """A metric that is found in one iteration; its objective is 0, since none is minimised.

    Parameters
    ----------
    axes : Axes
    formula : callable
        Returns the `Solution` in coordinates of the axes.
    """

    max_iter = 1
    exact_rows = True

    def __init__(self, axes: Axes, formula: Callable[[], Solution]) -> None:
        self.axes, self.formula = axes, formula
        self.unit = axes.unit

    def solve(self) -> Iterations:
        """Evaluate the formula."""
        solution = self.formula()
        yield Iteration(0.0, payload=replace(solution, L=self.axes.map_of_features(solution.L)))
        return "solved"

    def factor(self, history: History) -> Matrix:
        """Return the map, the most important row first."""
        L: Matrix = history[-1].payload.L
        return L

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, Any]:
        """Return what the learner adds; the sums of an earlier `partial_fit` are forgotten."""
        return {"_sums": None, **history[-1].payload.attributes}

    def warning_message(self, history: History, metric: Any) -> str:
        """Warn where there is nothing to learn from."""
        if not metric.is_zero:
            return ""
        if self.axes.is_point:
            return "Nothing was learned: all rows are equal."
        return "Nothing was learned: rows of the same kind are as far apart as others."


@dataclass(frozen=True, eq=False)
class Axes:
    """Axes of the space that rows span.

    Attributes
    ----------
    V : array of shape (n_features, n_coordinates) or None
        Orthonormal axes; None if the coordinates are the features. Rows that are all equal have one
        coordinate, on an axis of length zero.
    unit : float
        Squared length of a unit of the coordinates.
    """

    V: Matrix | None
    unit: float

    @classmethod
    def of_covariance(cls, C: Matrix, n_rows: float, tolerance: float) -> Axes:
        """Find axes from the covariance of all rows, instead of from the rows.

        Parameters
        ----------
        C : array of shape (n_features, n_features)
        n_rows : float
        tolerance : float
            Relative length below which a direction is rounding error.
        """
        V = _axes_of_covariance(C, tolerance)
        spread = float(np.trace(C if V is None else V.T @ C @ V)) * (n_rows - 1) / n_rows
        return cls(V, _unit(spread / (len(C) if V is None else V.shape[1])))

    @property
    def is_point(self) -> bool:
        """Whether all rows are equal."""
        return self.V is not None and not self.V.any()

    def map_of_features(self, L: Matrix) -> Matrix:
        """Return a map of coordinates as one of features."""
        return L if self.V is None else L @ self.V.T

    def map_of_coordinates(self, L: Matrix) -> Matrix:
        """Return a map of features as one of coordinates."""
        return np.sqrt(self.unit) * (L if self.V is None else L @ self.V)


@dataclass(frozen=True, eq=False)
class Span(Axes):
    """Coordinates of rows in the space that they span.

    Attributes
    ----------
    P : array or Rows of shape (n_samples, n_coordinates)
        Coordinates, with a mean variance of one; their covariance is not singular.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.learners.classic.closed_form import Span
    >>> Span.of(np.array([[0.0, 5.0, 0.0], [1.0, 5.0, 1.0], [3.0, 5.0, 3.0]])).P.shape
    (3, 1)
    """

    P: Any

    @classmethod
    def of(cls, Z: Points) -> Span:
        """Find the span of centred rows."""
        V: Matrix | None
        if len(Z) <= Z.shape[1]:
            V = _nonempty(_axes_of_few_rows(Z[:]))
        else:
            V = _axes_of_covariance(Groups(Z).within(), _rank_tolerance(Z))
        P: Any = Z if V is None else Z @ V
        unit = _unit(float(column_variances(P).mean()))
        return cls(V, unit, P if unit == 1.0 else P / P.dtype.type(np.sqrt(unit)))


def _unit(variance: float) -> float:
    """Return the mean variance of coordinates, or 1 if it is about that, or zero."""
    return 1.0 if variance == 0 or abs(variance - 1.0) < _UNIT_VARIANCE_TOLERANCE else variance


def _axes_of_few_rows(Z: Floats) -> Matrix:
    """Return axes of the span of at most as many rows as features."""
    centered = Z - Z.mean(axis=0, dtype=np.float64)
    Q, R, _ = qr(centered.T, mode="economic", pivoting=True)
    size = np.abs(R.diagonal())
    return Q[:, size > size.max() * _rank_tolerance(Z)]


def _axes_of_covariance(C: Matrix, tolerance: float) -> Matrix | None:
    """Return axes of the span of rows with a covariance; None if it is the whole space."""
    values, vectors = eigh(C)
    rounding = max(tolerance**2, len(values) * np.finfo(np.float64).eps)
    kept = values > values[-1] * rounding
    return None if kept.all() else _nonempty(vectors[:, kept])


def _nonempty(V: Matrix) -> Matrix:
    """Return axes, or one of length zero if there are none."""
    return V if V.shape[1] else np.zeros((len(V), 1))


def _rank_tolerance(Z: Points) -> float:
    """Relative length below which a direction is rounding error."""
    return min(Z.shape) * float(np.finfo(Z.dtype).eps)
