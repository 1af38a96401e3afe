"""BoostMetric: boosting with trace-one rank-one matrices (Shen, Kim, Wang, van den Hengel, 2009).

The problem (P0), over psd M, for triplets r = (anchor, near, far):

    min  log sum_r exp(-rho_r) + v Tr M
    rho_r = <A_r, M> = d_M(anchor, far)^2 - d_M(anchor, near)^2                 (1), (2)

M = sum_j w_j xi_j xi_j' grows by one term per iteration (Algorithm 2):

    u_r  ~ exp(-rho_r)                            (6), (9)    weights, recomputed from the margins
    xi   = leading eigenvector of A(u) = sum_r u_r A_r     (10)
    w    : sum_r (H_r - v) u_r exp(-w H_r) = 0            (8)     H_r = <A_r, xi xi'>
    stop when lambda_max(A(u)) <= v                       (5)

Where nearfar departs from the paper, and why:

- v is relative, v = penalty * lambda_max at the first weights: the paper's absolute v changes
  meaning with the units of X.
- The step (8) is found by safeguarded Newton, which the paper mentions, with a tenth of the
  evaluations of bisection (Algorithm 1; ``line_search="bisection"``). It is capped at
  50 / lambda_max. If every H_r >= v there is no root: the boosting then ends with the capped step,
  as that term alone satisfies every triplet.
- The test lambda_max <= v has a tolerance; the strict one stalls.
- (P0) is unbounded below where v is less than the largest margin that a trace-one M can give to
  all triplets, as it is at v = 1e-7 whenever some M satisfies them all. Then the number of
  iterations regularises; boosting also ends once the loss is 20 below its value at zero margins.
- Algorithm 2 never lowers a weight and so stops short of the optimum of (P0). `corrective=True`
  goes there: after each new term the whole factor L of M = L'L is re-optimised, and the gap to the
  optimum is certified.
- Learning starts from a prior metric by default; `prior=None` is the paper's zero.
- `loss` replaces the first term of (P0). A mean of a function that is never negative bounds (P0),
  so that it has an optimum for every v > 0, and its slope along a line falls to v: steps have no
  cap. Tolerances are relative to such a loss at zero margins.

``variant="paper"`` takes rows as they are, starts at zero, and takes `penalty` for v itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import minimize

from nearfar.learners.boosting.base import (
    Assembly,
    BoostingLearner,
    BoostingProblem,
    NewTerms,
    Rule,
    Start,
    boost,
    partial_fit,
    terms_beyond,
)
from nearfar.learners.boosting.triplet_operator import Line, TripletOperator
from nearfar.learners.declaration import Variant, learner
from nearfar.learners.problem import FitInput, MetricBuilder
from nearfar.losses import Loss
from nearfar.losses.loss import bisection_step, newton_step
from nearfar.metrics.metric import Metric
from nearfar.numerics.edges import Unit
from nearfar.runtime import parameters
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.parameters import boolean, choice, either, instance, number
from nearfar.runtime.progress import check_time
from nearfar.supervision import NearestTriplets
from nearfar.typing import Matrix, Vector

# What makes triplets from labels by default.
_STRATEGY = NearestTriplets()

# Largest step, in units of 1 / lambda_max: exp(-50) is no weight any more.
_LARGEST_STEP = 50.0

# Where the cap of a bounded loss ends to grow: its slope has vanished to rounding long before.
_LARGEST_CAP = 1e12

# Share of the first slope of a bounded loss at which a line counts as flat.
_FLAT = 1e-12

# Relative accuracy of eigenvalues from Lanczos; the strict test of (5) stalls.
_EIGENVALUE_TOLERANCE = 1e-9

# Relative excess of the eigenvalue over v that rounding can leave at an optimum.
_NEARLY_OPTIMAL = 1e-4

# Relative decrease of the objective that is rounding.
_STALLED_DECREASE = 1e-15

# Evaluations of the objective that corrective steps may take in all.
_MOST_EVALUATIONS = 20_000


@learner
class BoostMetric(BoostingLearner):
    """Learn a metric by boosting rank-one matrices on triplets.

    Parameters
    ----------
    max_iter : int, default=500
        The most terms to add. With a small `penalty` this is the main regularisation.
    loss : {"exponential", "logistic", "squared_hinge"} or Loss, default="exponential"
        What is minimised: a function of the triplets' margins. "exponential" is the paper's,
        "logistic" bounds the weight of a wrong triplet, and "squared_hinge" ignores triplets with a
        margin of 1. Errors differ little. `nearfar.losses.Loss` is the base of losses of your own.
    penalty : float, default=1e-7
        Penalty v for a unit of trace, relative to the leading eigenvalue at zero margins. At 1 or
        more nothing is learned from zero.
    variant : {"default", "paper"}, default="default"
        "paper" follows the paper literally; see the module's docstring.
    line_search : {"newton", "bisection"}, default="newton"
        How the weight of a new term is found. The result is the same to rounding; "bisection" is
        the paper's Algorithm 1, and slower.
    corrective : bool, default=False
        Re-optimise the whole metric after each new term, to the optimum of the paper's problem
        (P0), in float64. With the exponential loss it needs a `penalty` that bounds the problem;
        0.1 usually does. Needs a loss with a continuous derivative.
    constraints : strategy, default=NearestTriplets(targets=3, impostors=3)
        Makes triplets from labels.
    prior_weight : float, default=0.3
        Mean squared distance of the triplets under the prior, in the units of margins. The loss is
        exponential in the prior's worst margins: at 1 and more, a few outliers can dominate.
    tol : float, default=1e-7
        The boosting ends when a round lowers the objective by less; with `corrective`, when the gap
        is certified to be less, relative to an objective above 1. Losses other than the
        exponential one are divided by their value at zero margins first.

    Attributes
    ----------
    directions_ : array of shape (n_terms, n_features)
        Unit vectors xi_j in the units of X.
    weights_ : array of shape (n_terms,)
        Their weights w_j: before the reduction to `n_components`, M is the weighted prior plus
        ``(directions_.T * weights_) @ directions_``.
    gap_ : float
        How far the objective can be above the optimum of (P0), among all metrics of no larger
        trace: ``v Tr M - <A(u), M>``, plus ``Tr M`` times the excess of the leading eigenvalue
        over v.
    history_ : History
        Objective, eigenvalue, step and time of every iteration; ``history_.stopped`` says why they
        ended.

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
    >>> learner.score(X, y) > 0.98
    True
    """

    max_iter: int = 500
    loss: str | Loss = "exponential"
    penalty: float = 1e-7
    line_search: Literal["newton", "bisection"] = "newton"
    corrective: bool = False
    variant: Variant = "default"
    prior_weight: float = 0.3
    tol: float = 1e-7

    reads_rows: ClassVar[tuple[str, ...]] = ("triplets", "pairs")
    auto_order: ClassVar[int | None] = 14
    compare_order: ClassVar[int | None] = 1
    parameter_rules: ClassVar[dict[str, parameters.ParameterRule]] = {
        "loss": either(choice(*Loss.named), instance(Loss, "a Loss")),
        "penalty": number(at_least=0.0),
        "line_search": choice("newton", "bisection"),
        "corrective": boolean(),
    }
    paper_settings: ClassVar[Mapping[str, object]] = {"scale": None, "prior": None}

    partial_fit = partial_fit

    def _build_problem(self, data: FitInput) -> BoostMetricProblem:
        strategy = _STRATEGY if self.constraints is None else self.constraints
        triplets = data.supervision.triplets(data.Z, strategy, data.random_state)
        Z = data.Z.astype(np.float64, copy=False) if self.corrective else data.Z
        loss = self.loss if isinstance(self.loss, Loss) else Loss.named[self.loss]()
        loss.check()
        unit: Unit | float = 1.0 if self.scale is None else "mean"
        operator = TripletOperator(Z, triplets, loss, unit=unit)
        # The penalty is relative to the leading eigenvalue at zero margins.
        first, u = operator.loss_and_weights(operator.start())
        largest = max(0.0, operator.leading_eigenpair(u)[0])
        rule = PenalizedLoss(
            v=self.penalty * (1.0 if self.variant == "paper" else largest),
            largest=largest,
            tol=self.tol,
            satisfied=-np.inf if self.corrective and loss.bounded else operator.satisfied,
            bounded=loss.bounded,
            unit=first if loss.bounded and first > 0 else 1.0,
            find=newton_step if self.line_search == "newton" else bisection_step,
        )
        start = self._start(operator, data)
        if self.corrective and data.warm is not None:
            prior = self._start(operator, replace(data, warm=None))
            assert start.base is not None
            start = replace(prior, earlier=terms_beyond(start.base, prior.base))
        return BoostMetricProblem(operator, rule, start, self.max_iter, self.corrective)


class BoostMetricProblem(BoostingProblem):
    """(P0) for listed triplets."""

    def __init__(
        self,
        operator: TripletOperator,
        rule: PenalizedLoss,
        start: Start,
        max_iter: int,
        corrective: bool,
    ) -> None:
        self.operator, self.rule, self.start = operator, rule, start
        self.max_iter, self.corrective = max_iter, corrective
        self.unit, self.base = operator.unit, start.base
        self.assembly = Assembly(start.earlier)

    def solve(self) -> Iterations:
        """Run Algorithm 2."""
        if self.corrective:
            return correct(self.operator, self.rule, self.start, max_iter=self.max_iter)
        return boost(self.operator, self.rule, self.start.state, max_iter=self.max_iter)

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, object]:
        """Terms, and the certified gap."""
        return super().attributes(history, builder) | {"gap_": self._gap(history)}

    def _gap(self, history: History) -> float:
        L = self.assembly.terms(history).factor
        own = self.operator.factor_margins(L)
        u = self.operator.loss_and_weights(self.start.state + own)[1]
        inner = float(u @ own)
        del own
        trace = float((L**2).sum())
        return self.rule.gap(trace, inner, self.operator.leading_eigenpair(u)[0])

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn where nothing was learned, or where the optimum is not certified."""
        if len(history) == 0 and self.rule.v >= self.rule.largest > 0:
            return "Nothing was learned: the penalty is too large."
        if not (len(history) and self.corrective):
            return super().warning_message(history, metric)
        reasons = {
            "separated": "the penalty is too small to bound the problem",
            "max_iter": f"max_iter={self.max_iter} was reached",
            "evaluations": f"{_MOST_EVALUATIONS:,} evaluations were not enough",
            "stalled": f"rounding ends the search at gap_={self._gap(history):.1e}",
        }
        if history.stopped not in reasons:
            return super().warning_message(history, metric)
        return (
            "BoostMetric(corrective=True) did not certify the optimum to tol: "
            f"{reasons[history.stopped]}."
        )


