"""Made-up persons in two tables, with typing errors, for tests of matching."""

from __future__ import annotations

import numpy as np
import polars as pl

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
