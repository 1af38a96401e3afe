"""Deprecated functions that make constraints; `Supervision` has replaced them."""

from __future__ import annotations

from typing import Any

from nearfar.constraints.from_labels import PairStrategy, TripletStrategy
from nearfar.constraints.pairs import Pairs
from nearfar.constraints.supervision import Supervision
from nearfar.constraints.triplets import Triplets
from nearfar.typing import Floats

INSTEAD = {
    "to_triplets": "Supervision.of(y, len(X)).triplets(X, strategy, random_state)",
    "to_pairs": "Supervision.of(y, len(X)).pairs(X, strategy, random_state)",
}
"""What to use instead, by name."""


def to_triplets(
    X: Floats, supervision: object, strategy: TripletStrategy, random_state: Any
) -> Triplets:
    """Deprecated: use `Supervision.triplets`."""
    return Supervision.of(supervision, len(X)).triplets(X, strategy, random_state)


def to_pairs(X: Floats, supervision: object, strategy: PairStrategy, random_state: Any) -> Pairs:
    """Deprecated: use `Supervision.pairs`."""
    return Supervision.of(supervision, len(X)).pairs(X, strategy, random_state)
