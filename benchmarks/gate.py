"""How often `nearfar gate` is right about pairs of versions whose difference is known.

A pair of versions is one of five: the new one learned from four times as many judgements or rows,
from a quarter, from as many others, or it is the old one with little or much noise. Versions that
are learned share no judged query or row. The gate sees a sample that neither has learned from. The
truth is the difference on a much larger one: new queries of SciFact, or fresh ones of generated
searches; further tables of the same size, as votes depend on it; further pairs. A difference counts
as better or worse if it makes a practical difference (`gains.smallest_gain`), and as the same
otherwise.

Queries of a gate of few documents are all for fifteen of them. The truth is that of all documents.

The gate is also asked about data of which a tenth was learned from, and must refuse.

    python benchmarks/gate.py [--toy]
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from claims_search import Source, collections, ndcg
from nearfar import LDA, Metric, Pairs, Relevance, RetrievalAdapter
from nearfar.comparison.tasks import score_distance
from nearfar.evidence.gain import smallest_gain
from nearfar.measures.registry import PAIR_AUC, HeldOutJudgements
from nearfar.metrics.training_facts import save_learned
from nearfar.search.gate import gate
from protocol import Array, arguments, commit, load, record
from protocol import stored as read

CHANGES = ("more", "fewer", "others", "little noise", "much noise")
NOISE = {"little noise": 0.1, "much noise": 0.4}
TABLES = ("letter", "optdigits", "adult", "waveform")
DRAWS = 20
FEW_DOCUMENTS = 15
K = 3
OUTCOMES = {"better": 0, "same": 3, "cannot tell": 3, "worse": 4}
Row = dict[str, Any]


def versions(
    learn: Callable[[int, int], Any], change: str, noisy: Callable[[Any, float], Any]
) -> Any:
    """Return the old and the new version; `learn` takes a number of cases, and which ones."""
    if change in NOISE:
        old = learn(4, 0)
        return old, noisy(old, NOISE[change])
    sizes = {"more": (1, 4), "fewer": (4, 1), "others": (2, 2)}[change]
    return learn(sizes[0], 0), learn(sizes[1], 1)


def judged(
    folder: Path, save: Callable[[Any, Path], None], pair: Any, ask: Callable[..., Any], seen: Any
) -> Row:
    """Return what the gate says of a pair, and whether it refuses data that were learned from."""
    files = [folder / "old.safetensors", folder / "new.safetensors"]
    for version, file in zip(pair, files, strict=True):
        save(version, file)
    found = ask(*files)
    try:
        ask(*files, seen)
        refused = False
    except ValueError as error:
        refused = "was learned from" in str(error)
    return {"exit": OUTCOMES[found.outcome], "probability": found.probability, "harm": found.harm,
            "before": found.before, "after": found.after, "refused": refused}  # fmt: skip


def searches(
    name: str,
    number: int,
    Q: Array,
    X: Array,
    relevance: Relevance,
    sizes: tuple[int, int],
    *,
    few: bool = False,
) -> Iterator[Row]:
    """Compare adapters; `sizes` are of a quarter to learn from, and of the gate."""
    rng = np.random.default_rng([5, number])
    order = rng.permutation(relevance.queries)
    unit, n_gate = sizes
    if few:
        # Each query has one document, and popular ones are more likely to be among the first.
        answer = relevance.document[order[8 * unit :]]
        documents = list(dict.fromkeys(answer.tolist()))[:FEW_DOCUMENTS]
        asked = np.isin(answer, documents)
        order[8 * unit :] = order[8 * unit :][np.argsort(~asked, kind="stable")]
        n_gate = min(n_gate, int(asked.sum()))
    parts = order[: 8 * unit], order[8 * unit : 8 * unit + n_gate], order[8 * unit + n_gate :]

    def learn(n: int, which: int) -> RetrievalAdapter:
        queries = parts[0][4 * unit * which :][: n * unit]
        return RetrievalAdapter(random_state=0).fit(Q, X, relevance.subset(queries))

    def noisy(adapter: RetrievalAdapter, size: float) -> RetrievalAdapter:
        other = copy(adapter)
        other.W_ = adapter.W_ + size * rng.normal(size=adapter.W_.shape) / len(adapter.W_) ** 0.5
        other.chosen_ = replace(adapter.chosen_, helps=True)
        return other

    def truth(adapter: RetrievalAdapter) -> float:
        rest = relevance.subset(parts[2])
        mapped = adapter.transform_queries(Q), adapter.transform_documents(X)
        return float(ndcg(*mapped, rest).mean())

    def ask(old: Path, new: Path, known: Array = order[:0]) -> Any:
        return gate(old, new, Q, X, qrels=relevance.subset(np.sort([*parts[1], *known])))

    with tempfile.TemporaryDirectory() as folder:
        for change in CHANGES:
            pair = versions(learn, change, noisy)
            before, after = map(truth, pair)
            found = judged(
                Path(folder), lambda v, f: v.save(f), pair, ask, parts[0][: n_gate // 10]
            )
            yield {"data": name, "draw": number, "change": change, "gain": after - before,
                   "smallest": smallest_gain(1 - before), **found}  # fmt: skip


def rows(
    name: str, number: int, X: Array, y: Array, sizes: tuple[int, int], *, pairs: bool = False
) -> Iterator[Row]:
    """Compare metrics; `sizes` are of a quarter to learn from, and of the gate."""
    rng = np.random.default_rng([6, number])
    unit, n_gate = sizes
    # A row that was learned from must not be in another part by chance.
    X, places = np.unique(X, axis=0, return_index=True)
    order = rng.permutation(len(X))
    X, y = X[order], y[places][order]
    rest = [slice(start, start + n_gate) for start in range(8 * unit, len(X) - n_gate, n_gate)]

    def learn(n: int, which: int) -> tuple[Metric, Array]:
        part = slice(4 * unit * which, 4 * unit * which + n * unit)
        return LDA().fit(X[part], y[part]).metric_, X[part]

    def noisy(version: tuple[Metric, Array], size: float) -> tuple[Metric, Array]:
        L = version[0].L
        return Metric(L + size * np.abs(L).mean() * rng.normal(size=L.shape)), version[1]

    def joined(part: Array) -> Pairs:
        index = rng.integers(len(part), size=(4 * len(part), 2))
        index = index[index[:, 0] != index[:, 1]]
        index = np.unique(np.sort(index, axis=1), axis=0)
        similar = part[index[:, 0]] == part[index[:, 1]]
        keep = similar | (rng.random(len(similar)) < similar.mean())
        return Pairs(index[keep], similar[keep])

    asked = {part.start: joined(y[part]) for part in rest} if pairs else {}

    def truth(version: tuple[Metric, Array]) -> float:
        losses = [
            float(PAIR_AUC.losses(HeldOutJudgements(version[0], X[part], asked[part.start])).mean())
            if pairs
            else float(
                np.nanmean(
                    score_distance(version[0], (X[part], y[part]), None, n_neighbors=K)["error"]
                )
            )
            for part in rest[1:11]
        ]
        return float(np.mean(losses))

    def ask(old: Path, new: Path, known: Array = order[:0]) -> Any:
        part = np.r_[np.arange(len(X))[rest[0]], known]
        known_of = {"pairs": asked[rest[0].start]} if pairs else {"label": y[part]}
        if pairs and len(known):
            part[: len(known)] = known
        return gate(old, new, table=X[part], neighbors=K, **known_of)

    with tempfile.TemporaryDirectory() as folder:
        for change in CHANGES:
            pair = versions(learn, change, noisy)
            before, after = map(truth, pair)
            found = judged(
                Path(folder),
                lambda v, f: save_learned(v[0], f, v[1]),
                pair,
                ask,
                np.arange(n_gate // 10),
            )
            yield {"data": name, "draw": number, "change": change, "gain": before - after,
                   "smallest": smallest_gain(before), **found}  # fmt: skip


def generated_searches(number: int, n: int) -> tuple[Array, Array, Relevance]:
    source = Source(np.random.default_rng([7, number]))
    Q, relevance = source.queries(n)
    return Q, source.X, relevance


def generated_rows(number: int, n: int) -> tuple[Array, Array]:
    """Classes with a common covariance, most of it in columns that say nothing."""
    rng = np.random.default_rng([8, number])
    classes, d = int(rng.integers(3, 9)), int(rng.integers(6, 20))
    y = rng.integers(classes, size=n)
    centers = rng.normal(size=(classes, d)) * np.exp(rng.normal(size=d) - 1)
    return centers[y] + rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) / d**0.5, y


def measure(draws: int, n: int, folder: Path | None) -> Iterator[Row]:
    for draw in range(draws):
        yield from searches(
            "searches, generated", draw, *generated_searches(draw, n), (n // 60, n // 20)
        )
        if draw < 0.6 * draws:
            yield from searches(
                "searches, few documents",
                100 + draw,
                *generated_searches(100 + draw, n),
                (n // 60, n // 20),
                few=True,
            )
        for pairs in (False, True):
            name = f"{'pairs' if pairs else 'rows'}, generated"
            data = generated_rows(draw, n)
            yield from rows(name, draw, *data, (n // 64, n // 16), pairs=pairs)
    if folder is not None:
        for _, Q, X, train, test in [next(iter(collections(folder)))]:
            relevance = Relevance(
                np.r_[train.query, test.query], np.r_[train.document, test.document]
            )
            for draw in range(len(TABLES)):
                yield from searches("searches, SciFact", draw, Q, X, relevance, (50, 150))
        for draw, name in enumerate(TABLES):
            X, y = load(f"{name}:scaled")
            some = np.random.default_rng(0).permutation(len(X))[:8000]
            yield from rows("rows, four tables", draw, X[some], y[some], (60, 400))


def stored() -> list[Row]:
    """Return the raw results."""
    return read("gate")


def table(rows: list[Row]) -> str:
    """Return how often each exit code was given, by the truth, in Markdown."""
    lines = [
        "| data | the new version is | pairs of versions | exit 0: better | exit 3 | exit 4: worse "
        "|",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    names = [*dict.fromkeys(row["data"] for row in rows), "all"]
    for name in names:
        own = [row for row in rows if name in ("all", row["data"])]
        for truth, sign in (("better", 1), ("the same", 0), ("worse", -1)):
            some = [
                r for r in own if (r["gain"] > r["smallest"]) - (r["gain"] < -r["smallest"]) == sign
            ]
            cells = [f"{sum(r['exit'] == code for r in some)}" for code in (0, 3, 4)]
            lines.append(f"| {name} | {truth} | {len(some)} | {' | '.join(cells)} |")
    not_better = [row["exit"] == 0 for row in rows if row["gain"] <= row["smallest"]]
    not_worse = [row["exit"] == 4 for row in rows if row["gain"] >= -row["smallest"]]
    refused = [row["refused"] for row in rows]
    lines += [
        "",
        f'False "better": {sum(not_better)} of {len(not_better)}. False "worse": '
        f"{sum(not_worse)} of {len(not_worse)}. Data of which a tenth was learned from were "
        f"refused {sum(refused)} of {len(refused)} times.",
    ]
    return "\n".join(lines)


def main() -> None:
    given = arguments(__doc__)
    found: list[Row] = []
    if given.toy:
        found = list(measure(1, 1200, None))
    else:
        for row in measure(given.splits or DRAWS, 6000, Path(os.environ["NEARFAR_DATA"])):
            found.append({"commit": commit(), **row})
        record("gate", found)
    print(table(found))


if __name__ == "__main__":
    main()
