"""`ClosedFormLearner`: what metrics in closed form share; `SummedClosedForm` learns in parts too.

A closed form is found in coordinates of the space that the rows span (`Span`), in which their
covariance is not singular: features that are constant or collinear, and more features than rows,
do no harm. There the mean variance of the rows is one. Directions outside the span have no weight.

Running sums of rows in groups: what `partial_fit` of closed forms keeps instead of the rows.

A closed form needs the scatter S of each group and, to estimate its shrinkage, the fourth moments
of its rows after scaling. With d the rows of a group about its mean, and d^2 their squares by
feature,

    S = sum d d'        T = sum d^2 d'        Q = sum d^2 (d^2)'
    sum_i |diag(w) d_i|^4 = (w^2)' Q w^2

for any scale w of the features. All three can be moved to another mean, so that two parts of a
group are added exactly.

Features are divided by powers of two, those of the first part, to keep fourth moments from
overflow. This is exact.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh, qr

from nearfar.learners import fitting
from nearfar.learners.base import MetricLearner
from nearfar.learners.classic.scatter import Evidence, Groups, Shrinkage
from nearfar.learners.declaration import Validation, ValidationFraction, learner
from nearfar.learners.problem import FitInput, MetricBuilder, Problem
from nearfar.learners.scaling import Scaler, power_of_two
from nearfar.learners.selection.choice import Selection
from nearfar.metrics.metric import Metric
from nearfar.metrics.points import unit_length
from nearfar.rows import Points, column_variances
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.parameters import ParameterRule, choice, either, number
from nearfar.runtime.threads import limited_threads
from nearfar.supervision import Supervision
from nearfar.typing import Floats, Matrix, Vector

# Squares of this many rows are held at once: enough for fast products, little beside the rows.
_BLOCK_ROWS = 4096
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class GroupMoments:
    """Moments of rows about their mean.

    Attributes
    ----------
    n: Number of rows.
    S: shape (n_features, n_features). Sum of d d'.
    T, Q: shape (n_features, n_features). Sums of d^2 d' and of d^2 (d^2)'; None if the
        fourth moments are not needed.
    """

    n: float
    mean: Vector
    S: Matrix
    T: Matrix | None = None
    Q: Matrix | None = None

    @classmethod
    def of(cls, X: Floats, *, fourth: bool = True) -> GroupMoments:
        """Return the moments of rows."""
        mean = X.mean(axis=0, dtype=np.float64)
        S, T, Q = (np.zeros((X.shape[1], X.shape[1])) for _ in range(3))
        for top in range(0, len(X), _BLOCK_ROWS):
            d = X[top : top + _BLOCK_ROWS] - mean
            S += d.T @ d
            if fourth:
                squares = d**2
                T += squares.T @ d
                Q += squares.T @ squares
        return cls(float(len(X)), mean, S, T, Q) if fourth else cls(float(len(X)), mean, S)

    def __add__(self, other: GroupMoments) -> GroupMoments:
        n = self.n + other.n
        mean = self.mean + (other.mean - self.mean) * (other.n / n)
        S, T, Q = (
            None if a is None or b is None else a + b
            for a, b in zip(self._about(mean), other._about(mean), strict=True)
        )
        assert S is not None
        return GroupMoments(n, mean, S, T, Q)

    def _about(self, point: Vector) -> tuple[Matrix, Matrix | None, Matrix | None]:
        """Return S, T and Q for d = x - point in place of the mean."""
        a = self.mean - point
        S = self.S + self.n * np.outer(a, a)
        if self.T is None or self.Q is None:
            return S, None, None
        variances = self.S.diagonal()
        T = self.T + 2 * a[:, None] * self.S + np.outer(variances + self.n * a**2, a)
        cross = 2 * self.T * a
        Q = self.Q + cross + cross.T + 4 * np.outer(a, a) * self.S
        Q += np.outer(variances, a**2) + np.outer(a**2, variances) + self.n * np.outer(a**2, a**2)
        return S, T, Q


@dataclass(frozen=True, eq=False)
class RunningSums:
    """What is known of all rows so far.

    Attributes
    ----------
    fourth: Whether fourth moments are kept.
    units: shape (n_features,). Powers of two that features are divided by.
    largest: Largest absolute value.
    eps: Rounding error of the rows.
    total: Of all rows.
    classes: By their labels; none for a learner from rows alone.
    """

    scale: str | None
    fourth: bool
    units: Vector
    largest: float
    eps: float
    total: GroupMoments
    classes: Mapping[Any, GroupMoments]

    @classmethod
    def of(
        cls, X: Floats, supervision: Any, scale: str | None, *, fourth: bool, units: Vector
    ) -> RunningSums:
        """Return the sums of one part; with "cosine", its rows have unit length already."""
        R, largest = X / units, max(float(X.max()), -float(X.min()))
        classes = {}
        if supervision.kind == "labels":
            for code, label in enumerate(supervision.names.tolist()):
                classes[label] = GroupMoments.of(R[supervision.codes == code], fourth=fourth)
        total = GroupMoments.of(R, fourth=fourth)
        return cls(scale, fourth, units, largest, float(np.finfo(X.dtype).eps), total, classes)

    def __add__(self, other: RunningSums) -> RunningSums:
        classes = dict(self.classes)
        for label, rows in other.classes.items():
            classes[label] = classes[label] + rows if label in classes else rows
        largest, eps = max(self.largest, other.largest), max(self.eps, other.eps)
        total = self.total + other.total
        return replace(self, largest=largest, eps=eps, total=total, classes=classes)

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Which features are not constant but for rounding."""
        n, mean = self.total.n, self.total.mean
        variance = self.total.S.diagonal() / n
        return variance > n * _EPS * variance + (n * mean * _EPS) ** 2

    @property
    def scaler(self) -> Scaler:
        """The scaler of all rows so far, as `Scaler.fit` finds it."""
        center, scale = self.total.mean * self.units, np.ones(len(self.units))
        size = power_of_two(self.largest)
        if self.scale == "unit":
            scale = np.full(len(scale), size)
        elif self.scale == "standard":
            deviation = np.sqrt(self.total.S.diagonal() / self.total.n) * self.units
            scale = np.where(self.varies, deviation, size)
        return Scaler(center, scale, unit_rows=self.scale == "cosine")

    def problem(self, formula: Callable[[Evidence, Axes, Scaler], Solution]) -> ClosedFormProblem:
        """Return a closed form of all rows so far."""
        scaler = self.scaler
        size = np.where(self.varies, self.units / scaler.scale, 0.0)
        covariance = size[:, None] * self.total.S * size / max(1.0, self.total.n - 1)
        axes = Axes.of_covariance(covariance, self.total.n, self.eps)
        classes = list(self.classes.values()) or [self.total]
        groups = SummedGroups(classes, self.total, size / np.sqrt(axes.unit), axes.V)
        return ClosedFormProblem(axes, lambda: formula(Evidence(groups), axes, scaler))


