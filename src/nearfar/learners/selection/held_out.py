"""How sums of metrics do on what they were not learned from.

A sum of metrics is a metric. With squared distances H = sum_k w_k H_k, w >= 0, the weights are
those under which held-out data are most likely:

    labels      mean over held-out rows i of  log sum_{j of i's class} p_ij          (neighbours)
                or of                         mean_{j of i's class} log p_ij         (ranking)
                with  p_ij ~ exp(-H_ij)  over the rows j that i can find
    numbers     minus the mean of  (y_i - sum_j p_ij y_j)^2,  as a share of the variance of y
    triplets    mean of  log sigmoid(H(anchor, far) - H(anchor, near))
    pairs       mean of  log sigmoid(+-(b - H)),  + for similar pairs; b is found with w

Rows and constraints may have weights in these means. Each is smooth in w, and all but those of
neighbours and numbers are concave. Held-out rows are found among training rows; rows of held-out
classes are found among each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from nearfar.measures.neighbor_votes import MOST_VOTERS, HeldOutVotes, LinearPrior
from nearfar.metrics.gallery import smallest
from nearfar.metrics.metric import Metric
from nearfar.numerics.nearest_rows import place_in_run
from nearfar.rows import Points
from nearfar.supervision import Pairs, Supervision, Triplets
from nearfar.typing import Array, Floats, Ints, Vector

Validation = Literal["rows", "classes"]
Goal = Literal["neighbors", "ranking"]

MAX_QUERIES = 500
MAX_GALLERY = 2000
"""The most rows of a held-out part: a table of their distances has 4 MB."""

# The most held-out constraints: the standard error of a share is then below 0.4 %.
_CONSTRAINTS = 20_000

# Weight of a single metric to begin with: neighbours at a quarter of the mean squared distance.
_FIRST_SCALE = 4.0

# L-BFGS gets the rest of the way from the best power of it.
_SCALE_FACTOR = 4.0

# Beyond it, p is 0 for all but the nearest rows.
_LARGEST_SCALE = 1e3

# Far more iterations than L-BFGS needs for a few weights.
_MAX_ITER = 200

# Accuracy of the weights of several metrics: most are zero, which a coarser one leaves open.
_TOLERANCE = 1e-7

# exp of less is subnormal in float32, which is slow, and no longer matters in a sum.
_SMALLEST_EXPONENT = -80.0

# Probabilities below it are computed from their own largest term.
_SMALLEST_SUM = 1e-20

# How far beyond the margins a threshold may be; the sigmoid is 0 or 1 there, to 1e-13.
_WIDE = 30.0

# Halvings that take any bracket to the accuracy below, if no step of Newton is inside.
_BISECTIONS = 60

# Close to rounding, so that the value is smooth in the weights.
_THRESHOLD_ACCURACY = 1e-12


class HeldOut(ABC):
    """Data that metrics were not learned from."""

    @abstractmethod
    def table(self, metric: Metric) -> Floats:
        """Return what the likelihood needs to know of a metric; it adds up over metrics."""

    @abstractmethod
    def value(self, w: Vector, tables: Floats) -> tuple[float, Vector]:
        """Return the sum of log-likelihoods, and its gradient by the weights."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of terms of the sum."""


@dataclass(frozen=True, eq=False)
class FoundRows(HeldOut):
    """Rows, each found among others.

    Attributes
    ----------
    known: Classes or numbers of the queries and of the gallery.
    weight: shape (n_queries,). What the terms of the queries are multiplied by; the mean is
        one.
    """

    queries: Floats
    gallery: Floats
    known: tuple[Array, Array]
    weight: Vector | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.queries)

    @abstractmethod
    def terms(self, w: Vector, tables: Floats) -> tuple[Floats, Vector]:
        """Return the log-likelihood of each query, and the gradient of their sum."""

    def _summed(self, values: Floats, slopes: Floats, tables: Floats) -> tuple[Floats, Vector]:
        """Return the weighted terms, and the gradient of their sum by the weights of the tables."""
        if self.weight is not None:
            values = values * self.weight
            slopes = slopes * self.weight.astype(slopes.dtype)[:, None]
        return values, np.einsum("kij,ij->ki", tables, slopes).sum(axis=1, dtype=np.float64)

    def value(self, w: Vector, tables: Floats) -> tuple[float, Vector]:
        """Sum over the queries."""
        terms, gradient = self.terms(w, tables)
        return float(terms.sum(dtype=np.float64)), gradient

    def table(self, metric: Metric) -> Floats:
        """Squared distances from queries to the gallery."""
        out = np.empty((len(self.queries), len(self.gallery)), dtype=np.float32)
        for rows, part in metric.spaces(self.queries):
            P, Q = part.transform(self.gallery), part.transform(self.queries[rows])
            center = P.mean(axis=0)
            P, Q = P - center, Q - center
            H = np.einsum("ij,ij->i", Q, Q)[:, None] + np.einsum("ij,ij->i", P, P) - 2 * Q @ P.T
            out[rows] = np.maximum(H, 0)
        return out

    @cached_property
    def linear(self) -> LinearPrior | None:
        """A linear model of the rows of the gallery."""
        return LinearPrior.of(self.gallery, self.known[1])

    def votes(self, H: Floats) -> HeldOutVotes:
        """Return the neighbours of each query by a table of squared distances."""
        near = smallest(H, min(MOST_VOTERS, H.shape[1]))
        roots = np.sqrt(np.take_along_axis(H, near, axis=1))
        return HeldOutVotes.of((roots, near), self.known, self.queries, self.linear, self.weight)


