"""Neighbourhood components analysis, plain and sparse.

With p_i the probability that the point i finds its own class among soft neighbours
(`soft_neighbors`), over maps L of k rows:

    NCA         max  1/n sum_i p_i                       (Goldberger et al., as in scikit-learn)
                max  1/n sum_i log p_i                   (objective="likelihood")
    SparseNCA   min -1/n sum_i log p_i + sparsity Tr M,  M = L'L     (Hong, Li, Jiang, Tu: (5)-(7))

Weights of points multiply their terms, and n is the sum of the weights.

Tr M is the sum of M's eigenvalues and, being |L|_F^2, smooth in L: L-BFGS on a square L goes to a
local optimum of the problem in M, at which directions that gain less than their penalty vanish.

Where nearfar departs from the paper, and why:

- Distances are not divided by |M|_F. Divided, the likelihood does not see the scale of M, so that
  the penalty shrinks M and hardly makes it sparse; undivided, the scale is learned, M = 0 is legal,
  and Tr M penalises rank. ``variant="paper"`` is the paper's form.
- The penalty is on the mean over points, so that it means the same for any number of them.
- L-BFGS in place of fixed steps and eigenvalue clipping. At the end, directions that the penalty
  makes vanish are dropped, if that lowers the objective.

In batches, for very many points, Adam takes a step for each batch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from nearfar.learners.declaration import Validation, ValidationFraction, Variant, learner
from nearfar.learners.map_learner import MapLearner
from nearfar.learners.nca.mixture_nca import Mixture, MixtureProblem
from nearfar.learners.nca.soft_neighbors import (
    NeighborhoodProblem,
    SoftNeighbors,
    check_classes,
    has_enough_classes,
    nonzero_rows,
)
from nearfar.learners.problem import FitInput, Problem
from nearfar.learners.selection.choice import EXACT_ROWS
from nearfar.learners.selection.held_out import sample
from nearfar.numerics.optimizers import lbfgs
from nearfar.rows import Points, Rows
from nearfar.runtime.history import History, Iteration, Iterations, map_iterations
from nearfar.runtime.parameters import ParameterRule, choice, integer, number, optional
from nearfar.typing import Ints, Matrix, Vector

# Change of the map in a step: larger ones leave more noise, smaller ones need more passes.
_STEP = 0.03
# The usual decay of Adam's moments (Kingma and Ba, ICLR 2015).
_MOMENTS = (0.9, 0.999)


@dataclass(frozen=True)
class Batches:
    """Points, labels and weights in random parts of about `size`."""

    Z: Points
    codes: Ints
    size: int
    random_state: np.random.RandomState
    weight: Vector | None = None

    def __post_init__(self) -> None:
        if isinstance(self.Z, Rows) and not self.Z.random_access:
            raise ValueError(
                "Batches are drawn at random, for which Parquet files and Dask arrays are too "
                "slow; save X as a .npy file."
            )

    def draw(self) -> list[Ints]:
        """Return the rows of each part."""
        number = max(1, round(len(self.Z) / self.size))
        parts = np.array_split(self.random_state.permutation(len(self.Z)), number)
        return [rows for rows in parts if has_enough_classes(self.codes[rows])]


@dataclass(frozen=True)
class Adam:
    """A map, the running moments of its gradients, and how many there were."""

    L: Matrix
    first: Matrix
    second: Matrix
    number: int

    def moved(self, gradient: Matrix) -> Adam:
        """Take a step."""
        number = self.number + 1
        first = _MOMENTS[0] * self.first + (1 - _MOMENTS[0]) * gradient
        second = _MOMENTS[1] * self.second + (1 - _MOMENTS[1]) * gradient**2
        size = np.sqrt(second / (1 - _MOMENTS[1] ** number)) + 1e-12
        step = _STEP / len(self.L) ** 0.5 * first / (1 - _MOMENTS[0] ** number) / size
        return Adam(self.L - step, first, second, number)


# Shares of the penalty: directions whose slope is above may be dropped; tried in order.
_VANISHING = (0.2, 0.5)

Gain = Callable[[Matrix], tuple[Matrix, Matrix]]
"""log p of the points -> what is summed and maximised, and its derivatives by log p."""


def likelihood(log_p: Matrix) -> tuple[Matrix, Matrix]:
    """Log p."""
    return log_p, np.ones(log_p.shape)


def expected(log_p: Matrix) -> tuple[Matrix, Matrix]:
    """p; the sum is how many points are expected to find their class."""
    p = np.exp(log_p)
    return p, p


@learner
class _SingleMapLearner(MapLearner):
    """NCA with one map, with or without a penalty on rank."""

    validation_fraction: ValidationFraction = "auto"
    validation: Validation = "rows"
    batch_size: int | None = None

    reads_rows: ClassVar[tuple[str, ...]] = ("labels",)
    rotates: ClassVar[bool] = True
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "batch_size": optional(integer(at_least=2))
    }

    def _kinds_read(self) -> tuple[str, ...]:
        blocks = self.batch_size is not None and self.variant != "paper"
        return self.reads_rows if blocks else ()

    @abstractmethod
    def _objective(self) -> tuple[Gain, float]:
        """Return what is maximised, and the penalty on the trace."""

    def _rotates(self) -> bool:
        # Adam, which batches take, has a step of its own for each feature.
        return self.batch_size is None and super()._rotates()

    def _slow_on_many_rows(self) -> bool:
        return self.batch_size is None

    def _keeps_outside(self) -> bool:
        return self._objective()[1] == 0

    def _build_problem(self, data: FitInput) -> Problem:
        codes = data.supervision.labels(type(self).__name__)
        Z, unit = self._in_units(data)
        start = self._first_map(Z, data, unit, self.n_components)
        weight = data.supervision.row_weight
        points: SoftNeighbors | Batches
        if self.batch_size is None or self.batch_size >= len(Z):
            anchors = None
            if self.max_rows == "auto" and len(Z) > EXACT_ROWS:
                # The mean over some rows estimates that over all without a bias, in a time that
                # grows with the rows, not with their square.
                chosen = sample(np.arange(len(Z)), EXACT_ROWS, data.random_state, codes)
                # The first rows of their class are in the same band of pairs.
                order = np.append(chosen, np.delete(np.arange(len(Z)), chosen))
                Z, codes, anchors = Z[order], codes[order], np.arange(len(Z)) < len(chosen)
                weight = None if weight is None else weight[order]
            points = SoftNeighbors(Z[:], codes, anchors=anchors, weight=weight)
        else:
            check_classes(codes)
            points = Batches(Z, codes, self.batch_size, data.random_state, weight)
        gain, sparsity = self._objective()
        tol = self.tol if isinstance(points, SoftNeighbors) else 0.0
        return NCAProblem(points, start, gain, sparsity, unit, self.max_iter, tol)


@learner
class NCA(_SingleMapLearner):
    """Neighbourhood components analysis: learn a map under which points find their own class.

    Parameters
    ----------
    objective : {"expected", "likelihood"}, default="expected"
        The maximised objective: the expected share of points that find their class, as in
        scikit-learn, or the mean logarithm of their probability to do so.
    max_iter : int, default=200
        The most iterations of L-BFGS, or, with `batch_size`, passes over the points.
    batch_size : int, optional
        Learn from random batches of about this size, for very many points.
    n_components : int, optional
        Rows of the map that is learned; by default as many as there are features.
    tol : float, default=1e-4
        Relative decrease of the objective at which to end. More iterations lower the objective,
        but rarely the error of neighbours.

    Attributes
    ----------
    history_ : History
        Objective (negative, to be minimised) after every iteration; ``history_.stopped`` says why
        they ended.

    References
    ----------
    J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov. Neighbourhood components analysis. 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import NCA
    >>> X, y = load_wine(return_X_y=True)
    >>> NCA(n_components=2).fit(X, y).transform(X).shape
    (178, 2)
    """

    objective: Literal["expected", "likelihood"] = "expected"
    max_iter: int = 200

    auto_order: ClassVar[int | None] = 12
    compare_order: ClassVar[int | None] = 7
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "objective": choice("expected", "likelihood")
    }

    def _objective(self) -> tuple[Gain, float]:
        return (expected if self.objective == "expected" else likelihood), 0.0


@learner
class SparseNCA(_SingleMapLearner):
    """Neighbourhood components analysis with a penalty on rank: a metric of few directions.

    Parameters
    ----------
    sparsity : float, default=0.01
        Penalty for a unit of the trace of M, on the mean over points. The larger it is, the lower
        the rank.
    variant : {"default", "paper"}, default="default"
        "paper" learns as the paper does, with one metric: see `mixture_nca`.
    max_iter : int, default=500
        The most iterations of L-BFGS, or, with `batch_size`, passes over the points.
    batch_size : int, optional
        Learn from random batches of about this size, for very many points. The noise of the steps
        keeps small directions alive: ranks stay high.
    n_components : int, optional
        The most rows of the map; by default as many as there are features.
    tol : float, default=1e-4
        Relative decrease of the objective at which to end.

    References
    ----------
    Y. Hong, Q. Li, J. Jiang, Z. Tu. Learning a mixture of sparse distance metrics for
    classification and dimensionality reduction. CVPR 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import SparseNCA
    >>> X, y = load_wine(return_X_y=True)
    >>> [SparseNCA(sparsity=s).fit(X, y).metric_.n_components for s in (0.01, 0.1)]
    [3, 2]
    """

    sparsity: float = 0.01
    variant: Variant = "default"
    max_iter: int = 500
    validation_fraction: ValidationFraction = None

    auto_order: ClassVar[int | None] = 13
    compare_order: ClassVar[int | None] = 5
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {"sparsity": number(at_least=0.0)}

    def _objective(self) -> tuple[Gain, float]:
        return likelihood, self.sparsity

    def _build_problem(self, data: FitInput) -> Problem:
        if self.variant != "paper":
            return super()._build_problem(data)
        Z, unit = self._in_units(data)
        codes = data.supervision.labels(type(self).__name__)
        points = SoftNeighbors(Z, codes, weight=data.supervision.row_weight)
        mixture = Mixture(points, 1, self.sparsity, gate_sparsity=0.0)
        start = mixture.start(self._first_map(Z, data, unit, None), data.random_state)
        return MixtureProblem(
            [mixture],
            [start],
            unit,
            self.max_iter,
            tol=0.0,
            fixed_iterations=True,
            n_components=self.n_components,
        )


@dataclass(eq=False)
class NCAProblem(NeighborhoodProblem):
    """NCA over maps of a given number of rows.

    Attributes
    ----------
    points: All points at once, or in batches.
    start: The first map, with k rows.
    gain: What is maximised.
    sparsity: Penalty on the trace.
    """

    points: SoftNeighbors | Batches
    start: Matrix
    gain: Gain
    sparsity: float
    unit: float
    max_iter: int
    tol: float

    def __post_init__(self) -> None:
        self.fixed_iterations = isinstance(self.points, Batches)

    def solve(self) -> Iterations:
        """Minimise by L-BFGS, or by Adam on batches."""
        points, start = self.points, self.start
        if isinstance(points, Batches):
            return self._adam(points)

        def objective(flat: Vector) -> tuple[float, Vector]:
            value, gradient = self.value(points, flat.reshape(start.shape))
            return value, gradient.ravel()

        steps = lbfgs(objective, start.ravel(), max_iter=self.max_iter, tol=self.tol)
        iterations = map_iterations(
            steps, lambda at: Iteration(at[0], payload=at[1].reshape(start.shape))
        )
        return self._pruned(points, iterations) if self.sparsity > 0 else iterations

    def _pruned(self, points: SoftNeighbors, iterations: Iterations) -> Iterations:
        """Drop vanishing directions in one more iteration, if that lowers the objective."""
        last = Iteration(np.inf)

        def remembered(iteration: Iteration) -> Iteration:
            nonlocal last
            last = iteration
            return last

        stopped = yield from map_iterations(iterations, remembered)
        if stopped == "max_iter":
            return stopped
        _, size, axes = np.linalg.svd(last.payload, full_matrices=False)
        L = (size[:, None] * axes)[size > 0]
        gradient = self.value(points, L)[1]
        slope = (gradient * L).sum(axis=1) / (2 * size[size > 0] ** 2)
        for share in _VANISHING:
            kept = L[slope < share * self.sparsity]
            value = self.value(points, kept)[0] if len(kept) else np.inf
            if len(kept) < len(L) and value <= last.objective:
                yield Iteration(value, payload=kept)
                break
        return stopped

    def value(self, points: SoftNeighbors, L: Matrix) -> tuple[float, Matrix]:
        """Return the objective, to be minimised, and its gradient."""
        gain = points.evaluate([L], lambda _, log_p: self.gain(log_p))
        gradient = -gain.by_map[0] / points.total + 2 * self.sparsity * L
        return -gain.value / points.total + self.sparsity * float((L**2).sum()), gradient

    def _adam(self, batches: Batches) -> Iterations:
        """Adam; an iteration is a pass over all points."""
        at = Adam(self.start, np.zeros_like(self.start), np.zeros_like(self.start), 0)
        for _ in range(self.max_iter):
            values = []
            for rows in batches.draw():
                weight = None if batches.weight is None else batches.weight[rows]
                points = SoftNeighbors(batches.Z[rows], batches.codes[rows], weight=weight)
                value, gradient = self.value(points, at.L)
                values.append(value)
                at = at.moved(gradient)
            if not values:
                raise ValueError(
                    f"No batch of {batches.size} has two classes and two members of one; "
                    "use a larger batch_size."
                )
            yield Iteration(float(np.mean(values)), payload=at.L)
        return "max_iter"

    def factor(self, history: History) -> Matrix:
        """Return the last map, without directions that the penalty has made vanish."""
        L: Matrix = history[-1].payload
        if self.sparsity > 0:
            return nonzero_rows(L, float(np.linalg.norm(L, 2)) ** 2)
        return L
