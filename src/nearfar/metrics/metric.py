"""`Metric`: the result of a fit, and all that is needed to measure distances with it.

    d(x, y)^2 = |L x - L y|^2 = (x - y)' M (x - y),     M = L'L

Internally distances are squared; public methods return square roots. A feature map may come before
L; then x and y stand for their kernel features. With `unit_rows`, points are first divided by their
length: Euclidean distance is then cosine distance, |x/|x| - y/|y||^2 = 2 (1 - cos(x, y)).

`GatedMetric` is a `Metric` with several linear parts, and `WideMetric` one that stores less than L.
Code that uses a metric does not ask which kind it has: `parts` lists the metrics with one map each,
and `assign` and `spaces` tell which of them applies to a point.

A metric as a function of two points, for libraries that call one for each pair.

`Votes`: binary weak models, which order triplets but are not a distance.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag
from scipy.spatial.distance import cdist

from nearfar.columns import Columns
from nearfar.deploy.linear_map import LinearMap
from nearfar.metrics.feature_maps import FeatureMap, LeafMap, SideBySide, side_by_side
from nearfar.metrics.points import check_points, check_rows, unit_length
from nearfar.numerics.edges import squared_distances
from nearfar.numerics.linear_algebra import by_spread, determined, product
from nearfar.runtime.atomic_write import atomic_write
from nearfar.typing import Floats, Ints, Matrix, Vector

if TYPE_CHECKING:
    from nearfar.deploy.formats.sql import SqlMap

HUB_FILE = "metric.safetensors"
"""Name of a metric's file in a folder for a hub of models."""
MAX_FILE_BYTES = 4 << 30
"""Size of the largest file that `Metric.load` reads by default."""


