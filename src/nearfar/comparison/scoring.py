"""What a distance achieves on the test rows of a fold, the training rows being the gallery.

    error               the vote of the k nearest is wrong; a tied vote goes to the first class
    triplet accuracy    share of *all* triplets (test row, near of its class, far of another) that
                        are ordered rightly, a tie counting half; the mean over test rows
    MAP@R               as in `nearfar.evaluate`

Where gallery and test rows are many, a random part of the test rows is judged, and a part of these
ranked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from nearfar.comparison.methods import Distance, finite
from nearfar.typing import Floats, Ints

_MOST_JUDGED = 1 << 27
_LEAST_JUDGED_ROWS = 1000
_MOST_RANKED = 1 << 21
_LEAST_RANKED_ROWS = 100


@dataclass(frozen=True, eq=False)
class Scores:
    """What a distance has achieved on a fold.

    Attributes
    ----------
    wrong : array of shape (n_test,)
        1 where the vote was wrong, 0 where it was right; nan where it was not judged.
    triplet_accuracy : float
    average_precision : array of shape (n_test,)
        Of each row, the mean of which is MAP@R; nan where it was not ranked.
    """

    wrong: Floats
    triplet_accuracy: float
    average_precision: Floats

    @property
    def error(self) -> float:
        """Share of rows whose vote was wrong."""
        return float(np.nanmean(self.wrong))

    @property
    def map_at_r(self) -> float:
        """Mean of the average precision over the rows that were ranked."""
        ranked = ~np.isnan(self.average_precision)
        return float(self.average_precision[ranked].mean()) if ranked.any() else float("nan")


def judge(
    distance: Distance,
    gallery: tuple[Floats, Ints],
    test: tuple[Floats, Ints],
    *,
    n_neighbors: int,
    random_state: int | None = 0,
) -> Scores:
    """Judge a distance by test rows.

    Parameters
    ----------
    distance : Distance
    gallery, test : tuple of arrays
        Rows, and their classes as codes from 0.
    n_neighbors : int
        Number of votes.
    random_state : int or None
        Seed of the part that is ranked.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.comparison import default_methods
    >>> from nearfar.comparison.scoring import judge
    >>> gallery = np.array([[0.0], [1.0], [5.0]]), np.array([0, 0, 1])
    >>> found = judge(default_methods([])[1].fit(*gallery), gallery, gallery, n_neighbors=1)
    >>> found.wrong, found.triplet_accuracy
    (array([0., 0., 0.]), 1.0)
    """
    (X, y), (X_test, y_test) = gallery, test
    order = np.random.default_rng(random_state).permutation(len(X_test))
    judged = np.sort(order[: max(_LEAST_JUDGED_ROWS, _MOST_JUDGED // len(X))])
    ranked = np.sort(order[: max(_LEAST_RANKED_ROWS, _MOST_RANKED // len(X))])
    n_classes = int(max(y.max(), y_test.max())) + 1
    wrong, precision = np.full((2, len(X_test)), np.nan)
    ordered = []
    found = distance.nearest(X, X_test[judged], n_neighbors)
    wrong[judged] = _vote(y[found], n_classes) != y_test[judged]
    for part, tile in distance.tiles(X, X_test[ranked]):
        rows = ranked[part]
        relevant = y == y_test[rows, None]
        some = relevant.any(axis=1) & ~relevant.all(axis=1)
        if some.any():
            right, precision[rows[some]] = _rank(finite(tile)[some], relevant[some])
            ordered.append(right)
    accuracy = float(np.concatenate(ordered).mean()) if ordered else float("nan")
    return Scores(wrong, accuracy, precision)


def _vote(labels: Ints, n_classes: int) -> Ints:
    """Class that most of the nearest have."""
    ballots = np.arange(len(labels))[:, None] * n_classes + labels
    counts = np.bincount(ballots.ravel(), minlength=len(labels) * n_classes)
    return counts.reshape(len(labels), n_classes).argmax(axis=1)


def _rank(tile: Floats, relevant: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Share of (near, far) that each row orders rightly, and its average precision."""
    order = np.argsort(tile, axis=1)
    hits = np.take_along_axis(relevant, order, axis=1)
    R = relevant.sum(axis=1)
    before = np.cumsum(hits, axis=1)
    right = np.sum(before, axis=1, where=~hits) / (R * (hits.shape[1] - R))
    distances = np.take_along_axis(tile, order, axis=1)
    tied = ((distances[:, 1:] == distances[:, :-1]) & (hits[:, 1:] != hits[:, :-1])).any(axis=1)
    right[tied] = _with_ties(tile[tied], relevant[tied])
    rank = np.arange(1, hits.shape[1] + 1)
    counted = hits & (rank <= R[:, None])
    return right, np.sum(before / rank, axis=1, where=counted) / R


def _with_ties(tile: Floats, relevant: NDArray[np.bool_]) -> Floats:
    """Share of (near, far) in the right order, a tie counting half, from ranks of the far ones."""
    if len(tile) == 0:
        return np.empty(0)
    far = relevant.shape[1] - relevant.sum(axis=1)
    ranks = np.sum(rankdata(tile, axis=1), axis=1, where=~relevant)
    return (ranks - far * (far + 1) / 2) / (far * (relevant.shape[1] - far))
