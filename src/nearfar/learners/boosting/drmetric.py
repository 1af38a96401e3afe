"""DRMetric: a doubly regularised soft margin (Liu and Vemuri, ECCV 2012).

For triplets n = (anchor, near, far) and unit vectors u_l, a trace-one M = sum_l w_l u_l u_l' with w
in the simplex gives the margins  m_n = sum_l w_l v_nl,  v_nl = (u_l'(x_a - x_f))^2 - (u_l'(x_a -
x_n))^2  (1)-(3). Their soft margin is to be large:

    max_w  min_d  d'm + delta(d, d0) eta       d in the simplex, d_n <= alpha       (4), (6), (7)

with delta the total Kullback-Leibler divergence (8). In each of D rounds (Algorithm 1):

    u_l = leading eigenvector of  A(d) - lambda sum_k u_k u_k'                      (13), (14)
    w   : the maximum over the simplex
    d_n = min(alpha, tau d0_n exp(-c m_n)),                                               (12)
    c   = 2 log(N D) / epsilon                                   (12) and footnote 2, uniform d0

The first regularisation, by d0 and alpha, keeps outliers from leading; the second, by lambda, makes
the directions independent.

Where nearfar departs from the paper, and why:

- Weights above alpha are not just cut off, which leaves the simplex (sums of 0.08 to 0.44): (12) is
  the true minimiser with the cap, tau being found by filling up (`soft_margin`).
- w maximises the same problem that d minimises. The paper's w from the linear programme (4) belongs
  to a problem without delta, is not unique, and is not the partner of d: ``weights="lp"``.
- In a round the order is u, w, d, so that each direction sees the weights of all before it. Printed
  is u, d, w.
- Squared distances are in units of one that 90 % of those in triplets do not exceed. The bound
  behind c takes the largest for the unit: one outlier then makes all others too short for d to
  leave d0, and few directions are learned (digits, standardised: 3 of them, 25 % error).
- Targets are the nearest by default. The paper's farthest (`FarTargetTriplets`) often cannot be
  satisfied at any margin; then the best soft margin is that of a direction in which nothing varies,
  which is 0. That is how digits collapsed (77 % error). Directions without variance are therefore
  left out, and a linear programme whose value is not positive warns.
- lambda is relative to the leading eigenvalue of A(d0); absolute, it depends on the units of X.
- The rounds end when a direction's edge d'v does not exceed that of those before it: it would get
  no weight.

``as_printed=True`` cuts off at alpha, takes the printed order and an absolute lambda, measures in
the largest distance, and runs through all rounds.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
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
from nearfar.learners.boosting.eigen import row_space
from nearfar.learners.boosting.soft_margin import SoftMargin, best_terms_by_lp
from nearfar.learners.boosting.triplet_operator import TripletOperator, Unit
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.recall_stub import recall
from nearfar.runtime.threads import single_threaded_blas
from nearfar.typing import Matrix, Vector

_LEAST_WEIGHT = 1e-200


class DRMetric(BoostingLearner):
    """Learn a trace-one metric with a large soft margin, robust against wrong triplets.

    Parameters
    ----------
    max_iter : int, optional
        The most directions to learn; by default as many as X has features. Margins of the
        triplets in all of them are kept: 8 bytes for each triplet and round.
    cap : float, default=10.0
        Largest weight alpha of a triplet, as a multiple of 1 / (number of triplets).
    margin_tol : float, default=0.1
        Tolerance epsilon of the margin, in units of a long squared distance: the smaller, the
        farther the triplets' weights may go from where they start. If many triplets may be wrong,
        1 or more keeps them from leading.
    independence : float, default=0.1
        Price lambda of the overlap with earlier directions, relative to the leading eigenvalue at
        the first weights; absolute if `as_printed`.
    weights : {"entropy", "lp"}, default="entropy"
        What weighs the directions: the regularised problem, or the paper's linear programme (4),
        for up to some ten thousand triplets.
    as_printed : bool, default=False
        Follow Algorithm 1 to the letter; see the module's docstring.
    record_weights : bool, default=False
        Keep the weight of every triplet after every round.
    constraints : strategy, default=NearestTriplets(targets=3, impostors=3)
        What makes triplets of labels; `FarTargetTriplets` is the paper's.
    prior : {"identity"}, Metric or None, default=None
        A metric to add to: Euclidean distance between scaled points, or one of your own. None, as
        in the paper, did as well on the sets tried.
    prior_weight : float, default=1.0
        History of the prior; that of what is learned is one.
    scale : {"standard", "unit"} or None, default="standard"
        How to scale X inside; the result is for X as given. "standard" gives every feature unit
        variance, "unit" and None leave features as they are; None also leaves the units of margins.
    n_components : int, optional
        Dimension to reduce to, by the principal axes of the mapped points; fewer, if the metric's
        rank is lower.
    tol : float, default=1e-7
        The rounds end when a direction's edge exceeds that of the earlier ones by less, relative to
        the leading eigenvalue at the first weights.
    random_state : int, RandomState or None, default=None
        For strategies that draw at random.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    metric_ : Metric
        The learned metric. Its trace is one in the scaled space, without a prior.
    components_ : array of shape (n_components, n_features)
        Its map L.
    directions_ : array of shape (n_terms, n_features)
        Unit vectors u_l in the units of X.
    weights_ : array of shape (n_terms,)
        Their weights: before the reduction to `n_components`, M is the weighted prior plus
        ``(directions_.T * weights_) @ directions_``.
    margin_ : float
        The soft margin that was reached; that of (4) with ``weights="lp"``.
    gap_ : float
        How far it can be below the best of all trace-one metrics; NaN with ``weights="lp"``. The
        price of overlap keeps it from zero.
    triplets_ : Triplets
        With `record_weights`: the triplets, each once.
    triplet_weights_ : array of shape (n_iter_, n_triplets)
        With `record_weights`: their weights after each round.
    history_ : History
        Negative soft margin, eigenvalue, weight and time of every round; ``history_.stopped`` says
        why they ended.
    n_iter_ : int
        Number of rounds.

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

    def __init__(
        self,
        *,
        max_iter: int | None = None,
        cap: float = 10.0,
        margin_tol: float = 0.1,
        independence: float = 0.1,
        weights: Literal["entropy", "lp"] = "entropy",
        as_printed: bool = False,
        record_weights: bool = False,
        constraints: TripletStrategy | None = None,
        prior: Prior = None,
        prior_weight: float = 1.0,
        scale: str | None = "standard",
        n_components: int | None = None,
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
        self.cap = cap
        self.margin_tol = margin_tol
        self.independence = independence
        self.weights = weights
        self.as_printed = as_printed
        self.record_weights = record_weights

    def _strategy(self) -> TripletStrategy:
        return self.constraints if self.constraints is not None else NearestTriplets()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.max_iter is not None:
            require_integer("max_iter", self.max_iter, at_least=1)
        require_number("cap", self.cap, at_least=1.0)
        require_number("margin_tol", self.margin_tol, at_least=0.0)
        require("margin_tol", self.margin_tol, self.margin_tol > 0, "positive")
        require_number("independence", self.independence, at_least=0.0)
        require("weights", self.weights, self.weights in ("entropy", "lp"), '"entropy" or "lp"')

    def _build_problem(
        self, Z: Floats, scaler: Scaler, supervision: Any, random_state: np.random.RandomState
    ) -> DRProblem:
        triplets = to_triplets(Z, supervision, self._strategy(), random_state).distinct()
        basis = row_space(Z)
        points = Z if basis is None else Z @ basis.T.astype(Z.dtype)
        unit: Unit = "longest" if self.as_printed else "long"
        scatter = TripletOperator(points, triplets, unit=1.0 if self.scale is None else unit)
        prior = self._weighted_prior(scaler)
        offset = np.zeros(len(triplets))
        if prior is not None:
            offset = scatter.factor_margins(prior if basis is None else prior @ basis.T)
        max_iter = self.max_iter or points.shape[1]
        soft = soft_margin_of(triplets, points.shape[1], cap=self.cap, margin_tol=self.margin_tol)
        rule = DoublyRegularized(
            soft, offset, self.independence, self.tol, self.weights, self.as_printed
        )
        rounds = regularize(
            scatter, rule, basis, max_iter=max_iter, record_weights=self.record_weights
        )
        return DRProblem(rounds, max_iter, 1.0, prior, scatter, rule, basis, triplets)

    def _weighted_prior(self, scaler: Scaler) -> Matrix | None:
        """Factor of the prior, with `prior_weight` for its trace."""
        factor = self._prior_factor(scaler)
        if factor is None:
            return None
        trace = float((factor**2).sum())
        return factor * math.sqrt(self.prior_weight / trace) if trace > 0 else factor

    def _set_fitted_attributes(self, problem: Problem, trace: History) -> None:
        assert isinstance(problem, DRProblem)
        super()._set_fitted_attributes(problem, trace)
        self.margin_, self.gap_ = problem.margin_and_gap(*self._terms(trace))
        if self.weights == "lp" and len(trace):
            self.margin_, self.gap_ = -float(trace.objective[-1]), math.nan
        if self.record_weights:
            self.triplets_ = problem.triplets
            self.triplet_weights_ = np.array([r.constraint_weights for r in trace])
        if self.weights == "lp" and len(trace) and trace.objective[-1] >= 0:
            warnings.warn(
                "The soft margin of the linear programme is not positive: the directions found do "
                "not satisfy enough of the triplets. Nearest targets (the default), a smaller cap "
                "or weights='entropy' may help.",
                ConvergenceWarning,
                stacklevel=5,
            )


def soft_margin_of(
    triplets: Triplets, n_features: int, *, cap: float, margin_tol: float
) -> SoftMargin:
    """Scale the parameters by the number of triplets: alpha, and c of (12) by footnote 2."""
    n = len(triplets)
    start = np.ones(n) if triplets.weight is None else triplets.weight / triplets.weight.max()
    start = np.maximum(start, _LEAST_WEIGHT)
    start /= start.sum()
    eta = margin_tol * math.hypot(1.0, math.log(n) - 1.0) / (2 * math.log(max(2, n * n_features)))
    spread = math.sqrt(1.0 + float(start @ (1.0 + np.log(start)) ** 2))
    return SoftMargin(start, cap / n, spread / eta)


@dataclass(frozen=True)
class DoublyRegularized:
    """What regularises the rounds.

    Attributes
    ----------
    soft : SoftMargin
        The first regularisation: d0, alpha and c.
    offset : array of shape (n_triplets,)
        Margins of the prior.
    independence : float
        The second: lambda, relative unless `as_printed`.
    tol : float
    weights : {"entropy", "lp"}
    as_printed : bool
    """

    soft: SoftMargin
    offset: Vector
    independence: float
    tol: float
    weights: str
    as_printed: bool

    def first_weights(self) -> Vector:
        """Weights d before the first round."""
        return self.soft.start if self.as_printed else self.triplet_weights(self.offset)

    def triplet_weights(self, margins: Vector) -> Vector:
        """Weights d from the margins (12)."""
        return self.soft.clipped(margins) if self.as_printed else self.soft.weigh(margins)[1]

    def term_weights(self, V: Matrix, w: Vector) -> tuple[float, Vector, Vector]:
        """Best soft margin, the w that gives it, and the d that holds it there.

        `w` of the last round is what to begin with.
        """
        if self.weights == "lp":
            return recall(
                "weights of terms",
                lambda: best_terms_by_lp(V, self.soft.cap, self.offset),
                given=V[-1, :1],
            )
        with single_threaded_blas():
            value, w = recall(
                "weights of terms",
                lambda: self.soft.best_terms(V, w, self.offset),
                given=w,
            )
        return value, w, self.soft.weigh(self.offset + w @ V)[1]

    def price_of_overlap(self, largest: float) -> float:
        """Return lambda."""
        return self.independence * (1.0 if self.as_printed else max(0.0, largest))

    def settled(self, edge: float, edges: Vector, largest: float) -> bool:
        """Whether a direction of this edge would get no weight beside the others."""
        if self.as_printed or len(edges) == 0:
            return False
        return edge <= edges.max() + self.tol * abs(largest)


def regularize(
    scatter: TripletOperator,
    rule: DoublyRegularized,
    basis: Matrix | None,
    *,
    max_iter: int,
    record_weights: bool,
) -> Iterations:
    """Algorithm 1.

    Parameters
    ----------
    scatter : TripletOperator
        The triplets, over points in the space that they span.
    rule : DoublyRegularized
    basis : array of shape (rank, n_features) or None
        Basis of that space; None for all of it.
    max_iter : int
    record_weights : bool
        Whether rounds carry the triplets' weights.
    """
    d = held = rule.first_weights()
    largest = scatter.top(rule.soft.start)[0]
    price = rule.price_of_overlap(largest)
    U, V, w = np.empty((0, len(scatter))), _Rows(scatter.n_triplets), np.empty(0)
    for number in range(max_iter):
        eigenvalue, u = scatter.top(d, minus=math.sqrt(price) * U if len(U) else None)
        v = scatter.margins(u)
        if not v.any() or rule.settled(float(v @ held), V.all @ held, largest):
            return "converged"
        earlier = rule.offset + w @ V.all
        U = np.vstack([U, u])
        V.append(v)
        value, w, held = rule.term_weights(V.all, np.append(w, 0.0) if number else np.ones(1))
        if not rule.as_printed:
            d = rule.triplet_weights(rule.offset + w @ V.all)
        elif number:
            d = rule.triplet_weights(earlier)
        yield Iteration(
            -value,
            eigenvalue,
            float(w[-1]),
            direction=u if basis is None else u @ basis,
            mix=w,
            constraint_weights=d if record_weights else None,
        )
    return "max_iter"


class _Rows:
    """A matrix that grows by rows."""

    def __init__(self, n_columns: int) -> None:
        self._rows = np.empty((8, n_columns))
        self._number = 0

    def append(self, row: Vector) -> None:
        if self._number == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._number] = row
        self._number += 1

    @property
    def all(self) -> Matrix:
        return self._rows[: self._number]


@dataclass(frozen=True)
class DRProblem(Problem):
    """A posed DRMetric problem, kept until the fit is concluded."""

    scatter: TripletOperator
    rule: DoublyRegularized
    basis: Matrix | None
    triplets: Triplets

    def margin_and_gap(self, directions: Matrix, weights: Vector) -> tuple[float, float]:
        """Soft margin, and a bound of its distance to the best of all trace-one metrics.

        The soft margin is concave in M with gradient A(d), so that it falls short of that of any
        trace-one M' by at most  <A(d), M' - M> <= lambda_max(A(d)) - <A(d), M>.
        """
        factor = np.sqrt(weights)[:, None] * directions
        if self.basis is not None:
            factor = factor @ self.basis.T
        own = self.scatter.factor_margins(factor)
        value, d = self.rule.soft.weigh(self.rule.offset + own)
        return value, self.scatter.top(d)[0] - float(d @ own)
