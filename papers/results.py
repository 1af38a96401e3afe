"""Raw results: one line of JSON for each run; a run is never changed.

`results/<paper>/<table>.jsonl` has the runs of a table's cells. What the runs of a task share is on
a line of its own, the settings; a run refers to it by its digest. A line is complete or not there:
it is written at once and flushed to the disk.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

import nearfar
from papers.cells import Cell, published
from papers.methods import all_parameters, code_of
from papers.task import BY_VOTES, Task

FOLDER = Path(__file__).parent / "results"
SAME_CODE = FOLDER / "same_code.jsonl"
"""Code that was rewritten, with the number of repeated runs that gave the same results."""
VOTE = "the nearest of equally common labels"
"""How several neighbours decide, see `papers.methods.vote`; it is among a task's settings."""
TIES = "equally distant rows in an order drawn for the training rows"
"""See `papers.methods.order_of_ties`. Of several neighbours under a metric this always held."""
WITHOUT_METRIC = ("L1", "chi-square", "MetricBoost")
"""Methods with a distance, or with a form in place of a metric."""
Line = dict[str, Any]


def digest(*parts: Any) -> str:
    """Return a short digest of anything that JSON or bytes can express."""
    text = b"\0".join(
        part if isinstance(part, bytes) else json.dumps(part, sort_keys=True, default=str).encode()
        for part in parts
    )
    return hashlib.sha256(text).hexdigest()[:12]


def code_digest(method: str, chooses: bool = False) -> str:
    """Return the digest of a method's source.

    Comments, docstrings, imports and the order of definitions do not count.
    """
    return _code_digest(code_of(method, chooses=chooses))


@cache
def _code_digest(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:] or [ast.Pass()]
    imports = ast.Import | ast.ImportFrom
    return digest(*sorted(ast.unparse(each) for each in tree.body if not isinstance(each, imports)))


def described(task: Task) -> Line:
    """Return all that a result of the task depends on, but for machine and versions."""
    rule: Line = {}
    kind = task.measure.removesuffix(BY_VOTES)
    if kind in ("error", "accuracy", "least error") and not task.method.startswith("SVM"):
        rule = {"vote": VOTE} if task.n_neighbors > 1 else {}
        if task.n_neighbors == 1 or task.method in WITHOUT_METRIC:
            rule["ties"] = TIES
    return {
        "cell": task.cell,
        "reading": task.reading,
        "variant": task.variant,
        "table": repr(task.table),
        "split_rule": repr(task.split),
        "measure": task.measure,
        "k": task.n_neighbors,
        "method": task.method,
        "parameters": all_parameters(task.method, task.parameters),
        "code": code_digest(task.method, task.variant == "default"),
        **rule,
    }


def settings_of(task: Task) -> Line:
    """Return what the runs of a task share, with its digest."""
    settings = {**described(task), "data": task.table.checksum, **environment()}
    return {"settings": digest(settings), **settings}


@cache
def environment() -> Line:
    """Return commit, versions and machine."""
    root = Path(__file__).parent.parent
    commit = _git(root, "rev-parse", "--short=12", "HEAD").strip()
    dirty = _git(root, "status", "--porcelain", "src", "papers/*.py", "papers/protocols")
    return {
        "commit": commit + ("+" if dirty else ""),
        "versions": {
            "nearfar": nearfar.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "threads": 1,
    }


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True).stdout


@cache
def cells() -> dict[str, Cell]:
    """Return the printed cells by their ids."""
    return {cell.id: cell for cell in published()}


def file_of(cell: str, folder: Path = FOLDER) -> Path:
    """Return the file that has the runs of a cell."""
    printed = cells()[cell]
    return folder / printed.paper / (re.sub(r"[^\w.]+", "-", printed.table) + ".jsonl")


def append(settings: Line, line: Line, folder: Path = FOLDER) -> None:
    """Add a run, after its settings if they are new; it is on the disk when this returns."""
    path = file_of(settings["cell"], folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    known = path.read_text() if path.exists() else ""
    lines = [] if f'{{"settings":"{settings["settings"]}"' in known else [settings]
    text = "".join(
        json.dumps(each, separators=(",", ":")) + "\n"
        for each in [*lines, {"run": line["run"], "of": settings["settings"], **line}]
    )
    if known and not known.endswith("\n"):
        text = "\n" + text
    with path.open("a") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


# Parameters of NearestTriplets that stored runs had at their defaults, and that are gone.
_RETIRED = ", search='auto', anchors=None"


def read(folder: Path = FOLDER) -> Iterator[Line]:
    """Yield the runs with their settings; a line that a crash cut off is left out."""
    for path in sorted(folder.glob("*/*.jsonl")):
        settings: dict[str, Line] = {}
        for text in path.read_text().replace(_RETIRED, "").splitlines():
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                continue
            if "settings" in line:
                settings[line["settings"]] = line
            elif line["of"] in settings:
                yield {**settings[line["of"]], **line}


def is_current(line: Line, today: Line) -> bool:
    """Return whether a run has the settings that its task has today.

    The name of the reading does not matter: readings that differ for other cells share their runs.
    Code that was rewritten is the same if repeated runs have shown that it gives the same results.
    """
    return same_but_for_code(line, today) and (
        line["code"] == today["code"] or (line["code"], today["code"]) in same_code()
    )


def same_but_for_code(line: Line, today: Line) -> bool:
    """Return whether nothing but the code of the method has changed since a run."""
    return all(
        line.get(name) == value for name, value in today.items() if name not in ("reading", "code")
    )


@cache
def same_code() -> frozenset[tuple[str, str]]:
    """Return pairs of digests of code that gave the same results, old and new, as confirmed."""
    if not SAME_CODE.exists():
        return frozenset()
    lines = map(json.loads, SAME_CODE.read_text().splitlines())
    return frozenset((line["old"], line["new"]) for line in lines)


def by_cell(folder: Path = FOLDER) -> dict[tuple[str, str], list[Line]]:
    """Return the runs of each cell and variant."""
    found: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in read(folder):
        found[line["cell"], line["variant"]].append(line)
    return found
