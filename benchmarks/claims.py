"""How often claims hold where data are unlike those that they were calibrated on.

Regimes: normal rows as a reference, heavy tails, 20 % wrong labels, one row in 51 of the smaller
class, rows that are there three times, eight rows of each person (named as groups, and not), 30
rows, and labels at random. Each draw is a problem of its own, some of which have little to gain.
Fresh rows of the same source tell the truth; they are no copies, and of other persons. Claims:

- the 90 % interval of `AutoMetric.expected_`;
- the verdicts of `compare`, for classification and ranking: gains that are at least 90 % sure,
  and the 90 % intervals of gains;
- thresholds certified by `PairVerifier` on many classes of few rows in the same regimes, with 95 %
  confidence. Instead of persons there are families of classes that resemble each other, and the
  classes of unequal sizes have 2 or 50 rows.

Raw results are appended to results/claims.jsonl with commit and parameters, and a run goes on where
the last one ended. --show prints the tables in docs/reference/claims.md from what is there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

import nearfar
from nearfar import NCA, RCA, AutoMetric, DRMetric, PairVerifier, compare
from nearfar.comparison import default_methods
from nearfar.comparison.tasks import Losses, score_distance
from nearfar.evidence.gain import smallest_gain
from nearfar.evidence.intervals import known_mean
from nearfar.learners.scaling import Scaler
from nearfar.measures import knn_error
from nearfar.verification import TargetNotCertifiedError
from protocol import Array, commit

RESULTS = Path(__file__).parent / "results" / "claims.jsonl"
DRAWS = 200
FRESH = 4000
FRESH_CLASSES = 200
CANDIDATES = ("RCA", "LDA", "GMML", "DRMetric", "NCA", "ForestMetric", "PiecewiseMetric")
TARGETS = ("fmr<=0.05", "precision>=0.9")
PREVALENCE = 0.5
SURE = 0.9
GOALS = {"classification": "error", "ranking": "map_at_r"}
Random = np.random.Generator
Row = dict[str, Any]


class Draw(NamedTuple):
    """Rows to learn from, with groups if there are any, and fresh ones."""

    X: Array
    y: Array
    fresh: Array
    y_fresh: Array
    groups: Array | None = None
    counted: Array | None = None
    """Groups that the truth is found with, where `compare` has to find them itself."""


class Source:
    """Classes that differ in some of a few columns of different units."""

    def __init__(self, rng: Random, *, tails: bool = False, shares: Iterable[float] = ()) -> None:
        self.rng, self.tails = rng, tails
        n_classes = int(rng.integers(2, 4))
        self.shares = list(shares) or [1 / n_classes] * n_classes
        d = int(rng.integers(4, 9))
        k = int(rng.integers(1, d))
        self.means = np.zeros((len(self.shares), d))
        self.means[:, :k] = rng.uniform(1, 4) * rng.normal(size=(len(self.shares), k)) / np.sqrt(k)
        self.units = np.exp(rng.normal(0, rng.uniform(0, 1), d))

    def labels(self, n: int) -> Array:
        """Draw classes."""
        return self.rng.choice(len(self.shares), n, p=self.shares)

    def noise(self, n: int) -> Array:
        """Draw deviations from the means."""
        size = (n, self.means.shape[1])
        return self.rng.standard_t(1.5, size) if self.tails else self.rng.normal(size=size)

    def rows(self, y: Array) -> Array:
        """Draw rows of some classes."""
        return (self.means[y] + self.noise(len(y))) * self.units

    def draw(self, n: int, wrong: float = 0.0) -> Draw:
        """Return labelled rows, some of them with a wrong label."""
        parts = []
        for size in (n, FRESH):
            y = self.labels(size)
            X = self.rows(y)
            moved = self.rng.random(size) < wrong
            step = self.rng.integers(1, len(self.shares), size)
            parts += [X, np.where(moved, (y + step) % len(self.shares), y)]
        return Draw(*parts)


def unequal(rng: Random) -> Draw:
    source = Source(rng, shares=(50 / 51, 1 / 51))
    y = np.repeat([0, 1], [392, 8])
    y_fresh = source.labels(FRESH)
    return Draw(source.rows(y), y, source.rows(y_fresh), y_fresh)


def copied(rng: Random) -> Draw:
    draw = Source(rng).draw(100)
    row = rng.permutation(np.repeat(np.arange(100), 3))
    return draw._replace(X=draw.X[row], y=draw.y[row], counted=row)


def persons(rng: Random, named: bool = True) -> Draw:
    source = Source(rng)
    y = source.labels(40)
    person = np.repeat(np.arange(40), 8)
    X = source.rows(y)[person] + 0.2 * source.noise(len(person)) * source.units
    y_fresh = source.labels(FRESH)
    fresh = source.rows(y_fresh) + 0.2 * source.noise(FRESH) * source.units
    return Draw(X, y[person], fresh, y_fresh, person if named else None)


def at_random(rng: Random) -> Draw:
    draw = Source(rng).draw(int(rng.integers(150, 301)))
    y, y_fresh = rng.permutation(draw.y), rng.permutation(draw.y_fresh)
    return draw._replace(y=y, y_fresh=y_fresh)


def rows_of(rng: Random, **options: Any) -> Draw:
    wrong = options.pop("wrong", 0.0)
    return Source(rng, **options).draw(int(rng.integers(150, 301)), wrong)


RANDOM, UNNAMED = "labels at random", "persons, not named"
TABLES: dict[str, Callable[[Random], Draw]] = {
    "normal": rows_of,
    "heavy tails": lambda rng: rows_of(rng, tails=True),
    "wrong labels": lambda rng: rows_of(rng, wrong=0.2),
    "1:50": unequal,
    "copies": copied,
    "persons": persons,
    "30 rows": lambda rng: Source(rng, shares=(0.5, 0.5)).draw(30),
    RANDOM: at_random,
    UNNAMED: lambda rng: persons(rng, named=False),
}


class Identities(NamedTuple):
    """How rows of many classes come about."""

    n_classes: int = 80
    n_rows: tuple[int, ...] = (5,)
    tails: bool = False
    wrong: float = 0.0
    copies: int = 1
    family: int = 1

    def draw(self, rng: Random, spread: float, n_classes: int) -> tuple[Array, Array]:
        """Return rows and classes."""
        centers = rng.normal(size=(n_classes, 6))
        if self.family > 1:
            centers = (
                0.4 * centers
                + np.repeat(rng.normal(size=centers.shape), self.family, 0)[:n_classes]
            )
        large = rng.random(n_classes) < 0.05
        sizes = np.where(large, self.n_rows[-1], self.n_rows[0])
        y = np.repeat(np.arange(n_classes), sizes)
        size = (len(y), 6)
        noise = rng.standard_t(1.5, size) if self.tails else rng.normal(size=size)
        X = centers[y] + spread * noise
        moved = rng.random(len(y)) < self.wrong
        return X, np.where(moved, rng.integers(0, n_classes, len(y)), y)


IDENTITIES = {
    "normal": Identities(),
    "heavy tails": Identities(tails=True),
    "wrong labels": Identities(wrong=0.2),
    "1:50": Identities(n_classes=100, n_rows=(2, 50)),
    "copies": Identities(n_rows=(3,), copies=3),
    "persons": Identities(family=5),
    "30 rows": Identities(n_classes=10, n_rows=(3,)),
    RANDOM: Identities(wrong=1.0),
}


def learners() -> dict[str, Any]:
    """Learners that take little time."""
    return {
        "DRMetric": DRMetric(max_iter=6, validation_fraction=None),
        "NCA": NCA(max_iter=10, tol=0.01, validation_fraction=None, random_state=0),
        "RCA": RCA(),
    }


def parameters() -> Row:
    """What results depend on, as text."""
    return {
        "AutoMetric": repr(AutoMetric(candidates=CANDIDATES)),
        "compare": [repr(each) for each in learners().values()],
        "PairVerifier": repr(verifier(TARGETS[0])),
        "targets": list(TARGETS),
    }


def expected(draw: Draw) -> Row | None:
    """What AutoMetric expects, and the truth; None if it says nothing."""
    auto = AutoMetric(candidates=CANDIDATES).fit(draw.X, draw.y, groups=draw.groups)
    found = auto.expected_
    if found is None:
        return None
    fresh = draw.fresh, draw.y_fresh
    truth = knn_error(auto.metric_, draw.X, draw.y, *fresh, n_neighbors=auto.n_neighbors_)
    return {"value": found.value, "low": found.low, "high": found.high, "truth": truth}


def gains(draw: Draw) -> Row:
    """What the verdicts of `compare` say, and the truth, by goal."""
    seen = compare(draw.X, draw.y, learners(), groups=draw.groups, classifiers=False)
    out = {}
    fresh = cache(partial(losses, draw))
    for goal, measure in GOALS.items():
        found = seen.by_goal(goal)
        verdict = found.verdict
        reference, method = (
            known_mean(fresh(name, int(np.sort(seen[name].n_neighbors)[2]))[measure])
            for name in (found.reference.name, str(verdict.method))
        )
        out[goal] = {
            "method": verdict.method,
            "category": verdict.category,
            "probability": verdict.probability,
            "low": verdict.low,
            "high": verdict.high,
            "smallest": smallest_gain(found.loss(found.reference)),
            "truth": reference - method,
        }
    return out


def losses(draw: Draw, name: str | None, n_neighbors: int) -> Losses:
    """Losses on fresh rows of a method that has learned from all rows."""
    method = next(each for each in default_methods(learners()) if each.name == name)
    X, fresh = draw.X, draw.fresh
    if not method.raw:
        scaler = Scaler.fit(X, "standard")
        X, fresh = scaler.transform(X), scaler.transform(fresh)
    groups = draw.groups if draw.counted is None else draw.counted
    distance = method.fit_to(X, draw.y, groups)
    return score_distance(distance, (X, draw.y), (fresh, draw.y_fresh), n_neighbors=n_neighbors)


def verifier(target: str) -> PairVerifier:
    return PairVerifier(
        RCA(), target=target, calibration=0.5, prevalence=PREVALENCE, random_state=0
    )


def thresholds(rng: Random, kind: Identities) -> Row:
    """What certified thresholds reach on fresh classes; None if the target is refused."""
    spread = rng.uniform(0.15, 0.5)
    X, y = kind.draw(rng, spread, kind.n_classes)
    X, y = np.repeat(X, kind.copies, axis=0), np.repeat(y, kind.copies)
    fresh, y_fresh = kind.draw(rng, spread, FRESH_CLASSES)
    kept = rng.permutation(len(fresh))[:1500]
    fresh, y_fresh = fresh[kept], y_fresh[kept]
    i, j = np.triu_indices(len(fresh), 1)
    similar = y_fresh[i] == y_fresh[j]
    out: Row = {}
    for target in TARGETS:
        try:
            made = verifier(target).fit(X, y)
        except TargetNotCertifiedError:
            out[target] = None
            continue
        Z = made.metric_.transform(fresh)
        matched = ((Z[i] - Z[j]) ** 2).sum(axis=1) <= made.threshold_**2
        rates = [float(matched[~similar].mean()), float(matched[similar].mean())]
        out[target] = {"fmr": rates[0], "recall": rates[1]}
    return out


def outcome(regime: str, number: int) -> Row:
    """Run one draw of a regime."""
    rng = np.random.default_rng([number, crc32(regime.encode())])
    start = time.process_time()
    row: Row = {"regime": regime, "draw": number}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draw = TABLES[regime](rng)
        row |= {"rows": len(draw.X), "expected": expected(draw), "gains": gains(draw)}
        if regime in IDENTITIES:
            row["thresholds"] = thresholds(rng, IDENTITIES[regime])
    row["cpu"] = round(time.process_time() - start, 3)
    return {**row, "commit": commit(Path(nearfar.__file__).parent), "parameters": parameters()}


def rounded(value: Any) -> Any:
    """Return a result with all numbers rounded."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def stored() -> list[Row]:
    """Return the raw results."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown."""
    regimes = [name for name in TABLES if any(row["regime"] == name for row in rows)]
    by = {name: [row for row in rows if row["regime"] == name] for name in regimes}
    together = [row for row in rows if row["regime"] != UNNAMED]
    lines = [
        "| | draws | intervals of `expected_` | hold | too low | expected less true error |",
        "| --- | --- | --- | --- | --- | --- |",
        *(f"| {name} | {len(by[name])} | {expected_cells(by[name])} |" for name in regimes),
    ]
    for goal in GOALS:
        lines += [
            "",
            f"| {goal} | probably or clearly better | true | at least 90 % sure | mean stated "
            "| true | intervals hold | too high |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
            *(
                f"| {name} | {gain_cells([row['gains'][goal] for row in these])} |"
                for name, these in {**by, "all but the last": together}.items()
            ),
        ]
    lines += [
        "",
        "| | "
        + " | ".join(f"`{target}`: certified | missed | recall" for target in TARGETS)
        + " |",
        "| --- |" + " --- | --- | --- |" * len(TARGETS),
    ]
    for name in (name for name in regimes if name in IDENTITIES):
        cells = " | ".join(threshold_cells(by[name], target) for target in TARGETS)
        label = "families of classes" if name == "persons" else name
        lines.append(f"| {label} | {cells} |")
    return "\n".join(lines)


