"""What learners of trace-one metrics share.

M = sum_l w_l u_l u_l' with unit vectors u_l and w in the simplex, besides a prior. Directions in
which nothing varies have margins of zero, better than those of triplets that cannot be satisfied;
therefore directions are sought in the space that the points span.

Term l gives triplet n the margin V[l, n]. `best_terms` finds the weights w with the best soft
margin (`SoftMargin`), which is concave in w with gradient V d at the weights d of the triplets;
`best_terms_by_lp` does so by linear programming.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from nearfar.learners.boosting.base import (
    Assembly,
    BoostingLearner,
    BoostingProblem,
    Start,
    Terms,
    terms_beyond,
)
from nearfar.learners.boosting.triplet_operator import TripletOperator
from nearfar.learners.problem import FitInput, factor_on_scaled_points, prior_factor
from nearfar.losses import SoftMargin
from nearfar.numerics.edges import Unit
from nearfar.numerics.linear_algebra import row_space
from nearfar.numerics.optimizers import Point, maximize
from nearfar.supervision import Triplets, TripletStrategy
from nearfar.typing import Matrix, Vector

# Gap, relative to the largest margin, at which weights are optimal to rounding.
_OPTIMAL = 1e-14

# Gap at which Newton's method has failed, and is not just at its rounding.
_FAR_FROM_OPTIMAL = 1e-8

# Sharpness times margin beyond which Newton's method may need a smoother problem first.
_TOO_SHARP = 100.0

# Gap of the linear programme, relative to the margins; solvers promise 1e-10.
_LP_TOLERANCE = 1e-9
_LP_OPTIONS: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True)
class SpannedTriplets:
    """Triplets over points in the space that they span, and where learning starts.

    Attributes
    ----------
    triplets: Each once.
    basis: shape (rank, n_features). Basis of the space that the points span; None for all
        of it.
    """

    triplets: Triplets
    operator: TripletOperator
    basis: Matrix | None
    start: Start


def spanned_triplets(
    learner: BoostingLearner, data: FitInput, strategy: TripletStrategy, unit: Unit
) -> SpannedTriplets:
    """Make a learner's triplets, and start from its prior or from the terms of the last fit."""
    triplets = data.supervision.triplets(data.Z, strategy, data.random_state).distinct()
    basis = row_space(data.Z)
    points = data.Z if basis is None else data.Z @ basis.T.astype(data.Z.dtype)
    operator = TripletOperator(points, triplets, unit=1.0 if learner.scale is None else unit)
    prior = prior_factor(learner.prior, learner.prior_weight, data.scaler)
    offset = np.zeros(len(triplets))
    if prior is not None:
        spanned = prior if basis is None else prior @ basis.T
        size = math.sqrt(learner.prior_weight / (float((spanned**2).sum()) or 1.0))
        prior, offset = size * prior, operator.factor_margins(size * spanned)
    earlier = Terms.none(data.Z.shape[1])
    if data.warm is not None:
        L = factor_on_scaled_points(data.warm, data.scaler, "metric to continue from")
        terms = terms_beyond(L * math.sqrt(operator.unit), prior)
        earlier = Terms(terms.directions, terms.weights / terms.weights.sum())
    return SpannedTriplets(triplets, operator, basis, Start(prior, offset, earlier))


class TraceOneProblem(BoostingProblem):
    """Base of the problems over trace-one metrics."""

    def __init__(self, spanned: SpannedTriplets, max_iter: int) -> None:
        self.operator, self.basis, self.start = spanned.operator, spanned.basis, spanned.start
        self.offset: Vector = spanned.start.state
        self.unit, self.max_iter, self.base = self.operator.unit, max_iter, spanned.start.base
        self.assembly = Assembly(spanned.start.earlier)

    def reduced(self, directions: Matrix) -> Matrix:
        """Return directions in the space that the points span."""
        return directions if self.basis is None else directions @ self.basis.T

    def restored(self, directions: Matrix) -> Matrix:
        """Return directions of that space among all features."""
        return directions if self.basis is None else directions @ self.basis

    def earlier_margins(self) -> GrowingRows:
        """Return the margins of the terms of earlier fits."""
        V = GrowingRows(self.operator.n_triplets)
        for u in self.reduced(self.start.earlier.directions):
            V.append(self.operator.margins(u))
        return V


class GrowingRows:
    """A matrix that grows by rows."""

    def __init__(self, n_columns: int) -> None:
        self._rows = np.empty((8, n_columns))
        self._number = 0

    def append(self, row: Vector) -> None:
        """Add a row at the end."""
        if self._number == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._number] = row
        self._number += 1

    @property
    def rows(self) -> Matrix:
        """The rows so far."""
        return self._rows[: self._number]


