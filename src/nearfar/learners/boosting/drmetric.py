"""DRMetric: a doubly regularised soft margin (Liu and Vemuri, ECCV 2012).

For triplets n = (anchor, near, far) and unit vectors u_l, a trace-one M = sum_l w_l u_l u_l' with w
in the simplex gives the margins  m_n = sum_l w_l v_nl,  v_nl = (u_l'(x_a - x_f))^2 - (u_l'(x_a -
x_n))^2  (1)-(3). Their soft margin is to be large:

    max_w  min_d  d'm + delta(d, d0) eta       d in the simplex, d_n <= alpha       (4), (6), (7)

with delta the total Kullback-Leibler divergence (8). In each of D iterations (Algorithm 1):

    u_l = leading eigenvector of  A(d) - lambda sum_k u_k u_k'                      (13), (14)
    w   : the maximum over the simplex
    d_n = min(alpha, tau d0_n exp(-c m_n)),                                               (12)
    c   = 2 log(N D) / epsilon                                   (12) and footnote 2, uniform d0

The first regularisation, by d0 and alpha, keeps outliers from leading; the second, by lambda, makes
the directions independent.

Where nearfar departs from the paper, and why:

- Weights above alpha are not just cut off, which leaves the simplex (sums of 0.08 to 0.44): (12) is
  the true minimiser with the cap, tau being found by filling up (`SoftMargin`).
- w maximises the same problem that d minimises. The paper's w from the linear programme (4) belongs
  to a problem without delta, is not unique, and is not the partner of d: ``solver="lp"``.
- The order in an iteration is u, w, d, so that each direction sees the weights of all before it.
  The printed order is u, d, w.
- Squared distances are divided by the 90th percentile of the triplets' squared distances. The
  bound behind c divides by the largest: one outlier then makes all others too short for d to
  leave d0, and few directions are learned (digits, standardised: 3 of them, 25 % error).
- Targets are the nearest by default. The paper's farthest (`FarTargetTriplets`) often cannot be
  satisfied at any margin; then the best soft margin is that of a direction in which nothing varies,
  which is 0. That is how digits collapsed (77 % error). Directions without variance are therefore
  left out, and a linear programme whose value is not positive warns.
- lambda is relative to the leading eigenvalue of A(d0); absolute, it depends on the units of X.
- Learning ends when a direction's edge d'v does not exceed that of those before it: it would get
  no weight.

``variant="paper"`` takes far targets and the linear programme, cuts off at alpha, takes the printed
order and an absolute lambda, divides by the largest distance, and runs through all iterations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.special import logsumexp

from nearfar.learners.boosting.base import BoostingLearner, NewTerms, partial_fit
from nearfar.learners.boosting.trace_one import (
    SpannedTriplets,
    TraceOneProblem,
    best_terms,
    best_terms_by_lp,
    spanned_triplets,
)
from nearfar.learners.declaration import Prior, Variant, learner
from nearfar.learners.problem import FitInput, MetricBuilder
from nearfar.losses import SoftMargin
from nearfar.metrics.metric import Metric
from nearfar.numerics.edges import Unit
from nearfar.runtime import parameters
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.parameters import boolean, choice, integer, number, optional
from nearfar.supervision import FarTargetTriplets, NearestTriplets, Triplets
from nearfar.typing import Matrix, Vector

# Keeps the logarithm of a weight finite.
_SMALLEST_WEIGHT = 1e-200


@learner
class DRMetric(BoostingLearner):
    """Learn a trace-one metric with a large soft margin.

    Parameters
    ----------
    max_iter : int, optional
        The most directions to learn; by default as many as X has features. Margins of the
        triplets in all of them are kept: 8 bytes for each triplet and direction.
    cap : float, default=10.0
        Largest weight alpha of a triplet, as a multiple of 1 / (number of triplets).
    margin_tol : float, default=0.1
        Tolerance epsilon of the margin, relative to the 90th percentile of squared distances. The
        smaller it is, the farther the triplets' weights may move from their start. If many triplets
        may be wrong, 1 or more keeps them from dominating.
    independence : float, default=0.1
        Penalty lambda for the overlap with earlier directions, relative to the leading eigenvalue
        at the first weights; absolute with ``variant="paper"``.
    solver : {"entropy", "lp"}, optional
        How the directions are weighed: by the regularised problem ("entropy", the default), or by
        the paper's linear programme (4) ("lp", the default of ``variant="paper"``), for up to some
        ten thousand triplets.
    variant : {"default", "paper"}, default="default"
        "paper" follows Algorithm 1 literally; see the module's docstring.
    record_weights : bool, default=False
        Keep the weight of every triplet after every iteration.
    constraints : strategy, default=NearestTriplets(targets=3, impostors=3)
        Makes triplets from labels; `FarTargetTriplets` is the paper's.
    prior : {"identity", "covariance"}, Metric or None, default=None
        A metric to add to: Euclidean distance between scaled points, the inverse of their
        covariance, or one of your own. None, as in the paper, did as well on the sets tried.
    prior_weight : float, default=1.0
        Trace of the prior, in the space that the points span. The learned part has trace one.
    tol : float, default=1e-7
        Learning ends when a direction's edge exceeds that of the earlier ones by less, relative to
        the leading eigenvalue at the first weights.

    Attributes
    ----------
    metric_ : Metric
        The learned metric. Without a prior its trace is one, in the scaled space and in units of
        the 90th percentile of the triplets' squared distances.
    directions_ : array of shape (n_terms, n_features)
        Unit vectors u_l in the units of X.
    weights_ : array of shape (n_terms,)
        Their weights: before the reduction to `n_components`, M is the weighted prior plus
        ``(directions_.T * weights_) @ directions_``.
    margin_ : float
        The soft margin that was reached; that of (4) with ``solver="lp"``.
    gap_ : float
        How far it can be below the best of all trace-one metrics; NaN with ``solver="lp"``. The
        penalty for overlap keeps it from zero.
    triplets_ : Triplets
        With `record_weights`: the triplets, each once.
    triplet_weights_ : array of shape (n_iterations, n_triplets)
        With `record_weights`: their weights after each iteration.
    history_ : History
        Negative soft margin, eigenvalue, weight and time of every iteration; ``history_.stopped``
        says why they ended.

    References
    ----------
    M. Liu, B. C. Vemuri. A robust and efficient doubly regularized metric learning approach. ECCV
    2012.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import DRMetric
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = DRMetric().fit(X, y)
    >>> learner.transform(X).shape[0]
    178
    >>> learner.score(X, y) > 0.95
    True
    """

    max_iter: int | None = None
    cap: float = 10.0
    margin_tol: float = 0.1
    independence: float = 0.1
    solver: Literal["entropy", "lp"] | None = None
    variant: Variant = "default"
    record_weights: bool = False
    prior: Prior = None
    prior_weight: float = 1.0
    tol: float = 1e-7

    shrinks_without_prior: ClassVar[bool] = True
    # On some tables eight directions are worse than four, and thirty much better.
    patience: ClassVar[int] = 2
    auto_order: ClassVar[int | None] = 9
    compare_order: ClassVar[int | None] = 3
    parameter_rules: ClassVar[dict[str, parameters.ParameterRule]] = {
        "max_iter": optional(integer(at_least=1)),
        "cap": number(at_least=1.0),
        "margin_tol": number(above=0.0),
        "independence": number(at_least=0.0),
        "solver": optional(choice("entropy", "lp")),
        "record_weights": boolean(),
    }
    paper_settings: ClassVar[Mapping[str, object]] = {"prior": None}

    partial_fit = partial_fit

    def _build_problem(self, data: FitInput) -> DRProblem:
        paper = self.variant == "paper"
        strategy = self.constraints
        if strategy is None:
            strategy = FarTargetTriplets() if paper else NearestTriplets()
        unit: Unit = "longest" if paper else "long"
        spanned = spanned_triplets(self, data, strategy, unit)
        n_features = len(spanned.operator)
        soft = soft_margin_of(
            spanned.triplets, n_features, cap=self.cap, margin_tol=self.margin_tol
        )
        rule = DoublyRegularized(
            soft,
            spanned.start.state,
            self.independence,
            self.tol,
            self.solver or ("lp" if paper else "entropy"),
            paper,
        )
        recorded = spanned.triplets if self.record_weights else None
        return DRProblem(spanned, rule, self.max_iter or n_features, recorded)


class DRProblem(TraceOneProblem):
    """The soft margin of triplets over points in the space that they span.

    Parameters
    ----------
    recorded: The triplets, if their weights are to be kept.
    """

    def __init__(
        self,
        spanned: SpannedTriplets,
        rule: DoublyRegularized,
        max_iter: int,
        recorded: Triplets | None,
    ) -> None:
        super().__init__(spanned, max_iter)
        self.rule, self.recorded = rule, recorded

    def solve(self) -> Iterations:
        """Run Algorithm 1."""
        operator, rule, earlier = self.operator, self.rule, self.start.earlier
        U, w, V = self.reduced(earlier.directions), earlier.weights, self.earlier_margins()
        d = rule.soft.start if rule.paper else rule.triplet_weights(rule.offset)
        if len(U):
            d = rule.triplet_weights(rule.offset + w @ V.rows)
        held = d
        largest = operator.leading_eigenpair(rule.soft.start)[0]
        penalty = rule.independence * (1.0 if rule.paper else max(0.0, largest))
        for _ in range(self.max_iter):
            minus = math.sqrt(penalty) * U if len(U) else None
            eigenvalue, u = operator.leading_eigenpair(d, minus=minus)
            v = operator.margins(u)
            if not v.any() or rule.settled(float(v @ held), V.rows @ held, largest):
                return "converged"
            before = rule.offset + w @ V.rows
            w = np.append(w, 0.0) if len(U) else np.ones(1)
            first = len(U) == 0
            U = np.vstack([U, u])
            V.append(v)
            value, w, held = rule.term_weights(V.rows, w)
            if not rule.paper:
                d = rule.triplet_weights(rule.offset + w @ V.rows)
            elif not first:
                d = rule.triplet_weights(before)
            new = NewTerms(
                self.restored(u)[None],
                w[-1:],
                all_weights=w,
                constraint_weights=None if self.recorded is None else d,
            )
            yield Iteration(-value, eigenvalue, step=float(w[-1]), payload=new)
        return "max_iter"

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, object]:
        """Terms, the soft margin and, if requested, the triplets' weights."""
        if self.rule.solver == "lp" and len(history):
            margin, gap = -float(history.objective[-1]), math.nan
        else:
            # The soft margin is concave in M with gradient A(d), so that it falls short of that of
            # any trace-one M' by at most  <A(d), M' - M> <= lambda_max(A(d)) - <A(d), M>.
            terms = self.assembly.terms(history)
            learned = self.operator.factor_margins(self.reduced(terms.factor))
            value, d = self.rule.soft.evaluate(self.rule.offset + learned)
            margin, gap = -value, self.operator.leading_eigenpair(d)[0] - float(d @ learned)
        own: dict[str, object] = {"margin_": margin, "gap_": gap}
        if self.recorded is not None:
            weights = np.array([iteration.payload.constraint_weights for iteration in history])
            own |= {"triplets_": self.recorded, "triplet_weights_": weights}
        return super().attributes(history, builder) | own

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn where nothing was learned, or where the linear programme has no margin."""
        if self.rule.solver == "lp" and len(history) and history.objective[-1] >= 0:
            return (
                "The soft margin of the linear programme is not positive: the directions found do "
                "not satisfy enough of the triplets. Nearest targets (the default), a smaller cap "
                "or solver='entropy' may help."
            )
        return super().warning_message(history, metric)


def soft_margin_of(
    triplets: Triplets, n_features: int, *, cap: float, margin_tol: float
) -> SoftMargin:
    """Scale the parameters by the number of triplets: alpha, and c of (12) by footnote 2."""
    n = len(triplets)
    start = np.ones(n) if triplets.weight is None else triplets.weight / triplets.weight.max()
    start = np.maximum(start, _SMALLEST_WEIGHT)
    start /= start.sum()
    eta = margin_tol * math.hypot(1.0, math.log(n) - 1.0) / (2 * math.log(max(2, n * n_features)))
    spread = math.sqrt(1.0 + float(start @ (1.0 + np.log(start)) ** 2))
    return SoftMargin(start, cap / n, spread / eta)


@dataclass(frozen=True)
class DoublyRegularized:
    """The two regularisations.

    Attributes
    ----------
    soft: The first regularisation: d0, alpha and c.
    offset: shape (n_triplets,). Margins of the prior.
    independence: The second: lambda, relative unless `paper`.
    paper: Whether to follow Algorithm 1 to the letter.
    """

    soft: SoftMargin
    offset: Vector
    independence: float
    tol: float
    solver: str
    paper: bool

    def triplet_weights(self, margins: Vector) -> Vector:
        """Weights d from the margins (12); the paper cuts them off at the cap after normalising."""
        if not self.paper:
            return self.soft.evaluate(margins)[1]
        z = np.log(self.soft.start) - self.soft.sharpness * margins
        return np.minimum(np.exp(z - logsumexp(z)), self.soft.cap)

    def term_weights(self, V: Matrix, w: Vector) -> tuple[float, Vector, Vector]:
        """Best soft margin, the w that gives it, and the d that holds it there.

        `w` are the weights to begin with.
        """
        if self.solver == "lp":
            return best_terms_by_lp(V, self.soft.cap, self.offset, w)
        value, w = best_terms(self.soft, V, w, self.offset)
        return value, w, self.soft.evaluate(self.offset + w @ V)[1]

    def settled(self, edge: float, edges: Vector, largest: float) -> bool:
        """Whether a direction of this edge would get no weight beside the others."""
        if self.paper or len(edges) == 0:
            return False
        return edge <= edges.max() + self.tol * abs(largest)
