"""`Supervision`: what is known of the rows of X. One interface, five kinds.

    labels       a class for each row
    numbers      a number for each row
    triplets     "a is nearer to b than to c"
    pairs        two rows are similar, or they are not
    chunklets    small sets of rows that belong together

`Supervision.of` makes it once, where X and y are checked. Rows may be in *groups*: the same person,
document or visit. Whatever is split, a group is never on both sides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from nearfar.constraints.base import ConstraintsOver
from nearfar.constraints.chunklets import Chunklets
from nearfar.constraints.from_labels import PairStrategy, TripletStrategy
from nearfar.constraints.pairs import Pairs
from nearfar.constraints.triplets import Triplets
from nearfar.numerics.class_order import ClassOrder
from nearfar.typing import Floats, Ints, Vector

Kind = Literal["labels", "numbers", "triplets", "pairs", "chunklets", "nothing"]
By = Literal["rows", "classes"]

_NEEDS_CLASSES = "at least two classes are needed, and at least one class with two members."


@dataclass(frozen=True, eq=False)
class Split:
    """What to learn from, and what is held out.

    Attributes
    ----------
    rows : array of int
        Rows of X to learn from.
    known : Supervision
        Supervision of these rows.
    unseen_rows : array of int
        Rows of X that `unseen` is over: the held-out ones, or all if constraints are held out.
    unseen : Supervision
    whole_classes : bool
        Whether held-out rows are those of whole classes or chunklets.
    """

    rows: Ints
    known: Supervision
    unseen_rows: Ints
    unseen: Supervision
    whole_classes: bool = False


@dataclass(frozen=True, eq=False)
class Supervision(ABC):
    """What is known of the rows of X.

    Attributes
    ----------
    kind : {"labels", "numbers", "triplets", "pairs", "chunklets", "nothing"}
    n_rows : int
        Number of rows of X.
    groups : array of int of shape (n_rows,) or None
        Group of each row. A split never has rows of one group on both sides.

    Examples
    --------
    >>> from nearfar import Pairs
    >>> from nearfar.constraints import Supervision
    >>> known = Supervision.of(Pairs([[0, 1], [1, 2]], similar=[True, False]), 4)
    >>> known.kind, len(known), known.restrict([0, 1]).kind
    ('pairs', 2, 'pairs')
    """

    kind: ClassVar[Kind]
    listed: ClassVar[bool] = False
    """Whether it consists of constraints on row numbers, which can be picked one by one."""

    groups: Ints | None = field(default=None, kw_only=True)

    @staticmethod
    def of(
        y: Any, n_rows: int, *, groups: ArrayLike | None = None, numbers: bool = False
    ) -> Supervision:
        """Check what is known of `n_rows` rows.

        Parameters
        ----------
        y : array-like of shape (n_rows,), Triplets, Pairs, Chunklets, their `over` form, or None
        n_rows : int
        groups : array-like of shape (n_rows,), optional
        numbers : bool, default=False
            Whether an array holds numbers instead of class labels.
        """
        codes = checked_groups(groups, n_rows)
        if isinstance(y, Supervision):
            return y
        constraints = unwrapped(y, n_rows)
        if isinstance(constraints, Triplets | Pairs | Chunklets):
            constraints.check(n_rows)
            return _OF_CONSTRAINTS[type(constraints)](constraints, n_rows, groups=codes)
        if y is None:
            return NoSupervision(n_rows, groups=codes)
        values = column_or_1d(np.asarray(y))
        if len(values) != n_rows:
            raise ValueError(
                f"X and y have inconsistent numbers of samples: {n_rows} and {len(values)}."
            )
        if numbers:
            return NumberSupervision(_as_numbers(values), groups=codes)
        check_classification_targets(values)
        names, classes = np.unique(values, return_inverse=True)
        return LabelSupervision(classes, names, groups=codes)

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows of X."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of constraints if they are listed, or of rows."""

    @property
    def codes(self) -> Ints:
        """Class or chunklet of each row, -1 for none."""
        raise ValueError(f"{self.kind.capitalize()} do not put rows into classes.")

    @property
    def weight(self) -> Vector | None:
        """Weights of the constraints."""
        return None

    @abstractmethod
    def restrict(self, rows: Ints) -> Self:
        """Keep what is known among these rows, which are numbered by their places."""

    def without(self, rows: Ints) -> Self:
        """Leave out what is known of these rows."""
        return self.restrict(np.setdiff1d(np.arange(self.n_rows), rows))

    def consecutive(self) -> Supervision:
        """Return the same with classes numbered from 0 without gaps."""
        return self

    def sample(self, size: int, random_state: np.random.RandomState) -> tuple[Ints, Supervision]:
        """Return some rows and what is known of them, `size` in all."""
        rows = np.sort(random_state.permutation(self.n_rows)[:size])
        return rows, self.restrict(rows)

    @abstractmethod
    def split(
        self, n_folds: int, random_state: np.random.RandomState, *, by: By = "rows"
    ) -> Iterator[Split]:
        """Split in folds; each is held out once.

        Parameters
        ----------
        n_folds : int
        random_state : RandomState
        by : {"rows", "classes"}
            Whether labels hold out rows or whole classes. Chunklets always hold out whole ones,
            triplets hold out anchors, and pairs hold out connected sets of rows where they can.
        """

    @property
    def can_teach(self) -> bool:
        """Whether there is enough to learn from."""
        return len(self) > 0

    def usable(self) -> Supervision:
        """Leave out constraints of weight 0, or raise ValueError if nothing can be learned from."""
        return self

    def labels(self, learner: str, *, informative: bool = False) -> Ints:
        """Return class codes; `informative` ones tell some rows apart and join others."""
        raise ValueError(f"{learner} learns from class labels; got {self.kind.capitalize()}.")

    def numbers(self, learner: str) -> Vector:
        """Return the number of each row."""
        raise ValueError(f"{learner} learns from numbers; got {self.kind.capitalize()}.")

    def triplets(
        self, X: Floats, strategy: TripletStrategy, random_state: np.random.RandomState
    ) -> Triplets:
        """Return triplets of positive weight; a strategy makes them from labels."""
        raise ValueError(f"{self.kind.capitalize()} give no triplets.")

    def pairs(
        self, X: Floats, strategy: PairStrategy | None, random_state: np.random.RandomState | None
    ) -> Pairs:
        """Return pairs of both kinds, of positive weight; a strategy makes them from labels."""
        raise ValueError(f"{self.kind.capitalize()} give no pairs.")

    def chunklets(self) -> Chunklets:
        """Return what belongs together, numbered from 0; at least one chunklet has two rows."""
        raise ValueError(f"{self.kind.capitalize()} give no chunklets.")

    def _groups(self, rows: Ints) -> Ints | None:
        return None if self.groups is None else self.groups[rows]


@dataclass(frozen=True, eq=False)
class NoSupervision(Supervision):
    """Nothing but the rows."""

    kind: ClassVar[Kind] = "nothing"
    n: int

    @property
    def n_rows(self) -> int:
        """Number of rows of X."""
        return self.n

    def __len__(self) -> int:
        return self.n

    def restrict(self, rows: Ints) -> NoSupervision:
        """Keep these rows."""
        return NoSupervision(len(rows), groups=self._groups(rows))

    def split(
        self, n_folds: int, random_state: np.random.RandomState, *, by: By = "rows"
    ) -> Iterator[Split]:
        """Hold out rows."""
        yield from _splits(self, _fold_of_rows(self.n, self.groups, n_folds, random_state))


@dataclass(frozen=True, eq=False)
class NumberSupervision(Supervision):
    """A number for each row."""

    kind: ClassVar[Kind] = "numbers"
    values: Vector

    @property
    def n_rows(self) -> int:
        """Number of rows of X."""
        return len(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def restrict(self, rows: Ints) -> NumberSupervision:
        """Keep the numbers of these rows."""
        return NumberSupervision(self.values[rows], groups=self._groups(rows))

    def split(
        self, n_folds: int, random_state: np.random.RandomState, *, by: By = "rows"
    ) -> Iterator[Split]:
        """Hold out rows."""
        yield from _splits(self, _fold_of_rows(len(self), self.groups, n_folds, random_state))

    def numbers(self, learner: str) -> Vector:
        """Return the number of each row."""
        return self.values


class _InClasses(Supervision):
    """Rows that belong to classes or chunklets."""

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def n_rows(self) -> int:
        """Number of rows of X."""
        return len(self.codes)

    @property
    def can_teach(self) -> bool:
        """Whether there are two classes."""
        return len(np.unique(self.codes[self.codes >= 0])) > 1

    def sample(self, size: int, random_state: np.random.RandomState) -> tuple[Ints, Supervision]:
        """Return random rows, in whole classes or chunklets if these are small."""
        codes, order = self.codes, random_state.permutation(self.n_rows)
        sizes = np.bincount(codes[codes >= 0])
        if np.median(sizes[sizes > 0]) * size / self.n_rows < 4:
            place = random_state.permutation(len(sizes))
            order = np.argsort(np.where(codes >= 0, place[codes], len(sizes)), kind="stable")
        rows = np.sort(order[:size])
        return rows, self.restrict(rows)

    def _split(self, n_folds: int, random_state: np.random.RandomState, by: By) -> Iterator[Split]:
        codes = self.codes
        if by == "classes":
            fold = _fold_of_classes(codes, self.groups, n_folds, random_state)
        elif self.groups is None:
            fold = _fold_of_labels(codes, n_folds, random_state)
        else:
            fold = _fold_of_groups(self.groups, codes, n_folds, random_state)
        yield from _splits(self, fold, learnable=codes >= 0, whole_classes=by == "classes")


@dataclass(frozen=True, eq=False)
class LabelSupervision(_InClasses):
    """A class for each row."""

    kind: ClassVar[Kind] = "labels"
    given: Ints
    names: NDArray[Any]
    """The label of each code."""

    @property
    def codes(self) -> Ints:
        """Class of each row."""
        return self.given

    def restrict(self, rows: Ints) -> LabelSupervision:
        """Keep the classes of these rows."""
        return replace(self, given=self.given[rows], groups=self._groups(rows))

    def consecutive(self) -> LabelSupervision:
        """Return the same with classes numbered from 0 without gaps."""
        kept, codes = np.unique(self.codes, return_inverse=True)
        return replace(self, given=codes, names=self.names[kept])

    def split(
        self, n_folds: int, random_state: np.random.RandomState, *, by: By = "rows"
    ) -> Iterator[Split]:
        """Hold out rows, in equal shares of each class, or whole classes."""
        return self._split(n_folds, random_state, by)

    def labels(self, learner: str, *, informative: bool = False) -> Ints:
        """Return class codes; `informative` ones tell some rows apart and join others."""
        if informative and not 2 <= len(np.unique(self.codes)) < len(self.codes):
            raise ValueError(f"Cannot learn from these labels: {_NEEDS_CLASSES}")
        return self.codes

    def usable(self) -> LabelSupervision:
        """Raise ValueError unless some rows are told apart and others joined."""
        self.labels("", informative=True)
        return self

    def triplets(
        self, X: Floats, strategy: TripletStrategy, random_state: np.random.RandomState
    ) -> Triplets:
        """Make triplets by the strategy."""
        made: Any = strategy(X, self.codes, random_state)
        if isinstance(made, Pairs):
            made = made.triplets()
        if not isinstance(made, Triplets):
            raise ValueError(
                f"The strategy {strategy!r} makes {type(made).__name__}, not Triplets."
            )
        if len(made) == 0:
            raise ValueError(f"The labels give no triplet: {_NEEDS_CLASSES}")
        return _of_positive_weight(made)

    def pairs(
        self, X: Floats, strategy: PairStrategy | None, random_state: np.random.RandomState | None
    ) -> Pairs:
        """Make pairs by the strategy."""
        made: Any = strategy and strategy(X, self.codes, random_state)  # type: ignore[arg-type]
        if not isinstance(made, Pairs):
            raise ValueError(f"The strategy {strategy!r} makes {type(made).__name__}, not Pairs.")
        if not (made.similar.any() and (~made.similar).any()):
            raise ValueError(
                f"The labels do not give similar and dissimilar pairs: {_NEEDS_CLASSES}"
            )
        return _of_both_kinds(made)

    def chunklets(self) -> Chunklets:
        """Return the classes as chunklets."""
        return Chunklets(self.labels("", informative=True))


@dataclass(frozen=True, eq=False)
class ChunkletSupervision(_InClasses):
    """Small sets of rows that belong together; nothing is known between them."""

    kind: ClassVar[Kind] = "chunklets"
    given: Chunklets
    n: int

    @property
    def codes(self) -> Ints:
        """Chunklet of each row, -1 for none."""
        return self.given.ids

    def restrict(self, rows: Ints) -> ChunkletSupervision:
        """Keep the chunklets of these rows."""
        return ChunkletSupervision(self.given.restrict(rows), len(rows), groups=self._groups(rows))

    def split(
        self, n_folds: int, random_state: np.random.RandomState, *, by: By = "rows"
    ) -> Iterator[Split]:
        """Hold out whole chunklets."""
        return self._split(n_folds, random_state, "classes")

    def triplets(
        self, X: Floats, strategy: TripletStrategy, random_state: np.random.RandomState
    ) -> Triplets:
        """Raise ValueError: nothing is known to be far."""
        raise ValueError(f"{_ONLY_TOGETHER} Give labels, Triplets or Pairs.")

    def pairs(
        self, X: Floats, strategy: PairStrategy | None, random_state: np.random.RandomState | None
    ) -> Pairs:
        """Raise ValueError: nothing is known to be dissimilar."""
        raise ValueError(f"{_ONLY_TOGETHER} Give labels or Pairs.")

    def usable(self) -> ChunkletSupervision:
        """Number chunklets from 0, or raise ValueError if none has two rows."""
        return replace(self, given=self.chunklets())

    def chunklets(self) -> Chunklets:
        """Return the chunklets, numbered from 0."""
        rows = np.flatnonzero(self.codes >= 0)
        sets, numbers = np.unique(self.codes[rows], return_inverse=True)
        if len(sets) == len(rows):
            raise ValueError("No chunklet has two rows.")
        return Chunklets(_scattered(self.n_rows, rows, numbers))


_ONLY_TOGETHER = (
    "Chunklets only say what belongs together; this learner also needs to know what does not."
)


@dataclass(frozen=True, eq=False)
class _Listed(Supervision):
    """Constraints on row numbers."""

    listed: ClassVar[bool] = True
    given: Any
    n: int

    @property
    def n_rows(self) -> int:
        """Number of rows of X."""
        return self.n

    def __len__(self) -> int:
        return len(self.given)

    @property
    def weight(self) -> Vector | None:
        """Weights of the constraints."""
        weight: Vector | None = self.given.weight
        return weight

    def restrict(self, rows: Ints) -> Self:
        """Keep the constraints among these rows."""
        given = self.given.restrict(rows)
        return type(self)(given, len(rows), groups=self._groups(rows))

    def _with(self, given: Any) -> Self:
        return type(self)(given, self.n, groups=self.groups)

    def take(self, numbers: Ints) -> Self:
        """Pick constraints over the same rows."""
        return self._with(self.given.take(numbers))

    def sample(self, size: int, random_state: np.random.RandomState) -> tuple[Ints, Supervision]:
        """Return `size` constraints, their rows, and as many other rows as there are in all."""
        chosen = np.sort(random_state.choice(len(self), size, replace=False))
        taken = self.take(chosen)
        rows = np.unique(taken.given.index)
        wanted = round(self.n * size / len(self))
        if len(rows) < wanted:
            others = np.setdiff1d(np.arange(self.n), rows)
            rows = np.append(rows, random_state.choice(others, wanted - len(rows), replace=False))
        rows = np.sort(rows)
        return rows, taken.restrict(rows)

    def split(
        self, n_folds: int, random_state: np.random.RandomState, *, by: By = "rows"
    ) -> Iterator[Split]:
        """Hold out constraints. With groups, those between a seen and an unseen group are lost."""
        every = np.arange(self.n)
        if self.groups is not None:
            fold = _fold_of_rows(self.n, self.groups, n_folds, random_state)
            for number in np.unique(fold):
                seen, unseen = self._among(fold != number), self._among(fold == number)
                if len(seen) and len(unseen):
                    yield Split(every, seen, every, unseen)
            return
        most = min(n_folds, self._n_folds)
        if most > 1:
            for seen, unseen in self.given.folds(most, random_state=random_state):
                yield Split(every, self._with(seen), every, self._with(unseen))

    @property
    def _n_folds(self) -> int:
        """The most folds."""
        return len(self)

    def _among(self, chosen: NDArray[np.bool_]) -> Self:
        """Keep the constraints among the chosen rows, without renumbering."""
        return self.take(np.flatnonzero(chosen[self.given.index].all(axis=1)))


@dataclass(frozen=True, eq=False)
class TripletSupervision(_Listed):
    """Relative comparisons."""

    kind: ClassVar[Kind] = "triplets"
    given: Triplets
    n: int

    @property
    def _n_folds(self) -> int:
        return len(np.unique(self.given.index[:, 0]))

    def usable(self) -> TripletSupervision:
        """Leave out triplets of weight 0, or raise ValueError if there are no others."""
        unused: Any = None
        return self._with(self.triplets(unused, unused, unused))

    def triplets(
        self, X: Floats, strategy: TripletStrategy, random_state: np.random.RandomState
    ) -> Triplets:
        """Return the triplets of positive weight."""
        if len(self) == 0:
            raise ValueError(
                "There are no triplets. In cross-validation, a fold of few constraints may have "
                "none."
            )
        return _of_positive_weight(self.given)

    def pairs(
        self, X: Floats, strategy: PairStrategy | None, random_state: np.random.RandomState | None
    ) -> Pairs:
        """Raise ValueError: nothing is known to be similar."""
        raise ValueError(f"{_ONLY_NEARER} labels or Pairs.")

    def chunklets(self) -> Chunklets:
        """Raise ValueError: nothing is known to belong together."""
        raise ValueError(f"{_ONLY_NEARER} labels, Chunklets or Pairs.")


_ONLY_NEARER = (
    "Triplets say which of two is nearer, not which pairs are similar; this learner needs"
)


@dataclass(frozen=True, eq=False)
class PairSupervision(_Listed):
    """Pairs that are similar, or not."""

    kind: ClassVar[Kind] = "pairs"
    given: Pairs
    n: int

    def usable(self) -> PairSupervision:
        """Leave out pairs of weight 0, or raise ValueError unless others are of both kinds."""
        return self._with(_of_both_kinds(self.given))

    @property
    def can_teach(self) -> bool:
        """Whether there are pairs of both kinds."""
        return bool(self.given.similar.any() and not self.given.similar.all())

    def triplets(
        self, X: Floats, strategy: TripletStrategy, random_state: np.random.RandomState
    ) -> Triplets:
        """Join similar and dissimilar pairs that share a row."""
        triplets = self.given.triplets()
        if len(triplets) == 0:
            raise ValueError(
                "These Pairs give no triplet: a triplet needs a similar and a dissimilar pair "
                "that share a row."
            )
        return _of_positive_weight(triplets)

    def pairs(
        self, X: Floats, strategy: PairStrategy | None, random_state: np.random.RandomState | None
    ) -> Pairs:
        """Return the pairs of positive weight."""
        return _of_both_kinds(self.given)

    def chunklets(self) -> Chunklets:
        """Join similar pairs: what is similar to the same row belongs together.

        Weights do not matter unless they are 0, and dissimilar pairs do not matter at all.
        """
        pairs = _weighted_pairs(self.given)
        if not pairs.similar.any():
            raise ValueError("All pairs are dissimilar; this learner needs similar ones.")
        i, j = pairs.index[pairs.similar].T
        component = _components(i, j, self.n)
        rows = np.unique(pairs.index[pairs.similar])
        numbers = np.unique(component[rows], return_inverse=True)[1]
        return Chunklets(_scattered(self.n, rows, numbers))


_OF_CONSTRAINTS: dict[type[Any], Any] = {
    Triplets: TripletSupervision,
    Pairs: PairSupervision,
    Chunklets: ChunkletSupervision,
}


def unwrapped(y: Any, n_rows: int | None = None) -> Any:
    """Return constraints from their `over` form; anything else is returned unchanged."""
    if not isinstance(y, ConstraintsOver):
        return y
    if n_rows is not None and len(y) != n_rows:
        raise ValueError(f"The constraints are over {len(y)} samples, but X has {n_rows} rows.")
    return y.constraints


def kind_of(y: Any, *, numbers: bool = False) -> Kind:
    """Return the kind of what a user passes as y.

    Examples
    --------
    >>> from nearfar import Triplets
    >>> from nearfar.constraints import kind_of
    >>> kind_of([0, 1, 1]), kind_of(Triplets([[0, 1, 2]]).over(3))
    ('labels', 'triplets')
    """
    made = _OF_CONSTRAINTS.get(type(unwrapped(y)))
    if made is not None:
        kind: Kind = made.kind
        return kind
    return "numbers" if numbers else "labels"


def checked_groups(groups: ArrayLike | None, n_rows: int) -> Ints | None:
    """Return the group of each row as a number from 0, or raise ValueError."""
    if groups is None:
        return None
    values = np.asarray(groups)
    if values.shape != (n_rows,):
        raise ValueError(f"groups need one value per row ({n_rows}); got shape {values.shape}.")
    return np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)[
        1
    ]