@dataclass(frozen=True)
class PenalizedLoss(Rule):
    """The rule of Algorithm 2: a loss plus v times the trace.

    Attributes
    ----------
    v: Penalty for a unit of trace.
    largest: Leading eigenvalue at zero margins, the measure of what is small.
    tol: Smallest decrease of the objective that is worth another iteration, in units of
        `unit`.
    satisfied: Loss below which all triplets count as satisfied.
    bounded: Whether the loss is never negative.
    unit: Loss at zero margins if it is bounded, so that a constant factor of it changes
        nothing.
    psd: Whether only positive eigenvalues count.
    find: Finds the step: `newton_step` or `bisection_step`.
    """

    v: float
    largest: float
    tol: float
    satisfied: float
    bounded: bool = False
    unit: float = 1.0
    psd: bool = True
    find: Callable[..., tuple[float, bool]] = newton_step

    def step(self, line: Line, eigenvalue: float) -> tuple[float, bool]:
        """Solve (8); a step that every triplet agrees with is the last.

        The slope of a bounded loss falls to zero, and so the cap grows until there is a root.
        """
        cap = _LARGEST_STEP / eigenvalue
        target = max(self.v, _FLAT * eigenvalue) if self.bounded else self.v
        step, capped = self.find(line.slope, target, cap, accuracy=line.accuracy)
        if not self.bounded:
            return step, capped and line.smallest_margin() >= self.v
        while capped and cap < _LARGEST_CAP / eigenvalue:
            cap *= _LARGEST_STEP
            step, capped = self.find(line.slope, target, cap, accuracy=line.accuracy)
        return step, False

    def no_direction_left(
        self, eigenvalue: float, v: Vector | None = None, previous: Vector | None = None
    ) -> bool:
        """(5), with a tolerance."""
        return eigenvalue <= self.v + _EIGENVALUE_TOLERANCE * self.largest

    def nearly_no_direction_left(self, eigenvalue: float) -> bool:
        """(5), as far as rounding lets an optimum be found."""
        return eigenvalue <= self.v * (1 + _NEARLY_OPTIMAL) + _EIGENVALUE_TOLERANCE * self.largest

    def done(self, loss: float, decrease: float) -> str:
        """Stop when all triplets are satisfied, or when an iteration gains nothing."""
        if loss < self.satisfied:
            return "separated"
        return "converged" if decrease < self.tol * self.unit else ""

    def gap(self, trace: float, inner: float, eigenvalue: float) -> float:
        """Bound the objective's distance to the optimum, for metrics of no larger trace.

        The objective is convex with gradient v I - A(u), so that it exceeds its value at any M' by
        at most <v I - A(u), M - M'>.
        """
        return self.v * trace - inner + max(0.0, eigenvalue - self.v) * trace


