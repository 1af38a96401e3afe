"""Search with judged results: what is relevant, and how good a search is."""

from nearfar.retrieval.readers import (
    Collection,
    from_clicks,
    from_columns,
    read_beir,
    read_qrels,
)
from nearfar.retrieval.relevance import Relevance

__all__ = [
    "Collection",
    "Relevance",
    "from_clicks",
    "from_columns",
    "read_beir",
    "read_qrels",
]
