"""What the benchmarks share: splits, the two ways to run, raw results on disk.

Every benchmark runs as ``python benchmarks/NAME.py [--toy]``. The paper's data are read from the
folder in NEARFAR_DATA. Raw results go to ``benchmarks/results/NAME.jsonl``, one line for each
measurement; the tables on the terminal are derived from them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from nearfar import Metric, datasets
from nearfar.measures import knn_error

Array = NDArray[Any]


def arguments(description: str | None) -> argparse.Namespace:
    """Parse the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--toy", action="store_true", help="a small run that shows it works")
    parser.add_argument("--splits", type=int, default=None, help="number of random splits")
    return parser.parse_args()


def record(name: str, rows: list[dict[str, Any]]) -> None:
    """Keep raw measurements."""
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def stored(name: str) -> list[dict[str, Any]]:
    """Read raw measurements; none if there are no such results."""
    path = Path(__file__).parent / "results" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@cache
def commit(source: Path = Path(__file__).parents[1] / "src") -> str:
    """Return the commit of a source folder, with a plus sign if files were changed since."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(source), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ".")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def splits(y: Array, n_splits: int, *, test_size: float = 0.3) -> Iterator[tuple[Array, Array]]:
    """Seeded stratified splits, the same for every method."""
    yield from StratifiedShuffleSplit(n_splits, test_size=test_size, random_state=0).split(y, y)


def load(name: str) -> tuple[Array, Array]:
    """Return points and labels of a set by name; ":scaled" after it standardises the points."""
    base, _, variant = name.partition(":")
    data = datasets.load(base)
    X = np.asarray(data.extra.get("X_filled", data.X), dtype=np.float64)
    if variant == "scaled":
        X = StandardScaler().fit_transform(X)
    if data.y is None:
        raise ValueError(f"{name} has no labels.")
    return X, data.y


def euclidean_error(X: Array, y: Array, train: Array, test: Array, *, scaled: bool) -> float:
    """3-NN error without learning, on the data as they are or standardised by the training part."""
    L = np.eye(X.shape[1])
    if scaled:
        L /= StandardScaler().fit(X[train]).scale_
    return knn_error(Metric(L), X[train], y[train], X[test], y[test])


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Median time of a call, after one to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def percent(values: list[float]) -> str:
    """Mean and standard deviation, in percent."""
    return f"{100 * np.mean(values):5.2f} ({100 * np.std(values):4.2f})"
