"""`forwards`: keyword arguments that a function hands on are declared where they are used."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def forwards(to: Callable[..., Any], names: str) -> Callable[[F], F]:
    """Declare that the ``**`` of a function takes these parameters of another function.

    Help, signature and the command line show them with the type, the default and the description
    that they have there.

    Parameters
    ----------
    to : callable
    names : str
        Separated by blanks.

    Examples
    --------
    >>> import inspect
    >>> from nearfar.runtime.forwarding import forwards
    >>> def read(path, *, drop=(), label=None): ...
    >>> @forwards(read, "label")
    ... def learn(path, *, seed=0, **reading): ...
    >>> inspect.signature(learn)
    <Signature (path, *, seed=0, label=None)>
    """

    def decorate(function: F) -> F:
        wanted = dict.fromkeys(names.split(), to)
        own = inspect.signature(function)
        kept = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        there = inspect.signature(to).parameters
        taken = [there[n].replace(kind=inspect.Parameter.KEYWORD_ONLY) for n in wanted]
        function.__signature__ = own.replace(parameters=[*kept, *taken])  # type: ignore[attr-defined]
        function.__forwarded__ = {**getattr(function, "__forwarded__", {}), **wanted}  # type: ignore[attr-defined]
        return function

    return decorate
