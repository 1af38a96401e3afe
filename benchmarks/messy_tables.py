"""How many columns of messy tables are taken right: as numbers, categories, dates, or left out.

    python benchmarks/messy_tables.py [--toy] [--before SRC] [--skrub PYTHON]

The tables are made here, each with the right answer for every column; three of them were written
before the code that reads them (`messy/first_three.py`). `messy/scoring.py` says what is right.
Each table is read with 1,474 rows and with its first 1,200. `--before` also measures another
version of nearfar, by the folder of its source, and `--skrub` the TableVectorizer of skrub, by a
Python that has it. Results of systems that are not measured again are kept. Seconds are CPU time.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from messy import TABLES
from messy.answers import MessyTable
from messy.scoring import is_right
from protocol import commit, record

ROWS, FEWER_ROWS = 1474, 1200
HERE = Path(__file__).parent
RESULTS = HERE / "results/messy_tables.jsonl"

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="a small run that shows it works")
    parser.add_argument("--before", type=Path, help="source folder of another version of nearfar")
    parser.add_argument("--skrub", type=Path, help="a Python that has skrub")
    args = parser.parse_args()
    systems: dict[str, tuple[Path, Path | None]] = {
        "after": (Path(sys.executable), HERE / "../src")
    }
    if args.before:
        systems["before"] = (Path(sys.executable), args.before)
    if args.skrub:
        systems["skrub"] = (args.skrub, None)
    name = "messy_tables_toy" if args.toy else "messy_tables"
    path = RESULTS.with_name(f"{name}.jsonl")
    rows = [row for row in stored(path) if row["system"] not in systems]
    for system, (python, source) in systems.items():
        rows += measure(system, python, source, n_tables=2 if args.toy else len(TABLES))
    record(name, rows)
    print(table(rows))


def measure(system: str, python: Path, source: Path | None, n_tables: int) -> list[Row]:
    """Read all tables with one system, in a process of its own."""
    rows = []
    known = None if source is None else commit(source)
    for n_rows in (ROWS, FEWER_ROWS):
        tables = [make(ROWS) for make in TABLES[:n_tables]]
        with tempfile.TemporaryDirectory() as name:
            for number, made in enumerate(tables):
                write(made, Path(name) / f"{number}.csv", n_rows)
            environment = dict(os.environ) | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            if source is not None:
                environment["PYTHONPATH"] = str(source.resolve())
            worker = HERE / "workers/read_columns.py"
            command = [python, worker, "nearfar" if source else "skrub", name]
            subprocess.run(command, check=True, env=environment)
            for number, made in enumerate(tables):
                found = score(made, Path(name) / f"{number}.csv", n_rows)
                setting = {
                    "system": system,
                    "table": made.name,
                    "rows": n_rows,
                    "commit": known,
                }
                rows.append(setting | found)
    return rows


def write(made: MessyTable, path: Path, n_rows: int) -> None:
    """Write the features of the first rows."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*made.answers, "(a number)"])
        cells = zip(*(made.cells[name] for name in made.answers), strict=True)
        writer.writerows((*row, f"{n % 7}.5") for n, row in enumerate(cells) if n < n_rows)


def score(made: MessyTable, path: Path, n_rows: int) -> Row:
    """Compare what the columns became with the answers."""
    found = json.loads(path.with_suffix(".json").read_text())
    with np.load(path.with_suffix(".npz")) as arrays:
        features = {name: arrays[str(n)] for n, name in enumerate(found["names"])}
    right = {
        name: is_right(answer.head(n_rows), features.get(name)) and name not in found["errors"]
        for name, answer in made.answers.items()
    }
    return {
        "right": [name for name, fits in right.items() if fits],
        "wrong": {n: found["kinds"].get(n, "left out") for n, fits in right.items() if not fits},
        "features": sum(F.shape[1] for F in features.values()),
        **{key: found[key] for key in ("kinds", "errors", "seconds", "versions")},
    }


def stored(path: Path = RESULTS) -> list[Row]:
    """Read the raw results."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown, derived from raw results."""
    systems = [s for s in ("before", "after", "skrub") if any(r["system"] == s for r in rows)]
    names = list(dict.fromkeys(row["table"] for row in rows))
    by = {(row["system"], row["table"], row["rows"]): row for row in rows}
    lines = [
        "| table | columns | " + " | ".join(systems) + " |",
        "| --- | --- |" + " --- |" * len(systems),
    ]
    total = 0
    for name in names:
        full = [by[system, name, ROWS] for system in systems]
        total += (columns := len(full[0]["right"]) + len(full[0]["wrong"]))
        cells = [str(len(r["right"])) + (" (refused)" if "" in r["errors"] else "") for r in full]
        lines.append(f"| {name} | {columns} | " + " | ".join(cells) + " |")
    sums = [sum(len(by[s, name, ROWS]["right"]) for name in names) for s in systems]
    lines.append(f"| all | {total} | " + " | ".join(map(str, sums)) + " |")
    flips = []
    for system in systems:
        pairs = [(by[system, name, ROWS], by[system, name, FEWER_ROWS]) for name in names]
        flips.append(sum(len(a["kinds"].items() ^ b["kinds"].items()) for a, b in pairs))
    text = f"taken otherwise with {FEWER_ROWS} rows"
    lines.append(f"| {text} | | " + " | ".join(str(flip) for flip in flips) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
