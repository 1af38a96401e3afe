"""What a report measures for each goal, and how it writes the numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from nearfar.comparison import GoalComparison, MethodResult
from nearfar.comparison.gains import CONFIDENCE, Gain

_RANKING_NOISE = 4.0
"""Variance of a mean average precision relative to that of independent rows; see `gains`."""


@dataclass(frozen=True)
class Measure:
    """A measure and how it is written.

    Attributes
    ----------
    title : str
        What the goal is called.
    name : str
        What is measured.
    short_name : str
        The same in a word or two.
    is_loss : bool
        Whether less is better.
    percent : bool
        Whether it is written in percent.
    """

    title: str
    name: str
    short_name: str
    is_loss: bool = False
    percent: bool = False

    def value(self, loss: float) -> float:
        """Return the measure of a loss."""
        return loss if self.is_loss else 1.0 - loss

    def write(self, value: float) -> str:
        """Return a value as text.

        Examples
        --------
        >>> from nearfar.report.measures import ERROR, MAP_AT_R
        >>> ERROR.write(0.413), MAP_AT_R.write(0.413)
        ('41.3 %', '0.413')
        """
        return f"{100 * value:.1f} %" if self.percent else f"{value:.3f}"

    def write_gain(self, gain: Gain) -> str:
        """Return an expected gain and its interval as text."""
        scale, digits, unit = (100, 1, " points") if self.percent else (1, 3, "")
        # Adding zero turns -0.0 into 0.0.
        expected, low, high = (
            f"{round(scale * value, digits) + 0.0:.{digits}f}"
            for value in (gain.gain, gain.low, gain.high)
        )
        return f"{expected}{unit} ({low} to {high})"


ERROR = Measure("Classification", "error", "error", is_loss=True, percent=True)
MAP_AT_R = Measure("Ranking and search", "MAP@R", "MAP@R")
TRIPLETS = Measure("Triplets", "held-out triplets in the right order", "right", percent=True)
PAIRS = Measure("Pairs", "area under the ROC curve of held-out pairs", "AUC")

MEASURES = {"classification": ERROR, "ranking": MAP_AT_R, "triplets": TRIPLETS, "pairs": PAIRS}
"""Measures by goal."""


def loss_interval(goal: GoalComparison, result: MethodResult) -> tuple[float, float]:
    """Return the 90 % interval of the mean loss of a method."""
    losses = 1.0 - result.average_precision if goal.goal == "ranking" else result.wrong
    if goal.shared is not None:
        n_groups = goal.shared.n_groups(losses)
        return interval(result.error, goal.shared.variance(losses), n_groups)
    losses = goal.counted(losses)
    losses = losses[~np.isnan(losses)]
    if len(losses) == 0:
        return 0.0, 1.0
    noise = _RANKING_NOISE if goal.goal == "ranking" else 1.0
    variance = noise * float(losses.var()) / len(losses)
    return interval(float(losses.mean()), variance, len(losses))


def interval(mean: float, variance: float, n: int) -> tuple[float, float]:
    """Return Wilson's 90 % interval of a mean of losses from 0 to 1.

    Parameters
    ----------
    mean : float
    variance : float
        Of the mean.
    n : int
        Number of losses, which counts if they are all the same.

    Examples
    --------
    >>> from nearfar.report.measures import interval
    >>> low, high = interval(0.1, 0.1 * 0.9 / 100, 100)
    >>> round(low, 3), round(high, 3)
    (0.061, 0.16)
    """
    z = float(ndtri((1 + CONFIDENCE) / 2))
    share_variance = mean * (1 - mean)
    # The number of independent shares, all or nothing, that are as sure as this mean.
    size = share_variance / variance if variance > 0 and share_variance > 0 else n
    center = (mean + z**2 / (2 * size)) / (1 + z**2 / size)
    reach = z / (1 + z**2 / size) * math.sqrt(share_variance / size + z**2 / (4 * size**2))
    return max(0.0, center - reach), min(1.0, center + reach)
