"""How often gains that `compare_retrieval` states with a probability are real.

Problems are drawn at random: searches among generated documents, some of which have nothing to
gain, and, from NEARFAR_DATA, Cranfield and CLINC150. `compare_retrieval` sees 20 to 200 judged
queries. Other queries tell the truth: what an adapter gains on them that was learned from all
queries that `compare_retrieval` saw. The reliability table has the share of real gains by stated
probability.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from cranfield import clinc, cranfield
from nearfar import Relevance, RetrievalAdapter, compare_retrieval
from nearfar.evidence.gain import smallest_gain
from nearfar.metrics.points import unit_length
from nearfar.search import JudgedRanking, search
from protocol import Array, commit, record
from protocol import stored as stored_rows

TEST_QUERIES = 1000
BINS = (0.0, 0.25, 0.5, 0.75, 0.85, 0.95, 1.0)
NO_GAIN = "same noise"

Random = np.random.Generator
Problem = tuple[Array, Array, Relevance]


def generated(rng: Random, kind: str, n_queries: int) -> Problem:
    """Queries near their documents; in "noisy columns", some columns of queries tell little."""
    d, n_documents = int(rng.integers(8, 33)), int(rng.integers(150, 500))
    X = rng.normal(size=(n_documents, d))
    answer = rng.integers(n_documents, size=n_queries)
    noise = np.full(d, rng.uniform(0.5, 1.2))
    if kind != NO_GAIN:
        X *= np.exp(rng.normal(0, 0.3, size=d))
        noise[: int(rng.integers(1, d))] *= rng.uniform(1.0, 3.0)
    Q = X[answer] + noise * X.std(axis=0) * rng.normal(size=(n_queries, d))
    return Q, X, Relevance(np.arange(n_queries), answer)


@cache
def collection(name: str) -> Problem:
    """Return a collection; of CLINC150, all intents."""
    return cranfield() if name == "Cranfield" else clinc(0, None)[:3]


def draw(seed: int, collections: list[str]) -> tuple[str, Problem, Array]:
    """Return a problem: its kind, its vectors and judgements, and the queries that are seen."""
    rng = np.random.default_rng([2, seed])
    n = int(np.exp(rng.uniform(np.log(20), np.log(200))))
    if collections and seed % 3 == 0:
        kind = str(rng.choice(collections))
        problem = collection(kind)
        n = min(n, len(problem[2].queries) // 2)
    else:
        kind = str(rng.choice([NO_GAIN, "noisy columns"]))
        problem = generated(rng, kind, n + TEST_QUERIES)
    return kind, problem, np.sort(rng.permutation(problem[2].queries)[:n])


def outcome(seed: int, collections: list[str]) -> dict[str, Any]:
    """What a verdict says, and what is true."""
    kind, (Q, X, relevance), seen = draw(seed, collections)
    adapter = RetrievalAdapter(score="cosine", random_state=0)
    found = compare_retrieval(Q, X, relevance.subset(seen), adapter)
    verdict, difference = found.verdict, found.difference(found["adapted"])
    gain = true_gain(adapter.fit(Q, X, relevance.subset(seen)), Q, X, relevance, seen)
    return {
        "seed": seed,
        "kind": kind,
        "queries": len(seen),
        "category": verdict.category,
        "probability": verdict.probability,
        "covered": verdict.low <= gain <= verdict.high,
        "observed": float(difference.mean()),
        "true_gain": gain,
        "real": gain > 0 and gain >= smallest_gain(1 - verdict.before),
        "commit": commit(),
    }


def true_gain(
    fitted: RetrievalAdapter, Q: Array, X: Array, relevance: Relevance, seen: Array
) -> float:
    """How much nDCG@10 rises on queries that were not seen."""
    others = np.setdiff1d(relevance.queries, seen)[:TEST_QUERIES]
    before, after = (
        JudgedRanking(search(queries, documents, 10, queries=others), relevance).ndcg(10).mean()
        for queries, documents in (
            (unit_length(Q), unit_length(X)),
            (fitted.transform_queries(Q), fitted.transform_documents(X)),
        )
    )
    return float(after - before)


def stored() -> list[dict[str, Any]]:
    """Read the results that the documentation shows."""
    return stored_rows("search_calibration")


def table(rows: list[dict[str, Any]]) -> str:
    """Return the reliability table, and what is claimed without a gain, in Markdown."""
    lines = [
        "| stated | problems | mean stated | real |",
        "| --- | --- | --- | --- |",
    ]
    for low, high in pairwise(BINS):
        those = [r for r in rows if low <= r["probability"] < high or r["probability"] == high == 1]
        if those:
            figures = [100 * float(np.mean([r["probability"] for r in those]))]
            figures += [share(r["real"] for r in those)]
            cells = [f"{100 * low:.0f} to {100 * high:.0f} %", str(len(those))]
            cells += [f"{figure:.0f} %" for figure in figures]
            lines.append(f"| {' | '.join(cells)} |")
    none = [r for r in rows if r["kind"] == NO_GAIN]
    claims = [
        f'"{category}" in {share(r["category"] == category for r in none):.1f} %'
        for category in ("clearly better", "probably better", "worse")
    ]
    covered = share(r["covered"] for r in rows)
    return "\n".join(
        [
            *lines,
            "",
            f"90 % intervals hold in {covered:.0f} % of the problems. Of {len(none)} problems with "
            f"nothing to gain, the verdict is {', '.join(claims)}.",
        ]
    )


def share(facts: Iterable[bool]) -> float:
    """Return the percentage of true ones."""
    return 100 * float(np.mean([*facts] or np.nan))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="four generated problems")
    parser.add_argument("--problems", type=int, default=300, help="number of problems [300]")
    arguments = parser.parse_args()
    collections = ["Cranfield", "CLINC150"] if "NEARFAR_DATA" in os.environ else []
    count, collections = (4, []) if arguments.toy else (arguments.problems, collections)
    rows = [outcome(seed, collections) for seed in range(count)]
    if not arguments.toy:
        record("search_calibration", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
