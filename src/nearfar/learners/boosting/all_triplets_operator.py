"""All triplets that labels imply, at the cost of pairs (MetricBoost, section 4).

With H_ij the learned squared distance, the weight of the triplet (i, j, k) is

    D(i, j, k) ~ exp(H_ij - H_ik),      i and j of one class, k of another.

It factorises for each anchor i: with s_i = sum_j exp(H_ij) and w_i = sum_k exp(-H_ik),

    D = a_i * (exp(H_ij) / s_i) * (exp(-H_ik) / w_i),     a_i = s_i w_i / sum_i s_i w_i.

So the weight of the edge (i, k) is a_i exp(-H_ik) / w_i, that of (i, j) is -a_i exp(H_ij) / s_i,
and the loss is  log sum_i s_i w_i,  the same number as from the list of all triplets. If anchors
have weights, they multiply the terms of these sums over i. There is no state but the current H;
sums are kept as logarithms, one pair of them for each anchor.

Along a direction with projections p, h_ij = (p_i - p_j)^2, slope and curvature of the loss need
sums of exp(..) h and exp(..) h^2. They follow from sums of exp(..) p^m, m = 0..4, about the class
mean of the band: one narrow matrix product per tile.

The state of binary weak models is their projections and thresholds, from which bands are computed
each time: memory O(n x votes), time O(n^2 x votes) per iteration. The best threshold needs a sort
of all pairs, which is refused for more than `MAX_SORTED` of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nearfar.learners.boosting.triplet_operator import (
    Line,
    ThresholdedLine,
    best_threshold,
    gaussian_threshold,
)
from nearfar.losses import Exponential
from nearfar.losses.loss import MarginLoss, log_sum_exp
from nearfar.numerics.linear_algebra import leading
from nearfar.numerics.pair_tiles import (
    Band,
    BandWeights,
    Embedded,
    PairTiles,
    column_sums,
    laplacian_form,
    squares,
)
from nearfar.typing import Floats, Ints, Matrix, Vector

MAX_SORTED = 1 << 24
"""Most pairs that are sorted for an exact threshold: 4,096 points, about 1.1 GB."""

# From here on the eigenproblems of `_compact` cost more than some rows too many in every tile.
_MANY_FEATURES = 200

# By bytes of the type: how far exponents may move before sums are shifted anew.
_SAFE_GROWTH = {4: 60.0, 8: 500.0}

# Anchors of less weight do not count.
_SMALLEST_LOG_ANCHOR = -200.0


@dataclass(frozen=True)
class Sums:
    """Logarithms of the sums of exp(H) over near, and of exp(-H) over far, for each anchor."""

    near: Vector
    far: Vector


@dataclass(frozen=True)
class AllTripletsState:
    """The current squared distances, the sums over them, and the map that they come from."""

    form: Embedded
    sums: Sums
    L: Matrix


@dataclass(frozen=True)
class AnchorWeights:
    """The distribution over all triplets, by anchor."""

    form: Embedded
    sums: Sums
    log_anchor: Vector


class AllTripletsOperator:
    """All label-implied triplets over the rows of X.

    Parameters
    ----------
    X: shape (n_samples, n_features). Points, float32 or float64.
    y: shape (n_samples,). Class codes.
    loss: Its sum over all triplets must be a product of sums over near and over far rows,
        as that of the exponential loss is: only then triplets cost no more than pairs.
    row_weight: shape (n_samples,). Weights of the anchors.
    normalize: Measure in units of the mean squared distance over the triplets' edges.

    Attributes
    ----------
    X: shape (n_samples, n_features). The points in class order.
    unit: The squared distance that counts as one.
    """

    def __init__(
        self,
        X: Floats,
        y: Ints,
        loss: MarginLoss | None = None,
        row_weight: Vector | None = None,
        *,
        normalize: bool = True,
    ) -> None:
        self.loss = Exponential() if loss is None else loss
        if not self.loss.is_product:
            raise ValueError(
                f"{self.loss!r} of all triplets is not a product of sums over pairs. List "
                "triplets, for instance with constraints=RandomTriplets(m)."
            )
        self.classes = PairTiles(y)
        self.X = X[self.classes.order]
        self._size = self.classes.size_of_each
        self.anchors = (self._size > 1) & (self._size < len(X))
        of_each = (self._size - 1) * (len(X) - self._size)
        self.n_triplets = int(of_each.sum())
        if self.n_triplets == 0:
            raise ValueError(
                "The labels give no triplet: at least two classes are needed, "
                "and at least one class with two members."
            )
        weight = np.ones(len(X)) if row_weight is None else row_weight[self.classes.order]
        self.weight, self._log_weight = weight, np.log(weight)
        self.total_weight = float(weight @ of_each)
        self.unit = (normalize and self._mean_square(self.X)) or 1.0

    @property
    def satisfied(self) -> float:
        """Loss below which all triplets count as satisfied."""
        return self.loss.satisfied(self.total_weight)

    @property
    def most_rows(self) -> int:
        """The most rows of a map; with many features, some more than needed save eigenproblems."""
        D = len(self)
        return D if D < _MANY_FEATURES else D + D // 4

    def start(self) -> AllTripletsState:
        """All distances zero."""
        return self.state(np.empty((0, len(self))))

    def prior_state(self, L: Matrix | None, weight: float) -> tuple[AllTripletsState, float]:
        """State of a prior metric; see `TripletOperator.prior_state`."""
        factor = np.eye(len(self)) if L is None else L
        mean = self._mean_square(self.X @ factor.T.astype(self.X.dtype)) / self.unit
        scale = weight / mean if mean > 0 else weight
        return self.state(np.sqrt(scale) * factor), scale

    def state(self, L: Matrix, signs: Vector | None = None) -> AllTripletsState:
        """Distances |L x - L y|^2 in the operator's units, coordinates counted with their signs."""
        if len(L) > self.most_rows:
            L, signs = _compact(L, np.ones(len(L)) if signs is None else signs)
        form = self.form(L, signs)
        return AllTripletsState(form, self.sums(form), L)

    def form(self, L: Matrix, signs: Vector | None = None) -> Embedded:
        """Map the points by L."""
        P = self.X @ (L / np.sqrt(self.unit)).T.astype(self.X.dtype)
        return Embedded(P, np.ones(len(L)) if signs is None else signs)

    def loss_and_weights(self, state: AllTripletsState) -> tuple[float, AnchorWeights]:
        """Exponential loss of all triplets, and their weights."""
        loss, anchor = log_sum_exp(state.sums.near + state.sums.far + self._log_weight)
        with np.errstate(divide="ignore"):
            return loss, AnchorWeights(state.form, state.sums, np.log(anchor))

    def leading_eigenpair(
        self, u: AnchorWeights, *, absolute: bool = False
    ) -> tuple[float, Vector]:
        """Leading eigenpair of A(u): the direction along which the loss falls fastest."""
        return leading(self.matrix(u), absolute=absolute)

    def matrix(self, u: AnchorWeights) -> Matrix:
        """A(u), the matrix (8) of MetricBoost."""
        anchors, shifts = self.anchors, np.zeros((2, len(self.X)))
        # Shifts must be finite, also those of anchors whose weight is below the range of exp.
        log_anchor = np.maximum(u.log_anchor, _SMALLEST_LOG_ANCHOR)
        np.subtract(u.sums.near, log_anchor, where=anchors, out=shifts[0])
        np.subtract(u.sums.far, log_anchor, where=anchors, out=shifts[1])
        A = self.classes.scatter_matrix(lambda band: u.form.weights(band, *shifts).merged(), self.X)
        return A / self.unit

    def evaluate(self, L: Matrix, about: Sums | None = None) -> tuple[float, AnchorWeights, Matrix]:
        """Return loss, weights and A(u) of the metric L'L, in one pass over the pairs.

        Sums `about` which the new ones are known to lie save another pass.
        """
        if len(L) > self.most_rows:
            L = _compact(L, np.ones(len(L)))[0]
        form = self.form(L)
        shift = self.sums(form) if about is None else about
        near, far = np.full((2, self.classes.n), -np.inf)
        top = float((shift.near + shift.far + self._log_weight)[self.anchors].max())
        most = _SAFE_GROWTH[self.X.dtype.itemsize]
        too_far = np.zeros((len(self), len(self))), np.zeros(len(self.X)), np.array(np.nan)

        def work(band: Band) -> tuple[Floats, ...]:
            rows = band.rows
            with np.errstate(all="ignore"):
                weights = form.weights(band, shift.near, shift.far)
                sums = weights.row_sums()
                moved = np.log(sums)
            if not np.abs(moved).max() <= most:
                return too_far
            near[rows], far[rows] = moved[0] + shift.near[rows], moved[1] + shift.far[rows]
            log_anchor = near[rows] + far[rows] + self._log_weight[rows] - top
            if log_anchor.max() > most:
                return too_far
            anchor = np.exp(log_anchor)
            w = weights.merged(-anchor / sums[0], anchor / sums[1])
            return self.X[rows].T @ (w @ self.X), column_sums(w), np.array(anchor.sum())

        S, columns, total = self.classes.sum(work)
        if about is not None and not total > math.exp(-most):
            return self.evaluate(L)
        A = laplacian_form(self.X, S, columns) / (total * self.unit)
        loss = top + float(np.log(total))
        log_anchor = near + far + self._log_weight - loss
        return loss, AnchorWeights(form, Sums(near, far), log_anchor), A

    def curvature(self, u: AnchorWeights, V: Matrix, values: Vector) -> Matrix:
        """Return the covariance of the margins along the rows of V, over the triplets.

        With h_k(ij) = (q_ik - q_jk)^2 and the mean margins `values`, it is

            sum_i a_i (E_near[h h'] + E_far[h h'] - m_near m_far' - m_far m_near') - values values'

        with the means m of each anchor. Products h_k h_l expand into products of monomials of the
        projections of i and of j: a narrow matrix product with the weights.
        """
        q = np.asarray(self.X @ (V / np.sqrt(self.unit)).T.astype(self.X.dtype))
        first, second = np.triu_indices(len(V))
        pairs = q[:, first] * q[:, second]
        first_moments = np.hstack([np.ones((len(q), 1), q.dtype), q, q * q])
        monomials = np.hstack([q, pairs])

        def work(band: Band) -> tuple[Floats, ...]:
            rows, b = band.rows, len(V)
            weights = u.form.weights(band, u.sums.near, u.sums.far)
            anchor = np.exp(u.log_anchor[rows])
            own = q[rows].astype(np.float64)
            near, far = (
                own**2 * s[:, :1] - 2 * own * s[:, 1 : b + 1] + s[:, b + 1 :]
                for s in weights.products(first_moments)
            )
            mixed = (near * anchor[:, None]).T @ far
            w = weights.merged(anchor, anchor)
            s = np.asarray(w @ monomials, dtype=np.float64)
            back = np.asarray(w.T @ q[rows], dtype=np.float64)
            return (
                mixed,
                _fourth_moments(own, s[:, :b], s[:, b:], w.sum(axis=1)),
                back,
                column_sums(w),
            )

        mixed, rows_part, back, columns = self.classes.sum(work)
        total = rows_part + _column_moments(np.asarray(q, dtype=np.float64), back, columns)
        return total - mixed - mixed.T - np.outer(values, values)

    def line(self, state: AllTripletsState, v: Vector) -> Line:
        """Return the loss along the direction v from the given distances."""
        p = self._projections(v)
        line = _AllTripletsLine(self, state, v, p)
        accuracy = 1e-13 if self.X.dtype == np.float64 else 1e-5
        return Line(line.slope, line.advance, line.smallest_margin, accuracy)

    def thresholded_line(
        self, state: AllTripletsState, v: Vector, *, how: str, signed: bool
    ) -> ThresholdedLine:
        """Threshold the squared lengths along v."""
        p = self._projections(v)
        u = self.loss_and_weights(state)[1]
        if how == "gaussian":
            threshold = gaussian_threshold(*self._spread(p))
        else:
            threshold = best_threshold(*self._events(u, p), signed=signed)
        wrong, right = self._wrong_and_right(u, p, threshold)

        def advance(alpha: float) -> AllTripletsState:
            form = state.form.with_vote(p, threshold, alpha)
            return AllTripletsState(form, self.sums(form), state.L)

        return ThresholdedLine(threshold, wrong, right, advance)

    def votes_state(
        self, directions: Matrix, alphas: Vector, thresholds: Vector
    ) -> AllTripletsState:
        """State of thresholded squared lengths, each with its weight."""
        state = self.start()
        form: Embedded = state.form
        for v, alpha, threshold in zip(directions, alphas, thresholds, strict=True):
            form = form.with_vote(self._projections(v), float(threshold), float(alpha))
        return AllTripletsState(form, self.sums(form), state.L)

    def _projections(self, v: Vector) -> Vector:
        return np.asarray(self.X @ (v / np.sqrt(self.unit)).astype(self.X.dtype), dtype=np.float64)

    def _wrong_and_right(
        self, u: AnchorWeights, p: Vector, threshold: float
    ) -> tuple[float, float]:
        """Return the weight of the triplets that a threshold orders wrongly, and correctly."""

        def work(band: Band) -> tuple[Floats, ...]:
            weights = u.form.weights(band, u.sums.near, u.sums.far)
            large = squares(p, band) >= threshold
            near_large, far_large = _sums_where(weights, large)
            # Summed on their own, and not as a difference, they are zero where nothing is small.
            near_small, far_small = _sums_where(weights, ~large)
            anchor = np.exp(u.log_anchor[band.rows])
            return (
                np.array(anchor @ (near_large * far_small)),
                np.array(anchor @ (near_small * far_large)),
            )

        wrong, right = self.classes.sum(work)
        return float(wrong), float(right)

    def _events(self, u: AnchorWeights, p: Vector) -> tuple[Vector, Vector, Vector]:
        """Return how the weights of wrong and right triplets change at each squared length."""
        n = self.classes.n
        if n * n > MAX_SORTED:
            raise ValueError(
                f"The exact threshold sorts all {n} x {n} pairs; {MAX_SORTED} are the most. "
                'Use threshold="gaussian", or constraints=RandomTriplets(m).'
            )
        lengths, wrong, right = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))

        def work(band: Band) -> None:
            rows = band.rows
            weights = u.form.weights(band, u.sums.near, u.sums.far)
            length = squares(p, band)
            order = np.argsort(length, axis=1, kind="stable")
            far = np.take_along_axis(weights.far.astype(np.float64), order, axis=1)
            is_near = self.classes.codes[rows, None] == self.classes.codes
            near = np.where(is_near, weights.merged(1.0), 0.0)
            near = np.take_along_axis(near, order, axis=1)
            a, b = np.cumsum(near, axis=1) - near, np.cumsum(far, axis=1) - far
            anchor = np.exp(u.log_anchor[rows])[:, None]
            lengths[rows] = np.take_along_axis(length, order, axis=1)
            wrong[rows] = anchor * (far * (1 - a) - near * b)
            right[rows] = anchor * (near * (1 - b) - far * a)

        self.classes.for_each(work)
        kept = np.repeat(self.anchors[:, None], n, axis=1)
        return lengths[kept], wrong[kept], right[kept]

    def _spread(self, p: Vector) -> tuple[float, float, float, float]:
        """Mean and standard deviation of (p_i - p_j)^2 over near pairs, and over far pairs."""
        near, everyone = np.zeros(3), _pair_sums(p)
        for start, stop in pairwise(self.classes.edges):
            near += _pair_sums(p[start:stop])
        without_anchor = _pair_sums(p[self._size == 1])
        result: list[float] = []
        for count, square, fourth in (near, everyone - near - without_anchor):
            mean = square / count
            result += [float(mean), float(np.sqrt(max(0.0, fourth / count - mean**2)))]
        return result[0], result[1], result[2], result[3]

    def __len__(self) -> int:
        """Number of features: A(u) is len x len."""
        return self.X.shape[1]

    def sums(self, form: Embedded, *, about: Sums | None = None) -> Sums:
        """Return the sums over near and over far for each anchor, for distances of any size.

        It is cheaper with sums `about` which the new ones are known to lie.
        """
        near, far = np.full(self.classes.n, -np.inf), np.full(self.classes.n, -np.inf)

        def near_by(band: Band) -> None:
            assert about is not None
            rows = band.rows
            with np.errstate(divide="ignore"):
                sums = np.log(form.weights(band, about.near, about.far).row_sums())
            near[rows], far[rows] = sums[0] + about.near[rows], sums[1] + about.far[rows]

        def anywhere(band: Band) -> None:
            near[band.rows], far[band.rows] = form.log_sums(band)

        self.classes.for_each(anywhere if about is None else near_by)
        return Sums(near, far)

    def _mean_square(self, P: Floats) -> float:
        """Mean of squared distance over both edges of every triplet, in O(n D)."""
        X = np.asarray(P, dtype=np.float64)
        X = X - X.mean(axis=0)
        norms = np.einsum("ij,ij->i", X, X)
        starts = self.classes.edges[:-1]
        sums, squares = np.add.reduceat(X, starts), np.add.reduceat(norms, starts)
        code = np.repeat(np.arange(len(starts)), np.diff(self.classes.edges))
        near = self._size * norms - 2 * np.einsum("ij,ij->i", X, sums[code]) + squares[code]
        everyone = len(X) * norms + norms.sum()
        n_far = len(X) - self._size
        total = (self.weight * (n_far * near + (self._size - 1) * (everyone - near))).sum()
        return float(total / (2 * self.total_weight))