@dataclass(frozen=True, eq=False, repr=False)
class Metric:
    """A Mahalanobis metric: Euclidean distance after the linear map L.

    Parameters
    ----------
    L : array-like of shape (n_components, n_features)
        The map; M = L'L.
    feature_names : sequence of str, optional
        Names of the features, in order.
    votes : Votes, optional
        Binary weak models, which order triplets in place of the distance.
    feature_map : FeatureMap, optional
        What is applied before L: a `KernelMap`, a `LeafMap`, or several maps `SideBySide`.
    unit_rows : bool, default=False
        Whether points are divided by their length before everything else.
    columns : Columns, optional
        What the columns of a table become before everything else. Methods then take the table
        itself: a pandas or polars DataFrame. Arrays have the features that `columns` gives.

    Examples
    --------
    >>> from nearfar import Metric
    >>> metric = Metric([[1.0, 0.0], [0.0, 10.0]])
    >>> metric.distances([[0, 0]], [[3, 0], [0, 1]])
    array([[ 3., 10.]])
    >>> metric.matrix
    array([[  1.,   0.],
           [  0., 100.]])
    """

    L: Matrix
    feature_names: tuple[str, ...] | None = None
    votes: Votes | None = None
    feature_map: FeatureMap | None = None
    unit_rows: bool = False
    columns: Columns | None = None

    def __init__(
        self,
        L: ArrayLike,
        feature_names: Sequence[str] | None = None,
        votes: Votes | None = None,
        feature_map: FeatureMap | None = None,
        unit_rows: bool = False,
        columns: Columns | None = None,
    ) -> None:
        factor = np.array(L, dtype=np.float64, order="C")
        if factor.ndim != 2 or 0 in factor.shape:
            raise ValueError(
                f"A metric's L must have shape (n_components, n_features); got {factor.shape}."
            )
        if not np.isfinite(factor).all():
            raise ValueError("A metric's L must be finite.")
        n_features = factor.shape[1]
        if feature_map is not None:
            if feature_map.n_components != n_features:
                raise ValueError(
                    f"The feature map gives {feature_map.n_components} features, but L expects "
                    f"{n_features}."
                )
            n_features = feature_map.n_features
        if feature_names is None and columns is not None:
            feature_names = columns.feature_names
        names = None if feature_names is None else tuple(str(name) for name in feature_names)
        if columns is not None and columns.feature_names != names:
            raise ValueError("A metric's columns must give the features of the metric.")
        if names is not None and len(names) != n_features:
            raise ValueError(f"Got {len(names)} feature names for {n_features} features.")
        if votes is not None and votes.directions.shape[1] != factor.shape[1]:
            raise ValueError("A metric's votes must be for the features of its map.")
        factor.setflags(write=False)
        vars(self).update(
            L=factor,
            feature_names=names,
            votes=votes,
            feature_map=feature_map,
            unit_rows=bool(unit_rows),
            # Refitted, the columns of the caller would give other features.
            columns=columns and Columns.of(columns.kinds_, columns.left_out_, columns.impute),
        )

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @classmethod
    def identity(cls, n_features: int) -> Metric:
        """Return the Euclidean metric."""
        return cls(np.eye(n_features))

    @classmethod
    def from_matrix(cls, M: ArrayLike, feature_names: Sequence[str] | None = None) -> Metric:
        """Factor a symmetric positive semidefinite matrix; zero eigenvalues are dropped.

        The rows of L are eigenvectors, the longest first, with a positive largest entry. Those of
        equal eigenvalues are the ones that `nearfar.numerics.linear_algebra.determined` chooses.

        Examples
        --------
        >>> from nearfar import Metric
        >>> Metric.from_matrix([[4.0, 0.0], [0.0, 0.0]]).n_components
        1
        """
        matrix = np.array(M, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
            raise ValueError("A metric's matrix must be square and finite.")
        size = float(np.abs(matrix).max(initial=0.0)) or 1.0
        matrix /= size
        if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-8):
            raise ValueError("A metric's matrix must be symmetric.")
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        if values[0] < -1e-8:
            raise ValueError(
                f"A metric's matrix must have no negative eigenvalue; got {size * values[0]:g}."
            )
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        if not kept.any():
            return cls(np.zeros((1, len(values))), feature_names)
        values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
        L = determined(values, np.sqrt(size * values)[:, None] * vectors.T)
        return cls(L, feature_names)

    @classmethod
    def sum(cls, metrics: Sequence[Metric]) -> Metric:
        """Return the metric whose squared distances are the sums of those of others.

        They are for the same features, and none has a gate or votes.

        Examples
        --------
        >>> from nearfar import Metric
        >>> Metric.sum([Metric([[3.0]]), Metric([[4.0]])]).distances([[0.0]], [[1.0]])
        array([[5.]])
        """
        first = metrics[0]
        if any(len(each.parts) > 1 or each.unit_rows != first.unit_rows for each in metrics):
            raise ValueError("Metrics with a gate, or some of unit rows, cannot be added up.")
        if all(each.is_linear for each in metrics):
            L = np.vstack([each.L for each in metrics])
            return cls(L, first.feature_names, None, None, first.unit_rows, first.columns)
        maps = [part for each in metrics for part in side_by_side(each.feature_map)]
        both = SideBySide(maps, first.n_features)
        L = block_diag(*(each.L for each in metrics))
        return cls(L, first.feature_names, None, both, first.unit_rows, first.columns)

    def named(self, feature_names: Sequence[str] | None) -> Metric:
        """Return the same metric of features with other names, without `columns`."""
        names = None if feature_names is None else tuple(feature_names)
        return self._with(feature_names=names, columns=None)

    def with_columns(self, columns: Columns | None) -> Metric:
        """Return the same metric, for tables whose columns become its features.

        Examples
        --------
        >>> import pandas as pd
        >>> from nearfar import Metric
        >>> from nearfar.columns import Columns
        >>> table = pd.DataFrame({"age": [20, 30], "paid": [True, False]})
        >>> metric = Metric([[0.1, 0.0], [0.0, 1.0]]).with_columns(Columns().fit(table))
        >>> metric.transform(table)
        array([[2., 1.],
               [3., 0.]])
        """
        names = None if columns is None else columns.feature_names
        return self._with(feature_names=names, columns=columns)

    def narrowed(self, X: ArrayLike, n_components: int) -> Metric:
        """Return the metric with fewer coordinates: the principal axes of the mapped points.

        `nearfar.measures.neighbor_recall` tells how many neighbours stay the same.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points that tell which axes matter; those that the metric was learned from, say.
        n_components : int

        Examples
        --------
        >>> from nearfar import Metric
        >>> metric = Metric([[1.0, 0.0], [0.0, 5.0]])
        >>> metric.narrowed([[0, 0], [0, 1], [1, 0], [1, 1]], 1).L
        array([[0., 5.]])
        """
        if not 1 <= n_components <= self.n_components:
            raise ValueError(f"n_components must be from 1 to {self.n_components}.")
        leaves, k = self.feature_map, n_components
        if (
            isinstance(leaves, LeafMap)
            and not (self.L - self.L[0, 0] * np.eye(*self.L.shape)).any()
        ):
            # Vectors are of unit length after the cut, too, which keeps more neighbours.
            leaves = replace(leaves, projection=leaves.projection[:, :k])
            return self._with(L=self.L[:k, :k], votes=None, feature_map=leaves)
        covariance = np.atleast_2d(np.cov(self.inputs(X), rowvar=False, dtype=np.float64))
        L = by_spread(self.L, covariance)[1][:k]
        names, columns = self.feature_names, self.columns
        return Metric(L, names, None, self.feature_map, self.unit_rows, columns)

    def with_votes(self, votes: Votes | None) -> Metric:
        """Return the same metric with votes."""
        return self._with(votes=votes)

    def _with(self, **changes: Any) -> Metric:
        """Return the same metric with other parameters."""
        return replace(self, **changes)

    @property
    def matrix(self) -> Matrix:
        """M = L'L, of shape (n_features, n_features); with a feature map, for its features."""
        return self.L.T @ self.L

    @property
    def is_zero(self) -> bool:
        """Whether all distances are zero."""
        return not self.L.any()

    @property
    def parts(self) -> tuple[Metric, ...]:
        """The metrics with one L each: this metric itself, or those of a gated metric."""
        return (self,)

    @property
    def is_linear(self) -> bool:
        """Whether the metric is one linear map of the features (or of unit rows of them)."""
        return self.feature_map is None

    @property
    def linear_map(self) -> LinearMap:
        """The map as other programs need it; it is applied to features, after `columns`.

        A gated metric and a metric with a kernel have none.
        """
        if not self.is_linear:
            what = "several maps" if self.feature_map is None else "a kernel or trees"
            raise ValueError(
                f"A metric with {what} cannot be exported like this, because it is not one linear "
                'map; use transform or kneighbors, or learn one with AutoMetric(form="linear").'
            )
        return LinearMap(self.L, np.zeros(self.n_components), self.unit_rows, self.feature_names)

    def _exported(self, *kinds: str) -> LinearMap:
        """Return the map after maps of these kinds, or `linear_map` if it has none or others."""
        maps = side_by_side(self.feature_map)
        if self.feature_map is None or any(m is not None and m.kind not in kinds for m in maps):
            return self.linear_map
        b = np.zeros(self.n_components)
        return LinearMap(self.L, b, self.unit_rows, self.feature_names, maps)

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return self.L.shape[1] if self.feature_map is None else self.feature_map.n_features

    @property
    def n_components(self) -> int:
        """Number of coordinates after the map."""
        return self.L.shape[0]

    def __repr__(self) -> str:
        kernel = ""
        if self.feature_map is not None:
            kernel = f" -> {self.feature_map.n_components} ({self.feature_map.kind})"
        unit = " of unit length" if self.unit_rows else ""
        return f"<Metric: {self.n_features} features{unit}{kernel} -> {self.n_components}>"

    def _repr_html_(self) -> str:
        from nearfar.metrics.explanations import metric_html

        return metric_html(self)

    def transform(self, X: ArrayLike) -> Floats:
        """Map points to the space where Euclidean distance is the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or DataFrame
            Columns of a DataFrame are found by name, if the metric has feature names. If it has
            `columns`, they may be categories, dates and so on, with missing values.

        Returns
        -------
        array of shape (n_samples, n_components)
            ``X @ L.T``, after the feature map if there is one; float32 if X is.
        """
        return self.mapped(self.inputs(X))

    def mapped(self, points: Floats) -> Floats:
        """Apply the linear map to rows of its input, without checks."""
        return product(points, self.L.T.astype(points.dtype, copy=False))

    def rows_of(self, X: ArrayLike) -> Floats:
        """Return checked points, of unit length if `unit_rows`."""
        points = self.features_of(X)
        return unit_length(points) if self.unit_rows else points

    def inputs(self, X: ArrayLike) -> Floats:
        """Return the input of the linear map: the features of the map in front of it, if any."""
        rows = self.rows_of(X)
        return rows if self.feature_map is None else self.feature_map.transform(rows)

    def distances(self, X: ArrayLike, Y: ArrayLike | None = None) -> Matrix:
        """Return all distances between the rows of X and those of Y (default: X).

        They are computed from differences, not from the Gram matrix, so that equal points have
        distance 0. To find nearest neighbours among many points, use
        `nearfar.neighbors.kneighbors`, which does not form this table.
        """
        left = self.transform(X)
        right = left if Y is None else self.transform(Y)
        return cdist(left, right)

    def get_metric(self) -> Callable[..., float]:
        """Return the distance as a function of two points, for libraries that ask for one.

        It is called once for each pair of points. `transform` and Euclidean distance are much
        faster where they can be used.

        Returns
        -------
        callable
            (u, v, squared=False) -> distance, or its square.

        Examples
        --------
        >>> from nearfar import Metric
        >>> distance = Metric([[1.0, 0.0], [0.0, 10.0]]).get_metric()
        >>> distance([0, 0], [0, 1]), distance([0, 0], [0, 1], squared=True)
        (10.0, 100.0)
        """
        return DistanceFunction(self)

    def pair_distances(self, X: ArrayLike, index: object) -> Vector:
        """Return the distances of pairs of rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        index : Pairs, or array-like of int of shape (n_pairs, 2)
            Row numbers. A gated metric uses the part of the first row of each pair.
        """
        points = self.features_of(X)
        i, j = check_rows(index, 2, len(points))
        return np.sqrt(self._squared_distances(points, i, j))

    def prefers(self, X: ArrayLike, triplets: object) -> Vector:
        """Return which triplets the metric orders correctly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        triplets : Triplets, or array-like of int of shape (n_triplets, 3)
            Row numbers (anchor, near, far).

        Returns
        -------
        array of shape (n_triplets,)
            1 where near is nearer than far, 0 where far is nearer, 1/2 for ties. If the metric has
            `votes`, they decide, and the distance breaks their ties.
        """
        points = self.features_of(X)
        a, near, far = check_rows(triplets, 3, len(points))
        both = self._squared_distances(points, np.concatenate([a, a]), np.concatenate([far, near]))
        votes = None
        if self.votes is not None:
            votes = self.votes.margin(self.rows_of(points), a, near, far)
        return triplet_scores(both[: len(a)] - both[len(a) :], votes)

    def assign(self, X: ArrayLike) -> Ints:
        """Return which of the `parts` applies to each point: all zeros unless there is a gate."""
        return np.zeros(len(self.features_of(X)), dtype=np.intp)

    def spaces(self, queries: ArrayLike) -> Iterator[tuple[Ints, Metric]]:
        """Yield row numbers of queries, and the part of the metric that applies to them."""
        yield np.arange(len(self.features_of(queries))), self

    def save(
        self, path: str | os.PathLike[str], *, metadata: Mapping[str, str] | None = None
    ) -> None:
        """Write the metric to a safetensors file; `nearfar.metrics.file_format` describes it.

        An existing file is replaced only once the new one is complete.

        Parameters
        ----------
        path : path-like
        metadata : mapping of str to str, optional
            Text to store with the metric [default: `metadata`].
        """
        from nearfar.metrics.file_format import write_metric

        write_metric(path, self, self.metadata if metadata is None else metadata)

    @property
    def metadata(self) -> Mapping[str, str]:
        """Text in the file that the metric was loaded from; empty if it was not.

        `nearfar learn` and `Learned.save` store there what the metric was learned from.
        """
        found: Mapping[str, str] = vars(self).get("_metadata", {})
        return found

    def to_hub(self, folder: str | os.PathLike[str], *, license: str = "") -> None:
        """Write a folder for the Hugging Face hub: metric.safetensors, and a card as README.md.

        The card has the facts of the file that the metric was loaded from: what it was learned
        from, figures, input and limits.

        Parameters
        ----------
        folder : path-like
            Its name is the title of the card. It is made if there is none.
        license : str, default=""
            As the hub writes it, such as "cc-by-4.0"; left out if empty.
        """
        from nearfar.metrics.training_facts import model_card

        path = Path(folder)
        card = model_card(self, path.resolve().name, license)
        path.mkdir(parents=True, exist_ok=True)
        self.save(path / HUB_FILE)
        with atomic_write(path / "README.md") as temporary:
            temporary.write_text(card, "utf-8")

    @staticmethod
    def load(path: str | os.PathLike[str], *, max_bytes: int = MAX_FILE_BYTES) -> Metric:
        """Read a metric of any kind from a file; its distances are the same to the last bit.

        Parameters
        ----------
        path : path-like
        max_bytes : int, default=4 * 1024**3
            Larger files are refused unread. This bounds the memory that an untrusted file can take.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from nearfar import Metric
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "metric.safetensors"
        ...     Metric([[1.0, 2.0]]).save(path)
        ...     Metric.load(path).L
        array([[1., 2.]])
        """
        from nearfar.metrics.file_format import read_metric

        return read_metric(path, max_bytes=max_bytes)

    def to_faiss(self, X: ArrayLike | None = None, index: str = "flat") -> Any:
        """Return a faiss index that maps rows itself: add and search unmapped rows.

        Its distances are squared, as faiss's are. If the metric has trees, pieces or a kernel, the
        index maps rows in Python. Once it is written to a file, it takes mapped rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), optional
            Rows to put into the index. They also centre the map and train the index.
        index : {"flat", "hnsw", "ivf"} or str, default="flat"
            Exact search, a graph, or lists; or a string for `faiss.index_factory`.
        """
        from nearfar.deploy.formats.faiss import faiss_index, mapping_index

        if self.feature_map is not None:
            return mapping_index(self.transform, self.n_components, X, index)
        return faiss_index(self.linear_map, None if X is None else self.features_of(X), index)

    def to_onnx(self, path: str | os.PathLike[str], *, dtype: str = "float32") -> None:
        """Write `transform` as an ONNX model, from the input "X" to the output "mapped".

        Parameters
        ----------
        path : path-like
        dtype : {"float32", "float64"}, default="float32"
            Type of the input, the output and the arithmetic.
        """
        from nearfar.deploy.formats.onnx import write_onnx

        write_onnx(self._exported("leaves", "pieces"), path, dtype)

    def to_sql(
        self, column: str | Sequence[str] | None = None, *, dialect: str = "duckdb"
    ) -> SqlMap:
        """Return the metric in SQL: mapped vectors, distances, and a column of mapped vectors.

        Parameters
        ----------
        column : str or sequence of str, optional
            A column of vectors, or a column of numbers for each feature (default: those with the
            names of the features).
        dialect : {"duckdb", "pgvector"}, default="duckdb"
        """
        if column is None and self.columns is not None:
            raise ValueError(
                "The metric's features are computed from columns of a table, which SQL does not "
                "do; store the features as vectors and name their column."
            )
        from nearfar.deploy.formats.sql import sql_map

        return sql_map(self._exported("pieces"), column, dialect)

    def to_numpy(self, path: str | os.PathLike[str]) -> None:
        """Write the map for programs without nearfar.

        Parameters
        ----------
        path : path-like
            A .py file becomes a module with a function `transform`, which needs only NumPy. A .npz
            file gets the arrays L, b and unit_rows, feature_names if there are any, and the arrays
            of trees and pieces.
        """
        from nearfar.deploy.formats.numpy_module import write_numpy

        write_numpy(self._exported("leaves", "pieces"), path)

    def features_of(self, X: ArrayLike) -> Floats:
        """Return points as an array of features: those of a DataFrame by name, or of `columns`."""
        return check_points(X, self.n_features, self.feature_names, self.columns)

    def _squared_distances(self, points: Floats, i: Ints, j: Ints) -> Vector:
        return squared_distances(self.transform(points), i, j)


