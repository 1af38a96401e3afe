"""Names that changed: the old ones work for one more version, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose names changed.

    Parameters
    ----------
    module : str
        Name of the module.
    names : mapping of str to str
        New names by old names.

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
        warnings.warn(
            f"{module}.{name} is now {module}.{names[name]}; the old name will be removed.",
            FutureWarning,
            stacklevel=2,
        )
        return getattr(sys.modules[module], names[name])

    return find
