"""Search with judged results: Cranfield, and CLINC150 as a search.

Cranfield (1,400 documents, 225 queries, 256-d static vectors), five folds of the queries: nDCG@10,
MRR and recall@10 of queries that were not learned from, untouched and with `RetrievalAdapter`, for
10, 50, 100 and all judged training queries. The difference in nDCG@10 is tested by query (paired
t-test). CLINC150: an utterance finds utterances of its intent; half of the intents are not learned
from, and queries and documents of those are searched together with all other documents.

docs/reference/retrieval.md has the table that is derived from the raw results.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_rel

from nearfar import Relevance, RetrievalAdapter
from nearfar.search import JudgedRanking, search
from protocol import Array, commit, load, record
from protocol import stored as stored_rows

MEASURES = ("nDCG@10", "MRR", "recall@10")


def cranfield() -> tuple[Array, Array, Relevance]:
    """Return queries, documents and judgements; grade 4 is best, 0 is not relevant."""
    folder = os.environ.get("NEARFAR_DATA")
    if folder is None:
        sys.exit("Set NEARFAR_DATA to the folder of cranfield_emb256.npz.")
    with np.load(Path(folder) / "cranfield_emb256.npz") as data:
        query, document, grade = data["qrels"].astype(np.intp).T
        keys = query * 10_000 + document
        first = np.unique(keys, return_index=True)[1]
        gain = np.where(grade > 0, 5 - grade, 0)
        relevance = Relevance(query[first] - 1, document[first] - 1, gain[first])
        return data["Q"].astype(np.float32), data["X"].astype(np.float32), relevance


def clinc(seed: int, n_intents: int | None) -> tuple[Array, Array, Relevance, Array]:
    """Return queries, documents, judgements, and which queries have an unseen intent."""
    X, y = load("clinc150_emb256")
    rng = np.random.RandomState(seed)
    intents = rng.permutation(150)[:n_intents]
    rows = [rng.permutation(np.flatnonzero(y == intent)) for intent in intents]
    queries = np.concatenate([some[:10] for some in rows])
    documents = np.concatenate([some[10:30] for some in rows])
    relevance = Relevance(*np.nonzero(y[queries][:, None] == y[documents]))
    unseen = np.isin(y[queries], intents[len(intents) // 2 :])
    return X[queries].astype(np.float32), X[documents].astype(np.float32), relevance, unseen


def measured(Q: Array, X: Array, relevance: Relevance) -> Array:
    """Return the measures of each judged query, one column each."""
    ranking = search(Q, X, min(1000, len(X)), queries=relevance.queries)
    judged = JudgedRanking(ranking, relevance)
    return np.column_stack([judged.ndcg(10), judged.mrr(1000), judged.recall(10)])


def folds(queries: Array, n_folds: int) -> list[tuple[Array, Array]]:
    """Return training and test queries, the former in random order."""
    parts = np.array_split(np.random.RandomState(0).permutation(queries), n_folds)
    return [
        (np.concatenate(parts[:place] + parts[place + 1 :]), parts[place])
        for place in range(n_folds)
    ]


def run(
    name: str,
    side: Any,
    data: tuple[Array, Array, Relevance],
    splits: list[tuple[Array, Array]],
    n_train: int | None = None,
    answers: Any = "all",
) -> dict[str, Any]:
    """Learn from the first training queries of each split, and measure the test queries."""
    Q, X, relevance = data
    before, after, seconds, adapted = [], [], 0.0, 0
    for train, test in splits:
        some = train[:n_train]
        start = time.perf_counter()
        adapter = RetrievalAdapter(side=side, answers=answers)
        adapter.fit(Q, X, relevance.subset(some))
        seconds += time.perf_counter() - start
        adapted += adapter.chosen_.helps
        new = relevance.subset(test)
        before.append(measured(Q, X, new))
        after.append(measured(adapter.transform_queries(Q), adapter.transform_documents(X), new))
    old, learned = np.concatenate(before), np.concatenate(after)
    changed = np.any(old[:, 0] != learned[:, 0])
    return {
        "data": name,
        "commit": commit(),
        "side": side,
        "n_train": len(some),
        "before": old.mean(axis=0).tolist(),
        "after": learned.mean(axis=0).tolist(),
        "p": float(ttest_rel(learned[:, 0], old[:, 0]).pvalue) if changed else 1.0,
        "adapted": adapted,
        "fits": len(splits),
        "seconds": seconds / len(splits),
    }


def show(row: dict[str, Any]) -> None:
    """Print one line of the table."""
    values = "".join(
        f"  {old:.3f} -> {new:.3f}" for old, new in zip(row["before"], row["after"], strict=True)
    )
    print(
        f"{row['data']:10s} {row['side']:5s} {row['n_train']:5d} {values}  {row['p']:8.1e} "
        f"{row['adapted']:2d}/{row['fits']:<2d} {row['seconds']:6.2f}",
        flush=True,
    )


def stored() -> list[dict[str, Any]]:
    """Read the raw results."""
    return stored_rows("cranfield")


def table(rows: list[dict[str, Any]]) -> str:
    """Return measures before and after in Markdown."""
    lines = [
        f"| data | judged queries | side | {' | '.join(MEASURES)} | p | fits that change vectors |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        pairs = zip(row["before"], row["after"], strict=True)
        cells = [row["data"], row["n_train"], row["side"]]
        cells += [f"{before:.3f} → {after:.3f}" for before, after in pairs]
        cells += [f"{row['p']:.0e}" if row["adapted"] else "", f"{row['adapted']} of {row['fits']}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--toy", action="store_true", help="few queries, two folds")
    arguments = parser.parse_args()
    data = cranfield()
    splits = folds(data[2].queries, 2 if arguments.toy else 5)
    sizes = [10] if arguments.toy else [10, 50, 100, None]
    print(f"{'':16s}train" + "".join(f"{name:>16s}" for name in MEASURES) + "        p  adapted  s")
    rows = []
    for side in ("query", "both"):
        for size in sizes:
            rows.append(run("Cranfield", side, data, splits, size))
            show(rows[-1])
    rows.append(run('Cranfield, `answers="seen"`', "query", data, splits, sizes[-1], "seen"))
    show(rows[-1])
    for seed in range(1 if arguments.toy else 3):
        Q, X, relevance, unseen = clinc(seed, 10 if arguments.toy else None)
        split = [(np.flatnonzero(~unseen), np.flatnonzero(unseen))]
        for side in ("query", "both"):
            rows.append(run("CLINC150", side, (Q, X, relevance), split, answers="unseen"))
            show(rows[-1])
    if not arguments.toy:
        record("cranfield", rows)


if __name__ == "__main__":
    main()
