"""Signals that end a command: SIGINT (Ctrl-C) and SIGTERM.

Their handlers raise an exception, so that temporary files are removed. Python drops exceptions in
places from which they cannot be passed on: `__del__`, callbacks of weak references (imports have
some), and functions that C code calls, such as that by which threadpoolctl finds libraries. A
signal that arrives there would be a traceback on the terminal, and the command would go on. The
handlers here notice that, and raise the exception again a moment later.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

_AGAIN_SECONDS = 0.01


class Ended(SystemExit):
    """What SIGTERM raises."""


def install() -> None:
    """Let SIGINT and SIGTERM end the process, wherever they arrive."""
    signal.signal(signal.SIGINT, _raise)
    signal.signal(signal.SIGTERM, _raise)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _raise_again)
    sys.unraisablehook = _on_dropped


# The last signal whose exception was dropped.
_dropped: list[int] = []


def _raise(number: int, _: Any) -> None:
    raise KeyboardInterrupt if number == signal.SIGINT else Ended(128 + number)


def _raise_again(_: int, frame: Any) -> None:
    _raise(_dropped[-1] if _dropped else signal.SIGTERM, frame)


def _on_dropped(dropped: Any) -> None:
    """Raise the exception of a signal again; print others as usual."""
    if not issubclass(dropped.exc_type, KeyboardInterrupt | Ended):
        sys.__unraisablehook__(dropped)
        return
    is_interrupt = issubclass(dropped.exc_type, KeyboardInterrupt)
    number = signal.SIGINT if is_interrupt else signal.SIGTERM
    # Not at once: this function has no caller to raise to either.
    if hasattr(signal, "setitimer"):
        _dropped[:] = [number]
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
    else:
        threading.Timer(_AGAIN_SECONDS, signal.raise_signal, [number]).start()