def _as_numbers(values: NDArray[Any]) -> Vector:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError("MLKR learns from numbers; y has values that are not.") from None


def _of_positive_weight(triplets: Triplets) -> Triplets:
    if triplets.weight is None or triplets.weight.all():
        return triplets
    if not triplets.weight.any():
        raise ValueError("All triplets have weight 0.")
    return triplets.take(triplets.weight > 0)


def _of_both_kinds(pairs: Pairs) -> Pairs:
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


def _splits(
    supervision: Supervision,
    fold: Ints,
    *,
    learnable: NDArray[np.bool_] | None = None,
    whole_classes: bool = False,
) -> Iterator[Split]:
    """Hold out each fold of rows once; rows of fold -1 never."""
    for number in range(int(fold.max(initial=-1)) + 1):
        seen = fold != number if learnable is None else (fold != number) & learnable
        rows, unseen = np.flatnonzero(seen), np.flatnonzero(fold == number)
        yield Split(
            rows,
            supervision.restrict(rows),
            unseen,
            supervision.restrict(unseen),
            whole_classes,
        )


def _fold_of_rows(
    n: int, groups: Ints | None, n_folds: int, random_state: np.random.RandomState
) -> Ints:
    """Return the fold that holds out each row, by group if there are groups."""
    if groups is None:
        return np.asarray(random_state.permutation(n) % n_folds)
    return _fold_of_groups(groups, None, n_folds, random_state)


