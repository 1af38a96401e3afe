"""What learners from soft neighbours have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfar.learners.map_learner import MapProblem
from nearfar.runtime.history import History
from nearfar.typing import Matrix

_VANISHED = 1e-5
_FIRST_SIZE = 1e-2
"""Squared length of a typical direction where maps begin."""


def nonzero_rows(L: Matrix, largest: float) -> Matrix:
    """Drop directions that the penalty on rank has made vanish.

    Those are the ones whose squared length is tiny compared with `largest`, or with the first map.
    """
    _, size, axes = np.linalg.svd(L, full_matrices=False)
    kept = size**2 > _VANISHED * max(largest, _FIRST_SIZE)
    return np.asarray(size[kept, None] * axes[kept]) if kept.any() else np.zeros((1, L.shape[1]))


class NeighborhoodProblem(MapProblem):
    """Base of the problems on soft neighbours."""

    def warning_message(self, history: History, metric: Any) -> str:
        """Warn where nothing was learned, or where the objective has not settled."""
        if metric.is_zero:
            return "Nothing was learned: the penalty on rank leaves no direction."
        return super().warning_message(history, metric)
