"""Running sums of rows in groups: what `partial_fit` of closed forms keeps instead of the rows.

A closed form needs the scatter S of each group and, to estimate its shrinkage, the fourth moments
of its rows after scaling. With d the rows of a group about its mean, and d^2 their squares by
feature,

    S = sum d d'        T = sum d^2 d'        Q = sum d^2 (d^2)'
    sum_i |diag(w) d_i|^4 = (w^2)' Q w^2

for any scale w of the features. All three can be moved to another mean, so that two parts of a
group are added exactly. Groups that cannot grow any more, such as those of pairs, are added up by
size: weights of groups depend only on that.

Features are divided by powers of two, those of the first part, to keep fourth moments from
overflow. This is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from nearfar.constraints import Pairs, Supervision
from nearfar.learners.classic.closed_form import Axes
from nearfar.learners.classic.scatter import Evidence, Groups, GroupScatter, PairSums
from nearfar.learners.scaler import Scaler, power_of_two
from nearfar.numerics.edges import Edges
from nearfar.typing import Floats, Ints, Matrix, Vector

_BLOCK_ROWS = 4096
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class GroupMoments:
    """GroupMoments of rows about their mean.

    Attributes
    ----------
    n : float
        Number of rows.
    mean : array of shape (n_features,)
    S : array of shape (n_features, n_features)
        Sum of d d'.
    T, Q : array of shape (n_features, n_features) or None
        Sums of d^2 d' and of d^2 (d^2)'; None if the fourth moments are not needed.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.learners.classic.running_sums import GroupMoments
    >>> parts = GroupMoments.of(np.array([[0.0], [2.0]])) + GroupMoments.of(np.array([[4.0]]))
    >>> parts.mean, parts.S, parts.Q
    (array([2.]), array([[8.]]), array([[32.]]))
    """

    n: float
    mean: Vector
    S: Matrix
    T: Matrix | None = None
    Q: Matrix | None = None

    @classmethod
    def of(cls, X: Floats, *, fourth: bool = True) -> GroupMoments:
        """Return the moments of rows."""
        mean = X.mean(axis=0, dtype=np.float64)
        S, T, Q = (np.zeros((X.shape[1], X.shape[1])) for _ in range(3))
        for top in range(0, len(X), _BLOCK_ROWS):
            d = X[top : top + _BLOCK_ROWS] - mean
            S += d.T @ d
            if fourth:
                squares = d**2
                T += squares.T @ d
                Q += squares.T @ squares
        return cls(float(len(X)), mean, S, T, Q) if fourth else cls(float(len(X)), mean, S)

    def __add__(self, other: GroupMoments) -> GroupMoments:
        n = self.n + other.n
        mean = self.mean + (other.mean - self.mean) * (other.n / n)
        first, second = self._about(mean), other._about(mean)
        S = first.S + second.S
        if first.T is None or first.Q is None or second.T is None or second.Q is None:
            return GroupMoments(n, mean, S)
        return GroupMoments(n, mean, S, first.T + second.T, first.Q + second.Q)

    def _about(self, point: Vector) -> GroupMoments:
        """Return the sums for d = x - point in place of the mean."""
        a = self.mean - point
        S = self.S + self.n * np.outer(a, a)
        if self.T is None or self.Q is None:
            return GroupMoments(self.n, point, S)
        variances = self.S.diagonal()
        T = self.T + 2 * a[:, None] * self.S + np.outer(variances + self.n * a**2, a)
        cross = 2 * self.T * a
        Q = self.Q + cross + cross.T + 4 * np.outer(a, a) * self.S
        Q += np.outer(variances, a**2) + np.outer(a**2, variances) + self.n * np.outer(a**2, a**2)
        return GroupMoments(self.n, point, S, T, Q)


@dataclass(frozen=True, eq=False)
class SizeSums:
    """Sums over groups of the same size.

    Attributes
    ----------
    count : float
        Number of groups.
    S, Q : array of shape (n_features, n_features)
        Sums of their moments.
    """

    count: float
    S: Matrix
    Q: Matrix

    def __add__(self, other: SizeSums) -> SizeSums:
        return SizeSums(self.count + other.count, self.S + other.S, self.Q + other.Q)


@dataclass(frozen=True, eq=False)
class RunningSums:
    """What is known of all rows so far.

    Attributes
    ----------
    kind : {"labels", "chunklets", "pairs", "rows"}
        What the parts come with.
    scale : {"standard", "unit", "cosine"} or None
    fourth : bool
        Whether fourth moments are kept.
    units : array of shape (n_features,)
        Powers of two that features are divided by.
    largest : float
        Largest absolute value.
    eps : float
        Rounding error of the rows.
    total : GroupMoments
        Of all rows.
    classes : mapping of label to GroupMoments
    finished : mapping of int to SizeSums
        Chunklets, and groups that similar pairs join, by their size.
    pairs : PairSums or None
    apart : array of shape (n_features, n_features) or None
        Sum of the outer products of the differences of groups that dissimilar pairs tell apart.
    """

    kind: str
    scale: str | None
    fourth: bool
    units: Vector
    largest: float
    eps: float
    total: GroupMoments
    classes: Mapping[Any, GroupMoments]
    finished: Mapping[int, SizeSums]
    pairs: PairSums | None = None
    apart: Matrix | None = None

    @classmethod
    def of(
        cls, X: Floats, supervision: Supervision, scale: str | None, *, fourth: bool, units: Vector
    ) -> RunningSums:
        """Return the sums of one part.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        supervision : Supervision
        scale : {"standard", "unit", "cosine"} or None
            With "cosine", rows of X have unit length already.
        fourth : bool
        units : array of shape (n_features,)
        """
        R = X / units
        largest = max(float(X.max()), -float(X.min()))
        eps = float(np.finfo(X.dtype).eps)
        total = GroupMoments.of(R, fourth=fourth)
        sums = cls("rows", scale, fourth, units, largest, eps, total, {}, {})
        known: Any = supervision
        if known.kind == "pairs":
            return _with_pairs(sums, R, known.given)
        if known.kind == "chunklets":
            return replace(sums, kind="chunklets", finished=_by_size(R, known.codes))
        if known.kind == "nothing":
            return sums
        classes = {
            label: GroupMoments.of(R[known.codes == code], fourth=fourth)
            for code, label in enumerate(known.names.tolist())
        }
        return replace(sums, kind="labels", classes=classes)

    def __add__(self, other: RunningSums) -> RunningSums:
        return replace(
            self,
            largest=max(self.largest, other.largest),
            eps=max(self.eps, other.eps),
            total=self.total + other.total,
            classes=_merged(self.classes, other.classes),
            finished=_merged(self.finished, other.finished),
            pairs=_sum(self.pairs, other.pairs),
            apart=_sum(self.apart, other.apart),
        )

    @property
    def varies(self) -> Any:
        """Which features are not constant but for rounding."""
        n, mean = self.total.n, self.total.mean
        variance = self.total.S.diagonal() / n
        return variance > n * _EPS * variance + (n * mean * _EPS) ** 2

    @property
    def scaler(self) -> Scaler:
        """The scaler of all rows so far, as `Scaler.fit` finds it."""
        center, n_features = self.total.mean * self.units, len(self.units)
        if self.scale == "cosine":
            return Scaler(center, np.ones(n_features), unit_rows=True)
        size = power_of_two(self.largest)
        if self.scale is None:
            return Scaler(center, np.ones(n_features))
        if self.scale == "unit":
            return Scaler(center, np.full(n_features, size))
        deviation = np.sqrt(self.total.S.diagonal() / self.total.n) * self.units
        return Scaler(center, np.where(self.varies, deviation, size))

    def axes(self, scaler: Scaler) -> Axes:
        """Return the space that all rows so far span, after scaling."""
        size = self._size(scaler)
        C = size[:, None] * self.total.S * size / max(1.0, self.total.n - 1)
        tolerance = min(self.total.n, len(C)) * self.eps
        return Axes.of_covariance(C, self.total.n, tolerance)

    def evidence(self, scaler: Scaler, axes: Axes) -> Evidence:
        """Return what closed forms need, in coordinates of the axes."""
        size = self._size(scaler) / np.sqrt(axes.unit)
        total = Listed(1.0, self.total.n, self.total.S, self.total.Q, self.total.mean)
        if self.kind == "rows":
            listed = [total]
        elif self.kind == "labels":
            listed = [Listed(1.0, m.n, m.S, m.Q, m.mean) for m in self.classes.values()]
        else:
            listed = [Listed(g.count, n, g.S, g.Q) for n, g in sorted(self.finished.items())]
        groups = SummedGroups(listed, total, size, axes)
        means = None if self.pairs is None else self.pairs.means
        return Evidence(
            groups,
            None if means is None else (groups.mapped(means[0]), groups.mapped(means[1])),
            None if self.apart is None else groups.mapped(self.apart),
        )

    def _size(self, scaler: Scaler) -> Vector:
        """Length of a unit of each feature after scaling."""
        return np.where(self.varies, self.units / scaler.scale, 0.0)


@dataclass(frozen=True, eq=False)
class Listed:
    """Groups of a size: how many, their rows, sums of their moments, and the mean of one."""

    count: float
    size: float
    S: Matrix
    Q: Matrix | None
    mean: Vector | None = None


class SummedGroups(GroupScatter):
    """Groups whose rows are gone, in coordinates of the span.

    Parameters
    ----------
    listed : list of Listed
    all_rows : Listed
    size : array of shape (n_features,)
        Length of a unit of each feature, in coordinates.
    axes : Axes
    """

    def __init__(
        self, listed: Sequence[Listed], all_rows: Listed, size: Vector, axes: Axes
    ) -> None:
        self._listed, self._all_rows, self._size, self._axes = listed, all_rows, size, axes
        self.sizes = np.array([entry.size for entry in listed], dtype=np.float64)
        self.counts = np.array([entry.count for entry in listed])
        means = [entry.mean for entry in listed if entry.mean is not None]
        scaled = np.array(means).reshape(-1, len(size)) * size
        self.means = scaled if axes.V is None else scaled @ axes.V

    def scatter(self, weight: Vector) -> Matrix:
        """sum_c w_c S_c."""
        S = np.zeros_like(self._all_rows.S)
        for w, entry in zip(weight, self._listed, strict=True):
            S += w * entry.S
        return self.mapped(S)

    def fourth_moments(self, weight: Vector) -> float:
        """sum_c w_c sum_{i in c} |x_i - m_c|^4; lengths in the span are those in all features."""
        squares, moments = self._size**2, 0.0
        for w, entry in zip(weight, self._listed, strict=True):
            assert entry.Q is not None
            moments += float(w * (squares @ entry.Q @ squares))
        return moments

    @property
    def total(self) -> SummedGroups:
        """All rows as one group."""
        return SummedGroups([self._all_rows], self._all_rows, self._size, self._axes)

    def mapped(self, S: Matrix) -> Matrix:
        """Return a scatter of rows in coordinates."""
        scaled = self._size[:, None] * S * self._size
        V = self._axes.V
        return scaled if V is None else V.T @ scaled @ V


def powers_of_two(X: Floats) -> Vector:
    """Return a power of two near the spread of each feature, or near its size if it has none."""
    spread = np.ptp(X, axis=0).astype(np.float64)
    size = np.where(spread > 0, spread, np.abs(X).max(axis=0))
    return np.array([power_of_two(value) for value in size.tolist()])


def _with_pairs(sums: RunningSums, R: Matrix, pairs: Pairs) -> RunningSums:
    """Add pairs: the groups that similar ones join, and what dissimilar ones tell apart."""
    if pairs.weight is not None:
        pairs = pairs.take(pairs.weight > 0)
    codes = _joined_rows(pairs, len(R))
    i, j = codes[pairs.index[~pairs.similar]].T
    apart = None
    if (i != j).any():
        edges = Edges(Groups(R, codes).means, i[i != j], j[i != j])
        apart = edges.matrix(np.ones(len(edges)))
    found = PairSums.of(R, pairs, unit=1.0) if len(pairs) else None
    return replace(sums, kind="pairs", finished=_by_size(R, codes), pairs=found, apart=apart)


def _joined_rows(pairs: Pairs, n_samples: int) -> Ints:
    """Return the group of each row that is in a pair, -1 for others; some groups have one row."""
    i, j = pairs.index[pairs.similar].T
    graph = csr_array((np.ones(len(i)), (i, j)), shape=(n_samples, n_samples))
    component = connected_components(graph, directed=False)[1]
    rows = np.unique(pairs.index)
    codes = np.full(n_samples, -1, dtype=np.intp)
    codes[rows] = np.unique(component[rows], return_inverse=True)[1]
    return codes


def _by_size(R: Matrix, ids: Ints) -> dict[int, SizeSums]:
    """Return the sums of groups, by their size."""
    rows = np.flatnonzero(ids >= 0)
    codes = np.unique(ids[rows], return_inverse=True)[1]
    found: dict[int, SizeSums] = {}
    for size, members in _of_each_size(codes):
        numbers = np.unique(codes[members], return_inverse=True)[1]
        S, Q = (np.zeros((R.shape[1], R.shape[1])) for _ in range(2))
        for _, d in Groups(R[rows[members]], numbers).centered():
            S += d.T @ d
            squares = d**2
            Q += squares.T @ squares
        found[size] = SizeSums(len(members) / size, S, Q)
    return found


def _of_each_size(codes: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each size of groups, and the positions of their members."""
    sizes = np.bincount(codes)[codes] if len(codes) else codes
    for size in np.unique(sizes).tolist():
        yield size, np.flatnonzero(sizes == size)


def _sum(first: Any, second: Any) -> Any:
    """Add two sums, either of which may be missing."""
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _merged(first: Mapping[Any, Any], second: Mapping[Any, Any]) -> dict[Any, Any]:
    """Add the sums of what both have."""
    new = {key: first[key] + value if key in first else value for key, value in second.items()}
    return {**first, **new}
