"""What an answer is expected to tell, from the mean and variance of its margin.

The answer to a question is 1 with probability sigmoid(m), and the posterior of m is N(mean,
variance). Two scores of a question, both in bits:

`information`             what its answer says about the parameters [1], with the approximation of
                          [1], section 4, and sigmoid(m) = Phi(sqrt(pi / 8) m)
`predictive_information`  what its answer says about the margins of other questions [2]: the mean of
                          -1/2 log2(1 - rho^2), with rho the correlation of the two, of which the
                          answer's own noise is a part

[1] Houlsby, Huszár, Ghahramani and Lengyel, "Bayesian active learning for classification and
preference learning", 2011. [2] Bickford Smith, Kirsch, Farquhar, Gal, Foster and Rainforth,
"Prediction-oriented Bayesian active learning", AISTATS 2023; for a normal model.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit, ndtr

from nearfar.typing import Matrix, Vector

_PROBIT = math.sqrt(math.pi / 8)
_LEAST = 1e-12
_C2 = math.pi * math.log(2) / 2


def answer_probability(mean: Vector, variance: Vector) -> Vector:
    """Return the probability of answer 1, averaged over the posterior of the margin."""
    return np.asarray(ndtr(_PROBIT * mean / np.sqrt(1 + _PROBIT**2 * variance)))


def information(mean: Vector, variance: Vector) -> Vector:
    """Return how many bits an answer says about the parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.ask.information import information
    >>> information(np.array([0.0, 0.0, 5.0]), np.array([0.0, 4.0, 4.0])).round(2)
    array([0.  , 0.36, 0.07])
    """
    mu2, s2 = _PROBIT**2 * mean**2, _PROBIT**2 * variance
    noise = math.sqrt(_C2) * np.exp(-mu2 / (2 * (s2 + _C2))) / np.sqrt(s2 + _C2)
    return np.maximum(_entropy(answer_probability(mean, variance)) - noise, 0.0)


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


def _entropy(p: Vector) -> Vector:
    q = np.clip(p, 1e-12, 1 - 1e-12)
    return np.asarray(-(q * np.log2(q) + (1 - q) * np.log2(1 - q)))
