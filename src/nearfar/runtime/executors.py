"""Executors: where the work on blocks of rows runs.

Work is a pure function and a list of tasks, the arguments of its calls. Results come in the order
of the tasks, so that sums of them do not depend on how many workers there are. By default tasks run
on the threads of this process; inside ``with executor(client)`` they run on a Dask cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, runtime_checkable

from nearfar.runtime.threads import Threads, single_threaded_libraries, worker_context

T = TypeVar("T")

_MEMORY = 1 << 29
"""Bytes that tasks on threads may use together."""


@runtime_checkable
class Executor(Protocol):
    """What runs tasks."""

    def map(
        self, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], *, memory: int = 0
    ) -> Iterator[T]:
        """Yield the results of a pure function for each tuple of arguments, in order.

        `memory` is how many bytes a task needs beyond its arguments and its result.
        """

    def hold(self, value: Any) -> Any:
        """Return what tasks take in place of a value that many of them need."""


class ThreadExecutor:
    """Runs tasks on the threads of this process.

    Examples
    --------
    >>> from nearfar.runtime.executors import ThreadExecutor
    >>> list(ThreadExecutor().map(pow, [(2, 3), (3, 2)]))
    [8, 9]
    """

    def map(
        self, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], *, memory: int = 0
    ) -> Iterator[T]:
        """Yield results in order; fewer threads work if tasks need much memory.

        Tasks are made when a thread is about to be free, so that few of them wait.
        """
        width = min(Threads().n_threads, max(1, _MEMORY // max(1, memory)))
        with single_threaded_libraries():
            if width <= 1:
                yield from (function(*task) for task in tasks)
                return
            context = worker_context()
            with ThreadPoolExecutor(width) as pool:
                waiting: deque[Future[T]] = deque()
                try:
                    for task in tasks:
                        waiting.append(pool.submit(context.copy().run, function, *task))
                        if len(waiting) > width:
                            yield waiting.popleft().result()
                    while waiting:
                        yield waiting.popleft().result()
                finally:
                    pool.shutdown(cancel_futures=True)

    def hold(self, value: Any) -> Any:
        """Return the value itself."""
        return value


_current: ContextVar[Executor | None] = ContextVar("executor", default=None)


def chosen_executor() -> Executor | None:
    """Return the executor of the innermost ``with executor(...)``, if there is one."""
    return _current.get()


def current_executor() -> Executor:
    """Return the executor to use: the chosen one, or threads."""
    return chosen_executor() or ThreadExecutor()


@contextmanager
def executor(client: Any) -> Iterator[Executor]:
    """Run fits to rows on disk with an executor, such as a Dask cluster.

    Parameters
    ----------
    client : dask.distributed.Client or Executor
        The workers read the rows themselves, so that files must have the same path on each of them,
        and nearfar must be installed there.

    Examples
    --------
    >>> import nearfar
    >>> from nearfar.runtime.executors import ThreadExecutor
    >>> with nearfar.executor(ThreadExecutor()) as chosen:
    ...     list(chosen.map(abs, [(-1,), (2,)]))
    [1, 2]
    """
    chosen = _as_executor(client)
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)


def _as_executor(client: Any) -> Executor:
    if type(client).__module__.partition(".")[0] == "distributed" and hasattr(client, "submit"):
        from nearfar.runtime.dask_executor import DaskExecutor

        return DaskExecutor(client)
    if isinstance(client, Executor) and not isinstance(client, type):
        return client
    raise TypeError(
        f"executor takes a dask.distributed.Client or an Executor; got {type(client).__name__}."
    )
