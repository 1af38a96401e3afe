"""Values that cannot be used: masked entries, labels that are not there, too large numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_VALUE = 1e145
"""The largest value of X whose squares, and sums of them, do not overflow."""


def refuse_masked(values: Any, name: str) -> None:
    """Raise ValueError for a masked array with masked entries: NumPy would drop the mask.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.missing import refuse_masked
    >>> refuse_masked(np.ma.masked_equal([[1.0, 2.0], [3.0, 9.0]], 9.0), "X")
    Traceback (most recent call last):
    ...
    ValueError: X has masked entries (1); fill them in (`X.filled`), or leave out their rows.
    """
    number = int(np.sum(values.mask)) if isinstance(values, np.ma.MaskedArray) else 0
    if number:
        raise ValueError(
            f"{name} has masked entries ({number}); fill them in (`{name}.filled`), or leave out "
            "their rows."
        )


def refuse_missing(values: Any, name: str) -> None:
    """Raise ValueError if a label or group is missing: masked, NaN, NaT, None or NA.

    Examples
    --------
    >>> from nearfar.numerics.missing import refuse_missing
    >>> refuse_missing(["a", None, "b"], "y")
    Traceback (most recent call last):
    ...
    ValueError: y: no value in row 1; fill it in, or leave the row out.
    """
    refuse_masked(values, name)
    missing = np.flatnonzero(_is_missing(np.asarray(values)))
    if len(missing) == 1:
        raise ValueError(f"{name}: no value in row {missing[0]}; fill it in, or leave the row out.")
    if len(missing):
        raise ValueError(
            f"{name}: no value in {len(missing)} rows, the first of them {missing[0]}; fill "
            "them in, or leave the rows out."
        )


def _is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind != "O" or values.ndim != 1:
        return np.zeros(len(np.atleast_1d(values)), dtype=np.bool_)
    return np.array([_is_no_value(value) for value in values], dtype=np.bool_)


def _is_no_value(value: Any) -> bool:
    """Tell whether a value is None, or differs from itself, as NaN, NaT and NA do."""
    if isinstance(value, str):
        return False
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        # pandas' NA neither equals itself nor differs.
        return type(value).__name__ == "NAType"
