"""The loss of a bilinear score q' W x on judged queries, and its gradient.

With W = I + t T B T (`geometry`; t is the temperature), query i ranks its candidates by

    s_ij = q_i' W x_j / t,     p_ij = exp(s_ij) / sum_k exp(s_ik)

and with y_ij the share of document j in the grades of query i, sum_j y_ij = 1, the objective is

    F(B) = 1/n sum_i sum_j y_ij (-log p_ij) + strength/2 ||B||_F^2

which is convex. Its gradient weighs edges between queries and documents by S = P - Y:

    dF/dB = 1/n T Q' S X T + strength B

Y X does not change. P is sparse but for the pool of documents that queries share, which is
processed in tiles of queries, on all cores. Only the part of B in the span of the queries matters:
B = U C with U an orthonormal basis of the span of T Q', and C is what is searched for.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from nearfar.retrieval.candidates import Candidates
from nearfar.runtime.threads import Threads
from nearfar.typing import Floats, Matrix, Vector

# Scores and coordinates that a thread holds at a time; it bounds the memory.
_TILE_ELEMENTS = 1 << 20


class RankingLoss:
    """Value and gradient of the objective; see the module's docstring.

    Parameters
    ----------
    Q : array of shape (n_queries, n_features)
        The queries to learn from.
    X : array of shape (n_documents, n_features)
    candidates : Candidates
    T : array of shape (n_features, n_features)
    temperature : float
    strength : float

    Attributes
    ----------
    basis : array of shape (n_features, rank)
        U.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance
    >>> from nearfar.retrieval.candidates import Candidates
    >>> from nearfar.retrieval.ranking_loss import RankingLoss
    >>> candidates = Candidates.judged(Relevance([0], [1]), [0], range(2))
    >>> I = np.eye(2)
    >>> loss = RankingLoss(I[:1], I, candidates, I, temperature=1.0, strength=1.0)
    >>> value, gradient = loss(np.zeros(loss.size))
    >>> round(value, 3)
    1.313
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
