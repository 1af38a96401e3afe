"""Exact search for nearest rows, as a function and as an estimator."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.columns.cells import is_frame
from nearfar.metrics.gallery import Gallery, Search
from nearfar.metrics.metric import Metric
from nearfar.numerics.missing import naming_remedies, refuse_masked
from nearfar.rows import as_rows
from nearfar.runtime.parameters import check_parameters, integer
from nearfar.typing import Floats, Ints


def kneighbors(
    metric: Metric,
    X: ArrayLike,
    queries: ArrayLike | None = None,
    *,
    rows: ArrayLike | None = None,
    n_neighbors: int = 5,
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Find the nearest rows of X to each query, exactly.

    Parameters
    ----------
    metric : Metric
    X : array-like of shape (n_samples, n_features), path, Dask array or Rows
        Rows to search. Rows that are not in memory are read in blocks, each of which is searched
        for all queries.
    queries : array-like of shape (n_queries, n_features), optional
        Points whose neighbours are wanted; by default, each row of X among the others. Under a
        gated metric each query is searched in the space of its own metric.
    rows : array-like of int, optional
        Row numbers of X that are queries among the others, instead of all.
    n_neighbors : int, default=5

    Returns
    -------
    distances : array of shape (n_queries, n_neighbors)
        Nearest first.
    indices : array of shape (n_queries, n_neighbors)
        Row numbers of X.

    Examples
    --------
    >>> from nearfar import Metric
    >>> from nearfar.neighbors import kneighbors
    >>> metric = Metric([[0.0, 1.0]])
    >>> kneighbors(metric, [[0, 0], [0, 5], [9, 1]], n_neighbors=1)[1].ravel()
    array([2, 2, 0])
    """
    blocks = as_rows(X)
    if blocks is None:
        return Gallery(metric, X).search(queries, rows=rows).nearest(n_neighbors)
    if queries is None or rows is not None:
        raise ValueError("Rows that are not in memory are searched for queries; pass queries.")
    check_parameters({"n_neighbors": integer(at_least=1)}, {"n_neighbors": n_neighbors})
    if n_neighbors > len(blocks):
        raise ValueError(f"n_neighbors={n_neighbors} is more than the {len(blocks)} rows of X.")
    held = blocks.executor.hold((metric, queries, n_neighbors))
    distances, found = blocks.reduce(
        _nearest_of_block,
        held,
        along=(np.arange(len(blocks)),),
        combine=partial(_nearer, n_neighbors=n_neighbors),
    )
    return distances, found


def _nearest_of_block(
    X: Floats, numbers: Ints, search: tuple[Metric, ArrayLike, int]
) -> tuple[Floats, Ints]:
    metric, queries, n_neighbors = search
    distances, found = Gallery(metric, X).search(queries).nearest(min(n_neighbors, len(X)))
    return distances, numbers[found]


def _nearer(
    left: tuple[Floats, Ints], right: tuple[Floats, Ints], n_neighbors: int
) -> tuple[Floats, Ints]:
    """Merge neighbours in two blocks: nearest first, then lower row number."""
    distances, numbers = (np.hstack(both) for both in zip(left, right, strict=True))
    order = np.lexsort((numbers, distances), axis=-1)[:, :n_neighbors]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(numbers, order, axis=1)


class MetricNeighbors(BaseEstimator):
    """Exact search under a metric, with the methods of scikit-learn's `NearestNeighbors`.

    Memory is bounded: distances are computed for a few queries at a time.

    Parameters
    ----------
    metric : Metric, optional
        By default Euclidean distance.
    n_neighbors : int, default=5
    radius : float, default=1.0

    Attributes
    ----------
    gallery_ : Gallery
        The rows, ready to be searched.
    n_features_in_ : int
    n_samples_fit_ : int

    Examples
    --------
    >>> from nearfar import Metric
    >>> from nearfar.neighbors import MetricNeighbors
    >>> search = MetricNeighbors(Metric([[0.0, 1.0]]), n_neighbors=1)
    >>> search.fit([[0, 0], [0, 5], [9, 1]]).kneighbors([[7, 4]])
    (array([[1.]]), array([[1]]))
    >>> search.kneighbors_graph().toarray()
    array([[0., 0., 1.],
           [0., 0., 1.],
           [1., 0., 0.]])
    """

    def __init__(
        self, metric: Metric | None = None, n_neighbors: int = 5, radius: float = 1.0
    ) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.radius = radius

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Keep the rows to search; y is ignored.

        Columns of a DataFrame are found by name, if the metric has feature names.
        """
        points = self._points(X, reset=True)
        metric = Metric.identity(points.shape[1]) if self.metric is None else self.metric
        self.gallery_ = Gallery(metric, metric.features_of(points))
        self.n_samples_fit_ = len(points)
        return self

    def kneighbors(
        self,
        X: ArrayLike | None = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> Any:
        """Find the nearest rows to each query, or to each row among the others if X is None.

        Returns
        -------
        distances : array of shape (n_queries, n_neighbors)
            Only if `return_distance`. Nearest first.
        indices : array of shape (n_queries, n_neighbors)
        """
        number = self.n_neighbors if n_neighbors is None else n_neighbors
        distances, indices = self._search(X).nearest(number)
        return (distances, indices) if return_distance else indices

    def kneighbors_graph(
        self,
        X: ArrayLike | None = None,
        n_neighbors: int | None = None,
        mode: Literal["connectivity", "distance"] = "connectivity",
    ) -> csr_matrix:
        """Return the nearest rows as a sparse matrix, with ones or distances."""
        if mode not in ("connectivity", "distance"):
            raise ValueError(f'mode must be "connectivity" or "distance"; got {mode!r}.')
        distances, indices = self.kneighbors(X, n_neighbors)
        values = np.ones(indices.size) if mode == "connectivity" else distances.ravel()
        starts = np.arange(len(indices) + 1) * indices.shape[1]
        shape = (len(indices), self.n_samples_fit_)
        return csr_matrix((values, indices.ravel(), starts), shape=shape)

    def radius_neighbors(
        self,
        X: ArrayLike | None = None,
        radius: float | None = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:
        """Find the rows within a distance of each query, or of each row if X is None.

        Returns
        -------
        distances : array of shape (n_queries,) of arrays
            Only if `return_distance`.
        indices : array of shape (n_queries,) of arrays
            By distance if `sort_results`, else by row number.
        """
        limit = self.radius if radius is None else radius
        search = self._search(X)
        distances = np.empty(search.n_queries, dtype=object)
        indices = np.empty(search.n_queries, dtype=object)
        for numbers, table in search.tables():
            roots = np.sqrt(table)
            for number, row in zip(numbers, roots, strict=True):
                near = np.flatnonzero(row <= limit)
                if sort_results:
                    near = near[np.argsort(row[near], kind="stable")]
                distances[number], indices[number] = row[near], near
        return (distances, indices) if return_distance else indices

    def _search(self, X: ArrayLike | None) -> Search:
        check_is_fitted(self)
        if X is None:
            return self.gallery_.search()
        return self.gallery_.search(self._points(X, reset=False))

    def _points(self, X: ArrayLike, *, reset: bool) -> Floats:
        """Check rows; the metric finds its features in a table."""
        if self.metric is not None and self.metric.feature_names is not None and is_frame(X):
            X = self.metric.features_of(X)
        refuse_masked(X, "X")
        with naming_remedies():
            return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
