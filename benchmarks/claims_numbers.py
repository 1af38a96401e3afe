"""How often claims on numbers hold: intervals of R2 and of absolute errors, and gains.

Regimes: a curved function of some of a few columns of different units with normal noise, the same
with the tails of Student's t with three degrees of freedom in columns and noise, 100 rows, 30
groups of eight rows with noise of their own, and the exponential of the numbers. Each draw is a
problem of its own. Fresh rows of the same source, of other groups, tell the truth. Claims:

- the 90 % intervals of R2 and of the mean absolute error in `AutoMetric.expected_`, with three of
  its candidates;
- the expected gain of MLKR over the reference in `compare`, its 90 % interval, and gains that are
  at least 90 % sure.

The first 80 draws set constants of `nearfar.learners.selection.expectation`; results are of draws
from number 200. Raw results are appended to results/claims_numbers.jsonl with commit and
parameters, and a run goes on where the last one ended. --show prints the table from what is there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from nearfar import MLKR, AutoMetric, compare
from nearfar.comparison import default_methods
from nearfar.comparison.gains import smallest_gain
from nearfar.metrics.search import Gallery
from protocol import Array, commit

RESULTS = Path(__file__).parent / "results" / "claims_numbers.jsonl"
FIRST, DRAWS, FRESH = 200, 200, 4000
REGIMES = ("normal", "tails", "100 rows", "groups", "skewed")
CANDIDATES = ("InverseCovariance", "MLKR", "PiecewiseMetric")
SURE = 0.9
Row = dict[str, Any]


def source(rng: np.random.Generator, regime: str) -> tuple[Callable[[int], Any], int]:
    """Return what draws rows, numbers and groups, and how many rows to learn from."""
    d = int(rng.integers(4, 9))
    k = int(rng.integers(1, d))
    units = np.exp(rng.normal(0, rng.uniform(0, 1), d))
    slopes, bends = rng.normal(size=k), rng.normal(size=(k, k)) / k
    noise, n_rows = rng.uniform(0.2, 1.5), int(rng.integers(100, 401))

    def values(*shape: int) -> Array:
        return rng.standard_t(3, size=shape) if regime == "tails" else rng.normal(size=shape)

    def draw(n: int) -> tuple[Array, Array, Array | None]:
        Z, error, groups = values(n, d), values(n), None
        if regime == "groups":
            groups = np.repeat(np.arange(n // 8), 8)
            Z = 0.8 * values(n // 8, d)[groups] + 0.6 * Z
            error = 0.8 * values(n // 8)[groups] + 0.6 * error
        S = Z[:, :k]
        y = S @ slopes + np.einsum("ij,jk,ik->i", np.tanh(S), bends, S) + np.sin(2 * S[:, 0])
        y = y + noise * error
        return Z * units, np.exp(y / 2) if regime == "skewed" else y, groups

    return draw, {"100 rows": 100, "groups": 240}.get(regime, n_rows)


def claims(regime: str, number: int) -> Row:
    """Return what is claimed of a draw, and the truth."""
    rng = np.random.default_rng([number, crc32(regime.encode())])
    draw, n = source(rng, regime)
    (X, y, groups), (fresh, actual, _) = draw(n), draw(FRESH)

    def losses(metric: Any, k: int) -> tuple[float, float]:
        found = Gallery(metric, X).search(fresh).nearest(k)[1]
        error = y[found].mean(axis=1) - actual
        return float((error**2).mean() / actual.var()), float(np.abs(error).mean())

    auto = AutoMetric(candidates=list(CANDIDATES), random_state=0).fit(X, y, groups=groups)
    expected, (missed, mae) = auto.expected_, losses(auto.metric_, auto.n_neighbors_)
    row: Row = {"k": auto.n_neighbors_, "true r2": 1 - missed, "true mae": mae}
    row["r2"] = [expected.value, expected.low, expected.high]
    row["mae"] = [expected.mae.value, expected.mae.low, expected.mae.high]
    goal = compare(X, y, [MLKR(random_state=0)], groups=groups, classifiers=False).goals[
        "regression"
    ]
    methods = {method.name: method for method in default_methods(["MLKR"], supervision="numbers")}
    reference, own = (
        losses(methods[name].learn(X, y), 3)[0] for name in (goal.reference.name, "MLKR")
    )
    gain = goal.gains["MLKR"]
    row["gain"] = [gain.gain, gain.low, gain.high, gain.probability]
    return row | {"true gain": reference - own, "smallest gain": smallest_gain(reference)}


def run(regimes: list[str], draws: range) -> None:
    """Measure what is not stored yet."""
    done = {(row["regime"], row["draw"]) for row in stored()}
    for number, regime in itertools.product(draws, regimes):
        if (regime, number) in done:
            continue
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row = {"regime": regime, "draw": number, **claims(regime, number)}
        row |= {"cpu": time.process_time() - start, "commit": commit()}
        row["parameters"] = {"candidates": CANDIDATES, "fresh": FRESH}
        with RESULTS.open("a") as file:
            file.write(json.dumps(row) + "\n")


def stored() -> list[Row]:
    """Return the raw results."""
    return (
        [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    )


def table() -> str:
    """Return how often claims hold, in Markdown."""
    heads = ["regime", "draws", "R2", "MAE", "gain", "gains at least 90 % sure", "of these real"]
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " ---: |" * (len(heads) - 1)]
    for regime in REGIMES:
        rows = [row for row in stored() if row["regime"] == regime]
        if not rows:
            continue
        held = [
            np.mean([row[name][1] <= row[f"true {name}"] <= row[name][2] for row in rows])
            for name in ("r2", "mae", "gain")
        ]
        sure = [row for row in rows if row["gain"][3] >= SURE]
        real = sum(row["true gain"] >= row["smallest gain"] for row in sure)
        shares = " | ".join(f"{100 * share:.1f} %" for share in held)
        lines.append(f"| {regime} | {len(rows)} | {shares} | {len(sure)} | {real} |")
    return "\n".join(lines)


def main() -> None:
    global RESULTS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="a small run that shows it works")
    parser.add_argument("--show", action="store_true", help="print the table of stored results")
    parser.add_argument("--regimes", nargs="+", default=list(REGIMES), choices=REGIMES)
    arguments = parser.parse_args()
    if arguments.toy:
        RESULTS = Path(tempfile.mkdtemp()) / "claims_numbers.jsonl"
        run(["100 rows"], range(1))
    elif not arguments.show:
        run(arguments.regimes, range(FIRST, FIRST + DRAWS))
    print(table())


if __name__ == "__main__":
    main()
