"""Errors by class: the largest class, and classes that are hardly ever found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearfar.typing import Array, Vector

# Share of the rows of a class; a class that is found less often may as well not be there.
_HARDLY_FOUND = 0.1


class ClassError(NamedTuple):
    """How many rows of a class were classified, and how many of them rightly."""

    name: object
    n_rows: int
    n_found: float


def errors_by_class(labels: Array, wrong: Vector) -> list[ClassError]:
    """Count the rows of each class that were classified rightly; nan for rows not tested.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.evaluate.class_errors import errors_by_class
    >>> errors_by_class(np.array(["a", "a", "b"]), np.array([0.0, 1.0, np.nan]))
    [ClassError(name='a', n_rows=2, n_found=1.0)]
    """
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
    name : object
    share : float
        Share of the rows.
    n_classes : int

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.evaluate.class_errors import LargestClass
    >>> largest = LargestClass.of(np.array(["a", "a", "a", "b"]))
    >>> largest.name, largest.error, largest.balanced_error
    ('a', 0.25, 0.5)
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
