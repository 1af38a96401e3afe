"""All cores on long loops over rows or constraints, and BLAS kept quiet meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


class Threads:
    """Threads that share out slices of a range.

    How a range is cut does not depend on the number of threads, and results come in order: sums of
    them are the same on every machine. In a child process there is one thread, as its parent has
    shared out the cores already.

    Examples
    --------
    >>> from nearfar.runtime.threads import Threads
    >>> list(Threads().map(lambda part: part, 10, 4))
    [slice(0, 4, None), slice(4, 8, None), slice(8, 10, None)]
    """

    def map(self, work: Callable[[slice], T], n: int, size: int) -> Iterator[T]:
        """Apply `work` to the slices of ``range(n)`` of at most `size`."""
        parts = [slice(start, min(start + size, n)) for start in range(0, n, size)]
        if len(parts) == 1 or self.n_threads == 1:
            return map(work, parts)
        return self._pool.map(work, parts)

    @cached_property
    def n_threads(self) -> int:
        """Number of cores that this process may use."""
        if multiprocessing.parent_process() is not None:
            return 1
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.n_threads)


class _QuietBlas:
    """The number of BLAS threads belongs to the process: the first to enter sets it to one, the
    last to leave sets it back. They may be different threads; threadpoolctl (since 3.8) lets a
    thread that set a limit keep others from changing it until that is cleared.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._libraries: ThreadpoolController | None = None
        self._limit: Any = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._libraries = self._libraries or ThreadpoolController()
                self._claim()
                self._limit = self._libraries.limit(limits=1, user_api="blas")
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._claim()
                    self._limit.restore_original_limits()
                    self._claim()

    def _claim(self) -> None:
        """Let this thread set limits, whichever set them last."""
        for library in self._libraries.lib_controllers if self._libraries else ():
            clear = getattr(library, "clear_controlling_thread", None)
            if clear is not None:
                clear(force=True)


single_threaded_blas = _QuietBlas()
"""Keep BLAS to one thread: in many short calls its own threads cost more than they give."""


def with_single_threaded_blas(rounds: Generator[T, None, R]) -> Generator[T, None, R]:
    """Keep BLAS quiet while a generator works, and not while what it yields is looked at.

    Examples
    --------
    >>> from nearfar.runtime.threads import with_single_threaded_blas
    >>> list(with_single_threaded_blas(number for number in (1, 2)))
    [1, 2]
    """
    try:
        while True:
            with single_threaded_blas():
                try:
                    item = next(rounds)
                except StopIteration as end:
                    result: R = end.value
                    return result
            yield item
    finally:
        rounds.close()
