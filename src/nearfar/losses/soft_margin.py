"""The soft margin: the smallest mean of margins under weights that are capped and near a start.

With weights d in the simplex, at most `cap` each, the soft margin of the margins m is

    s(m) = min_d  d'm + KL(d || d0) / sharpness      = min_d  d'm   where sharpness is infinite,

attained at  d_n = min(cap, tau d0_n exp(-sharpness m_n)).  It is concave in m with gradient d.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfar.losses.loss import MarginLoss, Slope, log_sum_exp
from nearfar.typing import Ints, Matrix, Vector

# Weights below the rounding of the mean weight change no sum.
_NEGLIGIBLE = 1e-16


@dataclass(frozen=True)
class SoftMargin(MarginLoss):
    """Minus the soft margin: weights of constraints are capped and near their start.

    Parameters
    ----------
    start : array of shape (n_constraints,)
        Positive weights d0 that sum to one.
    cap : float or array of shape (n_constraints,)
        Largest weight of each constraint; in all at least one.
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
    cap: float | Vector
    sharpness: float

    def evaluate(self, margins: Vector, weight: object = None) -> tuple[float, Vector]:
        """Return minus the soft margin, and the weights at which it is attained."""
        z = np.log(self.start) - self.sharpness * margins
        capped, log_tau = water_level(z, self.cap)
        d = np.exp(np.minimum(z + log_tau, np.log(self.cap)))
        caps = np.broadcast_to(self.cap, z.shape)[capped]
        d[capped] = caps
        free = 1.0 - float(caps.sum())
        value = 0.0 if free <= 0 else free * log_tau
        value += float(caps @ (np.log(caps) - z[capped]))
        return -value / self.sharpness, d

    def along(self, margins: Vector, H: Vector, weight: object = None) -> Slope:
        """Restrict the loss to a line."""

        def slope(w: float) -> tuple[float, float]:
            d = self.evaluate(margins + w * H)[1]
            return float(d @ H), float(self.covariance(H[None].copy(), d)[0, 0])

        return slope

    def covariance(self, V: Matrix, d: Vector) -> Matrix:
        """Curvature among the rows of V, margins of terms, at weights d; may centre V in place.

        Only constraints between zero and their cap count, which are few if the margin is sharp.
        """
        free = np.where(d < self.cap, d, 0.0)
        mass = float(free.sum())
        kept = np.flatnonzero(free > _NEGLIGIBLE * mass / len(d))
        if len(kept) < len(d) / 2:
            V, free = V[:, kept], free[kept]
        if mass > 0:
            V -= (V @ free / mass)[:, None]
        return self.sharpness * ((V * free) @ V.T)


def water_level(z: Vector, cap: float | Vector) -> tuple[Ints, float]:
    """Find which of ``exp(z)`` exceed their caps, and the factor of the others.

    Returns
    -------
    capped : array of int
        Constraints at the cap: few enough that the others can share the rest.
    log_tau : float
        ``sum_n min(cap_n, exp(z_n + log_tau)) = 1``.
    """
    n, caps = len(z), np.broadcast_to(cap, z.shape)
    excess = z - np.log(cap)
    most = min(n, int((1 + 1e-12) / caps.min()))
    order = np.arange(n) if most == n else np.argpartition(-excess, most)[: most + 1]
    order = order[np.argsort(-excess[order], kind="stable")]
    one_cap = np.ndim(cap) == 0
    taken = cap * np.arange(len(order) + 1) if one_cap else np.append(0.0, np.cumsum(caps[order]))
    order = order[: np.searchsorted(taken, 1 + 1e-12, side="right")]
    if len(order) == n and taken[n] <= 1 + 1e-12:
        return order, 0.0
    in_front = z[order]
    behind = np.ones(n, dtype=bool)
    behind[order] = False
    tail = log_sum_exp(z[behind])[0] if behind.any() else -np.inf
    rest = np.logaddexp.accumulate(np.append(tail, in_front[::-1]))[:0:-1]
    with np.errstate(divide="ignore"):
        log_free = np.log(np.maximum(0.0, 1.0 - taken[: len(order)]))
    log_tau = log_free - rest
    below = excess[order] + log_tau <= 0.0
    number = int(below.argmax()) if below.any() else len(order) - 1
    return order[:number], float(log_tau[number])
