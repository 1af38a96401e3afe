"""The methods that others are compared with: closed forms, LMNN, ITML and their kin."""

from nearfar.learners.classic.dca import DCA
from nearfar.learners.classic.gmml import GMML
from nearfar.learners.classic.inverse_covariance import InverseCovariance
from nearfar.learners.classic.kissme import KISSME, XQDA
from nearfar.learners.classic.lfda import LFDA
from nearfar.learners.classic.plda import PLDA
from nearfar.learners.classic.rca import RCA

__all__ = ["DCA", "GMML", "KISSME", "LFDA", "PLDA", "RCA", "XQDA", "InverseCovariance"]
