"""The gain that the chooser expects of the next answers, beside the gain there is.

`benchmarks/ask.py` stores both for its runs of chosen questions: at every checkpoint the rise in
agreement that is expected of the next 50 answers (eggs: 100), and the agreement with people's
answers to 3,000 test questions then and later. Gains are in points, means over checkpoints; the
standard error is that of the gains there are, over runs.

    python benchmarks/expected_gain.py

docs/reference/ask.md has the table that this prints.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import protocol

HEADS = ["collection", "after", "checkpoints", "expected", "there was", "standard error"]
Row = dict[str, Any]


def stored() -> list[Row]:
    """Return the raw results of `benchmarks/ask.py`."""
    return protocol.stored("ask")


def gains(rows: list[Row], name: str) -> list[tuple[int, int, float, float]]:
    """Return seed, answers so far, expected and actual gain at each checkpoint."""
    found = []
    for row in rows:
        if (row["collection"], row["way"]) != (name, "chosen"):
            continue
        agreement = {n: given for n, _, given in row["curve"]}
        for n, expected in row["expected_gains"]:
            later = agreement.get(n + row["expected_gains"][0][0])
            if later is not None:
                found.append((row["seed"], n, expected, later - agreement[n]))
    return found


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown, for the first half of the checkpoints and the second."""
    lines = [f"| {' | '.join(HEADS)} |", "|" + " --- |" * len(HEADS)]
    for name in dict.fromkeys(row["collection"] for row in rows):
        found = np.array(gains(rows, name))
        if not len(found):
            continue
        middle = np.median(np.unique(found[:, 1]))
        for part in (found[:, 1] <= middle, found[:, 1] > middle):
            seeds, n, expected, actual = found[part].T
            by_run = [actual[seeds == seed].mean() for seed in np.unique(seeds)]
            error = np.std(by_run, ddof=1) / np.sqrt(len(by_run)) if len(by_run) > 1 else np.nan
            cells = [name, f"{n.min():.0f} to {n.max():.0f} answers", f"{len(n)}"]
            cells += [f"{100 * value:.1f}" for value in (expected.mean(), actual.mean(), error)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(stored()))
