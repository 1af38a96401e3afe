"""``scale="auto"``: the units in which Euclidean distance already works best.

Standardising helps tables of mixed units and ruins principal components, whose variances carry the
information; embeddings are often best compared by angle. A sample of the data tells these cases
apart: each scale is judged by how well Euclidean distance does with it.

    labels      share of rows of the same class among the three nearest, leaving out the row itself
                and its group
    chunklets   the same, among rows that are in chunklets
    numbers     minus the mean squared error of the mean of five nearest rows
    triplets    share whose near is nearer than its far
    pairs       probability that a similar pair is nearer than a dissimilar one

Angles are only taken if they are better by more than two standard errors and 0.001: unlike the
other scales, they depend on where the origin is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from nearfar.constraints import Pairs, Supervision, Triplets
from nearfar.evaluate.judgement_losses import misplaced
from nearfar.learners.scaler import Scaler
from nearfar.metrics.threshold_votes import triplet_scores
from nearfar.numerics.edges import squared_distances
from nearfar.rows import Points
from nearfar.typing import Floats, Ints, Vector

SCALES = ("unit", "standard", "cosine")
"""What "auto" chooses from; the first one wins ties."""

_CONSTRAINTS = 10_000
_PRODUCTS = 1 << 28
_LARGEST_SAMPLE = 1000
_SMALLEST_SAMPLE = 200
_SMALLEST_GAIN = 1e-3

Score = Callable[[Floats], Vector]
"""Scaled rows -> what is averaged to judge them, a number for each row or constraint."""


def choose_scale(X: Points, supervision: Supervision, among: Iterable[str] = SCALES) -> str:
    """Return the scale with which Euclidean distance does best.

    Parameters
    ----------
    X : array or Rows of shape (n_samples, n_features)
    supervision : Supervision
        Where it says too little, features are standardised.
    among : iterable of str
        Scales to choose from; the first one wins ties.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.constraints import Pairs, Supervision, Triplets
    >>> from nearfar.learners.selection.scale import choose_scale
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(100) % 2
    >>> X = np.column_stack([y + 0.1 * rng.standard_normal(100), 50 * rng.standard_normal(100)])
    >>> known = Supervision.of(y, 100)
    >>> choose_scale(X, known), choose_scale(X * [50, 0.1], known)
    ('standard', 'unit')
    """
    among = list(among)
    rows, score = _judgement(X, supervision)
    if len(among) == 1 or score is None:
        return "standard" if "standard" in among else among[0]
    sample = X[rows]
    best, chosen = None, among[0]
    for scale in among:
        found = score(Scaler.fit(X, scale).transform(sample))
        if best is None or _is_better(found - best, cautious=scale == "cosine"):
            best, chosen = found, scale
    return chosen


def _is_better(gain: Vector, *, cautious: bool) -> bool:
    if not cautious:
        return float(gain.mean()) > 0
    noise = float(gain.std()) / np.sqrt(len(gain))
    return float(gain.mean()) > 2 * noise + _SMALLEST_GAIN


def _judgement(X: Points, supervision: Any) -> tuple[Any, Score | None]:
    """Return which rows are judged, and what judges them, scaled; None if nothing can."""
    if supervision.kind == "triplets":
        return _judge_triplets(supervision.given)
    if supervision.kind == "pairs":
        return _judge_pairs(supervision.given)
    if supervision.kind == "nothing":
        return slice(None), None
    by_number = supervision.kind == "numbers"
    known = np.arange(len(X)) if by_number else np.flatnonzero(supervision.codes >= 0)
    rows = _sample(known, _sample_size(X.shape[1]))
    groups = np.arange(len(rows)) if supervision.groups is None else supervision.groups[rows]
    if len(np.unique(groups)) < 2:
        return slice(None), None
    if by_number:
        values = supervision.given[rows]
        return rows, lambda Z: -((values[_nearest(Z, 5, groups)].mean(axis=1) - values) ** 2)
    y = supervision.codes[rows]
    return rows, lambda Z: np.mean(y[_nearest(Z, 3, groups)] == y[:, None], axis=1)


def _judge_triplets(triplets: Triplets) -> tuple[Any, Score | None]:
    index = _sample(triplets.index)
    if len(index) == 0:
        return slice(None), None
    rows, place = np.unique(index, return_inverse=True)
    return rows, lambda Z: _right(Z, place.reshape(index.shape))


def _judge_pairs(pairs: Pairs) -> tuple[Any, Score | None]:
    pairs = pairs.take(_sample(np.arange(len(pairs))))
    if len(pairs) == 0 or pairs.similar.all() or not pairs.similar.any():
        return slice(None), None
    rows, place = np.unique(pairs.index, return_inverse=True)
    return rows, lambda Z: _shares_farther(Z, place.reshape(pairs.index.shape), pairs.similar)


def _sample(items: Ints, size: int = _CONSTRAINTS) -> Ints:
    """Return a sorted sample, always the same one."""
    if len(items) <= size:
        return items
    chosen = np.random.RandomState(0).choice(len(items), size, replace=False)
    return items[np.sort(chosen)]


def _sample_size(n_features: int) -> int:
    size = int(np.sqrt(_PRODUCTS / n_features))
    return max(_SMALLEST_SAMPLE, min(_LARGEST_SAMPLE, size))


def _right(Z: Floats, index: Ints) -> Vector:
    """Return 1 for each triplet in the right order, 1/2 for ties."""
    anchor, near, far = index.T
    return triplet_scores(squared_distances(Z, anchor, far) - squared_distances(Z, anchor, near))


def _shares_farther(Z: Floats, index: Ints, similar: Any) -> Vector:
    """Return, for each similar pair, the share of dissimilar ones that are farther apart."""
    return 1 - misplaced(squared_distances(Z, *index.T), similar)[similar]


def _nearest(Z: Floats, k: int, groups: Ints) -> Ints:
    """Return the nearest rows in other groups of each row, in any order."""
    half = np.einsum("ij,ij->i", Z, Z) / 2 - Z @ Z.T
    half[groups[:, None] == groups] = np.inf
    k = min(k, len(Z) - int(np.bincount(groups).max()))
    return np.argpartition(half, k - 1, axis=1)[:, :k]
