"""What methods learn from, and what they are scored on: labelled rows, triplets or pairs.

rows        a method learns from the training rows of a fold; test rows are classified and
            ranked by the training rows (`scoring`)
classes     a method learns from the rows of some classes; rows of the others are classified
            and ranked by each other
triplets    a method learns from the triplets of some anchors, over all rows, and is scored on
            those of the other anchors
pairs       a method learns from some connected groups of pairs, over all rows, and is scored
            on the others; if most are connected, from the pairs of some classes, which are the
            rows that similar pairs join

Judgements of two or more raters are held out by rater instead.
If rows are in groups, a group is learned from or tested on, and never both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from nearfar.comparison.classifiers import FittedClassifier
from nearfar.comparison.scoring import Scores, score_classifier, score_distance
from nearfar.comparison.splits import (
    Cell,
    Splits,
    class_folds,
    judgement_folds,
    judgement_groups,
    kinds_of,
    row_folds,
)
from nearfar.constraints import Pairs, Triplets, kind_of
from nearfar.evaluate.measures import HeldOutJudgements, measures_for
from nearfar.evaluate.overlap import OverlappingJudgements
from nearfar.learners.scaler import Scaler
from nearfar.metrics.metric import Metric
from nearfar.metrics.search import Distance
from nearfar.numerics.missing import LARGEST_VALUE
from nearfar.runtime.parameters import check_parameters, integer
from nearfar.typing import Floats, Ints

Fitted = Metric | Distance | FittedClassifier
"""What methods learn."""


class Training(NamedTuple):
    """What a method learns from.

    Attributes
    ----------
    X : array of shape (n_rows, n_features)
    y : array of shape (n_rows,), Triplets or Pairs
    groups : array of shape (n_rows,) or None
    """

    X: Floats
    y: Ints | Triplets | Pairs
    groups: Ints | None


class ComparisonTask(ABC):
    """What methods learn from and are scored on.

    Attributes
    ----------
    supervision : {"labels", "triplets", "pairs"}
    X : array of shape (n_rows, n_features)
    splits : Splits
        Of rows, triplets or pairs.
    overlap : OverlappingJudgements or None
        Which judgements share rows.
    unseen : array of shape (n_rows,) or None
        The class of each row, if methods are tested on classes that they did not learn from.
    groups : array of shape (n_rows,) or None
        The group of each row.
    note : str
        What a reader of the results must know about the data.
    """

    supervision: str
    X: Floats
    splits: Splits
    overlap: OverlappingJudgements | None = None
    unseen: Ints | None = None
    groups: Ints | None = None
    note: str = ""

    @abstractmethod
    def training(self, cell: Cell, *, raw: bool) -> Training:
        """Return what to learn from: rows, unscaled or standardised, and their supervision."""

    @abstractmethod
    def score(self, distance: Fitted, cell: Cell, *, raw: bool) -> Scores:
        """Score a distance, or a classifier of rows, on what was held out."""


class LabelledRows(ComparisonTask):
    """Rows with class codes; with `unseen`, methods are tested on classes of their own."""

    supervision = "labels"

    def __init__(
        self,
        X: Floats,
        y: Ints,
        cv: object,
        groups: Ints | None,
        random_state: int | None,
        *,
        n_neighbors: int,
        seed: int,
        unseen: bool = False,
    ) -> None:
        folds = (class_folds if unseen else row_folds)(y, cv, groups, random_state)
        check_parameters({"n_neighbors": integer(at_least=1)}, {"n_neighbors": n_neighbors})
        smallest = min(len(test) - 1 if unseen else len(train) for train, test in folds)
        if n_neighbors > smallest:
            raise ValueError(f"n_neighbors must be from 1 to {smallest}; got {n_neighbors}.")
        self.splits = Splits(folds, y, n_neighbors=n_neighbors, seed=seed)
        self.X, self.y, self.groups = X, y, groups
        self.n_neighbors, self.seed = n_neighbors, seed
        self.unseen = y if unseen else None
        self._standardised: tuple[Cell, Floats, Floats] | None = None

    def training(self, cell: Cell, *, raw: bool) -> Training:
        """Return the training rows of a cell, with their classes and groups."""
        rows = self.splits.rows(cell)[0]
        groups = None if self.groups is None else self.groups[rows]
        return Training(self._rows(cell, raw)[0], self.y[rows], groups)

    def score(self, distance: Fitted, cell: Cell, *, raw: bool) -> Scores:
        """Classify and rank the test rows by training rows, or unseen classes by each other."""
        train, test = (
            (X, self.y[rows])
            for X, rows in zip(self._rows(cell, raw), self.splits.rows(cell), strict=True)
        )
        if isinstance(distance, FittedClassifier):
            return score_classifier(distance, test, len(train[0]), self.seed)
        among = self.unseen is not None
        return score_distance(
            distance,
            test if among else train,
            None if among else test,
            n_neighbors=self.n_neighbors,
            random_state=self.seed,
        )

    def _rows(self, cell: Cell, raw: bool) -> tuple[Floats, Floats]:
        """Rows of a cell, standardised by its training rows; those of the last cell are kept."""
        train, test = self.splits.rows(cell)
        if raw:
            return self.X[train], self.X[test]
        if self._standardised is None or self._standardised[0] != cell:
            scaler = Scaler.fit(self.X[train], "standard")
            X, X_test = scaler.transform(self.X[train]), scaler.transform(self.X[test])
            self._standardised = cell, X, X_test
        return self._standardised[1:]


class JudgedRows(ComparisonTask):
    """Rows with triplets or pairs; all rows are known, also those of held-out judgements."""

    def __init__(
        self,
        X: Floats,
        judgements: Triplets | Pairs,
        cv: object,
        groups: Ints | None,
        random_state: int | None,
        *,
        joined: bool = False,
    ) -> None:
        judgements.check(len(X))
        if float(np.abs(X).max()) > LARGEST_VALUE:
            raise ValueError(f"X has values beyond {LARGEST_VALUE:g}, whose squares overflow.")
        if judgements.weight is not None:
            judgements = judgements.take(judgements.weight > 0)
        self.X, self.judgements, self.groups = X, judgements, groups
        self.supervision = kind_of(judgements)
        folds = judgement_folds(judgements, cv, groups, random_state)
        seed = 0 if random_state is None else int(random_state)
        self.splits = Splits(folds, kinds_of(judgements), seed=seed, unit=self.supervision)
        together = judgement_groups(judgements, cv) if groups is None else None
        self.overlap = OverlappingJudgements.of(judgements, together, groups)
        if groups is not None:
            n_tested = sum(len(test) for _, test in folds)
            n_seen = np.mean([len(train) for train, _ in folds])
            them = "groups"
            if joined:
                them = "classes"
                self.note = "Rows that similar pairs join are one class. "
            self.note += (
                f"A fold learns from {n_seen:.0f} of {len(judgements)} {self.supervision} on "
                f"average, and {n_tested} are tested: those between {them} that are learned from "
                f"and {them} that are held out are dropped."
            )
        elif judgements.n_raters > 1:
            self.note = f"No person of {judgements.n_raters} is both learned from and tested on."
        self._Z: Floats | None = None

    def training(self, cell: Cell, *, raw: bool) -> Training:
        """Return all rows and the training judgements of a cell."""
        judgements = self.judgements.take(self.splits.rows(cell)[0])
        return Training(self._rows(raw), judgements, self.groups)

    def score(self, distance: Fitted, cell: Cell, *, raw: bool) -> Scores:
        """Score the test judgements."""
        test = self.judgements.take(self.splits.rows(cell)[1])
        held_out = HeldOutJudgements(distance, self._rows(raw), test)
        measures = measures_for(self.supervision)
        return Scores({measure.name: measure.losses(held_out) for measure in measures})

    def _rows(self, raw: bool) -> Floats:
        if raw:
            return self.X
        if self._Z is None:
            self._Z = Scaler.fit(self.X, "standard").transform(self.X)
        return self._Z
