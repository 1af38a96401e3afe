"""Local Fisher discriminant analysis (Sugiyama 2007): classes may consist of several clusters.

Rows of a class are compared with their neighbours only. With affinities within classes

    A_ij = exp(-|x_i - x_j|^2 / (s_i s_j))        s_i: distance to the k-th neighbour of the class

the local scatters are, over pairs of rows in classes of n_c,

    S_lw = 1/2 sum_{same class} A_ij / n_c u u'        u = x_i - x_j
    S_lb = 1/2 sum_{same class} A_ij (1/n - 1/n_c) u u' + 1/2 sum_{other class} 1/n u u'

and the rows of the map solve S_lb v = value S_lw v, the largest values first.

Only G_c = 1/2 sum_{ij in c} A_ij u u', a graph Laplacian between the rows of one class, needs
affinities, tile by tile. The rest are sums over classes: with S_c the scatter about the mean of a
class and S_b that of the means,

    S_lw = sum_c G_c / n_c        S_lb = S_b + sum_c (1 - n_c / n) (S_c - G_c / n_c)

Where nearfar departs from the paper, and why:

- S_lw is shrunk to a multiple of the identity, in the space that the rows span. With constant or
  collinear features, or with more features than rows, it is singular.
- A_ij is multiplied by the weights of both rows, if they have some; they do not change s_i.
- In a class of at most k rows, the farthest row takes the place of the k-th neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import ClassVar, Literal

import numpy as np

from nearfar.learners.classic.closed_form_base import (
    ClosedFormLearner,
    ClosedFormProblem,
    Solution,
    Span,
)
from nearfar.learners.classic.scatter import Groups, discriminants, shrunk, warn_if_singular
from nearfar.learners.declaration import MaxRows, learner
from nearfar.learners.problem import FitInput, Problem
from nearfar.numerics.nearest_rows import ClassOrder
from nearfar.runtime.parameters import ParameterRule, choice, integer
from nearfar.runtime.progress import check_time
from nearfar.runtime.threads import Threads
from nearfar.typing import Matrix, Vector

Embedding = Literal["weighted", "orthonormalized", "plain"]

# Affinities of a tile: 8 MB, which threads hold at once.
_TILE_ELEMENTS = 1 << 20
# Of a row to its k-th neighbour, for rows of unit variance.
_SMALLEST_DISTANCE = 1e-6


@learner
class LFDA(ClosedFormLearner):
    """Local Fisher discriminant analysis: linear discriminants for classes of several clusters.

    Parameters
    ----------
    n_neighbors : int, default=7
        The distance of a row to this neighbour of its class is the scale of its affinities.
    embedding : {"weighted", "orthonormalized", "plain"}, default="weighted"
        How directions are scaled: by the root of their local ratio of variance between classes to
        that within, to be orthonormal, or to unit variance within classes.
    shrinkage : "auto" or float from 0 to 1, default="auto"
        Share of the identity, times the mean variance, in the local scatter within classes. "auto"
        estimates it as by Ledoit and Wolf, from the covariance within classes.
    n_components : int, optional
        Dimension to reduce to. All orthonormal directions together are Euclidean distance.

    References
    ----------
    M. Sugiyama. Dimensionality reduction of multimodal labeled data by local Fisher discriminant
    analysis. JMLR 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import LFDA
    >>> X, y = load_wine(return_X_y=True)
    >>> LFDA(n_components=2).fit(X, y).transform(X).shape
    (178, 2)
    """

    max_rows: MaxRows = "auto"
    n_neighbors: int = 7
    embedding: Embedding = "weighted"

    reads_rows: ClassVar[tuple[str, ...]] = ()
    auto_order: ClassVar[int | None] = 8
    compare_order: ClassVar[int | None] = 11
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "n_neighbors": integer(at_least=1),
        "embedding": choice("weighted", "orthonormalized", "plain"),
    }

    def _build_problem(self, data: FitInput) -> Problem:
        span = Span.of(data.Z, data.supervision.row_weight)

        def formula() -> Solution:
            codes = data.supervision.labels(type(self).__name__, informative=True)
            classes = Groups(span.P, codes, data.supervision.row_weight)
            between, within = local_scatters(classes, self.n_neighbors)
            intensity = classes.intensity(self.shrinkage, classes.within())
            warn_if_singular(within, self.shrinkage)
            values, L = discriminants(between, shrunk(within, intensity))
            values, L = values[: self.n_components], L[: self.n_components]
            if self.embedding == "orthonormalized":
                return Solution(np.linalg.qr(L.T)[0].T)
            if self.embedding == "weighted":
                return Solution(np.sqrt(values[values > 0])[:, None] * L[values > 0])
            return Solution(L)

        return ClosedFormProblem(span, formula)


def local_scatters(classes: Groups, n_neighbors: int) -> tuple[Matrix, Matrix]:
    """Return S_lb / n and S_lw / n."""
    sizes, n = classes.sizes, float(classes.sizes.sum())
    order = ClassOrder(classes.codes)
    between = classes.between(sizes / n) + classes.scatter((1.0 - sizes / n) / n)
    within = np.zeros_like(between)
    for label, size in enumerate(sizes):
        rows = order.order[order.edges[label] : order.edges[label + 1]]
        weight = None if classes.row_weight is None else classes.row_weight[rows]
        local = _local_scatter(classes.X[rows] - classes.means[label], n_neighbors, weight)
        local /= size * n
        between -= (1.0 - size / n) * local
        within += local
    return between, within


def _local_scatter(X: Matrix, n_neighbors: int, weight: Vector | None = None) -> Matrix:
    """G_c: 1/2 sum w_i w_j A_ij (x_i - x_j)(x_i - x_j)' over the centred rows of one class."""
    k = min(n_neighbors, len(X) - 1)
    norms = np.einsum("ij,ij->i", X, X)

    def squared_distances(rows: slice) -> Matrix:
        """Return those of some rows to all, each row's own included."""
        tile = norms[rows, None] + norms
        tile -= 2.0 * (X[rows] @ X.T)
        return np.maximum(tile, 0.0, out=tile)

    def reached(rows: slice) -> Vector:
        return np.partition(squared_distances(rows), k, axis=1)[:, k]

    def scatter(rows: slice) -> Matrix:
        tile = squared_distances(rows)
        tile /= -reach[rows, None]
        tile /= reach
        A = np.exp(tile, out=tile)
        if weight is not None:
            A *= weight
            A *= weight[rows, None]
        return X[rows].T @ (A.sum(axis=1)[:, None] * X[rows] - A @ X)

    reach = np.concatenate(list(_over_tiles(reached, len(X))))
    reach = np.maximum(np.sqrt(reach), _SMALLEST_DISTANCE)
    G = reduce(np.add, _over_tiles(scatter, len(X)))
    return (G + G.T) / 2


def _over_tiles(work: Callable[[slice], Matrix], n: int) -> Iterator[Matrix]:
    """Yield what work returns for the rows of each tile."""
    for part in Threads().map(work, n, max(1, _TILE_ELEMENTS // n)):
        check_time()
        yield part
