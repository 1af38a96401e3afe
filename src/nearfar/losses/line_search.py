"""The step along a line at which a loss has fallen enough."""

from __future__ import annotations

import numpy as np

from nearfar.losses.base import Slope

_RELATIVE_ACCURACY = 1e-13
_MAX_EVALUATIONS = 200
_QUADRATIC = 1e-9
"""Relative size of a move after which the next must be far smaller, or be rounding."""


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
    >>> from nearfar.losses.line_search import newton_step
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
