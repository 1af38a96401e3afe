"""`DaskRows`: rows of a Dask array, computed one block at a time.

The array is a recipe: a worker gets it and computes the blocks that it needs, as it would read them
from a file. Blocks are not kept. Work runs on the array's client, if there is one.
"""

from __future__ import annotations

import sys
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from nearfar.rows.files import GroupedRows
from nearfar.runtime.threads import Executor, chosen_executor, current_executor
from nearfar.typing import Floats

_executors: WeakKeyDictionary[Any, Executor] = WeakKeyDictionary()


class DaskRows(GroupedRows):
    """Rows of a Dask array."""

    def __init__(self, array: Any) -> None:
        if getattr(array, "ndim", 0) != 2 or array.dtype.kind not in "fiub":
            raise ValueError("X must be a two-dimensional Dask array of numbers.")
        if np.isnan(array.shape).any():
            raise ValueError("The Dask array has unknown sizes; call compute_chunk_sizes() first.")
        # Blocks that are futures can be resolved on their cluster only.
        future = getattr(sys.modules.get("distributed"), "Future", ())
        if any(isinstance(value, future) for value in dict(array.dask).values()):
            raise ValueError(
                "The Dask array is persisted; pass the array before persist(), so that workers "
                "can compute blocks again."
            )
        self.array = array
        self.bounds = np.concatenate([[0], np.cumsum(array.chunks[0])]).astype(np.intp)
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)

    @property
    def executor(self) -> Executor:
        """The chosen executor, or the default client."""
        if (chosen := chosen_executor()) is not None:
            return chosen
        try:
            from distributed import Client

            client = Client.current()
        except (ImportError, ValueError):
            return current_executor()
        if client not in _executors:
            from nearfar.runtime.dask_executor import DaskExecutor

            _executors[client] = DaskExecutor(client)
        return _executors[client]

    def load(self, group: int) -> Floats:
        """Compute a block of rows."""
        block = self.array.blocks[group, :].compute(scheduler="synchronous")
        return np.asarray(block, dtype=self.dtype)
