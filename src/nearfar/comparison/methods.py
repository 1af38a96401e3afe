"""What is compared: baselines, plain methods, and learners.

Methods are fitted to standardised rows, except those that take unscaled rows (`Method.raw`).
`DEFAULT_LEARNERS` lists the learners of a comparison that names none.

Reference classifiers and regressions, for comparison of errors. They are no metrics.

They have no neighbours and no search. A comparison runs them on the same features and folds as the
methods. They are neither tested nor recommended. Their fits are bounded: they learn from a sample
of the rows if there are many, and gradient boosting is left out if there are too many classes and
features for it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearfar.evidence.verdict import COSINE, STANDARDISED, UNSCALED
from nearfar.learners.base import Estimator, MetricLearner, fit_pipeline, known_learners, last_step
from nearfar.learners.classic import LDA, InverseCovariance
from nearfar.learners.scaling import Scaler
from nearfar.metrics.gallery import MANHATTAN, Distance, Pairwise
from nearfar.metrics.metric import Metric
from nearfar.metrics.variants import WideMetric
from nearfar.rows.rows import ArrayRows
from nearfar.runtime.messages import cut
from nearfar.supervision.supervision import MANY_CLASSES
from nearfar.typing import Array, Floats, Ints

Kind = Literal["baseline", "plain", "learned", "classifier"]
Learners = Mapping[str, Estimator] | Iterable[Estimator] | None

ALL = "all"
"""Names every learner that learns from the supervision."""


_COMPARED = sorted(
    (cls for cls in known_learners().values() if cls.compare_order is not None),
    key=lambda cls: cls.compare_order or 0,
)
DEFAULT_LEARNERS = tuple(cls.__name__ for cls in _COMPARED if cls.compared_on_labels)
"""`AutoMetric`, the methods of the papers, LMNN and NCA, and closed forms, which cost little."""

DEFAULT_JUDGEMENT_LEARNERS = tuple(cls.__name__ for cls in _COMPARED)
"""For triplets, pairs and numbers, of these the ones that learn from them."""

ANY_SUPERVISION = ("labels", "numbers", "pairs", "triplets")

_NAMES = {"labels": "class labels"}
# For learners that validate nothing by default, on classes that are new.
_VALIDATION_FRACTION = 0.2

# Larger arrays are read in blocks by simple methods that learn from all rows.
_IN_BLOCKS_BYTES = 1 << 26


@dataclass(frozen=True)
class Method:
    """A way to get a distance from rows and their supervision.

    Attributes
    ----------
    kind: Euclidean distance; a plain method, which costs next to nothing; a learner; or a
        classifier, which is no distance (`classifiers`).
    fit: Rows and labels or judgements -> Metric, Distance or FittedClassifier. That of a
        `MetricLearner` may also be given the groups of the rows.
    raw: Whether it takes unscaled rows, not standardised ones.
    estimator: The learner, if there is one.
    non_negative: Whether it needs values of 0 or more.
    gives_metric: Whether `learn` returns a metric. Other methods are compared, but not
        recommended.
    max_rows: The most rows that it can handle.
    limit: Why it can handle no more.
    supervision: What it can learn from: of "labels", "numbers", "pairs" and "triplets".
    """

    name: str
    kind: Kind
    fit: Callable[..., Any]
    raw: bool = False
    estimator: Estimator = None
    non_negative: bool = False
    gives_metric: bool = True
    max_rows: float = float("inf")
    limit: str = ""
    supervision: tuple[str, ...] = ANY_SUPERVISION

    @property
    def learner(self) -> MetricLearner | None:
        """The estimator, or the last step of a pipeline, if that is one of nearfar's learners."""
        last = last_step(self.estimator)
        return last if isinstance(last, MetricLearner) else None

    @property
    def plans_time(self) -> bool:
        """Whether the learner has a budget of its own, and spends it on what is worth it."""
        return self.learner is not None and "budget" in self.learner.get_params()

    def within(self, seconds: float) -> Method:
        """Return a method that plans its time, with at most this number of seconds for a fit."""
        return self._with(budget=min(last_step(self.estimator).budget, seconds))

    def for_new_classes(self) -> Method:
        """Return the method, with what it validates validated on classes it did not learn from."""
        learner = self.learner
        parameters = {} if learner is None else learner.get_params()
        if learner is None or "validation" not in parameters:
            return self
        if parameters.get("validation_fraction", 0.0) is None and learner.variant != "paper":
            return self._with(validation="classes", validation_fraction=_VALIDATION_FRACTION)
        return self._with(validation="classes")

    def for_numbers(self) -> Method:
        """Return the method for numbers to predict, even if they could be classes."""
        has_goal = self.learner is not None and "goal" in self.learner.get_params()
        return self._with(goal="regression") if has_goal else self

    def _with(self, **parameters: object) -> Method:
        estimator = clone(self.estimator)
        last_step(estimator).set_params(**parameters)
        return replace(self, fit=partial(_fit_learner, estimator), estimator=estimator)

    def unsuitable(self, X: Floats) -> str:
        """Return why the method cannot be used on these rows, or an empty string."""
        if self.non_negative and X.min() < 0:
            return "needs values of 0 or more"
        if len(X) > self.max_rows:
            return f"{self.limit}, not used beyond {self.max_rows} rows"
        return ""

    def fit_to(self, X: Floats, y: object, groups: Ints | None = None) -> Any:
        """Learn a distance, or a classifier.

        nearfar's learners validate on groups that they did not learn from.
        """
        return self.fit_with_votes(X, y, groups)[0]

    def fit_with_votes(
        self, X: Floats, y: object, groups: Ints | None = None
    ) -> tuple[Any, int | None]:
        """Learn a distance, and how many neighbours vote, if the learner put rows aside for it."""
        if self.kind != "learned":
            return self.fit(X, y), None
        fitted = _fitted(self.estimator, X, y, groups)
        return _distance_of(fitted), getattr(last_step(fitted), "n_neighbors_", None)

    def learn(self, X: Floats, y: object) -> Metric | None:
        """Learn a metric for unscaled rows; None if the distance is not a Mahalanobis metric."""
        scaler = Scaler.fit(X, "standard")
        if self.kind != "learned" and X.nbytes > _IN_BLOCKS_BYTES:
            # Simple methods sum over rows; in memory they would have several copies of them.
            rows = ArrayRows(X)
            metric = self.fit(rows if self.raw else rows.mapped(scaler.transform_block), y)
        else:
            metric = self.fit(X if self.raw else scaler.transform(X), y)
        if not isinstance(metric, Metric):
            return None
        return metric if self.raw else Metric(metric.L / scaler.scale)


