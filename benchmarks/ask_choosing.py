"""Answers that are needed for the same held-out agreement: chosen questions and random ones.

Four collections, each with ten runs:

    shoes      people's answers about 85 shoes with vectors (zappos_triplets), drawn from the pool
    eggs       people's answers about 300 shapes without vectors (alien_eggs_triplets), likewise
    simulated  500 objects with 8 features, of which a metric of rank 3 matters to people who
               answer by the logistic model, and 10 % of whose answers are given at random
    isotropic  the same with 20 features of equal variance, more than the chooser has coordinates

Chosen questions are those of `Chooser`, of which 20 % are random and 5 % repeats. Every few
answers, a model that knows nothing learns from all answers so far, in the same way and from the
same starts for both kinds, and predicts the test questions, which nobody is asked. The answers
needed are those after which mean agreement over runs of chosen questions first is that of random
questions at the end.

    python benchmarks/ask_choosing.py [--toy] [--show] [--resume] [--collection NAME]

docs/reference/ask.md has the table that this prints.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import nearfar
from nearfar import datasets
from nearfar.ask import Chooser
from nearfar.ask.chooser import arrays
from nearfar.runtime.threads import limited_threads
from protocol import Array

RESULTS = Path(__file__).parent / "results/ask.jsonl"
RUNS = 10
ANSWERS = {"shoes": 300, "eggs": 3000, "simulated": 200, "isotropic": 200}
EVERY = {"shoes": 10, "eggs": 100, "simulated": 10, "isotropic": 10}
FEATURES = {"simulated": 8, "isotropic": 20}
N_TEST = 3000
Row = dict[str, Any]


@dataclass
class People:
    """Objects, the questions that people answered, and the test questions."""

    X: Array | None
    n_objects: int
    pool: Array | None
    picked: dict[tuple[int, int, int], int]
    test: Array
    distances: Array | None = None

    def answer(self, objects: tuple[int, ...], random: np.random.Generator) -> str:
        """Return the answer of a person."""
        anchor, left, right = objects
        if self.distances is None:
            near = self.picked[anchor, min(left, right), max(left, right)]
            return "left" if near == left else "right"
        margin = self.distances[anchor, right] - self.distances[anchor, left]
        return "left" if random.random() < _picks_left(margin) else "right"

    def agreement(self, chooser: Chooser) -> tuple[float, float]:
        """Return how many test questions are predicted: the right answer, and people's answers."""
        model = chooser.model.fresh()
        model.learn_anew(*arrays(chooser.judgements, 3))
        right = (1 + np.sign(model.margins(self.test)[0])) / 2
        given = right
        if self.distances is not None:
            anchor, near, far = self.test.T
            p = _picks_left(self.distances[anchor, far] - self.distances[anchor, near])
            given = right * p + (1 - right) * (1 - p)
        return round(float(right.mean()), 4), round(float(given.mean()), 4)


def _picks_left(margin: Any) -> Any:
    """Return the probability of the answer left: one in ten is given at random."""
    return 0.05 + 0.9 / (1 + np.exp(-margin))


def from_pool(X: Array | None, n: int, triplets: Array, seed: int) -> People:
    """Split answered questions into a pool and test questions."""
    random = np.random.default_rng([seed, 1])
    order = random.permutation(len(triplets))
    test, rest = triplets[order[:N_TEST]], triplets[order[N_TEST:]]
    picked = {(a, min(b, c), max(b, c)): b for a, b, c in rest.tolist()}
    return People(X, n, np.array(list(picked)), picked, test)


def people(name: str, seed: int) -> People:
    """Return the people of a collection."""
    if name in FEATURES:
        random = np.random.default_rng([seed, 2])
        X = random.normal(size=(500, FEATURES[name]))
        mapped = X @ random.normal(size=(FEATURES[name], 3))
        mapped *= np.sqrt(6 / np.mean((mapped[:, None] - mapped) ** 2) / 3)
        apart = ((mapped[:, None] - mapped) ** 2).sum(axis=2)
        test = np.array([random.choice(500, 3, replace=False) for _ in range(N_TEST)])
        nearer = apart[test[:, 0], test[:, 1]] < apart[test[:, 0], test[:, 2]]
        test = np.where(nearer[:, None], test, test[:, [0, 2, 1]])
        return People(X, 500, None, {}, test, apart)
    data = datasets.load("zappos_triplets" if name == "shoes" else "alien_eggs_triplets")
    assert data.triplets is not None
    triplets = np.asarray(data.triplets, dtype=np.intp)
    vectors = np.asarray(data.X, dtype=np.float64) if name == "shoes" else None
    return from_pool(vectors, len(data.X), triplets, seed)


