"""How good a metric is: neighbours, retrieval, triplets, verification, on data with known answers.

Every measure embeds the rows once, z = L x, and uses Euclidean distances there. All are shares in
[0, 1]; errors (`eer` and the functions named so) are better when smaller, all others when larger.

*Retrieval.* Each query (`X_query`, `y_query`) ranks a gallery (`X`, `y`), nearest first. A row is
relevant to a query, rel = 1, if it has the query's class. With rel_i the relevance of the i-th
nearest row and R the number of relevant rows in the gallery:

    precision at k         1/k sum_{i<=k} rel_i
    recall at k, "any"     1 if some rel_i = 1 with i <= k, else 0   (the habit of metric learning)
    recall at k, "share"   1/R sum_{i<=k} rel_i                      (information retrieval)
    MAP@R                  1/R sum_{i<=R} rel_i (precision at i)     (Musgrave et al. 2020)
    NDCG at k              DCG / (largest DCG of any ranking),  DCG = sum_{i<=k} rel_i / log2(i + 1)

The mean over queries is returned. A query without a relevant row has no answer to find and is left
out of it. Without `X_query`, every row of X queries all the *other* rows: it is excluded by row
number, so that a duplicate of it stays in its gallery. Equal distances are ranked in no particular
order.

*Verification.* A pair is declared "same" if its distance is at most a threshold. The true positive
rate is the share of similar pairs declared same, the false positive rate that of dissimilar pairs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.metrics import auc, roc_curve
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from nearfar.metric import Metric
from nearfar.supervision import Pairs, Triplets

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.intp]
Score = Callable[[Ints, Ints], NDArray[Any]]

_TILE_ELEMENTS = 1 << 23
_SHALLOW = 100


def knn_error(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike,
    y_test: ArrayLike,
    *,
    n_neighbors: int = 3,
) -> float:
    """Share of test rows that the vote of their nearest neighbours in X gets wrong.

    A tied vote goes to the class that sorts first.

    Examples
    --------
    >>> from nearfar import Metric, evaluate
    >>> X, y = [[0.0], [1.0], [5.0], [6.0]], ["low", "low", "high", "high"]
    >>> X_test, y_test = [[0.4], [2.0]], ["low", "high"]
    >>> evaluate.knn_error(Metric.identity(1), X, y, X_test, y_test, n_neighbors=1)
    0.5
    """
    search, labels = _labelled(metric, X, y, X_test, y_test)
    return _vote_error(search, labels, n_neighbors)


def leave_one_out_error(
    metric: Metric, X: ArrayLike, y: ArrayLike, *, n_neighbors: int = 3
) -> float:
    """Share of rows that the vote of their nearest neighbours among all other rows gets wrong.

    An honest estimate only if the metric was not learned from X. A tied vote goes to the class that
    sorts first.

    Examples
    --------
    >>> from nearfar import Metric, evaluate
    >>> X, y = [[0.0], [1.0], [3.0], [7.0]], [0, 0, 1, 1]
    >>> evaluate.leave_one_out_error(Metric.identity(1), X, y, n_neighbors=1)
    0.25
    """
    search, labels = _labelled(metric, X, y, None, None)
    return _vote_error(search, labels, n_neighbors)


def triplet_accuracy(metric: Metric, X: ArrayLike, triplets: Triplets) -> float:
    """Weighted share of triplets with d(anchor, near) < d(anchor, far); an exact tie counts half.

    Examples
    --------
    >>> from nearfar import Metric, Triplets, evaluate
    >>> triplets = Triplets([[0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1]])
    >>> evaluate.triplet_accuracy(Metric.identity(1), [[0.0], [1.0], [3.0]], triplets)
    0.75
    """
    index, weight = triplets.index, triplets.weight
    triplets.check(np.shape(X)[0])
    if len(index) == 0 or (weight is not None and not np.sum(weight) > 0):
        raise ValueError("A triplet accuracy needs at least one triplet of positive weight.")
    edges = np.concatenate([index[:, [0, 1]], index[:, [0, 2]]])
    near, far = np.split(metric.pair_distances(X, edges), 2)
    return float(np.average((near < far) + 0.5 * (near == far), weights=weight))


def precision_at_k(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike,
    *,
    k: int,
    X_query: ArrayLike | None = None,
    y_query: ArrayLike | None = None,
) -> float:
    """Mean share of the query's class among its k nearest rows.

    A class with fewer than k rows keeps it below 1.

    Parameters
    ----------
    metric : Metric
        The metric to judge.
    X, y : array-likes of shape (n_samples, n_features) and (n_samples,)
        The gallery and its classes.
    k : int
        Length of the ranking, at most the size of the gallery.
    X_query, y_query : array-likes of shape (n_query, n_features) and (n_query,), optional
        The queries and their classes; by default every row of X against all others.

    Examples
    --------
    >>> from nearfar import Metric, evaluate
    >>> X, y = [[0.0], [1.0], [3.0], [7.0]], [0, 0, 1, 1]
    >>> evaluate.precision_at_k(Metric.identity(1), X, y, k=1)
    0.75
    """
    search, labels = _labelled(metric, X, y, X_query, y_query)
    depth = _check_depth(k, search, "k")
    return _mean_score(
        search, labels.relevant, depth, lambda rows, found: labels.hits(rows, found).mean(axis=1)
    )


def recall_at_k(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike,
    *,
    k: int,
    kind: Literal["any", "share"] = "any",
    X_query: ArrayLike | None = None,
    y_query: ArrayLike | None = None,
) -> float:
    """Mean of what the k nearest rows recall of the query's class.

    Parameters
    ----------
    metric, X, y, k, X_query, y_query
        As in `precision_at_k`.
    kind : {"any", "share"}
        "any": the share of queries with at least one relevant row among the first k; papers on
        metric learning call this recall@k. "share": the mean share of a query's relevant rows that
        are among the first k, the recall of information retrieval.

    Examples
    --------
    >>> from nearfar import Metric, evaluate
    >>> X, y = [[0.0], [1.0], [3.0], [7.0]], [0, 0, 1, 0]
    >>> evaluate.recall_at_k(Metric.identity(1), X, y, k=2, X_query=[[6.0]], y_query=[0])
    1.0
    >>> evaluate.recall_at_k(Metric.identity(1), X, y, k=1, kind="share")
    0.3333333333333333
    """
    if kind not in ("any", "share"):
        raise ValueError(f"kind must be 'any' or 'share'; got {kind!r}.")
    search, labels = _labelled(metric, X, y, X_query, y_query)
    depth = _check_depth(k, search, "k")

    def recall(rows: Ints, found: Ints) -> NDArray[Any]:
        count: Ints = labels.hits(rows, found).sum(axis=1)
        return count > 0 if kind == "any" else count / labels.relevant[rows]

    return _mean_score(search, labels.relevant, depth, recall)


def map_at_r(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike,
    *,
    X_query: ArrayLike | None = None,
    y_query: ArrayLike | None = None,
) -> float:
    """Mean average precision of the first R rows, R the number of rows relevant to the query.

    It is 1 only if each query ranks its whole class first (K. Musgrave, S. Belongie, S.-N. Lim: A
    metric learning reality check, ECCV 2020). Arguments as in `precision_at_k`.

    Examples
    --------
    >>> from nearfar import Metric, evaluate
    >>> X, y = [[0.0], [1.0], [3.0], [7.0]], [0, 1, 0, 1]
    >>> evaluate.map_at_r(Metric.identity(1), X, y, X_query=[[0.4]], y_query=[0])
    0.5
    """
    search, labels = _labelled(metric, X, y, X_query, y_query)

    def average_precision(rows: Ints, found: Ints) -> Floats:
        rank = np.arange(1, found.shape[1] + 1)
        R = labels.relevant[rows]
        hits = labels.hits(rows, found) & (rank <= R[:, None])
        precision = np.cumsum(hits, axis=1) / rank
        total: Floats = np.sum(precision, axis=1, where=hits)
        return total / R

    return _mean_score(search, labels.relevant, labels.relevant, average_precision)


def ndcg(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    k: int | None = None,
    X_query: ArrayLike | None = None,
    y_query: ArrayLike | None = None,
    relevance: Any = None,
) -> float:
    """Mean normalised discounted cumulative gain of the first k rows (default: the whole gallery).

    Parameters
    ----------
    metric, X, y, k, X_query, y_query
        As in `precision_at_k`.
    relevance : array or sparse matrix of shape (n_query, n_samples), optional
        Graded relevance in place of classes: gains >= 0, taken as they are (not 2^rel - 1). Without
        `X_query` the diagonal is ignored.

    Examples
    --------
    >>> from nearfar import Metric, evaluate
    >>> X, query = [[0.0], [1.0], [3.0], [7.0]], [[0.4]]
    >>> evaluate.ndcg(Metric.identity(1), X, [1, 0, 1, 1], X_query=query, y_query=[0])
    0.6309297535714575
    >>> evaluate.ndcg(Metric.identity(1), X, k=3, X_query=query, relevance=[[3, 2, 1, 0]])
    1.0
    """
    if y is not None and relevance is None:
        search, labels = _labelled(metric, X, y, X_query, y_query)
        discount = _discount(k, search)
        gain, ideal = _binary_gain(labels, discount)
    elif y is None and y_query is None and relevance is not None:
        search = _Search.of(metric, X, X_query)
        discount = _discount(k, search)
        gain, ideal = _graded_gain(relevance, search, discount)
    else:
        raise ValueError("ndcg needs either y (with y_query, if X_query is given) or relevance.")
    return _mean_score(
        search, ideal, len(discount), lambda rows, found: gain(rows, found) @ discount / ideal[rows]
    )


def neighbor_accuracy_curve(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike,
    *,
    max_k: int,
    X_query: ArrayLike | None = None,
    y_query: ArrayLike | None = None,
) -> Floats:
    """Share of queries whose k-th nearest row has the query's class, for k = 1 .. max_k.

    The curve of the DRMetric paper (section 4): the k-th neighbour *alone* answers for the query,
    not a vote of k. As in a classification accuracy all queries count, also those without a
    relevant row; if there are none of these, the mean of the first k values is the precision at k.
    Entry k - 1 belongs to the k-th neighbour. Other arguments as in `precision_at_k`.

    Examples
    --------
    >>> from nearfar import Metric, evaluate
    >>> X, y = [[0.0], [1.0], [3.0], [7.0]], [0, 0, 1, 1]
    >>> evaluate.neighbor_accuracy_curve(Metric.identity(1), X, y, max_k=2)
    array([0.75, 0.  ])
    """
    search, labels = _labelled(metric, X, y, X_query, y_query)
    depth = np.full(len(search.queries), _check_depth(max_k, search, "max_k"))
    count = np.zeros(max_k)
    for rows, found in search.ranked(depth):
        count += labels.hits(rows, found).sum(axis=0)
    return count / len(depth)


@dataclass(frozen=True, eq=False)
class RocCurve:
    """Rates of the rule "same if the distance is at most the threshold".

    The rates never fall and go from (0, 0) to (1, 1); the thresholds are -inf (no pair is the same)
    and then every distance that occurs, rising.
    """

    false_positive_rate: Floats
    true_positive_rate: Floats
    thresholds: Floats


@dataclass(frozen=True)
class Verification:
    """What a metric achieves in telling similar from dissimilar pairs by a threshold.

    Attributes
    ----------
    auc : float
        Area under the ROC curve: the chance that a similar pair is nearer than a dissimilar one.
    eer : float
        Equal error rate: false positives = false negatives, by linear interpolation on the curve.
    eer_threshold : float
        The distance, among those that occur, at which the two error rates are closest.
    accuracy : float
        Largest share of pairs declared rightly by any threshold.
    accuracy_threshold : float
        The smallest threshold with that accuracy; -inf if declaring no pair the same is best.
    """

    auc: float
    eer: float
    eer_threshold: float
    accuracy: float
    accuracy_threshold: float


def verification_curve(metric: Metric, X: ArrayLike, pairs: Pairs) -> RocCurve:
    """Receiver operating characteristic of "same if near" over all thresholds, weights respected.

    Examples
    --------
    >>> from nearfar import Metric, Pairs, evaluate
    >>> pairs = Pairs([[0, 1], [1, 2], [0, 2]], [True, False, False])
    >>> curve = evaluate.verification_curve(Metric.identity(1), [[0.0], [1.0], [3.0]], pairs)
    >>> curve.thresholds, curve.false_positive_rate
    (array([-inf,   1.,   2.,   3.]), array([0. , 0. , 0.5, 1. ]))
    """
    pairs.check(np.shape(X)[0])
    _class_weights(pairs)
    distances = metric.pair_distances(X, pairs.index)
    false_positive, true_positive, nearness = roc_curve(
        pairs.similar, -distances, sample_weight=pairs.weight, drop_intermediate=False
    )
    return RocCurve(false_positive, true_positive, -nearness)


def verification(metric: Metric, X: ArrayLike, pairs: Pairs) -> Verification:
    """Area under the ROC curve, equal error rate and best accuracy, weights respected.

    The thresholds are chosen on the pairs given, which makes `accuracy` slightly optimistic: fix
    the threshold on other pairs for an honest one.

    Examples
    --------
    >>> from nearfar import Metric, Pairs, evaluate
    >>> pairs = Pairs([[0, 1], [1, 2], [0, 2]], [True, False, False])
    >>> result = evaluate.verification(Metric.identity(1), [[0.0], [1.0], [3.0]], pairs)
    >>> result.auc, result.eer, result.accuracy, result.accuracy_threshold
    (1.0, 0.0, 1.0, 1.0)
    """
    curve = verification_curve(metric, X, pairs)
    fpr, tpr = curve.false_positive_rate, curve.true_positive_rate
    excess = fpr + tpr - 1.0
    equal = 1 + np.argmin(np.abs(excess[1:]))
    similar, dissimilar = _class_weights(pairs)
    accuracy = (similar * tpr + dissimilar * (1.0 - fpr)) / (similar + dissimilar)
    best = np.argmax(accuracy)
    return Verification(
        auc=float(auc(fpr, tpr)),
        eer=float(np.interp(0.0, excess, fpr)),
        eer_threshold=float(curve.thresholds[equal]),
        accuracy=float(accuracy[best]),
        accuracy_threshold=float(curve.thresholds[best]),
    )


@dataclass(frozen=True, eq=False)
class _Search:
    """Embedded gallery and queries; `own` if query q is gallery row q and must not find itself."""

    gallery: Floats
    queries: Floats
    own: bool

    @classmethod
    def of(cls, metric: Metric, X: ArrayLike, X_query: ArrayLike | None) -> _Search:
        gallery = metric.transform(X)
        queries = gallery if X_query is None else metric.transform(X_query)
        if len(gallery) == 0 or len(queries) == 0:
            raise ValueError(
                f"Got {len(queries)} queries against a gallery of {len(gallery)} rows."
            )
        # Distances come from inner products below: the smaller the norms, the less cancels.
        center = gallery.mean(axis=0)
        gallery, queries = np.ascontiguousarray(gallery - center), queries - center
        return cls(gallery, queries, own=X_query is None)

    @property
    def n_candidates(self) -> int:
        """Number of rows that a query can find."""
        return len(self.gallery) - self.own

    def ranked(self, depth: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield chunks (queries, their nearest gallery rows in order), deepest rankings first.

        A chunk is as deep as its deepest query; queries of depth 0 are passed over.
        """
        index = NearestNeighbors(algorithm="brute").fit(self.gallery)
        order = np.argsort(-depth, kind="stable")[: np.count_nonzero(depth)]
        start = 0
        while start < len(order):
            deepest = int(depth[order[start]])
            # scikit-learn's heaps win while few rows of many are wanted, a partition afterwards.
            shallow = deepest * _SHALLOW < len(self.gallery)
            width = deepest + self.own if shallow else len(self.gallery)
            rows = order[start : start + max(1, _TILE_ELEMENTS // width)]
            start += len(rows)
            if shallow:
                found = index.kneighbors(self.queries[rows], width, return_distance=False)
                yield rows, _without_self(found, rows) if self.own else found
            else:
                yield rows, self._partitioned(rows, deepest)

    def _partitioned(self, rows: Ints, depth: int) -> Ints:
        tile = euclidean_distances(self.queries[rows], self.gallery, squared=True)
        if self.own:
            tile[np.arange(len(rows)), rows] = np.inf
        if 2 * depth > tile.shape[1]:
            return np.argsort(tile, axis=1)[:, :depth]
        found = np.argpartition(tile, depth - 1, axis=1)[:, :depth]
        order = np.argsort(np.take_along_axis(tile, found, axis=1), axis=1)
        return np.take_along_axis(found, order, axis=1)


def _without_self(found: Ints, rows: Ints) -> Ints:
    """Drop each query's own row; the last one where duplicates have crowded it out."""
    keep = found != rows[:, None]
    keep[keep.all(axis=1), -1] = False
    others: Ints = found[keep]
    return others.reshape(len(rows), -1)


@dataclass(frozen=True, eq=False)
class _Labels:
    """Class codes of gallery and queries, and the number of rows relevant to each query."""

    y: Ints
    y_query: Ints
    relevant: Ints

    def hits(self, rows: Ints, found: Ints) -> NDArray[np.bool_]:
        same: NDArray[np.bool_] = self.y[found] == self.y_query[rows, None]
        return same


def _labelled(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike,
    X_query: ArrayLike | None,
    y_query: ArrayLike | None,
) -> tuple[_Search, _Labels]:
    if (X_query is None) != (y_query is None):
        raise ValueError("Queries need both their rows and their classes; got only one of them.")
    search = _Search.of(metric, X, X_query)
    classes = _label_array(y, len(search.gallery), "gallery")
    if y_query is None:
        _, codes = np.unique(classes, return_inverse=True)
        return search, _Labels(codes, codes, np.bincount(codes)[codes] - 1)
    query_classes = _label_array(y_query, len(search.queries), "query")
    _, codes = np.unique(np.concatenate([classes, query_classes]), return_inverse=True)
    codes, query_codes = np.split(codes, [len(classes)])
    sizes = np.bincount(codes, minlength=query_codes.max(initial=0) + 1)
    return search, _Labels(codes, query_codes, sizes[query_codes])


def _label_array(y: ArrayLike, n_rows: int, name: str) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise ValueError(f"The {n_rows} {name} rows need one class each; got shape {labels.shape}.")
    return labels


def _check_depth(k: int, search: _Search, name: str) -> int:
    size = search.n_candidates
    if not 1 <= k <= size:
        of = "rows other than the query" if search.own else "rows"
        raise ValueError(
            f"{name} must be from 1 to {size}, as the gallery has {size} {of}; got {k}."
        )
    return operator.index(k)


def _vote_error(search: _Search, labels: _Labels, n_neighbors: int) -> float:
    votes = _check_depth(n_neighbors, search, "n_neighbors")
    voters = KNeighborsClassifier(votes, algorithm="brute").fit(search.gallery, labels.y)
    predicted = voters.predict(None if search.own else search.queries)
    return float(np.mean(predicted != labels.y_query))


def _mean_score(search: _Search, worth: Ints | Floats, depth: Ints | int, score: Score) -> float:
    """Mean of score(queries, ranked rows) over the queries of positive worth."""
    counted = worth > 0
    if not counted.any():
        raise ValueError("No query has a relevant row in the gallery: there is nothing to score.")
    total = sum(score(*chunk).sum() for chunk in search.ranked(np.where(counted, depth, 0)))
    return float(total / np.count_nonzero(counted))


def _discount(k: int | None, search: _Search) -> Floats:
    depth = search.n_candidates if k is None else _check_depth(k, search, "k")
    return 1.0 / np.log2(np.arange(2, depth + 2))


def _binary_gain(labels: _Labels, discount: Floats) -> tuple[Score, Floats]:
    """Gain of having the query's class, and the largest DCG of each query."""
    largest = np.concatenate([[0.0], np.cumsum(discount)])
    ideal = largest[np.minimum(labels.relevant, len(discount))]
    return labels.hits, ideal


def _graded_gain(relevance: Any, search: _Search, discount: Floats) -> tuple[Score, Floats]:
    """Gain read from a relevance table, and the largest DCG of each query."""
    table = sparse.coo_array(relevance)
    shape = len(search.queries), len(search.gallery)
    if table.shape != shape:
        raise ValueError(
            f"relevance must have shape {shape} (queries, gallery); got {table.shape}."
        )
    if not np.all((table.data >= 0) & np.isfinite(table.data)):
        raise ValueError("relevance must be finite and not negative.")
    keep = (table.row != table.col) | (not search.own)
    entries = table.data[keep].astype(np.float64), (table.row[keep], table.col[keep])
    gains: Any = sparse.csr_array(entries, shape=shape)
    query = np.repeat(np.arange(shape[0]), np.diff(gains.indptr))
    rank = np.arange(gains.nnz) - gains.indptr[query]
    best_first = gains.data[np.lexsort((-gains.data, query))]
    top = rank < len(discount)
    weights = best_first[top] * discount[rank[top]]
    ideal = np.bincount(query[top], weights=weights, minlength=shape[0]).astype(np.float64)
    return lambda rows, found: gains[rows[:, None], found].toarray(), ideal


def _class_weights(pairs: Pairs) -> tuple[float, float]:
    """Total weight of the similar and of the dissimilar pairs."""
    weight = np.ones(len(pairs.index)) if pairs.weight is None else pairs.weight
    similar = float(np.sum(weight[pairs.similar]))
    dissimilar = float(np.sum(weight[~pairs.similar]))
    if similar <= 0 or dissimilar <= 0:
        raise ValueError(
            "Verification needs similar and dissimilar pairs of positive weight; "
            f"got a total weight of {similar:g} and {dissimilar:g}."
        )
    return similar, dissimilar
