"""Strategies that make constraints from labels.

A strategy is a small frozen object that is called with points, class codes and a random state:

    NearestTriplets()(X, y, random_state) -> Triplets

Learners call strategies on scaled points. One that looks only at distances says so, with `rotates`:
fewer rows than features may then be coordinates in the space that they span.

Each row's targets, rows of its class, and its impostors, rows of other classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length, check_random_state

from nearfar.numerics.nearest_rows import ClassOrder, NearestRows, tie_tolerance
from nearfar.runtime.parameters import ParameterRule, check_parameters, integer, number, optional
from nearfar.runtime.progress import stage
from nearfar.supervision.constraints import Pairs, Triplets
from nearfar.typing import Floats, Ints

TripletStrategy = Callable[[Floats, Ints, np.random.RandomState], Triplets]
PairStrategy = Callable[[Floats, Ints, np.random.RandomState], Pairs]

Rules = Mapping[str, ParameterRule]
_COUNT = integer(at_least=1)


class _Strategy:
    """What strategies share: rules of their parameters, which are checked."""

    rotates: ClassVar[bool] = True
    rules: ClassVar[Rules] = {}

    def __post_init__(self) -> None:
        check_parameters(self.rules, vars(self))


@dataclass(frozen=True)
class NearestTriplets(_Strategy):
    """Each row's nearest of the same class against its nearest of other classes.

    Parameters
    ----------
    targets : int, default=3
        Neighbours of the same class.
    impostors : int, default=3
        Neighbours of other classes; every target is compared with every impostor.

    Notes
    -----
    The search compares all rows with each other, exactly.

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

    rules: ClassVar[Rules] = {"targets": _COUNT, "impostors": _COUNT}

    targets: int = 3
    impostors: int = 3

    @stage("mining triplets")
    def __call__(
        self, X: Floats, y: Ints, random_state: int | np.random.RandomState | None = None
    ) -> Triplets:
        """Build the triplets; nothing is drawn at random."""
        found = class_neighbors(X, y, self.targets, self.impostors)
        return _cross(np.arange(len(X)), *found)


@dataclass(frozen=True)
class FarTargetTriplets(_Strategy):
    """Each row's farthest of the same class against its nearest of other classes.

    Parameters
    ----------
    a : int, default=3
        Number of each; every target is compared with every impostor.
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

    rules: ClassVar[Rules] = {"a": _COUNT, "keep": number(above=0.0, at_most=1.0)}

    a: int = 3
    keep: float = 0.2

    def __call__(
        self, X: Floats, y: Ints, random_state: int | np.random.RandomState | None = None
    ) -> Triplets:
        """Build the triplets."""
        found = class_neighbors(X, y, self.a, self.a, farthest_targets=True)
        triplets = _cross(np.arange(len(X)), *found)
        kept = int(np.ceil(self.keep * len(triplets)))
        if kept == len(triplets):
            return triplets
        chosen = check_random_state(random_state).choice(len(triplets), kept, replace=False)
        return triplets.take(np.sort(chosen))


@dataclass(frozen=True)
class RandomTriplets(_Strategy):
    """Triplets drawn at random from all that the labels imply.

    Parameters
    ----------
    m : int
        Number of triplets. The anchor is drawn uniformly from the rows whose class has another
        member, the others uniformly from those that fit.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import RandomTriplets
    >>> y = np.array([0, 0, 1, 1])
    >>> triplets = RandomTriplets(5)(np.zeros((4, 1)), y, random_state=0)
    >>> anchor, near, far = triplets.index.T
    >>> bool((y[anchor] == y[near]).all() and (y[anchor] != y[far]).all())
    True
    """

    ignores_rows: ClassVar[bool] = True
    rules: ClassVar[Rules] = {"m": _COUNT}

    m: int

    def __call__(
        self, X: Floats, y: Ints, random_state: int | np.random.RandomState | None = None
    ) -> Triplets:
        """Draw the triplets; distances in X play no part."""
        rng = check_random_state(random_state)
        classes = _ClassSampler(y)
        anchors = classes.rows_with_companion()
        if len(anchors) == 0 or len(classes.sizes) < 2:
            return Triplets(np.empty((0, 3), dtype=np.intp))
        anchor = anchors[rng.randint(len(anchors), size=self.m)]
        return Triplets(
            np.column_stack(
                [anchor, classes.companions(anchor, rng), classes.strangers(anchor, rng)]
            )
        )


@dataclass(frozen=True)
class AllTriplets(_Strategy):
    """Every triplet that the labels imply.

    `MetricBoost` keeps them implicit, at the cost of pairs. When called, the strategy lists them:
    their number grows with the cube of the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import AllTriplets
    >>> AllTriplets()(np.zeros((3, 1)), np.array([0, 0, 1])).index
    array([[0, 1, 2],
           [1, 0, 2]])
    """

    ignores_rows: ClassVar[bool] = True

    def __call__(
        self, X: Floats, y: Ints, random_state: int | np.random.RandomState | None = None
    ) -> Triplets:
        """List the triplets; distances in X play no part."""
        blocks = [np.empty((0, 3), dtype=np.intp)]
        for label in np.unique(y):
            same, other = np.flatnonzero(y == label), np.flatnonzero(y != label)
            grid = np.array(np.meshgrid(same, same, other, indexing="ij")).reshape(3, -1).T
            blocks.append(grid[grid[:, 0] != grid[:, 1]])
        return Triplets(np.concatenate(blocks))


@dataclass(frozen=True)
class RandomPairs(_Strategy):
    """Pairs drawn at random, similar if the labels agree.

    Parameters
    ----------
    m : int, optional
        Number of pairs; by default ten for each row, and at least 2,000.
    similar : float, default=0.5
        Share of similar pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import RandomPairs
    >>> y = np.array([0, 0, 1, 1])
    >>> pairs = RandomPairs(10, similar=0.3)(np.zeros((4, 1)), y, random_state=0)
    >>> int(pairs.similar.sum())
    3
    """

    ignores_rows: ClassVar[bool] = True
    rules: ClassVar[Rules] = {
        "m": optional(_COUNT),
        "similar": number(at_least=0.0, at_most=1.0),
    }

    m: int | None = None
    similar: float = 0.5

    def __call__(
        self, X: Floats, y: Ints, random_state: int | np.random.RandomState | None = None
    ) -> Pairs:
        """Draw the pairs; distances in X play no part."""
        rng = check_random_state(random_state)
        classes = _ClassSampler(y)
        paired = classes.rows_with_companion()
        m = self.number(len(y))
        n_similar = round(self.similar * m) if len(paired) else 0
        n_different = m - round(self.similar * m) if len(classes.sizes) > 1 else 0
        left = paired[rng.randint(len(paired), size=n_similar)] if n_similar else paired[:0]
        other = rng.randint(len(y), size=n_different)
        index = np.column_stack(
            [
                np.concatenate([left, other]),
                np.concatenate([classes.companions(left, rng), classes.strangers(other, rng)]),
            ]
        )
        return Pairs(index, np.arange(len(index)) < n_similar)

    def number(self, n_rows: int) -> int:
        """Return the number of pairs of some rows."""
        return max(2_000, 10 * n_rows) if self.m is None else self.m


class _ClassSampler(ClassOrder):
    """Draws members of the same or of another class, without n x n tables."""

    def __init__(self, y: Ints) -> None:
        super().__init__(np.unique(y, return_inverse=True)[1])
        self.place = np.empty(self.n, dtype=np.intp)
        self.place[self.order] = np.arange(self.n)

    def rows_with_companion(self) -> Ints:
        """Return the rows whose class has another member."""
        return np.sort(self.order[self.size_of_each > 1])

    def companions(self, rows: Ints, rng: np.random.RandomState) -> Ints:
        """Draw another member of each row's class."""
        code = self.codes[self.place[rows]]
        size = self.sizes[code]
        shift = 1 + np.floor(rng.random_sample(len(rows)) * (size - 1)).astype(np.intp)
        inside = (self.place[rows] - self.edges[code] + shift) % size
        return self.order[self.edges[code] + inside]

    def strangers(self, rows: Ints, rng: np.random.RandomState) -> Ints:
        """Draw a member of another class for each row."""
        code = self.codes[self.place[rows]]
        shift = np.floor(rng.random_sample(len(rows)) * (self.n - self.sizes[code]))
        return self.order[(self.edges[code + 1] + shift.astype(np.intp)) % self.n]


