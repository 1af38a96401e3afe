"""`MetricLearner`: what a user sees of a learner. `fitting` is how a fit runs.

A learner is a class of parameters, declared as the fields of a dataclass (`declaration`), and
`_build_problem`, which makes its `Problem` from checked and scaled input.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.constraints import NearestTriplets, mining_reports
from nearfar.learners import fitting
from nearfar.learners.declaration import learner
from nearfar.learners.estimate import SAMPLE_BUDGET, Estimate, estimate_fit
from nearfar.learners.explanations import restore_on_error
from nearfar.learners.fitting import Data, Method
from nearfar.learners.metric_builder import MetricBuilder
from nearfar.learners.problem import FitInput, Problem, WarmStart
from nearfar.learners.scaler import Scaler
from nearfar.learners.selection.choice import Selection, Shrinkage
from nearfar.learners.selection.scale import SCALES
from nearfar.learners.shared_parameters import COMMON, Texts
from nearfar.metrics.metric import Metric
from nearfar.rows import Rows, as_rows
from nearfar.runtime.history import History, Iteration
from nearfar.runtime.parameters import ParameterRule, check_parameters, choice, integer, optional
from nearfar.runtime.progress import (
    CallbackSupportMixin,
    FitInProgress,
    observed,
    with_callbacks,
)
from nearfar.runtime.threads import limited_threads
from nearfar.typing import Floats, Matrix


@learner
class MetricLearner(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupportMixin, BaseEstimator, ABC
):
    """Base of the learners."""

    scale: str | None = "auto"
    n_components: int | None = None

    parameter_docs: ClassVar[Texts] = COMMON
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "scale": optional(choice("auto", "standard", "unit", "cosine")),
        "n_components": optional(integer(at_least=1)),
    }
    paper_settings: ClassVar[Mapping[str, Any]] = {}
    """Parameters that ``variant="paper"`` overrides."""

    supervision: ClassVar[tuple[str, ...]] = ("labels",)
    """What the learner learns from: of "labels", "chunklets", "pairs", "triplets", "numbers"."""

    reads_rows: ClassVar[tuple[str, ...]] = ()
    """Kinds of supervision with which the learner accepts rows that are not in memory."""

    auto_scales: ClassVar[tuple[str, ...]] = SCALES
    """What ``scale="auto"`` chooses from."""

    ignores_y: ClassVar[bool] = False
    """Whether the learner learns from rows alone."""

    shrinks_without_prior: ClassVar[bool] = False
    """Whether held-out data choose a shrinkage to Euclidean distance even if `prior` is None."""

    _shrinkage: ClassVar[Shrinkage | None] = None
    _n_known: ClassVar[int] = 0

    @abstractmethod
    def _build_problem(self, data: FitInput) -> Problem:
        """Build the learner's problem."""

    def _setting(self, name: str, default: Any = None) -> Any:
        """Return a parameter, or what the paper has in its place."""
        if self._follows_paper and name in self.paper_settings:
            return self.paper_settings[name]
        return getattr(self, name, default)

    @property
    def _follows_paper(self) -> bool:
        return bool(getattr(self, "variant", "default") == "paper")

    def _check_parameters(self) -> None:
        """Raise ValueError for parameters that make no sense."""
        for cls in reversed(type(self).__mro__):
            rules = vars(cls).get("parameter_rules", {})
            check_parameters(rules, {name: getattr(self, name) for name in rules})

    def _reads_rows(self, kind: str) -> bool:
        """Return whether the learner accepts rows that are not in memory, for labels etc."""
        return kind in self.reads_rows

    def _method(self) -> Method:
        """Return what a fit needs to know of the learner."""
        warm = getattr(self, "warm_start", False)
        fitted = getattr(self, "metric_", None) if warm else None
        prior, scale = getattr(self, "prior", "identity"), self._setting("scale")
        given = (fitted, prior, getattr(self, "init", None))
        untuned = scale == "auto" and not self._follows_paper and not warm
        if scale == "auto" and self._follows_paper:
            scale = "standard"
        elif scale == "auto" and warm and getattr(self, "scale_", None) is not None:
            scale = self.scale_
        seed = getattr(self, "random_state", 0)
        return Method(
            name=type(self).__name__,
            build=self._build_problem,
            numbers=self.supervision == ("numbers",),
            ignores_y=self.ignores_y,
            reads_rows=self._reads_rows,
            scale=scale,
            scales=self.auto_scales,
            given=next((m for m in given if isinstance(m, Metric)), None),
            prior=prior if isinstance(prior, Metric) else None,
            n_components=self.n_components,
            fraction=getattr(self, "validation_fraction", None),
            validates_labels=untuned and (prior is not None or self.shrinks_without_prior),
            validation=getattr(self, "validation", "rows"),
            seed=seed if isinstance(seed, int) else 0,
            feature_names=getattr(self, "feature_names_in_", None),
        )

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
            both learned from and held out. Only validation uses it.

        Returns
        -------
        self
        """
        self._check_parameters()
        with restore_on_error(self, X), limited_threads(getattr(self, "n_jobs", None)):
            data = self._checked(X, y, groups)
            method = self._method()
            fitting.check_learnable(data, method)
            scale = fitting.choose_scale(data, method)
            random_state = check_random_state(getattr(self, "random_state", None))
            warm = self._warm(data.X.shape[1])
            selection = fitting.select(data, scale, method)
            prepared = fitting.prepare(data, scale, random_state, warm)
            with mining_reports() as mined:
                problem = method.build(prepared)
            self._fit_problem(problem, prepared, data, method, selection, (X, y), mined)
            self.scale_ = scale
        return self

    def _fit_problem(
        self,
        problem: Problem,
        prepared: FitInput,
        data: Data,
        method: Method,
        selection: Selection,
        given: tuple[Any, Any] = (None, None),
        mined: list[Any] | None = None,
    ) -> None:
        """Run the solver and set the fitted attributes."""
        builder = fitting.builder_of(problem, prepared, method)
        notes = tuple(map(str, mined or ()))
        observer = partial(self._observed, problem, builder, given)
        history = fitting.run(problem, selection, notes=notes, observer=observer)
        fitted = fitting.finish(problem, history, builder, prepared, data.X, selection, method)
        attributes = problem.attributes(history, builder)
        if fitted.shrinkage is not None:
            attributes |= problem.shrunk_attributes(fitted.metric, prepared)
        attributes |= _basic_attributes(fitted.metric, history, builder)
        attributes |= {
            "prior_share_": selection.shrinkage,
            "_learned_metric": fitted.learned,
            "_shrinkage": fitted.shrinkage,
            "_n_known": method.n_before + len(data.supervision),
        }
        self.__dict__.pop("mining_", None)
        if mined:
            attributes["mining_"] = mined[-1]
        if getattr(self, "warm_start", False):
            state = problem.resume_state(history, builder)
            attributes["_last_fit"] = WarmStart(fitted.metric, state)
        for name, value in attributes.items():
            setattr(self, name, value)
        message = problem.warning_message(history, fitted.metric)
        if message:
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    def _observed(
        self,
        problem: Problem,
        builder: MetricBuilder,
        given: tuple[Any, Any],
        iterations: Iterator[Iteration],
        history: History,
    ) -> Iterable[Iteration]:
        """Let callbacks, progress displays and watchers see the iterations."""

        def metric() -> Any:
            return problem.metric(history, builder)

        return observed(
            iterations,
            FitInProgress(type(self).__name__, problem.max_iter, metric),
            self,
            *given,
            attributes=lambda: _basic_attributes(metric(), history, builder),
            notes=history.notes if getattr(self, "verbose", 0) else None,
        )

    def _checked(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        *,
        reset: bool = True,
        scoring: bool = False,
        min_samples: int = 2,
    ) -> Data:
        """Check X and y, and remember the features if `reset`."""
        method = self._method()
        if scoring:
            method = replace(method, ignores_y=False)
        validate = partial(validate_data, self, reset=reset)
        data = fitting.check(X, y, groups, method, validate, min_samples=min_samples)
        if reset and isinstance(data.X, Rows):
            self.n_features_in_ = data.X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            if data.X.feature_names is not None:
                self.feature_names_in_ = np.asarray(data.X.feature_names, dtype=object)
        return data

    def _warm(self, n_features: int) -> WarmStart | None:
        """Return where to continue: the metric of the last fit, or one that was set since."""
        metric = getattr(self, "metric_", None)
        if not getattr(self, "warm_start", False) or metric is None:
            return None
        if not hasattr(metric, "transform"):
            raise ValueError("warm_start cannot continue from a SignedForm, which is not a metric.")
        if metric.n_features != n_features:
            raise ValueError(
                f"warm_start: the fitted metric is for {metric.n_features} features; "
                f"X has {n_features}."
            )
        last: WarmStart | None = getattr(self, "_last_fit", None)
        return last if last is not None and last.metric is metric else WarmStart(metric)

    def estimate(self, X: ArrayLike, y: Any = None, *, budget: float = 5.0) -> Estimate:
        """Return the time and memory that `fit` will take, from fits to small samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), Triplets, Pairs or Chunklets
        budget : float, default=5.0
            About how many seconds the samples may take. More of them make the estimate better.

        Returns
        -------
        Estimate
            With `seconds`, `bytes` (peak memory beyond X) and `memory` (what takes it). ``print``
            shows it as a sentence. Data that take less than the budget are fitted whole.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from nearfar import NCA
        >>> found = NCA().estimate(*load_digits(return_X_y=True), budget=0.5)
        >>> found.seconds > 0, found.bytes > 0
        (True, True)
        """
        copy, planned = clone(self), getattr(self, "budget", None)
        copy._check_parameters()
        if planned is not None:
            copy.set_params(budget=SAMPLE_BUDGET)
        data = copy._checked(X, y)
        fitting.check_in_memory(data.X)
        fitting.check_learnable(data, copy._method())
        with limited_threads(getattr(self, "n_jobs", None)):
            return estimate_fit(copy._method(), data, budget=budget, planned=planned)

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
        points = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self.metric_.transform(points)

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
        data = self._checked(X, y, reset=False, scoring=True)
        fitting.check_in_memory(data.X)
        points, known = data.X, cast(Any, data.supervision)
        if known.kind == "pairs":
            if not known.can_teach:
                raise ValueError("To score pairs, both similar and dissimilar ones are needed.")
            distance = self.metric_.pair_distances(points, known.given.index)
            return float(roc_auc_score(known.given.similar, -distance, sample_weight=known.weight))
        if len(known) == 0:
            raise ValueError("There are no triplets to score.")
        Z = points
        if known.kind != "triplets":
            Z = Scaler.fit(points, "standard").transform(points)
        triplets = known.triplets(Z, NearestTriplets(), np.random.RandomState(0))
        right = self.metric_.prefers(points, triplets.index)
        return float(np.average(right, weights=triplets.weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = not self.ignores_y
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _basic_attributes(metric: Any, history: History, builder: MetricBuilder) -> dict[str, Any]:
    return {
        "metric_": metric,
        "history_": history,
        "n_iter_": len(history),
        "_builder": builder,
    }
