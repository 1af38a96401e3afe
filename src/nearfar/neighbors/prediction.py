"""Predictions by nearest neighbours, with the rows that decided, a probability and a p-value.

The nearest training rows vote, with what is known without them (`nearfar.measures.neighbor_votes`).
The p-value tells rows that are unlike all training rows (`strangeness`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.measures.neighbor_votes import LinearPrior, SoftVotes
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
    probability: shape (n_rows,). Of the class; None for numbers.
    p_value: shape (n_rows,). Small for rows that are unlike all training rows. If a row is
        like them, its p-value is at most `a` with a probability of about `a` or less.
    indices: shape (n_rows, n_neighbors). The training rows that decided, nearest first.
    distances: shape (n_rows, n_neighbors). How far away they are.
    share: shape (n_rows,). Share of the prediction that comes from these rows; the rest comes
        from the prior.
    probabilities: shape (n_rows, n_classes). Of each class; None for numbers.
    spread: shape (n_rows,). How much the neighbours disagree about numbers; None for classes.
    """

    values: Array
    probability: Vector | None
    p_value: Vector
    indices: Ints
    distances: Floats
    share: Vector
    probabilities: Floats | None = None
    spread: Vector | None = None

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
    votes : SoftVotes or int, default=3
        How neighbours vote, such as `votes_` of a classifier. A number of neighbours has a whole
        vote each.
    numbers : bool, default=False
        Whether y has numbers, not classes.
    groups : array-like of shape (n_samples,), optional
        What training rows belong to, for instance a person: a new row is a new group.

    Examples
    --------
    >>> from nearfar import Metric
    >>> from nearfar.neighbors import NeighborPredictor
    >>> X, y = [[0.0], [1.0], [1.5], [7.0], [7.5], [9.0]], ["low"] * 3 + ["high"] * 3
    >>> predictor = NeighborPredictor(Metric.identity(1), X, y, votes=2)
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
        votes: SoftVotes | int = 3,
        numbers: bool = False,
        groups: Ints | None = None,
    ) -> None:
        self.gallery = Gallery(metric, X)
        self.y = np.asarray(y, dtype=np.float64 if numbers else None)
        if self.y.shape != (len(self.gallery),):
            rows = len(self.gallery)
            raise ValueError(f"The {rows} training rows need one label each; got {self.y.shape}.")
        self.votes = SoftVotes(votes) if isinstance(votes, int | np.integer) else votes
        self.numbers, self.groups = numbers, groups
        self.linear: LinearPrior | None = None
        if numbers:
            self.residuals, self.prior = self.y, self.y.mean()
        else:
            self.classes, self.codes = np.unique(self.y, return_inverse=True)
            self.prior = np.bincount(self.codes) / len(self.codes)
        if self.votes.linear:
            points = np.asarray(self.gallery.X)
            self.linear = LinearPrior.of(points, self.y if numbers else self.codes)
        if numbers:
            self.residuals = self.y - (self.prior if self.linear is None else self.linear.unseen)

    def __getstate__(self) -> dict[str, Any]:
        return {name: each for name, each in vars(self).items() if name != "strangeness"}

    def predict(self, queries: ArrayLike) -> Prediction:
        """Predict new rows.

        Parameters
        ----------
        queries : array-like of shape (n_rows, n_features), or DataFrame
        """
        found = self.outcome(queries)
        p_value = self.strangeness.p_values(self.gallery.search(queries).queries)
        probabilities, spread, distances, indices = found
        share = self.votes.share(distances)
        if self.numbers:
            return Prediction(
                probabilities, None, p_value, indices, distances, share, spread=spread
            )
        return Prediction(
            self.classes[probabilities.argmax(axis=1)],
            probabilities.max(axis=1),
            p_value,
            indices,
            distances,
            share,
            probabilities,
        )

    def outcome(self, queries: ArrayLike) -> tuple[Floats, Vector | None, Floats, Ints]:
        """Return probabilities, or numbers and how much neighbours disagree; and the neighbours."""
        search = self.gallery.search(queries)
        distances, indices = search.nearest(min(self.votes.n_neighbors, len(self.gallery)))
        prior: Any = self.prior if self.linear is None else self.linear(np.asarray(search.queries))
        if not self.numbers:
            codes = self.codes[indices]
            return self.votes.probabilities(distances, codes, prior), None, distances, indices
        added, spread = self.votes.means(distances, self.residuals[indices])
        return prior + added, spread, distances, indices

    @cached_property
    def strangeness(self) -> Strangeness:
        """Tells which rows are unlike the training rows."""
        codes = None if self.numbers else self.codes
        return Strangeness(self.gallery.X, codes, self.groups)
