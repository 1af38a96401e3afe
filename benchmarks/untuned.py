"""Every learner with its defaults on many tables.

Each table is taken as it is, and after standardising and PCA to at most 100 components. On random
70/30 splits: 3-NN error of doing nothing (Euclidean distance as it is and standardised), of every
learner by default, of scikit-learn's NCA, and with --metric-learn PYTHON (an interpreter that has
metric-learn) of its LMNN and SCML. A method is significantly worse than doing nothing if the sign
test on the test rows of all splits says so at 1 %; doing nothing is the better of the two scales on
the training rows (leave-one-out).

Raw errors are appended to results/untuned.jsonl as they come, with the commit and the parameters
that they were made with, and a run goes on where the last one ended. With PYTHONPATH=CHECKOUT/src,
the learners of another checkout run; --suffix ", earlier" tells them apart. --show prints the table
in docs/reference/untuned.md from what is there.
"""

from __future__ import annotations

import argparse
import itertools
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
from sklearn.datasets import make_classification, make_moons
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearfar
from nearfar.learners.base import MetricLearner, known_learners
from nearfar.learners.scaling import Scaler
from nearfar.learners.selection.scale import choose_scale
from nearfar.supervision import Supervision
from protocol import Array, commit, load, splits

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
MAX_ROWS = 500
MAX_CLASSES = 30
NOTHING = "nothing"
LEVEL = 0.01
Row = dict[str, Any]


def labelled_rows(name: str, max_rows: int) -> tuple[Array, Array]:
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
    """Yield a table as it is, and unless it is large, its principal components."""
    X, y = labelled_rows(name, max_rows)
    large = max_rows > MAX_ROWS
    yield f"{name}, {max_rows} rows" if large else name, X, y
    if X.shape[1] > 3 and not large:
        Z = StandardScaler().fit_transform(X)
        n = min(100, *(np.array(Z.shape) - 1))
        yield f"{name} + PCA", PCA(n, random_state=0).fit_transform(Z), y


def methods() -> dict[str, Any]:
    """Name -> a learner, or another estimator of a map of rows."""
    found: dict[str, Any] = {
        NOTHING: None,
        "scikit-learn NCA": make_pipeline(
            StandardScaler(), NeighborhoodComponentsAnalysis(random_state=0)
        ),
    }
    for name, kind in known_learners().items():
        if "labels" in kind.supervision:
            found[name] = kind()
            if "random_state" in found[name].get_params():
                found[name].set_params(random_state=0)
    return found


def fitted(method: Any, X: Array, y: Array) -> Callable[[Array], Array]:
    """Return the map of rows that a method learns."""
    if method is None:
        scale = choose_scale(X, Supervision.of(y, len(X)), ["unit", "standard"])
        return Scaler.fit(X, scale).transform
    return method.fit(X, y).transform


class MetricLearn:
    """A learner of metric-learn on standardised rows, fitted by another interpreter."""

    def __init__(self, python: str, name: str) -> None:
        self.python, self.name = python, name

    def fit(self, X: Array, y: Array) -> MetricLearn:
        """Learn a map in a process of its own."""
        code = (
            "import sys, time, numpy as np\n"
            f"from metric_learn import {self.name} as Learner\n"
            "d = np.load(sys.argv[1])\n"
            "start = time.process_time()\n"
            "L = Learner(random_state=0).fit(d['X'], d['y']).components_\n"
            "np.savez(sys.argv[2], L=L, cpu=time.process_time() - start)\n"
        )
        self.scaler = StandardScaler().fit(X)
        with tempfile.TemporaryDirectory() as folder:
            data, out = Path(folder) / "data.npz", Path(folder) / "L.npz"
            np.savez(data, X=self.scaler.transform(X), y=y)
            command = [self.python, "-W", "ignore", "-c", code, str(data), str(out)]
            subprocess.run(command, check=True, cwd=folder)
            with np.load(out) as found:
                self.L, self.cpu = found["L"], float(found["cpu"])
        return self

    def transform(self, X: Array) -> Array:
        """Map rows."""
        return np.asarray(self.scaler.transform(X) @ self.L.T)


def measure(arguments: argparse.Namespace) -> None:
    """Run what is not in the results yet."""
    done = {(row["table"], row["split"], row["method"]) for row in stored()}
    chosen = methods()
    if arguments.metric_learn:
        for name in ("LMNN", "SCML_Supervised"):
            short = name.removesuffix("_Supervised")
            chosen[f"metric-learn {short}"] = MetricLearn(arguments.metric_learn, name)
    if arguments.methods:
        chosen = {name: method for name, method in chosen.items() if name in arguments.methods}
    for number, name in itertools.product(range(arguments.splits), arguments.tables):
        for form, X, y in forms(name, arguments.rows):
            train, test = list(splits(y, number + 1))[number]
            for method, estimator in chosen.items():
                key = {"table": form, "split": number, "method": method + arguments.suffix}
                if tuple(key.values()) not in done:
                    run(key, estimator, (X[train], y[train], X[test], y[test]))


def run(key: Row, method: Any, data: tuple[Array, ...]) -> None:
    """Fit, predict and keep which test rows are wrong."""
    X, y, X_test, y_test = data
    row = dict(key)
    start, cpu = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            map_of = fitted(method, X, y)
            row |= {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
            if isinstance(method, MetricLearn):
                row["cpu"] = method.cpu
            neighbors = KNeighborsClassifier(3).fit(map_of(X), y)
            wrong = neighbors.predict(map_of(X_test)) != y_test
        row |= {"n": len(wrong), "wrong": np.flatnonzero(wrong).tolist()}
    except (ValueError, subprocess.CalledProcessError) as error:
        row |= {"failed": str(error)}
    row["commit"] = commit(Path(nearfar.__file__).parent)
    if isinstance(method, MetricLearner):
        row["parameters"] = {name: repr(value) for name, value in method.get_params().items()}
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(row) + "\n")


