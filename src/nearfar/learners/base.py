"""`MetricLearner`: what a user sees of a learner. `fitting` is how a fit runs.

A learner is a class of parameters, declared as the fields of a dataclass (`declaration`), and
`_build_problem`, which makes its `Problem` from checked and scaled input.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.constraints import mining_reports
from nearfar.learners import fitting
from nearfar.learners.declaration import ParametersMixin, learner
from nearfar.learners.estimate import EstimateMixin
from nearfar.learners.explanations import restore_on_error, warn_of_row_numbers
from nearfar.learners.fitting import Data, FitMethod, Observer, kinds_read
from nearfar.learners.metric_score import share_right
from nearfar.learners.problem import FitInput, Problem, WarmStart
from nearfar.learners.selection.choice import Selection, Shrinkage
from nearfar.learners.selection.scale import SCALES
from nearfar.learners.shared_parameters import COMMON, Texts
from nearfar.metrics.metric import Metric
from nearfar.numerics.missing import refuse_masked
from nearfar.rows import Rows, as_rows
from nearfar.runtime.metric_learn_names import with_fit_hints
from nearfar.runtime.parameters import ParameterRule, choice, integer, optional
from nearfar.runtime.progress import CallbackSupportMixin, with_callbacks
from nearfar.runtime.threads import limited_threads
from nearfar.typing import Floats, Matrix


@learner
class MetricLearner(
    EstimateMixin,
    ParametersMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    CallbackSupportMixin,
    BaseEstimator,
    ABC,
):
    """Base of the learners."""

    scale: str | None = "auto"
    n_components: int | None = None

    parameter_docs: ClassVar[Texts] = COMMON
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "scale": optional(choice("auto", "standard", "unit", "cosine")),
        "n_components": optional(integer(at_least=1)),
    }
    supervision: ClassVar[tuple[str, ...]] = ("labels",)
    """What the learner learns from: of "labels", "chunklets", "pairs", "triplets", "numbers"."""

    reads_rows: ClassVar[tuple[str, ...]] = ()
    """Kinds of supervision with which the learner accepts rows that are not in memory."""

    auto_scales: ClassVar[tuple[str, ...]] = SCALES
    """What ``scale="auto"`` chooses from."""

    ignores_y: ClassVar[bool] = False
    """Whether the learner learns from rows alone."""

    rotates: ClassVar[bool] = False
    """Whether a fit to rotated rows gives the rotated metric, with all parameters that do not
    override `_rotates`. Fewer rows than features are then fitted in the space that they span."""

    tells_expected: ClassVar[bool] = False
    """Whether a fit says what to expect on new data, and so must mention copies of rows."""

    shrinks_without_prior: ClassVar[bool] = False
    """Whether held-out data choose a shrinkage to Euclidean distance even if `prior` is None."""

    _shrinkage: ClassVar[Shrinkage | None] = None
    _n_known: ClassVar[int] = 0
    _n_before: ClassVar[int] = 0
    _is_part: ClassVar[bool] = False

    @abstractmethod
    def _build_problem(self, data: FitInput) -> Problem:
        """Build the learner's problem."""

    def _method(self) -> FitMethod:
        """Return what a fit needs to know of the learner; what it is not told has defaults."""
        settled, paper = self._settled(), self._follows_paper
        scale, prior = settled.scale, getattr(settled, "prior", "identity")
        warm = getattr(self, "warm_start", False)
        fitted = getattr(self, "metric_", None) if warm else None
        given = (fitted, prior, getattr(self, "init", None))
        untuned = scale == "auto" and not paper and not warm
        if scale == "auto" and paper:
            scale = "unit"
        elif scale == "auto" and warm:
            scale = getattr(self, "scale_", None) or scale
        seed = getattr(self, "random_state", 0)
        return FitMethod(
            name=type(self).__name__,
            build=settled._build_problem,
            numbers=self.supervision == ("numbers",),
            ignores_y=self.ignores_y,
            reads_rows=kinds_read(self.reads_rows, getattr(self, "constraints", None)),
            scale=scale,
            scales=self.auto_scales,
            given=next((m for m in given if isinstance(m, Metric)), None),
            prior=prior if isinstance(prior, Metric) else None,
            n_components=self.n_components,
            fraction=getattr(self, "validation_fraction", None),
            must_validate=not self._is_part,
            validates_labels=untuned and (prior is not None or self.shrinks_without_prior),
            validation=getattr(self, "validation", "rows"),
            n_before=self._n_before,
            seed=seed if isinstance(seed, int) else 0,
            feature_names=getattr(self, "feature_names_in_", None),
            rotates=self._rotates(),
        )

    def _rotates(self) -> bool:
        """Whether a fit to rotated rows gives the rotated metric."""
        strategy = getattr(self, "constraints", None)
        drawn = strategy is None or getattr(strategy, "rotates", False)
        # These depend on the number of features, or on their covariance.
        words = [getattr(self, name, None) for name in ("init", "prior")]
        named = any(isinstance(w, str) and w in ("lda", "random", "covariance") for w in words)
        return self.rotates and drawn and not named and not self._follows_paper

    @with_fit_hints
    @with_callbacks
    def fit(self, X: ArrayLike, y: Any = None, groups: ArrayLike | None = None) -> Self:
        """Learn a metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), path, Dask array or Rows
            Points; float32 stays float32. Some learners read a ``.npy`` file, Parquet files or a
            Dask array in blocks, so that they need not fit in memory.
        y : array-like of shape (n_samples,), Triplets, Pairs or Chunklets
            Class labels, or constraints as row numbers of X; `supervision` lists what the learner
            learns from. Triplets and pairs may have weights.
        groups : array-like of shape (n_samples,), optional
            What rows belong to, for instance a person or a document. Rows of one group are never
            both learned from and held out. Only validation uses it. By default, copies of a row
            are a group (`nearfar.constraints.copies`).

        Returns
        -------
        self
        """
        self._check_parameters()
        with restore_on_error(self, X), limited_threads(getattr(self, "n_jobs", None)):
            warn_of_row_numbers(self, X, y)
            data = self._checked(X, y, groups, splits=self._holds_out)
            if self.tells_expected and data.copies is not None:
                warnings.warn(f"{data.copies}, unless groups are given.", stacklevel=4)
            method = self._method()
            fitting.check_learnable(data, method)
            scale = fitting.choose_scale(data, method)
            random_state = check_random_state(getattr(self, "random_state", None))
            warm = fitting.warm_start(self, data) if getattr(self, "warm_start", False) else None
            self.scale_ = scale
            data, scale, method, warm = fitting.in_span(data, scale, method, warm)
            selection = fitting.select(data, scale, method)
            prepared = fitting.prepare(data, scale, random_state, warm, method.span)
            with mining_reports() as mined:
                problem = method.build(prepared)
            self._fit_problem(problem, prepared, data, method, selection, (X, y), mined)
        return self

    @property
    def _holds_out(self) -> bool:
        """Whether a fit may hold out data."""
        fraction = getattr(self, "validation_fraction", "auto")
        return hasattr(self, "validation") and fraction is not None

    def _fit_problem(
        self,
        problem: Problem,
        prepared: FitInput,
        data: Data,
        method: FitMethod,
        selection: Selection,
        given: tuple[Any, Any] = (None, None),
        mined: list[Any] | None = None,
    ) -> None:
        """Run the solver and set the fitted attributes."""
        builder = fitting.builder_of(problem, prepared, method)
        notes = tuple(map(str, mined or ()))
        observer = Observer(self, problem, builder, *given, getattr(self, "verbose", 0) > 0)
        history = fitting.run(problem, selection, notes=notes, observer=observer)
        fitted = fitting.finish(problem, history, builder, prepared, data, selection, method)
        self.__dict__.pop("mining_", None)
        attributes = fitted.attributes | ({"mining_": mined[-1]} if mined else {})
        if getattr(self, "warm_start", False):
            state = problem.resume_state(history, builder)
            attributes["_last_fit"] = WarmStart(fitted.metric, state, method.span)
        for name, value in attributes.items():
            setattr(self, name, value)
        message = problem.warning_message(history, fitted.metric)
        if message:
            warnings.warn(message, ConvergenceWarning, stacklevel=5)

    def _checked(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        *,
        reset: bool = True,
        min_samples: int = 2,
        splits: bool = False,
        **changes: Any,
    ) -> Data:
        """Check X and y, and remember the features if `reset`; `changes` are for the method."""
        method = replace(self._method(), **changes)
        validate = partial(validate_data, self, reset=reset)
        data = fitting.check(X, y, groups, method, validate, min_samples=min_samples, splits=splits)
        if reset and isinstance(data.X, Rows):
            self.n_features_in_ = data.X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            if data.X.feature_names is not None:
                self.feature_names_in_ = np.asarray(data.X.feature_names, dtype=object)
        return data

    @property
    def components_(self) -> Matrix:
        """The map L of the metric, of shape (n_components, n_features)."""
        return self.metric_.L

    @property
    def _n_features_out(self) -> int:
        return self.metric_.n_components

    def transform(self, X: ArrayLike) -> Floats:
        """Map points so that Euclidean distance between them is the learned metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), path, Dask array or Rows

        Returns
        -------
        array of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        rows = as_rows(X)
        if rows is not None:
            return rows.transformed(self.metric_.transform)
        refuse_masked(X, "X")
        points = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self.metric_.transform(points)

    def get_metric(self) -> Callable[..., float]:
        """Return the learned distance as a function of two points; see `Metric.get_metric`.

        A later fit does not change it.
        """
        check_is_fitted(self)
        return self.metric_.get_metric()

    def score(self, X: ArrayLike, y: Any) -> float:
        """Return the share of comparisons that the metric gets right.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), Triplets or Pairs
            Triplets: the weighted share whose near is nearer than its far. Labels: the same for
            `NearestTriplets` of X, standardised, whatever the learner's parameters are, so that
            scores of different parameters can be compared. Pairs: the probability that a similar
            pair is nearer than a dissimilar one (the area under the ROC curve).
        """
        check_is_fitted(self)
        return share_right(self.metric_, self._checked(X, y, reset=False, ignores_y=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = not self.ignores_y
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
