"""PSDBoost: the largest soft margin of a trace-one metric (Shen, Welsh, Wang, NIPS 2008).

For triplets r = (anchor, near, far) with the margins  <A_r, X> = d_X(anchor, far)^2 -
d_X(anchor, near)^2  and shares p_r (1 / m, or in proportion to their weights):

    max  rho - 1/nu sum_r p_r xi_r     over rho, xi >= 0 and psd X with Tr X = 1
    <A_r, X> >= rho - xi_r

X = sum_l w_l u_l u_l' with w in the simplex: a linear programme in w, rho and xi if the unit
vectors u_l are known. Its dual has a constraint for each of them:

    min  gamma     over u in the simplex with  u_r <= p_r / nu
    u_l' A(u) u_l <= gamma        A(u) = sum_r u_r A_r

Matrix generation: solve it for the vectors so far, add the constraint that its u violates most,
which is that of the leading eigenvector of A(u), and repeat. For any u that is feasible,
lambda_max(A(u)) is an upper bound of the soft margin; the value for the vectors so far is a lower
one. They end within `tol` of each other.

Where nearfar departs from the paper, and why:

- The paper's C, the price of a slack, is 1 / (nu m): nu does not change meaning with the number of
  triplets. At most a share nu of them has a margin below rho.
- Solutions u of the dual are vertices that jump from one iteration to the next, and with many
  triplets its linear programmes take nearly all of the time. Entropy is added to u (`SoftMargin`),
  in proportion to the gap: it costs less than the gap leaves open, Newton's method needs a few
  steps, and both bounds stay those of the problem without it. Twenty times faster on 27,000
  triplets of embeddings.
- Directions are sought between the last u and the one with the best upper bound, in the manner of
  Wentges: half of the iterations. Several leading eigenvectors are added at a time, and directions
  without weight are left out of the programme after some iterations.
- Directions in which nothing varies are left out. Their margins are zero, more than those of
  triplets that no metric satisfies, so that at a small nu they would be the optimum. If the soft
  margin is not positive without a prior, a warning says so.
- A prior is added to X, and its margins to those of X. Alone, X has few directions if nu is large
  (wine, nu = 0.5: 17 % error, 1.9 % with a prior) and settles for directions of little variance
  if it is small. ``prior=None`` is the paper's problem.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nearfar.learners.boosting.base import BoostingLearner, NewTerms
from nearfar.learners.boosting.trace_one import (
    SpannedTriplets,
    TraceOneProblem,
    best_terms,
    spanned_triplets,
    worst_weights,
)
from nearfar.learners.declaration import learner
from nearfar.learners.problem import FitInput, MetricBuilder
from nearfar.losses import SoftMargin
from nearfar.metrics.metric import Metric
from nearfar.numerics.linear_algebra import leading_block
from nearfar.runtime import parameters
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.parameters import number
from nearfar.supervision import NearestTriplets
from nearfar.typing import Matrix, Vector

# Gap, relative to the mean squared distance, below which bounds are rounding.
_ROUNDING = 1e-8

# The most directions that an iteration adds.
_DIRECTIONS = 4

# Share of the gap, and of what the gap may be at the end, that the entropy of weights may cost.
_ENTROPY_SHARE = 0.5

# Share of the weights with the best bound in those at which directions are sought.
_STABILITY = 0.7

# Iterations without weight after which a direction is left out of the programme.
_IDLE_ITERATIONS = 10


@learner
class PSDBoost(BoostingLearner):
    """Learn the trace-one metric with the largest soft margin.

    Parameters
    ----------
    nu : float, default=0.3
        Share of the triplets, by weight, that may have less than the margin: those with the
        smallest margins, whose mean is maximised. At 1 a single direction is learned. If it is too
        small, no metric has a positive soft margin.
    max_iter : int, default=200
        The most iterations, each of which adds up to four directions. Margins of the triplets in
        all of them are kept: 8 bytes for each triplet and direction.
    constraints : strategy, default=NearestTriplets(targets=3, impostors=3)
        Makes triplets from labels.
    prior : {"identity", "covariance"}, Metric or None, default="identity"
        A metric to add to: Euclidean distance between scaled points, the inverse of their
        covariance, or one of your own. None adds nothing, as in the paper.
    prior_weight : float, default=0.1
        Trace of the prior, in the space that the points span. The learned part has trace one.
    tol : float, default=1e-3
        Gap to end at, relative to the leading eigenvalue at equal weights of the triplets.

    Attributes
    ----------
    metric_ : Metric
        The learned metric. Without a prior its trace is one, in the scaled space and in units of
        the triplets' mean squared distance.
    directions_ : array of shape (n_terms, n_features)
        Unit vectors u_l in the units of X.
    weights_ : array of shape (n_terms,)
        Their weights: before the reduction to `n_components`, M is the weighted prior plus
        ``(directions_.T * weights_) @ directions_``.
    margin_ : float
        The soft margin that was reached, in units of the mean squared distance of the triplets.
    gap_ : float
        How far it can be below the best of all trace-one metrics.
    history_ : History
        Negative soft margin, eigenvalue, gap and time of every iteration; ``history_.stopped`` says
        why they ended.

    References
    ----------
    C. Shen, A. Welsh, L. Wang. PSDBoost: matrix-generation linear programming for positive
    semidefinite matrices learning. NIPS 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import PSDBoost
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = PSDBoost().fit(X, y)
    >>> learner.score(X, y) > 0.95
    True
    """

    nu: float = 0.3
    max_iter: int = 200
    prior_weight: float = 0.1
    tol: float = 1e-3

    auto_order: ClassVar[int | None] = None
    parameter_rules: ClassVar[dict[str, parameters.ParameterRule]] = {
        "nu": number(above=0.0, at_most=1.0)
    }

    def _build_problem(self, data: FitInput) -> PSDBoostProblem:
        strategy = NearestTriplets() if self.constraints is None else self.constraints
        spanned = spanned_triplets(self, data, strategy, "mean")
        return PSDBoostProblem(spanned, self.nu, self.tol, self.max_iter)


class PSDBoostProblem(TraceOneProblem):
    """The soft margin of triplets over points in the space that they span.

    Attributes
    ----------
    lower, upper: Bounds of the best soft margin: that of the terms so far, and the smallest
        of the leading eigenvalues.
    best: shape (n_triplets,). Weights of the triplets with that eigenvalue; empty before
        the first.
    """

    def __init__(self, spanned: SpannedTriplets, nu: float, tol: float, max_iter: int) -> None:
        super().__init__(spanned, max_iter)
        weight = spanned.triplets.weight
        shares = np.ones(len(spanned.triplets)) if weight is None else weight / weight.max()
        self.shares: Vector = shares / shares.sum()
        self.caps: Vector = self.shares / nu
        self.most_entropy = -np.log(nu)
        self.tol = tol
        self.lower, self.upper = -np.inf, np.inf
        self.best: Vector = np.empty(0)

    def solve(self) -> Iterations:
        """Generate matrices."""
        operator, offset = self.operator, self.offset
        V, w = self.earlier_margins(), self.start.earlier.weights
        u = worst_weights(offset, self.caps) if offset.any() else self.shares
        squares = operator.edges.squared_distances(operator.X)
        enough = self.tol * abs(operator.leading_eigenpair(self.shares)[0])
        enough += _ROUNDING * operator.mean(squares) / operator.unit
        if len(w):
            w, u = self._reweighted(V.rows, w, enough)
        idle = np.zeros(len(w), dtype=int)
        for _ in range(self.max_iter):
            eigenvalue, directions, H = self._violated(u, enough)
            if self.gap <= enough or len(H) == 0:
                return "converged"
            for margins in H:
                V.append(margins)
            new = np.zeros(len(H))
            w, idle = np.append(w, new), np.append(idle, new.astype(int))
            used = idle < _IDLE_ITERATIONS
            w[used], u = self._reweighted(V.rows[used], w[used], enough)
            idle = np.where(w > 0, 0, idle + 1)
            own = w[-len(H) :]
            added = NewTerms(directions, own, all_weights=w.copy())
            yield Iteration(-self.lower, eigenvalue, self.gap, float(own.sum()), added)
            if self.gap <= enough:
                return "converged"
        return "max_iter"

    def _reweighted(self, V: Matrix, w: Vector, enough: float) -> tuple[Vector, Vector]:
        """Find the best weights of terms and of triplets, and improve the lower bound."""
        gap = self.gap if np.isfinite(self.gap) else abs(self.upper)
        price = _ENTROPY_SHARE * max(enough, gap if np.isfinite(gap) else 0.0)
        soft = SoftMargin(self.shares, self.caps, max(self.most_entropy, _ROUNDING) / price)
        first = w / w.sum() if w.any() else np.full(len(w), 1.0 / len(w))
        best = best_terms(soft, V, first, self.offset)[1]
        margins = self.offset + best @ V
        lower = float(worst_weights(margins, self.caps) @ margins)
        if lower >= self.lower:
            self.lower, w = lower, best
        return w, soft.evaluate(margins)[1]

    def _violated(self, u: Vector, enough: float) -> tuple[float, Matrix, Matrix]:
        """Find directions whose constraints u violates, and improve the upper bound."""
        between = _STABILITY * self.best + (1.0 - _STABILITY) * u if len(self.best) else u
        for at in (between, u):
            values, vectors = leading_block(self.operator.matrix(at), _DIRECTIONS)
            upper = float(values[0] + self.offset @ at)
            if upper < self.upper:
                self.upper, self.best = upper, at
            H = np.array([self.operator.margins(v) for v in vectors])
            excess = H @ u + self.offset @ u - self.lower
            least = np.where(np.arange(len(H)) == 0, 0.0, enough)
            violated = (excess > least) & H.any(axis=1)
            if violated.any():
                break
        return float(values[0]), self.restored(vectors[violated]), H[violated]

    @property
    def gap(self) -> float:
        """How far apart the bounds are."""
        return max(0.0, self.upper - self.lower)

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, object]:
        """Terms, the soft margin and its gap."""
        own = {"margin_": self.lower, "gap_": self.gap}
        return super().attributes(history, builder) | own

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn where the optimum was not reached, or where it is of no use."""
        if history.stopped == "max_iter":
            return (
                f"max_iter={self.max_iter} was reached; the soft margin {self.lower:.2e} "
                f"can be {self.gap:.1e} below the best."
            )
        if len(history) and self.lower <= 0 and self.base is None:
            return (
                "The soft margin is not positive: no metric satisfies enough of the triplets. "
                "A larger nu or a prior may help."
            )
        return super().warning_message(history, metric)
