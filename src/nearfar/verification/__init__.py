"""Same or different: a threshold on a learned distance, and its certified error rates.

verifier    PairVerifier
threshold   a threshold on any score
splits      pairs to learn from, and pairs to calibrate on
"""

from nearfar.evidence.certify import (
    Bound,
    OperatingPoint,
    PairEvidence,
    TargetNotCertifiedError,
    UnlabelledPairs,
    at_threshold,
    choose_threshold,
    parse_target,
)
from nearfar.verification.verifier import PairVerifier

__all__ = [
    "Bound",
    "OperatingPoint",
    "PairEvidence",
    "PairVerifier",
    "TargetNotCertifiedError",
    "UnlabelledPairs",
    "at_threshold",
    "choose_threshold",
    "parse_target",
]
