"""Probabilities and numbers from neighbours beside forests, boosting and linear models.

Classes: error, log loss, area under the ROC curve (the mean over classes against the rest) and
expected calibration error in ten bins, on stratified 70/30 splits (`protocol.splits`). Tables are
those of NEARFAR_DATA, and of its folder talent, with at most 3,000 rows. Log losses are clipped at
1e-15, as scikit-learn does it.

Numbers: R2, and the share and the mean width of 90% intervals in standard deviations of y, on
random 70/30 splits. Intervals of boosting are between its quantiles 5% and 95%.

Every method has its defaults. Raw results are appended to results/probabilities.jsonl as they come,
with commit, versions and parameters, and a run goes on where the last one ended. With
PYTHONPATH=CHECKOUT/src, the classifier of another checkout runs; --suffix ", earlier" tells it
apart. --show prints tables from what is there.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import ShuffleSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import beyond_linear
import nearfar
from beyond_linear import keep, versions
from nearfar import AutoMetric, MetricNeighborsClassifier, MetricNeighborsRegressor
from protocol import Array, commit, load, splits

RESULTS = Path(__file__).parent / "results" / "probabilities.jsonl"
MOST_ROWS = 3000
OWN = """balance_scale blood_transfusion glass heart_cleveland ionosphere pima_diabetes
segmentation_2310 sonar vehicle wdbc wine"""
TALENT = """adult analcatdata_authorship car-evaluation churn cmc credit-g dis led24 led7
mfeat-karhunen
mfeat-morphological mfeat-zernike satimage spambase splice texture wine-quality-red
wine-quality-white"""
TABLES = [*OWN.split(), *(f"talent/{name}" for name in TALENT.split())]
SOFT, WHOLE = "soft votes", "whole votes"
Row = dict[str, Any]


def votes(way: str, kind: Any) -> Any:
    """Return the estimator; earlier checkouts know one kind of votes."""
    learner = AutoMetric(random_state=0)
    return kind(learner, votes=way) if "votes" in kind().get_params() else kind(learner)


CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "logistic regression": lambda: make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=1000)
    ),
    "random forest": lambda: RandomForestClassifier(random_state=0),
    "ExtraTrees": lambda: ExtraTreesClassifier(random_state=0),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
    SOFT: lambda: votes("soft", MetricNeighborsClassifier),
    WHOLE: lambda: votes("whole", MetricNeighborsClassifier),
}


class Quantiles:
    """Boosted means, and intervals between boosted quantiles."""

    def fit(self, X: Array, y: Array) -> Quantiles:
        """Fit three models."""
        self.mean = HistGradientBoostingRegressor(random_state=0).fit(X, y)
        self.ends = [
            HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=0).fit(X, y)
            for q in (0.05, 0.95)
        ]
        return self

    def predict(self, X: Array) -> Array:
        """Return means."""
        return self.mean.predict(X)

    def predict_interval(self, X: Array) -> Array:
        """Return the ends of intervals."""
        return np.column_stack([each.predict(X) for each in self.ends])


REGRESSORS: dict[str, Callable[[], Any]] = {
    "ridge regression": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13))),
    "random forest": lambda: RandomForestRegressor(random_state=0),
    "HistGradientBoosting": Quantiles,
    SOFT: lambda: votes("soft", MetricNeighborsRegressor),
    WHOLE: lambda: votes("whole", MetricNeighborsRegressor),
}


def houses(n: int = 1500) -> tuple[Array, Array]:
    """Return prices with places, incomes and noise that grows with the income."""
    rng = np.random.default_rng(5)
    place, income = rng.uniform(size=(n, 2)), rng.lognormal(0, 0.5, n)
    age, rooms, people = rng.uniform(0, 50, n), rng.normal(5, 1.5, n), rng.lognormal(1, 0.3, n)
    near = [np.exp(-((place - at) ** 2).sum(axis=1) / 0.02) for at in ([0.3, 0.6], [0.8, 0.2])]
    y = 1.2 * income + 0.01 * age + 1.5 * near[0] + near[1] - 0.1 * people + 0.08 * rooms
    noise = rng.normal(size=n) * (0.25 + 0.15 * income)
    return np.column_stack([place, income, age, rooms, people]), y + noise


def wave(n: int = 800) -> tuple[Array, Array]:
    """Return numbers without a linear part, and three columns of noise."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(n, 5))
    return X, np.sin(8 * X[:, 0]) * np.cos(6 * X[:, 1]) + 0.2 * rng.normal(size=n)


NUMBERS: dict[str, Callable[[], tuple[Array, Array]]] = {
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "Friedman 1": lambda: make_friedman1(1000, noise=1.0, random_state=0),
    "houses": houses,
    "wave": wave,
}


def rows_of(name: str, most: int) -> tuple[Array, Array]:
    """Return rows and classes, at most some of them."""
    if name.startswith("talent/"):
        with np.load(Path(os.environ["NEARFAR_DATA"]) / f"{name}.npz") as stored:
            X, y = stored["X"].astype(np.float64), stored["y"]
    else:
        X, y = load(name)
    y = np.unique(y, return_inverse=True)[1]
    if len(X) > most:
        X, _, y, _ = train_test_split(X, y, train_size=most, stratify=y, random_state=0)
    return X, y


