"""The Laplace approximation of a logistic model, and what an answer is expected to tell.

With A (answers x parameters) the features of answered questions, y in [0, 1] the answers (1/2 for
"can't tell") and w their weights:

    p(y = 1) = sigmoid(A theta)           theta ~ N(mean, diag(variance))

    H = diag(1 / variance) + A' diag(w p (1 - p)) A        at the mode

The posterior is N(mode, H^-1). H does not depend on the answers except through the mode, so that a
question that is being asked already can be counted as if its answer were known.

The margin m of a question is then N(mean, variance), and its answer is 1 with probability
sigmoid(m). A question is worth what its answer says about the margins of other questions [1]: the
mean of -1/2 log2(1 - rho^2), in bits, with rho the correlation of the two for a normal model, of
which the noise of the answer, 1 / (p (1 - p)), is a part.

[1] Bickford Smith, Kirsch, Farquhar, Gal, Foster and Rainforth, "Prediction-oriented Bayesian
active learning", AISTATS 2023. Information about the parameters instead is that of Houlsby, Huszár,
Ghahramani and Lengyel, "Bayesian active learning for classification and preference learning", 2011.

What answers say: about the metric of vectors, or about the places of objects without vectors.

`MetricModel` has the margins of questions as linear functions of its parameters. With Z the leading
principal coordinates of X (at most `MOST_COORDINATES`: a few hundred answers support no more), e
the Euclidean squared distance in all coordinates, and S symmetric:

    d^2(i, j) = beta e(i, j) + (z_i - z_j)' S (z_i - z_j)
    margin of a triplet = d^2(anchor, right) - d^2(anchor, left)      > 0: left is nearer
    margin of a pair    = bias - d^2(a, b)                            > 0: the same

The prior of beta is positive and that of S is N(0, spread^2) in each entry, so that without answers
the distance is Euclidean. The scale of X and the spread are those with the largest evidence. S is
not forced to be positive semidefinite here: only signs of margins matter for choosing.

`PlaceModel` has the coordinates P of `OrdinalEmbedding` with the crowd kernel. Its margins are made
linear at the fit, and its covariance has a block for each object.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array
from scipy.special import expit, ndtr

from nearfar.ask.ordinal_embedding import MU, OrdinalEmbedding, OrdinalProblem
from nearfar.learners.scaling import Scaler
from nearfar.supervision import Triplets
from nearfar.typing import Floats, Ints, Matrix, Vector

# Of Newton's method, which needs about ten steps; more would only chase rounding.
_MAX_STEPS, _HALVINGS = 50, 30
# Relative gain at which Newton steps end: far below what changes a choice.
_ACCURACY = 1e-9
# Keeps variances and the noise of certain answers finite.
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class LogisticPosterior:
    """A normal approximation of what the answers say about the parameters.

    Attributes
    ----------
    log_evidence: Logarithm of the probability of the answers, by Laplace's approximation.
    """

    mode: Vector
    covariance: Matrix
    log_evidence: float

    @classmethod
    def fit(
        cls,
        A: Matrix,
        y: Vector,
        weight: Vector,
        mean: Vector,
        variance: Vector,
        start: Vector | None = None,
    ) -> LogisticPosterior:
        """Find the mode by Newton steps, each halved until the posterior does not fall.

        Parameters
        ----------
        mean, variance: shape (n_parameters,). The prior.
        """
        precision = 1.0 / variance
        theta = mean.copy() if start is None else start.copy()
        margins = A @ theta
        value = _log_joint(margins, y, weight, theta, mean, precision)
        for _ in range(_MAX_STEPS):
            p = expit(margins)
            gradient = A.T @ (weight * (y - p)) - precision * (theta - mean)
            factor = cho_factor(_hessian(A, weight * p * (1 - p), precision))
            step = cho_solve(factor, gradient)
            for _ in range(_HALVINGS):
                moved = theta + step
                moved_margins = A @ moved
                moved_value = _log_joint(moved_margins, y, weight, moved, mean, precision)
                if moved_value >= value:
                    break
                step = step / 2
            else:
                break
            gain, value, theta, margins = moved_value - value, moved_value, moved, moved_margins
            if gain <= _ACCURACY * (1 + abs(value)):
                break
        p = expit(margins)
        factor = cho_factor(_hessian(A, weight * p * (1 - p), precision))
        covariance = cho_solve(factor, np.eye(len(theta)))
        log_det = 2.0 * float(np.log(np.diag(factor[0])).sum())
        evidence = value + 0.5 * (float(np.log(precision).sum()) - log_det)
        return cls(theta, covariance, evidence)

    def margins(self, A: Matrix) -> tuple[Vector, Vector]:
        """Return the mean and the variance of the margin of each question."""
        return A @ self.mode, np.einsum("ij,ij->i", A @ self.covariance, A)

    def pending(self, A: Matrix) -> LogisticPosterior:
        """Return the posterior as if these questions were answered, at the same mode."""
        if len(A) == 0:
            return self
        p = expit(A @ self.mode)
        B = A * np.sqrt(p * (1 - p))[:, None]
        C = self.covariance @ B.T
        inner = np.eye(len(A)) + B @ C
        return LogisticPosterior(
            self.mode, self.covariance - C @ np.linalg.solve(inner, C.T), self.log_evidence
        )


def _hessian(A: Matrix, w: Vector, precision: Vector) -> Matrix:
    B = A * np.sqrt(w)[:, None]
    H = B.T @ B
    H[np.diag_indices_from(H)] += precision
    return np.asarray(H)


def _log_joint(
    margins: Vector, y: Vector, weight: Vector, theta: Vector, mean: Vector, precision: Vector
) -> float:
    likelihood = weight @ (y * margins - np.logaddexp(0.0, margins))
    apart = theta - mean
    return float(likelihood - 0.5 * precision @ (apart * apart))


def predictive_information(
    mean: Vector, variance: Vector, covariance: Matrix, target_mean: Vector, target_variance: Vector
) -> Vector:
    """Return how many bits an answer says, on average, about whether other margins are positive.

    Parameters
    ----------
    covariance: shape (n_targets, n_questions). Of the margins of targets and questions.

    Notes
    -----
    A target counts by how likely its margin has the other sign, and so by what is at stake.
    """
    target_variance = np.maximum(target_variance, _LEAST)
    p = expit(mean)
    noise = 1.0 / np.maximum(p * (1 - p), _LEAST)
    rho2 = covariance**2 / (target_variance[:, None] * (variance + noise))
    open_ = ndtr(-np.abs(target_mean) / np.sqrt(target_variance))
    bits = -0.5 * np.log2(1 - np.minimum(rho2, 1 - 1e-12))
    return np.asarray(open_ @ bits / len(open_))


MOST_COORDINATES = 15
"""Of S, which then has 120 entries: a few hundred answers support no more."""
# Principal coordinates that the Euclidean distance has.
_KEPT_COORDINATES = 256
# Factors of two on both sides of 1, at which S and Euclidean distance are of one size.
_SPREADS = (0.5, 1.0, 2.0, 4.0)
_SCALES = ("standard", "unit", "cosine")
# Prior of beta and of the bias. Mean squared distances are 1, so that margins are a few logits:
# answers probably follow clear differences, and small ones are open.
_BETA, _BETA_SD, _BIAS_SD = 4.0, 3.0, 4.0
# Answers from which on they choose the scale; before, rows are standardised.
_FEWEST_FOR_SCALE = 20
# Scale and spread are chosen again with a quarter more answers, as this takes twelve fits.
_CHOICE_GROWTH = 1.25
# Fewest and most iterations for each answer, from the places before.
_PLACE_STEPS = (4, 15)
# Iterations times answers, between these bounds.
_PLACE_WORK = 50_000
# Iterations from a new start.
_PLACE_MOST = 150
# Places are sought from other starts with half as many more answers.
_PLACE_GROWTH = 1.5
# Of squared coordinates: places without answers have a finite variance.
_PLACE_PENALTY = 0.05
# Coordinates of places.
_COMPONENTS = 2


class MetricModel:
    """The metric of vectors. Questions are rows of an array: (anchor, left, right), or (a, b).

    Attributes
    ----------
    next_choice: Number of answers at which `learn` also chooses scale and spread, and takes longer.
    """

    def __init__(self, X: Floats, *, kind: str = "triplets") -> None:
        self.kind, self._X = kind, X
        self._spaces: dict[str, tuple[Matrix, Matrix]] = {}
        self._scale, self._spread = "standard", 1.0
        self.next_choice: float = _FEWEST_FOR_SCALE
        self._posterior: LogisticPosterior | None = None

    def fresh(self) -> MetricModel:
        """Return a model without answers, with the same scale and spread."""
        other = MetricModel(self._X, kind=self.kind)
        other._spaces, other._scale, other._spread = self._spaces, self._scale, self._spread
        other.next_choice = math.inf
        return other

    def _space(self, scale: str) -> tuple[Matrix, Matrix]:
        """Return X in a scale: all principal coordinates for e, and the leading ones for S."""
        if scale not in self._spaces:
            Y = np.asarray(Scaler.fit(self._X, scale).transform(self._X), dtype=np.float64)
            U, s, _ = np.linalg.svd(Y - Y.mean(axis=0), full_matrices=False)
            rank = int(np.count_nonzero(s > 1e-9 * s.max(initial=0.0)))
            F = (U * s)[:, : min(rank, _KEPT_COORDINATES)]
            Z = F[:, :MOST_COORDINATES] / np.sqrt(F[:, :MOST_COORDINATES].std(axis=0))
            # The mean squared distance of two points becomes 1.
            sizes = [np.sqrt(2.0 * float(each.var(axis=0).sum())) or 1.0 for each in (F, Z)]
            self._spaces[scale] = F / sizes[0], Z / sizes[1]
        return self._spaces[scale]

    def features(self, index: Ints, scale: str | None = None) -> Matrix:
        """Return the features of questions, of shape (n_questions, n_parameters)."""
        F, Z = self._space(scale or self._scale)

        def edges(i: Ints, j: Ints) -> Matrix:
            """Return e, and the entries of (z_i - z_j)(z_i - z_j)' with the norm of the whole."""
            apart = Z[i] - Z[j]
            a, b = np.triu_indices(apart.shape[1])
            products = apart[:, a] * apart[:, b] * np.where(a == b, 1.0, np.sqrt(2.0))
            return np.column_stack([((F[i] - F[j]) ** 2).sum(axis=1), products])

        if self.kind == "pairs":
            return np.column_stack([np.ones(len(index)), -edges(*index.T)])
        anchor, left, right = index.T
        return edges(anchor, right) - edges(anchor, left)

    def _fit(
        self, index: Ints, y: Vector, weight: Vector, scale: str, spread: float
    ) -> LogisticPosterior:
        A = self.features(index, scale)
        mean, variance = np.zeros(A.shape[1]), np.full(A.shape[1], spread**2)
        if self.kind == "pairs":
            mean[0], variance[0] = _BETA / 2, _BIAS_SD**2
        beta = int(self.kind == "pairs")
        mean[beta], variance[beta] = _BETA, _BETA_SD**2
        last = self._posterior
        start = None if last is None or scale != self._scale else last.mode
        return LogisticPosterior.fit(A, y, weight, mean, variance, start)

    def learn(self, index: Ints, y: Vector, weight: Vector) -> None:
        """Fit; from 20 answers on, choose scale and spread whenever there are a quarter more."""
        if len(index) >= self.next_choice:
            self.next_choice = _CHOICE_GROWTH * len(index)
            fits = [
                (self._fit(index, y, weight, *choice), *choice)
                for choice in product(_SCALES, _SPREADS)
            ]
            best = max(fits, key=lambda fit: fit[0].log_evidence)
            self._posterior, self._scale, self._spread = best
            return
        self._posterior = self._fit(index, y, weight, self._scale, self._spread)

    learn_anew = learn

    @property
    def posterior(self) -> LogisticPosterior:
        """The posterior; the prior, if there are no answers."""
        if self._posterior is None:
            empty = np.zeros((0, 3 if self.kind == "triplets" else 2), dtype=np.intp)
            self.learn(empty, np.zeros(0), np.zeros(0))
        assert self._posterior is not None
        return self._posterior

    def margins(self, index: Ints) -> tuple[Vector, Vector]:
        """Return mean and variance of the margins of questions."""
        return self.posterior.margins(self.features(index))

    def covariance(self, index: Ints, other: Ints) -> Matrix:
        """Return the covariance of the margins of some questions with those of others."""
        of_parameters = self.posterior.covariance
        return np.asarray(self.features(index) @ (of_parameters @ self.features(other).T))

    def pending(self, index: Ints) -> MetricModel:
        """Return the model as if these questions were answered."""
        if len(index) == 0:
            return self
        other = self.fresh()
        other._posterior = self.posterior.pending(self.features(index))
        return other

    def coordinates(self) -> Matrix:
        """Return coordinates by the nearest positive semidefinite metric."""
        F, Z = self._space(self._scale)
        theta = self.posterior.mode[int(self.kind == "pairs") :]
        a, b = np.triu_indices(Z.shape[1])
        S = np.zeros((Z.shape[1], Z.shape[1]))
        S[a, b] = S[b, a] = theta[1:] / np.where(a == b, 1.0, np.sqrt(2.0))
        values, vectors = np.linalg.eigh(S)
        learned = Z @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        return np.hstack([np.sqrt(max(theta[0], 0.0)) * F, learned])


