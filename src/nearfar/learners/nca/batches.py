"""NCA in batches, for very many points, and in parts: `partial_fit`.

Adam takes a step for each batch. `partial_fit` takes one pass over the batches of new rows, in the
units of the first part, and keeps Adam's moments for the next part.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from nearfar.learners import fitting
from nearfar.learners.declaration import learner
from nearfar.learners.explanations import restore_on_error
from nearfar.learners.fitting import Data
from nearfar.learners.nca.base import NeighborhoodLearner
from nearfar.learners.nca.soft_neighbors import has_enough_classes
from nearfar.learners.problem import FitInput, Problem, WarmStart
from nearfar.learners.scaler import Scaler
from nearfar.learners.selection.choice import Selection
from nearfar.rows import Points, Rows
from nearfar.runtime import parameters
from nearfar.runtime.parameters import integer, optional
from nearfar.runtime.threads import limited_threads
from nearfar.typing import Ints, Matrix

_STEP = 0.03
_MOMENTS = (0.9, 0.999)


@learner
class BatchLearner(NeighborhoodLearner):
    """Base of the learners of one map, which can learn in batches."""

    batch_size: int | None = None

    parameter_rules: ClassVar[dict[str, parameters.ParameterRule]] = {
        "batch_size": optional(integer(at_least=2)),
    }
    _stream: ClassVar[Stream | None] = None

    @abstractmethod
    def _problem(self, points: Any, at: Adam, unit: float, max_iter: int) -> Problem:
        """Build the problem on all points at once, or on batches."""

    def _reads_rows(self, kind: str) -> bool:
        return kind == "labels" and self.batch_size is not None and not self._follows_paper

    def _learns_in_parts(self) -> bool:
        """Whether there is a `partial_fit`."""
        if self.batch_size is None:
            raise AttributeError("partial_fit learns in batches; set batch_size.")
        return not self._follows_paper

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
        self._check_parameters()
        with restore_on_error(self, X), limited_threads(self.n_jobs):
            self._learn_part(X, y)
        return self

    def _learn_part(self, X: ArrayLike, y: Any) -> None:
        data = self._checked(X, y, reset=not hasattr(self, "metric_"))
        method = self._method()
        fitting.check_in_memory(data.X)
        fitting.check_learnable(data, method)
        random_state = check_random_state(self.random_state)
        codes = data.supervision.labels(type(self).__name__)
        stream = self._stream or self._new_stream(data, random_state)
        Z = stream.scaler.transform(data.X)
        unit = stream.unit
        assert self.batch_size is not None
        batches = Batches(Z / Z.dtype.type(np.sqrt(unit)), codes, self.batch_size, random_state)
        prepared = FitInput(Z, stream.scaler, data.supervision, random_state)
        problem: Any = self._problem(batches, stream.at, unit, 1)
        self._fit_problem(problem, prepared, data, method, Selection(), (X, y))
        self.scale_ = stream.scale
        self._stream = Stream(stream.scale, stream.scaler, unit, problem.at)  # type: ignore[misc]

    def _new_stream(self, data: Data, random_state: np.random.RandomState) -> Stream:
        """Return where the first part begins: at the metric of a fit, or at `init`."""
        metric = getattr(self, "metric_", None)
        scale = fitting.choose_scale(data, self._method()) if metric is None else self.scale_
        scaler = Scaler.fit(data.X, scale)
        warm = None if metric is None else WarmStart(metric)
        Z = scaler.transform(data.X)
        prepared = FitInput(Z, scaler, data.supervision, random_state, warm)
        Z, unit = self._in_units(Z)
        return Stream(scale, scaler, unit, Adam.start(self._first_map(Z, prepared, unit)))


@dataclass(frozen=True)
class Batches:
    """Points and labels in random parts of about `size`."""

    Z: Points
    codes: Ints
    size: int
    random_state: np.random.RandomState

    def __post_init__(self) -> None:
        if isinstance(self.Z, Rows) and not self.Z.random_access:
            raise ValueError(
                "Batches are drawn at random, for which Parquet files and Dask arrays are too "
                "slow; save X as a .npy file."
            )

    def draw(self) -> list[Ints]:
        """Return the rows of each part."""
        number = max(1, round(len(self.Z) / self.size))
        parts = np.array_split(self.random_state.permutation(len(self.Z)), number)
        return [rows for rows in parts if has_enough_classes(self.codes[rows])]


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
