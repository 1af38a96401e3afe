"""`Supervision`: what is known of the rows of X. One interface, five kinds.

    labels       a class for each row
    numbers      a number for each row
    triplets     "a is nearer to b than to c"
    pairs        two rows are similar, or they are not
    chunklets    small sets of rows that belong together

`Supervision.of` makes it once, where X and y are checked. Rows may be in *groups*: the same person,
document or visit. Whatever is split, a group is never on both sides.

The kinds of `Supervision`: labels, numbers, triplets, pairs and chunklets.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _num_samples, column_or_1d

from nearfar.evidence.splits import (
    Random,
    components,
    folds,
)
from nearfar.numerics.missing import at_rows, refuse_missing
from nearfar.supervision.constraints import (
    Chunklets,
    ConstraintsOver,
    Pairs,
    Triplets,
    checked_weights,
)
from nearfar.supervision.strategies import TripletStrategy
from nearfar.typing import Array, Floats, Ints, Vector

Kind = Literal["labels", "numbers", "triplets", "pairs", "chunklets", "nothing"]
By = Literal["rows", "classes"]

# Whole numbers of more values than this, most of them with fewer rows, are hardly codes of classes:
# a few prices are frequent, and most are rare.
_MOST_CLASSES, _FEWEST_ROWS = 30, 5
MANY_CLASSES = "The number of unique classes"
"""How scikit-learn's warning of many classes begins, which it gives in every fit."""

# Codes of classes are dense, also those of some of the classes; prices are not.
_GAPS = 4


@dataclass(frozen=True, eq=False)
class Split:
    """What to learn from, and what is held out.

    Attributes
    ----------
    rows: Rows of X to learn from.
    known: Supervision of these rows.
    unseen_rows: Rows of X that `unseen` is over: the held-out ones, or all if constraints
        are held out.
    whole_classes: Whether held-out rows are those of whole classes or chunklets.
    """

    rows: Ints
    known: Supervision
    unseen_rows: Ints
    unseen: Supervision
    whole_classes: bool = False


