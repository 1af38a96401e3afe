"""`Task`: a printed cell, as something that can be run.

A protocol file turns the cells of its paper into tasks: which rows, how they are prepared and
split, how often, which method with which parameters, and what is measured. Everything random is
drawn from the number of the run, so that all methods of a row see the same splits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from nearfar import datasets

Array = NDArray[Any]

PAPERS = ("boostmetric", "metricboost", "drmetric", "maxmargin", "msnca")


@dataclass(frozen=True)
class Table:
    """Rows of a data set, prepared.

    Attributes
    ----------
    name : str
        Name of the data set.
    standardise : bool
        Whether columns are standardised, by the training rows.
    interval : bool
        Whether columns are mapped to [-1, 1], by all rows.
    components : int or None
        Number of principal components, of the training rows.
    sample : int or None
        Number of random rows to take, always the same; None for all.
    """

    name: str
    standardise: bool = False
    interval: bool = False
    components: int | None = None
    sample: int | None = None

    def load(self) -> tuple[Array, Array]:
        """Return rows and labels."""
        return _load(self.name, self.sample)

    @property
    def checksum(self) -> str:
        """Return a digest of rows and labels."""
        return _checksum(self.name, self.sample)

    def prepared(self, X: Array, train: Array) -> Array:
        """Prepare all rows by what the training rows tell."""
        if self.interval:
            X = MinMaxScaler((-1, 1)).fit_transform(X)
        if self.standardise:
            X = StandardScaler().fit(X[train]).transform(X)
        if self.components is not None:
            X = PCA(self.components, random_state=0).fit(X[train]).transform(X)
        return X


@dataclass(frozen=True)
class Whitened(Table):
    """As `Table`, with principal components of unit variance on the training rows."""

    def prepared(self, X: Array, train: Array) -> Array:
        """Prepare all rows by what the training rows tell."""
        X = super().prepared(X, train)
        return np.asarray(StandardScaler().fit(X[train]).transform(X))


@lru_cache(maxsize=2)
def _load(name: str, sample: int | None) -> tuple[Array, Array]:
    data = datasets.load(name)
    if data.y is None:
        raise ValueError(f"{name} has no labels.")
    X, y = np.asarray(data.extra.get("X_filled", data.X), dtype=np.float64), data.y
    if sample is None:
        return X, y
    rows = np.sort(np.random.RandomState(0).permutation(len(X))[:sample])
    return X[rows], y[rows]


@lru_cache(maxsize=64)
def _checksum(name: str, sample: int | None) -> str:
    X, y = _load(name, sample)
    return hashlib.sha256(np.ascontiguousarray(X).tobytes() + y.tobytes()).hexdigest()[:16]


BY_VOTES = " by votes"
"""Ends the name of a measure that takes thresholded weak models for a distance, not M."""

OTHER = 1000
"""Added to the number of a run where a second table must not have the splits of the first."""

Split = Callable[[Array, int], tuple[Array, Array]]
"""Labels, and the number of a run -> training and test rows."""


@dataclass(frozen=True)
class RandomSplit:
    """Random rows to test, as many as the share of all rounded down; the classes play no part."""

    test_share: float

    def __call__(self, y: Array, run: int) -> tuple[Array, Array]:
        """Return training and test rows of a run."""
        order = np.random.RandomState(run).permutation(len(y))
        n_test = int(np.floor(self.test_share * len(y)))
        return np.sort(order[n_test:]), np.sort(order[:n_test])


@dataclass(frozen=True)
class OtherSplit(RandomSplit):
    """As `RandomSplit`, other rows."""

    def __call__(self, y: Array, run: int) -> tuple[Array, Array]:
        """Return training and test rows of a run."""
        return super().__call__(y, run + OTHER)


@dataclass(frozen=True)
class Folds:
    """Cross-validation with the classes in proportion; a run is a fold, and folds are drawn anew.

    `swapped` learns from the one fold and tests on the others.
    """

    number: int
    swapped: bool = False

    def __call__(self, y: Array, run: int) -> tuple[Array, Array]:
        """Return training and test rows of a run."""
        repetition, fold = divmod(run, self.number)
        folds = StratifiedKFold(self.number, shuffle=True, random_state=repetition)
        train, test = list(folds.split(y, y))[fold]
        return (test, train) if self.swapped else (train, test)


@dataclass(frozen=True)
class PerClass:
    """The same number of training rows of each class, at random; others are tested.

    `tested` is the most test rows of each class; None for all.
    """

    number: int
    tested: int | None = None

    def __call__(self, y: Array, run: int) -> tuple[Array, Array]:
        """Return training and test rows of a run."""
        rng = np.random.RandomState(run)
        drawn = [rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y)]
        end = None if self.tested is None else self.number + self.tested
        train = np.concatenate([rows[: self.number] for rows in drawn])
        test = np.concatenate([rows[self.number : end] for rows in drawn])
        return np.sort(train), np.sort(test)


@dataclass(frozen=True)
class AllRows:
    """All rows to learn from, for the time that it takes; they are also those to test."""

    def __call__(self, y: Array, run: int) -> tuple[Array, Array]:
        """Return all rows twice."""
        return np.arange(len(y)), np.arange(len(y))


@dataclass(frozen=True)
class Words(Table):
    """Word counts of pictures, with ten splits whose training pictures made the codebook."""

    number: int = 100

    def load(self) -> tuple[Array, Array]:
        """Return the counts of the first split, and labels."""
        return self.of_run(0)[0], np.asarray(datasets.load(self.name).y)

    @property
    def checksum(self) -> str:
        """Return a digest of the counts of all splits."""
        data = datasets.load(self.name)
        return hashlib.sha256(data.extra[f"bow{self.number}"].tobytes()).hexdigest()[:16]

    def of_run(self, run: int) -> tuple[Array, Array]:
        """Return the counts and the training pictures of a split."""
        extra = datasets.load(self.name).extra
        return np.asarray(extra[f"bow{self.number}"][run], dtype=np.float64), extra["train"][run]


@dataclass(frozen=True)
class StoredSplit:
    """The splits that come with `Words`."""

    def __call__(self, y: Array, run: int) -> tuple[Array, Array]:
        """Raise: the table has the split."""
        raise TypeError("The splits of word counts are in their table.")


@dataclass(frozen=True)
class Task:
    """A cell under a reading of the paper.

    Attributes
    ----------
    cell : str
        Id of the cell, for instance "boostmetric/T1/Wine/BoostMetric".
    reading : str
        Which choices are made where the paper prints none; see readings.toml.
    variant : {"paper", "default", "reference"}
        The method as printed, nearfar's default, or one that the paper compares with.
    table : Table
    split : Split
    runs : int
    method : str
        Name in `methods`.
    parameters : mapping of str to object
        Of the method, beyond its defaults.
    measure : {"error", "least error", "accuracy", "triplets", "seconds"}
        "least error" is that of the iteration with the fewest wrong test rows. "accuracy" and
        "triplets" may end in `BY_VOTES`.
    n_neighbors : int
    """

    cell: str
    reading: str
    variant: str
    table: Table
    split: Split
    runs: int
    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    measure: str = "error"
    n_neighbors: int = 3

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what distinguishes the task from all others."""
        return self.cell, self.reading, self.variant

    def rows(self, run: int) -> tuple[Array, Array, Array, Array]:
        """Return prepared rows, labels, and the rows to learn from and to test."""
        X, y = self.table.load()
        if isinstance(self.table, Words):
            X, learns = self.table.of_run(run)
            train, test = np.flatnonzero(learns), np.flatnonzero(~learns)
        else:
            train, test = self.split(y, run)
        return self.table.prepared(X, train), y, train, test


def tasks(paper: str | None = None) -> Iterator[Task]:
    """Yield the tasks of a paper, or of all five."""
    for name in PAPERS if paper is None else (paper,):
        yield from protocol(name).tasks()


def protocol(paper: str) -> Any:
    """Return the module of a paper's protocol, with `tasks()` and `READINGS`."""
    return import_module(f"papers.protocols.{paper}")
