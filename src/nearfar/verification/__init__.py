"""Same or different: a threshold on a learned distance, and what is known of its errors.

verifier     PairVerifier
targets      what a threshold is chosen for
thresholds   thresholds that are shown to meet a target
evidence     error rates by class
parts        what is learned from, and what is calibrated on
criteria     thresholds without a promise
"""

from nearfar.verification.criteria import held_out_decisions, threshold_on
from nearfar.verification.evidence import Evidence, joined_classes
from nearfar.verification.targets import Bound, Costs, EqualErrors, parse_target
from nearfar.verification.thresholds import (
    OperatingPoint,
    TargetNotShownError,
    choose_threshold,
)
from nearfar.verification.verifier import PairVerifier

__all__ = [
    "Bound",
    "Costs",
    "EqualErrors",
    "Evidence",
    "OperatingPoint",
    "PairVerifier",
    "TargetNotShownError",
    "choose_threshold",
    "held_out_decisions",
    "joined_classes",
    "parse_target",
    "threshold_on",
]
