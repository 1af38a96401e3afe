"""Matching of records: F1 on the test pairs of four public sets, with their given splits.

`RecordMatcher` learns from the training pairs, with its defaults for all sets. It is tested with
its own threshold, which the training pairs alone choose, and with the threshold that is best on
the validation pairs, as the figures that others report have it. Beside it are a matcher without
rivals, which sees two records and nothing else, as those others do; and the parts of the full
model alone.

`--more FOLDER` runs six further sets, which took no part in any choice, and keeps the stored
results of the others. The folder is er_magellan in the data of the public repository
megagonlabs/ditto; a line of its files is two records, as COL field VAL value, and the label.

    python benchmarks/records.py [--toy] [--more FOLDER]
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

from nearfar import RecordMatcher
from nearfar.records import Records
from protocol import Array, commit, record
from protocol import stored as read

SETS = {
    "abt_buy": "Abt-Buy",
    "amazon_google": "Amazon-Google",
    "dblp_acm": "DBLP-ACM",
    "fodors_zagats": "Fodors-Zagats",
}
MORE = (
    "Structured/Beer",
    "Structured/iTunes-Amazon",
    "Structured/Walmart-Amazon",
    "Dirty/iTunes-Amazon",
    "Dirty/Walmart-Amazon",
    "Dirty/DBLP-ACM",
)
# Y. Li et al.: Deep entity matching with pre-trained language models, arXiv 2004.00584. F1 with the
# threshold of the validation pairs; not run here.
REPORTED = {
    "Magellan": {
        "abt_buy": 43.6,
        "amazon_google": 49.1,
        "dblp_acm": 98.4,
        "fodors_zagats": 100.0,
    },
    "DeepMatcher": {
        "abt_buy": 62.8,
        "amazon_google": 69.3,
        "dblp_acm": 98.4,
        "fodors_zagats": 100.0,
    },
    "Ditto": {"abt_buy": 89.3, "amazon_google": 75.6, "dblp_acm": 99.0, "fodors_zagats": 100.0},
}
PARTS = ("train", "valid", "test")
SEEDS = (0, 1, 2)
DEFAULT = "`RecordMatcher`"
METHODS = (DEFAULT, "without rivals", "boosted trees alone", "logistic regression alone")

Split = dict[str, tuple[Array, Array]]


def load(name: str) -> tuple[Records, Records, Split]:
    """Return two tables, and the pairs and labels of each part."""
    path = Path(os.environ["NEARFAR_DATA"]) / f"match_{name}.json.gz"
    data = json.loads(gzip.decompress(path.read_bytes()))
    left, right = (
        Records.of([dict(zip(data["fields"], row, strict=True)) for row in data[side]], side)
        for side in ("left", "right")
    )
    rows = {part: np.array(data[part]) for part in PARTS}
    return left, right, {part: (each[:, :2], each[:, 2] == 1) for part, each in rows.items()}


def load_more(folder: Path) -> tuple[Records, Records, Split]:
    """Return the tables and pairs of a folder of text files."""
    numbers: tuple[dict[str, int], dict[str, int]] = ({}, {})
    split = {}
    for part in PARTS:
        lines = [line.split("\t") for line in (folder / f"{part}.txt").read_text().splitlines()]
        pairs = [
            [known.setdefault(text, len(known)) for known, text in zip(numbers, line, strict=False)]
            for line in lines
        ]
        split[part] = np.array(pairs), np.array([line[2].strip() == "1" for line in lines])
    cells = [[re.findall(r"COL (\S+) VAL (.*?)(?= COL |$)", t) for t in each] for each in numbers]
    names = dict.fromkeys(name for rows in cells for row in rows for name, _ in row)
    left, right = (
        Records.of([dict.fromkeys(names, "") | dict(row) for row in rows], "table")
        for rows in cells
    )
    return left, right, split


def toy() -> tuple[Records, Records, Split]:
    """Return numbers in words, and the same with letters exchanged."""
    rng = np.random.default_rng(0)
    words = [" ".join(rng.choice(["one", "two", "six", "ten", "pi"], 5)) for _ in range(90)]
    swapped = [text[1:9][::-1] + text[9:] for text in words]
    left, right = (Records.of({"words": texts}, "toy") for texts in (words, swapped))
    split = {}
    for part, rows in zip(PARTS, np.split(np.arange(90), 3), strict=True):
        pairs = np.array([(i, j) for i in rows for j in rows[:10]])
        split[part] = pairs, pairs[:, 0] == pairs[:, 1]
    return left, right, split


def f1(same: Array, found: Array) -> float:
    return float(2 * (same & found).sum() / max(1, same.sum() + found.sum()))


def best_on(same: Array, scores: Array) -> float:
    """Return the threshold of the largest F1, in the middle between two scores."""
    order = np.argsort(-scores, kind="stable")
    values = 2 * np.cumsum(same[order]) / (np.arange(1, len(same) + 1) + same.sum())
    best = int(np.argmax(values))
    return float(scores[order][best : best + 2].mean())


def measure(name: str, data: tuple[Records, Records, Split], seed: int) -> list[dict[str, Any]]:
    left, right, split = data
    same = {part: split[part][1] for part in PARTS}
    rows = []

    def add(method: str, scores: dict[str, Array], own: float | None, spent: float) -> None:
        chosen = best_on(same["valid"], scores["valid"])
        rows.append(
            {
                "set": name,
                "method": method,
                "seed": seed,
                "f1": f1(same["test"], scores["test"] >= chosen),
                "f1_own": None if own is None else f1(same["test"], scores["test"] >= own),
                "seconds": spent,
                "commit": commit(),
            }
        )

    for method, rivals in (("without rivals", False), (DEFAULT, None)):
        start = time.process_time()
        matcher = RecordMatcher(rivals=rivals, random_state=seed).fit(left, right, *split["train"])
        spent = time.process_time() - start
        scores = {part: matcher.scores(left, right, split[part][0]) for part in PARTS[1:]}
        add(method, scores, matcher.threshold_, spent)
    if name in MORE:
        return rows
    for place, method in enumerate(METHODS[2:]):
        members = {
            part: matcher.model_.members(matcher.comparisons_.compare(left, right, split[part][0]))[
                :, place
            ]
            for part in PARTS[1:]
        }
        add(method, members, None, spent)
    return rows


def stored() -> list[dict[str, Any]]:
    """Return the raw results."""
    return read("records")


def table(rows: list[dict[str, Any]]) -> str:
    """Return F1 in percent, in Markdown."""
    sets = [name for name in SETS if any(r["set"] == name for r in rows)] or ["toy"]
    lines = ["| | " + " | ".join(SETS.get(name, name) for name in sets) + " |"]
    lines.append("| --- |" + " --- |" * len(sets))

    def line(label: str, cells: list[str]) -> None:
        lines.append(f"| {label} | " + " | ".join(cells) + " |")

    def mean(method: str, name: str, figure: str) -> float:
        own = [r[figure] for r in rows if (r["set"], r["method"]) == (name, method)]
        return float(np.mean(own))

    for method in METHODS:
        line(method, [f"{100 * mean(method, name, 'f1'):.1f}" for name in sets])
        if method in METHODS[:2]:
            own = [f"{100 * mean(method, name, 'f1_own'):.1f}" for name in sets]
            line(f"{method}, its own threshold", own)
    for method, figures in REPORTED.items():
        line(f"{method}, as reported", [str(figures.get(name, "")) for name in sets])
    line("seconds of one core to fit", [f"{mean(DEFAULT, name, 'seconds'):.0f}" for name in sets])
    more = [name for name in MORE if any(r["set"] == name for r in rows)]
    if more:
        lines += [
            "",
            "| sets that took no part | F1 | its own threshold | without rivals | seconds |",
        ]
        lines.append("| --- | --- | --- | --- | --- |")
    for name in more:
        ways = ((DEFAULT, "f1"), (DEFAULT, "f1_own"), ("without rivals", "f1"))
        cells = [f"{100 * mean(method, name, figure):.1f}" for method, figure in ways]
        line(name, [*cells, f"{mean(DEFAULT, name, 'seconds'):.0f}"])
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="a small run that shows it works")
    parser.add_argument("--more", type=Path, help="folder of further sets")
    given = parser.parse_args()
    if given.toy:
        rows = measure("toy", toy(), 0)
    else:
        names = list(SETS) if given.more is None else list(MORE)
        rows = [row for row in stored() if row["set"] not in names]
        for name in names:
            data = load(name) if given.more is None else load_more(given.more / name)
            for seed in SEEDS:
                rows += measure(name, data, seed)
                print(json.dumps(rows[-1]), flush=True)
        record("records", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
