"""Matches of two tables, or groups of records of one table, by a learned matcher.

From pairs that may match to matches: one for each record, or groups of records of one table.

`one_to_one` chooses the pairs with the largest sum of scores such that no record is in two. Pairs
are edges of a sparse bipartite graph; every record of the left table also has an edge of weight 0
to a place of its own, so that it may remain alone.

`clusters` merges records by average linkage. If a is like b and b like c, connected components
would put a and c together however different they are. Here two clusters merge only if the mean of
the scores of all pairs between them reaches the threshold; pairs that are not listed have the
lowest score.

`RecordMatcher`: whether two records are the same person, product or paper.
"""

from __future__ import annotations

import heapq
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from nearfar.columns.numbers import Notation
from nearfar.metrics.feature_maps import Forest
from nearfar.records.comparisons import Comparisons, Field
from nearfar.records.model import (
    Candidates,
    HeldOut,
    LabelledPairs,
    PairModel,
    best_threshold,
    fit_calibrated,
)
from nearfar.records.records import N_CANDIDATES, Records, candidate_pairs
from nearfar.runtime.messages import counted
from nearfar.runtime.parameters import boolean, check_parameters, number, optional
from nearfar.runtime.progress import stage
from nearfar.runtime.tensor_file import open_tensors, write_tensors
from nearfar.supervision.constraints import checked_rows
from nearfar.typing import Bools, Ints, Matrix, Vector
from nearfar.verification import (
    Bound,
    OperatingPoint,
    TargetNotCertifiedError,
    at_threshold,
    choose_threshold,
    parse_target,
)

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
        low, high = expit(self.scores) >= np.reshape(_UNSURE, (2, 1))
        unsure = np.where(self.same, ~high, low)
        return np.flatnonzero(unsure)[np.argsort(np.abs(self.scores[unsure]), kind="stable")]

    @property
    def left_over(self) -> list[Ints]:
        """Rows without a match, of each table."""
        sides = [self.pairs.ravel()] if len(self.n_records) == 1 else self.pairs.T
        both = zip(self.n_records, sides, strict=True)
        return [np.setdiff1d(np.arange(n), rows) for n, rows in both]

    def __str__(self) -> str:
        alone = [counted(len(rows), "record") for rows in self.left_over]
        if self.clusters is not None:
            sizes = np.bincount(self.clusters)
            found = f"{counted(int((sizes > 1).sum()), 'group')} of records that are the same"
            return f"{found}; {alone[0]} without another."
        rest = f"{alone[0]} of the left table and {alone[-1]} of the right one are left over"
        return f"{counted(len(self.pairs), 'match')}; {rest}."


def one_to_one(pairs: Ints, weight: Vector) -> Ints:
    """Choose pairs with the largest sum of weights, each record in at most one.

    Parameters
    ----------
    weight: shape (n_pairs,). Pairs with a weight that is not positive are not chosen.

    Returns
    -------
    array of int
        Places of the chosen pairs, in order.
    """
    listed = np.flatnonzero(weight > 0)
    (lefts, i), (rights, j) = (np.unique(side, return_inverse=True) for side in pairs[listed].T)
    n_left, n_right = len(lefts), len(rights)
    alone = np.arange(n_left)
    # Every record on the left is in one edge, so that a constant changes nothing; edges of weight 0
    # would not exist.
    most = weight[listed].max(initial=0)
    cost = 1 + most - np.concatenate([weight[listed], np.zeros(n_left)])
    edges = np.concatenate([i, alone]), np.concatenate([j, n_right + alone])
    graph = coo_matrix((cost, edges), shape=(n_left, n_right + n_left)).tocsr()
    rows, columns = min_weight_full_bipartite_matching(graph)
    partner = np.empty(n_left, dtype=np.intp)
    partner[rows] = columns
    return listed[partner[i] == j]


