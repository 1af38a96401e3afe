"""Large margin nearest neighbours (Weinberger, Saul).

Each row i has a few *targets* j, its nearest rows of the same class. A row l of another class is an
*impostor* of such a pair if it is not farther from i than j is by a margin of one (10). Over maps
L, with H_ij = |L (x_i - x_j)|^2, T target pairs and mu = `push`:

    pull(L) = 1/T sum_(i, j) H_ij                                                       (11)
    push(L) = 1/T sum_(i, j) sum_l max(0, 1 + H_ij - H_il)                              (12)

    min  (1 - mu) pull(L) + mu push(L)                                                  (13)

pull is Tr(L C L') with a constant C; the gradient of push is the Laplacian of the triplets that
cost something, times the embedded points (`impostors`).

L-BFGS runs in rounds, on the triplets that cost something or nearly do where a round begins. The
search through all pairs of rows at its end tells what the round has missed; this joins the next
round, unless it is little. The objective after the search is that of all triplets. Rounds double in
length. The fit ends if a round, which begins without L-BFGS's memory, neither improves the
objective nor misses anything that matters.

The problem is convex in M = L'L. Its solution does not depend on the units of X: another margin
would multiply M by a number. L-BFGS begins at the multiple of the first map that has the smallest
objective, found from the triplets of some anchors. There few triplets cost anything: on most
tables, from two to thirty for each row.

Where nearfar departs from the paper, and why:

- The paper sums over pairs; here both terms are divided by T, which leaves the optimum as it is.
- L-BFGS on L in place of subgradients of M and projections on the psd cone.
- Triplets may be given in place of labels. Then the target pairs are those of an anchor and a near
  row, and a pair weighs as much as its triplets do on average.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nearfar.learners.base import MetricLearner
from nearfar.learners.classic.impostors import (
    Costs,
    GivenTriplets,
    ImpliedTriplets,
    Impostors,
    Sample,
    Source,
)
from nearfar.learners.declaration import Init, MaxRows, Validation, ValidationFraction, learner
from nearfar.learners.map_learner import MapProblem, given_map, named_map, principal_axes
from nearfar.learners.problem import FitInput
from nearfar.metrics.metric import Metric
from nearfar.numerics.edges import Edges
from nearfar.numerics.linear_algebra import determined
from nearfar.numerics.optimizers import lbfgs
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.parameters import ParameterRule, integer, number
from nearfar.runtime.threads import Threads
from nearfar.supervision import NearestTriplets
from nearfar.typing import Floats, Matrix, Vector

# Where a triplet's margin is exactly one, rounding would decide whether it counts.
_BESIDE_KINK = 0.999
# Up to this number of points, where time hardly matters, X keeps its precision.
_EXACT_ROWS = 1000
# The smallest `tol` for which float32 has digits enough.
_FLOAT32_TOLERANCE = 1e-5
# Iterations before the second search; their number doubles with each search.
_FIRST_ROUND = 2
# Length of the first step that is tried, relative to the first map.
_FIRST_STEP = 0.1
# Share of the objective up to which triplets that were missed are not kept for long.
_LITTLE = 0.1
# The least of the way that is gone, even if triplets that were missed raise the objective.
_SMALLEST_SHARE = 1e-3
# The same where there are too many triplets to be listed: looking for a shorter way costs more.
_SMALLEST_SHARE_OF_MANY = 0.2
# The smallest decrease of the objective, relative to a typical one, that is not rounding.
_ROUNDING = 1e-12
# Length of the last map relative to the first below which nothing was learned.
_VANISHED = 1e-3
# Rows of a product of one thread: small enough to share them out, large enough to be fast.
_BLOCK_ROWS = 1024


@learner
class LMNN(MetricLearner):
    """Large margin nearest neighbours: pull targets near, push impostors beyond a margin.

    Parameters
    ----------
    n_neighbors : int, default=3
        Targets of each row: its nearest rows of the same class, under Euclidean distance between
        scaled points.
    push : float, default=0.5
        Weight of the impostors, between 0 and 1; 1 - push is the weight of the targets.
    update_targets : int, default=0
        How many times to choose targets anew, under the metric learned so far, and continue. Three
        updates lower the error on letters from 9.8 to 7.1 % and on vehicles from 23.1 to 21.2 %,
        and raise it on breast cancer (wdbc) from 3.5 to 5.1 %.
    max_iter : int, default=500
        The most iterations of L-BFGS.
    init : {"auto", "identity", "pca", "lda", "random"} or Metric, default="auto"
        Where to begin. "identity" and "pca" are Euclidean distance between scaled points, and with
        `n_components` its leading principal axes. "lda" is discriminant axes, "random" is drawn,
        and "auto" is "lda" if `n_components` is less than the number of classes, and "identity"
        otherwise. A metric of your own has at least `n_components` components. The first metric is
        multiplied by the best factor.
    n_components : int, optional
        Rows of the map that is learned; by default as many as there are features.
    tol : float, default=5e-4
        Decrease of the objective at which to end, relative to the objective of Euclidean distance.
        More iterations do not improve neighbours.

    Attributes
    ----------
    metric_ : Metric
        The learned metric. The margin is 1 in squared distances of this metric.
    history_ : History
        Objective after every iteration; ``history_.stopped`` says why they ended. The last one is
        the objective of all triplets; between searches for impostors, triplets may be missing.

    Notes
    -----
    `fit` takes class labels, or constraints. With `Triplets` the target pairs are those of an
    anchor and a near row, and the given triplets take the place of the search for impostors;
    `Pairs` become triplets first.

    Memory is linear in the number of rows. If more than 32 triplets for each target pair cost
    something, they are evaluated tile by tile instead of being listed: as exact, and slower.

    References
    ----------
    K. Q. Weinberger, L. K. Saul. Distance metric learning for large margin nearest neighbor
    classification. 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import LMNN
    >>> X, y = load_wine(return_X_y=True)
    >>> LMNN(n_components=2).fit(X, y).transform(X).shape
    (178, 2)
    """

    warm_start: bool = False
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0
    validation_fraction: ValidationFraction = "auto"
    validation: Validation = "rows"
    max_rows: MaxRows = "auto"
    n_neighbors: int = 3
    push: float = 0.5
    update_targets: int = 0
    max_iter: int = 500
    init: Init = "auto"
    tol: float = 5e-4

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs", "triplets")
    rotates: ClassVar[bool] = True
    auto_order: ClassVar[int | None] = 11
    compare_order: ClassVar[int | None] = 8
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "n_neighbors": integer(at_least=1),
        "push": number(above=0.0, below=1.0),
        "update_targets": integer(at_least=0),
    }

    def _build_problem(self, data: FitInput) -> LMNNProblem:
        X = data.Z
        if len(X) > _EXACT_ROWS and self.tol >= _FLOAT32_TOLERANCE:
            X = X.astype(np.float32, copy=False)
        # Constant features change no distance.
        varying = np.ptp(X, axis=0) > 0
        kept = varying if varying.any() else np.ones_like(varying)
        X, basis = X[:, kept], np.eye(X.shape[1])[kept]
        unit = 2.0 * float(X.var(axis=0, dtype=np.float64).sum()) or 1.0
        X = X / X.dtype.type(np.sqrt(unit))
        objective = Objective(X, self._source(X, data), self.push)
        return LMNNProblem(
            objective,
            self._first_map(objective, data, basis * np.sqrt(unit)),
            basis,
            unit=unit,
            typical=best_multiple(objective.source.sample(X), self.push)[1] or 1.0,
            max_iter=self.max_iter,
            tol=self.tol,
            update_targets=self.update_targets,
        )

    def _source(self, X: Floats, data: FitInput) -> Source:
        """Return where triplets come from."""
        if data.supervision.kind != "labels":
            triplets = data.supervision.triplets(X, NearestTriplets(), data.random_state)
            return GivenTriplets(X, triplets)
        y = data.supervision.codes
        sizes = np.bincount(y)
        if len(sizes) < 2 or sizes.max() < 2:
            raise ValueError(
                "The labels give no triplet: at least two classes are needed, "
                "and at least one class with two members."
            )
        return Impostors.nearest(X, y, self.n_neighbors, data.supervision.row_weight)

    def _first_map(self, objective: Objective, data: FitInput, basis: Matrix) -> Matrix:
        """Return where to begin: the last fit, or the best multiple of `init`."""
        X, k = objective.X, self.n_components
        first = self.init if data.warm is None else data.warm
        if isinstance(first, Metric):
            L = given_map(first, data, k) @ basis.T
            L = L if k is None or k >= len(L) else principal_axes(L, X)[:k]
        else:
            L = named_map(first, X, data, k)
        if data.warm is not None:
            return L
        sample = objective.source.sample(objective.embed(L))
        return L * np.sqrt(best_multiple(sample, self.push)[0])


def best_multiple(sample: Sample, push: float) -> tuple[float, float]:
    """Return the factor of a metric that has the smallest objective, and this objective.

    The objective is convex in the factor s, with the slope
    ``(1 - push) pull - push sum_t w_t margin_t`` over the triplets whose margin is below 1/s.
    """
    order = np.argsort(sample.margins)
    margins, weight = sample.margins[order], sample.weight[order]
    slope = (1 - push) * sample.pull - push * np.cumsum(weight * margins)
    falling = np.flatnonzero(slope < 0)
    last = float(margins[falling[0] if len(falling) else -1])
    factor = _BESIDE_KINK / last if last > 0 else 1.0
    cost = float(weight @ np.maximum(0.0, 1.0 - factor * margins))
    return factor, (1 - push) * factor * sample.pull + push * cost


class Objective:
    """The objective (13) at maps of the points.

    Parameters
    ----------
    source: Where triplets come from; its target pairs are pulled.
    """

    def __init__(self, X: Floats, source: Source, push: float) -> None:
        self.X, self.source, self.push = X, source, push
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


@dataclass(eq=False)
class LMNNProblem(MapProblem):
    """LMNN over maps of a given number of rows.

    Attributes
    ----------
    start: shape (k, n_coordinates). The first map.
    basis: shape (n_coordinates, n_features). Axes of the coordinates.
    typical: A typical value of the objective; `tol` is relative to it.
    """

    objective: Objective
    start: Matrix
    basis: Matrix
    unit: float
    typical: float
    max_iter: int
    tol: float
    update_targets: int
    exact_rows = True

    def solve(self) -> Iterations:
        """Minimise by L-BFGS, and again for each update of the targets."""
        L, n_left, objective = self.start, self.max_iter, self.objective
        for updates_left in range(self.update_targets, -1, -1):
            L, n_left = yield from self._minimize(objective, L, n_left)
            if n_left == 0:
                return "max_iter"
            source = objective.source
            if updates_left == 0 or not isinstance(source, Impostors):
                break
            number = source.targets.shape[1]
            embedded = objective.embed(L)
            updated = Impostors.nearest(embedded, source.y, number, source.row_weight)
            if (updated.targets == source.targets).all():
                break
            objective = Objective(objective.X, updated, objective.push)
        return "converged"

    def _minimize(
        self, objective: Objective, L: Matrix, n_left: int
    ) -> Generator[Iteration, None, tuple[Matrix, int]]:
        """Run L-BFGS on triplets that are searched for again after some iterations."""
        slack = max(self.tol, _ROUNDING) * self.typical
        triplets = objective.source.around(objective.embed(L))
        value = objective.value(L, triplets)[0]
        length = _FIRST_ROUND if isinstance(objective.source, Impostors) else n_left
        step = _FIRST_STEP * float(np.linalg.norm(L)) or 1.0
        while True:
            end, n_taken, reason = yield from self._round(
                objective, triplets, L, step, min(length, n_left)
            )
            share, around, after = _advance(objective, triplets, L, end.payload, value)
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
            triplets = around.joined(triplets) if keep else around
            length *= 2 if share == 1 else 1
            L, value, step = reached, after, moved or step

    def _round(
        self, objective: Objective, triplets: Costs, L: Matrix, step: float, max_iter: int
    ) -> Generator[Iteration, None, tuple[Iteration, int, str]]:
        """Run L-BFGS on these triplets; the first step that is tried has the length `step`."""

        def scaled(flat: Vector) -> tuple[float, Vector]:
            value, gradient = objective.value(step * flat.reshape(L.shape), triplets)
            return value / self.typical, gradient.ravel() * (step / self.typical)

        steps = lbfgs(scaled, L.ravel() / step, max_iter=max_iter, tol=self.tol)
        iterations: list[Iteration] = []
        n_taken = 0
        with closing(steps):
            while True:
                try:
                    value, flat = next(steps)
                except StopIteration as end:
                    return iterations.pop(), n_taken, end.value
                if iterations:
                    yield iterations.pop()
                n_taken += 1
                payload = step * flat.reshape(L.shape)
                iterations.append(Iteration(self.typical * value, payload=payload))

    def factor(self, history: History) -> Matrix:
        """Return the last map without directions that have vanished, for all features."""
        L: Matrix = history[-1].payload
        _, size, axes = np.linalg.svd(L, full_matrices=False)
        kept = size**2 > L.size * np.finfo(float).eps * size[0] ** 2
        return determined(size[kept], (size[kept, None] * axes[kept]) @ self.basis)

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn where nothing was learned, or where the objective has not settled."""
        if np.linalg.norm(history[-1].payload) <= _VANISHED * np.linalg.norm(self.start):
            return "Nothing was learned: push is so small that all distances vanish."
        return super().warning_message(history, metric)


def _advance(
    objective: Objective, known: Costs, L: Matrix, end: Matrix, value: float
) -> tuple[float, Costs, float]:
    """Go from L to `end`, or half of the way and so on if triplets not known cost too much
    there.
    """
    share = 1.0
    while True:
        reached = L + share * (end - L)
        triplets = objective.source.around(objective.embed(reached))
        # Do not evaluate too many triplets to be listed where a shorter way may avoid them.
        too_many = isinstance(triplets, ImpliedTriplets) and triplets is not known
        if not (too_many and share > _SMALLEST_SHARE_OF_MANY):
            after = objective.value(reached, triplets)[0]
            if after <= value or share < _SMALLEST_SHARE:
                return share, triplets, after
        share /= 2
