"""How often a certified false match rate is exceeded on new people.

People have a first and a last name, a day of birth and a postal code. A second table has them
again, with a quarter of the cells lost and a quarter mistyped. Candidates agree in a field. A
matcher that is certified on half of the people of one draw decides about other people, all pairs of
whom are counted.

    python benchmarks/records_certified.py [--toy] [--splits DRAWS]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfar import RecordMatcher
from nearfar.records import Records
from nearfar.verification import TargetNotCertifiedError
from protocol import Array, arguments, commit, record
from protocol import stored as read

# Rates, and how many people are given; half of them calibrate.
TARGETS = ((2e-3, 200), (5e-4, 400))
N_DRAWS, N_NEW = 60, 500
SYLLABLES = [a + b for a in "bdfklmnrst" for b in "aeiou"]

Rows = list[dict[str, str | None]]


def people(n: int, rng: np.random.Generator) -> Rows:
    pool = np.random.default_rng(99)
    first, last = (
        ["".join(pool.choice(SYLLABLES, size)) for _ in range(n_names)]
        for size, n_names in ((2, 40), (3, 200))
    )
    return [
        {
            "first": str(rng.choice(first)),
            "last": str(rng.choice(last)),
            "born": f"{rng.integers(1940, 2005)}{rng.integers(1, 13):02}{rng.integers(1, 29):02}",
            "zip": f"{rng.integers(0, 60):05}",
        }
        for _ in range(n)
    ]


def messy(rows: Rows, rng: np.random.Generator) -> Rows:
    """Lose a quarter of the cells, and mistype a quarter."""
    out: Rows = []
    for row in rows:
        cells: dict[str, str | None] = {}
        for name, cell in row.items():
            assert cell is not None
            chance, place = rng.random(), rng.integers(len(cell))
            typed = f"{cell[:place]}{rng.integers(10)}{cell[place + 1 :]}"
            cells[name] = None if chance < 0.25 else typed if chance < 0.5 else cell
        out.append(cells)
    return out


def equal_in_one_field(left: Records, right: Records) -> Array:
    """Candidates: pairs that agree in a field."""
    agree = np.zeros((len(left), len(right)), dtype=bool)
    for name, cells in left.fields.items():
        known = np.array([cell is not None for cell in cells])
        agree |= known[:, None] & (cells[:, None] == right.fields[name][None, :])
    return np.argwhere(agree)


def measure(rate: float, n: int, n_new: int, draw: int) -> dict[str, Any]:
    rng = np.random.default_rng([n, draw])
    left = people(n, rng)
    right, matches = messy(left, rng), np.column_stack([np.arange(n)] * 2)
    row: dict[str, Any] = {"target": rate, "people": n, "draw": draw, "commit": commit()}
    try:
        matcher = RecordMatcher(f"fmr<={rate:g}", random_state=draw).fit(
            left,
            right,
            matches,
            np.ones(n, dtype=bool),
            complete=True,
            candidates=equal_in_one_field,
        )
    except TargetNotCertifiedError:
        return {**row, "refused": True}
    new = people(n_new, rng)
    others = messy(new, rng)
    pairs = equal_in_one_field(Records.of(new, "left"), Records.of(others, "right"))
    found = pairs[matcher.predict(new, others, pairs)]
    same = found[:, 0] == found[:, 1]
    fmr = float((~same).sum()) / (n_new * (n_new - 1))
    return {**row, "refused": False, "fmr": fmr, "recall": float(same.sum()) / n_new}


def stored() -> list[dict[str, Any]]:
    """Return the raw results."""
    return read("records_certified")


def table(rows: list[dict[str, Any]]) -> str:
    """Return how often targets were missed, in Markdown."""
    lines = ["| target | people | refused | missed | false match rate, mean | recall, mean |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for rate, n in dict.fromkeys((r["target"], r["people"]) for r in rows):
        own = [r for r in rows if (r["target"], r["people"]) == (rate, n)]
        kept = [r for r in own if not r["refused"]]
        missed = sum(r["fmr"] > rate for r in kept)
        fmr, recall = (np.mean([r[name] for r in kept] or [np.nan]) for name in ("fmr", "recall"))
        lines.append(
            f"| `fmr<={rate:g}` | {n} | {len(own) - len(kept)} of {len(own)} "
            f"| {missed} of {len(kept)} | {fmr:.1e} | {100 * recall:.1f} % |"
        )
    return "\n".join(lines)


def main() -> None:
    given = arguments(__doc__)
    if given.toy:
        rows = [measure(0.02, 60, 60, 0)]
    else:
        draws = range(given.splits or N_DRAWS)
        rows = [measure(rate, n, N_NEW, draw) for rate, n in TARGETS for draw in draws]
        record("records_certified", rows)
    print(table(rows))


if __name__ == "__main__":
    main()
