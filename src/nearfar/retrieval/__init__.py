"""Search with judged results: what is relevant, and how good a search is."""

from nearfar.retrieval.adapter import RetrievalAdapter
from nearfar.retrieval.comparison import compare_retrieval
from nearfar.retrieval.cutoff import Cutoff
from nearfar.retrieval.ranking import JudgedRanking, Ranking, search
from nearfar.retrieval.readers import (
    Collection,
    from_columns,
    read_beir,
    read_qrels,
    write_qrels,
    write_run,
)
from nearfar.retrieval.relevance import Relevance
from nearfar.retrieval.results import SearchComparison, SearchResult
from nearfar.retrieval.source_weights import SourceWeights

__all__ = [
    "Collection",
    "Cutoff",
    "JudgedRanking",
    "Ranking",
    "Relevance",
    "RetrievalAdapter",
    "SearchComparison",
    "SearchResult",
    "SourceWeights",
    "compare_retrieval",
    "from_columns",
    "read_beir",
    "read_qrels",
    "search",
    "write_qrels",
    "write_run",
]
