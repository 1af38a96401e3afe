"""The space that a few points span."""

from __future__ import annotations

import numpy as np

from nearfar.typing import Matrix

_ROUNDING = 1e-10


def axes_of_span(X: Matrix) -> Matrix:
    """Return orthonormal axes of the space that rows span, the longest extent first.

    Parameters
    ----------
    X : array of shape (n_points, n_coordinates)

    Returns
    -------
    array of shape (n_coordinates, n_axes)
        Rows of zeros still have one axis.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.span import axes_of_span
    >>> np.abs(axes_of_span(np.array([[3.0, 4.0, 0.0], [6.0, 8.0, 0.0]]))).ravel()
    array([0.6, 0.8, 0. ])
    """
    _, size, axes = np.linalg.svd(X, full_matrices=False)
    n_axes = np.count_nonzero(size > max(X.shape) * np.finfo(float).eps * size[0])
    return np.ascontiguousarray(axes[: max(1, n_axes)].T)


def lies_in_span(X: Matrix, axes: Matrix) -> bool:
    """Return whether rows lie in the space of orthonormal axes, up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.span import lies_in_span
    >>> axes = np.array([[0.6], [0.8]])
    >>> lies_in_span(np.array([[3.0, 4.0]]), axes), lies_in_span(np.array([[3.0, 5.0]]), axes)
    (True, False)
    """
    outside = X - (X @ axes) @ axes.T
    return bool(np.linalg.norm(outside) <= _ROUNDING * np.linalg.norm(X))
