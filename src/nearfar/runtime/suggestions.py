"""What a mistyped name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question after the nearest names, with a space before it, or "".

    Examples
    --------
    >>> from nearfar.runtime.suggestions import did_you_mean
    >>> did_you_mean("Spieces", ["species", "petal length"])
    " Did you mean 'species'?"
    >>> did_you_mean("colour", ["species", "petal length"])
    ''
    """
    names = {name.lower(): name for name in sorted(known, reverse=True)}
    close = difflib.get_close_matches(word.lower(), names)
    return f" Did you mean {' or '.join(repr(names[name]) for name in close)}?" if close else ""