class _AllTripletsLine:
    """The loss of all triplets along one direction."""

    def __init__(
        self, operator: AllTripletsOperator, state: AllTripletsState, v: Vector, p: Vector
    ) -> None:
        self.operator, self.state, self.v, self.p = operator, state, v, p
        self._tried: tuple[float, Sums] | None = None
        edges = operator.classes.edges
        self._lowest = np.repeat(np.minimum.reduceat(p, edges[:-1]), np.diff(edges))
        self._highest = np.repeat(np.maximum.reduceat(p, edges[:-1]), np.diff(edges))

    def slope(self, w: float) -> tuple[float, float]:
        """Mean and variance of h_far - h_near over the triplets, after the step w."""
        classes, state = self.operator.classes, self.state
        form = _embedded(state).extended(self.p, w) if w else _embedded(state)
        shift = state.sums if self._is_small(w) else self.operator.sums(form)
        moments = np.zeros((2, 3, classes.n))

        def work(band: Band) -> None:
            rows = band.rows
            q = self.p - self.p[rows].mean()
            powers = np.vander(q, 5, increasing=True).astype(form.dtype)
            near, far = form.weights(band, shift.near, shift.far).products(powers)
            moments[0, :, rows] = _even_moments(near, q[rows])
            moments[1, :, rows] = _even_moments(far, q[rows])

        classes.for_each(work)
        anchors = self.operator.anchors
        (s, s1, s2), (f, f1, f2) = moments[:, :, anchors]
        log_near, log_far = shift.near[anchors] + np.log(s), shift.far[anchors] + np.log(f)
        sums = Sums(np.full(classes.n, -np.inf), np.full(classes.n, -np.inf))
        sums.near[anchors], sums.far[anchors] = log_near, log_far
        self._tried = (w, sums)
        anchor = log_sum_exp(log_near + log_far + self.operator._log_weight[anchors])[1]
        mean = anchor @ (f1 / f - s1 / s)
        square = anchor @ (f2 / f - 2 * (f1 / f) * (s1 / s) + s2 / s)
        return float(mean), max(0.0, float(square - mean**2))

    def advance(self, w: float) -> AllTripletsState:
        """Return the state after the step."""
        form = _embedded(self.state).extended(self.p, w)
        if self._tried is not None and self._tried[0] == w:
            sums = self._tried[1]
        else:
            about = self.state.sums if self._is_small(w) else None
            sums = self.operator.sums(form, about=about)
        L = np.vstack([self.state.L, np.sqrt(abs(w)) * self.v])
        if len(L) > self.operator.most_rows:
            L, signs = _compact(L, form.signs)
            form = self.operator.form(L, signs)
        return AllTripletsState(form, sums, L)

    def _is_small(self, w: float) -> bool:
        """Whether the step leaves all exponents within the range of exp."""
        return bool(abs(w) * np.ptp(self.p) ** 2 <= _SAFE_GROWTH[self.state.form.dtype.itemsize])

    def smallest_margin(self) -> float:
        """Smallest h_far - h_near over all triplets, from sorted projections."""
        anchors = self.operator.anchors
        reach = np.maximum(self._highest - self.p, self.p - self._lowest)
        nearest_far = np.full(len(self.p), np.inf)
        edges = self.operator.classes.edges
        for start, stop in pairwise(edges):
            others = np.sort(np.delete(self.p, slice(start, stop)))
            place = np.searchsorted(others, self.p[start:stop])
            left = np.abs(self.p[start:stop] - others[np.maximum(place - 1, 0)])
            right = np.abs(others[np.minimum(place, len(others) - 1)] - self.p[start:stop])
            nearest_far[start:stop] = np.minimum(left, right)
        return float((nearest_far[anchors] ** 2 - reach[anchors] ** 2).min())


