"""Scores of a distance on a fold: test rows are queries, training rows the gallery.

    error               share of test rows that a vote of the k nearest classifies wrongly; a tied
                        vote goes to the first class
    triplet accuracy    share of *all* triplets (test row, row of its class, row of another class)
                        in the right order, where a tie counts half; the mean over test rows
    MAP@R               as in `nearfar.evaluate`

Rows of classes that were not learned from have no training rows to find: they are queries among
each other.

For large folds a random sample of the test rows is classified, and a smaller one is ranked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from nearfar.comparison.gains import Goal
from nearfar.evaluate.retrieval import average_precision_at_r, majority
from nearfar.metrics.metric import Metric
from nearfar.metrics.search import Distance, Gallery, Search
from nearfar.typing import Floats, Ints, Vector

_CLASSIFIED_DISTANCES = 1 << 27
"""Distances computed to classify the test rows of a fold."""
_CLASSIFIED_ROWS = 1000
"""Test rows classified even if that takes more distances."""
_RANKED_DISTANCES = 1 << 21
"""Distances sorted to rank for the test rows of a fold."""
_RANKED_ROWS = 100
"""Test rows ranked even if that takes more distances."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of a distance on the test rows, or test judgements, of a fold.

    Attributes
    ----------
    wrong : array of shape (n_test,)
        1 for rows classified wrongly, 0 for the others; nan for rows not classified. Likewise for
        judgements, in proportion to their weights.
    average_precision : array of shape (n_test,)
        Average precision of each row's ranking; nan for rows not ranked.
    triplet_accuracy : float
    """

    wrong: Vector
    average_precision: Vector
    triplet_accuracy: float

    @property
    def error(self) -> float:
        """Share of rows classified wrongly, or of wrong judgements."""
        return float(np.nanmean(self.wrong))

    @property
    def map_at_r(self) -> float:
        """Mean average precision of the ranked rows."""
        ranked = ~np.isnan(self.average_precision)
        return float(self.average_precision[ranked].mean()) if ranked.any() else float("nan")

    def loss(self, goal: Goal) -> float:
        """Return what methods are ranked by: the error, or 1 - MAP@R."""
        if goal != "ranking":
            return self.error
        return 1.0 if np.isnan(self.map_at_r) else 1.0 - self.map_at_r


def score_distance(
    distance: Metric | Distance,
    gallery: tuple[Floats, Ints],
    test: tuple[Floats, Ints] | None,
    *,
    n_neighbors: int,
    random_state: int | None = 0,
) -> Scores:
    """Score a distance on test rows.

    Parameters
    ----------
    distance : Metric or Distance
    gallery : tuple of arrays
        Rows, and their classes as codes from 0.
    test : tuple of arrays or None
        Queries likewise; None for the rows of the gallery among each other. Those that are alone in
        their class are then not scored.
    n_neighbors : int
        Number of votes.
    random_state : int or None
        Seed of the samples of test rows.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Metric
    >>> from nearfar.comparison.scoring import score_distance
    >>> gallery = np.array([[0.0], [1.0], [5.0]]), np.array([0, 0, 1])
    >>> found = score_distance(Metric.identity(1), gallery, gallery, n_neighbors=1)
    >>> found.wrong, found.triplet_accuracy
    (array([0., 0., 0.]), 1.0)
    """
    X, y = gallery
    X_test, y_test = gallery if test is None else test
    order = np.random.default_rng(random_state).permutation(len(X_test))
    classified = np.sort(order[: max(_CLASSIFIED_ROWS, _CLASSIFIED_DISTANCES // len(X))])
    ranked = np.sort(order[: max(_RANKED_ROWS, _RANKED_DISTANCES // len(X))])
    wrong, precision = np.full((2, len(X_test)), np.nan)
    searched = Gallery(distance, X)
    among = test is None
    if among:
        classified = classified[np.bincount(y)[y[classified]] > 1]

    def queries(rows: Ints) -> Search:
        return searched.search(rows=rows) if among else searched.search(X_test[rows])

    neighbors = queries(classified).nearest(n_neighbors)[1]
    wrong[classified] = majority(y[neighbors]) != y_test[classified]
    shares = []
    for part, table in queries(ranked).tables():
        rows = ranked[part]
        relevant = y == y_test[rows, None]
        if among:
            others = np.arange(len(y)) != rows[:, None]
            table, relevant = (each[others].reshape(len(rows), -1) for each in (table, relevant))
        mixed = relevant.any(axis=1) & ~relevant.all(axis=1)
        if mixed.any():
            share, precision[rows[mixed]] = _score_rankings(table[mixed], relevant[mixed])
            shares.append(share)
    accuracy = float(np.concatenate(shares).mean()) if shares else float("nan")
    return Scores(wrong, precision, accuracy)


def _score_rankings(table: Floats, relevant: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Share of each query's triplets in the right order, and its average precision."""
    order = np.argsort(table, axis=1)
    hits = np.take_along_axis(relevant, order, axis=1)
    R = relevant.sum(axis=1)
    right = np.sum(np.cumsum(hits, axis=1), axis=1, where=~hits) / (R * (hits.shape[1] - R))
    distances = np.take_along_axis(table, order, axis=1)
    equal = distances[:, 1:] == distances[:, :-1]
    tied = (equal & (hits[:, 1:] != hits[:, :-1])).any(axis=1)
    if tied.any():
        right[tied] = _triplet_shares_with_ties(table[tied], relevant[tied])
    return right, average_precision_at_r(hits[:, : R.max()], R)


def _triplet_shares_with_ties(table: Floats, relevant: NDArray[np.bool_]) -> Floats:
    """Share of triplets in the right order, where a tie counts half, from the ranks of far rows."""
    far = relevant.shape[1] - relevant.sum(axis=1)
    ranks = np.sum(rankdata(table, axis=1), axis=1, where=~relevant)
    return (ranks - far * (far + 1) / 2) / (far * (relevant.shape[1] - far))
