"""`Pairs`: two rows are similar, or they are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import GroupKFold

from nearfar.constraints.base import (
    LARGEST_WEIGHT,
    IndexedConstraints,
    checked_raters,
    checked_rows,
    checked_weights,
    distinct_points,
    frozen,
    selection,
)
from nearfar.constraints.folds import components
from nearfar.constraints.triplets import Triplets
from nearfar.typing import Floats, Ints, Vector

# A triplet that two pairs make has the product of their weights.
_LARGEST_WEIGHT = 0.1 * LARGEST_WEIGHT**0.5


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
    raters : array-like of shape (n_pairs,), optional
        Who gave each. If there are two or more, splits hold out raters instead of rows.

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
    raters: Ints | None = None

    def __init__(
        self,
        index: ArrayLike,
        similar: ArrayLike,
        weight: ArrayLike | None = None,
        raters: ArrayLike | None = None,
    ) -> None:
        rows = checked_rows(index, 2, "Pairs")
        same = np.flatnonzero(rows[:, 0] == rows[:, 1])
        if len(same):
            raise ValueError(
                f"Pair {same[0]} {rows[same[0]].tolist()}: both ends are the same row."
            )
        object.__setattr__(self, "index", rows)
        object.__setattr__(self, "similar", _checked_flags(similar, len(rows)))
        object.__setattr__(
            self, "weight", checked_weights(weight, len(rows), "Pairs", _LARGEST_WEIGHT)
        )
        object.__setattr__(self, "raters", checked_raters(raters, len(rows), "Pairs"))

    @classmethod
    def from_points(
        cls, points: ArrayLike, similar: ArrayLike, weight: ArrayLike | None = None
    ) -> tuple[Floats, Pairs]:
        """Turn pairs of points into distinct points and pairs of their row numbers.

        Parameters
        ----------
        points : array-like of shape (n_pairs, 2, n_features)
            Two points for each pair. Pairs of equal points are left out, because their distance is
            0 under every metric.
        similar : array-like of bool of shape (n_pairs,)
        weight : array-like of shape (n_pairs,), optional

        Returns
        -------
        X : array of shape (n_samples, n_features)
            Distinct points, in the order of their first appearance.
        pairs : Pairs
            Row numbers of X.

        Examples
        --------
        >>> from nearfar import Pairs
        >>> X, pairs = Pairs.from_points([[[0, 1], [5, 5]], [[5, 5], [9, 0]]], [True, False])
        >>> X.shape, pairs.index.tolist()
        ((3, 2), [[0, 1], [1, 2]])
        """
        X, index = distinct_points(points, 2, "Pairs")
        flags = _checked_flags(similar, len(index))
        weights = checked_weights(weight, len(index), "Pairs", _LARGEST_WEIGHT)
        different = index[:, 0] != index[:, 1]
        return X, cls(
            index[different], flags[different], None if weights is None else weights[different]
        )

    def take(self, rows: ArrayLike) -> Pairs:
        """Pick pairs by number or mask."""
        chosen = selection(rows)
        return Pairs(self.index[chosen], self.similar[chosen], **self._facts(chosen))

    def restrict(self, samples: ArrayLike) -> Pairs:
        """Keep the pairs among `samples`, renumbered to positions in it."""
        inside, renumbered = self._within(samples)
        return Pairs(renumbered[inside], self.similar[inside], **self._facts(inside))

    def folds(
        self, n_folds: int = 5, *, random_state: int | np.random.RandomState | None = None
    ) -> Iterator[tuple[Pairs, Pairs]]:
        """Yield (training, test) pairs over the same X.

        Pairs that are connected through shared rows stay together if that leaves folds of about the
        same size. Otherwise pairs are split by the smaller of their row numbers. Pairs of two or
        more raters are split by rater.

        Examples
        --------
        >>> from nearfar import Pairs
        >>> pairs = Pairs([[0, 1], [1, 2], [3, 4]], similar=[True, False, True])
        >>> sorted(len(test) for _, test in pairs.folds(2, random_state=0))
        [1, 2]
        """
        if not 2 <= n_folds <= len(self):
            raise ValueError(f"{len(self)} pairs cannot be split into {n_folds} folds.")
        groups = self.groups(n_folds)
        if groups.max(initial=-1) + 1 < n_folds:
            if self.n_raters > 1:
                raise ValueError(f"{self.n_raters} raters cannot be split into {n_folds} folds.")
            groups = np.arange(len(self))
        folds = GroupKFold(n_folds, shuffle=True, random_state=random_state)
        for seen, unseen in folds.split(self.index, groups=groups):
            yield self.take(seen), self.take(unseen)

    def groups(self, n_folds: int = 5) -> Ints:
        """Return the number of the group of each pair: those that stay together in folds.

        Examples
        --------
        >>> from nearfar import Pairs
        >>> Pairs([[0, 1], [1, 2], [3, 4]], similar=[True, False, True]).groups(2)
        array([0, 0, 1])
        """
        raters = self._rater_groups()
        if raters is not None:
            return raters
        # A pair and the same pair the other way round must not be in different folds.
        small = self.in_small_sets(n_folds)
        groups = self._components() if small else self.index.min(axis=1)
        return np.unique(groups, return_inverse=True)[1]

    def in_small_sets(self, n_folds: int) -> bool:
        """Tell whether sets of pairs that share rows can be shared out among folds."""
        sizes = np.unique(self._components(), return_counts=True)[1]
        most = max(1, 2 * len(self) // n_folds)
        return bool(len(sizes) >= n_folds and sizes.max(initial=0) <= most)

    def _components(self) -> Ints:
        """Return the number of the connected group that each pair belongs to."""
        rows, place = np.unique(self.index, return_inverse=True)
        i, j = place.reshape(-1, 2).T
        return components(i, j, len(rows))[i]

    def triplets(self) -> Triplets:
        """Join pairs that share a row; see `Triplets.from_pairs`."""
        return Triplets.from_pairs(self)


def _checked_flags(similar: ArrayLike, n: int) -> NDArray[np.bool_]:
    flags = np.array(similar)
    if flags.shape != (n,) or (flags.dtype != np.bool_ and n):
        raise ValueError(
            f"Pairs need `similar` as one boolean per pair ({n}); got {flags.dtype} "
            f"of shape {flags.shape}. For labels of 1 and 0, or 1 and -1, write `labels == 1`."
        )
    return frozen(flags.astype(np.bool_))