def expected_cells(rows: list[Row]) -> str:
    found = [row["expected"] for row in rows if row["expected"] is not None]
    if not found:
        return "0 | | | "
    held = share(each["low"] <= each["truth"] <= each["high"] for each in found)
    low = share(each["truth"] > each["high"] for each in found)
    bias = 100 * np.mean([each["value"] - each["truth"] for each in found])
    return f"{len(found)} | {held} | {low} | {bias:+.1f} points"


def gain_cells(found: list[Row]) -> str:
    def real(these: list[Row]) -> str:
        return share(each["truth"] > each["smallest"] for each in these)

    better = [each for each in found if each["category"].endswith(" better")]
    sure = [each for each in found if each["probability"] >= SURE]
    stated = f"{100 * np.mean([each['probability'] for each in sure]):.0f} %" if sure else ""
    held = share(each["low"] <= each["truth"] <= each["high"] for each in found)
    high = share(each["truth"] < each["low"] for each in found)
    cells = [len(better), real(better), len(sure), stated, real(sure), held, high]
    return " | ".join(map(str, cells))


def threshold_cells(rows: list[Row], target: str) -> str:
    found = [row["thresholds"][target] for row in rows if row["thresholds"][target] is not None]
    misses = sum(missed(target, each) for each in found)
    recall = f"{100 * np.mean([each['recall'] for each in found]):.0f} %" if found else ""
    return f"{len(found)} of {len(rows)} | {misses if found else ''} | {recall}"


