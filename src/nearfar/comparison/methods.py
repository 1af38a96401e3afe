"""Who competes: doing nothing, plain methods, scikit-learn's NCA, and the learners.

All get the same standardised rows, except those whose point is that they take rows as they are.
"""

from __future__ import annotations

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import pinvh
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics.pairwise import additive_chi2_kernel, euclidean_distances
from sklearn.neighbors import NearestNeighbors, NeighborhoodComponentsAnalysis

from nearfar.learners.base import MetricLearner, Scaler
from nearfar.metrics.metric import Metric
from nearfar.runtime.deadline import check_time
from nearfar.typing import Floats, Ints

Kind = Literal["nothing", "plain", "learned"]
Tiles = Iterator[tuple[Ints, NDArray[np.float64]]]

_TILE_ELEMENTS = 1 << 22
_QUERIES = 1 << 11
_MOST_ROWS_OF_TABLE = 5_000
_SCIKIT_NCA = "NCA (scikit-learn)"


class Distance(ABC):
    """Distances from queries to a gallery."""

    @abstractmethod
    def tiles(self, gallery: Floats, queries: Floats) -> Tiles:
        """Yield rows of queries, and what orders the gallery for them, nearest smallest."""

    def nearest(self, gallery: Floats, queries: Floats, k: int) -> Ints:
        """Return the k nearest rows of the gallery to each query, in any order."""
        found = np.empty((len(queries), k), dtype=np.intp)
        for rows, tile in self.tiles(gallery, queries):
            found[rows] = np.argpartition(finite(tile), k - 1, axis=1)[:, :k]
        return found


