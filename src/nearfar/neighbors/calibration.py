"""How neighbours vote, chosen and measured on held-out rows.

A learner that puts rows aside brings them along. Others are fitted again to one half of the rows,
with the scale and the number of iterations that were chosen already, which takes about a tenth of
the time; small tables to the other half, too. What is stated is measured on fifths of the held-out
rows that had no part in choosing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from nearfar.learners.base import MetricLearner, learner_of
from nearfar.learners.selection.choice import MAX_TRIAL_ROWS
from nearfar.learners.selection.held_out import sample
from nearfar.measures.neighbor_votes import (
    DEFAULT_NEIGHBORS,
    MOST_VOTERS,
    HeldOutVotes,
    LinearPrior,
    Margins,
    Reliability,
    SoftVotes,
    best_number,
)
from nearfar.metrics.gallery import Gallery
from nearfar.metrics.metric import Metric
from nearfar.supervision import Supervision, keep_copies_together
from nearfar.typing import Array, Floats, Ints

# Held-out rows after which the other half is not held out, and the most that are.
_ENOUGH, _MOST = 300, 1000


@dataclass(frozen=True, eq=False)
class Voting:
    """How neighbours vote, and how that did on held-out rows.

    Attributes
    ----------
    best: How many neighbours are best with a whole vote each.
    reliability: For classes; None without held-out rows.
    margins: For numbers.
    """

    votes: SoftVotes
    best: int
    reliability: Reliability | None = None
    margins: Margins | None = None


def decide(
    learner: Any,
    hold_out: Callable[[], HeldOutVotes | None],
    n_neighbors: int | None = None,
    *,
    whole: bool = False,
) -> Voting:
    """Choose how neighbours vote, and measure it.

    Parameters
    ----------
    learner: A fitted learner, which may bring held-out rows and the votes that others chose.
    hold_out: Makes held-out rows; called if they have to choose.
    n_neighbors: How many vote; None to choose.
    whole: Whether each neighbour has a whole vote.
    """
    best = n_neighbors or getattr(learner, "n_neighbors_", None)
    chosen: SoftVotes | None = None if whole else getattr(learner, "votes_", None)
    if whole and best is not None:
        chosen = SoftVotes(best)
    elif n_neighbors is not None:
        chosen = None
    rows: HeldOutVotes | None = getattr(learner, "held_out_votes_", None)
    if rows is None and chosen is None:
        rows = hold_out()
    if rows is None:
        best = best or DEFAULT_NEIGHBORS
        return Voting(chosen or SoftVotes(best), best)
    best = best or best_number([(rows.found, rows.actual)], numbers=rows.numbers)
    fifths = [np.arange(len(rows.actual)) % 5 == number for number in range(5)]
    if chosen is not None:
        ways = [chosen] * 6
    elif whole:
        ways = [
            SoftVotes(best_number([(rows.found[~out], rows.actual[~out])], numbers=rows.numbers))
            for out in (np.zeros(len(rows.actual), dtype=bool), *fifths)
        ]
    else:
        ways = SoftVotes.choose_apart([rows], n_neighbors)
    everything = {way: way.predict(rows) for way in dict.fromkeys(ways[1:])}
    predicted, spread = everything[ways[1]]
    for way, own in zip(ways[1:], fifths, strict=True):
        predicted[own] = everything[way][0][own]
        if spread is not None:
            spread[own] = np.asarray(everything[way][1])[own]
    if spread is not None:
        return Voting(ways[0], best, margins=Margins.of(predicted, spread, rows.actual))
    return Voting(ways[0], best, Reliability.of(predicted, rows.actual))


def held_out_votes(
    fit: Callable[[Ints], tuple[Metric, Callable[[Ints], Floats]]],
    X: Floats,
    y: Array,
    groups: Ints | None = None,
) -> HeldOutVotes | None:
    """Return held-out rows with their neighbours; None if nothing can be left out.

    Parameters
    ----------
    fit: Learns from some rows; returns the metric, and what returns the features of rows.
    X: shape (n_samples, n_features). Tells copies of rows.
    y: shape (n_samples,). Classes as integers, or numbers as floats.
    groups: shape (n_samples,). Rows of one group are never on both sides; by default,
        copies of a row are a group.
    """
    numbers = y.dtype.kind == "f"
    known = Supervision.of(y, len(X), groups=groups, numbers=numbers)
    known = keep_copies_together(X, known)[0]
    parts: list[HeldOutVotes] = []
    with warnings.catch_warnings():
        # The fit to all rows has said what there is to say.
        warnings.simplefilter("ignore")
        for split in known.split(2, np.random.RandomState(0)):
            random, seen = np.random.RandomState(0), split.rows
            learned = sample(seen, MAX_TRIAL_ROWS, random, None if numbers else y[seen])
            asked = sample(split.unseen_rows, _MOST, random)
            # A class may have too few rows in a half.
            with suppress(ValueError):
                metric, features = fit(learned)
                gallery, queries = features(seen), features(asked)
                nearest = (
                    Gallery(metric, gallery).search(queries).nearest(min(MOST_VOTERS, len(seen)))
                )
                linear, n_classes = (
                    LinearPrior.of(gallery, y[seen]),
                    0 if numbers else int(y.max()) + 1,
                )
                both = y[asked], y[seen]
                parts.append(HeldOutVotes.of(nearest, both, queries, linear, None, n_classes))
            if sum(len(part.actual) for part in parts) >= _ENOUGH:
                break
    return HeldOutVotes.join(parts) if parts else None


def as_chosen(estimator: Any, fitted: Any) -> Any:
    """Return a clone that need not choose what a fitted learner or pipeline has chosen."""
    copy = clone(estimator)
    last, of_all = learner_of(copy), learner_of(fitted)
    known = {
        "scale": getattr(of_all, "scale_", None) or "unit",
        "max_iter": max(1, getattr(of_all, "n_iter_", 1)),
        "validation_fraction": None,
        "expected_folds": 0,
    }
    own = MetricLearner.get_params(last, deep=False)
    last.set_params(**{name: value for name, value in known.items() if name in own})
    return copy
