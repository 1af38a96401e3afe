"""Judgements from clicks, corrected for the positions at which documents were shown.

A document is clicked if it is looked at and relevant. With n_qdk impressions of document d for
query q at position k, c_qdk of them clicked, the numbers of clicks are about

    c_qdk ~ Poisson(n_qdk eta_k gamma_qd)

where eta_k, the examination, is 1 at the first position, and gamma_qd is the grade. Its likelihood
is maximal where both sides agree (iterative proportional fitting):

    eta_k = sum_qd c_qdk / sum_qd n_qdk gamma_qd        gamma_qd = sum_k c_qdk / sum_k n_qdk eta_k

That many documents have a gamma of their own does no harm: given all clicks of a document, their
distribution over positions does not depend on it. Positions are compared by documents that were
shown at both. Where there are none, eta_k = 1 / k is assumed, as in most studies of web search.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from nearfar.metrics.points import unit_length
from nearfar.retrieval.ranking import search
from nearfar.retrieval.readers import rows_of
from nearfar.retrieval.relevance import Relevance
from nearfar.runtime.notes import note
from nearfar.runtime.parameters import check_parameters, number
from nearfar.typing import Array, Floats, Ints, Vector

# The largest correction: a click counts at most as twenty impressions at the first position.
_LEAST_EXAMINED = 0.05
_ITERATIONS = 200
# Results that people see, and the share of clicked documents among these by the score that is to be
# adapted. In Cranfield and SciFact, which people judged, 28 and 75 % are.
_SHOWN, _CONFIRMS = 10, 0.95


def from_clicks(
    table: Any,
    *,
    query_ids: Iterable[Hashable] | None = None,
    document_ids: Iterable[Hashable] | None = None,
    smoothing: float = 1.0,
    min_clicks: float = 1,
    min_impressions: float = 1,
) -> Relevance:
    """Make judgements from how often results were shown and clicked.

    The grade of a document is clicks / (impressions + smoothing), after both are summed over the
    rows of the table for the same query and document. It is 0 for fewer than `min_clicks`. If there
    are positions, impressions count as much as their position is looked at, compared with the first
    one; a note says how that was found.

    Parameters
    ----------
    table : DataFrame or dict of columns
        With columns `query`, `document`, `clicks` and `impressions`, and if possible `position`,
        counted from 1.
    query_ids, document_ids : iterable, optional
        Ids of the rows of Q and X. By default the table has row numbers.
    smoothing : float, default=1
        Impressions without a click that each document is given in advance.
    min_clicks : float, default=1
        A document with fewer clicks is not relevant.
    min_impressions : float, default=1
        A document that was shown less often to a query is not judged.

    Examples
    --------
    >>> from nearfar.retrieval import from_clicks
    >>> log = {"query": [0, 0], "document": [4, 7], "clicks": [4, 0], "impressions": [7, 9]}
    >>> from_clicks(log).grade
    array([0.5, 0. ])
    >>> from_clicks({**log, "clicks": [4, 4], "position": [1, 2]}).grade.round(2)
    array([0.5 , 0.73])
    """
    rules = {name: number(at_least=0) for name in ("smoothing", "min_clicks", "min_impressions")}
    values = (smoothing, min_clicks, min_impressions)
    check_parameters(rules, dict(zip(rules, values, strict=True)))
    names = ("query", "document", "clicks", "impressions")
    columns: dict[str, Array] = {}
    for name in names:
        try:
            columns[name] = np.asarray(table[name])
        except Exception as error:
            raise ValueError(
                f"The table of clicks has no column {name!r}; "
                "it needs query, document, clicks and impressions."
            ) from error
    queries = rows_of(columns["query"], query_ids, "query")
    documents = rows_of(columns["document"], document_ids, "document")
    clicks, impressions = (_counts(columns[name], name) for name in names[2:])
    pairs, place = np.unique(np.column_stack([queries, documents]), axis=0, return_inverse=True)
    pair, examined = place.ravel(), impressions
    if "position" in table:
        position = _counts(np.asarray(table["position"]), "position")
        if (position < 1).any() or (position % 1 != 0).any():
            raise ValueError("The column 'position' must have whole numbers, counted from 1.")
        eta = examination(pair, position.astype(np.intp), clicks, impressions)
        examined = impressions * eta[position.astype(np.intp) - 1]
    clicks, impressions, examined = (
        np.bincount(pair, each).astype(np.float64) for each in (clicks, impressions, examined)
    )
    if (clicks > impressions).any():
        raise ValueError(
            "A document has more clicks than impressions; count at most one click per impression."
        )
    judged = impressions >= max(min_impressions, np.finfo(float).tiny)
    rate = clicks[judged] / (np.maximum(examined, clicks)[judged] + smoothing)
    grade = np.where(clicks[judged] >= min_clicks, rate, 0.0)
    return Relevance(pairs[judged, 0], pairs[judged, 1], grade)


def examination(pair: Ints, position: Ints, clicks: Vector, impressions: Vector) -> Vector:
    """Estimate how often positions are looked at, compared with the first.

    Parameters
    ----------
    pair : array of int
        Number of the query and document.
    position : array of int
        From 1.
    clicks, impressions : array

    Returns
    -------
    array of shape (n_positions,)

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.retrieval.clicks import examination
    >>> shown = np.array([100.0, 100.0])
    >>> examination(np.array([0, 0]), np.array([1, 2]), np.array([40.0, 10.0]), shown)
    array([1.  , 0.25])
    """
    last, n_pairs = int(position.max()), int(pair.max()) + 1
    clicked = np.bincount(pair, clicks)[pair] > 0
    # Positions that are joined to the first by documents with clicks that were shown at both.
    rows, columns = pair[clicked], n_pairs + position[clicked] - 1
    size = n_pairs + last
    graph = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(size, size))
    part = sparse.csgraph.connected_components(graph, directed=False)[1][n_pairs:]
    known = (part == part[0])[position - 1]
    eta = 1 / np.arange(1.0, last + 1)
    for _ in range(_ITERATIONS):
        seen = np.bincount(pair[known], (impressions * eta[position - 1])[known], n_pairs)
        gamma = np.bincount(pair[known], clicks[known], n_pairs) / np.maximum(seen, 1e-300)
        expected = np.bincount(position[known], (impressions * gamma[pair])[known], last + 1)[1:]
        found = np.bincount(position[known], clicks[known], last + 1)[1:]
        eta = np.where(expected > 0, found / np.maximum(expected, 1e-300), eta)
        eta = eta / (eta[0] if eta[0] > 0 and expected[0] > 0 else 1.0)
    estimated = (part == part[0]) & (np.bincount(position, minlength=last + 1)[1:] > 0)
    eta = np.clip(np.where(estimated, eta, 1 / np.arange(1.0, last + 1)), _LEAST_EXAMINED, 1.0)
    n = int(estimated.sum())
    how = f"estimated for {n} of {last} positions" if n > 1 else "assumed to be 1 / position"
    at = min(last, 5)
    note(
        f"clicks are corrected for positions: how often these are looked at is {how}; position "
        f"{at} counts {eta[at - 1]:.2f} of the first."
    )
    return np.asarray(eta)


def warn_if_clicks_confirm(Q: Floats, X: Floats, relevance: Relevance) -> None:
    """Say that clicks follow the score that is to be adapted, if nearly all do.

    People click what they are shown. If the documents that they clicked are those that the score
    ranks first anyway, they cannot tell what it misses.
    """
    if len(X) <= 2 * _SHOWN:
        return
    clicked = relevance.query[relevance.relevant], relevance.document[relevance.relevant]
    queries, place = np.unique(clicked[0], return_inverse=True)
    best = search(unit_length(Q), unit_length(X), _SHOWN, queries=queries).documents
    share = float((best[place] == clicked[1][:, None]).any(axis=1).mean())
    if share >= _CONFIRMS:
        note(
            f"{100 * share:.0f} % of the clicked documents are among the first {_SHOWN} by the "
            "score that is to be adapted. Such clicks can only confirm it; show some other "
            "documents, or judge queries by hand.",
            warning=True,
        )


def _counts(values: ArrayLike, name: str) -> Vector:
    try:
        counts = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The column {name!r} must have numbers.") from error
    if not (np.isfinite(counts).all() and (counts >= 0).all()):
        raise ValueError(f"The column {name!r} must have finite numbers of 0 or more.")
    return counts
