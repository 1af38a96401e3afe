"""How many rows to learn from, where learning from all of them takes long.

Trial fits learn from 2,000 rows, 4,000, 8,000 and so on; each sample contains the one before. All
are judged on the same held-out rows. When twice as many rows did not help beyond noise, the fit
learns from as many as that, and from 8,000 at least. If they always help, it learns from 32,000, or
from all rows if there are fewer, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from nearfar.learners.selection.choice import MAX_TRIAL_ROWS, Choice, RowsTried, Selection

EXACT_ROWS = 16_000
"""Up to this number of rows, all are learned from: trial fits would take as long."""

LEAST_ROWS = 8000
"""The fewest rows that a larger table is learned from, also if half as many did as well."""

MOST_ROWS = 32_000
"""The most rows that are learned from unless all are asked for: time must not grow without end."""

MOST_HELD_OUT = 4000, 1000
"""Rows that judge, and rows that they are found among: noise depends on the number of the first."""

# Gain of the mean log-likelihood that is not worth four times the time: where all rows but one in a
# thousand find their class, more of them change nothing that matters.
_NEGLIGIBLE = 1e-3


def select_rows(n_rows: int, choose: Callable[[int], Choice]) -> Selection:
    """Try more and more rows; return the best choice, and how many rows to learn from.

    Parameters
    ----------
    n_rows: Number of rows that there are.
    choose: Number of rows -> what a trial fit to as many chose.
    """
    size = MAX_TRIAL_ROWS
    before = choose(size)
    curve, more_help = [RowsTried(size, before.value)], True
    while more_help and 4 * size <= min(n_rows, MOST_ROWS):
        size *= 2
        now = choose(size)
        gains = now.terms - before.terms
        gain, noise = float(gains.mean()), float(gains.std() / np.sqrt(len(gains)))
        more_help = gain > max(noise, _NEGLIGIBLE)
        curve.append(RowsTried(size, now.value, gain, noise))
        before = now if gain > 0 else before
    learned = min(n_rows, MOST_ROWS) if more_help else max(LEAST_ROWS, size)
    last = curve[-1]
    note = (
        f"Learned from {learned:,} of {n_rows:,} rows: {size:,} instead of {size // 2:,} changed "
        f"the held-out value by {last.gain:.1g}, with a standard error of {last.noise:.1g}."
    )
    if more_help and learned < n_rows:
        note += ' More rows may help: max_rows="all".'
    number = None if learned == n_rows else learned
    return replace(before.selection, n_rows=number, curve=tuple(curve), note=note)