def default_methods(
    chosen: Learners = None, *, random_state: int | None = 0, supervision: str = "labels"
) -> list[Method]:
    """Return the baselines, the plain methods and learners.

    Parameters
    ----------
    chosen: Which learners; by default those in `DEFAULT_LEARNERS`, with default parameters.
        "all" means every learner. An estimator needs `fit` and
        `transform`, and is cloned. Names of plain methods may be among them; these always
        take part. Estimators of one type are named with their parameters.
    random_state: Seed of the default learners.
    supervision: What methods learn from; those that cannot are left out.
    """
    methods = [
        Method(UNSCALED, "baseline", _euclidean, raw=True),
        Method(STANDARDISED, "baseline", _euclidean),
        Method(COSINE, "plain", partial(_euclidean, unit_rows=True), raw=True),
        Method("L1", "plain", _manhattan, gives_metric=False),
        Method("chi-square", "plain", _chi_square, raw=True, non_negative=True, gives_metric=False),
        Method("inverse covariance", "plain", partial(_fit_learner, InverseCovariance()), raw=True),
        Method("LDA", "plain", _discriminant, supervision=("labels",)),
    ]
    methods = [method for method in methods if supervision in method.supervision]
    names = {method.name for method in methods}
    for name, estimator in _named_estimators(chosen, random_state, supervision, names):
        if name in names and not isinstance(
            chosen, Mapping
        ):  # its parameters tell it from the other
            name = cut(" ".join(repr(estimator).split()))
        while name in names:
            name += "'"
        names.add(name)
        methods.append(learned_method(name, estimator))
    return methods


