"""BoostMetric with three losses on ten tables, with 0, 10 and 20 % of wrong training labels.

Wrong labels are those of another class, drawn at random. Rows that are wrong at 10 % are wrong at
20 %, too. Labels of the test part are right; the vote of three neighbours uses the training labels
with their errors. Seconds are CPU time on one thread.

    python benchmarks/losses.py [--toy]

docs/reference/losses.md has the table that this prints.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar
from nearfar import BoostMetric
from nearfar.measures import knn_error
from nearfar.runtime.threads import limited_threads
from protocol import Array, arguments, load, record, splits

TABLES = ["wine", "glass", "heart_cleveland", "sonar", "ionosphere", "balance_scale"]
TABLES += ["australian_credit", "pima_diabetes", "segmentation_2310", "digits"]
LOSSES = ["exponential", "logistic", "squared_hinge"]
LEVELS = [0.0, 0.1, 0.2]
MOST_ROWS = 1500
RESULTS = Path(__file__).parent / "results/losses.jsonl"

Row = dict[str, Any]


def with_wrong_labels(y: Array, level: float, seed: int) -> Array:
    """Give a share of the labels another class."""
    rng = np.random.default_rng(seed)
    classes, code = np.unique(y, return_inverse=True)
    shift = rng.integers(1, len(classes), len(y))
    wrong = rng.permutation(len(y))[: round(level * len(y))]
    code[wrong] = (code[wrong] + shift[wrong]) % len(classes)
    return np.asarray(classes[code])


def measure(X: Array, y: Array, X_test: Array, y_test: Array, parameters: Row) -> Row:
    learner = BoostMetric(**parameters)
    start = time.process_time()
    learner.fit(X, y)
    seconds = time.process_time() - start
    return {
        "error": round(knn_error(learner.metric_, X, y, X_test, y_test), 6),
        "seconds": round(seconds, 3),
        "iterations": learner.n_iter_,
        "stopped": learner.history_.stopped,
        "parameters": parameters,
        "version": nearfar.__version__,
    }


def runs(dataset: str, n_splits: int) -> list[Row]:
    """Fit every loss at every level to the splits of a table."""
    X, y = load(dataset)
    rows = np.sort(np.random.default_rng(0).permutation(len(X))[:MOST_ROWS])
    X, y = X[rows], y[rows]
    found = []
    for split, (train, test) in enumerate(splits(y, n_splits)):
        for level in LEVELS:
            taught = with_wrong_labels(y[train], level, split)
            for loss in LOSSES:
                for validated in (True, False):
                    parameters: Row = {"loss": loss, "n_jobs": 1, "random_state": 0}
                    if not validated:
                        parameters["validation_fraction"] = None
                    run = measure(X[train], taught, X[test], y[test], parameters)
                    setting = {"dataset": dataset, "loss": loss, "level": level, "split": split}
                    found.append(setting | {"validated": validated} | run)
    return found


def stored(path: Path = RESULTS) -> list[Row]:
    """Read the raw results."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown, derived from raw results."""
    n_tables = len({row["dataset"] for row in rows})
    lines = [
        f"| validation | wrong labels | loss | error | minus exponential | best on (of {n_tables}) "
        "| seconds | iterations |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for validated in (True, False):
        for level in LEVELS:
            errors = np.array([means(rows, "error", loss, level, validated) for loss in LOSSES])
            for loss, own in zip(LOSSES, errors, strict=True):
                seconds, iterations = (
                    means(rows, key, loss, level, validated).mean()
                    for key in ("seconds", "iterations")
                )
                best = int((own == errors.min(axis=0)).sum())
                cells = ["on" if validated else "off", f"{100 * level:.0f} %", loss]
                gap = "" if loss == LOSSES[0] else difference(100 * (own - errors[0]))
                cells += [f"{100 * own.mean():.2f} %", gap]
                cells += [str(best), f"{seconds:.2f}", f"{iterations:.0f}"]
                lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def means(
    rows: list[Row], key: str, loss: str, level: float, validated: bool
) -> NDArray[np.float64]:
    """Return the mean over splits for each table."""
    setting = (loss, level, validated)
    values: dict[str, list[float]] = {}
    for row in rows:
        if (row["loss"], row["level"], row["validated"]) == setting:
            values.setdefault(row["dataset"], []).append(row[key])
    # Rounded, so that equal errors in another order of splits are ties.
    return np.array([round(float(np.mean(each)), 9) for each in values.values()])


def difference(gaps: NDArray[np.float64]) -> str:
    """Return the mean over tables, with its standard error."""
    error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
    return f"{gaps.mean():+.2f} ± {error:.2f}"


def main() -> None:
    args = arguments(__doc__)
    names = TABLES[:2] if args.toy else TABLES
    rows: list[Row] = []
    with limited_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            start = time.perf_counter()
            rows += runs(name, args.splits or (2 if args.toy else 5))
            print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    name = "losses_toy" if args.toy else "losses"
    record(name, rows)
    print(table(stored(RESULTS.with_name(f"{name}.jsonl"))))


if __name__ == "__main__":
    main()
