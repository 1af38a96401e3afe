"""A weighted search in the words of Qdrant, OpenSearch and pgvector.

Their own fusions normalise scores by the results of each query, so that weights of ours would mean
something else there. These requests add up the scores themselves:

    Qdrant        a formula of the scores of prefetches; a point beyond the limit of a prefetch has
                  0 there, so that the score is exact for those that all prefetches return
    OpenSearch    a script that scores every document by its cosines and numbers; texts are matched
                  with their weight as boost, and _score is their sum
    pgvector      an expression; it is exact and reads every row

BM25 of a store has other words and lengths than ours and is nearly the same at best. PostgreSQL has
none: its score must come from a column or an extension.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nearfar.retrieval.sources import Kind

# Points of each prefetch; more make the score exact for more of them.
_PREFETCHED = 1000
# Scores of OpenSearch may not be negative: standard deviations of a number that are added.
_SPREADS = 10


def store_query(
    store: str,
    kinds: Mapping[str, Kind],
    weights: Mapping[str, float],
    numbers: Mapping[str, tuple[float, float]],
    score: str,
) -> str:
    """Return a request that ranks documents by the weighted sum of their sources.

    Examples
    --------
    >>> from nearfar.retrieval.store_queries import store_query
    >>> kinds, weights = {"title": "vectors", "price": "numbers"}, {"title": 2.0, "price": -0.5}
    >>> print(store_query("pgvector", kinds, weights, {"price": (5.0, 1.0)}, "cosine"))
    SELECT *, 2.0 * (1 - ("title" <=> $1)) + -0.5 * "price" AS score
    FROM documents ORDER BY score DESC LIMIT 10;
    """
    used = {name: kind for name, kind in kinds.items() if weights[name]}
    compared = [name for name, kind in used.items() if kind != "numbers"]
    if store == "pgvector":
        product = "(1 - ({} <=> ${}))" if score == "cosine" else "-({} <#> ${})"
        values = {name: '"' + name.replace('"', '""') + '"' for name in used}
        for place, name in enumerate([n for n in used if used[n] == "vectors"], start=1):
            values[name] = product.format(values[name], place)
        total = " + ".join(f"{weights[name]!r} * {value}" for name, value in values.items())
        return f"SELECT *, {total} AS score\nFROM documents ORDER BY score DESC LIMIT 10;"
    if store == "qdrant":
        keys = dict.fromkeys(used, "") | {name: f"$score[{i}]" for i, name in enumerate(compared)}
        terms = [{"mult": [weights[name], key or name]} for name, key in keys.items()]
        defaults = {key: 0.0 for key in keys.values() if key}
        fetched = [{"query": f"<{n}>", "using": n, "limit": _PREFETCHED} for n in compared]
        query = {"formula": {"sum": terms}, "defaults": defaults}
        return json.dumps({"prefetch": fetched, "query": query, "limit": 10}, indent=2)
    source, parameters, matched, offset = [], dict[str, Any](), [], 0.0
    for i, (name, kind) in enumerate(used.items()):
        weight, mean, spread = weights[name], *numbers.get(name, (0.0, 0.0))
        if kind in ("texts", "scores"):
            matched.append({"match": {name: {"query": f"<{name}>", "boost": weight}}})
            continue
        parameters |= {f"w{i}": weight, f"f{i}": name}
        if kind == "numbers":
            source.append(f"params.w{i} * (doc[params.f{i}].value - params.m{i})")
            parameters[f"m{i}"], offset = mean, offset + _SPREADS * abs(weight) * spread
        elif score == "cosine":
            source.append(f"params.w{i} * cosineSimilarity(params.q{i}, doc[params.f{i}])")
            parameters[f"q{i}"], offset = f"<{name}>", offset + weight
        else:
            raise ValueError('Scripts of OpenSearch have no inner product; use score="cosine".')
    total = " + ".join([*source, *["_score"] * bool(matched), "params.offset"])
    script = {"source": f"Math.max(0, {total})", "params": parameters | {"offset": offset}}
    every = {"bool": {"filter": {"match_all": {}}, "should": matched}}
    return json.dumps({"query": {"script_score": {"query": every, "script": script}}}, indent=2)
