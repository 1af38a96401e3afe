"""Repeat stored runs and compare, and explain a cell."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from papers import results, runner
from papers.readings import readings
from papers.results import Line
from papers.task import Task, protocol, tasks
from papers.verdicts import interval, outcomes

CHEAP_SECONDS = 2.0
"""Runs that took longer are not repeated."""


def repeat(
    number: int, seed: int, show: Callable[[str], None], folder: Path = results.FOLDER
) -> bool:
    """Repeat some cheap runs drawn at random; return whether at least one was and all agree."""
    by_key: dict[tuple[str, str], list[tuple[Task, Line]]] = defaultdict(list)
    for task in tasks():
        by_key[task.cell, task.variant].append((task, results.described(task)))
    current: list[tuple[Task, Line]] = []
    stale = 0
    for line in results.read(folder):
        known = by_key[line["cell"], line["variant"]]
        found = next((t for t, today in known if results.is_current(line, today)), None)
        if found is None:
            stale += 1
        elif line["seconds"] < CHEAP_SECONDS and found.measure != "seconds":
            current.append((found, line))
    drawn = random.Random(seed).sample(current, min(number, len(current)))
    wrong = [problem for task, line in drawn if (problem := difference(task, line))]
    for problem in wrong:
        show(problem)
    show(
        f"{len(drawn)} runs repeated (seed {seed}), {len(wrong)} differ; {stale} stored are stale."
    )
    return bool(drawn) and not wrong


def confirm(number: int, show: Callable[[str], None]) -> bool:
    """Repeat runs whose code has changed; record the changes that give the same results.

    Of each old and new code, some of the cheapest runs are repeated, from as many cells as there
    are. The code is the same only if every value, and every number of iterations, is. Return
    whether all changes are.
    """
    by_key: dict[tuple[str, str], list[tuple[Task, Line]]] = defaultdict(list)
    for task in tasks():
        by_key[task.cell, task.variant].append((task, results.described(task)))
    # Of several versions that a task was run with, only the last can be the same as today's.
    last: dict[tuple[str, ...], Line] = {}
    stored: dict[tuple[tuple[str, ...], str], list[tuple[Task, Line]]] = defaultdict(list)
    for line in results.read():
        for task, today in by_key[line["cell"], line["variant"]]:
            if results.same_but_for_code(line, today) and task.measure != "seconds":
                last[task.key] = line
                stored[task.key, line["code"]].append((task, line))
                break
    changed: dict[tuple[str, str, str], list[tuple[Task, Line]]] = defaultdict(list)
    for key, line in last.items():
        new = results.code_digest(line["method"], line["variant"] == "default")
        if line["code"] != new and (line["code"], new) not in results.same_code():
            changed[line["method"], line["code"], new] += stored[key, line["code"]]
    every = True
    for (method, old, new), runs in sorted(changed.items(), key=lambda each: each[0]):
        runs.sort(key=lambda each: (each[1]["run"], each[1]["seconds"]))
        repeated = runs[:number]
        wrong = [problem for task, line in repeated if (problem := difference(task, line, 0.0))]
        show(f"{method}: {len(repeated)} of {len(runs)} runs repeated, {len(wrong)} differ")
        for problem in wrong:
            show(f"  {problem}")
        every &= not wrong
        if not wrong:
            record = {"method": method, "old": old, "new": new, "runs": len(repeated)}
            with results.SAME_CODE.open("a") as file:
                commit = results.environment()["commit"]
                file.write(json.dumps(record | {"commit": commit}) + "\n")
    return every


def difference(task: Task, line: Line, allowed: float | None = None) -> str:
    """Return how a repeated run differs from a stored one; nothing if it agrees.

    By default rounding may change one test row, or a hundredth of a point of triplets. If nothing
    is allowed, the number of iterations is compared, too.
    """
    ((settings, again),) = runner.measure([task], line["run"])
    name = f"{' '.join(task.key)}, run {line['run']}"
    if settings["data"] != line["data"]:
        return f"{name}: the data have changed."
    if again["split"] != line["split"]:
        return f"{name}: the split has changed."
    if allowed == 0 and again["iterations"] != line["iterations"]:
        return f"{name}: stored {line['iterations']} iterations, now {again['iterations']}."
    if allowed is None:
        allowed = 0.01 if task.measure.startswith("triplets") else 100 / line["n"][1] + 1e-9
    if abs(again["value"] - line["value"]) <= allowed:
        return ""
    return f"{name}: stored {line['value']:.4f}, now {again['value']:.4f}."


def explain(cell: str, folder: Path = results.FOLDER) -> Iterator[str]:
    """Yield what is known about a cell, line by line."""
    printed = results.cells().get(cell)
    if printed is None:
        raise SystemExit(f"No cell is named {cell!r}; a cell is paper/table/row/method.")
    spread = "" if printed.sd is None else f" ({printed.sd:.{printed.sd_decimals}f})"
    yield f"{cell}: printed {printed.value:.{printed.decimals}f}{spread}, page {printed.page}"
    yield f"{printed.measure}; {printed.better} is better"
    if printed.reason:
        yield printed.reason
    for reading in readings(cell):
        yield f"\n{reading.id}: {reading.question}"
        for candidate in reading.candidates:
            yield f"  {candidate.status:8} {candidate.id}: {candidate.what}"
    for outcome in outcomes(folder).values():
        if outcome.cell.id != cell:
            continue
        late = [
            each.id
            for known in readings()
            for each in known.candidates
            if each.afterwards and each.id in protocol(printed.paper).READINGS[outcome.reading]
        ]
        yield f"\nreading {outcome.reading}, {outcome.variant}: {outcome.word}"
        if late:
            yield f"  added after results of another reading were seen: {', '.join(late)}"
        if outcome.why:
            yield f"  because {outcome.why}"
        if outcome.lines:
            gap, low, high = interval(outcome)
            yield f"  runs {', '.join(f'{value:.2f}' for value in outcome.values)}"
            yield f"  mean {outcome.mean:.2f}, standard deviation {outcome.sd:.2f}"
            yield f"  better than printed by {gap:.2f}, interval {low:.2f} to {high:.2f}"
        if outcome.stale:
            yield "  stale: the code or the parameters have changed since"
    yield f"\npython -m papers run --cell '{cell}'"
