"""Options in messages: ``--budget`` on the command line, `budget` in Python."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Parameters of `nearfar.learn` that have other names on the command line.
_PARAMETERS = {
    "method": "methods",
    "folds": "cv",
    "neighbors": "n_neighbors",
    "only-if-significant": "strict=True",
    "no-comparison": "comparison=False",
    "id": "ids",
    "source": "sources",
    "classes": "numbers=False",
    "leave-out-learned": "leave_out_learned=True",
    "impute none": "impute=False",
}

_on_command_line = ContextVar("_on_command_line", default=False)


@contextmanager
def options_of_command_line() -> Iterator[None]:
    """Name options as the command line does in messages of this block."""
    token = _on_command_line.set(True)
    try:
        yield
    finally:
        _on_command_line.reset(token)


def option(name: str, value: object = None) -> str:
    """Return an option, or an option with its value, as the user writes it.

    Examples
    --------
    >>> from nearfar.runtime.option_names import option, options_of_command_line
    >>> option("goal", "ranking"), option("folds", 5), option("drop", ["a", "b"]), option("budget")
    ("goal='ranking'", 'cv=5', "drop=['a', 'b']", 'budget')
    >>> with options_of_command_line():
    ...     option("goal", "ranking"), option("folds", 5), option("drop", ["a", "b"])
    ('--goal ranking', '--folds 5', '--drop a,b')
    """
    if not _on_command_line.get():
        name = _PARAMETERS.get(name, name.replace("-", "_"))
        return name if value is None else f"{name}={value!r}"
    if isinstance(value, list):
        # Names are separated by commas, unless one has a comma.
        values = value if any("," in each for each in value) else [",".join(value)]
        return " ".join(f"--{name} {shlex.quote(each)}" for each in values)
    return f"--{name}" if value is None else f"--{name} {shlex.quote(str(value))}"
