"""Strategies that make constraints from labels.

A strategy is a small frozen object that is called with points, class codes and a random state:

    NearestTriplets()(X, y, random_state) -> Triplets

Learners call strategies on points that are scaled their way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nearfar.constraints.constraints import Pairs, Triplets
from nearfar.constraints.mining import class_neighbors
from nearfar.typing import Floats, Ints

TripletStrategy = Callable[[Floats, Ints, np.random.RandomState], Triplets]
PairStrategy = Callable[[Floats, Ints, np.random.RandomState], Pairs]


@dataclass(frozen=True)
class NearestTriplets:
    """Each row's nearest of the same class against its nearest of other classes.

    Parameters
    ----------
    targets : int, default=3
        Neighbours of the same class.
    impostors : int, default=3
        Neighbours of other classes; every target is compared with every impostor.

    Notes
    -----
    Ties: nearest first, then lower row number. A class of one member has no targets, a class of
    fewer than `targets` + 1 members as many as there are.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import NearestTriplets
    >>> X = np.array([[0.0], [1.0], [3.0], [4.0]])
    >>> NearestTriplets(1, 1)(X, np.array([0, 0, 1, 1])).index
    array([[0, 1, 2],
           [1, 0, 2],
           [2, 3, 1],
           [3, 2, 1]])
    """

    targets: int = 3
    impostors: int = 3

    def __post_init__(self) -> None:
        _require_positive(targets=self.targets, impostors=self.impostors)

    def __call__(
        self, X: Floats, y: Ints, random_state: np.random.RandomState | None = None
    ) -> Triplets:
        """Build the triplets; `random_state` is not used."""
        return _cross(*class_neighbors(X, y, self.targets, self.impostors))


@dataclass(frozen=True)
class FarTargetTriplets:
    """Each row's farthest of the same class against its nearest of other classes.

    Parameters
    ----------
    a : int, default=3
        How many of each; every target is compared with every impostor.
    keep : float, default=0.2
        Share of the triplets that is kept, chosen at random.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import FarTargetTriplets
    >>> X = np.array([[0.0], [1.0], [2.0], [9.0]])
    >>> FarTargetTriplets(1, keep=1.0)(X, np.array([0, 0, 0, 1])).index
    array([[0, 2, 3],
           [1, 0, 3],
           [2, 0, 3]])
    """

    a: int = 3
    keep: float = 0.2

    def __post_init__(self) -> None:
        _require_positive(a=self.a)
        if not 0 < self.keep <= 1:
            raise ValueError(f"keep is a share above 0 and at most 1; got {self.keep!r}.")

    def __call__(
        self, X: Floats, y: Ints, random_state: np.random.RandomState | None = None
    ) -> Triplets:
        """Build the triplets."""
        triplets = _cross(*class_neighbors(X, y, self.a, self.a, farthest_targets=True))
        kept = int(np.ceil(self.keep * len(triplets)))
        if kept == len(triplets):
            return triplets
        chosen = _random(random_state).choice(len(triplets), kept, replace=False)
        return triplets.take(np.sort(chosen))


@dataclass(frozen=True)
class RandomTriplets:
    """Triplets drawn at random from all that the labels imply.

    Parameters
    ----------
    m : int
        How many. The anchor is drawn evenly from the rows that have a companion of their class,
        the others evenly from those that fit.
    """

    m: int

    def __post_init__(self) -> None:
        _require_positive(m=self.m)

    def __call__(
        self, X: Floats, y: Ints, random_state: np.random.RandomState | None = None
    ) -> Triplets:
        """Draw the triplets; distances in X play no part."""
        rng = _random(random_state)
        classes = _Classes(y)
        anchors = classes.with_companion()
        if len(anchors) == 0 or classes.n_classes < 2:
            return Triplets(np.empty((0, 3), dtype=np.intp))
        anchor = anchors[rng.randint(len(anchors), size=self.m)]
        return Triplets(
            np.column_stack([anchor, classes.companion(anchor, rng), classes.stranger(anchor, rng)])
        )


@dataclass(frozen=True)
class AllTriplets:
    """Every triplet that the labels imply.

    `MetricBoost` keeps them implicit, at the price of pairs. Called, the strategy lists them: their
    number grows with the cube of the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import AllTriplets
    >>> AllTriplets()(np.zeros((3, 1)), np.array([0, 0, 1])).index
    array([[0, 1, 2],
           [1, 0, 2]])
    """

    def __call__(
        self, X: Floats, y: Ints, random_state: np.random.RandomState | None = None
    ) -> Triplets:
        """List the triplets; distances in X play no part."""
        blocks = [np.empty((0, 3), dtype=np.intp)]
        for label in np.unique(y):
            same, other = np.flatnonzero(y == label), np.flatnonzero(y != label)
            grid = np.array(np.meshgrid(same, same, other, indexing="ij")).reshape(3, -1).T
            blocks.append(grid[grid[:, 0] != grid[:, 1]])
        return Triplets(np.concatenate(blocks))


@dataclass(frozen=True)
class RandomPairs:
    """Pairs drawn at random, similar if the labels agree.

    Parameters
    ----------
    m : int, optional
        How many; by default ten for each row, and at least 2,000.
    similar : float, default=0.5
        Share of similar pairs.
    """

    m: int | None = None
    similar: float = 0.5

    def __post_init__(self) -> None:
        if self.m is not None:
            _require_positive(m=self.m)
        if not 0 <= self.similar <= 1:
            raise ValueError(f"similar is a share from 0 to 1; got {self.similar!r}.")

    def __call__(
        self, X: Floats, y: Ints, random_state: np.random.RandomState | None = None
    ) -> Pairs:
        """Draw the pairs; distances in X play no part."""
        rng = _random(random_state)
        classes = _Classes(y)
        paired = classes.with_companion()
        m = max(2_000, 10 * len(y)) if self.m is None else self.m
        n_similar = round(self.similar * m) if len(paired) else 0
        n_different = m - round(self.similar * m) if classes.n_classes > 1 else 0
        left = paired[rng.randint(len(paired), size=n_similar)] if n_similar else paired[:0]
        other = rng.randint(len(y), size=n_different)
        index = np.column_stack(
            [
                np.concatenate([left, other]),
                np.concatenate([classes.companion(left, rng), classes.stranger(other, rng)]),
            ]
        )
        return Pairs(index, np.arange(len(index)) < n_similar)


class _Classes:
    """Draw members of the same or of another class, without tables of n x n."""

    def __init__(self, y: Ints) -> None:
        codes = np.unique(y, return_inverse=True)[1]
        self.order = np.argsort(codes, kind="stable")
        self.place = np.empty(len(y), dtype=np.intp)
        self.place[self.order] = np.arange(len(y))
        self.size = np.bincount(codes)
        self.first = np.concatenate([[0], np.cumsum(self.size)])
        self.code = codes
        self.n_classes = len(self.size)

    def with_companion(self) -> Ints:
        return np.flatnonzero(self.size[self.code] > 1)

    def companion(self, rows: Ints, rng: np.random.RandomState) -> Ints:
        """Draw another member of each row's class."""
        code = self.code[rows]
        shift = 1 + np.floor(rng.random_sample(len(rows)) * (self.size[code] - 1)).astype(np.intp)
        inside = (self.place[rows] - self.first[code] + shift) % self.size[code]
        return self.order[self.first[code] + inside]

    def stranger(self, rows: Ints, rng: np.random.RandomState) -> Ints:
        """Draw a member of another class for each row."""
        code = self.code[rows]
        n = len(self.code)
        shift = np.floor(rng.random_sample(len(rows)) * (n - self.size[code])).astype(np.intp)
        return self.order[(self.first[code + 1] + shift) % n]


def _cross(targets: Ints, impostors: Ints) -> Triplets:
    """Every target of a row with every impostor of it; -1 stands for none."""
    n, k = targets.shape
    anchor = np.repeat(np.arange(n), k * impostors.shape[1])
    near = np.repeat(targets, impostors.shape[1], axis=1).ravel()
    far = np.tile(impostors, (1, k)).ravel()
    whole = (near >= 0) & (far >= 0)
    return Triplets(np.column_stack([anchor[whole], near[whole], far[whole]]))


def _random(random_state: np.random.RandomState | None) -> np.random.RandomState:
    return np.random.RandomState() if random_state is None else random_state


def _require_positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
            raise ValueError(f"{name} is a whole number of 1 or more; got {number!r}.")
