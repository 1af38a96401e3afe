"""Why two points are near or far: the parts of their distance, and the leaves that they share.

With phi the features of all maps and v = phi(x) - phi(y),

    d(x, y)^2 = v'Mv = sum_j v_j (Mv)_j

so each feature has a term, and a part of the metric has the sum of those of its features. Terms of
ramps are added up for each column. Those of leaves are not terms of columns. Instead, the trees in
which both points are in the same leaf tell what they have in common: each condition on the way to
that leaf holds for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nearfar.metrics.feature_maps import side_by_side
from nearfar.metrics.importance import feature_names
from nearfar.metrics.leaf_map import LeafMap
from nearfar.metrics.metric import Metric
from nearfar.metrics.piece_map import PieceMap
from nearfar.runtime.quoting import plain
from nearfar.typing import Array, Matrix, Vector

# Columns in a sentence.
_LISTED = 5


@dataclass(frozen=True)
class PairExplanation:
    """The parts of a distance.

    Attributes
    ----------
    distance : float
    parts : dict of str to float
        What each part of the metric adds to the squared distance: "linear", "pieces", "leaves", or
        the name of a kernel.
    columns : dict of str to float
        What each feature adds to it in linear maps and pieces, the largest first.
    n_trees, n_shared : int
        Trees, and those in which both points are in the same leaf.
    rules : tuple of str
        Conditions that hold for both points, those in most of the shared trees first. A bound is
        the median of these trees.
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
    >>> from nearfar.metrics.pair_explanation import explain_pair
    >>> metric = Metric([[3.0, 0.0], [0.0, 1.0]], ["length", "width"])
    >>> print(explain_pair(metric, [0, 0], [1, 4]))
    Distance 5; of its square: linear 100 %.
    Columns, as far as they can be told apart: width 64 %, length 36 %.
    """
    both = (each if np.ndim(each) == 2 else np.atleast_2d(each) for each in (x, y))
    points = np.vstack([metric.features_of(each) for each in both])
    part = metric.parts[metric.assign(points)[0]]
    rows = np.asarray(part.rows_of(points), dtype=np.float64)
    features = rows if part.kernel_map is None else part.kernel_map.transform(rows)
    difference = features[0] - features[1]
    terms = difference * (part.L.T @ (part.L @ difference))
    parts: dict[str, float] = {}
    columns, start, forests = np.zeros(part.n_features), 0, []
    for each in side_by_side(part.kernel_map):
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
