"""Deadlines: long work calls `check_time` regularly and ends with `OutOfTimeError`.

Fits check at each iteration and each evaluation of an objective, comparisons at each tile of
distances.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Clock = Callable[[], float]
"""Returns seconds since some moment."""

_deadlines: ContextVar[tuple[tuple[Clock, float], ...]] = ContextVar("deadlines", default=())


class OutOfTimeError(BaseException):
    """The deadline has passed.

    It derives from BaseException so that code which tries several fits and skips those that fail
    does not catch it.
    """


@contextmanager
def deadline(seconds: float, *, clock: Clock = time.monotonic) -> Iterator[None]:
    """Raise `OutOfTimeError` in this block after so many seconds.

    Do not use it in a block that contains a ``yield``. Other processes, and threads that do not
    receive the context (`contextvars`), do not see the deadline.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfar import BoostMetric
    >>> from nearfar.runtime.deadline import OutOfTimeError, deadline
    >>> try:
    ...     with deadline(0):
    ...         BoostMetric().fit(*load_iris(return_X_y=True))
    ... except OutOfTimeError as end:
    ...     print(end)
    Out of time.
    """
    token = _deadlines.set((*_deadlines.get(), (clock, clock() + seconds)))
    try:
        yield
    finally:
        _deadlines.reset(token)


def check_time() -> None:
    """Raise OutOfTimeError if the deadline has passed."""
    if any(clock() > end for clock, end in _deadlines.get()):
        raise OutOfTimeError("Out of time.")
