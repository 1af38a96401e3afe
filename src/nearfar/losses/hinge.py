"""The hinge loss and its square."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nearfar.losses.base import Loss
from nearfar.typing import Vector


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
