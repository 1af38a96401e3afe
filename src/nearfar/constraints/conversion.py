"""From any supervision to the kind of constraints that a learner needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfar.constraints.base import ConstraintsOver
from nearfar.constraints.chunklets import Chunklets
from nearfar.constraints.from_labels import PairStrategy, TripletStrategy
from nearfar.constraints.pairs import Pairs
from nearfar.constraints.triplets import Triplets
from nearfar.typing import Floats

_ONLY_TOGETHER = (
    "Chunklets only say what belongs together; this learner also needs to know what does not. "
)


def to_triplets(
    X: Floats,
    supervision: Any,
    strategy: TripletStrategy,
    random_state: np.random.RandomState,
) -> Triplets:
    """Turn any supervision of X into triplets, or say why there are none.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    supervision : Triplets, Pairs, Chunklets, their `over` form, or array of class codes
    strategy : callable
        Makes triplets from class codes.
    random_state : RandomState
    """
    if isinstance(supervision, ConstraintsOver):
        supervision = supervision.constraints
    if isinstance(supervision, Chunklets):
        raise ValueError(_ONLY_TOGETHER + "Give labels, Triplets or Pairs.")
    if isinstance(supervision, Triplets | Pairs):
        supervision.check(len(X))
    if isinstance(supervision, Pairs):
        triplets = supervision.triplets()
        if len(triplets) == 0:
            raise ValueError(
                "These Pairs give no triplet: a triplet needs a similar and a dissimilar pair "
                "that share a row."
            )
    elif isinstance(supervision, Triplets):
        triplets = supervision
        if len(triplets) == 0:
            raise ValueError(
                "There are no triplets. In cross-validation, a fold of few constraints may have "
                "none."
            )
    else:
        triplets = _as_triplets(strategy(X, supervision, random_state), strategy)
        if len(triplets) == 0:
            raise ValueError(
                "The labels give no triplet: at least two classes are needed, "
                "and at least one class with two members."
            )
    if triplets.weight is None or triplets.weight.all():
        return triplets
    if not triplets.weight.any():
        raise ValueError("All triplets have weight 0.")
    return triplets.take(triplets.weight > 0)


def to_pairs(
    X: Floats, supervision: Any, strategy: PairStrategy, random_state: np.random.RandomState
) -> Pairs:
    """Turn labels or pairs of X into pairs of both kinds, or say why there are none.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    supervision : Pairs, their `over` form, or array of class codes
    strategy : callable
        Makes pairs from class codes.
    random_state : RandomState
    """
    if isinstance(supervision, ConstraintsOver):
        supervision = supervision.constraints
    if isinstance(supervision, Chunklets):
        raise ValueError(_ONLY_TOGETHER + "Give labels or Pairs.")
    if isinstance(supervision, Triplets):
        raise ValueError(
            "Triplets say which of two is nearer, not which pairs are similar; this learner needs "
            "labels or Pairs."
        )
    if isinstance(supervision, Pairs):
        supervision.check(len(X))
        pairs = supervision
    else:
        pairs = strategy(X, supervision, random_state)
        if not isinstance(pairs, Pairs):
            raise ValueError(f"The strategy {strategy!r} makes {type(pairs).__name__}, not Pairs.")
        if not (pairs.similar.any() and (~pairs.similar).any()):
            raise ValueError(
                "The labels do not give similar and dissimilar pairs: at least two classes are "
                "needed, and at least one class with two members."
            )
    if pairs.weight is not None and not pairs.weight.all():
        pairs = pairs.take(pairs.weight > 0)
    if len(pairs) == 0:
        raise ValueError(
            "There are no pairs of positive weight. In cross-validation, a fold of few constraints "
            "may have none."
        )
    if pairs.similar.all() or not pairs.similar.any():
        kind = "similar" if pairs.similar.all() else "dissimilar"
        raise ValueError(f"All pairs are {kind}; both kinds are needed.")
    return pairs


def _as_triplets(made: Any, strategy: Any) -> Triplets:
    if isinstance(made, Pairs):
        return made.triplets()
    if isinstance(made, Triplets):
        return made
    raise ValueError(f"The strategy {strategy!r} makes {type(made).__name__}, not Triplets.")
