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
group are added exactly. Groups that cannot grow any more, such as those of pairs, are added up by
size: weights of groups depend only on that. Their means are not needed, and are zero in the sums.

Features are divided by powers of two, those of the first part, to keep fourth moments from
overflow. This is exact.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh, qr
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from nearfar.learners import fitting
from nearfar.learners.base import MetricLearner
from nearfar.learners.classic.scatter import Evidence, Groups, GroupScatter, PairSums, Shrinkage
from nearfar.learners.declaration import Validation, ValidationFraction, learner
from nearfar.learners.problem import FitInput, MetricBuilder, Problem
from nearfar.learners.scaling import Scaler, power_of_two
from nearfar.learners.selection.choice import Selection
from nearfar.metrics.metric import Metric
from nearfar.metrics.points import unit_length
from nearfar.numerics.edges import Edges
from nearfar.rows import Points, column_variances
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.parameters import ParameterRule, choice, either, number
from nearfar.runtime.threads import limited_threads
from nearfar.supervision import Supervision
from nearfar.typing import Floats, Ints, Matrix, Vector

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
    kind: What the parts come with.
    fourth: Whether fourth moments are kept.
    units: shape (n_features,). Powers of two that features are divided by.
    largest: Largest absolute value.
    eps: Rounding error of the rows.
    total: Of all rows.
    groups: Classes by their label; chunklets, and groups that similar pairs join, by their
        size.
    apart: shape (n_features, n_features). Sum of the outer products of the differences of
        groups that dissimilar pairs tell apart.
    """

    kind: str
    scale: str | None
    fourth: bool
    units: Vector
    largest: float
    eps: float
    total: GroupMoments
    groups: Mapping[Any, GroupMoments]
    pairs: PairSums | None = None
    apart: Matrix | None = None

    @classmethod
    def of(
        cls, X: Floats, supervision: Supervision, scale: str | None, *, fourth: bool, units: Vector
    ) -> RunningSums:
        """Return the sums of one part.

        Parameters
        ----------
        scale: With "cosine", rows of X have unit length already.
        """
        R = X / units
        largest = max(float(X.max()), -float(X.min()))
        eps = float(np.finfo(X.dtype).eps)
        total = GroupMoments.of(R, fourth=fourth)
        sums = cls("rows", scale, fourth, units, largest, eps, total, {})
        if supervision.kind == "nothing":
            return sums
        if supervision.kind == "labels":
            labels: Any = supervision
            classes = {
                label: GroupMoments.of(R[labels.codes == code], fourth=fourth)
                for code, label in enumerate(labels.names.tolist())
            }
            return replace(sums, kind="labels", groups=classes)
        if supervision.kind == "chunklets":
            return replace(sums, kind="chunklets", groups=_by_size(R, supervision.codes))
        pairs = supervision.given
        if pairs.weight is not None:
            pairs = pairs.take(pairs.weight > 0)
        # The groups that similar pairs join, each other row of a pair alone, and -1 for none.
        i, j = pairs.index[pairs.similar].T
        graph = csr_array((np.ones(len(i)), (i, j)), shape=(len(R), len(R)))
        component = connected_components(graph, directed=False)[1]
        rows = np.unique(pairs.index)
        codes = np.full(len(R), -1, dtype=np.intp)
        codes[rows] = np.unique(component[rows], return_inverse=True)[1]
        # What dissimilar pairs tell apart.
        i, j = codes[pairs.index[~pairs.similar]].T
        apart = None
        if (i != j).any():
            edges = Edges(Groups(R, codes).means, i[i != j], j[i != j])
            apart = edges.matrix(np.ones(len(edges)))
        return replace(
            sums,
            kind="pairs",
            groups=_by_size(R, codes),
            pairs=PairSums.of(R, pairs, unit=1.0) if len(pairs) else None,
            apart=apart,
        )

    def __add__(self, other: RunningSums) -> RunningSums:
        if other.kind != self.kind:
            raise ValueError(f"The parts so far came with {self.kind}, this one with {other.kind}.")
        new = {
            key: self.groups[key] + group if key in self.groups else group
            for key, group in other.groups.items()
        }
        return replace(
            self,
            largest=max(self.largest, other.largest),
            eps=max(self.eps, other.eps),
            total=self.total + other.total,
            groups={**self.groups, **new},
            pairs=_sum(self.pairs, other.pairs),
            apart=_sum(self.apart, other.apart),
        )

    def check_enough(self, supervision: tuple[str, ...]) -> None:
        """Raise ValueError if a learner from these kinds has nothing to learn from yet."""
        sizes = [group.n for group in self.groups.values()]
        if self.kind == "labels" and not (len(sizes) > 1 and max(sizes) > 1):
            raise ValueError(
                "Cannot learn from the labels so far: at least two classes are needed in the first "
                "part, and at least one class with two members."
            )
        if self.kind in ("chunklets", "pairs") and not set(self.groups) - {1}:
            what = "chunklet has two rows" if self.kind == "chunklets" else "pair is similar"
            raise ValueError(f"No {what} in the first part.")
        if self.kind == "pairs" and "chunklets" not in supervision and self.apart is None:
            raise ValueError("No pair in the first part tells rows apart; both kinds are needed.")

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

    def covariance(self, scaler: Scaler) -> Matrix:
        """Return the covariance of all rows so far, after scaling."""
        size = self._size(scaler)
        return size[:, None] * self.total.S * size / max(1.0, self.total.n - 1)

    def evidence(self, scaler: Scaler, V: Matrix | None, unit: float) -> Evidence:
        """Return what closed forms need, in coordinates along V of squared length `unit`."""
        groups, sizes = [self.total], [self.total.n]
        if self.kind == "labels":
            groups = list(self.groups.values())
            sizes = [group.n for group in groups]
        elif self.kind != "rows":
            sizes = sorted(self.groups)
            groups = [self.groups[size] for size in sizes]
        summed = SummedGroups(groups, sizes, self.total, self._size(scaler) / np.sqrt(unit), V)
        means = None if self.pairs is None else self.pairs.means
        return Evidence(
            summed,
            None if means is None else (summed.mapped(means[0]), summed.mapped(means[1])),
            None if self.apart is None else summed.mapped(self.apart),
        )

    def _size(self, scaler: Scaler) -> Vector:
        """Length of a unit of each feature after scaling."""
        return np.where(self.varies, self.units / scaler.scale, 0.0)


class SummedGroups(GroupScatter):
    """Groups whose rows are gone, in coordinates of the span.

    Parameters
    ----------
    groups: A group, or the sums over groups of a size.
    sizes: Number of rows of each.
    unit: shape (n_features,). Length of a unit of each feature, in coordinates.
    V: shape (n_features, n_coordinates). Axes of the span; None if the coordinates are the
        features.
    """

    def __init__(
        self,
        groups: Sequence[GroupMoments],
        sizes: Sequence[float],
        all_rows: GroupMoments,
        unit: Vector,
        V: Matrix | None,
    ) -> None:
        self._groups, self._all_rows, self._unit, self._V = groups, all_rows, unit, V
        self.sizes = np.array(sizes, dtype=np.float64)
        self.counts = np.array([group.n for group in groups]) / self.sizes
        scaled = np.array([group.mean for group in groups]).reshape(-1, len(unit)) * unit
        self.means = scaled if V is None else scaled @ V

    def scatter(self, weight: Vector) -> Matrix:
        """sum_c w_c S_c."""
        S = np.zeros_like(self._all_rows.S)
        for w, group in zip(weight, self._groups, strict=True):
            S += w * group.S
        return self.mapped(S)

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
        rows = self._all_rows
        return SummedGroups([rows], [rows.n], rows, self._unit, self._V)

    def mapped(self, S: Matrix) -> Matrix:
        """Return a scatter of rows in coordinates."""
        scaled = self._unit[:, None] * S * self._unit
        return scaled if self._V is None else self._V.T @ scaled @ self._V


def powers_of_two(X: Floats) -> Vector:
    """Return a power of two near the spread of each feature, or near its size if it has none."""
    spread = np.ptp(X, axis=0).astype(np.float64)
    size = np.where(spread > 0, spread, np.abs(X).max(axis=0))
    return np.array([power_of_two(value) for value in size.tolist()])


def _by_size(R: Matrix, ids: Ints) -> dict[int, GroupMoments]:
    """Return the sums of groups, by their size."""
    rows = np.flatnonzero(ids >= 0)
    codes = np.unique(ids[rows], return_inverse=True)[1]
    sizes = np.bincount(codes)[codes] if len(codes) else codes
    by_size: dict[int, GroupMoments] = {}
    for size in np.unique(sizes).tolist():
        members = np.flatnonzero(sizes == size)
        numbers = np.unique(codes[members], return_inverse=True)[1]
        S, T, Q = (np.zeros((R.shape[1], R.shape[1])) for _ in range(3))
        for _, d in Groups(R[rows[members]], numbers).centered():
            S += d.T @ d
            squares = d**2
            Q += squares.T @ squares
        by_size[size] = GroupMoments(float(len(members)), np.zeros(R.shape[1]), S, T, Q)
    return by_size


Sums = TypeVar("Sums", PairSums, Matrix)


def _sum(first: Sums | None, second: Sums | None) -> Sums | None:
    """Add two sums, either of which may be missing."""
    if first is None or second is None:
        return second if first is None else first
    return first + second


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
            most = self._most_components(data.X.shape[1])
            fitting.check_learnable(data.X, self.n_components, most)
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
