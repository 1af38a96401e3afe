"""Error rates of pairs with known classes, and how they change without each class.

Pairs within a class, and pairs of the same two classes, are alike: what counts as independent is a
class (a person, a product). For given pairs, rows that are joined by similar pairs are one class.

The variance of an error rate q over C classes is that of the jackknife,

    v = (C - 1) / C  sum_c (q_(c) - mean q_(c))^2,

where q_(c) is the rate of the pairs without class c. For dissimilar pairs, which have two classes
each, it is the variance of a U-statistic of degree two. What only the two classes of a pair have in
common counts twice, so that the variance is too large rather than too small: dissimilar pairs that
share no class at all count half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar.evidence.splits import components
from nearfar.supervision import Pairs
from nearfar.typing import Floats, Ints, Vector


class Rates(NamedTuple):
    """Rates at a threshold, of all pairs or without each class in turn.

    Attributes
    ----------
    fmr: shape (n_classes,). Share of dissimilar pairs at the threshold or nearer.
    recall: shape (n_classes,). Share of similar pairs at the threshold or nearer.
    """

    fmr: Floats
    recall: Floats

    def precision(self, prevalence: float) -> Floats:
        """Share of similar ones among pairs called the same; nan if there are none."""
        true, false = prevalence * self.recall, (1 - prevalence) * self.fmr
        with np.errstate(invalid="ignore"):
            return np.asarray(true / (true + false))


class PairEvidence:
    """Distances of pairs whose classes are known.

    Parameters
    ----------
    classes: shape (n_pairs, 2). Class numbers of the two rows of each pair, from 0.

    Attributes
    ----------
    thresholds: Every distance that occurs, in ascending order.
    prevalence: Share of similar pairs.
    """

    def __init__(self, distances: Vector, pairs: Pairs, classes: Ints) -> None:
        names, codes = np.unique(classes, return_inverse=True)
        codes = codes.reshape(-1, 2)
        self.n_classes = len(names)
        self.thresholds = np.unique(distances)
        weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight
        self.prevalence = float(weight[pairs.similar].sum() / weight.sum())
        self.similar = _Kind.of(distances, weight, codes, pairs.similar, self.n_classes)
        self.dissimilar = _Kind.of(distances, weight, codes, ~pairs.similar, self.n_classes)

    def rates(self, threshold: float) -> tuple[Rates, Rates]:
        """Return the rates at a threshold, of all pairs and without each class."""
        fmr, fmr_without = self.dissimilar.shares(threshold)
        recall, recall_without = self.similar.shares(threshold)
        return Rates(fmr, recall), Rates(fmr_without, recall_without)

    def curve(self, thresholds: Vector) -> Rates:
        """Return the rates of all pairs at many thresholds."""
        return Rates(self.dissimilar.curve(thresholds), self.similar.curve(thresholds))

    @property
    def n_counted(self) -> int:
        """Number of classes with similar pairs, or with dissimilar ones if that is smaller."""
        return min(self.similar.n_classes, self.dissimilar.n_classes)

    @property
    def one_class(self) -> tuple[float, float]:
        """How many similar pairs a class has, and dissimilar ones two classes, on average."""
        n = self.n_classes
        similar, dissimilar = len(self.similar.distances), len(self.dissimilar.distances)
        return max(1.0, similar / n), max(1.0, 2 * dissimilar / (n * (n - 1)))

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self.similar.distances) + len(self.dissimilar.distances)

    def __str__(self) -> str:
        return (
            f"{self.n_classes} classes ({len(self.similar.distances)} similar and "
            f"{len(self.dissimilar.distances)} dissimilar pairs)"
        )


@dataclass(frozen=True, eq=False)
class UnlabelledPairs:
    """Pairs that a threshold is used on, of which it is not known whether they are similar.

    Of n pairs, K(t) are at the threshold t or nearer. At most n fmr(t) of these are dissimilar, so
    that the precision is at least 1 - n fmr(t) / K(t), whatever share of the pairs is similar.

    Attributes
    ----------
    distances: In ascending order; pairs without one are infinitely far apart.
    """

    distances: Vector
    n_pairs: int

    def found(self, thresholds: Floats | float) -> Ints:
        """Return K(t): how many pairs are at the threshold or nearer."""
        return np.asarray(np.searchsorted(self.distances, thresholds, "right"))

    def precision(self, thresholds: Floats | float, fmr: Floats | float) -> Floats:
        """Return the smallest precision with this false match rate; nan if no pair is found."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.maximum(0.0, 1 - self.n_pairs * np.asarray(fmr) / self.found(thresholds))

    def prevalence(self, threshold: float, rates: Rates) -> float:
        """Estimate the share of similar pairs from how many are found at a threshold."""
        true = self.found(threshold) / self.n_pairs - rates.fmr
        return float(np.clip(true / rates.recall, 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class _Kind:
    """Pairs of one kind, by distance."""

    distances: Vector
    weight: Vector
    classes: Ints
    total: Vector

    @classmethod
    def of(
        cls, distances: Vector, weight: Vector, classes: Ints, chosen: NDArray[np.bool_], n: int
    ) -> _Kind:
        order = np.flatnonzero(chosen)[np.argsort(distances[chosen], kind="stable")]
        total = _by_class(classes[order], weight[order], n)
        return cls(distances[order], weight[order], classes[order], total)

    @property
    def n_classes(self) -> int:
        """Number of classes that have such pairs."""
        return int((self.total > 0).sum())

    def curve(self, thresholds: Vector) -> Vector:
        """Return the shares at thresholds or nearer."""
        sums = np.concatenate([[0.0], np.cumsum(self.weight)]) / self.weight.sum()
        return np.asarray(sums[np.searchsorted(self.distances, thresholds, "right")])

    def shares(self, threshold: float) -> tuple[Floats, Floats]:
        """Return the share at a threshold or nearer, of all and without each class."""
        k = int(np.searchsorted(self.distances, threshold, "right"))
        near, every = self.weight[:k].sum(), self.weight.sum()
        without = near - _by_class(self.classes[:k], self.weight[:k], len(self.total))
        with np.errstate(invalid="ignore", divide="ignore"):
            left = every - self.total
            # What is left may be rounding: then there is no rate without the class.
            shares = np.where(left > 1e-9 * every, without / left, np.nan)
        return np.asarray(near / every), np.clip(shares, 0.0, 1.0)


def _by_class(classes: Ints, weight: Vector, n: int) -> Vector:
    """Sum weights by class; a pair within a class counts once."""
    first, second = classes.T
    sums = np.bincount(first, weight, n)
    across = first != second
    return np.asarray(sums + np.bincount(second[across], weight[across], n))


def joined_classes(pairs: Pairs) -> Ints:
    """Return class numbers of the rows of each pair: rows joined by similar pairs are one class."""
    rows, place = np.unique(pairs.index, return_inverse=True)
    place = place.reshape(-1, 2)
    i, j = place[pairs.similar].T
    return components(i, j, len(rows))[place]
