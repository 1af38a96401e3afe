"""`DaskExecutor`: tasks on the workers of a Dask cluster.

Tasks are pure functions. Their arguments, and values that are held, are part of the task graph,
which the scheduler keeps: what a worker that dies had computed or held is computed again elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import dask
from distributed import Client, Future

T = TypeVar("T")

# Weights of edges are arguments by design; Dask warns of graphs of more than 10 MB.
_LARGE_GRAPHS = {"distributed.admin.large-graph-warning-threshold": "1 TB"}


class DaskExecutor:
    """Runs tasks on the workers of a Dask cluster."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def map(
        self, function: Callable[..., T], tasks: Iterable[tuple[object, ...]], *, memory: int = 0
    ) -> Iterator[T]:
        """Yield results in order, and release each once it is here."""
        arguments = [list(values) for values in zip(*tasks, strict=True)]
        if not arguments:
            return
        with dask.config.set(_LARGE_GRAPHS):
            futures: list[Any] = self.client.map(function, *arguments, pure=False)
        for number, future in enumerate(futures):
            yield future.result()
            futures[number] = None

    def hold(self, value: object) -> Future[Any]:
        """Return a future that a worker holds, and that can be computed again."""
        with dask.config.set(_LARGE_GRAPHS):
            return self.client.submit(_same, value, pure=False)


def _same(value: T) -> T:
    return value
