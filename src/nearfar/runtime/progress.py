"""Consumers of rounds that show or steer: progress on a terminal, watchers, callbacks.

Whoever wants to see the rounds of fits, also of fits inside pipelines and classifiers, puts a
`Watcher` around them with `watching`. scikit-learn 1.9 and later can watch and stop a fit through
callbacks (`set_callbacks`); on older versions learners work all the same, and `set_callbacks` says
what is missing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, TypeVar

from nearfar.runtime.deadline import check_time
from nearfar.runtime.history import Iteration

__all__ = [
    "CallbackSupportMixin",
    "notify",
    "show",
    "watched",
    "watching",
    "with_callbacks",
]

F = TypeVar("F", bound=Callable[..., Any])
Watcher = Callable[[Iterable[Iteration], int, str], Iterable[Iteration]]
"""Passes rounds on; is told how many there can be, and the name of the learner."""

_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in where scikit-learn has no callbacks yet."""

        def set_callbacks(self, *callbacks: Any) -> Any:
            """Explain that callbacks need a newer scikit-learn."""
            if callbacks:
                raise RuntimeError("Callbacks need scikit-learn 1.9 or later; this one is older.")
            return self

    def with_callbacks(method: F) -> F:
        """Leave the method as it is."""
        return method


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Let a watcher see the rounds of all fits in this block; not for blocks that have a ``yield``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfar import BoostMetric
    >>> from nearfar.runtime.progress import watching
    >>> def count(rounds, total, name):
    ...     for number, iteration in enumerate(rounds, start=1):
    ...         yield iteration
    ...     print(name, number, "of at most", total)
    >>> with watching(count):
    ...     learner = BoostMetric(max_iter=4).fit(*load_iris(return_X_y=True))
    BoostMetric 4 of at most 4
    """
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def watched(rounds: Iterable[Iteration], total: int, label: str) -> Iterator[Iteration]:
    """Pass rounds on through everyone who watches, and no further than the deadline."""
    for watcher in _watchers.get():
        rounds = watcher(rounds, total, label)
    for iteration in rounds:
        check_time()
        yield iteration


def notify(
    rounds: Iterable[Iteration],
    estimator: Any,
    max_iter: int,
    *,
    X: Any,
    y: Any,
    attributes: Callable[[], dict[str, Any]],
) -> Iterator[Iteration]:
    """Tell the estimator's scikit-learn callbacks of every round; stop when one asks for it.

    Parameters
    ----------
    rounds : iterable of Iteration
    estimator : estimator
        Whose callbacks are told.
    max_iter : int
        Number of rounds to announce.
    X, y : object
        What the estimator is being fitted to.
    attributes : callable
        Fitted attributes as if the fit had ended with the current round; called only on demand.
    """
    if not hasattr(estimator, "_init_callback_context"):
        yield from rounds
        return
    context = estimator._init_callback_context(max_subtasks=max_iter)
    data = {"estimator": estimator, "X": X, "y": y}
    context.call_on_fit_task_begin(**data)
    source = iter(rounds)
    for _ in range(max_iter):
        task = context.subcontext(task_name="round")
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
    rounds: Iterable[Iteration], total: int, label: str, *, stream: TextIO | None = None
) -> Iterator[Iteration]:
    """Report rounds on one line of the terminal, about five times a second.

    Parameters
    ----------
    rounds : iterable of Iteration
    total : int
        The most rounds there can be.
    label : str
        What is being done.
    stream : text stream, default=sys.stderr
    """
    out = sys.stderr if stream is None else stream
    start = last = time.monotonic()
    number = 0
    for number, iteration in enumerate(rounds, start=1):
        now = time.monotonic()
        if now - last > 0.2:
            left = (now - start) / number * (total - number)
            out.write(
                f"\r{label}: round {number} of at most {total}, objective {iteration.objective:.4f}, "
                f"{left:.0f} s left at most  "
            )
            out.flush()
            last = now
        yield iteration
    out.write(f"\r{label}: {number} rounds in {time.monotonic() - start:.1f} s{' ' * 40}\n")
    out.flush()
