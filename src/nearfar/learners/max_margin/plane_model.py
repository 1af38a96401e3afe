"""`PlaneModel`: the largest of a few planes in place of the mean hinge, and its minimum.

With weights a >= 0 of the planes, sum a <= C, the dual of the model is the problem's own with
planes in place of pairs:

    sum_l a_l offset_l + 1/2 |P|^2 - 1/2 |A|^2 - 1/2 b^2
    A = [P - sum_l a_l G_l]+,    b = sum_l a_l slope_l

one variable per plane, over a simplex; [.]+ is the projection on the psd cone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearfar.learners.max_margin.objective import MaxMarginObjective
from nearfar.learners.max_margin.pair_operator import Plane
from nearfar.learners.max_margin.psd_split import PsdSplit
from nearfar.numerics.simplex import Point, maximize
from nearfar.typing import Ints, Matrix, Vector

_IDLE_ITERATIONS = 20
"""Iterations without weight after which a plane is dropped."""


class PlaneModel:
    """The largest of a few planes in place of the mean hinge.

    Weights alpha are in the simplex; the first belongs to the plane 0, which is always there.
    """

    def __init__(self, objective: MaxMarginObjective, planes: Sequence[Plane]) -> None:
        self.objective = objective
        n = objective.pairs.n_features
        self.planes = [Plane(np.zeros((n, n)), 0.0, 0.0), *planes]
        self.idle = np.zeros(len(self.planes), dtype=int)
        self.alpha = np.zeros(len(self.planes))
        self.alpha[0] = 1.0

    def add(self, plane: Plane) -> None:
        """Add a plane, and forget those that have long had no weight."""
        self.idle = np.where(self.alpha > 0, 0, self.idle + 1)
        kept = self.idle < _IDLE_ITERATIONS
        kept[0] = True
        self.planes = [p for p, keep in zip(self.planes, kept, strict=True) if keep] + [plane]
        self.idle = np.append(self.idle[kept], 0)
        self.alpha = np.append(self.alpha[kept], 0.0)

    def minimize(self, tol: float) -> tuple[float, PsdSplit, float]:
        """Return the model's minimum to a tolerance (from below), and where it is."""
        C, P = self.objective.C, self.objective.P
        G = np.array([plane.G for plane in self.planes])
        flat = G.reshape(len(G), -1)
        slopes = np.array([plane.slope_b for plane in self.planes])
        offsets = np.array([plane.offset for plane in self.planes])

        def where(alpha: Vector) -> tuple[PsdSplit, float]:
            a = C * alpha
            return PsdSplit.of(P - (a @ flat).reshape(P.shape)), float(a @ slopes)

        def dual(alpha: Vector) -> Point:
            split, b = where(alpha)
            A = split.positive
            value = C * (alpha @ offsets) + 0.5 * ((P**2).sum() - (A**2).sum() - b * b)

            def curvature(rows: Ints) -> Matrix:
                s = slopes[rows]
                return C * C * (split.curvature(G[rows]) + np.outer(s, s))

            return Point(float(value), C * (offsets - slopes * b + flat @ A.ravel()), curvature)

        self.alpha, point = maximize(dual, self.alpha, tol=tol)
        return point.value, *where(self.alpha)
