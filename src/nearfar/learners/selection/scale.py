"""``scale="auto"``: the units in which Euclidean distance already works best.

Standardising helps tables of mixed units and ruins principal components, whose variances carry the
information; embeddings are often best compared by angle. A sample of the data tells these cases
apart: each scale is judged by how well Euclidean distance does with it.

    labels      share of rows of the same class among the three nearest, leaving out the row itself
                and its group
    chunklets   the same, among rows that are in chunklets
    numbers     minus the mean squared error of the mean of five nearest rows, in variances
    triplets    share whose near is nearer than its far
    pairs       probability that a similar pair is nearer than a dissimilar one

Rows may have weights in these means, but not as neighbours. Angles are only taken if they are
better by more than two standard errors and 0.001: unlike the other scales, they depend on where the
origin is. If one column has far more spread than most, as grams have beside categories, columns are
standardised unless another scale is better by 0.1: neighbours by that column alone may be good, but
learners that shrink towards the mean variance could no longer use the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from nearfar.learners.scaling import Scaler
from nearfar.measures.judgements import misplaced
from nearfar.metrics.metric import triplet_scores
from nearfar.numerics.edges import squared_distances
from nearfar.rows import Points
from nearfar.supervision import Supervision
from nearfar.typing import Floats, Ints, Vector

SCALES = ("unit", "standard", "cosine")
"""What "auto" chooses from; the first one wins ties."""

# The most triplets or pairs that are looked at: the standard error of a share is 0.5 %.
_CONSTRAINTS = 10_000

# Products that the distances of a sample may cost, a fraction of a second.
_PRODUCTS = 1 << 28

# Rows of a sample: more would cost more than they tell, and fewer tell scales apart by chance.
_LARGEST_SAMPLE = 1000
_SMALLEST_SAMPLE = 200

# Gain that a scale must have beyond two standard errors, which vanish where scores are equal.
_SMALLEST_GAIN = 1e-3
_GAIN_OF_MIXED_UNITS = 0.1

# Spread of a column, in those of the median column, from which units are mixed: penguins have 1,700
# (grams, islands, sexes). Tables of the papers with more than that are standardised either way.
_MIXED = 100.0

Score = Callable[[Floats], Vector]
"""Scaled rows -> what is averaged to judge them, a number for each row or constraint."""


def choose_scale(X: Points, supervision: Supervision, among: Iterable[str] = SCALES) -> str:
    """Return the scale with which Euclidean distance does best.

    Parameters
    ----------
    supervision: Where it says too little, features are standardised.
    among: Scales to choose from; the first one wins ties.
    """
    among = list(among)
    rows, score = _scored(X, supervision)
    if len(among) == 1 or score is None:
        return "standard" if "standard" in among else among[0]
    sample, gains = X[rows], {"cosine": _SMALLEST_GAIN}
    spread = np.std(sample, axis=0, dtype=np.float64)
    spread = spread[spread > 0]
    if "standard" in among and len(spread) and spread.max() > _MIXED * np.median(spread):
        gains = dict.fromkeys(set(among) - {"standard"}, _GAIN_OF_MIXED_UNITS)
    best, chosen = None, among[0]
    for scale in sorted(among, key=gains.__contains__):
        scores = score(Scaler.fit(X, scale, supervision.row_weight).transform(sample))
        least = 0.0
        if best is not None and scale in gains:
            noise = float((scores - best).std()) / np.sqrt(len(scores))
            least = 2 * noise + gains[scale]
        if best is None or float((scores - best).mean()) > least:
            best, chosen = scores, scale
    return chosen


def _scored(X: Points, supervision: Any) -> tuple[Any, Score | None]:
    """Return which rows are looked at, and what scores them, scaled; None if nothing can."""
    kind = supervision.kind
    if kind == "triplets":
        index = _sample(supervision.given.index, _CONSTRAINTS)
        rows, place = np.unique(index, return_inverse=True)
        anchor, near, far = place.reshape(index.shape).T

        def order(Z: Floats) -> Vector:
            """Return 1 for each triplet in the right order, 1/2 for ties."""
            to_far = squared_distances(Z, anchor, far)
            return triplet_scores(to_far - squared_distances(Z, anchor, near))

        return rows, order if len(index) else None
    if kind == "pairs":
        pairs = supervision.given
        pairs = pairs.take(_sample(np.arange(len(pairs)), _CONSTRAINTS))
        similar = pairs.similar
        rows, place = np.unique(pairs.index, return_inverse=True)
        first, second = place.reshape(pairs.index.shape).T

        def farther(Z: Floats) -> Vector:
            """Return, for each similar pair, the share of dissimilar ones that are farther."""
            return 1 - misplaced(squared_distances(Z, first, second), similar)[similar]

        return rows, farther if 0 < np.count_nonzero(similar) < len(pairs) else None
    if kind == "nothing":
        return slice(None), None
    known = np.arange(len(X)) if kind == "numbers" else np.flatnonzero(supervision.codes >= 0)
    size = int(np.sqrt(_PRODUCTS / X.shape[1]))
    rows = _sample(known, max(_SMALLEST_SAMPLE, min(_LARGEST_SAMPLE, size)))
    groups = np.arange(len(rows)) if supervision.groups is None else supervision.groups[rows]
    if len(np.unique(groups)) < 2:
        return slice(None), None
    values = supervision.given[rows] if kind == "numbers" else supervision.codes[rows]
    variance = np.var(values) if kind == "numbers" else 1.0
    weight = 1.0 if supervision.row_weight is None else supervision.row_weight[rows]
    weight = weight / np.mean(weight)

    def agreement(Z: Floats) -> Vector:
        """Return how well the nearest rows of other groups agree with each row."""
        half = np.einsum("ij,ij->i", Z, Z) / 2 - Z @ Z.T
        half[groups[:, None] == groups] = np.inf
        k = min(5 if kind == "numbers" else 3, len(Z) - int(np.bincount(groups).max()))
        nearest = values[np.argpartition(half, k - 1, axis=1)[:, :k]]
        if kind == "numbers":
            return -weight * (nearest.mean(axis=1) - values) ** 2 / variance
        return weight * np.mean(nearest == values[:, None], axis=1)

    return rows, agreement


def _sample(items: Ints, size: int) -> Ints:
    """Return a sorted sample, always the same one."""
    if len(items) <= size:
        return items
    return items[np.sort(np.random.RandomState(0).choice(len(items), size, replace=False))]
