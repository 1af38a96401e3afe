"""The max-margin problem by cutting planes: Algorithm 1, in time linear in the number of pairs.

The mean hinge is the largest of all planes that touch it. A model of a few of them is minimised by
its dual: with weights a >= 0 of the planes, sum a <= C, that is the problem's own dual with planes
in place of pairs,

    sum_l a_l offset_l + 1/2 |P|^2 - 1/2 |A|^2 - 1/2 b^2
    A = [P - sum_l a_l G_l]+,    b = sum_l a_l slope_l

one variable per plane, over a simplex; [.]+ is the projection on the psd cone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearfar.learners.max_margin.max_margin_objective import MaxMarginObjective, Plane, Solution
from nearfar.learners.max_margin.psd_split import PsdSplit
from nearfar.numerics.optimizers import Point, maximize
from nearfar.runtime.history import Iteration, Iterations
from nearfar.typing import Ints, Matrix, Vector

# How far from the best solution toward the model's minimum the next plane touches (as in OCAS).
_STEP_TO_NEXT_PLANE = 0.1

# Tolerance of the model's minimum, relative to that of the problem: it should hardly add to the
# gap.
_MODEL_TOLERANCE = 0.1

# Iterations without weight after which a plane is dropped; it may come back. Fewer would bring
# planes back often, more would slow the model down.
_IDLE_ITERATIONS = 20

# How far an objective may be below a bound, relative to it, by rounding alone.
_ROUNDING = 1e-6


def cut_planes(
    problem: MaxMarginObjective,
    *,
    max_iter: int,
    planes: list[Plane] | None = None,
    start: Solution | None = None,
    printed: bool = False,
) -> Iterations:
    """Minimise by cutting planes (Algorithm 1).

    The mean hinge is the largest of all planes that touch it. The minimum of a model of a few of
    them is a lower bound. The best solution so far moves by an exact line search toward that
    minimum, and the next plane touches between the two. In the algorithm as it is printed, the
    solution is the model's minimum, and the next plane touches there.

    Parameters
    ----------
    max_iter: The most planes to add.
    planes: Planes of an earlier run on the same pairs, whatever its C; new ones are
        appended.
    start: Where to start; by default at the prior.
    printed: Whether to go on from the model's minimum.
    """
    planes = [] if planes is None else planes
    model = PlaneModel(problem, planes)
    best = problem.solution(PsdSplit.of(problem.P), 0.0) if start is None else start
    objective = problem.objective(best)

    def add(plane: Plane) -> None:
        planes.append(plane)
        model.add(plane)

    if not planes:
        add(problem.pairs.plane(best))
    lower = 0.0
    for _ in range(max_iter):
        minimum, split, b = model.minimize(_MODEL_TOLERANCE * problem.tol * objective)
        lower = max(lower, minimum)
        candidate = problem.solution(split, b)
        best = best.toward(candidate, problem.line_minimum(best, candidate))
        value, objective = problem.objective(candidate), problem.objective(best)
        converged = certified(value, lower, problem.tol)
        if converged or printed:
            best, objective = candidate, value
        yield Iteration(
            objective,
            gap=objective - lower,
            step=float(model.alpha.max()),
            payload=(best, None),
        )
        if converged:
            return "converged"
        close = certified(objective, lower, problem.tol)
        add(problem.pairs.plane(best.toward(candidate, 1.0 if close else _STEP_TO_NEXT_PLANE)))
    return "max_iter"


def certified(objective: float, lower: float, tol: float) -> bool:
    """The stopping rule: an objective is near enough to a lower bound, and not below it."""
    return -_ROUNDING * objective <= objective - lower <= tol * objective


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
