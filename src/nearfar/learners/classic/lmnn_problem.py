"""The problem of LMNN on coordinates of the points, and its solver; see `lmnn` for the formulas.

L-BFGS runs in rounds, on the triplets that cost something or nearly do where a round begins. The
search at its end tells what the round has missed; this joins the next round, unless it is little.
Rounds double in length. The fit ends if a round, which begins without L-BFGS's memory, neither
improves the objective nor misses anything that matters.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any

import numpy as np

from nearfar.learners.classic.impostors import Costs, ImpliedTriplets, Impostors, Source
from nearfar.learners.map_learner import MapProblem
from nearfar.numerics.edges import Edges
from nearfar.numerics.lbfgs import lbfgs
from nearfar.runtime.history import History, Iteration, Iterations, map_iterations
from nearfar.runtime.threads import Threads
from nearfar.typing import Floats, Matrix, Vector

_FIRST_ROUND = 2
"""Iterations before the second search; their number doubles with each search."""
_FIRST_STEP = 0.1
"""Length of the first step that is tried, relative to the first map."""
_LITTLE = 0.1
"""Share of the objective up to which triplets that were missed are not kept for long."""
_SMALLEST_SHARE = 1e-3
_SMALLEST_SHARE_OF_MANY = 0.2
_ROUNDING = 1e-12
_VANISHED = 1e-3
_BLOCK_ROWS = 1024


class Objective:
    """The objective (13) at maps of the points.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    source : Source
        Its target pairs are pulled.
    push : float
    """

    def __init__(self, X: Floats, source: Source, push: float) -> None:
        self.X, self.push = X, push
        self.threads = Threads()
        edges = Edges(X, source.anchor, source.near)
        self.C = edges.matrix(edges.sum_of_pairs(source.pair_weight))

    def embed(self, L: Matrix) -> Floats:
        """Map the points."""
        right = L.T.astype(self.X.dtype, copy=False)
        P = np.empty((len(self.X), len(L)), dtype=self.X.dtype)

        def block(rows: slice) -> None:
            np.matmul(self.X[rows], right, out=P[rows])

        list(self.threads.map(block, len(self.X), _BLOCK_ROWS))
        return P

    def value(self, L: Matrix, triplets: Costs) -> tuple[float, Matrix]:
        """Return the objective on these triplets, and its gradient."""
        cost, half = triplets.evaluate(self.embed(L))

        def block(rows: slice) -> Floats:
            return half[rows].T @ self.X[rows]

        pulled = L @ self.C
        pushed = np.zeros_like(L)
        for part in self.threads.map(block, len(self.X), _BLOCK_ROWS):
            pushed += part
        value = (1 - self.push) * float((pulled * L).sum()) + self.push * cost
        return value, 2 * ((1 - self.push) * pulled + self.push * pushed)


class LMNNProblem(MapProblem):
    """LMNN over maps of a given number of rows.

    Parameters
    ----------
    objective : Objective
    source : Source
        Where the objective's triplets come from.
    start : array of shape (k, n_coordinates)
        The first map.
    basis : array of shape (n_coordinates, n_features)
        Axes of the coordinates.
    unit : float
    typical : float
        A typical value of the objective; `tol` is relative to it.
    max_iter : int
    tol : float
    update_targets : int
    """

    exact_rows = True

    def __init__(
        self,
        objective: Objective,
        source: Source,
        start: Matrix,
        basis: Matrix,
        *,
        unit: float,
        typical: float,
        max_iter: int,
        tol: float,
        update_targets: int,
    ) -> None:
        self.objective, self.source, self.start, self.basis = objective, source, start, basis
        self.unit, self.typical, self.max_iter = unit, typical, max_iter
        self.tol, self.update_targets = tol, update_targets

    def solve(self) -> Iterations:
        """Minimise by L-BFGS, and again for each update of the targets."""
        L, n_left = self.start, self.max_iter
        objective, source = self.objective, self.source
        for updates_left in range(self.update_targets, -1, -1):
            L, n_left = yield from self._minimize(objective, source, L, n_left)
            if n_left == 0:
                return "max_iter"
            if updates_left == 0 or not isinstance(source, Impostors):
                break
            updated = Impostors.nearest(objective.embed(L), source.y, source.targets.shape[1])
            if (updated.targets == source.targets).all():
                break
            objective, source = Objective(objective.X, updated, objective.push), updated
        return "converged"

    def _minimize(
        self, objective: Objective, source: Source, L: Matrix, n_left: int
    ) -> Generator[Iteration, None, tuple[Matrix, int]]:
        """Run L-BFGS on triplets that are searched for again after some iterations.

        Returns
        -------
        L : array of shape (k, n_coordinates)
        n_left : int
            Iterations that are left; 0 if the objective has not settled.
        """
        slack = max(self.tol, _ROUNDING) * self.typical
        triplets = source.around(objective.embed(L))
        value = objective.value(L, triplets)[0]
        length = _FIRST_ROUND if isinstance(source, Impostors) else n_left
        step = _FIRST_STEP * float(np.linalg.norm(L)) or 1.0
        while True:
            iterations = self._lbfgs(objective, triplets, L, step, min(length, n_left))
            end, n_taken, reason = yield from _all_but_last(iterations)
            share, found, after = _advance(objective, source, triplets, L, end.payload, value)
            reached = L + share * (end.payload - L)
            yield Iteration(after, payload=reached)
            n_left -= n_taken
            settled = reason != "max_iter" and value - end.objective <= slack
            if settled and share == 1 and after - end.objective <= slack:
                return reached, max(n_left, 1)
            if n_left == 0:
                return reached, 0
            moved = float(np.linalg.norm(reached - L)) / n_taken
            keep = reason != "max_iter" or share < 1 or after - end.objective > _LITTLE * after
            triplets = found.joined(triplets) if keep else found
            length *= 2 if share == 1 else 1
            L, value, step = reached, after, moved or step

    def _lbfgs(
        self, objective: Objective, triplets: Costs, L: Matrix, step: float, max_iter: int
    ) -> Iterations:
        """Run L-BFGS on these triplets; the first step that is tried has the length `step`."""

        def scaled(flat: Vector) -> tuple[float, Vector]:
            value, gradient = objective.value(step * flat.reshape(L.shape), triplets)
            return value / self.typical, gradient.ravel() * (step / self.typical)

        def iteration(at: tuple[float, Vector]) -> Iteration:
            return Iteration(self.typical * at[0], payload=step * at[1].reshape(L.shape))

        steps = lbfgs(scaled, L.ravel() / step, max_iter=max_iter, tol=self.tol)
        return map_iterations(steps, iteration)

    def factor(self, history: History) -> Matrix:
        """Return the last map without directions that have vanished, for all features."""
        L: Matrix = history[-1].payload
        _, size, axes = np.linalg.svd(L, full_matrices=False)
        kept = size**2 > L.size * np.finfo(float).eps * size[0] ** 2
        return np.asarray(size[kept, None] * axes[kept]) @ self.basis

    def warning_message(self, history: History, metric: Any) -> str:
        """Warn where nothing was learned, or where the objective has not settled."""
        if np.linalg.norm(history[-1].payload) <= _VANISHED * np.linalg.norm(self.start):
            return "Nothing was learned: push is so small that all distances vanish."
        return super().warning_message(history, metric)


def _advance(
    objective: Objective, source: Source, known: Costs, L: Matrix, end: Matrix, value: float
) -> tuple[float, Costs, float]:
    """Go from L to `end`, or half of the way and so on if triplets not known cost too much there.

    Returns
    -------
    share : float
        How much of the way was gone.
    triplets : Costs
        Triplets around the map that was reached.
    value : float
        The objective there, not above that at L.
    """
    share = 1.0
    while True:
        reached = L + share * (end - L)
        triplets = source.around(objective.embed(reached))
        # Do not evaluate too many triplets to be listed where a shorter way may avoid them.
        too_many = isinstance(triplets, ImpliedTriplets) and triplets is not known
        if not (too_many and share > _SMALLEST_SHARE_OF_MANY):
            after = objective.value(reached, triplets)[0]
            if after <= value or share < _SMALLEST_SHARE:
                return share, triplets, after
        share /= 2


def _all_but_last(
    iterations: Generator[Iteration, None, str],
) -> Generator[Iteration, None, tuple[Iteration, int, str]]:
    """Pass on all iterations but the last; return that one, their number and why they ended."""
    with closing(iterations):
        last, n_taken = next(iterations), 1
        while True:
            try:
                following = next(iterations)
            except StopIteration as end:
                return last, n_taken, end.value
            yield last
            last, n_taken = following, n_taken + 1
