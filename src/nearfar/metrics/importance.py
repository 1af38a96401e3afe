"""Which features a linear metric goes by.

For two points drawn at random the mean squared distance is twice

    E |L x - L E x|^2 = tr(M C) = sum_j (M C)_jj,     C the covariance of the features

and (M C)_jj is the part of feature j: its own term M_jj C_jj and half of each cross term
2 M_ij C_ij with another feature, which is its Shapley value in the sum. The parts do not change
with the units of the features, and add up exactly. M_jj C_jj alone does not add up: it makes much
of two features whose difference counts, even if they are so alike that there hardly is one. The
price is that a part may be negative: then the feature's differences mostly cancel those of others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from nearfar.metrics.metric import Metric
from nearfar.metrics.points import check_points
from nearfar.typing import Matrix, Vector


@dataclass(frozen=True)
class Direction:
    """A direction in which a metric looks.

    Attributes
    ----------
    share : float
        Of the mean squared distance.
    features : tuple of str
        The features with the largest loadings, largest first.
    loadings : tuple of float
        Their loadings; those of all features have length one, and the largest is positive.
    """

    share: float
    features: tuple[str, ...]
    loadings: tuple[float, ...]

    def __str__(self) -> str:
        terms = zip(self.loadings, self.features, strict=True)
        return f"{100 * self.share:.0f} %: " + ", ".join(
            f"{value:+.2f} {name}" for value, name in terms
        )


def feature_importances(metric: Metric, X: ArrayLike | None = None) -> Vector:
    """Share of the mean squared distance that each feature contributes.

    (M C)_jj / tr(M C), with C the covariance of X: see the head of this module for what it means
    and why it may be negative.

    Parameters
    ----------
    metric : Metric
        A linear one, without kernel or gate.
    X : array-like of shape (n_samples, n_features), optional
        Points, not all the same under the metric. Without them C is the identity: then the shares
        are those of diag(M), which make sense if the features have the same unit and spread.

    Returns
    -------
    array of shape (n_features,)
        The shares; they sum to one.

    Examples
    --------
    >>> from nearfar import Metric
    >>> from nearfar.metrics.importance import feature_importances
    >>> X = [[0, 0, 9], [0, 3, 5], [4, 0, 2], [4, 3, 1]]
    >>> feature_importances(Metric([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]), X)
    array([0.30769231, 0.69230769, 0.        ])
    """
    _check_linear(metric)
    Z = _centered(metric, X)
    if Z is None:
        parts = np.einsum("kj,kj->j", metric.L, metric.L)
    else:
        P = Z @ metric.L.T
        parts = np.einsum("kj,kj->j", metric.L, P.T @ Z / len(Z))
    return parts / _total(parts)


def leading_directions(
    metric: Metric, X: ArrayLike | None = None, k: int = 3, *, n_features: int = 5
) -> list[Direction]:
    """Principal axes of the mapped points, by the features that they are made of.

    Parameters
    ----------
    metric : Metric
        A linear one, without kernel or gate.
    X : array-like of shape (n_samples, n_features), optional
        Points. A loading is then per standard deviation of its feature, so that units do not
        matter. Without them the directions are the eigenvectors of M.
    k : int, default=3
        Number of directions; there are no more than the rank of the metric.
    n_features : int, default=5
        Number of features that are named for each.

    Examples
    --------
    >>> from nearfar import Metric
    >>> from nearfar.metrics.importance import leading_directions
    >>> metric = Metric([[3.0, 4.0, 0.0], [0.0, 0.0, 1.0]], ["length", "width", "age"])
    >>> for direction in leading_directions(metric, n_features=2):
    ...     print(direction)
    96 %: +0.80 width, +0.60 length
    4 %: +1.00 age, +0.00 length
    """
    _check_linear(metric)
    if k < 1 or n_features < 1:
        raise ValueError(f"k and n_features must be at least 1; got {k} and {n_features}.")
    Z = _centered(metric, X)
    L = metric.L
    spread = np.ones(L.shape[1]) if Z is None else Z.std(axis=0)
    P = L if Z is None else (Z @ L.T).T / np.sqrt(len(Z))
    values, vectors = np.linalg.eigh(P @ P.T)
    shares = values[::-1] / _total(values)
    names = feature_names(metric)
    found = []
    for share, u in zip(shares[:k], vectors.T[::-1], strict=False):
        if share <= len(values) * np.finfo(float).eps:
            break
        loadings = (u @ L) * spread
        loadings /= np.linalg.norm(loadings)
        largest = np.argsort(-np.abs(loadings), kind="stable")[:n_features]
        # Adding zero turns -0.0 into 0.0.
        kept = loadings[largest] * np.sign(loadings[largest[0]]) + 0.0
        found.append(Direction(float(share), tuple(names[j] for j in largest), tuple(kept)))
    return found


def feature_names(metric: Metric) -> tuple[str, ...]:
    """Names of the features that a metric is for; x0, x1 and so on if they have none.

    Examples
    --------
    >>> from nearfar import Metric
    >>> from nearfar.metrics.importance import feature_names
    >>> feature_names(Metric.identity(2))
    ('x0', 'x1')
    """
    return metric.feature_names or tuple(f"x{j}" for j in range(metric.n_features))


def _check_linear(metric: Metric) -> None:
    if not isinstance(metric, Metric):
        raise ValueError(f"Expected a Metric; got {type(metric).__name__}.")
    if len(metric.parts) > 1:
        raise ValueError("A gated metric has several maps; pass one of its `parts` instead.")
    if not metric.is_linear:
        raise ValueError("A metric with a kernel has no feature importances.")


def _centered(metric: Metric, X: ArrayLike | None) -> Matrix | None:
    """Points less their mean, once the metric has agreed to their shape and names."""
    if X is None:
        return None
    check_points(X, metric.n_features, metric.feature_names)
    points: Matrix = check_array(X, dtype=np.float64, input_name="X")
    return points - points.mean(axis=0)


def _total(parts: Vector) -> float:
    total = float(parts.sum())
    if not total > 0:
        raise ValueError("All distances are zero: there is nothing to share out.")
    return total
