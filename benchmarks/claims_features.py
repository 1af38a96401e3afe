"""How often claims hold if features are fitted to rows: before, to all of them, or inside.

"Before" is what users do who pass ready features: a transformer is fitted to all rows, also to
those that calibrate or test. "Inside" is a pipeline, whose steps are fitted to what is learned
from. Fresh rows of the same source tell the truth. Claims:

- thresholds certified by `PairVerifier` with 95 % confidence on many classes of a few rows: many
  columns of noise reduced to principal components or to discriminants, and misspelled names as
  TF-IDF weights of letters reduced by an SVD;
- gains of `compare` on classes that differ in a few of many columns, with discriminants or columns
  chosen by labels before RCA: the 90 % interval of the verdict.

Raw results are appended to results/claims_features.jsonl with commit and parameters, and a run goes
on where the last one ended. --show prints the tables in docs/reference/claims.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.pipeline import make_pipeline

import nearfar
from claims import Random, Row, rounded, share
from nearfar import RCA, Pairs, PairVerifier, compare
from nearfar.comparison import default_methods
from nearfar.comparison.tasks import score_distance
from nearfar.learners.scaling import Scaler
from nearfar.verification import TargetNotCertifiedError
from protocol import Array, commit

RESULTS = Path(__file__).parent / "results" / "claims_features.jsonl"
DRAWS = 200
FRESH = 2000
N_CLASSES, FRESH_CLASSES, ROWS = 120, 150, 4
TARGETS = ("fmr<=0.02", "recall>=0.6")
WAYS = ("before", "inside")


def noisy_identities(rng: Random, n_classes: int, spread: float) -> tuple[Array, Array]:
    """Rows of many classes, which differ in four of 100 columns."""
    y = np.repeat(np.arange(n_classes), ROWS)
    X = rng.normal(size=(len(y), 100))
    X[:, :4] += rng.normal(size=(n_classes, 4))[y] / spread
    return X, y


def names(rng: Random, n_classes: int, spread: float) -> tuple[Array, Array]:
    """Names with a wrong letter in some of their places."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    y = np.repeat(np.arange(n_classes), ROWS)
    spelled = rng.choice(letters, (n_classes, 10))[y]
    wrong = rng.random(spelled.shape) < spread / 3
    spelled = np.where(wrong, rng.choice(letters, spelled.shape), spelled)
    return np.array(["".join(word) for word in spelled], dtype=object), y


def letters() -> Any:
    """TF-IDF of letters and pairs of them, and its main axes."""
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 2))
    return make_pipeline(vectorizer, TruncatedSVD(40, random_state=0))


class Regime(NamedTuple):
    """Where rows come from, and the features that are fitted to them."""

    draw: Callable[[Random, int, float], tuple[Array, Array]]
    features: Any


IDENTITIES = {
    "principal components": Regime(noisy_identities, PCA(50, random_state=0)),
    "discriminants": Regime(noisy_identities, LinearDiscriminantAnalysis(n_components=8)),
    "letters of names": Regime(names, letters()),
}
TABLES = {
    "discriminants": LinearDiscriminantAnalysis(),
    "chosen columns": SelectKBest(k=5),
}


def parameters() -> Row:
    """What results depend on, as text."""
    return {
        "identities": {name: repr(each.features) for name, each in IDENTITIES.items()},
        "tables": {name: repr(each) for name, each in TABLES.items()},
        "learner": repr(RCA()),
        "targets": list(TARGETS),
        "sizes": [N_CLASSES, ROWS],
    }


def thresholds(rng: Random, regime: Regime) -> Row:
    """What certified thresholds reach on fresh classes; None if the target is refused."""
    spread = rng.uniform(0.3, 0.8)
    X, y = regime.draw(rng, N_CLASSES, spread)
    fresh, y_fresh = regime.draw(rng, FRESH_CLASSES, spread)
    i, j = np.triu_indices(len(fresh), 1)
    similar = y_fresh[i] == y_fresh[j]
    pairs = Pairs(np.column_stack([i, j]), similar)
    ready = clone(regime.features).fit(X, y)
    rows = {"before": (ready.transform(X), ready.transform(fresh)), "inside": (X, fresh)}
    learners = {"before": RCA(), "inside": make_pipeline(clone(regime.features), RCA())}
    out: Row = {}
    for way in WAYS:
        out[way] = {}
        for target in TARGETS:
            verifier = PairVerifier(learners[way], target=target, calibration=0.5, random_state=0)
            try:
                matched = verifier.fit(rows[way][0], y).predict(rows[way][1], pairs)
            except TargetNotCertifiedError:
                out[way][target] = None
                continue
            rates = matched[~similar].mean(), matched[similar].mean()
            out[way][target] = {"fmr": float(rates[0]), "recall": float(rates[1])}
    return out


