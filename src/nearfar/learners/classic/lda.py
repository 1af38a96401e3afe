"""Linear discriminant analysis (Fisher 1936, Rao 1948): the axes along which class means differ.

With C_w the covariance of rows about the mean of their class, and C_b that of the class means, each
counted by its number of rows,

    C_b v = value C_w v,        L C_w L' = I

for the values that are not zero, of which there are fewer than classes. Within classes, mapped rows
have unit variance in all directions; other directions do not count.

Where nearfar departs from the usual form, and why:

- C_w is shrunk to a multiple of the identity, in the space that the rows span. With constant or
  collinear features, or with more features than rows, it is singular. ``shrinkage=0`` is the usual
  form, and scikit-learn's ``LinearDiscriminantAnalysis().transform`` up to a rotation.
"""

from __future__ import annotations

from typing import ClassVar

from nearfar.learners.classic.closed_form import Axes, Solution, SummedClosedForm
from nearfar.learners.classic.scatter import ROUNDING, Evidence, discriminants
from nearfar.learners.declaration import learner
from nearfar.learners.scaler import Scaler


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
        kept[groups.n_groups - 1 :] = False
        return Solution(L[kept])
