"""Training and test rows: the folds, and samples of them where time is short.

Judgements are split in the same way as rows: in what follows, a row may be a triplet or a pair.
Rows of one group are never on both sides of a fold, and nor are judgements of them. All methods use
the same folds.

Scores of a distance on a fold: test rows are queries, training rows the gallery.

The measures are those of `nearfar.measures.registry`. Rows of classes that were not learned from
have no training rows to find: they are queries among each other.

For large folds a random sample of the test rows is classified, and a smaller one is ranked.

What methods learn from, and what they are scored on: labels, numbers, triplets or pairs.

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

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing, check_array, check_random_state

from nearfar.comparison.methods import FittedClassifier, Method
from nearfar.evidence.intervals import OverlappingJudgements
from nearfar.evidence.splits import group_splitter
from nearfar.learners.base import Estimator
from nearfar.learners.scaling import Scaler
from nearfar.measures.neighbor_votes import NUMBERS, best_number
from nearfar.measures.registry import ERROR, HeldOutJudgements, Rankings, Voters, measures_for
from nearfar.metrics.gallery import Distance, Gallery, Search
from nearfar.metrics.metric import Metric
from nearfar.numerics.missing import LARGEST_VALUE
from nearfar.runtime.messages import option
from nearfar.runtime.parameters import check_parameters, choice, either, integer
from nearfar.supervision import Pairs, Supervision, Triplets, kind_of
from nearfar.typing import Array, Floats, Ints, Vector

Folds = list[tuple[Ints, Ints]]


def folds_within(folds: Folds, rows: Ints, n: int) -> Folds:
    """Return the folds of some of n rows; those that are left with nothing to test are dropped."""
    kept = np.zeros(n, dtype=bool)
    kept[rows] = True
    few = [(train[kept[train]], test[kept[test]]) for train, test in folds]
    return [(train, test) for train, test in few if len(train) and len(test)]


def stratified_order(y: Ints, random: np.random.Generator) -> Ints:
    """Order rows so that the first n of them are a stratified sample, for every n.

    The order begins with two rows of each class.
    """
    shuffled = random.permutation(len(y))
    grouped = shuffled[np.argsort(y[shuffled], kind="stable")]
    sizes = np.bincount(y)
    position = np.arange(len(y)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    offsets = random.uniform(size=len(sizes))
    share = (position + np.repeat(offsets, sizes)) / np.repeat(np.maximum(sizes, 1), sizes)
    share[position < 2] = -1.0
    return grouped[np.argsort(share, kind="stable")]


def row_folds(y: Ints, cv: object, groups: Ints | None, random_state: int | None) -> Folds:
    """Return the training and test rows of each fold, checked."""
    if is_count(cv):
        most, what = int(np.bincount(y).max()), "the size of the largest class"
        n_groups = len(y) if groups is None else int(groups.max()) + 1
        if n_groups < most:
            most, what = n_groups, "the number of groups"
        n_folds = checked_count(cv, most, what)
        if groups is None:
            cv = StratifiedKFold(n_folds, shuffle=True, random_state=random_state)
        else:
            cv = group_splitter(n_folds, n_groups, random_state)
    folds = _split(check_cv(cv, y, classifier=True), y, groups)
    if not folds:
        raise ValueError("cv gives no folds.")
    for train, test in folds:
        if len(np.unique(y[train])) < 2:
            raise ValueError(
                "At least two classes are needed, also in the training rows of each fold."
            )
        if len(test) == 0 or len(np.intersect1d(train, test)):
            raise ValueError(
                "Every fold of cv needs test rows, and none of them among its training rows."
            )
        if groups is not None and len(np.intersect1d(groups[train], groups[test])):
            raise ValueError("cv has rows of one group on both sides of a fold.")
    return folds


def folds_among(rows: Ints, cv: object, y: Array, groups: ArrayLike | None) -> object:
    """Return a splitter's folds of all rows as folds among some of them; a number as it is."""
    if is_count(cv):
        return cv
    place = np.full(len(y), -1)
    place[rows] = np.arange(len(rows))
    folds = _split(check_cv(cv, y, classifier=True), y, groups)
    kept = [(place[train], place[test]) for train, test in folds]
    kept = [(train[train >= 0], test[test >= 0]) for train, test in kept]
    return [(train, test) for train, test in kept if len(test)]


def class_folds(y: Ints, cv: object, groups: Ints | None, random_state: int | None) -> Folds:
    """Return folds that hold out whole classes; those that share a group stay together."""
    most = (int(y.max()) + 1) // 2
    if not is_count(cv) or cv < 2 or most < 2:
        raise ValueError(
            f"{option('split', 'classes')} needs four classes or more; there are "
            f"{int(y.max()) + 1}, with {option('folds', cv)}, which must be 2 or more."
        )
    labels = Supervision.of(y, len(y), groups=groups)
    splits = labels.split(min(int(cv), most), check_random_state(random_state), by="classes")
    folds = [(split.rows, split.unseen_rows) for split in splits]
    if len(folds) < 2 or any(len(np.unique(y[part])) < 2 for fold in folds for part in fold):
        raise ValueError(
            "Every fold needs two classes or more to learn from and to test, and classes that "
            "share a group stay together; use fewer folds."
        )
    return folds


