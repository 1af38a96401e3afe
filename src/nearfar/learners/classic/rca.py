"""Relevant component analysis (Bar-Hillel, Hertz, Shental, Weinshall): whitening within chunklets.

With C the covariance of rows about the mean of their chunklet,

    M = C^-1

Directions in which rows of one chunklet differ are irrelevant, and count less. With the classes as
chunklets this is within-class covariance normalisation (WCCN; Hatch, Kajarekar, Stolcke 2006).

The rows of L are ordered by the ratio of the total variance to that within chunklets. The first k
are the constrained linear discriminants of the paper's section on dimensionality reduction,
followed by RCA.

Where nearfar departs from the paper, and why:

- C is divided by the number of rows less that of chunklets, not by that of rows: a constant factor
  that makes C unbiased.
- C is shrunk to a multiple of the identity, in the space that the rows span. With constant or
  collinear features, or with more features than rows, it is singular.
"""

from __future__ import annotations

from typing import ClassVar

from nearfar.learners.classic.closed_form import Axes, Solution, SummedClosedForm
from nearfar.learners.classic.scatter import Evidence, Groups, discriminants
from nearfar.learners.declaration import learner
from nearfar.learners.scaler import Scaler
from nearfar.supervision import Supervision
from nearfar.typing import Floats


@learner
class RCA(SummedClosedForm):
    """Relevant component analysis: use the inverse of the covariance within classes as metric.

    Parameters
    ----------
    shrinkage : "auto" or float from 0 to 1, default="auto"
        Share of the identity, times the mean variance, in the covariance. "auto" estimates it as
        by Ledoit and Wolf.
    n_components : int, optional
        Dimension to reduce to: the directions with the largest ratio of total variance to that
        within classes.

    Notes
    -----
    Similar pairs are joined to chunklets, by transitive closure; dissimilar pairs are not used.

    References
    ----------
    A. Bar-Hillel, T. Hertz, N. Shental, D. Weinshall. Learning a Mahalanobis metric from
    equivalence constraints. JMLR 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import RCA, Chunklets
    >>> X, y = load_wine(return_X_y=True)
    >>> RCA().fit(X, y).score(X, y) > 0.9
    True
    >>> few = Chunklets([0] * 10 + [-1] * 158 + [1] * 10)
    >>> RCA(n_components=2).fit(X, few).transform(X).shape
    (178, 2)
    """

    supervision: ClassVar[tuple[str, ...]] = ("labels", "chunklets", "pairs")
    auto_order: ClassVar[int | None] = 1
    compare_order: ClassVar[int | None] = 9

    def _evidence(self, P: Floats, supervision: Supervision) -> Evidence:
        return Evidence(Groups(P, supervision.chunklets().ids, supervision.row_weight))

    def _formula(self, evidence: Evidence, axes: Axes, scaler: Scaler) -> Solution:
        within = evidence.groups.shrunk_within(self.shrinkage)
        return Solution(discriminants(evidence.groups.total.within(), within)[1])
