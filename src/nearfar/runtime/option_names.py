"""Options in messages: ``--budget`` on the command line, `budget` in Python."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SPELLINGS = {"ids": "--id", "random_state": "--seed", "numbers": "--numbers/--classes"}
"""Options that are not the name of their parameter with dashes."""
# Parameters of commands that are not functions yet.
_PARAMETERS = {
    "method": "methods",
    "folds": "cv",
    "neighbors": "n_neighbors",
    "only-if-significant": "strict=True",
    "no-comparison": "comparison=False",
    "source": "sources",
    "impute none": "impute=False",
}

CommandLine = Callable[..., str]
_command_line: ContextVar[CommandLine | None] = ContextVar("_command_line", default=None)


@contextmanager
def options_of_command_line(text: CommandLine = lambda *_, **__: "") -> Iterator[None]:
    """Name options as the command line does in messages of this block.

    Parameters
    ----------
    text : callable
        What `command_line` calls.
    """
    token = _command_line.set(text)
    try:
        yield
    finally:
        _command_line.reset(token)


def command_line(name: str | None = None, **changes: object) -> str:
    """Return the command that is running, with other values of its options; "" in Python.

    Parameters
    ----------
    name : str, optional
        Another command, which has the same arguments.
    **changes
        Other values of parameters; None leaves an option out.
    """
    text = _command_line.get()
    return "" if text is None else text(name, **changes)


def spelled(name: str) -> str:
    """Return the option of a parameter; of two, the second says no.

    Examples
    --------
    >>> from nearfar.runtime.option_names import spelled
    >>> spelled("max_iter"), spelled("ids")
    ('--max-iter', '--id')
    """
    return SPELLINGS.get(name, f"--{name.replace('_', '-')}")


def option(name: str, value: object = None) -> str:
    """Return a parameter, or a parameter with its value, as the user writes it.

    Examples
    --------
    >>> from nearfar.runtime.option_names import option, options_of_command_line
    >>> option("goal", "ranking"), option("drop", ["a", "b"]), option("ids")
    ("goal='ranking'", "drop=['a', 'b']", 'ids')
    >>> with options_of_command_line():
    ...     option("goal", "ranking"), option("drop", ["a", "b"]), option("ids")
    ...     option("numbers", False), option("as_vector", True)
    ('--goal ranking', '--drop a,b', '--id')
    ('--classes', '--as-vector')
    """
    if _command_line.get() is None:
        name = _PARAMETERS.get(name, name.replace("-", "_"))
        return name if value is None else f"{name}={value!r}"
    yes, _, no = spelled(name).partition("/")
    if isinstance(value, bool):
        return yes if value else no or f"--no-{yes[2:]}"
    if isinstance(value, list):
        # Names are separated by commas, unless one has a comma.
        values = value if any("," in each for each in value) else [",".join(value)]
        return " ".join(f"{yes} {shlex.quote(each)}" for each in values)
    return yes if value is None else f"{yes} {shlex.quote(str(value))}"
