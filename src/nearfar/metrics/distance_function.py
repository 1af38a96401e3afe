"""A metric as a function of two points, for libraries that call one for each pair."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from nearfar.typing import Array, Matrix, Vector

if TYPE_CHECKING:
    from nearfar.metrics.metric import Metric


@dataclass(frozen=True, eq=False)
class DistanceFunction:
    """The distance of two points.

    Arrays of numbers go through a short path if the metric is a linear map; everything else is
    checked as by the metric.

    Parameters
    ----------
    metric : Metric
    L : array of shape (n_components, n_features), optional
        The map, if the metric is linear.
    unit : bool, default=False
        Whether points are first divided by their lengths.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Metric
    >>> distance = Metric([[1.0, 0.0], [0.0, 10.0]]).get_metric()
    >>> distance(np.zeros(2), np.ones(2), squared=True)
    101.0
    """

    metric: Metric = field(repr=False)
    L: Matrix | None = field(default=None, repr=False)
    unit: bool = False

    def __call__(self, u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
        """Return the distance, or its square."""
        L = self.L
        if L is None or not (_is_point(u, L.shape[1]) and _is_point(v, L.shape[1])):
            points = np.stack([np.atleast_1d(np.squeeze(x)) for x in (u, v)])
            value = float(self.metric.pair_distances(points, [(0, 1)])[0])
            return value * value if squared else value
        if self.unit:
            u, v = _of_unit_length(u), _of_unit_length(v)
        mapped = L @ np.subtract(u, v, dtype=np.float64)
        value = float(mapped @ mapped)
        return value if squared else math.sqrt(value)


def _is_point(x: object, n_features: int) -> TypeGuard[Array]:
    return type(x) is np.ndarray and x.shape == (n_features,) and x.dtype.kind in "fiu"


def _of_unit_length(x: Array) -> Vector:
    point = x.astype(np.float64)
    return np.asarray(point / (math.sqrt(float(point @ point)) or 1.0))
