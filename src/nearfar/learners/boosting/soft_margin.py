"""The best soft margin of a few terms: weights of the terms, and of the constraints.

Term l gives constraint n the margin V[l, n]; weights w of the terms are in the simplex. With the
constraints' weights d in the simplex, at most `cap` each, the soft margin of the margins m is

    s(m) = min_d  d'm + KL(d || d0) / sharpness      = min_d  d'm   where sharpness is infinite,

attained at  d_n = min(cap, tau d0_n exp(-sharpness m_n)).  It is concave in m, and s(w'V) in w,
with gradient V d and, on the constraints below the cap, curvature  sharpness Var_d[V].
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linprog
from scipy.special import logsumexp

from nearfar.numerics.simplex import Point, maximize
from nearfar.typing import Ints, Matrix, Vector

_OPTIMAL = 1e-14
_FAR_FROM_OPTIMAL = 1e-8
_TOO_SHARP = 100.0


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


def best_terms_by_lp(V: Matrix, cap: float, offset: Vector) -> tuple[float, Vector, Vector]:
    """Maximise the soft margin without entropy over w in the simplex: DRMetric's (4).

    Its dual (6) is solved, which has one row for each term; w are the multipliers of the rows.

    Returns
    -------
    value : float
        The soft margin.
    w : array of shape (n_terms,)
        Weights in the simplex; not always the only ones.
    d : array of shape (n_constraints,)
        Weights of the constraints at which it is attained.
    """
    t, n = V.shape
    size = float(max(np.abs(V).max(), np.abs(offset).max())) or 1.0
    solution = linprog(
        np.append(offset / size, 1.0),
        A_ub=np.column_stack([V / size, np.full(t, -1.0)]),
        b_ub=np.zeros(t),
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
        bounds=[*[(0.0, cap)] * n, (None, None)],
        method="highs",
    )
    if solution.fun is None or solution.x is None:
        raise RuntimeError(f"The linear programme of the soft margin failed: {solution.message}")
    w = np.maximum(0.0, -solution.ineqlin.marginals)
    return float(solution.fun) * size, w / w.sum(), solution.x[:n]