def _sums_where(weights: BandWeights, chosen: NDArray[np.bool_]) -> tuple[Vector, Vector]:
    """Sums over the chosen near and far pairs, for each row."""
    near = np.empty(weights.band.height)
    for (rows, columns), block in zip(weights.band.near, weights.near, strict=True):
        near[rows] = np.einsum("ij,ij->i", block, chosen[rows, columns], dtype=np.float64)
    return near, np.einsum("ij,ij->i", weights.far, chosen, dtype=np.float64)


def _compact(L: Matrix, signs: Vector) -> tuple[Matrix, Vector]:
    """Return at most as many rows as there are features, with the same L' diag(signs) L."""
    values, vectors = np.linalg.eigh((L.T * signs) @ L)
    kept = np.abs(values) > np.finfo(float).eps * np.abs(values).max()
    return np.sqrt(np.abs(values[kept]))[:, None] * vectors[:, kept].T, np.sign(values[kept])


def _embedded(state: AllTripletsState) -> Embedded:
    if state.form.votes:
        raise TypeError("A line search needs distances, not votes.")
    return state.form


def _fourth_moments(own: Matrix, q: Matrix, pairs: Matrix, total: Vector) -> Matrix:
    """Part of sum_j w_ij h_k h_l, over the rows i, in which j has a degree of at most two."""
    b = own.shape[1]
    first, second = np.triu_indices(b)
    square = own**2
    result = np.einsum("ik,il,i->kl", square, square, total.astype(np.float64))
    crossed = np.einsum("ik,il->kl", square, own * q)
    result -= 2 * (crossed + crossed.T)
    diagonal = pairs[:, first == second]
    squared = np.einsum("ik,il->kl", square, diagonal)
    result += squared + squared.T
    product = np.zeros((b, b))
    product[first, second] = 4 * (own[:, first] * own[:, second] * pairs).sum(axis=0)
    return result + np.triu(product) + np.triu(product, 1).T


