"""How often claims on numbers hold: intervals of R2 and of absolute errors, and gains.

Regimes: a curved function of some of a few columns of different units with normal noise, the same
with the tails of Student's t with three degrees of freedom in columns and noise, 100 rows, 30
groups of eight rows with noise of their own, and the exponential of the numbers. Each draw is a
problem of its own. Fresh rows of the same source, of other groups, tell the truth. Claims:

- the 90 % intervals of R2 and of the mean absolute error in `AutoMetric.expected_`, with three of
  its candidates;
- the expected gain of MLKR over the reference in `compare`, its 90 % interval, and gains that are
  at least 90 % sure.

Constants of `nearfar.learners.selection.expectation` and of the measure R2 were set on 80 other
draws of each regime; results are of draws from number 200. Raw results are appended to
results/claims_numbers.jsonl with commit and parameters, and a run goes on where the last one ended.
--show prints the table from what is there.
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
from nearfar.evidence.gain import smallest_gain
from nearfar.metrics.gallery import Gallery
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


def expected(regime: str, number: int) -> Row:
    """Return what AutoMetric expects of a draw, and the truth."""
    X, y, groups, losses = drawn(regime, number)
    auto = AutoMetric(candidates=list(CANDIDATES), random_state=0).fit(X, y, groups=groups)
    found, (missed, mae) = auto.expected_, losses(auto.metric_, auto.n_neighbors_)
    row: Row = {"k": auto.n_neighbors_, "true r2": 1 - missed, "true mae": mae}
    row["r2"] = [found.value, found.low, found.high]
    return row | {"mae": [found.mae.value, found.mae.low, found.mae.high]}


def gained(regime: str, number: int) -> Row:
    """Return the gain of MLKR that a comparison expects on a draw, and the truth."""
    X, y, groups, losses = drawn(regime, number)
    found = compare(X, y, [MLKR(random_state=0)], groups=groups, n_neighbors=3, classifiers=False)
    goal = found.by_goal("regression")
    methods = {method.name: method for method in default_methods(["MLKR"], supervision="numbers")}
    reference, own = (
        losses(methods[name].learn(X, y), 3)[0] for name in (goal.reference.name, "MLKR")
    )
    gain = goal.gains["MLKR"]
    row: Row = {"gain": [gain.gain, gain.low, gain.high, gain.probability]}
    return row | {"true gain": reference - own, "smallest gain": smallest_gain(reference)}


CLAIMS = {"expected": expected, "gain": gained}


def drawn(regime: str, number: int) -> tuple[Array, Array, Array | None, Callable[..., Any]]:
    """Return rows, numbers and groups, and what tells the true losses of a metric."""
    draw, n = source(np.random.default_rng([number, crc32(regime.encode())]), regime)
    (X, y, groups), (fresh, actual, _) = draw(n), draw(FRESH)

    def losses(metric: Any, k: int) -> tuple[float, float]:
        found = Gallery(metric, X).search(fresh).nearest(k)[1]
        error = y[found].mean(axis=1) - actual
        return float((error**2).mean() / actual.var()), float(np.abs(error).mean())

    return X, y, groups, losses


def run(claims: list[str], regimes: list[str], draws: range) -> None:
    """Measure what is not stored yet."""
    done = {(row["claim"], row["regime"], row["draw"]) for row in stored()}
    for number, regime, claim in itertools.product(draws, regimes, claims):
        if (claim, regime, number) in done:
            continue
        row: Row = {"claim": claim, "regime": regime, "draw": number}
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row |= CLAIMS[claim](regime, number)
        row |= {"cpu": time.process_time() - start, "commit": commit()}
        row["parameters"] = {"candidates": CANDIDATES, "fresh": FRESH}
        with RESULTS.open("a") as file:
            file.write(json.dumps(row) + "\n")


def stored() -> list[Row]:
    """Return the raw results."""
    return (
        [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    )


def table(rows: list[Row]) -> str:
    """Return how often claims hold, in Markdown."""
    lines = [
        "| regime | draws | R² holds | true R² below | MAE holds | gains hold | true gain below "
        "| 90 % sure | of these real |",
        "| --- |" + " --- |" * 8,
    ]
    for regime in REGIMES:
        of = [row for row in rows if row["regime"] == regime]
        sure = [row for row in of if row["claim"] == "gain" and row["gain"][3] >= SURE]
        real = sum(row["true gain"] >= row["smallest gain"] for row in sure)

        def share(name: str, *, below: bool = False, of: list[Row] = of) -> str:
            able = [(row[name], row[f"true {name}"]) for row in of if name in row]
            held = [true < c[1] if below else c[1] <= true <= c[2] for c, true in able]
            return f"{100 * np.mean(held):.0f} %" if held else ""

        cells = [regime, str(sum(row["claim"] == "expected" for row in of)), share("r2")]
        cells += [share("r2", below=True), share("mae"), share("gain"), share("gain", below=True)]
        lines.append(f"| {' | '.join([*cells, str(len(sure)), str(real)])} |")
    return "\n".join(lines)


def main() -> None:
    global RESULTS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="a small run that shows it works")
    parser.add_argument("--show", action="store_true", help="print the table of stored results")
    parser.add_argument("--regimes", nargs="+", default=list(REGIMES), choices=REGIMES)
    parser.add_argument("--claims", nargs="+", default=list(CLAIMS), choices=list(CLAIMS))
    arguments = parser.parse_args()
    if arguments.toy:
        RESULTS = Path(tempfile.mkdtemp()) / "claims_numbers.jsonl"
        run(list(CLAIMS), ["100 rows"], range(1))
    elif not arguments.show:
        run(arguments.claims, arguments.regimes, range(FIRST, FIRST + DRAWS))
    print(table(stored()))


if __name__ == "__main__":
    main()