def judgement_folds(
    judgements: Triplets | Pairs, cv: object, groups: Ints | None, random_state: int | None
) -> Folds:
    """Return the training and test judgements of each fold, checked.

    With a number of folds, judgements of two or more raters are split by rater, other triplets by
    anchor, and other pairs by connected group. With groups of rows, which may be those that similar
    pairs join, these are held out instead: judgements between seen and unseen groups are in neither
    part.
    """
    unit = kind_of(judgements)
    kinds = kinds_of(judgements)
    n_kinds = 1 if unit == "triplets" else 2
    if groups is not None:
        # Groups without judgements are not dealt into folds.
        judged = np.unique(judgements.index)
        n_groups = len(np.unique(groups[judged]))
        n_folds = checked_count(cv, n_groups, f"the number of groups with {unit}")
        rows = Supervision.of(None, len(judged), groups=groups[judged])
        folds = []
        for split in rows.split(n_folds, check_random_state(random_state)):
            held_out = np.isin(judgements.index, judged[split.unseen_rows])
            seen, unseen = ~held_out.any(axis=1), held_out.all(axis=1)
            folds.append((np.flatnonzero(seen), np.flatnonzero(unseen)))
    elif is_count(cv):
        together = judgement_groups(judgements, cv)
        n_groups = min(len(np.unique(together)), int(np.bincount(kinds).max()))
        what = "anchors" if unit == "triplets" else "groups of pairs that share rows"
        what = "raters" if judgements.n_raters > 1 else what
        n_folds = checked_count(cv, n_groups, f"the number of {what}")
        folds = _split(group_splitter(n_folds, n_groups, random_state), kinds, together)
    else:
        folds = _split(check_cv(cv), kinds, None)
    if not folds or any(len(np.unique(kinds[part])) < n_kinds for fold in folds for part in fold):
        both = "" if n_kinds == 1 else " of both kinds"
        raise ValueError(
            f"Every fold needs {unit}{both} to learn from and to test; use fewer folds."
        )
    if any(len(np.intersect1d(train, test)) for train, test in folds):
        raise ValueError(f"A fold of cv has the same {unit} to learn from and to test.")
    return folds


def checked_count(cv: object, most: int, what: str) -> int:
    """Return a number of folds, at most as many as there are of what it splits."""
    if most < 2:
        raise ValueError(f"There is nothing to hold out: {what} is {most}, and two are needed.")
    if not is_count(cv) or cv < 2:
        raise ValueError(f"cv must be a number of folds from 2, or a splitter; got {cv}.")
    return min(int(cv), most)


def judgement_groups(judgements: Triplets | Pairs, cv: object) -> Ints:
    """Return the group of each judgement: its rater, its anchor, or the pairs that share rows."""
    if isinstance(judgements, Triplets):
        return np.asarray(judgements.groups())
    return np.asarray(judgements.groups(int(cv) if is_count(cv) else 5))


def kinds_of(judgements: Triplets | Pairs) -> Ints:
    """Return 1 for similar pairs, and 0 for dissimilar ones and for triplets."""
    if isinstance(judgements, Pairs):
        return np.asarray(judgements.similar, dtype=np.intp)
    return np.zeros(len(judgements), dtype=np.intp)


def is_count(cv: object) -> TypeGuard[int]:
    """Tell whether `cv` is a number of folds."""
    return isinstance(cv, int | np.integer)


def _split(splitter: BaseCrossValidator, y: Array, groups: ArrayLike | None) -> Folds:
    rows = np.arange(len(y))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        return [(rows[train], rows[test]) for train, test in splitter.split(rows, y, groups)]


# Distances computed to classify the test rows of a fold; they bound its time.
_CLASSIFIED_DISTANCES = 1 << 27
# Test rows classified even if that takes more distances: an error of 10 % is then known to 1 %.
_CLASSIFIED_ROWS = 1000
# Distances sorted to rank for the test rows of a fold: sorting takes longer than comparing.
_RANKED_DISTANCES = 1 << 21
# Test rows ranked even if that takes more distances; a ranking says more than one vote.
_RANKED_ROWS = 100


Losses = dict[str, Vector]
"""Loss of each test row or judgement by the name of the measure; nan for those not scored."""