def _cross(anchors: Ints, targets: Ints, impostors: Ints) -> Triplets:
    """Every target of an anchor with every impostor of it; -1 stands for none."""
    k = targets.shape[1]
    anchor = np.repeat(anchors, k * impostors.shape[1])
    near = np.repeat(targets, impostors.shape[1], axis=1).ravel()
    far = np.tile(impostors, (1, k)).ravel()
    whole = (near >= 0) & (far >= 0)
    return Triplets(np.column_stack([anchor[whole], near[whole], far[whole]]))


def class_neighbors(
    X: Floats,
    y: NDArray[np.integer],
    n_targets: int,
    n_impostors: int,
    *,
    farthest_targets: bool = False,
) -> tuple[Ints, Ints]:
    """Find each row's targets and impostors, exactly.

    Parameters
    ----------
    X: shape (n_samples, n_features). Points; float32 or float64.
    y: shape (n_samples,). Class codes.
    n_targets, n_impostors: How many of each to find.
    farthest_targets: Take the farthest rows of the same class instead of the nearest.

    Returns
    -------
    targets : array of shape (n_samples, n_targets)
        Row numbers, best first; -1 where the class has too few members.
    impostors : array of shape (n_samples, n_impostors)
        Row numbers, best first; -1 where the other classes have too few members.

    Notes
    -----
    Ties: nearest (farthest) first, then lower row number first. Distances that agree to the
    rounding error of the data count as tied, so that a change of units changes nothing.
    """
    X = check_array(X, dtype=[np.float64, np.float32])
    check_consistent_length(X, y)
    # In class order, a class is a run of rows.
    classes = ClassOrder(np.unique(y, return_inverse=True)[1])
    order, X = classes.order, X[classes.order]
    runs = np.column_stack([classes.edges[:-1], classes.edges[1:]])[classes.codes]
    rows = NearestRows(X, order, tolerance=tie_tolerance(X.dtype))
    alike = rows
    if farthest_targets:
        alike = NearestRows(X, order, tolerance=rows.tolerance, farthest=True)
    targets = np.empty((len(X), n_targets), dtype=np.intp)
    impostors = np.empty((len(X), n_impostors), dtype=np.intp)
    targets[order] = alike.nearest(X, n_targets, np.arange(len(X)), inside=runs)[1]
    impostors[order] = rows.nearest(X, n_impostors, outside=runs)[1]
    return targets, impostors
