"""What a bridge keeps: the share of old neighbours that mapped new vectors find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nearfar.evaluate.intervals import value_interval
from nearfar.numerics.nearest_rows import NearestRows
from nearfar.typing import Floats, Ints, Vector

# Variance of a mean relative to that of independent items: those held out together share a
# map. It is what searches have (`evaluate.measures`); `benchmarks/claims_search.py` counts.
_NOISE = 1.25


@dataclass(frozen=True)
class Recall:
    """Share of the old neighbours that mapped new vectors find, on items not learned from.

    Attributes
    ----------
    value : float
    low, high : float
        90 % interval.
    n_items : int
        Items, or queries, whose neighbours were searched.
    n_neighbors : int
    n_searched : int
        Number of old vectors that were searched. In a larger index, fewer neighbours are found.
    kind : {"items", "queries"}
        Whose neighbours were searched.
    """

    value: float
    low: float
    high: float
    n_items: int
    n_neighbors: int
    n_searched: int
    kind: Literal["items", "queries"] = "items"

    @classmethod
    def of(
        cls,
        shares: Vector,
        n_neighbors: int,
        n_searched: int,
        kind: Literal["items", "queries"] = "items",
    ) -> Recall:
        """Average the shares of the items.

        Examples
        --------
        >>> import numpy as np
        >>> from nearfar.bridge import Recall
        >>> print(Recall.of(np.array([0.8, 0.9, 1.0, 0.9]), 10, 500))
        Mapped items find 90.0 % (81.6 % to 94.8 %) of their 10 nearest of 500 old vectors: ...
        """
        low, high = value_interval(shares, _NOISE)
        return cls(float(shares.mean()), low, high, len(shares), n_neighbors, n_searched, kind)

    @classmethod
    def read(cls, header: Mapping[str, str], kind: Literal["items", "queries"] = "items") -> Recall:
        """Return what `header` wrote."""
        value, low, high = (float(header[name]) for name in ("value", "low", "high"))
        # Files of version 0.1 do not say how many vectors were searched.
        n, k, searched = (int(header.get(n, 0)) for n in ("n_items", "n_neighbors", "n_searched"))
        return cls(value, low, high, n, k, searched, kind)

    @property
    def header(self) -> dict[str, str]:
        """The numbers, as the header of a file has them."""
        return {name: repr(value) for name, value in vars(self).items() if name != "kind"}

    def __str__(self) -> str:
        unlike = ", and queries unlike these items far fewer" * (self.kind == "items")
        return (
            f"Mapped {self.kind} find {self.value:.1%} ({self.low:.1%} to {self.high:.1%}) of "
            f"their {self.n_neighbors} nearest of {self.n_searched:,} old vectors: the mean of "
            f"{self.n_items:,}, each mapped by a bridge that was not learned from it. In a larger "
            f"index they find fewer{unlike}."
        ).replace("%", " %")


class OldNeighbors:
    """The neighbours of items among the old vectors.

    Parameters
    ----------
    old : array of shape (n_samples, n_old)
    items : array of int or None
        Rows whose neighbours are searched; they do not find themselves.
    n_neighbors : int
    vectors : array of shape (n_queries, n_old), optional
        Old vectors whose neighbours are searched, instead of those of the items.
    """

    def __init__(
        self, old: Floats, items: Ints | None, n_neighbors: int, vectors: Floats | None = None
    ) -> None:
        self.items, self.k = items, n_neighbors
        self.mean = old.mean(axis=0, dtype=np.float64)
        self.rows = NearestRows(old - self.mean)
        self.expected = self._nearest(old[items] if vectors is None else vectors)

    def shares(self, mapped: Floats) -> Vector:
        """Return how many of an item's neighbours its mapped new vector finds, as shares."""
        nearest = self._nearest(mapped)
        hits = (nearest[:, :, None] == self.expected[:, None, :]).any(axis=2)
        return np.asarray(hits.mean(axis=1))

    def _nearest(self, vectors: Floats) -> Ints:
        return self.rows.nearest(vectors - self.mean, self.k, self.items)[1]
