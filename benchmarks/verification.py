"""How often targets are missed on classes that are new.

On random parts of the classes of ORL faces and CLINC150 intents: a metric is learned from some
classes (RCA, after principal components of their rows), thresholds are chosen on others, and error
rates are measured on the rest. For each target, at a confidence of 95 %: how often the classes were
too few to show it, the figure reached on the fresh classes, and how often it misses the target. A
fresh figure has its own noise, as the fresh classes are no more than those for calibration, so that
"clearly missed" counts draws whose fresh pairs alone show a miss, at 95 % confidence. The last
columns are those of the naive threshold, at which the calibration pairs just meet the target.

"synthetic" has as many fresh classes as needed to know the true figure.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.decomposition import PCA

from nearfar import RCA, Metric, Pairs
from nearfar.evidence.certify import jackknife_variance
from nearfar.measures import LikelihoodRatios, cllr, min_cllr, verification
from nearfar.verification import Bound, PairEvidence, TargetNotCertifiedError, choose_threshold
from protocol import Array, commit, load, record
from protocol import stored as read

TABLES = {"orl_112x92": (10, 12, 14), "clinc150_emb256": (20, 40, 60), "synthetic": (6, 30, 100)}
"""Rows of each class, classes to learn from, and classes to calibrate on."""
TARGETS = (
    Bound("precision", 0.95),
    Bound("precision", 0.99),
    Bound("fmr", 1e-2),
    Bound("fmr", 1e-3),
)
PREVALENCE = 0.5
COMPONENTS = 30
SYNTHETIC_FRESH = 300
OUT_OF_SCOPE = 150


def parts(name: str, rng: np.random.RandomState, toy: bool) -> list[tuple[Array, Array]]:
    """Return rows and classes to learn from, to calibrate on, and fresh ones."""
    n_rows, n_learn, n_calibrate = TABLES[name]
    if name == "synthetic":
        X, y = synthetic(n_learn + n_calibrate + (30 if toy else SYNTHETIC_FRESH), n_rows, rng)
    else:
        X, y = load(name)
        if name.startswith("clinc"):
            X, y = X[y != OUT_OF_SCOPE], y[y != OUT_OF_SCOPE]
    classes = rng.permutation(np.unique(y))
    found = []
    for chosen in np.split(classes, [n_learn, n_learn + n_calibrate]):
        rows = [rng.permutation(np.flatnonzero(y == label))[:n_rows] for label in chosen]
        found.append((X[np.concatenate(rows)], y[np.concatenate(rows)]))
    return found


def synthetic(n_classes: int, n_rows: int, rng: np.random.RandomState) -> tuple[Array, Array]:
    """Classes of several spreads; one in ten is near the middle, and resembles many others."""
    middle = rng.choice([0.4, 1.0, 1.3], size=(n_classes, 1), p=[0.1, 0.6, 0.3])
    centers = middle * rng.normal(size=(n_classes, 8))
    y = np.repeat(np.arange(n_classes), n_rows)
    spread = rng.choice([0.2, 0.35, 0.6], size=n_classes)[y][:, None]
    return centers[y] + spread * rng.normal(size=(len(y), 8)), y


def measured(metric: Metric, X: Array, y: Array) -> tuple[Array, Pairs, PairEvidence]:
    """Return distances of all pairs of rows, the pairs, and the evidence they are."""
    i, j = np.triu_indices(len(y), 1)
    pairs = Pairs(np.column_stack([i, j]), y[i] == y[j])
    distances = metric.pair_distances(X, pairs)
    return distances, pairs, PairEvidence(distances, pairs.similar, y[pairs.index])


def figure(evidence: PairEvidence, target: Bound, threshold: float) -> float:
    """Return what a target is about, at a threshold; a precision of nothing is 1."""
    rates = evidence.rates(threshold)[0]
    if target.measure == "fmr":
        return float(rates.fmr)
    return float(np.nan_to_num(rates.precision(PREVALENCE), nan=1.0))


def missed(target: Bound, value: float) -> bool:
    return value > target.value if target.measure == "fmr" else value < target.value


def clearly_missed(evidence: PairEvidence, target: Bound, threshold: float) -> bool:
    """Tell whether the fresh pairs alone show that the threshold is beyond the target's."""
    rates, without = evidence.rates(threshold)
    if target.measure == "fmr":
        error, others = rates.fmr, without.fmr
    else:
        error, others = 1 - rates.precision(PREVALENCE), 1 - without.precision(PREVALENCE)
    quantile = student.ppf(0.95, evidence.n_counted - 1)
    return bool(error - quantile * np.sqrt(jackknife_variance(others)) > target.error)


