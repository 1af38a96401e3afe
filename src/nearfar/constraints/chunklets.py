"""`Chunklets`: small groups of rows that belong together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nearfar.constraints.base import ConstraintsOver, frozen, selection
from nearfar.constraints.pairs import Pairs
from nearfar.typing import Ints


@dataclass(frozen=True, eq=False, repr=False)
class Chunklets:
    """Small groups of rows that belong together; nothing is known between the groups.

    Parameters
    ----------
    ids : array-like of int of shape (n_samples,)
        Group of each row of X; -1 for rows in none.

    Examples
    --------
    >>> from nearfar import Chunklets
    >>> Chunklets([0, 0, -1, 0]).pairs().index
    array([[0, 1],
           [0, 3],
           [1, 3]])
    """

    ids: Ints

    def __init__(self, ids: ArrayLike) -> None:
        groups = np.array(ids)
        if groups.ndim != 1 or (groups.dtype.kind not in "iu" and groups.size):
            raise ValueError(
                f"Chunklets need one integer per row; got {groups.dtype} of shape {groups.shape}."
            )
        if groups.size and groups.min() < -1:
            raise ValueError(f"Chunklet ids are 0 or more, or -1 for none; got {groups.min()}.")
        object.__setattr__(self, "ids", frozen(groups.astype(np.intp)))

    def __len__(self) -> int:
        return len(np.unique(self.ids[self.ids >= 0]))

    def __repr__(self) -> str:
        return f"<Chunklets: {len(self)} over {len(self.ids)} rows>"

    def check(self, n_samples: int) -> None:
        """Raise ValueError unless there is one id for each of `n_samples` rows."""
        if len(self.ids) != n_samples:
            raise ValueError(f"Chunklets give {len(self.ids)} ids, but X has {n_samples} rows.")

    def over(self, n_samples: int) -> ConstraintsOver:
        """Present these chunklets as one target per sample."""
        return ConstraintsOver(self, n_samples)

    def take(self, groups: ArrayLike) -> Chunklets:
        """Keep the groups with these ids."""
        return Chunklets(np.where(np.isin(self.ids, np.asarray(groups)), self.ids, -1))

    def restrict(self, samples: ArrayLike) -> Chunklets:
        """Keep the ids of `samples`."""
        return Chunklets(self.ids[selection(samples)])

    @classmethod
    def from_labels(cls, y: ArrayLike) -> Chunklets:
        """One chunklet for each class."""
        return cls(np.unique(np.asarray(y), return_inverse=True)[1])

    def pairs(self) -> Pairs:
        """Return all similar pairs within the groups."""
        blocks = [np.empty((0, 2), dtype=np.intp)]
        for group in np.unique(self.ids[self.ids >= 0]):
            members = np.flatnonzero(self.ids == group)
            i, j = np.triu_indices(len(members), k=1)
            blocks.append(np.column_stack([members[i], members[j]]))
        index = np.concatenate(blocks)
        return Pairs(index, np.ones(len(index), dtype=bool))