def _fold_of_groups(
    groups: Ints, codes: Ints | None, n_folds: int, random_state: np.random.RandomState
) -> Ints:
    """Keep groups together, with about the same share of each class in every fold."""
    n_folds = min(n_folds, len(np.unique(groups)))
    fold = np.full(len(groups), -1, dtype=np.intp)
    if n_folds < 2:
        return fold
    kind = GroupKFold if codes is None else StratifiedGroupKFold
    folds = kind(n_folds, shuffle=True, random_state=random_state)
    for number, (_, unseen) in enumerate(folds.split(groups, codes, groups)):
        fold[unseen] = number
    return fold


def _fold_of_labels(codes: Ints, n_folds: int, random_state: np.random.RandomState) -> Ints:
    """Share out each class; a row that is alone in its class is never held out."""
    shuffled = random_state.permutation(len(codes))
    classes = ClassOrder(codes[shuffled])
    fold = np.empty(len(codes), dtype=np.intp)
    fold[shuffled[classes.order]] = np.arange(len(codes)) % n_folds
    fold[shuffled[classes.order[classes.size_of_each < 2]]] = -1
    return fold


def _fold_of_classes(
    codes: Ints, groups: Ints | None, n_folds: int, random_state: np.random.RandomState
) -> Ints:
    """Keep classes together, and classes that share a group; rows without a class stay."""
    inside = codes >= 0
    together = codes
    if groups is not None:
        n_classes = int(codes.max(initial=-1)) + 1
        component = _components(
            codes[inside], n_classes + groups[inside], n_classes + int(groups.max()) + 1
        )
        together = np.where(inside, component[codes], -1)
    sets = random_state.permutation(np.unique(together[inside]))
    fold_of_set = np.full(int(together.max(initial=-1)) + 2, -1, dtype=np.intp)
    fold_of_set[sets] = np.arange(len(sets)) % n_folds
    return fold_of_set[together]


def _components(i: Ints, j: Ints, n: int) -> Ints:
    """Return the number of the connected component of each of n nodes."""
    graph = coo_array((np.ones(len(i)), (i, j)), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.intp)


def _scattered(n: int, rows: Ints, values: Ints) -> Ints:
    """Return an array of n values that is -1 but for some rows."""
    result = np.full(n, -1, dtype=np.intp)
    result[rows] = values
    return result
