"""`Triplets`: the anchor is nearer to one row than to another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import check_array

from nearfar.constraints.base import (
    IndexedConstraints,
    checked_raters,
    checked_rows,
    checked_weights,
    distinct_points,
    selection,
)
from nearfar.numerics.missing import refuse_masked
from nearfar.typing import Floats, Ints, Vector

if TYPE_CHECKING:
    from nearfar.constraints.pairs import Pairs


@dataclass(frozen=True, eq=False, repr=False)
class Triplets(IndexedConstraints):
    """Relative comparisons: the anchor is nearer to `near` than to `far`.

    Parameters
    ----------
    index : array-like of shape (n_triplets, 3)
        Row numbers (anchor, near, far) of X.
    weight : array-like of shape (n_triplets,), optional
        Weight of each, like `sample_weight`: a triplet of weight 2 counts as two.
    raters : array-like of shape (n_triplets,), optional
        Who gave each. If there are two or more, splits hold out raters instead of anchors.

    Examples
    --------
    >>> from nearfar import Triplets
    >>> Triplets([[0, 1, 2], [3, 4, 0]]).restrict([0, 3, 4]).index
    array([[1, 2, 0]])
    """

    index: Ints
    weight: Vector | None = None
    raters: Ints | None = None

    def __init__(
        self,
        index: ArrayLike,
        weight: ArrayLike | None = None,
        raters: ArrayLike | None = None,
    ) -> None:
        rows = checked_rows(index, 3, "Triplets")
        for a, b, what in (
            (0, 1, "anchor and near"),
            (0, 2, "anchor and far"),
            (1, 2, "near and far"),
        ):
            same = np.flatnonzero(rows[:, a] == rows[:, b])
            if len(same):
                raise ValueError(
                    f"Triplet {same[0]} {rows[same[0]].tolist()}: {what} are the same row."
                )
        object.__setattr__(self, "index", rows)
        object.__setattr__(self, "weight", checked_weights(weight, len(rows), "Triplets"))
        object.__setattr__(self, "raters", checked_raters(raters, len(rows), "Triplets"))

    def take(self, rows: ArrayLike) -> Triplets:
        """Pick triplets by number or mask."""
        chosen = selection(rows)
        return Triplets(self.index[chosen], **self._facts(chosen))

    def distinct(self) -> Triplets:
        """Return each triplet once, with the sum of its weights and without raters.

        Examples
        --------
        >>> from nearfar import Triplets
        >>> Triplets([[0, 1, 2], [0, 1, 2], [1, 0, 2]]).distinct().weight
        array([2., 1.])
        """
        index, place = np.unique(self.index, axis=0, return_inverse=True)
        if len(index) == len(self):
            return self
        return Triplets(index, np.bincount(place.ravel(), weights=self.weight))

    def restrict(self, samples: ArrayLike) -> Triplets:
        """Keep the triplets among `samples`, renumbered to positions in it."""
        inside, renumbered = self._within(samples)
        return Triplets(renumbered[inside], **self._facts(inside))

    def folds(
        self, n_folds: int = 5, *, random_state: int | np.random.RandomState | None = None
    ) -> Iterator[tuple[Triplets, Triplets]]:
        """Yield (training, test) triplets by anchor or rater, over the same X.

        Examples
        --------
        >>> from nearfar import Triplets
        >>> triplets = Triplets([[0, 1, 2], [0, 2, 3], [4, 5, 6]])
        >>> sorted(len(test) for _, test in triplets.folds(2, random_state=0))
        [1, 2]
        """
        groups = self.groups()
        n_groups = int(groups.max(initial=-1)) + 1
        if not 2 <= n_folds <= n_groups:
            what = "raters" if self.n_raters > 1 else "anchors"
            raise ValueError(f"{n_groups} {what} cannot be split into {n_folds} folds.")
        folds = GroupKFold(n_folds, shuffle=True, random_state=random_state)
        for seen, unseen in folds.split(self.index, groups=groups):
            yield self.take(seen), self.take(unseen)

    def groups(self) -> Ints:
        """Return the number of the group of each triplet: its rater, or else its anchor."""
        raters = self._rater_groups()
        return np.unique(self.index[:, 0], return_inverse=True)[1] if raters is None else raters

    @classmethod
    def from_points(
        cls, points: ArrayLike, weight: ArrayLike | None = None
    ) -> tuple[Floats, Triplets]:
        """Turn triplets of points into distinct points and triplets of their row numbers.

        Parameters
        ----------
        points : array-like of shape (n_triplets, 3, n_features)
            Anchor, near and far of each triplet. Triplets with two equal points are left out.
        weight : array-like of shape (n_triplets,), optional

        Returns
        -------
        X : array of shape (n_samples, n_features)
            Distinct points, in the order of their first appearance.
        triplets : Triplets
            Row numbers of X.

        Examples
        --------
        >>> from nearfar import Triplets
        >>> X, triplets = Triplets.from_points([[[0, 0], [0, 1], [5, 5]], [[0, 1], [0, 0], [9, 0]]])
        >>> X.shape, triplets.index.tolist()
        ((4, 2), [[0, 1, 2], [1, 0, 3]])
        """
        X, index = distinct_points(points, 3, "Triplets")
        weights = checked_weights(weight, len(index), "Triplets")
        different = (np.diff(np.sort(index, axis=1), axis=1) > 0).all(axis=1)
        return X, cls(index[different], None if weights is None else weights[different])

    @classmethod
    def from_quadruplets(
        cls, X: ArrayLike, index: ArrayLike, weight: ArrayLike | None = None
    ) -> tuple[Floats, Triplets]:
        """Turn "a and b are nearer than c and d" into triplets, and add the rows that they need.

        A linear metric depends on differences of rows alone. So a quadruplet is the triplet
        (a, b, a + d - c), and the last of these is a new row, unless the two pairs share a row.
        New rows lie farther out than those of X: scale X before, and learn with ``scale=None``,
        and without a kernel: angles and kernels depend on more than differences.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        index : array-like of shape (n_quadruplets, 4)
            Row numbers (a, b, c, d) of X.
        weight : array-like of shape (n_quadruplets,), optional

        Returns
        -------
        X : array of shape (n_samples + n_new, n_features)
            The rows, and new ones after them.
        triplets : Triplets
            A triplet for each quadruplet, in the same order.

        Examples
        --------
        >>> from nearfar import Triplets
        >>> X, triplets = Triplets.from_quadruplets([[0], [1], [5], [8]], [[0, 1, 2, 3]])
        >>> X.ravel(), triplets.index
        (array([0., 1., 5., 8., 3.]), array([[0, 1, 4]]))
        """
        refuse_masked(X, "X")
        points = check_array(X, dtype=[np.float64, np.float32], input_name="X")
        rows = checked_rows(index, 4, "Quadruplets")
        if rows.size and rows.max() >= len(points):
            raise ValueError(f"Quadruplets refer to row {rows.max()}; X has {len(points)} rows.")
        same = np.flatnonzero((rows[:, 0] == rows[:, 1]) | (rows[:, 2] == rows[:, 3]))
        if len(same):
            raise ValueError(
                f"Quadruplet {same[0]} {rows[same[0]].tolist()}: the rows of a pair are the same."
            )
        equal = np.flatnonzero((np.sort(rows[:, :2]) == np.sort(rows[:, 2:])).all(axis=1))
        if len(equal):
            raise ValueError(
                f"Quadruplet {equal[0]} {rows[equal[0]].tolist()}: both pairs are the same."
            )
        anchor, near, start, far = rows.T.copy()
        for ends in ([1, 0, 2, 3], [0, 1, 3, 2], [1, 0, 3, 2]):
            swapped = rows[:, ends].T
            shared = (swapped[0] == swapped[2]) & (anchor != start)
            anchor, near, start, far = np.where(shared, swapped, (anchor, near, start, far))
        apart = np.flatnonzero(anchor != start)
        new, place = np.unique(
            np.column_stack([anchor, far, start])[apart], axis=0, return_inverse=True
        )
        far[apart] = len(points) + place.ravel()
        added = points[new[:, 0]] + (points[new[:, 1]] - points[new[:, 2]])
        return np.vstack([points, added]), cls(np.column_stack([anchor, near, far]), weight)

    @classmethod
    def from_pairs(cls, pairs: Pairs) -> Triplets:
        """Join every similar pair (a, b) with every dissimilar pair (a, c) of the same row a.

        Either end of a pair may be the anchor. A triplet's weight is the product of the pairs'.

        Examples
        --------
        >>> from nearfar import Pairs, Triplets
        >>> Triplets.from_pairs(Pairs([[0, 1], [1, 2]], [True, False])).index
        array([[1, 0, 2]])
        """
        ends = np.vstack([pairs.index, pairs.index[:, ::-1]])
        similar = np.tile(pairs.similar, 2)
        weight = np.tile(np.ones(len(pairs)) if pairs.weight is None else pairs.weight, 2)
        near, far = _by_anchor(ends[similar]), _by_anchor(ends[~similar])
        near_ends, near_weight = ends[similar][near], weight[similar][near]
        far_ends, far_weight = ends[~similar][far], weight[~similar][far]
        first = np.searchsorted(far_ends[:, 0], near_ends[:, 0], side="left")
        count = np.searchsorted(far_ends[:, 0], near_ends[:, 0], side="right") - first
        left = np.repeat(np.arange(len(near_ends)), count)
        right = np.arange(len(left)) + np.repeat(first - (np.cumsum(count) - count), count)
        index = np.column_stack([near_ends[left], far_ends[right, 1]])
        coherent = index[:, 1] != index[:, 2]
        weights = (near_weight[left] * far_weight[right])[coherent]
        return cls(index[coherent], None if pairs.weight is None else weights)

    @classmethod
    def from_rankings(
        cls,
        rankings: Mapping[int, Sequence[int | Iterable[int]]]
        | Iterable[tuple[int, Sequence[int | Iterable[int]]]],
    ) -> Triplets:
        """Turn "for this query, these results in this order" into triplets.

        Parameters
        ----------
        rankings : mapping of int to sequence, or pairs of them
            For each query row, its results, best first. A group of rows in place of a row stands
            for results between which nothing is known: ``{7: [3, 1, (4, 5, 6)]}`` says that 3 was
            preferred to 1 and both to 4, 5 and 6.

        Examples
        --------
        >>> from nearfar import Triplets
        >>> Triplets.from_rankings({7: [3, (4, 5)]}).index
        array([[7, 3, 4],
               [7, 3, 5]])
        """
        entries = rankings.items() if isinstance(rankings, Mapping) else rankings
        rows = []
        for query, results in entries:
            levels = [[r] if isinstance(r, int | np.integer) else list(r) for r in results]
            for rank, level in enumerate(levels):
                later = [far for group in levels[rank + 1 :] for far in group]
                rows += [(query, near, far) for near in level for far in later]
        return cls(np.array(rows).reshape(-1, 3))


def _by_anchor(ends: Ints) -> Ints:
    return np.lexsort((ends[:, 1], ends[:, 0]))
