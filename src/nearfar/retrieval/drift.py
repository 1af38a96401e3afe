"""`query_drift` compares the queries of today with earlier ones.

Half of the earlier queries tell how strange a query is (`neighbors.strangeness`). A new query is
unlike them if it is stranger than 95 % of the other half (split conformal). Of n queries of the
same kind, the number of these is beta-binomial: with m queries in the other half, a new one is
stranger than its k-th strangest with a probability of Beta(k, m + 1 - k). Beside it stand the best
scores of queries, which fall if documents no longer answer them, compared by the test of Kolmogorov
and Smirnov.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import betabinom, ks_2samp

from nearfar.metrics.learned_from import row_digests
from nearfar.metrics.points import unit_length
from nearfar.neighbors.strangeness import Strangeness
from nearfar.retrieval.adapter import RetrievalAdapter
from nearfar.retrieval.ranking import search
from nearfar.retrieval.vectors import as_vectors, checked_vectors
from nearfar.typing import Floats

_LEVEL = 0.05
# 19 queries have a stranger one with 5 %; as many more tell what is strange.
_FEWEST = 40
# Of each of the two tests: at most 2 % false alarms.
_ALARM = 0.01


@dataclass(frozen=True)
class QueryDrift:
    """How far the queries of today are from earlier ones.

    Attributes
    ----------
    n_earlier, n_new : int
        Number of queries.
    unlike : float
        Share of new queries that are unlike the earlier ones.
    expected : float
        The share among queries of the same kind.
    p_value : float
        That as many are unlike by chance alone.
    score_earlier, score_new : float or None
        Medians of the best scores; None without documents.
    score_p_value : float or None
        That such scores differ by chance alone.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.retrieval import query_drift
    >>> Q = np.random.default_rng(0).normal(size=(100, 4))
    >>> query_drift(Q[:60], Q[60:]).n_new
    40
    """

    n_earlier: int
    n_new: int
    unlike: float
    expected: float
    p_value: float
    score_earlier: float | None = None
    score_new: float | None = None
    score_p_value: float | None = None

    @property
    def drifted(self) -> bool:
        """Whether more queries are unlike earlier ones than chance explains, or scores differ."""
        scores = 1.0 if self.score_p_value is None else self.score_p_value
        return min(self.p_value, scores) < _ALARM

    def __str__(self) -> str:
        text = (
            f"{100 * self.unlike:.1f} % of {self.n_new} new queries are unlike the "
            f"{self.n_earlier} earlier ones, {100 * self.expected:.1f} % by chance "
            f"(p = {self.p_value:.2g})."
        )
        if self.score_p_value is not None:
            text += (
                f" The median of the best scores went from {self.score_earlier:.3f} to "
                f"{self.score_new:.3f} (p = {self.score_p_value:.2g})."
            )
        advice = "Drift: judge some of the new queries." if self.drifted else "No drift."
        return f"{text} {advice}"


def query_drift(
    earlier: ArrayLike,
    new: ArrayLike,
    documents: ArrayLike | None = None,
    *,
    adapter: RetrievalAdapter | None = None,
) -> QueryDrift:
    """Compare the queries of today with earlier ones.

    Parameters
    ----------
    earlier, new : array-like of shape (n_queries, n_features)
        Vectors of queries, not adapted. At least 40 earlier ones are needed.
    documents : array-like of shape (n_documents, n_features), optional
        If given, the best score of each query is compared too.
    adapter : RetrievalAdapter, optional
        What scores the documents; by default cosines do. Scores of queries that it was learned from
        are too good and left out.

    Returns
    -------
    QueryDrift
        Prints as a sentence.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.retrieval import query_drift
    >>> rng = np.random.default_rng(0)
    >>> earlier, new = rng.normal(size=(200, 8)), rng.normal(size=(100, 8)) * 3
    >>> query_drift(earlier, new).drifted
    True
    >>> print(query_drift(earlier[:100], earlier[100:]))
    4.0 % of 100 new queries are unlike the 100 earlier ones, 3.9 % by chance (p = 0.46). No drift.
    """
    before, now = checked_vectors(earlier, new)
    if len(before) < _FEWEST:
        raise ValueError(f"At least {_FEWEST} earlier queries are needed; got {len(before)}.")
    order = np.random.default_rng(0).permutation(len(before))
    known, others = np.array_split(before[order], 2)
    strangeness = Strangeness(known)
    familiar = np.sort(strangeness.p_values(others))
    stranger = np.searchsorted(familiar, strangeness.p_values(now), side="right")
    share = float(((1 + stranger) / (1 + len(others)) <= _LEVEL).mean())
    limit = int(_LEVEL * (1 + len(others)))
    chance = betabinom(len(now), limit, len(others) + 1 - limit)
    p_value = float(chance.sf(round(share * len(now)) - 1))
    drift = QueryDrift(len(before), len(now), share, float(chance.mean()) / len(now), p_value)
    if documents is None:
        return drift
    X, fresh = as_vectors(documents, "documents"), before
    if adapter is not None:
        fresh = before[~np.isin(row_digests(before), adapter.learned_queries_)]
        if len(fresh) < _FEWEST:
            raise ValueError(
                f"The adapter was learned from all but {len(fresh)} of the earlier queries, and "
                f"its scores of those are too good; give at least {_FEWEST} others."
            )

    def best_scores(Q: Floats) -> Floats:
        mapped = (unit_length(Q), unit_length(X))
        if adapter is not None:
            mapped = adapter.transform_queries(Q), adapter.transform_documents(X)
        return search(*mapped, 1).scores[:, 0]

    old, today = best_scores(fresh), best_scores(now)
    return replace(
        drift,
        score_earlier=float(np.median(old)),
        score_new=float(np.median(today)),
        score_p_value=float(ks_2samp(old, today).pvalue),
    )
