"""Thresholds of squared lengths for MetricBoost's binary weak models.

A threshold beta orders a triplet correctly if its near length is below beta and its far length is
not, and wrongly in the opposite case. With e+ and e- the weights of the wrong and the right ones,
the best vote has weight alpha = ln(e- / e+) / 2 and

    Z = 1 - e+ - e- + 2 sqrt(e+ e-) = 1 - (sqrt(e-) - sqrt(e+))^2.
"""

from __future__ import annotations

import math

import numpy as np

from nearfar.typing import Vector

# Sums of weights, of total one, that are zero but for rounding.
_ROUNDING = 1e-13

# Gains that differ by less are equal; the lowest threshold is taken.
_TIE = 1e-12

# Lengths that differ by less, relative to the longest, are one.
_SAME_LENGTH = 1e-12


def best_threshold(
    lengths: Vector, wrong_change: Vector, right_change: Vector, *, signed: bool = False
) -> float:
    """Find the threshold with the smallest Z, by one sort.

    Parameters
    ----------
    lengths: shape (n_events,). Squared lengths at which weights change, in any order.
    wrong_change, right_change: shape (n_events,). What e+ and e- gain when the threshold
        passes above each length.
    signed: Also consider thresholds whose vote would be negative.

    Returns
    -------
    float
        Half-way between two lengths that differ by more than rounding; the lowest of equally good
        ones. inf if no threshold helps.
    """
    order = np.argsort(lengths, kind="stable")
    sorted_lengths = lengths[order]
    last = np.flatnonzero(np.diff(sorted_lengths) > _SAME_LENGTH * sorted_lengths[-1:])
    if len(last) == 0:
        return math.inf
    gain = _root(np.cumsum(right_change[order])[last]) - _root(np.cumsum(wrong_change[order])[last])
    if signed:
        gain = np.abs(gain)
    if gain.max() <= _TIE:
        return math.inf
    best = last[int(np.argmax(gain >= gain.max() - _TIE))]
    return float((sorted_lengths[best] + sorted_lengths[best + 1]) / 2)


def _root(weight: Vector) -> Vector:
    """Square root of sums of weights that may be off by rounding around zero."""
    return np.sqrt(np.where(weight > _ROUNDING, weight, 0.0))


def gaussian_threshold(near_mean: float, near_sd: float, far_mean: float, far_sd: float) -> float:
    """Find where two normal densities of squared lengths are equal (the paper's rule).

    The root between the means, if there is one; otherwise the point at equal distance from both in
    standard deviations. If the near lengths have no spread the means' midpoint, so that they are
    below it; if only the far ones have none, their mean.
    """
    if near_sd <= 0:
        return (near_mean + far_mean) / 2
    equal_z = (near_mean * far_sd + far_mean * near_sd) / (near_sd + far_sd)
    if far_sd <= 0 or near_mean == far_mean:
        return equal_z
    a = near_sd**-2 - far_sd**-2
    c = -2 * (near_mean / near_sd**2 - far_mean / far_sd**2)
    e = (near_mean / near_sd) ** 2 - (far_mean / far_sd) ** 2 + 2 * math.log(near_sd / far_sd)
    low, high = sorted((near_mean, far_mean))
    for root in _roots(a, c, e):
        if low <= root <= high:
            return root
    return equal_z


def _roots(a: float, c: float, e: float) -> list[float]:
    """Real roots of a x^2 + c x + e, without cancellation."""
    if a == 0:
        return [-e / c] if c != 0 else []
    discriminant = c * c - 4 * a * e
    if discriminant < 0:
        return []
    q = -(c + math.copysign(math.sqrt(discriminant), c)) / 2
    return [q / a] + ([e / q] if q != 0 else [])
