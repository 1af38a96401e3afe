"""Matching pursuit in kernel space: a few points whose span is near all others.

The point that is farthest from the span of the basis joins it (Xiong, Johnson, Corso, section 4.6):

    next = argmax_i  min_beta | phi(x_i) - sum_j beta_j phi(x_j) |^2                        (8)

The minimum is attained at beta = K_BB^-1 k_B(x_i), and to choose by the exact residual is to choose
the pivots of a pivoted Cholesky factorisation of K: N numbers per step and O(N t^2) in
total; only t columns of K are computed. Residuals and features that are whitened, K_BB^(-1/2)
k_B(x), are exact. Of points whose residuals agree to rounding the first one joins.

The paper prints the cosine of phi(x_i) and phi(x_j) for beta_j, which is right only for an
orthogonal basis of unit length (its residual rises after some points), begins with a random point,
and has the features k_B(x), whose products are not kernel values: ``variant="paper"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.metrics.feature_maps import KERNELS, Kernel, KernelMap, kernel_diagonal, kernel_matrix
from nearfar.numerics.missing import naming_remedies
from nearfar.runtime.parameters import check_parameters, choice, integer
from nearfar.typing import Floats, Ints, Vector

# Negative residuals, relative to the largest K(x, x), that rounding does not explain.
_NOT_PSD = 1e-8
# Residuals that differ by less, relative to the largest K(x, x), agree to rounding.
_SMALLEST_RESIDUAL = 1e-12


@dataclass(kw_only=True, eq=False, repr=False)
class MatchingPursuitBasis(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Approximate a kernel by the points that are farthest from the span of those before them.

    A map like scikit-learn's `Nystroem`, with a basis that is chosen, not drawn.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        A kernel of `sklearn.metrics.pairwise`, or a function of two rows.
    gamma, degree, coef0 : float, optional
        Parameters of the kernel, by default scikit-learn's; those that it does not have are
        ignored.
    n_components : int, default=200
        The most basis points.
    tol : float, default=1e-10
        No point joins whose squared residual is less than this share of the largest K(x, x).
    variant : {"default", "paper"}, default="default"
        "paper" chooses points and makes features as the paper prints.
    random_state : int, RandomState or None, default=None
        For the first point, with ``variant="paper"``.

    Attributes
    ----------
    indices_ : array of shape (n_basis,)
        Rows of X that are the basis, in the order in which they joined.
    components_ : array of shape (n_basis, n_features)
        These rows.
    residuals_ : array of shape (n_basis + 1,)
        Sum of the squared residuals of all rows with 0, 1, ... basis points.
    map_ : KernelMap
        The map.

    References
    ----------
    C. Xiong, D. M. Johnson, J. J. Corso. Efficient max-margin metric learning. 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> from nearfar import MatchingPursuitBasis
    >>> X = StandardScaler().fit_transform(load_wine().data)
    >>> MatchingPursuitBasis(n_components=20).fit_transform(X).shape
    (178, 20)
    """

    kernel: Kernel = "rbf"
    gamma: float | None = None
    degree: float | None = None
    coef0: float | None = None
    n_components: int = 200
    tol: float = 1e-10
    variant: Literal["default", "paper"] = "default"
    random_state: int | np.random.RandomState | None = None

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Choose the basis from the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        """
        with naming_remedies():
            points = validate_data(self, X, dtype=[np.float64, np.float32])
        rules = {"n_components": integer(at_least=1), "variant": choice("default", "paper")}
        check_parameters(rules, {name: getattr(self, name) for name in rules})
        parameters = kernel_parameters(self.kernel, self.gamma, self.degree, self.coef0)
        random_state = check_random_state(self.random_state) if self.variant == "paper" else None
        self.indices_, self.residuals_, self.map_ = pursue(
            points,
            self.kernel,
            parameters,
            self.n_components,
            tol=self.tol,
            paper_start=random_state,
        )
        self.components_ = points[self.indices_]
        self._n_features_out = len(self.indices_)
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Map points to features whose products are kernel values, or nearly so."""
        check_is_fitted(self)
        with naming_remedies():
            points = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self.map_.transform(points)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def kernel_parameters(
    kernel: Kernel | None, gamma: float | None, degree: float | None, coef0: float | None
) -> dict[str, float]:
    """Check a kernel's name, and collect the parameters that are given."""
    if not callable(kernel) and kernel not in KERNELS:
        raise ValueError(
            f"kernel must be one of {', '.join(KERNELS)}, or callable; got {kernel!r}."
        )
    options = {"gamma": gamma, "degree": degree, "coef0": coef0}
    return {name: float(value) for name, value in options.items() if value is not None}


class Pursuit(NamedTuple):
    """A basis that was found: its rows, the residuals on the way, and its map."""

    indices: Ints
    residuals: Vector
    map: KernelMap


def pursue(
    X: Floats,
    kernel: Kernel,
    parameters: Mapping[str, float],
    n_basis: int,
    *,
    tol: float,
    paper_start: np.random.RandomState | None = None,
) -> Pursuit:
    """Choose a basis among the rows of X.

    Parameters
    ----------
    parameters: Parameters of the kernel.
    n_basis: The most points.
    tol: Smallest residual of a point that joins, as a share of the largest K(x, x).
    paper_start: Choose as the paper prints, from a random first point.
    """
    diagonal = kernel_diagonal(X, kernel, parameters)
    largest = float(diagonal.max())
    if not np.isfinite(diagonal).all() or largest <= 0 or diagonal.min() < 0:
        raise ValueError(f"The kernel {kernel!r} has no positive K(x, x): it is not psd.")
    most = min(n_basis, len(X))
    residual, totals = diagonal.copy(), [float(diagonal.sum())]
    factor = np.empty((len(X), most), order="F")
    chosen: list[int] = []
    free = np.ones(len(X), dtype=bool)
    while len(chosen) < most:
        left = np.where(free, residual, -np.inf)
        row = int((left >= left.max() - _SMALLEST_RESIDUAL * largest).argmax())
        if paper_start is not None and not chosen:
            row = int(paper_start.randint(len(X)))
        if left[row] <= max(tol, _SMALLEST_RESIDUAL) * largest:
            break
        k = kernel_matrix(X, X[row : row + 1], kernel, parameters)[:, 0]
        before = factor[:, : len(chosen)]
        if paper_start is None:
            # Pivoted Cholesky; the diagonal that it leaves is the exact residuals.
            g = k - before @ before[row]
            g /= np.sqrt(residual[row])
            residual -= g * g
            residual[row] = 0.0
            if residual.min() < -_NOT_PSD * largest:
                raise ValueError(f"The kernel {kernel!r} is not psd on these points.")
        else:
            # The paper's beta_j, the cosine of phi(x_i) and phi(x_j).
            g = k / np.sqrt(np.maximum(diagonal * diagonal[row], np.finfo(float).tiny))
            overlap = k - before @ k[chosen]
            residual += g * (g * diagonal[row] - 2 * overlap)
        factor[:, len(chosen)] = g
        chosen.append(row)
        free[row] = False
        totals.append(float(np.maximum(residual, 0.0).sum()))
    basis = np.asarray(X[chosen], dtype=np.float64)
    whitening = np.eye(len(chosen))
    if paper_start is None:
        # K_BB^(-1/2), without directions of no length.
        values, vectors = np.linalg.eigh(kernel_matrix(basis, basis, kernel, parameters))
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        whitening = (vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T
    center, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
    return Pursuit(
        np.array(chosen, dtype=np.intp),
        np.array(totals),
        KernelMap(basis, whitening, kernel, dict(parameters), center=center, scale=scale),
    )
