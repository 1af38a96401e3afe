"""Mahalanobis distance in its first sense: the inverse of the covariance of all rows.

    M = C^-1        C = sum_i (x_i - m)(x_i - m)' / (n - 1)

No labels are used: all directions come to count the same.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nearfar.learners.classic.closed_form import Axes, Solution, SummedClosedForm
from nearfar.learners.classic.scatter import Evidence, Groups, with_ridge
from nearfar.learners.declaration import learner
from nearfar.learners.scaler import Scaler
from nearfar.numerics.linear_algebra import by_spread
from nearfar.supervision import Supervision
from nearfar.typing import Floats


@learner
class InverseCovariance(SummedClosedForm):
    """Use the inverse of the covariance as metric; labels are not needed.

    Parameters
    ----------
    shrinkage : "auto" or float from 0 to 1, default="auto"
        Share of the identity, times the mean variance, in the covariance. "auto" estimates it as
        by Ledoit and Wolf.
    n_components : int, optional
        Dimension to reduce to: the principal axes of X.

    References
    ----------
    P. C. Mahalanobis. On the generalised distance in statistics. 1936.
    O. Ledoit, M. Wolf. A well-conditioned estimator for large-dimensional covariance matrices.
    2004.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import InverseCovariance
    >>> X, _ = load_wine(return_X_y=True)
    >>> InverseCovariance(shrinkage=0.0).fit(X).transform(X).var(axis=0, ddof=1).round(6)[:3]
    array([1., 1., 1.])
    """

    supervision: ClassVar[tuple[str, ...]] = ("labels", "numbers")
    auto_order: ClassVar[int | None] = 0
    ignores_y: ClassVar[bool] = True

    def _evidence(self, P: Floats, supervision: Supervision) -> Evidence:
        return Evidence(Groups(P, row_weight=supervision.row_weight))

    def _formula(self, evidence: Evidence, axes: Axes, scaler: Scaler) -> Solution:
        C = with_ridge(evidence.groups.shrunk_within(self.shrinkage))
        # Shrinkage keeps the axes, and may make their lengths equal.
        vectors = by_spread(np.eye(len(C)), evidence.groups.within())[1]
        return Solution(vectors / np.sqrt((vectors @ C * vectors).sum(axis=1))[:, None])
