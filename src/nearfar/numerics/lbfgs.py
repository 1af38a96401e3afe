"""L-BFGS as a generator of iterations.

SciPy's L-BFGS-B calls back once per iteration. It runs in a thread of its own, which waits while
the consumer looks at an iteration: the consumer sees each as it happens, and may stop the search.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from nearfar.runtime.deadline import check_time
from nearfar.typing import Vector

Objective = Callable[[Vector], tuple[float, Vector]]
Bounds = list[tuple[float | None, float | None]]

# SciPy's default: more steps take more memory and time for an iteration.
_MEMORY = 10


def lbfgs(
    f: Objective,
    x: Vector,
    *,
    max_iter: int,
    tol: float,
    bounds: Bounds | None = None,
    memory: int = _MEMORY,
) -> Generator[tuple[float, Vector], None, str]:
    """Minimise a smooth function within bounds, an iteration at a time.

    Parameters
    ----------
    f : callable
        Point -> value and gradient.
    x : array of shape (n,)
        Where to begin.
    max_iter : int
        The most iterations.
    tol : float
        Relative decrease of the value at which to end.
    bounds : list of (low, high), optional
    memory : int, default=10
        Steps that are remembered.

    Yields
    ------
    value : float
    x : array of shape (n,)
        After each iteration; the start, if there is no iteration.

    Returns
    -------
    str
        "converged", "max_iter", or "stalled" if rounding ends the search along a line.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.lbfgs import lbfgs
    >>> steps = lbfgs(lambda x: (float(x @ x), 2 * x), np.ones(2), max_iter=9, tol=1e-9)
    >>> [round(value, 6) for value, x in steps][-1]
    0.0
    """
    options: Any = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": tol, "maxcor": memory}
    outbox: SimpleQueue[tuple[float, Vector] | str | BaseException] = SimpleQueue()
    ahead, stopped = threading.Semaphore(0), threading.Event()

    def value(x: Vector) -> tuple[float, Vector]:
        check_time()
        objective, gradient = f(x)
        if not np.isfinite(objective):
            raise ValueError(
                "The objective is not finite because the numbers are too large; "
                "try scale='standard'."
            )
        return objective, gradient

    def show(intermediate_result: OptimizeResult) -> None:
        """Put out an iterate, then wait to be told to go ahead."""
        outbox.put((float(intermediate_result.fun), intermediate_result.x.copy()))
        ahead.acquire()
        if stopped.is_set():
            raise StopIteration

    def search() -> None:
        callback: Any = show
        try:
            result = minimize(
                value,
                x,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                callback=callback,
                options=options | {"gtol": 0.0},
            )
            outbox.put({0: "converged", 1: "max_iter"}.get(result.status, "stalled"))
        except BaseException as error:
            outbox.put(error)

    worker = threading.Thread(target=copy_context().run, args=(search,), daemon=True)
    worker.start()
    moved = False
    try:
        while True:
            item = outbox.get()
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, str):
                if not moved:
                    yield f(x)[0], x
                return item
            moved = True
            yield item
            ahead.release()
    finally:
        # End the search at its next iterate, and wait for that.
        stopped.set()
        ahead.release()
        worker.join()
