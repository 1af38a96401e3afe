"""`Scaler`: the units that learners work in, so that results do not depend on the units of X."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from sklearn.preprocessing import StandardScaler

from nearfar.metrics.metric import Metric
from nearfar.typing import Floats, Vector

_BLOCK_ROWS = 1 << 14


@dataclass(frozen=True)
class Scaler:
    """Centre and scale of each feature.

    Attributes
    ----------
    center, scale : array of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.learners.scaler import Scaler
    >>> X = np.array([[0.0, 5.0], [4.0, 5.0]])
    >>> Scaler.fit(X, "standard").transform(X)
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    center: Vector
    scale: Vector

    @classmethod
    def fit(cls, X: Floats, scale: str | None) -> Scaler:
        """Find the statistics of X; a constant feature keeps scale 1."""
        size = _power_of_two(max(float(X.max()), -float(X.min())))
        scaler = StandardScaler(with_std=scale == "standard")
        for top in range(0, len(X), _BLOCK_ROWS):
            scaler.partial_fit(np.asarray(X[top : top + _BLOCK_ROWS], dtype=np.float64) / size)
        spread = np.ones(X.shape[1]) if scaler.scale_ is None else scaler.scale_
        return cls(scaler.mean_ * size, spread if scale is None else spread * size)

    def transform(self, X: Floats) -> Floats:
        """Return X in the learner's units."""
        Z = X - self.center.astype(X.dtype)
        Z /= self.scale.astype(X.dtype)
        return Z

    @property
    def euclidean(self) -> Metric:
        """Euclidean distance in the learner's units, as a metric on X."""
        return Metric(np.diag(1.0 / self.scale))


def _power_of_two(size: float) -> float:
    """Return the power of two next to `size`; dividing by it is exact."""
    return 2.0 ** min(1020, max(-1020, math.frexp(size)[1])) if size > 0 else 1.0