def naive_threshold(evidence: PairEvidence, target: Bound) -> float:
    """Return the last threshold at which the pairs themselves meet the target."""
    rates = evidence.curve(evidence.thresholds)
    error = rates.fmr if target.measure == "fmr" else 1 - rates.precision(PREVALENCE)
    met = np.flatnonzero(error <= target.error)
    return float(evidence.thresholds[met[-1]]) if len(met) else -np.inf


def measure(name: str, seed: int, toy: bool) -> list[dict[str, Any]]:
    """Run one draw."""
    rng = np.random.RandomState(seed)
    (X, y), calibration, fresh = parts(name, rng, toy)
    reduced = PCA(min(COMPONENTS, X.shape[1], len(X) - 1), random_state=0).fit(X)
    metric = RCA().fit(reduced.transform(X), y).metric_
    distances, pairs, evidence = measured(metric, reduced.transform(calibration[0]), calibration[1])
    X_new = reduced.transform(fresh[0])
    new_distances, new_pairs, new = measured(metric, X_new, fresh[1])
    ratios = LikelihoodRatios.fit(distances, pairs, evidence.one_class)
    shared = {
        "table": name,
        "seed": seed,
        "eer": verification(metric, X_new, new_pairs).eer,
        "cllr": cllr(ratios(new_distances), new_pairs),
        "min_cllr": min_cllr(metric, X_new, new_pairs),
        "commit": commit(),
    }
    rows = []
    for target in TARGETS:
        naive = figure(new, target, naive_threshold(evidence, target))
        row = {
            **shared,
            "target": str(target),
            "naive": naive,
            "naive_missed": missed(target, naive),
        }
        try:
            found = choose_threshold(evidence, target, prevalence=PREVALENCE)
        except TargetNotCertifiedError as error:
            rows.append({**row, "refused": True, "classes_needed": error.classes_needed})
            continue
        reached = figure(new, target, found.threshold)
        rows.append(
            {
                **row,
                "refused": False,
                "reached": reached,
                "missed": missed(target, reached),
                "clearly": clearly_missed(new, target, found.threshold),
                "recall": float(new.rates(found.threshold)[0].recall),
            }
        )
    return rows


def stored() -> list[dict[str, Any]]:
    """Return the raw results."""
    return read("verification")


def table(rows: list[dict[str, Any]]) -> str:
    """Return the figures in Markdown."""
    heads = ["", "target", "certified", "reached", "recall", "missed", "clearly", "naive: missed"]
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " --- |" * (len(heads) - 1)]
    for name in dict.fromkeys(row["table"] for row in rows):
        mine = [row for row in rows if row["table"] == name]
        eer, cost, least = (np.mean([row[k] for row in mine]) for k in ("eer", "cllr", "min_cllr"))
        about = f"{name}: EER {eer:.1%}, Cllr {cost:.3f} (min {least:.3f})"
        for target in dict.fromkeys(row["target"] for row in mine):
            own = [row for row in mine if row["target"] == target]
            shown = [row for row in own if not row["refused"]]
            cells = [about, f"`{target}`", f"{len(shown)} of {len(own)}"]
            if shown:
                cells.append(f"{np.mean([row['reached'] for row in shown]):.4f}")
                cells.append(f"{np.mean([row['recall'] for row in shown]):.0%}")
                cells += [str(sum(row[key] for row in shown)) for key in ("missed", "clearly")]
            else:
                cells += [""] * 4
            cells.append(f"{sum(row['naive_missed'] for row in own)} of {len(own)}")
            lines.append("| " + " | ".join(cells) + " |")
            about = ""
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="synthetic classes, few draws")
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    arguments = parser.parse_args()
    if arguments.toy:
        arguments.draws, arguments.tables = 2, ["synthetic"]
    rows = []
    for name in arguments.tables:
        for seed in range(arguments.draws):
            rows += measure(name, seed, arguments.toy)
            print(name, seed, file=sys.stderr, flush=True)
    if not arguments.toy:
        record("verification", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
