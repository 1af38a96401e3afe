"""What happened in a fit: a solver yields one `Iteration` at a time; a `History` keeps them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, overload

import numpy as np

from nearfar.typing import Vector

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration of a solver.

    Attributes
    ----------
    objective: Value of the minimised function after the iteration.
    eigenvalue: Boosting: the leading eigenvalue before the step, which is how fast the loss
        falls.
    gap: Solvers with a certificate: how far the objective can be above the optimum.
    step: Boosting: the weight of the iteration's direction.
    payload: What the metric is built from: a map, a term, a solution. A history keeps that
        of the last iteration, or all (`keeps_payloads`).
    restart: Number of the start that the iteration belongs to.
    n_rows: Number of points that the objective is over, if that changes during a fit.
    seconds: Duration; set by the `History`.
    """

    objective: float
    eigenvalue: float = math.nan
    gap: float = math.nan
    step: float = math.nan
    payload: Any = None
    restart: int = 0
    n_rows: int | None = None
    seconds: float = math.nan


Iterations = Generator[Iteration, None, str]
"""A running solver: yields iterations and returns why it stopped."""


def map_iterations(steps: Generator[T, None, str], make: Callable[[T], Iteration]) -> Iterations:
    """Turn each step of a solver into an iteration, and pass on why it stopped."""
    with closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                return str(end.value)
            yield make(step)


def _column(name: str, doc: str) -> property:
    """Return a property: an attribute of each iteration, as an array."""

    def column(history: History) -> Vector:
        return np.array([getattr(iteration, name) for iteration in history.iterations])

    return property(column, doc=doc)


@dataclass(eq=False, repr=False)
class History(Sequence[Iteration]):
    """The iterations of a fit, in order, and why they ended.

    Attributes
    ----------
    stopped: The solver's reason, for instance "converged", "separated" or "max_iter".
    notes: What was done before the first iteration, for instance how triplets were mined.
    keeps_payloads: Whether iterations before the last keep their payload.
    row_curve: Trial fits to more and more rows, if they decided how many to learn from:
        rows, value on held-out rows, gain over half as many, and its standard error.
    """

    iterations: list[Iteration] = field(default_factory=list)
    stopped: str = ""
    notes: tuple[str, ...] = ()
    keeps_payloads: bool = False
    row_curve: tuple[tuple[int, float, float, float], ...] = ()

    def record(
        self, iterations: Iterations, n_iterations: int | None = None
    ) -> Iterator[Iteration]:
        """Pass iterations on while keeping them, each with its duration.

        After `n_iterations`, as validation chose, they end.
        """
        start = time.perf_counter()
        while True:
            try:
                iteration = next(iterations)
            except StopIteration as end:
                self.stopped = end.value
                return
            now = time.perf_counter()
            if self.iterations and not self.keeps_payloads:
                self.iterations[-1] = replace(self.iterations[-1], payload=None)
            self.iterations.append(replace(iteration, seconds=now - start))
            yield self.iterations[-1]
            if n_iterations is not None and len(self.iterations) >= n_iterations:
                self.stopped = "validation"
                return
            start = time.perf_counter()

    @overload
    def __getitem__(self, item: int) -> Iteration: ...
    @overload
    def __getitem__(self, item: slice) -> History: ...
    def __getitem__(self, item: int | slice) -> Iteration | History:
        if isinstance(item, slice):
            return replace(self, iterations=self.iterations[item])
        return self.iterations[item]

    def __len__(self) -> int:
        return len(self.iterations)

    def __repr__(self) -> str:
        return f"<History: {len(self)} iterations, {self.stopped}>"

    objective = _column("objective", "Objective after each iteration.")
    eigenvalue = _column("eigenvalue", "Leading eigenvalue in each iteration.")
    gap = _column("gap", "Certified gap after each iteration.")
    step = _column("step", "Weight of each iteration's direction.")
    seconds = _column("seconds", "Duration of each iteration.")
