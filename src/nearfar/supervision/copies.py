"""Copies of rows: equal rows, and rows that differ far less than others do.

A row whose copy was learned from tests nothing. Copies therefore stay on one side of every split,
unless groups are given: labelled copies are a group, and judgements of copies become judgements of
the first of them.

Near copies are found without comparing pairs. Columns are divided by the median difference of two
rows, and rows are projected on a few random lines, and so into the cells of a grid. Rows that share
a small cell are near copies if a cell three times as wide joins hardly any others. Without near
copies it would join three times as many or more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearfar.evidence.splits import components
from nearfar.supervision.constraints import Pairs, Triplets
from nearfar.supervision.supervision import Supervision
from nearfar.typing import Array, Floats, Ints, Matrix

# Fewer copies than this share of the rows hardly change a figure, and are left alone.
_LEAST_SHARE = 0.01

# Fewer lines would put rows that differ into one cell; more take longer.
_LINES = 8

# Near copies are on two sides of an edge in some grids, hardly in all.
_GRIDS = 4

# Widths of cells, in median differences of two rows, each about three times the next.
_WIDTHS = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)

# By how much the wider of two cells may change the number of near copies, and that of others.
_FLAT = 0.1

# Fewer rows may share a cell by chance.
_FEWEST_NEAR = 5

# If more rows are equal or near, they are cases of a few kinds, not copies.
_MOST_SHARE = 0.9

# With fewer different rows in a class, there is nothing to hold out.
_GROUPS_PER_CLASS = 3

# Near copies are not looked for among more rows.
_MOST_ROWS = 200_000

# Numbers of cells must fit into 64 bits: this by the smallest width is 1e16.
_FARTHEST = 1e12

# Rows that medians are taken of.
_SAMPLE = 500

# Numbers in a block of rows, which bounds the memory of their copies.
_BLOCK = 1 << 21


@dataclass(frozen=True, eq=False)
class Copies:
    """Which rows are copies of earlier ones.

    Attributes
    ----------
    first: shape (n_rows,). The first of the copies of each row; its own number, if there is
        none before it.
    n_near: Number of near copies; other copies are equal.
    """

    first: Ints
    n_near: int

    def __len__(self) -> int:
        """Return the number of rows that are copies of earlier ones."""
        return int((self.first != np.arange(len(self.first))).sum())

    def __str__(self) -> str:
        nearly = ", or nearly" if self.n_near else ""
        is_ = "is" if len(self) == 1 else "are"
        return (
            f"{len(self)} of {len(self.first)} rows {is_} equal to earlier rows{nearly}; equal "
            "rows stay on one side of every split"
        )


def keep_copies_together(X: Floats, known: Supervision) -> tuple[Supervision, Copies | None]:
    """Return supervision that never has copies on both sides of a split, and the copies.

    Equal rows with different labels or numbers are different cases, not copies, and so are rows
    that repeat ten times on average, or classes of less than three different rows. In these cases,
    if copies are less than one row in a hundred, if there are groups already, or if whole chunklets
    are held out, the supervision stays the same, and the copies are None.

    Parameters
    ----------
    known: Of these rows.
    """
    if known.groups is not None or known.kind in ("chunklets", "nothing"):
        return known, None
    if known.listed:
        constraints: Triplets | Pairs = known.given
        judged = np.unique(constraints.index)
        copies = find_copies(X[judged])
        if copies is None:
            return known, None
        # Judgements of copies become judgements of the first, but for those that tell copies apart.
        first = np.arange(known.n_rows)
        first[judged] = judged[copies.first]
        index = first[constraints.index]
        distinct = np.all(np.diff(np.sort(index, axis=1), axis=1) > 0, axis=1, keepdims=True)
        index = np.where(distinct, index, constraints.index)
        return replace(known, given=replace(constraints, index=index)), copies
    labelled = known.kind == "labels"
    copies = find_copies(X, known.codes if labelled else known.given)
    if copies is None:
        return known, None
    groups = np.unique(copies.first, return_inverse=True)[1]
    if labelled and int(groups.max()) + 1 < _GROUPS_PER_CLASS * len(np.unique(known.codes)):
        return known, None
    return replace(known, groups=groups), copies


def comparable_rows(X: Any) -> Floats:
    """Return numbers that are equal where rows are, and no nearer than others where they are not.

    Parameters
    ----------
    X: Whatever a pipeline may take.
    """
    random = np.random.RandomState(0)
    if hasattr(X, "tocsr"):
        return np.asarray(X @ random.standard_normal((X.shape[1], _LINES)))
    rows = np.asarray(X)
    rows = rows.reshape(len(rows), -1)
    if rows.dtype.kind in "fiub" and np.isfinite(rows).all():
        return rows.astype(np.float64)
    # Each value of a column is a random number: only equal ones are near each other.
    words = [
        [str(c.tolist() if isinstance(c, np.ndarray) else c) for c in cells] for cells in rows.T
    ]
    codes = [np.unique(cells, return_inverse=True)[1] for cells in words]
    return np.column_stack([random.standard_normal(len(rows))[code] for code in codes])


def find_copies(X: Floats, values: Array | None = None) -> Copies | None:
    """Find copies of rows; None if they are less than one row in a hundred, or nearly all.

    Parameters
    ----------
    values: shape (n_rows,). Labels or numbers. Equal rows that differ in these are not
        copies.
    """
    if len(X) < 2:
        return None
    rows = np.arange(len(X))
    # Zeros of either sign are equal.
    hashes = (hash(row.tobytes()) for block in _blocks(X) for row in block + 0.0)
    equal = _first_of(np.fromiter(hashes, dtype=np.int64, count=len(X)))
    distinct = np.flatnonzero(equal == rows)
    first = np.empty_like(rows)
    first[distinct] = distinct[_first_of(_near_groups(X, distinct))]
    first = first[equal]
    if values is not None:
        mixed = first[np.flatnonzero(values != values[first])]
        first = np.where(np.isin(first, mixed), rows, first)
    copies = Copies(first, int((first[distinct] != distinct).sum()))
    likely = max(1, _LEAST_SHARE * len(X)) <= len(copies) <= _MOST_SHARE * len(X)
    return copies if likely else None


def _first_of(numbers: Ints) -> Ints:
    """Return the first place of each number."""
    _, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    return np.asarray(first[place])


def _near_groups(X: Floats, rows: Ints) -> Ints:
    """Return the group of near copies of some rows; each has its own if there are none."""
    if len(rows) > _MOST_ROWS:
        return np.arange(len(rows))
    # Project rows on random lines; two rows typically differ by about one unit on each.
    random = np.random.RandomState(0)
    sample = X[random.permutation(len(X))[:_SAMPLE]].astype(np.float64)
    with np.errstate(all="ignore"):
        differences = np.sort(np.abs(sample - np.roll(sample, 1, axis=0)), axis=0)
        n_different = (differences > 0).sum(axis=0)
        middle = len(sample) - (n_different + 1) // 2
        unit = np.take_along_axis(differences, np.minimum(middle, len(sample) - 1)[None], 0)[0]
        lines = random.standard_normal((X.shape[1], _LINES)) / np.sqrt(X.shape[1])
        lines[n_different > 0] /= unit[n_different > 0, None]
        center = np.median(sample, axis=0)
        P = np.concatenate([(block - center) @ lines for block in _blocks(X)])
    P = np.clip(np.nan_to_num(P), -_FARTHEST, _FARTHEST)[rows]
    wide = _share_a_cell(P, _WIDTHS[0])
    for width in _WIDTHS[1:]:
        n_wide = int(wide.max(initial=-1)) + 1
        if n_wide == len(rows):
            break
        narrow = _share_a_cell(P, width)
        n_groups = int(narrow.max()) + 1
        n_near = len(rows) - n_groups
        likely = max(_FEWEST_NEAR, _LEAST_SHARE * len(rows)) <= n_near <= _MOST_SHARE * len(rows)
        if likely and n_groups - n_wide <= _FLAT * min(n_near, n_groups):
            return narrow
        wide = narrow
    return np.arange(len(rows))


def _share_a_cell(P: Matrix, width: float) -> Ints:
    """Number the groups of rows that share a cell of a grid, of which there are several."""
    random = np.random.RandomState(0)
    factors = random.randint(1 << 62, size=P.shape[1]) | 1
    firsts = []
    for _ in range(_GRIDS):
        cells = np.floor(P / width + random.uniform(size=P.shape[1])).astype(np.int64)
        firsts.append(_first_of((cells * factors).sum(axis=1)))
    return components(np.tile(np.arange(len(P)), _GRIDS), np.concatenate(firsts), len(P))


def _blocks(X: Floats) -> Iterator[Floats]:
    size = max(1, _BLOCK // X.shape[1])
    for start in range(0, len(X), size):
        yield X[start : start + size]
