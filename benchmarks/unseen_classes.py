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
from nearfar.learners.base import known_learners
from nearfar.learners.scaling import Scaler
from nearfar.learners.selection.scale import choose_scale
from nearfar.measures import average_precision_at_r
from nearfar.supervision import Supervision
from protocol import Array, commit, load, record
from protocol import stored as read

TABLES = {"letter": 60, "orl_32x32": 10, "clinc150_emb256": 20}
"""Rows of each class."""

NOTHING = "nothing"
BY_DEFAULT = ", by default"
_CLEAR = 0.01
LEFT_OUT = ("AutoMetric", "MLKR", "MixtureNCA")
"""Has other candidates, learns from numbers, learns several metrics."""


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


def learners() -> dict[str, Any]:
    """Every learner of a linear metric with its defaults, and validated on classes."""
    found: dict[str, Any] = {}
    for name, cls in known_learners().items():
        if name in LEFT_OUT or "labels" not in cls.supervision or not cls.gives_linear:
            continue
        learner = cls()
        if "random_state" in learner.get_params():
            learner.set_params(random_state=0)
        found[name + BY_DEFAULT] = learner
        found[name] = clone(learner).set_params(validation="classes", validation_fraction=0.2)
    found["AutoMetric" + BY_DEFAULT] = AutoMetric()
    found["AutoMetric"] = AutoMetric(validation="classes")
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


def measure(name: str, seed: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Run every learner on one table."""
    X, y, X_new, y_new = halves(name, seed, 8 if arguments.toy else None)
    rows: list[dict[str, Any]] = []
    chosen = learners()
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
            print(f"{name}, {method}: {error}")
            continue
        cpu = time.process_time() - cpu
        recall, ranked = ranking(metric, X_new, np.unique(y_new, return_inverse=True)[1])
        reference = ranked if reference is None else reference
        differences = ranked - reference
        rows.append(
            {
                "table": name,
                "seed": seed,
                "method": method,
                "recall": float(recall.mean()),
                "map": float(ranked.mean()),
                "p": float(ttest_1samp(differences, 0.0).pvalue) if differences.any() else 1.0,
                "cpu": cpu,
                "parameters": {
                    key: repr(value)
                    for key, value in (learner.get_params() if learner else {}).items()
                },
                "commit": commit(),
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def stored() -> list[dict[str, Any]]:
    """Return the raw results."""
    return read("unseen_classes")


def table(rows: list[dict[str, Any]]) -> str:
    """Return means over the halves in Markdown: by default, and validated on classes."""
    nothing = {(r["table"], r["seed"]): r["map"] for r in rows if r["method"] == NOTHING}
    tables = list(dict.fromkeys(row["table"] for row in rows))

    def mean(method: str, name: str) -> str:
        own = [r["map"] for r in rows if (r["method"], r["table"]) == (method, name)]
        return f"{np.mean(own):.3f}" if own else ""

    def signs(method: str) -> str:
        own = [r for r in rows if r["method"] == method and r["p"] < _CLEAR]
        gains = [r["map"] > nothing[r["table"], r["seed"]] for r in own]
        return f"{gains.count(True)} / {gains.count(False)}"

    heads = [f"{each}: {mean(NOTHING, each)}" for each in tables]
    lines = ["| MAP@R | " + " | ".join(heads) + " | better / worse, rows | classes |"]
    lines.append("| --- |" + " --- |" * (len(tables) + 2))
    methods = dict.fromkeys(r["method"].removesuffix(BY_DEFAULT) for r in rows)
    for method in methods:
        if method != NOTHING:
            cells = [f"{mean(method + BY_DEFAULT, t)} / {mean(method, t)}" for t in tables]
            cells += [signs(method + BY_DEFAULT), signs(method)]
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="few classes, few learners")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    arguments = parser.parse_args()
    if arguments.toy:
        arguments.splits, arguments.tables = 1, ["letter"]
    rows = []
    for name in arguments.tables:
        for seed in range(arguments.splits):
            rows += measure(name, seed, arguments)
    if not arguments.toy:
        record("unseen_classes", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
