"""`ClosedFormLearner`: what metrics in closed form share; `SummedClosedForm` learns in parts too.

A closed form is found in coordinates of the space that the rows span (`Span`), in which their
covariance is not singular: features that are constant or collinear, and more features than rows,
do no harm. There the mean variance of the rows is one. Directions outside the span have no weight.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh, qr

from nearfar.learners import fitting
from nearfar.learners.base import MetricLearner
from nearfar.learners.classic.running_sums import RunningSums, powers_of_two
from nearfar.learners.classic.scatter import Evidence, Groups, Shrinkage
from nearfar.learners.declaration import Validation, ValidationFraction, learner
from nearfar.learners.problem import FitInput, MetricBuilder, Problem
from nearfar.learners.scaler import Scaler
from nearfar.learners.selection.choice import Selection
from nearfar.metrics.metric import Metric
from nearfar.metrics.points import unit_length
from nearfar.rows import Points, column_variances
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.parameters import ParameterRule, choice, either, number
from nearfar.runtime.threads import limited_threads
from nearfar.supervision import Supervision
from nearfar.typing import Floats, Matrix, Vector

# Standardised rows have a mean variance of one but for rounding; they are not divided again.
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
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "shrinkage": either(choice("auto"), number(at_least=0.0, at_most=1.0)),
    }


@learner
class SummedClosedForm(ClosedFormLearner):
    """Base of the closed forms of sums over rows."""

    _sums: ClassVar[RunningSums | None] = None

    def _evidence(self, P: Floats, supervision: Supervision) -> Evidence:
        """Return what the formula needs, or raise ValueError if it cannot be learned."""
        if "pairs" in self.supervision:
            return Evidence.of_pairs(P, supervision)
        codes = supervision.labels(type(self).__name__, informative=True)
        return Evidence(Groups(P, codes, supervision.row_weight))

    @abstractmethod
    def _formula(self, evidence: Evidence, axes: Axes, scaler: Scaler) -> Solution:
        """Evaluate the formula for coordinates in the span."""

    def _build_problem(self, data: FitInput) -> Problem:
        span = Span.of(data.Z, data.supervision.row_weight)

        def solution() -> Solution:
            return self._formula(self._evidence(span.P, data.supervision), span, data.scaler)

        return ClosedFormProblem(span, solution)

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from a part of the data, besides the parts before.

        The learner keeps sums instead of rows. The metric after all parts is that of one `fit` to
        all of them, to rounding.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        y : array-like of shape (n_samples,), Pairs or Chunklets
            What is known of the new rows, of the same kind in all parts. Labels may come back in
            later parts. Pairs and chunklets refer to rows of this part.

        Returns
        -------
        self

        Notes
        -----
        The first part decides ``scale="auto"``, and later changes of `scale` have no effect. Other
        scales, and the shrinkage, are those of all rows so far. Nothing is held out:
        `validation_fraction` must be None. After `fit`, `partial_fit` starts anew.

        Memory is three D x D matrices for each class, and one if `shrinkage` is a number.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from nearfar import RCA
        >>> X, y = load_wine(return_X_y=True)
        >>> learner = RCA(scale="standard")
        >>> for part in (slice(0, 178, 2), slice(1, 178, 2)):
        ...     learner = learner.partial_fit(X[part], y[part])
        >>> whole = RCA(scale="standard").fit(X, y)
        >>> bool(abs(learner.metric_.matrix - whole.metric_.matrix).max() < 1e-10)
        True
        """
        with fitting.restore_on_error(self, X), limited_threads():
            self._check_parameters()
            before = self._sums
            if before is None and hasattr(self, "metric_"):
                warnings.warn(
                    "fit keeps no sums, so that partial_fit forgets its rows. Use partial_fit from "
                    "the first part on.",
                    stacklevel=2,
                )
            if self.validation_fraction is not None:
                raise ValueError("partial_fit holds out no rows; set validation_fraction=None.")
            first, method = before is None, self._method()
            data = self._checked(X, y, reset=first, min_samples=2 if first else 1)
            fitting.check_in_memory(data.X)
            fitting.check_learnable(data, method)
            if data.supervision.kind not in (*self.supervision, "nothing"):
                self._evidence(data.X, data.supervision)  # says why it cannot learn from this kind
            scale = fitting.choose_scale(data, method) if before is None else before.scale
            rows = unit_length(data.X) if scale == "cosine" else data.X
            sums = RunningSums.of(
                rows,
                data.supervision,
                scale,
                fourth=self.shrinkage == "auto" if before is None else before.fourth,
                units=powers_of_two(rows) if before is None else before.units,
            )
            if before is not None:
                if self.shrinkage == "auto" and not before.fourth:
                    raise ValueError(
                        "shrinkage='auto' needs sums from the first part on; set it before."
                    )
                sums = before + sums
            sums.check_enough(self.supervision)
            scaler = sums.scaler
            axes = Axes.of_covariance(sums.covariance(scaler), sums.total.n, sums.eps)
            evidence = sums.evidence(scaler, axes.V, axes.unit)
            problem = ClosedFormProblem(axes, lambda: self._formula(evidence, axes, scaler))
            prepared = FitInput(data.X, scaler, data.supervision, np.random.RandomState(0))
            self._fit_problem(problem, prepared, data, method, Selection())
            self._sums, self.scale_ = sums, sums.scale  # type: ignore[misc]
        return self


