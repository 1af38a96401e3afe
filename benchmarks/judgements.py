"""Learning from triplets and pairs: accuracy on judgements that were held out.

Human triplets: shoes (zappos_triplets, principal components of 4,096 picture features) and egg
shapes (alien_eggs_triplets, one feature). A fifth of the anchors is held out. Pairs: of letters and
of faces, whose classes are split in two, so that test pairs show unseen classes; the measure is the
probability that a similar pair is nearer than a dissimilar one.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

from nearfar import AutoMetric, Metric, Pairs, Triplets, datasets
from nearfar.learners.base import known_learners
from nearfar.measures import triplet_accuracy
from protocol import Array, commit, load, record
from protocol import stored as read

TABLES = {
    "zappos_triplets": "triplets of 85 shoes, unseen anchors",
    "alien_eggs_triplets": "triplets of 300 egg shapes, one feature",
    "letter": "pairs of letters, unseen classes (AUC)",
    "orl_32x32": "pairs of faces, unseen persons (AUC)",
}
MOST_TRIPLETS = 20_000
MOST_COMPONENTS = 60


def triplets(name: str, seed: int) -> tuple[Array, Triplets, Triplets]:
    """Rows, triplets to learn from, and triplets of other anchors."""
    data = datasets.load(name)
    X = np.asarray(data.X, dtype=np.float64)
    if X.shape[1] > MOST_COMPONENTS:
        X = PCA(MOST_COMPONENTS, random_state=0).fit_transform(X)
    rng = np.random.RandomState(seed)
    index = np.asarray(data.triplets)
    index = index[rng.permutation(len(index))[:MOST_TRIPLETS]]
    held_out = np.isin(index[:, 0], rng.permutation(len(X))[: len(X) // 5])
    return X, Triplets(index[~held_out]), Triplets(index[held_out])


def pairs(name: str, seed: int, n_pairs: int = 2000) -> tuple[Array, Pairs, Pairs]:
    """Rows, pairs of half of the classes, and pairs of the others."""
    X, y = load(name)
    rng = np.random.RandomState(seed)
    if X.shape[1] > MOST_COMPONENTS:
        X = PCA(MOST_COMPONENTS, random_state=0).fit_transform(X)
    seen = rng.permutation(np.unique(y))[::2]
    found = []
    for rows in (np.flatnonzero(np.isin(y, seen)), np.flatnonzero(~np.isin(y, seen))):
        a = rng.choice(rows, 40 * n_pairs)
        b = rng.choice(rows, 40 * n_pairs)
        same = (y[a] == y[b]) & (a != b)
        kept = np.concatenate(
            [np.flatnonzero(same)[: n_pairs // 2], np.flatnonzero(y[a] != y[b])[: n_pairs // 2]]
        )
        found.append(Pairs(np.column_stack([a, b])[kept], similar=same[kept]))
    return X, found[0], found[1]


def accuracy(metric: Metric, X: Array, held_out: Triplets | Pairs) -> float:
    if isinstance(held_out, Triplets):
        return triplet_accuracy(metric, X, held_out)
    distances = metric.pair_distances(X, held_out.index)
    return float(roc_auc_score(held_out.similar, -distances))


def measure(name: str, seed: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Run every learner on one table."""
    judged = triplets if name.endswith("triplets") else pairs
    X, known, held_out = judged(name, seed)
    kind = "triplets" if isinstance(known, Triplets) else "pairs"
    learners: dict[str, Any] = {"Euclidean": None}
    learners |= {name: cls() for name, cls in known_learners().items() if kind in cls.supervision}
    learners["AutoMetric"] = AutoMetric(budget=3.0) if arguments.toy else AutoMetric()
    if arguments.toy:
        learners = {name: learners[name] for name in ("Euclidean", "LSML", "AutoMetric")}
    rows: list[dict[str, Any]] = []
    for method, learner in learners.items():
        cpu = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            metric = learner.fit(X, known).metric_ if learner else Metric(np.eye(X.shape[1]))
        row = {"table": name, "seed": seed, "method": method, "cpu": time.process_time() - cpu}
        parameters = learner.get_params() if learner else {}
        rows.append(
            row
            | {
                "accuracy": accuracy(metric, X, held_out),
                "parameters": {key: repr(value) for key, value in parameters.items()},
                "commit": commit(),
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def stored() -> list[dict[str, Any]]:
    """Return the raw results."""
    return read("judgements")


def table(rows: list[dict[str, Any]]) -> str:
    """Return means over the splits in Markdown: percent, and CPU seconds."""
    tables = list(dict.fromkeys(row["table"] for row in rows))
    lines = ["| % right, CPU seconds | " + " | ".join(TABLES[each] for each in tables) + " |"]
    lines.append("| --- |" + " --- |" * len(tables))
    for method in dict.fromkeys(row["method"] for row in rows):
        cells = []
        for each in tables:
            mine = [r for r in rows if (r["method"], r["table"]) == (method, each)]
            means = [np.mean([row[key] for row in mine]) for key in ("accuracy", "cpu") if mine]
            cells.append(f"{100 * means[0]:.1f}, {means[1]:.1f} s" if mine else "")
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="egg shapes only, few learners")
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()
    tables = list(TABLES)
    if arguments.toy:
        arguments.splits, tables = 1, ["alien_eggs_triplets"]
    rows = []
    for name in tables:
        for seed in range(arguments.splits):
            rows += measure(name, seed, arguments)
    if not arguments.toy:
        record("judgements", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
