"""A model of comparisons: the log-odds that two records are the same.

It is the mean of two models' log-odds, which err in different ways: a logistic regression, and
boosted trees (J. H. Friedman: Stochastic gradient boosting, Computational Statistics & Data
Analysis 38, 2002).

Models of the other folds tell the log-odds of each fold's pairs. A fold holds whole entities, and
only pairs within a fold are held out, so that no record is on both sides. Pairs of different
entities are mostly in two folds; those within one stand for them and weigh more. A logistic
regression on these log-odds (J. Platt: Probabilistic outputs for support vector machines, 1999)
calibrates the mean.

Labelled pairs of records, in parts that share no entity.

An entity is what matches join: a person with all of its records. The rows of a part are taken out
of the tables, so that nothing that is fitted to one part can see the records of another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from nearfar.evidence.splits import components
from nearfar.metrics.feature_maps import Forest
from nearfar.records.records import Records
from nearfar.typing import Bools, Ints, Matrix, Vector
from nearfar.verification import PairEvidence, UnlabelledPairs

# Comparisons are not less than -1, so that missing ones are apart from them in trees.
_MISSING = -2.0
_RATE = 0.08
_TREES = {"n_estimators": 200, "max_depth": 4, "min_samples_leaf": 5, "max_features": "sqrt"}
# Inverse strength of the penalty of the logistic regression, on standardised comparisons.
_PENALTY = 0.05
# Standard deviations below this are those of constants.
_CONSTANT = 1e-9
# Folds, if each has so many pairs of both kinds; of different records, few are within a fold.
_N_FOLDS, _FEWEST_PAIRS = 5, 10
# Pairs whose leaves are held at a time.
_BLOCK = 1 << 12


@dataclass(frozen=True, eq=False)
class PairModel:
    """Two models as arrays, and their calibration.

    Attributes
    ----------
    forest: Boosted trees.
    step: shape (n_nodes,). What a leaf adds to the log-odds.
    linear: shape (3, n_comparisons). Center, scale and coefficients of the logistic
        regression; missing comparisons are at the center.
    intercepts: shape (2,). Of the trees and of the logistic regression.
    typical: shape (2, n_comparisons). Medians of the comparisons of different records, and
        of the same ones.
    calibration: shape (2,). Slope and intercept.
    """

    forest: Forest
    step: Vector
    linear: Matrix
    intercepts: Vector
    typical: Matrix
    calibration: Vector

    def __post_init__(self) -> None:
        width = self.linear.shape[-1]
        shapes = {"linear": (3, width), "typical": (2, width), "intercepts": (2,)}
        shapes |= {"calibration": (2,), "step": self.forest.right.shape}
        if any(getattr(self, name).shape != shape for name, shape in shapes.items()):
            raise ValueError("The arrays of a model do not fit together.")
        if self.forest.feature.max(initial=0) >= width:
            raise ValueError("The trees of a model look at comparisons that there are not.")

    @classmethod
    def fit(cls, X: Matrix, same: Bools, random: np.random.RandomState) -> PairModel:
        """Fit the two models; they are not calibrated yet."""
        boosting = GradientBoostingClassifier(
            learning_rate=_RATE, subsample=0.5, random_state=random.randint(1 << 31), **_TREES
        )
        trees = boosting.fit(np.nan_to_num(X, nan=_MISSING), same).estimators_.ravel()
        gaps = np.isnan(X)
        center = np.where(gaps, 0.0, X).sum(axis=0) / np.maximum(1, (~gaps).sum(axis=0))
        scale = np.where(gaps, center, X).std(axis=0)
        scale[scale < _CONSTANT] = 1.0
        Z = np.where(gaps, 0.0, (X - center) / scale)
        logistic = LogisticRegression(C=_PENALTY, max_iter=500).fit(Z, same)
        return cls(
            Forest.of(trees),
            _RATE * np.concatenate([tree.tree_.value[:, 0, 0] for tree in trees]),
            linear=np.array([center, scale, logistic.coef_[0]]),
            intercepts=np.array([logit(same.mean()), logistic.intercept_[0]]),
            typical=np.array([_medians(X[~same]), _medians(X[same])]),
            calibration=np.array([1.0, 0.0]),
        )

    def log_odds(self, X: Matrix) -> Vector:
        """Return the calibrated log-odds of pairs with these comparisons."""
        slope, shift = self.calibration
        return np.asarray(slope * self.members(X).mean(axis=1) + shift)

    def members(self, X: Matrix) -> Matrix:
        """Return the log-odds of the trees and of the logistic regression, before calibration."""
        center, scale, coef = self.linear
        out = np.empty((len(X), 2))
        for top in range(0, len(X), _BLOCK):
            block = X[top : top + _BLOCK]
            leaves = self.forest.leaves(np.nan_to_num(block, nan=_MISSING).astype(np.float32))
            Z = np.where(np.isnan(block), 0.0, (block - center) / scale)
            # Not a product of matrices, whose rounding depends on the number of rows.
            sums = self.step[leaves].sum(axis=1), (Z * coef).sum(axis=1)
            out[top : top + _BLOCK] = np.column_stack(sums) + self.intercepts
        return out


class HeldOut(NamedTuple):
    """Pairs that were held out: log-odds, truth, and the pairs that each stands for."""

    log_odds: Vector
    same: Bools
    weight: Vector


def fit_calibrated(
    X: Matrix, same: Bools, entities: Ints, left_out: int, random: np.random.RandomState
) -> tuple[PairModel, HeldOut]:
    """Fit a model and calibrate it by pairs that were held out.

    Parameters
    ----------
    entities: shape (n_pairs, 2). Entities of the records of each pair.
    left_out: Number of pairs of different records that those in X stand for, besides
        themselves.
    """
    names, place = np.unique(entities, return_inverse=True)
    n_folds = int(np.clip(min(same.sum(), (~same).sum()) // _FEWEST_PAIRS, 2, _N_FOLDS))
    fold = (random.permutation(len(names)) % n_folds)[place.reshape(-1, 2)]
    log_odds = np.full(len(X), np.nan)
    for number in range(n_folds):
        seen, unseen = (fold != number).all(axis=1), (fold == number).all(axis=1)
        if 0 < same[seen].sum() < seen.sum():
            log_odds[unseen] = PairModel.fit(X[seen], same[seen], random).log_odds(X[unseen])
    held_out = np.isfinite(log_odds)
    truth, score = same[held_out], log_odds[held_out]
    if not 0 < truth.sum() < len(truth):
        raise ValueError(
            "There are too few pairs to hold some out whose records are in no others: "
            f"{same.sum()} are the same and {(~same).sum()} different; give at least "
            f"{2 * _FEWEST_PAIRS} of each, of different records."
        )
    weight = np.where(truth, same.sum() / truth.sum(), (left_out + (~same).sum()) / (~truth).sum())
    platt = LogisticRegression().fit(score[:, None], truth, weight)
    slope, shift = platt.coef_[0, 0], platt.intercept_[0]
    model = replace(PairModel.fit(X, same, random), calibration=np.array([slope, shift]))
    return model, HeldOut(slope * score + shift, truth, weight)


def best_threshold(held_out: HeldOut) -> float:
    """Return the log-odds at which the expected F1 is the largest."""
    order = np.argsort(-held_out.log_odds, kind="stable")
    score, weight = held_out.log_odds[order], held_out.weight[order]
    true = weight * expit(score)
    f1 = 2 * np.cumsum(true) / (np.cumsum(weight) + true.sum())
    best = int(np.argmax(f1))
    return float(score[best : best + 2].mean())


def _medians(X: Matrix) -> Vector:
    """Return the medians of the known comparisons; nan if there are none."""
    known = ~np.isnan(X).all(axis=0)
    out = np.full(X.shape[1], np.nan)
    out[known] = np.nanmedian(X[:, known], axis=0)
    return out


Candidates = Callable[[Records, Records], Ints]
"""Returns the pairs of rows that may be the same. The two tables are one object if the records of
one table are compared with each other."""

# Different records to learn from: more take time and tell little.
_MOST_DIFFERENT = 10_000
# Pairs of different records to calibrate on: entities limit the confidence long before.
_MOST_CALIBRATED = 4_000_000


@dataclass(frozen=True, eq=False)
class LabelledPairs:
    """Pairs of records of two tables, and which of them are the same.

    Attributes
    ----------
    left, right: One object if it is one table.
    entities: Entities of the rows of `left` and of `right`.
    named: Rows of `left` and of `right` that the pairs name.
    complete: Whether all matches of the named records are among the pairs, so that their
        other pairs are different.
    candidates: shape (n_candidates, 2). Pairs that are compared; None if these are all.
    left_out: Number of pairs of different records that were left out, to save time or
        because they lead to another part.
    """

    left: Records
    right: Records
    index: Ints
    same: Bools
    entities: tuple[Ints, Ints]
    named: tuple[Bools, Bools]
    complete: bool
    candidates: Ints | None = None
    left_out: int = 0

    @classmethod
    def of(
        cls,
        left: Records,
        right: Records,
        index: Ints,
        same: Bools,
        complete: bool,
        candidates: Candidates | None = None,
    ) -> LabelledPairs:
        """Find the entities and the candidates."""
        first = 0 if right is left else len(left)
        i, j = index[same].T
        entity = components(i, first + j, first + len(right))
        named = np.zeros(first + len(right), dtype=bool)
        named[index + np.array([0, first])] = True
        sides = (entity[: len(left)], entity[first:]), (named[: len(left)], named[first:])
        found = candidates and np.reshape(candidates(left, right), (-1, 2)).astype(np.intp)
        return cls(left, right, index, same, *sides, complete, found)

    @property
    def pair_entities(self) -> Ints:
        """Entities of the two records of each pair."""
        (one, two), (i, j) = self.entities, self.index.T
        return np.column_stack([one[i], two[j]])

    def split(
        self, share: float, random: np.random.RandomState
    ) -> tuple[LabelledPairs, LabelledPairs]:
        """Return a part to learn from, and one to calibrate on that has a share of the entities."""
        n = 1 + max(int(each.max(initial=0)) for each in self.entities)
        matched, named, held_out = np.zeros((3, n), dtype=bool)
        matched[self.pair_entities[self.same]] = True
        for entity, rows in zip(self.entities, self.named, strict=True):
            named[entity[rows]] = True
        own, other = self._shares(share) if self.complete else (share, share)
        for kind, part in ((matched, own), (named & ~matched, own), (~named, other)):
            entities = random.permutation(np.flatnonzero(kind))
            held_out[entities[: round(part * len(entities))]] = True
        return self._part(~held_out), self._part(held_out)

    def _shares(self, share: float) -> tuple[float, float]:
        """Return the shares of named and of other records whose pairs are not too many."""
        (a, c), (b, d) = ((int(rows.sum()), int((~rows).sum())) for rows in self.named)
        own = min(share, math.sqrt(_MOST_CALIBRATED / max(1, a * b)))
        # The largest share of the others at which (own a + share c) (own b + share d) is allowed.
        room, linear = max(0.0, _MOST_CALIBRATED - own**2 * a * b), own * (a * d + b * c)
        root = linear + math.sqrt(linear**2 + 4 * c * d * room)
        return own, min(share, 2 * room / max(1.0, root))

    def _part(self, chosen: Bools) -> LabelledPairs:
        """Return the pairs of some entities, and tables that have no others."""
        one, two = (chosen[entity] for entity in self.entities)
        left = self.left.take(np.flatnonzero(one))
        right = left if self.right is self.left else self.right.take(np.flatnonzero(two))
        (of_left, of_right), (a, b) = self.entities, self.named
        entities, named = (of_left[one], of_right[two]), (a[one], b[two])

        def inside(pairs: Ints) -> tuple[Bools, Ints]:
            i, j = pairs.T
            kept = one[i] & two[j]
            places = [(np.cumsum(side) - 1)[rows[kept]] for side, rows in ((one, i), (two, j))]
            return kept, np.column_stack(places)

        kept, index = inside(self.index)
        found = None if self.candidates is None else inside(self.candidates)[1]
        part = LabelledPairs(
            left, right, index, self.same[kept], entities, named, self.complete, found
        )
        # In the whole tables, a match has more different pairs: some of them lead out of the part.
        different = np.concatenate([index[~part.same], part.different_candidates()])
        is_named = np.column_stack([named[0][different[:, 0]], named[1][different[:, 1]]])
        before, after = (np.concatenate(sides) for sides in (self.named, named))
        for kind, pairs in ((True, is_named.all(axis=1)), (False, ~is_named.all(axis=1))):
            whole = (before == kind).sum() / max(1, (after == kind).sum())
            part = replace(part, left_out=part.left_out + round(pairs.sum() * (whole - 1)))
        return part

    @property
    def held_out_together(self) -> Ints:
        """Entities of the two records of each pair; a record that is not named has the other's."""
        first, second = self.pair_entities.T
        one, two = (rows[ends] for rows, ends in zip(self.named, self.index.T, strict=True))
        return np.column_stack([np.where(one, first, second), np.where(two, second, first)])

    def different_candidates(self) -> Ints:
        """Return candidates that are different, as complete labels tell; not those given."""
        if not self.complete or self.candidates is None:
            return np.empty((0, 2), dtype=np.intp)
        given = np.isin(self._keys(self.candidates), self._keys(self.index))
        return self.candidates[self._different(self.candidates) & ~given]

    def _different(self, index: Ints) -> Bools:
        """Tell which pairs are different if labels are complete: those of a named record."""
        (one, two), (a, b), (i, j) = self.entities, self.named, index.T
        return np.asarray((one[i] != two[j]) & (a[i] | b[j]))

    def with_candidates(self, random: np.random.RandomState) -> LabelledPairs:
        """Add candidates that are different records, as `complete` labels tell."""
        different = random.permutation(self.different_candidates())
        index = np.concatenate([self.index, different[:_MOST_DIFFERENT]])
        same = np.append(self.same, np.zeros(len(index) - len(self.same), dtype=bool))
        left_out = self.left_out + len(different[_MOST_DIFFERENT:])
        return replace(self, index=index, same=same, left_out=left_out)

    def evidence(self, score: Callable[[Ints], Vector]) -> PairEvidence:
        """Return the pairs by their distance, which is a negative score.

        If the labels are complete, these are all pairs of named records. Those that are no
        candidates are infinitely far apart.
        """
        index, same = self.index, self.same
        if self.complete:
            index = self._all_pairs()
            same = np.isin(self._keys(index), self._keys(self.index[self.same]))
            # Of one entity, but not given as the same: not known.
            known = same | self._different(index)
            index, same = index[known], same[known]
        compared = np.ones(len(index), dtype=bool)
        if self.candidates is not None:
            compared = np.isin(self._keys(index), self._keys(self.candidates))
        distances = np.full(len(index), np.inf)
        distances[compared] = -score(index[compared])
        (one, two), (a, b), (i, j) = self.entities, self.named, index.T
        evidence = PairEvidence(distances, same, np.column_stack([one[i], two[j]]))
        # More of these would be needed, not more records of which nothing is known.
        evidence.n_classes = len(np.union1d(one[a], two[b]))
        return evidence

    def unlabelled(self, score: Callable[[Ints], Vector]) -> UnlabelledPairs:
        """Return the pairs of records that no pair names."""
        found = self._all_pairs() if self.candidates is None else self.candidates
        free = ~(self.named[0][found[:, 0]] | self.named[1][found[:, 1]])
        n, m = (int((~rows).sum()) for rows in self.named)
        n_pairs = n * (n - 1) // 2 if self.right is self.left else n * m
        return UnlabelledPairs(np.sort(-score(found[free])), n_pairs)

    def _all_pairs(self) -> Ints:
        index = np.indices((len(self.left), len(self.right))).reshape(2, -1).T
        return index[index[:, 0] < index[:, 1]] if self.right is self.left else index

    @property
    def prevalence(self) -> float:
        """Share of matches among all pairs of the two tables, if all are given."""
        n, m = len(self.left), len(self.right)
        return float(self.same.sum() / (n * (n - 1) / 2 if self.right is self.left else n * m))

    def _keys(self, index: Ints) -> Ints:
        """Return a number for each pair; in one table, the order of the two does not matter."""
        ordered = np.sort(index, axis=1) if self.right is self.left else index
        return np.asarray(ordered[:, 0] * len(self.right) + ordered[:, 1])
