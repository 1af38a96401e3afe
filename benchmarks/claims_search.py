"""How often claims on searches hold where documents repeat.

Searches: generated documents, some of which are asked for more often than others, so that between
none and most of the queries are for a document that another query is for too. A query is its
document seen through a map that all queries share, moved by a step that only queries for this
document share, plus noise: the first can be learned for all documents, the second only for those
that were seen. Fresh queries for seen and for unseen documents tell the truth about an adapter that
was learned from all queries. Claims: the 90 % intervals of the gains that `compare_retrieval`
states for each kind of documents and for all, and its verdict.

Collections (NEARFAR_DATA): SciFact with its official split, and Cranfield and CLINC150 with a third
of their queries held out: what is stated from the training queries, and what is true of the others.

Raw results are appended to results/claims_search.jsonl with commit and parameters, and a run goes
on where the last one ended. docs/reference/claims.md has the tables.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import nearfar
from cranfield import clinc, cranfield
from nearfar import Relevance, RetrievalAdapter, compare_retrieval
from nearfar.evidence.gain import smallest_gain
from nearfar.metrics.points import unit_length
from nearfar.search import JudgedRanking, search
from protocol import Array, commit

RESULTS = Path(__file__).parent / "results" / "claims_search.jsonl"
DRAWS = 200
FRESH = 1000
BINS = (0.0, 0.2, 0.4, 0.6, 1.0)
KINDS = ("seen", "unseen")
ALL_KINDS = (*KINDS, "all")
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"side": "both"},
    {"answers": "seen"},
    {"answers": "unseen"},
)
Random = np.random.Generator
Row = dict[str, Any]


def adapter(**options: Any) -> RetrievalAdapter:
    return RetrievalAdapter(score="cosine", random_state=0, **options)


def ndcg(Q: Array, X: Array, relevance: Relevance) -> Array:
    return JudgedRanking(search(Q, X, 10, queries=relevance.queries), relevance).ndcg(10)


class Source:
    """Documents, how often they are asked for, and how queries for them look."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        d, n_documents = int(rng.integers(8, 25)), int(rng.integers(200, 500))
        self.X = unit_length(rng.normal(size=(n_documents, d)))
        # From all documents alike to a few that most queries are for.
        rank = rng.permutation(n_documents) + 1
        self.popularity = rank ** -rng.uniform(0, 1.5)
        self.columns = np.exp(rng.uniform(0, 0.6) * rng.normal(size=d))
        step = rng.uniform(0, 1.5) * unit_length(rng.normal(size=(n_documents, d)))
        self.centers = self.X * self.columns + step
        self.noise = rng.uniform(0.5, 1.5) * np.exp(rng.uniform(0, 1) * rng.normal(size=d))

    def queries(self, n: int, among: Array | None = None) -> tuple[Array, Relevance]:
        """Draw queries for some of the documents."""
        share = self.popularity * (1.0 if among is None else among)
        answer = self.rng.choice(len(self.X), n, p=share / share.sum())
        d = self.X.shape[1]
        noise = self.noise * self.rng.normal(size=(n, d)) / np.sqrt(d)
        return self.centers[answer] + noise, Relevance(np.arange(n), answer)


def claim(part: Any) -> Row | None:
    if part is None:
        return None
    return {name: getattr(part, name) for name in ("before", "after", "gain", "low", "high")}


def searched(number: int) -> Row:
    """What is stated of seen and unseen documents, and what is true."""
    rng = np.random.default_rng([3, number])
    source = Source(rng)
    n = int(np.exp(rng.uniform(np.log(60), np.log(300))))
    Q, relevance = source.queries(n)
    found = compare_retrieval(Q, source.X, relevance, adapter()).verdict
    fitted = adapter().fit(Q, source.X, relevance)
    seen = np.isin(np.arange(len(source.X)), relevance.document)
    row: Row = {"queries": n, "overlap": overlap(relevance), "share": {}, "truth": {}}
    for kind, among in zip(KINDS, (seen, ~seen), strict=True):
        fresh, asked = source.queries(FRESH, among)
        untouched = ndcg(unit_length(fresh), source.X, asked)
        mapped = fitted.transform_queries(fresh), fitted.transform_documents(source.X)
        row["truth"][kind] = float((ndcg(*mapped, asked) - untouched).mean())
        row["share"][kind] = float(source.popularity[among].sum() / source.popularity.sum())
    row["truth"]["all"] = sum(row["share"][kind] * row["truth"][kind] for kind in KINDS)
    # Without a document that repeats, all searches are for unseen ones.
    stated = {kind: claim(getattr(found, kind)) for kind in KINDS} | {"all": claim(found)}
    if found.seen is None:
        stated["unseen"] = claim(found)
    return row | {
        "stated": stated,
        "category": found.category.value,
        "probability": found.probability,
        "smallest": smallest_gain(1 - found.before),
    }


def overlap(relevance: Relevance) -> float:
    """Return the share of queries with a document that another query is for."""
    times = np.bincount(relevance.document)
    return float((times[relevance.document] > 1).mean())


def collections(folder: Path) -> Iterable[tuple[str, Array, Array, Relevance, Relevance]]:
    """Yield collections: name, queries, documents, training and test judgements."""
    with np.load(folder / "scifact_minilm128.npz") as data:
        rows = [
            {name: row for row, name in enumerate(data[ids].tolist())}
            for ids in ("query_id", "doc_id")
        ]
        train, test = (
            Relevance(*np.array([[rows[0][q], rows[1][d]] for q, d, _ in data[name].tolist()]).T)
            for name in ("qrels_train", "qrels_test")
        )
        yield "SciFact", data["Q"].astype(np.float32), data["X"].astype(np.float32), train, test
    for name, (Q, X, relevance) in (("Cranfield", cranfield()), ("CLINC150", clinc(0, None)[:3])):
        order = np.random.RandomState(0).permutation(relevance.queries)
        third = len(order) // 3
        parts = relevance.subset(order[third:]), relevance.subset(order[:third])
        yield name, Q, X, *parts


