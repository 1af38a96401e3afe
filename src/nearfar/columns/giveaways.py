"""Deprecated name of `nearfar.columns.leakage`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from nearfar.columns.leakage import leaking_columns
from nearfar.typing import Floats, Ints


def giveaways(X: Floats, classes: Ints, sources: Sequence[str]) -> list[str]:
    """Deprecated: use `nearfar.columns.leakage.leaking_columns`."""
    warnings.warn(
        "giveaways is called nearfar.columns.leakage.leaking_columns; the old name will be removed "
        "in the next version.",
        FutureWarning,
        stacklevel=2,
    )
    return leaking_columns(X, classes, sources)
