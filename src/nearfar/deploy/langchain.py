"""A metric or adapter behind LangChain's interface of embeddings."""

from __future__ import annotations

from nearfar.deploy.linear_map import MappedVectors

try:
    from langchain_core.embeddings import Embeddings
except ImportError as error:
    raise ImportError(
        'MetricEmbeddings needs langchain-core; run pip install "nearfar[langchain]".'
    ) from error


class MetricEmbeddings(Embeddings):
    """Embeddings of another model, mapped so that Euclidean distance is the metric.

    Parameters
    ----------
    embeddings : langchain_core.embeddings.Embeddings
        The model that embeds texts.
    model : Metric or adapter
        What maps its vectors. An adapter has `transform_queries` and `transform_documents`.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> from nearfar import Metric
    >>> from nearfar.deploy.langchain import MetricEmbeddings
    >>> embeddings = MetricEmbeddings(DeterministicFakeEmbedding(size=3), Metric([[1.0, 1.0, 1.0]]))
    >>> len(embeddings.embed_query("a text"))
    1
    """

    def __init__(self, embeddings: Embeddings, model: object) -> None:
        self.embeddings = embeddings
        self._mapped = MappedVectors(model)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed and map documents."""
        return self._mapped.documents(self.embeddings.embed_documents(texts))

    def embed_query(self, text: str) -> list[float]:
        """Embed and map a query."""
        return self._mapped.query(self.embeddings.embed_query(text))

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed and map documents, by the model's own asynchronous method."""
        return self._mapped.documents(await self.embeddings.aembed_documents(texts))

    async def aembed_query(self, text: str) -> list[float]:
        """Embed and map a query, by the model's own asynchronous method."""
        return self._mapped.query(await self.embeddings.aembed_query(text))