@dataclass(frozen=True, eq=False)
class HeldOutNumbers(FoundRows):
    """Rows with numbers, each predicted by the rows that it finds."""

    def terms(self, w: Vector, tables: Floats) -> tuple[Floats, Vector]:
        """Minus the squared error of each query, as a share of the variance."""
        p = _log_sums(np.einsum("k,kij->ij", w.astype(tables.dtype), tables))[1]
        actual, numbers = self.known
        spread = float(np.std(np.concatenate(self.known))) or 1.0
        centered = ((numbers - numbers.mean()) / spread).astype(p.dtype)
        predicted = np.einsum("ij,j->i", p, centered)
        errors = predicted - (actual - numbers.mean()) / spread
        p *= np.subtract.outer(-predicted, -centered)
        p *= (2 * errors).astype(p.dtype)[:, None]
        return self._summed(-(errors**2), p, tables)


@dataclass(frozen=True, eq=False)
class HeldOutRows(FoundRows):
    """Labelled rows, each found among others.

    Attributes
    ----------
    near: shape (n_queries, n_gallery). 1 for rows of the query's class, 0 for others. Each
        query has one of each kind.
    own: shape (n_queries,). The place in the gallery of queries that are in it.
    """

    near: Floats
    own: Ints | None
    goal: Goal

    @classmethod
    def among(
        cls,
        X: Points,
        y: Ints,
        queries: Ints,
        gallery: Ints,
        goal: Goal,
        row_weight: Vector | None = None,
    ) -> HeldOutRows | None:
        """Pick rows of X; queries without both kinds of rows to find are left out."""
        near = (y[queries][:, None] == y[gallery]).astype(np.float32)
        place = np.full(len(X), -1, dtype=np.intp)
        place[gallery] = np.arange(len(gallery))
        own: Ints | None = place[queries]
        if own is not None and (own < 0).all():
            own = None
        if own is not None:
            near[np.arange(len(queries)), own] = 0
        number = near.sum(axis=1)
        kept = (number > 0) & (number < len(gallery) - (own is not None))
        if not kept.any():
            return None
        own = None if own is None else own[kept]
        classes = y[queries[kept]], y[gallery]
        weight = _of_queries(row_weight, queries[kept])
        return cls(X[queries[kept]], X[gallery], classes, near[kept], own, goal, weight=weight)

    def terms(self, w: Vector, tables: Floats) -> tuple[Floats, Vector]:
        """Log p of each query, or the mean log p."""
        # Kernels of BLAS round float32 differently, and the search would end at other weights.
        H = np.einsum("k,kij->ij", w.astype(tables.dtype), tables)
        if self.own is not None:
            H[np.arange(len(H)), self.own] = np.inf
        log_all, p = _log_sums(H)
        if self.goal == "neighbors":
            # log sum_near p, and p minus its part on near rows as shares of their sum.
            sums = np.einsum("ij,ij->i", p, self.near)
            rare = np.flatnonzero(sums < _SMALLEST_SUM)
            sums[rare] = 1.0
            values, factor = np.log(sums), self.near * (-1 / sums)[:, None]
            factor += 1
            if len(rare):
                exact, q = _log_sums(np.where(self.near[rare] > 0, H[rare], np.inf))
                values[rare] = exact - log_all[rare]
                difference = p[rare] - q
            p *= factor
            if len(rare):
                p[rare] = difference
        else:
            q = self.near / self.near.sum(axis=1, keepdims=True)
            values = -log_all - (q * np.where(self.near > 0, H, 0)).sum(axis=1)
            p -= q
        return self._summed(values, p, tables)


def _of_queries(row_weight: Vector | None, queries: Ints) -> Vector | None:
    """Return the weights of some rows, divided by their mean."""
    return None if row_weight is None else row_weight[queries] / row_weight[queries].mean()


