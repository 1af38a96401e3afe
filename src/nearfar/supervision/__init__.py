"""Triplets, pairs and chunklets, and the strategies that make them from labels."""

from nearfar.supervision.constraints import Chunklets, Constraints, ConstraintsOver, Pairs, Triplets
from nearfar.supervision.copies import Copies, keep_copies_together
from nearfar.supervision.strategies import (
    AllTriplets,
    FarTargetTriplets,
    NearestTriplets,
    PairStrategy,
    RandomPairs,
    RandomTriplets,
    TripletStrategy,
)
from nearfar.supervision.supervision import (
    Kind,
    LabelSupervision,
    Split,
    Supervision,
    check_rows_given,
    kind_of,
    unwrapped,
)

__all__ = [
    "AllTriplets",
    "Chunklets",
    "Constraints",
    "ConstraintsOver",
    "Copies",
    "FarTargetTriplets",
    "Kind",
    "LabelSupervision",
    "NearestTriplets",
    "PairStrategy",
    "Pairs",
    "RandomPairs",
    "RandomTriplets",
    "Split",
    "Supervision",
    "TripletStrategy",
    "Triplets",
    "check_rows_given",
    "keep_copies_together",
    "kind_of",
    "unwrapped",
]
