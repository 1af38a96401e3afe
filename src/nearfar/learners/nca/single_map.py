"""One map by soft neighbours: `NCAProblem` and its solvers, L-BFGS and Adam on batches.

Batches also are what `partial_fit` learns from. It takes one pass of Adam over the batches of new
rows, in the units of the first part, and keeps Adam's moments for the next part.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from nearfar.learners.base import check_magnitude
from nearfar.learners.map_learner import MapBuilder
from nearfar.learners.metric_builder import MetricBuilder
from nearfar.learners.nca.base import NeighborhoodLearner, NeighborhoodProblem, nonzero_rows
from nearfar.learners.nca.soft_neighbors import SoftNeighbors, check_classes, has_enough_classes
from nearfar.learners.problem import FitInput, Problem, WarmStart
from nearfar.learners.rows_input import check_in_memory
from nearfar.learners.scaler import Scaler
from nearfar.learners.validation import Plan
from nearfar.metrics.metric import Metric
from nearfar.numerics.lbfgs import lbfgs
from nearfar.numerics.span import axes_of_span
from nearfar.rows import Points, Rows
from nearfar.runtime import parameters
from nearfar.runtime.history import History, Iteration, Iterations, map_iterations
from nearfar.runtime.parameters import integer, optional
from nearfar.runtime.threads import limited_threads
from nearfar.typing import Floats, Ints, Matrix, Vector

_STEP = 0.03
_MOMENTS = (0.9, 0.999)


class SingleMapLearner(NeighborhoodLearner):
    """NCA with one map, with or without a penalty on rank."""

    parameter_rules: ClassVar[dict[str, parameters.Rule]] = {
        "batch_size": optional(integer(at_least=2)),
    }
    batch_size: int | None
    sparsity = 0.0
    _stream: Stream | None = None

    @abstractmethod
    def _gain(self, log_p: Vector) -> tuple[float, Vector]:
        """Return the sum that is maximised, and its derivatives by log p."""

    def _build_problem(self, data: FitInput) -> Problem:
        codes = self._labels(data.supervision)
        Z, unit = self._in_units(data.Z)
        start = self._first_map(Z, data, unit)
        span = self._span(Z, data)
        if span is not None:
            points = SoftNeighbors((Z - Z.mean(axis=0)) @ span.astype(Z.dtype), codes)
            inner = float(start[0].max()) * np.eye(span.shape[1])
            lift = Lift(span, inner, None if self.sparsity > 0 else start)
            return NCAProblem(self, points, Adam.start(inner), unit, self.max_iter, lift)
        if self.batch_size is not None and self.batch_size < len(Z):
            check_classes(codes)
            if isinstance(Z, Rows) and not Z.random_access:
                raise ValueError(
                    "Batches are drawn at random, for which Parquet files and Dask arrays are too "
                    "slow; save X as a .npy file."
                )
            batches = Batches(Z, codes, self.batch_size, data.random_state)
            return NCAProblem(self, batches, Adam.start(start), unit, self.max_iter)
        return NCAProblem(self, SoftNeighbors(Z[:], codes), Adam.start(start), unit, self.max_iter)

    def _reads_rows(self, kind: str) -> bool:
        plain = self.batch_size is not None and self.variant != "paper"
        return kind == "labels" and plain

    def _span(self, Z: Any, data: FitInput) -> Matrix | None:
        """Return axes of the points, if they are few and the first map treats all axes alike."""
        alike = self.init == "identity" and data.warm is None and self.n_components is None
        if not alike or self.batch_size is not None:
            return None
        return axes_of_span(np.asarray(Z, dtype=np.float64))

    def _fit(self, X: ArrayLike, y: Any) -> None:
        super()._fit(X, y)
        self._stream = None

    def _learns_in_parts(self) -> bool:
        """Whether there is a `partial_fit`."""
        if self.batch_size is None:
            raise AttributeError("partial_fit learns in batches; set batch_size.")
        return self.variant != "paper"

    @available_if(_learns_in_parts)
    def partial_fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Continue from the map so far with one pass over new rows, in batches.

        Only with `batch_size`. Rows are compared within their batch, so that a part needs at least
        two classes, and two rows of one of them. The first part decides the scale. After `fit`,
        learning continues from its metric. Nothing is held out, and `validation_fraction` has no
        effect.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from nearfar import NCA
        >>> X, y = load_digits(return_X_y=True)
        >>> learner = NCA(batch_size=50, random_state=0)
        >>> for part in (slice(0, 900), slice(900, None)):
        ...     learner = learner.partial_fit(X[part], y[part])
        >>> learner.score(X, y) > 0.9
        True
        """
        with self._kept_if_it_fails(X):
            self._check_parameters()
            with limited_threads(self.n_jobs):
                self._learn_part(X, y)
        return self

    def _learn_part(self, X: ArrayLike, y: Any) -> None:
        points, supervision = self._validate(X, y, reset=not hasattr(self, "metric_"))
        check_in_memory(points)
        check_magnitude(points)
        codes, random_state = self._labels(supervision), check_random_state(self.random_state)
        stream = self._stream or self._new_stream(points, codes, random_state)
        Z = stream.scaler.transform(points)
        assert self.batch_size is not None
        batches = Batches(
            Z / Z.dtype.type(np.sqrt(stream.unit)), codes, self.batch_size, random_state
        )
        data = FitInput(Z, stream.scaler, codes, random_state, None)
        problem = NCAProblem(self, batches, stream.at, stream.unit, max_iter=1)
        builder = self._builder_of(problem, data)
        history = History()
        self._consume(history, problem.solve(), problem, builder, X, y)
        self._set_fitted_attributes(problem, builder, data, points, history, Plan())
        self.scale_ = stream.scale
        self._stream = Stream(stream.scale, stream.scaler, stream.unit, problem.at)

    def _new_stream(
        self, points: Floats, codes: Ints, random_state: np.random.RandomState
    ) -> Stream:
        """Return where the first part begins: at the metric of a fit, or at `init`."""
        metric = getattr(self, "metric_", None)
        scale = self._chosen_scale(points, codes) if metric is None else self.scale_
        scaler = Scaler.fit(points, scale)
        warm = None if metric is None else WarmStart(metric)
        data = FitInput(scaler.transform(points), scaler, codes, random_state, warm)
        Z, unit = self._in_units(data.Z)
        return Stream(scale, scaler, unit, Adam.start(self._first_map(Z, data, unit)))


