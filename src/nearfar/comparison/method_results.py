"""Results of methods: on each cell, and their means over the cells that two methods share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from nearfar.comparison.compared_methods import Method
from nearfar.comparison.scoring import Scores, known_mean
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
        results = [self.results.get(cell) for cell in cells]
        return all(result is not None and not result.stopped_early for result in results)

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
            losses={
                name: by_row((cell, s.losses[name]) for cell, s in zip(cells, scores, strict=True))
                for name in scores[0].losses
            },
            fold_losses={
                name: np.array([s.loss(name) for s in scores]) for name in scores[0].losses
            },
            seconds=np.array([result.fit_seconds for result in results]),
            stopped_early=any(result.stopped_early for result in results),
            cells=tuple(cells),
            trials=self,
        )


def _largest(cells: Iterable[Cell], splits: Splits) -> list[Cell]:
    """Return the cells with all training rows of their folds, or the largest sample."""
    full = sorted(cell for cell in cells if not splits.is_sample(cell))
    return full or [max(cells, key=lambda cell: cell.n_train)]


@dataclass(frozen=True, eq=False)
class MethodResult:
    """Scores of a method on all folds, or on those that it finished.

    Attributes
    ----------
    method : Method
    losses : dict of str to array of shape (n_rows,)
        Mean loss of each row, or judgement, by the name of the measure, the main one first; nan for
        those never scored. It is the measure, or one minus it where more is better.
    fold_losses : dict of str to array of shape (n_folds,)
        Mean loss on each fold.
    seconds : array of shape (n_folds,)
        Time of the fits.
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
    losses: dict[str, Vector] = field(default_factory=dict)
    fold_losses: dict[str, Vector] = field(default_factory=dict)
    seconds: Vector = field(default_factory=lambda: np.empty(0))
    note: str = ""
    stopped_early: bool = False
    cells: tuple[Cell, ...] = ()
    trials: Trials | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Name of the method."""
        return self.method.name

    def loss(self, measure: str) -> float:
        """Return the mean loss over the folds that could be scored."""
        return known_mean(self.fold_losses[measure])

    @property
    def wrong(self) -> Vector:
        """Loss of each row by the main measure: how often it was wrong, from 0 to 1."""
        return next(iter(self.losses.values()))

    @property
    def errors(self) -> Vector:
        """Mean loss on each fold by the main measure."""
        return next(iter(self.fold_losses.values()), np.empty(0))

    @property
    def error(self) -> float:
        """Mean error over the folds: k-NN error, or share of wrong judgements."""
        return known_mean(self.errors)

    @property
    def triplet_accuracy(self) -> float:
        """Mean triplet accuracy over the folds that have triplets."""
        return 1.0 - self.loss("triplet_accuracy")

    @property
    def map_at_r(self) -> float:
        """Mean MAP@R over the folds that have rows to rank."""
        return 1.0 - self.loss("map_at_r")

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
