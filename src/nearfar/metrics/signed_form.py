"""`SignedForm`: a symmetric matrix with negative eigenvalues, which orders triplets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nearfar.metrics.metric import Metric
from nearfar.metrics.points import check_points, check_rows
from nearfar.metrics.threshold_votes import Votes, triplet_scores
from nearfar.numerics.edges import squared_distances
from nearfar.typing import Ints, Matrix, Vector

_ONLY_METRICS_HAVE = frozenset(
    {"L", "parts", "spaces", "transform", "distances", "pair_distances", "save", "n_components"}
    | {"get_metric"}
)


@dataclass(frozen=True, eq=False)
class SignedForm:
    """A form H(x, y) = (x - y)' M (x - y) that may be negative.

    MetricBoost learns one with ``variant="paper"``. It orders triplets, but it is not a distance
    and has no linear map.

    Parameters
    ----------
    matrix: shape (n_features, n_features). M, symmetric.
    votes: Binary weak models, which order triplets in place of H.
    """

    matrix: Matrix
    feature_names: tuple[str, ...] | None = None
    votes: Votes | None = None

    def prefers(self, X: ArrayLike, triplets: object) -> Vector:
        """Return 1 for each triplet with H(anchor, near) < H(anchor, far), 0 for >, 1/2 for =."""
        points = check_points(X, len(self.matrix), self.feature_names)
        a, near, far = check_rows(triplets, 3, len(points))
        values, vectors = np.linalg.eigh(self.matrix)
        P = points @ (np.sqrt(np.abs(values)) * vectors)
        positive, negative = P[:, values > 0], P[:, values < 0]

        def form(i: Ints, j: Ints) -> Vector:
            return squared_distances(positive, i, j) - squared_distances(negative, i, j)

        votes = None if self.votes is None else self.votes.margin(points, a, near, far)
        return triplet_scores(form(a, far) - form(a, near), votes)

    def __getattr__(self, name: str) -> Any:
        if name in _ONLY_METRICS_HAVE:
            raise AttributeError(
                f'A form learned with variant="paper" is not a metric and has no {name!r}; '
                "it can only order triplets."
            )
        raise AttributeError(name)


def as_metric(learned: object) -> Metric:
    """Return what a learner learned, or raise ValueError if it is not a metric."""
    if isinstance(learned, Metric):
        return learned
    raise ValueError(
        'The learner\'s variant="paper" learns a form that is not a metric and can only order '
        'triplets; use variant="default".'
    )