@dataclass(frozen=True)
class Lift:
    """From maps of the space that the points span to maps of all features.

    Objective and gradient do not know directions in which no points differ: a map stays there what
    it was at first, or vanishes under a penalty.

    Attributes
    ----------
    span : array of shape (n_features, n_axes)
        Orthonormal axes.
    inner : array of shape (n_axes, n_axes)
        The first map of the span, a multiple of the identity.
    outer : array of shape (k, n_features) or None
        The first map of all features, the same multiple on features that vary; None if other
        directions vanish.
    """

    span: Matrix
    inner: Matrix
    outer: Matrix | None

    def __call__(self, L: Matrix) -> Matrix:
        """Return the map of all features."""
        if self.outer is None:
            return L @ self.span.T
        varying = self.outer.any(axis=0)
        return self.outer + self.span[varying] @ (L - self.inner) @ self.span.T


@dataclass(frozen=True)
class Batches:
    """Points and labels in random parts of about `size`."""

    Z: Points
    codes: Ints
    size: int
    random_state: np.random.RandomState

    def draw(self) -> list[Ints]:
        """Return the rows of each part."""
        number = max(1, round(len(self.Z) / self.size))
        parts = np.array_split(self.random_state.permutation(len(self.Z)), number)
        return [rows for rows in parts if has_enough_classes(self.codes[rows])]


