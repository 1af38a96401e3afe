"""Feature importances and leading directions of a linear metric.

The mean squared distance between two random points is twice

    E |L x - L E x|^2 = tr(M C) = sum_j (M C)_jj,     C the covariance of the features

The contribution of feature j is (M C)_jj: its own term M_jj C_jj, and half of each cross term
2 M_ij C_ij with another feature. This is its Shapley value in the sum. Contributions do not depend
on the units of the features, and they add up exactly. M_jj C_jj alone does not add up: it
overrates pairs of features that enter as a difference, even if the two are nearly equal in all
points. Contributions may be negative: then the feature mostly cancels the differences in others.

Without points, the spreads of the features (their standard deviations) are used: features count as
uncorrelated, and units still do not matter.

If the metric bends, the same holds for the features of its maps, with C their covariance. Ramps are
then added up for each column. What leaves contribute is divided among the columns like the gains of
the splits in the trees.

Why two points are near or far: the parts of their distance, and the leaves that they share.

With phi the features of all maps and v = phi(x) - phi(y),

    d(x, y)^2 = v'Mv = sum_j v_j (Mv)_j

so each feature has a term, and a part of the metric has the sum of those of its features. Terms of
ramps are added up for each column. Those of leaves are not terms of columns. Instead, the trees in
which both points are in the same leaf tell what they have in common: each condition on the way to
that leaf holds for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from nearfar.metrics.feature_maps import KernelMap, LeafMap, PieceMap, side_by_side
from nearfar.metrics.metric import Metric
from nearfar.runtime.messages import bars, fragment, plain
from nearfar.typing import Array, Matrix, Vector

# Shares whose absolute values sum to more than this are shown relative to that sum.
_LARGEST_SUM = 2.0


@dataclass(frozen=True)
class Direction:
    """A principal axis of the points after the metric's map.

    Attributes
    ----------
    share: Share of the mean squared distance.
    features: Features or columns with the largest loadings in absolute value, largest
        first.
    loadings: Their loadings. The loadings of all of them have norm 1, and the largest is
        positive.
    """

    share: float
    features: tuple[str, ...]
    loadings: tuple[float, ...]

    def __str__(self) -> str:
        terms = zip(self.loadings, self.features, strict=True)
        return f"{100 * self.share:.0f} %: " + ", ".join(
            f"{value:+.2f} {name}" for value, name in terms
        )


def feature_spreads(metric: Metric, X: ArrayLike) -> Vector:
    """Return the standard deviation of each feature, as a metric takes them.

    Parameters
    ----------
    metric: If it is for unit rows, rows are first divided by their length.
    """
    points = np.asarray(metric.parts[0].rows_of(X), dtype=np.float64)
    return np.asarray(points.std(axis=0))


def feature_importances(
    metric: Metric, X: ArrayLike | None = None, *, spreads: ArrayLike | None = None
) -> Vector:
    """Return the share of the mean squared distance that each feature contributes.

    It is (M C)_jj / tr(M C), with C the covariance of X. The module's docstring explains what it
    means, and why it may be negative.

    Parameters
    ----------
    metric : Metric
        A metric without kernel or gate.
    X : array-like of shape (n_samples, n_features), optional
        Points. Without them and without spreads C is the identity, and the shares are those of
        diag(M); these make sense if the features have the same unit and spread. A metric with
        trees or pieces needs points.
    spreads : array-like of shape (n_features,), optional
        Standard deviations of the features, instead of points: C is then diagonal.

    Returns
    -------
    array of shape (n_features,)
        Shares that sum to one.

    Examples
    --------
    >>> from nearfar import Metric
    >>> from nearfar.metrics.explanations import feature_importances
    >>> X = [[0, 0, 9], [0, 3, 5], [4, 0, 2], [4, 3, 1]]
    >>> feature_importances(Metric([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]), X)
    array([0.30769231, 0.69230769, 0.        ])
    >>> feature_importances(Metric.identity(2), spreads=[3.0, 1.0])
    array([0.9, 0.1])
    """
    _check_one_map(metric)
    if metric.feature_map is not None and X is None:
        raise ValueError("Shares of a metric with trees or pieces need points.")
    Z = _centered(metric, X)
    if Z is None:
        L = metric.L * _checked_spreads(metric, X, spreads)
        contributions = np.einsum("kj,kj->j", L, L)
    else:
        P = Z @ metric.L.T
        inputs = np.einsum("kj,kj->j", metric.L, P.T @ Z / len(Z))
        contributions = _by_feature(metric, inputs)
    return contributions / _total(contributions)


def column_shares(shares: ArrayLike, columns: Sequence[str]) -> tuple[tuple[str, ...], Vector]:
    """Add up the shares of the features that are from the same column.

    Parameters
    ----------
    columns: The column of each feature, such as `nearfar.columns.Columns.sources`.

    Returns
    -------
    names : tuple of str
        The columns, in order.
    shares : array of shape (n_columns,)
    """
    values = np.asarray(shares, dtype=np.float64)
    if len(columns) != len(values):
        raise ValueError(f"{len(values)} features need one column each; got {len(columns)}.")
    names = tuple(dict.fromkeys(columns))
    number = {name: place for place, name in enumerate(names)}
    sums = np.bincount([number[name] for name in columns], values)
    return names, np.asarray(sums, dtype=np.float64)


def several_features(metric: Metric) -> tuple[str, ...] | None:
    """Return the column of each feature, if some column has several and is not the only one."""
    columns = metric.columns
    if columns is None or not 1 < len(columns.names) < len(columns.sources):
        return None
    return columns.sources


def comparable_shares(shares: ArrayLike) -> tuple[Vector, bool]:
    """Return shares to show, and whether they are parts of the sum of absolute shares.

    They are if that sum is more than two: features then mostly cancel each other, and shares are
    far above one and far below zero.
    """
    values = np.asarray(shares, dtype=np.float64)
    size = float(np.abs(values).sum())
    return (values / size, True) if size > _LARGEST_SUM else (values, False)


def leading_directions(
    metric: Metric,
    X: ArrayLike | None = None,
    k: int = 3,
    *,
    n_features: int = 5,
    spreads: ArrayLike | None = None,
    columns: Sequence[str] | None = None,
) -> list[Direction]:
    """Return the principal axes of the mapped points, with the features that load on them.

    Parameters
    ----------
    metric: A linear metric, without kernel or gate.
    X: shape (n_samples, n_features). Points. Loadings are then per standard deviation of
        each feature, so that units do not matter. Without points the directions are the
        eigenvectors of M.
    k: Number of directions, at most the rank of the metric.
    n_features: Number of features to list for each direction.
    spreads: shape (n_features,). Standard deviations of the features, instead of points.
    columns: The column of each feature. The features of a column then have one loading: the
        standard deviation of what they add to the direction together. It has no sign, and
        it is small if they cancel each other.

    Returns
    -------
    list of Direction
        Largest share first.
    """
    _check_one_map(metric)
    if metric.feature_map is not None:
        raise ValueError("A metric with trees or pieces has no directions among its features.")
    if k < 1 or n_features < 1:
        raise ValueError(f"k and n_features must be at least 1; got {k} and {n_features}.")
    Z = _centered(metric, X)
    L = metric.L
    given = _checked_spreads(metric, X, spreads)
    spread = given if Z is None else Z.std(axis=0)
    P = L * given if Z is None else (Z @ L.T).T / np.sqrt(len(Z))
    values, vectors = np.linalg.eigh(P @ P.T)
    shares = values[::-1] / _total(values)
    names = feature_names(metric)
    if columns is not None:
        if len(columns) != metric.n_features:
            raise ValueError(
                f"{metric.n_features} features need one column each; got {len(columns)}."
            )
        features_of: dict[str, list[int]] = {}
        for place, name in enumerate(columns):
            features_of.setdefault(name, []).append(place)
        names = tuple(features_of)
    directions = []
    for share, u in zip(shares[:k], vectors.T[::-1], strict=False):
        if share <= len(values) * np.finfo(float).eps:
            break
        loadings = (u @ L) * spread
        if columns is not None:
            weights = u @ L
            # A column of several features has their standard deviation along the direction.
            loadings = np.array(
                [
                    loadings[places[0]]
                    if len(places) == 1
                    else np.linalg.norm(loadings[places])
                    if Z is None
                    else (Z[:, places] @ weights[places]).std()
                    for places in features_of.values()
                ]
            )
        loadings /= np.linalg.norm(loadings)
        largest = np.argsort(-np.abs(loadings), kind="stable")[:n_features]
        # Adding zero turns -0.0 into 0.0.
        kept = loadings[largest] * np.sign(loadings[largest[0]]) + 0.0
        directions.append(Direction(float(share), tuple(names[j] for j in largest), tuple(kept)))
    return directions


def feature_names(metric: Metric) -> tuple[str, ...]:
    """Return the feature names of a metric; x0, x1 and so on if it has none."""
    return metric.feature_names or tuple(f"x{j}" for j in range(metric.n_features))


def has_importances(metric: Metric) -> bool:
    """Return whether a metric has one map, and no kernel."""
    maps = side_by_side(metric.feature_map)
    return len(metric.parts) == 1 and not any(isinstance(each, KernelMap) for each in maps)


def _check_one_map(metric: Metric) -> None:
    if not isinstance(metric, Metric):
        raise ValueError(f"Expected a Metric; got {type(metric).__name__}.")
    if metric.feature_map is not None and not has_importances(metric):
        raise ValueError("A metric with a kernel has no feature importances.")
    if len(metric.parts) > 1:
        raise ValueError("A gated metric has several maps; pass one of its `parts` instead.")


def _by_feature(metric: Metric, values: Vector) -> Vector:
    """Add up what the input of L contributes, for each feature of the points."""
    total, start = np.zeros(metric.n_features), 0
    block: Vector
    for each in side_by_side(metric.feature_map):
        width = metric.n_features if each is None else each.n_components
        block = values[start : start + width]
        if isinstance(each, LeafMap):
            block = block.sum() * each.importances
        elif isinstance(each, PieceMap):
            block = np.bincount(each.column, block, metric.n_features).astype(np.float64)
        total, start = total + block, start + width
    return total


def _centered(metric: Metric, X: ArrayLike | None) -> Matrix | None:
    """Return the input of L minus its mean, after checking the shape and column names of X."""
    if X is None:
        return None
    inputs = check_array(metric.inputs(X), dtype=np.float64, input_name="X")
    return np.asarray(inputs - inputs.mean(axis=0))


def _checked_spreads(metric: Metric, X: ArrayLike | None, spreads: ArrayLike | None) -> Vector:
    """Return the spreads, or ones if there are none."""
    if spreads is None:
        return np.ones(metric.n_features)
    found = np.asarray(spreads, dtype=np.float64)
    if X is not None:
        raise ValueError("Give points or spreads, not both.")
    if found.shape != (metric.n_features,) or not (np.isfinite(found) & (found >= 0)).all():
        raise ValueError(
            f"Spreads are {metric.n_features} finite numbers of 0 or more, one for each feature."
        )
    return found


def _total(contributions: Vector) -> float:
    total = float(contributions.sum())
    if not total > 0:
        raise ValueError("All distances are zero, so features have no shares of them.")
    return total


def metric_html(metric: Metric) -> str:
    """Return what a notebook shows of a metric: its size, and the features that matter."""
    title = repr(metric)
    if len(metric.parts) > 1 or not metric.is_linear or metric.is_zero:
        return fragment(title)
    shares = feature_importances(metric)
    names = feature_names(metric)
    order = np.argsort(-shares, kind="stable")
    text = "Share of each feature, if all features have the same spread:"
    return fragment(title, [text], bars({names[j]: float(shares[j]) for j in order}))


# Columns in a sentence.
_LISTED = 5


@dataclass(frozen=True)
class PairExplanation:
    """The parts of a distance.

    Attributes
    ----------
    parts: What each part of the metric adds to the squared distance: "linear", "pieces",
        "leaves", or the name of a kernel.
    columns: What each feature adds to it in linear maps and pieces, the largest first.
    n_trees, n_shared: Trees, and those in which both points are in the same leaf.
    rules: Conditions that hold for both points, those in most of the shared trees first. A
        bound is the median of these trees.
    """

    distance: float
    parts: dict[str, float]
    columns: dict[str, float]
    n_trees: int
    n_shared: int
    rules: tuple[str, ...]

    def __str__(self) -> str:
        square = self.distance**2 or 1.0
        parts, columns = (
            ", ".join(f"{name} {100 * value / square:.0f} %" for name, value in each)
            for each in (self.parts.items(), [*self.columns.items()][:_LISTED])
        )
        lines = [f"Distance {plain(self.distance)}; of its square: {parts}."]
        if columns:
            lines.append(f"Columns, as far as they can be told apart: {columns}.")
        if self.n_trees:
            end = ":" if self.rules else "."
            lines.append(f"In the same leaf in {self.n_shared} of {self.n_trees} trees{end}")
            lines += [f"  {rule}" for rule in self.rules]
        return "\n".join(lines)


def explain_pair(
    metric: Metric, x: ArrayLike, y: ArrayLike, *, n_rules: int = 5
) -> PairExplanation:
    """Tell what the distance between two points consists of, and what they have in common.

    Parameters
    ----------
    metric : Metric
        A gated metric uses the part of x.
    x, y : array-like of shape (n_features,), or DataFrame with one row
    n_rules : int, default=5

    Returns
    -------
    PairExplanation

    Examples
    --------
    >>> from nearfar import Metric
    >>> from nearfar.metrics.explanations import explain_pair
    >>> metric = Metric([[3.0, 0.0], [0.0, 1.0]], ["length", "width"])
    >>> print(explain_pair(metric, [0, 0], [1, 4]))
    Distance 5; of its square: linear 100 %.
    Columns, as far as they can be told apart: width 64 %, length 36 %.
    """
    both = (each if np.ndim(each) == 2 else np.atleast_2d(each) for each in (x, y))
    points = np.vstack([metric.features_of(each) for each in both])
    part = metric.parts[metric.assign(points)[0]]
    rows = np.asarray(part.rows_of(points), dtype=np.float64)
    features = rows if part.feature_map is None else part.feature_map.transform(rows)
    difference = features[0] - features[1]
    terms = difference * (part.L.T @ (part.L @ difference))
    parts: dict[str, float] = {}
    columns, start, forests = np.zeros(part.n_features), 0, []
    for each in side_by_side(part.feature_map):
        width = part.n_features if each is None else each.n_components
        block = terms[start : start + width]
        name = "linear" if each is None else each.kind
        parts[name] = parts.get(name, 0.0) + float(block.sum())
        if isinstance(each, LeafMap):
            forests.append(each)
        elif isinstance(each, PieceMap):
            columns += np.bincount(each.column, block, part.n_features)
        elif each is None:
            columns += block
        start += width
    names = feature_names(metric)
    order = np.argsort(-np.abs(columns), kind="stable")
    bounds = [ends for each in forests for ends in _shared_bounds(each, rows)]
    low, high = np.reshape(bounds, (-1, 2, part.n_features)).swapaxes(0, 1)
    bounded = (np.isfinite(low) | np.isfinite(high)).sum(axis=0)
    n_trees = sum(len(each.forest.roots) for each in forests)
    rules = [
        f"{_rule(names[j], low[:, j], high[:, j])} ({bounded[j]} of {n_trees} trees)"
        for j in np.argsort(-bounded, kind="stable")[:n_rules]
        if bounded[j]
    ]
    return PairExplanation(
        float(np.sqrt(max(0.0, terms.sum()))),
        parts,
        {names[j]: float(columns[j]) for j in order if columns[j]},
        n_trees,
        len(low),
        tuple(rules),
    )


def _shared_bounds(leaf_map: LeafMap, rows: Matrix) -> Iterator[Array]:
    """Yield the lower and upper bounds of the features in each leaf that two rows share."""
    forest, leaves = leaf_map.forest, leaf_map.leaves(rows)
    for tree in np.flatnonzero(leaves[0] == leaves[1]):
        node, leaf = forest.roots[tree], leaves[0, tree]
        ends = np.repeat([[-np.inf], [np.inf]], leaf_map.n_features, axis=1)
        while node != leaf:
            j = forest.feature[node]
            bound = forest.threshold[node] * leaf_map.scale[j] + leaf_map.center[j]
            # The left child of a node and all below it come before the right child.
            if leaf >= forest.right[node]:
                ends[0, j], node = max(ends[0, j], bound), forest.right[node]
            else:
                ends[1, j], node = min(ends[1, j], bound), node + 1
        yield ends


def _rule(name: str, low: Vector, high: Vector) -> str:
    below, above = (end[np.isfinite(end)] for end in (low, high))
    if not len(above):
        return f"{name} > {np.median(below):.4g}"
    left = f"{np.median(below):.4g} < " if len(below) else ""
    return f"{left}{name} <= {np.median(above):.4g}"
