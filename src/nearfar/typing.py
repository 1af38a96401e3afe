"""Names for arrays, so that signatures say what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
"""Points or other numbers, in float32 or float64."""

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Ints = NDArray[np.intp]
"""Row numbers or class codes."""
