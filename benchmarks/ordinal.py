"""`OrdinalEmbedding` beside cblearn on the same triplets: held-out error and CPU seconds.

    shoes       85 shoes, judged by people (zappos_triplets), 2,000 triplets
    eggs        300 shapes, judged by people (alien_eggs_triplets), 6,000 triplets
    plane       100 points of a plane, 2,000 triplets, one in ten at random
    space       100 points in three dimensions, 4,000 triplets without errors

Each has 3,000 other triplets to test on, and five splits. Both libraries run with their defaults
and one thread. cblearn 0.4 needs an environment of its own, whose interpreter is that of --cblearn
or NEARFAR_CBLEARN. Every split of a library is a process; libraries take turns.

    python benchmarks/ordinal.py --cblearn PYTHON [--toy] [--show] [SET ...]

docs/reference/ask.md has the table that this prints.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from nearfar import datasets
from protocol import Array, commit

WORKER = Path(__file__).parent / "workers/ordinal_fit.py"
RESULTS = Path(__file__).parent / "results/ordinal.jsonl"
SETS = {"shoes": (2000, 2), "eggs": (6000, 2), "plane": (2000, 2), "space": (4000, 3)}
"""Triplets to learn from, and coordinates."""
NAMES = {"SOE": "soft ordinal (SOE)", "CKL": "crowd kernel (CKL)", "TSTE": "t-STE"}
SPLITS = 5
N_TEST = 3000
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
Row = dict[str, Any]


def split(name: str, seed: int, most: int | None = None) -> dict[str, Any]:
    """Return triplets to learn from and to test on."""
    n_train, n_components = SETS[name]
    random = np.random.default_rng([seed, 7])
    if name in ("shoes", "eggs"):
        data = datasets.load("zappos_triplets" if name == "shoes" else "alien_eggs_triplets")
        known = random.permutation(np.asarray(data.triplets))
    else:
        known = simulated(random, n_train + N_TEST, n_components, 0.1 if name == "plane" else 0.0)
    train, test = known[N_TEST:][: most or n_train], known[:N_TEST]
    return {"train": train, "test": test, "n_components": n_components, "seed": seed}


def simulated(random: np.random.Generator, n: int, n_components: int, guessed: float) -> Array:
    """Return triplets of 100 points, a share of them at random."""
    P = random.normal(size=(100, n_components))
    index = np.array([random.choice(100, 3, replace=False) for _ in range(n)])
    to_first, to_second = (((P[index[:, 0]] - P[index[:, k]]) ** 2).sum(axis=1) for k in (1, 2))
    right = to_first < to_second
    right = np.where(random.random(n) < guessed, random.random(n) < 0.5, right)
    return np.where(right[:, None], index, index[:, [0, 2, 1]])


def run(library: str, python: str, data: dict[str, Any], folder: Path) -> list[Row]:
    """Fit all methods of a library in a process."""
    path = folder / "triplets.npz"
    np.savez(path, **data)
    command = [python, str(WORKER), library, str(path)]
    environment = os.environ | ONE_THREAD
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def stored() -> list[Row]:
    """Return the raw results."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown: means over splits, and their standard deviations."""
    heads = ["triplets", "method", "cblearn, error %", "nearfar, error %"]
    heads += ["cblearn, s", "nearfar, s"]
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for name in SETS:
        for method, title in NAMES.items():
            cells = {
                (library, field): [
                    row[field]
                    for row in rows
                    if (row["set"], row["method"], row["library"]) == (name, method, library)
                ]
                for library in ("cblearn", "nearfar")
                for field in ("error", "seconds")
            }
            if not all(cells.values()):
                continue
            errors = [
                f"{100 * np.mean(values):.1f} ± {100 * np.std(values):.1f}"
                for (_, field), values in cells.items()
                if field == "error"
            ]
            times = [f"{np.mean(v):.2g}" for (_, field), v in cells.items() if field == "seconds"]
            lines.append(f"| {' | '.join([name, title, *errors, *times])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="one split of few triplets")
    parser.add_argument("--show", action="store_true", help="print the table of stored results")
    parser.add_argument("--cblearn", default=os.environ.get("NEARFAR_CBLEARN"))
    parser.add_argument("--library", action="append", choices=["cblearn", "nearfar"])
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"any of {', '.join(SETS)}")
    options = parser.parse_args()
    if options.show:
        print(table(stored()))
        return
    names = options.sets or (["plane"] if options.toy else list(SETS))
    interpreters = {"cblearn": options.cblearn, "nearfar": sys.executable}
    libraries = options.library or [name for name, python in interpreters.items() if python]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for seed in range(1 if options.toy else SPLITS):
                data = split(name, seed, 300 if options.toy else None)
                for library in libraries:
                    facts = {"set": name, "seed": seed, "commit": commit()}
                    found = run(library, interpreters[library], data, Path(folder))
                    rows += [facts | row for row in found]
    if not options.toy:
        new = {(row["set"], row["library"]) for row in rows}
        kept = stored() if RESULTS.exists() else []
        kept = [row for row in kept if (row["set"], row["library"]) not in new]
        RESULTS.write_text("".join(json.dumps(row) + "\n" for row in [*kept, *rows]))
    print(table(rows))


if __name__ == "__main__":
    main()
