"""The methods that others are compared with: closed forms, LMNN, ITML and their kin."""

from nearfar.learners.classic.mlkr import MLKR

__all__ = ["MLKR"]