def stored() -> list[Row]:
    """Return the raw results."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown: methods by their mean error."""
    by = {(row["table"], row["method"], row["split"]): row for row in rows if "wrong" in row}
    names = [name for name in dict.fromkeys(method for _, method, _ in by) if "," not in name]
    runs = sorted({(form, split) for form, _, split in by})
    complete = [run for run in runs if all((run[0], name, run[1]) in by for name in names)]
    errors = np.array(
        [
            [
                100 * len(by[form, name, split]["wrong"]) / by[form, name, split]["n"]
                for name in names
            ]
            for form, split in complete
        ]
    )
    among = {key: row for key, row in by.items() if (key[0], key[2]) in complete}
    ranks = rankdata(errors, axis=1).mean(axis=0)
    n_forms = len({form for form, _ in complete})
    lines = [
        f"{len(complete)} runs on {n_forms} forms have all methods.",
        "",
        "| | mean error % | mean rank | CPU seconds | better | worse |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for j in np.argsort(errors.mean(axis=0)):
        name = names[j]
        cpu = np.mean([by[form, name, split]["cpu"] for form, split in complete])
        better, worse = significant(among, name)
        counts = "| | |" if name == NOTHING else f"| {better} | {len(worse)} |"
        lines.append(f"| {name} | {errors[:, j].mean():.2f} | {ranks[j]:.1f} | {cpu:.2f} {counts}")
    return "\n".join([*lines, "", *comparisons(by), *all_runs(by)])


def all_runs(by: dict[tuple[str, str, int], Row]) -> Iterator[str]:
    """Yield a sentence on AutoMetric and doing nothing, on all splits."""
    keys = [(form, split) for form, method, split in by if method == "AutoMetric"]
    own, nothing = (
        100 * np.mean([len(by[form, m, s]["wrong"]) / by[form, m, s]["n"] for form, s in keys])
        for m in ("AutoMetric", NOTHING)
    )
    better, worse = significant(by, "AutoMetric")
    yield (
        f"AutoMetric on all {len(keys)} runs: {own:.2f} % error, {nothing:.2f} % with nothing; "
        f"significantly better on {better} forms, worse on {len(worse)}."
    )


def comparisons(by: dict[tuple[str, str, int], Row]) -> Iterator[str]:
    """Yield a sentence for each method of another checkout."""
    for name in dict.fromkeys(method for _, method, _ in by if "," in method):
        own = name.partition(",")[0]
        pairs = {
            key: (by[key[0], own, key[2]], row)
            for key, row in by.items()
            if key[1] == name and (key[0], own, key[2]) in by
        }
        shares = np.array(
            [[100 * len(r["wrong"]) / r["n"] for r in rows] for rows in pairs.values()]
        )
        cpu = np.mean([[r["cpu"] for r in rows] for rows in pairs.values()], axis=0)
        forms_of = np.unique([form for form, _, _ in pairs], return_inverse=True)[1]
        gains = np.bincount(forms_of, shares[:, 0] - shares[:, 1]) / np.bincount(forms_of)
        spread = gains.std(ddof=1) / np.sqrt(len(gains))
        (former,) = {row["commit"] for _, row in pairs.values()}
        yield (
            f"{own} beside commit {former} ({len(pairs)} runs on {len(gains)} forms): "
            f"{shares[:, 0].mean():.2f} instead of {shares[:, 1].mean():.2f} % error "
            f"(difference {gains.mean():+.2f} ± {spread:.2f}, standard error over forms), "
            f"{cpu[0]:.1f} instead of {cpu[1]:.1f} CPU seconds."
        )


def significant(by: dict[tuple[str, str, int], Row], name: str) -> tuple[int, list[str]]:
    """Return on how many forms a method is better than doing nothing, and where it is worse."""
    better, worse = 0, []
    for form in sorted({form for form, method, _ in by if method == name}):
        gained = lost = 0
        for (table, method, split), row in by.items():
            reference = by.get((form, NOTHING, split))
            if (table, method) == (form, name) and reference is not None:
                own, other = set(row["wrong"]), set(reference["wrong"])
                gained, lost = gained + len(other - own), lost + len(own - other)
        if gained + lost and binomtest(gained, gained + lost).pvalue < LEVEL:
            better += gained > lost
            if lost > gained:
                worse.append(form)
    return better, worse


def main() -> None:
    global RESULTS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="two small tables, few learners")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, default=MAX_ROWS, help="most rows of a table")
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--methods", nargs="*", help="only these")
    parser.add_argument("--suffix", default="", help="added to the names of methods")
    parser.add_argument("--metric-learn", metavar="PYTHON", help="interpreter with metric-learn")
    parser.add_argument("--show", action="store_true", help="only print what is there")
    arguments = parser.parse_args()
    if arguments.toy:
        RESULTS = Path(tempfile.mkdtemp()) / "untuned.jsonl"
        arguments.tables, arguments.splits, arguments.rows = ["iris"], 1, 90
        arguments.methods = [NOTHING, "LDA", "AutoMetric", "DRMetric"]
    if not arguments.show:
        measure(arguments)
    print(table(stored()))


if __name__ == "__main__":
    main()
