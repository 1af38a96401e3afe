"""What a fit will cost: said if it takes long, and refused if it does not fit in memory."""

from __future__ import annotations

import os
from typing import Any

from nearfar.cli.errors import UserError
from nearfar.learners.base import MetricLearner
from nearfar.runtime.notes import note
from nearfar.runtime.quoting import amount
from nearfar.typing import Floats

_SMALL = 500
"""Fits to at most this many rows are not estimated."""
_LONG = 10.0
_BUDGET = 1.0


def check_cost(learner: MetricLearner | None, X: Floats, supervision: Any) -> None:
    """Say what a fit will take if that is more than ten seconds; refuse what cannot fit.

    Parameters
    ----------
    learner : MetricLearner or None
        None for methods without a learner, which are quick. Learners with a budget of their own
        are not estimated.
    X : array of shape (n_samples, n_features)
    supervision : array of labels or numbers, Triplets or Pairs
    """
    if learner is None or len(X) <= _SMALL or "budget" in learner.get_params():
        return
    found = learner.estimate(X, supervision, budget=_BUDGET)
    memory = machine_memory()
    if memory is not None and found.bytes + X.nbytes > memory:
        raise UserError(
            f"{found.learner} needs about {amount(found.bytes)} beside the {amount(X.nbytes)} of "
            f"rows, and this machine has {amount(memory)}. Use fewer rows, features or "
            "constraints, or a closed form such as --method rca."
        )
    if found.seconds > _LONG:
        note(f"{found}")


def machine_memory() -> int | None:
    """Return the memory of this machine in bytes, or None if it is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
