"""The exponential loss, in the log domain.

For margins rho with weights c it is  log sum_r c_r exp(-rho_r).  Its negative gradient is the
distribution  u_r ~ c_r exp(-rho_r).  Along a direction with margins H it is convex in the step w;
with q the distribution at rho + w H,

    slope(w)     = E_q[H]      (the loss falls at this rate)
    curvature(w) = Var_q[H].

Everything is computed from accumulated margins; nothing is a running product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nearfar.losses.base import PIECE, Loss, Slope, Weight
from nearfar.typing import Vector

_FAR_BELOW = 20.0
"""How far below its value at zero margins the loss of satisfied constraints is."""


@dataclass(frozen=True)
class Exponential(Loss):
    """The logarithm of the sum of exp(-margin).

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.losses import Exponential
    >>> value, u = Exponential().evaluate(np.array([-1000.0, -1000.0]), 0.0)
    >>> round(value - 1000, 6), u
    (0.693147, array([0.5, 0.5]))
    """

    name: ClassVar[str] = "exponential"
    is_product = True
    bounded = False

    def value(self, margins: Vector) -> Vector:
        """exp(-m)."""
        return np.exp(-margins)

    slope = curvature = value

    def prepared(self, weight: Vector | None, n: int) -> Weight:
        """Return the logarithms of the weights."""
        with np.errstate(divide="ignore"):
            return 0.0 if weight is None else np.log(weight)

    def evaluate(self, margins: Vector, weight: Weight) -> tuple[float, Vector]:
        """Return the loss and the distribution u, which sums to one."""
        return log_sum_exp(weight - margins)

    def along(self, margins: Vector, H: Vector, weight: Weight) -> Slope:
        """Restrict the loss to a line: one pass over the constraints for each step tried.

        Each piece of constraints has its own shift, so that nothing overflows.
        """
        log_weighted = weight - margins
        pieces = [slice(top, top + PIECE) for top in range(0, len(H), PIECE)]
        buffer = np.empty(min(PIECE, len(H)))

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

    def satisfied(self, total_weight: float) -> float:
        """Return a loss far below that of zero margins."""
        return math.log(total_weight) - _FAR_BELOW


def log_sum_exp(exponents: Vector) -> tuple[float, Vector]:
    """Return log sum_r exp(exponents_r), and the terms as shares of their sum."""
    top = exponents.max()
    shares = np.subtract(exponents, top)
    np.exp(shares, out=shares)
    total = shares.sum(dtype=np.float64)
    shares /= total
    return float(top + np.log(total)), shares
