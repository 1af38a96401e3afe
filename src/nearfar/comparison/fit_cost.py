"""Predicts how long methods take, from what they took so far.

The time of a method on n training rows is modelled as c n^p. A fit on a small sample gives c: the
number of features and of classes is the same there, so their effect is in c. The exponent p is that
of the method once it ran on two sizes; before that, the median of the other methods; before any of
them did, 1.3, which is typical of the learners.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

# Typical of the learners: between one pass over the rows and a table of all pairs.
_EXPONENT = 1.3
# Beyond it, an exponent of two short fits is noise.
_EXPONENT_RANGE = (0.0, 2.5)
# Shorter times, in seconds, say nothing about the exponent.
_SHORTEST = 0.01


class CostModel:
    """Times of methods, observed and predicted.

    Examples
    --------
    >>> from nearfar.comparison.fit_cost import CostModel
    >>> costs = CostModel()
    >>> costs.observe("NCA", 300, 1.0)
    >>> round(costs.predict("NCA", 3000), 1)
    20.0
    >>> costs.observe("NCA", 600, 2.0)
    >>> round(costs.predict("NCA", 3000), 1)
    10.0
    """

    def __init__(self) -> None:
        self._observed: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._at_least: dict[str, dict[int, float]] = defaultdict(dict)

    def observe(self, name: str, n_train: int, seconds: float) -> None:
        """Note how long a method took on a number of training rows."""
        self._observed[name][n_train].append(seconds)
        self._at_least[name].pop(n_train, None)

    def observe_unfinished(self, name: str, n_train: int, seconds: float) -> None:
        """Note that a method did not finish in a time limit: assume that it takes twice as long."""
        self._at_least[name][n_train] = 2 * seconds

    def predict(self, name: str, n_train: int) -> float:
        """Return the expected time on a number of training rows; 0 if nothing is known."""
        times = {n: float(np.mean(seconds)) for n, seconds in self._observed[name].items()}
        limits = self._at_least[name]
        exponent = self._exponent(name)
        if exponent is None:
            others = [p for other in self._observed if (p := self._exponent(other)) is not None]
            exponent = float(np.median(others)) if others else _EXPONENT
        seconds = 0.0
        if times:
            nearest = min(times, key=lambda n: abs(np.log(n / n_train)))
            seconds = times[nearest] * (n_train / nearest) ** exponent
        bounds = [t * max(1.0, n_train / n) ** exponent for n, t in limits.items() if n <= n_train]
        return max([seconds, *bounds])

    def _exponent(self, name: str) -> float | None:
        """Return the exponent of a method; None if it did not run on two sizes."""
        times = {n: float(np.mean(seconds)) for n, seconds in self._observed[name].items()}
        small, large = min(times, default=0), max(times, default=0)
        # Folds differ by a row or two.
        if large < 1.5 * max(small, 1) or times[small] < _SHORTEST:
            return None
        exponent = np.log(max(times[large], _SHORTEST) / times[small]) / np.log(large / small)
        return float(np.clip(exponent, *_EXPONENT_RANGE))
