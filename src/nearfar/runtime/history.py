"""What happened in a fit: a solver yields one `Iteration` at a time; a `History` keeps them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, overload

import numpy as np

from nearfar.typing import Matrix, Vector

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration of a solver.

    Attributes
    ----------
    objective : float
        Value of the minimised function after the iteration.
    eigenvalue : float
        Boosting: the leading eigenvalue before the step, which is how fast the loss falls.
    gap : float
        Solvers with a certificate: how far the objective can be above the optimum.
    step : float
        Boosting: the weight of the iteration's direction.
    direction : array of shape (n_features,) or None
        Boosting: the unit vector v of the rank-one term v v'.
    directions : array of shape (n_directions, n_features) or None
        Boosting in blocks: the unit vectors of the terms.
    steps : array of shape (n_directions,) or None
        Boosting in blocks: their weights.
    threshold : float or None
        Threshold of a binary weak model, or of a max-margin metric.
    factor : array of shape (rank, n_features) or None
        The whole learned factor, from solvers that change more than one term per iteration.
    term_weights : array of shape (n_iterations so far,) or None
        Weights of all directions so far, from solvers that reweigh them in each iteration.
    constraint_weights : array of shape (n_constraints,) or None
        Weights of the constraints after the iteration, if requested.
    model : object or None
        The solution after the iteration, from solvers whose iterations do not add up. A history
        keeps only that of the last iteration.
    restart : int
        Number of the start that the iteration belongs to.
    n_rows : int or None
        Number of points that the objective is over, if that changes during a fit.
    seconds : float
        Duration; set by the `History`.
    """

    objective: float
    eigenvalue: float = math.nan
    gap: float = math.nan
    step: float = math.nan
    direction: Vector | None = None
    directions: Matrix | None = None
    steps: Vector | None = None
    threshold: float | None = None
    factor: Matrix | None = None
    term_weights: Vector | None = None
    constraint_weights: Vector | None = None
    model: Any = None
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
    iterations : list of Iteration
    stopped : str
        The solver's reason, for instance "converged", "separated" or "max_iter".
    notes : tuple of str
        What was done before the first iteration, for instance how triplets were mined.

    Examples
    --------
    >>> from nearfar.runtime.history import History, Iteration
    >>> history = History([Iteration(2.0, step=0.5), Iteration(1.5, step=0.2)], stopped="max_iter")
    >>> history.objective
    array([2. , 1.5])
    >>> history[-1].step
    0.2
    """

    iterations: list[Iteration] = field(default_factory=list)
    stopped: str = ""
    notes: tuple[str, ...] = ()

    def record(self, iterations: Iterations) -> Iterator[Iteration]:
        """Pass iterations on while keeping them, each with its duration."""
        start = time.perf_counter()
        while True:
            try:
                iteration = next(iterations)
            except StopIteration as end:
                self.stopped = end.value
                return
            now = time.perf_counter()
            if self.iterations and self.iterations[-1].model is not None:
                self.iterations[-1] = replace(self.iterations[-1], model=None)
            self.iterations.append(replace(iteration, seconds=now - start))
            yield self.iterations[-1]
            start = time.perf_counter()

    @overload
    def __getitem__(self, item: int) -> Iteration: ...
    @overload
    def __getitem__(self, item: slice) -> History: ...
    def __getitem__(self, item: int | slice) -> Iteration | History:
        if isinstance(item, slice):
            return History(self.iterations[item], self.stopped, self.notes)
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
