"""How many rows there is time for: seconds of what ran, extrapolated by rows.

The time on n rows is taken as c n^p. One size gives c, with p = 1.5, between one pass over the rows
and a table of all pairs. A second size, four times as large, gives p as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable

# Rows of the first measurement: less takes no time, and tells nothing.
_FIRST_ROWS = 300
_GROWTH = 4
_EXPONENT, _EXPONENTS = 1.5, (0.5, 2.5)
# Times of a few milliseconds say nothing about the exponent.
_SHORTEST = 0.01
# Part of the time that a further measurement may take.
_MEASURED_SHARE = 0.1
# Fits may take longer than extrapolated by this factor.
_SAFETY = 1.3


def rows_within(seconds: float, times: dict[int, float], n_rows: int, *, repeated: int = 1) -> int:
    """Return how many of n rows can be fitted in some seconds.

    Parameters
    ----------
    times: Seconds of fits that ran, by their number of rows.
    repeated: Number of fits.
    """
    largest = max(times)
    exponent, before = _EXPONENT, [n for n in times if 2 * n <= largest]
    if before and times[max(before)] > _SHORTEST:
        ratio = max(times[largest], _SHORTEST) / times[max(before)]
        exponent = math.log(ratio) / math.log(largest / max(before))
        exponent = min(max(exponent, _EXPONENTS[0]), _EXPONENTS[1])
    share = max(seconds, 0.0) / (_SAFETY * repeated * max(times[largest], 1e-9))
    if len(times) == 1 and share < 1:
        # What a fit takes in any case does not shrink with the rows.
        exponent = 1.0
    # Rounded down, but not by the last digit of a power.
    return int(min(largest * share ** (1 / exponent) + 1e-6, n_rows))


def affordable_rows(
    run: Callable[[int], float], n_rows: int, n_folds: int, left: Callable[[], float]
) -> int:
    """Time a fold on a few rows, and return how many rows there is time for in all folds.

    Parameters
    ----------
    run: Runs all methods on one fold of so many rows; returns the seconds that it took.
    left: Returns the seconds that are left.
    """
    n, times = min(_FIRST_ROWS, n_rows), {}
    while n < n_rows:
        times[n] = run(n)
        most = rows_within(left(), times, n_rows, repeated=n_folds)
        n *= _GROWTH
        if most == n_rows or rows_within(_MEASURED_SHARE * left(), times, n) < n:
            return most
    return n_rows
