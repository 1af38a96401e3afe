"""Where work runs: threads of this process, or the workers of an executor such as a Dask cluster.

Work is a pure function of slices or tasks. Results come in order, so that sums of them do not
depend on how many threads or workers there are. Inside ``with executor(client)``, work on blocks of
rows that are not in memory runs on a cluster.

BLAS has threads of its own. In many short calls, such as those of an eigendecomposition, they cost
more than they gain, and beside other busy processes they wait for each other without sleeping: fits
were up to thirty times slower. Inside a fit (`limited_threads`) and inside blocks of work
(`Threads.map`), every BLAS library has one thread, NumPy's as well as SciPy's, and so has OpenMP,
which scikit-learn uses. Large products are divided into blocks (`numerics.linear_algebra`). Blocks
do not depend on the number of threads, so that results do not either.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any, Protocol, TypeVar, runtime_checkable

import joblib
from threadpoolctl import ThreadpoolController

from nearfar.runtime.progress import current_levels

T = TypeVar("T")

# Bytes that tasks on threads may use together.
_MEMORY = 1 << 29

_limit: ContextVar[int | None] = ContextVar("n_jobs", default=None)


@contextmanager
def limited_threads(n_jobs: int | None = None) -> Iterator[None]:
    """Use at most `n_jobs` threads in this block, and one in BLAS and OpenMP.

    None leaves the number as it is; -1 stands for all cores, -2 for all but one.
    """
    if n_jobs is None:
        number = _limit.get() or _n_cores()
    else:
        number = n_jobs if n_jobs > 0 else max(1, _n_cores() + 1 + n_jobs)
    token = _limit.set(number)
    try:
        with single_threaded_libraries():
            yield
    finally:
        _limit.reset(token)


class Threads:
    """Threads that share the slices of a range.

    The slices do not depend on the number of threads, and results come in order, so that sums of
    them are the same on every machine. Libraries have one thread in each. Work inside a slice and
    child processes use one thread, because the cores are already shared out.
    """

    def __init__(self) -> None:
        self.n_threads = _limit.get() or _n_cores()

    def map(self, work: Callable[[slice], T], n: int, size: int) -> Iterator[T]:
        """Apply `work` to the slices of ``range(n)`` of at most `size`."""
        parts = [(slice(start, min(start + size, n)),) for start in range(0, n, size)]
        return _on_threads(work, parts, min(self.n_threads, len(parts)))


def _on_threads(
    function: Callable[..., T], tasks: Iterable[tuple[object, ...]], width: int
) -> Generator[T, None, None]:
    """Yield results in order; tasks are made when a thread is about to be free."""

    def alone(*task: object) -> T:
        with single_threaded_libraries():
            return function(*task)

    if width <= 1:
        yield from (alone(*task) for task in tasks)
        return
    context = worker_context()
    with ThreadPoolExecutor(width) as pool:
        waiting: deque[Future[T]] = deque()
        try:
            for task in tasks:
                waiting.append(pool.submit(context.copy().run, alone, *task))
                if len(waiting) > width:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def worker_context() -> Context:
    """Return a copy of this context, with its deadline, in which work uses one thread.

    Progress is that of the loop which collects the results.
    """
    context = copy_context()
    context.run(_limit.set, 1)
    context.run(current_levels.set, None)
    return context


def _n_cores() -> int:
    """Return the number of cores that this process may use, within its affinity and quota."""
    if multiprocessing.parent_process() is not None:
        return 1
    return int(joblib.cpu_count())


class _SingleThreadedLibraries:
    """Context manager that several threads may enter at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._n_modules = 0
        self._known: set[str] = set()
        self._shared: list[Any] = []
        self._per_thread: list[Any] = []
        self._before: list[int] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._n_modules != len(sys.modules):
                # Look for libraries that were loaded since the last time.
                self._n_modules = len(sys.modules)
                for library in ThreadpoolController().lib_controllers:
                    if library.filepath not in self._known:
                        self._known.add(library.filepath)
                        layers = (library.user_api, getattr(library, "threading_layer", None))
                        libraries = self._per_thread if "openmp" in layers else self._shared
                        libraries.append(library)
            self._inside += 1
            if self._inside == 1:
                self._before = []
            self._before += _set(self._shared[len(self._before) :])
        own = self._per_thread[:]
        before = _set(own)
        try:
            yield
        finally:
            _set(own, before)
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    _set(self._shared[: len(self._before)], self._before)


