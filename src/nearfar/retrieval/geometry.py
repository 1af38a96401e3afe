"""The units in which a change of the score is measured.

With C the covariance of the documents and c its mean eigenvalue,

    R = C + 0.3 c I,      T = R^(-1/2)

maps the documents to rows whose coordinates are almost uncorrelated, with a variance of almost
one. A change of the score q' T B T x then has a mean square of about ||B||_F^2 over pairs of
documents, whatever the number of features and their scale. Penalising ||B||_F^2 keeps
the scores of ordinary pairs close to the untouched ones. Penalising the change of W itself would
forbid changes along directions in which vectors hardly differ, although these often tell documents
apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfar.metrics.points import unit_length
from nearfar.typing import Floats, Matrix, Vector

# In units of the mean variance: less lets directions in which documents hardly differ change most,
# more penalises changes of W itself.
_RIDGE = 0.3
# More documents hardly change a covariance, and it takes time in proportion.
_MAX_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Geometry:
    """Axes and variances of a corpus.

    Attributes
    ----------
    center : array of shape (n_features,)
        Mean of the documents.
    axes : array of shape (n_features, n_features)
        Eigenvectors of R, in columns.
    variances : array of shape (n_features,)
        Its eigenvalues.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.retrieval.geometry import Geometry
    >>> X = np.random.RandomState(0).normal(size=(500, 2)) * [1, 9]
    >>> spread = (X @ Geometry.of(X).power(-0.5)).std(axis=0)
    >>> bool(spread[0] < spread[1] < 1)
    True
    """

    center: Vector
    axes: Matrix
    variances: Vector

    @classmethod
    def of(cls, X: Floats) -> Geometry:
        """Measure a corpus, on at most 20,000 evenly spaced documents."""
        rows = X[:: -(-len(X) // _MAX_ROWS)].astype(np.float64)
        center = rows.mean(axis=0)
        covariance = (rows - center).T @ (rows - center) / len(rows)
        mean = float(np.trace(covariance)) / X.shape[1]
        if not mean > 0:
            raise ValueError("All documents have the same vector, so no score can tell them apart.")
        variances, axes = np.linalg.eigh(covariance)
        return cls(center, axes, np.maximum(variances, 0.0) + _RIDGE * mean)

    def power(self, exponent: float) -> Matrix:
        """Return a power of R."""
        return (self.axes * self.variances**exponent) @ self.axes.T

    @property
    def whitening(self) -> Whitening:
        """The map of rows that makes the documents rounder; see `Whitening`."""
        return Whitening(self.center, self.power(-0.25))


@dataclass(frozen=True, eq=False)
class Whitening:
    """x -> R^(-1/4) (x - center), divided by its length.

    Attributes
    ----------
    center : array of shape (n_features,)
    map : array of shape (n_features, n_features)
    """

    center: Vector
    map: Matrix

    def __call__(self, X: Floats) -> Floats:
        """Map rows."""
        center, matrix = self.center.astype(X.dtype), self.map.astype(X.dtype)
        return unit_length((X - center) @ matrix)
