"""`Pairs`: two rows are similar, or they are not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.constraints.base import (
    IndexedConstraints,
    checked_rows,
    checked_weights,
    frozen,
    selection,
)
from nearfar.constraints.triplets import Triplets
from nearfar.typing import Ints, Vector


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(IndexedConstraints):
    """Absolute judgements: two rows are similar, or they are not.

    Parameters
    ----------
    index : array-like of shape (n_pairs, 2)
        Row numbers of X.
    similar : array-like of bool of shape (n_pairs,)
        True where the two belong together. Learners of triplets need similar and dissimilar pairs
        that share a row.
    weight : array-like of shape (n_pairs,), optional
        Weight of each, like `sample_weight`: a pair of weight 2 counts as two.

    Examples
    --------
    >>> from nearfar import Pairs
    >>> pairs = Pairs([[0, 1], [1, 2]], similar=[True, False])
    >>> pairs.triplets().index
    array([[1, 0, 2]])
    """

    index: Ints
    similar: NDArray[np.bool_]
    weight: Vector | None = None

    def __init__(
        self, index: ArrayLike, similar: ArrayLike, weight: ArrayLike | None = None
    ) -> None:
        rows = checked_rows(index, 2, "Pairs")
        same = np.flatnonzero(rows[:, 0] == rows[:, 1])
        if len(same):
            raise ValueError(
                f"Pair {same[0]} {rows[same[0]].tolist()}: both ends are the same row."
            )
        flags = np.array(similar)
        if flags.shape != (len(rows),) or (flags.dtype != np.bool_ and len(rows)):
            raise ValueError(
                f"Pairs need `similar` as one boolean per pair ({len(rows)}); got {flags.dtype} "
                f"of shape {flags.shape}. For labels of 1 and 0, or 1 and -1, write `labels == 1`."
            )
        object.__setattr__(self, "index", rows)
        object.__setattr__(self, "similar", frozen(flags.astype(np.bool_)))
        object.__setattr__(self, "weight", checked_weights(weight, len(rows), "Pairs"))

    def take(self, rows: ArrayLike) -> Pairs:
        """Pick pairs by number or mask."""
        chosen = selection(rows)
        return Pairs(self.index[chosen], self.similar[chosen], self._weight(chosen))

    def restrict(self, samples: ArrayLike) -> Pairs:
        """Keep the pairs among `samples`, renumbered to positions in it."""
        inside, renumbered = self._within(samples)
        return Pairs(renumbered[inside], self.similar[inside], self._weight(inside))

    def triplets(self) -> Triplets:
        """Join pairs that share a row; see `Triplets.from_pairs`."""
        return Triplets.from_pairs(self)
