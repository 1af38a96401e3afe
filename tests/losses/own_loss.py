"""A loss of a user's own, in a module, so that it can be pickled."""

from __future__ import annotations

import numpy as np

from nearfar.losses import Loss


class SmoothHinge(Loss):
    """Zero above `margin`, quadratic for `width` below it, then linear."""

    def __init__(self, margin=1.0, width=1.0):
        self.margin, self.width = margin, width

    def value(self, m):
        lack = np.maximum(0.0, self.margin - m)
        inside = np.minimum(lack, self.width)
        return inside**2 / (2 * self.width) + lack - inside

    def slope(self, m):
        return np.clip((self.margin - m) / self.width, 0.0, 1.0)

    def curvature(self, m):
        inside = (m < self.margin) & (m > self.margin - self.width)
        return np.where(inside, 1 / self.width, 0.0)
