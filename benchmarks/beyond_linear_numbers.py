"""Numbers predicted by neighbours under a learned metric, beside other regressions.

Ten tables, chosen before any result was seen: scikit-learn's diabetes and Friedman's first problem,
and eight of R's example tables, one for each subject, whose rows are independent (no panels or time
series, no censored times), at least 250, with a measured quantity to be predicted from at least
four columns. Columns that name the row or are computed from the target are left out. They are read
from the folder of CSV files in the package pydataset (--csv FOLDER or NEARFAR_PYDATASET), at most
2,000 rows of each (a random sample, seed 0). Preparation as in benchmarks/beyond_linear.py.

Every method has its defaults, with random_state=0 where there is one, and gets the same three 70/30
splits (scikit-learn's ShuffleSplit with random_state=0). Raw results are appended to
results/beyond_linear_numbers.jsonl, with commit, versions and parameters, and a run goes on where
the last one ended. --show prints the table from what is there.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.model_selection import ShuffleSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline

from beyond_linear import Row, by_kind, keep, prepared, run
from nearfar import MLKR, MetricNeighborsRegressor
from nearfar.learners.base import known_learners
from protocol import Array

# Table -> file, target, columns that are left out.
FILES = {
    "Boston": ("MASS/Boston", "medv", ""),
    "California schools": ("Ecdat/Caschool", "testscr", "distcod county district readscr mathscr"),
    "baseball salaries": ("vcd/Baseball", "sal87", "name1 name2"),
    "computers": ("Ecdat/Computers", "price", ""),
    "diamonds": ("ggplot2/diamonds", "price", ""),
    "house prices": ("Ecdat/Housing", "price", ""),
    "professors' salaries": ("car/Salaries", "salary", ""),
    "wages": ("Ecdat/Griliches", "lw", "rns80 mrt80 smsa80 age80 school80 expr80 tenure80 lw80"),
}
TABLES = ["diabetes", "Friedman 1", *FILES]
RESULTS = Path(__file__).parent / "results" / "beyond_linear_numbers.jsonl"
MAX_ROWS = 2000


def learned(name: str) -> Any:
    """Return the five nearest neighbours under the metric of a learner of nearfar."""
    return make_pipeline(known_learners()[name](random_state=0), KNeighborsRegressor())


METHODS: dict[str, Callable[[], Any]] = {
    "mean": lambda: DummyRegressor(),
    "ridge": lambda: Ridge(random_state=0),
    "5-NN": lambda: KNeighborsRegressor(),
    "random forest": lambda: RandomForestRegressor(random_state=0),
    "HistGradientBoosting": lambda: HistGradientBoostingRegressor(random_state=0),
    "MLKR": lambda: learned("MLKR"),
    "AutoMetric": lambda: learned("AutoMetric"),
    "AutoMetric, k chosen": lambda: MetricNeighborsRegressor(),
    "MLKR, k chosen": lambda: MetricNeighborsRegressor(MLKR(random_state=0)),
}


def cells(name: str, folder: str) -> tuple[Array, Array, Array]:
    """Return numbers, categories and targets of a table."""
    if name == "diabetes":
        numbers, y = load_diabetes(return_X_y=True)
    elif name == "Friedman 1":
        numbers, y = make_friedman1(1000, noise=1.0, random_state=0)
    else:
        path, target, left_out = FILES[name]
        with (Path(folder) / f"{path}.csv").open() as file:
            (_, *heads), *lines = csv.reader(file)
        found = dict(zip(heads, zip(*(line[1:] for line in lines), strict=True), strict=True))
        y = by_kind([found.pop(target)])[0][:, 0]
        known = np.flatnonzero(np.isfinite(y))
        rows = np.random.RandomState(0).permutation(known)[:MAX_ROWS]
        numbers, words = by_kind([found[n] for n in found if n not in left_out.split()])
        return numbers[rows], words[rows], y[rows]
    return numbers, np.empty((len(y), 0), dtype=object), y


def scores(y: Array, predicted: Array) -> Row:
    """Return R2 and the mean absolute error."""
    return {"r2": r2_score(y, predicted), "mae": mean_absolute_error(y, predicted)}


def measure(arguments: argparse.Namespace) -> None:
    """Run what is not in the results yet."""
    tables = [name for name in TABLES if name not in FILES or Path(arguments.csv).is_dir()]
    if len(tables) < len(TABLES):
        print("Without the tables of R: set --csv or NEARFAR_PYDATASET to their folder.")
    done = {(row["table"], row["split"], row["method"]) for row in stored() if "r2" in row}
    for name, number in itertools.product(tables, range(3)):
        numbers, words, y = cells(name, arguments.csv)
        train, test = list(ShuffleSplit(3, test_size=0.3, random_state=0).split(y))[number]
        X = prepared(numbers, words, train)
        for method in arguments.methods:
            key = {"table": name, "split": number, "method": method + arguments.suffix}
            if tuple(key.values()) not in done:
                data = X[train], y[train], X[test], y[test]
                keep(RESULTS, run(key, METHODS[method](), data, scores))


def stored() -> list[Row]:
    """Return the raw results."""
    return (
        [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    )


def table(rows: list[Row]) -> str:
    """Return R2 of every method on every table in Markdown, and means."""
    by = {(row["table"], row["method"], row["split"]): row for row in rows if "r2" in row}
    names = list(dict.fromkeys(method for _, method, _ in by))
    tables = [t for t in TABLES if all((t, name, 2) in by for name in names)]

    def means(field: str) -> Array:
        return np.array(
            [[np.mean([by[t, m, s][field] for s in range(3)]) for m in names] for t in tables]
        )

    r2, mae, cpu = means("r2"), means("mae"), means("cpu")
    relative = mae / mae[:, [names.index("mean")]]
    ranks = rankdata(-r2, axis=1)
    lines = ["| R2 |" + "".join(f" {name} |" for name in names), "| --- |" + " --- |" * len(names)]
    figures = {
        **dict(zip(tables, r2, strict=True)),
        "mean R2": r2.mean(0),
        "mean rank": ranks.mean(0),
    }
    figures |= {"MAE, share of the mean's": relative.mean(0), "CPU seconds": cpu.mean(0)}
    for title, values in figures.items():
        lines.append(f"| {title} |" + "".join(f" {value:.3f} |" for value in values))
    return "\n".join(lines)


def main() -> None:
    global RESULTS, TABLES
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="one table, few methods")
    names = re.compile(",(?! )").split
    parser.add_argument("--methods", type=names, default=list(METHODS), metavar="A,B")
    parser.add_argument("--suffix", default="", help="added to the names of methods")
    parser.add_argument(
        "--csv", default=os.environ.get("NEARFAR_PYDATASET", "csv"), metavar="FOLDER"
    )
    parser.add_argument("--show", action="store_true", help="only print what is there")
    arguments = parser.parse_args()
    if arguments.toy:
        RESULTS = Path(tempfile.mkdtemp()) / "beyond_linear_numbers.jsonl"
        TABLES, arguments.methods = ["diabetes"], ["mean", "ridge", "5-NN"]
    if not arguments.show:
        measure(arguments)
    print(table(stored()))


if __name__ == "__main__":
    main()
