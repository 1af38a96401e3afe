"""`MetricLearner`: what all learners share, from checked input to a fitted `Metric`.

A fit runs in these steps, and a learner fills in the middle one:

1. check X and the supervision; scale X (`Scaler`),
2. let the solver run, a generator of rounds, watched by the trace, callbacks and progress,
3. assemble the metric in the units of X from the prior and what was learned (`MetricBuilder`).

Inside, points are centred and scaled, so that parameters mean the same whatever the units of X.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.constraints.constraints import Chunklets, ConstraintsOver, Pairs, Triplets
from nearfar.constraints.strategies import to_triplets
from nearfar.metrics.kernel_map import KernelMap
from nearfar.metrics.metric import Metric
from nearfar.runtime.deadline import check_time
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.progress import CallbackSupportMixin, notify, show, watched, with_callbacks
from nearfar.typing import Floats, Matrix

Prior = Literal["identity"] | Metric | None

_BLOCK_ROWS = 1 << 14
_OF_CALLBACKS = ("_callback", "_skl_callbacks")
_CONSTRAINTS = (Triplets, Pairs, Chunklets, ConstraintsOver)


@dataclass(frozen=True)
class Scaler:
    """Centre and scale of each feature: the way into the learner's units and back."""

    center: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def fit(cls, X: Floats, scale: str | None) -> Scaler:
        """Statistics of X; a constant feature keeps scale 1."""
        size = _power_of_two(max(float(X.max()), -float(X.min())))
        scaler = StandardScaler(with_std=scale == "standard")
        for top in range(0, len(X), _BLOCK_ROWS):
            scaler.partial_fit(np.asarray(X[top : top + _BLOCK_ROWS], dtype=np.float64) / size)
        spread = np.ones(X.shape[1]) if scaler.scale_ is None else scaler.scale_
        return cls(scaler.mean_ * size, spread if scale is None else spread * size)

    def transform(self, X: Floats) -> Floats:
        """Return X in the learner's units."""
        Z = X - self.center.astype(X.dtype)
        Z /= self.scale.astype(X.dtype)
        return Z

    @property
    def euclidean(self) -> Metric:
        """Euclidean distance in the learner's units, as a metric on X."""
        return Metric(np.diag(1.0 / self.scale))


def _power_of_two(size: float) -> float:
    """Return the power of two next to `size`: dividing by it rounds nothing."""
    return 2.0 ** min(1020, max(-1020, math.frexp(size)[1])) if size > 0 else 1.0


@dataclass(frozen=True)
class MetricBuilder:
    """Everything but the solver's result that the final metric is made of.

    Attributes
    ----------
    prior : array of shape (rank, n_features) or None
        Factor of the prior metric in the learner's units, weighted.
    scale : array of shape (n_features,)
        What a unit of the learner is in units of X, for each feature.
    covariance : array of shape (n_features, n_features) or None
        Of the training points in the learner's units; needed to choose components.
    n_components : int or None
    feature_names : tuple of str or None
    kernel_map : KernelMap or None
        What maps points to the features that the metric is for.
    center : array of shape (n_features,) or None
        What the learner's units are centred at, in units of X.
    """

    prior: Matrix | None
    scale: NDArray[np.float64]
    covariance: Matrix | None
    n_components: int | None
    feature_names: tuple[str, ...] | None
    kernel_map: KernelMap | None = None
    center: NDArray[np.float64] | None = None

    def metric(self, learned: Matrix) -> Metric:
        """Add the prior to a learned factor and return the metric in the units of X.

        With `n_components` the kept coordinates are the principal axes of the mapped training
        points: the best approximation of their distances in that many dimensions.
        """
        factor = learned if self.prior is None else np.vstack([self.prior, learned])
        L = Metric.from_matrix(factor.T @ factor).L
        if self.n_components is not None and self.covariance is not None:
            axes = np.linalg.eigh(L @ self.covariance @ L.T)[1][:, ::-1]
            L = axes[:, : self.n_components].T @ L
        return Metric(L / self.scale, self.feature_names, kernel_map=self.kernel_map)

    def form(self, learned: Matrix, signs: NDArray[np.float64]) -> Matrix:
        """Prior plus learned terms with their signs, as a matrix in the units of X."""
        M = (learned.T * signs) @ learned
        if self.prior is not None:
            M = M + self.prior.T @ self.prior
        return M / np.outer(self.scale, self.scale)