@dataclass(frozen=True, eq=False)
class DistanceFunction:
    """The distance of two points; arrays of numbers go through a short path if it is linear."""

    metric: Metric = field(repr=False)

    def __call__(self, u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
        """Return the distance, or its square."""
        metric = self.metric
        numbers = all(
            type(x) is np.ndarray and x.shape == (metric.n_features,) and x.dtype.kind in "fiu"
            for x in (u, v)
        )
        if numbers and type(metric) is Metric and metric.is_linear:
            points: Floats = np.array([u, v], dtype=np.float64)
            if metric.unit_rows:
                points = unit_length(points)
            mapped = metric.L @ (points[0] - points[1])
            value = float(mapped @ mapped)
            return value if squared else math.sqrt(value)
        pair = np.stack([np.atleast_1d(np.squeeze(x)) for x in (u, v)])
        value = float(metric.pair_distances(pair, [(0, 1)])[0])
        return value * value if squared else value


# Votes that differ by less than this share of all votes are tied.
_TIE = 1e-12


@dataclass(frozen=True, eq=False)
class Votes:
    """Binary weak models: H(x, y) = sum_t alphas_t [(directions_t' (x - y))^2 >= thresholds_t].

    Many pairs have equal votes, and votes do not satisfy the triangle inequality.

    Parameters
    ----------
    alphas: shape (n_votes,). Weight of each vote.
    """

    directions: Matrix
    alphas: Vector
    thresholds: Vector

    def __post_init__(self) -> None:
        n_votes = len(self.alphas)
        shapes = (self.directions.ndim, len(self.directions), *self.alphas.shape)
        if shapes != (2, n_votes, n_votes) or self.thresholds.shape != (n_votes,):
            raise ValueError("Each vote needs one direction, one weight and one threshold.")
        for array in (self.directions, self.alphas, self.thresholds):
            if not np.isfinite(array).all():
                raise ValueError("Votes must be finite.")
            array.setflags(write=False)

    @classmethod
    def none(cls, n_features: int) -> Votes:
        """Return no votes."""
        return cls(np.empty((0, n_features)), np.empty(0), np.empty(0))

    def mapped(self, rows_of_map: Callable[[Matrix], Matrix]) -> Votes:
        """Return the same votes for the features that a function of rows of maps leads to."""
        return Votes(rows_of_map(self.directions), self.alphas, self.thresholds)

    def count(self, X: Floats, i: Ints, j: Ints) -> Vector:
        """Return H of the row pairs (i, j) of X."""
        total = np.zeros(len(i))
        for v, alpha, threshold in zip(self.directions, self.alphas, self.thresholds, strict=True):
            p = X @ v
            total += alpha * ((p[i] - p[j]) ** 2 >= threshold)
        return total

    def margin(self, X: Floats, a: Ints, near: Ints, far: Ints) -> Vector:
        """Return H(a, far) - H(a, near) for rows of X; exactly 0 for ties."""
        margin = self.count(X, a, far) - self.count(X, a, near)
        return np.where(np.abs(margin) > _TIE * np.abs(self.alphas).sum(), margin, 0.0)


def triplet_scores(margins: Vector, votes: Vector | None = None) -> Vector:
    """Return 1 for positive margins, 0 for negative ones and 1/2 for ties.

    Parameters
    ----------
    margins: shape (n_triplets,). Squared distance to far minus squared distance to near.
    votes: shape (n_triplets,). Margins of votes. They decide; `margins` break their ties.
    """
    if np.isnan(margins).any():
        raise ValueError("Distances are not finite: values are missing, infinite or too large.")
    decisive = margins if votes is None else np.where(votes != 0, votes, margins)
    return np.where(decisive > 0, 1.0, np.where(decisive < 0, 0.0, 0.5))