@dataclass(frozen=True, eq=False)
class Supervision:
    """What is known of the rows of X.

    Attributes
    ----------
    given: Class codes, numbers, or constraints.
    n_rows: Number of rows of X.
    groups: shape (n_rows,). Group of each row. A split never has rows of one group on both
        sides.
    row_weight: shape (n_rows,). How often each row counts; None if each counts once. Listed
        constraints have weights of their own instead.
    """

    kinds: ClassVar[dict[str, type[Supervision]]] = {}
    """The classes of supervision by their kind."""

    kind: ClassVar[Kind]
    listed: ClassVar[bool] = False
    """Whether it consists of constraints on row numbers, which can be picked one by one."""

    says_only: ClassVar[str] = "This learner needs {}."
    """Why a learner cannot use it; the format is given what the learner needs."""

    given: Any
    n_rows: int
    groups: Ints | None = field(default=None, kw_only=True)
    row_weight: Vector | None = field(default=None, kw_only=True)

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            Supervision.kinds[cls.kind] = cls

    @staticmethod
    def of(
        y: object,
        n_rows: int,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        numbers: bool = False,
    ) -> Supervision:
        """Check what is known of `n_rows` rows.

        Parameters
        ----------
        sample_weight: shape (n_rows,). Not for triplets and pairs.
        numbers: Whether an array holds numbers instead of class labels.
        """
        group = checked_groups(groups, n_rows)
        kind = "nothing" if y is None else kind_of(y, numbers=numbers)
        cls: Any = Supervision.kinds[kind]
        if cls.listed and sample_weight is not None:
            raise ValueError(
                f"sample_weight is for rows; {kind} have weights of their own: "
                f"{type(unwrapped(y)).__name__}(..., weight=...)."
            )
        weight = checked_weights(sample_weight, n_rows, "Rows")
        of_rows = {"groups": group, "row_weight": _informative(weight)}
        if y is None:
            return cls(None, n_rows, **of_rows)
        if kind not in ("labels", "numbers"):
            constraints = unwrapped(y, n_rows)
            constraints.check(n_rows)
            return cls(constraints, n_rows, **of_rows)
        refuse_missing(y, "y")
        values = np.asarray(y)
        if values.ndim == 2 and values.shape[1] in _WRAPPERS and values.dtype.kind in "iu":
            raise ValueError(
                f"y has shape {values.shape}; labels have one dimension. "
                f"Give {_WRAPPERS[values.shape[1]]}."
            )
        values = column_or_1d(values)
        if len(values) != n_rows:
            raise ValueError(
                f"X and y have inconsistent numbers of samples: {n_rows} and {len(values)}."
            )
        if numbers:
            try:
                return cls(values.astype(np.float64), n_rows, **of_rows)
            except (TypeError, ValueError):
                raise ValueError(
                    "The learner learns from numbers; y has values that are not."
                ) from None
        check_classes(values)
        names, codes = np.unique(values, return_inverse=True)
        return cls(codes, n_rows, names, **of_rows)

    def __len__(self) -> int:
        """Number of constraints if they are listed, or of rows."""
        return self.n_rows

    @property
    def codes(self) -> Ints:
        """Class or chunklet of each row, -1 for none."""
        raise ValueError(f"{self.kind.capitalize()} do not put rows into classes.")

    @property
    def weight(self) -> Vector | None:
        """Weights of the constraints."""
        return None

    @property
    def can_teach(self) -> bool:
        """Whether there is enough to learn from."""
        return len(self) > 0

    def _given(self, rows: Ints) -> Any:
        """Return what is known among these rows, which are numbered by their places."""
        return self.given[rows]

    def in_classes(self, n_folds: int) -> Self:
        """Return the same with groups that new data would not share, if there are none yet."""
        return self

    def restrict(self, rows: Ints) -> Self:
        """Keep what is known among these rows, which are numbered by their places."""
        groups = None if self.groups is None else self.groups[rows]
        weight = None if self.row_weight is None else _informative(self.row_weight[rows])
        of_rows: dict[str, Any] = {"groups": groups, "row_weight": weight}
        return replace(self, given=self._given(rows), n_rows=len(rows), **of_rows)

    def without(self, rows: Ints) -> Self:
        """Leave out what is known of these rows."""
        return self.restrict(np.setdiff1d(np.arange(self.n_rows), rows))

    def consecutive(self) -> Self:
        """Return the same with classes numbered from 0 without gaps."""
        return self

    def usable(self) -> Self:
        """Leave out constraints of weight 0, or raise ValueError if nothing can be learned from."""
        return self

    def split(self, n_folds: int, random: Random, *, by: By = "rows") -> Iterator[Split]:
        """Split in folds; each is held out once.

        Parameters
        ----------
        by: Whether labels hold out rows or whole classes. Chunklets always hold out whole ones,
            triplets hold out anchors, and pairs hold out connected sets of rows where they can,
            or sets of rows that similar pairs join.
        """
        yield from self._splits(folds(self.n_rows, n_folds, random, groups=self.groups))

    def _splits(
        self, fold: Ints, inside: Array | bool = True, *, whole: bool = False
    ) -> Iterator[Split]:
        """Hold out each fold of rows once; rows of fold -1 never, and unknown ones are left out."""
        for number in range(int(fold.max(initial=-1)) + 1):
            rows, unseen = np.flatnonzero((fold != number) & inside), np.flatnonzero(fold == number)
            yield Split(rows, self.restrict(rows), unseen, self.restrict(unseen), whole)

    def labels(self, learner: str, *, informative: bool = False) -> Ints:
        """Return class codes; `informative` ones tell some rows apart and join others."""
        raise ValueError(f"{learner} learns from class labels; got {self.kind.capitalize()}.")

    def numbers(self, learner: str) -> Vector:
        """Return the number of each row."""
        raise ValueError(f"{learner} learns from numbers; got {self.kind.capitalize()}.")

    def triplets(self, X: Floats, strategy: TripletStrategy, random: Random) -> Triplets:
        """Return triplets of positive weight; a strategy makes them from labels."""
        raise ValueError(self.says_only.format("labels, Triplets or Pairs"))

    def pairs(self, X: Floats, strategy: Any, random: Any, *, both_kinds: bool = True) -> Pairs:
        """Return pairs of positive weight; a strategy makes them from labels.

        They are of both kinds, unless a learner needs only one and the user gives only one.
        """
        raise ValueError(self.says_only.format("labels or Pairs"))

    def chunklets(self) -> Chunklets:
        """Return what belongs together, numbered from 0; at least one chunklet has two rows."""
        raise ValueError(self.says_only.format("labels, Chunklets or Pairs"))


def counted_rows(
    sample_weight: ArrayLike | None, X: Any, y: Any, groups: Any = None
) -> tuple[Any, Any, Any, Vector | None]:
    """Leave out rows of weight 0; return X, y, groups and weights of the others."""
    weight = checked_weights(sample_weight, _num_samples(X), "Rows")
    if weight is not None and not weight.all():
        if not weight.any():
            raise ValueError("All weights are zero; at least one row must count.")
        X, y, groups, weight = at_rows(np.flatnonzero(weight), X, y, groups, weight)
    return X, y, groups, _informative(weight)