def run(name: str, way: str, seed: int, n_answers: int) -> Row:
    """Collect answers, and measure agreement every few of them."""
    known = people(name, seed)
    shares: Row = {"random_share": 1.0, "repeat_share": 0.0} if way == "random" else {}
    chooser = Chooser(known.X, n_objects=known.n_objects, random_state=seed, **shares)
    random = np.random.default_rng([seed, 3])
    curve, seconds = [(0, *known.agreement(chooser))], 0.0
    for number in range(1, n_answers + 1):
        start = time.process_time()
        question = chooser.next(among=known.pool)
        seconds += time.process_time() - start
        chooser.add(question, known.answer(question.objects, random))
        if number % EVERY[name] == 0:
            curve.append((number, *known.agreement(chooser)))
    return {
        "collection": name,
        "way": way,
        "seed": seed,
        "curve": curve,
        "seconds_per_question": round(seconds / n_answers, 4),
        "version": nearfar.__version__,
    }


def needed(rows: list[Row], name: str) -> str:
    """Return a line: answers for the agreement that random questions have at the end."""
    curves = {
        way: np.array([r["curve"] for r in rows if (r["collection"], r["way"]) == (name, way)])
        for way in ("random", "chosen")
    }
    n = curves["random"][0, :, 0]
    means = {way: found[:, :, 1].mean(axis=0) for way, found in curves.items()}
    goal = float(means["random"][-1])
    reached = np.flatnonzero(means["chosen"] >= goal)
    after = "more" if not len(reached) else f"{_crossing(n, means['chosen'], goal):.0f}"
    fewer = "" if not len(reached) else f"{100 * (1 - float(after) / n[-1]):.0f} %"
    start, end = 100 * means["random"][0], 100 * means["chosen"][-1]
    runs = len(curves["chosen"])
    return (
        f"| {name} | {runs} | {start:.1f} | {100 * goal:.1f} | {n[-1]:.0f} | {after} | {fewer} | "
        f"{end:.1f} |"
    )


def _crossing(n: Array, mean: Array, goal: float) -> float:
    """Return where a curve first reaches a value, between its points."""
    first = int(np.flatnonzero(mean >= goal)[0])
    if first == 0:
        return 0.0
    rise = (goal - mean[first - 1]) / (mean[first] - mean[first - 1])
    return float(n[first - 1] + rise * (n[first] - n[first - 1]))


def stored() -> list[Row]:
    """Return the raw results."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown."""
    heads = ["collection", "runs", "before", "random, at the end", "answers", "chosen", "fewer"]
    lines = [f"| {' | '.join([*heads, 'chosen, at the end'])} |", "|" + " --- |" * 8]
    known = {row["collection"] for row in rows}
    return "\n".join([*lines, *(needed(rows, name) for name in ANSWERS if name in known)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="two short runs of simulated people")
    parser.add_argument("--show", action="store_true", help="print the table of stored results")
    parser.add_argument("--resume", action="store_true", help="keep the runs that are stored")
    parser.add_argument("--collection", action="append", choices=list(ANSWERS))
    options = parser.parse_args()
    if options.show:
        print(table(stored()))
        return
    names = ["simulated"] if options.toy else options.collection or list(ANSWERS)
    kept = [] if options.toy else stored()
    if not options.resume:
        kept = [row for row in kept if row["collection"] not in names]
    done = {(row["collection"], row["way"], row["seed"]) for row in kept}
    runs = [
        (name, way, seed)
        for seed in range(2 if options.toy else RUNS)
        for name in names
        for way in ("random", "chosen")
        if (name, way, seed) not in done
    ]
    with limited_threads():
        for name, way, seed in runs:
            row = run(name, way, seed, 40 if options.toy else ANSWERS[name])
            print(name, way, seed, row["curve"][-1], flush=True)
            kept.append(row)
            if not options.toy:
                RESULTS.write_text("".join(json.dumps(row) + "\n" for row in kept))
    print(table(kept))


if __name__ == "__main__":
    main()
