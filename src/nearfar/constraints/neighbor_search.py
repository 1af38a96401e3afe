"""Which search mines triplets: exact for all rows, approximate, or exact for some anchors.

    exact         all rows against all rows
    approximate   an index of faiss, with measured recall
    anchors       a random sample of rows against all rows

"auto" is exact up to `EXACT_PRODUCTS`. Beyond that it is approximate if faiss is installed and the
rows are in memory, and takes anchors otherwise. A `Mining` says what was done; learners collect it
with `mining_reports`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length

from nearfar.constraints.anchor_mining import anchor_neighbors
from nearfar.constraints.approximate_mining import approximate_neighbors, has_faiss
from nearfar.constraints.mining import class_neighbors
from nearfar.rows import Points, Rows
from nearfar.typing import Ints

Search = Literal["auto", "exact", "approximate", "anchors"]
SEARCHES = ("auto", "exact", "approximate", "anchors")

EXACT_PRODUCTS = 1.5e12
"""Cost up to which "auto" is exact: about a minute on one core; see `search_cost`."""

FEWEST_ANCHORS = 2_000
"""Anchors that "auto" takes at least."""

_COST_OF_A_PAIR = 64


@dataclass(frozen=True)
class Mining:
    """How triplets were mined.

    Attributes
    ----------
    search : {"exact", "approximate", "anchors"}
    n_rows : int
        Number of rows that were searched.
    n_anchors : int
        Number of rows whose neighbours were searched for.
    target_recall, impostor_recall : float
        Share of the exact neighbours that were found; measured if the search is approximate.
    n_measured : int
        Number of rows that the recall was measured on.

    Examples
    --------
    >>> from nearfar.constraints import Mining
    >>> print(Mining("anchors", n_rows=10_000_000, n_anchors=2_000))
    Triplets mined exactly for 2,000 anchors, a random sample of 10,000,000 rows.
    """

    search: str
    n_rows: int
    n_anchors: int
    target_recall: float = 1.0
    impostor_recall: float = 1.0
    n_measured: int = 0

    def __str__(self) -> str:
        if self.search == "exact":
            return f"Triplets mined exactly for all {self.n_rows:,} rows."
        if self.search == "anchors":
            return (
                f"Triplets mined exactly for {self.n_anchors:,} anchors, a random sample of "
                f"{self.n_rows:,} rows."
            )
        return (
            f"Triplets mined approximately for all {self.n_rows:,} rows: "
            f"{100 * self.target_recall:.1f} % of the nearest targets and "
            f"{100 * self.impostor_recall:.1f} % of the nearest impostors were found, measured on "
            f"{self.n_measured:,} rows."
        )


def search_cost(n_anchors: int, n_rows: int, n_features: int) -> float:
    """Return the cost of an exact search, in products of two numbers.

    A pair of rows costs its D products, and about as much as 64 more to find out that it is not
    among the nearest.
    """
    return float(n_anchors) * n_rows * (n_features + _COST_OF_A_PAIR)


def find_neighbors(
    X: Points,
    y: NDArray[np.integer],
    n_targets: int,
    n_impostors: int,
    *,
    search: Search,
    n_anchors: int | None,
    random_state: np.random.RandomState,
) -> tuple[Ints, Ints, Ints]:
    """Find neighbours of the same and of other classes, and report how.

    Parameters
    ----------
    X : array or Rows of shape (n_samples, n_features)
    y : array of shape (n_samples,)
        Class codes.
    n_targets, n_impostors : int
        How many of each to find.
    search : {"auto", "exact", "approximate", "anchors"}
    n_anchors : int or None
        Number of anchors; by default as many as `EXACT_PRODUCTS` allows, and at least
        `FEWEST_ANCHORS`.
    random_state : RandomState
        Not used by the exact search.

    Returns
    -------
    anchors : array of int of shape (n_anchors,)
    targets : array of int of shape (n_anchors, n_targets)
        -1 where there are too few.
    impostors : array of int of shape (n_anchors, n_impostors)
    """
    check_consistent_length(X, y)
    n, everyone = len(X), np.arange(len(X))
    chosen = _chosen(X, search)
    if chosen == "approximate":
        _check_approximate(X)
        assert not isinstance(X, Rows)
        found = approximate_neighbors(X, y, n_targets, n_impostors, random_state)
        recalls = (found.target_recall, found.impostor_recall, found.n_measured)
        _report(Mining("approximate", n, n, *recalls))
        return everyone, found.targets, found.impostors
    if chosen == "anchors":
        anchors = _sample(y, n_anchors or _affordable(X), random_state)
        _report(Mining("anchors", n, len(anchors)))
        return anchors, *anchor_neighbors(X, y, anchors, n_targets, n_impostors)
    _report(Mining("exact", n, n))
    if isinstance(X, Rows):
        return everyone, *anchor_neighbors(X, y, everyone, n_targets, n_impostors)
    return everyone, *class_neighbors(X, y, n_targets, n_impostors)


@contextmanager
def mining_reports() -> Iterator[list[Mining]]:
    """Collect what searches report in this block.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import NearestTriplets
    >>> from nearfar.constraints import mining_reports
    >>> with mining_reports() as reports:
    ...     triplets = NearestTriplets()(np.eye(4), np.array([0, 0, 1, 1]))
    >>> reports[0].search
    'exact'
    """
    reports: list[Mining] = []
    token = _reports.set(reports)
    try:
        yield reports
    finally:
        _reports.reset(token)


_reports: ContextVar[list[Mining] | None] = ContextVar("mining", default=None)


def _report(mining: Mining) -> None:
    reports = _reports.get()
    if reports is not None:
        reports.append(mining)


def _chosen(X: Points, search: Search) -> str:
    if search != "auto":
        return search
    if search_cost(len(X), len(X), X.shape[1]) <= EXACT_PRODUCTS:
        return "exact"
    return "approximate" if has_faiss() and not isinstance(X, Rows) else "anchors"


def _check_approximate(X: Points) -> None:
    if isinstance(X, Rows):
        raise ValueError(
            "search='approximate' needs rows in memory, where its index is; use search='anchors'."
        )
    if not has_faiss():
        raise ImportError(
            "search='approximate' needs faiss; install nearfar[faiss], or use search='anchors'."
        )


def _affordable(X: Points) -> int:
    return max(FEWEST_ANCHORS, int(EXACT_PRODUCTS / search_cost(1, len(X), X.shape[1])))


def _sample(y: NDArray[np.integer], n_anchors: int, random_state: np.random.RandomState) -> Ints:
    """Draw rows whose class has another member, in ascending order."""
    codes = np.unique(y, return_inverse=True)[1]
    rows = np.flatnonzero(np.bincount(codes)[codes] > 1)
    if len(rows) <= n_anchors:
        return rows
    return np.sort(random_state.choice(rows, n_anchors, replace=False))
