"""Mahalanobis distance in its first sense: the inverse of the covariance of all rows.

    M = C^-1        C = sum_i (x_i - m)(x_i - m)' / (n - 1)

No labels are used: all directions come to count the same.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from sklearn.utils.validation import validate_data

from nearfar.learners.classic.closed_form import Axes, Solution
from nearfar.learners.classic.scatter import Evidence, Groups, with_ridge
from nearfar.learners.classic.summed import SummedClosedForm
from nearfar.learners.rows_input import input_rows
from nearfar.learners.scaler import Scaler


class InverseCovariance(SummedClosedForm):
    """Use the inverse of the covariance as metric; labels are not needed.

    Parameters
    ----------
    shrinkage : "auto" or float from 0 to 1, default="auto"
        Share of the identity, times the mean variance, in the covariance. "auto" estimates it as
        by Ledoit and Wolf.
    scale : {"auto", "standard", "unit", "cosine"} or None, default="auto"
        How X is scaled internally; the result applies to X as given. "standard" gives every feature
        unit variance, "unit" and None leave features as they are, and "cosine" divides each row by
        its length. "auto" is "standard", because there are no labels to choose by. All but
        "cosine" differ only by shrinkage.
    n_components : int, optional
        Dimension to reduce to: the principal axes of X.

    Attributes
    ----------
    metric_ : Metric
        The metric.
    components_ : array of shape (n_components, n_features)
        Its map L.
    history_ : History
        One iteration.
    n_iter_ : int
        1.

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

    supervision: ClassVar[tuple[str, ...]] = ("labels",)
    learns_from_rows_alone: ClassVar[bool] = True

    def _evidence(self, P: Any, supervision: Any) -> Evidence:
        return Evidence(Groups(P))

    def _formula(self, evidence: Evidence, axes: Axes, scaler: Scaler) -> Solution:
        C = evidence.groups.shrunk_within(self.shrinkage)
        values, vectors = eigh(with_ridge(C))
        return Solution((vectors / np.sqrt(values)).T[::-1])

    def _validate(self, X: ArrayLike, y: Any, *, reset: bool = True) -> tuple[Any, Any]:
        """Check X; a fit ignores y, whatever it is."""
        if not reset:
            return super()._validate(X, y, reset=reset)
        rows = input_rows(self, X, None)
        if rows is not None:
            return rows, None
        points = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        return points, None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags
