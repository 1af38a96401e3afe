"""Names for arrays, so that signatures say what they hold."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""Labels, ids or other values, of any type."""

Floats = NDArray[np.floating[Any]]
"""Points or other numbers, in float32 or float64."""

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Ints = NDArray[np.intp]
"""Row numbers or class codes."""
Bools = NDArray[np.bool_]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""What a JSON document can hold."""