def classified_rows(n_test: int, n_train: int, random_state: int | None = 0) -> Ints:
    """Return the test rows that are classified: all, or a random sample of many."""
    order = np.random.default_rng(random_state).permutation(n_test)
    return np.sort(order[: max(_CLASSIFIED_ROWS, _CLASSIFIED_DISTANCES // n_train)])


def score_classifier(
    classifier: FittedClassifier, test: tuple[Floats, Ints], n_train: int, random_state: int | None
) -> Losses:
    """Return the errors of a classifier on the test rows that distances are scored on, too."""
    X, y = test
    losses = {measure.name: np.full(len(X), np.nan) for measure in measures_for("labels")}
    rows = classified_rows(len(X), n_train, random_state)
    losses[ERROR.name][rows] = classifier.predict(X[rows]) != y[rows]
    return losses


def score_numbers(
    predictor: Metric | Distance | FittedClassifier,
    train: tuple[Floats, Vector],
    test: tuple[Floats, Vector] | None,
    *,
    unit: float,
    n_neighbors: int,
    random_state: int | None = 0,
    sample: bool = True,
) -> Losses:
    """Score the means of nearest training rows, or a regression, on the numbers of test rows.

    `unit` is the standard deviation of the numbers; the other parameters are those of
    `score_distance`.
    """
    X, y = train if test is None else test
    rows = np.arange(len(X))
    if sample:
        rows = classified_rows(len(X), len(train[0]), random_state)
    if isinstance(predictor, FittedClassifier):
        nearest = predictor.predict(X[rows])[:, None]
    else:
        gallery = Gallery(predictor, train[0])
        search = gallery.search(rows=rows) if test is None else gallery.search(X[rows])
        nearest = train[1][search.nearest(n_neighbors)[1]]
    losses = {measure.name: np.full(len(X), np.nan) for measure in measures_for("numbers")}
    for measure in measures_for("numbers"):
        losses[measure.name][rows] = measure.losses(Voters(nearest, y[rows], unit))
    return losses


def score_distance(
    distance: Metric | Distance,
    gallery: tuple[Floats, Ints],
    test: tuple[Floats, Ints] | None,
    *,
    n_neighbors: int,
    random_state: int | None = 0,
    sample: bool = True,
) -> Losses:
    """Score a distance on test rows.

    Parameters
    ----------
    gallery: Rows, and their classes as codes from 0.
    test: Queries likewise; None for the rows of the gallery among each other. Those that
        are alone in their class are then not scored.
    n_neighbors: Number of votes.
    random_state: Seed of the samples of test rows.
    sample: Whether a sample of many test rows is enough; otherwise all of them are scored.
    """
    X, y = gallery
    X_test, y_test = gallery if test is None else test
    among = test is None
    classified = ranked = np.arange(len(X_test))
    if sample:
        classified = classified_rows(len(X_test), len(X), random_state)
        order = np.random.default_rng(random_state).permutation(len(X_test))
        ranked = np.sort(order[: max(_RANKED_ROWS, _RANKED_DISTANCES // len(X))])
    if among and sample:
        classified = classified[np.bincount(y)[y[classified]] > 1]
    searched = Gallery(distance, X)
    measures = measures_for("labels")
    losses = {measure.name: np.full(len(X_test), np.nan) for measure in measures}

    def queries(rows: Ints) -> Search:
        return searched.search(rows=rows) if among else searched.search(X_test[rows])

    def score(rows: Ints, sample: Voters | Rankings, of: str) -> None:
        for measure in measures:
            if measure.of == of:
                losses[measure.name][rows] = measure.losses(sample)

    nearest = y[queries(classified).nearest(n_neighbors)[1]]
    score(classified, Voters(nearest, y_test[classified]), "votes")
    for part, table in queries(ranked).tables():
        rows = ranked[part]
        relevant = y == y_test[rows, None]
        if among:
            others = np.arange(len(y)) != rows[:, None]
            table, relevant = (each[others].reshape(len(rows), -1) for each in (table, relevant))
        mixed = relevant.any(axis=1) & ~relevant.all(axis=1)
        if mixed.any():
            score(rows[mixed], Rankings(table[mixed], relevant[mixed]), "rankings")
    return losses


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
    def score(self, distance: Fitted, fold: int, *, raw: bool, n_neighbors: int) -> Losses:
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

    def score(self, distance: Fitted, fold: int, *, raw: bool, n_neighbors: int) -> Losses:
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

    def score(self, distance: Fitted, fold: int, *, raw: bool, n_neighbors: int) -> Losses:
        """Score the test judgements."""
        test = self.judgements.take(self.folds[fold][1])
        held_out = HeldOutJudgements(distance, self._rows(fold, raw), test)
        measures = measures_for(self.supervision)
        return {measure.name: measure.losses(held_out) for measure in measures}

    def rows(self, fold: int) -> Floats:
        """Return all rows, with the features of those that methods see in a fold."""
        return self._rows(fold, raw=True)

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
