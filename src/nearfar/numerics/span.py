"""The space that a few points span."""

from __future__ import annotations

import numpy as np

from nearfar.typing import Matrix


def axes_of_span(X: Matrix) -> Matrix | None:
    """Return orthonormal axes of the differences between points that are fewer than coordinates.

    Parameters
    ----------
    X : array of shape (n_points, n_coordinates)

    Returns
    -------
    array of shape (n_coordinates, n_axes) or None
        None if there are more points than coordinates. Equal points still have one axis.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.span import axes_of_span
    >>> np.abs(axes_of_span(np.array([[0.0, 0.0, 7.0], [3.0, 4.0, 7.0]]))).ravel()
    array([0.6, 0.8, 0. ])
    """
    n, D = X.shape
    if n > D:
        return None
    _, size, axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    n_axes = np.count_nonzero(size > D * np.finfo(float).eps * size[0])
    return np.ascontiguousarray(axes[: max(1, n_axes)].T)
