"""`SummedClosedForm`: closed forms of sums over rows, which also learn from parts of the data."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from nearfar.constraints import Supervision
from nearfar.learners import fitting
from nearfar.learners.classic.closed_form import (
    Axes,
    ClosedFormLearner,
    ClosedFormProblem,
    Solution,
    Span,
)
from nearfar.learners.classic.running_sums import RunningSums, powers_of_two
from nearfar.learners.classic.scatter import Evidence
from nearfar.learners.declaration import learner
from nearfar.learners.explanations import restore_on_error
from nearfar.learners.fitting import Data
from nearfar.learners.problem import FitInput, Problem
from nearfar.learners.scaler import Scaler
from nearfar.learners.selection.choice import Selection
from nearfar.metrics.points import unit_length
from nearfar.runtime.threads import limited_threads
from nearfar.typing import Floats


@learner
class SummedClosedForm(ClosedFormLearner):
    """Base of the closed forms of sums over rows."""

    _sums: ClassVar[RunningSums | None] = None

    @abstractmethod
    def _evidence(self, P: Floats, supervision: Supervision) -> Evidence:
        """Return what the formula needs, or raise ValueError if it cannot be learned."""

    @abstractmethod
    def _formula(self, evidence: Evidence, axes: Axes, scaler: Scaler) -> Solution:
        """Evaluate the formula for coordinates in the span."""

    def _build_problem(self, data: FitInput) -> Problem:
        span = Span.of(data.Z)

        def solution() -> Solution:
            return self._formula(self._evidence(span.P, data.supervision), span, data.scaler)

        return ClosedFormProblem(span, solution)

    def partial_fit(self, X: ArrayLike, y: Any = None) -> Self:
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
        with restore_on_error(self, X), limited_threads():
            self._check_parameters()
            self._learn_part(X, y)
        return self

    def _learn_part(self, X: ArrayLike, y: Any) -> None:
        first = self._sums is None
        if first and hasattr(self, "metric_"):
            warnings.warn(
                "fit keeps no sums, so that partial_fit forgets its rows. Use partial_fit from the "
                "first part on.",
                stacklevel=3,
            )
        if self.validation_fraction is not None:
            raise ValueError("partial_fit holds out no rows; set validation_fraction=None.")
        method = self._method()
        data = self._checked(X, y, reset=first, min_samples=2 if first else 1)
        fitting.check_in_memory(data.X)
        fitting.check_learnable(data, method)
        if data.supervision.kind not in (*self.supervision, "nothing"):
            self._evidence(data.X, data.supervision)  # says why it cannot learn from this kind
        sums = self._sums_with(data)
        _check_enough(sums, self.supervision)
        scaler = sums.scaler
        axes = sums.axes(scaler)
        evidence = sums.evidence(scaler, axes)
        problem = ClosedFormProblem(axes, lambda: self._formula(evidence, axes, scaler))
        prepared = FitInput(data.X, scaler, data.supervision, np.random.RandomState(0))
        self._fit_problem(problem, prepared, data, method, Selection())
        self._sums, self.scale_ = sums, sums.scale  # type: ignore[misc]

    def _sums_with(self, data: Data) -> RunningSums:
        """Return the sums so far and those of a part."""
        before, fourth = self._sums, self.shrinkage == "auto"
        scale = fitting.choose_scale(data, self._method()) if before is None else before.scale
        rows = unit_length(data.X) if scale == "cosine" else data.X
        if before is None:
            units = powers_of_two(rows)
            return RunningSums.of(rows, data.supervision, scale, fourth=fourth, units=units)
        if fourth and not before.fourth:
            raise ValueError("shrinkage='auto' needs sums from the first part on; set it before.")
        part = RunningSums.of(
            rows, data.supervision, scale, fourth=before.fourth, units=before.units
        )
        if part.kind != before.kind:
            raise ValueError(
                f"The parts so far came with {before.kind}, this one with {part.kind}."
            )
        return before + part


def _check_enough(sums: RunningSums, supervision: tuple[str, ...]) -> None:
    """Raise ValueError if there is nothing to learn from yet."""
    classes = sums.classes.values()
    if sums.kind == "labels" and not (len(classes) > 1 and any(c.n > 1 for c in classes)):
        raise ValueError(
            "Cannot learn from the labels so far: at least two classes are needed in the first "
            "part, and at least one class with two members."
        )
    if sums.kind in ("chunklets", "pairs") and max(sums.finished, default=0) < 2:
        what = "chunklet has two rows" if sums.kind == "chunklets" else "pair is similar"
        raise ValueError(f"No {what} in the first part.")
    if sums.kind == "pairs" and "chunklets" not in supervision and sums.apart is None:
        raise ValueError("No pair in the first part tells rows apart; both kinds are needed.")
