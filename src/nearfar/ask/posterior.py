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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, ndtr

from nearfar.typing import Matrix, Vector

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
