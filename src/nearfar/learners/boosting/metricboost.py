"""MetricBoost: AdaBoost on rank-one matrices (Bi, Wu, Lu, Liu, Tao, Wolf, CVPR 2011).

Triplets (i, j, k) say that i is nearer to j than to k. In each round (Algorithm 1):

    D_t(i, j, k)  ~ exp(H(i, j) - H(i, k))                                                (2)
    u_t = eigenvector of  sum D_t ((x_i - x_k)(x_i - x_k)' - (x_i - x_j)(x_i - x_j)')    (7), (8)
    h_t(x, y) = response of (u_t'(x - y))^2,      H = sum_t alpha_t h_t

and the training error is at most prod_t Z_t (Theorem 1), Z_t = sum D_t exp(alpha (h_ij - h_ik)).
The three responses (section 3.1):

    real          the square itself; alpha by an exact line search on Z_t
    normalized    divided by C^2, the largest squared distance (9);  alpha = ln((1+r)/(1-r)) / 2
    binary        1 if the square is at least beta_t, else 0 (3);    alpha = ln(e-/e+) / 2

All triplets that labels imply are weighed at the price of pairs (section 4; `tiled`).

Where nearfar departs from the paper, and why:

- The eigenvalue is the largest signed one; the largest absolute one of the paper gives negative
  alphas and no metric. ``psd=False`` is the paper's rule: its result orders triplets, without map.
- The default response is "real". The normalised one barely moves (r is 0.1 to 0.2) and wants
  hundreds of rounds.
- The binary model's threshold minimises Z_t exactly; ``threshold="gaussian"`` is the paper's rule.
  The direction is chosen for the square while the weights follow the cut one, so that the same
  direction can return for ever: the boosting then ends.
- Votes tie massively and break the triangle inequality: M = sum alpha_t u_t u_t' serves
  neighbours and the map, H orders triplets, ties broken by M.
- A cut that orders no triplet wrongly would have an infinite alpha: both weights are then raised
  by 1 / (2 x number of triplets).
- More than two classes: one sum over all anchors, exactly the list of all triplets.
- Learning starts from a prior metric by default; votes start from zero, the prior is added to M.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nearfar.constraints.strategies import AllTriplets, RandomTriplets, TripletStrategy, to_triplets
from nearfar.learners.base import (
    Floats,
    MetricBuilder,
    Prior,
    Problem,
    Scaler,
    require,
    require_integer,
)
from nearfar.learners.boosting.all_triplets_operator import AllTripletsOperator
from nearfar.learners.boosting.base import BoostingLearner
from nearfar.learners.boosting.loop import Operator, Rule, boost, separation_threshold
from nearfar.learners.boosting.losses import newton_step
from nearfar.learners.boosting.triplet_operator import Cut, Line, TripletOperator
from nearfar.metrics.metric import Metric
from nearfar.metrics.signed_form import SignedForm
from nearfar.metrics.votes import Votes
from nearfar.numerics.pair_tiles import largest_squared_distance
from nearfar.runtime.history import History
from nearfar.runtime.recall_stub import recall
from nearfar.typing import Vector

Response = Literal["real", "normalized", "binary"]

_LARGEST_STEP = 50.0
_EIGENVALUE_TOLERANCE = 1e-9
_SAME_DIRECTION = 1.0 - 1e-6
_SCORED_TRIPLETS = 10_000


class MetricBoost(BoostingLearner):
    """Learn a metric by AdaBoost on rank-one matrices, from all triplets that labels imply.

    Parameters
    ----------
    response : {"real", "normalized", "binary"}, default="real"
        What a weak model makes of the squared length along its direction: "real" takes it as it
        is, "normalized" divides it by the largest squared distance, "binary" asks whether it is
        above a threshold.
    max_iter : int, default=100
        The most weak models.
    threshold : {"exact", "gaussian"}, default="exact"
        How binary weak models choose their threshold: the one that orders triplets best, by
        sorting all pairs (at most 4,096 points), or where two normal densities, of near and of far
        lengths, are equal.
    psd : bool, default=True
        False is the paper's rule for directions, whose result is not a metric: it orders triplets
        (`score`, ``metric_.prefers``), and refuses `transform` and `components_`.
    constraints : strategy, default=AllTriplets()
        What makes triplets of labels. All triplets are never listed; any other strategy's are.
    prior : {"identity"}, Metric or None, default="identity"
        The metric to start from and to add to. None is the paper's zero.
    prior_weight : float, default=0.3
        Mean squared distance of the triplets under the prior, in the units of margins.
    scale : {"standard", "unit"} or None, default="standard"
        How to scale X inside; the result is for X as given.
    n_components : int, optional
        Dimension to reduce to, by the principal axes of the mapped points.
    tol : float, default=1e-7
        The boosting ends when a round lowers the logarithm of the bound on the error by less.
    random_state : int, RandomState or None, default=None
        For strategies that draw at random, and for the triplets that `score` draws.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    metric_ : Metric, or SignedForm if not `psd`
        The learned metric; with its `votes`, if binary.
    components_ : array of shape (n_components, n_features)
        Its map L.
    directions_ : array of shape (n_terms, n_features)
        Unit vectors u_t in the units of X.
    weights_ : array of shape (n_terms,)
        M is the prior plus ``(directions_.T * weights_) @ directions_``.
    alphas_ : array of shape (n_terms,)
        The paper's alpha_t.
    thresholds_ : array of shape (n_terms,) or None
        Where the squared lengths along `directions_` are cut, if binary.
    history_ : History
        Objective (the logarithm of the sum of all triplets' weights), eigenvalue, step and time.
    n_iter_ : int
        Number of rounds.

    References
    ----------
    J. Bi, D. Wu, L. Lu, M. Liu, Y. Tao, M. Wolf. AdaBoost on low-rank PSD matrices for metric
    learning. CVPR 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import MetricBoost
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = MetricBoost(max_iter=20).fit(X, y)
    >>> learner.score(X, y) > 0.97
    True
    """

    def __init__(
        self,
        *,
        response: Response = "real",
        max_iter: int = 100,
        threshold: Literal["exact", "gaussian"] = "exact",
        psd: bool = True,
        constraints: TripletStrategy | None = None,
        prior: Prior = "identity",
        prior_weight: float = 0.3,
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
        self.response = response
        self.max_iter = max_iter
        self.threshold = threshold
        self.psd = psd

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return names of the coordinates of `transform`; a form that is no metric has none."""
        if isinstance(getattr(self, "metric_", None), SignedForm):
            self.metric_.transform  # noqa: B018
        return super().get_feature_names_out(input_features)

    def _strategy(self) -> TripletStrategy:
        """Return what lists triplets: for all of them, where they are scored, a draw."""
        if self.constraints is None or isinstance(self.constraints, AllTriplets):
            return RandomTriplets(_SCORED_TRIPLETS)
        return self.constraints

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_integer("max_iter", self.max_iter, at_least=1)
        known = self.response in ("real", "normalized", "binary")
        require("response", self.response, known, '"real", "normalized" or "binary"')
        known = self.threshold in ("exact", "gaussian")
        require("threshold", self.threshold, known, '"exact" or "gaussian"')
        require("psd", self.psd, isinstance(self.psd, bool | np.bool_), "True or False")
        reducible = self.psd or self.n_components is None
        require("n_components", self.n_components, reducible, "None where psd is False")

    def _build_problem(
        self, Z: Floats, scaler: Scaler, supervision: Any, random_state: np.random.RandomState
    ) -> MetricBoostProblem:
        operator = self._operator(Z, supervision, random_state)
        state, prior = self._start(operator, scaler)
        if self.response == "binary":
            state = operator.start()
        rule = self._rule(operator)
        rounds = boost(operator, rule, state, max_iter=self.max_iter)
        return MetricBoostProblem(rounds, self.max_iter, operator.unit, prior, rule)

    def _operator(
        self, Z: Floats, supervision: Any, random_state: np.random.RandomState
    ) -> Operator:
        """All triplets of labels tiled; any others listed."""
        normalize = self.scale is not None
        implicit = self.constraints is None or isinstance(self.constraints, AllTriplets)
        if implicit and isinstance(supervision, np.ndarray):
            return AllTripletsOperator(Z, supervision, normalize=normalize)
        triplets = to_triplets(Z, supervision, self._strategy(), random_state)
        return TripletOperator(Z, triplets, unit="mean" if normalize else 1.0)

    def _rule(self, operator: Operator) -> MetricBoostRule:
        enough = separation_threshold(operator.total_weight)
        first = operator.top(operator.weigh(operator.start())[1], absolute=not self.psd)[0]
        shared = (self.psd, self.tol, enough, abs(first))
        if self.response == "real":
            return RealResponse(*shared)
        if self.response == "normalized":
            (largest,) = recall("diameter", lambda: (largest_squared_distance(operator.X),))
            return NormalizedResponse(*shared, largest / operator.unit)
        smoothing = 0.5 / operator.n_triplets
        return BinaryResponse(*shared, self.threshold, smoothing)

    def _result(self, builder: MetricBuilder, trace: History) -> Metric | SignedForm:
        factor, signs = self._factor(trace)
        votes = None
        if self.response == "binary":
            directions = np.array([r.direction for r in trace], dtype=np.float64)
            votes = Votes(
                directions.reshape(-1, len(builder.scale)) / builder.scale,
                trace.step,
                np.array([r.threshold for r in trace], dtype=np.float64),
            )
        if not self.psd:
            return SignedForm(builder.form(factor, signs), builder.feature_names, votes)
        metric = builder.metric(factor)
        return Metric(metric.L, metric.feature_names, votes)

    def _set_fitted_attributes(self, problem: Problem, trace: History) -> None:
        super()._set_fitted_attributes(problem, trace)
        self.alphas_ = trace.step
        self.thresholds_ = None
        assert isinstance(problem, MetricBoostProblem)
        if isinstance(problem.rule, NormalizedResponse):
            self.alphas_ = trace.step * problem.rule.largest
        if self.response == "binary":
            votes = self.metric_.votes
            self.thresholds_ = votes.thresholds / (votes.directions**2).sum(axis=1)


@dataclass(frozen=True)
class MetricBoostProblem(Problem):
    """A posed MetricBoost problem, kept until the fit is concluded."""

    rule: MetricBoostRule


@dataclass(frozen=True)
class MetricBoostRule(Rule):
    """What the three responses share.

    Attributes
    ----------
    psd : bool
        Whether only directions of a positive eigenvalue will do.
    tol : float
        Least decrease of the loss that is worth another round.
    enough : float
        Loss at which the triplets count as satisfied.
    first : float
        Size of the eigenvalue at the first weights, the measure of what is small.
    """

    psd: bool
    tol: float
    enough: float
    first: float

    def direction(self, operator: Operator, u: Any) -> tuple[float, Vector]:
        """(6): the leading eigenvector; in absolute value, if the result need not be psd."""
        return operator.top(u, absolute=not self.psd)

    def no_direction_left(self, eigenvalue: float, v: Vector, previous: Vector | None) -> bool:
        """No direction has a positive r, to rounding."""
        return (eigenvalue if self.psd else abs(eigenvalue)) <= _EIGENVALUE_TOLERANCE * self.first

    def done(self, loss: float, decrease: float) -> str:
        """Stop when all triplets are satisfied, or when a round gains nothing."""
        if loss < self.enough:
            return "separated"
        return "converged" if decrease < self.tol else ""


@dataclass(frozen=True)
class RealResponse(MetricBoostRule):
    """Option 1: the square itself, and the alpha at which Z_t is smallest."""

    def step(self, line: Line, eigenvalue: float) -> tuple[float, bool]:
        """Line search; a negative eigenvalue is searched in the opposite direction."""
        sign = math.copysign(1.0, eigenvalue)

        def slope(w: float) -> tuple[float, float]:
            value, curvature = line.slope(sign * w)
            return sign * value, curvature

        size, capped = newton_step(
            slope, 0.0, _LARGEST_STEP / abs(eigenvalue), accuracy=line.accuracy
        )
        return sign * size, capped and sign > 0 and line.lowest() >= 0


@dataclass(frozen=True)
class NormalizedResponse(MetricBoostRule):
    """Option 3: the square over the largest squared distance, and a closed form.

    Attributes
    ----------
    largest : float
        C^2 of (9). The step is alpha / C^2, the weight of the square itself.
    """

    largest: float

    def step(self, line: Line, eigenvalue: float) -> tuple[float, bool]:
        """Alpha = ln((1 + r) / (1 - r)) / 2."""
        r = min(max(eigenvalue / self.largest, -1 + 1e-15), 1 - 1e-15)
        return math.atanh(r) / self.largest, False


@dataclass(frozen=True)
class BinaryResponse(MetricBoostRule):
    """Option 2: 1 if the square is at least beta_t, else 0, and a closed form.

    Attributes
    ----------
    how : {"exact", "gaussian"}
        How the threshold is found.
    smoothing : float
        What both weights are raised by if one of them is zero.
    """

    how: str
    smoothing: float

    def line(self, operator: Operator, state: Any, v: Vector) -> Cut:
        """(3): cut the squares."""
        return operator.cut(state, v, how=self.how, signed=not self.psd)

    def step(self, line: Cut, eigenvalue: float) -> tuple[float, bool]:
        """Alpha = ln(e- / e+) / 2."""
        right, wrong = line.right, line.wrong
        if not math.isfinite(line.threshold) or right + wrong == 0:
            return 0.0, True
        if min(right, wrong) <= 0:
            right, wrong = right + self.smoothing, wrong + self.smoothing
        alpha = math.log(right / wrong) / 2
        return (0.0 if self.psd and alpha <= 0 else alpha), False

    def no_direction_left(self, eigenvalue: float, v: Vector, previous: Vector | None) -> bool:
        """No direction has a positive r, or the last one has come back."""
        repeated = previous is not None and abs(float(v @ previous)) > _SAME_DIRECTION
        return repeated or super().no_direction_left(eigenvalue, v, previous)