def missed(target: str, rates: Row) -> bool:
    """Tell whether fresh pairs, half of them similar, miss the target."""
    if target.startswith("fmr"):
        return bool(rates["fmr"] > float(target.partition("<=")[2]))
    called = rates["fmr"] + rates["recall"]
    return bool(called and rates["recall"] / called < float(target.partition(">=")[2]))


def share(values: Iterable[bool]) -> str:
    known = list(values)
    return f"{100 * np.mean(known):.0f} %" if known else ""


def main() -> None:
    """Run, store and print."""
    global RESULTS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="one draw of each regime")
    parser.add_argument("--draws", type=int, default=DRAWS, help="draws of each regime")
    parser.add_argument("--show", action="store_true", help="only print what is there")
    arguments = parser.parse_args()
    if arguments.toy:
        RESULTS, arguments.draws = Path(tempfile.mkdtemp()) / "claims.jsonl", 1
    if not arguments.show:
        RESULTS.parent.mkdir(exist_ok=True)
        done = {(row["regime"], row["draw"]) for row in stored()}
        with RESULTS.open("a") as file:
            for number in range(arguments.draws):
                for regime in TABLES:
                    if (regime, number) not in done:
                        file.write(json.dumps(rounded(outcome(regime, number))) + "\n")
                        file.flush()
    print(table(stored()))


if __name__ == "__main__":
    main()
