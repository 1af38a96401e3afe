"""Leading eigenpairs of small dense symmetric matrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from nearfar.workers import quiet_blas

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def leading(A: Matrix, *, absolute: bool = False) -> tuple[float, Vector]:
    """Eigenpair of the largest eigenvalue, or of the largest in absolute value.

    The eigenvector's largest entry is positive, so that equal input gives an equal result.
    """
    last = len(A) - 1
    with quiet_blas():
        values, vectors = eigh(A, subset_by_index=[last, last])
        if absolute and last > 0:
            low_values, low_vectors = eigh(A, subset_by_index=[0, 0])
            if -low_values[0] > values[0]:
                values, vectors = low_values, low_vectors
    return float(values[0]), signed(vectors[:, 0])


def signed(v: Vector) -> Vector:
    """Return v or -v, whichever has a positive largest entry."""
    return v * np.copysign(1.0, v[np.abs(v).argmax()])