def _named_estimators(
    chosen: Learners, random_state: int | None, supervision: str, plain: Collection[str]
) -> Iterator[tuple[str, Estimator]]:
    kinds = known_learners()
    known: dict[str, Estimator] = {
        name: seeded(kind, random_state)
        for name, kind in kinds.items()
        if kind not in (InverseCovariance, LDA)
    }
    able = [name for name, learner in known.items() if supervision in _learns_from(learner)]
    if chosen is None:
        usual = DEFAULT_LEARNERS if supervision == "labels" else DEFAULT_JUDGEMENT_LEARNERS
        chosen = [name for name in usual if name in able]
    elif isinstance(chosen, str):
        chosen = able if chosen == ALL else [chosen]
    for item in chosen:
        if isinstance(chosen, Mapping):
            name, estimator = str(item), chosen[item]
        elif not isinstance(item, str):
            name, estimator = type(item).__name__, item
        elif item in known:
            name, estimator = item, known[item]
        elif _key(item) in map(_key, plain):
            continue
        else:
            names = ", ".join([*known, *plain])
            raise ValueError(f"There is no method {item!r}; choose from {names}.")
        if isinstance(estimator, type) or not hasattr(estimator, "fit"):
            raise ValueError(f"{name!r} is not an estimator; write BoostMetric(), not BoostMetric.")
        if supervision not in (known_from := _learns_from(estimator)):
            kinds_text, kind = ", ".join(known_from), _NAMES.get(supervision, supervision)
            raise ValueError(f"{name} does not learn from {kind}, but from {kinds_text}.")
        yield name, estimator


def _key(name: str) -> str:
    """Return a name without what tells "inverse covariance" from the class InverseCovariance."""
    return "".join(filter(str.isalnum, name)).lower()


def _learns_from(estimator: Estimator) -> tuple[str, ...]:
    """Return what an estimator learns from; one of another package may learn from anything."""
    if isinstance(last_step(estimator), MetricLearner):
        return last_step(estimator).supervision
    return ANY_SUPERVISION


def seeded(kind: type[MetricLearner], random_state: int | None) -> MetricLearner:
    """Return a learner with default parameters, and a seed if it takes one."""
    takes_seed = "random_state" in kind._get_param_names()
    return kind(random_state=random_state) if takes_seed else kind()


def euclidean_metrics(X: Floats) -> dict[str, Metric]:
    """Return Euclidean distance on unscaled and on standardised rows as metrics."""
    return {
        UNSCALED: _euclidean(X, None),
        STANDARDISED: Scaler.fit(X, "standard").euclidean,
    }


def baseline_metrics(X: Floats) -> dict[str, Metric]:
    """Return what may be the reference of a comparison as metrics: Euclidean and cosine
    distance.
    """
    return {**euclidean_metrics(X), COSINE: _euclidean(X, None, unit_rows=True)}


def learned_method(name: str, estimator: Estimator) -> Method:
    """Return a learner, or another estimator with `fit` and `transform`, as a method."""
    # nearfar's learners scale rows themselves, by their parameter `scale`.
    return Method(
        name,
        "learned",
        partial(_fit_learner, estimator),
        raw=isinstance(last_step(estimator), MetricLearner),
        estimator=estimator,
        supervision=_learns_from(estimator),
    )


def _euclidean(X: Floats, _: object, *, unit_rows: bool = False) -> Metric:
    n, width = X.shape
    if width <= n:
        return Metric(np.eye(width), unit_rows=unit_rows)
    # A matrix would have many more numbers than the rows.
    return WideMetric(
        np.ones(width), np.empty((width, 0)), np.empty((0, width)), unit_rows=unit_rows
    )


def _manhattan(_X: Floats, _y: Ints) -> Distance:
    return Distance(np.asarray, MANHATTAN)


def _chi_square(_X: Floats, _y: Ints) -> Distance:
    return Distance(np.asarray, Pairwise(_chi_square_distances, _paired_chi_square))


def _chi_square_distances(X: Floats, Y: Floats) -> Floats:
    """Sum of (x - y)^2 / (x + y)."""
    return -np.asarray(additive_chi2_kernel(X, Y))


def _paired_chi_square(X: Floats, Y: Floats) -> Floats:
    total = X + Y
    squares = (X - Y) ** 2
    return np.asarray(np.divide(squares, total, out=squares, where=total > 0).sum(axis=1))


