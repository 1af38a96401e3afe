"""Made-up people in two messy tables: who is who is known."""

from __future__ import annotations

import numpy as np

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
