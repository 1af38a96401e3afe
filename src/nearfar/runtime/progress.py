"""Consumers of iterations that show or steer a fit: watchers, callbacks, progress.

How progress looks is decided here: `show` for a learner with `verbose`, `Bars` in a terminal, and
`Lines` where there is none.

To see the iterations of fits, also of fits inside pipelines and classifiers, wrap them in
`watching`. scikit-learn 1.9 and later can watch and stop a fit through callbacks
(`set_callbacks`). On older versions learners work without them, and `set_callbacks` says what is
missing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeVar

from nearfar.runtime.deadline import Clock, OutOfTimeError, check_time, keeps_metric, should_stop
from nearfar.runtime.history import Iteration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

__all__ = [
    "Bars",
    "CallbackSupportMixin",
    "FitInProgress",
    "Lines",
    "notify",
    "observed",
    "progress_display",
    "show",
    "watched",
    "watching",
    "with_callbacks",
]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class FitInProgress:
    """A running fit, as passed to watchers.

    Attributes
    ----------
    name : str
        Name of the learner.
    max_iter : int
        The most iterations there can be.
    metric : callable
        Returns the metric after the iterations so far.
    """

    name: str
    max_iter: int
    metric: Callable[[], Any]

    def position(self, number: int) -> str:
        """Return the number of an iteration, in words."""
        return f"iteration {number} of at most {self.max_iter}"


Watcher = Callable[[Iterable[Iteration], FitInProgress], Iterable[Iteration]]
"""Passes iterations on."""

# Progress without a terminal: nothing is printed about work that is done earlier.
_FIRST_LINE_AFTER, _SECONDS_BETWEEN_LINES = 2.0, 10.0

_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
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
def watching(watcher: Watcher) -> Iterator[None]:
    """Let a watcher see the iterations of all fits in this block.

    Do not use it in a block that contains a ``yield``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfar import BoostMetric
    >>> from nearfar.runtime.progress import watching
    >>> def count(iterations, fit):
    ...     for number, iteration in enumerate(iterations, start=1):
    ...         yield iteration
    ...     print(fit.name, number, "of at most", fit.max_iter)
    >>> with watching(count):
    ...     learner = BoostMetric(max_iter=4).fit(*load_iris(return_X_y=True))
    BoostMetric 4 of at most 4
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
        try:
            for iteration in iterations:
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
    """Pass iterations on through callbacks, watchers and, if there are `notes`, a progress line."""
    check_time()
    if hasattr(estimator, "_init_callback_context"):
        iterations = notify(iterations, estimator, fit.max_iter, X=X, y=y, attributes=attributes)
    if notes is not None:
        iterations = show(iterations, fit, notes=notes)
    return watched(iterations, fit)


def notify(
    iterations: Iterable[Iteration],
    estimator: Any,
    max_iter: int,
    *,
    X: object,
    y: object,
    attributes: Callable[[], dict[str, object]],
) -> Iterator[Iteration]:
    """Tell the estimator's scikit-learn callbacks of every iteration; stop when one asks for it.

    Parameters
    ----------
    iterations : iterable of Iteration
    estimator : estimator
        Its callbacks are called; it must support them.
    max_iter : int
        Number of iterations to announce.
    X, y : object
        What the estimator is being fitted to.
    attributes : callable
        Fitted attributes as if the fit had ended with the current iteration; called on demand.
    """
    context = estimator._init_callback_context(max_subtasks=max_iter)
    data = {"estimator": estimator, "X": X, "y": y}
    context.call_on_fit_task_begin(**data)
    source = iter(iterations)
    for _ in range(max_iter):
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


def show(
    iterations: Iterable[Iteration],
    fit: FitInProgress,
    *,
    notes: Iterable[str] = (),
    stream: TextIO | None = None,
) -> Iterator[Iteration]:
    """Report notes, and iterations on one line of the terminal, about five times a second."""
    out = sys.stderr if stream is None else stream
    for note in notes:
        out.write(f"{fit.name}: {note}\n")
    start = last = time.monotonic()
    number = 0
    for number, iteration in enumerate(iterations, start=1):
        now = time.monotonic()
        if now - last > 0.2:
            left = (now - start) / number * (fit.max_iter - number)
            out.write(
                f"\r{fit.name}: {fit.position(number)}, "
                f"objective {iteration.objective:.4f}, at most {left:.0f} s left  "
            )
            out.flush()
            last = now
        yield iteration
    seconds = time.monotonic() - start
    out.write(f"\r{fit.name}: {number} iterations in {seconds:.1f} s{' ' * 40}\n")
    out.flush()


class Bars:
    """Progress bars."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._main = progress.add_task("", total=None, visible=False)

    def update(self, done: int, total: int, label: str) -> None:
        """Show how much of the whole is done; the total may be an estimate that changes."""
        self._progress.update(
            self._main, completed=done, total=total, description=label, visible=True
        )

    def iterations(
        self, iterations: Iterable[Iteration], fit: FitInProgress
    ) -> Iterator[Iteration]:
        """Show the iterations of a fit while it runs."""
        task = self._progress.add_task(f"{fit.name}, iterations", total=fit.max_iter)
        try:
            for iteration in iterations:
                self._progress.advance(task)
                yield iteration
        finally:
            self._progress.remove_task(task)


class Lines:
    """Progress as a line now and then, where there is no terminal."""

    def __init__(self, console: Console, *, clock: Clock = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._next = clock() + _FIRST_LINE_AFTER
        self._doing = ""

    def update(self, done: int, total: int, label: str) -> None:
        """Say how much of the whole is done."""
        self._doing = f"{label} ({done} of {total} done)"
        self._say(self._doing)

    def iterations(
        self, iterations: Iterable[Iteration], fit: FitInProgress
    ) -> Iterator[Iteration]:
        """Say how far a fit is while it runs."""
        for number, iteration in enumerate(iterations, start=1):
            doing = self._doing or fit.name
            self._say(f"{doing}, {fit.position(number)}")
            yield iteration

    def _say(self, text: str) -> None:
        now = self._clock()
        if now >= self._next:
            self._next = now + _SECONDS_BETWEEN_LINES
            self._console.print(f"Progress: {text}", soft_wrap=True)


@contextmanager
def progress_display(console: Console) -> Iterator[Bars | Lines]:
    """Show progress of everything in this block on a console of rich, fits included."""
    if not console.is_terminal:
        lines = Lines(console)
        with watching(lines.iterations):
            yield lines
        return
    from rich import progress as rich

    progress = rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(separator=" of "),
        rich.TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    bars = Bars(progress)
    with progress, watching(bars.iterations):
        yield bars
