"""Weights of the sources of a search, learned from 20, 50 and 100 judged queries.

Cranfield: the vectors of documents, BM25 of titles and BM25 of texts. CLINC150: vectors and BM25 of
utterances, which find others of their intent. 20 newsgroups: vectors, BM25 of subjects and BM25 of
texts; posts find others of their group. "noise" has the vectors of CLINC150 and random vectors, one
or six of them, so that nothing is to be gained. Each draw learns from some queries, and nDCG@10 is
measured on all others, with all documents. Beside `SourceWeights`:

- equal weights: scores in the units of `SourceWeights`
- rank fusion: the sum of 1 / (60 + rank)
- best single: the source that is best on the judged queries; and the one that is best on the others
- grid search: weights in steps of 0.1 in the same units, the best on the judged queries (with seven
  sources in steps of 0.5)

    python benchmarks/sources.py [--toy] [--splits DRAWS]
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from nearfar import Relevance, SourceWeights
from nearfar.measures.retrieval import discounts
from nearfar.search.ranking import largest
from nearfar.search.sources import read_sources
from protocol import Array, arguments, commit, record
from protocol import stored as read

SIZES = (20, 50, 100)
DRAWS = 10
HEADINGS = {
    "learned": "`SourceWeights`",
    "equal": "equal weights",
    "fusion": "rank fusion",
    "single": "best single (judged)",
    "oracle": "best single (true)",
    "grid": "grid search",
}
Tables = tuple[dict[str, Any], dict[str, Any], Relevance]


def data_file(name: str) -> Path:
    folder = os.environ.get("NEARFAR_DATA")
    if folder is None:
        sys.exit(f"Set NEARFAR_DATA to the folder of {name}.")
    return Path(folder) / name


def rows_of(name: str) -> list[dict[str, str]]:
    csv.field_size_limit(1 << 30)
    with gzip.open(data_file(name), "rt") as file:
        return list(csv.DictReader(file))


def cranfield() -> Tables:
    with gzip.open(data_file("cranfield.json.gz"), "rt") as file:
        texts = json.load(file)
    with np.load(data_file("cranfield_emb256.npz")) as data:
        Q, X, judged = data["Q"], data["X"], data["qrels"].astype(np.intp)
    judged = judged[np.unique(judged[:, :2], axis=0, return_index=True)[1]]
    grades = np.where(judged[:, 2] > 0, 5 - judged[:, 2], 0)
    relevance = Relevance(judged[:, 0] - 1, judged[:, 1] - 1, grades)
    asked = [query["text"] for query in texts["queries"]]
    documents = {name: [d[name] for d in texts["docs"]] for name in ("title", "text")}
    return {"vector": Q, "title": asked, "text": asked}, {"vector": X, **documents}, relevance


def clinc(*, noise: int = 0) -> Tables:
    texts = [row["text"] for row in rows_of("clinc150.csv.gz")]
    with np.load(data_file("clinc150_emb256.npz")) as data:
        X, y = data["X"], data["y"]
    rng = np.random.default_rng(0)
    rows = np.array([rng.permutation(np.flatnonzero(y == intent))[:30] for intent in range(150)])
    parts = rows[:, :5].ravel(), rows[:, 5:].ravel()
    relevance = Relevance.from_labels(*(y[part] for part in parts))
    if noise:
        names = [f"noise {number}" for number in range(noise)]
        sides = [
            {"vector": X[part], **{name: rng.normal(size=(len(part), 8)) for name in names}}
            for part in parts
        ]
    else:
        sides = [{"vector": X[part], "text": [texts[row] for row in part]} for part in parts]
    return sides[0], sides[1], relevance


def newsgroups() -> Tables:
    posts = rows_of("newsgroups20.csv.gz")
    with np.load(data_file("newsgroups20_emb256.npz")) as data:
        X, y = data["X"], data["y"]
    order = np.random.default_rng(0).permutation(len(y))
    parts = order[:600], order[600:4600]
    sides = [
        {
            "vector": X[part],
            "subject": [posts[row]["subject"] for row in part],
            "text": [posts[row]["text"][:4000] for row in part],
        }
        for part in parts
    ]
    return sides[0], sides[1], Relevance.from_labels(*(y[part] for part in parts))


def toy() -> Tables:
    rng = np.random.default_rng(0)
    title, body = rng.normal(size=(2, 300, 6))
    documents = {"title": title, "body": body}
    queries = {name: X[:60] + 1.5 * rng.normal(size=(60, 6)) for name, X in documents.items()}
    return queries, documents, Relevance(range(60), range(60))


def ndcg(scores: Array, gains: Array) -> Array:
    return np.asarray(np.take_along_axis(gains, largest(scores, 10), axis=1) @ discounts(10))


def measure(name: str, tables: Tables, sizes: tuple[int, ...], draws: int) -> list[dict[str, Any]]:
    queries, documents, relevance = tables
    sources, judged = read_sources(queries, documents, "cosine"), relevance.queries
    S = np.stack([source.scores(judged) for source in sources.values()], axis=-1)
    gains = np.zeros(S.shape[:2])
    place = np.searchsorted(judged, relevance.query[relevance.relevant])
    gains[place, relevance.document[relevance.relevant]] = relevance.grade[relevance.relevant]
    gains /= (-np.sort(-gains, axis=1)[:, :10] @ discounts(10))[:, None]
    ranks = np.argsort(np.argsort(-S, axis=1, kind="stable"), axis=1)
    fusion = ndcg((1 / (61 + ranks)).sum(axis=2), gains)
    single = np.array([ndcg(S[..., place], gains) for place in range(len(sources))])
    heights = np.sort(S, axis=1)[:, -10:].mean(axis=1) - S.mean(axis=1)
    steps = 10 if len(sources) < 4 else 2
    grid = [np.array(w) for w in product(range(steps + 1), repeat=len(sources)) if sum(w) == steps]
    rows = []
    for size, draw in product(sizes, range(draws)):
        # The method and its intervals were designed with draws below 200.
        order = np.random.default_rng(200 + draw).permutation(len(judged))
        train, test = order[:size], order[size:]
        start = time.perf_counter()
        learner = SourceWeights(random_state=draw)
        learner.fit(queries, documents, relevance.subset(judged[train]))
        row = {"data": name, "size": size, "draw": draw, "seconds": time.perf_counter() - start}
        unit = heights[train].mean(axis=0)
        on_grid = [ndcg(S[train] @ (w / unit), gains[train]).mean() for w in grid]
        weights = {
            "learned": np.array([learner.weights_[source] for source in sources]),
            "equal": 1 / unit,
            "grid": grid[int(np.argmax(on_grid))] / unit,
        }
        row |= {way: float(ndcg(S[test] @ w, gains[test]).mean()) for way, w in weights.items()}
        alone = single[:, test].mean(axis=1)
        row |= {"fusion": float(fusion[test].mean()), "oracle": float(alone.max())}
        row["single"] = float(alone[int(single[:, train].mean(axis=1).argmax())])
        row["over"] = {other: vars(gain) for other, gain in learner.chosen_.over.items()}
        row["verdicts"] = {each: gain.verdict for each, gain in learner.chosen_.adds.items()}
        row |= {"chosen": learner.chosen_.name, "shares": learner.shares_, "commit": commit()}
        rows.append(row)
    return rows


def stored() -> list[dict[str, Any]]:
    """Return the raw results."""
    return read("sources")


def table(rows: list[dict[str, Any]]) -> str:
    """Return mean nDCG@10 by data and number of judged queries, in Markdown."""
    lines = ["| data | judged queries | " + " | ".join(HEADINGS.values()) + " |"]
    lines.append("| --- |" + " --- |" * (len(HEADINGS) + 1))
    for data, size in dict.fromkeys((row["data"], row["size"]) for row in rows):
        own = [row for row in rows if (row["data"], row["size"]) == (data, size)]
        means = [f"{np.mean([row[way] for row in own]):.3f}" for way in HEADINGS]
        lines.append(f"| {data} | {size} | " + " | ".join(means) + " |")
    behind = [row["single"] - row["learned"] for row in rows]
    below = (
        ", ".join(dict.fromkeys(r["data"] for r in rows if r["learned"] < r["single"])) or "none"
    )
    covered = []
    for other, way in (("the best single source", "single"), ("equal weights", "equal")):
        gains = [(row["over"][other], row["learned"] - row[way]) for row in rows]
        covered.append(np.mean([seen["low"] <= gain <= seen["high"] for seen, gain in gains]))
    verdicts = [verdict for row in rows for verdict in row["verdicts"].items()]
    helps = [verdict for name, verdict in verdicts if name.startswith("noise")]
    lines += [
        "",
        f"Weights were below the best single source in {sum(b > 0 for b in behind)} of {len(rows)} "
        f"draws (data: {below}), by {max(behind):.3f} at most. "
        "The 90 % interval had the gain on the other queries "
        f"in {100 * covered[0]:.0f} % of the draws for the best single source, "
        f"and in {100 * covered[1]:.0f} % for "
        f'equal weights. The verdict on random vectors was "helps" {helps.count("helps")} of '
        f'{len(helps)} times, and "does not help" or "harms" in '
        f"{len(helps) - helps.count('helps') - helps.count('cannot tell')}.",
    ]
    return "\n".join(lines)


def main() -> None:
    given = arguments(__doc__)
    if given.toy:
        rows = measure("toy", toy(), (20,), 1)
    else:
        draws, rows = given.splits or DRAWS, []
        for name, tables in (
            ("Cranfield", cranfield()),
            ("CLINC150", clinc()),
            ("20 newsgroups", newsgroups()),
            ("noise", clinc(noise=1)),
            ("noise, six", clinc(noise=6)),
        ):
            rows += measure(name, tables, SIZES, draws)
        record("sources", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
