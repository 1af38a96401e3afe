"""How often the probabilities of `MetricNeighborsClassifier` hold, and how many strangers it finds.

- Generated problems in the regimes of claims.py, whose fresh rows tell the truth.
- Tables: stratified splits, three quarters to learn from. Bins are the numbers of the
  three nearest rows that have the predicted class.
- Strangers: tables without one of their classes. Rows of it are strangers; held-out rows of the
  others raise false alarms. Isolation forest and LOF (scikit-learn's, on standardised columns)
  alarm as often on the same rows: their thresholds are set there, which favours them. Penguins are
  those of the PyPI package palmerpenguins.

Raw results are appended to results/claims_votes.jsonl with commit and parameters, and a run goes on
where the last one ended. --show prints the tables in docs/reference/claims.md from what is there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.ensemble import IsolationForest
from sklearn.model_selection import train_test_split
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler

import nearfar
from claims import DRAWS, TABLES, UNNAMED
from nearfar import LDA, NCA, MetricNeighborsClassifier
from nearfar.neighbors import kneighbors
from nearfar.neighbors.strangeness import Strangeness
from protocol import Array, commit, load

RESULTS = Path(__file__).parent / "results" / "claims_votes.jsonl"
SPLITS = 20
N_NEIGHBORS = 3
LEVELS = (0.01, 0.05)
MOST_ROWS = 1000
FEWEST_ROWS = 100
"""In a bin that is shown."""
NEAR = 0.03
ONE_SIDED = 1.645
Row = dict[str, Any]


def diabetes() -> tuple[Array, Array]:
    """Return tertiles of a number, and ten columns of noise."""
    X, target = load_diabetes(return_X_y=True)
    noise = np.random.default_rng(0).normal(size=(len(X), 10))
    return np.hstack([X / X.std(axis=0), noise]), np.digitize(
        target, np.quantile(target, [1 / 3, 2 / 3])
    )


SKLEARN: dict[str, Callable[[], tuple[Array, Array]]] = {
    "diabetes and noise": diabetes,
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
}
CLAIMED = [
    *SKLEARN,
    "balance_scale",
    "vehicle",
    "pima_diabetes",
    "ionosphere",
    "glass",
    "sonar",
    "heart_cleveland",
    "waveform",
]
LEFT_OUT = [
    "penguins",
    "iris",
    "wine",
    "digits",
    "vehicle",
    "segmentation_2310",
    "glass",
    "waveform",
    "letter",
    "corel1k_33",
    "semeion",
]


@cache
def table_of(name: str) -> tuple[Array, Array]:
    """Return rows and classes, at most some of them."""
    if name in SKLEARN:
        X, y = SKLEARN[name]()
    elif name == "penguins":
        X, y = penguins()
    else:
        X, y = load(name)
    rows = np.random.default_rng(0).permutation(len(X))[:MOST_ROWS]
    return np.asarray(X, dtype=float)[rows], np.unique(y[rows], return_inverse=True)[1]


def penguins() -> tuple[Array, Array]:
    """Return the four measurements of the PyPI package palmerpenguins."""
    from palmerpenguins import load_penguins  # type: ignore[import-not-found]

    table = load_penguins().dropna(subset=["bill_length_mm"])
    names = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
    return table[names].to_numpy(), table["species"].to_numpy()


def learners() -> dict[str, Any]:
    return {"LDA": LDA(), "NCA": NCA(random_state=0)}


def parameters() -> Row:
    """What results depend on, as text."""
    learned = {name: repr(MetricNeighborsClassifier(each)) for name, each in learners().items()}
    return {**learned, "n_neighbors": N_NEIGHBORS, "levels": list(LEVELS), "most rows": MOST_ROWS}


def claims(learner: Any, X: Array, y: Array, X_test: Array, y_test: Array, groups: Any) -> Row:
    """Count claims by the votes for the winner: rows, sum of the claims, and right ones."""
    classifier = MetricNeighborsClassifier(learner, n_neighbors=N_NEIGHBORS)
    classifier.fit(X, y, groups=groups)
    stated = classifier.predict_proba(X_test)
    claimed, right = stated.max(axis=1), classifier.classes_[stated.argmax(axis=1)] == y_test
    neighbors = kneighbors(classifier.metric_, X, X_test, n_neighbors=N_NEIGHBORS)[1]
    votes = (y[neighbors] == classifier.classes_[stated.argmax(axis=1)][:, None]).sum(axis=1)
    bins = []
    for number in range(1, N_NEIGHBORS + 1):
        of = np.rint(votes) == number
        bins.append([int(of.sum()), float(claimed[of].sum()), int(right[of].sum())])
    return {"bins": bins}


def strangers(name: str, number: int) -> Row:
    """Leave one class out; return how often there are alarms on like rows, and on strangers."""
    X, y = table_of(name)
    able = [each for each in np.unique(y) if (y == each).sum() >= 10]
    kind = able[number % len(able)]
    known, new = np.flatnonzero(y != kind), np.flatnonzero(y == kind)
    order = np.random.default_rng(number).permutation(known)
    test, train = order[: len(order) // 3], order[len(order) // 3 :]
    scaler = StandardScaler().fit(X[train])
    rows, like, unlike = (scaler.transform(X[each]) for each in (train, test, new))
    ours = Strangeness(X[train], y[train])
    p_values = [ours.p_values(X[each]) for each in (test, new)]
    forest = IsolationForest(random_state=number).fit(rows)
    lof = LocalOutlierFactor(novelty=True).fit(rows)
    out: Row = {"rows": len(train), "strangers": len(new)}
    for level in LEVELS:
        alarms, found = (float((each <= level).mean()) for each in p_values)
        # As many false alarms as stated, or as nearfar raises if these are more.
        share = max(level, alarms)
        out[str(level)] = {"alarms": alarms, "nearfar": found}
        for method, model in (("isolation forest", forest), ("LOF", lof)):
            limit = np.quantile(model.score_samples(like), share, method="lower")
            out[str(level)][method] = float((model.score_samples(unlike) <= limit).mean())
    return out


def outcome(what: str, number: int) -> Row:
    """Run one draw of a regime, or one split of a table."""
    kind, _, name = what.partition(": ")
    start = time.process_time()
    row: Row = {"what": what, "draw": number}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "strangers":
            row |= strangers(name, number)
        elif kind in learners():
            X, y = table_of(name)
            X, X_test, y, y_test = train_test_split(X, y, random_state=number, stratify=y)
            row |= claims(learners()[kind], X, y, X_test, y_test, None)
        else:
            rng = np.random.default_rng([number, crc32(name.encode())])
            draw = TABLES[name](rng)
            row |= claims(LDA(), draw.X, draw.y, draw.fresh, draw.y_fresh, draw.groups)
    row["cpu"] = round(time.process_time() - start, 3)
    return {**row, "commit": commit(Path(nearfar.__file__).parent), "parameters": parameters()}


def stored() -> list[Row]:
    """Return the raw results."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown."""
    by: dict[str, list[Row]] = {}
    for row in rows:
        by.setdefault(row["what"], []).append(row)
    votes = " | ".join(f"{k + 1} of {N_NEIGHBORS}: stated | true" for k in range(N_NEIGHBORS))
    head = f"draws | all: stated | true | {votes} |"
    rule = "| --- |" + " --- |" * (3 + 2 * N_NEIGHBORS)
    lines = [f"| regime | {head}", rule]
    lines += [claim_line(what, by[what]) for what in by if what.startswith("regime: ")]
    for name in (name for name in learners() if any(what.startswith(name) for what in by)):
        lines += ["", f"| {name} | {head}", rule]
        lines += [claim_line(what, by[what]) for what in by if what.startswith(f"{name}: ")]
    lines += ["", deviations([these for these in by.values() if "bins" in these[0]])]
    found = {what.partition(": ")[2]: by[what] for what in by if what.startswith("strangers: ")}
    columns = ("false alarms", "found", "isolation forest", "LOF")
    titles = " | ".join(f"{100 * level:g} %: {each}" for level in LEVELS for each in columns)
    lines += ["", f"| left out of | rows | {titles} |"]
    lines.append("| --- |" + " --- |" * (1 + len(columns) * len(LEVELS)))
    means = {name: stranger_means(these) for name, these in found.items()}
    for name, values in means.items():
        cells = " | ".join("" if np.isnan(each) else f"{100 * each:.1f} %" for each in values)
        lines.append(f"| {name} | {found[name][0]['rows']} | {cells} |")
    if means:
        known = np.ma.masked_invalid(list(means.values()))
        cells = " | ".join(f"{100 * each:.1f} %" for each in known.mean(axis=0).filled(0.0))
        lines.append(f"| mean | | {cells} |")
    return "\n".join(lines)


