"""Efficient max-margin metric learning on pairs (Xiong, Johnson, Corso).

For pairs k = (i, j) with y_k = 1 (similar) or -1 (dissimilar) the problem (3) is, over psd A and b,

    min  1/2 |A - P|_F^2 + b^2 / 2 + C / n sum_k max(0, 1 - y_k (b - d_A(x_i, x_j)))        (1)-(3)

so that similar pairs are nearer than the threshold b, and dissimilar ones farther, by a margin. It
is solved in time linear in the number of pairs by cutting planes (4), a plane being one weighted
Gram matrix of the pairs that are violated (Algorithm 1).

With a kernel, points are first mapped to their features on a few basis points, found by matching
pursuit (section 4.6; `matching_pursuit`), and the same problem is solved there.

Where nearfar departs from the paper, and why:

- The paper minimises (5) by a gradient step and then projects on the psd cone; that ends elsewhere
  (7.90 where the optimum is 2.21). Here the model of each iteration is solved by its dual, which
  contains the projection.
- The printed stop omits (1/n) sum c, and tests the plane that has just been added. Here lower and
  upper bounds of the optimum are kept; `gap_` is between them.
- The best solution so far moves along the line to the model's minimum, and the next plane touches
  between the two (as in OCAS of Franc and Sonnenburg): fewer planes.
- Squared distances are in units of their mean over the pairs, in which b^2 / 2, which (2) does not
  have, is harmless. C is for these units; with ``scale=None`` it is that of (3).
- P is zero in the paper. Penalising the distance to a multiple of the identity keeps digits and
  vehicles at the level of Euclidean distance, which zero does not (vehicles 38 against 30 % error).
- A kernel's basis is chosen by exact residuals, and its features are whitened.
- For few pairs the dual with one multiplier per pair is faster (`box_dual`); same optimum.
- C and epsilon have no values in the paper.
- Section 4.5's kernel between pairs, O(n^2), is not a metric; see docs/methods/maxmargin.md.

``variant="paper"`` is Algorithm 1: P is zero, each plane touches at the model's minimum, and the
basis is the printed one. It keeps the exact minimum of each model and the stop by bounds, and drops
planes without weight for twenty iterations, which come back if they are violated.

A path over C: the planes of one C stay valid for every other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.learners.base import ConstraintLearner
from nearfar.learners.declaration import Variant, learner
from nearfar.learners.fitting import FitMethod
from nearfar.learners.max_margin.box_dual import ascend_box
from nearfar.learners.max_margin.cutting_planes import (
    MaxMarginObjective,
    PairOperator,
    Solution,
    cut_planes,
)
from nearfar.learners.max_margin.matching_pursuit import kernel_parameters, pursue
from nearfar.learners.problem import (
    FitInput,
    MetricBuilder,
    Problem,
    factor_on_scaled_points,
    prior_factor,
    uncertified,
)
from nearfar.metrics.feature_maps import Kernel, KernelMap
from nearfar.metrics.metric import Metric
from nearfar.numerics.missing import naming_remedies
from nearfar.runtime.history import History, Iterations
from nearfar.runtime.parameters import ParameterRule, choice, integer, number
from nearfar.supervision import Pairs, RandomPairs
from nearfar.typing import Ints, Matrix, Vector

# Residual of a basis point, relative to the largest K(x, x), that is not rounding.
_SMALLEST_RESIDUAL = 1e-10
# Up to here a multiplier per pair is faster than planes, each of which has D^2 numbers.
_FEW_PAIRS_PER_FEATURE = 10


@learner
class MaxMarginMetric(ConstraintLearner):
    """Learn a metric and a threshold that separate similar from dissimilar pairs by a margin.

    Parameters
    ----------
    C : float, default=100.0
        Penalty for violated margins. It matters most: try 1, 100 and 10,000 on pairs that are
        held out.
    kernel : str or callable, optional
        Learn in the space of a kernel: a name of `sklearn.metrics.pairwise`, or a function of two
        rows (a metric with your own function cannot be saved). It sees centred and scaled points,
        so kernels for counts do not apply.
    gamma, degree, coef0 : float, optional
        Parameters of the kernel; by default scikit-learn's.
    n_basis : int, default=200
        The most basis points for the kernel.
    solver : {"auto", "planes", "box"}, default="auto"
        Cutting planes, or one multiplier per pair. The optimum is the same. "auto" takes "box" for
        at most ten pairs per feature, unless rounding stalls it.
    variant : {"default", "paper"}, default="default"
        "paper" is the paper's algorithm, with the paper's basis for a kernel; with ``scale=None``
        also `C` is the paper's. See the module's docstring.
    max_iter : int, default=1000
        The most planes.
    constraints : strategy, default=RandomPairs()
        Makes pairs from labels: ten for each row, at least 2,000, half of them similar.
    prior : {"identity", "covariance"}, Metric or None, default="identity"
        The metric P to stay near: Euclidean distance between scaled points (with a kernel, that of
        the kernel), the inverse of their covariance, or a metric of your own. None starts from
        zero, as the paper does.
    prior_weight : float, default=1.0
        Mean squared distance of the pairs under the prior.
    n_components : int, optional
        Dimension to reduce to, by the principal axes of the mapped points; fewer, if the metric's
        rank is lower. `threshold_` is for the metric before the reduction.
    tol : float, default=1e-3
        Gap to end at, relative to the objective.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Its map L; with a kernel, for the features of the basis.
    threshold_ : float
        b: pairs at a squared distance below it are the same.
    gap_ : float
        How far the objective can be above the optimum.
    basis_ : array of int of shape (n_basis,)
        Rows of X that are the kernel's basis.
    history_ : History
        Objective and gap after every iteration; ``history_.stopped`` says why they ended.

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

    C: float = 100.0
    kernel: Kernel | None = None
    gamma: float | None = None
    degree: float | None = None
    coef0: float | None = None
    n_basis: int = 200
    solver: Literal["auto", "planes", "box"] = "auto"
    variant: Variant = "default"
    max_iter: int = 1000
    prior_weight: float = 1.0
    tol: float = 1e-3

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs")
    reads_rows: ClassVar[tuple[str, ...]] = ("pairs",)
    rotates: ClassVar[bool] = True
    auto_order: ClassVar[int | None] = 10
    compare_order: ClassVar[int | None] = 4
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "C": number(at_least=0.0),
        "n_basis": integer(at_least=1),
        "solver": choice("auto", "planes", "box"),
    }
    paper_settings: ClassVar[Mapping[str, object]] = {"prior": None, "solver": "planes"}

    def decision_function(self, X: ArrayLike, pairs: Pairs | ArrayLike | None = None) -> Vector:
        """Threshold minus squared distance: positive for pairs that are the same.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        pairs : Pairs, or array-like of int of shape (n_pairs, 2), optional
            Row numbers of X. Without them the rows of X are differences of two points.
        """
        check_is_fitted(self)
        with naming_remedies():
            points = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        if pairs is not None:
            return self.threshold_ - self.metric_.pair_distances(points, pairs) ** 2
        if self.kernel is not None:
            raise ValueError("With a kernel, differences of points are not enough; pass pairs.")
        embedded = self.metric_.transform(points).astype(np.float64, copy=False)
        return self.threshold_ - np.einsum("ij,ij->i", embedded, embedded)

    def predict(self, X: ArrayLike, pairs: Pairs | ArrayLike | None = None) -> NDArray[np.bool_]:
        """Return which pairs are the same; see `decision_function` for the arguments."""
        return self.decision_function(X, pairs) > 0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.kernel, str) and self.kernel in ("chi2", "additive_chi2"):
            raise ValueError(f"{self.kernel!r} is for counts; here points are centred and scaled.")
        if self.kernel is not None and self.prior not in ("identity", None):
            raise ValueError('With a kernel the prior must be "identity" or None.')

    def _method(self) -> FitMethod:
        method = super()._method()
        if self.kernel is None or method.scale != "auto":
            return method
        return replace(method, scale="standard")

    def _kinds_read(self) -> tuple[str, ...]:
        if self.kernel is not None:
            return ()
        drawn = getattr(self.constraints or RandomPairs, "ignores_rows", False)
        return (*self.reads_rows, "labels") if drawn else self.reads_rows

    def _most_components(self, n_features: int) -> int:
        return n_features if self.kernel is None else self.n_basis

    def _rotates(self) -> bool:
        return self.kernel is None and super()._rotates()

    def _build_problem(self, data: FitInput) -> MaxMarginProblem:
        strategy = RandomPairs() if self.constraints is None else self.constraints
        pairs = data.supervision.pairs(data.Z, strategy, data.random_state)
        features, basis = data.Z, None
        if self.kernel is not None:
            options = kernel_parameters(self.kernel, self.gamma, self.degree, self.coef0)
            basis = pursue(
                data.Z,
                self.kernel,
                options,
                self.n_basis,
                tol=_SMALLEST_RESIDUAL,
                paper_start=data.random_state if self.variant == "paper" else None,
            )
            features = basis.map.transform(data.Z)
        operator = PairOperator(features, pairs, None if self.scale is not None else 1.0)
        P = np.zeros((operator.n_features, operator.n_features))
        L = prior_factor(self.prior, self.prior_weight, data.scaler)
        if L is not None:
            # The mean squared distance of the pairs under the prior is `prior_weight`.
            L = L if basis is None else np.eye(operator.n_features)
            mean = float(operator.p @ operator.distances(L))
            P = (self.prior_weight / mean if mean > 0 else self.prior_weight) * (L.T @ L)
        solver = self.solver
        if solver == "auto" and len(pairs) > _FEW_PAIRS_PER_FEATURE * operator.n_features:
            solver = "planes"
        objective = MaxMarginObjective(operator, self.C, P, self.tol)
        problem = MaxMarginProblem(
            objective, solver, self.max_iter, operator.unit, printed=self.variant == "paper"
        )
        if basis is not None:
            scaler = data.scaler
            problem.features, problem.basis = features, basis.indices
            problem.feature_map = replace(basis.map, center=scaler.center, scale=scaler.scale)
        if data.warm is not None:
            problem.resume(data.warm, data)
        return problem