def best_terms(soft: SoftMargin, V: Matrix, w: Vector, offset: Vector) -> tuple[float, Vector]:
    """Maximise the soft margin of ``offset + w'V`` over w in the simplex.

    If it is too sharp for Newton's method, solve a sequence of problems of growing sharpness.

    Parameters
    ----------
    V: shape (n_terms, n_constraints). Margins of each term.
    w: shape (n_terms,). Weights to begin with, in the simplex.
    offset: shape (n_constraints,). Margins without any term.

    Returns
    -------
    value : float
        The soft margin.
    w : array of shape (n_terms,)
    """

    def soft_margin(w: Vector) -> Point:
        value, d = soft.evaluate(offset + w @ V)
        return Point(-value, V @ d, lambda rows: soft.covariance(V[rows], d))

    size = float(np.abs(V).max())
    w, point = maximize(soft_margin, w, tol=_OPTIMAL * size)
    if point.gap(w) > _FAR_FROM_OPTIMAL * size and soft.sharpness * size > _TOO_SHARP:
        w = best_terms(replace(soft, sharpness=soft.sharpness / 10), V, w, offset)[1]
        w, point = maximize(soft_margin, w, tol=_OPTIMAL * size)
    return point.value, w


def best_terms_by_lp(
    V: Matrix, cap: Vector | float, offset: Vector, w: Vector | None = None
) -> tuple[float, Vector, Vector]:
    """Maximise the soft margin without entropy over w in the simplex, by linear programming.

    The dual is solved, which has a row for each term; w are the multipliers of the rows. Only a few
    constraints, no more than there are terms, have a weight between 0 and their cap. Those whose
    margins under `w` are far from the level that separates the two keep their weight at first; they
    are released if the solution disagrees.

    Parameters
    ----------
    V: shape (n_terms, n_constraints). Margins of each term.
    cap: shape (n_constraints,). Largest weight of each constraint; they sum to at least
        one.
    offset: shape (n_constraints,). Margins without any term.
    w: shape (n_terms,). A guess of the solution; by default equal weights.

    Returns
    -------
    value : float
        The soft margin.
    w : array of shape (n_terms,)
        Weights in the simplex; not always the only ones.
    d : array of shape (n_constraints,)
        Weights of the constraints that hold it there.
    """
    t, n = V.shape
    caps = np.broadcast_to(np.asarray(cap, dtype=np.float64), n)
    w = np.full(t, 1.0 / t) if w is None else w
    size = float(max(np.abs(V).mean(), np.abs(offset).mean())) or 1.0
    margins = offset + w @ V
    d = worst_weights(margins, caps)
    order = np.argsort(margins, kind="stable")
    level = int(np.searchsorted(np.cumsum(caps[order]), 1.0))
    free = np.zeros(n, dtype=bool)
    # A solution has at most t weights between 0 and their cap; three times as many are near.
    free[order[max(0, level - 50 - 3 * t) : level + 51 + 3 * t]] = True
    while True:
        d, w = _reweighted(V / size, caps, offset / size, d, free)
        margins = offset + w @ V
        worst = worst_weights(margins, caps)
        value, bound = float(worst @ margins), float(offset @ d + (V @ d).max())
        released = ~free & (worst != d)
        if bound - value <= _LP_TOLERANCE * size or not released.any():
            return value, w, d
        free |= released


def worst_weights(margins: Vector, cap: Vector | float) -> Vector:
    """Weights in the capped simplex under which the mean of the margins is smallest."""
    order = np.argsort(margins, kind="stable")
    caps = np.broadcast_to(cap, len(order))[order]
    d = np.empty(len(order))
    d[order] = np.clip(1.0 - (np.cumsum(caps) - caps), 0.0, caps)
    return d


def _reweighted(
    V: Matrix, caps: Vector, offset: Vector, d: Vector, free: NDArray[np.bool_]
) -> tuple[Vector, Vector]:
    """Solve the dual for the weights of the free constraints; return all, and those of the
    terms.
    """
    t, unit = len(V), min(1.0, float(caps.max()))
    held = np.where(free, 0.0, d)
    upper = caps[free] / unit
    n_free = len(upper)
    programme: Any = {
        "c": np.append(offset[free], 1.0),
        "A_ub": np.column_stack([V[:, free], np.full(t, -1.0)]),
        "b_ub": -(V @ held) / unit,
        "A_eq": np.append(np.ones(n_free), 0.0)[None],
        "b_eq": [min((1.0 - held.sum()) / unit, upper.sum())],
        "bounds": np.column_stack([np.append(np.zeros(n_free), -np.inf), np.append(upper, np.inf)]),
    }
    # Without presolve, which costs as much as the solution; again with it, if that fails.
    for presolve in (False, True):
        options = _LP_OPTIONS | {"presolve": presolve}
        result = linprog(**programme, method="highs", options=options)
        if result.status == 0 and result.x is not None:
            held[free] = np.clip(unit * result.x[:n_free], 0.0, caps[free])
            w = np.maximum(0.0, -result.ineqlin.marginals)
            return held, w / w.sum()
    raise RuntimeError(f"The linear programme of the soft margin failed: {result.message}")
