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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar.typing import Array, Vector


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
