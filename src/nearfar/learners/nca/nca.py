"""Neighbourhood components analysis, plain and sparse.

With p_i the probability that the point i finds its own class among soft neighbours
(`neighborhoods`), over maps L of k rows:

    NCA         max  1/n sum_i p_i                       (Goldberger et al., as in scikit-learn)
                max  1/n sum_i log p_i                   (objective="likelihood")
    SparseNCA   min -1/n sum_i log p_i + sparsity Tr M,  M = L'L     (Hong, Li, Jiang, Tu: (5)-(7))

Tr M is the sum of M's eigenvalues and, being |L|_F^2, smooth in L: L-BFGS on a square L goes to a
local optimum of the problem in M, at which directions that do not pay for themselves are gone.

Where nearfar departs from the paper, and why:

- Distances are not divided by |M|_F. Divided, the likelihood does not see the scale of M, so that
  the penalty shrinks M and hardly makes it sparse; undivided, the scale is learned, M = 0 is legal,
  and Tr M is the price of rank. ``MixtureNCA(n_metrics=1, normalize=True)`` is the paper's form.
- The penalty is on the mean over points, so that it means the same for any number of them.
- L-BFGS in place of fixed steps and eigenvalue clipping.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from nearfar.constraints.strategies import TripletStrategy
from nearfar.learners.base import Floats, Prior, Problem, Scaler, require, require_number
from nearfar.learners.nca.base import NeighborhoodLearner, without_nothing
from nearfar.learners.nca.neighborhoods import Neighborhoods, can_be_asked
from nearfar.numerics.lbfgs import iterations_from, lbfgs
from nearfar.runtime.history import Iteration, Iterations
from nearfar.runtime.recall_stub import recall
from nearfar.typing import Ints, Matrix, Vector

Value = Callable[[Matrix], tuple[float, Matrix]]

_STEP = 0.03
_MOMENTS = (0.9, 0.999)


@dataclass(frozen=True)
class _Adam:
    """A map, the running moments of its gradients, and how many there were."""

    L: Matrix
    first: Matrix
    second: Matrix
    number: int

    def moved(self, gradient: Matrix) -> _Adam:
        """Take a step."""
        number = self.number + 1
        first = _MOMENTS[0] * self.first + (1 - _MOMENTS[0]) * gradient
        second = _MOMENTS[1] * self.second + (1 - _MOMENTS[1]) * gradient**2
        size = np.sqrt(second / (1 - _MOMENTS[1] ** number)) + 1e-12
        step = _STEP / len(self.L) ** 0.5 * first / (1 - _MOMENTS[0] ** number) / size
        return _Adam(self.L - step, first, second, number)


class _OneMetric(NeighborhoodLearner):
    """NCA with one metric, with or without a price of rank."""

    _price = 0.0

    def _gain(self, log_p: Vector) -> tuple[float, Vector]:
        """Sum of what is maximised, and its derivatives by log p."""
        return float(log_p.sum()), np.ones(len(log_p))

    def _build_problem(
        self, Z: Floats, scaler: Scaler, supervision: Any, random_state: np.random.RandomState
    ) -> Problem:
        codes = self._labels(supervision)
        Z, unit = self._in_units(Z)
        whole = Neighborhoods(Z, codes)
        start = self._first_map(Z, scaler, unit)
        if self.batch_size is None or self.batch_size >= len(Z):
            rounds = self._descend(whole, start)
        else:
            rounds = self._descend_by_batches(Z, codes, start, random_state)
        return Problem(rounds, self.max_iter, unit, None)

    def _value(self, points: Neighborhoods, L: Matrix) -> tuple[float, Matrix]:
        """Objective, to be minimised, and its gradient."""
        chances = points.chances(L)
        n = int(points.asked.sum())
        g = np.zeros(len(points.asked))
        gain, g[points.asked] = self._gain(chances.log_p[points.asked])
        gradient = -points.gradient(chances, g, L) / n + 2 * self._price * L
        return -gain / n + self._price * float((L**2).sum()), gradient

    def _descend(self, points: Neighborhoods, L: Matrix) -> Iterations:
        shape = L.shape

        def objective(flat: Vector) -> tuple[float, Vector]:
            value, gradient = self._value(points, flat.reshape(shape))
            return value, gradient.ravel()

        steps = lbfgs(objective, L.ravel(), max_iter=self.max_iter, tol=self.tol)

        def round_of(value: float, flat: Vector) -> Iteration:
            factor = self._without_nothing(flat.reshape(shape))
            return Iteration(value, np.nan, np.nan, factor=factor)

        return iterations_from(steps, round_of)

    def _descend_by_batches(
        self, Z: Floats, codes: Ints, L: Matrix, random_state: np.random.RandomState
    ) -> Iterations:
        """Adam on random parts of the points; a round is a pass over all of them."""
        assert self.batch_size is not None
        batches = max(1, round(len(Z) / self.batch_size))
        at = _Adam(L, np.zeros_like(L), np.zeros_like(L), 0)
        for _ in range(self.max_iter):
            parts = np.array_split(random_state.permutation(len(Z)), batches)
            pass_over = partial(self._pass, Z, codes, parts, at)
            value, L, first, second, number = recall("pass", pass_over, given=at.L)
            at = _Adam(L, first, second, number)
            yield Iteration(value, np.nan, np.nan, factor=self._without_nothing(at.L))
        return "max_iter"

    def _pass(
        self, Z: Floats, codes: Ints, parts: list[Ints], at: _Adam
    ) -> tuple[float, Matrix, Matrix, Matrix, int]:
        """Mean of the objective over the parts, and where steps along its gradients lead."""
        values = []
        for rows in parts:
            if can_be_asked(codes[rows]):
                value, gradient = self._value(Neighborhoods(Z[rows], codes[rows]), at.L)
                values.append(value)
                at = at.moved(gradient)
        if not values:
            raise ValueError(
                f"No batch of {self.batch_size} has two classes and a companion; "
                "a larger batch_size is needed."
            )
        return float(np.mean(values)), at.L, at.first, at.second, at.number

    def _without_nothing(self, L: Matrix) -> Matrix:
        """Drop directions that the price of rank has taken away."""
        return L if self._price == 0 else without_nothing(L, float(np.linalg.norm(L, 2)) ** 2)


class NCA(_OneMetric):
    """Neighbourhood components analysis: learn a map under which points find their own class.

    Parameters
    ----------
    objective : {"expected", "likelihood"}, default="expected"
        What is maximised: the expected share of points that find their class, as in scikit-learn,
        or the mean logarithm of their probability to do so.
    max_iter : int, default=200
        The most iterations of L-BFGS, or, with `batch_size`, passes over the points.
    batch_size : int, optional
        Learn from random parts of about this size, for very many points.
    constraints : strategy, default=NearestTriplets(targets=3, impostors=3)
        What `score` makes of labels; learning takes labels as they are.
    prior : {"identity"}, Metric or None, default="identity"
        Where to begin: Euclidean distance between scaled points, with |M|_F = 1, or a metric of
        your own. None is the same as "identity".
    prior_weight : float, default=1.0
        What the squared distances of that metric are multiplied by.
    scale : {"standard", "unit"} or None, default="standard"
        How to scale X inside; the result is for X as given. "standard" gives every feature unit
        variance, "unit" and None leave features as they are.
    n_components : int, optional
        Rows of the map that is learned; by default as many as there are features.
    tol : float, default=1e-6
        Relative decrease of the objective at which to end.
    random_state : int, RandomState or None, default=None
        For batches.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    metric_ : Metric
        The learned metric.
    components_ : array of shape (n_components, n_features)
        Its map L.
    history_ : History
        Objective (negative, to be minimised) after every iteration; ``history_.stopped`` says why
        they ended.
    n_iter_ : int
        Number of iterations.

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

    def __init__(
        self,
        *,
        objective: Literal["expected", "likelihood"] = "expected",
        max_iter: int = 200,
        batch_size: int | None = None,
        constraints: TripletStrategy | None = None,
        prior: Prior = "identity",
        prior_weight: float = 1.0,
        scale: str | None = "standard",
        n_components: int | None = None,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            constraints=constraints,
            prior=prior,
            prior_weight=prior_weight,
            scale=scale,
            n_components=n_components,
            tol=tol,
            random_state=random_state,
            verbose=verbose,
        )
        self.objective = objective
        self.max_iter = max_iter
        self.batch_size = batch_size

    def _check_parameters(self) -> None:
        super()._check_parameters()
        known = self.objective in ("expected", "likelihood")
        require("objective", self.objective, known, '"expected" or "likelihood"')

    def _gain(self, log_p: Vector) -> tuple[float, Vector]:
        if self.objective == "likelihood":
            return super()._gain(log_p)
        p = np.exp(log_p)
        return float(p.sum()), p


