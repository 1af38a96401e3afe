"""The vote of nearest neighbours: which class wins, and how often votes as clear are right.

Shares of votes are no probabilities: the voters are the rows that a metric was learned from, which
it has drawn to their classes. Votes on rows that took no part tell how far to trust them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from nearfar.typing import Array, Floats, Ints, Vector

# Held-out rows that a number of votes is taken to have before any are counted: few rows tell
# little. On the problems of benchmarks/claims.py, 1 to 4 make hardly a difference.
_PRIOR_ROWS = 2.0
# The most probable class has so much more than another, which rounding cannot undo.
_TIE = 1e-9

DEFAULT_NEIGHBORS = 3
"""How many neighbours vote where nothing tells what is best."""

NUMBERS = (1, 3, 5, 9, 15, 25)
"""Numbers of neighbours to choose from: noisy classes want many, others few."""

RELIABILITY_HEADINGS = ("votes for the winner", "held-out rows", "right", "stated")


def majority(labels: Ints) -> Ints:
    """Return the most frequent label of each row; of several, the smallest."""
    ordered = np.sort(labels, axis=1)
    place = np.broadcast_to(np.arange(ordered.shape[1]), ordered.shape)
    first = np.diff(ordered, axis=1, prepend=-1) != 0
    run = place - np.maximum.accumulate(np.where(first, place, 0), axis=1)
    return np.take_along_axis(ordered, run.argmax(axis=1)[:, None], axis=1)[:, 0]


def best_number(
    votes: Sequence[tuple[Array, Array]],
    *,
    numbers: bool = False,
    weights: Sequence[Vector | None] | None = None,
) -> int:
    """Return how many neighbours vote best, or have the best mean.

    Errors with a number count with those of the next ones on both sides, because they are noisy,
    and change slowly with the number.

    Parameters
    ----------
    votes: shape (n_rows, n_neighbors). Classes of the nearest rows, the nearest first, and
        those of the rows themselves.
    numbers: Whether they are numbers, whose squared errors count, not classes.
    weights: shape (n_rows,). What the errors are multiplied by.
    """
    most = min((each.shape[1] for each, _ in votes), default=0)
    able = [k for k in NUMBERS if k <= most]
    if not able:
        return DEFAULT_NEIGHBORS

    def loss(nearest: Array, y: Array, weight: Vector | None) -> float:
        errors = (nearest.mean(axis=1) - y) ** 2 if numbers else majority(nearest) != y
        return float(errors.sum() if weight is None else weight @ errors)

    own = [None] * len(votes) if weights is None else weights
    wrong = [
        sum(loss(each[:, :k], y, weight) for (each, y), weight in zip(votes, own, strict=True))
        for k in able
    ]
    errors = np.pad(np.array(wrong, dtype=np.float64), 1, mode="edge")
    smooth = errors[:-2] + 2 * errors[1:-1] + errors[2:]
    return able[int(smooth.argmin())]


def class_shares(codes: Ints, n_classes: int) -> NDArray[np.float64]:
    """Return the share of each class among the neighbours of each row.

    Parameters
    ----------
    codes: shape (n_rows, n_neighbors). Classes of the neighbours.
    """
    n_rows, n_neighbors = codes.shape
    places = np.arange(n_rows)[:, None] * n_classes + codes
    counts = np.bincount(places.ravel(), minlength=n_rows * n_classes)
    return counts.reshape(n_rows, n_classes) / n_neighbors


def chosen_shares(votes: Ints, actual: Ints, n_classes: int) -> tuple[int, NDArray[np.float64]]:
    """Choose how many neighbours vote, and return their shares as they would be on new rows.

    The votes on a fifth of the rows are those of the number that is best on the others, so that
    no row has a part in choosing the voters that it is counted with.

    Parameters
    ----------
    votes: shape (n_rows, n_neighbors). Classes of the nearest rows, the nearest first.
    actual: shape (n_rows,). Classes of the rows.
    """
    shares = np.empty((len(votes), n_classes))
    fifth = np.arange(len(votes)) % 5
    for number in range(5):
        others, own = fifth != number, fifth == number
        k = best_number([(votes[others], actual[others])])
        shares[own] = class_shares(votes[own, :k], n_classes)
    return best_number([(votes, actual)]), shares


@dataclass(frozen=True, eq=False)
class Reliability:
    """How often votes are right, by the number of neighbours for the winner.

    It was counted on rows that took no part in learning, and prints as a table.

    Attributes
    ----------
    counted: shape (n_neighbors,). Number of these rows whose winner had 1, 2, ... votes.
    right: shape (n_neighbors,). How many of them have the class that won.
    n_classes: Number of classes; 0 if it is not known.
    """

    counted: Ints
    right: Ints
    n_classes: int = 0

    @classmethod
    def of(cls, shares: Floats, actual: Ints, n_neighbors: int) -> Self:
        """Count votes on rows that took no part.

        Parameters
        ----------
        shares: shape (n_rows, n_classes). Shares of the classes in the votes.
        actual: shape (n_rows,). Classes of the rows.
        """
        winner, votes = _winners(shares, n_neighbors)
        right = np.bincount(votes[winner == actual], minlength=n_neighbors + 1)
        return cls(np.bincount(votes, minlength=n_neighbors + 1)[1:], right[1:], shares.shape[1])

    @property
    def rates(self) -> Vector:
        """Probability that a winner with 1, 2, ... votes is right.

        Two rows are added to those counted, with one more neighbour who disagrees. More votes are
        never worth less, and the winner is more probable than a class at random.
        """
        k = len(self.counted)
        rows = self.counted + _PRIOR_ROWS
        rates = (self.right + _PRIOR_ROWS * np.arange(1, k + 1) / (k + 1)) / rows
        least = 1 / self.n_classes + _TIE if self.n_classes > 1 else 0.0
        return np.maximum(isotonic_regression(rates, sample_weight=rows), least)

    def probabilities(self, shares: Floats, totals: Vector) -> NDArray[np.float64]:
        """Turn shares of votes into probabilities.

        The winner has the probability of its votes. What is left goes to the other classes by
        their votes, with one more neighbour of a random class. The winner stays the most probable.

        Parameters
        ----------
        totals: shape (n_classes,). Share of each class in the training rows.
        """
        k, every = len(self.counted), np.arange(len(shares))
        winner, votes = _winners(shares, k)
        if len(totals) == 1:
            return np.ones_like(shares)
        won = replace(self, n_classes=len(totals)).rates[votes - 1]
        others = k * shares + totals
        others[every, winner] = 0.0
        others /= others.sum(axis=1, keepdims=True)
        # None of the others may have more than the winner: they become as even as that takes.
        even, largest = 1 / (len(totals) - 1), others.max(axis=1)
        excess = largest - (won / (1.0 - won) - _TIE)
        blend = np.clip(excess / np.maximum(largest - even, _TIE), 0.0, 1.0)[:, None]
        out = (1.0 - won)[:, None] * ((1.0 - blend) * others + blend * even)
        out[every, winner] = won
        return out

    def table(self) -> list[tuple[str, str, str, str]]:
        """Return a line for each number of votes: rows, how many were right, what is stated.

        With fewer votes than an equal share, no class wins.
        """
        k = len(self.counted)
        return [
            (
                f"{votes} of {k}",
                str(n),
                f"{100 * right / n:.0f} %" if n else "-",
                f"{100 * rate:.1f} %",
            )
            for votes, (n, right, rate) in enumerate(
                zip(self.counted, self.right, self.rates, strict=True), start=1
            )
            if n or votes * (self.n_classes or k) >= k
        ]

    def __str__(self) -> str:
        lines = [RELIABILITY_HEADINGS, *self.table()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
            for line in lines
        )


def _winners(shares: Floats, n_neighbors: int) -> tuple[Ints, Ints]:
    """Return the class that wins each vote, and its votes; those of soft neighbours are rounded."""
    votes = np.rint(n_neighbors * shares.max(axis=1, initial=0.0)).astype(np.intp)
    return shares.argmax(axis=1), np.clip(votes, 1, n_neighbors)
