"""The loss of a bilinear score q' W x on judged queries, and its gradient.

With W = I + t T B T (`geometry`; t is the temperature), query i ranks its candidates by

    s_ij = q_i' W x_j / t,     p_ij = exp(s_ij) / sum_k exp(s_ik)

and with y_ij the share of document j in the grades of query i, sum_j y_ij = 1, the objective is

    F(B) = 1/n sum_i sum_j y_ij (-log p_ij) + strength/2 ||B||_F^2

which is convex. Its gradient weighs edges between queries and documents by S = P - Y:

    dF/dB = 1/n T Q' S X T + strength B

S is sparse but for the pool of documents that queries share, which is processed in tiles of
queries. Only the part of B in the span of the queries matters: B = U C with U an orthonormal basis
of the span of T Q', and C is what is searched for.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from nearfar.retrieval.candidates import Candidates
from nearfar.typing import Floats, Matrix, Vector

_MAX_ELEMENTS = 1 << 22
"""Scores and coordinates held at a time."""


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
        self.X, self.candidates, self.strength = X, candidates, strength
        self.dtype = np.result_type(Q, X)
        mapped = Q @ T
        self.basis = _row_space(mapped)
        self.T, self.temperature = T, temperature
        self._coordinates = (mapped @ self.basis).astype(self.dtype)
        self._logit_queries = (Q / temperature).astype(self.dtype)
        self._pool = X if len(candidates.pool) == len(X) else X[candidates.pool]

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
        value, gradient = 0.0, np.zeros(C.shape)
        for rows in self._tiles():
            V = self._coordinates[rows] @ step + self._logit_queries[rows]
            loss, pulled = self._ranked(rows, V)
            value += loss
            gradient += self._coordinates[rows].T @ pulled
        n = self.candidates.n_queries
        value = value / n + self.strength / 2 * float(c @ c)
        return value, (gradient @ self.T / n + self.strength * C).ravel()

    def _tiles(self) -> list[slice]:
        """Cut the queries so that a tile's scores and gathered documents fit in memory."""
        n = self.candidates.n_queries
        own = len(self.candidates.query) / n * self.X.shape[1]
        size = max(1, int(_MAX_ELEMENTS / (len(self._pool) + own)))
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]

    def _ranked(self, rows: slice, V: Floats) -> tuple[float, Floats]:
        """Return the loss of some queries, summed, and S X for them."""
        known = self.candidates
        edges = slice(known.start[rows.start], known.start[rows.stop])
        row, target = known.query[edges] - rows.start, known.target[edges]
        documents = self.X[known.document[edges]]
        own = np.einsum("ed,ed->e", V[row], documents)
        table = V @ self._pool.T
        place = known.in_pool[edges]
        shared = place >= 0
        table[row[shared], place[shared]] = -np.inf

        top = table.max(axis=1)
        np.maximum.at(top, row, own)
        table -= top[:, None]
        np.exp(table, out=table)
        chance = np.exp(own - top[row])
        total = table.sum(axis=1) + np.bincount(row, chance, minlength=len(V))
        loss = float(np.sum(top + np.log(total))) - float(target @ own)

        weight = chance / total[row] - target
        S = sparse.csr_array((weight, (row, np.arange(len(row)))), shape=(len(V), len(row)))
        pulled = (table / total[:, None].astype(self.dtype)) @ self._pool
        return loss, pulled + S @ documents


def _row_space(rows: Floats) -> Matrix:
    """Return an orthonormal basis of the space that rows span, in columns."""
    if len(rows) >= rows.shape[1]:
        return np.eye(rows.shape[1])
    return np.linalg.qr(rows.T.astype(np.float64))[0]