def correct(
    operator: TripletOperator, rule: PenalizedLoss, start: Start, *, max_iter: int
) -> Iterations:
    """Boost as Algorithm 2 does, and re-optimise the whole factor after each new term.

    For the factor L of M = L'L, (P0) is smooth and unconstrained, with gradient 2 (v L - L A(u)).
    The leading eigenvector of A(u) leads out of every stationary point that is not the optimum.
    """
    state, L = start.state, start.earlier.factor
    margins = state + operator.factor_margins(L) if len(L) else state
    loss, u = operator.loss_and_weights(margins)
    objective, stalled = loss + rule.v * float((L**2).sum()), False
    evaluations = 0
    for _ in range(max_iter):
        eigenvalue, v = operator.leading_eigenpair(u)
        gap = rule.gap(float((L**2).sum()), float(u @ (margins - state)), eigenvalue)
        certified = abs(gap) <= rule.tol * max(rule.unit, abs(objective))
        if certified and (stalled or rule.nearly_no_direction_left(eigenvalue)):
            return "converged"
        if stalled:
            return "stalled"
        if evaluations >= _MOST_EVALUATIONS:
            return "evaluations"
        step, last = 0.0, False
        if not rule.no_direction_left(eigenvalue):
            step, last = rule.step(operator.line(margins, v), eigenvalue)
        grown = np.vstack([L, np.sqrt(step) * v]) if step > 0 else L
        if len(grown) == 0:
            return "converged"
        L, used = _optimal_factor(operator, rule, state, grown)
        evaluations += used
        margins = state + operator.factor_margins(L)
        loss, u = operator.loss_and_weights(margins)
        before, objective = objective, loss + rule.v * float((L**2).sum())
        yield Iteration(
            objective, eigenvalue, gap, step, NewTerms(v[None], np.array([step]), factor=L)
        )
        if last or loss < rule.satisfied:
            return "separated"
        stalled = before - objective <= _STALLED_DECREASE * max(rule.unit, abs(objective))
    return "max_iter"


