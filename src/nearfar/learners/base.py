"""`MetricLearner`: what all learners share, from checked input to a fitted metric.

A fit runs in three steps, and a learner implements the second:

1. check X and the supervision; scale X (`Scaler`),
2. build the learner's `Problem` on the scaled points and run its solver, a generator of
   iterations that the history, callbacks and progress displays consume,
3. build the metric in the units of X from the base metric and what was learned (`MetricBuilder`).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
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
    to_triplets,
)
from nearfar.learners.metric_builder import MetricBuilder, covariance_matrix
from nearfar.learners.scaler import Scaler
from nearfar.metrics.kernel_map import KernelMap
from nearfar.metrics.metric import Metric
from nearfar.runtime.deadline import check_time
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.parameters import (
    Rule,
    boolean,
    check_parameters,
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
from nearfar.typing import Floats, Matrix, Vector

Prior = Literal["identity"] | Metric | None
Variant = Literal["default", "paper"]

_CALLBACK_ATTRIBUTES = ("_callback", "_skl_callbacks")
_CONSTRAINTS = (Triplets, Pairs, Chunklets, ConstraintsOver)


@dataclass(frozen=True)
class WarmStart:
    """Where a fit continues.

    Attributes
    ----------
    metric : Metric
        The metric of the last fit, or one that was loaded from a file.
    state : object or None
        What the problem of the last fit returned as `Problem.resume_state`; None for a metric that
        was loaded.
    """

    metric: Any
    state: Any = None


@dataclass(frozen=True)
class FitInput:
    """Checked and scaled input of a fit.

    Attributes
    ----------
    Z : array of shape (n_samples, n_features)
        Scaled points.
    scaler : Scaler
    supervision : array of class codes or numbers, Triplets, Pairs, or their `over` form
    random_state : RandomState
    warm : WarmStart or None
    """

    Z: Floats
    scaler: Scaler
    supervision: Any
    random_state: np.random.RandomState
    warm: WarmStart | None


class Problem(ABC):
    """A learner's problem on scaled points.

    Attributes
    ----------
    max_iter : int
        The most iterations of `solve`.
    unit : float
        The squared distance between scaled points that the solver calls one.
    base : array of shape (rank, n_features) or None
        Factor of the metric that learned terms are added to, in the solver's units.
    features : array of shape (n_samples, n_map_features) or None
        What the solver sees instead of the scaled points, if there is a kernel map.
    kernel_map : KernelMap or None
        The map to these features, from points in the units of X.
    builder : type of MetricBuilder
        What turns iterations into a metric.
    """

    max_iter: int
    unit: float
    base: Matrix | None = None
    features: Floats | None = None
    kernel_map: KernelMap | None = None

    @abstractmethod
    def solve(self) -> Iterations:
        """Run the solver."""

    def builder(self, **parts: Any) -> MetricBuilder:
        """Return what turns iterations into a metric."""
        return MetricBuilder(**parts)

    def attributes(self, builder: MetricBuilder, history: History) -> dict[str, Any]:
        """Return the fitted attributes that the learner has beyond the common ones."""
        return {}

    def resume_state(self, builder: MetricBuilder, history: History) -> Any:
        """Return what a warm start needs beyond the metric."""
        return None

    def shortcoming(self, history: History, metric: Any) -> str:
        """Return what to warn of, or an empty string."""
        return ""


class MetricLearner(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupportMixin, BaseEstimator, ABC
):
    """Base of the learners; see the module's docstring for how a fit runs."""

    parameter_rules: ClassVar[dict[str, Rule]] = {
        "scale": Rule(
            '"standard", "unit" or None', lambda value: value in ("standard", "unit", None)
        ),
        "n_components": optional(integer(at_least=1)),
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

    variant: Variant = "default"
    warm_start: bool = False
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0

    def __init__(
        self,
        *,
        scale: str | None = "standard",
        n_components: int | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.scale = scale
        self.n_components = n_components
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

    def _most_components(self, n_features: int) -> int:
        """Return the largest possible `n_components`."""
        return n_features

    @with_callbacks
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn a metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points; float32 stays float32.
        y : array-like of shape (n_samples,), Triplets or Pairs
            Class labels, or constraints as row numbers of X. Constraints may have weights.

        Returns
        -------
        self
        """
        before = self.__dict__.copy()
        try:
            self._check_parameters()
            with limited_threads(self.n_jobs):
                self._fit(X, y)
        except BaseException:
            kept = {k: v for k, v in self.__dict__.items() if k.startswith(_CALLBACK_ATTRIBUTES)}
            self.__dict__ = before | kept
            raise
        return self

    def _fit(self, X: ArrayLike, y: Any) -> None:
        points, supervision = self._validate(X, y)
        most = self._most_components(points.shape[1])
        if self.n_components is not None and self.n_components > most:
            raise ValueError(f"n_components must be at most {most}; got {self.n_components}.")
        scaler = Scaler.fit(points, self._setting("scale"))
        data = FitInput(
            scaler.transform(points),
            scaler,
            supervision,
            check_random_state(self.random_state),
            self._warm(points.shape[1]),
        )
        problem = self._build_problem(data)
        builder = self._builder_of(problem, data)
        history = History()
        self._consume(history, problem, builder, scaler, X, y)
        self._set_fitted_attributes(problem, builder, scaler, history)

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
        )

    def _consume(
        self,
        history: History,
        problem: Problem,
        builder: MetricBuilder,
        scaler: Scaler,
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
        solver = problem.solve()
        iterations: Iterable[Iteration] = history.record(solver)
        iterations = notify(iterations, self, fit.max_iter, X=X, y=y, attributes=attributes)
        if self.verbose:
            iterations = show(iterations, fit)
        # Close an abandoned solver at once; it may hold a thread.
        with closing(solver):
            for _ in watched(iterations, fit):
                pass
        history.stopped = history.stopped or "callback"

    def _set_fitted_attributes(
        self, problem: Problem, builder: MetricBuilder, scaler: Scaler, history: History
    ) -> None:
        self.metric_ = builder.metric(history)
        self.history_ = history
        self.n_iter_ = len(history)
        self._builder = builder
        for name, value in problem.attributes(builder, history).items():
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
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_components)
        """
        check_is_fitted(self)
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

    def _validate(self, X: ArrayLike, y: Any, *, reset: bool = True) -> tuple[Floats, Any]:
        """Check X and the supervision; labels become class codes (`_target`)."""
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

    def _target(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return what to learn from: class codes, unless the learner takes other values."""
        check_classification_targets(y)
        return np.unique(y, return_inverse=True)[1]

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

    def _prior_factor(self, scaler: Scaler) -> Matrix | None:
        """Return the prior's factor on scaled points, or None if there is no prior."""
        prior: Prior = self._setting("prior")
        if prior is None or self.prior_weight == 0:
            return None
        if not isinstance(prior, Metric):
            return np.eye(len(scaler.scale))
        return factor_on_scaled_points(prior, scaler, "prior")


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
