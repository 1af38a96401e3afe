"""Terminal output: results on stdout, progress and notes on stderr, errors in one line.

`command` wraps every command; `command_line` is the running one as text, to run again.

Exit codes: 0 success; 2 the request cannot be met; 3 no metric is better than Euclidean distance,
no adapter than untouched vectors, or the new version not than the old one; 4 adapting does harm, or
the new version is worse; 130 interrupted.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from typing import Any, BinaryIO, Protocol, get_type_hints

import polars as pl
import typer
from rich.console import Console

from nearfar.runtime.messages import collecting_notes, options_of_command_line, printable
from nearfar.runtime.progress import Display, progress_display

# What JSON leaves as it is, and terminals may obey.
_NOT_ESCAPED = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
FAILED, NOT_HELPFUL, INTERRUPTED = 2, 3, 130


class UserError(Exception):
    """A request that cannot be met; the message says what to do."""


class _Console(Console):
    """Continues after a broken pipe, so that results are still written to their files."""

    def __init__(self, *, stderr: bool) -> None:
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts without what controls the terminal: names in them may be of others."""
        super().print(
            *[printable(each) if isinstance(each, str) else each for each in objects], **options
        )

    def on_broken_pipe(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


# Whether a table went to stdout, so that messages go to stderr.
_stdout_taken = ContextVar("_stdout_taken", default=False)


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

    parameters = _flat_parameters(guarded, hints)
    guarded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    guarded.__annotations__ = {part.name: part.annotation for part in parameters}
    return guarded


def _flat_parameters(
    function: Callable[..., None], hints: Mapping[str, Any]
) -> list[inspect.Parameter]:
    """Return the parameters of a command, with the fields of dataclasses in their places."""
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        parts, types = [parameter], hints
        group = hints[parameter.name]
        if isinstance(group, type) and is_dataclass(group):
            parts = list(inspect.signature(group).parameters.values())
            types = get_type_hints(group, include_extras=True)
        parameters += [
            part.replace(annotation=types[part.name], kind=inspect.Parameter.KEYWORD_ONLY)
            for part in parts
        ]
    return parameters


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


def show_json(document: Any) -> None:
    """Print a result as JSON."""
    ascii_only = (sys.stdout.encoding or "ascii").lower().replace("-", "") != "utf8"
    text = json.dumps(_finite(document), ensure_ascii=ascii_only, indent=2, allow_nan=False)
    # JSON has the same escapes for these characters.
    out().out(_NOT_ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


class Result(Protocol):
    """What a workflow found."""

    def to_dict(self) -> dict[str, object]:
        """Return it for JSON."""
        ...


def show_result(result: Result, *, json: bool) -> None:
    """Print a result as JSON, or as it prints itself."""
    if json:
        show_json(result.to_dict())
    else:
        say(str(result))


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
def bars() -> Iterator[Display]:
    """Show progress of everything in this block, fits included."""
    with progress_display(err()) as shown:
        yield shown


def command_line(
    context: typer.Context, name: str | None = None, changes: Mapping[str, Any] | None = None
) -> str:
    """Return the command that is running, with the options that are not the defaults.

    Parameters
    ----------
    name: Another command, which has the same arguments.
    changes: Other values of parameters, by name; None leaves an option out. Those that the
        command does not have come last.
    """
    words = ["nearfar", name or (context.info_name or "").removeprefix("nearfar ")]
    changes = dict(changes or {})
    for parameter in context.command.params:
        key = parameter.name or ""
        value = changes.pop(key, context.params.get(key))
        if parameter.param_type_name == "argument":
            words += [] if value is None else [str(value)]
        elif value is not None and value != parameter.get_default(context):
            names = parameter.secondary_opts if value is False else parameter.opts
            words += _option(max(names, key=len), value)
    for key, value in changes.items():
        words += [] if value is None else _option(f"--{key}", value)
    return shlex.join(words)


def _option(name: str, value: Any) -> list[str]:
    values = value if isinstance(value, list | tuple) else [value]
    flag = isinstance(value, bool)
    return [word for each in values for word in ([name] if flag else [name, str(each)])]
