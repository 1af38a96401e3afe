"""The command that is running, as text to run again or to change."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import typer


def command_line(
    context: typer.Context, name: str | None = None, changes: Mapping[str, Any] | None = None
) -> str:
    """Return the command that is running, with the options that are not the defaults.

    Parameters
    ----------
    context : typer.Context
    name : str, optional
        Another command, which has the same arguments.
    changes : mapping of str to object, optional
        Other values of parameters, by name; None leaves an option out. Those that the command does
        not have come last.
    """
    words = ["nearfar", name or context.info_name or ""]
    changes = dict(changes or {})
    for parameter in context.command.params:
        key = parameter.name or ""
        value = changes.pop(key, context.params.get(key))
        if parameter.param_type_name == "argument":
            words.append(str(value))
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
