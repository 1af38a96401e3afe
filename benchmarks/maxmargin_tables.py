"""Max-margin metrics: the paper's Table 1, and Figure 1 with a kernel.

1. 3-NN error after learning from 200 random pairs (2,000 for USPS), half for training, ten runs
   (three for USPS): Euclidean distance, the problem as printed (no prior), the default, and C
   chosen on held-out pairs.
2. 1-NN accuracy on ten random classes of Caltech-101 (GIST features), by the number of training
   pictures of a class: the RBF kernel as it is, and the metric learned in its space.
3. Same or different on held-out pairs: the learned threshold, and others on a held-out part.

    python benchmarks/maxmargin_tables.py [--toy]
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import recall_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from nearfar import MaxMarginMetric, PairVerifier, RandomPairs, max_margin_path
from nearfar.evaluate import knn_error
from protocol import arguments, euclidean_error, load, percent, record, splits

Array = NDArray[Any]

PAPER = {
    "balance_scale": (18.18, 11.87),
    "breast_cancer_wisconsin_with_id": (38.58, 3.5),
    "pima_diabetes": (30.56, 28.52),
    "segmentation_210": (24.86, 10.9),
    "sonar": (25.99, 14.52),
    "wine:scaled": (3.93, 1.97),
    "breast_cancer_wisconsin:scaled": (3.28, 3.37),
    "usps_11000": (6.71, 3.85),
}
"""Euclidean and max-margin 3-NN errors of Table 1, in percent."""

MANY_ROWS = 5_000
TRAINING = (5, 10, 15, 20, 25, 30)


def table_1(names: list[str], n_runs: int) -> list[dict[str, Any]]:
    columns = ["Euclidean", "standardised", "as printed", "default", "C chosen"]
    print("3-NN error, %; the paper's Euclidean and max-margin")
    print(f"{'set':34}" + "".join(f"{c:>16}" for c in columns) + f"{'C':>8}")
    rows = []
    for name in names:
        X, y = load(name)
        n_pairs = 2000 if len(X) > MANY_ROWS else 200
        errors: dict[str, list[float]] = {column: [] for column in columns}
        chosen = []
        runs = n_runs if len(X) <= MANY_ROWS else min(3, n_runs)
        for seed, (train, test) in enumerate(splits(y, runs, test_size=0.5)):
            pairs = RandomPairs(n_pairs)(X[train], y[train], np.random.RandomState(seed))
            path = max_margin_path(X[train], pairs, random_state=seed)
            chosen.append(path.best.C)
            learners = {
                "as printed": MaxMarginMetric(variant="paper").fit(X[train], pairs),
                "default": MaxMarginMetric().fit(X[train], pairs),
                "C chosen": path.best,
            }
            errors["Euclidean"].append(euclidean_error(X, y, train, test, scaled=False))
            errors["standardised"].append(euclidean_error(X, y, train, test, scaled=True))
            for column, learner in learners.items():
                errors[column].append(
                    knn_error(learner.metric_, X[train], y[train], X[test], y[test])
                )
        paper = PAPER[name]
        print(
            f"{name:34}"
            + "".join(f"{percent(errors[c]):>16}" for c in columns)
            + f"{np.median(chosen):8.0f}{paper[0]:8.2f}{paper[1]:8.2f}",
            flush=True,
        )
        rows += [
            {"part": "table 1", "set": name, "method": c, "error": e}
            for c in columns
            for e in errors[c]
        ]
    return rows


def figure_1(name: str, training: tuple[int, ...], n_runs: int) -> list[dict[str, Any]]:
    print("\nFigure 1: mean 1-NN accuracy over ten classes, %, by training samples of a class")
    X, y = load(name)
    rows: list[dict[str, Any]] = []
    for number in training:
        found: dict[str, list[float]] = {"kernel": [], "learned": [], "C chosen": []}
        start = time.perf_counter()
        for seed in range(n_runs):
            train, test = ten_classes(y, number, np.random.default_rng(seed))
            scaler = StandardScaler().fit(X[train])
            P, Q = scaler.transform(X[train]), scaler.transform(X[test])
            gamma = 1.0 / float(np.median(((P[:, None] - P[None]) ** 2).sum(-1)))
            learner = MaxMarginMetric(kernel="rbf", gamma=gamma, random_state=seed)
            path = max_margin_path(X[train], y[train], learner=learner, random_state=seed)
            learner.fit(X[train], y[train])
            found["kernel"].append(nearest_accuracy(P, y[train], Q, y[test]))
            for column, fitted in (("learned", learner), ("C chosen", path.best)):
                mapped = fitted.transform(X[train]), fitted.transform(X[test])
                found[column].append(nearest_accuracy(mapped[0], y[train], mapped[1], y[test]))
        print(
            f"{number:4}  "
            + "  ".join(f"{column} {percent(values)}" for column, values in found.items())
            + f"  ({(time.perf_counter() - start) / n_runs:.1f} s per run)",
            flush=True,
        )
        rows += [
            {"part": "figure 1", "training": number, "method": c, "accuracy": a}
            for c, values in found.items()
            for a in values
        ]
    return rows


def ten_classes(y: Array, number: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw ten classes that are large enough, and training and test rows of them."""
    labels, sizes = np.unique(y, return_counts=True)
    train, test = [], []
    for label in rng.choice(labels[sizes > number], min(10, len(labels)), replace=False):
        rows = rng.permutation(np.flatnonzero(y == label))
        train.append(rows[:number])
        test.append(rows[number:])
    return np.concatenate(train), np.concatenate(test)


def nearest_accuracy(P: Array, y: Array, Q: Array, y_test: Array) -> float:
    predicted = KNeighborsClassifier(1).fit(P, y).predict(Q)
    return float(recall_score(y_test, predicted, average="macro"))


def verification(names: list[str], n_runs: int) -> list[dict[str, Any]]:
    print("\nSame or different: share of held-out pairs classified correctly, %")
    rows = []
    for name in names:
        X, y = load(name)
        found: dict[str, list[float]] = {}
        for seed, (train, test) in enumerate(splits(y, n_runs, test_size=0.5)):
            pairs = RandomPairs(2000)(X[train], y[train], np.random.RandomState(seed))
            unseen = RandomPairs(2000)(X[test], y[test], np.random.RandomState(seed))
            for criterion in ("margin", "accuracy", "eer", "fbeta"):
                verifier = PairVerifier(criterion=criterion, random_state=seed)
                score = verifier.fit(X[train], pairs).score(X[test], unseen)
                found.setdefault(criterion, []).append(score)
        print(f"{name:24}" + "".join(f"  {c} {percent(v)}" for c, v in found.items()), flush=True)
        rows += [
            {"part": "verification", "set": name, "method": c, "accuracy": a}
            for c, values in found.items()
            for a in values
        ]
    return rows


def main() -> None:
    options = arguments(__doc__)
    toy = options.toy
    n_runs = options.splits or (2 if toy else 10)
    rows = table_1(["wine:scaled"] if toy else list(PAPER), n_runs)
    rows += figure_1(*(("wine", (10,), 1) if toy else ("caltech101_gist_bow", TRAINING, 5)))
    rows += verification(["wine"] if toy else ["wine", "ionosphere", "vehicle"], n_runs)
    record("maxmargin_tables", rows)


if __name__ == "__main__":
    main()
