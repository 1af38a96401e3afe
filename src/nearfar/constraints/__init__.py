"""Triplets, pairs and chunklets, and the strategies that make them from labels."""

from nearfar.constraints.base import Constraints, ConstraintsOver
from nearfar.constraints.chunklets import Chunklets
from nearfar.constraints.copies import Copies, keep_copies_together
from nearfar.constraints.from_labels import (
    AllTriplets,
    FarTargetTriplets,
    NearestTriplets,
    PairStrategy,
    RandomPairs,
    RandomTriplets,
    TripletStrategy,
)
from nearfar.constraints.pairs import Pairs
from nearfar.constraints.supervision import (
    Kind,
    Split,
    Supervision,
    check_rows_given,
    kind_of,
    unwrapped,
)
from nearfar.constraints.supervision_kinds import LabelSupervision
from nearfar.constraints.triplets import Triplets

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
