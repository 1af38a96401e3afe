"""Every learner with its defaults, and with those of release 0.1, on many tables.

Each table is taken as it is, and after standardising and PCA to at most 100 components. On random
70/30 splits: 3-NN error of doing nothing (Euclidean distance as it is and standardised), of every
learner by default ("after") and with ``scale="standard", validation_fraction=None`` ("before"), of
AutoMetric, LDA and scikit-learn's NCA, and with --metric-learn PYTHON (an interpreter that has
metric-learn) of its LMNN. A method is significantly worse than doing nothing if the sign test on
the test rows of all splits says so at 1 %; doing nothing is the better of the two scales on the
training rows (leave-one-out).

Raw errors are appended to results/untuned.jsonl as they come, and a run goes on where the last one
ended; --show prints the tables of what is there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest, rankdata
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

import nearfar
from nearfar import AutoMetric
from nearfar.constraints import Supervision
from nearfar.learners.scaler import Scaler
from nearfar.learners.selection.auto import known_learners
from nearfar.learners.selection.scale import choose_scale
from protocol import Array, load, splits

TABLES = [
    "adult",
    "artificial_characters",
    "australian_credit",
    "balance_scale",
    "blood_transfusion",
    "breast_cancer_wisconsin",
    "breast_cancer_wisconsin_with_id",
    "caltech101_gist_bow",
    "clinc150_emb256",
    "coil20",
    "concentric_circles_50d",
    "corel1k_33",
    "glass",
    "heart_cleveland",
    "helix",
    "ionosphere",
    "iris",
    "letter",
    "mnist",
    "newsgroups20_emb256",
    "optdigits",
    "orl_32x32",
    "pima_diabetes",
    "segmentation_2310",
    "semeion",
    "sonar",
    "spect",
    "spectf",
    "twin_peaks",
    "usps_9298",
    "vehicle",
    "waveform",
    "wdbc",
    "wine",
    "yale_32x32",
    "digits",
    "generated_noise",
    "generated_units",
    "generated_moons",
]
RESULTS = Path(__file__).parent / "results" / "untuned.jsonl"
MAX_CLASSES = 30
NOTHING = "nothing"


def table(name: str, max_rows: int) -> tuple[Array, Array]:
    """Return a table of at most so many rows, and at most 30 classes of two or more rows."""
    rng = np.random.RandomState(0)
    if name == "generated_noise":
        X, y = make_classification(1000, 60, n_informative=6, n_redundant=4, random_state=0)
    elif name == "generated_units":
        X, y = make_classification(1000, 20, n_informative=8, n_classes=4, random_state=1)
        X = X * 10.0 ** rng.randint(-3, 4, 20)
    elif name == "generated_moons":
        X, y = make_moons(1000, noise=0.2, random_state=0)
        X = np.hstack([X, rng.standard_normal((1000, 8))])
    else:
        X, y = load(name)
    kept = np.flatnonzero(np.isin(y, np.unique(y)[:MAX_CLASSES]))
    rows = rng.permutation(kept)[:max_rows]
    y = np.unique(y[rows], return_inverse=True)[1]
    common = np.bincount(y)[y] >= 4
    return np.asarray(X[rows][common], dtype=np.float64), np.unique(y[common], return_inverse=True)[
        1
    ]


def forms(name: str, max_rows: int) -> Iterator[tuple[str, Array, Array]]:
    """Yield a table as it is, and its principal components."""
    X, y = table(name, max_rows)
    yield name, X, y
    if X.shape[1] > 3:
        Z = StandardScaler().fit_transform(X)
        n = min(100, *(np.array(Z.shape) - 1))
        yield f"{name} + PCA", PCA(n, random_state=0).fit_transform(Z), y


def methods(budget: float) -> dict[str, Callable[[Array, Array], Callable[[Array], Array]]]:
    """Name -> a function of training rows that returns a map of rows."""

    def learned(learner: Any) -> Callable[[Array, Array], Callable[[Array], Array]]:
        return lambda X, y: learner.fit(X, y).transform

    def standardised(estimator: Any) -> Callable[[Array, Array], Callable[[Array], Array]]:
        def fit(X: Array, y: Array) -> Callable[[Array], Array]:
            scaler = StandardScaler().fit(X)
            fitted = estimator.fit(scaler.transform(X), y)
            return lambda rows: np.asarray(fitted.transform(scaler.transform(rows)))

        return fit

    found: dict[str, Any] = {
        NOTHING: lambda X, y: (
            Scaler.fit(
                X, choose_scale(X, Supervision.of(y, len(X)), ["unit", "standard"])
            ).transform
        ),
        "Euclidean (unscaled)": lambda X, _: Scaler.fit(X, "unit").transform,
        "Euclidean, standardised": lambda X, _: Scaler.fit(X, "standard").transform,
        "LDA": standardised(LinearDiscriminantAnalysis()),
        "scikit-learn NCA": standardised(NeighborhoodComponentsAnalysis(random_state=0)),
        "AutoMetric": learned(AutoMetric(budget=budget)),
    }
    for name, cls in known_learners().items():
        if name == "AutoMetric" or "labels" not in cls.supervision:
            continue
        learner = cls()
        if "random_state" in learner.get_params():
            learner.set_params(random_state=0)
        old = {"scale": "standard", "validation_fraction": None}
        old = {key: value for key, value in old.items() if key in learner.get_params()}
        found[f"{name}, before"] = learned(clone(learner).set_params(**old))
        found[name] = learned(learner)
    return found


def metric_learn_lmnn(python: str, X: Array, y: Array) -> Array:
    """Return the map of metric-learn's LMNN on standardised rows, fitted by another interpreter."""
    code = (
        "import sys, numpy as np\n"
        "from metric_learn import LMNN\n"
        "d = np.load(sys.argv[1])\n"
        "np.save(sys.argv[2], LMNN(random_state=0).fit(d['X'], d['y']).components_)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "data.npz", Path(folder) / "L.npy"
        np.savez(data, X=X, y=y)
        command = [python, "-W", "ignore", "-c", code, str(data), str(out)]
        subprocess.run(command, check=True, cwd=folder)
        return np.asarray(np.load(out))


def predictions(map_of: Callable[[Array], Array], X: Array, y: Array, test: Array) -> Array:
    return np.asarray(KNeighborsClassifier(3).fit(map_of(X), y).predict(map_of(test)))


def measure(arguments: argparse.Namespace) -> None:
    """Run what is not in the results yet."""
    done = {(row["table"], row["split"], row["method"]) for row in read()}
    chosen = methods(arguments.budget)
    if arguments.methods:
        chosen = {name: fit for name, fit in chosen.items() if name in arguments.methods}
    for name in arguments.tables:
        for form, X, y in forms(name, arguments.rows):
            for number, (train, test) in enumerate(splits(y, arguments.splits)):
                work = dict(chosen)
                if arguments.metric_learn:
                    work["metric-learn LMNN"] = other_lmnn(arguments.metric_learn)
                for method, fit in work.items():
                    if (form, number, method) not in done:
                        run(form, number, method, fit, (X[train], y[train], X[test], y[test]))


def other_lmnn(python: str) -> Callable[[Array, Array], Callable[[Array], Array]]:
    def fit(X: Array, y: Array) -> Callable[[Array], Array]:
        scaler = StandardScaler().fit(X)
        L = metric_learn_lmnn(python, scaler.transform(X), y)
        return lambda rows: np.asarray(scaler.transform(rows) @ L.T)

    return fit


def run(form: str, number: int, method: str, fit: Any, data: tuple[Array, ...]) -> None:
    """Fit, predict and keep which test rows are wrong."""
    X, y, X_test, y_test = data
    start, cpu = time.perf_counter(), time.process_time()
    row: dict[str, Any] = {"table": form, "split": number, "method": method}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            map_of = fit(X, y)
            row |= {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
            wrong = predictions(map_of, X, y, X_test) != y_test
        row |= {"n": len(wrong), "wrong": np.flatnonzero(wrong).tolist()}
    except (ValueError, subprocess.CalledProcessError) as error:
        row |= {"failed": str(error)}
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(row) + "\n")


def read() -> list[dict[str, Any]]:
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def show() -> None:
    """Print mean error, mean rank, time and the tables on which each method is worse."""
    rows = [row for row in read() if "wrong" in row]
    tables = sorted({row["table"] for row in rows})
    names = list(dict.fromkeys(row["method"] for row in rows))
    by = {(row["table"], row["method"], row["split"]): row for row in rows}
    errors = np.full((len(tables), len(names)), np.nan)
    cpu = np.full_like(errors, np.nan)
    worse: dict[str, list[str]] = {name: [] for name in names}
    better: dict[str, int] = dict.fromkeys(names, 0)
    for i, form in enumerate(tables):
        for j, name in enumerate(names):
            runs = [row for (t, m, _), row in by.items() if (t, m) == (form, name)]
            if runs:
                errors[i, j] = 100 * np.mean([len(row["wrong"]) / row["n"] for row in runs])
                cpu[i, j] = np.mean([row["cpu"] for row in runs])
            gained, lost = differences(by, form, name)
            if gained + lost and binomtest(gained, gained + lost).pvalue < 0.01:
                better[name] += gained > lost
                if lost > gained:
                    worse[name].append(f"{form} (+{lost - gained})")
    complete = ~np.isnan(errors).any(axis=1)
    ranks = np.array([rankdata(row) for row in errors[complete]])
    best_single = np.nanmin(
        errors[:, [j for j, n in enumerate(names) if n != "AutoMetric"]], axis=1
    )
    print(f"{len(tables)} tables, {int(complete.sum())} of them with all methods\n")
    print("method                       error   rank    CPU s  better  worse")
    means = errors[complete].mean(axis=0) if complete.any() else np.nanmean(errors, axis=0)
    order = np.argsort(means)
    for j in order:
        name = names[j]
        rank = ranks[:, j].mean() if len(ranks) else np.nan
        print(
            f"{name:27s} {means[j]:6.2f} {rank:6.1f} {np.nanmean(cpu[:, j]):8.2f} "
            f"{better[name]:6d} {len(worse[name]):6d}  {', '.join(worse[name][:6])}"
        )
    if "AutoMetric" in names:
        own = errors[:, names.index("AutoMetric")]
        known = ~np.isnan(own)
        excess = (own[known] - best_single[known]).mean() / best_single[known].mean()
        print(
            f"\nAutoMetric against the best single method of each table: {excess:+.1%} of its error"
        )


def differences(by: dict[Any, Any], form: str, name: str) -> tuple[int, int]:
    """Count test rows that only doing nothing has wrong, and those that only the method has."""
    gained = lost = 0
    for (t, method, split), row in by.items():
        reference = by.get((form, NOTHING, split))
        if t == form and method == name and reference is not None:
            own, other = set(row["wrong"]), set(reference["wrong"])
            gained, lost = gained + len(other - own), lost + len(own - other)
    return gained, lost


def main() -> None:
    global RESULTS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="two small tables, few learners")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1000, help="most rows of a table")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for AutoMetric")
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--methods", nargs="*", help="only these")
    parser.add_argument("--metric-learn", metavar="PYTHON", help="interpreter with metric-learn")
    parser.add_argument("--show", action="store_true", help="only print what is there")
    arguments = parser.parse_args()
    if arguments.toy:
        RESULTS = Path(tempfile.mkdtemp()) / "untuned.jsonl"
        arguments.tables, arguments.splits, arguments.rows = ["iris"], 1, 90
        arguments.methods = [NOTHING, "LDA", "AutoMetric", "DRMetric", "DRMetric, before"]
        arguments.budget = 5.0
    if not arguments.show:
        measure(arguments)
    show()


if __name__ == "__main__":
    print(f"nearfar {nearfar.__version__}\n")
    main()
