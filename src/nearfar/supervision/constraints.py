"""What all kinds of constraints share.

Constraints are row numbers of X, never copies of rows. They are frozen and checked when created;
`check(n)` compares them with the number of samples. For cross-validation, `take` picks constraints,
`restrict` picks samples, and `over(n)` makes them look like n targets to scikit-learn.

`Triplets`: the anchor is nearer to one row than to another.

`Pairs`: two rows are similar, or they are not.

`Chunklets`: small groups of rows that belong together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import check_array

from nearfar.evidence.splits import components
from nearfar.numerics.missing import refuse_masked, refuse_missing
from nearfar.typing import Array, Floats, Ints, Vector

T = TypeVar("T", bound=np.generic)

LARGEST_WEIGHT = 1e100
"""Squares and sums of larger weights may overflow."""


class Constraints(Protocol):
    """The interface of constraints."""

    def __len__(self) -> int: ...

    def check(self, n_samples: int) -> None:
        """Raise ValueError unless every row number is below `n_samples`."""

    def restrict(self, samples: ArrayLike) -> Self:
        """Keep the constraints among `samples`, renumbered to positions in it."""

    def over(self, n_samples: int) -> ConstraintsOver:
        """Present these constraints as one target per sample."""


class IndexedConstraints:
    """Base of constraints that are tuples of row numbers."""

    index: Ints
    weight: Vector | None
    raters: Ints | None

    def _keep(
        self,
        rows: Ints,
        weight: ArrayLike | None,
        raters: ArrayLike | None,
        largest: float = LARGEST_WEIGHT,
    ) -> None:
        """Check and keep row numbers, weights and raters."""
        name, numbers = type(self).__name__, None
        if raters is not None:
            refuse_missing(raters, "raters")
            values = np.asarray(raters)
            if values.shape != (len(rows),):
                raise ValueError(
                    f"{name} need one rater each ({len(rows)}); got shape {values.shape}."
                )
            comparable = values.astype(str) if values.dtype == object else values
            numbers = frozen(np.unique(comparable, return_inverse=True)[1].astype(np.intp))
        weights = checked_weights(weight, len(rows), name, largest)
        vars(self).update(index=rows, weight=weights, raters=numbers)

    def __len__(self) -> int:
        return len(self.index)

    def __array__(self, *args: object, **kwargs: object) -> Array:
        name = type(self).__name__
        raise TypeError(
            f"{name} are not one target for each row. For cross-validation, pass their "
            f"`over(len(X))` with shuffled folds; their row numbers are `index`."
        )

    def __setstate__(self, state: dict[str, Array | None]) -> None:
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
        """Present these constraints as one target per sample.

        scikit-learn's `cross_val_score` and `GridSearchCV` need this to split them with X. Only
        constraints whose rows all lie in a fold survive: of triplets, one in k^3 in the test part
        of k folds. With few constraints, split those instead (`Triplets.folds`).
        """
        return ConstraintsOver(self, n_samples)  # type: ignore[arg-type]

    @property
    def n_raters(self) -> int:
        """Number of raters, 0 if they are unknown."""
        return 0 if self.raters is None else len(np.unique(self.raters))

    def _rater_groups(self) -> Ints | None:
        """Return the number of the rater of each, if there are two or more."""
        if self.raters is None or self.n_raters < 2:
            return None
        return np.unique(self.raters, return_inverse=True)[1]

    def _facts(self, rows: Array) -> dict[str, Array | None]:
        """Return weights and raters of some constraints."""
        facts = {"weight": self.weight, "raters": self.raters}
        return {name: None if values is None else values[rows] for name, values in facts.items()}

    def _within(self, samples: ArrayLike) -> tuple[NDArray[np.bool_], Ints]:
        """Return which constraints lie wholly within `samples`, and their row numbers there."""
        chosen = selection(samples)
        if chosen.dtype == np.bool_:
            chosen = np.flatnonzero(chosen)
        if chosen.size and chosen.min() < 0:
            raise ValueError(f"Row numbers of samples are 0 or more; got {chosen.min()}.")
        n = 1 + max(int(self.index.max(initial=-1)), int(chosen.max(initial=-1)))
        position = np.full(n, -1, dtype=np.intp)
        position[chosen] = np.arange(len(chosen))
        renumbered = position[self.index]
        return np.all(renumbered >= 0, axis=1), renumbered


@dataclass(frozen=True, eq=False)
class ConstraintsOver:
    """Constraints presented as one target per sample, so that scikit-learn can split them.

    Indexing with the samples of a fold restricts the constraints to that fold. It is an error if
    none is left, because a fold without constraints cannot be learned from or scored.
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
        kept = self.constraints.restrict(chosen)
        if len(chosen) > 1 and len(kept) == 0 < len(self.constraints):
            kind = type(self.constraints).__name__
            raise ValueError(
                f"None of the {len(self.constraints)} {kind} is among the {len(chosen)} samples "
                "of this fold. Shuffle the folds, as in KFold(5, shuffle=True), or use fewer; or "
                "split the constraints instead of the samples, with their method `folds`."
            )
        return ConstraintsOver(kept, len(chosen))


