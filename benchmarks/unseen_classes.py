"""Metrics for classes that were not learned from.

On random halves of the classes (at most so many rows of each): every learner with its defaults,
and with ``validation="classes"``. The rows of the other half find each other: recall@1 (the nearest
other row has the class) and MAP@R, beside doing nothing (rows as they are, standardised, or of unit
length, whichever suits the training rows better). The difference in MAP@R is tested by class: the
columns "worse" and "better" count the halves and tables at which it is significant at 1 %.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import numpy as np
from scipy.stats import ttest_1samp
from sklearn.base import clone

from nearfar import AutoMetric, Metric
from nearfar.constraints import Supervision
from nearfar.evaluate import average_precision_at_r
from nearfar.learners.scaler import Scaler
from nearfar.learners.selection.auto import known_learners
from nearfar.learners.selection.scale import choose_scale
from protocol import Array, load, record

TABLES = {"letter": 60, "orl_32x32": 10, "clinc150_emb256": 20}
"""Rows of each class."""

NOTHING = "nothing"
LEFT_OUT = ("AutoMetric", "MLKR", "MixtureNCA", "PSDBoost")
"""Has other candidates, learns from numbers, learns several metrics, takes minutes."""


def halves(name: str, seed: int, most_classes: int | None) -> tuple[Array, Array, Array, Array]:
    """Return rows and labels of the classes to learn from, and of the others."""
    X, y = load(name)
    rng = np.random.RandomState(seed)
    classes = rng.permutation(np.unique(y))[:most_classes]
    rows = np.concatenate(
        [rng.permutation(np.flatnonzero(y == label))[: TABLES[name]] for label in classes]
    )
    seen = np.isin(y[rows], classes[: len(classes) // 2])
    return X[rows[seen]], y[rows[seen]], X[rows[~seen]], y[rows[~seen]]


def learners(budget: float) -> dict[str, Any]:
    """Every learner with its defaults, and validated on classes."""
    found: dict[str, Any] = {}
    for name, cls in known_learners().items():
        if name in LEFT_OUT or "labels" not in cls.supervision:
            continue
        learner = cls()
        if "random_state" in learner.get_params():
            learner.set_params(random_state=0)
        found[f"{name}, by default"] = learner
        found[name] = clone(learner).set_params(validation="classes", validation_fraction=0.2)
    found["AutoMetric, by default"] = AutoMetric(budget=budget)
    found["AutoMetric"] = AutoMetric(validation="classes", budget=budget)
    return found


def ranking(metric: Metric, X: Array, y: Array) -> tuple[Array, Array]:
    """Return recall@1 and average precision at R of each row among the others, by class."""
    distances = metric.distances(X, X)
    np.fill_diagonal(distances, np.inf)
    relevant = np.bincount(y)[y] - 1
    order = np.argsort(distances, axis=1, kind="stable")[:, : relevant.max()]
    hits = y[order] == y[:, None]
    precision = average_precision_at_r(hits, relevant)
    sizes = np.bincount(y)
    return np.bincount(y, hits[:, 0]) / sizes, np.bincount(y, precision) / sizes


def doing_nothing(X: Array, y: Array) -> Metric:
    return Scaler.fit(
        X, choose_scale(X, Supervision.of(y, len(X)), ["unit", "standard", "cosine"])
    ).euclidean


def measure(table: str, seed: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Run every learner on one table."""
    X, y, X_new, y_new = halves(table, seed, 8 if arguments.toy else None)
    rows: list[dict[str, Any]] = []
    chosen = learners(arguments.budget)
    if arguments.toy:
        chosen = {name: chosen[name] for name in ("RCA", "BoostMetric", "AutoMetric")}
    reference = None
    for method, learner in {NOTHING: None, **chosen}.items():
        cpu = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                metric = learner.fit(X, y).metric_ if learner else doing_nothing(X, y)
        except ValueError as error:
            print(f"{table}, {method}: {error}")
            continue
        cpu = time.process_time() - cpu
        recall, ranked = ranking(metric, X_new, np.unique(y_new, return_inverse=True)[1])
        reference = ranked if reference is None else reference
        differences = ranked - reference
        rows.append(
            {
                "table": table,
                "seed": seed,
                "method": method,
                "recall": float(recall.mean()),
                "map": float(ranked.mean()),
                "p": float(ttest_1samp(differences, 0.0).pvalue) if differences.any() else 1.0,
                "cpu": cpu,
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    tables = list(dict.fromkeys(row["table"] for row in rows))
    nothing = {(r["table"], r["seed"]): r["map"] for r in rows if r["method"] == NOTHING}
    print("recall@1 (%) and MAP@R of rows of unseen classes\n")
    print(f"{'':28s}" + "".join(f"{table:>22s}" for table in tables) + "   worse  better")
    for method in dict.fromkeys(row["method"] for row in rows):
        line = f"{method:28s}"
        own = [row for row in rows if row["method"] == method]
        for table in tables:
            mine = [row for row in own if row["table"] == table]
            means = [np.mean([row[key] for row in mine]) for key in ("recall", "map", "cpu")]
            line += f"{100 * means[0]:8.1f} {means[1]:6.3f} {means[2]:5.1f}s"
        signs = [np.sign(r["map"] - nothing[r["table"], r["seed"]]) * (r["p"] < 0.01) for r in own]
        print(f"{line} {signs.count(-1.0):7d} {signs.count(1.0):7d}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="few classes, few learners")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for AutoMetric")
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    arguments = parser.parse_args()
    if arguments.toy:
        arguments.splits, arguments.budget, arguments.tables = 1, 5.0, ["letter"]
    rows = []
    for table in arguments.tables:
        for seed in range(arguments.splits):
            rows += measure(table, seed, arguments)
    if not arguments.toy:
        record("unseen_classes", rows)
    show(rows)


if __name__ == "__main__":
    main()
