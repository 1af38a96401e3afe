"""Efficient max-margin metric learning on pairs (Xiong, Johnson, Corso).

For pairs k = (i, j) with y_k = 1 (similar) or -1 (dissimilar) the problem (3) is, over psd A and b,

    min  1/2 |A - P|_F^2 + b^2 / 2 + C / n sum_k max(0, 1 - y_k (b - d_A(x_i, x_j)))        (1)-(3)

so that similar pairs are nearer than the threshold b, and dissimilar ones farther, by a margin. It
is solved in time linear in the number of pairs by cutting planes (4), a plane being one weighted
Gram matrix of the pairs that are violated (Algorithm 1; `solvers`).

With a kernel, points are first mapped to their features on a few basis points, found by matching
pursuit (section 4.6; `matching_pursuit`), and the same problem is solved there.

Where nearfar departs from the paper, and why:

- The paper minimises (5) by a gradient step and then projects on the psd cone; that ends elsewhere
  (7.90 where the optimum is 2.21). Here the model of each round is solved by its dual, in which the
  projection is part of the function.
- The printed stop omits (1/n) sum c, and tests the plane that has just been added. Here lower and
  upper bounds of the optimum are kept; `gap_` is between them.
- The best solution so far moves along the line to the model's minimum, and the next plane touches
  between the two (as in OCAS of Franc and Sonnenburg): fewer planes.
- b^2 / 2 in (3), which (2) does not have, is harmless once distances are in units of their mean.
- P is zero in the paper. Penalising the distance to a multiple of the identity keeps digits and
  vehicles at the level of Euclidean distance, which zero does not (vehicles 38 against 30 % error).
- C and epsilon have no values in the paper.
- Section 4.5's kernel between pairs, O(n^2), is no metric; docs/maxmargin.md says what it is.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.constraints.constraints import Pairs, Triplets
from nearfar.constraints.strategies import PairStrategy, RandomPairs, to_pairs, to_triplets
from nearfar.learners.base import (
    Floats,
    MetricLearner,
    Prior,
    Problem,
    Scaler,
    require,
    require_integer,
    require_number,
)
from nearfar.learners.max_margin.matching_pursuit import Pursuit, kernel_parameters, pursue
from nearfar.learners.max_margin.pair_problem import Cut, PairProblem
from nearfar.learners.max_margin.solvers import MaxMargin, ascend_box, cut_planes
from nearfar.metrics.kernel_map import Kernel
from nearfar.metrics.metric import Metric
from nearfar.runtime.history import History, Iterations
from nearfar.runtime.threads import with_single_threaded_blas
from nearfar.typing import Matrix, Vector

_LEAST_RESIDUAL = 1e-10
_FEW_PAIRS = 10


class MaxMarginMetric(MetricLearner):
    """Learn a metric and a threshold that tell similar from dissimilar pairs by a margin.

    Parameters
    ----------
    C : float, default=100.0
        Price of a margin's violation. What matters most; `C_path` finds a good one.
    kernel : str or callable, optional
        Learn in the space of a kernel: a name of `sklearn.metrics.pairwise`, or a function of two
        rows (a metric with a function of yours can't be saved). It sees centred and scaled points,
        so that kernels for counts do not apply.
    gamma, degree, coef0 : float, optional
        Parameters of the kernel; by default scikit-learn's.
    n_basis : int, default=200
        The most basis points for the kernel.
    solver : {"auto", "planes", "box"}, default="auto"
        Cutting planes, or a multiplier for each pair. The optimum is the same. "auto" takes "box"
        for at most ten pairs a feature, unless rounding stalls it.
    max_iter : int, default=1000
        The most planes.
    constraints : strategy, default=RandomPairs()
        What makes pairs of labels: ten for each row, at least 2,000, half of them similar.
    prior : {"identity"}, Metric or None, default="identity"
        The metric P to stay near: Euclidean distance between scaled points (with a kernel, that of
        the kernel), or a metric of your own. None is the paper's zero.
    prior_weight : float, default=1.0
        Mean squared distance of the pairs under the prior.
    scale : {"standard", "unit"} or None, default="standard"
        How to scale X inside; the result is for X as given. "standard" gives every feature unit
        variance, "unit" and None leave features as they are; None also leaves the units of
        distances.
    n_components : int, optional
        Dimension to reduce to, by the principal axes of the mapped points; fewer, if the metric's
        rank is lower. `threshold_` is for the metric before the reduction.
    tol : float, default=1e-3
        Gap to end at, relative to the objective.
    random_state : int, RandomState or None, default=None
        For drawing pairs.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    metric_ : Metric
        The learned metric.
    components_ : array of shape (n_components, n_features)
        Its map L; with a kernel, for the features of the basis.
    threshold_ : float
        b: pairs at a squared distance below it are the same.
    gap_ : float
        How far the objective can be above the optimum.
    basis_ : array of int of shape (n_basis,)
        Rows of X that are the kernel's basis.
    history_ : History
        Objective (and gap, in `eigenvalue`) after every round; ``history_.stopped`` says why they
        ended.
    n_iter_ : int
        Number of rounds.

    References
    ----------
    C. Xiong, D. M. Johnson, J. J. Corso. Efficient max-margin metric learning. 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import MaxMarginMetric
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = MaxMarginMetric(random_state=0).fit(X, y)
    >>> learner.predict(X, [[0, 1], [0, 177]])
    array([ True, False])
    """

    def __init__(
        self,
        *,
        C: float = 100.0,
        kernel: Kernel | None = None,
        gamma: float | None = None,
        degree: float | None = None,
        coef0: float | None = None,
        n_basis: int = 200,
        solver: Literal["auto", "planes", "box"] = "auto",
        max_iter: int = 1000,
        constraints: PairStrategy | None = None,
        prior: Prior = "identity",
        prior_weight: float = 1.0,
        scale: str | None = "standard",
        n_components: int | None = None,
        tol: float = 1e-3,
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
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_basis = n_basis
        self.solver = solver
        self.max_iter = max_iter

    def decision_function(self, X: ArrayLike, pairs: Pairs | ArrayLike | None = None) -> Vector:
        """Threshold minus squared distance: positive for pairs that are the same.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        pairs : Pairs, or array-like of int of shape (n_pairs, 2), optional
            Row numbers of X. Without them the rows of X are differences of two points.
        """
        check_is_fitted(self)
        points = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        if pairs is not None:
            return self.threshold_ - self.metric_.pair_distances(points, pairs) ** 2
        if self.kernel is not None:
            raise ValueError(
                "With a kernel, points are not known by their differences: give pairs."
            )
        embedded = self.metric_.transform(points).astype(np.float64, copy=False)
        return self.threshold_ - np.einsum("ij,ij->i", embedded, embedded)

    def predict(self, X: ArrayLike, pairs: Pairs | ArrayLike | None = None) -> NDArray[np.bool_]:
        """Tell which pairs are the same; arguments as for `decision_function`."""
        return self.decision_function(X, pairs) > 0

    def pairs_of(self, X: ArrayLike, y: ArrayLike, random_state: np.random.RandomState) -> Pairs:
        """Draw the pairs that a fit to labels would learn from."""
        self._check_parameters()
        points, codes = self._validate(X, y)
        Z = Scaler.fit(points, self.scale).transform(points)
        return to_pairs(Z, codes, self._strategy(), random_state)

    def fit_with(self, planes: list[Cut], X: ArrayLike, pairs: Pairs) -> Self:
        """Fit, beginning with planes of fits to the same X and pairs; new ones are appended."""
        self._planes = planes
        try:
            return self.fit(X, pairs)
        finally:
            del self._planes

    def _strategy(self) -> PairStrategy:
        return self.constraints if self.constraints is not None else RandomPairs()

    def _constraints(
        self, Z: Floats, supervision: Any, random_state: np.random.RandomState
    ) -> Triplets | Pairs:
        if isinstance(supervision, Triplets):
            return to_triplets(Z, supervision, self._strategy(), random_state)  # type: ignore[arg-type]
        return to_pairs(Z, supervision, self._strategy(), random_state)

    def _most_components(self, n_features: int) -> int:
        return n_features if self.kernel is None else self.n_basis

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_number("C", self.C, at_least=0.0)
        require_integer("n_basis", self.n_basis, at_least=1)
        require_integer("max_iter", self.max_iter, at_least=1)
        if isinstance(self.kernel, str) and self.kernel in ("chi2", "additive_chi2"):
            raise ValueError(f"{self.kernel!r} is for counts; here points are centred and scaled.")
        known = self.solver in ("auto", "planes", "box")
        require("solver", self.solver, known, '"auto", "planes" or "box"')

    def _build_problem(
        self, Z: Floats, scaler: Scaler, supervision: Any, random_state: np.random.RandomState
    ) -> MaxMarginProblem:
        pairs = to_pairs(Z, supervision, self._strategy(), random_state)
        basis, features = None, Z
        if self.kernel is not None:
            basis = self._pursue(Z)
            features = basis.map.transform(Z)
        posed = PairProblem(features, pairs, None if self.scale is not None else 1.0)
        prior = self._prior_matrix(posed, scaler)
        margin = MaxMargin(posed, self.C, prior, self.tol)
        rounds = self._solve(margin, len(pairs) <= _FEW_PAIRS * posed.n_features)
        problem = MaxMarginProblem(rounds, self.max_iter, posed.unit, None)
        if basis is None:
            return problem
        return replace(
            problem,
            features=features,
            kernel_map=replace(basis.map, center=scaler.center, scale=scaler.scale),
            basis=basis,
        )

    def _solve(self, margin: MaxMargin, few: bool) -> Iterations:
        """Take the solver that was asked for, or that suits the number of pairs."""
        planes: list[Cut] | None = getattr(self, "_planes", None)
        if self.solver == "box" or (self.solver == "auto" and few and planes is None):
            reason = yield from with_single_threaded_blas(
                ascend_box(margin, max_iter=self.max_iter)
            )
            if self.solver == "box" or reason != "stalled":
                return reason
        rounds = cut_planes(margin, max_iter=self.max_iter, planes=planes)
        return (yield from with_single_threaded_blas(rounds))

    def _pursue(self, Z: Floats) -> Pursuit:
        parameters = kernel_parameters(self.kernel, self.gamma, self.degree, self.coef0)
        assert self.kernel is not None
        return pursue(Z, self.kernel, parameters, self.n_basis, tol=_LEAST_RESIDUAL)

    def _prior_matrix(self, posed: PairProblem, scaler: Scaler) -> Matrix:
        """P, scaled so that the mean squared distance of the pairs is `prior_weight`."""
        n_features = posed.n_features
        if self.prior is None or self.prior_weight == 0:
            return np.zeros((n_features, n_features))
        if self.kernel is None:
            L = self._prior_factor(scaler)
        elif isinstance(self.prior, Metric):
            raise ValueError('With a kernel the prior is "identity" or None.')
        else:
            L = np.eye(n_features)
        assert L is not None
        mean = float(posed.p @ posed.distances(L))
        factor = self.prior_weight / mean if mean > 0 else self.prior_weight
        return factor * (L.T @ L)

    def _set_fitted_attributes(self, problem: Problem, trace: History) -> None:
        assert isinstance(problem, MaxMarginProblem)
        last = trace[-1]
        assert last.threshold is not None
        self.threshold_ = last.threshold
        self.gap_ = max(0.0, last.eigenvalue)
        trace.rounds[:-1] = [replace(r, factor=None) for r in trace.rounds[:-1]]
        if problem.basis is not None:
            self.basis_ = problem.basis.indices
        if trace.stopped in ("max_iter", "stalled"):
            ended = "Rounding ends the search"
            if trace.stopped == "max_iter":
                ended = f"max_iter={self.max_iter} was reached"
            warnings.warn(
                f"{ended}; the objective can be "
                f"{self.gap_ / last.objective:.1e} (relative) above the optimum.",
                ConvergenceWarning,
                stacklevel=5,
            )
        if not self._factor(trace)[0].any():
            warnings.warn(
                "Nothing was learned: the best metric is zero. A larger C or a prior helps.",
                ConvergenceWarning,
                stacklevel=5,
            )


@dataclass(frozen=True)
class MaxMarginProblem(Problem):
    """A posed max-margin problem, kept until the fit is concluded."""

    basis: Pursuit | None = None
