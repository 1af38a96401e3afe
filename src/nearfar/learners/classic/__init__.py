"""The methods that others are compared with: closed forms, LMNN, ITML and their kin."""

from nearfar.learners.classic.lmnn import LMNN

__all__ = ["LMNN"]