@dataclass(frozen=True, eq=False)
class Solution:
    """A metric in closed form.

    Attributes
    ----------
    L: shape (n_rows, n_coordinates). Its map, the most important row first; without rows if
        nothing can be learned.
    attributes: Fitted attributes that the learner has beyond the common ones.
    """

    L: Matrix
    attributes: Mapping[str, object] = field(default_factory=dict)


class ClosedFormProblem(Problem):
    """A metric that is found in one iteration; its objective is 0, since none is minimised.

    Parameters
    ----------
    formula: Returns the `Solution` in coordinates of the axes.
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

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, object]:
        """Return what the learner adds; the sums of an earlier `partial_fit` are forgotten."""
        return {"_sums": None, **history[-1].payload.attributes}

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn where there is nothing to learn from."""
        if not metric.is_zero:
            return ""
        if self.axes.V is not None and not self.axes.V.any():
            return "Nothing was learned: all rows are equal."
        return "Nothing was learned: rows of the same kind are as far apart as others."


@dataclass(frozen=True, eq=False)
class Axes:
    """Axes of the space that rows span.

    Attributes
    ----------
    V: shape (n_features, n_coordinates). Orthonormal axes; None if the coordinates are the
        features. Rows that are all equal have one coordinate, on an axis of length zero.
    unit: Squared length of a unit of the coordinates.
    """

    V: Matrix | None
    unit: float

    @classmethod
    def of_covariance(cls, C: Matrix, n_rows: float, eps: float) -> Axes:
        """Find axes from the covariance of all rows, instead of from the rows.

        Parameters
        ----------
        eps: Rounding error of the rows.
        """
        V = _axes_of_covariance(C, min(n_rows, len(C)) * eps)
        spread = float(np.trace(C if V is None else V.T @ C @ V)) * (n_rows - 1) / n_rows
        return cls(V, _unit(spread / (len(C) if V is None else V.shape[1])))

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
    P: shape (n_samples, n_coordinates). Coordinates, with a mean variance of one; their
        covariance is not singular.
    """

    P: Any

    @classmethod
    def of(cls, Z: Points, row_weight: Vector | None = None) -> Span:
        """Find the span of centred rows; weights count in their mean variance."""
        V: Matrix | None
        tolerance = min(Z.shape) * float(np.finfo(Z.dtype).eps)
        if len(Z) <= Z.shape[1]:
            # Of few rows, a factorisation costs less than a covariance of all features.
            rows = Z[:]
            centered = rows - rows.mean(axis=0, dtype=np.float64)
            Q, R, _ = qr(centered.T, mode="economic", pivoting=True)
            size = np.abs(R.diagonal())
            V = _nonempty(Q[:, size > size.max() * tolerance])
        else:
            V = _axes_of_covariance(Groups(Z).within(), tolerance)
        P: Any = Z if V is None else Z @ V
        if row_weight is None:
            variances = column_variances(P)
        else:
            deviations = P - np.average(P, axis=0, weights=row_weight)
            variances = np.average(deviations**2, axis=0, weights=row_weight)
        unit = _unit(float(variances.mean()))
        return cls(V, unit, P if unit == 1.0 else P / P.dtype.type(np.sqrt(unit)))


def _unit(variance: float) -> float:
    """Return the mean variance of coordinates, or 1 if it is about that, or zero."""
    return 1.0 if variance == 0 or abs(variance - 1.0) < _UNIT_VARIANCE_TOLERANCE else variance


def _axes_of_covariance(C: Matrix, tolerance: float) -> Matrix | None:
    """Return axes of the span of rows with a covariance; None if it is the whole space."""
    values, vectors = eigh(C)
    rounding = max(tolerance**2, len(values) * np.finfo(np.float64).eps)
    kept = values > values[-1] * rounding
    return None if kept.all() else _nonempty(vectors[:, kept])


def _nonempty(V: Matrix) -> Matrix:
    """Return axes, or one of length zero if there are none."""
    return V if V.shape[1] else np.zeros((len(V), 1))
