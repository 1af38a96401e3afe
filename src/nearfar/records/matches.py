"""Matches of two tables, or groups of records of one table, by a learned matcher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import expit

from nearfar.records.assignment import clusters, one_to_one
from nearfar.records.candidates import N_CANDIDATES, candidate_pairs
from nearfar.records.records import Records
from nearfar.runtime.messages import counted
from nearfar.runtime.progress import stage
from nearfar.typing import Bools, Ints, Vector

if TYPE_CHECKING:
    from nearfar.records.matcher import RecordMatcher

How = Literal["auto", "one-to-one", "all", "clusters"]

# Probabilities between which people should look at a pair.
_UNSURE = 0.1, 0.9


@dataclass(frozen=True, eq=False)
class Matches:
    """Records that are the same.

    Attributes
    ----------
    candidates : array of int of shape (n_candidates, 2)
        Row numbers of the pairs that were compared.
    scores : array of shape (n_candidates,)
        Their log-odds to be the same.
    same : array of bool of shape (n_candidates,)
        Which of them match.
    n_records : tuple of int
        Records of the left and the right table, or of the only one.
    clusters : array of int or None
        Number of the cluster of each record of one table.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.records import Matches
    >>> found = Matches(np.array([[0, 1], [1, 1]]), np.array([5.0, 0.5]), np.array([True, False]),
    ...                 (2, 2))
    >>> found.pairs, found.doubtful
    (array([[0, 1]]), array([1]))
    >>> print(found)
    1 match; 1 record of the left table and 1 record of the right one are left over.
    """

    candidates: Ints
    scores: Vector
    same: Bools
    n_records: tuple[int, ...]
    clusters: Ints | None = None

    @property
    def pairs(self) -> Ints:
        """Row numbers of the matches."""
        return self.candidates[self.same]

    @property
    def doubtful(self) -> Ints:
        """Places of the candidates to look at by hand, the least sure first.

        These are matches with a probability below 90 %, and others with one of 10 % or more.
        """
        probability = expit(self.scores)
        low, high = _UNSURE
        unsure = np.where(self.same, probability < high, probability >= low)
        return np.flatnonzero(unsure)[np.argsort(np.abs(self.scores[unsure]), kind="stable")]

    @property
    def left_over(self) -> list[Ints]:
        """Rows without a match, of each table."""
        sides = [self.pairs.ravel()] if len(self.n_records) == 1 else self.pairs.T
        return [
            np.setdiff1d(np.arange(n), rows) for n, rows in zip(self.n_records, sides, strict=True)
        ]

    def __str__(self) -> str:
        alone = [counted(len(rows), "record") for rows in self.left_over]
        if self.clusters is not None:
            sizes = np.bincount(self.clusters)
            found = f"{counted(int((sizes > 1).sum()), 'group')} of records that are the same"
            return f"{found}; {alone[0]} without another."
        rest = f"{alone[0]} of the left table and {alone[-1]} of the right one are left over"
        return f"{counted(len(self.pairs), 'match')}; {rest}."


def find_matches(
    matcher: RecordMatcher,
    left: Any,
    right: Any = None,
    *,
    how: How = "auto",
    n_candidates: int = N_CANDIDATES,
) -> Matches:
    """Find the records that are the same; see `RecordMatcher.match`."""
    tables = [Records.of(left, "left")]
    if right is not None:
        tables.append(Records.of(right, "right"))
    if how == "auto":
        how = "clusters" if right is None else "one-to-one"
    if how == ("clusters" if right is not None else "one-to-one"):
        raise ValueError(f"{how} is not for {counted(len(tables), 'table')}; leave it out.")
    with stage("finding candidates"):
        pairs, _ = candidate_pairs(*tables, n_candidates=n_candidates)
    with stage("comparing records"):
        scores = matcher.scores(tables[0], tables[-1], pairs)
    same, label = scores >= matcher.threshold_, None
    if how == "clusters":
        label = clusters(pairs, scores, matcher.threshold_, len(tables[0]))
        same = label[pairs[:, 0]] == label[pairs[:, 1]]
    elif how == "one-to-one":
        # A pair at the threshold is a match, too.
        weight = np.nextafter(scores - matcher.threshold_, np.inf)
        same = np.isin(np.arange(len(pairs)), one_to_one(pairs, weight))
    return Matches(pairs, scores, same, tuple(map(len, tables)), label)
