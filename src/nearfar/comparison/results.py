"""Results of methods: on each cell, and their means over the cells that two methods share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from nearfar.comparison.methods import Method
from nearfar.comparison.scoring import Scores
from nearfar.comparison.splits import Cell, Splits
from nearfar.typing import Vector

NO_TIME = "no time left"


@dataclass(frozen=True, eq=False)
class CellResult:
    """What a method achieved on a cell.

    Attributes
    ----------
    scores : Scores
    fit_seconds : float
        Time of the fit.
    seconds : float
        Time of the fit and of scoring.
    stopped_early : bool
        Whether the fit was ended for lack of time.
    """

    scores: Scores
    fit_seconds: float
    seconds: float
    stopped_early: bool = False


@dataclass
class Trials:
    """Results of a method so far.

    Attributes
    ----------
    method : Method
    splits : Splits
    results : dict of Cell to CellResult
    note : str
        Why the method was given up, if it was.
    """

    method: Method
    splits: Splits
    results: dict[Cell, CellResult] = field(default_factory=dict)
    note: str = ""

    @property
    def finished(self) -> bool:
        """Whether there is a result on every fold."""
        return all(cell in self.results for cell in self.splits.full)

    def has(self, cells: Iterable[Cell]) -> bool:
        """Tell whether there are results of whole fits on these cells."""
        found = [self.results.get(cell) for cell in cells]
        return all(result is not None and not result.stopped_early for result in found)

    def result(self) -> MethodResult:
        """Return the result on the most rows: on folds with all training rows if there are any."""
        if self.note or not self.results:
            return MethodResult(self.method, note=self.note or NO_TIME)
        return self.summary(_largest(self.results, self.splits))

    def summary(self, cells: list[Cell]) -> MethodResult:
        """Return the result on some cells."""
        results = [self.results[cell] for cell in cells]
        scores = [result.scores for result in results]
        by_row = self.splits.mean_by_row
        return MethodResult(
            self.method,
            errors=np.array([s.error for s in scores]),
            triplet_accuracies=np.array([s.triplet_accuracy for s in scores]),
            maps_at_r=np.array([s.map_at_r for s in scores]),
            seconds=np.array([result.fit_seconds for result in results]),
            wrong=by_row(zip(cells, [s.wrong for s in scores], strict=True)),
            average_precision=by_row(
                zip(cells, [s.average_precision for s in scores], strict=True)
            ),
            stopped_early=any(result.stopped_early for result in results),
            cells=tuple(cells),
            trials=self,
        )


def _largest(cells: Iterable[Cell], splits: Splits) -> list[Cell]:
    """Return the cells with all training rows of their folds, or the largest sample."""
    full = sorted(cell for cell in cells if not splits.is_sample(cell))
    return full or [max(cells, key=lambda cell: cell.n_train)]


def _no_values() -> Vector:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class MethodResult:
    """Scores of a method on all folds, or on those that it finished.

    Attributes
    ----------
    method : Method
    errors, triplet_accuracies, maps_at_r, seconds : array of shape (n_folds,)
        k-NN error or share of wrong judgements, triplet accuracy, MAP@R and fit time on each fold;
        empty if left out.
    wrong : array of shape (n_rows,)
        How often each row, or judgement, was wrong, from 0 to 1; nan for those never tested.
    average_precision : array of shape (n_rows,)
        Mean average precision of each row's rankings; nan for rows never ranked.
    note : str
        Why the method was left out, if it was.
    stopped_early : bool
        Whether a fit was ended for lack of time; the scores are those of the metric so far.
    cells : tuple of Cell
        What the scores were measured on.
    trials : Trials or None
        All results of the method.
    """

    method: Method
    errors: Vector = field(default_factory=_no_values)
    triplet_accuracies: Vector = field(default_factory=_no_values)
    maps_at_r: Vector = field(default_factory=_no_values)
    seconds: Vector = field(default_factory=_no_values)
    wrong: Vector = field(default_factory=_no_values)
    average_precision: Vector = field(default_factory=_no_values)
    note: str = ""
    stopped_early: bool = False
    cells: tuple[Cell, ...] = ()
    trials: Trials | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Name of the method."""
        return self.method.name

    @property
    def error(self) -> float:
        """Mean error over the folds."""
        return _mean(self.errors)

    @property
    def triplet_accuracy(self) -> float:
        """Mean triplet accuracy over the folds that have triplets."""
        return _mean(self.triplet_accuracies)

    @property
    def map_at_r(self) -> float:
        """Mean MAP@R over the folds that have rows to rank."""
        return _mean(self.maps_at_r)

    @property
    def n_train(self) -> float:
        """Number of training rows, if they are a sample; infinity if they are all of a fold's."""
        if self.trials is None or not self.trials.splits.is_sample(self.cells[0]):
            return math.inf
        return self.cells[0].n_train

    @property
    def n_folds(self) -> int:
        """Number of folds of the comparison."""
        return len(self.errors) if self.trials is None else len(self.trials.splits.folds)

    @property
    def extent(self) -> tuple[bool, float, int]:
        """How thoroughly the method was tried: by whole fits, training rows, and folds."""
        return not self.stopped_early, self.n_train, len(self.errors)

    @property
    def partial(self) -> str:
        """What the scores were measured on, if not on all folds; otherwise an empty string."""
        if self.trials is None:
            return ""
        parts = []
        if len(self.cells) < self.n_folds:
            parts.append(f"{len(self.cells)} of {self.n_folds} folds")
        if self.n_train < math.inf:
            splits = self.trials.splits
            parts.append(f"{self.n_train} of {len(splits.folds[0][0])} training {splits.unit}")
        return ", ".join(parts)

    @property
    def complete(self) -> bool:
        """Whether the method was fully tried."""
        return not (self.note or self.partial or self.stopped_early)


def paired(one: MethodResult, other: MethodResult) -> tuple[MethodResult, MethodResult] | None:
    """Return the results of two methods on the largest cells that both have; None if none."""
    if one.cells == other.cells or one.trials is None or other.trials is None:
        return one, other
    shared = [cell for cell in one.trials.results if cell in other.trials.results]
    if not shared:
        return None
    cells = _largest(shared, one.trials.splits)
    return one.trials.summary(cells), other.trials.summary(cells)


def _mean(values: Vector) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