def _informative(weight: Vector | None) -> Vector | None:
    """Return weights of rows, or None if each counts once."""
    return None if weight is None or (weight == 1.0).all() else weight


_OF_CONSTRAINTS: dict[type, Kind] = {
    Triplets: "triplets",
    Pairs: "pairs",
    Chunklets: "chunklets",
}


# What to give instead of an index of constraints, by the number of its columns.
_WRAPPERS = {
    2: "Pairs(y, similar) if its rows are pairs of row numbers of X",
    3: "Triplets(y) if its rows are (anchor, near, far) row numbers of X",
    4: "Triplets; docs/from-metric-learn.md says what becomes of quadruplets",
}


def unwrapped(y: object, n_rows: int | None = None) -> Any:
    """Return constraints from their `over` form; anything else is returned unchanged."""
    if not isinstance(y, ConstraintsOver):
        return y
    if n_rows is not None and len(y) != n_rows:
        raise ValueError(f"The constraints are over {len(y)} samples, but X has {n_rows} rows.")
    return y.constraints


def kind_of(y: object, *, numbers: bool = False) -> Kind:
    """Return the kind of what a user passes as y."""
    return _OF_CONSTRAINTS.get(type(unwrapped(y)), "numbers" if numbers else "labels")


def are_numbers(y: object) -> bool:
    """Tell whether y has numbers to predict, not classes.

    These are floats that are not all whole, as for scikit-learn, or whole ones of more than 30
    values, most with fewer than five rows. Integers are classes.
    """
    if y is None or type(unwrapped(y)) in _OF_CONSTRAINTS:
        return False
    values = np.asarray(y)
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        return False
    return _many_with_few_rows(values) or bool((values % 1).any())


def _many_with_few_rows(values: Array) -> bool:
    counts = np.unique(values, return_counts=True)[1]
    return len(counts) > _MOST_CLASSES and bool(np.median(counts) < _FEWEST_ROWS)


def check_classes(y: Array) -> None:
    """Raise ValueError if the values are not class labels."""
    # scikit-learn's own check also warns of many classes, in every fit to a part of the rows.
    found = type_of_target(y, input_name="y")
    if found not in ("binary", "multiclass"):
        raise ValueError(
            f"Unknown label type: {found}. This needs class labels; for numbers to predict, use "
            "AutoMetric, MLKR or MetricNeighborsRegressor."
        )


def warn_of_integers(y: object) -> None:
    """Warn if integers, which are classes, look like numbers to predict."""
    values = np.asarray(y)
    if values.dtype.kind not in "iu" or not _many_with_few_rows(values):
        return
    n_classes = len(np.unique(values))
    if int(values.max()) - int(values.min()) >= _GAPS * n_classes:
        warnings.warn(
            f"y has {n_classes} classes in {len(values)} rows, as integers are classes. If they "
            "are numbers to predict, pass floats to AutoMetric, MLKR or compare, or use "
            "MetricNeighborsRegressor.",
            stacklevel=2,
        )


def check_rows_given(X: object, y: object) -> None:
    """Raise ValueError if there are constraints and no rows: X is None, or the constraints."""
    kind = _OF_CONSTRAINTS.get(type(unwrapped(y if X is None else X)))
    if kind is not None:
        raise ValueError(
            f"A metric measures distances of vectors, and {kind} alone have none; pass a vector "
            f"for each object as the rows of X: fit(X, {kind})."
        )


def checked_groups(groups: ArrayLike | None, n_rows: int) -> Ints | None:
    """Return the group of each row as a number from 0, or raise ValueError."""
    if groups is None:
        return None
    refuse_missing(groups, "groups")
    values = np.asarray(groups)
    if values.shape != (n_rows,):
        raise ValueError(f"groups need one value per row ({n_rows}); got shape {values.shape}.")
    comparable = values.astype(str) if values.dtype == object else values
    return np.unique(comparable, return_inverse=True)[1]


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
        known: Any = {"codes": self.codes, "groups": self.groups}
        fold = folds(self.n_rows, n_folds, random, by=by, **known)
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

    def pairs(self, X: Floats, strategy: Any, random: Any, *, both_kinds: bool = True) -> Pairs:
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
        fold[judged] = folds(len(judged), n_folds, random, groups=self.groups[judged])
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

    def pairs(self, X: Floats, strategy: Any, random: Any, *, both_kinds: bool = True) -> Pairs:
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
