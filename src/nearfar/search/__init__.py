"""Search with judged results: what is relevant, and how good a search is."""

from nearfar.search.adapter import RetrievalAdapter
from nearfar.search.comparison import SearchComparison, SearchResult, compare_retrieval
from nearfar.search.cutoff import Cutoff
from nearfar.search.files import (
    Collection,
    read_beir,
    read_qrels,
    write_qrels,
    write_run,
)
from nearfar.search.ranking import JudgedRanking, Ranking, Relevance, search
from nearfar.search.sources import SourceWeights

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
    "read_beir",
    "read_qrels",
    "search",
    "write_qrels",
    "write_run",
]
