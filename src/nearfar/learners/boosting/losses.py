"""Losses of margins, in the log domain, and the search for a step along a line.

The exponential loss of margins rho with weights c is  log sum_r c_r exp(-rho_r). Its negative
gradient is the distribution  u_r ~ c_r exp(-rho_r).  Along a direction with margins H the loss is
convex in the step w; with q the distribution at rho + w H,

    slope(w)     = E_q[H]      (the loss falls at this rate)
    curvature(w) = Var_q[H].

Everything is computed from accumulated margins; nothing is a running product.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nearfar.typing import Vector

Slope = Callable[[float], tuple[float, float]]
"""Step -> (slope, curvature) of a loss along a line; the slope never rises."""

_RELATIVE_ACCURACY = 1e-13
_MAX_EVALUATIONS = 200
_QUADRATIC = 1e-9
"""Relative size of a move after which the next must be far smaller, or be rounding."""

_PIECE = 1 << 16


def exponential_loss(log_weighted: Vector) -> tuple[float, Vector]:
    """Exponential loss and its distribution over constraints.

    Parameters
    ----------
    log_weighted : array of shape (n_constraints,)
        log c_r - rho_r.

    Returns
    -------
    value : float
        log sum_r exp(log_weighted_r).
    u : array of shape (n_constraints,)
        Weights that sum to one.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.learners.boosting.losses import exponential_loss
    >>> value, u = exponential_loss(np.array([1000.0, 1000.0]))
    >>> round(value - 1000, 6), u
    (0.693147, array([0.5, 0.5]))
    """
    top = log_weighted.max()
    u = np.subtract(log_weighted, top)
    np.exp(u, out=u)
    total = u.sum(dtype=np.float64)
    u /= total
    return float(top + np.log(total)), u


def exponential_slope(log_weighted: Vector, H: Vector) -> Slope:
    """Restrict the exponential loss to the line of margins ``rho + w H``.

    One pass over the constraints for each step tried, in pieces that stay in the cache; each piece
    has its own shift, so that nothing overflows.
    """
    pieces = [slice(top, top + _PIECE) for top in range(0, len(H), _PIECE)]
    buffer = np.empty(min(_PIECE, len(H)))

    def moments(piece: slice, w: float) -> tuple[float, float, float, float]:
        h = H[piece]
        q = np.multiply(h, -w, out=buffer[: len(h)])
        q += log_weighted[piece]
        shift = float(q.max())
        if shift == -np.inf:
            return shift, 0.0, 0.0, 0.0
        q -= shift
        np.exp(q, out=q)
        total = float(q.sum())
        first = float(np.einsum("i,i->", q, h))
        q *= h
        return shift, total, first, float(np.einsum("i,i->", q, h))

    def slope(w: float) -> tuple[float, float]:
        parts = np.array([moments(piece, w) for piece in pieces])
        shifts = parts[:, 0]
        total, first, second = np.exp(shifts - shifts.max()) @ parts[:, 1:]
        mean = first / total
        return float(mean), max(0.0, float(second / total - mean * mean))

    return slope


def newton_step(
    slope: Slope, target: float, cap: float, *, accuracy: float = _RELATIVE_ACCURACY
) -> tuple[float, bool]:
    """Find the step at which the slope has fallen to `target`, by safeguarded Newton steps.

    Parameters
    ----------
    slope : callable
        Step -> (slope, curvature); above `target` at 0.
    target : float
        The penalty for a unit of step; 0 for a plain line search.
    cap : float
        Largest step allowed.
    accuracy : float, default=1e-13
        Relative accuracy at which to end.

    Returns
    -------
    step : float
    capped : bool
        True if the slope is still above `target` at `cap`.

    Examples
    --------
    >>> from nearfar.learners.boosting.losses import newton_step
    >>> newton_step(lambda w: (2 - w, 1.0), target=0.5, cap=10.0)
    (1.5, False)
    """
    low, high = 0.0, np.inf
    w, last_move = 0.0, np.inf
    for _ in range(_MAX_EVALUATIONS):
        value, curvature = slope(w)
        excess = value - target
        if excess > 0:
            low = w
            if w == cap:
                return cap, True
        else:
            high = w
        proposal = w + excess / curvature if curvature > 0 else np.inf
        move = abs(proposal - w)
        if move <= accuracy * w or _QUADRATIC * w >= move >= last_move / 2:
            break
        last_move = move
        if high == np.inf:
            proposal = min(proposal, cap)
        elif not low < proposal < high:
            proposal = (low + high) / 2
            if high - low <= accuracy * high:
                break
        w = proposal
    return float(w), False


def bisection_step(slope: Slope, target: float, cap: float) -> tuple[float, bool]:
    """Find the same step as `newton_step` by the bisection of BoostMetric's Algorithm 1."""
    if slope(cap)[0] > target:
        return cap, True
    low, high = 0.0, cap
    while high - low > _RELATIVE_ACCURACY * high:
        middle = (low + high) / 2
        if slope(middle)[0] > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2, False
