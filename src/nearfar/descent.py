"""Smooth minimisation as a generator of rounds.

SciPy's L-BFGS-B calls back once an iteration. It runs in a thread of its own, which waits while a
round is looked at: whoever consumes the rounds sees each as it happens, and may stop the search.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Vector = NDArray[np.float64]
Objective = Callable[[Vector], tuple[float, Vector]]
Bounds = list[tuple[float | None, float | None]]

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
        After each iteration; where to begin, if there is none.

    Returns
    -------
    str
        "converged", "max_rounds", or "stalled" where rounding ends the search along a line.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.descent import lbfgs
    >>> steps = lbfgs(lambda x: (float(x @ x), 2 * x), np.ones(2), max_iter=9, tol=1e-9)
    >>> [round(value, 6) for value, x in steps][-1]
    0.0
    """
    outbox: SimpleQueue[Any] = SimpleQueue()
    ahead = threading.Semaphore(0)
    stopped = threading.Event()
    last: dict[bytes, float] = {}

    def remembered(point: Vector) -> tuple[float, Vector]:
        value, gradient = f(point)
        if not np.isfinite(value):
            raise ValueError(
                "The objective is not finite: numbers are too large; try scale='standard'."
            )
        last[point.tobytes()] = value
        return value, gradient

    def callback(point: Vector) -> None:
        value = last.get(point.tobytes(), np.nan)
        last.clear()
        outbox.put((value, point.copy()))
        ahead.acquire()
        if stopped.is_set():
            raise StopIteration

    options: Any = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": tol, "maxcor": memory}

    def run() -> None:
        call: Any = callback
        try:
            found = minimize(
                remembered,
                x,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                callback=call,
                options=options | {"gtol": 0.0},
            )
            reasons = {0: "converged", 1: "max_rounds"}
            outbox.put(reasons.get(found.status, "stalled"))
        except BaseException as error:
            outbox.put(error)

    worker = threading.Thread(target=run, daemon=True)
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
        stopped.set()
        ahead.release()
        worker.join()