@dataclass(eq=False)
class MaxMarginProblem(Problem):
    """The objective (3), and the way to its optimum.

    Attributes
    ----------
    solver: "auto" takes the box, and planes if that stalls.
    printed: Whether planes are those of the algorithm as printed.
    basis: shape (n_basis,). Rows of X that are the kernel's basis.
    """

    objective: MaxMarginObjective
    solver: str
    max_iter: int
    unit: float
    printed: bool = False
    basis: Ints | None = None
    start: Solution | None = None
    stops_early = False

    def resume(self, metric: Metric, data: FitInput) -> None:
        """Start from a metric, with the best threshold for it."""
        basis, earlier = self.feature_map, metric.feature_map
        if basis is None:
            L = factor_on_scaled_points(metric, data.scaler, "metric to continue from")
        elif (
            isinstance(earlier, KernelMap)
            and isinstance(basis, KernelMap)
            and earlier.points.shape == basis.points.shape
            and np.allclose(earlier.points, basis.points)
        ):
            L = metric.L
        else:
            raise ValueError("warm_start: the fitted metric has another kernel basis.")
        self.start = self.objective.with_best_threshold(L * np.sqrt(self.unit))
        if self.solver == "auto":
            self.solver = "planes"

    def solve(self) -> Iterations:
        """Take the requested solver, or the one that suits the number of pairs."""
        objective = self.objective
        if self.solver in ("auto", "box"):
            top = objective.C * objective.pairs.p
            reason = yield from ascend_box(
                objective.dual, objective.objective, top, objective.tol, self.max_iter
            )
            if self.solver == "box" or reason != "stalled":
                return reason
        planes = cut_planes(
            objective, max_iter=self.max_iter, start=self.start, printed=self.printed
        )
        return (yield from planes)

    def factor(self, history: History) -> Matrix:
        """Return the factor of the last solution."""
        solution: Solution = history[-1].payload
        return solution.factor

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, object]:
        """The threshold, the certified gap and, with a kernel, the basis."""
        last = history[-1]
        basis = {} if self.basis is None else {"basis_": self.basis}
        return {"threshold_": last.payload.b, "gap_": max(0.0, last.gap), **basis}

    def shrunk_attributes(self, metric: Metric, data: FitInput) -> dict[str, object]:
        """The best threshold for the shrunk metric."""
        if self.feature_map is None:
            L = factor_on_scaled_points(metric, data.scaler, "metric")
        else:
            L = metric.L
        return {"threshold_": self.objective.with_best_threshold(L * np.sqrt(self.unit)).b}

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn where the optimum was not reached, or is zero."""
        if metric.is_zero:
            return "Nothing was learned: the best metric is zero. Use a larger C or a prior."
        return uncertified(history, self.max_iter)
