from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import lognorm
from sklearn.frozen import FrozenEstimator

from nearfar import Relevance, RetrievalAdapter, compare_retrieval
from nearfar.comparison import Category
from nearfar.evidence.gain import expected_gains, observe_rows
from nearfar.measures.registry import NDCG
from nearfar.metrics.points import unit_length
from nearfar.runtime.messages import collecting_notes
from nearfar.search import JudgedRanking, SearchComparison, SearchResult, search
from nearfar.search.ranking import document_weights, unseen_folds
from nearfar.typing import Array
from search.problems import topic_search


def repeated_search(n_queries=300, n_documents=1500, n_features=48, n_popular=60):
    """Two thirds of the queries are for a few documents.

    Queries for a document are apart from it, all in the same direction, but each document has
    another one: to learn where a document is asked for does not help the others.
    """
    rng = np.random.RandomState(0)
    X, apart = map(unit_length, rng.normal(size=(2, n_documents, n_features)))
    popular = rng.randint(n_popular, size=n_queries)
    others = rng.permutation(np.arange(n_popular, n_documents))[:n_queries]
    answer = np.where(rng.random_sample(n_queries) < 2 / 3, popular, others)
    noise = rng.normal(size=(n_queries, n_features)) / np.sqrt(n_features)
    Q = X[answer] + 2.5 * apart[answer] + 0.5 * noise
    return Q, X, Relevance(np.arange(n_queries), answer)


def ndcg(relevance, Q, X):
    return JudgedRanking(search(Q, X, 10, queries=relevance.queries), relevance).ndcg(10)


def scifact(folder):
    with np.load(folder / "scifact_minilm128.npz") as data:
        documents = {name: row for row, name in enumerate(data["doc_id"].tolist())}
        queries = {name: row for row, name in enumerate(data["query_id"].tolist())}
        train, test = (
            Relevance(
                [queries[q] for q, _, _ in data[split].tolist()],
                [documents[d] for _, d, _ in data[split].tolist()],
            )
            for split in ("qrels_train", "qrels_test")
        )
        return data["Q"].astype(np.float32), data["X"].astype(np.float32), train, test


def test_scifact_gains_for_seen_documents_and_keeps_the_others(data_folder: Path) -> None:
    Q, X, train, test = scifact(data_folder)
    adapter = RetrievalAdapter(score="cosine").fit(Q, X, train)
    seen = np.isin(test.queries, test.query[np.isin(test.document, np.unique(train.document))])
    before = ndcg(test, Q, X)
    after = ndcg(test, adapter.transform_queries(Q), adapter.transform_documents(X))
    assert seen.mean() == pytest.approx(0.65, abs=0.01)
    assert after[seen].mean() > before[seen].mean() + 0.15
    assert after[~seen].mean() > before[~seen].mean() - 0.01
    chosen = adapter.chosen_
    assert chosen.unseen.after >= chosen.unseen.before
    assert chosen.seen.after > chosen.seen.before + 0.15


def test_an_adapter_that_harms_unseen_documents_is_not_recommended() -> None:
    Q, X, relevance = repeated_search()
    greedy = RetrievalAdapter(score="cosine", answers="seen", strength=1e-3)
    found = compare_retrieval(Q, X, relevance, greedy, answers="all", folds=3)
    verdict = found.verdict
    assert verdict.seen.gain > 0.1
    assert verdict.unseen.high < 0
    assert verdict.after > verdict.before
    assert verdict.recommended == "untouched"
    assert not verdict.helps
    assert "documents that it has not learned from become worse" in verdict.headline
    assert "For seen documents" in str(found)
    assert found.to_dict()["verdict"]["unseen"]["n_queries"] == verdict.unseen.n_queries
    asked = compare_retrieval(Q, X, relevance, greedy, folds=3).verdict
    assert asked.recommended == "adapted"
    assert asked.helps
    chosen = RetrievalAdapter(score="cosine", strength=1e-3).fit(Q, X, relevance).chosen_
    assert chosen.unseen.after >= chosen.unseen.before or not chosen.helps
    assert "with others from" in str(chosen)


