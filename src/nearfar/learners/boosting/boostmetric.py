"""BoostMetric: boosting with trace-one rank-one matrices (Shen, Kim, Wang, van den Hengel, 2009).

The problem (P0), over psd M, for triplets r = (anchor, near, far):

    min  log sum_r exp(-rho_r) + v Tr M
    rho_r = <A_r, M> = d_M(anchor, far)^2 - d_M(anchor, near)^2                 (1), (2)

M = sum_j w_j xi_j xi_j' grows by one term a round (Algorithm 2):

    u_r  ~ exp(-rho_r)                            (6), (9)    weights, recomputed from the margins
    xi   = leading eigenvector of A(u) = sum_r u_r A_r     (10)
    w    : sum_r (H_r - v) u_r exp(-w H_r) = 0            (8)     H_r = <A_r, xi xi'>
    stop when lambda_max(A(u)) <= v                       (5)

Where nearfar departs from the paper, and why:

- v is relative, v = penalty * lambda_max at the first weights: the paper's absolute v changes
  meaning with the units of X.
- The step (8) is found by safeguarded Newton; bisection (Algorithm 1) is its twin in the tests.
  It is capped at 50 / lambda_max. If every H_r >= v there is no root: the boosting then ends with
  the capped step, as that term alone satisfies every triplet.
- The test lambda_max <= v has a tolerance; the strict one stalls.
- (P0) is unbounded below where v is less than the largest margin that a trace-one M can give to
  all triplets, as it is at v = 1e-7 whenever some M satisfies them all. Then the number of rounds
  is what regularises; the boosting also ends once the loss is 20 below its value at zero margins.
- Algorithm 2 never lowers a weight and so stops short of the optimum of (P0). `corrective=True`
  goes there: after each new term the whole factor L of M = L'L is re-optimised, and the gap to the
  optimum is certified.
- Learning starts from a prior metric by default; `prior=None` is the paper's zero.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from nearfar.constraints.constraints import Triplets
from nearfar.constraints.strategies import NearestTriplets, TripletStrategy, to_triplets
from nearfar.learners.base import (
    Floats,
    Prior,
    Problem,
    Scaler,
    require,
    require_integer,
    require_number,
)
from nearfar.learners.boosting.base import BoostingLearner
from nearfar.learners.boosting.loop import Rule, best_number_of_rounds, boost, separation_threshold
from nearfar.learners.boosting.losses import newton_step
from nearfar.learners.boosting.triplet_operator import Line, TripletOperator
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.recall_stub import recall
from nearfar.runtime.threads import single_threaded_blas
from nearfar.typing import Matrix, Vector

_LARGEST_STEP = 50.0
_EIGENVALUE_TOLERANCE = 1e-9
_NEARLY = 1e-4
_STALLED = 1e-15


class BoostMetric(BoostingLearner):
    """Learn a metric by boosting rank-one matrices on triplets.

    Parameters
    ----------
    max_iter : int, default=500
        The most terms to add. With a small `penalty` this is what regularises.
    penalty : float, default=1e-7
        Price v of a unit of trace, relative to the leading eigenvalue at zero margins. At 1 or more
        nothing is learned from zero.
    corrective : bool, default=False
        Re-optimise the whole metric after each new term, to the optimum of the paper's problem
        (P0), in float64. Needs a `penalty` that bounds the problem; 0.1 usually does.
    constraints : strategy, default=NearestTriplets(targets=3, impostors=3)
        What makes triplets of labels.
    prior : {"identity"}, Metric or None, default="identity"
        The metric to start from and to add to: Euclidean distance between scaled points, or a
        metric of your own. None is the paper's zero. Where nothing improves on the prior there are
        no rounds, and it is the result.
    prior_weight : float, default=0.3
        Mean squared distance of the triplets under the prior, in the units of margins. The prior's
        worst margins weigh exponentially in the loss: at 1 and more, a few outliers can lead.
    scale : {"standard", "unit"} or None, default="standard"
        How to scale X inside; the result is for X as given. "standard" gives every feature unit
        variance, "unit" and None leave features as they are; None also leaves the units of margins.
    n_components : int, optional
        Dimension to reduce to, by the principal axes of the mapped points; fewer, if the metric's
        rank is lower.
    validation_fraction : float, optional
        Share of anchors whose triplets are held out to choose the number of rounds: that after
        which most of them are satisfied. The metric is then learned from all triplets.
    patience : int, default=20
        Iterations without gain on the held-out triplets before the search for that number ends.
    tol : float, default=1e-7
        The boosting ends when a round lowers the objective by less; with `corrective`, when the gap
        is certified to be less, relative to an objective above 1.
    random_state : int, RandomState or None, default=None
        For strategies that draw at random and for `validation_fraction`.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    metric_ : Metric
        The learned metric.
    components_ : array of shape (n_components, n_features)
        Its map L.
    directions_ : array of shape (n_terms, n_features)
        Unit vectors xi_j in the units of X.
    weights_ : array of shape (n_terms,)
        Their weights w_j: before the reduction to `n_components`, M is the weighted prior plus
        ``(directions_.T * weights_) @ directions_``.
    gap_ : float
        How far the objective can be above the optimum of (P0), among all metrics of no larger
        trace: ``v Tr M - <A(u), M>``, and ``Tr M`` times what the leading eigenvalue exceeds v by.
    history_ : History
        Objective, eigenvalue, step and time of every round; ``history_.stopped`` says why they ended.
    n_iter_ : int
        Number of rounds.

    References
    ----------
    C. Shen, J. Kim, L. Wang, A. van den Hengel. Positive semidefinite metric learning with
    boosting. NIPS 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import BoostMetric
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = BoostMetric(max_iter=50).fit(X, y)
    >>> learner.transform(X).shape
    (178, 13)
    >>> learner.score(X, y) > 0.99
    True
    """

    def __init__(
        self,
        *,
        max_iter: int = 500,
        penalty: float = 1e-7,
        corrective: bool = False,
        constraints: TripletStrategy | None = None,
        prior: Prior = "identity",
        prior_weight: float = 0.3,
        scale: str | None = "standard",
        n_components: int | None = None,
        validation_fraction: float | None = None,
        patience: int = 20,
        tol: float = 1e-7,
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
        self.max_iter = max_iter
        self.penalty = penalty
        self.corrective = corrective
        self.validation_fraction = validation_fraction
        self.patience = patience

    def _strategy(self) -> TripletStrategy:
        return self.constraints if self.constraints is not None else NearestTriplets()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_integer("max_iter", self.max_iter, at_least=1)
        require_integer("patience", self.patience, at_least=1)
        require_number("penalty", self.penalty, at_least=0.0)
        share = self.validation_fraction
        if share is not None:
            require_number("validation_fraction", share, at_least=0.0)
            require("validation_fraction", share, 0 < share < 1, "None or between 0 and 1")

    def _build_problem(
        self, Z: Floats, scaler: Scaler, supervision: Any, random_state: np.random.RandomState
    ) -> BoostProblem:
        triplets = to_triplets(Z, supervision, self._strategy(), random_state)
        if self.corrective:
            Z = Z.astype(np.float64, copy=False)
        scatter = TripletOperator(Z, triplets, unit=1.0 if self.scale is None else "mean")
        state, prior = self._start(scatter, scaler)
        rule = PenalizedExponential.of(scatter, penalty=self.penalty, tol=self.tol)
        if self.validation_fraction is None:
            rounds = self._solve(scatter, rule, state, self.max_iter)
        else:
            parts = _split_by_anchor(triplets, self.validation_fraction, random_state)
            rounds = self._validated(scatter, rule, state, prior, parts)
        return BoostProblem(rounds, self.max_iter, scatter.unit, prior, scatter, rule, state)

    def _solve(
        self, scatter: TripletOperator, rule: PenalizedExponential, state: Vector, max_iter: int
    ) -> Iterations:
        solver = correct if self.corrective else boost
        return solver(scatter, rule, state, max_iter=max_iter)

    def _validated(
        self,
        scatter: TripletOperator,
        rule: PenalizedExponential,
        state: Vector,
        prior: Matrix | None,
        parts: tuple[Triplets, Triplets],
    ) -> Iterations:
        """Choose the number of rounds on held-out triplets, then learn from all of them."""
        seen, unseen = (TripletOperator(scatter.X, part, unit=scatter.unit) for part in parts)
        margins = [
            part.start() if prior is None else part.embedding_margins(part.embed(prior))
            for part in (seen, unseen)
        ]
        trial = self._solve(seen, rule, margins[0], self.max_iter)
        n_rounds = best_number_of_rounds(trial, unseen, margins[1], patience=self.patience)
        if prior is None:
            n_rounds = max(1, n_rounds)
        if n_rounds == 0:
            return "validation"
        reason = yield from self._solve(scatter, rule, state, n_rounds)
        return "validation" if reason == "max_iter" else reason

    def _expected_to_learn(self, problem: Problem) -> bool:
        return super()._expected_to_learn(problem) or self.penalty >= 1

    def _set_fitted_attributes(self, problem: Problem, trace: History) -> None:
        assert isinstance(problem, BoostProblem)
        super()._set_fitted_attributes(problem, trace)
        self.gap_ = problem.gap(self._factor(trace)[0])
        reasons = {
            "separated": "the penalty is too small to bound the problem",
            "max_iter": f"max_iter={self.max_iter} was reached",
            "stalled": f"rounding ends the search at gap_={self.gap_:.1e}",
        }
        if len(trace) and self.corrective and trace.stopped in reasons:
            warnings.warn(
                "BoostMetric(corrective=True) has no certified optimum to tol: "
                f"{reasons[trace.stopped]}.",
                ConvergenceWarning,
                stacklevel=5,
            )


@dataclass(frozen=True)
class PenalizedExponential(Rule):
    """The rule of Algorithm 2: exponential loss plus v times the trace.

    Attributes
    ----------
    v : float
        Price of a unit of trace.
    largest : float
        Leading eigenvalue at the first weights, the measure of what is small.
    tol : float
        Least decrease of the objective that is worth another round.
    enough : float
        Loss at which the triplets count as satisfied.
    """

    v: float
    largest: float
    tol: float
    enough: float

    @classmethod
    def of(cls, scatter: TripletOperator, *, penalty: float, tol: float) -> PenalizedExponential:
        """Scale the relative penalty by the leading eigenvalue at zero margins."""
        largest = max(0.0, scatter.top(scatter.weigh(scatter.start())[1])[0])
        return cls(penalty * largest, largest, tol, separation_threshold(scatter.total_weight))

    def step(self, line: Line, eigenvalue: float) -> tuple[float, bool]:
        """Solve (8); the last step is one that every triplet agrees with."""
        step, capped = newton_step(
            line.slope, self.v, _LARGEST_STEP / eigenvalue, accuracy=line.accuracy
        )
        return step, capped and line.lowest() >= self.v

    def objective(self, loss: float, total_step: float) -> float:
        """(P1): the trace is the sum of the steps."""
        return loss + self.v * total_step

    def no_direction_left(
        self, eigenvalue: float, v: Vector | None = None, previous: Vector | None = None
    ) -> bool:
        """(5), with a tolerance."""
        return eigenvalue <= self.v + _EIGENVALUE_TOLERANCE * self.largest

    def nearly_no_direction_left(self, eigenvalue: float) -> bool:
        """(5), as far as rounding lets an optimum be found."""
        return eigenvalue <= self.v * (1 + _NEARLY) + _EIGENVALUE_TOLERANCE * self.largest

    def done(self, loss: float, decrease: float) -> str:
        """Stop when all triplets are satisfied, or when a round gains nothing."""
        if loss < self.enough:
            return "separated"
        return "converged" if decrease < self.tol else ""

    def gap(self, trace: float, inner: float, eigenvalue: float) -> float:
        """Bound of the objective's distance to the optimum, for metrics of no larger trace.

        The objective is convex with gradient v I - A(u), so that it exceeds its value at any M' by
        at most <v I - A(u), M - M'>.
        """
        return self.v * trace - inner + max(0.0, eigenvalue - self.v) * trace


def correct(
    scatter: TripletOperator, rule: PenalizedExponential, state: Vector, *, max_iter: int
) -> Iterations:
    """Boost as Algorithm 2 does, and re-optimise the whole factor after each new term.

    For the factor L of M = L'L, (P0) is smooth and unconstrained, with gradient 2 (v L - L A(u)).
    The leading eigenvector of A(u) leads out of every stationary point that is not the optimum.
    """
    L = np.empty((0, len(scatter)))
    margins = state
    loss, u = scatter.weigh(state)
    objective, stalled = rule.objective(loss, 0.0), False
    for _ in range(max_iter):
        eigenvalue, v = scatter.top(u)
        gap = rule.gap(float((L**2).sum()), float(u @ (margins - state)), eigenvalue)
        certified = abs(gap) <= rule.tol * max(1.0, abs(objective))
        if certified and (stalled or rule.nearly_no_direction_left(eigenvalue)):
            return "converged"
        if stalled:
            return "stalled"
        grow = partial(_grow, scatter, rule, state, margins, L, eigenvalue, v)
        step, last, L = recall("corrected factor", grow, given=objective)
        if len(L) == 0:
            return "converged"
        margins = state + scatter.factor_margins(L)
        loss, u = scatter.weigh(margins)
        before, objective = objective, rule.objective(loss, float((L**2).sum()))
        yield Iteration(objective, eigenvalue, step, direction=v, factor=L)
        if last or loss < rule.enough:
            return "separated"
        stalled = before - objective <= _STALLED * max(1.0, abs(objective))
    return "max_iter"


def _grow(
    scatter: TripletOperator,
    rule: PenalizedExponential,
    state: Vector,
    margins: Vector,
    L: Matrix,
    eigenvalue: float,
    v: Vector,
) -> tuple[float, bool, Matrix]:
    """Add a term, and re-optimise the factor; the term's step, whether it is the last one."""
    step, last = 0.0, False
    if not rule.no_direction_left(eigenvalue):
        step, last = rule.step(scatter.along(margins, v), eigenvalue)
    grown = np.vstack([L, np.sqrt(step) * v]) if step > 0 else L
    return step, last, _optimal_factor(scatter, rule, state, grown) if len(grown) else grown


