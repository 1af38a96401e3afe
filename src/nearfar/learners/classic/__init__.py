"""The methods that others are compared with: closed forms, LMNN, ITML and others."""

from nearfar.learners.classic.closed_forms import DCA, KISSME, LDA, RCA, XQDA, InverseCovariance
from nearfar.learners.classic.gmml import GMML
from nearfar.learners.classic.itml import ITML
from nearfar.learners.classic.lfda import LFDA
from nearfar.learners.classic.lmnn import LMNN
from nearfar.learners.classic.lsml import LSML
from nearfar.learners.classic.mlkr import MLKR
from nearfar.learners.classic.mmc import MMC
from nearfar.learners.classic.plda import PLDA

__all__ = [
    "DCA",
    "GMML",
    "ITML",
    "KISSME",
    "LDA",
    "LFDA",
    "LMNN",
    "LSML",
    "MLKR",
    "MMC",
    "PLDA",
    "RCA",
    "XQDA",
    "InverseCovariance",
]
