"""`RecordMatcher`: whether two records are the same person, product or paper."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from nearfar.columns.numbers import Notation
from nearfar.evidence.certify import Target
from nearfar.metrics.feature_maps import Forest
from nearfar.records.candidates import N_CANDIDATES
from nearfar.records.comparisons import Comparisons, Field
from nearfar.records.labelled import Candidates, LabelledPairs
from nearfar.records.matches import How, Matches, find_matches
from nearfar.records.model import HeldOut, PairModel, best_threshold, fit_calibrated
from nearfar.records.records import Records
from nearfar.runtime.parameters import boolean, check_parameters, number, optional
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

    def _certify(self, target: Target, whole: LabelledPairs, calibrating: LabelledPairs) -> None:
        """Choose the threshold for the pairs of the tables that are not known."""

        def log_odds(part: LabelledPairs) -> Callable[[Ints], Vector]:
            return lambda rows: self._log_odds(part.left, part.right, rows)

        prevalence = unlabelled = None
        if whole.complete:
            unlabelled, prevalence = whole.unlabelled(log_odds(whole)), whole.prevalence
            unlabelled = unlabelled if len(unlabelled.distances) else None
        evidence = calibrating.evidence(log_odds(calibrating))
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
        best, rate = -best_threshold(self.held_out_), isinstance(target, Bound) and target.measure
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
        return tuple(
            ComparedField(
                each.name, each.kind, tuple(w for f, w in self.comparisons_.names if f == each.name)
            )
            for each in self.comparisons_.fields
        )

    def scores(self, left: Any, right: Any, pairs: ArrayLike) -> Vector:
        """Return the log-odds that the records of each pair are the same."""
        check_is_fitted(self, "model_")
        one, two = _tables(left, right)
        return self._log_odds(one, two, _rows(pairs, one, two))

    def _log_odds(self, left: Records, right: Records, index: Ints) -> Vector:
        blocks = np.split(index, range(_BLOCK, len(index), _BLOCK))
        compared = (self.comparisons_.compare(left, right, each) for each in blocks)
        return np.concatenate([self.model_.log_odds(X) for X in compared])

    def decision_function(self, left: Any, right: Any, pairs: ArrayLike) -> Vector:
        """Return log-odds minus threshold: not negative for pairs that are the same."""
        return self.scores(left, right, pairs) - self.threshold_

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
        check_is_fitted(self, "model_")
        return find_matches(self, left, right, how=how, n_candidates=n_candidates)

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
                point = OperatingPoint(**{**point, "interval": tuple(point["interval"])})
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