def _set(libraries: list[Any], numbers: list[int] | None = None) -> list[int]:
    """Set numbers of threads, by default one, and return what they were."""
    # Read all before the first is set: some libraries share a number.
    before = [library.get_num_threads() for library in libraries]
    for library, number in zip(libraries, numbers or [1] * len(libraries), strict=True):
        # Let this thread set the limit, whichever set it last.
        clear = getattr(library, "clear_controlling_thread", lambda **_: None)
        clear(force=True)
        library.set_num_threads(number)
        clear(force=True)
    return before


single_threaded_libraries = _SingleThreadedLibraries()
"""Keep BLAS and OpenMP to one thread, whoever else does so at the same time."""


@runtime_checkable
class Executor(Protocol):
    """What runs tasks."""

    def map(
        self, function: Callable[..., T], tasks: Iterable[tuple[object, ...]], *, memory: int = 0
    ) -> Iterator[T]:
        """Yield the results of a pure function for each tuple of arguments, in order.

        `memory` is how many bytes a task needs beyond its arguments and its result.
        """

    def hold(self, value: object) -> Any:
        """Return what tasks take in place of a value that many of them need."""


class ThreadExecutor:
    """Runs tasks on the threads of this process."""

    def map(
        self, function: Callable[..., T], tasks: Iterable[tuple[object, ...]], *, memory: int = 0
    ) -> Generator[T, None, None]:
        """Yield results in order; fewer threads work if tasks need much memory."""
        width = min(Threads().n_threads, max(1, _MEMORY // max(1, memory)))
        return _on_threads(function, tasks, width)

    def hold(self, value: object) -> Any:
        """Return the value itself."""
        return value


# Weights of edges are arguments by design; Dask warns of graphs of more than 10 MB.
_LARGE_GRAPHS = {"distributed.admin.large-graph-warning-threshold": "1 TB"}


class DaskExecutor:
    """Runs tasks on the workers of a Dask cluster.

    Arguments, and values that are held, are part of the task graph, which the scheduler keeps: what
    a worker that dies had computed or held is computed again elsewhere.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def map(
        self, function: Callable[..., T], tasks: Iterable[tuple[object, ...]], *, memory: int = 0
    ) -> Iterator[T]:
        """Yield results in order, and release each once it is here."""
        arguments = [list(values) for values in zip(*tasks, strict=True)]
        if not arguments:
            return
        futures = self._on_cluster(self.client.map, function, *arguments)
        for number, future in enumerate(futures):
            yield future.result()
            futures[number] = None

    def hold(self, value: object) -> Any:
        """Return a future that a worker holds, and that can be computed again."""
        return self._on_cluster(self.client.submit, _same, value)

    def _on_cluster(self, start: Callable[..., Any], *given: object) -> Any:
        import dask

        with dask.config.set(_LARGE_GRAPHS):
            return start(*given, pure=False)


def _same(value: T) -> T:
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
    >>> from nearfar.runtime.threads import ThreadExecutor
    >>> with nearfar.executor(ThreadExecutor()) as chosen:
    ...     list(chosen.map(abs, [(-1,), (2,)]))
    [1, 2]
    """
    if type(client).__module__.partition(".")[0] == "distributed" and hasattr(client, "submit"):
        client = DaskExecutor(client)
    if not isinstance(client, Executor) or isinstance(client, type):
        raise TypeError(
            f"executor takes a dask.distributed.Client or an Executor; got {type(client).__name__}."
        )
    token = _current.set(client)
    try:
        yield client
    finally:
        _current.reset(token)
