"""What happened: a solver yields a `Iteration` at a time; a `History` keeps them."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np

from nearfar.typing import Matrix, Vector


@dataclass(frozen=True, slots=True)
class Iteration:
    """One round of a solver.

    Attributes
    ----------
    objective : float
        Value of what is minimised, after the round.
    eigenvalue : float
        How much the round's direction promised: the leading eigenvalue before the step.
    step : float
        Weight that the direction was given.
    direction : array of shape (n_features,) or None
        Unit vector v of the rank-one term v v'.
    threshold : float or None
        Where the squared length along the direction was cut, by binary weak models.
    factor : array of shape (rank, n_features) or None
        The whole learned factor, by solvers that change more than one term a round.
    mix : array of shape (n_rounds so far,) or None
        Weights of all directions so far, by solvers that weigh them anew in each round.
    constraint_weights : array of shape (n_constraints,) or None
        Weights of the constraints after the round, where asked for.
    model : object or None
        What was learned, by solvers that learn more than one metric.
    seconds : float
        Time taken; stamped by the `History`.
    """

    objective: float
    eigenvalue: float
    step: float
    direction: Vector | None = None
    threshold: float | None = None
    factor: Matrix | None = None
    mix: Vector | None = None
    constraint_weights: Vector | None = None
    model: Any = None
    seconds: float = float("nan")


Iterations = Generator[Iteration, None, str]
"""A solver at work: yields rounds, returns why it stopped."""


@dataclass(eq=False, repr=False)
class History(Sequence[Iteration]):
    """The rounds of a fit, in order, and why they ended.

    Attributes
    ----------
    rounds : list of Iteration
    stopped : str
        The solver's reason, for instance "converged", "separated" or "max_iter".

    Examples
    --------
    >>> from nearfar.runtime.history import Iteration, History
    >>> trace = History([Iteration(2.0, 1.0, 0.5), Iteration(1.5, 0.4, 0.2)], stopped="max_iter")
    >>> trace.objective
    array([2. , 1.5])
    >>> trace[-1].step
    0.2
    """

    rounds: list[Iteration] = field(default_factory=list)
    stopped: str = ""

    def record(self, rounds: Iterations) -> Iterator[Iteration]:
        """Pass rounds on while keeping them, each stamped with the time it took."""
        start = time.perf_counter()
        while True:
            try:
                iteration = next(rounds)
            except StopIteration as end:
                self.stopped = end.value
                return
            now = time.perf_counter()
            self.rounds.append(replace(iteration, seconds=now - start))
            yield self.rounds[-1]
            start = time.perf_counter()

    @overload
    def __getitem__(self, item: int) -> Iteration: ...
    @overload
    def __getitem__(self, item: slice) -> History: ...
    def __getitem__(self, item: int | slice) -> Iteration | History:
        if isinstance(item, slice):
            return History(self.rounds[item], self.stopped)
        return self.rounds[item]

    def __len__(self) -> int:
        return len(self.rounds)

    def __repr__(self) -> str:
        return f"<History: {len(self)} rounds, {self.stopped}>"

    @property
    def objective(self) -> Vector:
        """Objective after each round."""
        return np.array([iteration.objective for iteration in self.rounds])

    @property
    def eigenvalue(self) -> Vector:
        """Leading eigenvalue in each round."""
        return np.array([iteration.eigenvalue for iteration in self.rounds])

    @property
    def step(self) -> Vector:
        """Weight of each round's direction."""
        return np.array([iteration.step for iteration in self.rounds])

    @property
    def seconds(self) -> Vector:
        """Time taken by each round."""
        return np.array([iteration.seconds for iteration in self.rounds])
