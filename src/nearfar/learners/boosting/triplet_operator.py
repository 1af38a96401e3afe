"""`TripletOperator`: triplets as an operator on directions and metrics.

With E and B the incidences of edges and triplets (`TripletEdges`):

    margins(v) = B (E X v)^2        A(u) = X' E' diag(B'u) E X        v' A(u) v = u' margins(v)

Margins and A(u) are in units of a squared distance, by default the mean over the triplets' edges.

Thresholds of squared lengths for MetricBoost's binary weak models.

A threshold beta orders a triplet correctly if its near length is below beta and its far length is
not, and wrongly in the opposite case. With e+ and e- the weights of the wrong and the right ones,
the best vote has weight alpha = ln(e- / e+) / 2 and

    Z = 1 - e+ - e- + 2 sqrt(e+ e-) = 1 - (sqrt(e-) - sqrt(e+))^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from nearfar.losses import Exponential
from nearfar.losses.loss import MarginLoss, Slope
from nearfar.numerics.edges import TripletEdges, Unit
from nearfar.numerics.linear_algebra import leading, signed
from nearfar.rows import Points
from nearfar.supervision import Triplets
from nearfar.typing import Floats, Matrix, Vector

# Sums of weights, of total one, that are zero but for rounding.
_ROUNDING = 1e-13

# Gains that differ by less are equal; the lowest threshold is taken.
_TIE = 1e-12

# Lengths that differ by less, relative to the longest, are one.
_SAME_LENGTH = 1e-12


def best_threshold(
    lengths: Vector, wrong_change: Vector, right_change: Vector, *, signed: bool = False
) -> float:
    """Find the threshold with the smallest Z, by one sort.

    Parameters
    ----------
    lengths: shape (n_events,). Squared lengths at which weights change, in any order.
    wrong_change, right_change: shape (n_events,). What e+ and e- gain when the threshold
        passes above each length.
    signed: Also consider thresholds whose vote would be negative.

    Returns
    -------
    float
        Half-way between two lengths that differ by more than rounding; the lowest of equally good
        ones. inf if no threshold helps.
    """
    order = np.argsort(lengths, kind="stable")
    sorted_lengths = lengths[order]
    last = np.flatnonzero(np.diff(sorted_lengths) > _SAME_LENGTH * sorted_lengths[-1:])
    if len(last) == 0:
        return math.inf
    gain = _root(np.cumsum(right_change[order])[last]) - _root(np.cumsum(wrong_change[order])[last])
    if signed:
        gain = np.abs(gain)
    if gain.max() <= _TIE:
        return math.inf
    best = last[int(np.argmax(gain >= gain.max() - _TIE))]
    return float((sorted_lengths[best] + sorted_lengths[best + 1]) / 2)


def _root(weight: Vector) -> Vector:
    """Square root of sums of weights that may be off by rounding around zero."""
    return np.sqrt(np.where(weight > _ROUNDING, weight, 0.0))


def gaussian_threshold(near_mean: float, near_sd: float, far_mean: float, far_sd: float) -> float:
    """Find where two normal densities of squared lengths are equal (the paper's rule).

    The root between the means, if there is one; otherwise the point at equal distance from both in
    standard deviations. If the near lengths have no spread the means' midpoint, so that they are
    below it; if only the far ones have none, their mean.
    """
    if near_sd <= 0:
        return (near_mean + far_mean) / 2
    equal_z = (near_mean * far_sd + far_mean * near_sd) / (near_sd + far_sd)
    if far_sd <= 0 or near_mean == far_mean:
        return equal_z
    a = near_sd**-2 - far_sd**-2
    c = -2 * (near_mean / near_sd**2 - far_mean / far_sd**2)
    e = (near_mean / near_sd) ** 2 - (far_mean / far_sd) ** 2 + 2 * math.log(near_sd / far_sd)
    low, high = sorted((near_mean, far_mean))
    for root in _roots(a, c, e):
        if low <= root <= high:
            return root
    return equal_z


def _roots(a: float, c: float, e: float) -> list[float]:
    """Real roots of a x^2 + c x + e, without cancellation."""
    if a == 0:
        return [-e / c] if c != 0 else []
    discriminant = c * c - 4 * a * e
    if discriminant < 0:
        return []
    q = -(c + math.copysign(math.sqrt(discriminant), c)) / 2
    return [q / a] + ([e / q] if q != 0 else [])


# ARPACK's own choice for one eigenpair; D must be larger.
_LANCZOS_BASIS = 20

# Products that the first eigenpair is expected to take, before it was measured: two restarts.
_FIRST_PRODUCTS = 3 * _LANCZOS_BASIS

# A number of products at which Lanczos is never chosen again.
_NEVER_AGAIN = 1 << 30

# Measured seconds for an elementary operation; only their ratios matter.
_SECONDS = {
    "sparse": 0.2e-9,
    "gemm": 0.01e-9,
    "eigh": 0.2e-9,
    "gemv": 0.1e-9,
    "edge": 1.5e-9,
    "call": 60e-6,
    "read": 1e-9,
}


@dataclass(frozen=True)
class Line:
    """The loss along one direction.

    Attributes
    ----------
    slope: Step -> slope and curvature of the loss there.
    advance: Step -> the operator's state after it.
    smallest_margin: Returns the smallest margin along the direction; if it is positive,
        every constraint is better satisfied by a larger step.
    accuracy: Relative accuracy to which a step can be found.
    threshold: Lines have no threshold.
    """

    slope: Slope
    advance: Callable[[float], Any]
    smallest_margin: Callable[[], float]
    accuracy: float = 1e-13
    threshold: None = None


@dataclass(frozen=True)
class ThresholdedLine:
    """A direction's squared lengths, thresholded to 0 (below) and 1.

    Attributes
    ----------
    wrong, right: Weight of the constraints that the threshold orders wrongly (near 1, far
        0) and correctly.
    advance: Weight of the vote -> the operator's state with it.
    """

    threshold: float
    wrong: float
    right: float
    advance: Callable[[float], Any]


class TripletOperator(TripletEdges):
    """Listed triplets over the rows of X.

    Parameters
    ----------
    X: shape (n_samples, n_features). Points, float32 or float64; not copied.
    triplets: At least one.
    loss: Loss of the margins.
    unit: The squared distance that counts as one: a number, or the mean, the 90th
        percentile ("long") or the largest of the squared distances of the triplets' edges.

    Attributes
    ----------
    unit: The squared distance that counts as one.
    """

    def __init__(
        self,
        X: Points,
        triplets: Triplets,
        loss: MarginLoss | None = None,
        *,
        unit: float | Unit = "mean",
    ) -> None:
        super().__init__(X, triplets.index, triplets.weight, unit=unit)
        self.total_weight = float(self.n_triplets if self.weight is None else self.weight.sum())
        self.loss = Exponential() if loss is None else loss
        self._loss_weight = self.loss.prepared(self.weight, self.n_triplets)
        self._products = _FIRST_PRODUCTS
        self._previous: Vector | None = None

    def start(self) -> Vector:
        """Margins of no metric at all."""
        return np.zeros(self.n_triplets)

    def state(self, L: Matrix) -> Vector:
        """Margins of the metric L'L."""
        return self.factor_margins(L)

    def prior_state(self, L: Matrix | None, weight: float) -> tuple[Vector, float]:
        """Margins of a prior metric, to start from in place of zero.

        Parameters
        ----------
        L: shape (rank, n_features). The prior's map; None for the identity.
        weight: Mean squared distance over the triplets' edges after scaling.

        Returns
        -------
        state : array of shape (n_triplets,)
        factor : float
            Factor that the prior's squared distances were multiplied by.
        """
        margins, mean = self.edges.distances(L, self.weight)
        factor = weight * self.unit / mean if mean > 0 else weight
        margins *= factor / self.unit
        return margins, factor

    def loss_and_weights(self, state: Vector) -> tuple[float, Vector]:
        """Loss of the margins, and the weight that each triplet has in it."""
        return self.loss.evaluate(state, self._loss_weight)

    def leading_eigenpair(
        self, u: Vector, *, absolute: bool = False, minus: Matrix | None = None
    ) -> tuple[float, Vector]:
        """Leading eigenpair of A(u): the direction along which the loss falls fastest.

        With `absolute`, the eigenpair of the largest eigenvalue in absolute value. With `minus`, of
        shape (rank, n_features), the eigenpair of ``A(u) - minus' minus``.
        """
        if not (absolute or self._dense_is_cheaper()):
            try:
                value, self._previous = self._lanczos(u, minus)
                return value, self._previous
            except ArpackError:
                self._products = _NEVER_AGAIN
        A = self.matrix(u)
        value, self._previous = leading(
            A if minus is None else A - minus.T @ minus, absolute=absolute
        )
        return value, self._previous

    @property
    def satisfied(self) -> float:
        """Loss below which all triplets count as satisfied."""
        return self.loss.satisfied(self.total_weight)

    def line(self, state: Vector, v: Vector) -> Line:
        """Return the loss along the direction v from the given margins."""
        H = self.margins(v)
        return Line(
            slope=self.loss.along(state, H, self._loss_weight),
            advance=lambda w: state + w * H,
            smallest_margin=lambda: float(H.min()),
        )

    def thresholded_line(
        self, state: Vector, v: Vector, *, how: str, signed: bool
    ) -> ThresholdedLine:
        """Threshold the squared lengths along v.

        Parameters
        ----------
        signed: Whether a vote may be negative.
        """
        z = self._lengths(v)
        near, far, u = z[self.near], z[self.far], self.loss_and_weights(state)[1]
        if how == "gaussian":
            nears, fars = z[np.unique(self.near)], z[np.unique(self.far)]
            threshold = gaussian_threshold(
                float(nears.mean()), float(nears.std()), float(fars.mean()), float(fars.std())
            )
        else:
            for_wrong = np.where(far < near, u, 0.0)
            for_right = np.where(near < far, u, 0.0)
            threshold = best_threshold(
                np.concatenate([near, far]),
                np.concatenate([-for_wrong, for_wrong]),
                np.concatenate([for_right, -for_right]),
                signed=signed,
            )
        H = (far >= threshold).astype(np.float64) - (near >= threshold)
        wrong, right = float(u[H < 0].sum()), float(u[H > 0].sum())
        return ThresholdedLine(threshold, wrong, right, lambda alpha: state + alpha * H)

    def votes_state(self, directions: Matrix, alphas: Vector, thresholds: Vector) -> Vector:
        """Margins of thresholded squared lengths, each with its weight."""
        margins = self.start()
        for v, alpha, threshold in zip(directions, alphas, thresholds, strict=True):
            margins += alpha * self.differences((self._lengths(v) >= threshold).astype(float))
        return margins

    def margins(self, v: Vector) -> Vector:
        """B (E X v)^2: squared distance to far minus that to near, along v."""
        return self.edges.margins(v / np.sqrt(self.unit))

    def _lengths(self, v: Vector) -> Vector:
        """(E X v)^2: squared lengths of the edges along v."""
        return self.edges.lengths(v / np.sqrt(self.unit))

    def pull(self, u: Vector, P: Floats) -> Matrix:
        """P' (Laplacian of u) X: for P = X L' this is L A(u)."""
        return self.edges.pull(self.edges.gram_product(u, P)).T / self.unit

    def operator(self, u: Vector) -> LinearOperator:
        """A(u) as a linear operator."""
        return self.edges.gram_operator(u / self.unit)

    def _dense_is_cheaper(self) -> bool:
        """Compare the costs of A(u) with an eigendecomposition, and of products with A(u)."""
        n, D = self.X.shape
        stored, n_reads, cost = self.edges.n_stored, self.edges.n_reads, _SECONDS
        dense = cost["sparse"] * stored * D + cost["gemm"] * n * D**2 + cost["eigh"] * D**3
        product = cost["call"] + 2 * cost["gemv"] * n * D + 2 * cost["edge"] * stored
        if n_reads:
            dense += cost["read"] * n * D * n_reads
            product += 2 * cost["read"] * n * D
        return D <= _LANCZOS_BASIS or dense < self._products * product

    def _lanczos(self, u: Vector, minus: Matrix | None) -> tuple[float, Vector]:
        operator = self.operator(u)
        count = 0

        def counted(v: Vector) -> Vector:
            nonlocal count
            count += 1
            product = operator.matvec(v)
            return product if minus is None else product - minus.T @ (minus @ v)

        start = self._previous
        if start is None:
            start = np.random.default_rng(0).standard_normal(len(self))
        values, vectors = eigsh(
            LinearOperator(operator.shape, matvec=counted, dtype=operator.dtype),
            k=1,
            which="LA",
            v0=start.astype(operator.dtype),
            ncv=_LANCZOS_BASIS,
            tol=1e-5 if operator.dtype == np.float32 else 1e-10,
        )
        v = vectors[:, 0].astype(np.float64)
        self._products = count
        return float(values[0]), signed(v / np.linalg.norm(v))