class SummedGroups(Groups):
    """Groups whose rows are gone, in coordinates of the span.

    Parameters
    ----------
    unit: shape (n_features,). Length of a unit of each feature, in coordinates.
    V: shape (n_features, n_coordinates). Axes of the span; None if the coordinates are the
        features.
    """

    def __init__(
        self, groups: Sequence[GroupMoments], rows: GroupMoments, unit: Vector, V: Matrix | None
    ) -> None:
        self._groups, self._rows, self._unit, self._V = groups, rows, unit, V
        self.sizes = np.array([group.n for group in groups])
        scaled = np.array([group.mean for group in groups]).reshape(-1, len(unit)) * unit
        self.means = scaled if V is None else scaled @ V

    def scatter(self, weight: Vector) -> Matrix:
        """sum_c w_c S_c."""
        S = np.zeros_like(self._rows.S)
        for w, group in zip(weight, self._groups, strict=True):
            S += w * group.S
        scaled = self._unit[:, None] * S * self._unit
        return scaled if self._V is None else self._V.T @ scaled @ self._V

    def fourth_moments(self, weight: Vector) -> float:
        """sum_c w_c sum_{i in c} |x_i - m_c|^4; lengths in the span are those in all features."""
        squares, moments = self._unit**2, 0.0
        for w, group in zip(weight, self._groups, strict=True):
            assert group.Q is not None
            moments += float(w * (squares @ group.Q @ squares))
        return moments

    @property
    def total(self) -> SummedGroups:
        """All rows as one group."""
        return SummedGroups([self._rows], self._rows, self._unit, self._V)


def powers_of_two(X: Floats) -> Vector:
    """Return a power of two near the spread of each feature, or near its size if it has none."""
    spread = np.ptp(X, axis=0).astype(np.float64)
    size = np.where(spread > 0, spread, np.abs(X).max(axis=0))
    return np.array([power_of_two(value) for value in size.tolist()])


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
        "shrinkage": either(choice("auto"), number(at_least=0.0, at_most=1.0))
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
        y : array-like of shape (n_samples,)
            Class labels of the new rows.

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
            most = self._most_components(data.X.shape[1])
            fitting.check_learnable(data.X, self.n_components, most)
            if data.supervision.kind not in ("labels", "nothing"):
                raise ValueError("partial_fit learns from labels; give pairs and chunklets to fit.")
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
            sizes = [group.n for group in sums.classes.values()]
            if sizes and not (len(sizes) > 1 and max(sizes) > 1):
                raise ValueError(
                    "Cannot learn from the labels so far: at least two classes are needed in the "
                    "first part, and at least one class with two members."
                )
            problem = sums.problem(self._formula)
            prepared = FitInput(data.X, sums.scaler, data.supervision, np.random.RandomState(0))
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
