"""All cores on long loops over rows or constraints, and BLAS kept quiet meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TypeVar

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

T = TypeVar("T")


class Workers:
    """Threads that share out slices of a range.

    How a range is cut does not depend on the number of threads, and results come in order: sums of
    them are the same on every machine. Inside parallel jobs of joblib there is one thread.

    Examples
    --------
    >>> from nearfar.workers import Workers
    >>> list(Workers().map(lambda part: part, 10, 4))
    [slice(0, 4, None), slice(4, 8, None), slice(8, 10, None)]
    """

    def map(self, work: Callable[[slice], T], n: int, size: int) -> Iterator[T]:
        """Apply `work` to the slices of ``range(n)`` of at most `size`."""
        parts = [slice(start, min(start + size, n)) for start in range(0, n, size)]
        return map(work, parts) if len(parts) == 1 else self._pool.map(work, parts)

    def quiet_blas(self) -> AbstractContextManager[object]:
        """Keep BLAS to one thread: in many short calls its own threads cost more than they give."""
        return self._libraries.limit(limits=1, user_api="blas")

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(effective_n_jobs(-1))

    @cached_property
    def _libraries(self) -> ThreadpoolController:
        return ThreadpoolController()
