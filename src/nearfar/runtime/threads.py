"""Threads for long loops over rows or constraints, and the number of BLAS threads meanwhile."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cached_property
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController, threadpool_limits

T = TypeVar("T")
R = TypeVar("R")

_limit: ContextVar[int | None] = ContextVar("n_jobs", default=None)


@contextmanager
def limited_threads(n_jobs: int | None) -> Iterator[None]:
    """Use at most `n_jobs` threads in this block, those of BLAS included.

    None leaves the choice as it is; -1 stands for all cores, -2 for all but one.

    Examples
    --------
    >>> from nearfar.runtime.threads import Threads, limited_threads
    >>> with limited_threads(1):
    ...     Threads().n_threads
    1
    """
    if n_jobs is None:
        yield
        return
    number = n_jobs if n_jobs > 0 else max(1, _n_cores() + 1 + n_jobs)
    token = _limit.set(number)
    try:
        with threadpool_limits(number, user_api="blas") if n_jobs != -1 else nullcontext():
            yield
    finally:
        _limit.reset(token)


class Threads:
    """Threads that share the slices of a range.

    The slices do not depend on the number of threads, and results come in order, so that sums of
    them are the same on every machine. A child process uses one thread, because its parent has
    already shared out the cores.

    Examples
    --------
    >>> from nearfar.runtime.threads import Threads
    >>> list(Threads().map(lambda part: part, 10, 4))
    [slice(0, 4, None), slice(4, 8, None), slice(8, 10, None)]
    """

    def __init__(self) -> None:
        self.n_threads = _limit.get() or _n_cores()

    def map(self, work: Callable[[slice], T], n: int, size: int) -> Iterator[T]:
        """Apply `work` to the slices of ``range(n)`` of at most `size`."""
        parts = [slice(start, min(start + size, n)) for start in range(0, n, size)]
        if len(parts) == 1 or self.n_threads == 1:
            return map(work, parts)
        return self._pool.map(work, parts)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.n_threads)


def _n_cores() -> int:
    """Return the number of cores that this process may use, within its affinity and quota."""
    if multiprocessing.parent_process() is not None:
        return 1
    return int(joblib.cpu_count())


class _SingleThreadedBlas:
    """Context manager that several threads may enter at once.

    The number of threads of most BLAS libraries belongs to the process: the first to enter sets it
    to one, the last to leave restores it. They may be different threads; since version 3.8
    threadpoolctl lets a thread that set a limit keep others from changing it until that is cleared.
    In libraries that use OpenMP, as that of faiss does, the number belongs to the thread: each sets
    and restores its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._shared: list[Any] = []
        self._per_thread: list[Any] = []
        self._before: list[int] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._find_libraries()
                self._before = self._set(self._shared, [1] * len(self._shared))
        own = self._set(self._per_thread, [1] * len(self._per_thread))
        try:
            yield
        finally:
            self._set(self._per_thread, own)
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._set(self._shared, self._before)

    def _find_libraries(self) -> None:
        """Look for BLAS libraries, once."""
        if self._shared or self._per_thread:
            return
        for library in ThreadpoolController().select(user_api="blas").lib_controllers:
            is_openmp = getattr(library, "threading_layer", None) == "openmp"
            (self._per_thread if is_openmp else self._shared).append(library)

    def _set(self, libraries: list[Any], numbers: list[int]) -> list[int]:
        """Set numbers of threads, and return what they were."""
        before = [library.get_num_threads() for library in libraries]
        for library, number in zip(libraries, numbers, strict=True):
            # Let this thread set the limit, whichever set it last.
            clear = getattr(library, "clear_controlling_thread", lambda **_: None)
            clear(force=True)
            library.set_num_threads(number)
            clear(force=True)
        return before


single_threaded_blas = _SingleThreadedBlas()
"""Keep BLAS to one thread: in many short calls its own threads cost more than they gain."""


def with_single_threaded_blas(items: Generator[T, None, R]) -> Generator[T, None, R]:
    """Keep BLAS to one thread while a generator runs, but not while its consumer does.

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
                    item = next(items)
                except StopIteration as end:
                    result: R = end.value
                    return result
            yield item
    finally:
        items.close()