def clusters(pairs: Ints, scores: Vector, threshold: float, n_records: int) -> Ints:
    """Merge records of one table by average linkage.

    Parameters
    ----------
    pairs: shape (n_pairs, 2). Each pair once.
    threshold: Smallest mean score of the pairs between two clusters that merge.

    Returns
    -------
    array of int of shape (n_records,)
        Number of each record's cluster, in the order of their first records.
    """
    floor = float(scores.min(initial=threshold))
    # Sums of what the scores between two clusters are above the lowest.
    links: list[dict[int, float]] = [{} for _ in range(n_records)]
    for (i, j), score in zip(pairs.tolist(), (scores - floor).tolist(), strict=True):
        links[i][j] = links[j][i] = score
    members = [[row] for row in range(n_records)]

    def mergers(a: int) -> Iterator[tuple[float, int, int, int, int]]:
        for b, total in links[a].items():
            sizes = len(members[a]), len(members[b])
            if (mean := total / (sizes[0] * sizes[1])) >= threshold - floor:
                yield -mean, min(a, b), max(a, b), *sizes

    queue = [each for a in range(n_records) for each in mergers(a) if each[1] == a]
    heapq.heapify(queue)
    while queue:
        _, a, b, *sizes = heapq.heappop(queue)
        # Of clusters that have merged since.
        if sorted([len(members[a]), len(members[b])]) != sorted(sizes):
            continue
        members[a] += members[b]
        members[b] = []
        del links[a][b], links[b][a]
        for other, total in links[b].items():
            links[a][other] = links[other][a] = links[a].get(other, 0.0) + total
            del links[other][b]
        links[b] = {}
        for each in mergers(a):
            heapq.heappush(queue, each)
    label = np.empty(n_records, dtype=np.intp)
    for place, rows in enumerate(filter(None, members)):
        label[rows] = place
    return label


# Pairs at a time, whose comparisons take about 200 MB.
_BLOCK = 1 << 18


class ComparedField(NamedTuple):
    """A field, what it is, and in which ways it is compared."""

    name: str
    kind: str
    ways: tuple[str, ...]


