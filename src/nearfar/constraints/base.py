"""What all kinds of constraints share.

Constraints are row numbers of X, never copies of rows. They are frozen and checked when created;
`check(n)` compares them with the number of samples. For cross-validation, `take` picks constraints,
`restrict` picks samples, and `over(n)` makes them look like n targets to scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


def checked_raters(raters: ArrayLike | None, n: int, name: str) -> Ints | None:
    """Return a number for each rater as a frozen array, or raise ValueError."""
    if raters is None:
        return None
    refuse_missing(raters, "raters")
    values = np.asarray(raters)
    if values.shape != (n,):
        raise ValueError(f"{name} need one rater each ({n}); got shape {values.shape}.")
    comparable = values.astype(str) if values.dtype == object else values
    return frozen(np.unique(comparable, return_inverse=True)[1].astype(np.intp))


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