def _log_sums(H: Floats) -> tuple[Floats, Floats]:
    """Return log sum_j exp(-H_ij), and the terms as shares of their sum."""
    nearest = H.min(axis=1, keepdims=True)
    shares = np.exp(np.maximum(nearest - H, _SMALLEST_EXPONENT))
    sums = shares.sum(axis=1, keepdims=True)
    shares /= sums
    return (np.log(sums) - nearest)[:, 0], shares


@dataclass(frozen=True, eq=False)
class HeldOutTriplets(HeldOut):
    """Triplets over rows of X."""

    X: Floats
    triplets: Triplets

    def __len__(self) -> int:
        return len(self.triplets)

    def table(self, metric: Metric) -> Floats:
        """Squared distance to far minus squared distance to near."""
        anchor, near, far = self.triplets.index.T
        to_far = metric.pair_distances(self.X, np.column_stack([anchor, far])) ** 2
        return to_far - metric.pair_distances(self.X, np.column_stack([anchor, near])) ** 2

    def value(self, w: Vector, tables: Floats) -> tuple[float, Vector]:
        """Sum of log sigmoid of the margins."""
        return _log_sigmoids(w @ tables, tables, self.triplets.weight)


@dataclass(frozen=True, eq=False)
class HeldOutPairs(HeldOut):
    """Pairs over rows of X, of both kinds."""

    X: Floats
    pairs: Pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def table(self, metric: Metric) -> Floats:
        """Squared distances."""
        return metric.pair_distances(self.X, self.pairs.index) ** 2

    def value(self, w: Vector, tables: Floats) -> tuple[float, Vector]:
        """Sum of log sigmoid of b - H, at the best threshold b."""
        sign = np.where(self.pairs.similar, 1.0, -1.0)
        H = w @ tables
        margins = sign * (self._threshold(H, sign) - H)
        return _log_sigmoids(margins, -sign * tables, self.pairs.weight)

    def _threshold(self, H: Vector, sign: Vector) -> float:
        """Return the most likely threshold, by Newton's method within a shrinking bracket."""
        low, high = float(H.min()) - _WIDE, float(H.max()) + _WIDE
        b = float(np.average(H, weights=self.pairs.weight))
        for _ in range(_BISECTIONS):
            wrong = expit(-sign * (b - H))
            slope = float(np.average(sign * wrong, weights=self.pairs.weight))
            curvature = float(np.average(wrong * (1 - wrong), weights=self.pairs.weight))
            low, high = (b, high) if slope > 0 else (low, b)
            step = slope / curvature if curvature > 0 else np.inf
            inside = low < b + step < high
            b, last = (b + step if inside else (low + high) / 2), b
            if abs(b - last) <= _THRESHOLD_ACCURACY * max(1.0, abs(b)):
                break
        return b


def _log_sigmoids(margins: Vector, tables: Floats, weight: Vector | None) -> tuple[float, Vector]:
    values, slope = -np.logaddexp(0, -margins), expit(-margins)
    if weight is not None:
        mean = float(weight.mean())
        values, slope = values * weight / mean, slope * weight / mean
    return float(values.sum()), np.asarray(tables @ slope)


def optimal_weights(
    parts: Sequence[tuple[HeldOut, Floats]],
    start: Vector | None = None,
    *,
    tolerance: float = _TOLERANCE,
) -> tuple[Vector, float]:
    """Find the weights of K metrics that make held-out parts most likely.

    Parameters
    ----------
    parts: shape (K, ...). Held-out data, and the tables of the K metrics that did not see
        them. Metrics should have the same mean squared distance.
    start: shape (K,). Where to begin; by default with the first metric alone, or with equal
        weights if they are better.
    tolerance: Relative increase of the likelihood at which to end.

    Returns
    -------
    weights : array of shape (K,)
    value : float
        Mean log-likelihood under them.
    """
    K = len(parts[0][1])

    def negative(w: Vector) -> tuple[float, Vector]:
        total, value, gradient = 0, 0.0, np.zeros(K)
        for part, tables in parts:
            total += len(part)
            likelihood, slope = part.value(w, tables)
            value += likelihood
            gradient += slope
        return -value / total, -gradient / total

    if start is None or not start.all():
        first, start = _scaled(negative, np.eye(K)[0])
        equal, point = _scaled(negative, np.full(K, 1 / K))
        if equal < first - tolerance * abs(first):
            start = point
    # The first step of L-BFGS has a length of one. In the units of w that can be so short that the
    # likelihood hardly changes, which would end the search.
    units = np.where(start > 0, start, start.max())

    def in_units(x: Vector) -> tuple[float, Vector]:
        value, gradient = negative(units * x)
        return value, units * gradient

    optimum: Any = minimize(
        in_units,
        start / units,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * K,
        options={"maxiter": _MAX_ITER, "ftol": tolerance},
    )
    return units * optimum.x, -float(optimum.fun)