class RecordMatcher(BaseEstimator):
    """Tell whether two records are the same, as learned from pairs for which this is known.

    Each field is compared in its own ways, and a model of the comparisons gives the log-odds that
    the two records are the same.

    Without a `target`, the threshold is the one with the largest expected F1 on pairs whose records
    were held out. With a target, the model is learned from some entities (records that matches
    join), and the threshold is certified on others. If the pairs cannot certify it, `fit` raises
    `TargetNotCertifiedError`, which says how many entities are needed. If a false match rate is
    allowed that is larger than that of the threshold with the largest expected F1, that one is
    used: it is stricter.

    Parameters
    ----------
    target : str, dict or None, default=None
        What to certify, such as "fmr<=1e-4" (false match rate), "precision>=0.99" or "recall>=0.9";
        see `PairVerifier`.
    calibration : float, default=0.5
        With a target, share of the entities that the threshold is certified on.
    confidence : float, default=0.95
        Confidence with which the target is certified.
    rivals : bool, optional
        Whether a pair is also compared with its rivals: the most similar other records of the two
        tables. This helps much where many records are alike, but then the tables must be given
        whole, and not only the records of the pairs. By default only without a target: what is
        certified must not depend on what else is in the tables.
    random_state : int, RandomState or None, default=None
        For splits and trees.

    Attributes
    ----------
    fields_ : tuple of ComparedField
        Name, kind and ways of each field; the last one is the whole record.
    threshold_ : float
        Pairs with these log-odds or more are the same.
    operating_point_ : OperatingPoint or None
        With a target: error rates at the threshold, and the certified bound. Its distances are
        negative log-odds. If `fit` is told that the matches are complete, the false match rate is
        that among all pairs of records of different entities, and the precision that in these two
        tables. Otherwise they are for pairs like those that were given.
    id_columns_ : tuple of str or None
        Columns of ids of the tables, if `nearfar.match` learned it.
    held_out_ : HeldOut
        Log-odds of pairs to learn from by models of others. A file does not have them.
    comparisons_ : Comparisons
    model_ : PairModel

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import RecordMatcher
    >>> names = ["Ann Lee", "Bo Ray", "Cy Fox", "Di Orr", "Eve Ash", "Flo Kay", "Gus Day", "Hal Po"]
    >>> cities = ["Bonn", "Rome", "Oslo", "Bern", "Kyiv", "Riga", "Nice", "Cork"]
    >>> left = {"name": names * 5, "city": np.repeat(cities, 5)}
    >>> right = {"name": [name.upper() for name in left["name"]], "city": left["city"]}
    >>> pairs = [(i, j) for i in range(40) for j in range(40) if i // 5 == j // 5 or i % 8 == j % 8]
    >>> matcher = RecordMatcher(random_state=0).fit(left, right, pairs, [i == j for i, j in pairs])
    >>> matcher.predict(left, right, [[0, 0], [0, 8]])
    array([ True, False])
    """

    def __init__(
        self,
        target: Any = None,
        *,
        calibration: float = 0.5,
        confidence: float = 0.95,
        rivals: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.target = target
        self.calibration = calibration
        self.confidence = confidence
        self.rivals = rivals
        self.random_state = random_state

    def fit(
        self,
        left: Any,
        right: Any,
        pairs: ArrayLike,
        same: ArrayLike,
        *,
        complete: bool = False,
        candidates: Candidates | None = None,
    ) -> Self:
        """Learn from pairs.

        Parameters
        ----------
        left, right : DataFrame, dict of columns, or list of dicts
            Tables of records; fields of the same name are compared. `right` is None if records of
            one table are compared with each other.
        pairs : array-like of shape (n_pairs, 2)
            Rows of `left` and of `right`, from 0.
        same : array-like of bool of shape (n_pairs,)
            Whether the two are the same.
        complete : bool, default=False
            Whether all matches of the records in `pairs` are given, so that their other pairs are
            different.
        candidates : callable, optional
            ``candidates(left, right)`` returns the pairs of two `Records` that may be the same.
            Other pairs count as different at every threshold and are not compared. If the matches
            are complete, candidates that are no matches are learned from, too.

        Notes
        -----
        If the matches are complete, a precision is that among the pairs of these two tables whose
        records are in none of `pairs`, and among all pairs if there are none. It is not promised
        for other tables, where another share of the pairs may be the same.
        """
        rules = {
            "calibration": number(above=0.0, below=1.0),
            "confidence": number(above=0.5, below=1.0),
            "rivals": optional(boolean()),
        }
        check_parameters(rules, {name: getattr(self, name) for name in rules})
        target = None if self.target is None else parse_target(self.target)
        one, two = _tables(left, right)
        index, truth = _rows(pairs, one, two), np.asarray(same)
        if truth.shape != (len(index),) or not np.isin(truth, (0, 1)).all():
            raise ValueError(f"same must be True or False for each of the {len(index)} pairs.")
        random = check_random_state(self.random_state)
        whole = LabelledPairs.of(one, two, index, truth.astype(bool), complete, candidates)
        learning = whole
        if target is not None:
            learning, calibrating = whole.split(self.calibration, random)
        self._learn(learning.with_candidates(random), random)
        self.id_columns_: tuple[str | None, ...] = ()
        self.operating_point_: OperatingPoint | None = None
        if target is not None:
            self._certify(target, whole, calibrating)
        return self

    def _certify(self, target: Bound, whole: LabelledPairs, calibrating: LabelledPairs) -> None:
        """Choose the threshold for the pairs of the tables that are not known."""
        prevalence = unlabelled = None
        if whole.complete:
            unlabelled = whole.unlabelled(partial(self._log_odds, whole.left, whole.right))
            unlabelled = unlabelled if len(unlabelled.distances) else None
            prevalence = whole.prevalence
        log_odds = partial(self._log_odds, calibrating.left, calibrating.right)
        evidence = calibrating.evidence(log_odds)
        use: Any = {"prevalence": prevalence, "unlabelled": unlabelled}
        try:
            point = choose_threshold(evidence, target, confidence=self.confidence, **use)
        except TargetNotCertifiedError as error:
            if not whole.complete or error.classes_needed is None:
                raise
            n, kept = int(whole.same.sum()), int(calibrating.same.sum())
            needed = math.ceil(n * error.classes_needed / evidence.n_classes)
            weaker = f" With these, {error.strongest} can be certified." if error.strongest else ""
            message = (
                f"{target} cannot be certified at {100 * self.confidence:g} % confidence with {n} "
                f"known matches, of which {kept} are not learned from; give about {needed}, or "
                f"choose a weaker target.{weaker}"
            )
            facts = error.classes_needed, error.pairs_needed, error.strongest
            raise TargetNotCertifiedError(message, *facts) from None
        if np.isinf(point.threshold):
            raise TargetNotCertifiedError(
                f"{self.target} cannot be met: too many matches are no candidates."
            )
        best, rate = -best_threshold(self.held_out_), target.measure
        if rate == "fmr" and best < point.threshold:
            # It is stricter, and so has a lower false match rate. Beyond it, most pairs that are
            # called the same would not be, though few of all pairs.
            point = at_threshold(point, best, evidence, unlabelled)
            point = replace(point, estimate=point.fmr)
        self.operating_point_, self.threshold_ = point, -point.threshold

    def _learn(self, learning: LabelledPairs, random: np.random.RandomState) -> None:
        """Fit the comparisons, the model and the threshold to pairs and to nothing else."""
        if not 0 < learning.same.sum() < len(learning.same):
            raise ValueError(
                "Pairs that are the same and pairs that are different are needed; got "
                f"{learning.same.sum()} and {(~learning.same).sum()} to learn from."
            )
        left, right, index = learning.left, learning.right, learning.index
        rivals = self.target is None if self.rivals is None else self.rivals
        rows = [index.ravel()] if right is left else index.T
        tables = zip((left, right), map(np.unique, rows), strict=False)
        self.comparisons_ = Comparisons.fit([table.take(used) for table, used in tables], rivals)
        X = self.comparisons_.compare(left, right, index)
        self.model_, held_out = fit_calibrated(
            X, learning.same, learning.held_out_together, learning.left_out, random
        )
        self.held_out_: HeldOut = held_out
        self.threshold_ = best_threshold(held_out)

    @property
    def fields_(self) -> tuple[ComparedField, ...]:
        """Name, kind and ways of each field; the last one is the whole record."""
        check_is_fitted(self, "model_")
        ways: dict[str, list[str]] = {}
        for name, way in self.comparisons_.names:
            ways.setdefault(name, []).append(way)
        compared = self.comparisons_.fields
        return tuple(ComparedField(f.name, f.kind, tuple(ways[f.name])) for f in compared)

    def scores(self, left: Any, right: Any, pairs: ArrayLike) -> Vector:
        """Return the log-odds that the records of each pair are the same."""
        check_is_fitted(self, "model_")
        one, two = _tables(left, right)
        return self._log_odds(one, two, _rows(pairs, one, two))

    def _log_odds(self, left: Records, right: Records, index: Ints) -> Vector:
        blocks = np.split(index, range(_BLOCK, len(index), _BLOCK))
        compared = (self.comparisons_.compare(left, right, each) for each in blocks)
        return np.concatenate([self.model_.log_odds(X) for X in compared])

    def predict(self, left: Any, right: Any, pairs: ArrayLike) -> Bools:
        """Tell which pairs are the same."""
        return self.scores(left, right, pairs) >= self.threshold_

    def predict_proba(self, left: Any, right: Any, pairs: ArrayLike) -> Vector:
        """Return the probability that the records of each pair are the same.

        It is calibrated on pairs that were held out, and holds where as many of the pairs are
        matches as among those that were learned from.
        """
        return np.asarray(expit(self.scores(left, right, pairs)))

    def explain(self, left: Any, right: Any, pairs: ArrayLike) -> Matrix:
        """Return how much each field speaks for a match, in log-odds.

        It is what the log-odds are, minus what they would be on average if the comparisons of the
        field were once those of typical matches and once those of typical other pairs: medians of
        the pairs that were learned from.

        Returns
        -------
        array of shape (n_pairs, n_fields)
            In the order of `fields_`.
        """
        check_is_fitted(self, "model_")
        one, two = _tables(left, right)
        X = self.comparisons_.compare(one, two, _rows(pairs, one, two))
        own = self.model_.log_odds(X)
        parts = []
        for each in self.comparisons_.fields:
            of_field = np.array([name == each.name for name, _ in self.comparisons_.names])
            instead = [np.where(of_field, typical, X) for typical in self.model_.typical]
            parts.append(own - np.mean([self.model_.log_odds(Z) for Z in instead], axis=0))
        return np.column_stack(parts)

    def match(
        self, left: Any, right: Any = None, *, how: How = "auto", n_candidates: int = N_CANDIDATES
    ) -> Matches:
        """Find the records that are the same, among all pairs.

        Parameters
        ----------
        left, right : DataFrame, dict of columns, or list of dicts
            Without `right`, records of one table are compared with each other.
        how : {"auto", "one-to-one", "all", "clusters"}, default="auto"
            Two tables: each record in at most one match ("one-to-one", the default), or all pairs
            above the threshold. One table: "clusters" by average linkage (the default), or all
            pairs.
        n_candidates : int, default=10
            Records of `right` that a record of `left` is compared with; see `candidate_pairs`.

        Returns
        -------
        Matches
        """
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
            scores = self.scores(tables[0], tables[-1], pairs)
        same, label = scores >= self.threshold_, None
        if how == "clusters":
            label = clusters(pairs, scores, self.threshold_, len(tables[0]))
            same = label[pairs[:, 0]] == label[pairs[:, 1]]
        elif how == "one-to-one":
            # A pair at the threshold is a match, too.
            weight = np.nextafter(scores - self.threshold_, np.inf)
            same = np.isin(np.arange(len(pairs)), one_to_one(pairs, weight))
        return Matches(pairs, scores, same, tuple(map(len, tables)), label)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the matcher to a safetensors file.

        An existing file is replaced only once the new one is complete.
        """
        check_is_fitted(self, "model_")
        arrays = {**vars(self.model_), **vars(self.model_.forest)}
        del arrays["forest"]
        kinds = []
        for place, each in enumerate(self.comparisons_.fields):
            arrays |= {f"rarity.{place}.{way}": a for way, a in each.rarity.items()}
            kinds.append([each.name, each.kind, vars(each.notation), list(each.rarity)])
        point = self.operating_point_
        header = {
            "version": 1,
            "parameters": {**self.get_params(), "random_state": None},
            "fields": kinds,
            "rivals": self.comparisons_.rivals,
            "threshold": self.threshold_,
            "ids": self.id_columns_,
            "operating_point": None if point is None else vars(point),
        }
        write_tensors(path, "matcher", arrays, {k: json.dumps(v) for k, v in header.items()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a matcher that `save` wrote."""
        with open_tensors(path, "matcher") as file:
            header = {k: json.loads(v) for k, v in file.metadata.items() if k != "format"}
            matcher, compared = cls(**header["parameters"]), []
            for place, (name, kind, notation, ways) in enumerate(header["fields"]):
                rarity = {w: file[f"rarity.{place}.{w}"].astype(np.float32) for w in ways}
                compared.append(Field(name, kind, Notation(**notation), rarity))
            matcher.comparisons_ = Comparisons(tuple(compared), header["rivals"])
            forest = Forest(**{each.name: file[each.name] for each in fields(Forest)})
            rest = {each.name: file[each.name] for each in fields(PairModel)[1:]}
            matcher.model_ = PairModel(forest, **rest)
            if matcher.model_.linear.shape[1] != len(matcher.comparisons_.names):
                raise ValueError("its model and its comparisons do not fit together")
            point = header["operating_point"]
            if point is not None:
                point = OperatingPoint(**point)
            matcher.operating_point_, matcher.threshold_ = point, float(header["threshold"])
            matcher.id_columns_ = tuple(header.get("ids", ()))
        return matcher


def _tables(left: Any, right: Any) -> tuple[Records, Records]:
    """Return the two tables; one object if there is no other one."""
    one = Records.of(left, "left")
    return one, one if right is None or right is left else Records.of(right, "right")


def _rows(pairs: ArrayLike, left: Records, right: Records) -> Ints:
    """Return pairs as row numbers that the tables have."""
    index = checked_rows(pairs, 2, "Pairs")
    if (index >= [len(left), len(right)]).any():
        sizes = f"{len(left)} and {len(right)} records"
        raise ValueError(f"Pairs need rows of the tables, which have {sizes}.")
    if right is left and (index[:, 0] == index[:, 1]).any():
        raise ValueError("Pairs of one table need two different rows.")
    return index