class NCAProblem(NeighborhoodProblem):
    """NCA over maps of a given number of rows.

    Parameters
    ----------
    learner : SingleMapLearner
        Its objective and parameters.
    points : SoftNeighbors or Batches
        All points at once, or in batches.
    at : Adam
        The first map, with k rows, and the moments of earlier gradients.
    unit : float
    max_iter : int
    lift : callable, optional
        What maps of the points become in the end.

    Attributes
    ----------
    at : Adam
        With batches, where the last pass ended.
    """

    def __init__(
        self,
        learner: SingleMapLearner,
        points: SoftNeighbors | Batches,
        at: Adam,
        unit: float,
        max_iter: int,
        lift: Callable[[Matrix], Matrix] = np.asarray,
    ) -> None:
        self.learner, self.points, self.at, self.lift = learner, points, at, lift
        self.unit, self.max_iter = unit, max_iter
        self.fixed_iterations = isinstance(points, Batches)

    def solve(self) -> Iterations:
        """Minimise by L-BFGS, or by Adam on batches."""
        points, start = self.points, self.at.L
        if isinstance(points, Batches):
            return self._solve_in_batches(points)

        def objective(flat: Vector) -> tuple[float, Vector]:
            value, gradient = self.value(points, flat.reshape(start.shape))
            return value, gradient.ravel()

        tol = self.learner._tolerance(len(points.X))
        steps = lbfgs(objective, start.ravel(), max_iter=self.max_iter, tol=tol)
        return map_iterations(steps, lambda at: Iteration(at[0], model=at[1].reshape(start.shape)))

    def value(self, points: SoftNeighbors, L: Matrix) -> tuple[float, Matrix]:
        """Return the objective, to be minimised, and its gradient."""
        found = points.evaluate([L], lambda _, log_p: self.learner._gain(log_p))
        n, sparsity = int(points.counted.sum()), self.learner.sparsity
        gradient = -found.by_map[0] / n + 2 * sparsity * L
        return -found.value / n + sparsity * float((L**2).sum()), gradient

    def _solve_in_batches(self, batches: Batches) -> Iterations:
        """Adam; an iteration is a pass over all points."""
        for _ in range(self.max_iter):
            values = []
            for rows in batches.draw():
                part = SoftNeighbors(batches.Z[rows], batches.codes[rows])
                value, gradient = self.value(part, self.at.L)
                values.append(value)
                self.at = self.at.moved(gradient)
            if not values:
                raise ValueError(
                    f"No batch of {batches.size} has two classes and two members of one; "
                    "use a larger batch_size."
                )
            yield Iteration(float(np.mean(values)), model=self.at.L)
        return "max_iter"

    def builder(self, **parts: Any) -> MetricBuilder:
        """Return a builder that drops directions which have vanished."""
        kind = SparseMapBuilder if self.learner.sparsity > 0 else MapBuilder
        return kind(**parts, lift=self.lift)


class SparseMapBuilder(MapBuilder):
    """Builds a metric from the last map, without directions that have vanished."""

    def metric(self, history: History) -> Metric:
        """Return the metric of what is left of the last map."""
        L = history[-1].model
        return self.build(self.lift(nonzero_rows(L, float(np.linalg.norm(L, 2)) ** 2)))


@dataclass(frozen=True)
class Adam:
    """A map, the running moments of its gradients, and how many there were."""

    L: Matrix
    first: Matrix
    second: Matrix
    number: int

    @classmethod
    def start(cls, L: Matrix) -> Adam:
        """Begin at a map."""
        return cls(L, np.zeros_like(L), np.zeros_like(L), 0)

    def moved(self, gradient: Matrix) -> Adam:
        """Take a step."""
        number = self.number + 1
        first = _MOMENTS[0] * self.first + (1 - _MOMENTS[0]) * gradient
        second = _MOMENTS[1] * self.second + (1 - _MOMENTS[1]) * gradient**2
        size = np.sqrt(second / (1 - _MOMENTS[1] ** number)) + 1e-12
        step = _STEP / len(self.L) ** 0.5 * first / (1 - _MOMENTS[0] ** number) / size
        return Adam(self.L - step, first, second, number)


@dataclass(frozen=True)
class Stream:
    """Where `partial_fit` continues.

    Attributes
    ----------
    scale : {"standard", "unit", "cosine"} or None
    scaler : Scaler
        Units of the first part, which all parts are scaled with.
    unit : float
        Mean variance of the first part's scaled points.
    at : Adam
    """

    scale: str | None
    scaler: Scaler
    unit: float
    at: Adam
