"""By how much the variance of MAP@R exceeds that of independent rows and classes.

Rows, or classes, are drawn from large tables and ranked by Euclidean distance on standardised
columns. For each table: the variance of MAP@R over draws, divided by the mean estimate of it from
one draw, and how often the 90 % interval holds with several factors. The factors in
`nearfar.measures.registry` come from here.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from nearfar import Metric
from nearfar.evidence.intervals import group_variance, mean_interval
from nearfar.measures import average_precisions
from protocol import Array, commit, load, record
from protocol import stored as stored_rows

ROW_TABLES = ("letter", "optdigits", "waveform", "usps_11000", "newsgroups20_emb256")
CLASS_TABLES = {"clinc150_emb256": (8, 18), "letter": (4, 6), "caltech101_gist_bow": (8, 12)}
ROWS = (150, 400)
ROWS_OF_A_CLASS = 12
FACTORS = (1.0, 2.0, 4.0)

Drawn = tuple[float, float, int]
"""MAP@R, its variance if rows or classes were independent, and their number."""


def rows_drawn(rng: np.random.Generator, X: Array, y: Array, n: int) -> Drawn:
    """Rank in five folds, as a comparison does."""
    rows = rng.choice(len(X), n, replace=False)
    X, y = X[rows], y[rows]
    values = np.full(n, np.nan)
    metric = Metric.identity(X.shape[1])
    for train, test in KFold(5).split(X):
        queries = {"X_query": X[test], "y_query": y[test]}
        values[test] = average_precisions(metric, X[train], y[train], **queries)
    values = values[~np.isnan(values)]
    return float(values.mean()), float(values.var()) / len(values), len(values)


def classes_drawn(rng: np.random.Generator, X: Array, y: Array, n: int) -> Drawn:
    """Rank the rows of some classes among each other."""
    chosen = rng.choice(np.unique(y), n, replace=False)
    rows = np.concatenate(
        [rng.permutation(np.flatnonzero(y == label))[:ROWS_OF_A_CLASS] for label in chosen]
    )
    values = average_precisions(Metric.identity(X.shape[1]), X[rows], y[rows])
    mean = float(values.mean())
    return mean, *group_variance(values - mean, y[rows])


def outcome(unit: str, name: str, n: int, draws: list[Drawn]) -> dict[str, Any]:
    means, variances, _ = (np.array(column) for column in zip(*draws, strict=True))
    found: dict[str, Any] = {
        "unit": unit,
        "table": name,
        "n": n,
        "needed": float(means.var() / variances.mean()),
    }
    for factor in FACTORS:
        ends = [
            mean_interval(mean, factor * variance, number, grouped=unit == "classes")
            for mean, variance, number in draws
        ]
        found[f"holds_{factor:g}"] = float(np.mean([a <= means.mean() <= b for a, b in ends]))
    return found


def stored() -> list[dict[str, Any]]:
    """Read the results that the documentation shows."""
    return stored_rows("map_intervals")


def table(rows: list[dict[str, Any]]) -> str:
    """Return variances and coverage in Markdown."""
    lines = [
        "| drawn | table | number | relative variance | 90 % intervals hold with a factor of "
        + " | ".join(f"{factor:g}" for factor in FACTORS)
        + " |",
        "| --- | --- | --- | --- |" + " --- |" * len(FACTORS),
    ]
    for row in rows:
        shares = [f"{100 * row[f'holds_{factor:g}']:.0f} %" for factor in FACTORS]
        cells = [row["unit"], row["table"], row["n"], f"{row['needed']:.1f}", *shares]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="a few draws of one table")
    parser.add_argument("--draws", type=int, default=300)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    settings: list[tuple[Any, str, str, int]] = [
        (rows_drawn, "rows", name, n) for name in ROW_TABLES for n in ROWS
    ]
    settings += [
        (classes_drawn, "classes", name, n) for name, sizes in CLASS_TABLES.items() for n in sizes
    ]
    if arguments.toy:
        settings, arguments.draws = settings[:1], 5
    found = []
    for draw, unit, name, n in settings:
        X, y = load(f"{name}:scaled")
        draws = [draw(rng, X, y, n) for _ in range(arguments.draws)]
        found.append(outcome(unit, name, n, draws))
        found[-1] |= {"draws": arguments.draws, "commit": commit()}
        print(table(found[-1:]).splitlines()[-1], flush=True)
    if not arguments.toy:
        record("map_intervals", found)


if __name__ == "__main__":
    main()
