"""What is known of similarity: `Triplets`, `Pairs`, `Chunklets`.

Constraints are row numbers of X, never copies of rows. They are frozen and checked when made;
`check(n)` compares them with the number of samples. They convert from the stronger to the weaker
(chunklets -> pairs, pairs -> triplets, rankings -> triplets), and split for cross-validation:
`take` picks constraints, `restrict` picks samples, `over(n)` makes them look like n targets to
scikit-learn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from nearfar.typing import Ints

T = TypeVar("T", bound=np.generic)


class Constraints(Protocol):
    """What all kinds of constraints can do."""

    def __len__(self) -> int: ...

    def check(self, n_samples: int) -> None:
        """Raise ValueError unless every row number is below `n_samples`."""

    def restrict(self, samples: ArrayLike) -> Self:
        """Keep the constraints among `samples`, renumbered to positions in it."""

    def over(self, n_samples: int) -> ConstraintsOver:
        """See these constraints as one target for each of `n_samples` samples."""


class _Tuples:
    """Shared by constraints that are tuples of row numbers."""

    index: Ints
    weight: NDArray[np.float64] | None

    def __len__(self) -> int:
        return len(self.index)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for value in state.values():
            if value is not None:
                value.setflags(write=False)

    def __repr__(self) -> str:
        weighted = "" if self.weight is None else ", weighted"
        return f"<{type(self).__name__}: {len(self)}{weighted}>"

    def check(self, n_samples: int) -> None:
        """Raise ValueError unless every row number is below `n_samples`."""
        if len(self) and self.index.max() >= n_samples:
            raise ValueError(
                f"{type(self).__name__} refer to row {self.index.max()}, "
                f"but X has only {n_samples} rows (0 to {n_samples - 1})."
            )

    def over(self, n_samples: int) -> ConstraintsOver:
        """See these constraints as one target for each of `n_samples` samples.

        What scikit-learn's `cross_val_score` and `GridSearchCV` need to split them with X. Only
        constraints whose rows all lie in a fold survive there: of triplets, one in k^3 in the test
        part of k folds. With few constraints, split those instead (`Triplets.folds`).
        """
        return ConstraintsOver(self, n_samples)  # type: ignore[arg-type]

    def _weight(self, rows: Any) -> NDArray[np.float64] | None:
        return None if self.weight is None else self.weight[rows]

    def _within(self, samples: ArrayLike) -> tuple[NDArray[np.bool_], Ints]:
        """Which constraints lie wholly within `samples`, and their row numbers there."""
        position = _positions(samples, int(self.index.max(initial=-1)) + 1)
        renumbered = position[self.index]
        return np.all(renumbered >= 0, axis=1), renumbered


@dataclass(frozen=True, eq=False, repr=False)
class Triplets(_Tuples):
    """Relative comparisons: the anchor is nearer to `near` than to `far`.

    Parameters
    ----------
    index : array-like of shape (n_triplets, 3)
        Row numbers (anchor, near, far) of X.
    weight : array-like of shape (n_triplets,), optional
        Importance of each; a triplet of weight 2 counts as two.

    Examples
    --------
    >>> from nearfar import Triplets
    >>> Triplets([[0, 1, 2], [3, 4, 0]]).restrict([0, 3, 4]).index
    array([[1, 2, 0]])
    """

    index: Ints
    weight: NDArray[np.float64] | None = None

    def __init__(self, index: ArrayLike, weight: ArrayLike | None = None) -> None:
        rows = _rows(index, 3, "Triplets")
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
        object.__setattr__(self, "weight", _weights(weight, len(rows), "Triplets"))

    def take(self, rows: ArrayLike) -> Triplets:
        """Pick triplets by number or mask."""
        chosen = _selection(rows)
        return Triplets(self.index[chosen], self._weight(chosen))

    def distinct(self) -> Triplets:
        """Return each triplet once, with the sum of its weights.

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
        return Triplets(renumbered[inside], self._weight(inside))

    def folds(
        self, n_folds: int = 5, *, random_state: int | np.random.RandomState | None = None
    ) -> Iterator[tuple[Triplets, Triplets]]:
        """Yield (training, test) triplets by anchor, over the same X.

        Examples
        --------
        >>> from nearfar import Triplets
        >>> triplets = Triplets([[0, 1, 2], [0, 2, 3], [4, 5, 6]])
        >>> sorted(len(test) for _, test in triplets.folds(2, random_state=0))
        [1, 2]
        """
        anchors = check_random_state(random_state).permutation(np.unique(self.index[:, 0]))
        if not 2 <= n_folds <= len(anchors):
            raise ValueError(f"{len(anchors)} anchors cannot be split into {n_folds} folds.")
        for part in np.array_split(anchors, n_folds):
            held_out = np.isin(self.index[:, 0], part)
            yield self.take(~held_out), self.take(held_out)

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


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(_Tuples):
    """Absolute judgements: two rows are similar, or they are not.

    Parameters
    ----------
    index : array-like of shape (n_pairs, 2)
        Row numbers of X.
    similar : array-like of bool of shape (n_pairs,)
        True where the two belong together. Learners of triplets need similar and dissimilar pairs
        that share a row.
    weight : array-like of shape (n_pairs,), optional
        Importance of each.

    Examples
    --------
    >>> from nearfar import Pairs
    >>> pairs = Pairs([[0, 1], [1, 2]], similar=[True, False])
    >>> pairs.triplets().index
    array([[1, 0, 2]])
    """

    index: Ints
    similar: NDArray[np.bool_]
    weight: NDArray[np.float64] | None = None

    def __init__(
        self, index: ArrayLike, similar: ArrayLike, weight: ArrayLike | None = None
    ) -> None:
        rows = _rows(index, 2, "Pairs")
        same = np.flatnonzero(rows[:, 0] == rows[:, 1])
        if len(same):
            raise ValueError(
                f"Pair {same[0]} {rows[same[0]].tolist()}: both ends are the same row."
            )
        flags = np.array(similar)
        if flags.shape != (len(rows),) or (flags.dtype != np.bool_ and len(rows)):
            raise ValueError(
                f"Pairs need `similar` as {len(rows)} booleans, one a pair; got {flags.dtype} "
                f"of shape {flags.shape}. For labels of 1 and 0, or 1 and -1, write `labels == 1`."
            )
        object.__setattr__(self, "index", rows)
        object.__setattr__(self, "similar", _frozen(flags.astype(np.bool_)))
        object.__setattr__(self, "weight", _weights(weight, len(rows), "Pairs"))

    def take(self, rows: ArrayLike) -> Pairs:
        """Pick pairs by number or mask."""
        chosen = _selection(rows)
        return Pairs(self.index[chosen], self.similar[chosen], self._weight(chosen))

    def restrict(self, samples: ArrayLike) -> Pairs:
        """Keep the pairs among `samples`, renumbered to positions in it."""
        inside, renumbered = self._within(samples)
        return Pairs(renumbered[inside], self.similar[inside], self._weight(inside))

    def triplets(self) -> Triplets:
        """Join pairs that share a row; see `Triplets.from_pairs`."""
        return Triplets.from_pairs(self)


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
                f"Chunklets need one integer a row; got {groups.dtype} of shape {groups.shape}."
            )
        if groups.size and groups.min() < -1:
            raise ValueError(f"Chunklet ids are 0 or more, or -1 for none; got {groups.min()}.")
        object.__setattr__(self, "ids", _frozen(groups.astype(np.intp)))

    def __len__(self) -> int:
        return len(np.unique(self.ids[self.ids >= 0]))

    def __repr__(self) -> str:
        return f"<Chunklets: {len(self)} over {len(self.ids)} rows>"

    def check(self, n_samples: int) -> None:
        """Raise ValueError unless there is one id for each of `n_samples` rows."""
        if len(self.ids) != n_samples:
            raise ValueError(f"Chunklets give {len(self.ids)} ids, but X has {n_samples} rows.")

    def over(self, n_samples: int) -> ConstraintsOver:
        """See these chunklets as one target for each of `n_samples` samples."""
        return ConstraintsOver(self, n_samples)

    def take(self, groups: ArrayLike) -> Chunklets:
        """Keep the groups with these ids."""
        return Chunklets(np.where(np.isin(self.ids, np.asarray(groups)), self.ids, -1))

    def restrict(self, samples: ArrayLike) -> Chunklets:
        """Keep the ids of `samples`."""
        return Chunklets(self.ids[_selection(samples)])

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


