"""From any supervision to the kind of constraints that a learner needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from nearfar.constraints.base import ConstraintsOver
from nearfar.constraints.chunklets import Chunklets
from nearfar.constraints.from_labels import PairStrategy, TripletStrategy
from nearfar.constraints.pairs import Pairs
from nearfar.constraints.triplets import Triplets
from nearfar.typing import Floats, Ints

_ONLY_TOGETHER = (
    "Chunklets only say what belongs together; this learner also needs to know what does not. "
)
_ONLY_NEARER = (
    "Triplets say which of two is nearer, not which pairs are similar; this learner needs "
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
    pairs = given_pairs(X, supervision)
    if pairs is not None:
        return pairs
    pairs = strategy(X, supervision, random_state)
    if not isinstance(pairs, Pairs):
        raise ValueError(f"The strategy {strategy!r} makes {type(pairs).__name__}, not Pairs.")
    if not (pairs.similar.any() and (~pairs.similar).any()):
        raise ValueError(
            "The labels do not give similar and dissimilar pairs: at least two classes are "
            "needed, and at least one class with two members."
        )
    return _of_both_kinds(pairs)


def given_pairs(X: Floats, supervision: Any) -> Pairs | None:
    """Return the pairs of both kinds that the supervision of X is, or None if it is labels.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    supervision : Pairs, their `over` form, or array of class codes
    """
    if isinstance(supervision, ConstraintsOver):
        supervision = supervision.constraints
    if isinstance(supervision, Chunklets):
        raise ValueError(_ONLY_TOGETHER + "Give labels or Pairs.")
    if isinstance(supervision, Triplets):
        raise ValueError(_ONLY_NEARER + "labels or Pairs.")
    if not isinstance(supervision, Pairs):
        return None
    supervision.check(len(X))
    return _of_both_kinds(supervision)


def _of_both_kinds(pairs: Pairs) -> Pairs:
    """Return the pairs that have weight, or raise ValueError unless they are of both kinds."""
    pairs = _weighty(pairs)
    if pairs.similar.all() or not pairs.similar.any():
        kind = "similar" if pairs.similar.all() else "dissimilar"
        raise ValueError(f"All pairs are {kind}; both kinds are needed.")
    return pairs


def _weighty(pairs: Pairs) -> Pairs:
    """Return the pairs that have weight, or raise ValueError if there are none."""
    if pairs.weight is not None and not pairs.weight.all():
        pairs = pairs.take(pairs.weight > 0)
    if len(pairs) == 0:
        raise ValueError(
            "There are no pairs of positive weight. In cross-validation, a fold of few constraints "
            "may have none."
        )
    return pairs


def to_chunklets(X: Floats, supervision: Any) -> Chunklets:
    """Turn labels, chunklets or pairs of X into chunklets, or say why there are none.

    Similar pairs are joined to groups: what is similar to the same row belongs together. Their
    weights do not matter unless they are 0, and dissimilar pairs do not matter at all.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    supervision : Chunklets, Pairs, their `over` form, or array of class codes

    Returns
    -------
    Chunklets
        Numbered from 0; at least one has two rows.
    """
    if isinstance(supervision, ConstraintsOver):
        supervision = supervision.constraints
    if isinstance(supervision, Triplets):
        raise ValueError(_ONLY_NEARER + "labels, Chunklets or Pairs.")
    if isinstance(supervision, Pairs):
        supervision.check(len(X))
        pairs = _weighty(supervision)
        if not pairs.similar.any():
            raise ValueError("All pairs are dissimilar; this learner needs similar ones.")
        return _joined(pairs, len(X))
    if isinstance(supervision, Chunklets):
        supervision.check(len(X))
        rows = np.flatnonzero(supervision.ids >= 0)
        groups, numbers = np.unique(supervision.ids[rows], return_inverse=True)
        if len(groups) == len(rows):
            raise ValueError("No chunklet has two rows.")
        return Chunklets(_scattered(len(X), rows, numbers))
    return Chunklets(checked_labels(supervision))


def checked_labels(codes: Any) -> Ints:
    """Return class codes, or raise ValueError unless they tell some rows apart and join others."""
    labels = np.asarray(codes, dtype=np.intp)
    if not 2 <= len(np.unique(labels)) < len(labels):
        raise ValueError(
            "These labels teach nothing: at least two classes are needed, and at least one class "
            "with two members."
        )
    return labels


def _joined(pairs: Pairs, n_samples: int) -> Chunklets:
    i, j = pairs.index[pairs.similar].T
    graph = csr_array((np.ones(len(i)), (i, j)), shape=(n_samples, n_samples))
    component = connected_components(graph, directed=False)[1]
    rows = np.unique(pairs.index[pairs.similar])
    numbers = np.unique(component[rows], return_inverse=True)[1]
    return Chunklets(_scattered(n_samples, rows, numbers))


def _scattered(n: int, rows: Ints, values: Ints) -> Ints:
    """Return an array of n values that is -1 but for some rows."""
    result = np.full(n, -1, dtype=np.intp)
    result[rows] = values
    return result


def _as_triplets(made: Any, strategy: Any) -> Triplets:
    if isinstance(made, Pairs):
        return made.triplets()
    if isinstance(made, Triplets):
        return made
    raise ValueError(f"The strategy {strategy!r} makes {type(made).__name__}, not Triplets.")
