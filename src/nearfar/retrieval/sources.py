"""Sources of a search: several scores of the same documents, by name.

What a source is follows from where its name occurs and from what it holds:

    queries and documents, vectors      their cosine, or their inner product
    queries and documents, texts        BM25 of the texts, as Lucene computes it
    queries only                        given scores: a row for each query, a column for each
                                        document
    documents only                      a number of each document, such as a price or a date

BM25 has k1 = 1.2 and b = 0.75. Words are lower-case, of two or more letters or digits, and are
neither stemmed nor left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from nearfar.metrics.points import unit_length
from nearfar.retrieval.vectors import as_vectors, checked_vectors
from nearfar.runtime.optional_package import optional_package
from nearfar.typing import Floats, Ints

Kind = Literal["vectors", "texts", "scores", "numbers"]


class Source(NamedTuple):
    """A source: what it is, and its scores.

    Attributes
    ----------
    kind : {"vectors", "texts", "scores", "numbers"}
    scores : callable
        Row numbers of queries -> scores, a row for each query and a column for each document.
    """

    kind: Kind
    scores: Callable[[Ints], Floats]


def read_sources(
    queries: Mapping[str, Any], documents: Mapping[str, Any], score: str
) -> dict[str, Source]:
    """Return the sources by name, documents' first; see the module's docstring.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.retrieval.sources import read_sources
    >>> documents = {"title": np.ones((3, 2)), "price": [5, 7, 9]}
    >>> sources = read_sources({"title": np.eye(2)}, documents, "dot")
    >>> {name: source.kind for name, source in sources.items()}
    {'title': 'vectors', 'price': 'numbers'}
    >>> sources["price"].scores(np.array([0, 1]))
    array([[5., 7., 9.],
           [5., 7., 9.]])
    """
    if not queries:
        raise ValueError("Numbers alone are no search; add vectors, texts or scores of queries.")
    sources: dict[str, Source] = {}
    for name in dict.fromkeys([*documents, *queries]):
        if name not in queries:
            every = np.ones((len(next(iter(queries.values()))), 1))
            numbers = as_vectors(np.reshape(documents[name], (-1, 1)), name)
            sources[name] = Source("numbers", _products(every, numbers))
        elif name not in documents:
            sources[name] = Source("scores", as_vectors(queries[name], name).__getitem__)
        elif isinstance(next(iter(documents[name])), str):
            sources[name] = Source("texts", _bm25(queries[name], documents[name]))
        else:
            Q, X = (scored(V, score) for V in checked_vectors(queries[name], documents[name]))
            sources[name] = Source("vectors", _products(Q, X))
    first = np.zeros(1, dtype=np.intp)
    sizes = {name: source.scores(first).shape[1] for name, source in sources.items()}
    if len({len(queries[name]) for name in queries}) > 1 or len({*sizes.values()}) > 1:
        raise ValueError(
            "All sources need the same queries and the same documents; the sources have "
            f"{sizes} documents. Vectors need the same name in queries and documents."
        )
    return sources


def _products(Q: Floats, X: Floats) -> Callable[[Ints], Floats]:
    return lambda rows: Q[rows] @ X.T


def scored(vectors: Floats, score: str) -> Floats:
    """Return vectors whose inner products are the score."""
    return unit_length(vectors) if score == "cosine" else vectors


def _bm25(queries: Sequence[str], documents: Sequence[str]) -> Callable[[Ints], Floats]:
    bm25s = optional_package("bm25s", "BM25", "nearfar[search]")
    asked, words = (
        bm25s.tokenize(list(texts), stopwords=None, return_ids=False, show_progress=False)
        for texts in (queries, documents)
    )
    index = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    index.index(words, show_progress=False)
    # bm25s does not take a query without words.
    none = np.zeros(len(words), dtype=np.float32)
    return lambda rows: np.array([index.get_scores(asked[r]) if asked[r] else none for r in rows])