def _optimal_factor(
    operator: TripletOperator, rule: PenalizedLoss, state: Vector, L: Matrix
) -> tuple[Matrix, int]:
    """Minimise (P0) over the factor, from L on, and drop rows that have vanished."""

    def objective(flat: Vector) -> tuple[float, Vector]:
        check_time()
        factor = flat.reshape(L.shape)
        P = operator.embed(factor)
        loss, u = operator.loss_and_weights(state + operator.embedding_margins(P))
        if loss < rule.satisfied:
            raise _UnboundedError(factor)
        gradient = 2 * (rule.v * factor - operator.pull(u, P))
        value = loss + rule.v * float(flat @ flat)
        return value / rule.unit, gradient.ravel() / rule.unit

    options: Any = {"maxiter": 1000, "maxfun": 2000, "maxcor": 20, "ftol": 0.0, "gtol": 1e-10}
    try:
        result = minimize(objective, L.ravel(), jac=True, method="L-BFGS-B", options=options)
    except _UnboundedError as beyond:
        return beyond.factor, 0
    _, size, axes = np.linalg.svd(result.x.reshape(L.shape), full_matrices=False)
    kept = size > 1e-7 * size[0]
    return size[kept, None] * axes[kept], int(result.nfev)


class _UnboundedError(Exception):
    """All triplets are satisfied with room to spare; the objective may fall for ever."""

    def __init__(self, factor: Matrix) -> None:
        super().__init__()
        self.factor = factor.copy()
