"""`GroupedRows`: rows that are stored in groups which must be read whole."""

from __future__ import annotations

import threading
from abc import abstractmethod
from functools import cached_property
from itertools import pairwise

import numpy as np

from nearfar.rows.base import Rows, cut
from nearfar.typing import Floats, Ints


class GroupedRows(Rows):
    """Rows in groups, such as row groups of Parquet files and blocks of Dask arrays.

    Pieces do not cross groups. Each thread keeps the group that it read last, since it usually
    reads the next piece of the same group.

    Subclasses set `bounds`, of shape (n_groups + 1,): where groups start, and where the last ends.
    """

    bounds: Ints

    @abstractmethod
    def load(self, group: int) -> Floats:
        """Return the rows of a group."""

    def read(self, part: slice) -> Floats:
        """Read consecutive rows."""
        first = int(np.searchsorted(self.bounds, part.start, side="right")) - 1
        blocks: list[Floats] = [np.empty((0, self.shape[1]), dtype=self.dtype)]
        last = self._last
        for group in range(max(0, first), len(self.bounds) - 1):
            start, stop = (int(bound) for bound in self.bounds[group : group + 2])
            if start >= part.stop:
                break
            low, high = max(start, part.start), min(stop, part.stop)
            if low < high:
                if getattr(last, "group", None) != group:
                    # The rows of the last group are let go before others are read.
                    last.rows = None
                    last.rows = self.load(group)
                    last.group = group
                blocks.append(last.rows[low - start : high - start])
        return np.concatenate(blocks)

    @cached_property
    def _pieces(self) -> list[slice]:
        bounds = self.bounds.tolist()
        return [
            part for start, stop in pairwise(bounds) for part in cut(start, stop, self._piece_rows)
        ]

    @cached_property
    def _last(self) -> threading.local:
        return threading.local()
