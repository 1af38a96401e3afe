"""Answers or nothing: how often cut-offs on the score keep what they promise.

In each draw, a part of the judged queries of SciFact, Cranfield and CLINC150 (NEARFAR_DATA) is
learned from and calibrated on, and the others are the truth. CLINC150 is a search of 3,000
sentences for those of the same intent; sentences that have no intent deserve nothing. With
``answers="unseen"``, the others share no document with those queries. Counted are draws in which
the queries that took no part miss the target, and in which they do so by more than their noise
(5 %, one-sided), for certified cut-offs and for cut-offs that just meet the target on the queries
that were set aside.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from claims_search import collections
from nearfar import Relevance, RetrievalAdapter
from nearfar.search.cutoff import AnswerEvidence, search_target
from nearfar.search.ranking import document_groups
from nearfar.verification import TargetNotCertifiedError
from protocol import Array, commit, load, record
from protocol import stored as read

Problem = tuple[Array, Array, Relevance]

# Collection, kind of documents, targets that it can hope for, and the share that is not the truth.
SETTINGS: list[tuple[str, str, tuple[str, ...], float]] = [
    ("SciFact", "all", ("recall>=0.9", "precision>=0.3"), 0.6),
    ("SciFact", "unseen", ("recall>=0.9", "precision>=0.3"), 0.6),
    ("Cranfield", "all", ("recall>=0.9", "precision>=0.3"), 0.6),
    ("CLINC150", "all", ("recall>=0.8", "precision>=0.8"), 0.5),
    ("CLINC150", "unseen", ("recall>=0.8", "precision>=0.7"), 0.5),
]


def intents() -> Problem:
    """Return CLINC150 with 8 test queries of each intent, and 300 that deserve nothing."""
    X, y = load("clinc150_emb256")
    rng = np.random.RandomState(0)
    rows = [rng.permutation(np.flatnonzero(y == intent)) for intent in range(151)]
    documents = np.concatenate([some[:20] for some in rows[:150]])
    queries = np.concatenate([some[20:28] for some in rows[:150]] + [rows[150][:300]])
    same = y[queries][:, None] == y[documents]
    query, document = np.nonzero(same)
    nothing = np.flatnonzero(~same.any(axis=1))
    grade = np.append(np.ones(len(query)), np.zeros(len(nothing)))
    query, document = np.append(query, nothing), np.append(document, nothing * 0)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    unit = unit.astype(np.float32)
    return unit[queries], unit[documents], Relevance(query, document, grade)


def problems() -> dict[str, Problem]:
    """Return the collections, with all of their judgements."""
    found: dict[str, Problem] = {"CLINC150": intents()}
    for name, Q, X, *parts in collections(Path(os.environ["NEARFAR_DATA"])):
        fields = ("query", "document", "grade")
        merged = [np.concatenate([getattr(part, field) for part in parts]) for field in fields]
        found.setdefault(name, (Q, X, Relevance(*merged)))
    return found


def synthetic(n_queries: int = 240) -> Problem:
    """Return searches in which documents are asked for again, and some deserve nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 16))
    document = rng.integers(0, 100, n_queries)
    Q = X[document] + 0.7 * rng.normal(size=(n_queries, 16))
    grade = np.arange(n_queries) % 6 > 0
    Q[~grade] = rng.normal(size=(n_queries, 16))[~grade]
    return Q, X, Relevance(np.arange(n_queries), document, grade.astype(float))


def parts(relevance: Relevance, kind: str, share: float, rng: Any) -> tuple[Array, Array]:
    """Return queries to learn from and calibrate on, and the others; for unseen, by document."""
    judged = np.unique(relevance.query)
    group = np.arange(len(judged))
    if kind == "unseen":
        group[np.isin(judged, relevance.queries)] = document_groups(relevance) + len(judged)
    names, code = np.unique(group, return_inverse=True)
    order = rng.permutation(len(names))[code]
    first = np.argsort(order, kind="stable")[: round(share * len(judged))]
    known = np.isin(order, order[first])
    return judged[known], judged[~known]


class Truth:
    """What queries that took no part get."""

    def __init__(self, adapter: RetrievalAdapter, Q: Array, X: Array, relevance: Relevance) -> None:
        queries, row = np.unique(relevance.query, return_inverse=True)
        self.scores = adapter.transform_queries(Q[queries]) @ adapter.transform_documents(X).T
        self.relevant = np.zeros(self.scores.shape, dtype=bool)
        self.relevant[row, relevance.document] = relevance.relevant

    def values(self, measure: str, cutoff: float) -> Array:
        """Return the recall or precision of each query; nan if it does not count."""
        found = self.scores >= cutoff
        total = self.relevant if measure == "recall" else found
        with np.errstate(invalid="ignore"):
            return np.asarray((found & self.relevant).sum(axis=1) / total.sum(axis=1))

    def row(self, target: str, cutoff: float) -> dict[str, Any]:
        """Return what is true at a cut-off."""
        bound, sizes = search_target(target), (self.scores >= cutoff).sum(axis=1)
        values = self.values(bound.measure, cutoff)
        values = values[~np.isnan(values)]
        reached = float(values.mean()) if len(values) else None
        noise = 1.645 * values.std() / np.sqrt(max(1, len(values)))
        nothing = ~self.relevant.any(axis=1)
        return {
            "cutoff": cutoff,
            "reached": reached,
            "missed": reached is not None and reached < bound.value,
            "clearly": reached is not None and bool(reached + noise < bound.value),
            "size": float(sizes.mean()),
            "empty": float((sizes == 0).mean()),
            "wrong": float((sizes[nothing] > 0).mean()) if nothing.any() else None,
        }