def claim_line(what: str, rows: list[Row]) -> str:
    bins = np.sum([row["bins"] for row in rows], axis=0)
    cells = []
    for n, claimed, right in (bins.sum(axis=0), *bins):
        cells += (
            [f"{100 * claimed / n:.1f} %", f"{100 * right / n:.1f} %"]
            if n >= FEWEST_ROWS
            else ["", ""]
        )
    return f"| {what.partition(': ')[2]} | {len(rows)} | {' | '.join(cells)} |"


def deviations(found: list[list[Row]]) -> str:
    """Count the bins that are off by more than `NEAR`, and by more than noise explains.

    Rows of one draw share what was learned, and those of splits repeat: the standard error comes
    from the spread over draws.
    """
    ratios = []
    for rows in found:
        for n, claimed, right in np.moveaxis(np.array([row["bins"] for row in rows]), 0, -1):
            if n.sum() >= FEWEST_ROWS and len(n) > 1:
                off = (claimed - right).sum() / n.sum()
                error = (claimed - right - off * n).std(ddof=1) * np.sqrt(len(n)) / n.sum()
                ratios.append([off, (abs(off) - NEAR) / error])
    off, excess = np.reshape(ratios, (-1, 2)).T
    low, high = (int((excess[off * sign > 0] > ONE_SIDED).sum()) for sign in (-1, 1))
    return (
        f"Of {len(off)} bins, {int((abs(off) > NEAR).sum())} are off by more than "
        f"{100 * NEAR:g} points. By more than that beyond noise (one-sided, 5 %), {low} state too "
        f"little and {high} too much."
    )