def _column_moments(q: Matrix, back: Matrix, columns: Vector) -> Matrix:
    """Part of sum_ij w_ij h_k h_l in which j has a degree of three or four."""
    square = q**2
    crossed = np.einsum("jk,jl->kl", square, q * back)
    return np.einsum("jk,jl,j->kl", square, square, columns) - 2 * (crossed + crossed.T)


def _pair_sums(q: Vector) -> Vector:
    """Number of ordered pairs, and their sums of (q_i - q_j)^2 and (q_i - q_j)^4."""
    n = len(q)
    q = q - (q.mean() if n else 0.0)
    m1, m2, m3, m4 = (float((q**power).sum()) for power in (1, 2, 3, 4))
    square = 2 * (n * m2 - m1 * m1)
    fourth = 2 * n * m4 - 8 * m1 * m3 + 6 * m2 * m2
    return np.array([n * (n - 1), square, fourth])


def _even_moments(sums: Floats, q: Vector) -> Matrix:
    """Sums of e, e (q_i - q_j)^2 and e (q_i - q_j)^4 from sums of e q_j^m; shape (3, rows)."""
    m0, m1, m2, m3, m4 = np.asarray(sums, dtype=np.float64).T
    square = q * q * m0 - 2 * q * m1 + m2
    fourth = q**4 * m0 - 4 * q**3 * m1 + 6 * q**2 * m2 - 4 * q * m3 + m4
    return np.stack([m0, square, fourth])
