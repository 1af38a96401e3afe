"""How often the interval of `AutoMetric.expected_` holds.

Draws of a few hundred rows from large tables. The truth is the error of three nearest neighbours
on thousands of rows that were not drawn, under `metric_`, with all drawn rows as neighbours. For
`validation="classes"` it is MAP@R of rows of classes that were not drawn, as many classes at a time
as the fit puts aside. 90 % intervals should hold in about 90 % of the draws.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from nearfar import AutoMetric
from nearfar.evaluate import map_at_r
from protocol import commit, load, record
from protocol import stored as read

TABLES = ("letter", "optdigits", "waveform", "usps_11000", "newsgroups20_emb256")
CLASS_TABLES = ("clinc150_emb256", "letter", "caltech101_gist_bow")
FRESH_ROWS = 3000
ROWS_OF_A_CLASS = 12


def rows_drawn(seed: int, tables: tuple[str, ...], budget: float) -> dict[str, Any]:
    """Fit to drawn rows, and look at fresh ones."""
    rng = np.random.RandomState(seed)
    name = tables[seed % len(tables)]
    X, y = load(name)
    n = int(rng.choice([200, 400, 800]))
    order = rng.permutation(len(X))
    drawn, fresh = order[:n], order[n : n + FRESH_ROWS]
    auto = fitted(AutoMetric(budget=budget), X[drawn], y[drawn])
    voters = KNeighborsClassifier(3).fit(auto.transform(X[drawn]), y[drawn])
    truth = float((voters.predict(auto.transform(X[fresh])) != y[fresh]).mean())
    return outcome(name, n, auto, truth)


def classes_drawn(seed: int, tables: tuple[str, ...], budget: float) -> dict[str, Any]:
    """Fit to drawn classes, and look at the others."""
    rng = np.random.RandomState(seed)
    name = tables[seed % len(tables)]
    X, y = load(name)
    classes = rng.permutation(np.unique(y))
    half = len(classes) // 2
    drawn, fresh = classes[:half], classes[half:]
    rows = {
        label: rng.permutation(np.flatnonzero(y == label))[:ROWS_OF_A_CLASS] for label in classes
    }
    known = np.concatenate([rows[label] for label in drawn])
    auto = fitted(AutoMetric(validation="classes", budget=budget), X[known], y[known])
    found = []
    for _ in range(20):
        asked = rng.permutation(fresh)[: round(half / 4)]
        new = np.concatenate([rows[label] for label in asked])
        found.append(map_at_r(auto.metric_, X[new], y[new]))
    return outcome(name, len(known), auto, float(np.mean(found)))


def fitted(auto: AutoMetric, X: Any, y: Any) -> AutoMetric:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return auto.fit(X, y)


def outcome(name: str, n: int, auto: AutoMetric, truth: float) -> dict[str, Any]:
    found = auto.expected_
    assert found is not None
    return {
        "table": name,
        "rows": n,
        "measure": found.measure,
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "truth": truth,
        "holds": found.low <= truth <= found.high,
        "parameters": {key: repr(value) for key, value in auto.get_params().items()},
        "commit": commit(),
    }


def stored() -> list[dict[str, Any]]:
    """Return the raw results."""
    return read("expected")


def table(rows: list[dict[str, Any]]) -> str:
    """Return how often intervals hold, and the mean difference, in Markdown."""
    lines = ["| | draws | interval holds | truth above it | expected less true |"]
    lines.append("| --- |" + " --- |" * 4)
    for measure in dict.fromkeys(row["measure"] for row in rows):
        mine = [row for row in rows if row["measure"] == measure]
        held = np.mean([row["holds"] for row in mine])
        above = np.mean([row["truth"] > row["high"] for row in mine])
        bias = np.mean([row["value"] - row["truth"] for row in mine])
        lines.append(f"| {measure} | {len(mine)} | {held:.0%} | {above:.0%} | {bias:+.4f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="one draw")
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--budget", type=float, default=15.0, help="seconds for AutoMetric")
    arguments = parser.parse_args()
    if arguments.toy:
        arguments.budget = 2.0
    rows = []
    for seed in range(1 if arguments.toy else arguments.draws):
        rows.append(rows_drawn(seed, TABLES, arguments.budget))
        if not arguments.toy:
            rows.append(classes_drawn(seed, CLASS_TABLES, arguments.budget))
    if not arguments.toy:
        record("expected", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
