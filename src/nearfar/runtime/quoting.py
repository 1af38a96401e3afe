"""Values of users in messages: quoted, and cut if they are long."""

from __future__ import annotations

from typing import Any

_LONGEST = 80


def quoted(value: Any) -> str:
    r"""Return what `repr` returns, cut if it is long.

    Examples
    --------
    >>> from nearfar.runtime.quoting import quoted
    >>> quoted("a\0b"), len(quoted("9" * 1_000_000))
    ("'a\\x00b'", 80)
    """
    # The text of a long value is not made only to be cut.
    return cut(repr(value[: 2 * _LONGEST] if isinstance(value, str) else value))


def cut(text: str, length: int = _LONGEST) -> str:
    """Return a text with its middle left out if it is longer than `length` characters.

    Examples
    --------
    >>> from nearfar.runtime.quoting import cut
    >>> cut("temperature", 8)
    'temp...e'
    """
    return text if len(text) <= length else f"{text[: length - 4]}...{text[-1:]}"


def named(name: str) -> str:
    r"""Return a name as it is if it is short and can be printed, otherwise quoted.

    Examples
    --------
    >>> from nearfar.runtime.quoting import named
    >>> named("a b"), named(""), named("a\0")
    ('a b', "''", "'a\\x00'")
    """
    return name if name.isprintable() and 0 < len(name) <= _LONGEST else quoted(name)