def of_classes(method: Any, X: Array, y: Array) -> Row:
    """Score probabilities."""
    p = method.predict_proba(X)
    stated, right = p.max(axis=1), p.argmax(axis=1) == y
    place = np.minimum((10 * stated).astype(int), 9)
    gaps = np.bincount(place, stated - right, 10)
    able = [c for c in range(p.shape[1]) if 0 < (y == c).sum() < len(y)]
    loss = -np.log(np.clip(p[np.arange(len(y)), y], 1e-15, 1))
    return {
        "error": float(1 - right.mean()),
        "log_loss": float(loss.mean()),
        "auc": float(np.mean([roc_auc_score(y == c, p[:, c]) for c in able])),
        "ece": float(np.abs(gaps).sum() / len(y)),
        "wrong": np.flatnonzero(~right).tolist(),
    }


def of_numbers(method: Any, X: Array, y: Array) -> Row:
    """Score numbers and intervals."""
    row: Row = {"r2": float(r2_score(y, method.predict(X)))}
    if hasattr(method, "predict_interval") and getattr(method, "votes", "soft") == "soft":
        low, high = method.predict_interval(X).T
        inside = (low <= y) & (y <= high)
        row |= {"held": float(inside.mean()), "width": float((high - low).mean() / y.std())}
    return row


def measure(arguments: argparse.Namespace) -> None:
    """Run what is not in the results yet."""
    done = {(row["table"], row["split"], row["method"]) for row in stored()}
    for number, name in itertools.product(range(arguments.splits), arguments.tables):
        numbers = name in NUMBERS
        methods = REGRESSORS if numbers else CLASSIFIERS
        todo = [
            each
            for each in methods
            if each in (arguments.methods or methods)
            and (name, number, each + arguments.suffix) not in done
        ]
        if not todo:
            continue
        if numbers:
            X, y = NUMBERS[name]()
            cuts = list(ShuffleSplit(number + 1, test_size=0.3, random_state=0).split(X))
        else:
            X, y = rows_of(name, arguments.rows)
            cuts = list(splits(y, number + 1))
        train, test = cuts[number]
        for each in todo:
            method, start = methods[each](), time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                method.fit(X[train], y[train])
            seconds = time.process_time() - start
            row = {"table": name, "split": number, "method": each + arguments.suffix}
            row |= {"n": len(train), "d": X.shape[1], "fit_cpu": seconds}
            row |= (of_numbers if numbers else of_classes)(method, X[test], y[test])
            row |= {"parameters": " ".join(repr(method).split()), "versions": versions()}
            keep(RESULTS, row | {"commit": commit(Path(nearfar.__file__).parent)})


def stored() -> list[Row]:
    """Return the raw results."""
    beyond_linear.RESULTS = RESULTS
    return beyond_linear.stored()


def show(rows: list[Row]) -> None:
    """Print means over tables that all methods have, of the mean over splits."""
    for measures in (("error", "log_loss", "auc", "ece"), ("r2", "held", "width")):
        own = [row for row in rows if measures[0] in row]
        methods = list(dict.fromkeys(row["method"] for row in own))
        runs = {(row["table"], row["split"], row["method"]): row for row in own}
        cases = [c for c in {key[:2] for key in runs} if all((*c, m) in runs for m in methods)]
        tables = sorted({table for table, _ in cases})
        if not tables:
            continue
        print(f"{len(tables)} tables, {len(cases)} splits in all.\n")
        print("| | " + " | ".join(f"{name} | rank" for name in measures) + " | CPU seconds |")
        print("| --- |" + " --- |" * (2 * len(measures) + 1))

        def mean(
            table: str, method: str, measure: str, cases: Any = cases, runs: Any = runs
        ) -> Any:
            values = [runs[t, s, method].get(measure, np.nan) for t, s in cases if t == table]
            return np.mean(values)

        found = {
            name: np.array([[mean(t, m, name) for m in methods] for t in tables])
            for name in (*measures, "fit_cpu")
        }
        ranks = {
            name: rankdata(values if name in ("error", "log_loss", "ece", "width") else -values,
                           axis=1).mean(axis=0)
            for name, values in found.items()
        }  # fmt: skip
        for j, method in enumerate(methods):
            cells = [f"{found[name].mean(0)[j]:.4f} | {ranks[name][j]:.2f}" for name in measures]
            print(f"| {method} | {' | '.join(cells)} | {found['fit_cpu'].mean(0)[j]:.2f} |")
        print()


def main() -> None:
    global RESULTS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="two small tables, few methods")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="most rows of a table")
    parser.add_argument("--tables", type=lambda text: text.split(","), default=[*TABLES, *NUMBERS])
    parser.add_argument("--methods", type=lambda text: text.split(","), help="only these")
    parser.add_argument("--suffix", default="", help="added to the names of methods")
    parser.add_argument("--show", action="store_true", help="only print what is there")
    arguments = parser.parse_args()
    if arguments.toy:
        RESULTS = Path(tempfile.mkdtemp()) / "probabilities.jsonl"
        arguments.tables, arguments.splits, arguments.rows = ["iris", "diabetes"], 1, 90
        arguments.methods = ["logistic regression", "ridge regression", SOFT]
    if not arguments.show:
        measure(arguments)
    show(stored())


if __name__ == "__main__":
    main()
