"""Wrappers of LangChain's and LlamaIndex's embeddings, around their own stand-in models."""

from __future__ import annotations

import asyncio
import importlib
import sys

import numpy as np
import pytest

from deploy.adapters import Adapter
from nearfar import GatedMetric, Metric, Relevance, RetrievalAdapter
from nearfar.deploy.linear_map import LinearMap, linear_maps

pytest.importorskip("langchain_core", reason="langchain-core is not installed")
pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")

from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.embeddings import MockEmbedding

from nearfar.deploy.langchain import MetricEmbeddings
from nearfar.deploy.llama_index import MetricEmbedding

WIDTH = 6
TEXTS = ["a red wine", "a white wine", "a stout"]
MODELS = {
    "metric": Metric(np.random.default_rng(0).standard_normal((3, WIDTH))),
    "unit rows": Metric(np.random.default_rng(0).standard_normal((3, WIDTH)), unit_rows=True),
    "adapter": Adapter(WIDTH),
}


class Letters(MockEmbedding):
    """Counts of letters, as LlamaIndex's own models are written."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(text.count(letter)) for letter in "aeiout"]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embedding(text)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


def mapped(model, X):
    """Return queries and documents as the model maps them."""
    if isinstance(model, Adapter):
        return model.transform_queries(X), model.transform_documents(X)
    return model.transform(X), model.transform(X)


def test_langchain(model):
    plain = DeterministicFakeEmbedding(size=WIDTH)
    wrapped = MetricEmbeddings(plain, model)
    assert isinstance(wrapped, Embeddings)
    queries, documents = mapped(model, np.array(plain.embed_documents(TEXTS)))
    np.testing.assert_allclose(wrapped.embed_documents(TEXTS), documents)
    np.testing.assert_allclose(asyncio.run(wrapped.aembed_documents(TEXTS)), documents)
    np.testing.assert_allclose(wrapped.embed_query(TEXTS[1]), queries[1])
    np.testing.assert_allclose(asyncio.run(wrapped.aembed_query(TEXTS[1])), queries[1])
    assert wrapped.embed_documents([]) == []


def test_llama_index(model):
    plain = Letters(embed_dim=WIDTH)
    wrapped = MetricEmbedding(plain, model, embed_batch_size=2)
    assert isinstance(wrapped, BaseEmbedding)
    queries, documents = mapped(model, np.array(plain.get_text_embedding_batch(TEXTS)))
    np.testing.assert_allclose(wrapped.get_text_embedding_batch(TEXTS), documents)
    np.testing.assert_allclose(wrapped.get_text_embedding(TEXTS[0]), documents[0])
    np.testing.assert_allclose(wrapped.get_query_embedding(TEXTS[1]), queries[1])
    found = asyncio.run(wrapped.aget_text_embedding_batch(TEXTS))
    np.testing.assert_allclose(found, documents)
    np.testing.assert_allclose(asyncio.run(wrapped.aget_query_embedding(TEXTS[1])), queries[1])
    np.testing.assert_allclose(asyncio.run(wrapped.aget_text_embedding(TEXTS[1])), documents[1])


def test_what_cannot_be_wrapped():
    metric = Metric.identity(WIDTH)
    gated = GatedMetric([metric, metric], np.zeros((2, WIDTH)), [0, 0])
    for wrap in (
        lambda model: MetricEmbeddings(DeterministicFakeEmbedding(size=WIDTH), model),
        lambda model: MetricEmbedding(Letters(embed_dim=WIDTH), model),
    ):
        with pytest.raises(ValueError, match="gated metric has several maps"):
            wrap(gated)
        with pytest.raises(TypeError, match="a metric or an adapter; got str"):
            wrap("metric")


def test_maps_of_functions():
    metric = MODELS["unit rows"]
    found = LinearMap.of_function(metric.transform, WIDTH)
    assert found.unit_rows
    np.testing.assert_allclose(found.L, metric.L)
    with pytest.raises(ValueError, match="not a linear map"):
        LinearMap.of_function(np.tanh, WIDTH)


@pytest.mark.parametrize("score", ["dot", "cosine"])
def test_a_learned_adapter(score):
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((20, WIDTH))
    X = np.repeat(topics, 5, axis=0) + rng.standard_normal((100, WIDTH))
    Q = np.repeat(topics, 2, axis=0) + 2 * rng.standard_normal((40, WIDTH)) * [0, 0, 0, 1, 1, 1]
    query, document = np.nonzero(np.arange(40)[:, None] // 2 == np.arange(100) // 5)
    adapter = RetrievalAdapter(score=score, random_state=0).fit(Q, X, Relevance(query, document))
    queries, documents = linear_maps(adapter)
    assert queries.unit_rows == documents.unit_rows == (score == "cosine")
    rows = Q / np.linalg.norm(Q, axis=1, keepdims=True) if score == "cosine" else Q
    np.testing.assert_allclose(rows @ queries.L.T + queries.b, adapter.transform_queries(Q))
    plain = DeterministicFakeEmbedding(size=WIDTH)
    found = MetricEmbeddings(plain, adapter).embed_query(TEXTS[0])
    np.testing.assert_allclose(found, adapter.transform_queries([plain.embed_query(TEXTS[0])])[0])


@pytest.mark.parametrize(
    ("package", "module", "extra"),
    [
        ("langchain_core.embeddings", "nearfar.deploy.langchain", r"nearfar\[langchain\]"),
        ("llama_index.core", "nearfar.deploy.llama_index", r"nearfar\[llama-index\]"),
    ],
)
def test_a_missing_package_is_named(monkeypatch, package, module, extra):
    for name in [name for name in sys.modules if name.startswith(package)]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ImportError, match=extra):
        importlib.import_module(module)
