"""What an answer is expected to tell, from the mean and variance of its margin.

The answer to a question is 1 with probability sigmoid(m), and the posterior of m is N(mean,
variance). A question is worth what its answer says about the margins of other questions [1]: the
mean of -1/2 log2(1 - rho^2), in bits, with rho the correlation of the two for a normal model, of
which the noise of the answer, 1 / (p (1 - p)), is a part.

[1] Bickford Smith, Kirsch, Farquhar, Gal, Foster and Rainforth, "Prediction-oriented Bayesian
active learning", AISTATS 2023. Information about the parameters instead is that of Houlsby, Huszár,
Ghahramani and Lengyel, "Bayesian active learning for classification and preference learning", 2011.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit, ndtr

from nearfar.typing import Matrix, Vector

_PROBIT = math.sqrt(math.pi / 8)
_LEAST = 1e-12


def answer_probability(mean: Vector, variance: Vector) -> Vector:
    """Return the probability of answer 1, averaged over the posterior of the margin."""
    return np.asarray(ndtr(_PROBIT * mean / np.sqrt(1 + _PROBIT**2 * variance)))


def predictive_information(
    mean: Vector, variance: Vector, covariance: Matrix, target_mean: Vector, target_variance: Vector
) -> Vector:
    """Return how many bits an answer says, on average, about whether other margins are positive.

    Parameters
    ----------
    mean, variance : array of shape (n_questions,)
    covariance : array of shape (n_targets, n_questions)
        Of the margins of targets and questions.
    target_mean, target_variance : array of shape (n_targets,)

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