def _discriminant(X: Floats, y: Ints) -> Metric:
    """Shrink only if classes have no variance in some direction."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="With shrinkage=0", category=UserWarning)
        try:
            return LDA(shrinkage=0.0).fit(X, y).metric_
        except UserWarning:
            return LDA().fit(X, y).metric_


def _fit_learner(
    estimator: Estimator, X: Floats, y: Ints, groups: Ints | None = None
) -> Metric | Distance:
    return _distance_of(_fitted(estimator, X, y, groups))


def _fitted(estimator: Estimator, X: Floats, y: object, groups: Ints | None) -> Estimator:
    own = clone(estimator)
    if isinstance(own, MetricLearner) and own.tells_expected:
        # Only the metric is wanted here; the folds of the comparison tell what to expect.
        own.set_params(expected_folds=1)
    grouped = groups if isinstance(last_step(own), MetricLearner) else None
    return fit_pipeline(own, X, y, groups=grouped)


def _distance_of(fitted: Estimator) -> Metric | Distance:
    metric = getattr(fitted, "metric_", None)
    return metric if isinstance(metric, Metric) else Distance(fitted.transform)


LOGISTIC, RIDGE, BOOSTING = "logistic regression", "ridge regression", "gradient boosting"

# With more rows, a fit for comparison takes too long; with fewer, it does not show what is
# possible.
_MOST_ROWS, _FEWEST_ROWS = 20_000, 1_000
# Twice scikit-learn's default, which standardised rows seldom need.
_LOGISTIC_ITERATIONS = 200
# Of ridge regression, which chooses by leave-one-out errors.
_STRENGTHS = np.logspace(-2, 4, 13)
# Half of scikit-learn's default iterations at twice the rate: as good, in half the time.
_BOOSTING_ITERATIONS, _LEARNING_RATE = 50, 0.2
# Rows x features x classes that fits for comparison may have: about ten seconds, as measured.
_LOGISTIC_CELLS, _BOOSTING_CELLS = 2.5e8, 1e7


@dataclass(frozen=True, eq=False)
class FittedClassifier:
    """A classifier that was fitted to rows of some classes."""

    model: BaseEstimator

    def predict(self, X: Floats) -> Array:
        """Return the classes of rows, as codes, or numbers."""
        return np.asarray(self.model.predict(X))


class SampledClassifier(BaseEstimator):
    """A classifier that learns from at most so many rows, a stratified sample."""

    def __init__(
        self, model: BaseEstimator | None = None, max_rows: int = _MOST_ROWS, random_state: int = 0
    ):
        self.model, self.max_rows, self.random_state = model, max_rows, random_state

    def fit(self, X: Floats, y: Array) -> FittedClassifier:
        """Fit a copy of the model."""
        if len(X) > self.max_rows:
            sizes = np.bincount(y) if y.dtype.kind in "iu" else np.ones(1)
            can_stratify = sizes[sizes > 0].min() > 1 and self.max_rows >= 2 * len(sizes)
            rows = train_test_split(
                np.arange(len(X)),
                train_size=self.max_rows,
                random_state=self.random_state,
                stratify=y if can_stratify else None,
            )[0]
            X, y = X[rows], y[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", MANY_CLASSES, UserWarning)
            return FittedClassifier(clone(self.model).fit(X, y))


def reference_classifiers(
    n_features: int, n_classes: int, random_state: int | None = 0
) -> list[Method]:
    """Return logistic or ridge regression, and gradient boosting, as methods of a comparison.

    Parameters
    ----------
    n_features, n_classes: What their time depends on beside the number of rows; 0 classes
        for numbers.
    """
    seed = 0 if random_state is None else random_state
    numbers = n_classes == 0
    linear = RidgeCV(_STRENGTHS) if numbers else LogisticRegression(max_iter=_LOGISTIC_ITERATIONS)
    trees = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    boosting = trees(
        max_iter=_BOOSTING_ITERATIONS,
        learning_rate=_LEARNING_RATE,
        # Without it, leaves of rows that are sure of their class grow beyond bounds.
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    )
    # Two classes need one score, others one each.
    n_scores = 1 if n_classes <= 2 else n_classes
    limits = {
        RIDGE if numbers else LOGISTIC: (make_pipeline(StandardScaler(), linear), _LOGISTIC_CELLS),
        BOOSTING: (boosting, _BOOSTING_CELLS),
    }
    why = f"would take too long with {n_features} features and {n_classes} classes"
    methods = []
    for name, (model, cells) in limits.items():
        max_rows = cells / (n_features * n_scores)
        estimator = SampledClassifier(model, int(np.clip(max_rows, 0, _MOST_ROWS)), seed)
        too_slow = max_rows < _FEWEST_ROWS
        methods.append(
            Method(
                name,
                "classifier",
                partial(SampledClassifier.fit, estimator),
                raw=True,
                estimator=estimator,
                gives_metric=False,
                # All rows of a small table, or a sample of more, must be affordable.
                max_rows=max(int(max_rows), 0) if too_slow else math.inf,
                limit=why,
                supervision=("numbers",) if numbers else ("labels",),
            )
        )
    return methods
