"""How often `AutoMetric.expected_` holds for classes that were not learned from.

In each draw, AutoMetric learns from some classes with ``validation="classes"``, and says which
MAP@R to expect of as many rows of as many new classes. The truth is the mean MAP@R of sets of so
many other classes of the same source. Sources:

- centres: classes are normally distributed around centres that differ in some of twelve columns of
  different units;
- heavy tails: the same with Student's t of two degrees of freedom;
- intents: sentence vectors of intents (CLINC150);
- pictures: GIST vectors of the categories of Caltech-101.

The last two are in the folder NEARFAR_DATA. Raw results are appended to
results/claims_classes.jsonl with commit and parameters, and a run goes on where the last one ended.
--show prints the table in docs/reference/claims.md from what is there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

import nearfar
from nearfar import AutoMetric
from nearfar.learners.scaling import Scaler
from nearfar.measures import map_at_r
from protocol import Array, commit
from protocol import load as load_table

RESULTS = Path(__file__).parent / "results" / "claims_classes.jsonl"
DRAWS = 200
CANDIDATES = ("RCA", "LDA", "GMML")
FRESH_SETS = 10
load = cache(load_table)
Random = np.random.Generator
Row = dict[str, Any]
Source = Callable[[Random], tuple[int, int, Array, Array]]
"""Random numbers -> classes to learn from, rows of each, and rows and labels of all classes."""


def centres(rng: Random, *, tails: bool = False) -> tuple[int, int, Array, Array]:
    n, n_rows = 20, 10
    place = rng.normal(size=(12 * n, 12)) * (np.arange(12) < 6)
    y = np.repeat(np.arange(12 * n), n_rows)
    size = (len(y), 12)
    noise = rng.uniform(0.3, 0.9) * (rng.standard_t(2, size) if tails else rng.normal(size=size))
    return n, n_rows, (place[y] + noise) * np.exp(rng.normal(size=12)), y


def rows_from(name: str, n: int, n_rows: int, _: Random) -> tuple[int, int, Array, Array]:
    X, y = load(name)
    inside = y < 150 if name == "clinc150_emb256" else np.ones(len(y), dtype=bool)
    return n, n_rows, X[inside], y[inside]


SOURCES: dict[str, Source] = {
    "centres": centres,
    "heavy tails": partial(centres, tails=True),
    "intents": partial(rows_from, "clinc150_emb256", 38, 10),
    "pictures": partial(rows_from, "caltech101_gist_bow", 34, 10),
}
TOY = ("centres", "heavy tails")


def outcome(name: str, number: int) -> Row:
    """Run one draw of a source."""
    rng = np.random.default_rng([number, crc32(name.encode())])
    n, n_rows, X, y = SOURCES[name](rng)
    classes = rng.permutation(np.unique(y))

    def rows_of(chosen: Array) -> Array:
        each = (rng.permutation(np.flatnonzero(y == label))[:n_rows] for label in chosen)
        return np.concatenate(list(each))

    known = rows_of(classes[:n])
    auto = AutoMetric(candidates=CANDIDATES, validation="classes")
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        auto.fit(X[known], y[known])
    cpu = time.process_time() - start
    found = auto.expected_
    assert found is not None
    metrics = {"": auto.metric_, "baseline_": Scaler.fit(X[known], auto.scale_).euclidean}
    truths: dict[str, list[float]] = {key: [] for key in metrics}
    for _ in range(FRESH_SETS):
        fresh = rows_of(rng.permutation(classes[n:])[:n])
        for key, metric in metrics.items():
            truths[key].append(map_at_r(metric, X[fresh], y[fresh]))
    return {
        "source": name,
        "draw": number,
        **{key: getattr(found, key) for key in ("value", "low", "high", "rows", "classes", "n")},
        **{key: getattr(found, key) for key in ("baseline", "baseline_low", "baseline_high")},
        **{f"{key}truth": float(np.mean(each)) for key, each in truths.items()},
        "cpu": round(cpu, 3),
        "commit": commit(Path(nearfar.__file__).parent),
        "parameters": repr(auto),
    }


def stored() -> list[Row]:
    """Return the raw results."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def table_lines(rows: list[Row]) -> Iterator[str]:
    yield (
        "| new classes | draws | among | MAP@R expected | true | intervals hold | too high "
        "| without learning, expected | true | intervals hold |"
    )
    yield "| --- |" + " --- |" * 9
    for name in dict.fromkeys(row["source"] for row in rows):
        these = [row for row in rows if row["source"] == name]
        cells = [name, len(these), f"{these[0]['rows']} rows of {these[0]['classes']} classes"]
        for key in ("", "baseline_"):
            low, high, truth = (
                np.array([row[f"{key}{each}"] for row in these])
                for each in ("low", "high", "truth")
            )
            value = np.mean([row[key.removesuffix("_") or "value"] for row in these])
            held = f"{100 * np.mean((low <= truth) & (truth <= high)):.0f} %"
            cells += [f"{value:.3f}", f"{truth.mean():.3f}", held]
            cells += [] if key else [f"{100 * np.mean(truth < low):.0f} %"]
        yield "| " + " | ".join(map(str, cells)) + " |"


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown."""
    return "\n".join(table_lines(rows))


def main() -> None:
    """Run, store and print."""
    global RESULTS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="one draw of generated classes")
    parser.add_argument("--draws", type=int, default=DRAWS, help="draws of each source")
    parser.add_argument("--sources", nargs="*", default=list(SOURCES))
    parser.add_argument("--show", action="store_true", help="only print what is there")
    arguments = parser.parse_args()
    if arguments.toy:
        RESULTS = Path(tempfile.mkdtemp()) / "claims_classes.jsonl"
        arguments.draws, arguments.sources = 1, list(TOY)
    if not arguments.show:
        RESULTS.parent.mkdir(exist_ok=True)
        done = {(row["source"], row["draw"]) for row in stored()}
        with RESULTS.open("a") as file:
            for number in range(arguments.draws):
                for name in arguments.sources:
                    if (name, number) not in done:
                        row = outcome(name, number)
                        rounded = {
                            key: round(value, 6) if isinstance(value, float) else value
                            for key, value in row.items()
                        }
                        file.write(json.dumps(rounded) + "\n")
                        file.flush()
    print(table(stored()))


if __name__ == "__main__":
    main()
