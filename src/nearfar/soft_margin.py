"""The best soft margin of a few terms: weights of the terms, and of the constraints.

Term l gives constraint n the margin V[l, n]; weights w of the terms are in the simplex. With the
constraints' weights d in the simplex, at most `cap` each, the soft margin of the margins m is

    s(m) = min_d  d'm + KL(d || d0) / sharpness      = min_d  d'm   where sharpness is infinite,

attained at  d_n = min(cap, tau d0_n exp(-sharpness m_n)).  It is concave in m, and s(w'V) in w,
with gradient V d and, on the constraints below the cap, curvature  sharpness Var_d[V].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import linprog
from scipy.special import logsumexp

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Ints = NDArray[np.intp]
Mask = NDArray[np.bool_]

_MAX_NEWTON = 100
_SMALLEST_STEP = 1e-12
_OPTIMAL = 1e-14
_ROUNDING = 1e-16
_RIDGE = 1e-12


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
        What keeps the weights near their start; the larger, the farther they go.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.soft_margin import SoftMargin
    >>> soft = SoftMargin(np.full(4, 0.25), cap=0.4, sharpness=100.0)
    >>> soft.weigh(np.array([-1.0, 0.0, 0.5, 0.6]))[1].round(3)
    array([0.4, 0.4, 0.2, 0. ])
    """

    start: Vector
    cap: float
    sharpness: float

    def weigh(self, margins: Vector) -> tuple[float, Vector]:
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

        Newton steps on a quadratic model over the simplex, each with a line search.

        Parameters
        ----------
        V : array of shape (n_terms, n_constraints)
            Margins of each term.
        w : array of shape (n_terms,)
            Weights to begin with, in the simplex.
        offset : array of shape (n_constraints,)
            Margins that are there before any term.

        Returns
        -------
        value : float
            The soft margin.
        w : array of shape (n_terms,)
        """
        size = float(np.abs(V).max()) or 1.0
        margins = offset + w @ V
        value, d = self.weigh(margins)
        before = np.inf
        for _ in range(_MAX_NEWTON):
            edges = V @ d
            promise = float(edges.max() - edges @ w)
            if promise <= _OPTIMAL * size:
                break
            p = self._newton_move(V, w, d, edges)
            along, slope = p @ V, float(edges @ p)
            if slope <= _ROUNDING * size and promise > before / 2:
                break
            step = self._search(margins, along, slope) if slope > _ROUNDING * size else 1.0
            w = np.maximum(w + step * p, 0.0)
            w /= w.sum()
            margins = offset + w @ V
            value, d = self.weigh(margins)
            before = promise
        return value, w

    def _newton_move(self, V: Matrix, w: Vector, d: Vector, edges: Vector) -> Vector:
        """Move to the maximum of the quadratic model over the simplex."""
        candidates = np.flatnonzero((w > 0) | (edges > edges @ w))
        free = np.where(d < self.cap, d, 0.0)
        mass = float(free.sum())
        rows = V[candidates]
        if mass > 0:
            rows -= (rows @ free / mass)[:, None]
        curvature = self.sharpness * ((rows * free) @ rows.T)
        target = best_on_simplex(
            curvature, edges[candidates] + curvature @ w[candidates], w[candidates]
        )
        p = np.zeros(len(w))
        p[candidates] = target - w[candidates]
        return p

    def _search(self, margins: Vector, along: Vector, slope: float) -> float:
        """Return a step in (0, 1] at which the soft margin does not fall steeply."""
        step = 1.0
        while step > _SMALLEST_STEP:
            new_slope = float(self.weigh(margins + step * along)[1] @ along)
            if new_slope >= -0.5 * slope:
                break
            step *= min(0.9, max(0.1, slope / (slope - new_slope)))
        return step


def water_level(z: Vector, cap: float) -> tuple[Ints, float]:
    """Find which of ``exp(z)`` exceed the cap, and what the others are multiplied by.

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


def best_on_simplex(H: Matrix, q: Vector, x: Vector) -> Vector:
    """Maximise ``q'x - x'Hx / 2`` over the simplex, from a point in it; H is psd.

    An active-set method: the variables that are positive are optimised as if unbounded; one that
    would turn negative leaves, and the one with the largest gain enters.
    """
    n = len(q)
    if n == 1:
        return np.ones(1)
    x = x.copy()
    inside = x > 0
    scale = float(np.abs(q).max()) or 1.0
    for _ in range(20 * n):
        members = np.flatnonzero(inside)
        goal, price = _on_face(H, q, members, x[members])
        low = goal < 0
        if low.any():
            now = x[members]
            ratio = now[low] / (now[low] - goal[low])
            first = ratio.argmin()
            x[members] = np.maximum(0.0, now + ratio[first] * (goal - now))
            x[members[low][first]] = 0.0
            inside = x > 0
            continue
        x[:] = 0.0
        x[members] = goal
        gain = q - H @ x - price
        gain[inside] = -np.inf
        enters = int(gain.argmax())
        if not gain[enters] > 1e-14 * scale:
            break
        inside[enters] = True
    return x / x.sum()


def _on_face(H: Matrix, q: Vector, members: Ints, now: Vector) -> tuple[Vector, float]:
    """Maximise the quadratic over the plane of a face; also the price of a unit of the sum.

    Where the quadratic is flat, the point stays near where it is `now`.
    """
    face, gain = H[np.ix_(members, members)], q[members]
    x = np.ones(1)
    if len(members) > 1:
        others = face[1:, 1:] - face[1:, :1] - face[:1, 1:] + face[0, 0]
        ridge = _RIDGE * (np.trace(face) or 1.0)
        others += ridge * np.eye(len(others))
        pull = gain[1:] - gain[0] - face[1:, 0] + face[0, 0] + ridge * now[1:]
        y = cho_solve(cho_factor(others, check_finite=False), pull)
        x = np.append(1.0 - y.sum(), y)
    return x, float(gain[0] - face[0] @ x)


def best_terms_by_lp(V: Matrix, cap: float, offset: Vector) -> tuple[float, Vector]:
    """Maximise the soft margin without entropy over w in the simplex: DRMetric's (4).

    Its dual (6) is solved, which has one row for each term; w are the prices of the rows.

    Returns
    -------
    value : float
        The soft margin.
    w : array of shape (n_terms,)
        Weights in the simplex; not always the only ones.
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
    if solution.fun is None:
        raise RuntimeError(f"The linear programme of the soft margin failed: {solution.message}")
    w = np.maximum(0.0, -solution.ineqlin.marginals)
    return float(solution.fun) * size, w / w.sum()
