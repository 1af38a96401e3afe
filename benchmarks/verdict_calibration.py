"""How often gains of a stated probability are real.

Problems are drawn at random: generated ones, some of which have nothing to gain, and samples of
large tables (from NEARFAR_DATA) with some of their classes and columns. `compare` sees 50 to 500
rows. Thousands of other rows tell the truth: what its best guess, learned from all rows that
`compare` saw, really gains. The reliability table has the share of real gains by stated
probability; the last lines have what is claimed where there is nothing to gain, by verdicts and by
the strict rule (`winner`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest

from nearfar import (
    NCA,
    BoostMetric,
    Comparison,
    DRMetric,
    MaxMarginMetric,
    MetricBoost,
    SparseNCA,
    compare,
    datasets,
)
from nearfar.comparison.gains import smallest_gain
from protocol import Array, load, record

TEST_ROWS = 8000
LARGEST_TABLE = 20_000
MOST_COLUMNS = 40
BINS = (0.0, 0.25, 0.5, 0.75, 0.85, 0.95, 1.0)
TABLES = (
    "adult",
    "artificial_characters",
    "clinc150_emb256",
    "letter",
    "mnist",
    "newsgroups20_emb256",
    "optdigits",
    "segmentation_2310",
    "usps_11000",
    "waveform",
)
NO_GAIN = "no signal"

Random = np.random.Generator
Problem = tuple[Array, Array]


def no_signal(rng: Random, n: int, d: int, c: int) -> Problem:
    """Labels that have nothing to do with the features."""
    return rng.normal(size=(n, d)), rng.integers(c, size=n)


def equal_spread(rng: Random, n: int, d: int, c: int) -> Problem:
    """Classes of the same spread in all directions: Euclidean distance is hard to beat."""
    means = rng.uniform(0.5, 3.0) * rng.normal(size=(c, d)) / np.sqrt(d)
    y = rng.integers(c, size=n)
    return means[y] + rng.normal(size=(n, d)), y


def noise_columns(rng: Random, n: int, d: int, c: int) -> Problem:
    """Columns of different units, some of them without information."""
    k = int(rng.integers(1, d))
    means = np.zeros((c, d))
    means[:, :k] = rng.uniform(1.0, 4.0) * rng.normal(size=(c, k)) / np.sqrt(k)
    y = rng.integers(c, size=n)
    units = np.exp(rng.normal(0, rng.uniform(0, 1), size=d))
    return (means[y] + rng.normal(size=(n, d))) * units, y


def unequal_directions(rng: Random, n: int, d: int, c: int) -> Problem:
    """Classes that differ more in some directions than in others."""
    means = rng.normal(size=(c, d)) * np.exp(rng.normal(0, 0.7, size=d))
    means *= rng.uniform(0.7, 3.0) / np.sqrt((means**2).sum(axis=1).mean())
    y = rng.integers(c, size=n)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (means[y] + rng.normal(size=(n, d))) @ rotation, y


def subspace(rng: Random, n: int, d: int, c: int) -> Problem:
    """Classes in a subspace, with noise in the other directions."""
    X, y, _ = datasets.make_known_metric(
        n,
        d,
        int(rng.integers(1, min(4, d))),
        c,
        separation=rng.uniform(1.0, 4.0),
        noise=rng.uniform(0.5, 4.0),
        random_state=int(rng.integers(1 << 31)),
    )
    return X, y


def circles(rng: Random, n: int, d: int, c: int) -> Problem:
    """Circles around each other in two columns, and noise in the others."""
    noise, seed = rng.uniform(0.1, 0.5), int(rng.integers(1 << 31))
    return datasets.make_circles(n, d, c, noise=noise, random_state=seed)


GENERATED: dict[str, Callable[..., Problem]] = {
    NO_GAIN: no_signal,
    "equal spread": equal_spread,
    "noise columns": noise_columns,
    "unequal directions": unequal_directions,
    "subspace": subspace,
    "circles": circles,
}


@cache
def table(name: str) -> Problem:
    """A large table, its widest ones reduced to principal components."""
    X, y = load(name)
    rows = np.random.default_rng(0).permutation(len(X))[:LARGEST_TABLE]
    X, y = X[rows], np.unique(y[rows], return_inverse=True)[1]
    if X.shape[1] > MOST_COLUMNS:
        X = PCA(MOST_COLUMNS, random_state=0).fit_transform(X)
    return X, y


def part_of_table(rng: Random, name: str) -> Problem:
    """Some classes and columns of a table, in random order."""
    X, y = table(name)
    classes = np.unique(y)
    chosen = rng.choice(classes, int(rng.integers(2, min(len(classes), 8) + 1)), replace=False)
    rows = rng.permutation(np.flatnonzero(np.isin(y, chosen)))
    d = X.shape[1]
    columns = rng.permutation(d)[: int(rng.integers(max(2, d // 3), d + 1))]
    return X[np.ix_(rows, columns)], np.unique(y[rows], return_inverse=True)[1]


def learners(d: int) -> dict[str, Any]:
    """Learners that take little time."""
    quick: dict[str, Any] = {"validation_fraction": None}
    return {
        "BoostMetric": BoostMetric(max_iter=20, **quick),
        "MetricBoost": MetricBoost(max_iter=10, **quick),
        "DRMetric": DRMetric(max_iter=6, **quick),
        "MaxMarginMetric": MaxMarginMetric(random_state=0, **quick),
        "NCA": NCA(max_iter=20, tol=0.01, random_state=0, **quick),
        "SparseNCA": SparseNCA(max_iter=20, random_state=0, **quick),
        "PCA": PCA(max(2, d // 2)),
        "SelectKBest": SelectKBest(k=max(1, d // 2)),
    }


def draw(seed: int, tables: list[str]) -> tuple[str, Array, Array, int]:
    """Return a problem: its kind, rows and labels, and how many of them `compare` sees."""
    rng = np.random.default_rng([1, seed])
    n = int(np.exp(rng.uniform(np.log(50), np.log(500))))
    if tables and seed % 2:
        kind = str(rng.choice(tables))
        X, y = part_of_table(rng, kind)
        n = min(n, len(X) // 2)
    else:
        kind = str(rng.choice(list(GENERATED)))
        X, y = GENERATED[kind](
            rng, n + TEST_ROWS, int(rng.integers(4, 20)), int(rng.integers(2, 6))
        )
    return kind, X[: n + TEST_ROWS], y[: n + TEST_ROWS], n


def outcomes(seed: int, tables: list[str]) -> list[dict[str, Any]]:
    """Compare methods on a problem, and find out what is true; one dict for each goal."""
    kind, X, y, n = draw(seed, tables)
    if len(np.unique(y[:n])) < len(np.unique(y)) or np.bincount(y[:n]).min() < 5:
        return []
    methods = learners(X.shape[1])
    seen = compare(X[:n], y[:n], methods)
    rows = np.arange(len(X))
    truth = compare(X, y, methods, cv=[(rows[:n], rows[n:])])
    return [outcome(kind, n, seen, truth, goal) for goal in ("classification", "ranking")]


def outcome(kind: str, n: int, seen: Comparison, truth: Comparison, goal: Any) -> dict[str, Any]:
    """What a verdict says, and what is true."""
    found, true = seen.by_goal(goal), truth.by_goal(goal)
    verdict = found.verdict
    assert verdict.method is not None
    gain = true.loss(truth[found.reference.name]) - true.loss(truth[verdict.method])
    if kind == NO_GAIN:
        gain = 0.0
    return {
        "kind": kind,
        "rows": n,
        "goal": goal,
        "method": verdict.method,
        "category": verdict.category,
        "probability": verdict.probability,
        "covered": verdict.low <= gain <= verdict.high,
        "true_gain": gain,
        "real": gain > smallest_gain(found.loss(found.reference)),
        "winner": found.winner is not None,
    }


def show(rows: list[dict[str, Any]]) -> None:
    """Print the reliability table, and claims without a gain."""
    goals = ("classification", "ranking")
    print(f"{'stated':>12} {'':>4}{'classification':^24} {'ranking':^24}")
    print(f"{'':>12} {'':>4}" + f"{'problems':>9} {'mean':>6} {'real':>6}  " * 2)
    for low, high in pairwise(BINS):
        cells = []
        for goal in goals:
            mine = [r for r in rows if r["goal"] == goal]
            those = [r for r in mine if low <= r["probability"] < high or r["probability"] == high]
            mean, real = (_share(those, key) for key in ("probability", "real"))
            figures = f"{mean:5.0f}% {real:5.0f}%" if those else f"{'':>13}"
            cells.append(f"{len(those):>9} {figures}")
        print(f"{100 * low:5.0f} to {100 * high:3.0f}%     " + "  ".join(cells))
    for goal in goals:
        mine = [r for r in rows if r["goal"] == goal]
        print(f"{goal}: 90 % intervals cover {_share(mine, 'covered'):.0f} % of the true gains")
        none = [r for r in mine if r["kind"] == NO_GAIN]
        if none:
            claims = {
                "clearly or probably better": [r["category"].endswith(" better") for r in none],
                "clearly better": [r["category"] == "clearly better" for r in none],
                "strict rule": [r["winner"] for r in none],
            }
            shares = [f"{name} {100 * np.mean(claim):.1f} %" for name, claim in claims.items()]
            print(f"  claims in {len(none)} problems without a gain: {', '.join(shares)}")


def _share(rows: list[dict[str, Any]], key: str) -> float:
    return 100 * float(np.mean([row[key] for row in rows])) if rows else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="four generated problems")
    parser.add_argument("--problems", type=int, default=600, help="number of problems [600]")
    parser.add_argument("--first", type=int, default=0, help="seed of the first problem [0]")
    arguments = parser.parse_args()
    known = datasets.available()
    tables = [] if arguments.toy else [name for name in TABLES if name in known]
    count = 4 if arguments.toy else arguments.problems
    rows: list[dict[str, Any]] = []
    for seed in range(arguments.first, arguments.first + count):
        rows += outcomes(seed, tables)
    if not arguments.toy:
        record("verdict_calibration", rows)
    show(rows)


if __name__ == "__main__":
    main()