def test_unseen_documents_are_judged_where_all_repeat() -> None:
    Q, X, relevance = topic_search(n_queries=4)
    found = compare_retrieval(Q, X, relevance, folds=4)
    assert found.part("seen", "adapted").n_queries == len(Q)
    assert found.part("unseen", "adapted").n_queries == len(Q)
    assert found.part("seen", "untouched") is None
    single = Relevance(np.arange(20), np.arange(20))
    assert compare_retrieval(Q[:20], X, single).verdict.unseen is None


class Lucky:
    """Every other fit knows the answers, the others know nothing."""

    score, n_fits = "cosine", 0

    def __init__(self, center: Array) -> None:
        self.center = center

    def __sklearn_clone__(self) -> Lucky:
        return Lucky(self.center)

    def fit(self, Q: Array, X: Array, relevance: Relevance) -> Lucky:
        Lucky.n_fits += 1
        self.lucky = Lucky.n_fits % 2 == 0
        return self

    def transform_queries(self, Q: Array) -> Array:
        return Q - self.center if self.lucky else Q

    def transform_documents(self, X: Array) -> Array:
        return X


def test_intervals_allow_for_the_luck_of_one_fit() -> None:
    """The adapter in use comes from one fit, and the mean of the folds says little about it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 8))
    Q = np.repeat(X[:40], 4, axis=0) + 5.0 + 0.01 * rng.normal(size=(160, 8))
    relevance = Relevance(np.arange(160), np.arange(160) // 4)
    found = compare_retrieval(Q, X, relevance, Lucky(np.full(8, 5.0))).verdict
    assert found.seen is not None
    assert found.seen.low < 0.01
    assert found.seen.high > 0.99 * (1 - found.seen.before)
    # It helps on average, and no fit loses; the one in use may gain everything or little.
    assert found.category is Category.CLEARLY_BETTER
    assert 0 < found.low < 0.05
    assert found.high == 1 - found.before


def test_the_interval_of_an_adapter_that_is_not_fitted_again_is_that_of_the_queries() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 8))
    Q = X[:60] + rng.normal(size=(60, 8)) + 1.0
    relevance, lucky = Relevance(np.arange(60), np.arange(60)), Lucky(np.ones(8))
    lucky.lucky = True
    with collecting_notes():
        found = compare_retrieval(Q, X, relevance, FrozenEstimator(lucky), score="cosine")
    observed = observe_rows(found.difference(found["adapted"]), NDCG.gain_noise)
    loss = 1 - found.verdict.before
    expected = expected_gains([observed], loss, NDCG.spreads)[0]
    assert astuple(found.gains["adapted"]) == pytest.approx(astuple(expected))


@pytest.mark.parametrize(
    ("n_documents", "each", "least"), [(15, 1, 0.9), (60, 5, 0.5)], ids=["apart", "connected"]
)
def test_the_variance_of_fixed_adapters_is_that_of_queries_that_share_documents(
    n_documents: int, each: int, least: float
) -> None:
    """Gains of documents are drawn, and a query has the sum of its own, so that truth is known.

    Where all queries are connected, the variance may be too small, but there is not one group.
    """
    rng, n = np.random.default_rng(0), 150
    first = rng.integers(n_documents, size=n)
    document = (first[:, None] + np.arange(each)).ravel() % n_documents
    shared = document_weights(Relevance(np.repeat(np.arange(n), each), document))
    ranking = search(np.eye(n), np.eye(n), 1)

    def result(values: Array) -> SearchResult:
        return SearchResult("", ranking, {"nDCG@10": values}, shared=shared)

    untouched = result(np.zeros(n))
    found = SearchComparison([untouched], folds=None, headroom=1.0, n_documents=n_documents)
    gains = [shared.T @ rng.normal(size=n_documents) for _ in range(1000)]
    observed = [found._observed(result(values), untouched) for values in gains]
    truth = float(np.mean([each.gain**2 for each in observed]))
    variance = np.mean([each.variance for each in observed]) - 1 / n_documents**2
    assert least < variance / truth < 1.1
    assert observed[0].n == pytest.approx(1 / truth, rel=0.15)


def test_the_interval_of_a_fit_is_wider_if_folds_agree_by_chance() -> None:
    """Five folds that gain the same do not show that a fit to other queries would."""
    before = np.full(100, 0.5)
    after = before + np.tile([0.0, 0.2], 50)
    folds, ranking = np.repeat(np.arange(5), 20), search(np.eye(100), np.eye(100), 1)
    results = [
        SearchResult(name, ranking, {"nDCG@10": values}, folds=folds)
        for name, values in (("untouched", before), ("adapted", after))
    ]
    kept, fitted = (
        SearchComparison(results, folds=each, headroom=1.0, n_documents=100).gains["adapted"]
        for each in (None, folds)
    )
    assert (fitted.gain, fitted.probability) == (kept.gain, kept.probability)
    # Nadeau and Bengio: 5 (1 / 5 + 1 / 4) of the variance of a mean. Queries count as 1.25 of it.
    spread = np.sqrt(np.log(1 + (2.25 - 1.25) * 0.1**2 / 100 / kept.gain**2))
    low, high = lognorm(spread, scale=kept.gain).ppf([0.05, 0.95])
    assert fitted.low == pytest.approx(
        kept.gain - np.hypot(kept.gain - kept.low, kept.gain - low), rel=1e-9
    )
    assert fitted.high == pytest.approx(
        kept.gain + np.hypot(kept.high - kept.gain, high - kept.gain), rel=1e-9
    )


def test_folds_for_unseen_documents_share_none() -> None:
    rng = np.random.RandomState(0)
    relevance = Relevance(np.repeat(np.arange(200), 2), rng.randint(600, size=400))
    folds = unseen_folds(relevance, 5, rng, groups=np.arange(200) // 2)
    assert len(folds) == 5
    for train, test in folds:
        assert not relevance.sharing(test, train).any()
        assert not np.isin(train // 2, test // 2).any()
        assert len(train) >= (200 - len(test)) / 2
    one = Relevance(np.arange(20), np.zeros(20, dtype=int))
    assert unseen_folds(one, 5, rng) == []


def test_queries_that_an_adapter_was_learned_from_are_not_judged(tmp_path: Path) -> None:
    Q, X, relevance = topic_search(n_queries=4)
    fitted = RetrievalAdapter(score="cosine").fit(Q, X, relevance.subset(np.arange(40)))
    fitted.save(tmp_path / "adapter.safetensors")
    for adapter in (fitted, RetrievalAdapter.load(tmp_path / "adapter.safetensors")):
        frozen = FrozenEstimator(adapter)
        with pytest.raises(ValueError, match="learned from all of these queries"):
            compare_retrieval(Q, X, relevance.subset(np.arange(40)), frozen)
        with collecting_notes() as notes:
            found = compare_retrieval(Q, X, relevance, frozen)
        assert "learned from 40 of the 80 judged queries" in notes[0].text
        np.testing.assert_array_equal(found.queries, np.arange(40, 80))
        # Topics of the other queries are their own, so that no document was seen.
        assert found.verdict.seen is None
        again = Q + 0.1
        assert compare_retrieval(again, X, relevance, frozen).verdict.seen.n_queries == 40


def test_several_adapters_need_names() -> None:
    Q, X, relevance = topic_search()
    with pytest.raises(TypeError, match="Several adapters need names: give a dict"):
        compare_retrieval(Q, X, relevance, [RetrievalAdapter(), RetrievalAdapter(side="both")])
    with pytest.raises(TypeError, match="'a' is no adapter but a str"):
        compare_retrieval(Q, X, relevance, {"a": "b"})
