"""Same or different: a threshold on a learned distance, and its certified error rates.

verifier               PairVerifier
targets                what a threshold is chosen for
certified_thresholds   thresholds that are certified to meet a target
operating_point        a threshold, and its error rates
evidence               error rates by class
calibration_split      pairs to learn from, and pairs to calibrate on
"""

from nearfar.verification.certified_thresholds import (
    TargetNotCertifiedError,
    choose_threshold,
)
from nearfar.verification.evidence import PairEvidence, UnlabelledPairs, joined_classes
from nearfar.verification.operating_point import OperatingPoint, at_threshold
from nearfar.verification.targets import Bound, Costs, EqualErrors, parse_target
from nearfar.verification.verifier import PairVerifier

__all__ = [
    "Bound",
    "Costs",
    "EqualErrors",
    "OperatingPoint",
    "PairEvidence",
    "PairVerifier",
    "TargetNotCertifiedError",
    "UnlabelledPairs",
    "at_threshold",
    "choose_threshold",
    "joined_classes",
    "parse_target",
]
