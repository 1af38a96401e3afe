"""`MetricLearner`: what a user sees of a learner. `fitting` is how a fit runs.

A learner is a class of parameters, declared as the fields of a dataclass (`declaration`), and
`_build_problem`, which makes its `Problem` from checked and scaled input. What it is, for instance
what it learns from and whether AutoMetric tries it, is declared on its class; all lists of learners
are derived from that (`known_learners`).

`ConstraintLearner`: what learners from constraints share.

Pipelines that end in a learner.

Features that are fitted to rows, such as principal components or weights of words, know these rows.
What is measured on them later is flattered, as it is by a metric that was learned from them. A
pipeline is therefore fitted as a whole, to the rows that its learner learns from.
"""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from nearfar.learners import fitting
from nearfar.learners.declaration import (
    Init,
    MaxRows,
    Prior,
    Validation,
    ValidationFraction,
    Variant,
    learner,
)
from nearfar.learners.fitting import Data, FitMethod, samples_blocks
from nearfar.learners.problem import FitInput, Problem, build_near_covariance
from nearfar.learners.score import labelled_sample, score
from nearfar.learners.selection.choice import Selection, Shrinkage
from nearfar.learners.selection.scale import SCALES
from nearfar.metrics.metric import Metric
from nearfar.numerics.missing import naming_remedies, refuse_masked
from nearfar.rows import Rows, as_rows
from nearfar.runtime.history import History, Iteration
from nearfar.runtime.parameters import ParameterRule, check_parameters
from nearfar.runtime.progress import (
    CallbackSupportMixin,
    FitInProgress,
    observed,
    shown_if,
    stage,
    with_callbacks,
)
from nearfar.runtime.threads import limited_threads
from nearfar.supervision.supervision import are_numbers
from nearfar.typing import Array, Floats, Ints, Matrix, Vector

_FAMILIES = ("boosting", "classic", "forest", "max_margin", "nca", "selection.auto")