class MetricLearner(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupportMixin, BaseEstimator, ABC
):
    """Base of the learners; see the module's docstring for how a fit runs."""

    def __init__(
        self,
        *,
        constraints: Any = None,
        prior: Prior = "identity",
        prior_weight: float = 1.0,
        scale: str | None = "standard",
        n_components: int | None = None,
        tol: float = 1e-7,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.constraints = constraints
        self.prior = prior
        self.prior_weight = prior_weight
        self.scale = scale
        self.n_components = n_components
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _build_problem(
        self, Z: Floats, scaler: Scaler, supervision: Any, random_state: np.random.RandomState
    ) -> Problem:
        """Pose the learner's problem on scaled points."""

    def _factor(self, trace: History) -> tuple[Matrix, NDArray[np.float64]]:
        """Return the factor that the rounds have learned, in the learner's units, and its signs."""
        factor = trace[-1].factor
        assert factor is not None
        return factor, np.ones(len(factor))

    def _result(self, builder: MetricBuilder, trace: History) -> Any:
        """Return the metric after the rounds."""
        return builder.metric(self._factor(trace)[0])

    def _check_parameters(self) -> None:
        """Raise ValueError for parameters that make no sense."""
        require(
            "scale",
            self.scale,
            self.scale in ("standard", "unit", None),
            '"standard", "unit" or None',
        )
        known = (
            self.prior is None
            or isinstance(self.prior, Metric)
            or (isinstance(self.prior, str) and self.prior == "identity")
        )
        require("prior", self.prior, known, 'None, "identity" or a Metric')
        require_number("prior_weight", self.prior_weight, at_least=0.0)
        require_number("tol", self.tol, at_least=0.0)
        usable = self.constraints is None or (
            callable(self.constraints) and not isinstance(self.constraints, type)
        )
        require("constraints", self.constraints, usable, "a strategy such as NearestTriplets()")
        if self.n_components is not None:
            require_integer("n_components", self.n_components, at_least=1)

    def _most_components(self, n_features: int) -> int:
        """Return how many components there can be."""
        return n_features

    def _prior_factor(self, scaler: Scaler) -> Matrix | None:
        """Return the prior's factor on scaled points."""
        n_features = len(scaler.scale)
        if self.prior is None or self.prior_weight == 0:
            return None
        if not isinstance(self.prior, Metric):
            return np.eye(n_features)
        if self.prior.kernel_map is not None or not hasattr(self.prior, "L"):
            raise ValueError("A prior must be one linear metric, without kernel or gate.")
        if self.prior.n_features != n_features:
            raise ValueError(
                f"The prior is a metric on {self.prior.n_features} features; X has {n_features}."
            )
        return self.prior.L * scaler.scale

    @with_callbacks
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn a metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points; float32 stays float32.
        y : array-like of shape (n_samples,), Triplets or Pairs
            Class labels, or constraints as row numbers of X.

        Returns
        -------
        self
        """
        before = self.__dict__.copy()
        try:
            self._fit(X, y)
        except BaseException:
            of_callbacks = {k: v for k, v in self.__dict__.items() if k.startswith(_OF_CALLBACKS)}
            self.__dict__ = before | of_callbacks
            raise
        return self

    def _fit(self, X: ArrayLike, y: Any) -> None:
        self._check_parameters()
        points, supervision = self._validate(X, y)
        most = self._most_components(points.shape[1])
        if self.n_components is not None and self.n_components > most:
            raise ValueError(f"n_components={self.n_components} is more than the {most} features.")
        random_state = check_random_state(self.random_state)
        scaler = Scaler.fit(points, self.scale)
        Z = scaler.transform(points)
        problem = self._build_problem(Z, scaler, supervision, random_state)
        features = Z if problem.features is None else problem.features
        scale = scaler.scale if problem.features is None else np.ones(features.shape[1])
        builder = MetricBuilder(
            prior=problem.prior,
            scale=scale * np.sqrt(problem.unit),
            covariance=None if self.n_components is None else _covariance(features) / problem.unit,
            n_components=self.n_components,
            feature_names=getattr(self, "feature_names_in_", None),
            kernel_map=problem.kernel_map,
            center=scaler.center,
        )
        trace = History()
        self._consume(trace, problem, builder, scaler, X, y)
        metric = self._result(builder, trace)
        self.history_ = trace
        self.n_iter_ = len(trace)
        self.metric_ = metric
        self._builder = builder
        self._scaler = scaler
        self._set_fitted_attributes(problem, trace)

    def _set_fitted_attributes(self, problem: Problem, trace: History) -> None:
        """Set what a learner has beyond the common attributes, and warn."""

    @property
    def components_(self) -> Matrix:
        """The map L of the metric, of shape (n_components, n_features)."""
        return self.metric_.L

    @property
    def _n_features_out(self) -> int:
        return self.metric_.n_components

    def transform(self, X: ArrayLike) -> Floats:
        """Map points to where Euclidean distance is the learned metric.

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
        """Share of comparisons that the metric orders rightly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), Triplets or Pairs
            For triplets, and the triplets that the learner's strategy makes from labels: the
            weighted share whose near is nearer than its far. For pairs: the probability that a
            similar pair is nearer than a dissimilar one (the area under the ROC curve).
        """
        check_is_fitted(self)
        points, supervision = self._validate(X, y, reset=False)
        if isinstance(supervision, ConstraintsOver):
            supervision = supervision.constraints
        if not isinstance(supervision, Pairs):
            seed = check_random_state(0 if self.random_state is None else self.random_state)
            supervision = self._constraints(self._scaler.transform(points), supervision, seed)
        supervision.check(len(points))
        if isinstance(supervision, Triplets):
            right = self.metric_.prefers(points, supervision.index)
            return float(np.average(right, weights=supervision.weight))
        if supervision.similar.all() or not supervision.similar.any():
            raise ValueError("Scoring pairs takes similar and dissimilar ones.")
        distance = self.metric_.pair_distances(points, supervision.index)
        return float(
            roc_auc_score(supervision.similar, -distance, sample_weight=supervision.weight)
        )

    def _constraints(
        self, Z: Floats, supervision: Any, random_state: np.random.RandomState
    ) -> Triplets | Pairs:
        """Return labels or triplets as constraints on scaled points."""
        return to_triplets(Z, supervision, self._strategy(), random_state)

    @abstractmethod
    def _strategy(self) -> Any:
        """Return what makes constraints from labels."""

    def _validate(self, X: ArrayLike, y: Any, *, reset: bool = True) -> tuple[Floats, Any]:
        """Check X and the supervision; labels become class codes."""
        if isinstance(y, _CONSTRAINTS):
            points = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
            if isinstance(y, ConstraintsOver) and len(y) != len(points):
                raise ValueError(
                    f"Constraints over {len(y)} samples, but X has {len(points)} rows."
                )
            return points, y
        points, labels = validate_data(
            self, X, y, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=2
        )
        check_classification_targets(labels)
        return points, np.unique(labels, return_inverse=True)[1]

    def _consume(
        self,
        trace: History,
        problem: Problem,
        builder: MetricBuilder,
        scaler: Scaler,
        X: Any,
        y: Any,
    ) -> None:
        """Run the solver to its end, watched by whoever asked."""

        def attributes() -> dict[str, Any]:
            return {
                "metric_": self._result(builder, trace),
                "history_": trace,
                "n_iter_": len(trace),
                "_builder": builder,
                "_scaler": scaler,
            }

        check_time()
        rounds: Iterable[Iteration] = trace.record(problem.rounds)
        rounds = notify(rounds, self, problem.max_iter, X=X, y=y, attributes=attributes)
        if self.verbose:
            rounds = show(rounds, problem.max_iter, type(self).__name__)
        # A solver that is left in the middle must not wait until somebody collects it.
        with closing(problem.rounds):
            for _ in watched(rounds, problem.max_iter, type(self).__name__):
                pass
        trace.stopped = trace.stopped or "callback"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(frozen=True)
class Problem:
    """A solver ready to run on scaled points.

    Attributes
    ----------
    rounds : generator of Iteration
    max_iter : int
    unit : float
        Squared distance between scaled points that the solver calls one.
    prior : array of shape (rank, n_features) or None
        Factor of the prior in the solver's units, weighted.
    features : array of shape (n_samples, n_map_features) or None
        What a kernel map makes of the scaled points, if the solver sees that.
    kernel_map : KernelMap or None
        The map, from points in the units of X.
    """

    rounds: Iterations
    max_iter: int
    unit: float
    prior: Matrix | None
    features: Floats | None = field(default=None, kw_only=True)
    kernel_map: KernelMap | None = field(default=None, kw_only=True)


def _covariance(X: Floats) -> Matrix:
    """Covariance of the columns."""
    centered = X - X.mean(axis=0)
    return np.asarray(centered.T @ centered, dtype=np.float64) / len(X)


def require(name: str, value: Any, condition: bool, expected: str) -> None:
    """Raise ValueError unless the condition on a parameter holds."""
    if not condition:
        raise ValueError(f"{name} must be {expected}; got {value!r}.")


def require_number(name: str, value: Any, *, at_least: float) -> None:
    """Raise ValueError unless a parameter is a finite number that is large enough."""
    fine = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    require(
        name, value, fine and np.isfinite(value) and value >= at_least, f"a number >= {at_least:g}"
    )


def require_integer(name: str, value: Any, *, at_least: int) -> None:
    """Raise ValueError unless a parameter is a whole number that is large enough."""
    fine = isinstance(value, int | np.integer) and not isinstance(value, bool)
    require(name, value, fine and value >= at_least, f"a whole number >= {at_least}")
