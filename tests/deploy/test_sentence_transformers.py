from __future__ import annotations

import doctest

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from deploy.adapters import Adapter
from nearfar import GatedMetric, Metric
from nearfar.deploy import sentence_transformers as module
from nearfar.deploy.sentence_transformers import metric_modules

WORDS = ["near", "far", "same", "other", "red", "blue"]
TEXTS = ["near red", "far blue", "same same other"]
WIDTH = 8
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def words():
    """A real model without a network: the mean of the vectors of words."""
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="far"))
    tokenizer.pre_tokenizer = Whitespace()
    torch.manual_seed(0)
    return StaticEmbedding(tokenizer, embedding_dim=WIDTH)


@pytest.mark.parametrize("unit_rows", [False, True])
def test_a_metric_at_the_end(words, tmp_path, unit_rows):
    metric = Metric(RNG.standard_normal((3, WIDTH)), unit_rows=unit_rows)
    plain = SentenceTransformer(modules=[words], device="cpu").encode(TEXTS)
    model = SentenceTransformer(modules=[words, *metric_modules(metric)], device="cpu")
    expected = metric.transform(plain)
    np.testing.assert_allclose(model.encode(TEXTS), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.encode_query(TEXTS), expected, rtol=1e-5, atol=1e-6)
    model.save(str(tmp_path / "model"))
    again = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert again[-1].get_embedding_dimension() == 3
    np.testing.assert_array_equal(again.encode(TEXTS), model.encode(TEXTS))


def test_an_adapter(words, tmp_path):
    adapter = Adapter(WIDTH)
    plain = SentenceTransformer(modules=[words], device="cpu").encode(TEXTS)
    SentenceTransformer(modules=[words, *metric_modules(adapter)], device="cpu").save(
        str(tmp_path / "model")
    )
    model = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    queries, documents = adapter.transform_queries(plain), adapter.transform_documents(plain)
    np.testing.assert_allclose(model.encode_query(TEXTS), queries, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.encode_document(TEXTS), documents, rtol=1e-5, atol=1e-5)


def test_example():
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted


def test_what_is_not_linear():
    metric = Metric.identity(WIDTH)
    with pytest.raises(ValueError, match="several maps cannot be exported"):
        metric_modules(GatedMetric([metric, metric], np.zeros((2, WIDTH)), [0, 0]))
    with pytest.raises(TypeError, match="a metric or an adapter; got str"):
        metric_modules("metric")
