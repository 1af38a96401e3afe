"""The kinds of `Supervision`: labels, numbers, triplets, pairs and chunklets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar.evidence.splits import (
    Random,
    components,
    fold_of_classes,
    fold_of_groups,
    fold_of_labels,
    fold_of_rows,
)
from nearfar.supervision.constraints import Chunklets, Pairs, Triplets
from nearfar.supervision.strategies import PairStrategy, TripletStrategy
from nearfar.supervision.supervision import By, Kind, Split, Supervision
from nearfar.typing import Array, Floats, Ints, Vector

_C = TypeVar("_C", Triplets, Pairs)

# With fewer groups of rows that similar pairs join, pairs are held out one by one.
_FEWEST_CLASSES = 20

# The fewest dissimilar pairs that a fold of such groups holds out, on average.
_PAIRS_PER_FOLD = 8

_NEEDS_CLASSES = "at least two classes are needed, and at least one class with two members."


@dataclass(frozen=True, eq=False)
class NoSupervision(Supervision):
    """Nothing but the rows."""

    kind: ClassVar[Kind] = "nothing"

    def _given(self, rows: Ints) -> None:
        return None


@dataclass(frozen=True, eq=False)
class NumberSupervision(Supervision):
    """A number for each row."""

    kind: ClassVar[Kind] = "numbers"

    def _given(self, rows: Ints) -> Vector:
        return np.asarray(self.given[rows])

    @property
    def can_teach(self) -> bool:
        """Whether there are two numbers."""
        return bool(np.ptp(self.given) > 0)

    def usable(self) -> Self:
        """Raise ValueError if all numbers are the same."""
        if not self.can_teach:
            raise ValueError("All numbers in y are the same; there is nothing to learn.")
        return self

    def numbers(self, learner: str) -> Vector:
        """Return the number of each row."""
        return np.asarray(self.given)


class _InClasses(Supervision):
    """Rows that belong to classes or chunklets."""

    @property
    def can_teach(self) -> bool:
        """Whether there are two classes."""
        return len(np.unique(self.codes[self.codes >= 0])) > 1

    def split(self, n_folds: int, random: Random, *, by: By = "rows") -> Iterator[Split]:
        """Hold out rows, in equal shares of each class, or whole classes."""
        if by == "classes":
            fold = fold_of_classes(self.codes, self.groups, n_folds, random)
        elif self.groups is None:
            fold = fold_of_labels(self.codes, n_folds, random)
        else:
            fold = fold_of_groups(self.groups, self.codes, n_folds, random)
        yield from self._splits(fold, self.codes >= 0, whole=by == "classes")


@dataclass(frozen=True, eq=False)
class LabelSupervision(_InClasses):
    """A class for each row.

    Attributes
    ----------
    names: shape (n_classes,). The label of each code.
    """

    kind: ClassVar[Kind] = "labels"
    names: Array

    @property
    def codes(self) -> Ints:
        """Class of each row."""
        return np.asarray(self.given)

    def _given(self, rows: Ints) -> Ints:
        return self.codes[rows]

    def consecutive(self) -> Self:
        """Return the same with classes numbered from 0 without gaps."""
        kept, codes = np.unique(self.codes, return_inverse=True)
        return replace(self, given=codes, names=self.names[kept])

    def usable(self) -> Self:
        """Raise ValueError unless some rows are told apart and others joined."""
        self.labels("", informative=True)
        return self

    def labels(self, learner: str, *, informative: bool = False) -> Ints:
        """Return class codes; `informative` ones tell some rows apart and join others."""
        if informative and not 2 <= len(np.unique(self.codes)) < self.n_rows:
            raise ValueError(f"Cannot learn from these labels: {_NEEDS_CLASSES}")
        return self.codes

    def triplets(self, X: Floats, strategy: TripletStrategy, random: Random) -> Triplets:
        """Make triplets by the strategy."""
        triplets: object = strategy(X, self.codes, random)
        if isinstance(triplets, Pairs):
            triplets = triplets.triplets()
        if not isinstance(triplets, Triplets):
            kind = type(triplets).__name__
            raise ValueError(f"The strategy {strategy!r} makes {kind}, not Triplets.")
        if len(triplets) == 0:
            raise ValueError(f"The labels give no triplet: {_NEEDS_CLASSES}")
        return _weighted_triplets(self._with_row_weights(triplets))

    def pairs(
        self,
        X: Floats,
        strategy: PairStrategy | None,
        random: Any,
        *,
        both_kinds: bool = True,
    ) -> Pairs:
        """Make pairs by the strategy, always of both kinds."""
        pairs = strategy and strategy(X, self.codes, random)
        if not isinstance(pairs, Pairs):
            raise ValueError(f"The strategy {strategy!r} makes {type(pairs).__name__}, not Pairs.")
        if pairs.similar.all() or not pairs.similar.any():
            raise ValueError(
                f"The labels do not give similar and dissimilar pairs: {_NEEDS_CLASSES}"
            )
        return _pairs_of_both_kinds(self._with_row_weights(pairs))

    def _with_row_weights(self, made: _C) -> _C:
        """Multiply the weights of constraints from a strategy by those of their first rows."""
        if self.row_weight is None:
            return made
        own = self.row_weight[made.index[:, 0]]
        return replace(made, weight=own if made.weight is None else own * made.weight)

    def chunklets(self) -> Chunklets:
        """Return the classes as chunklets."""
        return Chunklets(self.labels("", informative=True))


@dataclass(frozen=True, eq=False)
class ChunkletSupervision(_InClasses):
    """Small sets of rows that belong together; nothing is known between them."""

    kind: ClassVar[Kind] = "chunklets"
    says_only: ClassVar[str] = (
        "Chunklets only say what belongs together; this learner also needs to know what does not. "
        "Give {}."
    )

    @property
    def codes(self) -> Ints:
        """Chunklet of each row, -1 for none."""
        return np.asarray(self.given.ids)

    def _given(self, rows: Ints) -> Chunklets:
        return Chunklets(self.codes[rows])

    def usable(self) -> Self:
        """Number chunklets from 0, or raise ValueError if none has two rows."""
        return replace(self, given=self.chunklets())

    def split(self, n_folds: int, random: Random, *, by: By = "rows") -> Iterator[Split]:
        """Hold out whole chunklets."""
        return super().split(n_folds, random, by="classes")

    def chunklets(self) -> Chunklets:
        """Return the chunklets, numbered from 0."""
        rows = np.flatnonzero(self.codes >= 0)
        sets, numbers = np.unique(self.codes[rows], return_inverse=True)
        if len(sets) == len(rows):
            raise ValueError("No chunklet has two rows.")
        return Chunklets(_scattered(self.n_rows, rows, numbers))


class _Listed(Supervision):
    """Constraints on row numbers."""

    listed: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.given)

    @property
    def weight(self) -> Vector | None:
        """Weights of the constraints."""
        weight: Vector | None = self.given.weight
        return weight

    def _given(self, rows: Ints) -> Any:
        return self.given.restrict(rows)

    def take(self, numbers: Ints) -> Self:
        """Pick constraints over the same rows."""
        return replace(self, given=self.given.take(numbers))

    def split(self, n_folds: int, random: Random, *, by: By = "rows") -> Iterator[Split]:
        """Hold out constraints. With groups, those between a seen and an unseen group are lost."""
        every = np.arange(self.n_rows)
        for seen, unseen in self.in_classes(n_folds)._parts(n_folds, random):
            if len(seen) and len(unseen):
                yield Split(every, replace(self, given=seen), every, replace(self, given=unseen))

    def _parts(self, n_folds: int, random: Random) -> Iterator[tuple[Any, Any]]:
        """Return what to learn from and what is held out, for each fold."""
        if self.groups is None:
            most = min(n_folds, self._most_folds)
            yield from self.given.folds(most, random_state=random) if most > 1 else ()
            return
        judged = np.unique(self.given.index)
        fold = np.full(self.n_rows, -1, dtype=np.intp)
        fold[judged] = fold_of_rows(len(judged), self.groups[judged], n_folds, random)
        for number in np.unique(fold[judged]):
            yield self._among(fold != number), self._among(fold == number)

    @property
    def _most_folds(self) -> int:
        return self.given.n_raters if self.given.n_raters > 1 else len(self)

    def _among(self, chosen: NDArray[np.bool_]) -> Any:
        """Return the constraints among the chosen rows, without renumbering."""
        return self.given.take(np.flatnonzero(chosen[self.given.index].all(axis=1)))


@dataclass(frozen=True, eq=False)
class TripletSupervision(_Listed):
    """Relative comparisons."""

    kind: ClassVar[Kind] = "triplets"
    says_only: ClassVar[str] = (
        "Triplets say which of two is nearer, not which pairs are similar; this learner needs {}."
    )

    @property
    def _most_folds(self) -> int:
        return len(np.unique(self.given.groups()))

    def usable(self) -> Self:
        """Leave out triplets of weight 0, or raise ValueError if there are no others."""
        unused: Any = None
        return replace(self, given=self.triplets(unused, unused, unused))

    def triplets(self, X: Floats, strategy: TripletStrategy, random: Random) -> Triplets:
        """Return the triplets of positive weight."""
        if len(self) == 0:
            raise ValueError(
                "There are no triplets. In cross-validation, a fold of few constraints may have "
                "none."
            )
        return _weighted_triplets(self.given)


@dataclass(frozen=True, eq=False)
class PairSupervision(_Listed):
    """Pairs that are similar, or not."""

    kind: ClassVar[Kind] = "pairs"

    @property
    def can_teach(self) -> bool:
        """Whether there are pairs of both kinds."""
        return bool(self.given.similar.any() and not self.given.similar.all())

    def in_classes(self, n_folds: int) -> Self:
        """Make a group of the rows that similar pairs join: one person, product or place.

        Otherwise a fold would learn from some pairs of a person and be tested on others. Nothing is
        changed if there are groups or raters, if pairs that share rows are in small sets, which are
        held out whole, or if there are too few such groups to hold some out.
        """
        if self.groups is not None or self.given.n_raters > 1 or self.given.in_small_sets(n_folds):
            return self
        i, j = self.given.index[self.given.similar].T
        joined = components(i, j, self.n_rows)
        sizes = np.unique(joined[np.unique(self.given.index)], return_counts=True)[1]
        enough = (sizes > 1).sum() >= _FEWEST_CLASSES and sizes.max() <= max(
            1, sizes.sum() // n_folds
        )
        between = int((~self.given.similar).sum())
        if not enough or between < _PAIRS_PER_FOLD * n_folds**2:
            return self
        return replace(self, groups=joined)

    def usable(self) -> Self:
        """Leave out pairs of weight 0, or raise ValueError unless others are of both kinds."""
        return replace(self, given=_pairs_of_both_kinds(self.given))

    def triplets(self, X: Floats, strategy: TripletStrategy, random: Random) -> Triplets:
        """Join similar and dissimilar pairs that share a row."""
        triplets = self.given.triplets()
        if len(triplets) == 0:
            raise ValueError(
                "These Pairs give no triplet: a triplet needs a similar and a dissimilar pair "
                "that share a row."
            )
        return _weighted_triplets(triplets)

    def pairs(
        self,
        X: Floats,
        strategy: PairStrategy | None,
        random: Any,
        *,
        both_kinds: bool = True,
    ) -> Pairs:
        """Return the pairs of positive weight."""
        return _pairs_of_both_kinds(self.given) if both_kinds else _weighted_pairs(self.given)

    def chunklets(self) -> Chunklets:
        """Join similar pairs: what is similar to the same row belongs together.

        Weights do not matter unless they are 0, and dissimilar pairs do not matter at all.
        """
        pairs = _weighted_pairs(self.given)
        if not pairs.similar.any():
            raise ValueError("All pairs are dissimilar; this learner needs similar ones.")
        i, j = pairs.index[pairs.similar].T
        component = components(i, j, self.n_rows)
        rows = np.unique(pairs.index[pairs.similar])
        numbers = np.unique(component[rows], return_inverse=True)[1]
        return Chunklets(_scattered(self.n_rows, rows, numbers))


def _weighted_triplets(triplets: Triplets) -> Triplets:
    """Return the triplets that have weight, or raise ValueError if there are none."""
    if triplets.weight is None or triplets.weight.all():
        return triplets
    if not triplets.weight.any():
        raise ValueError("All triplets have weight 0.")
    return triplets.take(triplets.weight > 0)


def _pairs_of_both_kinds(pairs: Pairs) -> Pairs:
    """Return the pairs that have weight, or raise ValueError unless they are of both kinds."""
    pairs = _weighted_pairs(pairs)
    if pairs.similar.all() or not pairs.similar.any():
        kind = "similar" if pairs.similar.all() else "dissimilar"
        raise ValueError(f"All pairs are {kind}; both kinds are needed.")
    return pairs


def _weighted_pairs(pairs: Pairs) -> Pairs:
    """Return the pairs that have weight, or raise ValueError if there are none."""
    if pairs.weight is not None and not pairs.weight.all():
        pairs = pairs.take(pairs.weight > 0)
    if len(pairs) == 0:
        raise ValueError(
            "There are no pairs of positive weight. In cross-validation, a fold of few constraints "
            "may have none."
        )
    return pairs


def _scattered(n: int, rows: Ints, values: Ints) -> Ints:
    """Return an array of n values that is -1 but for some rows."""
    result = np.full(n, -1, dtype=np.intp)
    result[rows] = values
    return result
