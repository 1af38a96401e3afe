"""`WideMetric`: a metric of many features that differs from a weight for each in few directions.

    L = diag(weights) + U B        U of shape (n_features, rank), B of shape (rank, n_features)

A metric that was learned from a few rows is like that: in the span of the rows it is what was
learned, and outside features count as in Euclidean distance. Memory and time are linear in the
number of features, while L has its square of entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nearfar.columns import Columns
from nearfar.metrics.metric import Metric
from nearfar.metrics.threshold_votes import Votes
from nearfar.typing import Floats, Matrix, Vector


@dataclass(frozen=True, eq=False, repr=False, init=False, kw_only=True)
class WideMetric(Metric):
    """A metric whose map is a diagonal matrix plus a product of two narrow ones.

    `L`, which has as many rows as features, is computed when it is first used.

    Parameters
    ----------
    weights: shape (n_features,). The diagonal.
    feature_names, votes, unit_rows, columns: As of `Metric`.
    """

    weights: Vector
    U: Matrix
    B: Matrix

    def __init__(
        self,
        weights: ArrayLike,
        U: ArrayLike,
        B: ArrayLike,
        *,
        feature_names: Sequence[str] | None = None,
        votes: Votes | None = None,
        unit_rows: bool = False,
        columns: Columns | None = None,
    ) -> None:
        arrays = [np.array(array, dtype=np.float64, order="C") for array in (weights, U, B)]
        diagonal, left, right = arrays
        rank = left.shape[-1]
        if left.shape != (*diagonal.shape, rank) or right.shape != (rank, *diagonal.shape):
            shapes = ", ".join(str(array.shape) for array in arrays)
            raise ValueError(
                "A wide metric's arrays must have shapes (n_features,), (n_features, rank) and "
                f"(rank, n_features); got {shapes}."
            )
        # The checks of names, votes and columns are those of any metric of these features.
        checked = Metric(diagonal[None], feature_names, votes, None, unit_rows, columns)
        if not all(np.isfinite(array).all() for array in arrays):
            raise ValueError("A metric's L must be finite.")
        for array in arrays:
            array.setflags(write=False)
        vars(self).update(vars(checked))
        del vars(self)["L"]
        vars(self).update(weights=diagonal, U=left, B=right)

    @cached_property  # type: ignore[misc]
    def L(self) -> Matrix:  # noqa: N802
        """The map, of shape (n_features, n_features)."""
        L = self.U @ self.B
        L[np.diag_indices_from(L)] += self.weights
        L.setflags(write=False)
        return L

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "L"}

    @property
    def is_zero(self) -> bool:
        """Whether all distances are zero."""
        few = np.count_nonzero(self.weights) <= len(self.B)
        return bool(few and super().is_zero)

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return len(self.weights)

    @property
    def n_components(self) -> int:
        """Number of coordinates after the map: as many as features."""
        return len(self.weights)

    def _with(self, **changes: Any) -> Metric:
        names = ("feature_names", "votes", "unit_rows", "columns")
        kept = {name: getattr(self, name) for name in names}
        return WideMetric(self.weights, self.U, self.B, **(kept | changes))

    def mapped(self, points: Floats) -> Floats:
        """Apply the linear map to rows of its input, without checks."""
        dtype = points.dtype
        along = points @ self.B.T.astype(dtype, copy=False)
        return along @ self.U.T.astype(dtype, copy=False) + points * self.weights.astype(dtype)
