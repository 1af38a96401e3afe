"""NCA in batches, for very many points, and in parts: `partial_fit`.

Adam takes a step for each batch. `partial_fit` takes one pass over the batches of new rows, in the
units of the first part, and keeps Adam's moments for the next part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearfar.learners.nca.soft_neighbors import has_enough_classes
from nearfar.learners.scaler import Scaler
from nearfar.rows import Points, Rows
from nearfar.typing import Ints, Matrix, Vector

# Change of the map in a step: larger ones leave more noise, smaller ones need more passes.
_STEP = 0.03
# The usual decay of Adam's moments (Kingma and Ba, ICLR 2015).
_MOMENTS = (0.9, 0.999)


@dataclass(frozen=True)
class Batches:
    """Points, labels and weights in random parts of about `size`."""

    Z: Points
    codes: Ints
    size: int
    random_state: np.random.RandomState
    weight: Vector | None = None

    def __post_init__(self) -> None:
        if isinstance(self.Z, Rows) and not self.Z.random_access:
            raise ValueError(
                "Batches are drawn at random, for which Parquet files and Dask arrays are too "
                "slow; save X as a .npy file."
            )

    def draw(self) -> list[Ints]:
        """Return the rows of each part."""
        number = max(1, round(len(self.Z) / self.size))
        parts = np.array_split(self.random_state.permutation(len(self.Z)), number)
        return [rows for rows in parts if has_enough_classes(self.codes[rows])]


@dataclass(frozen=True)
class Adam:
    """A map, the running moments of its gradients, and how many there were."""

    L: Matrix
    first: Matrix
    second: Matrix
    number: int

    @classmethod
    def start(cls, L: Matrix) -> Adam:
        """Begin at a map."""
        return cls(L, np.zeros_like(L), np.zeros_like(L), 0)

    def moved(self, gradient: Matrix) -> Adam:
        """Take a step."""
        number = self.number + 1
        first = _MOMENTS[0] * self.first + (1 - _MOMENTS[0]) * gradient
        second = _MOMENTS[1] * self.second + (1 - _MOMENTS[1]) * gradient**2
        size = np.sqrt(second / (1 - _MOMENTS[1] ** number)) + 1e-12
        step = _STEP / len(self.L) ** 0.5 * first / (1 - _MOMENTS[0] ** number) / size
        return Adam(self.L - step, first, second, number)


class Stream(NamedTuple):
    """Where `partial_fit` continues.

    Attributes
    ----------
    scaler: Units of the first part, which all parts are scaled with.
    unit: Mean variance of the first part's scaled points.
    """

    scale: str | None
    scaler: Scaler
    unit: float
    at: Adam
