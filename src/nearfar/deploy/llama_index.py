"""A metric or adapter behind LlamaIndex's interface of embeddings."""

from __future__ import annotations

from typing import Any

from nearfar.deploy.linear_map import MappedVectors

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from pydantic import PrivateAttr
except ImportError as error:
    raise ImportError(
        'MetricEmbedding needs llama-index-core; run pip install "nearfar[llama-index]".'
    ) from error


class MetricEmbedding(BaseEmbedding):
    """Embeddings of another model, mapped so that Euclidean distance is the metric.

    Parameters
    ----------
    embed_model : llama_index.core.base.embeddings.base.BaseEmbedding
        The model that embeds texts.
    model : Metric or adapter
        What maps its vectors. An adapter has `transform_queries` and `transform_documents`.
    **options
        Fields of `BaseEmbedding`, such as `embed_batch_size` (default: those of `embed_model`).

    Examples
    --------
    >>> from llama_index.core.embeddings import MockEmbedding
    >>> from nearfar import Metric
    >>> from nearfar.deploy.llama_index import MetricEmbedding
    >>> embedding = MetricEmbedding(MockEmbedding(embed_dim=3), Metric([[1.0, 1.0, 1.0]]))
    >>> embedding.get_query_embedding("a text")
    [1.5]
    """

    _embed_model: BaseEmbedding = PrivateAttr()
    _mapped: MappedVectors = PrivateAttr()

    def __init__(self, embed_model: BaseEmbedding, model: object, **options: Any) -> None:
        mapped = MappedVectors(model)
        options.setdefault("model_name", embed_model.model_name)
        options.setdefault("embed_batch_size", embed_model.embed_batch_size)
        super().__init__(**options)
        self._embed_model, self._mapped = embed_model, mapped

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class, as LlamaIndex wants it."""
        return "MetricEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._mapped.query(self._embed_model.get_query_embedding(query))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._mapped.query(await self._embed_model.aget_query_embedding(query))

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._mapped.documents([self._embed_model.get_text_embedding(text)])[0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return self._mapped.documents([await self._embed_model.aget_text_embedding(text)])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._mapped.documents(self._embed_model.get_text_embedding_batch(texts))

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._mapped.documents(await self._embed_model.aget_text_embedding_batch(texts))
