"""`OrdinalEmbedding`: coordinates of objects from triplets alone.

The objects have no vectors. With P (objects x components) their coordinates, z the squared
distances of the edges that triplets refer to, B the incidence of triplets and edges, and phi a
function of a squared distance that never falls:

    margins(P) = B phi(z(P))            minimise  loss(margins(P)) + penalty / m sum_i |P_i|^2

The losses are those of metric learning; only phi is new. With it they are the known methods:

    soft_ordinal    SquaredHinge   phi(z) = sqrt(z)                        [1]
    crowd_kernel    Logistic       phi(z) = log(mu + z)                    [2]
    t_student       Logistic       phi(z) = (alpha + 1)/2 log(1 + z/alpha) [3]

For the crowd kernel, sigmoid(log(mu + z_far) - log(mu + z_near)) is [2]'s probability of an
answer, (mu + z_far) / (2 mu + z_near + z_far).

The gradient is that of the triplet operator, with u the weights of the triplets in the loss:

    -2 E' diag(B'u phi'(z)) E P

so that a step costs a few passes over the triplets. L-BFGS minimises. The objective is not convex:
the first start is spectral, others are random, and the lowest objective wins. The spectral start
has the leading eigenvectors of E' diag(B'1) E, which are boosting's first directions if every
object is a feature of its own.

Departures: [1] uses majorisation, and scales a margin of its own; here the margin is 1 and the
coordinates have the scale that fits it. sqrt(z) is rounded at 0, where it has no derivative. The
penalty, in units of one of the m triplets, is a normal prior of the coordinates. It matters if
there are few triplets of each object or many errors, and keeps coordinates finite if triplets do
not contradict each other. By default a fifth of the triplets, held out, choose it; fits go from the
largest penalty to the smallest, each from the coordinates before.

References
----------
[1] Terada and von Luxburg, "Local ordinal embedding", ICML 2014.
[2] Tamuz, Liu, Belongie, Shamir and Kalai, "Adaptively learning the crowd kernel", ICML 2011.
[3] van der Maaten and Weinberger, "Stochastic triplet embedding", MLSP 2012.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.sparse.linalg import eigsh
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from nearfar.losses import Logistic, Loss, SquaredHinge
from nearfar.numerics.edges import SignedEdges
from nearfar.runtime.parameters import check_parameters, choice, integer, number, optional
from nearfar.supervision import Triplets
from nearfar.typing import Matrix, Vector

# Relative decrease of the objective at which a start ends.
_ACCURACY = 1e-7
MU = 0.05
"""Added to squared distances by the crowd kernel."""
# Squared distance below which sqrt(z) is rounded, so that it has a derivative at 0.
_ROUNDED = 1e-6
# Penalties that held-out triplets choose from, about a factor of three apart.
_PENALTIES = {
    "soft_ordinal": (10.0, 3.0, 1.0, 0.3, 0.1),
    "crowd_kernel": (0.5, 0.2, 0.05, 0.01),
    "t_student": (0.5, 0.2, 0.05, 0.01),
}
_USUAL = {"soft_ordinal": 3.0, "crowd_kernel": 0.05, "t_student": 0.05}
# With fewer triplets, the penalty is the usual one.
_FEWEST_TO_HOLD_OUT = 100
# Iterations for each of them: to compare penalties, coordinates need not have settled.
_PATH_ITERATIONS = 100
# Objects up to which the spectral start is found from a dense matrix, which is then no slower.
_DENSE = 400

Phi = Callable[[Vector], tuple[Vector, Vector]]
"""Squared distances -> a function of them, and its derivative."""


class OrdinalEmbedding(BaseEstimator):
    """Find coordinates of objects from triplets alone.

    Parameters
    ----------
    n_components : int, default=2
        Number of coordinates.
    loss : {"soft_ordinal", "crowd_kernel", "t_student"}, default="soft_ordinal"
        What is minimised; the module's docstring has the formulas.
    penalty : float, default=None
        Weight of the squared norms of the coordinates, relative to that of one triplet. By default
        held-out triplets choose it; with fewer than 100 triplets it is 3 for "soft_ordinal" and
        0.05 for the others.
    n_init : int, default=4
        Number of starts: a spectral one, and random ones.
    max_iter : int, default=1000
        The most iterations of a start.
    n_objects : int, default=None
        Number of objects. By default, one more than the largest number in the triplets.
    random_state : int or RandomState, default=None
        Seed of the random starts.

    Attributes
    ----------
    embedding_ : array of shape (n_objects, n_components)
        Coordinates. Their mean is 0, and their axes are principal axes, the widest first.
    penalty_ : float
        The penalty, given or chosen.
    objective_ : float
        Lowest objective.
    n_iter_ : int
        Number of iterations of the start that has it.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import OrdinalEmbedding, Triplets
    >>> rng = np.random.default_rng(0)
    >>> line = np.arange(12.0)
    >>> i, j, k = np.array([rng.choice(12, 3, replace=False) for _ in range(400)]).T
    >>> nearer = abs(line[i] - line[j]) < abs(line[i] - line[k])
    >>> index = np.where(nearer, [i, j, k], [i, k, j]).T
    >>> found = OrdinalEmbedding(n_components=1, random_state=0).fit(Triplets(index))
    >>> found.score(index) > 0.9
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        loss: str = "soft_ordinal",
        penalty: float | None = None,
        n_init: int = 4,
        max_iter: int = 1000,
        n_objects: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.loss = loss
        self.penalty = penalty
        self.n_init = n_init
        self.max_iter = max_iter
        self.n_objects = n_objects
        self.random_state = random_state

    def fit(self, triplets: Triplets | ArrayLike, y: object = None) -> Self:
        """Find coordinates.

        Parameters
        ----------
        triplets : Triplets or array-like of shape (n_triplets, 3)
            Numbers of objects: anchor, near, far.
        y : ignored
        """
        rules = {
            "n_components": integer(at_least=1),
            "loss": choice("soft_ordinal", "crowd_kernel", "t_student"),
            "penalty": optional(number(at_least=0)),
            "n_init": integer(at_least=1),
            "max_iter": integer(at_least=1),
            "n_objects": optional(integer(at_least=3)),
        }
        check_parameters(rules, {name: getattr(self, name) for name in rules})
        triplets = _checked(triplets)
        random = check_random_state(self.random_state)
        needed = int(triplets.index.max()) + 1
        if self.n_objects is not None and self.n_objects < needed:
            raise ValueError(f"Triplets refer to object {needed - 1}; n_objects={self.n_objects}.")
        n_objects = self.n_objects or needed
        if (penalty := self.penalty) is None:
            penalty = self._chosen_penalty(triplets, n_objects, random)
        self.penalty_ = float(penalty)
        problem = OrdinalProblem.of(triplets, n_objects, self, self.penalty_)
        starts = [problem.spectral_start()]
        size = float(np.sqrt(np.mean(starts[0] ** 2)))
        shape = (n_objects, self.n_components)
        starts += [random.normal(scale=size, size=shape) for _ in range(self.n_init - 1)]
        solutions = [problem.solve(start, self.max_iter) for start in starts]
        self.objective_, P, self.n_iter_, stopped = min(solutions, key=lambda end: end[0])
        if stopped == "max_iter":
            warnings.warn(
                f"OrdinalEmbedding did not converge in {self.max_iter} iterations; "
                "increase max_iter.",
                ConvergenceWarning,
                stacklevel=2,
            )
        P -= P.mean(axis=0)
        axes = np.linalg.svd(P, full_matrices=False)[2]
        largest = np.abs(axes).argmax(axis=1)
        signs = np.where(axes[np.arange(len(axes)), largest] < 0, -1.0, 1.0)
        self.embedding_ = np.zeros_like(P)
        self.embedding_[:, : len(axes)] = P @ (axes * signs[:, None]).T
        return self

    def fit_transform(self, triplets: Triplets | ArrayLike, y: object = None) -> Matrix:
        """Find coordinates, and return them."""
        return self.fit(triplets).embedding_

    def score(self, triplets: Triplets | ArrayLike, y: object = None) -> float:
        """Return the share of triplets whose near object is nearer; equal distances count half."""
        check_is_fitted(self)
        triplets = _checked(triplets)
        if triplets.index.max() >= len(self.embedding_):
            raise ValueError(
                f"Triplets refer to object {triplets.index.max()}; the embedding has "
                f"{len(self.embedding_)} objects."
            )
        return _agreement(self.embedding_, triplets)

    def _chosen_penalty(
        self, triplets: Triplets, n_objects: int, random: np.random.RandomState
    ) -> float:
        """Return the penalty under which held-out triplets agree most."""
        if len(triplets) < _FEWEST_TO_HOLD_OUT:
            return _USUAL[self.loss]
        order = random.permutation(len(triplets))
        unseen, seen = (triplets.take(part) for part in np.split(order, [len(order) // 5]))
        P, scores = None, {}
        for penalty in _PENALTIES[self.loss]:
            problem = OrdinalProblem.of(seen, n_objects, self, penalty)
            P = problem.spectral_start() if P is None else P
            P = problem.solve(P, min(_PATH_ITERATIONS, self.max_iter))[1]
            scores[penalty] = _agreement(P, unseen)
        return max(scores, key=lambda penalty: scores[penalty])


@dataclass(frozen=True, eq=False)
class OrdinalProblem:
    """The objective, and how it is minimised.

    Attributes
    ----------
    edges: The triplets over objects; its points are one constant column, which nothing
        reads.
    weight: Weights of the triplets, as the loss takes them.
    penalty: Weight of the squared norms, in units of the mean loss.
    """

    edges: SignedEdges
    weight: Vector | float
    loss: Loss
    phi: Phi
    penalty: float
    n_objects: int
    n_components: int

    @classmethod
    def of(
        cls, triplets: Triplets, n_objects: int, parameters: OrdinalEmbedding, penalty: float
    ) -> OrdinalProblem:
        """State the problem of an estimator."""
        anchor, near, far = triplets.index.T
        edges = SignedEdges(np.ones((n_objects, 1)), anchor, far, near)
        loss: Loss = SquaredHinge() if parameters.loss == "soft_ordinal" else Logistic()
        alpha = max(parameters.n_components - 1, 1)
        half = (alpha + 1) / 2
        phi: Phi = {
            "soft_ordinal": lambda z: (np.sqrt(z + _ROUNDED), 0.5 / np.sqrt(z + _ROUNDED)),
            "crowd_kernel": lambda z: (np.log(MU + z), 1.0 / (MU + z)),
            "t_student": lambda z: (half * np.log1p(z / alpha), half / (alpha + z)),
        }[parameters.loss]
        weight = loss.prepared(triplets.weight, len(triplets))
        relative = penalty / (len(triplets) if triplets.weight is None else triplets.weight.sum())
        return cls(edges, weight, loss, phi, relative, n_objects, parameters.n_components)

    def evaluate(self, P: Matrix) -> tuple[float, Matrix]:
        """Return the objective and its gradient."""
        transformed, slope = self.phi(self.edges.squared_distances(P))
        value, u = self.loss.evaluate(self.edges.combined(transformed), self.weight)
        w = self.edges.edge_weights(u) * slope
        gradient = -2.0 * np.asarray(self.edges.laplacian_product(w, P))
        gradient += 2.0 * self.penalty * P
        value += self.penalty * float(np.sum(P * P))
        return value, np.asarray(gradient, dtype=np.float64)

    def solve(
        self, start: Matrix, max_iter: int, tol: float = _ACCURACY
    ) -> tuple[float, Matrix, int, str]:
        """Return the objective, the coordinates, the number of iterations, and why they ended."""

        def f(x: Vector) -> tuple[float, Vector]:
            value, gradient = self.evaluate(x.reshape(start.shape))
            return value, gradient.ravel()

        options: Any = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": tol, "gtol": 0.0}
        end = minimize(f, start.ravel(), jac=True, method="L-BFGS-B", options=options)
        stopped = "max_iter" if end.status == 1 else "converged"
        return float(end.fun), end.x.reshape(start.shape), int(end.nit), stopped

    def spectral_start(self) -> Matrix:
        """Return the leading eigenvectors of the signed Laplacian, with mean squared distance 1."""
        u = np.broadcast_to(np.asarray(self.weight, dtype=float), self.edges.columns[0].shape)
        half = self.edges.half_laplacian(self.edges.edge_weights(u))
        matrix = half + half.T
        k = min(self.n_components, self.n_objects - 1)
        if self.n_objects <= _DENSE:
            values, vectors = np.linalg.eigh(matrix.toarray())
            values, vectors = values[-k:], vectors[:, -k:]
        else:
            values, vectors = eigsh(matrix, k, which="LA", v0=np.arange(1.0, self.n_objects + 1))
        P = np.zeros((self.n_objects, self.n_components))
        P[:, :k] = vectors * np.sqrt(np.maximum(values, values.max() * 1e-3))
        spread = float(np.mean(self.edges.squared_distances(P)))
        return P / np.sqrt(spread) if spread > 0 else P + np.eye(*P.shape)


def _agreement(P: Matrix, triplets: Triplets) -> float:
    """Return the share of triplets whose near object is nearer; equal distances count half."""
    anchor, near, far = (P[rows] for rows in triplets.index.T)
    margins = ((anchor - far) ** 2).sum(axis=1) - ((anchor - near) ** 2).sum(axis=1)
    return float(np.average((1 + np.sign(margins)) / 2, weights=triplets.weight))


def _checked(triplets: Triplets | ArrayLike) -> Triplets:
    triplets = triplets if isinstance(triplets, Triplets) else Triplets(triplets)
    if len(triplets) == 0:
        raise ValueError("There are no triplets.")
    return triplets
