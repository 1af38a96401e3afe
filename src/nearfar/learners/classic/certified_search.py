"""L-BFGS over maps, with a certificate of how far the optimum can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import numpy as np

from nearfar.numerics.lbfgs import lbfgs
from nearfar.typing import Matrix, Vector

_MEMORY = 20
_SHORTER = 0.5
"""Length of the first step of L-BFGS; one of length 1 from the identity could end at zero."""


class SearchPoint(Protocol):
    """A problem at a map L."""

    @property
    def value(self) -> float:
        """What is minimised."""

    @property
    def gradient(self) -> Matrix:
        """Gradient of the value by L."""


Point = TypeVar("Point", bound=SearchPoint)


def search(at: Callable[[Matrix], Point], start: Matrix, *, max_iter: int) -> Iterator[Point]:
    """Yield the iterates of L-BFGS; the caller ends the search.

    Parameters
    ----------
    at : callable
        Map -> the problem at it.
    start : array
        The first map, of any shape.
    max_iter : int
        The most iterations.
    """

    def evaluate(flat: Vector) -> Point:
        return at(flat.reshape(start.shape) * _SHORTER)

    last: tuple[Vector, Point] | None = None

    def objective(flat: Vector) -> tuple[float, Vector]:
        nonlocal last
        point = evaluate(flat)
        last = flat.copy(), point
        return point.value, point.gradient.ravel() * _SHORTER

    first = start.ravel() / _SHORTER
    for _, flat in lbfgs(objective, first, max_iter=max_iter, tol=0.0, memory=_MEMORY):
        if last is None or not np.array_equal(last[0], flat):
            last = flat, evaluate(flat)
        yield last[1]
