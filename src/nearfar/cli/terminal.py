"""Terminal output: results on stdout, progress and notes on stderr, errors in one line.

Exit codes: 0 success; 2 the request cannot be met; 3 no metric is better than Euclidean distance;
4 the time was too short to tell; 130 interrupted.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from typing import Any, BinaryIO, get_type_hints

import polars as pl
import typer
from rich.console import Console
from rich.table import Table

from nearfar.cli.errors import UserError
from nearfar.runtime.notes import collecting_notes
from nearfar.runtime.option_names import options_of_command_line
from nearfar.runtime.progress import Bars, Lines, progress_display

FAILED, NOT_HELPFUL, UNDECIDED, INTERRUPTED = 2, 3, 4, 130


class _Console(Console):
    """Continues after a broken pipe, so that results are still written to their files."""

    def __init__(self, *, stderr: bool) -> None:
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False)

    def on_broken_pipe(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


_stdout_taken = ContextVar("_stdout_taken", default=False)
"""Whether a table went to stdout, so that messages go to stderr."""


def out() -> Console:
    """Where results go."""
    return _Console(stderr=_stdout_taken.get())


def err() -> Console:
    """Where progress, notes and errors go."""
    return _Console(stderr=True)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Report errors of a command in one line, with an exit code.

    A parameter whose type is a dataclass stands for several options, the fields of the dataclass.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}

    @functools.wraps(function)
    def guarded(**given: Any) -> None:
        _stdout_taken.set(False)
        try:
            with collecting_notes(_show_note), options_of_command_line(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="The number of unique classes")
                for name, group in groups.items():
                    given[name] = group(**{f.name: given.pop(f.name) for f in fields(group)})
                function(**given)
        except (UserError, ValueError, ImportError, MemoryError) as error:
            fail(" ".join(str(error).split()) or type(error).__name__)
        except pl.exceptions.PanicException as error:
            fail(f"a file cannot be read: {' '.join(str(error).split())}")
        except OSError as error:
            reason = error.strerror or str(error)
            fail(f"{error.filename}: {reason}" if error.filename else reason)
        except KeyboardInterrupt as interrupt:
            err().print(f"nearfar: {str(interrupt) or 'interrupted.'}", style="red", soft_wrap=True)
            raise typer.Exit(INTERRUPTED) from None

    signature = inspect.signature(guarded)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        group = groups.get(parameter.name)
        parts = [parameter] if group is None else inspect.signature(group).parameters.values()
        types = hints if group is None else get_type_hints(group, include_extras=True)
        parameters += [
            part.replace(annotation=types[part.name], kind=inspect.Parameter.KEYWORD_ONLY)
            for part in parts
        ]
    guarded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    guarded.__annotations__ = {part.name: part.annotation for part in parameters}
    return guarded


def _show_note(text: str) -> None:
    err().print(f"Note: {text}", soft_wrap=True)


def fail(message: str) -> None:
    """Print an error in one line, and exit."""
    err().print(f"nearfar: {message}", style="red", soft_wrap=True)
    raise typer.Exit(FAILED)


def say(text: str) -> None:
    """Print a line of the result."""
    out().print(text, soft_wrap=True)


def copy_to_stdout(file: BinaryIO) -> None:
    """Copy a table to stdout; messages go to stderr from now on."""
    _stdout_taken.set(True)
    try:
        shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
    """Print a table; the first column is text, the others are numbers."""
    if title:
        say(title)
    table = Table()
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    out().print(table)


def show_json(document: Any) -> None:
    """Print a result as JSON."""
    ascii_only = (sys.stdout.encoding or "ascii").lower().replace("-", "") != "utf8"
    text = json.dumps(_finite(document), ensure_ascii=ascii_only, indent=2, allow_nan=False)
    out().out(text)


def _finite(value: Any) -> Any:
    """Replace numbers that JSON does not have by null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@contextmanager
def bars() -> Iterator[Bars | Lines]:
    """Show progress of everything in this block, fits included."""
    with progress_display(err()) as shown:
        yield shown