def measured(
    name: str, Q: Array, X: Array, train: Relevance, test: Relevance, **options: Any
) -> Row:
    """What is stated from the training queries of a collection, and what is true of the others."""
    found = compare_retrieval(Q, X, train, adapter(**options)).verdict
    fitted = adapter(**options).fit(Q, X, train)
    known = np.unique(train.document[train.relevant])
    seen = np.isin(test.queries, test.query[test.relevant & np.isin(test.document, known)])
    before = ndcg(unit_length(Q), unit_length(X), test)
    after = ndcg(fitted.transform_queries(Q), fitted.transform_documents(X), test)
    truth = {
        kind: {"queries": int(some.sum()), "before": mean(before[some]), "after": mean(after[some])}
        for kind, some in (("all", seen | ~seen), ("seen", seen), ("unseen", ~seen))
    }
    stated = {"all": claim(found), "seen": claim(found.seen), "unseen": claim(found.unseen)}
    facts = {"category": found.category.value, "changed": fitted.chosen_.helps}
    return {"data": name, "options": options, "stated": stated, "truth": truth, **facts}


def mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None


def stored() -> list[Row]:
    """Return the raw results."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown."""
    by: dict[str, list[Row]] = {}
    for row in rows:
        by.setdefault(row["regime"], []).append(row)
    lines = [
        "| queries whose document repeats | draws | seen: intervals hold | too high | unseen: "
        "intervals hold | too high | all: intervals hold | too high | probably or clearly better "
        "| true | unseen lose |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    drawn = by.get("searches", [])
    for low, high in [*pairwise(BINS), (0.0, 1.0)]:
        some = [r for r in drawn if low <= r["overlap"] < high or r["overlap"] == high == 1.0]
        if some:
            name = "all" if (low, high) == (0.0, 1.0) else f"{100 * low:.0f} to {100 * high:.0f} %"
            cells = " | ".join(cells_of_kind(some, kind) for kind in ALL_KINDS)
            lines.append(f"| {name} | {len(some)} | {cells} | {verdict_cells(some)} |")
    lines += [
        "",
        "| collection | parameters | verdict | all, true | seen, stated gain | true | unseen, "
        "stated gain | true |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in by.get("collections", []):
        options = ", ".join(f'`{name}="{value}"`' for name, value in row["options"].items())
        figures = [row["data"], options, row["category"], arrow(row["truth"]["all"])]
        for kind in KINDS:
            figures += [interval(row["stated"][kind]), arrow(row["truth"][kind])]
        lines.append(f"| {' | '.join(figures)} |")
    return "\n".join(lines)


def cells_of_kind(rows: list[Row], kind: str) -> str:
    return held(
        [row["stated"][kind] | {"truth": row["truth"][kind]} for row in rows if row["stated"][kind]]
    )


def held(some: list[Row]) -> str:
    if not some:
        return " | "
    inside = [each["low"] <= each["truth"] <= each["high"] for each in some]
    return f"{percent(inside)} | {percent(each['truth'] < each['low'] for each in some)}"


def verdict_cells(rows: list[Row]) -> str:
    better = [row for row in rows if row["category"].endswith(" better")]
    real = [row["truth"]["all"] > row["smallest"] for row in better]
    lost = [row["truth"]["unseen"] < -row["smallest"] for row in better]
    return f"{len(better)} | {percent(real)} | {percent(lost)}"


def percent(facts: Iterable[bool]) -> str:
    given = [*facts]
    return f"{100 * np.mean(given):.0f} %" if given else ""


def arrow(part: Row) -> str:
    return f"{part['before']:.3f} → {part['after']:.3f}" if part["queries"] else ""


def interval(part: Row | None) -> str:
    return f"{part['gain']:.3f} ({part['low']:.3f} to {part['high']:.3f})" if part else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--toy", action="store_true", help="two draws, stored nowhere")
    parser.add_argument("--draws", type=int, default=DRAWS, help=f"draws of a regime [{DRAWS}]")
    parser.add_argument("--show", action="store_true", help="print the tables of what is stored")
    arguments = parser.parse_args()
    if arguments.show:
        print(table(stored()))
        return
    rows = [] if arguments.toy else stored()
    done = {(row["regime"], row["draw"]) for row in rows}
    draws = range(2 if arguments.toy else arguments.draws)
    tasks: list[tuple[str, int | str, Callable[[], Row]]] = []
    tasks += [("searches", number, partial(searched, number)) for number in draws]
    if not arguments.toy and "NEARFAR_DATA" in os.environ:
        for given in collections(Path(os.environ["NEARFAR_DATA"])):
            for options in OPTIONS:
                name = f"{given[0]} {options}"
                tasks.append(("collections", name, partial(measured, *given, **options)))
    for regime, number, run in tasks:
        if (regime, number) in done:
            continue
        start = time.process_time()
        row = {"regime": regime, "draw": number, **run()}
        row |= {"cpu": round(time.process_time() - start, 3), "adapter": repr(adapter())}
        row["commit"] = commit(Path(nearfar.__file__).parent)
        rows.append(row)
        if not arguments.toy:
            with RESULTS.open("a") as file:
                file.write(json.dumps(rounded(row)) + "\n")
    print(table(rows))


def rounded(value: Any) -> Any:
    """Return a result with all numbers rounded."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return round(value, 6) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
