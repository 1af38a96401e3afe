"""What may come before the linear map of a metric: a kernel, leaves, or several maps side by side.

Squared distances of parts add up, d^2 = sum_k |L_k phi_k(x) - L_k phi_k(y)|^2, so a weighted sum of
metrics is one metric, of the features of all parts, with a block of L for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from nearfar.typing import Floats, Vector


class FeatureMap(Protocol):
    """A map from points to the features of a linear map."""

    @property
    def kind(self) -> str:
        """What it is, in a word."""

    @property
    def n_features(self) -> int:
        """Number of features before the map."""

    @property
    def n_components(self) -> int:
        """Number of features after the map."""

    def transform(self, X: Floats) -> Floats:
        """Map points; the result is float32 if X is."""


M = TypeVar("M", bound=Any)


def moved(feature_map: M, center: Vector, scale: Vector) -> M:
    """Return the map of x for a map of (x - center) / scale; None, which maps nothing, stays."""
    if feature_map is None:
        return feature_map
    return replace(
        feature_map, center=center + scale * feature_map.center, scale=scale * feature_map.scale
    )


def side_by_side(feature_map: FeatureMap | None) -> Sequence[Any]:
    """Return the maps that a map consists of."""
    return feature_map.maps if isinstance(feature_map, SideBySide) else (feature_map,)


@dataclass(frozen=True)
class SideBySide:
    """The features of several maps, one after the other; None stands for the points themselves.

    Attributes
    ----------
    maps : sequence of FeatureMap or None
    n_features : int

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.metrics.feature_maps import SideBySide
    >>> SideBySide((None, None), 1).transform(np.array([[3.0]]))
    array([[3., 3.]])
    """

    maps: Sequence[Any]
    n_features: int

    def __post_init__(self) -> None:
        if any(each is not None and each.n_features != self.n_features for each in self.maps):
            raise ValueError("Maps side by side must be for the same features.")

    @property
    def kind(self) -> str:
        """The kinds of maps."""
        return " + ".join("linear" if each is None else each.kind for each in self.maps)

    @property
    def n_components(self) -> int:
        """Number of features after the map."""
        return sum(self.widths())

    def widths(self) -> Iterator[int]:
        """Yield how many features each map gives."""
        for each in self.maps:
            yield self.n_features if each is None else each.n_components

    def transform(self, X: Floats) -> Floats:
        """Map points; the result is float32 if X is."""
        return np.hstack([X if each is None else each.transform(X) for each in self.maps])
