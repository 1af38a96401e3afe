"""Distance metric learning for clustering with side information (Xing, Ng, Jordan, Russell).

With shares p_k of similar and q_k of dissimilar pairs, and u_k = x_i - x_j their differences:

    max  f(M) = sum_k q_k sqrt(u_k' (P + M) u_k)     over dissimilar pairs            (3)
    s.t. tr(S M) <= 1,  M psd                        S = sum_k p_k u_k u_k'           (4), (5)

The distances of dissimilar pairs grow while similar pairs share a fixed sum of squared distances. P
is a prior, which the paper does not have. `diagonal` restricts M to diagonal matrices; the
function that the paper minimises there has the same minimum, but for the scale.

In coordinates in which S is the identity, and with M = L'L / |L|^2, the constraints always hold,
and L-BFGS minimises -log f over square L (or over the diagonal of L). f is concave in M: with G its
gradient,

    optimum - f <= lambda_max(G) - tr(G M)

(the largest entry of the diagonal of G, if M is diagonal) is the certificate that the search ends
with. Every local maximum in L is the maximum in M.

Where nearfar departs from the paper, and why:

- The paper's gradient steps with alternating projections need step sizes that are tuned, and often
  end early.
- S and sums over pairs are means, so that the number of pairs does not matter; (4) has sums.
- S is shrunk to a multiple of the identity: without that, directions in which similar pairs do not
  differ, as there are if features outnumber rows, have no bound.
- The prior. At the optimum of (3) a few directions dominate, which suits two compact classes but
  not nearest neighbours of many classes: on digits the error is 16 % without a prior, and 3 % with
  one, as it is with Euclidean distance. ``prior=None`` is the paper's problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from nearfar.learners.base import ConstraintLearner
from nearfar.learners.classic.logdet import SAME_POINT
from nearfar.learners.declaration import learner
from nearfar.learners.problem import (
    CertifiedProblem,
    FitInput,
    SearchPoint,
    factor_on_scaled_points,
    prior_factor,
)
from nearfar.metrics.metric import Metric
from nearfar.numerics.edges import Edges, squared_distances
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.parameters import ParameterRule, boolean, number
from nearfar.supervision import Pairs, RandomPairs
from nearfar.typing import Matrix, Vector

# Share of the identity even with ``shrinkage=0``: S must be positive definite to be a unit.
_LEAST_SHRINKAGE = 1e-8
# Rounding error of S relative to its trace, which the identity must exceed.
_ROUNDING = 1e-14
# Share of the identity in a metric that a fit continues from: L-BFGS never leaves a zero.
_LEAST_START = 1e-6


@learner
class MMC(ConstraintLearner):
    """Push dissimilar pairs apart while similar pairs keep their mean squared distance.

    Parameters
    ----------
    diagonal : bool, default=False
        Learn a weight for each feature instead of a full matrix.
    shrinkage : float, default=0.1
        Share of the identity in the scatter of similar pairs, from 0 to 1.
    max_iter : int, default=1000
        The most iterations of L-BFGS.
    constraints : strategy, default=RandomPairs()
        Makes pairs from labels: ten for each row, at least 2,000, half of them similar.
    prior : {"identity", "covariance"}, Metric or None, default="identity"
        The metric that what is learned is added to: Euclidean distance between scaled points, the
        inverse of their covariance, or a metric of your own. None starts from zero, as the paper
        does.
    prior_weight : float, default=10.0
        Mean squared distance of similar pairs under the prior; that under the learned part is 1.
    tol : float, default=1e-4
        Gap to end at, relative to the objective.

    Attributes
    ----------
    gap_ : float
        How far the objective can be from the optimum.
    history_ : History
        Objective (minus the mean distance of dissimilar pairs) and gap after every iteration;
        ``history_.stopped`` says why they ended.

    References
    ----------
    E. P. Xing, A. Y. Ng, M. I. Jordan, S. Russell. Distance metric learning, with application to
    clustering with side-information. NIPS 2002.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import MMC
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = MMC(diagonal=True, random_state=0).fit(X, y)
    >>> int(learner.metric_.matrix.any(axis=0).sum())
    13
    """

    diagonal: bool = False
    shrinkage: float = 0.1
    max_iter: int = 1000
    prior_weight: float = 10.0
    tol: float = 1e-4

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs")
    rotates: ClassVar[bool] = True
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "diagonal": boolean(),
        "shrinkage": number(at_least=0.0, at_most=1.0),
    }

    def _rotates(self) -> bool:
        return not self.diagonal and super()._rotates()

    def _build_problem(self, data: FitInput) -> MMCProblem:
        strategy = RandomPairs() if self.constraints is None else self.constraints
        pairs = data.supervision.pairs(data.Z, strategy, data.random_state)
        rows, index = np.unique(pairs.index, return_inverse=True)
        Z = data.Z[rows].astype(np.float64)
        pairs = Pairs(index.reshape(pairs.index.shape), pairs.similar, pairs.weight)
        prior = prior_factor(self.prior, self.prior_weight, data.scaler)
        if prior is not None:
            # The mean squared distance of similar pairs under the prior is `prior_weight`.
            similar = pairs.take(pairs.similar)
            z = squared_distances(Z @ prior.T, *similar.index.T)
            mean = float(np.average(z, weights=similar.weight))
            prior = np.sqrt(self.prior_weight / (mean or 1.0)) * prior
        span = data.scaler.span
        n_varying = None if span is None else span.n_varying
        space = SimilarSpace.of(
            Z, pairs, self.shrinkage, diagonal=self.diagonal, n_varying=n_varying
        )
        dissimilar = pairs.take(~pairs.similar)
        problem = MMCProblem(space, dissimilar, prior, tol=self.tol, max_iter=self.max_iter)
        if data.warm is not None:
            # Begin with what the last metric adds to the prior.
            name = "metric to continue from"
            factor = factor_on_scaled_points(data.warm, data.scaler, name)
            M = factor.T @ factor
            problem.start = space.inside(M if prior is None else M - prior.T @ prior)
        return problem


@dataclass(frozen=True, eq=False)
class SimilarSpace:
    """Points in coordinates in which S, the scatter of similar pairs, is the identity.

    Attributes
    ----------
    Z: shape (n_points, n_features). Scaled points.
    K: shape (n_features, n_features). S = K K' after shrinkage; a diagonal by its entries.
    """

    Z: Matrix
    K: Matrix

    @classmethod
    def of(
        cls,
        Z: Matrix,
        pairs: Pairs,
        shrinkage: float,
        *,
        diagonal: bool,
        n_varying: int | None = None,
    ) -> SimilarSpace:
        """Find the scatter of similar pairs.

        It is shrunk to the mean scatter of all pairs, per feature that varies (`n_varying`).
        """
        varying = int(np.count_nonzero(np.ptp(Z, axis=0))) if n_varying is None else n_varying
        mean_square = float(_shares(pairs) @ squared_distances(Z, *pairs.index.T))
        total = mean_square / max(1, varying)
        ridge = max(shrinkage, _LEAST_SHRINKAGE) * (total or 1.0)
        similar = pairs.take(pairs.similar)
        edges = Edges(Z, *similar.index.T)
        weights = edges.sum_of_pairs(_shares(similar))
        if diagonal:
            S = 2 * np.einsum("ij,ij->j", Z, edges.half_laplacian(weights) @ Z)
            K = np.sqrt((1 - shrinkage) * np.maximum(S, 0.0) + ridge)
            return cls(Z, np.asarray(K, dtype=np.float64))
        S = (1 - shrinkage) * edges.matrix(weights)
        size = max(float(np.trace(S)), float(np.einsum("ij,ij->", Z, Z)) / len(Z))
        ridge = max(ridge, _ROUNDING * size)
        return cls(Z, np.asarray(np.linalg.cholesky(S + ridge * np.eye(len(S)))))

    @property
    def diagonal(self) -> bool:
        """Whether metrics are diagonal."""
        return self.K.ndim == 1

    @property
    def points(self) -> Matrix:
        """The points in these coordinates."""
        if self.diagonal:
            return self.Z / self.K
        return solve_triangular(self.K, self.Z.T, lower=True).T

    def map_of(self, L: Matrix) -> Matrix:
        """Return the map of scaled points for a map of the coordinates."""
        if self.diagonal:
            return np.diag(L / self.K)
        return solve_triangular(self.K, L.T, lower=True, trans="T").T

    def inside(self, M: Matrix) -> Matrix:
        """Return a map of the coordinates for a metric on scaled points, without zeros."""
        if self.diagonal:
            values, axes = np.diag(M) * self.K**2, None
        else:
            values, axes = np.linalg.eigh(self.K.T @ M @ self.K)
        values = np.maximum(values, 0.0)
        size = np.sqrt(values + _LEAST_START * (values.mean() or 1.0))
        return size if axes is None else np.asarray(size[:, None] * axes.T)


class MMCProblem(CertifiedProblem):
    """Distances of dissimilar pairs, with similar pairs as the unit.

    Parameters
    ----------
    dissimilar: Of its points.
    prior: shape (rank, n_features). Map of the metric that is added to.
    tol: Gap to end at, relative to the objective.
    """

    def __init__(
        self,
        space: SimilarSpace,
        dissimilar: Pairs,
        prior: Matrix | None,
        *,
        tol: float,
        max_iter: int,
    ) -> None:
        self.space, self.base, self.tol, self.max_iter = space, prior, tol, max_iter
        # The identity, but 0 for features that are constant.
        varying = np.where(np.ptp(space.Z, axis=0) > 0, 1.0, 0.0)
        self.start = varying if space.diagonal else np.diag(varying)
        z = squared_distances(space.Z, *dissimilar.index.T)
        distinct = dissimilar.take(z > SAME_POINT * z.max())
        self.edges = Edges(space.points, *distinct.index.T)
        self.q = self.edges.sum_of_pairs(_shares(distinct))
        self.prior_z = np.zeros(len(self.edges))
        if prior is not None:
            self.prior_z = squared_distances(space.Z @ prior.T, self.edges.i, self.edges.j)

    def solve(self) -> Iterations:
        """Maximise by L-BFGS until the gap is small enough."""
        if len(self.edges) == 0:
            yield Iteration(0.0, gap=0.0, payload=np.zeros_like(self.start))
            return "converged"
        return (yield from super().solve())

    def at(self, L: Matrix) -> SearchPoint:
        """Evaluate the problem at a map of the coordinates; a diagonal by its entries."""
        X, size, diagonal = self.edges.X, float((L**2).sum()), self.space.diagonal
        mapped = X * L if diagonal else self.edges.project(L.T)
        z = self.edges.squared_distances(mapped) / size
        d = np.sqrt(self.prior_z + z)
        f, slopes = float(self.q @ d), self.q / (2 * d)
        if diagonal:
            G = 2 * np.einsum("ij,ij->j", X, self.edges.half_laplacian(slopes) @ X)
            pull = L * G
        else:
            G = self.edges.matrix(slopes)
            pull = np.asarray(L @ G)
        along = float((pull * L).sum() / (L**2).sum())  # tr(G M)
        gradient = np.asarray(2 * (along * L - pull) / ((L**2).sum() * f))

        def gap() -> float:
            return float(G.max() if diagonal else np.linalg.eigvalsh(G)[-1]) - along

        return SearchPoint(-float(np.log(f)), gradient, -f, gap, L / np.linalg.norm(L))

    def factor(self, history: History) -> Matrix:
        """Return the last map, for all features."""
        return self.space.map_of(history[-1].payload)

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn where nothing was learned, or where the optimum was not reached."""
        if metric.is_zero:
            return "Nothing was learned: the points of every dissimilar pair are equal."
        return super().warning_message(history, metric)


def _shares(pairs: Pairs) -> Vector:
    """Return weights that sum to one."""
    weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight / pairs.weight.max()
    return weight / weight.sum()