def naive_cutoff(evidence: AnswerEvidence, target: str) -> float:
    """Return the cut-off at which the queries that were set aside just meet the target."""
    bound = search_target(target)
    figure = evidence.figures(np.full(len(evidence.hits), True))[bound.measure]
    met = np.flatnonzero(figure >= bound.value)
    last = met[-1 if bound.measure == "recall" else 0] if len(met) else -1
    return float(evidence.cutoffs[last])


def draw(
    name: str, problem: Problem, kind: Any, targets: tuple[str, ...], share: float, seed: int
) -> list[dict[str, Any]]:
    """Run one draw."""
    Q, X, relevance = problem
    rng = np.random.RandomState(seed)
    known, others = parts(relevance, kind, share, rng)
    splitter = RetrievalAdapter(answers=kind, random_state=rng)
    split = splitter.set_aside(Q, relevance.subset(known))
    learned, aside = (np.unique(part.query) for part in split)
    # Two folds and half of the iterations: a draw is one fit, and there are many.
    learner = RetrievalAdapter(answers=kind, cv=2, max_iter=6)
    adapter = learner.fit(Q, X, relevance.subset(learned))
    unchanged = RetrievalAdapter(learn=False).fit(Q, X, relevance.subset(known))
    fresh, rows = relevance.subset(others), []
    seen = relevance.sharing(others, learned)
    for target in targets:
        row = {"data": name, "answers": kind, "target": target, "seed": seed, "commit": commit()}
        row["changed"] = adapter.chosen_.helps
        for method, model, queries in (
            ("certified", adapter, aside),
            ("unchanged", unchanged, known),
        ):
            truth, judged = Truth(model, Q, X, fresh), relevance.subset(queries)
            try:
                cutoff = model.set_cutoff(Q, X, judged, target, repeated=True).cutoff_
                assert cutoff is not None
                row[method] = truth.row(target, cutoff.value)
            except TargetNotCertifiedError as error:
                row[method] = None
                row["needed"] = error.queries_needed
                continue
            if model is adapter:
                values = truth.values(search_target(target).measure, cutoff.value)
                for part, some in (("seen", seen), ("unseen", ~seen)):
                    counted = values[some & ~np.isnan(values)]
                    row[part] = float(counted.mean()) if len(counted) else None
        mapped = adapter.transform_queries(Q), adapter.transform_documents(X)
        evidence = AnswerEvidence(*mapped, relevance.subset(aside))
        row["naive"] = Truth(adapter, Q, X, fresh).row(target, naive_cutoff(evidence, target))
        rows.append(row)
    return rows


def stored() -> list[dict[str, Any]]:
    """Return the raw results."""
    return read("answers")


def table(rows: list[dict[str, Any]]) -> str:
    """Return the figures in Markdown."""
    heads = ["data", "`answers`", "target", "certified", "reached", "missed (clearly)", "size"]
    heads += ["no answer", "wrong answers", "naive: missed (clearly)", "size"]
    heads += ["unchanged: missed (clearly)", "size"]
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " --- |" * (len(heads) - 1)]
    for key in dict.fromkeys((row["data"], row["answers"], row["target"]) for row in rows):
        own = [row for row in rows if (row["data"], row["answers"], row["target"]) == key]
        cells = [key[0], key[1], f"`{key[2]}`"]
        for method in ("certified", "naive", "unchanged"):
            found = [row[method] for row in own if row[method] is not None]
            missed, clearly = (sum(each[what] for each in found) for what in ("missed", "clearly"))
            if method == "certified":
                cells += [f"{len(found)} of {len(own)}", mean(found, "reached", "{:.3f}")]
            cells += [f"{missed} of {len(found)} ({clearly})", mean(found, "size", "{:.1f}")]
            if method == "certified":
                cells += [mean(found, "empty", "{:.0%}"), mean(found, "wrong", "{:.0%}")]
        lines.append("| " + " | ".join(cells) + " |")
    seen = [row for row in rows if row["answers"] == "all" and row["data"] == "SciFact"]
    for target in dict.fromkeys(row["target"] for row in seen):
        own = [row for row in seen if row["target"] == target and row["certified"] is not None]
        if own:
            known, new = ([row[part] for row in own] for part in ("seen", "unseen"))
            below = sum(value < search_target(target).value for value in new)
            lines.append(
                f'\nSciFact, `answers="all"`, `{target}`: {np.mean(known):.3f} with seen documents '
                f"and {np.mean(new):.3f} with unseen ones, on average. With unseen ones alone, "
                "which this does not promise, it is below the target in "
                f"{below} of {len(own)} draws."
            )
    return "\n".join(lines)


def mean(rows: list[dict[str, Any]], name: str, pattern: str) -> str:
    """Return the mean of a figure; nothing if there is none."""
    values = [row[name] for row in rows if row[name] is not None]
    return pattern.format(np.mean(values)) if values else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="synthetic searches, few draws")
    parser.add_argument("--draws", type=int, default=50)
    arguments = parser.parse_args()
    settings, draws, found = SETTINGS, arguments.draws, {}
    if arguments.toy:
        settings = [("synthetic", "all", ("recall>=0.8", "precision>=0.5"), 0.6)]
        draws, found = 2, {"synthetic": synthetic()}
    elif "NEARFAR_DATA" not in os.environ:
        sys.exit("Set NEARFAR_DATA to the folder of the collections.")
    found = found or problems()
    rows = []
    for name, kind, targets, share in settings:
        for seed in range(draws):
            rows += draw(name, found[name], kind, targets, share, seed)
        print(name, kind, file=sys.stderr, flush=True)
    if not arguments.toy:
        record("answers", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
