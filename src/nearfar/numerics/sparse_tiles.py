"""The few entries of a tile of pairs that matter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearfar.typing import Ints


def sparse_nonzero(mask: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """`mask.nonzero()`, eight entries at a time: most of a tile has no candidate.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.sparse_tiles import sparse_nonzero
    >>> sparse_nonzero(np.array([[False, True, False]]))
    (array([0]), array([1]))
    """
    if mask.shape[1] % 8:
        mask = np.pad(mask, ((0, 0), (0, -mask.shape[1] % 8)))
    word = np.flatnonzero(mask.view(np.uint64))
    hit, byte = mask.reshape(-1, 8)[word].nonzero()
    i, j = np.divmod(word[hit] * 8 + byte, mask.shape[1])
    return i, j


def place_in_run(group: Ints) -> Ints:
    """Position of each element within its run of equal values.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.sparse_tiles import place_in_run
    >>> place_in_run(np.array([3, 3, 5]))
    array([0, 1, 0])
    """
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    return np.arange(len(group)) - np.repeat(starts, np.diff(starts, append=len(group)))
