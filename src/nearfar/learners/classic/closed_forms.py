"""Six closed forms: RCA, DCA, LDA, InverseCovariance, KISSME and XQDA.

RCA: relevant component analysis (Bar-Hillel, Hertz, Shental, Weinshall), whitening in chunklets.

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

DCA: discriminative component analysis (Hoi, Liu, Lyu, Ma): chunklets that must differ.

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

LDA: linear discriminant analysis (Fisher 1936, Rao 1948): the axes along which class means differ.

With C_w the covariance of rows about the mean of their class, and C_b that of the class means, each
counted by its number of rows,

    C_b v = value C_w v,        L C_w L' = I

for the values that are not zero, of which there are fewer than classes. Within classes, mapped rows
have unit variance in all directions; other directions do not count.

Where nearfar departs from the usual form, and why:

- C_w is shrunk to a multiple of the identity, in the space that the rows span. With constant or
  collinear features, or with more features than rows, it is singular. ``shrinkage=0`` is the usual
  form, and scikit-learn's ``LinearDiscriminantAnalysis().transform`` up to a rotation.

InverseCovariance: Mahalanobis distance in its first sense, by the covariance of all rows.

    M = C^-1        C = sum_i (x_i - m)(x_i - m)' / (n - 1)

No labels are used: all directions come to count the same.

KISSME (Köstinger et al. 2012) and its version in a subspace, XQDA (Liao et al. 2015).

Differences u = x_i - x_j of similar pairs, and those of dissimilar pairs, are taken to be Gaussian
with mean zero and second moments S and D. The logarithm of the ratio of the two likelihoods is,
but for constants, -u' (S^-1 - D^-1) u / 2, hence

    M = (S^-1 - D^-1)_+

where + drops negative eigenvalues. XQDA first finds the directions in which dissimilar pairs differ
more than similar ones,

    D w = lambda S w,        lambda > 1,        w' S w = 1

and takes S^-1 - D^-1 in the space of these w, where it is M = sum (1 - 1 / lambda) w w'.

S and D are means over all pairs that labels make, exactly (`scatter`), or over listed pairs.

Where nearfar departs from the papers, and why:

- S and D are shrunk to multiples of the identity, by the same share: S is singular on pictures, and
  different shares tilt the difference of the inverses (vehicles 25.4 against 21.8 % error). XQDA
  adds 0.001 to the diagonal of S.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.linalg import eigh

from nearfar.learners.classic.closed_form_base import Axes, Solution, SummedClosedForm
from nearfar.learners.classic.scatter import (
    ROUNDING,
    Evidence,
    Groups,
    discriminants,
    pair_scatters,
    with_ridge,
)
from nearfar.learners.declaration import learner
from nearfar.learners.scaling import Scaler
from nearfar.numerics.edges import Edges
from nearfar.numerics.linear_algebra import by_spread
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
        kept[len(groups.sizes) - 1 :] = False
        return Solution(L[kept])


@learner
class LDA(SummedClosedForm):
    """Linear discriminant analysis: the axes that separate class means, whitened within classes.

    Parameters
    ----------
    n_components : int, optional
        The most directions to keep; by default all that tell classes apart, which are fewer than
        the classes.

    References
    ----------
    C. R. Rao. The utilization of multiple measurements in problems of biological classification.
    1948.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import LDA
    >>> X, y = load_wine(return_X_y=True)
    >>> LDA().fit(X, y).transform(X).shape
    (178, 2)
    """

    auto_order: ClassVar[int | None] = 2

    def _formula(self, evidence: Evidence, axes: Axes, scaler: Scaler) -> Solution:
        groups = evidence.groups
        between = groups.between(groups.sizes / groups.sizes.sum())
        values, L = discriminants(between, groups.shrunk_within(self.shrinkage))
        kept = values > ROUNDING * values[0]
        kept[len(groups.sizes) - 1 :] = False
        return Solution(L[kept])


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


@learner
class KISSME(SummedClosedForm):
    """Keep it simple and straightforward: difference of two inverse covariances of pairs.

    Parameters
    ----------
    shrinkage : "auto" or float from 0 to 1, default="auto"
        Share of the identity, times the mean variance, in the covariances. "auto" estimates it as
        by Ledoit and Wolf.

    References
    ----------
    M. Köstinger, M. Hirzer, P. Wohlhart, P. M. Roth, H. Bischof. Large scale metric learning from
    equivalence constraints. CVPR 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import KISSME
    >>> X, y = load_wine(return_X_y=True)
    >>> KISSME().fit(X, y).score(X, y) > 0.95
    True
    """

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs")
    auto_order: ClassVar[int | None] = 3
    compare_order: ClassVar[int | None] = 12

    def _formula(self, evidence: Evidence, axes: Axes, scaler: Scaler) -> Solution:
        S, D = pair_scatters(evidence, self.shrinkage)
        values, W = discriminants(with_ridge(D), S)
        weights, vectors = eigh((W.T * (1.0 - 1.0 / values)) @ W)
        positive = weights > ROUNDING * np.abs(weights).max()
        L = (vectors[:, positive] * np.sqrt(weights[positive])).T
        return Solution(by_spread(L, evidence.groups.total.within())[1])


@learner
class XQDA(SummedClosedForm):
    """Cross-view quadratic discriminant analysis: KISSME in the most discriminative subspace.

    Parameters
    ----------
    shrinkage : "auto" or float from 0 to 1, default="auto"
        Share of the identity, times the mean variance, in the covariances. "auto" estimates it as
        by Ledoit and Wolf.
    n_components : int, optional
        The most directions to keep: those with the largest ratio of the variance of dissimilar
        pairs to that of similar ones. By default all where it is greater than 1.

    References
    ----------
    S. Liao, Y. Hu, X. Zhu, S. Z. Li. Person re-identification by local maximal occurrence
    representation and metric learning. CVPR 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import XQDA
    >>> X, y = load_wine(return_X_y=True)
    >>> XQDA(n_components=2).fit(X, y).transform(X).shape
    (178, 2)
    """

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs")
    auto_order: ClassVar[int | None] = 6
    compare_order: ClassVar[int | None] = 13

    def _formula(self, evidence: Evidence, axes: Axes, scaler: Scaler) -> Solution:
        S, D = pair_scatters(evidence, self.shrinkage)
        values, W = discriminants(D, S)
        kept = values > 1.0 + ROUNDING
        return Solution(np.sqrt(1.0 - 1.0 / values[kept])[:, None] * W[kept])
