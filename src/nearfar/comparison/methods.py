"""What is compared: baselines, plain methods, and learners.

Methods are fitted to standardised rows, except those that take rows as they are (`Method.raw`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from nearfar.learners.auto import known_learners
from nearfar.learners.base import MetricLearner
from nearfar.learners.classic import InverseCovariance
from nearfar.learners.scaler import Scaler
from nearfar.metrics.metric import Metric
from nearfar.metrics.search import MANHATTAN, Distance, Pairwise
from nearfar.runtime.deadline import check_time, should_stop
from nearfar.typing import Floats, Ints

Kind = Literal["baseline", "plain", "learned"]
Learners = Mapping[str, Any] | Iterable[Any] | None

_SCIKIT_NCA = "NCA (scikit-learn)"
DEFAULT_LEARNERS = (
    _SCIKIT_NCA,
    "RCA",
    "LFDA",
    "KISSME",
    "GMML",
    "LMNN",
    "BoostMetric",
    "DRMetric",
    "MetricBoost",
    "MaxMarginMetric",
    "NCA",
    "MixtureNCA",
    "SparseNCA",
)
"""Learners that are compared by default; all others by name."""

_SCIKIT_NCA_MAX_ROWS = 5_000


@dataclass(frozen=True)
class Method:
    """A way to get a distance from labelled rows.

    Attributes
    ----------
    name : str
    kind : {"baseline", "plain", "learned"}
        Euclidean distance; a plain method, which costs next to nothing; or a learner.
    fit : callable
        Rows and labels -> Metric or Distance.
    raw : bool
        Whether it takes rows as they are, not standardised.
    estimator : estimator or None
        The learner, if there is one.
    non_negative : bool
        Whether it needs values of 0 or more.
    gives_metric : bool
        Whether `learn` returns a metric.
    max_rows : float
        The most rows that it can handle.
    """

    name: str
    kind: Kind
    fit: Callable[[Floats, Ints], Metric | Distance]
    raw: bool = False
    estimator: Any = None
    non_negative: bool = False
    gives_metric: bool = True
    max_rows: float = float("inf")

    def unsuitable(self, X: Floats) -> str:
        """Return why the method cannot be used on these rows, or an empty string."""
        if self.non_negative and X.min() < 0:
            return "needs values of 0 or more"
        if len(X) > self.max_rows:
            return f"needs a table of all pairs, not used beyond {self.max_rows} rows"
        return ""

    def learn(self, X: Floats, y: NDArray[Any]) -> Metric | None:
        """Learn a metric for unscaled rows; None if the distance is not a Mahalanobis metric.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from nearfar.comparison import default_methods
        >>> lda = next(method for method in default_methods() if method.name == "LDA")
        >>> lda.learn(*load_wine(return_X_y=True))
        <Metric: 13 features -> 2>
        """
        scaler = Scaler.fit(X, "standard")
        metric = self.fit(X if self.raw else scaler.transform(X), y)
        if not isinstance(metric, Metric):
            return None
        return metric if self.raw else Metric(metric.L / scaler.scale)


def default_methods(chosen: Learners = None, *, random_state: int | None = 0) -> list[Method]:
    """Return the baselines, the plain methods and learners.

    Parameters
    ----------
    chosen : mapping of str to estimator, or iterable of estimators or names of learners, optional
        Which learners; by default `DEFAULT_LEARNERS`, with default parameters. An estimator needs
        `fit` and `transform`, and is cloned.
    random_state : int or None, default=0
        Seed of the default learners.

    Examples
    --------
    >>> from nearfar.comparison import default_methods
    >>> [method.name for method in default_methods([])][:3]
    ['Euclidean, as is', 'Euclidean', 'L1']
    """
    methods = [
        Method("Euclidean, as is", "baseline", _euclidean, raw=True),
        Method("Euclidean", "baseline", _euclidean),
        Method("L1", "plain", _manhattan, gives_metric=False),
        Method("chi-square", "plain", _chi_square, raw=True, non_negative=True, gives_metric=False),
        Method("inverse covariance", "plain", partial(_fit_learner, InverseCovariance()), raw=True),
        Method("LDA", "plain", _discriminant),
    ]
    taken = {method.name for method in methods}
    for name, estimator in _named_estimators(chosen, random_state):
        while name in taken:
            name += "'"
        taken.add(name)
        methods.append(learned_method(name, estimator))
    return methods


def _named_estimators(chosen: Learners, random_state: int | None) -> Iterator[tuple[str, Any]]:
    known: dict[str, Any] = {_SCIKIT_NCA: NeighborhoodComponentsAnalysis(random_state=random_state)}
    for learner, kind in known_learners().items():
        if kind is InverseCovariance:
            continue
        seeded = "random_state" in kind._get_param_names()
        known[learner] = kind(random_state=random_state) if seeded else kind()
    if chosen is None:
        chosen = DEFAULT_LEARNERS
    elif isinstance(chosen, str):
        chosen = [chosen]
    for item in chosen:
        if isinstance(chosen, Mapping):
            name, estimator = str(item), chosen[item]
        elif not isinstance(item, str):
            name, estimator = type(item).__name__, item
        elif item in known:
            name, estimator = item, known[item]
        else:
            raise ValueError(f"There is no learner {item!r}; choose from {', '.join(known)}.")
        if isinstance(estimator, type) or not hasattr(estimator, "fit"):
            raise ValueError(f"{name!r} is not an estimator; write BoostMetric(), not BoostMetric.")
        if isinstance(estimator, MetricLearner) and "labels" not in estimator.supervision:
            raise ValueError(f"{name} does not learn from class labels, which methods share here.")
        yield name, estimator


def learned_method(name: str, estimator: Any) -> Method:
    """Return a learner, or another estimator with `fit` and `transform`, as a method.

    Examples
    --------
    >>> from nearfar import BoostMetric
    >>> from nearfar.comparison import learned_method
    >>> learned_method("mine", BoostMetric()).kind
    'learned'
    """
    if isinstance(estimator, NeighborhoodComponentsAnalysis):
        fit = partial(_fit_scikit_nca, estimator)
        return Method(name, "learned", fit, estimator=estimator, max_rows=_SCIKIT_NCA_MAX_ROWS)
    # nearfar's learners scale rows themselves, by their parameter `scale`.
    raw = isinstance(estimator, MetricLearner)
    return Method(name, "learned", partial(_fit_learner, estimator), raw=raw, estimator=estimator)


def _euclidean(X: Floats, _: Ints) -> Metric:
    return Metric.identity(X.shape[1])


def _manhattan(_X: Floats, _y: Ints) -> Distance:
    return Distance(np.asarray, MANHATTAN)


def _chi_square(_X: Floats, _y: Ints) -> Distance:
    return Distance(np.asarray, Pairwise(_chi_square_distances))


def _chi_square_distances(X: Floats, Y: Floats) -> Floats:
    """Sum of (x - y)^2 / (x + y)."""
    return -np.asarray(additive_chi2_kernel(X, Y))


def _discriminant(X: Floats, y: Ints) -> Metric:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Variables are collinear")
        found = LinearDiscriminantAnalysis().fit(X, y)
    return Metric(found.scalings_[:, : len(found.classes_) - 1].T)


class _EarlyStopError(Exception):
    """Ends a fit of scikit-learn's NCA."""


def _fit_scikit_nca(estimator: Any, X: Floats, y: Ints) -> Metric:
    last: Floats = np.empty(0)

    def watch(transformation: Floats, _: int) -> None:
        nonlocal last
        last = transformation
        check_time()
        if should_stop():
            raise _EarlyStopError

    try:
        return Metric(clone(estimator).set_params(callback=watch).fit(X, y).components_)
    except _EarlyStopError:
        return Metric(last.reshape(-1, X.shape[1]).copy())


def _fit_learner(estimator: Any, X: Floats, y: Ints) -> Metric | Distance:
    fitted = clone(estimator).fit(X, y)
    metric = getattr(fitted, "metric_", None)
    return metric if isinstance(metric, Metric) else Distance(fitted.transform)
