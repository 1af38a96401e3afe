"""What the page of questions states, beside the truth.

The people of `benchmarks/ask_choosing.py` answer chosen questions, of which 20 % are random. After
some answers (a number drawn between 80 and 300), the agreement on random questions and how the last
50 answers changed it are stated with 90 % intervals. The truth is the agreement with people's
answers to 3,000 test questions, which nobody was asked, of a fit to all answers, and of one without
the last 50. The interval of the change was settled on shoes and simulated, and not on isotropic.
Nobody goes by the side here, so that every note about that is a false alarm; notes are counted at
every fifth answer, as on the page.

The same people then go by the side in a share of their answers, and the table of raters has the
share of them that is noticed, and their mean weight.

    python benchmarks/ask_claims.py [--toy] [--show] [--draws N] [--collection NAME]

docs/reference/ask.md has the table that this prints.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import protocol
from ask_choosing import People, people
from nearfar.ask import Chooser, Judgement
from nearfar.ask.progress import LATELY, Rise, measure, without_looking
from nearfar.runtime.threads import limited_threads

ANSWERS = {"shoes": (80, 300), "simulated": (80, 300), "isotropic": (80, 300)}
HABITS = {"left in 100 %": 1.0, "left in 90 %": 0.8, "left in 75 %": 0.5, "left in 55 %": 0.1}
"""Habits of people who go by the side, and the share of answers that do."""
LENGTHS = (20, 40, 100, 200)
"""Numbers of their answers."""
Row = dict[str, Any]


def agreement(known: People, chooser: Chooser, judged: list[Judgement]) -> float:
    """Return the agreement of a fit with people's answers to the test questions."""
    other = Chooser(known.X, n_objects=known.n_objects)
    other.model, other.judgements = chooser.model, judged
    return known.agreement(other)[1]


def draw(name: str, seed: int, most: int | None = None) -> Row:
    """Collect answers, and return what is stated of them with the truth."""
    known = people(name, seed)
    random = np.random.default_rng([seed, 4])
    chooser = Chooser(known.X, n_objects=known.n_objects, random_state=seed)
    n_answers = most or int(random.integers(*ANSWERS[name]))
    alarms = 0
    for number in range(1, n_answers + 1):
        question = chooser.next(among=known.pool)
        chooser.add(question, known.answer(question.objects, random))
        alarms += number % 5 == 0 and without_looking(chooser.judgements)[0] > 0
    chooser.learn(anew=True)
    stated, judged = measure(chooser), chooser.judgements
    now = agreement(known, chooser, judged)
    row = {"collection": name, "seed": seed, "answers": n_answers, "alarms": int(alarms > 0)}
    row |= {"random": stated.agreement.n if stated.agreement else 0}
    if stated.agreement and stated.lately:
        share = stated.agreement
        row["agreement"] = [share.value, share.low, share.high, now]
        rise = now - agreement(known, chooser, judged[:-LATELY])
        row["lately"] = [stated.lately.n, stated.lately.rises, stated.lately.falls, rise]
    return row | {"sides": habits(judged, random), "commit": protocol.commit()}


def habits(judged: list[Judgement], random: np.random.Generator) -> list[tuple[str, int, float]]:
    """Return habit, number of answers and the share of them that is said not to look."""
    found = []
    for habit, share in HABITS.items():
        for n in LENGTHS:
            if n <= len(judged):
                sided = [
                    Judgement(j.question, "left" if random.random() < share else j.answer)
                    for j in judged[:n]
                ]
                found.append((habit, n, without_looking(sided)[0]))
    return found


def stored() -> list[Row]:
    """Return the raw results."""
    return protocol.stored("ask_claims")


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown: what is stated, and what is noticed."""
    heads = ["collection", "draws", "agreement, stated", "true", "holds", "last 50, stated", "true"]
    heads += ["holds", "honest people noted"]
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for name in dict.fromkeys(row["collection"] for row in rows):
        every = [row for row in rows if row["collection"] == name and "lately" in row]
        cells = [name, f"{len(every)}"]
        value, low, high, truth = np.array([row["agreement"] for row in every]).T
        cells += [f"{100 * value.mean():.1f}", f"{100 * truth.mean():.1f}"]
        cells.append(f"{100 * np.mean((low <= truth) & (truth <= high)):.1f} %")
        *counts, truth = np.array([row["lately"] for row in every]).T
        rises = [Rise(*each) for each in zip(*counts, strict=True)]
        value, reach = np.array([(rise.value, rise.reach) for rise in rises]).T
        cells += [f"{100 * value.mean():.1f}", f"{100 * truth.mean():.1f}"]
        cells.append(f"{100 * np.mean(abs(value - truth) <= reach):.1f} %")
        alarms = sum(row["alarms"] for row in every)
        lines.append(f"| {' | '.join(cells)} | {alarms} of {len(every)} |")
    lines += ["", f"| | {' | '.join(f'{n} answers' for n in LENGTHS)} |", "|" + " --- |" * 5]
    for habit in HABITS:
        cells = [habit]
        for n in LENGTHS:
            found = np.array(
                [b for row in rows for h, m, b in row["sides"] if (h, m) == (habit, n)]
            )
            said = f"{100 * np.mean(found > 0):.0f} %, weight {1 - found.mean():.2f}"
            cells.append(said if len(found) else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="two short draws of simulated people")
    parser.add_argument("--show", action="store_true", help="print the tables of stored results")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--collection", action="append", choices=list(ANSWERS))
    options = parser.parse_args()
    if options.show:
        print(table(stored()))
        return
    names = ["simulated"] if options.toy else options.collection or list(ANSWERS)
    rows = [] if options.toy else [row for row in stored() if row["collection"] not in names]
    with limited_threads():
        for name in names:
            for seed in range(2 if options.toy else options.draws):
                rows.append(draw(name, seed, 80 if options.toy else None))
                if not options.toy:
                    protocol.record("ask_claims", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
