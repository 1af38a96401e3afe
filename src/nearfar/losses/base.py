"""`Loss`: a function of margins, its weights, and its slope along a line; the step along it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from nearfar.typing import Vector

Slope = Callable[[float], tuple[float, float]]
"""Step -> how fast a loss falls there, and its curvature; the first never rises."""

Weight = float | Vector
"""The weight of each constraint, or one for all of them, as a loss prepared it."""

PIECE = 1 << 16
"""Constraints that are evaluated at a time, so that they stay in the cache."""

_SATISFIED = math.exp(-20.0)
"""Share of the loss at zero margins below which all constraints count as satisfied."""

_RELATIVE_ACCURACY = 1e-13
"""A thousand times the rounding of float64, which sums of many terms can reach."""

_MAX_EVALUATIONS = 200
"""Newton steps need about ten; bisection to full accuracy from any start needs fewer than this."""

_QUADRATIC = 1e-9
"""Relative size of a move after which the next must be far smaller, or be rounding."""


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

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({parameters})"


def _total(values: Vector, weight: Weight) -> float:
    if isinstance(weight, np.ndarray):
        return float(np.einsum("i,i->", values, weight, dtype=np.float64))
    return float(weight * values.sum(dtype=np.float64))


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
    >>> from nearfar.losses.base import newton_step
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
