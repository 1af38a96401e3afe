"""`CertifiedProblem`: L-BFGS over maps, with a certificate of how far the optimum can be."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np

from nearfar.learners.problem import MetricBuilder, Problem, uncertified
from nearfar.metrics.metric import Metric
from nearfar.numerics.optimizers import lbfgs
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.typing import Matrix, Vector

# Steps that L-BFGS remembers: a step is small beside a pass over the pairs.
_MEMORY = 20
# Length of the first step of L-BFGS; one of length 1 from the identity could end at zero.
_SHORTER = 0.5


class SearchPoint(NamedTuple):
    """A problem at a map L.

    Attributes
    ----------
    value: What L-BFGS minimises.
    objective: What an iteration tells.
    gap: Returns how far the objective can be from the optimum; asked for once in an
        iteration.
    map: What the metric is built from.
    """

    value: float
    gradient: Matrix
    objective: float
    gap: Callable[[], float]
    map: Matrix


class CertifiedProblem(Problem):
    """Base of the problems that L-BFGS solves until a certified gap is small enough.

    Attributes
    ----------
    start: The first map, of any shape.
    tol: Gap to end at, relative to the objective.
    """

    unit = 1.0
    rounding: ClassVar[float] = 0.0
    """Gap for each coordinate below which rounding leaves nothing to gain."""

    start: Matrix
    tol: float

    @abstractmethod
    def at(self, L: Matrix) -> SearchPoint:
        """Evaluate the problem at a map."""

    def solve(self) -> Iterations:
        """Run L-BFGS until the gap is small enough."""
        shape, number = self.start.shape, 0
        last: tuple[Vector, SearchPoint] | None = None

        def objective(flat: Vector) -> tuple[float, Vector]:
            nonlocal last
            point = self.at(flat.reshape(shape) * _SHORTER)
            last = flat.copy(), point
            return point.value, point.gradient.ravel() * _SHORTER

        first = self.start.ravel() / _SHORTER
        for _, flat in lbfgs(objective, first, max_iter=self.max_iter, tol=0.0, memory=_MEMORY):
            # The last point that a line search has tried need not be the one it takes.
            if last is None or not np.array_equal(last[0], flat):
                last = flat, self.at(flat.reshape(shape) * _SHORTER)
            point, number = last[1], number + 1
            gap = point.gap()
            yield Iteration(point.objective, gap=gap, payload=point.map)
            if gap <= max(self.tol * abs(point.objective), self.rounding * len(self.start)):
                return "converged"
        return "max_iter" if number >= self.max_iter else "stalled"

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, object]:
        """Return the certified gap."""
        return {"gap_": max(0.0, history[-1].gap)}

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn where the optimum was not reached."""
        return uncertified(history, self.max_iter)