@learner
class MetricLearner(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupportMixin, BaseEstimator, ABC
):
    """Base of the learners."""

    scale: str | None = "auto"
    n_components: int | None = None

    # Parameters of some learners; a fit takes these values for all others.
    warm_start: bool = field(default=False, init=False)
    random_state: int | np.random.RandomState | None = field(default=None, init=False)
    n_jobs: int | None = field(default=None, init=False)
    verbose: int = field(default=0, init=False)
    validation_fraction: ValidationFraction = field(default=None, init=False)
    validation: Validation = field(default="rows", init=False)
    max_rows: MaxRows = field(default=None, init=False)
    constraints: Any = field(default=None, init=False)
    prior: Prior = field(default="identity", init=False)
    init: Init | None = field(default=None, init=False)
    variant: Variant = field(default="default", init=False)

    parameter_rules: ClassVar[dict[str, ParameterRule]] = {}
    """What the class's own parameters may be."""

    paper_settings: ClassVar[Mapping[str, object]] = {}
    """Parameters that ``variant="paper"`` overrides."""

    supervision: ClassVar[tuple[str, ...]] = ("labels",)
    """What the learner learns from: of "labels", "chunklets", "pairs", "triplets", "numbers"."""

    ignores_y: ClassVar[bool] = False
    """Whether the learner learns from rows alone."""

    reads_rows: ClassVar[tuple[str, ...]] = ()
    """Kinds of supervision with which the learner accepts rows that are not in memory."""

    auto_scales: ClassVar[tuple[str, ...]] = SCALES
    """What ``scale="auto"`` chooses from."""

    rotates: ClassVar[bool] = False
    """Whether a fit to rotated rows gives the rotated metric, with all parameters that do not
    override `_rotates`. Fewer rows than features are then fitted in the space that they span."""

    shrinks_without_prior: ClassVar[bool] = False
    """Whether held-out data choose a shrinkage to Euclidean distance even if `prior` is None."""

    gives_linear: ClassVar[bool] = True
    """Whether the metric is a linear map, with default parameters."""

    patience: ClassVar[int] = 1
    """Stages of trial fits without an improvement after which held-out data end them."""

    tells_expected: ClassVar[bool] = False
    """Whether a fit always holds out data, and says what to expect on new ones."""

    auto_order: ClassVar[int | None] = 100
    """Place among the candidates of AutoMetric, the cheap ones first; None if it is none."""

    auto_features: ClassVar[float] = math.inf
    """The most features with which AutoMetric tries it."""

    compare_order: ClassVar[int | None] = None
    """Place in comparisons that name no learners; None if it is not in them."""

    compared_on_labels: ClassVar[bool] = True
    """Whether that includes comparisons on labels, not only on pairs and triplets."""

    _defaults: ClassVar[dict[str, object]]
    _rules: ClassVar[dict[str, ParameterRule]]
    _shrinkage: ClassVar[Shrinkage | None] = None
    _learned_numbers: ClassVar[bool] = False
    _labelled_sample: ClassVar[tuple[Floats, Array] | None] = None
    _n_known: ClassVar[int] = 0
    _n_before: ClassVar[int | None] = None
    _n_done: ClassVar[int] = 0

    score = score

    @abstractmethod
    def _build_problem(self, data: FitInput) -> Problem:
        """Build the learner's problem."""

    def _check_parameters(self) -> None:
        """Raise ValueError for parameters that make no sense; defaults do."""
        values = self._defaults | self.__dict__
        for name, rule in self._rules.items():
            if values[name] is not self._defaults[name]:
                check_parameters({name: rule}, values)

    def _checked(self, X: object, y: object, *args: Any, **options: Any) -> Data:
        """Check X and what is known of its rows (`fitting.check`)."""
        options = {"ignores_y": self.ignores_y, "numbers": self._takes_numbers(y)} | options
        return fitting.check(self, X, y, *args, reads=self._kinds_read(), **options)

    def _method(self) -> FitMethod:
        """Return how the learner is fitted, with the paper's values in place of its own."""
        settled, scale = self, self.scale
        if self.variant == "paper":
            settled = copy.copy(self)
            settled.__dict__ |= self.paper_settings
            scale = "unit" if settled.scale == "auto" else settled.scale
        elif scale == "auto" and self.warm_start:
            scale = self.__dict__.get("scale_") or scale
        start = None
        fitted = self.__dict__.get("metric_") if self.warm_start else None
        for metric in (settled.init, settled.prior, fitted):
            start = metric if isinstance(metric, Metric) else start
        build = settled._build_problem
        if settled.prior == "covariance":
            build = partial(build_near_covariance, settled)
        return FitMethod(
            settled,
            build,
            scale,
            start,
            rotates=settled._rotates(),
            samples=settled._slow_on_many_rows(),
            n_before=self._n_before,
        )

    def _rotates(self) -> bool:
        """Whether a fit to rotated rows gives the rotated metric."""
        drawn = self.constraints is None or getattr(self.constraints, "rotates", False)
        # These depend on the number of features, or on their covariance.
        named = any(word in ("lda", "random", "covariance") for word in (self.init, self.prior))
        return self.rotates and drawn and not named and self.variant != "paper"

    def _slow_on_many_rows(self) -> bool:
        """Whether the time of a fit grows faster than the number of rows."""
        return True

    def _takes_numbers(self, y: object) -> bool:
        """Whether an array y has numbers to predict for this learner, not classes."""
        kinds = self.supervision
        return kinds == ("numbers",) or ("numbers" in kinds and are_numbers(y))

    def _kinds_read(self) -> tuple[str, ...]:
        """Return the kinds of supervision with which rows may be read in blocks."""
        drawn = getattr(self.constraints, "ignores_rows", False)
        kinds = self.reads_rows
        return (*kinds, "labels") if "triplets" in kinds and drawn else kinds

    def _most_components(self, n_features: int) -> int:
        """Return the largest possible `n_components`."""
        return n_features

    @with_callbacks
    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
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
            are a group (`nearfar.supervision.copies`).
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts, in what is learned and where it is held out; rows of weight
            0 are left out. Constraints made from labels have the weight of their first row, the
            anchor. The neighbours of a row are found without weights. Triplets and pairs have
            weights of their own instead.

        Returns
        -------
        self
        """
        self._check_parameters()
        showing = shown_if(self.verbose > 0, type(self).__name__)
        with fitting.restore_on_error(self, X), limited_threads(self.n_jobs), showing:
            splits = self.tells_expected or self.validation_fraction is not None
            data = self._checked(X, y, groups, sample_weight=sample_weight, splits=splits)
            method, kind = self._method(), data.supervision.kind
            notes: tuple[str, ...] = ()
            if isinstance(data.X, Rows) and samples_blocks(self, kind, self._kinds_read()):
                data, notes = fitting.in_memory(data, method)
            if self.tells_expected and data.copies is not None:
                warnings.warn(f"{data.copies}, unless groups are given.", stacklevel=3)
            most = self._most_components(data.X.shape[1])
            fitting.check_learnable(data.X, self.n_components, most)
            kept = labelled_sample(data, y)
            self.scale_ = scale = fitting.choose_scale(data, method)
            random_state = check_random_state(self.random_state)
            done = self.__dict__.pop("_n_done", 0)
            warm = self._continued(data.X.shape[1]) if self.warm_start or done else None
            data, scale, method = fitting.in_span(data, scale, method, warm)
            selection = fitting.select(data, scale, method)
            data = fitting.restrict(data, selection.n_rows, method.seed)
            warm = warm or selection.start
            prepared = fitting.prepare(data, scale, random_state, warm, method.span)
            with stage("preparing the first iteration"):
                problem = method.build(prepared)
            if done:
                problem.max_iter = max(1, problem.max_iter - done)
                if selection.n_iterations is not None:
                    left = max(1, selection.n_iterations - done)
                    selection = replace(selection, n_iterations=left)
            self._fit_problem(problem, prepared, data, method, selection, (X, y), notes)
            self._labelled_sample = kept  # type: ignore[misc]
            self._learned_numbers = data.supervision.kind == "numbers"  # type: ignore[misc]
        return self

    def _continued(self, n_features: int) -> Any:
        """Return the metric to continue from: of the last fit, or one that was assigned since."""
        metric = self.__dict__.get("metric_")
        if metric is None:
            return None
        if not hasattr(metric, "transform"):
            raise ValueError("warm_start cannot continue from a SignedForm, which is not a metric.")
        if metric.n_features != n_features:
            raise ValueError(
                f"warm_start: the fitted metric is for {metric.n_features} features; "
                f"X has {n_features}."
            )
        return metric

    def _fit_problem(
        self,
        problem: Problem,
        prepared: FitInput,
        data: Data,
        method: FitMethod,
        selection: Selection,
        inputs: tuple[object, object] = (None, None),
        notes: tuple[str, ...] = (),
    ) -> None:
        """Run the solver and set the fitted attributes."""
        builder = fitting.builder_of(problem, prepared, method)
        most = min(problem.max_iter, selection.n_iterations or problem.max_iter)

        def observe(iterations: Iterator[Iteration], history: History) -> Iterator[Iteration]:
            """Pass iterations on to callbacks, watchers and a progress line; each may end them."""

            def metric() -> Metric:
                return builder.lift(problem.metric(history, builder))

            return observed(
                iterations,
                FitInProgress(type(self).__name__, most, metric),
                self,
                *inputs,
                attributes=lambda: {
                    "metric_": metric(),
                    "history_": history,
                    "n_iter_": len(history),
                    "_builder": builder,
                },
                notes=history.notes if self.verbose > 0 else None,
            )

        notes = (*notes, *([selection.note] if selection.note else []))
        history = fitting.run(problem, selection, notes=notes, observe=observe)
        history.row_curve = selection.curve
        attributes = fitting.finish(problem, history, builder, prepared, data, selection, method)
        metric = attributes["metric_"]
        self.__dict__ |= attributes
        message = problem.warning_message(history, metric)
        if message:
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    @property
    def components_(self) -> Matrix:
        """The map L of the metric, of shape (n_components, n_features)."""
        if not (self.gives_linear or self.metric_.is_linear):
            raise AttributeError(
                "The metric bends, so it is no matrix and there are no components_. Use transform, "
                'or learn a matrix with AutoMetric(form="linear").'
            )
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
        with naming_remedies():
            points = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self.metric_.transform(points)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = not self.ignores_y
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def known_learners() -> dict[str, type[MetricLearner]]:
    """Return every learner of nearfar by the name of its class, in the order of their modules."""
    for family in _FAMILIES:
        import_module(f"nearfar.learners.{family}")
    learners: list[type[MetricLearner]] = []
    classes = MetricLearner.__subclasses__()
    while classes:
        kind = classes.pop()
        classes += kind.__subclasses__()
        hidden = inspect.isabstract(kind) or kind.__name__.startswith("_")
        if kind.__module__.startswith("nearfar.") and not hidden:
            learners.append(kind)
    learners.sort(key=lambda kind: (kind.__module__, kind.__name__))
    return {kind.__name__: kind for kind in learners}


@learner
class ConstraintLearner(MetricLearner):
    """Base of the learners that learn from constraints and stay near a prior metric.

    A strategy makes constraints from labels.
    """

    warm_start: bool = False
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0
    validation_fraction: ValidationFraction = "auto"
    validation: Validation = "rows"
    constraints: Any = None
    prior: Prior = "identity"
    tol: float

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs", "triplets")

    def _slow_on_many_rows(self) -> bool:
        # Mining compares all rows; strategies that draw constraints do not.
        return not getattr(self.constraints, "ignores_rows", False)


Estimator = Any
"""A learner, a pipeline or anything else with `fit` and `transform`; they have no common type."""


def learner_of(estimator: Estimator) -> MetricLearner:
    """Return the learner that a pipeline ends in, or the learner itself."""
    last = last_step(estimator)
    if not isinstance(last, MetricLearner):
        what = "A pipeline must end in" if last is not estimator else "The learner must be"
        raise TypeError(f"{what} a learner of a metric, such as RCA(); got {last!r}.")
    return last


def last_step(estimator: Estimator) -> Estimator:
    """Return the last step of a pipeline, also of one in another, or the estimator itself."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def fit_pipeline(
    estimator: Estimator,
    X: ArrayLike,
    y: object,
    *,
    labels: Array | None = None,
    groups: Ints | None = None,
    sample_weight: Vector | None = None,
) -> Estimator:
    """Fit a learner, or all steps of a pipeline, to the same rows.

    Parameters
    ----------
    X: shape (n_samples, n_features). Whatever the first step takes.
    y: What the learner learns from.
    labels: shape (n_samples,). What the other steps learn from, if that is not `y`.
    groups, sample_weight: shape (n_samples,). For the learner.
    """
    if not isinstance(estimator, Pipeline):
        given = {"groups": groups, "sample_weight": sample_weight}
        return estimator.fit(X, y, **{name: own for name, own in given.items() if own is not None})
    *steps, (name, last) = estimator.steps
    if steps:
        features = Pipeline(steps, memory=estimator.memory)
        X = features.fit_transform(X, y if labels is None else labels)
        steps = features.steps
    last = fit_pipeline(last, X, y, labels=labels, groups=groups, sample_weight=sample_weight)
    return Pipeline([*steps, (name, last)], memory=estimator.memory)


def features_of(fitted: Estimator, X: ArrayLike) -> Floats:
    """Return what the learner at the end of a fitted pipeline gets of some rows."""
    while isinstance(fitted, Pipeline):
        X = fitted[:-1].transform(X) if len(fitted) > 1 else X
        fitted = fitted.steps[-1][1]
    return np.asarray(check_array(X, dtype=[np.float64, np.float32]))


def resume(learner: MetricLearner, metric: Metric, n_done: int) -> None:
    """Let the next fit continue an interrupted one from its metric: trial fits are repeated."""
    learner.__dict__ |= {"metric_": metric, "_n_done": n_done}