def _scaled(f: Callable[[Vector], tuple[float, Vector]], direction: Vector) -> tuple[float, Vector]:
    """Return the smallest value along a direction, among powers of a factor, and where it is."""
    scale = _FIRST_SCALE
    best = f(scale * direction)[0]
    for factor in (_SCALE_FACTOR, 1 / _SCALE_FACTOR):
        moved = False
        while 1 / _LARGEST_SCALE < scale < _LARGEST_SCALE:
            value = f(factor * scale * direction)[0]
            if value >= best:
                break
            best, scale, moved = value, factor * scale, True
        if moved:
            break
    return best, scale * direction


def mean_squared_distance(metric: Metric, X: Floats) -> float:
    """Return the mean squared distance between rows of X, from each by its part of the metric."""
    total = 0.0
    for rows, part in metric.spaces(X):
        P = part.transform(X)
        squares = (P - P.mean(axis=0)).astype(np.float64) ** 2
        total += float(squares[rows].sum() + len(rows) * squares.sum() / len(X))
    return total / len(X)


@dataclass(frozen=True)
class Part:
    """A part to learn from, and one that is held out.

    Attributes
    ----------
    rows: Rows of X to learn from.
    supervision: What is known of them.
    """

    rows: Ints
    supervision: Supervision
    held_out: HeldOut


def held_out_parts(
    X: Any,
    supervision: Supervision,
    *,
    fraction: float,
    validation: Validation,
    random_state: np.random.RandomState,
    goal: Goal | None = None,
    enough: int = 300,
    max_rows: int | None = None,
    most: tuple[int, int] = (MAX_QUERIES, MAX_GALLERY),
) -> Iterator[Part]:
    """Hold out disjoint parts until there is enough to judge by.

    Parameters
    ----------
    fraction: Share that each part holds out.
    validation: Whether labels hold out rows or whole classes.
    goal: For labels; by default neighbours for rows, and ranking for classes.
    enough: Number of held-out rows or constraints at which to end.
    max_rows: The most rows to learn from.
    most: The most rows that are held out, and that they are found among.
    """
    n_seen = 0
    for split in supervision.split(max(2, round(1 / fraction)), random_state, by=validation):
        held_out: HeldOut | None = None
        rows, known = split.rows, split.known
        if supervision.listed:
            unseen: Any = split.unseen
            unseen = unseen.take(sample(np.arange(len(unseen)), _CONSTRAINTS, random_state))
            if unseen.can_teach:
                kind = HeldOutTriplets if unseen.kind == "triplets" else HeldOutPairs
                held_out = kind(X, unseen.given)
        elif len(split.unseen_rows) and len(rows):
            numbers = supervision.kind == "numbers"
            y: Array = supervision.given if numbers else supervision.codes
            rows = sample(rows, max_rows or len(rows), random_state, None if numbers else y[rows])
            whole = split.whole_classes
            gallery = split.unseen_rows if whole else rows
            classes = None if numbers else y[gallery]
            gallery = sample(gallery, most[1], random_state, classes)
            queries = sample(gallery if whole else split.unseen_rows, most[0], random_state)
            aim: Goal = "ranking" if whole else goal or "neighbors"
            own = supervision.row_weight
            if numbers:
                both, weight = (y[queries], y[gallery]), _of_queries(own, queries)
                held_out = HeldOutNumbers(X[queries], X[gallery], both, weight=weight)
            else:
                held_out = HeldOutRows.among(X, y, queries, gallery, aim, own)
            known = supervision.restrict(rows)
        if held_out is not None:
            yield Part(rows, known, held_out)
            n_seen += len(held_out)
        if n_seen >= enough:
            return


def sample(
    items: Ints, size: int, random_state: np.random.RandomState, classes: Ints | None = None
) -> Ints:
    """Return at most `size` of the items, in their order.

    Two of each of the `classes` are always among them, or as many classes as there is room for.
    """
    if len(items) <= size:
        return items
    chosen = random_state.permutation(len(items))
    if classes is not None:
        _, first, place = np.unique(classes[chosen], return_index=True, return_inverse=True)
        by_class = np.argsort(first[place], kind="stable")
        two_of_each = chosen[by_class[place_in_run(first[place][by_class]) < 2]]
        chosen = np.append(two_of_each, chosen[~np.isin(chosen, two_of_each)])
    return items[np.sort(chosen[:size])]
