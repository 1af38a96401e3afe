from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import sem, t
from threadpoolctl import threadpool_info

from nearfar import Relevance, RetrievalAdapter
from nearfar.search import JudgedRanking, learning, search
from nearfar.search.learning import Corpus, pair_map, trial_folds
from search.problems import topic_search


def gains_of_each_query(Q, X, relevance, folds, strength, numbers, blends):
    """By iterations and blend, the gain of each held-out query."""
    corpus = Corpus.of(Q, X, relevance, np.arange(len(X)))
    gains = {}
    for train, test in folds:
        before = JudgedRanking(search(Q, X, 10, queries=test), relevance).ndcg(10)
        for number in numbers:
            (change,) = corpus.problem(train).path(strength, [number])
            for blend in blends:
                ranking = search(Q + blend * Q @ change, X, 10, queries=test)
                after = JudgedRanking(ranking, relevance).ndcg(10)
                gains.setdefault((number, blend), []).append(after - before)
    return {candidate: np.concatenate(parts) for candidate, parts in gains.items()}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_chooses_the_largest_lower_bound(seed):
    Q, X, relevance = topic_search(n_queries=3, noise=1.0, seed=seed)
    chosen = RetrievalAdapter(max_iter=9, score="dot").fit(Q, X, relevance).chosen_
    every = relevance.queries
    folds, apart = trial_folds(relevance, 5, "all", np.random.RandomState(0))
    strength = X.shape[1] / len(every)
    candidates = strength, (0, 5, 9), (0.2, 0.4, 0.6, 0.8, 1.0)
    gains = gains_of_each_query(Q, X, relevance, folds, *candidates)
    quantile = t.ppf(0.95, len(every) - 1)
    bounds = {key: value.mean() - quantile * sem(value) for key, value in gains.items()}
    unseen = gains_of_each_query(Q, X, relevance, apart, *candidates)
    bounds = {key: bound for key, bound in bounds.items() if unseen[key].mean() >= 0}
    best = max(bounds, key=bounds.get)
    assert (chosen.n_iter, chosen.blend) == best
    assert chosen.strength == strength
    assert chosen.gain == pytest.approx(gains[best].mean())
    assert chosen.error == pytest.approx(sem(gains[best]))
    assert chosen.helps == (bounds[best] > 0)


@pytest.mark.parametrize(
    ("n_queries", "held_out"), [(4, [1] * 4), (225, [45] * 5), (500, [100] * 2), (1001, [201])]
)
def test_folds_hold_out_enough_queries(n_queries, held_out):
    queries = np.arange(0, 3 * n_queries, 3)
    relevance = Relevance(queries, np.arange(n_queries))
    folds, apart = trial_folds(relevance, 5, "all", np.random.RandomState(0))
    assert not apart
    assert [len(test) for _, test in folds] == held_out
    for train, test in folds:
        np.testing.assert_array_equal(np.union1d(train, test), queries)
        assert len(train) + len(test) == n_queries


@pytest.mark.parametrize("side", ["query", "both"])
def test_the_number_of_threads_changes_nothing(side):
    Q, X, relevance = topic_search()
    one = RetrievalAdapter(side=side, n_jobs=1).fit(Q, X, relevance)
    three = RetrievalAdapter(side=side, n_jobs=3).fit(Q, X, relevance)
    np.testing.assert_array_equal(one.W_, three.W_)
    assert one.chosen_ == three.chosen_


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_has_one_thread_while_it_chooses(monkeypatch):
    def blas_threads():
        return [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"]

    def watched(*args):
        seen.extend(blas_threads())
        return search(*args)

    seen, before = [], blas_threads()
    monkeypatch.setattr(learning, "search", watched)
    RetrievalAdapter(n_jobs=2).fit(*topic_search())
    assert set(seen) == {1}
    assert blas_threads() == before


def test_equal_queries_and_documents_have_no_differences_to_learn_from():
    X = np.random.RandomState(0).normal(size=(30, 5)) + 100
    same = Relevance(np.arange(30), np.arange(30))
    np.testing.assert_array_equal(pair_map(X, X, same), np.eye(5))


def test_pair_map_is_of_the_covariance_of_graded_differences():
    rng = np.random.RandomState(0)
    Q, X = rng.normal(size=(6, 3)), rng.normal(size=(9, 3)) + 5
    relevance = Relevance([0, 0, 2, 2, 2, 5, 5], [1, 2, 2, 3, 8, 0, 4], [1, 3, 1, 1, 2, 4, 0])
    share = np.array([0.25, 0.75, 0.25, 0.25, 0.5, 1.0, 0.0]) / 3
    apart = Q[relevance.query] - X[relevance.document]
    S = np.cov(apart.T, aweights=share, bias=True)
    S = (S * 3 / np.trace(S) + np.eye(3)) / 2
    W = pair_map(Q, X, relevance)
    np.testing.assert_allclose(W @ S @ W, np.eye(3), atol=1e-12)
