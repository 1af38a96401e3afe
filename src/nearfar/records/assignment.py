"""From pairs that may match to matches: one for each record, or groups of records of one table.

`one_to_one` chooses the pairs with the largest sum of scores such that no record is in two. Pairs
are edges of a sparse bipartite graph; every record of the left table also has an edge of weight 0
to a place of its own, so that it may remain alone.

`clusters` merges records by average linkage. If a is like b and b like c, connected components
would put a and c together however different they are. Here two clusters merge only if the mean of
the scores of all pairs between them reaches the threshold; pairs that are not listed have the
lowest score.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from nearfar.typing import Ints, Vector


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
    (i, n_left), (j, n_right) = (_numbered(side) for side in pairs[listed].T)
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
    for number, rows in enumerate(filter(None, members)):
        label[rows] = number
    return label


def _numbered(rows: Ints) -> tuple[Ints, int]:
    known, place = np.unique(rows, return_inverse=True)
    return place, len(known)
