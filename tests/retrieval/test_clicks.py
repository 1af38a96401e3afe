"""Clicks with positions, against a log whose relevance and examination are known."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

from nearfar import adapt
from nearfar.retrieval import from_clicks
from nearfar.retrieval.clicks import examination
from nearfar.retrieval.search_input import read_search
from nearfar.runtime.notes import collecting_notes

ETA = np.array([1.0, 0.6, 0.4, 0.3, 0.25])


def click_log(seed, *, shuffled=True, n_queries=60, shown=200):
    """Five documents of each query, each mostly at one position; relevance is known."""
    rng = np.random.default_rng(seed)
    rows = []
    truth = rng.uniform(0.05, 0.9, size=(n_queries, 5))
    for query in range(n_queries):
        for document in range(5):
            often = rng.permutation(5)[:2] if shuffled else [document]
            for position in often:
                n = shown // len(often)
                clicks = rng.binomial(n, ETA[position] * truth[query, document])
                rows.append((query, document, position + 1, clicks, n))
    names = ("query", "document", "position", "clicks", "impressions")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True)), truth


def estimated(log):
    pair = np.unique(np.stack([log["query"], log["document"]]), axis=1, return_inverse=True)[1]
    counts = (log[name].astype(float) for name in ("clicks", "impressions"))
    return examination(pair.ravel(), log["position"], *counts)


def test_examination_is_found():
    for seed in range(5):
        np.testing.assert_allclose(estimated(click_log(seed)[0]), ETA, rtol=0.15)


def test_examination_solves_both_equations():
    log, _ = click_log(0, n_queries=8)
    eta = estimated(log)
    pair = log["query"] * 5 + log["document"]
    seen = np.bincount(pair, log["impressions"] * eta[log["position"] - 1])
    gamma = np.bincount(pair, log["clicks"]) / seen
    for k in range(1, 6):
        at = log["position"] == k
        expected = (log["impressions"] * gamma[pair] * eta[k - 1])[at].sum()
        assert log["clicks"][at].sum() == pytest.approx(expected, rel=1e-6)


def test_corrected_grades_are_nearer_to_the_truth():
    for seed in range(5):
        log, truth = click_log(seed)
        # Relevant documents were shown further down, where fewer people look.
        raw = {name: values for name, values in log.items() if name != "position"}
        order = [from_clicks(each).grade for each in (raw, log)]
        before, after = (spearmanr(grade, truth.ravel()).statistic for grade in order)
        assert after > before + 0.05
        assert np.abs(order[1] - truth.ravel()).mean() < 0.06


def test_without_common_documents_the_usual_examination_is_assumed():
    log, _ = click_log(0, shuffled=False)
    with collecting_notes() as notes:
        np.testing.assert_allclose(estimated(log), 1 / np.arange(1, 6))
    assert "assumed to be 1 / position" in notes[0].text
    with collecting_notes() as notes:
        estimated(click_log(0)[0])
    assert "estimated for 5 of 5 positions" in notes[0].text


def test_positions_without_clicks():
    log = {"query": [0, 0], "document": [1, 1], "clicks": [0, 0], "impressions": [5, 5]}
    assert from_clicks({**log, "position": [1, 3]}).grade.tolist() == [0.0]


@pytest.mark.parametrize("position", [0, 1.5, -1])
def test_positions_count_from_one(position):
    log = {"query": [0], "document": [1], "clicks": [0], "impressions": [5], "position": [position]}
    with pytest.raises(ValueError, match="position"):
        from_clicks(log)


def searches(answers):
    """Return queries, documents, and a log of one clicked document for each query."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 8))
    Q = X[:60] + 0.2 * rng.normal(size=(60, 8))
    one = np.ones(60, dtype=int)
    columns = {"query": np.arange(60), "document": answers, "clicks": one, "impressions": 2 * one}
    return (
        Q,
        X,
        pl.DataFrame(
            {k: v.astype(str) if k in ("query", "document") else v for k, v in columns.items()}
        ),
    )


@pytest.mark.parametrize(
    ("answers", "confirms"), [(np.arange(60), True), (np.arange(60, 120), False)]
)
def test_clicks_that_only_confirm_are_pointed_out(answers, confirms, tmp_path):
    Q, X, log = searches(answers)
    log.write_csv(tmp_path / "clicks.csv")
    with collecting_notes() as notes:
        data = read_search(Q, X, clicks=tmp_path / "clicks.csv")
    assert any("can only confirm it" in each.text for each in notes) == confirms
    np.testing.assert_array_equal(data.relevance.document, answers)
    adapted = adapt(Q, X, clicks=log, comparison=False, learn=False)
    np.testing.assert_array_equal(adapted.data.relevance.document, answers)


def test_one_kind_of_judgements():
    Q, X, log = searches(np.arange(60))
    with pytest.raises(ValueError, match="with one of"):
        read_search(Q, X, clicks=log, qrels="judged.qrels")
