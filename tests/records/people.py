"""Made-up people in two messy tables: who is who is known."""

from __future__ import annotations

import numpy as np
import polars as pl

from nearfar.records.records import Records

Rows = list[dict[str, str | None]]
_SYLLABLES = [a + b for a in "bdfklmnrst" for b in "aeiou"]


def people(n: int, rng: np.random.Generator) -> Rows:
    pool = np.random.default_rng(99)
    first, last = (
        ["".join(pool.choice(_SYLLABLES, size)) for _ in range(n_names)]
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
    """Lose one cell in ten, and mistype one in seven."""
    out: Rows = []
    for row in rows:
        new = dict(row)
        for name, cell in row.items():
            chance, place = rng.random(), rng.integers(len(cell or ""))
            typed = f"{(cell or '')[:place]}{rng.integers(10)}{(cell or '')[place + 1 :]}"
            new[name] = None if chance < 0.1 else typed if chance < 0.25 else cell
        out.append(new)
    return out


def equal_in_one_field(left: Records, right: Records) -> np.ndarray:
    """Candidates: pairs that agree in a field; in one table, each pair once."""
    found = set()
    for name, cells in left.fields.items():
        for i, cell in enumerate(cells):
            if cell is not None:
                same = np.flatnonzero(right.fields[name] == cell)
                found |= {(i, int(j)) for j in same if right is not left or i < j}
    return np.array(sorted(found)).reshape(-1, 2)


_GIVEN = ["anna", "bruno", "clara", "david", "emma", "felix", "greta", "hugo", "ida", "jonas"]
_SURNAMES = ["abel", "berger", "conrad", "dietz", "ebert", "fink", "graf", "hahn", "imhof", "jung"]
_STREETS = ["oak lane", "mill road", "park street", "church hill", "station road", "lake view"]


def persons(n: int, seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return n persons with ids L0, L1, ..., and the same with errors, ids R0, R1, ..."""
    rng = np.random.default_rng(seed)
    columns = {
        "given_name": rng.choice(_GIVEN, n).tolist(),
        "surname": rng.choice(_SURNAMES, n).tolist(),
        "address": [
            f"{k} {s}" for k, s in zip(rng.integers(1, 99, n), rng.choice(_STREETS, n), strict=True)
        ],
        "phone": [str(number) for number in rng.integers(2_000_000, 9_999_999, n)],
    }
    left = pl.DataFrame({"id": [f"L{row}" for row in range(n)], **columns})
    changed = {}
    for name, cells in columns.items():
        changed[name] = list(cells)
        for row in np.flatnonzero(rng.random(n) < 0.3):
            at = int(rng.integers(len(cells[row])))
            changed[name][row] = cells[row][:at] + cells[row][at + 1 :]
    return left, pl.DataFrame({"id": [f"R{row}" for row in range(n)], **changed})


def known_matches(n: int) -> pl.DataFrame:
    """Return the matches of the first n persons."""
    return pl.DataFrame({"left": [f"L{k}" for k in range(n)], "right": [f"R{k}" for k in range(n)]})
