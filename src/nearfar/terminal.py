"""The terminal: results on stdout, notes and errors on stderr, ``-`` for both streams, signals.

Nothing here needs a package but click, so that ``nearfar --help`` is fast.

Exit codes: 0 success; 2 the request cannot be met; 3 and 4 what a result says, such as no gain and
harm; 130 interrupted.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import click

from nearfar.runtime.messages import printable

FAILED, INTERRUPTED = 2, 130
STREAM = "-"
# What JSON leaves as it is, and terminals may obey.
_NOT_ESCAPED = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ASCII = str.maketrans("┏━┳┓┃┡╇┩│└─┴┘…", "+-++|+++|+-++~")
_FIRST_BYTES = 1 << 12
_AGAIN_SECONDS = 0.01
# Whether a table went to stdout, so that messages go to stderr.
_stdout_taken = ContextVar("_stdout_taken", default=False)


def say(text: str, *, error: bool = False, color: str | None = None) -> None:
    """Print lines of the result, or of what is said about it.

    Controls of terminals are written out, as names in files of others may have them. A broken pipe
    is no error: results are still written to their files.
    """
    stream = sys.stderr if error or _stdout_taken.get() else sys.stdout
    text = printable(text)
    if not _has_unicode(stream):
        text = text.translate(_ASCII)
    try:
        click.secho(text, file=stream, fg=color)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _has_unicode(stream: Any) -> bool:
    return (stream.encoding or "ascii").lower().replace("-", "") == "utf8"


def show_note(text: str) -> None:
    """Print what one must know beside a result."""
    say(f"Note: {text}", error=True)


def fail(message: str, code: int = FAILED) -> None:
    """Print an error in one line, and exit."""
    say(f"nearfar: {message}", error=True, color="red")
    raise click.exceptions.Exit(code)


def show_json(document: Any) -> None:
    """Print a result as JSON."""
    ascii_only = not _has_unicode(sys.stdout)
    text = json.dumps(_finite(document), ensure_ascii=ascii_only, indent=2, allow_nan=False)
    # JSON has the same escapes for these characters.
    say(_NOT_ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def _finite(value: Any) -> Any:
    """Replace numbers that JSON does not have by null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def bars() -> Iterator[Any]:
    """Show progress of everything in this block, fits included."""
    from rich.console import Console

    from nearfar.runtime.progress import progress_display

    with progress_display(Console(stderr=True)) as shown:
        yield shown


class Streams(ExitStack):
    """Temporary files in the place of ``-``, because functions take and write files only."""

    def __init__(self) -> None:
        super().__init__()
        self._written: Path | None = None
        _stdout_taken.set(False)

    def _folder(self, prefix: str) -> Path:
        from nearfar.runtime.atomic_write import temporary_folder

        return self.enter_context(temporary_folder(prefix))

    def spool(self, source: Any) -> Any:
        """Copy stdin to a file if a source is ``-``: a pipe can be read only once."""
        from nearfar.frames.formats import STDIN_FOLDER, kind_of_content

        if isinstance(source, list):
            return [self.spool(each) for each in source]
        if source != STREAM:
            return source
        first = sys.stdin.buffer.read(_FIRST_BYTES)
        path = self._folder(STDIN_FOLDER) / f"stdin{kind_of_content(first)}"
        with path.open("wb") as file:
            file.write(first)
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        return str(path)

    def target(self, path: Any) -> Any:
        """Return the file that `copy_to_stdout` copies if a path is ``-``."""
        if path != STREAM:
            return path
        self._written = self._folder("nearfar-stdout-") / "stdout.csv"
        return str(self._written)

    def named(self, value: Any) -> Any:
        """Return texts with the name of the stream in place of that of its file."""
        if isinstance(value, dict):
            return {key: self.named(item) for key, item in value.items()}
        if self._written is None or not isinstance(value, str):
            return value
        return value.replace(str(self._written), "stdout")

    def copy_to_stdout(self) -> None:
        """Copy the table that was written; messages go to stderr from now on."""
        if self._written is None or not self._written.exists():
            return
        _stdout_taken.set(True)
        try:
            with self._written.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Signals
#
# Python drops exceptions in places from which they cannot be passed on: `__del__`, callbacks of
# weak references (imports have some), and functions that C code calls, such as that by which
# threadpoolctl finds libraries. A signal that arrives there would be a traceback on the terminal,
# and the command would go on. The handlers notice that, and raise the exception again a moment
# later.


class Ended(SystemExit):
    """What SIGTERM raises."""


def install_signals() -> None:
    """Let SIGINT and SIGTERM end the process by exceptions, so that temporary files go."""
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
