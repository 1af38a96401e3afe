"""Names that changed: the old ones work for one more version, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def renamed(
    module: str, names: Mapping[str, str], instead: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose names changed.

    Parameters
    ----------
    module : str
        Name of the module.
    names : mapping of str to str
        New names by old names; names with dots are of other modules.
    instead : mapping of str to str, optional
        By old names, what the warning advises to use if that is not the new name.

    Examples
    --------
    >>> import math, warnings
    >>> from nearfar.runtime.deprecation import renamed
    >>> find = renamed("math", {"root": "sqrt"})
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     find("root") is math.sqrt
    True
    >>> print(found[0].message)
    math.root is now math.sqrt; the old name will be removed.
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, new = names[name].rpartition(".")
        home = home or module
        advice = (instead or {}).get(name, f"{home}.{new}")
        warnings.warn(
            f"{module}.{name} is now {advice}; the old name will be removed.",
            FutureWarning,
            stacklevel=2,
        )
        return getattr(import_module(home), new)

    return find
