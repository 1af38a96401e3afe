"""Triplets under a large margin: what they cost, and the search for those that cost something.

With P an embedding of the points and H_ij = |P_i - P_j|^2, a triplet (i, j, l) of an anchor, a near
and a far row costs ``max(0, 1 + H_ij - H_il)``. Labels imply far more triplets than cost anything:
j is one of the anchor's targets, l any row of another class. `Impostors` finds all triplets that
cost something, or would if the margin were a little wider, in one tiled pass over the pairs of
rows; `ListedTriplets` then gives their cost and its derivatives at the price of the list. Labels
that imply too many of them to be listed are evaluated tile by tile (`ImpliedTriplets`), so that
memory stays linear in the number of rows.

Tiles of the search are float32 products. A bound on their rounding error widens the search, so that
no triplet is missed.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from nearfar.losses.loss import HINGE
from nearfar.numerics.edges import Edges, squared_distances
from nearfar.numerics.pair_tiles import Band, Embedded, PairTiles
from nearfar.runtime.progress import check_time
from nearfar.supervision import Triplets
from nearfar.supervision.strategies import class_neighbors
from nearfar.typing import Floats, Ints, Vector

# How much wider than the margin the search is, in units of the margin.
_SLACK = 0.25
# Listed triplets for each target pair: most tables need from two to thirty, and memory stays
# linear in the number of rows.
_MOST_PER_TARGET = 32
# Triplets that are listed however few rows there are.
_ALWAYS_LISTED = 1 << 16
# Margins that the first multiple is found from: it only needs to be about right.
_SAMPLED_MARGINS = 1 << 15
_LEAST_SAMPLED_ROWS = 16
# Roundings of a distance beyond those of the k products, with room to spare.
_EXTRA_ROUNDINGS = 16


class Sample(NamedTuple):
    """Margins of triplets, in units that do not depend on how many they are.

    Attributes
    ----------
    pull: Weighted mean of the squared distances of the target pairs.
    margins: shape (n_triplets,). H_il - H_ij.
    """

    pull: float
    margins: Vector
    weight: Vector


class ListedTriplets:
    """Triplets as a list.

    Parameters
    ----------
    X: shape (n_samples, n_features). Points; only their number and type matter.
    i, j: shape (n_pairs,). Ends of pairs.
    near, far: shape (n_triplets,). The pairs that each triplet compares.
    weight: shape (n_triplets,). What each triplet's cost is multiplied by.
    """

    def __init__(self, X: Floats, i: Ints, j: Ints, near: Ints, far: Ints, weight: Vector) -> None:
        self.edges = Edges(X, i, j)
        self.near, self.far = self.edges.of_pair[near], self.edges.of_pair[far]
        self.weight = weight

    def __len__(self) -> int:
        return len(self.near)

    def margins(self, P: Floats) -> Vector:
        """H_il - H_ij of each triplet."""
        H = self.edges.squared_distances(P, dtype=P.dtype) if len(self) else np.empty(0)
        return H[self.far] - H[self.near]

    def evaluate(self, P: Floats) -> tuple[float, Floats]:
        """Return the cost, and half of its derivatives by P."""
        cost = HINGE.value(self.margins(P))
        on = np.flatnonzero(cost)
        weight, n_edges = self.weight[on], len(self.edges)
        pulled = np.bincount(self.near[on], weights=weight, minlength=n_edges)
        pushed = np.bincount(self.far[on], weights=weight, minlength=n_edges)
        half = self.edges.half_laplacian(np.subtract(pulled, pushed, dtype=np.float64))
        return float(weight @ cost[on]), half @ P + half.T @ P

    def joined(self, other: Costs) -> Costs:
        """Return these triplets; nothing is missing from a list that was given."""
        return self


class GivenTriplets:
    """Triplets that were given, with their weights.

    A target pair weighs as much as its triplets do on average: all triplets that labels imply, each
    with the same weight, are the same problem as the labels.
    """

    def __init__(self, X: Floats, triplets: Triplets) -> None:
        triplets = triplets.distinct()
        weight = np.ones(len(triplets)) if triplets.weight is None else triplets.weight
        anchor, near, far = triplets.index.T
        pairs, place = np.unique(anchor * len(X) + near, return_inverse=True)
        mean_weight = np.bincount(place, weights=weight) / np.bincount(place)
        self.anchor, self.near = np.divmod(pairs, len(X))
        self.pair_weight = mean_weight / mean_weight.sum()
        self.triplets = ListedTriplets(
            X,
            np.concatenate([anchor, anchor]),
            np.concatenate([near, far]),
            np.arange(len(anchor)),
            np.arange(len(anchor)) + len(anchor),
            weight / mean_weight.sum(),
        )

    def around(self, P: Floats) -> ListedTriplets:
        """Return all triplets."""
        return self.triplets

    def sample(self, P: Floats) -> Sample:
        """Return the margins of all triplets."""
        pull = float(self.pair_weight @ squared_distances(P, self.anchor, self.near))
        return Sample(pull, self.triplets.margins(P), self.triplets.weight)


class Impostors:
    """All triplets that labels imply for given targets.

    Parameters
    ----------
    y: shape (n_samples,). Class codes.
    targets: shape (n_samples, n_targets). Rows of the same class, -1 where there are too
        few.
    row_weight: shape (n_samples,). What pairs and triplets of each anchor weigh; by default
        all the same.

    Attributes
    ----------
    anchor, near, pair_weight: shape (n_pairs,). The target pairs and their weights, which
        sum to one.
    """

    def __init__(self, y: Ints, targets: Ints, row_weight: Vector | None = None) -> None:
        self.tiles = PairTiles(y)
        self.y, self.targets = y, targets
        self.slots = np.flatnonzero(targets.ravel() >= 0)
        self.anchor = self.slots // targets.shape[1]
        self.near = targets.ravel()[self.slots]
        self.row_weight = np.ones(len(y)) if row_weight is None else row_weight
        self.total_weight = float(self.row_weight[self.anchor].sum())
        self.pair_weight = self.row_weight[self.anchor] / self.total_weight

    @classmethod
    def nearest(
        cls, P: Floats, y: Ints, n_targets: int, row_weight: Vector | None = None
    ) -> Impostors:
        """Take the nearest rows of the same class under an embedding as targets."""
        return cls(y, class_neighbors(P, y, n_targets, 0)[0], row_weight)

    def around(self, P: Floats) -> Costs:
        """Return triplets among which are all that cost something under P."""
        keys = self.search(P, _SLACK)
        return self.implied if keys is None else LabelTriplets(self, P, keys)

    @cached_property
    def implied(self) -> ImpliedTriplets:
        """All triplets."""
        return ImpliedTriplets(self)

    @property
    def most_listed(self) -> int:
        """Number of triplets above which they are not listed."""
        return max(_ALWAYS_LISTED, _MOST_PER_TARGET * self.targets.size)

    def target_distances(self, P: Floats) -> Vector:
        """Squared distances of the targets, of shape (n_samples, n_targets); -inf for none."""
        H = np.full(self.targets.size, -np.inf)
        H[self.slots] = squared_distances(P, self.anchor, self.near)
        return H.reshape(self.targets.shape)

    def search(self, P: Floats, slack: float) -> Ints | None:
        """Find triplets whose cost would be positive if the margin were wider.

        Parameters
        ----------
        slack: How much wider the margin is.

        Returns
        -------
        keys : array of int or None
            ``(anchor * n_samples + far) * n_targets + number of the target`` of each triplet; a few
            more than asked for, because of rounding. None if there are too many.
        """
        order, n = self.tiles.order, self.tiles.n
        H = self.target_distances(P)[order]
        farthest = H.max(axis=1, initial=0.0)
        reach = farthest + 1.0 + slack
        behind = farthest[:, None] - H
        # Tiles are in float32 if a bound on their rounding errors is within the slack.
        Q = P[order]
        Q, k = Q - Q.mean(axis=0), Q.shape[1]
        largest = float(np.einsum("ij,ij->i", Q, Q, dtype=np.float64).max())
        error = (k + _EXTRA_ROUNDINGS) * (4.0 * largest + float(reach.max()))
        for dtype in (np.float32, np.float64):
            rounding = error * float(np.finfo(dtype).eps) / 2
            if rounding <= slack:
                break
        form = Embedded(Q.astype(dtype, copy=False), np.ones(k))
        n_found = 0

        def work(part: slice) -> Ints:
            nonlocal n_found
            (band,) = self.tiles.bands[part]
            if n_found > self.most_listed:
                return np.empty(0, dtype=np.intp)
            room = form.negative(band, -reach[band.rows], 0)
            for rows, columns in band.near:
                room[rows, columns] = -np.inf
            hit = np.flatnonzero(room.ravel() > -rounding)
            i, far = np.divmod(hit, n)
            inside = room.ravel()[hit, None] + rounding > behind[band.rows][i]
            pair, number = np.nonzero(inside)
            n_found += len(pair)
            anchor = order[i[pair] + band.rows.start]
            return (anchor * n + order[far[pair]]) * self.targets.shape[1] + number

        parts = []
        for part in self.tiles.threads.map(work, len(self.tiles.bands), 1):
            check_time()
            parts.append(part)
        keys = np.concatenate(parts)
        return None if len(keys) > self.most_listed else keys

    def sample(self, P: Floats) -> Sample:
        """Return the margins of all triplets of some anchors."""
        n, n_targets = self.targets.shape
        anchors = self.tiles.order[self.tiles.size_of_each > 1]
        number = max(_LEAST_SAMPLED_ROWS, _SAMPLED_MARGINS // (n * n_targets))
        rows = anchors[:: max(1, len(anchors) // number)]
        near = self.target_distances(P)[rows]
        margins, weights = [], []
        for row, targets in zip(rows, near, strict=True):
            others = P[self.y != self.y[row]] - P[row]
            far = np.einsum("ij,ij->i", others, others, dtype=np.float64)
            margins.append(np.subtract.outer(targets[targets > -np.inf], far).ravel())
            weights.append(np.full(margins[-1].size, self.row_weight[row]))
        exist = near > -np.inf
        pairs = np.broadcast_to(self.row_weight[rows, None], near.shape)[exist]
        pull = float(np.average(near[exist], weights=pairs))
        return Sample(pull, -np.concatenate(margins), np.concatenate(weights) / pairs.sum())


class LabelTriplets(ListedTriplets):
    """Some of the triplets that labels imply.

    Parameters
    ----------
    P: shape (n_samples, k). An embedding of the points; only its type matters.
    keys: See `Impostors.search`; those of a pair of rows must follow each other.
    """

    def __init__(self, impostors: Impostors, P: Floats, keys: Ints) -> None:
        n, n_targets = impostors.targets.shape
        pair, number = np.divmod(keys, n_targets)
        first = np.diff(pair, prepend=-1) != 0
        i, j = np.divmod(pair[first], n)
        slot = pair // n * n_targets + number
        used = np.zeros(n * n_targets, dtype=bool)
        used[slot] = True
        near_i = np.flatnonzero(used) // n_targets
        super().__init__(
            P,
            np.concatenate([near_i, i]),
            np.concatenate([impostors.targets.ravel()[used], j]),
            (np.cumsum(used) - 1)[slot],
            len(near_i) - 1 + np.cumsum(first),
            impostors.row_weight[pair // n] / impostors.total_weight,
        )
        self.impostors, self.P, self.keys = impostors, P, keys

    def joined(self, other: Costs) -> Costs:
        """Return these triplets and those of another embedding."""
        if not isinstance(other, LabelTriplets):
            return other
        keys = np.sort(np.concatenate([self.keys, other.keys]))
        keys = keys[np.diff(keys, prepend=-1) != 0]
        if len(keys) > self.impostors.most_listed:
            return self.impostors.implied
        return LabelTriplets(self.impostors, self.P, keys)


class ImpliedTriplets:
    """All triplets that labels imply, evaluated tile by tile and never listed."""

    def __init__(self, impostors: Impostors) -> None:
        self.impostors = impostors
        order = impostors.tiles.order
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        self.places = place[impostors.targets[order]]
        self.weight = impostors.row_weight[order]

    def evaluate(self, P: Floats) -> tuple[float, Floats]:
        """Return the cost, and half of its derivatives by P."""
        tiles = self.impostors.tiles
        reach = 1.0 + self.impostors.target_distances(P)[tiles.order]
        Q = P[tiles.order] - P.mean(axis=0)
        form = Embedded(Q, np.ones(Q.shape[1]))
        cost = np.zeros(tiles.n)

        def weights_of(band: Band) -> Floats:
            negative = form.negative(band, 0.0, 0)
            for rows, columns in band.near:
                negative[rows, columns] = -np.inf
            weights = np.zeros_like(negative)
            inside = np.arange(band.height)
            for number in range(reach.shape[1]):
                limit = reach[band.rows, number]
                on = negative > -limit[:, None].astype(negative.dtype)
                count = on.sum(axis=1)
                weights -= on
                near = negative.sum(axis=1, where=on, dtype=np.float64)
                cost[band.rows] += np.where(count > 0, count * limit + near, 0.0)
                weights[inside, self.places[band.rows, number]] += count
            weights *= self.weight[band.rows, None].astype(weights.dtype)
            return weights

        half = np.empty_like(Q)
        half[tiles.order] = tiles.laplacian(weights_of, Q)
        total = self.impostors.total_weight
        return float((self.weight * cost).sum()) / total, half / total

    def joined(self, other: Costs) -> Costs:
        """Return these triplets, which are all there are."""
        return self


Costs = ListedTriplets | ImpliedTriplets
"""Triplets whose cost can be evaluated at embeddings of the points."""

Source = GivenTriplets | Impostors
"""Where triplets come from: target pairs `anchor` and `near`, and weights that sum to one."""
