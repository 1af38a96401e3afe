"""What is lost if a forest is searched by dense vectors, with faiss.

Two tables of KEEL as benchmarks/beyond_linear.py reads them (NEARFAR_KEEL names their folder), in
three stratified 70/30 splits. Exact neighbours are those by the share of trees with a common leaf.
Recall is the share of the ten nearest training rows of a test row that a search finds, where rows
that are as near as the tenth count, too. The error is that of a vote of three neighbours.

    python benchmarks/leaf_search.py [--toy]
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

import numpy as np

from beyond_linear import cells, prepared
from nearfar import ForestMetric
from nearfar.measures.neighbor_votes import majority
from nearfar.metrics.feature_maps import LeafMap
from protocol import Array, arguments, commit, load, record, splits
from protocol import stored as read

TABLES = ("keel/segment", "keel/vehicle")
WIDTHS = (64, 128, 256)
K, VOTERS = 10, 3
EXACT = "exact"


def measure(name: str, split: int, X: Array, y: Array, train: Array, test: Array) -> list[Any]:
    metric = ForestMetric(random_state=0).fit(X[train], y[train]).metric_
    leaves = metric.feature_map
    assert isinstance(leaves, LeafMap)
    rows = leaves.leaves(X[train])
    distances = np.array([(rows != own).mean(axis=1) for own in leaves.leaves(X[test])])
    found = {EXACT: np.argsort(distances, axis=1, kind="stable")[:, :K]}
    for width in WIDTHS:
        if width <= metric.n_components:
            narrow = metric.narrowed(X[train], width)
            found[f"{width} dimensions"] = narrow.to_faiss(X[train]).search(X[test], K)[1]
    tenth = np.sort(distances, axis=1)[:, K - 1 : K]
    return [
        {
            "table": name,
            "split": split,
            "search": search,
            "recall": float((np.take_along_axis(distances, nearest, 1) <= tenth).mean()),
            "error": float((majority(y[train][nearest[:, :VOTERS]]) != y[test]).mean()),
            "commit": commit(),
        }
        for search, nearest in found.items()
    ]


def stored() -> list[dict[str, Any]]:
    """Return the raw results."""
    return read("leaf_search")


def table(rows: list[dict[str, Any]]) -> str:
    """Return mean recall and error by search, in Markdown."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["search"], row["table"]].append(row)
    names = list(dict.fromkeys(row["table"] for row in rows))
    heads = [
        f"{name.removeprefix('keel/')}, {what}" for name in names for what in ("recall", "error")
    ]
    lines = ["| search | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    for search in dict.fromkeys(row["search"] for row in rows):
        cells = [
            f"{np.mean([row['recall'] for row in own]):.2f} | "
            f"{100 * np.mean([row['error'] for row in own]):.1f} %"
            for own in (groups[search, name] for name in names)
        ]
        lines.append(f"| {search} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    given = arguments(__doc__)
    rows = []
    if given.toy:
        X, y = load("circles")
        train, test = next(splits(y, 1))
        rows = measure("circles", 0, X, np.unique(y, return_inverse=True)[1], train, test)
    else:
        for name in TABLES:
            numbers, words, y = cells(name, os.environ["NEARFAR_KEEL"], None)
            for split, (train, test) in enumerate(splits(y, given.splits or 3)):
                X = prepared(numbers, words, train)
                rows += measure(name, split, X, y, train, test)
        record("leaf_search", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
