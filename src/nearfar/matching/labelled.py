"""Labelled pairs of records, in parts that share no entity.

An entity is what matches join: a person with all of its records. The rows of a part are taken out
of the tables, so that nothing that is fitted to one part can see the records of another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from nearfar.constraints import Pairs
from nearfar.constraints.folds import components
from nearfar.matching.records import Records
from nearfar.typing import Bools, Ints, Vector
from nearfar.verification import PairEvidence

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
    left, right : Records
        One object if it is one table.
    index : array of shape (n_pairs, 2)
    same : array of bool of shape (n_pairs,)
    entities : tuple of two arrays of int
        Entities of the rows of `left` and of `right`.
    complete : bool
        Whether all matches of the two tables are among the pairs.
    left_out : int
        Number of pairs of different records that were left out, to save time.
    """

    left: Records
    right: Records
    index: Ints
    same: Bools
    entities: tuple[Ints, Ints]
    complete: bool
    left_out: int = 0

    @classmethod
    def of(
        cls, left: Records, right: Records, index: Ints, same: Bools, complete: bool
    ) -> LabelledPairs:
        """Find the entities."""
        first = 0 if right is left else len(left)
        i, j = index[same].T
        entity = components(i, first + j, first + len(right))
        return cls(left, right, index, same, (entity[: len(left)], entity[first:]), complete)

    @property
    def pair_entities(self) -> Ints:
        """Entities of the two records of each pair."""
        (one, two), (i, j) = self.entities, self.index.T
        return np.column_stack([one[i], two[j]])

    def split(
        self, share: float, random: np.random.RandomState
    ) -> tuple[LabelledPairs, LabelledPairs]:
        """Return a part to learn from, and one to calibrate on that has a share of the entities."""
        if self.complete:
            most = math.sqrt(_MOST_CALIBRATED / max(1, len(self.left) * len(self.right)))
            share = min(share, most)
        n = 1 + max(int(each.max(initial=0)) for each in self.entities)
        matched = np.zeros(n, dtype=bool)
        matched[self.pair_entities[self.same]] = True
        held_out = np.zeros(n, dtype=bool)
        for kind in (np.flatnonzero(matched), np.flatnonzero(~matched)):
            held_out[random.permutation(kind)[: round(share * len(kind))]] = True
        return self._part(~held_out), self._part(held_out)

    def _part(self, chosen: Bools) -> LabelledPairs:
        """Return the pairs of some entities, and tables that have no others."""
        kept = chosen[self.pair_entities].all(axis=1)
        (of_left, of_right), (i, j) = self.entities, self.index[kept].T
        one, two = chosen[of_left], chosen[of_right]
        left = self.left.take(np.flatnonzero(one))
        right = left if self.right is self.left else self.right.take(np.flatnonzero(two))
        index = np.column_stack([(np.cumsum(one) - 1)[i], (np.cumsum(two) - 1)[j]])
        entities = of_left[one], of_right[two]
        return LabelledPairs(left, right, index, self.same[kept], entities, self.complete)

    def with_candidates(
        self, candidates: Candidates, random: np.random.RandomState
    ) -> LabelledPairs:
        """Add candidates that are different records, as `complete` labels tell."""
        found = np.reshape(candidates(self.left, self.right), (-1, 2)).astype(np.intp)
        (one, two), (i, j) = self.entities, found.T
        new = (one[i] != two[j]) & ~np.isin(self._keys(found), self._keys(self.index))
        different = random.permutation(found[new])
        index = np.concatenate([self.index, different[:_MOST_DIFFERENT]])
        same = np.append(self.same, np.zeros(len(index) - len(self.same), dtype=bool))
        return replace(self, index=index, same=same, left_out=len(different[_MOST_DIFFERENT:]))

    def evidence(
        self, score: Callable[[Ints], Vector], candidates: Candidates | None
    ) -> PairEvidence:
        """Return the pairs by their distance, which is a negative score.

        If the labels are complete, these are all pairs. Those that are no candidates are infinitely
        far apart.
        """
        index, same = self.index, self.same
        if self.complete:
            index = np.indices((len(self.left), len(self.right))).reshape(2, -1).T
            if self.right is self.left:
                index = index[index[:, 0] < index[:, 1]]
            same = np.isin(self._keys(index), self._keys(self.index[self.same]))
            # Of one entity, but not given as the same: not known.
            (one, two), (i, j) = self.entities, index.T
            known = same | (one[i] != two[j])
            index, same = index[known], same[known]
        compared = np.ones(len(index), dtype=bool)
        if candidates is not None:
            found = np.reshape(candidates(self.left, self.right), (-1, 2)).astype(np.intp)
            compared = np.isin(self._keys(index), self._keys(found))
        distances = np.full(len(index), np.inf)
        distances[compared] = -score(index[compared])
        (one, two), (i, j) = self.entities, index.T
        first = 0 if self.right is self.left else len(self.left)
        pairs = Pairs(np.column_stack([i, first + j]), same)
        return PairEvidence(distances, pairs, np.column_stack([one[i], two[j]]))

    def _keys(self, index: Ints) -> Ints:
        """Return a number for each pair; in one table, the order of the two does not matter."""
        ordered = np.sort(index, axis=1) if self.right is self.left else index
        return np.asarray(ordered[:, 0] * len(self.right) + ordered[:, 1])