def _optimal_factor(
    scatter: TripletOperator, rule: PenalizedExponential, state: Vector, L: Matrix
) -> Matrix:
    """Minimise (P0) over the factor from L on, and drop rows that have become nothing."""

    def objective(flat: Vector) -> tuple[float, Vector]:
        factor = flat.reshape(L.shape)
        P = scatter.embed(factor)
        loss, u = scatter.weigh(state + scatter.embedding_margins(P))
        if loss < rule.enough:
            raise _UnboundedError(factor)
        gradient = 2 * (rule.v * factor - scatter.pull(u, P))
        return rule.objective(loss, float(flat @ flat)), gradient.ravel()

    options: Any = {"maxiter": 2000, "maxfun": 4000, "maxcor": 20, "ftol": 0.0, "gtol": 1e-10}
    try:
        with single_threaded_blas():
            result = minimize(objective, L.ravel(), jac=True, method="L-BFGS-B", options=options)
    except _UnboundedError as beyond:
        return beyond.factor
    _, size, axes = np.linalg.svd(result.x.reshape(L.shape), full_matrices=False)
    kept = size > 1e-7 * size[0]
    return size[kept, None] * axes[kept]


class _UnboundedError(Exception):
    """Every triplet is satisfied with room to spare; the objective may fall for ever."""

    def __init__(self, factor: Matrix) -> None:
        super().__init__()
        self.factor = factor.copy()


@dataclass(frozen=True)
class BoostProblem(Problem):
    """A posed BoostMetric problem, kept until the fit is concluded."""

    scatter: TripletOperator
    rule: PenalizedExponential
    state: Vector

    def gap(self, L: Matrix) -> float:
        """Bound of the distance to the optimum of (P0)."""
        own = self.scatter.factor_margins(L)
        u = self.scatter.weigh(self.state + own)[1]
        eigenvalue = self.scatter.top(u)[0]
        return self.rule.gap(float((L**2).sum()), float(u @ own), eigenvalue)


def _split_by_anchor(
    triplets: Triplets, fraction: float, random_state: np.random.RandomState
) -> tuple[Triplets, Triplets]:
    """Hold out all triplets of a share of the anchors."""
    anchors = np.unique(triplets.index[:, 0])
    n_held_out = max(1, round(fraction * len(anchors)))
    if n_held_out >= len(anchors):
        raise ValueError(
            f"validation_fraction={fraction:g} of {len(anchors)} anchors leaves none to learn from."
        )
    held_out = np.isin(triplets.index[:, 0], random_state.permutation(anchors)[:n_held_out])
    return triplets.take(~held_out), triplets.take(held_out)