def checked_rows(index: ArrayLike, width: int, name: str) -> Ints:
    """Return row numbers as a frozen array, or raise ValueError."""
    rows = np.array(index)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"{name} need row numbers of shape (n, {width}); got shape {rows.shape}.")
    if rows.dtype.kind not in "iu" and rows.size:
        raise ValueError(f"{name} need integer row numbers; got {rows.dtype}.")
    if rows.size and not 0 <= rows.min() <= rows.max() <= np.iinfo(np.intp).max:
        raise ValueError(f"{name} need row numbers of 0 or more; got {rows.min()}, {rows.max()}.")
    return frozen(rows.astype(np.intp, copy=False))


def checked_weights(
    weight: ArrayLike | None, n: int, name: str, largest: float = LARGEST_WEIGHT
) -> Vector | None:
    """Return weights as a frozen array, or raise ValueError."""
    if weight is None:
        return None
    values = np.array(weight, dtype=np.float64)
    if values.shape != (n,):
        raise ValueError(f"{name} need one weight each ({n}); got shape {values.shape}.")
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError(f"{name} need finite weights of 0 or more.")
    if (values > largest).any():
        raise ValueError(f"{name} need weights of at most {largest:g}; divide them by the largest.")
    return frozen(values)


def distinct_points(tuples: ArrayLike, width: int, name: str) -> tuple[Floats, Ints]:
    """Return the distinct points of tuples of points, and the tuples as row numbers of them.

    Points are equal if all their coordinates are; they come in the order of their first appearance.
    """
    refuse_masked(tuples, name)
    points = np.asarray(tuples)
    if np.iscomplexobj(points):
        raise ValueError(f"{name} of points need real numbers; these are complex.")
    if points.dtype != np.float32:
        points = points.astype(np.float64)
    if points.ndim != 3 or points.shape[1] != width:
        raise ValueError(
            f"{name} of points need an array of shape (n, {width}, n_features); got {points.shape}."
        )
    flat = points.reshape(-1, points.shape[2])
    if not np.isfinite(flat).all():
        raise ValueError(f"{name} of points need finite numbers.")
    _, first, place = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(first), dtype=np.intp)
    rank[order] = np.arange(len(first))
    return flat[first[order]], rank[place.ravel()].reshape(points.shape[:2])


def frozen(array: NDArray[T]) -> NDArray[T]:
    """Make an array read-only."""
    array.setflags(write=False)
    return array


def selection(rows: ArrayLike) -> Array:
    """Return numbers or a mask as an array that can index; an empty list selects no rows."""
    chosen = np.asarray(rows)
    return chosen if chosen.size else chosen.astype(np.intp)


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
        ends = ((0, 1, "anchor and near"), (0, 2, "anchor and far"), (1, 2, "near and far"))
        for a, b, what in ends:
            same = np.flatnonzero(rows[:, a] == rows[:, b])
            if len(same):
                raise ValueError(
                    f"Triplet {same[0]} {rows[same[0]].tolist()}: {what} are the same row."
                )
        self._keep(rows, weight, raters)

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
        vars(self)["similar"] = _checked_flags(similar, len(rows))
        self._keep(rows, weight, raters, _LARGEST_WEIGHT)

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
        vars(self)["ids"] = frozen(groups.astype(np.intp))

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