class SparseNCA(_OneMetric):
    """Neighbourhood components analysis with a price of rank: a metric of few directions.

    Parameters
    ----------
    sparsity : float, default=0.01
        Price of a unit of the trace of M, for the mean over points. The larger, the lower the rank.
    max_iter : int, default=500
        The most iterations of L-BFGS, or, with `batch_size`, passes over the points.
    batch_size : int, optional
        Learn from random parts of about this size, for very many points. The steps' noise keeps
        small directions alive: ranks stay high.
    constraints : strategy, default=NearestTriplets(targets=3, impostors=3)
        What `score` makes of labels; learning takes labels as they are.
    prior : {"identity"}, Metric or None, default="identity"
        Where to begin: Euclidean distance between scaled points, with |M|_F = 1, or a metric of
        your own. None is the same as "identity".
    prior_weight : float, default=1.0
        What the squared distances of that metric are multiplied by.
    scale : {"standard", "unit"} or None, default="standard"
        How to scale X inside; the result is for X as given. "standard" gives every feature unit
        variance, "unit" and None leave features as they are.
    n_components : int, optional
        The most rows of the map; by default as many as there are features.
    tol : float, default=1e-8
        Relative decrease of the objective at which to end.
    random_state : int, RandomState or None, default=None
        For batches.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    metric_ : Metric
        The learned metric.
    components_ : array of shape (rank, n_features)
        Its map L.
    history_ : History
        Objective after every iteration; ``history_.stopped`` says why they ended.
    n_iter_ : int
        Number of iterations.

    References
    ----------
    Y. Hong, Q. Li, J. Jiang, Z. Tu. Learning a mixture of sparse distance metrics for
    classification and dimensionality reduction. CVPR 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import SparseNCA
    >>> X, y = load_wine(return_X_y=True)
    >>> [SparseNCA(sparsity=s).fit(X, y).metric_.n_components for s in (0.001, 0.1)]
    [4, 2]
    """

    def __init__(
        self,
        *,
        sparsity: float = 0.01,
        max_iter: int = 500,
        batch_size: int | None = None,
        constraints: TripletStrategy | None = None,
        prior: Prior = "identity",
        prior_weight: float = 1.0,
        scale: str | None = "standard",
        n_components: int | None = None,
        tol: float = 1e-8,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            constraints=constraints,
            prior=prior,
            prior_weight=prior_weight,
            scale=scale,
            n_components=n_components,
            tol=tol,
            random_state=random_state,
            verbose=verbose,
        )
        self.sparsity = sparsity
        self.max_iter = max_iter
        self.batch_size = batch_size

    @property
    def _price(self) -> float:  # type: ignore[override]
        return self.sparsity

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_number("sparsity", self.sparsity, at_least=0.0)