class PlaceModel:
    """Places of objects without vectors; a model as `MetricModel` is.

    Parameters
    ----------
    seed: Of the first places.
    """

    def __init__(self, n_objects: int, seed: int = 0) -> None:
        self.n_objects, self.seed = n_objects, seed
        self.next_choice = float(n_objects)
        self.P = np.random.default_rng(seed).normal(scale=0.5, size=(n_objects, _COMPONENTS))
        # The precision of each object's place, at first that of the prior.
        one = 2.0 * _PLACE_PENALTY * np.eye(_COMPONENTS)
        self._prior = self._blocks = np.tile(one, (n_objects, 1, 1))

    def fresh(self) -> PlaceModel:
        """Return a model without answers."""
        return PlaceModel(self.n_objects, self.seed)

    def learn(self, index: Ints, y: Vector, weight: Vector) -> None:
        """Move the places, from where they are; a tie is half an answer either way.

        With as many answers as objects, and each time there are half as many more, places are also
        sought from other starts.
        """
        if len(index) >= self.next_choice:
            self.next_choice = _PLACE_GROWTH * len(index)
            self.learn_anew(index, y, weight)
        elif weight.any():
            steps = int(np.clip(_PLACE_WORK // len(index), *_PLACE_STEPS))
            places = self._problem(index, y, weight).solve(self.P, steps, 1e-6)[1]
            self._move(places, index, weight)

    def learn_anew(self, index: Ints, y: Vector, weight: Vector) -> None:
        """Take the best places from the spectral start, a random one, and where they are."""
        if not weight.any():
            return
        problem = self._problem(index, y, weight)
        spectral = problem.spectral_start()
        random = np.random.default_rng(self.seed).normal(scale=spectral.std(), size=self.P.shape)
        fits = [problem.solve(start, _PLACE_MOST, 1e-6) for start in (self.P, spectral, random)]
        self._move(min(fits, key=lambda fit: fit[0])[1], index, weight)

    def _problem(self, index: Ints, y: Vector, weight: Vector) -> OrdinalProblem:
        both = np.vstack([index, index[:, [0, 2, 1]]])
        w = np.concatenate([weight * y, weight * (1 - y)])
        triplets = Triplets(both[w > 0], w[w > 0])
        settings = OrdinalEmbedding(_COMPONENTS, loss="crowd_kernel")
        return OrdinalProblem.of(triplets, self.n_objects, settings, _PLACE_PENALTY)

    def _move(self, places: Matrix, index: Ints, weight: Vector) -> None:
        asked = np.flatnonzero(np.bincount(index.ravel(), minlength=self.n_objects))
        # Objects nobody was asked about stay apart: the penalty alone would put them all at 0.
        self.P = self.P.copy()
        self.P[asked] = places[asked]
        self._blocks = self._prior + self._information(index, weight)

    def _information(self, index: Ints, weight: Vector) -> Matrix:
        """Return the sum of p (1 - p) g g' over questions, in blocks of objects."""
        m, gradients = self._linear(index)
        p = expit(m)
        scaled = gradients * np.sqrt(weight * p * (1 - p))[:, None, None]
        blocks = np.zeros((self.n_objects, _COMPONENTS, _COMPONENTS))
        for place in range(3):
            g = scaled[:, place]
            np.add.at(blocks, index[:, place], g[:, :, None] * g[:, None, :])
        return blocks

    def _linear(self, index: Ints) -> tuple[Vector, Matrix]:
        """Return margins, and their gradients in the places of anchor, left and right."""
        anchor, left, right = (self.P[rows] for rows in index.T)
        near, far = anchor - left, anchor - right
        z_near, z_far = (near**2).sum(axis=1) + MU, (far**2).sum(axis=1) + MU
        by_left, by_right = 2 * near / z_near[:, None], 2 * far / z_far[:, None]
        gradients = np.stack([by_right - by_left, by_left, -by_right], axis=1)
        return np.log(z_far) - np.log(z_near), gradients

    def _jacobian(self, index: Ints) -> csr_array:
        """Return the gradients as a sparse matrix, a row for each question."""
        gradients = self._linear(index)[1]
        columns = index[:, :, None] * _COMPONENTS + np.arange(_COMPONENTS)
        starts = np.arange(len(index) + 1) * 3 * _COMPONENTS
        shape = (len(index), self.n_objects * _COMPONENTS)
        return csr_array((gradients.ravel(), columns.ravel(), starts), shape=shape)

    def margins(self, index: Ints) -> tuple[Vector, Vector]:
        """Return mean and variance of the margins of questions."""
        mean, gradients = self._linear(index)
        inverse = np.linalg.inv(self._blocks)[index]
        variance = np.einsum("qpa,qpab,qpb->q", gradients, inverse, gradients)
        return mean, np.asarray(variance)

    def covariance(self, index: Ints, other: Ints) -> Matrix:
        """Return the covariance of the margins of some questions with those of others."""
        # The covariance of all places has a block for each object.
        d, size = _COMPONENTS, self.n_objects * _COMPONENTS
        columns = np.repeat(np.arange(size).reshape(-1, 1, d), d, axis=1)
        blocks = np.linalg.inv(self._blocks)
        starts = np.arange(size + 1) * d
        places = csr_array((blocks.ravel(), columns.ravel(), starts), shape=(size, size))
        return np.asarray((self._jacobian(index) @ places @ self._jacobian(other).T).toarray())

    def pending(self, index: Ints) -> PlaceModel:
        """Return the model as if these questions were answered."""
        if len(index) == 0:
            return self
        other = self.fresh()
        other.P, other.next_choice = self.P, math.inf
        other._blocks = self._blocks + self._information(index, np.ones(len(index)))
        return other

    def coordinates(self) -> Matrix:
        """Return the places."""
        return self.P


Model = MetricModel | PlaceModel
