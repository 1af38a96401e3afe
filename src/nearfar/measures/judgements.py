"""How wrong a distance is about each triplet or pair, with weights.

Errors by class: the largest class, and classes that are hardly ever found.

The variance of a mean over judgements that share rows.

Two judgements that share a row are not independent: they say something about the same thing. The
variance of a mean over n judgements with residuals r_t counts every two that share a row,

    v = sum_{t, t' share a row} r_t r_t' / n^2
      = (sum_i S_i^2 - sum_{i<j} S_ij^2 + sum_{i<j<k} S_ijk^2) / n^2,

where S_i is the sum of the residuals of the judgements with row i, S_ij that of those with rows i
and j, and so on: judgements that share k rows count k - C(k, 2) + C(k, 3) = 1 times. With rows in
place of people it is the variance of dyadic regression (P. M. Aronow, C. Samii, V. A. Assenova:
Cluster-robust variance estimation for dyadic data, Political Analysis 23, 2015).

It is at least the variance by groups: anchors of triplets, and connected pairs. If rows are in
groups themselves, judgements that share a group of rows count like those that share a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar.evidence.intervals import group_variance, mean_interval
from nearfar.supervision import Pairs, Triplets, kind_of
from nearfar.typing import Array, Ints, Vector


def misplaced(
    distances: Vector, similar: NDArray[np.bool_], weight: Vector | None = None
) -> Vector:
    """Return the share of pairs of the other kind that each pair is on the wrong side of.

    Shares are weighted, and a tie counts half. The weighted mean over the pairs of one kind is
    1 - AUC. If there are pairs of one kind only, none is misplaced.
    """
    weight = np.ones(len(distances)) if weight is None else weight
    wrong = np.zeros(len(distances))
    for kind, sign in ((similar, 1.0), (~similar, -1.0)):
        others, position = sign * distances[~kind], sign * distances[kind]
        order = np.argsort(others, kind="stable")
        below = np.concatenate([[0.0], np.cumsum(weight[~kind][order])])
        left, right = (np.searchsorted(others[order], position, side) for side in ("left", "right"))
        if below[-1] > 0:
            wrong[kind] = (below[left] + below[right]) / (2 * below[-1])
    return wrong


def judgement_shares(judgements: Triplets | Pairs) -> Vector:
    """Return the share of each judgement in a mean, in units of 1; both kinds of pairs count
    alike.
    """
    n = len(judgements)
    weight = np.ones(n) if judgements.weight is None else judgements.weight
    similar = getattr(judgements, "similar", None)
    if similar is None:
        return np.asarray(weight / weight.mean())
    totals = np.bincount(similar, weight, minlength=2)
    return np.asarray(weight * n / (2 * totals[similar.astype(np.intp)]))


# Share of the rows of a class; a class that is found less often may as well not be there.
_HARDLY_FOUND = 0.1


class ClassError(NamedTuple):
    """How many rows of a class were classified, and how many of them rightly."""

    name: object
    n_rows: int
    n_found: float


def errors_by_class(labels: Array, wrong: Vector) -> list[ClassError]:
    """Count the rows of each class that were classified rightly; nan for rows not tested."""
    tested = ~np.isnan(wrong)
    names, codes = np.unique(labels[tested], return_inverse=True)
    sizes, n_wrong = np.bincount(codes), np.bincount(codes, wrong[tested])
    return [
        ClassError(name, int(n), float(n - errors))
        for name, n, errors in zip(names.tolist(), sizes, n_wrong, strict=True)
    ]


def hardly_found(labels: Array, wrong: Vector) -> list[ClassError]:
    """Return the classes of which at most one row in ten is found, the largest first."""
    classes = errors_by_class(labels, wrong)
    lost = [each for each in classes if each.n_found <= _HARDLY_FOUND * each.n_rows]
    return sorted(lost, key=lambda each: -each.n_rows)


@dataclass(frozen=True)
class LargestClass:
    """The largest class, and the errors of always naming it.

    Attributes
    ----------
    share: Share of the rows.
    """

    name: object
    share: float
    n_classes: int

    @classmethod
    def of(cls, labels: Array) -> LargestClass:
        """Find the largest class."""
        names, sizes = np.unique(labels, return_counts=True)
        largest = int(sizes.argmax())
        return cls(names.tolist()[largest], float(sizes[largest] / sizes.sum()), len(names))

    @property
    def error(self) -> float:
        """Share of the rows of other classes."""
        return 1.0 - self.share

    @property
    def balanced_error(self) -> float:
        """Mean of the errors of the classes."""
        return 1.0 - 1.0 / self.n_classes


class OverlappingJudgements:
    """Judgements, by the rows that they share.

    Parameters
    ----------
    index: shape (n_judgements, 2 or 3). Row numbers of each, or numbers of their groups.
    groups: shape (n_judgements,). Number of the group of each.
    weight: shape (n_judgements,). Share of each in a mean, in units of 1; by default 1.
    degree: What a judgement changes in the mean, as a multiple of its own term. It is 2 for
        the area under a ROC curve, where each pair is also compared with those of the other
        kind.
    """

    def __init__(
        self, index: Ints, groups: Ints, weight: Vector | None = None, degree: float = 1.0
    ) -> None:
        self.groups = groups
        self.weight = np.ones(len(index)) if weight is None else weight
        self.degree = degree
        rows, ordered = np.unique(np.sort(index, axis=1), return_inverse=True)
        self._rows, self._n_rows = ordered.reshape(index.shape), len(rows)
        twice = np.zeros(index.shape, dtype=bool)
        twice[:, 1:] = self._rows[:, 1:] == self._rows[:, :-1]
        # A group that is in a judgement twice counts once; numbers of their own share nothing.
        n_numbers = len(rows) + int(twice.sum())
        self._rows[twice] = np.arange(len(rows), n_numbers)
        sizes = range(1, index.shape[1] + 1)
        self._sets = [_numbered(self._rows, size, n_numbers) for size in sizes]

    def __len__(self) -> int:
        return len(self.groups)

    @classmethod
    def of(
        cls,
        judgements: Triplets | Pairs,
        groups: Ints | None = None,
        row_groups: Ints | None = None,
    ) -> OverlappingJudgements:
        """Return triplets or pairs with their weights, by default in groups of their own.

        `groups` are those of judgements, and `row_groups` those of rows.
        """
        index = judgements.index
        if row_groups is not None:
            index = row_groups[index]
            groups = index.min(axis=1) if groups is None else groups
        groups = judgements.groups() if groups is None else groups
        degree = 2.0 if kind_of(judgements) == "pairs" else 1.0
        return cls(index, groups, judgement_shares(judgements), degree)

    def variance(self, values: Vector) -> float:
        """Return the variance of the mean; nan marks judgements that were not made."""
        known = ~np.isnan(values)
        n = int(known.sum())
        if n == 0:
            return 0.0
        r = np.where(known, values - float(values[known].mean()) * self.weight, 0.0)
        by_rows = 0.0
        for number, sets in enumerate(self._sets):
            sums = np.bincount(sets.ravel(), np.tile(r, len(sets)))
            by_rows += (-1) ** number * float(sums @ sums)
        n_rows = int((np.unique(self._rows[known]) < self._n_rows).sum())
        # Residuals are too small, as the mean is that of the same rows; as in the jackknife.
        by_rows *= (n_rows / max(n_rows - len(self._sets), 1) / n) ** 2
        by_group = group_variance(r[known], self.groups[known])[0]
        return self.degree**2 * max(by_rows, by_group)

    def n_groups(self, values: Vector) -> int:
        """Return the number of groups with judgements."""
        return len(np.unique(self.groups[~np.isnan(values)]))

    def interval(self, values: Vector) -> tuple[float, float]:
        """Return the 90 % interval of the mean."""
        known = values[~np.isnan(values)]
        n = self.n_groups(values)
        mean = float(known.mean()) if n else 0.0
        return mean_interval(mean, self.variance(values), n, grouped=True)


def _numbered(rows: Ints, size: int, n_rows: int) -> Ints:
    """Return a number for each set of rows that a judgement has, one set a line."""
    codes = [
        np.ravel_multi_index(tuple(rows[:, columns].T), (n_rows,) * size)
        for columns in map(list, combinations(range(rows.shape[1]), size))
    ]
    return np.unique(np.array(codes), return_inverse=True)[1].reshape(len(codes), len(rows))
