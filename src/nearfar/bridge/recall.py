"""How many neighbours a bridge keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfar.numerics.nearest_rows import NearestRows
from nearfar.typing import Floats, Ints, Vector


@dataclass(frozen=True)
class Recall:
    """Share of the old neighbours that mapped new vectors find, on items not learned from.

    Attributes
    ----------
    value : float
    low, high : float
        Interval with 95 % confidence.
    n_items : int
        Items whose neighbours were searched.
    n_neighbors : int
    """

    value: float
    low: float
    high: float
    n_items: int
    n_neighbors: int

    @classmethod
    def of(cls, shares: Vector, n_neighbors: int) -> Recall:
        """Average the shares of the items.

        Examples
        --------
        >>> import numpy as np
        >>> from nearfar.bridge import Recall
        >>> print(Recall.of(np.array([0.8, 0.9, 1.0, 0.9]), 10))
        New vectors find 90.0 % (82.0 % to 98.0 %) of the 10 nearest old vectors, on 4 items ...
        """
        value, n = float(shares.mean()), len(shares)
        error = 1.96 * float(shares.std(ddof=1) / np.sqrt(n)) if n > 1 else 1.0
        return cls(value, max(0.0, value - error), min(1.0, value + error), n, n_neighbors)

    def __str__(self) -> str:
        return (
            f"New vectors find {self.value:.1%} ({self.low:.1%} to {self.high:.1%}) of the "
            f"{self.n_neighbors} nearest old vectors, on {self.n_items} items that were not "
            "learned from."
        ).replace("%", " %")


class OldNeighbors:
    """The neighbours of items among the old vectors.

    Parameters
    ----------
    old : array of shape (n_samples, n_old)
    items : array of int
        Rows whose neighbours are searched; they do not find themselves.
    n_neighbors : int
    """

    def __init__(self, old: Floats, items: Ints, n_neighbors: int) -> None:
        self.items, self.k = items, n_neighbors
        self.mean = old.mean(axis=0, dtype=np.float64)
        self.rows = NearestRows(old - self.mean)
        self.expected = self._found(old[items])

    def shares(self, mapped: Floats) -> Vector:
        """Return how many of an item's neighbours its mapped new vector finds, as shares."""
        found = self._found(mapped)
        hits = (found[:, :, None] == self.expected[:, None, :]).any(axis=2)
        return np.asarray(hits.mean(axis=1))

    def _found(self, vectors: Floats) -> Ints:
        return self.rows.nearest(vectors - self.mean, self.k, self.items)[1]
