"""The logistic loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from nearfar.losses.base import Loss
from nearfar.typing import Vector


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
