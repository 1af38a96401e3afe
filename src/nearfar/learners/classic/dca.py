"""Discriminative component analysis (Hoi, Liu, Lyu, Ma): chunklets that must differ.

Similar rows form chunklets j with n_j rows and means m_j. Two chunklets are discriminative if some
dissimilar pair joins them; classes all are. With the mean over chunklets and over discriminative
pairs of them,

    C_w = mean_j (1 / n_j) sum_i (x_ji - m_j)(x_ji - m_j)'
    C_b = mean_{j, i discriminative} (m_j - m_i)(m_j - m_i)'

the map L maximises |L C_b L'| / |L C_w L'|, with L C_w L' = I. Its rows solve C_b v = value C_w v,
for the values that are not zero.

Where nearfar departs from the paper, and why:

- The paper's algorithm looks for v only in the range of C_b. With few chunklets that is not the
  maximum, and much worse (vehicles 41.7 against 26.7 % error, ionosphere 19.8 against 14.5).
- C_w is shrunk to a multiple of the identity, and its chunklets are weighted by 1 / n_j but
  normalised as an unbiased covariance: a constant factor.
- A row that is only in dissimilar pairs is a chunklet of its own.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nearfar.learners.classic.closed_form import Axes, Solution, SummedClosedForm
from nearfar.learners.classic.scatter import ROUNDING, Evidence, Groups, discriminants
from nearfar.learners.declaration import learner
from nearfar.learners.scaler import Scaler
from nearfar.numerics.edges import Edges
from nearfar.supervision import Supervision
from nearfar.typing import Floats


@learner
class DCA(SummedClosedForm):
    """Discriminative component analysis: small differences within groups, large ones between them.

    Parameters
    ----------
    shrinkage : "auto" or float from 0 to 1, default="auto"
        Share of the identity, times the mean variance, in the covariance within groups. "auto"
        estimates it as by Ledoit and Wolf.
    n_components : int, optional
        The most directions to keep; by default all that tell groups apart, which are fewer than the
        groups.

    Notes
    -----
    Similar pairs are joined to chunklets, by transitive closure; a dissimilar pair says that two
    chunklets differ. `Chunklets` alone are not enough: they do not say which of them differ.

    References
    ----------
    S. C. H. Hoi, W. Liu, M. R. Lyu, W.-Y. Ma. Learning distance metrics with contextual constraints
    for image retrieval. CVPR 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import DCA
    >>> X, y = load_wine(return_X_y=True)
    >>> DCA().fit(X, y).transform(X).shape
    (178, 2)
    """

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs")
    auto_order: ClassVar[int | None] = 7
    compare_order: ClassVar[int | None] = 10

    def _evidence(self, P: Floats, supervision: Supervision) -> Evidence:
        if supervision.kind == "labels":
            codes = supervision.labels("", informative=True)
            return Evidence(Groups(P, codes, supervision.row_weight))
        pairs = supervision.pairs(P, None, None)
        codes = supervision.chunklets().ids.copy()
        apart = pairs.index[~pairs.similar]
        single = np.unique(apart[codes[apart] < 0])
        codes[single] = codes.max() + 1 + np.arange(len(single))
        i, j = codes[apart].T
        if (i == j).all():
            raise ValueError("Every dissimilar pair joins rows that similar pairs put together.")
        groups = Groups(P, codes)
        edges = Edges(groups.means, i[i != j], j[i != j])
        return Evidence(groups, apart=edges.matrix(np.ones(len(edges))))

    def _formula(self, evidence: Evidence, axes: Axes, scaler: Scaler) -> Solution:
        groups, between = evidence.groups, evidence.apart
        if between is None:
            between = groups.between(np.ones(len(groups.sizes)))
        within = groups.shrunk_within(self.shrinkage, 1.0 / groups.sizes)
        values, L = discriminants(between, within)
        kept = values > ROUNDING * values[0]
        kept[groups.n_groups - 1 :] = False
        return Solution(L[kept])
