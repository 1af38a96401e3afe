"""The methods that others are compared with: closed forms, LMNN, ITML and their kin."""

from nearfar.learners.classic.itml import ITML
from nearfar.learners.classic.lsml import LSML
from nearfar.learners.classic.mmc import MMC

__all__ = ["ITML", "LSML", "MMC"]
