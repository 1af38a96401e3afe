"""Votes on rows that took no part: what probabilities are calibrated on.

A learner is fitted again without a fold of the rows, which then get votes from the others. That
goes on until enough rows have votes: small tables are cheap, and of large ones the first fold is
enough. There, too, the learner is fitted to some rows only, while others vote.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from nearfar.learners.selection.choice import MAX_TRIAL_ROWS
from nearfar.learners.selection.held_out import sample
from nearfar.supervision import Supervision, keep_copies_together
from nearfar.typing import Array, Floats, Ints

_FOLDS = 5
# The share of the right ones among so many votes has a standard error of at most 1.6 points.
_ENOUGH = 1000
# Rows that vote, and distances of a fold: of many rows, fewer have votes. These bound memory and
# time.
_MOST_VOTERS, _MOST_DISTANCES = 100_000, 1 << 27


def cross_fitted(
    votes_of: Callable[[Ints, Ints, Ints], Array],
    X: Floats,
    y: Array,
    groups: Ints | None = None,
) -> tuple[Array, Array] | None:
    """Return votes on rows that took no part, and their classes; None if nothing can be left out.

    Parameters
    ----------
    votes_of: Learns from the rows of its first argument, and returns the votes of the rows
        of its second on those of its third.
    y: shape (n_samples,). Classes as integers, or numbers as floats.
    groups: shape (n_samples,). Rows of one group are never on both sides; by default,
        copies of a row are a group.
    """
    numbers = y.dtype.kind == "f"
    known = Supervision.of(y, len(X), groups=groups, numbers=numbers)
    known = keep_copies_together(X, known)[0]
    asked: list[Ints] = []
    votes: list[Array] = []
    with warnings.catch_warnings():
        # The fit to all rows has said what there is to say.
        warnings.simplefilter("ignore")
        for split in known.split(_FOLDS, np.random.RandomState(0)):
            if sum(map(len, asked)) >= _ENOUGH:
                break
            random = np.random.RandomState(0)
            seen = sample(split.rows, _MOST_VOTERS, random, None if numbers else y[split.rows])
            classes = None if numbers else y[seen]
            learned = sample(seen, MAX_TRIAL_ROWS, np.random.RandomState(0), classes)
            most = max(_ENOUGH, _MOST_DISTANCES // len(seen))
            unseen = sample(split.unseen_rows, most, random)
            # A class may have too few rows without this fold.
            with suppress(ValueError):
                votes.append(votes_of(learned, seen, unseen))
                asked.append(unseen)
    if not asked:
        return None
    # Folds of small tables may have fewer rows than voters.
    width = min(each.shape[1] for each in votes)
    return np.concatenate([each[:, :width] for each in votes]), y[np.concatenate(asked)]
