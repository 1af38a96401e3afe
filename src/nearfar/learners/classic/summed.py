"""`SummedClosedForm`: closed forms of sums over rows, which also learn from parts of the data."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from nearfar.constraints import Chunklets, ConstraintsOver, Pairs, Triplets
from nearfar.learners.base import check_magnitude
from nearfar.learners.classic.closed_form import (
    Axes,
    ClosedFormLearner,
    ClosedFormProblem,
    Solution,
    Span,
)
from nearfar.learners.classic.running_sums import RunningSums, powers_of_two
from nearfar.learners.classic.scatter import Evidence
from nearfar.learners.problem import FitInput
from nearfar.learners.scaler import Scaler
from nearfar.learners.validation import Plan
from nearfar.metrics.points import unit_length
from nearfar.runtime.history import History
from nearfar.typing import Floats


class SummedClosedForm(ClosedFormLearner):
    """Base of the closed forms of sums over rows."""

    learns_from_rows_alone: ClassVar[bool] = False
    """Whether y is ignored."""

    _sums: RunningSums | None = None

    @abstractmethod
    def _evidence(self, P: Floats, supervision: Any) -> Evidence:
        """Return what the formula needs of rows, or raise ValueError if they teach nothing."""

    @abstractmethod
    def _formula(self, evidence: Evidence, axes: Axes, scaler: Scaler) -> Solution:
        """Evaluate the formula for coordinates in the span."""

    def _solution(self, span: Span, data: FitInput) -> Solution:
        evidence = self._evidence(span.P, data.supervision)
        return self._formula(evidence, span, data.scaler)

    def _fit(self, X: ArrayLike, y: Any) -> None:
        super()._fit(X, y)
        self._sums = None

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
        with self._kept_if_it_fails(X):
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
        points, known = self._validate_part(X, y, reset=first)
        check_magnitude(points)
        sums = self._sums_with(points, known)
        _check_enough(sums, self.supervision)
        scaler = sums.scaler
        axes = sums.axes(scaler)
        evidence = sums.evidence(scaler, axes)
        problem = ClosedFormProblem(axes, lambda: self._formula(evidence, axes, scaler))
        data = FitInput(points, scaler, known, np.random.RandomState(0), None)
        builder = self._builder_of(problem, data)
        history = History()
        for _ in history.record(problem.solve()):
            pass
        self._set_fitted_attributes(problem, builder, data, points, history, Plan())
        self._sums, self.scale_ = sums, sums.scale

    def _validate_part(self, X: ArrayLike, y: Any, *, reset: bool) -> tuple[Floats, Any]:
        """Check a part; labels stay as they are."""
        shape: dict[str, Any] = {
            "dtype": [np.float64, np.float32],
            "ensure_min_samples": 2 if reset else 1,
        }
        if self.learns_from_rows_alone:
            return validate_data(self, X, reset=reset, **shape), None
        known = y.constraints if isinstance(y, ConstraintsOver) else y
        if not isinstance(known, Triplets | Pairs | Chunklets):
            points, labels = validate_data(self, X, y, reset=reset, **shape)
            check_classification_targets(labels)
            return points, labels
        points = validate_data(self, X, reset=reset, **shape)
        known.check(len(points))
        if type(known).__name__.lower() not in self.supervision:
            self._evidence(points, known)  # says why it cannot learn from this kind
        return points, known

    def _sums_with(self, points: Floats, known: Any) -> RunningSums:
        """Return the sums so far and those of a part."""
        before, fourth = self._sums, self.shrinkage == "auto"
        if before is None:
            codes = known
            if isinstance(known, np.ndarray):
                codes = np.unique(known, return_inverse=True)[1]
            scale = self._chosen_scale(points, codes)
            rows = unit_length(points) if scale == "cosine" else points
            return RunningSums.of(rows, known, scale, fourth=fourth, units=powers_of_two(rows))
        if fourth and not before.fourth:
            raise ValueError("shrinkage='auto' needs sums from the first part on; set it before.")
        rows = unit_length(points) if before.scale == "cosine" else points
        part = RunningSums.of(rows, known, before.scale, fourth=before.fourth, units=before.units)
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
            "The labels so far teach nothing: at least two classes are needed in the first part, "
            "and at least one class with two members."
        )
    if sums.kind in ("chunklets", "pairs") and max(sums.finished, default=0) < 2:
        what = "chunklet has two rows" if sums.kind == "chunklets" else "pair is similar"
        raise ValueError(f"No {what} in the first part.")
    if sums.kind == "pairs" and "chunklets" not in supervision and sums.apart is None:
        raise ValueError("No pair in the first part tells rows apart; both kinds are needed.")
