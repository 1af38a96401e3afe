"""Weights of the sources of a search."""

from __future__ import annotations

import math
import re
import sys

import numpy as np
import pytest

from nearfar import Relevance, SourceWeights
from nearfar.runtime.messages import collecting_notes
from nearfar.search import JudgedRanking, search
from nearfar.search.sources import JudgedScores, _minimized, read_sources

WORDS = ["wing", "flow", "heat", "shock", "plate", "jet", "lift", "drag"]


def shop(n_queries=40, n_documents=150, seed=0):
    """A search by title, text and price; pictures say nothing, and cheap documents are wanted."""
    rng = np.random.default_rng(seed)
    topics = rng.normal(size=(n_documents // 3, 6))
    topic = np.arange(n_documents) % len(topics)
    price = rng.uniform(1, 9, size=n_documents)
    documents = {
        "title": topics[topic] + 0.7 * rng.normal(size=(n_documents, 6)),
        "picture": rng.normal(size=(n_documents, 5)),
        "text": [" ".join(rng.choice(WORDS, 4)) + f" word{t % 12}" for t in topic],
        "price": price,
    }
    asked = rng.integers(len(topics), size=n_queries)
    queries = {
        "title": topics[asked] + 0.7 * rng.normal(size=(n_queries, 6)),
        "picture": rng.normal(size=(n_queries, 5)),
        "text": [" ".join([*rng.choice(WORDS, 2), f"word{t % 12}"]) for t in asked],
    }
    same = (asked[:, None] == topic) & (price < 5)
    return queries, documents, Relevance(*np.nonzero(same))


@pytest.fixture(scope="module")
def learned():
    queries, documents, relevance = shop()
    return SourceWeights().fit(queries, documents, relevance)


def test_bm25_is_that_of_lucene():
    documents = ["the cat sat on a mat", "dogs and cats", "The dog!", "cat cat cat mat"]
    queries = ["cat MAT", "unknown words", "", "the dog the"]
    found = read_sources({"text": queries}, {"text": documents}, "cosine")["text"].scores(
        np.arange(4)
    )
    words = [re.findall(r"\w\w+", text.lower()) for text in documents]
    mean = np.mean([len(each) for each in words])

    def score(query, document):
        total = 0.0
        for word in re.findall(r"\w\w+", query.lower()):
            n = sum(word in each for each in words)
            often = document.count(word)
            length = 1.2 * (0.25 + 0.75 * len(document) / mean)
            total += math.log(1 + (len(words) - n + 0.5) / (n + 0.5)) * often / (often + length)
        return total

    expected = [[score(query, document) for document in words] for query in queries]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_weights_have_the_smallest_objective():
    rng = np.random.default_rng(0)
    Z, Y = rng.normal(size=(12, 7, 3)), rng.uniform(size=(12, 7))
    Z[..., 1] -= Y  # a source that is worse than useless
    Y /= Y.sum(axis=1, keepdims=True)
    start, is_number = np.array([2.0, 2.0, 0.0]), np.array([False, False, True])
    w = _minimized(Z, Y, start, 0.05, is_number)

    def objective(w):
        loss = 0.0
        for z, y in zip(Z, Y, strict=True):
            scores = z @ w
            loss += sum(-y[j] * (scores[j] - math.log(np.exp(scores).sum())) for j in range(7))
        return loss / 12 + 0.05 / 2 * ((w / 2 - [1, 1, 0]) ** 2).sum()

    assert w[1] == 0
    for step in 1e-3 * np.vstack([np.eye(3), -np.eye(3)]):
        if (w + step)[1] >= 0:
            assert objective(w + step) > objective(w)


def test_ndcg_is_that_of_a_search():
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(80, 4)), rng.normal(size=(80, 3))
    Q, R = rng.normal(size=(20, 4)), rng.normal(size=(20, 3))
    relevance = Relevance(rng.integers(20, size=90), np.arange(90) % 80, rng.integers(3, size=90))
    sources = read_sources({"a": Q, "b": R}, {"a": X, "b": Y}, "dot")
    judged = JudgedScores.of(sources, relevance, relevance.queries)
    ranking = search(np.hstack([2 * Q, R]), np.hstack([X, Y]), 10, queries=relevance.queries)
    expected = JudgedRanking(ranking, relevance).ndcg(10)
    np.testing.assert_allclose(judged.ndcg(np.array([2.0, 1.0])), expected)


def test_a_few_queries_at_a_time_give_the_same(monkeypatch):
    queries, documents, relevance = shop()
    sources = read_sources(queries, documents, "cosine")
    whole = JudgedScores.of(sources, relevance, relevance.queries)
    monkeypatch.setattr("nearfar.search.sources._MAX_ELEMENTS", 3 * 4 * 150)
    parts = JudgedScores.of(sources, relevance, relevance.queries)
    np.testing.assert_array_equal(parts.places, whole.places)
    np.testing.assert_allclose(parts.scores, whole.scores, atol=1e-12)


def test_finds_what_helps(learned):
    assert learned.chosen_.adds["title"].verdict == "helps"
    assert learned.chosen_.adds["text"].verdict == "helps"
    assert learned.chosen_.adds["picture"].verdict != "helps"
    assert learned.weights_["price"] < 0
    assert learned.shares_["picture"] < 0.1
    assert sum(learned.shares_.values()) == pytest.approx(1)
    assert learned.chosen_.outcome == "better"
    assert "picture" in str(learned.chosen_)


def test_one_source_is_taken_alone_if_the_others_are_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    queries = {"vector": X[:60] + 0.3 * rng.normal(size=(60, 5)), "noise": rng.normal(size=(60, 3))}
    documents = {"vector": X, "noise": rng.normal(size=(300, 3))}
    weights = SourceWeights().fit(queries, documents, Relevance(range(60), range(60)))
    assert weights.shares_["noise"] < 0.05
    assert weights.chosen_.adds["vector"].verdict == "helps"
    assert weights.chosen_.over["equal weights"].low > 0


def test_free_weights_leave_equal_ones_that_are_useless():
    rng = np.random.default_rng(0)
    good = np.eye(30, 200) * 3 + rng.normal(size=(30, 200))
    bad = -2 * good + rng.normal(size=(30, 200))
    relevance = Relevance(range(30), range(30))
    judged = JudgedScores.of(
        read_sources({"good": good, "bad": bad}, {}, "dot"), relevance, relevance.queries
    )
    weights = judged.candidates()["learned weights (0.001)"] * judged.units
    assert weights[0] > 0.5
    assert weights[1] == 0


def test_units_of_scores_do_not_matter():
    queries, documents, relevance = shop()
    expected = SourceWeights().fit(queries, documents, relevance)
    queries["title"] = 50 * queries["title"]
    documents["price"] = 1e9 + 1e6 * documents["price"]
    found = SourceWeights().fit(queries, documents, relevance)
    for name, share in expected.shares_.items():
        assert found.shares_[name] == pytest.approx(share, abs=1e-3)


def test_one_vector_has_the_same_scores():
    queries, documents, relevance = shop()
    del queries["text"], documents["text"]
    weights = SourceWeights().fit(queries, documents, relevance)
    assert weights.weights_["price"] != 0
    vectors = weights.transform_queries(queries) @ weights.transform_documents(documents).T
    shift = weights.scores(queries, documents) - vectors
    np.testing.assert_allclose(shift, np.full_like(shift, shift[0, 0]), atol=1e-9)


def test_texts_cannot_be_in_a_vector(learned):
    queries, documents, _ = shop()
    with collecting_notes() as notes:
        width = learned.transform_queries(queries).shape[1]
    assert [note.text.split()[0] for note in notes] == ["Text"]
    assert learned.transform_documents(documents).shape[1] == width


def test_files(learned, tmp_path):
    queries, documents, _ = shop()
    learned.save(tmp_path / "w.safetensors")
    loaded = SourceWeights.load(tmp_path / "w.safetensors")
    assert loaded.chosen_ == learned.chosen_
    assert loaded.get_params() == learned.get_params()
    np.testing.assert_array_equal(
        loaded.scores(queries, documents), learned.scores(queries, documents)
    )
    (tmp_path / "bad.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match="not a safetensors file"):
        SourceWeights.load(tmp_path / "bad.safetensors")


class TestErrors:
    def test_sources(self):
        X, relevance = np.ones((6, 2)), Relevance(range(5), range(5))
        with pytest.raises(ValueError, match="Numbers alone"):
            SourceWeights().fit({}, {"price": range(6)}, relevance)
        with pytest.raises(ValueError, match="same queries and the same documents"):
            SourceWeights().fit({"a": X}, {"b": range(6)}, relevance)
        with pytest.raises(ValueError, match="same queries and the same documents"):
            SourceWeights().fit({"a": X, "b": X[:5]}, {"a": X, "b": X}, relevance)
        with pytest.raises(ValueError, match="same model"):
            SourceWeights().fit({"a": X}, {"a": X[:, :1]}, relevance)
        with pytest.raises(ValueError, match="missing or infinite"):
            SourceWeights().fit({"a": X}, {"a": X, "price": [1, 2, 3, 4, 5, np.nan]}, relevance)
        with pytest.raises(ValueError, match="only 6 rows"):
            SourceWeights().fit({"a": X}, {"a": X}, Relevance([0], [6]))

    def test_few_queries(self):
        X = np.eye(6)
        with pytest.raises(ValueError, match="need 4 judged queries; got 3"):
            SourceWeights().fit({"a": X}, {"a": X}, Relevance(range(3), range(3)))

    def test_without_bm25s(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "bm25s", None)
        with pytest.raises(
            ImportError, match=r'BM25 needs bm25s; run pip install "nearfar\[search\]"'
        ):
            read_sources({"text": ["a"]}, {"text": ["a"]}, "cosine")

    def test_nothing_to_index(self):
        scores = np.eye(8) + np.random.default_rng(0).uniform(size=(8, 8))
        weights = SourceWeights().fit({"engine": scores}, {}, Relevance(range(8), range(8)))
        with pytest.raises(ValueError, match="nothing to index"):
            weights.transform_documents({})


def test_relevance_from_labels():
    found = Relevance.from_labels([1, 2, 3], [2, 1, 2])
    assert list(zip(found.query, found.document, strict=True)) == [(0, 1), (1, 0), (1, 2)]


def test_the_order_of_documents_is_no_source():
    """Documents are sorted by how often they are asked for, as many tables are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8))
    asked = rng.choice(400, size=60, p=(p := 1 / np.arange(1, 401) ** 1.5) / p.sum())
    queries = {"vector": X[asked] + 1.5 * rng.normal(size=(60, 8)), "few": np.ones((60, 1))}
    documents = {"vector": X, "few": np.sign(rng.normal(size=(400, 1)))}
    chosen = SourceWeights().fit(queries, documents, Relevance(range(60), asked)).chosen_
    assert chosen.adds["vector"].verdict == "helps"
    assert chosen.adds["few"].verdict != "helps"
    queries["few"] *= 0
    with pytest.raises(ValueError, match="few gives all documents of a query the same score"):
        SourceWeights().fit(queries, documents, Relevance(range(60), asked))
