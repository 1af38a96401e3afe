"""`Loss`: a function of margins, its weights, and its slope along a line; losses of the papers.

The exponential loss is computed in the log domain. For margins rho with weights c it is
log sum_r c_r exp(-rho_r).  Its negative gradient is the distribution  u_r ~ c_r exp(-rho_r).  Along
a direction with margins H it is convex in the step w; with q the distribution at rho + w H,

    slope(w)     = E_q[H]      (the loss falls at this rate)
    curvature(w) = Var_q[H].

Everything is computed from accumulated margins; nothing is a running product.

The soft margin: the smallest mean of margins under weights that are capped and near a start.

With weights d in the simplex, at most `cap` each, the soft margin of the margins m is

    s(m) = min_d  d'm + KL(d || d0) / sharpness      = min_d  d'm   where sharpness is infinite,

attained at  d_n = min(cap, tau d0_n exp(-sharpness m_n)).  It is concave in m with gradient d.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import bisect
from scipy.special import expit

from nearfar.typing import Ints, Matrix, Vector

Slope = Callable[[float], tuple[float, float]]
"""Step -> how fast a loss falls there, and its curvature; the first never rises."""

Weight = float | Vector
"""The weight of each constraint, or one for all of them, as a loss prepared it."""

PIECE = 1 << 16
"""Constraints that are evaluated at a time, so that they stay in the cache."""

# How far below its value at zero margins the exponential loss of satisfied constraints is; of other
# losses, the share of their value there.
_FAR_BELOW = 20.0
_SATISFIED = math.exp(-_FAR_BELOW)

# A thousand times the rounding of float64, which sums of many terms can reach.
_RELATIVE_ACCURACY = 1e-13

# Newton steps need about ten; bisection to full accuracy from any start needs fewer than this.
_MAX_EVALUATIONS = 200

# Relative size of a move after which the next must be far smaller, or be rounding.
_QUADRATIC = 1e-9


class MarginLoss(ABC):
    """A convex function of all margins together that never rises with any of them."""

    is_product: bool = False
    """Whether the loss of all triplets is a product of sums over near and over far rows."""

    bounded: bool = False
    """Whether the loss is never negative."""

    def prepared(self, weight: Vector | None, n: int) -> Weight:
        """Return the weights of n constraints as `evaluate` and `along` take them."""
        return 1.0 / n if weight is None else weight / weight.sum()

    @abstractmethod
    def evaluate(self, margins: Vector, weight: Weight) -> tuple[float, Vector]:
        """Return the loss, and the weight of each constraint in it.

        Parameters
        ----------
        margins : array of shape (n_constraints,)
        weight : object
            What `prepared` returned.
        """

    @abstractmethod
    def along(self, margins: Vector, H: Vector, weight: Weight) -> Slope:
        """Restrict the loss to the line of margins ``margins + w H``."""

    def satisfied(self, total_weight: float) -> float:
        """Return the loss below which all constraints count as satisfied."""
        return -math.inf


class Loss(MarginLoss):
    """The weighted mean of a convex function of margins that never rises and is never negative.

    A loss of your own defines `value`, `slope` and `curvature`, each for an array of margins. Other
    methods are for losses that are not means of such a function. A constant factor of the loss does
    not change what is learned.

    Examples
    --------
    A loss that is linear for wrong constraints and exponential for right ones:

    >>> import numpy as np
    >>> from nearfar import BoostMetric
    >>> from nearfar.losses import Loss
    >>> from sklearn.datasets import load_wine
    >>> class Capped(Loss):
    ...     def value(self, m):
    ...         return np.where(m < 0, 1 - m, np.exp(-np.maximum(m, 0)))
    ...     def slope(self, m):
    ...         return np.where(m < 0, 1.0, np.exp(-np.maximum(m, 0)))
    ...     def curvature(self, m):
    ...         return np.where(m < 0, 0.0, np.exp(-np.maximum(m, 0)))
    >>> X, y = load_wine(return_X_y=True)
    >>> BoostMetric(loss=Capped(), max_iter=20).fit(X, y).score(X, y) > 0.97
    True
    """

    bounded = True

    named: ClassVar[dict[str, type[Loss]]] = {}
    """The losses that can be requested by name."""

    name: ClassVar[str] = ""
    """The name by which the loss can be requested, if any."""

    def __init_subclass__(cls) -> None:
        if vars(cls).get("name"):
            Loss.named[cls.name] = cls

    @abstractmethod
    def value(self, margins: Vector) -> Vector:
        """Return the function of each margin."""

    @abstractmethod
    def slope(self, margins: Vector) -> Vector:
        """Return minus the derivative at each margin; never negative, and it never rises."""

    @abstractmethod
    def curvature(self, margins: Vector) -> Vector:
        """Return the second derivative at each margin; 0 where there is none."""

    def evaluate(self, margins: Vector, weight: Weight) -> tuple[float, Vector]:
        """Return the weighted mean of the values, and the slopes times the weights."""
        value = _total(self.value(margins), weight)
        return value, np.asarray(self.slope(margins) * weight)

    def along(self, margins: Vector, H: Vector, weight: Weight) -> Slope:
        """Restrict the loss to the line of margins ``margins + w H``."""
        pieces = [slice(top, top + PIECE) for top in range(0, len(H), PIECE)]

        def slope(w: float) -> tuple[float, float]:
            first = second = 0.0
            for piece in pieces:
                h = H[piece]
                m = margins[piece] + w * h
                share = weight[piece] if isinstance(weight, np.ndarray) else weight
                first += _total(self.slope(m) * h, share)
                second += _total(self.curvature(m) * h * h, share)
            return first, second

        return slope

    def satisfied(self, total_weight: float) -> float:
        """Return a loss far below that of zero margins."""
        return _SATISFIED * float(self.value(np.zeros(1))[0])

    def check(self) -> None:
        """Raise a ValueError if `value` rises, or `slope` is not minus its derivative."""
        m, step = np.array([-1.73, -0.61, -0.17, 0.19, 0.67, 1.71]), 1e-3
        slope, fall = self.slope(m), (self.value(m - step) - self.value(m + step)) / (2 * step)
        name, least = type(self).__name__, -1e-6 * (1 + np.abs(fall).max())
        if (fall < least).any():
            raise ValueError(f"{name}.value must never rise, but does at {m[fall.argmin()]:g}.")
        error = np.abs(slope - fall)
        if np.sum(~(error <= 1e-3 * (1 + np.abs(fall)))) > 1:  # at one there may be a kink
            at = error.argmax()
            raise ValueError(
                f"{name}.slope must be minus the derivative of {name}.value. At a margin of "
                f"{m[at]:g} it is {slope[at]:.3g}, but the value falls at {fall[at]:.3g}."
            )

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({parameters})"


def _total(values: Vector, weight: Weight) -> float:
    if isinstance(weight, np.ndarray):
        return float(np.einsum("i,i->", values, weight, dtype=np.float64))
    return float(weight * values.sum(dtype=np.float64))


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
        buffer = np.empty(min(PIECE, len(H)))
        tops = range(0, len(H), PIECE)

        def slope(w: float) -> tuple[float, float]:
            shifts, moments = np.full(len(tops), -np.inf), np.zeros((len(tops), 3))
            for number, top in enumerate(tops):
                h = H[top : top + PIECE]
                q = np.multiply(h, -w, out=buffer[: len(h)])
                q += log_weighted[top : top + PIECE]
                shift = q.max()
                if shift == -np.inf:
                    continue
                q -= shift
                np.exp(q, out=q)
                shifts[number] = shift
                moments[number, 0] = q.sum()
                moments[number, 1] = np.einsum("i,i->", q, h)
                q *= h
                moments[number, 2] = np.einsum("i,i->", q, h)
            total, first, second = np.exp(shifts - shifts.max()) @ moments
            mean = first / total
            return float(mean), max(0.0, float(second / total - mean * mean))

        return slope

    def satisfied(self, total_weight: float) -> float:
        """Return a loss far below that of zero margins."""
        return math.log(total_weight) - _FAR_BELOW


@dataclass(frozen=True)
class Logistic(Loss):
    """The mean of log(1 + exp(-m)): linear for wrong constraints, whose weight is bounded.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.losses import Logistic
    >>> Logistic().slope(np.array([-50.0, 0.0, 50.0])).round(3)
    array([1. , 0.5, 0. ])
    """

    name: ClassVar[str] = "logistic"

    def value(self, margins: Vector) -> Vector:
        """log(1 + exp(-m))."""
        return np.logaddexp(0.0, -margins)

    def slope(self, margins: Vector) -> Vector:
        """Sigmoid of -m."""
        return expit(-margins)

    def curvature(self, margins: Vector) -> Vector:
        """Return p (1 - p), with p the slope."""
        p = expit(-margins)
        return p * (1.0 - p)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """The mean of max(0, margin - m)^2: constraints with that margin have no weight.

    Parameters
    ----------
    margin : float, default=1.0
        The margin that is enough.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.losses import SquaredHinge
    >>> SquaredHinge().value(np.array([-1.0, 0.5, 3.0]))
    array([4.  , 0.25, 0.  ])
    """

    name: ClassVar[str] = "squared_hinge"

    margin: float = 1.0

    def value(self, margins: Vector) -> Vector:
        """max(0, margin - m)^2."""
        return np.maximum(0.0, self.margin - margins) ** 2

    def slope(self, margins: Vector) -> Vector:
        """2 max(0, margin - m)."""
        return 2.0 * np.maximum(0.0, self.margin - margins)

    def curvature(self, margins: Vector) -> Vector:
        """2 below the margin."""
        return np.where(margins < self.margin, 2.0, 0.0)


@dataclass(frozen=True)
class Hinge(Loss):
    """The mean of max(0, margin - m), for solvers that need no curvature.

    Parameters
    ----------
    margin : float, default=1.0
        The margin that is enough.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.losses import Hinge
    >>> Hinge().value(np.array([-1.0, 0.5, 3.0])), Hinge().slope(np.array([-1.0, 0.5, 3.0]))
    (array([2. , 0.5, 0. ]), array([1., 1., 0.]))
    """

    margin: float = 1.0

    def value(self, margins: Vector) -> Vector:
        """max(0, margin - m)."""
        return np.maximum(0.0, self.margin - margins)

    def slope(self, margins: Vector) -> Vector:
        """1 below the margin."""
        return np.where(margins < self.margin, 1.0, 0.0)

    def curvature(self, margins: Vector) -> Vector:
        """0: the function is piecewise linear."""
        return np.zeros_like(margins)


HINGE = Hinge()
"""The hinge with a margin of one."""


def named_loss(loss: str | Loss) -> Loss:
    """Return a loss by its name; a loss is returned unchanged.

    Examples
    --------
    >>> from nearfar.losses import named_loss
    >>> named_loss("logistic")
    Logistic()
    """
    return Loss.named[loss]() if isinstance(loss, str) else loss


def newton_step(
    slope: Slope, target: float, cap: float, *, accuracy: float = _RELATIVE_ACCURACY
) -> tuple[float, bool]:
    """Find the step at which the slope has fallen to `target`, by safeguarded Newton steps.

    Parameters
    ----------
    slope: Step -> (slope, curvature); above `target` at 0.
    target: The penalty for a unit of step; 0 for a plain line search.
    cap: Largest step allowed.
    accuracy: Relative accuracy at which to end.

    Returns
    -------
    step : float
    capped : bool
        True if the slope is still above `target` at `cap`.
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


def bisection_step(
    slope: Slope, target: float, cap: float, *, accuracy: float = _RELATIVE_ACCURACY
) -> tuple[float, bool]:
    """Find the same step by halving intervals; see `newton_step` for the arguments."""

    def excess(w: float) -> float:
        return slope(w)[0] - target

    if excess(cap) > 0:
        return cap, True
    if excess(0.0) <= 0:
        return 0.0, False
    smallest = float(np.finfo(np.float64).tiny)
    return float(bisect(excess, 0.0, cap, xtol=smallest, rtol=accuracy, maxiter=2000)), False


def log_sum_exp(exponents: Vector) -> tuple[float, Vector]:
    """Return log sum_r exp(exponents_r), and the terms as shares of their sum."""
    top = exponents.max()
    shares = np.subtract(exponents, top)
    np.exp(shares, out=shares)
    total = shares.sum(dtype=np.float64)
    shares /= total
    return float(top + np.log(total)), shares


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