@dataclass(frozen=True)
class Pairwise(Distance):
    """A distance that is no Mahalanobis metric, from a function of two arrays.

    Attributes
    ----------
    function : callable
        Queries and gallery -> distances.
    known_as : str or None
        What scikit-learn's search knows it by.
    """

    function: Callable[[Floats, Floats], Floats]
    known_as: str | None = None

    def nearest(self, gallery: Floats, queries: Floats, k: int) -> Ints:  # noqa: D102
        if self.known_as is None:
            return super().nearest(gallery, queries, k)
        search = NearestNeighbors(n_neighbors=k, algorithm="brute", metric=self.known_as)
        search.fit(finite(gallery))
        parts = []
        for start in range(0, len(queries), _QUERIES):
            check_time()
            some = finite(queries[start : start + _QUERIES])
            parts.append(search.kneighbors(some, return_distance=False))
        return np.concatenate(parts)

    def tiles(self, gallery: Floats, queries: Floats) -> Tiles:  # noqa: D102
        size = max(1, _TILE_ELEMENTS // len(gallery))
        for start in range(0, len(queries), size):
            check_time()
            rows = np.arange(start, min(start + size, len(queries)))
            yield rows, np.asarray(self.function(queries[rows], gallery))


_SQUARED = Pairwise(partial(euclidean_distances, squared=True), "sqeuclidean")


def _centred(map_: Any, gallery: Floats, queries: Floats) -> tuple[Floats, Floats]:
    """Map rows and move them to the middle: distances come from inner products, which cancel."""
    embedded = np.asarray(map_.transform(gallery))
    center = embedded.mean(axis=0)
    return embedded - center, np.asarray(map_.transform(queries)) - center


def finite(values: Floats) -> Floats:
    """Return numbers, or raise ValueError if some are too large to be any."""
    if not np.isfinite(values).all():
        raise ValueError("distances are not finite: numbers are too large")
    return values


@dataclass(frozen=True)
class Mapped(Distance):
    """Euclidean distance after a metric's map, or after each map of a gated metric."""

    metric: Metric

    def tiles(self, gallery: Floats, queries: Floats) -> Tiles:  # noqa: D102
        for rows, space in self.metric.spaces(queries):
            for part, tile in _SQUARED.tiles(*_centred(space, gallery, queries[rows])):
                yield rows[part], tile

    def nearest(self, gallery: Floats, queries: Floats, k: int) -> Ints:  # noqa: D102
        found = np.empty((len(queries), k), dtype=np.intp)
        for rows, space in self.metric.spaces(queries):
            found[rows] = _SQUARED.nearest(*_centred(space, gallery, queries[rows]), k)
        return found


@dataclass(frozen=True)
class Transformed(Distance):
    """Euclidean distance after the `transform` of any estimator."""

    estimator: Any

    def tiles(self, gallery: Floats, queries: Floats) -> Tiles:  # noqa: D102
        yield from _SQUARED.tiles(*_centred(self.estimator, gallery, queries))

    def nearest(self, gallery: Floats, queries: Floats, k: int) -> Ints:  # noqa: D102
        return _SQUARED.nearest(*_centred(self.estimator, gallery, queries), k)


@dataclass(frozen=True)
class Method:
    """Something that turns labelled rows into a distance.

    Attributes
    ----------
    name : str
    kind : {"nothing", "plain", "learned"}
        Doing nothing; a plain method, at next to no price; or something that has to be learned.
    fit : callable
        Rows and labels -> Distance.
    raw : bool
        Whether it takes rows as they are, not standardised.
    estimator : estimator or None
        What learns, for those that come from one.
    counts : bool
        Whether values must not be negative.
    maps : bool
        Whether it ends in a map, so that `learn` gives a metric.
    most_rows : float
        More rows than these are too much for it.
    """

    name: str
    kind: Kind
    fit: Callable[[Floats, Ints], Distance]
    raw: bool = False
    estimator: Any = None
    counts: bool = False
    maps: bool = True
    most_rows: float = float("inf")

    def unsuited(self, X: Floats) -> str:
        """Why it cannot compete on these rows, or an empty string."""
        if self.counts and X.min() < 0:
            return "needs values of 0 or more"
        if len(X) > self.most_rows:
            return f"holds tables of all pairs: not run on more than {self.most_rows} rows"
        return ""

    def learn(self, X: Floats, y: NDArray[Any]) -> Metric | None:
        """Learn from all rows, as they are; None if the distance is no Mahalanobis metric.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from nearfar.comparison import default_methods
        >>> lda = next(c for c in default_methods() if c.name == "LDA")
        >>> lda.learn(*load_wine(return_X_y=True))
        <Metric: 13 features -> 2>
        """
        scaler = Scaler.fit(X, "standard")
        distance = self.fit(X if self.raw else scaler.transform(X), y)
        if not isinstance(distance, Mapped):
            return None
        return distance.metric if self.raw else Metric(distance.metric.L / scaler.scale)


def learners() -> dict[str, type[MetricLearner]]:
    """Return every learner of nearfar by the name of its class.

    Examples
    --------
    >>> from nearfar.comparison import learners
    >>> learners()["BoostMetric"]
    <class 'nearfar.learners.boosting.boostmetric.BoostMetric'>
    """
    found: dict[str, type[MetricLearner]] = {}
    waiting: list[Any] = [MetricLearner]
    while waiting:
        kind = waiting.pop()
        waiting += reversed(kind.__subclasses__())
        hidden = inspect.isabstract(kind) or kind.__name__.startswith("_")
        if kind.__module__.startswith("nearfar.") and not hidden:
            found[kind.__name__] = kind
    return found


def default_methods(
    chosen: Mapping[str, Any] | Iterable[Any] | None = None, *, random_state: int | None = 0
) -> list[Method]:
    """Return doing nothing, the plain methods, and learners.

    Parameters
    ----------
    chosen : mapping of str to estimator, or iterable of estimators or names of learners, optional
        Which learners; by default scikit-learn's NCA and all of nearfar's, as they come. An
        estimator needs `fit` and `transform`, and is cloned.
    random_state : int or None, default=0
        Seed of the default learners.

    Examples
    --------
    >>> from nearfar.comparison import default_methods
    >>> [c.name for c in default_methods([])][:3]
    ['Euclidean, as is', 'Euclidean', 'L1']
    """
    plain = [
        Method("Euclidean, as is", "nothing", _euclidean, raw=True),
        Method("Euclidean", "nothing", _euclidean),
        Method("L1", "plain", _manhattan, maps=False),
        Method("chi-square", "plain", _chi_square, raw=True, counts=True, maps=False),
        Method("inverse covariance", "plain", _inverse_covariance),
        Method("LDA", "plain", _discriminant),
    ]
    named = _named(chosen, random_state, {contender.name for contender in plain})
    return plain + [_learning(name, estimator) for name, estimator in named]


def _named(
    chosen: Mapping[str, Any] | Iterable[Any] | None, random_state: int | None, taken: set[str]
) -> Iterator[tuple[str, Any]]:
    """Yield what learns with names of their own."""
    known = {_SCIKIT_NCA: NeighborhoodComponentsAnalysis(random_state=random_state)}
    known |= {name: kind(random_state=random_state) for name, kind in learners().items()}
    if chosen is None:
        chosen = known
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
            raise ValueError(f"There is no learner {item!r}; there is {', '.join(known)}.")
        if isinstance(estimator, type) or not hasattr(estimator, "fit"):
            raise ValueError(f"{name!r} is no estimator; write BoostMetric(), not BoostMetric.")
        while name in taken:
            name += "'"
        taken.add(name)
        yield name, estimator


def _learning(name: str, estimator: Any) -> Method:
    if isinstance(estimator, NeighborhoodComponentsAnalysis):
        fit = partial(_scikit_nca, estimator)
        return Method(name, "learned", fit, estimator=estimator, most_rows=_MOST_ROWS_OF_TABLE)
    # nearfar's learners scale for themselves, as they were told to.
    raw = isinstance(estimator, MetricLearner)
    return Method(name, "learned", partial(_learned, estimator), raw=raw, estimator=estimator)


def _euclidean(X: Floats, _: Ints) -> Distance:
    return Mapped(Metric.identity(X.shape[1]))


def _manhattan(_X: Floats, _y: Ints) -> Distance:
    return Pairwise(partial(cdist, metric="cityblock"), "manhattan")


def _chi_square(_X: Floats, _y: Ints) -> Distance:
    return Pairwise(_chi_square_distance)


def _chi_square_distance(X: Floats, Y: Floats) -> Floats:
    """Sum of (x - y)^2 / (x + y)."""
    return -np.asarray(additive_chi2_kernel(X, Y))


def _inverse_covariance(X: Floats, _: Ints) -> Distance:
    return Mapped(Metric.from_matrix(pinvh(np.atleast_2d(np.cov(X, rowvar=False)))))


def _discriminant(X: Floats, y: Ints) -> Distance:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Variables are collinear")
        found = LinearDiscriminantAnalysis().fit(X, y)
    return Mapped(Metric(found.scalings_[:, : len(found.classes_) - 1].T))


def _scikit_nca(estimator: Any, X: Floats, y: Ints) -> Distance:
    watched = clone(estimator).set_params(callback=lambda *_: check_time())
    return Mapped(Metric(watched.fit(X, y).components_))


def _learned(estimator: Any, X: Floats, y: Ints) -> Distance:
    fitted = clone(estimator).fit(X, y)
    metric = getattr(fitted, "metric_", None)
    return Mapped(metric) if isinstance(metric, Metric) else Transformed(fitted)
