"""What a learner says when a fit fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_CALLBACK_ATTRIBUTES = ("_callback", "_skl_callbacks")


@contextmanager
def restore_on_error(learner: Any) -> Iterator[None]:
    """Restore the learner if a fit fails, and explain numbers that are out of range."""
    before = learner.__dict__.copy()
    try:
        yield
    except BaseException as error:
        kept = {k: v for k, v in learner.__dict__.items() if k.startswith(_CALLBACK_ATTRIBUTES)}
        learner.__dict__ = before | kept
        if isinstance(error, ValueError) and "could not convert string" in str(error):
            raise ValueError(
                f"X has columns that are not numbers ({error}). Encode them, for example with "
                "Columns.fit(X).column_transformer() of nearfar.columns."
            ) from error
        if isinstance(error, np.linalg.LinAlgError | FloatingPointError):
            raise ValueError(
                "Values of X differ too much in size for double precision; look for outliers, "
                "or try scale='standard'."
            ) from error
        raise