@dataclass(frozen=True, eq=False)
class ConstraintsOver:
    """Constraints in the shape of one target a sample, so that scikit-learn can split them.

    Indexing with the samples of a fold restricts the constraints to that fold.

    Examples
    --------
    >>> from nearfar import Triplets
    >>> y = Triplets([[0, 1, 2], [3, 4, 0]]).over(5)
    >>> len(y), len(y[[0, 3, 4]].constraints)
    (5, 1)
    """

    constraints: Constraints
    n_samples: int

    def __post_init__(self) -> None:
        self.constraints.check(self.n_samples)

    @property
    def shape(self) -> tuple[int]:
        """Shape of the array of targets that this stands for."""
        return (self.n_samples,)

    def __len__(self) -> int:
        return self.n_samples

    def __getitem__(self, samples: Any) -> ConstraintsOver:
        rows = samples[0] if isinstance(samples, tuple) else samples
        chosen = np.atleast_1d(np.arange(self.n_samples)[rows])
        return ConstraintsOver(self.constraints.restrict(chosen), len(chosen))


def _rows(index: ArrayLike, width: int, name: str) -> Ints:
    rows = np.array(index)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"{name} need row numbers of shape (n, {width}); got shape {rows.shape}.")
    if rows.dtype.kind not in "iu" and rows.size:
        raise ValueError(f"{name} need integer row numbers; got {rows.dtype}.")
    if rows.size and not 0 <= rows.min() <= rows.max() <= np.iinfo(np.intp).max:
        raise ValueError(f"{name} need row numbers of 0 or more; got {rows.min()}, {rows.max()}.")
    return _frozen(rows.astype(np.intp, copy=False))


