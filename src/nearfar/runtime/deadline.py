"""Deadlines: long work calls `check_time` regularly and ends with `OutOfTimeError`.

Fits check at each iteration and each evaluation of an objective, comparisons at each tile of
distances. Within `early_stop`, a fit ends at such a check and keeps the metric so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

Clock = Callable[[], float]
"""Returns seconds since some moment."""

# How many times a budget may be exceeded on a busy machine.
_SLOWEST = 3.0

_deadlines: ContextVar[tuple[tuple[Clock, float], ...]] = ContextVar("deadlines", default=())


@dataclass
class EarlyStop:
    """The moment after which fits end early.

    Attributes
    ----------
    end: The time of that moment.
    happened: Whether a fit was ended.
    n_fits: Number of running fits that have a metric to keep.
    """

    clock: Clock
    end: float
    happened: bool = False
    n_fits: int = 0


_early_stops: ContextVar[tuple[EarlyStop, ...]] = ContextVar("early_stops", default=())


class WorkClock:
    """Seconds since its creation in which this process could work.

    While other processes keep the cores busy, processor time passes more slowly than time. A budget
    by this clock allows the same work as on an idle machine, and takes at most three times as long.
    """

    def __init__(self, wall: Clock = time.monotonic, processor: Clock = time.process_time) -> None:
        self._wall, self._processor = wall, processor
        self._start = wall(), processor()

    def __call__(self) -> float:
        """Return the seconds."""
        passed, used = self._wall() - self._start[0], self._processor() - self._start[1]
        return min(passed, max(used, passed / _SLOWEST))


class OutOfTimeError(BaseException):
    """The deadline has passed.

    It derives from BaseException so that code which tries several fits and skips those that fail
    does not catch it.
    """


@contextmanager
def deadline(seconds: float, *, clock: Clock = time.monotonic) -> Iterator[None]:
    """Raise `OutOfTimeError` in this block after a number of seconds.

    Do not use it in a block that contains a ``yield``. Other processes, and threads that do not
    receive the context (`contextvars`), do not see the deadline.
    """
    token = _deadlines.set((*_deadlines.get(), (clock, clock() + seconds)))
    try:
        yield
    finally:
        _deadlines.reset(token)


def check_time() -> None:
    """Raise OutOfTimeError if the deadline has passed, or if a fit should stop early."""
    for clock, end in _deadlines.get():
        if clock() > end:
            raise OutOfTimeError("Out of time.")
    for stop in _early_stops.get():
        if stop.n_fits and should_stop():
            raise OutOfTimeError("Stopped early.")


@contextmanager
def early_stop(seconds: float, *, clock: Clock = time.monotonic) -> Iterator[EarlyStop]:
    """End fits in this block early after a number of seconds; each keeps its metric so far.

    Every fit does at least one iteration. Do not use it in a block that contains a ``yield``.
    """
    stop = EarlyStop(clock, clock() + seconds)
    token = _early_stops.set((*_early_stops.get(), stop))
    try:
        yield stop
    finally:
        _early_stops.reset(token)


@contextmanager
def keeps_metric() -> Iterator[None]:
    """From now on, a fit in this block has a metric to keep: `check_time` may stop it early."""
    stops = _early_stops.get()
    for stop in stops:
        stop.n_fits += 1
    try:
        yield
    finally:
        for stop in stops:
            stop.n_fits -= 1


def should_stop() -> bool:
    """Tell whether a fit should end now and keep what it has; it must then do so."""
    due = False
    for stop in _early_stops.get():
        if stop.clock() > stop.end:
            stop.happened = due = True
    return due
