"""`MetricLearner`: what all learners share, from checked input to a fitted metric.

A fit runs in four steps, and a learner implements the third:

1. check X and the supervision; choose a scale (`auto_scale`), and scale X (`Scaler`),
2. choose the number of iterations and the shrinkage on held-out data (`validation`),
3. build the learner's `Problem` on the scaled points and run its solver, a generator of
   iterations that the history, callbacks and progress displays consume,
4. build the metric in the units of X from the base metric and what was learned (`MetricBuilder`),
   and shrink it.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.constraints import (
    Chunklets,
    ConstraintsOver,
    NearestTriplets,
    Pairs,
    Triplets,
    mining_reports,
    to_triplets,
)
from nearfar.learners.auto_scale import SCALES, choose_scale
from nearfar.learners.estimate import Estimate, estimate_fit
from nearfar.learners.explanations import failed_computation
from nearfar.learners.held_out import Validation
from nearfar.learners.metric_builder import MetricBuilder, covariance_matrix
from nearfar.learners.problem import FitInput, Problem, WarmStart
from nearfar.learners.rows_input import check_in_memory, input_rows, labels_of, mines_in_blocks
from nearfar.learners.scaler import Scaler
from nearfar.learners.validation import Plan, Shrinkage, choose_plan
from nearfar.metrics.metric import Metric
from nearfar.rows import Moments, Points, Rows, as_rows
from nearfar.runtime.deadline import check_time, should_stop
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.parameters import (
    Rule,
    boolean,
    check_parameters,
    choice,
    either,
    integer,
    number,
    optional,
)
from nearfar.runtime.progress import (
    CallbackSupportMixin,
    FitInProgress,
    notify,
    show,
    watched,
    with_callbacks,
)
from nearfar.runtime.threads import limited_threads
from nearfar.typing import Floats, Ints, Matrix, Vector

Prior = Literal["identity"] | Metric | None
Variant = Literal["default", "paper"]
ValidationFraction = float | Literal["auto"] | None

_CALLBACK_ATTRIBUTES = ("_callback", "_skl_callbacks")
_AUTO_FRACTION = 0.2
_FIRST_STAGE = 4
LARGEST_VALUE = 1e145
"""The largest value of X whose squares, and sums of them, do not overflow."""

_CONSTRAINTS = (Triplets, Pairs, Chunklets, ConstraintsOver)


class MetricLearner(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupportMixin, BaseEstimator, ABC
):
    """Base of the learners; see the module's docstring for how a fit runs."""

    parameter_rules: ClassVar[dict[str, Rule]] = {
        "scale": optional(choice("auto", "standard", "unit", "cosine")),
        "n_components": optional(integer(at_least=1)),
        "validation_fraction": either(choice("auto"), optional(number(above=0.0, at_most=0.5))),
        "validation": choice("rows", "classes"),
        "warm_start": boolean(),
        "n_jobs": Rule(
            "None or a nonzero integer",
            lambda value: value is None or (integer().accepts(value) and value != 0),
        ),
    }
    paper_settings: ClassVar[Mapping[str, Any]] = {}
    """Parameters that ``variant="paper"`` overrides."""

    supervision: ClassVar[tuple[str, ...]] = ("labels",)
    """What the learner learns from: of "labels", "chunklets", "pairs", "triplets", "numbers"."""

    shrinks_without_prior: ClassVar[bool] = False
    """Whether held-out data choose a shrinkage to Euclidean distance even if `prior` is None."""

    reads_rows: ClassVar[tuple[str, ...]] = ()
    """Kinds of supervision with which the learner accepts rows that are not in memory."""

    auto_scales: ClassVar[tuple[str, ...]] = SCALES
    """What ``scale="auto"`` chooses from."""

    _shrinkage: Shrinkage | None = None

    variant: Variant = "default"
    validation_fraction: ValidationFraction = None
    validation: Validation = "rows"
    warm_start: bool = False
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0

    def __init__(
        self,
        *,
        scale: str | None = "auto",
        n_components: int | None = None,
        validation_fraction: ValidationFraction = "auto",
        validation: Validation = "rows",
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.scale = scale
        self.n_components = n_components
        self.validation_fraction = validation_fraction
        self.validation = validation
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @abstractmethod
    def _build_problem(self, data: FitInput) -> Problem:
        """Build the learner's problem."""

    def _setting(self, name: str) -> Any:
        """Return a parameter, or what the paper has in its place."""
        if self.variant == "paper" and name in self.paper_settings:
            return self.paper_settings[name]
        return getattr(self, name)

    def _check_parameters(self) -> None:
        """Raise ValueError for parameters that make no sense."""
        for cls in reversed(type(self).__mro__):
            rules = vars(cls).get("parameter_rules", {})
            check_parameters(rules, {name: getattr(self, name) for name in rules})

    def _reads_rows(self, kind: str) -> bool:
        """Return whether the learner accepts rows that are not in memory, for labels etc."""
        return kind in self.reads_rows

    def _most_components(self, n_features: int) -> int:
        """Return the largest possible `n_components`."""
        return n_features

    @with_callbacks
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn a metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), path, Dask array or Rows
            Points; float32 stays float32. Some learners read a ``.npy`` file, Parquet files or a
            Dask array in blocks, so that they need not fit in memory.
        y : array-like of shape (n_samples,), Triplets, Pairs or Chunklets
            Class labels, or constraints as row numbers of X; `supervision` lists what the learner
            learns from. Triplets and pairs may have weights.

        Returns
        -------
        self
        """
        with self._kept_if_it_fails(X):
            self._check_parameters()
            with limited_threads(self.n_jobs):
                self._fit(X, y)
        return self

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
        learner = clone(self)
        learner._check_parameters()
        points, supervision = learner._validate(X, y)
        check_in_memory(points)
        check_magnitude(points)
        with limited_threads(self.n_jobs):
            return estimate_fit(learner, points, supervision, budget=budget)

    @contextmanager
    def _kept_if_it_fails(self, X: Any) -> Iterator[None]:
        """Restore the learner if a fit fails, and explain why it did."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException as error:
            kept = {k: v for k, v in self.__dict__.items() if k.startswith(_CALLBACK_ATTRIBUTES)}
            self.__dict__ = before | kept
            if isinstance(error, ValueError) and "could not convert string" in str(error):
                raise ValueError(
                    f"X has columns that are not numbers ({error}). Encode them, for example with "
                    "Columns.fit(X).column_transformer() of nearfar.columns."
                ) from error
            if isinstance(error, np.linalg.LinAlgError | FloatingPointError):
                raise failed_computation(error, X) from error
            raise

    def _fit(self, X: ArrayLike, y: Any) -> None:
        points, supervision = self._validate(X, y)
        check_magnitude(points)
        most = self._most_components(points.shape[1])
        if self.n_components is not None and self.n_components > most:
            raise ValueError(f"n_components must be at most {most}; got {self.n_components}.")
        scale = self._chosen_scale(points, supervision)
        random_state = check_random_state(self.random_state)
        warm = self._warm(points.shape[1])
        plan = self._plan(points, supervision, scale)
        data = FitInput.scaled(points, scale, supervision, random_state, warm)
        with mining_reports() as mined:
            problem = self._build_problem(data)
        builder = self._builder_of(problem, data)
        history = History(notes=tuple(map(str, mined)))
        self._consume(history, plan.limit(history, problem.solve()), problem, builder, X, y)
        self._set_fitted_attributes(problem, builder, data, points, history, plan)
        self.scale_ = scale
        if mined:
            self.mining_ = mined[-1]
        else:
            self.__dict__.pop("mining_", None)

    def _chosen_scale(self, X: Points, supervision: Any) -> str | None:
        """Return the scale to use, chosen by the data if it is "auto"."""
        scale: str | None = self._setting("scale")
        given = self._given_metric()
        if scale != "auto":
            if given is not None and given.unit_rows != (scale == "cosine"):
                kind = "unit rows" if given.unit_rows else "rows as they are"
                raise ValueError(
                    f"The given metric is for {kind}; use scale='auto', not {scale!r}."
                )
            return scale
        if self.variant == "paper":
            return "standard"
        if self.warm_start and hasattr(self, "scale_") and self.scale_ is not None:
            return self.scale_
        if given is None:
            return choose_scale(X, supervision, self.auto_scales)
        if given.unit_rows:
            return "cosine"
        return choose_scale(X, supervision, ["unit", "standard"])

    def _given_metric(self) -> Metric | None:
        """Return the metric that the fit starts from or adds to, if the user gave one."""
        fitted = getattr(self, "metric_", None) if self.warm_start else None
        candidates = (fitted, getattr(self, "prior", None), getattr(self, "init", None))
        return next((m for m in candidates if isinstance(m, Metric)), None)

    def _warm(self, n_features: int) -> WarmStart | None:
        """Return where to continue: the metric of the last fit, or one that was set since."""
        metric = getattr(self, "metric_", None)
        if not self.warm_start or metric is None:
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

    def _plan(self, X: Points, supervision: Any, scale: str | None) -> Plan:
        """Choose iterations and shrinkage on held-out data, unless that is turned off.

        "auto" does so for labels if the scale is left to the data too, there is a prior to shrink
        to, and no fit to be continued.
        """
        fraction = self.validation_fraction
        if fraction == "auto":
            untuned = self.scale == "auto" and self.variant != "paper" and not self.warm_start
            has_prior = getattr(self, "prior", "identity") is not None
            shrinks = has_prior or self.shrinks_without_prior
            labelled = "labels" in self.supervision and not isinstance(supervision, _CONSTRAINTS)
            fraction = _AUTO_FRACTION if untuned and shrinks and labelled else None
        if fraction is None or supervision is None:
            return Plan()
        if isinstance(X, Rows) and isinstance(supervision, _CONSTRAINTS):
            raise ValueError(
                "Constraints over rows that are not in memory are not validated; use "
                "validation_fraction=None."
            )
        return choose_plan(self, X, supervision, scale, fraction)

    def _trial(
        self, X: Floats, supervision: Any, scale: str | None, seed: int
    ) -> tuple[Metric, Iterator[tuple[int, Any]]]:
        """Return the prior for X, and the path of a fit to X."""
        random_state = np.random.RandomState(seed)
        data = FitInput.scaled(X, scale, self._consecutive(supervision), random_state)
        return self._prior_metric(data.scaler), self._path(data)

    def _learn(self, X: Floats, supervision: Any, scale: str | None, seed: int, plan: Plan) -> Any:
        """Return the metric of a fit to X that nobody watches, without shrinkage."""
        problem, builder = self._prepared(X, supervision, scale, seed)
        history = History()
        solver = plan.limit(history, problem.solve())
        with closing(solver):
            for _ in history.record(solver):
                if should_stop():
                    break
        return builder.metric(history)

    def _prepared(
        self, X: Floats, supervision: Any, scale: str | None, seed: int
    ) -> tuple[Problem, MetricBuilder]:
        """Return the problem of a fit to X that nobody watches, and what builds its metric."""
        random_state = np.random.RandomState(seed)
        data = FitInput.scaled(X, scale, self._consecutive(supervision), random_state)
        problem = self._build_problem(data)
        return problem, self._builder_of(problem, data)

    def _path(self, data: FitInput) -> Iterator[tuple[int, Any]]:
        """Yield metrics along a fit, each with the number of iterations that it took."""
        problem = self._build_problem(data)
        builder = replace(self._builder_of(problem, data), shortest=False)
        history, shown, number = History(), 0, _FIRST_STAGE
        solver = problem.solve()
        with closing(solver):
            for _ in history.record(solver):
                if problem.stops_early and len(history) >= number:
                    yield len(history), builder.metric(history)
                    shown, number = len(history), 2 * len(history)
                if should_stop():
                    break
        if len(history) > shown:
            yield len(history), builder.metric(history)

    def _prior_metric(self, scaler: Scaler) -> Metric:
        """Return what a metric is shrunk to: the prior, or Euclidean distance of scaled points."""
        prior = getattr(self, "prior", None)
        return prior if isinstance(prior, Metric) else scaler.euclidean

    def _builder_of(self, problem: Problem, data: FitInput) -> MetricBuilder:
        features = data.Z if problem.features is None else problem.features
        scale = data.scaler.scale if problem.features is None else np.ones(features.shape[1])
        return problem.builder(
            scale=scale * np.sqrt(problem.unit),
            base=problem.base,
            covariance=(
                None if self.n_components is None else covariance_matrix(features) / problem.unit
            ),
            n_components=self.n_components,
            feature_names=getattr(self, "feature_names_in_", None),
            center=data.scaler.center,
            kernel_map=problem.kernel_map,
            unit_rows=data.scaler.unit_rows,
        )

    def _consume(
        self,
        history: History,
        solver: Iterations,
        problem: Problem,
        builder: MetricBuilder,
        X: Any,
        y: Any,
    ) -> None:
        """Run the solver to its end, seen by callbacks, progress displays and watchers."""

        def attributes() -> dict[str, Any]:
            return {
                "metric_": builder.metric(history),
                "history_": history,
                "n_iter_": len(history),
                "_builder": builder,
            }

        check_time()
        fit = FitInProgress(type(self).__name__, problem.max_iter, lambda: builder.metric(history))
        iterations: Iterable[Iteration] = history.record(solver)
        iterations = notify(iterations, self, fit.max_iter, X=X, y=y, attributes=attributes)
        if self.verbose:
            iterations = show(iterations, fit, notes=history.notes)
        # Close an abandoned solver at once; it may hold a thread.
        with closing(solver):
            for _ in watched(iterations, fit):
                pass
        history.stopped = history.stopped or "callback"

    def _set_fitted_attributes(
        self,
        problem: Problem,
        builder: MetricBuilder,
        data: FitInput,
        X: Points,
        history: History,
        plan: Plan,
    ) -> None:
        self.metric_ = builder.metric(history)
        self.history_ = history
        self.n_iter_ = len(history)
        self.prior_share_ = plan.shrinkage
        self._shrinkage = None
        self._builder = builder
        fitted = problem.attributes(builder, history)
        if plan.shrinkage:
            prior = self._prior_metric(data.scaler)
            self._shrinkage = plan.shrinkage_to(prior, X, self.n_components)
            self.metric_ = self._shrinkage.apply(self.metric_)
            fitted |= problem.shrunk_attributes(self.metric_, data)
        for name, value in fitted.items():
            setattr(self, name, value)
        if self.warm_start:
            self._last_fit = WarmStart(self.metric_, problem.resume_state(builder, history))
        message = problem.shortcoming(history, self.metric_)
        if message:
            warnings.warn(message, ConvergenceWarning, stacklevel=5)

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
        points, supervision = self._validate(X, y, reset=False)
        if isinstance(supervision, ConstraintsOver):
            supervision = supervision.constraints
        if isinstance(supervision, Pairs):
            return self._pair_score(points, supervision)
        if not isinstance(supervision, Triplets):
            Z = Scaler.fit(points, "standard").transform(points)
            supervision = to_triplets(Z, supervision, NearestTriplets(), np.random.RandomState(0))
        supervision.check(len(points))
        if len(supervision) == 0:
            raise ValueError("There are no triplets to score.")
        right = self.metric_.prefers(points, supervision.index)
        return float(np.average(right, weights=supervision.weight))

    def _pair_score(self, X: Floats, pairs: Pairs) -> float:
        pairs.check(len(X))
        if pairs.similar.all() or not pairs.similar.any():
            raise ValueError("To score pairs, both similar and dissimilar ones are needed.")
        distance = self.metric_.pair_distances(X, pairs.index)
        return float(roc_auc_score(pairs.similar, -distance, sample_weight=pairs.weight))

    def _validate(self, X: ArrayLike, y: Any, *, reset: bool = True) -> tuple[Any, Any]:
        """Check X and the supervision; labels become class codes (`_target`)."""
        rows = input_rows(self, X, y)
        if rows is not None:
            if not reset:
                check_in_memory(rows)
            return rows, y if isinstance(y, _CONSTRAINTS) else self._target(labels_of(rows, y))
        if isinstance(y, _CONSTRAINTS):
            points = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
            if isinstance(y, ConstraintsOver) and len(y) != len(points):
                raise ValueError(
                    f"The constraints are over {len(y)} samples, but X has {len(points)} rows."
                )
            return points, y
        points, target = validate_data(
            self, X, y, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=2
        )
        return points, self._target(target)

    def _consecutive(self, supervision: Any) -> Any:
        """Return class codes of some rows without gaps; other supervision as it is."""
        if isinstance(supervision, _CONSTRAINTS) or "labels" not in self.supervision:
            return supervision
        return np.unique(supervision, return_inverse=True)[1]

    def _target(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return what to learn from: class codes, unless the learner takes other values."""
        check_classification_targets(y)
        return np.unique(y, return_inverse=True)[1]

    def _labels(self, supervision: Any) -> Ints:
        """Return class codes, or raise an error that says that they are needed."""
        if isinstance(supervision, ConstraintsOver):
            supervision = supervision.constraints
        if isinstance(supervision, Triplets | Pairs | Chunklets):
            raise ValueError(
                f"{type(self).__name__} learns from class labels; got {type(supervision).__name__}."
            )
        return np.asarray(supervision, dtype=np.intp)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class ConstraintLearner(MetricLearner):
    """Base of the learners that learn from constraints and add to a prior metric."""

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs", "triplets")
    parameter_rules: ClassVar[dict[str, Rule]] = {
        "constraints": optional(
            Rule(
                "a strategy such as NearestTriplets()",
                lambda value: callable(value) and not isinstance(value, type),
            )
        ),
        "prior": Rule(
            'None, "identity" or a Metric',
            lambda value: (
                value is None
                or isinstance(value, Metric)
                or (isinstance(value, str) and value == "identity")
            ),
        ),
        "prior_weight": number(at_least=0.0),
        "tol": number(at_least=0.0),
    }

    def __init__(
        self, *, constraints: Any, prior: Prior, prior_weight: float, tol: float, **others: Any
    ) -> None:
        super().__init__(**others)
        self.constraints = constraints
        self.tol = tol
        self.prior = prior
        self.prior_weight = prior_weight

    def _reads_rows(self, kind: str) -> bool:
        """Labels too, where triplets are accepted and the strategy can mine them in blocks."""
        mined = kind == "labels" and "triplets" in self.reads_rows
        return super()._reads_rows(kind) or (mined and mines_in_blocks(self.constraints))

    def _prior_factor(self, scaler: Scaler) -> Matrix | None:
        """Return the prior's factor on scaled points, or None if there is no prior."""
        prior: Prior = self._setting("prior")
        if prior is None or self.prior_weight == 0:
            return None
        if not isinstance(prior, Metric):
            return np.eye(len(scaler.scale))
        return factor_on_scaled_points(prior, scaler, "prior")


def check_magnitude(X: Points) -> None:
    """Refuse columns whose squares would overflow, or vanish."""
    if isinstance(X, Rows):
        moments = Moments.of(X)
        largest = np.maximum(moments.largest, -moments.smallest)
    else:
        largest = np.maximum(X.max(axis=0), -X.min(axis=0)).astype(np.float64)
    column = int(largest.argmax())
    if largest[column] > LARGEST_VALUE:
        raise ValueError(
            f"Column {column} of X has values up to {largest[column]:.0e}, whose squares overflow; "
            "divide it by a constant."
        )
    small = np.flatnonzero((largest > 0) & (largest < 1 / LARGEST_VALUE))
    if len(small):
        raise ValueError(
            f"Column {small[0]} of X has no value above {largest[small[0]]:.0e}, and squares of "
            "such values vanish; multiply it by a constant."
        )


def factor_on_scaled_points(metric: Any, scaler: Scaler, name: str) -> Matrix:
    """Return the map of one linear metric, for scaled points."""
    if len(metric.parts) > 1 or metric.kernel_map is not None:
        raise ValueError(f"The {name} must be one linear metric, without a kernel or a gate.")
    n_features = len(scaler.scale)
    if metric.n_features != n_features:
        raise ValueError(
            f"The {name} is a metric on {metric.n_features} features; X has {n_features}."
        )
    L: Vector = metric.parts[0].L
    return L * scaler.scale
