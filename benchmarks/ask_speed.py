"""How long `Chooser.next` takes: the median of 30 chosen questions in one process.

Objects have vectors of 50 features, or none. Answers so far are to random questions. Every answer
is added, so that every question begins with a fit.

    python benchmarks/ask_speed.py [--toy] [--show]

docs/reference/ask.md has the table that this prints.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import protocol
from nearfar.ask import Chooser, Question
from nearfar.runtime.threads import limited_threads

CASES = [(200, 300, True), (2000, 300, True), (2000, 1000, True)]
CASES += [(200, 1000, False), (2000, 10_000, False)]
"""Objects, answers, and whether there are vectors."""
REPEATS = 30
Row = dict[str, Any]


def measure(n_objects: int, n_answers: int, vectors: bool) -> Row:
    """Return the median times of questions in milliseconds."""
    random = np.random.default_rng(0)
    P = random.normal(size=(n_objects, 3))
    X = random.normal(size=(n_objects, 50)) if vectors else None
    chooser = Chooser(
        X,
        n_objects=n_objects,
        random_share=0.0,
        repeat_share=0.0,
        random_first=0,
        random_state=0,
    )

    def answer(objects: tuple[int, ...]) -> str:
        anchor, left, right = P[list(objects)]
        return "left" if np.sum((anchor - left) ** 2) < np.sum((anchor - right) ** 2) else "right"

    for _ in range(n_answers):
        objects = tuple(random.choice(n_objects, 3, replace=False).tolist())
        chooser.add(Question(objects, "random"), answer(objects))
    chooser.learn()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter(), time.process_time()
        question = chooser.next()
        times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
        chooser.add(question, answer(question.objects))
    elapsed, used = 1000 * np.median(times, axis=0)
    return {
        "objects": n_objects,
        "answers": n_answers,
        "vectors": vectors,
        "elapsed_ms": round(float(elapsed), 1),
        "cpu_ms": round(float(used), 1),
        "commit": protocol.commit(),
    }


def stored() -> list[Row]:
    """Return the raw results."""
    return protocol.stored("ask_speed")


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown."""
    lines = ["| objects | vectors | answers so far | CPU ms | elapsed ms |", "|" + " --- |" * 5]
    for row in rows:
        vectors = "yes" if row["vectors"] else "no"
        cells = [f"{row['objects']:,}", vectors, f"{row['answers']:,}"]
        cells += [f"{row['cpu_ms']:.0f}", f"{row['elapsed_ms']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="one case with few objects")
    parser.add_argument("--show", action="store_true", help="print the table of stored results")
    options = parser.parse_args()
    if options.show:
        print(table(stored()))
        return
    with limited_threads():
        rows = [measure(*case) for case in ([(50, 40, True)] if options.toy else CASES)]
    if not options.toy:
        protocol.record("ask_speed", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