def stranger_means(rows: list[Row]) -> list[float]:
    """Return rates at each level; nan where there are too few rows for p-values as small."""
    out: list[float] = []
    for level in LEVELS:
        able = [row[str(level)] for row in rows if row["rows"] * level >= 1]
        keys = ("alarms", "nearfar", "isolation forest", "LOF")
        out += [float(np.mean([each[key] for each in able] or [np.nan])) for key in keys]
    return out


def main() -> None:
    """Run, store and print."""
    global RESULTS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="one draw of some of them")
    parser.add_argument("--draws", type=int, default=DRAWS, help="draws of each regime")
    parser.add_argument("--show", action="store_true", help="only print what is there")
    parser.add_argument("--only", default="", help="beginnings of what to run, with | between")
    arguments = parser.parse_args()
    regimes = [f"regime: {name}" for name in TABLES if name != UNNAMED]
    splits = [f"strangers: {name}" for name in LEFT_OUT]
    splits += [f"{learner}: {name}" for learner in learners() for name in CLAIMED]
    times = {**dict.fromkeys(splits, SPLITS), **dict.fromkeys(regimes, arguments.draws)}
    if arguments.toy:
        RESULTS = Path(tempfile.mkdtemp()) / "claims_votes.jsonl"
        times = {"strangers: iris": 1, "LDA: iris": 1, "regime: 30 rows": 1}
    if not arguments.show:
        RESULTS.parent.mkdir(exist_ok=True)
        done = {(row["what"], row["draw"]) for row in stored()}
        wanted = [what for what in times if what.startswith(tuple(arguments.only.split("|")))]
        with RESULTS.open("a") as file:
            for number in range(max(times[what] for what in wanted)):
                for what in wanted:
                    if number < times[what] and (what, number) not in done:
                        file.write(json.dumps(outcome(what, number)) + "\n")
                        file.flush()
    print(table(stored()))


if __name__ == "__main__":
    main()
