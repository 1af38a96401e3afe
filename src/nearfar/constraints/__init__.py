"""Triplets, pairs and chunklets, and the strategies that make them from labels."""

from nearfar.constraints.base import Constraints, ConstraintsOver
from nearfar.constraints.chunklets import Chunklets
from nearfar.constraints.conversion import (
    checked_labels,
    given_pairs,
    to_chunklets,
    to_pairs,
    to_triplets,
)
from nearfar.constraints.from_labels import (
    AllTriplets,
    FarTargetTriplets,
    NearestTriplets,
    PairStrategy,
    RandomPairs,
    RandomTriplets,
    TripletStrategy,
)
from nearfar.constraints.neighbor_search import Mining, mining_reports
from nearfar.constraints.pairs import Pairs
from nearfar.constraints.triplets import Triplets

__all__ = [
    "AllTriplets",
    "Chunklets",
    "Constraints",
    "ConstraintsOver",
    "FarTargetTriplets",
    "Mining",
    "NearestTriplets",
    "PairStrategy",
    "Pairs",
    "RandomPairs",
    "RandomTriplets",
    "TripletStrategy",
    "Triplets",
    "checked_labels",
    "given_pairs",
    "mining_reports",
    "to_chunklets",
    "to_pairs",
    "to_triplets",
]