def table_rows(rng: Random) -> tuple[Array, Array, Array, Array]:
    """Rows of two or three classes that differ in a few of 60 columns, and fresh ones."""
    n_classes, n = int(rng.integers(2, 4)), int(rng.integers(100, 251))
    k, strength = int(rng.integers(1, 6)), rng.uniform(0.5, 2.5)
    means = np.zeros((n_classes, 60))
    means[:, :k] = strength * rng.normal(size=(n_classes, k))
    y, y_fresh = rng.integers(n_classes, size=n), rng.integers(n_classes, size=FRESH)
    parts = [means[each] + rng.normal(size=(len(each), 60)) for each in (y, y_fresh)]
    return parts[0], y, parts[1], y_fresh


def gains(rng: Random, features: Any) -> Row:
    """What the verdict of `compare` says of classification, and the truth."""
    X, y, fresh, y_fresh = table_rows(rng)
    ready = clone(features).fit(X, y)
    rows = {"before": (ready.transform(X), ready.transform(fresh)), "inside": (X, fresh)}
    learners = {"before": RCA(), "inside": make_pipeline(clone(features), RCA())}
    out: Row = {}
    for way in WAYS:
        X, fresh = rows[way]
        chosen = {"mine": learners[way]}
        found = compare(X, y, chosen, n_neighbors=3, classifiers=False).by_goal("classification")
        verdict = found.verdict
        methods = {method.name: method for method in default_methods(chosen)}
        scaler = Scaler.fit(X, "standard")
        errors = []
        for name in (found.reference.name, str(verdict.method)):
            parts = (X, fresh) if methods[name].raw else map(scaler.transform, (X, fresh))
            seen, new = parts
            distance = methods[name].fit_to(seen, y)
            scores = score_distance(distance, (seen, y), (new, y_fresh), n_neighbors=3)
            errors.append(float(np.nanmean(scores["error"])))
        out[way] = {
            "method": verdict.method,
            "category": verdict.category,
            "stated": found.loss(found.reference) - verdict.gain,
            "error": errors[1],
            "low": verdict.low,
            "high": verdict.high,
            "truth": errors[0] - errors[1],
        }
    return out


def outcome(number: int) -> Row:
    """Run one draw of each regime."""
    row: Row = {"draw": number, "thresholds": {}, "gains": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, regime in IDENTITIES.items():
            rng = np.random.default_rng([number, crc32(name.encode())])
            row["thresholds"][name] = thresholds(rng, regime)
        for name, features in TABLES.items():
            rng = np.random.default_rng([number, crc32(name.encode()), 1])
            row["gains"][name] = gains(rng, features)
    return {**row, "commit": commit(Path(nearfar.__file__).parent), "parameters": parameters()}


def stored() -> list[Row]:
    """Return the raw results."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown."""
    heads = " | ".join(f"`{target}`: certified | missed | mean" for target in TARGETS)
    lines = [f"| thresholds of {len(rows)} draws | fitted | {heads} |"]
    lines.append("| --- | --- |" + " --- | --- | --- |" * len(TARGETS))
    for name in IDENTITIES:
        for way in WAYS:
            results = [row["thresholds"][name][way] for row in rows]
            cells = " | ".join(threshold_cells(results, target) for target in TARGETS)
            lines.append(f"| {name} | {way} | {cells} |")
    lines += [
        "",
        f"| gains of {len(rows)} draws | fitted | intervals hold | too high | stated error of the "
        "method less true error |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in TABLES:
        for way in WAYS:
            found = [row["gains"][name][way] for row in rows]
            held = share(each["low"] <= each["truth"] <= each["high"] for each in found)
            high = share(each["truth"] < each["low"] for each in found)
            bias = 100 * np.mean([each["stated"] - each["error"] for each in found])
            lines.append(f"| {name} | {way} | {held} | {high} | {bias:+.1f} points |")
    return "\n".join(lines)


def threshold_cells(results: list[Row], target: str) -> str:
    found = [each[target] for each in results if each[target] is not None]
    if not found:
        return "0 | | "
    measure, wanted = target.replace("<=", ">=").split(">=")
    reached = np.array([each[measure] for each in found])
    misses = (reached > float(wanted) if "<=" in target else reached < float(wanted)).sum()
    return f"{len(found)} | {misses} | {reached.mean():.3f}"


def main() -> None:
    """Run, store and print."""
    global RESULTS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="one draw of each regime")
    parser.add_argument("--draws", type=int, default=DRAWS, help="draws of each regime")
    parser.add_argument("--show", action="store_true", help="only print what is there")
    arguments = parser.parse_args()
    if arguments.toy:
        RESULTS, arguments.draws = Path(tempfile.mkdtemp()) / "claims_features.jsonl", 1
    if not arguments.show:
        done = {row["draw"] for row in stored()}
        with RESULTS.open("a") as file:
            for number in range(arguments.draws):
                if number not in done:
                    file.write(json.dumps(rounded(outcome(number))) + "\n")
                    file.flush()
    print(table(stored()))


if __name__ == "__main__":
    main()
