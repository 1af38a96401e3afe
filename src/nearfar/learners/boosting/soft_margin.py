"""The best soft margin of a few terms: weights of the terms, and of the constraints.

Term l gives constraint n the margin V[l, n]; weights w of the terms are in the simplex. With the
constraints' weights d in the simplex, at most `cap` each, the soft margin of the margins m is

    s(m) = min_d  d'm + KL(d || d0) / sharpness      = min_d  d'm   where sharpness is infinite,

attained at  d_n = min(cap, tau d0_n exp(-sharpness m_n)).  It is concave in m, and s(w'V) in w,
with gradient V d and, on the constraints below the cap, curvature  sharpness Var_d[V].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import logsumexp

from nearfar.numerics.simplex import Point, maximize
from nearfar.typing import Ints, Matrix, Vector

_OPTIMAL = 1e-14
_FAR_FROM_OPTIMAL = 1e-8
_TOO_SHARP = 100.0
_LP_TOLERANCE = 1e-9
_LP_OPTIONS: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True)
class SoftMargin:
    """The smallest weighted mean of margins under weights that are capped and near their start.

    Parameters
    ----------
    start : array of shape (n_constraints,)
        Positive weights d0 that sum to one.
    cap : float
        Largest weight of a constraint, at least 1 / n_constraints.
    sharpness : float
        Inverse strength of the entropy. The larger it is, the farther the weights move from d0.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.learners.boosting.soft_margin import SoftMargin
    >>> soft = SoftMargin(np.full(4, 0.25), cap=0.4, sharpness=100.0)
    >>> soft.value_and_weights(np.array([-1.0, 0.0, 0.5, 0.6]))[1].round(3)
    array([0.4, 0.4, 0.2, 0. ])
    """

    start: Vector
    cap: float
    sharpness: float

    def value_and_weights(self, margins: Vector) -> tuple[float, Vector]:
        """Soft margin, and the weights at which it is attained."""
        z = np.log(self.start) - self.sharpness * margins
        capped, log_tau = water_level(z, self.cap)
        d = np.exp(np.minimum(z + log_tau, np.log(self.cap)))
        d[capped] = self.cap
        free = 1.0 - self.cap * len(capped)
        value = 0.0 if free <= 0 else free * log_tau
        value += self.cap * (np.log(self.cap) * len(capped) - z[capped].sum())
        return value / self.sharpness, d

    def clipped(self, margins: Vector) -> Vector:
        """Weights as DRMetric's (12) prints them: normalised, then cut off at the cap."""
        z = np.log(self.start) - self.sharpness * margins
        return np.minimum(np.exp(z - logsumexp(z)), self.cap)

    def best_terms(self, V: Matrix, w: Vector, offset: Vector) -> tuple[float, Vector]:
        """Maximise the soft margin of ``offset + w'V`` over w in the simplex.

        If it is too sharp for Newton's method, solve a sequence of problems of growing sharpness.

        Parameters
        ----------
        V : array of shape (n_terms, n_constraints)
            Margins of each term.
        w : array of shape (n_terms,)
            Weights to begin with, in the simplex.
        offset : array of shape (n_constraints,)
            Margins without any term.

        Returns
        -------
        value : float
            The soft margin.
        w : array of shape (n_terms,)
        """

        def soft_margin(w: Vector) -> Point:
            value, d = self.value_and_weights(offset + w @ V)
            return Point(value, V @ d, lambda rows: self._curvature(V[rows], d))

        size = float(np.abs(V).max())
        w, point = maximize(soft_margin, w, tol=_OPTIMAL * size)
        if point.gap(w) > _FAR_FROM_OPTIMAL * size and self.sharpness * size > _TOO_SHARP:
            softer = replace(self, sharpness=self.sharpness / 10)
            w = softer.best_terms(V, w, offset)[1]
            w, point = maximize(soft_margin, w, tol=_OPTIMAL * size)
        return point.value, w

    def _curvature(self, V: Matrix, d: Vector) -> Matrix:
        """Curvature of the soft margin among terms, at weights d; centres V in place."""
        free = np.where(d < self.cap, d, 0.0)
        mass = float(free.sum())
        if mass > 0:
            V -= (V @ free / mass)[:, None]
        return self.sharpness * ((V * free) @ V.T)


def water_level(z: Vector, cap: float) -> tuple[Ints, float]:
    """Find which of ``exp(z)`` exceed the cap, and the factor of the others.

    Returns
    -------
    capped : array of int
        Constraints at the cap: few enough that the others can share the rest.
    log_tau : float
        ``sum_n min(cap, exp(z_n + log_tau)) = 1``.
    """
    n = len(z)
    most = min(n, int(np.floor((1 + 1e-12) / cap)))
    if most == n:
        return np.arange(n), 0.0
    order = np.argpartition(-z, most)[: most + 1]
    order = order[np.argsort(-z[order], kind="stable")]
    in_front = z[order]
    behind = np.ones(n, dtype=bool)
    behind[order] = False
    tail = logsumexp(z[behind]) if behind.any() else -np.inf
    rest = np.logaddexp.accumulate(np.append(tail, in_front[::-1]))[:0:-1]
    with np.errstate(divide="ignore"):
        log_free = np.log(np.maximum(0.0, 1.0 - cap * np.arange(most + 1)))
    log_tau = log_free - rest
    below = in_front + log_tau <= np.log(cap)
    number = int(below.argmax()) if below.any() else most
    return order[:number], float(log_tau[number])


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
    V : array of shape (n_terms, n_constraints)
        Margins of each term.
    cap : array of shape (n_constraints,) or float
        Largest weight of each constraint; they sum to at least one.
    offset : array of shape (n_constraints,)
        Margins without any term.
    w : array of shape (n_terms,), optional
        A guess of the solution; by default equal weights.

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
    d, free = worst_weights(margins, caps), _near_the_level(margins, caps, 50 + 3 * t)
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
    """Weights in the capped simplex under which the mean of the margins is smallest.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.learners.boosting.soft_margin import worst_weights
    >>> worst_weights(np.array([0.6, -1.0, 0.5, 0.0]), 0.4)
    array([0. , 0.4, 0.2, 0.4])
    """
    order = np.argsort(margins, kind="stable")
    caps = np.broadcast_to(cap, len(order))[order]
    d = np.empty(len(order))
    d[order] = np.clip(1.0 - (np.cumsum(caps) - caps), 0.0, caps)
    return d


def _near_the_level(margins: Vector, caps: Vector, number: int) -> NDArray[np.bool_]:
    """Return which margins are among the `number` next ones on either side of the level."""
    order = np.argsort(margins, kind="stable")
    level = int(np.searchsorted(np.cumsum(caps[order]), 1.0))
    near = np.zeros(len(order), dtype=bool)
    near[order[max(0, level - number) : level + number + 1]] = True
    return near


def _reweighted(
    V: Matrix, caps: Vector, offset: Vector, d: Vector, free: NDArray[np.bool_]
) -> tuple[Vector, Vector]:
    """Solve the dual for the weights of the free constraints; return all, and those of the terms.

    Variables are weights in units of the largest cap, and the largest edge in the same units.
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
        found = linprog(**programme, method="highs", options=options)
        if found.status == 0 and found.x is not None:
            held[free] = np.clip(unit * found.x[:n_free], 0.0, caps[free])
            w = np.maximum(0.0, -found.ineqlin.marginals)
            return held, w / w.sum()
    raise RuntimeError(f"The linear programme of the soft margin failed: {found.message}")
