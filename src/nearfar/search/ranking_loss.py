"""The loss of a bilinear score q' W x on judged queries, and its gradient.

With W = I + t T B T (t is the temperature), query i ranks its candidates by

    s_ij = q_i' W x_j / t,     p_ij = exp(s_ij) / sum_k exp(s_ik)

and with y_ij the share of document j in the grades of query i, sum_j y_ij = 1, the objective is

    F(B) = 1/n sum_i sum_j y_ij (-log p_ij) + strength/2 ||B||_F^2

which is convex. Its gradient weighs edges between queries and documents by S = P - Y:

    dF/dB = 1/n T Q' S X T + strength B

Y X does not change. P is sparse but for the pool of documents that queries share, which is
processed in tiles of queries, on all cores. Only the part of B in the span of the queries matters:
B = U C with U an orthonormal basis of the span of T Q', and C is what is searched for.

Candidates: each query is ranked against its judged documents, against hard negatives, and against a
pool that all queries share. The pool is the whole corpus if that is small. Otherwise it has
documents that are judged for other queries (in-batch negatives) and documents drawn at random, and
hard negatives are what the current score ranks highest among the documents that are not judged.

Units: with C the covariance of the documents and c its mean eigenvalue,

    R = C + 0.3 c I,      T = R^(-1/2)

maps the documents to rows whose coordinates are almost uncorrelated, with a variance of almost
one. A change of the score q' T B T x then has a mean square of about ||B||_F^2 over pairs of
documents, whatever the number of features and their scale. Penalising ||B||_F^2 keeps
the scores of ordinary pairs close to the untouched ones. Penalising the change of W itself would
forbid changes along directions in which vectors hardly differ, although these often tell documents
apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from nearfar.metrics.points import unit_length
from nearfar.runtime.threads import Threads
from nearfar.search.ranking import search
from nearfar.search.relevance import Relevance
from nearfar.typing import Floats, Ints, Matrix, Vector

WHOLE_CORPUS = 4096
"""If there are at most this many documents, all of them are in the pool: the loss is then exact."""
# Documents in the pool of a larger corpus. Time and memory of an iteration are in proportion.
_POOL = 2048


@dataclass(frozen=True, eq=False)
class Candidates:
    """Documents that queries are ranked against.

    Attributes
    ----------
    query, document: shape (n_edges,). The queries' own documents, sorted by query:
        positions among the queries, and row numbers of X.
    target: shape (n_edges,). Share of the document in the grades of its query, 0 if it is
        not relevant.
    pool: shape (n_pool,). Row numbers of the documents that all queries share.
    """

    n_queries: int
    query: Ints
    document: Ints
    target: Vector
    pool: Ints

    @classmethod
    def judged(cls, relevance: Relevance, queries: Ints, pool: Ints) -> Candidates:
        """Take the judged documents of some queries as their own documents."""
        queries = np.asarray(queries, dtype=np.intp)
        some = relevance.subset(queries)
        place = np.searchsorted(queries, some.query)
        total = np.bincount(place, some.grade, minlength=len(queries))
        target = some.grade / total[place]
        return cls(len(queries), place, some.document, target, np.asarray(pool, dtype=np.intp))

    @cached_property
    def start(self) -> Ints:
        """Where the documents of each query begin; one more entry than queries."""
        return np.searchsorted(self.query, np.arange(self.n_queries + 1))

    @cached_property
    def apart(self) -> tuple[Ints, Ints]:
        """Queries and documents of the edges whose document is not in the pool."""
        apart = ~np.isin(self.document, self.pool)
        return self.query[apart], self.document[apart]

    def wanted(self, X: Floats) -> Floats:
        """Return the mean of the documents of each query, weighted by their share in its grades."""
        relevant = self.target > 0
        edges = self.query[relevant], self.document[relevant]
        shares = self.target[relevant].astype(X.dtype)
        return np.asarray(sparse.csr_array((shares, edges), (self.n_queries, len(X))) @ X)

    def with_negatives(self, V: Floats, X: Floats, n_negatives: int) -> Candidates:
        """Add the documents that rank highest and are not among the queries' own.

        Parameters
        ----------
        V: shape (n_queries, n_features). Queries as the current score maps them.
        n_negatives: How many documents are added to each query, at most.
        """
        if len(self.pool) == len(X):
            return self
        own = np.diff(self.start)
        depth = min(len(X), n_negatives + int(own.max(initial=0)))
        best = search(V, X, depth).documents
        rows = np.repeat(np.arange(self.n_queries), depth)
        keys, own_keys = rows * len(X) + best.ravel(), self.query * len(X) + self.document
        new = ~np.isin(keys, own_keys).reshape(best.shape)
        new &= np.cumsum(new, axis=1) <= n_negatives
        query = np.concatenate([self.query, rows[new.ravel()]])
        document = np.concatenate([self.document, best[new]])
        target = np.concatenate([self.target, np.zeros(np.count_nonzero(new))])
        order = np.lexsort((document, query))
        return Candidates(self.n_queries, query[order], document[order], target[order], self.pool)


def shared_pool(
    relevance: Relevance, n_documents: int, random_state: np.random.RandomState
) -> Ints:
    """Choose the documents that all queries share."""
    if n_documents <= WHOLE_CORPUS:
        return np.arange(n_documents)
    judged = np.unique(relevance.document)
    judged = random_state.permutation(judged)[: _POOL // 2]
    others = random_state.choice(n_documents, _POOL, replace=False)
    return np.sort(np.concatenate([judged, others[~np.isin(others, judged)]])[:_POOL])


# In units of the mean variance: less lets directions in which documents hardly differ change most,
# more penalises changes of W itself.
_RIDGE = 0.3
# More documents hardly change a covariance, and it takes time in proportion.
_MAX_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Geometry:
    """Axes and variances of a corpus.

    Attributes
    ----------
    center: shape (n_features,). Mean of the documents.
    axes: shape (n_features, n_features). Eigenvectors of R, in columns.
    variances: shape (n_features,). Its eigenvalues.
    """

    center: Vector
    axes: Matrix
    variances: Vector

    @classmethod
    def of(cls, X: Floats) -> Geometry:
        """Measure a corpus, on at most 20,000 evenly spaced documents."""
        rows = X[:: -(-len(X) // _MAX_ROWS)].astype(np.float64)
        center = rows.mean(axis=0)
        covariance = (rows - center).T @ (rows - center) / len(rows)
        mean = float(np.trace(covariance)) / X.shape[1]
        if not mean > 0:
            raise ValueError("All documents have the same vector, so no score can tell them apart.")
        variances, axes = np.linalg.eigh(covariance)
        return cls(center, axes, np.maximum(variances, 0.0) + _RIDGE * mean)

    def power(self, exponent: float) -> Matrix:
        """Return a power of R."""
        return (self.axes * self.variances**exponent) @ self.axes.T

    @property
    def whitening(self) -> Whitening:
        """The map of rows that makes the documents rounder; see `Whitening`."""
        return Whitening(self.center, self.power(-0.25))


@dataclass(frozen=True, eq=False)
class Whitening:
    """x -> R^(-1/4) (x - center), divided by its length."""

    center: Vector
    map: Matrix

    def __call__(self, X: Floats) -> Floats:
        """Map rows."""
        center, matrix = self.center.astype(X.dtype), self.map.astype(X.dtype)
        return unit_length((X - center) @ matrix)


# Scores and coordinates that a thread holds at a time; it bounds the memory.
_TILE_ELEMENTS = 1 << 20


class RankingLoss:
    """Value and gradient of the objective; see the module's docstring.

    Parameters
    ----------
    Q: shape (n_queries, n_features). The queries to learn from.

    Attributes
    ----------
    basis: shape (n_features, rank). U.
    """

    def __init__(
        self,
        Q: Floats,
        X: Floats,
        candidates: Candidates,
        T: Matrix,
        *,
        temperature: float,
        strength: float,
    ) -> None:
        self.candidates, self.strength = candidates, strength
        self.dtype = np.result_type(Q, X)
        mapped = Q @ T
        # An orthonormal basis of the space that the queries span.
        self.basis = np.eye(len(T))
        if len(mapped) < len(T):
            self.basis = np.linalg.qr(mapped.T.astype(np.float64))[0]
        self.T, self.temperature = T, temperature
        self._coordinates = (mapped @ self.basis).astype(self.dtype)
        self._logit_queries = (Q / temperature).astype(self.dtype)
        self._pool = X if len(candidates.pool) == len(X) else X[candidates.pool]
        self._wanted = candidates.wanted(X)
        self._apart = candidates.apart
        self._X = X
        self._threads = Threads()

    @property
    def size(self) -> int:
        """Number of entries of C."""
        return int(self.basis.shape[1] * len(self.T))

    def change(self, c: Vector) -> Matrix:
        """Return the change of the score W - I that C, as a vector, stands for."""
        return self.temperature * self.T @ self.basis @ c.reshape(-1, len(self.T)) @ self.T

    def __call__(self, c: Vector) -> tuple[float, Vector]:
        """Return the objective and its gradient by C, as a vector."""
        C = c.reshape(-1, len(self.T))
        step = (C @ self.T).astype(self.dtype)
        query, document = self._apart

        def tile(rows: slice) -> tuple[float, Floats]:
            """Return the loss of some queries, summed, and their part of U' T Q' S X."""
            V = self._coordinates[rows] @ step + self._logit_queries[rows]
            table = V @ self._pool.T
            top = table.max(axis=1)
            # Documents of these queries that are not in the pool, and whose they are.
            edges = slice(*np.searchsorted(query, [rows.start, rows.stop]))
            row, documents = query[edges] - rows.start, self._X[document[edges]]
            own = np.einsum("ed,ed->e", V[row], documents)
            np.maximum.at(top, row, own)

            # The largest score of a query is subtracted, so that no exponential overflows.
            table -= top[:, None]
            np.exp(table, out=table)
            chance = np.exp(own - top[row])
            total = table.sum(axis=1) + np.bincount(row, chance, minlength=len(V))
            wanted = self._wanted[rows]
            gained = np.einsum("ij,ij->i", V, wanted).sum(dtype=np.float64)
            loss = np.sum(top + np.log(total)) - gained

            pulled = table @ self._pool
            pulled /= total[:, None]
            pulled -= wanted
            if len(row):
                weight = (chance / total[row]).astype(self.dtype)
                places, shape = (row, np.arange(len(row))), (len(V), len(row))
                pulled += sparse.csr_array((weight, places), shape) @ documents
            return float(loss), self._coordinates[rows].T @ pulled

        n, value, gradient = self.candidates.n_queries, 0.0, np.zeros(C.shape)
        # Queries whose scores and gathered documents a thread may hold, in tiles of equal size.
        held = len(self._pool) + len(query) / n * len(self.T)
        most = max(1, int(_TILE_ELEMENTS / held))
        for loss, pulled in self._threads.map(tile, n, -(-n // -(-n // most))):
            value += loss
            gradient += pulled
        value = value / n + self.strength / 2 * float(c @ c)
        return value, (gradient @ self.T / n + self.strength * C).ravel()
