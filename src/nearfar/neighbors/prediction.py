"""Predictions by nearest neighbours, with the rows that decided, a probability and a p-value.

The k nearest training rows vote for a class; numbers are their mean. Each training row is also
predicted from the others, which calibrates the predictions for new rows:

    probability    of training rows whose vote was won by as many neighbours, the share whose class
                   it got right
    p-value        with s(x) the distance from a row x to the k-th nearest of all other rows,
                   training rows and the new row alike,

        p = #{training rows x_i, and the new row x_0 itself: s(x_i) >= s(x_0)} / (n + 1)

This is full conformal prediction (V. Vovk, A. Gammerman, G. Shafer: Algorithmic Learning in a
Random World, 2005). If training rows and the new row are exchangeable and the metric does not
depend on them, P(p <= a) <= a for every a and n. The new row changes s(x_i) only if it is nearer to
x_i than the k-th of the other training rows, and that matters only if x_i is one of the first k - 1
neighbours of the new row:

    s(x_i) >= s(x_0)    if and only if    r_k(i) >= s(x_0), and d(x_i, x_0) >= s(x_0) or
                                          r_(k-1)(i) >= s(x_0)

with r_j(i) the distance from x_i to the j-th nearest other training row. So all p-values cost one
search of the training rows among each other, and k comparisons for each new row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.evaluate.neighbor_votes import majority
from nearfar.metrics.metric import Metric
from nearfar.metrics.search import Gallery
from nearfar.typing import Array, Floats, Ints, Vector

# Number of roundings that make equal distances differ: products are sums of many terms.
_ROUNDINGS = 64


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions for some rows, and what they rest on.

    Attributes
    ----------
    values : array of shape (n_rows,)
        Classes, or numbers.
    probability : array of shape (n_rows,) or None
        Of the class: how often a vote that is as clear is right for training rows. None for
        numbers.
    p_value : array of shape (n_rows,)
        Small for rows that are far from all training rows. If a row is like the training rows, its
        p-value is at most `a` with probability at most `a`.
    indices : array of int of shape (n_rows, n_neighbors)
        The training rows that decided, nearest first.
    distances : array of shape (n_rows, n_neighbors)
        How far away they are.
    """

    values: Array
    probability: Vector | None
    p_value: Vector
    indices: Ints
    distances: Floats

    def unlike(self, level: float = 0.01) -> NDArray[np.bool_]:
        """Return which rows are unlike the training rows.

        Of rows that are like the training rows, at most this share is called unlike.
        """
        return np.asarray(self.p_value <= level)


class NeighborPredictor:
    """Predict classes or numbers of new rows from their nearest training rows.

    Parameters
    ----------
    metric : Metric
        Its p-values are exact if it was not learned from X. A metric that was learned from these
        rows draws them together, so that more new rows seem unlike them.
    X : array-like of shape (n_samples, n_features), or DataFrame
        Training rows.
    y : array-like of shape (n_samples,)
        Their classes, or numbers.
    n_neighbors : int, default=3
    numbers : bool, default=False
        Whether y has numbers, which are predicted by the mean of the neighbours, not classes.

    Examples
    --------
    >>> from nearfar import Metric
    >>> from nearfar.neighbors import NeighborPredictor
    >>> X, y = [[0.0], [1.0], [1.5], [7.0], [7.5], [9.0]], ["low"] * 3 + ["high"] * 3
    >>> predictor = NeighborPredictor(Metric.identity(1), X, y, n_neighbors=2)
    >>> prediction = predictor.predict([[1.2], [30.0]])
    >>> prediction.values
    array(['low', 'high'], dtype='<U4')
    >>> prediction.indices
    array([[1, 2],
           [5, 4]])
    >>> prediction.p_value.round(2)
    array([1.  , 0.14])
    """

    def __init__(
        self,
        metric: Metric,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_neighbors: int = 3,
        numbers: bool = False,
    ) -> None:
        self._metric, self.gallery = metric, Gallery(metric, X)
        self.y = np.asarray(y, dtype=np.float64 if numbers else None)
        if self.y.shape != (len(self.gallery),):
            rows = len(self.gallery)
            raise ValueError(f"The {rows} training rows need one label each; got {self.y.shape}.")
        self.n_neighbors, self.numbers = n_neighbors, numbers
        self.classes, self._codes = np.unique(self.y, return_inverse=True)

    def predict(self, queries: ArrayLike) -> Prediction:
        """Predict new rows.

        Parameters
        ----------
        queries : array-like of shape (n_rows, n_features), or DataFrame
        """
        k = self.n_neighbors
        distances, indices = self.gallery.search(queries).nearest(k)
        squares, reached = distances**2, self._others[0] ** 2
        last = reached[:, -1]
        before = reached[:, -2] if k > 1 else np.zeros(len(last))
        constant, slope = self._rounding
        score = squares[:, -1:] - _ROUNDINGS * (constant + slope * distances[:, -1:])
        farther = len(last) - np.searchsorted(np.sort(last), score[:, 0])
        drawn = (squares < score) & (last[indices] >= score) & (before[indices] < score)
        if len(self._metric.parts) > 1:
            # d(x_i, x_0) is not d(x_0, x_i). Without this term p-values are larger: the safe side.
            drawn[:] = False
        p_value = np.asarray((1 + farther - drawn.sum(axis=1)) / (len(last) + 1))
        if self.numbers:
            return Prediction(self.y[indices].mean(axis=1), None, p_value, indices, distances)
        winner, votes = self._vote(indices)
        probability = self._rates[votes]
        return Prediction(self.classes[winner], probability, p_value, indices, distances)

    @cached_property
    def _others(self) -> tuple[Floats, Ints]:
        """The nearest of the other training rows, for each of them."""
        return self.gallery.search().nearest(self.n_neighbors)

    def _vote(self, indices: Ints) -> tuple[Ints, Ints]:
        """Return the class that wins each vote, and how many neighbours it has."""
        codes = self._codes[indices]
        winner = majority(codes)
        return winner, (codes == winner[:, None]).sum(axis=1)

    @cached_property
    def _rates(self) -> Vector:
        """How often a vote is right, by the number of neighbours for its winner.

        One more vote is counted, with one more neighbour who disagrees: few votes tell little, and
        none is certain.
        """
        winner, votes = self._vote(self._others[1])
        size = self.n_neighbors + 1
        right = np.bincount(votes, weights=winner == self._codes, minlength=size)
        counted = np.bincount(votes, minlength=size)
        return np.asarray((right + np.arange(size) / size) / (counted + 1))

    @cached_property
    def _rounding(self) -> tuple[float, float]:
        """By how much equal squared distances differ after one rounding.

        Products of centred rows are rounded in float64, which gives the constant. Mapped rows are
        rounded in their own precision, which gives the slope: the factor of the distance.
        """
        mapped = np.asarray(self._metric.transform(self.gallery.X))
        radius, size = (
            float(np.linalg.norm(rows, axis=1).max())
            for rows in (mapped - mapped.mean(axis=0), mapped)
        )
        constant = float(np.finfo(np.float64).eps * radius**2)
        return constant, float(np.finfo(mapped.dtype).eps) * size
