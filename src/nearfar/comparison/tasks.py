"""What methods learn from, and what they are scored on: labels, numbers, triplets or pairs.

rows        a method learns from the training rows of a fold; test rows are classified and
            ranked by the training rows (`scoring`), or their numbers are predicted
classes     a method learns from the rows of some classes; rows of the others are classified
            and ranked by each other
triplets    a method learns from the triplets of some anchors, and is scored on those of the
            other anchors
pairs       a method learns from some connected groups of pairs, and is scored on the others; if
            most are connected, from the pairs of some classes, which are the rows that similar
            pairs join

A method that learns from judgements sees their rows and those of no judgement.

Judgements of two or more raters are held out by rater instead.
If rows are in groups, a group is learned from or tested on, and never both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_array

from nearfar.comparison.classifiers import FittedClassifier
from nearfar.comparison.compared_methods import Method
from nearfar.comparison.scoring import (
    Scores,
    classified_rows,
    score_classifier,
    score_distance,
    score_numbers,
)
from nearfar.comparison.splits import (
    Folds,
    class_folds,
    judgement_folds,
    judgement_groups,
    kinds_of,
    row_folds,
)
from nearfar.learners.pipelines import Estimator
from nearfar.learners.scaler import Scaler
from nearfar.measures.judgements import OverlappingJudgements
from nearfar.measures.neighbor_votes import NUMBERS, best_number
from nearfar.measures.registry import HeldOutJudgements, measures_for
from nearfar.metrics.gallery import Distance, Gallery
from nearfar.metrics.metric import Metric
from nearfar.numerics.missing import LARGEST_VALUE
from nearfar.runtime.parameters import check_parameters, choice, either, integer
from nearfar.supervision import Pairs, Supervision, Triplets, kind_of
from nearfar.typing import Array, Floats, Ints, Vector

Fitted = Metric | Distance | FittedClassifier
"""What methods learn."""

# The error of a number of neighbours is then known to 1.5 points or better.
_ENOUGH_VOTES = 1000


class Training(NamedTuple):
    """What a method learns from."""

    X: Floats
    y: Array | Triplets | Pairs
    groups: Ints | None


@dataclass(frozen=True, eq=False)
class Features:
    """Rows as they come, and the transformer that makes numbers of them.

    Attributes
    ----------
    transformer: Unfitted: it is fitted to what methods learn from.
    """

    rows: ArrayLike
    transformer: Estimator

    def fitted(self, train: Ints, y: object = None) -> Callable[[Ints], Floats]:
        """Fit the transformer to some rows; return what makes numbers of any of them."""
        made = clone(self.transformer).fit(_safe_indexing(self.rows, train), y)

        def numbers(rows: Ints) -> Floats:
            X = made.transform(_safe_indexing(self.rows, rows))
            return np.asarray(check_array(X, dtype=[np.float64, np.float32]))

        return numbers


class ComparisonTask(ABC):
    """What methods learn from and are scored on.

    Attributes
    ----------
    folds: What is learned from and what is tested: rows, triplets or pairs.
    kinds: Class codes of these, which samples are stratified by.
    overlap: Which judgements share rows.
    unseen: shape (n_rows,). The class of each row, if methods are tested on classes that
        they did not learn from.
    groups: shape (n_rows,). The group of each row.
    note: What a reader of the results must know about the data.
    features: What `X` is made of, if that is fitted to the training rows of each fold.
    """

    supervision: str
    X: Floats
    folds: Folds
    kinds: Ints
    features: Features | None = None
    overlap: OverlappingJudgements | None = None
    unseen: Ints | None = None
    groups: Ints | None = None
    note: str = ""

    @abstractmethod
    def training(self, fold: int, *, raw: bool) -> Training:
        """Return what to learn from: rows, unscaled or standardised, and their supervision."""

    @abstractmethod
    def score(self, distance: Fitted, fold: int, *, raw: bool, n_neighbors: int) -> Scores:
        """Score a distance, or a classifier of rows, on what was held out."""

    def choose_neighbors(self, method: Method, fold: int, own: int | None) -> int:
        """Return how many neighbours vote for the test rows of a fold; 0 if nothing votes.

        `own` is the number that the method has chosen on rows it put aside, if it did.
        """
        return 0


class LabelledRows(ComparisonTask):
    """Rows with class codes; with `unseen`, methods are tested on classes of their own.

    With `numbers`, these are predicted, and y only shares rows out to folds.
    """

    def __init__(
        self,
        X: Floats,
        y: Ints,
        cv: object,
        groups: Ints | None,
        random_state: int | None,
        *,
        n_neighbors: int | str,
        seed: int,
        unseen: bool = False,
        features: Features | None = None,
        numbers: Vector | None = None,
    ) -> None:
        self.folds = (class_folds if unseen else row_folds)(y, cv, groups, random_state)
        rule = either(choice("auto"), integer(at_least=1))
        check_parameters({"n_neighbors": rule}, {"n_neighbors": n_neighbors})
        self.supervision = "labels" if numbers is None else "numbers"
        self.X, self.groups, self.features, self.kinds = X, groups, features, y
        self.y: Array = y if numbers is None else numbers
        self.n_neighbors, self.seed = n_neighbors, seed
        self.unseen = y if unseen else None
        self._kept: tuple[object, dict[bool, tuple[Floats, Floats]]] = None, {}

    def _n_voters(self, fold: int) -> int:
        train, test = self.folds[fold]
        return len(train) if self.unseen is None else len(test) - 1

    def training(self, fold: int, *, raw: bool) -> Training:
        """Return the training rows of a fold, with their classes and groups."""
        rows = self.folds[fold][0]
        groups = None if self.groups is None else self.groups[rows]
        return Training(self._rows(fold, raw)[0], self.y[rows], groups)

    def choose_neighbors(self, method: Method, fold: int, own: int | None) -> int:
        """Return how many neighbours are best for training rows that took no part.

        The method learns again from one half of the training rows, and those of the other half
        are classified, and the other way round if these are few.
        """
        if method.kind == "classifier":
            return 0
        most_voters = self._n_voters(fold)
        asked_for = own if isinstance(self.n_neighbors, str) else self.n_neighbors
        if asked_for is not None:
            return min(asked_for, most_voters)
        X, _, groups = self.training(fold, raw=method.raw)
        y, numbers = self.y[self.folds[fold][0]], self.supervision == "numbers"
        codes = y if numbers else np.unique(y, return_inverse=True)[1]
        known = Supervision.of(codes, len(X), groups=groups, numbers=numbers)
        by: Literal["rows", "classes"] = "rows" if self.unseen is None else "classes"
        votes: list[tuple[Array, Array]] = []
        for split in known.split(2, np.random.RandomState(0), by=by):
            seen, asked = split.rows, split.unseen_rows
            # A class may have too few rows in a half.
            with suppress(ValueError):
                group = None if groups is None else groups[seen]
                distance = method.fit_to(X[seen], codes[seen], group)
                gallery = seen if self.unseen is None else asked
                some = classified_rows(len(asked), len(gallery), self.seed)
                search = Gallery(distance, X[gallery])
                unseen = gallery is asked
                found = search.search(rows=some) if unseen else search.search(X[asked[some]])
                most = min(NUMBERS[-1], len(gallery) - unseen)
                votes.append((codes[gallery[found.nearest(most)[1]]], codes[asked[some]]))
            if sum(len(actual) for _, actual in votes) >= _ENOUGH_VOTES:
                break
        return min(best_number(votes, numbers=numbers), most_voters)

    def score(self, distance: Fitted, fold: int, *, raw: bool, n_neighbors: int) -> Scores:
        """Classify and rank the test rows by training rows, or unseen classes by each other."""
        train, test = (
            (X, self.y[rows])
            for X, rows in zip(self._rows(fold, raw), self.folds[fold], strict=True)
        )
        settings: Any = {"n_neighbors": n_neighbors, "random_state": self.seed}
        if self.supervision == "numbers":
            return score_numbers(distance, train, test, unit=float(self.y.std()), **settings)
        if isinstance(distance, FittedClassifier):
            return score_classifier(distance, test, len(train[0]), self.seed)
        if self.unseen is not None:
            return score_distance(distance, test, None, **settings)
        return score_distance(distance, train, test, **settings)

    def _rows(self, fold: int, raw: bool) -> tuple[Floats, Floats]:
        """Rows of a fold, with features and scales of its training rows; the last are kept."""
        train, test = self.folds[fold]
        if self.features is None and raw:
            return self.X[train], self.X[test]
        if self._kept[0] is not train:
            self._kept = train, {}
        made = self._kept[1]
        if raw and raw not in made and self.features is not None:
            numbers = self.features.fitted(train, self.y[train])
            made[raw] = numbers(train), numbers(test)
        elif raw not in made:
            X, X_test = self._rows(fold, raw=True)
            scaler = Scaler.fit(X, "standard")
            made[raw] = scaler.transform(X), scaler.transform(X_test)
        return made[raw]


class JudgedRows(ComparisonTask):
    """Rows with triplets or pairs; methods see all but those of held-out judgements alone."""

    def __init__(
        self,
        X: Floats,
        judgements: Triplets | Pairs,
        cv: object,
        groups: Ints | None,
        random_state: int | None,
        *,
        joined: bool = False,
        features: Features | None = None,
    ) -> None:
        judgements.check(len(X))
        if float(np.abs(X).max()) > LARGEST_VALUE:
            raise ValueError(f"X has values beyond {LARGEST_VALUE:g}, whose squares overflow.")
        if judgements.weight is not None:
            judgements = judgements.take(judgements.weight > 0)
        self.X, self.judgements, self.groups, self.features = X, judgements, groups, features
        self.supervision = kind_of(judgements)
        self.folds = judgement_folds(judgements, cv, groups, random_state)
        self.kinds = kinds_of(judgements)
        together = judgement_groups(judgements, cv) if groups is None else None
        self.overlap = OverlappingJudgements.of(judgements, together, groups)
        if groups is not None:
            n_tested = sum(len(test) for _, test in self.folds)
            n_seen = np.mean([len(train) for train, _ in self.folds])
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
        self._kept: tuple[object, Floats, Floats] = None, X, X

    def training(self, fold: int, *, raw: bool) -> Training:
        """Return the training judgements of a fold, over the rows that methods may see."""
        judgements, rows = self._seen(fold)
        groups = None if self.groups is None else self.groups[rows]
        return Training(self._rows(fold, raw)[rows], judgements.restrict(rows), groups)

    def score(self, distance: Fitted, fold: int, *, raw: bool, n_neighbors: int) -> Scores:
        """Score the test judgements."""
        test = self.judgements.take(self.folds[fold][1])
        held_out = HeldOutJudgements(distance, self._rows(fold, raw), test)
        measures = measures_for(self.supervision)
        return Scores({measure.name: measure.losses(held_out) for measure in measures})

    def _seen(self, fold: int) -> tuple[Triplets | Pairs, Ints]:
        """Training judgements, and rows that are in one of them, or in none at all."""
        judgements = self.judgements.take(self.folds[fold][0])
        kept = ~np.isin(np.arange(len(self.X)), self.judgements.index)
        kept[judgements.index] = True
        return judgements, np.flatnonzero(kept)

    def _rows(self, fold: int, raw: bool) -> Floats:
        """All rows, with features and scales of those that methods see; the last are kept."""
        if self._kept[0] is not self.folds[fold][0]:
            X, rows = self.X, self._seen(fold)[1]
            if self.features is not None:
                X = self.features.fitted(rows)(np.arange(len(X)))
            scaled = Scaler.fit(X[rows], "standard").transform(X)
            self._kept = self.folds[fold][0], X, scaled
        return self._kept[1] if raw else self._kept[2]
