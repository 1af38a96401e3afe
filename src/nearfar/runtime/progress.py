"""Deadlines: long work calls `check_time` regularly and ends with `OutOfTimeError`.

Fits check at each iteration and each evaluation of an objective, comparisons at each tile of
distances. Within `early_stop`, a fit ends at such a check and keeps the metric so far.

Consumers of iterations that show or steer a fit: watchers, callbacks, progress.

Long work says what it does with `stage`, and how far it is with `tracked`. Both do nothing unless
somebody shows progress: `Bars` in a terminal, `Lines` where there is none. These look at the stages
now and then from a thread of their own, so that work without any loop shows a sign of life, too.

To see the iterations of fits, also of fits inside pipelines and classifiers, wrap them in
`watching`. scikit-learn 1.9 and later can watch and stop a fit through callbacks
(`set_callbacks`). On older versions learners work without them, and `set_callbacks` says what is
missing.
"""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar

from nearfar.runtime.history import Iteration
from nearfar.runtime.messages import duration, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

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


def parse_seconds(text: float | str | None) -> float | None:
    """Read a length of time: seconds, or "60s", "5m" or "1h"."""
    if text is None:
        return None
    words, units = str(text), {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (words[:-1], units[words[-1]]) if words[-1:] in units else (words, 1.0)
    try:
        length = float(number) * unit
    except ValueError:
        length = -1.0
    if not 0 <= length < float("inf"):
        raise ValueError(f"{words!r} is not a length of time; write 60s, 5m or 1h.")
    return length


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


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass(frozen=True)
class FitInProgress:
    """A running fit, as passed to watchers.

    Attributes
    ----------
    name: Name of the learner.
    max_iter: The most iterations there can be.
    metric: Returns the metric after the iterations so far.
    """

    name: str
    max_iter: int
    metric: Callable[[], Any]


@dataclass(eq=False)
class Level:
    """What is being done: a stage, or a loop inside of it.

    Attributes
    ----------
    name: Empty for a loop.
    total: Number of steps; None if it is unknown.
    started: When it began.
    done: Number of steps done.
    at_most: Whether there may be fewer steps.
    objective: Value of the minimised function after the last step, for iterations.
    """

    name: str
    total: int | None
    started: float
    done: int = 0
    at_most: bool = False
    objective: float | None = None


Watcher = Callable[[Iterable[Iteration], FitInProgress], Iterable[Iteration]]
"""Passes iterations on."""

# Progress without a terminal: nothing is printed about work that is done earlier.
_FIRST_LINE_AFTER, _SECONDS_BETWEEN_LINES = 2.0, 10.0
# How often bars, and a line that is written over, change.
_SECONDS_BETWEEN_LOOKS = 0.2

current_levels: ContextVar[list[Level] | None] = ContextVar("levels", default=None)
"""What is being done, the whole first; None if nobody shows progress."""

_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in where scikit-learn has no callbacks yet."""

        def set_callbacks(self, *callbacks: object) -> Self:
            """Explain that callbacks need a newer scikit-learn."""
            if callbacks:
                raise RuntimeError("Callbacks need scikit-learn 1.9 or later.")
            return self

    def with_callbacks(method: F) -> F:
        """Return the method unchanged."""
        return method


@contextmanager
def stage(name: str, total: int | None = None, *, at_most: bool = False) -> Iterator[Level]:
    """Say what is done in this block, or in a function that this decorates.

    Parameters
    ----------
    total: Number of steps, if the block counts them itself (`Level.done`); else loops in it
        do.
    at_most: Whether there may be fewer steps.
    """
    levels, level = current_levels.get(), Level(name, total, time.monotonic(), at_most=at_most)
    if levels is None:
        yield level
        return
    levels.append(level)
    try:
        yield level
    finally:
        levels.remove(level)


def tracked(items: Iterable[T], total: int) -> Iterator[T]:
    """Pass the items of a loop on, and count those that are done."""
    with stage("", total) as level:
        for item in items:
            yield item
            level.done += 1


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Let a watcher see the iterations of all fits in this block.

    Do not use it in a block that contains a ``yield``.
    """
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def watched(iterations: Iterable[Iteration], fit: FitInProgress) -> Iterator[Iteration]:
    """Pass iterations on through all watchers, until the deadline or an early stop."""
    for watcher in _watchers.get():
        iterations = watcher(iterations, fit)
    with ExitStack() as stack:
        started = False
        level = stack.enter_context(stage(f"{fit.name}, iterations", fit.max_iter, at_most=True))
        try:
            for iteration in iterations:
                level.done, level.objective = level.done + 1, iteration.objective
                check_time()
                yield iteration
                if not started:
                    started = True
                    stack.enter_context(keeps_metric())
                if should_stop():
                    return
        except OutOfTimeError:
            if not (started and should_stop()):
                raise


def observed(
    iterations: Iterable[Iteration],
    fit: FitInProgress,
    estimator: Any,
    X: object,
    y: object,
    *,
    attributes: Callable[[], dict[str, object]],
    notes: Iterable[str] | None,
) -> Iterator[Iteration]:
    """Pass iterations on through scikit-learn's callbacks and watchers.

    Parameters
    ----------
    attributes: Fitted attributes as if the fit had ended with the current iteration; called
        on demand.
    notes: If there are any, they are written to standard error, and at the end how many
        iterations there were in what time.
    """
    check_time()

    def notified(source: Iterator[Iteration]) -> Iterator[Iteration]:
        # Stop when a callback asks for it.
        context = estimator._init_callback_context(max_subtasks=fit.max_iter)
        data = {"estimator": estimator, "X": X, "y": y}
        context.call_on_fit_task_begin(**data)
        for _ in range(fit.max_iter):
            task = context.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(**data)
            iteration = next(source, None)
            if iteration is None:
                task.call_on_fit_task_end(estimator=estimator)
                break
            yield iteration
            if task.call_on_fit_task_end(**data, reconstruction_attributes=attributes):
                break
        else:
            yield from source
        context.call_on_fit_task_end(**data, reconstruction_attributes=attributes)

    def reported(source: Iterable[Iteration], texts: Iterable[str]) -> Iterator[Iteration]:
        sys.stderr.writelines(f"{fit.name}: {text}\n" for text in texts)
        start, number = time.monotonic(), 0
        for number, iteration in enumerate(source, start=1):  # noqa: B007
            yield iteration
        seconds = time.monotonic() - start
        sys.stderr.write(f"\r{fit.name}: {number} iterations in {seconds:.1f} s{' ' * 40}\n")
        sys.stderr.flush()

    if hasattr(estimator, "_init_callback_context"):
        iterations = notified(iter(iterations))
    return watched(iterations if notes is None else reported(iterations, notes), fit)


def described(levels: Sequence[Level], now: float) -> list[tuple[str, float | None, str]]:
    """Return the name of each stage, which share of it is done, and how far it is in words."""
    found = []
    named = [number for number, level in enumerate(levels) if level.name]
    for start, stop in pairwise([*named, len(levels)]):
        level, *loops = levels[start:stop]
        share, began, words = None, level.started, ""
        if level.total:
            share = level.done / level.total
            words = f"{level.done} of {'at most ' * level.at_most}{level.total} done"
            words += "" if level.objective is None else f", objective {level.objective:.4f}"
            # A step has any number of loops: where one of them is says little about the others.
            if loops and not level.done:
                words += f", block {loops[0].done} of {loops[0].total}"
        elif loops:
            share, size, began = 0.0, 1.0, loops[0].started
            for loop in loops:
                size /= loop.total or 1
                share += size * loop.done
            words = f"{100 * share:.0f} % done" if share else ""
        if share:
            left = (now - began) * (1 - share) / share
            about = "at most " if level.at_most else "about "
            words += f", {about if left >= 1 else ''}{duration(left)} left"
        found.append((level.name, share, words))
    return found


class Display(ABC):
    """Shows what is being done."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._whole = Level("", None, clock())
        self.levels = [self._whole]

    def update(self, done: int, total: int, label: str) -> None:
        """Show how much of the whole is done; the total may be an estimate that changes."""
        self._whole.done, self._whole.total = done, total if total > 1 else None
        self._whole.name = label

    @abstractmethod
    def look(self) -> None:
        """Show the stages as they are now."""


class Bars(Display):
    """Progress bars."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress

    def look(self) -> None:
        """Show a bar for each stage."""
        tasks, stages = self._progress.task_ids, described(self.levels[:], self._clock())
        for task in tasks[len(stages) :]:
            self._progress.remove_task(task)
        tasks += [self._progress.add_task("", words="") for _ in stages[len(tasks) :]]
        for task, (name, share, words) in zip(tasks, stages, strict=False):
            # Without a total, a bar only moves.
            total = None if share is None else 1.0
            self._progress.update(
                task, description=name, completed=share or 0.0, total=total, words=words
            )


class Lines(Display):
    """Progress as a line now and then, or as one line that is written over.

    Parameters
    ----------
    clock: Returns the time in seconds.
    rewrite: Whether the stream can go back to the beginning of a line.
    """

    def __init__(
        self, stream: IO[str], *, clock: Clock = time.monotonic, rewrite: bool = False
    ) -> None:
        super().__init__(clock)
        self._stream, self._rewrite, self._longest = stream, rewrite, 0
        self._next = clock() + (0.0 if rewrite else _FIRST_LINE_AFTER)

    def look(self) -> None:
        """Write a line, unless that was done a moment ago."""
        now = self._clock()
        stages = described(self.levels[:], now)
        if now < self._next or not stages:
            return
        text = ", ".join(word for name, _, words in stages for word in (name, words) if word)
        if self._rewrite:
            self._longest = max(self._longest, len(text))
            self._stream.write(f"\r{text:<{self._longest}}")
        else:
            self._next = now + _SECONDS_BETWEEN_LINES
            self._stream.write(f"Progress: {printable(text)}\n")
        self._stream.flush()


@contextmanager
def displayed(display: Display) -> Iterator[Display]:
    """Show the stages of this block."""
    end = threading.Event()

    def look() -> None:
        while not end.wait(_SECONDS_BETWEEN_LOOKS):
            try:
                display.look()
            except (OSError, ValueError):  # The stream is closed: nobody looks any more.
                return

    token = current_levels.set(display.levels)
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield display
    finally:
        current_levels.reset(token)
        end.set()
        thread.join()


@contextmanager
def shown_if(wanted: bool, name: str) -> Iterator[None]:
    """Show the stages of this block on standard error if that is wanted and nobody else does."""
    if not wanted or current_levels.get() is not None:
        yield
        return
    rewrite = sys.stderr.isatty() or "ipykernel" in sys.modules
    lines = Lines(sys.stderr, rewrite=rewrite)
    lines.update(0, 1, name)
    with displayed(lines):
        yield


@contextmanager
def progress_display(console: Console) -> Iterator[Display]:
    """Show progress of everything in this block on a console of rich, fits included."""
    if not console.is_terminal:
        with displayed(Lines(console.file)) as lines:
            yield lines
        return
    from rich import progress as rich

    progress = rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TextColumn("{task.fields[words]}"),
        console=console,
        transient=True,
    )
    with progress, displayed(Bars(progress)) as bars:
        yield bars
