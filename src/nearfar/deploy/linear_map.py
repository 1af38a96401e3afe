"""`LinearMap`: what is deployed of a metric or an adapter.

    x -> L u + b,     u = x, or x / |x| with `unit_rows`; rows of zeros stay zero

A metric that bends has the leaves of trees or columns in pieces in place of u (`maps`).

Distances between mapped rows do not depend on b. An adapter has two maps, one for queries and one
for documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nearfar.typing import Floats, Matrix, Vector

# Random rows on which a function must agree with the map that was read from it.
_CHECKED_ROWS = 8


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A linear map of rows, perhaps after division by their length.

    Attributes
    ----------
    unit_rows: Whether rows are divided by their length first.
    maps: What L is applied to: the features of these maps of u, side by side; None stands
        for u itself. Empty if L is applied to u.
    """

    L: Matrix
    b: Vector
    unit_rows: bool = False
    feature_names: tuple[str, ...] | None = None
    maps: Sequence[Any] = ()

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        known = (each.n_features for each in self.maps if each is not None)
        return next(known, self.L.shape[1])

    @property
    def n_components(self) -> int:
        """Number of coordinates of a mapped row."""
        return self.L.shape[0]

    @classmethod
    def of_function(cls, transform: Callable[[Floats], ArrayLike], n_features: int) -> LinearMap:
        """Find the map that a function of rows computes; raise ValueError if it is not linear."""
        b = np.asarray(transform(np.zeros((1, n_features))), dtype=np.float64)[0]
        L = (np.asarray(transform(np.eye(n_features)), dtype=np.float64) - b).T
        rows = np.random.default_rng(0).standard_normal((_CHECKED_ROWS, n_features))
        mapped = np.asarray(transform(rows), dtype=np.float64)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        for unit_rows in (False, True):
            expected = (rows / lengths if unit_rows else rows) @ L.T + b
            if np.allclose(mapped, expected, rtol=1e-5, atol=1e-6 * float(np.abs(mapped).max())):
                return cls(np.ascontiguousarray(L), b, unit_rows)
        raise ValueError("The model is not a linear map of the vectors, so it cannot be exported.")


def linear_maps(model: Any) -> tuple[LinearMap, LinearMap]:
    """Return a model's maps of queries and of documents.

    Parameters
    ----------
    model: With `linear_map`, or with `transform_queries`, `transform_documents` and
        `n_features_in_`.
    """
    if hasattr(model, "transform_queries") and hasattr(model, "transform_documents"):
        width = int(model.n_features_in_)
        return (
            LinearMap.of_function(model.transform_queries, width),
            LinearMap.of_function(model.transform_documents, width),
        )
    if hasattr(type(model), "linear_map"):
        both = model.linear_map
        return both, both
    raise TypeError(f"Expected a metric or an adapter; got {type(model).__name__}.")
