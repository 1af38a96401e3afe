"""How much better methods are than a baseline, and how sure that is.

One statistic serves every comparison, of methods, searches and versions: the expected gain, its
interval, and the probability that it makes a practical difference.

The gain of a method is the mean over rows of the reference's loss minus the method's loss: of its
errors, of 1 - average precision, of wrong judgements, or of 1 - nDCG. With n rows, an observed gain
g of variance s^2 over the rows, and the reference's loss l,

    g ~ N(theta, v),                            v = c s^2 / n + 1 / n^2
    theta ~ N(tau l / 2, (tau l)^2),            tau unknown, one of a few values

- c allows for what rows share (`evaluate.measures`). Errors are nearly independent, as are searches
  among documents; rankings are not. For triplets and pairs, which share rows, the first term of v
  is that of `evaluate.overlap`, and n is the number of anchors or connected groups. If rows are in
  groups, or classes were not learned from, each of these counts like a row.
- 1 / n^2 is the variance of one more row on which the methods differ: few such rows tell little.
- tau says how much there is to gain in these data. It is the same for all methods, and this is
  what keeps the best of many from being overrated: where little can be gained, some methods still
  seem better by chance, but all by about as much as noise allows. Methods that seem worse do not
  count, as a bad method says nothing about what can be gained. Methods that seem better are alike,
  as they learn from the same rows: together they count as at most `_INDEPENDENT_METHODS`.

The posterior of theta is a mixture of normal distributions. A gain is real if it is larger than
what makes a practical difference (`smallest_gain`). `benchmarks/results/claims.jsonl` and
`benchmarks/results/search_calibration.jsonl` have how often gains of a stated probability are real.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, softmax

from nearfar.evidence.intervals import CONFIDENCE, OverlappingJudgements, known_mean
from nearfar.typing import Vector

SMALLEST_GAIN, SMALLEST_RELATIVE_GAIN = 0.005, 0.05
"""A gain makes a practical difference if it is at least one of these, the second as a share of the
reference's loss: half a point, or one error in twenty where there are few."""

PRIOR_MEAN = 0.5
"""Mean of theta in units of tau l: most methods that people compare gain something."""

# tau if there is nothing to gain: far below what makes a practical difference, but not 0, so that
# the posterior has a density.
_NO_SPREAD = 0.001
# Before the data are seen: in one table of ten, nothing that is tried helps.
_PROBABILITY_OF_NO_SPREAD = 0.1
# More would take the agreement of methods that learn from the same rows for evidence.
_INDEPENDENT_METHODS = 3


@dataclass(frozen=True)
class Gain:
    """How much smaller the loss of a method is than that of the reference.

    Attributes
    ----------
    gain: Expected gain; usually smaller than the observed one.
    low, high: 90 % interval.
    probability: Probability that the gain makes a practical difference.
    """

    gain: float
    low: float
    high: float
    probability: float

    def at_most(self, size: float) -> bool:
        """Whether the interval has no gain and no loss that is larger."""
        return -size <= self.low and self.high <= size


def smallest_gain(loss: float) -> float:
    """Return the smallest gain over a loss that makes a practical difference."""
    return min(SMALLEST_GAIN, SMALLEST_RELATIVE_GAIN * loss)


@dataclass(frozen=True)
class Observed:
    """A gain that was observed.

    Attributes
    ----------
    variance: Of the gain.
    n: Number of rows or groups that it comes from.
    """

    gain: float
    variance: float
    n: int


def observe_rows(difference: Vector, noise: float) -> Observed:
    """Return the mean of a difference by row, and its variance; nan for rows not tested.

    `noise` is c: the variance relative to that of independent rows.
    """
    tested = difference[~np.isnan(difference)]
    n = max(len(tested), 1)
    gain, spread = (float(tested.mean()), float(tested.var())) if len(tested) else (0.0, 0.0)
    return Observed(gain, noise * spread / n + 1 / n**2, n)


def observe_judgements(difference: Vector, overlap: OverlappingJudgements) -> Observed:
    """Return the mean of a difference by judgement, and its variance; few groups tell little."""
    n = max(overlap.n_groups(difference), 1)
    gain = float(np.nan_to_num(known_mean(difference)))
    return Observed(gain, overlap.variance(difference) + 1 / n**2, n)


def expected_gains(
    observed: Sequence[Observed],
    loss: float,
    spreads: Sequence[float],
    *,
    prior_mean: float = PRIOR_MEAN,
) -> list[Gain]:
    """Estimate the gains of several methods over the same reference.

    Parameters
    ----------
    observed: For each method, how much smaller its loss was than that of the reference.
    loss: Mean loss of the reference.
    spreads: Values of tau if there is something to gain, all with the same probability.
    prior_mean: Mean of theta in units of tau l. It is 0 if neither side is expected to be
        better.
    """
    g = np.array([each.gain for each in observed])
    v = np.array([each.variance for each in observed])
    loss = max(loss, 1 / max((each.n for each in observed), default=1))
    tau = loss * np.array([_NO_SPREAD, *spreads])[:, None]
    # Probabilities of the values of tau, given the gains of methods that seem better.
    one = (1 - _PROBABILITY_OF_NO_SPREAD) / len(spreads)
    prior = np.log([_PROBABILITY_OF_NO_SPREAD, *[one] * len(spreads)])
    weights, better = np.exp(prior), g > 0
    if better.any():
        total = tau**2 + v[better]
        surprise = (g[better] - prior_mean * tau) ** 2 / total
        likelihood = -0.5 * (np.log(total) + surprise).sum(axis=1)
        counted = min(1.0, _INDEPENDENT_METHODS / int(better.sum()))
        weights = np.asarray(softmax(prior + counted * likelihood))
    means = (g * tau**2 + prior_mean * tau * v) / (tau**2 + v)
    stds = tau * np.sqrt(v / (tau**2 + v))
    smallest = smallest_gain(loss)
    return [
        _summary(weights, mean, std, smallest) for mean, std in zip(means.T, stds.T, strict=True)
    ]


def _summary(weights: Vector, means: Vector, stds: Vector, smallest: float) -> Gain:
    """Return the mean, the interval and the upper tail of a mixture of normal distributions."""

    def cdf(x: float) -> float:
        return float(weights @ ndtr((x - means) / stds))

    def quantile(share: float) -> float:
        reach = 10 * float(stds.max())
        low, high = float(means.min()) - reach, float(means.max()) + reach
        return float(brentq(lambda x: cdf(x) - share, low, high, xtol=reach * 1e-9))

    tail = (1 - CONFIDENCE) / 2
    return Gain(float(weights @ means), quantile(tail), quantile(1 - tail), 1 - cdf(smallest))
