"""Drift of queries: alarms where there is none are rare, and real ones are found."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import Relevance, RetrievalAdapter
from nearfar.retrieval import query_drift


def queries(rng, n, *, shift=0.0):
    rows = rng.normal(size=(n, 8))
    rows[:, 0] += shift
    return rows


def test_queries_of_the_same_kind_rarely_alarm():
    draws = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(50, 8))
        draws.append(query_drift(queries(rng, 200), queries(rng, 100), X))
    unlike, expected = (np.mean([getattr(d, n) for d in draws]) for n in ("unlike", "expected"))
    assert abs(unlike - expected) < 0.015
    # 2 % of 60 are 1.2; more than 5 have a probability below 0.2 %.
    assert sum(drift.drifted for drift in draws) <= 5
    # p-values are uniform, or larger.
    assert np.mean([drift.p_value < 0.25 for drift in draws]) < 0.45


def test_other_queries_are_found():
    rng = np.random.default_rng(0)
    earlier, new = queries(rng, 200), queries(rng, 100, shift=4.0)
    drift = query_drift(earlier, new)
    assert drift.drifted
    assert drift.score_p_value is None
    assert "Drift: judge" in str(drift)
    assert "The median" not in str(drift)


def test_scores_fall_if_documents_no_longer_answer():
    rng = np.random.default_rng(0)
    X = np.eye(8)[:2]
    earlier, new = rng.normal(size=(200, 8)), rng.normal(size=(100, 8))
    earlier[:, :2] += 2
    new[:, 2:4] += 2
    drift = query_drift(earlier, new, X)
    cosines = [(rows @ X.T / np.linalg.norm(rows, axis=1)[:, None]) for rows in (earlier, new)]
    expected = [np.median(each.max(axis=1)) for each in cosines]
    np.testing.assert_allclose([drift.score_earlier, drift.score_new], expected)
    assert drift.drifted
    assert "The median of the best scores went from" in str(drift)


def test_scores_of_queries_that_were_learned_from_do_not_count():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8))
    Q = X[rng.integers(60, size=150)] + 0.5 * rng.normal(size=(150, 8))
    answer = np.argmax(Q @ X.T, axis=1)
    adapter = RetrievalAdapter(cv=None).fit(Q[:100], X, Relevance(np.arange(100), answer[:100]))
    drift = query_drift(Q, Q[100:], X, adapter=adapter)
    # What is left of the earlier queries are the new ones, with the same scores.
    assert drift.score_p_value == 1
    with pytest.raises(ValueError, match="all but 20 of the earlier queries"):
        query_drift(Q[:120], Q[100:], X, adapter=adapter)


def test_few_queries_are_refused():
    Q = np.random.default_rng(0).normal(size=(39, 3))
    with pytest.raises(ValueError, match="At least 40 earlier queries are needed; got 39"):
        query_drift(Q, Q)
