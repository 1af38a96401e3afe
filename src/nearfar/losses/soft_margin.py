"""The soft margin: the smallest mean of margins under weights that are capped and near a start.

With weights d in the simplex, at most `cap` each, the soft margin of the margins m is

    s(m) = min_d  d'm + KL(d || d0) / sharpness      = min_d  d'm   where sharpness is infinite,

attained at  d_n = min(cap, tau d0_n exp(-sharpness m_n)).  It is concave in m with gradient d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfar.losses.base import MarginLoss, Slope
from nearfar.losses.exponential import log_sum_exp
from nearfar.typing import Ints, Matrix, Vector


@dataclass(frozen=True)
class SoftMargin(MarginLoss):
    """Minus the soft margin: weights of constraints are capped and near their start.

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
    >>> from nearfar.losses import SoftMargin
    >>> soft = SoftMargin(np.full(4, 0.25), cap=0.4, sharpness=100.0)
    >>> soft.evaluate(np.array([-1.0, 0.0, 0.5, 0.6]))[1].round(3)
    array([0.4, 0.4, 0.2, 0. ])
    """

    start: Vector
    cap: float
    sharpness: float

    def evaluate(self, margins: Vector, weight: Any = None) -> tuple[float, Vector]:
        """Return minus the soft margin, and the weights at which it is attained."""
        z = np.log(self.start) - self.sharpness * margins
        capped, log_tau = water_level(z, self.cap)
        d = np.exp(np.minimum(z + log_tau, np.log(self.cap)))
        d[capped] = self.cap
        free = 1.0 - self.cap * len(capped)
        value = 0.0 if free <= 0 else free * log_tau
        value += self.cap * (np.log(self.cap) * len(capped) - z[capped].sum())
        return -value / self.sharpness, d

    def along(self, margins: Vector, H: Vector, weight: Any = None) -> Slope:
        """Restrict the loss to a line."""

        def slope(w: float) -> tuple[float, float]:
            d = self.evaluate(margins + w * H)[1]
            return float(d @ H), float(self.covariance(H[None].copy(), d)[0, 0])

        return slope

    def covariance(self, V: Matrix, d: Vector) -> Matrix:
        """Curvature among the rows of V, margins of terms, at weights d; centres V in place."""
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
    tail = log_sum_exp(z[behind])[0] if behind.any() else -np.inf
    rest = np.logaddexp.accumulate(np.append(tail, in_front[::-1]))[:0:-1]
    with np.errstate(divide="ignore"):
        log_free = np.log(np.maximum(0.0, 1.0 - cap * np.arange(most + 1)))
    log_tau = log_free - rest
    below = in_front + log_tau <= np.log(cap)
    number = int(below.argmax()) if below.any() else most
    return order[:number], float(log_tau[number])
