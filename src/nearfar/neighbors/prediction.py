"""Predictions by nearest neighbours, with the rows that decided, a probability and a p-value.

The k nearest training rows vote for a class; numbers are their mean. How often votes as clear were
right on rows that took no part is the probability (`nearfar.measures.neighbor_votes`); the p-value
tells rows that are unlike all training rows (`strangeness`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.measures.neighbor_votes import Reliability, class_shares
from nearfar.metrics.gallery import Gallery
from nearfar.metrics.metric import Metric
from nearfar.neighbors.strangeness import Strangeness
from nearfar.typing import Array, Floats, Ints, Vector


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions for some rows, and what they rest on.

    Attributes
    ----------
    values: shape (n_rows,). Classes, or numbers.
    probability: shape (n_rows,). Of the class: how often votes that are as clear were right
        on rows that took no part. None for numbers, and without a `Reliability`.
    p_value: shape (n_rows,). Small for rows that are unlike all training rows. If a row is
        like them, its p-value is at most `a` with a probability of about `a` or less.
    indices: shape (n_rows, n_neighbors). The training rows that decided, nearest first.
    distances: shape (n_rows, n_neighbors). How far away they are.
    votes: shape (n_rows,). Share of the neighbours that have the predicted class; None for
        numbers. Under a metric that was learned from them, they agree more often than they
        are right.
    """

    values: Array
    probability: Vector | None
    p_value: Vector
    indices: Ints
    distances: Floats
    votes: Vector | None = None

    def unlike(self, level: float = 0.01) -> NDArray[np.bool_]:
        """Return which rows are unlike the training rows.

        Of rows that are like the training rows, about this share or less is called unlike.
        """
        return np.asarray(self.p_value <= level)


class NeighborPredictor:
    """Predict classes or numbers of new rows from their nearest training rows.

    Parameters
    ----------
    metric : Metric
    X : array-like of shape (n_samples, n_features), or DataFrame
        Training rows.
    y : array-like of shape (n_samples,)
        Their classes, or numbers.
    n_neighbors : int, default=3
    numbers : bool, default=False
        Whether y has numbers, which are predicted by the mean of the neighbours, not classes.
    reliability : Reliability, optional
        How often as many neighbours were right on rows that took no part; without it, there are no
        probabilities.

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
    >>> prediction.unlike(0.2)
    array([False,  True])
    """

    def __init__(
        self,
        metric: Metric,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_neighbors: int = 3,
        numbers: bool = False,
        reliability: Reliability | None = None,
    ) -> None:
        self.gallery, self.reliability = Gallery(metric, X), reliability
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
        search = self.gallery.search(queries)
        distances, indices = search.nearest(self.n_neighbors)
        p_value = self.strangeness.p_values(search.queries)
        if self.numbers:
            return Prediction(self.y[indices].mean(axis=1), None, p_value, indices, distances)
        shares = class_shares(self._codes[indices], len(self.classes))
        values, votes = self.classes[shares.argmax(axis=1)], shares.max(axis=1)
        probability = None
        if self.reliability is not None:
            totals = np.bincount(self._codes) / len(self._codes)
            probability = self.reliability.probabilities(shares, totals).max(axis=1)
        return Prediction(values, probability, p_value, indices, distances, votes)

    @cached_property
    def strangeness(self) -> Strangeness:
        """Tells which rows are unlike the training rows."""
        return Strangeness(self.gallery.X, None if self.numbers else self._codes)