def _weights(weight: ArrayLike | None, n: int, name: str) -> NDArray[np.float64] | None:
    if weight is None:
        return None
    values = np.array(weight, dtype=np.float64)
    if values.shape != (n,):
        raise ValueError(f"{name} need one weight each ({n}); got shape {values.shape}.")
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError(f"{name} need finite weights of 0 or more.")
    return _frozen(values)


def _frozen(array: NDArray[T]) -> NDArray[T]:
    array.setflags(write=False)
    return array


def _positions(samples: ArrayLike, at_least: int) -> Ints:
    """Position of each row in `samples`, -1 for rows that are not in it."""
    chosen = _selection(samples)
    if chosen.dtype == np.bool_:
        chosen = np.flatnonzero(chosen)
    if chosen.size and chosen.min() < 0:
        raise ValueError(f"Row numbers of samples are 0 or more; got {chosen.min()}.")
    position = np.full(max(at_least, int(chosen.max(initial=-1)) + 1), -1, dtype=np.intp)
    position[chosen] = np.arange(len(chosen))
    return position


def _selection(rows: ArrayLike) -> NDArray[Any]:
    """Numbers or a mask, as an array that can index; an empty list is no rows."""
    chosen = np.asarray(rows)
    return chosen if chosen.size else chosen.astype(np.intp)


def _by_anchor(ends: Ints) -> Ints:
    return np.lexsort((ends[:, 1], ends[:, 0]))
