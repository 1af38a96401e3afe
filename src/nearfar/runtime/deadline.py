"""An end to what takes too long.

Whoever does long work calls `check_time` now and then: fits at each round and at each step of a
descent, comparisons at each tile of distances.
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

    Like an interruption, and unlike an error, it is not for those to handle who try several fits
    and go on when one fails.
    """


@contextmanager
def deadline(seconds: float, *, clock: Clock = time.monotonic) -> Iterator[None]:
    """End what is done in this block with `OutOfTimeError` after so many seconds.

    It is not for blocks that have a ``yield``, and not seen in threads that are not handed the
    context (`contextvars`), nor in other processes.

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
    The time allowed is over.
    """
    token = _deadlines.set((*_deadlines.get(), (clock, clock() + seconds)))
    try:
        yield
    finally:
        _deadlines.reset(token)


def check_time() -> None:
    """Raise OutOfTimeError if the deadline has passed."""
    if any(clock() > end for clock, end in _deadlines.get()):
        raise OutOfTimeError("The time allowed is over.")
