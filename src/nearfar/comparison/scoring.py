"""Scores of a distance on a fold: test rows are queries, training rows the gallery.

The measures are those of `nearfar.measures.registry`. Rows of classes that were not learned from
have no training rows to find: they are queries among each other.

For large folds a random sample of the test rows is classified, and a smaller one is ranked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfar.comparison.classifiers import FittedClassifier
from nearfar.measures.registry import ERROR, Rankings, Voters, measures_for
from nearfar.metrics.gallery import Distance, Gallery, Search
from nearfar.metrics.metric import Metric
from nearfar.typing import Floats, Ints, Vector

# Distances computed to classify the test rows of a fold; they bound its time.
_CLASSIFIED_DISTANCES = 1 << 27
# Test rows classified even if that takes more distances: an error of 10 % is then known to 1 %.
_CLASSIFIED_ROWS = 1000
# Distances sorted to rank for the test rows of a fold: sorting takes longer than comparing.
_RANKED_DISTANCES = 1 << 21
# Test rows ranked even if that takes more distances; a ranking says more than one vote.
_RANKED_ROWS = 100


@dataclass(frozen=True, eq=False)
class Scores:
    """Losses of a distance on the test rows, or test judgements, of a fold.

    Attributes
    ----------
    losses: shape (n_test,). Loss of each row by the name of the measure; nan for rows that
        were not scored. Losses of judgements are in proportion to their weights.
    """

    losses: dict[str, Vector]

    def loss(self, measure: str) -> float:
        """Return the mean loss of the rows that were scored; nan if there are none."""
        return known_mean(self.losses[measure])


def known_mean(values: Vector) -> float:
    """Return the mean of the values that are not nan; nan if there are none."""
    scored = values[~np.isnan(values)]
    return float(scored.mean()) if len(scored) else float("nan")


def classified_rows(n_test: int, n_train: int, random_state: int | None = 0) -> Ints:
    """Return the test rows that are classified: all, or a random sample of many."""
    order = np.random.default_rng(random_state).permutation(n_test)
    return np.sort(order[: max(_CLASSIFIED_ROWS, _CLASSIFIED_DISTANCES // n_train)])


def score_classifier(
    classifier: FittedClassifier, test: tuple[Floats, Ints], n_train: int, random_state: int | None
) -> Scores:
    """Return the errors of a classifier on the test rows that distances are scored on, too."""
    X, y = test
    losses = {measure.name: np.full(len(X), np.nan) for measure in measures_for("labels")}
    rows = classified_rows(len(X), n_train, random_state)
    losses[ERROR.name][rows] = classifier.predict(X[rows]) != y[rows]
    return Scores(losses)


def score_numbers(
    predictor: Metric | Distance | FittedClassifier,
    train: tuple[Floats, Vector],
    test: tuple[Floats, Vector] | None,
    *,
    unit: float,
    n_neighbors: int,
    random_state: int | None = 0,
    sample: bool = True,
) -> Scores:
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
    return Scores(losses)


def score_distance(
    distance: Metric | Distance,
    gallery: tuple[Floats, Ints],
    test: tuple[Floats, Ints] | None,
    *,
    n_neighbors: int,
    random_state: int | None = 0,
    sample: bool = True,
) -> Scores:
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
    return Scores(losses)
