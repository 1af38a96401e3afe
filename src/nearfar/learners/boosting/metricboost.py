"""MetricBoost: AdaBoost on rank-one matrices (Bi, Wu, Lu, Liu, Tao, Wolf, CVPR 2011).

Triplets (i, j, k) say that i is nearer to j than to k. In each iteration (Algorithm 1):

    D_t(i, j, k)  ~ exp(H(i, j) - H(i, k))                                                (2)
    u_t = eigenvector of  sum D_t ((x_i - x_k)(x_i - x_k)' - (x_i - x_j)(x_i - x_j)')    (7), (8)
    h_t(x, y) = response of (u_t'(x - y))^2,      H = sum_t alpha_t h_t

and the training error is at most prod_t Z_t (Theorem 1), Z_t = sum D_t exp(alpha (h_ij - h_ik)).
The three responses (section 3.1):

    real          the square itself; alpha by an exact line search on Z_t
    normalized    divided by C^2, the largest squared distance (9);  alpha = ln((1+r)/(1-r)) / 2
    binary        1 if the square is at least beta_t, else 0 (3);    alpha = ln(e-/e+) / 2

All triplets that labels imply are weighed at the cost of pairs (section 4; `AllTripletsOperator`).

Where nearfar departs from the paper, and why:

- The eigenvalue is the largest signed one. The largest absolute one of the paper gives negative
  alphas, and its result is not a metric.
- The default response is "real". The normalised one barely moves (r is 0.1 to 0.2) and wants
  hundreds of iterations.
- The binary model's threshold minimises Z_t exactly; ``threshold="gaussian"`` is the paper's.
  The direction is chosen for the square while the weights follow the cut one, so that the same
  direction can return for ever: the boosting then ends.
- Votes tie massively and break the triangle inequality: M = sum alpha_t u_t u_t' serves
  neighbours and the map, H orders triplets, ties broken by M.
- A cut that orders no triplet wrongly would have an infinite alpha: both weights are then raised
  by 1 / (2 x number of triplets).
- More than two classes: one sum over all anchors, exactly the list of all triplets.
- Learning starts from a prior metric by default; votes start from zero, the prior is added to M.

``variant="paper"`` takes rows as they are, starts at zero, takes the largest absolute eigenvalue
and Gaussian thresholds. Its result, a `SignedForm`, orders triplets but has no map.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from nearfar.learners.boosting.all_triplets_operator import AllTripletsOperator
from nearfar.learners.boosting.base import (
    Assembly,
    BoostingLearner,
    BoostingProblem,
    Operator,
    Rule,
    Start,
    boost,
    boost_in_blocks,
    partial_fit,
)
from nearfar.learners.boosting.triplet_operator import Line, ThresholdedLine, TripletOperator
from nearfar.learners.declaration import Variant, learner
from nearfar.learners.problem import FitInput, MetricBuilder
from nearfar.losses.loss import newton_step
from nearfar.metrics.metric import Metric, Votes
from nearfar.metrics.variants import SignedForm
from nearfar.numerics.pair_tiles import largest_squared_distance
from nearfar.runtime import parameters
from nearfar.runtime.history import History, Iterations
from nearfar.runtime.parameters import choice, either, integer
from nearfar.supervision import AllTriplets
from nearfar.typing import Vector

Response = Literal["real", "normalized", "binary"]

# Largest step, in units of 1 / lambda: exp(-50) is no weight any more.
_LARGEST_STEP = 50.0

# Relative size of an eigenvalue that is rounding.
_EIGENVALUE_TOLERANCE = 1e-9

# Cosine of the angle of 0.08 degrees below which a direction has come back.
_SAME_DIRECTION = 1.0 - 1e-6

# Up to this number of points, sums over pairs are in the precision of X, else in float32.
_EXACT_ROWS = 1000

# As good as one direction at a time, in a tenth of the time; more directions interfere.
_BLOCK_SIZE = 10


@learner
class MetricBoost(BoostingLearner):
    """Learn a metric by AdaBoost on rank-one matrices, from all triplets that labels imply.

    Parameters
    ----------
    response : {"real", "normalized", "binary"}, default="real"
        How a weak model uses the squared length along its direction: "real" takes it as it is,
        "normalized" divides it by the largest squared distance, "binary" compares it with a
        threshold.
    max_iter : int, default=100
        The most weak models, rounded up to whole blocks; also the most iterations.
    block_size : int or "auto", default="auto"
        Number of directions per iteration, whose weights are found together. 1 is the paper's.
        "auto" takes 10 with real responses and a prior, because the metric is as good in a tenth of
        the time, and 1 from zero (``prior=None``). Only for all triplets of labels; listed ones
        take 1.
    threshold : {"exact", "gaussian"}, default="exact"
        How binary weak models choose their threshold: the one that orders triplets best, by
        sorting all pairs (at most 4,096 points), or where two normal densities, of near and of far
        lengths, are equal.
    variant : {"default", "paper"}, default="default"
        "paper" follows the paper literally; see the module's docstring. Its result is not a
        metric: it orders triplets (`score`, ``metric_.prefers``), and refuses `transform` and
        `components_`.
    constraints : strategy, default=AllTriplets()
        Makes triplets from labels. All triplets are never listed; those of other strategies are.
    prior_weight : float, default=0.3
        Mean squared distance of the triplets under the prior, in the units of margins.
    tol : float, default=1e-7
        Boosting ends when an iteration lowers the logarithm of the bound on the error by less.

    Attributes
    ----------
    metric_ : Metric, or SignedForm with ``variant="paper"``
        The learned metric; with its `votes`, if binary.
    directions_ : array of shape (n_terms, n_features)
        Unit vectors u_t in the units of X.
    weights_ : array of shape (n_terms,)
        M is the prior plus ``(directions_.T * weights_) @ directions_``.
    alphas_ : array of shape (n_terms,)
        The paper's alpha_t.
    thresholds_ : array of shape (n_terms,) or None
        Thresholds of the squared lengths along `directions_`, if binary.
    history_ : History
        Objective (the logarithm of the sum of all triplets' weights), eigenvalue, step and time.

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

    response: Response = "real"
    max_iter: int = 100
    block_size: int | Literal["auto"] = "auto"
    threshold: Literal["exact", "gaussian"] = "exact"
    variant: Variant = "default"
    prior_weight: float = 0.3
    tol: float = 1e-7

    auto_order: ClassVar[int | None] = 15
    compare_order: ClassVar[int | None] = 2
    parameter_rules: ClassVar[dict[str, parameters.ParameterRule]] = {
        "response": choice("real", "normalized", "binary"),
        "block_size": either(choice("auto"), integer(at_least=1)),
        "threshold": choice("exact", "gaussian"),
    }
    paper_settings: ClassVar[Mapping[str, object]] = {
        "scale": None,
        "prior": None,
        "threshold": "gaussian",
    }

    partial_fit = partial_fit

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return names of the coordinates of `transform`; a `SignedForm` has none."""
        check_is_fitted(self)
        self.metric_.transform  # noqa: B018
        return super().get_feature_names_out(input_features)

    def _adds_to_a_metric(self) -> bool:
        if self.response == "binary":
            raise AttributeError("partial_fit adds to a metric; binary weak models add votes.")
        return super()._adds_to_a_metric()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.block_size not in ("auto", 1) and (
            self.response != "real" or self.variant == "paper"
        ):
            raise ValueError(
                'block_size must be "auto" or 1 unless response is "real" and variant is "default".'
            )
        if self.variant == "paper" and self.n_components is not None:
            raise ValueError('n_components must be None with variant="paper", which has no map.')

    def _build_problem(self, data: FitInput) -> MetricBoostProblem:
        # All triplets of labels stay implicit; any others are listed.
        every = self.constraints is None or isinstance(self.constraints, AllTriplets)
        implicit = every and data.supervision.kind == "labels"
        operator: Operator
        if implicit:
            Z = data.Z.astype(np.float32, copy=False) if len(data.Z) > _EXACT_ROWS else data.Z
            normalize = self.scale is not None
            known = data.supervision
            operator = AllTripletsOperator(
                Z, known.codes, row_weight=known.row_weight, normalize=normalize
            )
        else:
            strategy = AllTriplets() if self.constraints is None else self.constraints
            triplets = data.supervision.triplets(data.Z, strategy, data.random_state)
            operator = TripletOperator(data.Z, triplets, unit=1.0 if self.scale is None else "mean")
        start = self._start(operator, data)
        votes = None
        if self.response == "binary":
            votes = Votes.none(len(operator))
            if data.warm is not None and data.warm.votes is not None:
                to_scaled = partial(data.scaler.map_of_scaled, unit=operator.unit)
                votes = data.warm.votes.mapped(to_scaled)
        psd = self.variant != "paper"
        zero: Any = operator.start()
        u: Any = operator.loss_and_weights(zero)[1]
        first = abs(operator.leading_eigenpair(u, absolute=not psd)[0])
        rule: MetricBoostRule = RealResponse(psd, self.tol, operator.satisfied, first)
        if self.response == "normalized":
            largest = largest_squared_distance(operator.X) / operator.unit
            rule = NormalizedResponse(psd, self.tol, operator.satisfied, first, largest)
        elif self.response == "binary":
            smoothing = 0.5 / operator.n_triplets
            rule = BinaryResponse(
                psd, self.tol, operator.satisfied, first, self.threshold, smoothing
            )
        block_size = self.block_size
        if block_size == "auto":
            together = implicit and self.response == "real" and self.prior is not None and psd
            block_size = _BLOCK_SIZE if together else 1
        elif block_size > 1 and not implicit:
            raise ValueError('block_size must be "auto" or 1 for triplets that are listed.')
        return MetricBoostProblem(operator, rule, start, votes, self.max_iter, int(block_size))


class MetricBoostProblem(BoostingProblem):
    """AdaBoost on triplets.

    Parameters
    ----------
    votes: Earlier votes, in the solver's units; None if weak models are not binary.
    block_size: Number of directions per iteration.
    """

    def __init__(
        self,
        operator: Operator,
        rule: MetricBoostRule,
        start: Start,
        votes: Votes | None,
        max_iter: int,
        block_size: int = 1,
    ) -> None:
        self.operator, self.rule, self.start, self.votes = operator, rule, start, votes
        self.max_iter, self.block_size = -(-max_iter // block_size), block_size
        self.first_stage = -(-self.first_stage // block_size)
        self.unit, self.base = operator.unit, start.base
        self.assembly = VotingAssembly(start.earlier, votes, rule.psd)

    def solve(self) -> Iterations:
        """Boost; binary weak models start from their votes, without the prior."""
        state, votes, operator = self.start.state, self.votes, self.operator
        if self.block_size > 1 and isinstance(operator, AllTripletsOperator):
            return boost_in_blocks(
                operator,
                self.rule,
                np.empty((0, len(operator))) if self.base is None else self.base,
                block_size=self.block_size,
                max_iter=self.max_iter,
            )
        if votes is not None:
            state = self.operator.votes_state(votes.directions, votes.alphas, votes.thresholds)
        return boost(self.operator, self.rule, state, max_iter=self.max_iter)

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, object]:
        """Terms, the paper's alphas and, if binary, thresholds."""
        votes = builder.lift(self.metric(history, builder)).votes
        alphas, thresholds = self.rule.alphas(self.assembly.terms(history).weights), None
        if votes is not None:
            alphas = votes.alphas
            thresholds = votes.thresholds / (votes.directions**2).sum(axis=1)
        own = {"alphas_": alphas, "thresholds_": thresholds}
        return super().attributes(history, builder) | own


@dataclass(frozen=True)
class VotingAssembly(Assembly):
    """Builds metrics with votes, or signed forms.

    Attributes
    ----------
    votes: Earlier votes, in the solver's units; None if weak models are not binary.
    psd: Whether the result is a metric.
    """

    votes: Votes | None
    psd: bool

    def metric(self, history: History, builder: MetricBuilder) -> Metric | SignedForm:
        """Return the base plus the terms, with the votes."""
        terms, scale, votes = self.terms(history), builder.scale, self.votes
        if votes is not None:
            new = list(map(attrgetter("payload"), history.iterations))
            thresholds = np.array(list(map(attrgetter("threshold"), new)), dtype=np.float64)
            votes = Votes(
                np.vstack([votes.directions, *map(attrgetter("directions"), new)]) / scale,
                np.append(votes.alphas, history.step),
                np.append(votes.thresholds, thresholds),
            )
        if self.psd:
            return builder.build(terms.factor).with_votes(votes)
        M = (terms.directions.T * terms.weights) @ terms.directions / np.outer(scale, scale)
        return SignedForm(M, builder.feature_names, votes)


@dataclass(frozen=True)
class MetricBoostRule(Rule):
    """What the three responses share.

    Attributes
    ----------
    psd: Whether only directions of a positive eigenvalue will do.
    tol: Smallest decrease of the loss that is worth another iteration.
    satisfied: Loss below which all triplets count as satisfied.
    first: Size of the eigenvalue at zero margins, the measure of what is small.
    v: There is no penalty.
    """

    psd: bool
    tol: float
    satisfied: float
    first: float
    v: float = field(default=0.0, kw_only=True)

    def alphas(self, steps: Vector) -> Vector:
        """Return the paper's alpha_t, from the weights of the squares."""
        return steps

    def no_direction_left(self, eigenvalue: float, v: Vector, previous: Vector | None) -> bool:
        """No direction has a positive r, to rounding."""
        return (eigenvalue if self.psd else abs(eigenvalue)) <= _EIGENVALUE_TOLERANCE * self.first

    def done(self, loss: float, decrease: float) -> str:
        """Stop when all triplets are satisfied, or when an iteration gains nothing."""
        if loss < self.satisfied:
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
        return sign * size, capped and sign > 0 and line.smallest_margin() >= 0


@dataclass(frozen=True)
class NormalizedResponse(MetricBoostRule):
    """Option 3: the square over the largest squared distance, and a closed form.

    Attributes
    ----------
    largest: C^2 of (9). The step is alpha / C^2, the weight of the square itself.
    """

    largest: float

    def step(self, line: Line, eigenvalue: float) -> tuple[float, bool]:
        """Alpha = ln((1 + r) / (1 - r)) / 2."""
        r = min(max(eigenvalue / self.largest, -1 + 1e-15), 1 - 1e-15)
        return math.atanh(r) / self.largest, False

    def alphas(self, steps: Vector) -> Vector:
        """Return the steps times C^2."""
        return steps * self.largest


@dataclass(frozen=True)
class BinaryResponse(MetricBoostRule):
    """Option 2: 1 if the square is at least beta_t, else 0, and a closed form.

    Attributes
    ----------
    threshold: How the threshold is found.
    smoothing: Added to both weights if one of them is zero.
    """

    threshold: str
    smoothing: float

    def line(self, operator: Operator, state: Any, v: Vector) -> ThresholdedLine:
        """(3): threshold the squares."""
        return operator.thresholded_line(state, v, how=self.threshold, signed=not self.psd)

    def step(self, line: ThresholdedLine, eigenvalue: float) -> tuple[float, bool]:
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
