import numpy as np
import pytest
from scipy.optimize import approx_fprime, check_grad

from nearfar import Relevance
from nearfar.search import learning as ranking_loss
from nearfar.search.learning import Candidates, Geometry, RankingLoss, shared_pool
from references.ranking_loss import objective


@pytest.fixture
def graded():
    rng = np.random.RandomState(3)
    Q, X = rng.normal(size=(7, 4)), rng.normal(size=(30, 4))
    query, document = np.repeat(np.arange(6), 4), rng.permutation(30)[:24]
    return Q, X, Relevance(query, document, rng.randint(0, 4, size=24) + (np.arange(24) % 4 == 0))


def loss_of(graded, strength=0.7, dtype=np.float64, queries=None, pool=None):
    Q, X, relevance = graded
    queries = relevance.queries if queries is None else queries
    pool = np.arange(len(X)) if pool is None else pool
    T = Geometry.of(X).power(-0.5)
    candidates = Candidates.judged(relevance, queries, pool)
    rows = Q[queries].astype(dtype), X.astype(dtype)
    return RankingLoss(*rows, candidates, T, temperature=0.8, strength=strength)


def test_agrees_with_loops(graded):
    Q, X, relevance = graded
    loss = loss_of(graded)
    B = np.random.RandomState(0).normal(size=(4, 4))
    value, gradient = loss(B.ravel())
    arguments = (Q, X, relevance, loss.T, 0.8, 0.7)
    assert value == pytest.approx(objective(B, *arguments), rel=1e-12)
    slow = approx_fprime(B.ravel(), lambda b: objective(b.reshape(4, 4), *arguments))
    np.testing.assert_allclose(gradient, slow, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_queries", [2, 6])
def test_gradient_in_the_span_of_few_queries(graded, n_queries):
    loss = loss_of(graded, queries=graded[2].queries[:n_queries])
    assert loss.basis.shape == (4, min(4, n_queries))
    c = np.random.RandomState(1).normal(size=loss.size)
    assert check_grad(lambda v: loss(v)[0], lambda v: loss(v)[1], c) < 1e-5


def test_change_is_what_the_loss_scores(graded):
    """The loss of C is the loss at zero of queries that the change has mapped."""
    Q, X, relevance = graded
    loss = loss_of(graded, strength=0.0, queries=relevance.queries[:3])
    c = np.random.RandomState(2).normal(size=loss.size)
    mapped = loss_of((Q + Q @ loss.change(c), X, relevance), 0.0, queries=relevance.queries[:3])
    assert loss(c)[0] == pytest.approx(mapped(np.zeros(mapped.size))[0], rel=1e-12)


def test_tiles_do_not_change_the_result(graded, monkeypatch):
    c = np.random.RandomState(0).normal(size=16)
    value, gradient = loss_of(graded)(c)
    monkeypatch.setattr(ranking_loss, "_TILE_ELEMENTS", 60)
    tiled, tiled_gradient = loss_of(graded)(c)
    assert tiled == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(tiled_gradient, gradient, rtol=1e-10)


def test_own_documents_outside_the_pool_count_once(graded):
    """With all documents as own ones or in the pool, in any split, the loss is the same."""
    Q, X, relevance = graded
    whole = loss_of(graded)
    pool = np.arange(10)
    candidates = Candidates.judged(relevance, relevance.queries, pool)
    candidates = candidates.with_negatives(Q[relevance.queries], X)
    split = RankingLoss(Q[relevance.queries], X, candidates, whole.T, temperature=0.8, strength=0.7)
    c = np.random.RandomState(0).normal(size=16)
    assert split(c)[0] == pytest.approx(whole(c)[0], rel=1e-12)
    np.testing.assert_allclose(split(c)[1], whole(c)[1], rtol=1e-10)


def test_only_some_queries_have_documents_outside_the_pool(graded):
    """Each is ranked against the pool and its own documents."""
    Q, X, relevance = graded
    pool = relevance.of(relevance.queries[-1])[0]
    loss = loss_of(graded, strength=0.0, pool=pool)
    value = 0.0
    for query in relevance.queries:
        documents, grades = relevance.of(query)
        scores = Q[query] @ X.T / 0.8
        log_total = np.logaddexp.reduce(scores[np.union1d(pool, documents)])
        value += float(grades @ (log_total - scores[documents])) / grades.sum()
    assert loss(np.zeros(16))[0] == pytest.approx(value / len(relevance.queries), rel=1e-12)
    c = np.random.RandomState(1).normal(size=16)
    assert check_grad(lambda v: loss(v)[0], lambda v: loss(v)[1], c) < 1e-5


def test_float32_is_close(graded):
    c = np.random.RandomState(0).normal(size=16)
    value, gradient = loss_of(graded)(c)
    rough, rough_gradient = loss_of(graded, dtype=np.float32)(c)
    assert rough == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(rough_gradient, gradient, atol=1e-4)


def test_negatives_are_the_best_unjudged_documents(monkeypatch):
    monkeypatch.setattr(ranking_loss, "_NEGATIVES", 2)
    X = np.arange(6.0)[:, None]
    known = Candidates.judged(Relevance([0, 0], [5, 0]), np.array([0]), np.array([0, 1]))
    more = known.with_negatives(np.array([[1.0]]), X)
    assert more.document.tolist() == [0, 3, 4, 5]
    assert more.target.tolist() == [0.5, 0, 0, 0.5]
    assert [rows.tolist() for rows in more.apart] == [[0, 0, 0], [3, 4, 5]]
    np.testing.assert_array_equal(more.wanted(X), [[2.5]])


def test_pool_of_a_large_corpus_has_judged_and_random_documents():
    pool = shared_pool(Relevance([0, 1], [7, 90_000]), 100_000, np.random.RandomState(0))
    assert len(pool) == len(set(pool.tolist())) <= 2048
    assert {7, 90_000} <= set(pool.tolist())
