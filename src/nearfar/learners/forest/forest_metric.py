"""ForestMetric: two points are near if the trees of a forest lead them to the same leaves.

    d(x, y)^2 ~ 1 - share of the trees in which x and y are in the same leaf

This is the proximity of random forests (L. Breiman, Random forests, Machine Learning 45, 2001), as
a distance. Trees are those of P. Geurts, D. Ernst and L. Wehenkel (Extremely randomized trees,
Machine Learning 63, 2006): each split is the best of some random ones. `LeafMap` turns leaves into
vectors of moderate length. Trees of at most 256 rows grow until leaves are pure. Vectors of that
length cannot tell more leaves of a tree apart, so of more rows, small nodes stay whole.

Training rows are in leaves that were made for them, so distances between them promise too much.
Whatever is chosen or stated needs rows that the trees were not grown on.

J. Rhodes, A. Cutler and K. Moon (Geometry- and accuracy-preserving random forest proximities, IEEE
TPAMI 45, 2023) weigh leaves by their sizes and leave a row's own trees out. Their proximities are
not symmetric, so there are no vectors for them.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.tree import ExtraTreeClassifier, ExtraTreeRegressor

from nearfar.learners.base import MetricLearner
from nearfar.learners.declaration import learner
from nearfar.learners.problem import FitInput, MetricBuilder, Problem
from nearfar.learners.selection.held_out import sample
from nearfar.metrics.feature_maps import Forest, LeafMap, moved
from nearfar.metrics.metric import Metric
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.runtime.parameters import ParameterRule, integer
from nearfar.runtime.threads import Threads
from nearfar.supervision.supervision import MANY_CLASSES
from nearfar.typing import Array, Floats, Vector

# Trees grown in an iteration.
_BATCH = 25
# Of these, so many at a time on a thread.
_TREES_AT_ONCE = 5
# Components by default: on 36 tables, neighbours err as often as with exact distances (17.0 %).
_COMPONENTS = 256
# The most rows that trees are grown on, and of the basis of the map, whose eigenvectors are found.
_MAX_ROWS = 10_000
_MAX_BASIS = 1000


@learner
class ForestMetric(MetricLearner):
    """Distance by the leaves of a forest: it bends where the labels do.

    The metric is no linear map, so there are no `components_`. `transform` gives vectors whose
    Euclidean distance it is.

    Parameters
    ----------
    n_trees : int, default=100
    min_leaf : int, default=1
        The fewest rows of a leaf. Nodes of at most n / 256 of n > 256 rows are not split in any
        case, or of n / `n_components` if there are more components.
    n_components : int, optional
        Length of the vectors; by default 256, or the number of rows if there are fewer.
    scale : {"standard", "unit", "cosine"} or None, default="standard"
        Trees do not depend on it, except for "cosine", which divides each row by its length.

    Attributes
    ----------
    history_ : History
        An iteration grows 25 trees; the objective is the mean squared distance of rows.

    References
    ----------
    L. Breiman. Random forests. Machine Learning 45, 2001.
    P. Geurts, D. Ernst, L. Wehenkel. Extremely randomized trees. Machine Learning 63, 2006.

    Examples
    --------
    >>> from nearfar import ForestMetric, datasets
    >>> from nearfar import measures
    >>> data = datasets.load("circles")
    >>> forest = ForestMetric().fit(data.X[::2], data.y[::2])
    >>> forest.transform(data.X).shape
    (300, 150)
    """

    n_trees: int = 100
    min_leaf: int = 1
    scale: str | None = "standard"
    random_state: int | np.random.RandomState | None = 0
    n_jobs: int | None = None
    verbose: int = 0

    supervision: ClassVar[tuple[str, ...]] = ("labels", "numbers")
    gives_linear: ClassVar[bool] = False
    auto_order: ClassVar[int | None] = 16
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "n_trees": integer(at_least=1),
        "min_leaf": integer(at_least=1),
    }

    def _most_components(self, n_features: int) -> int:
        return _MAX_BASIS

    def _build_problem(self, data: FitInput) -> ForestProblem:
        known, numbers = data.supervision, data.supervision.kind == "numbers"
        y: Array = (
            known.numbers("ForestMetric")
            if numbers
            else known.labels("ForestMetric", informative=True)
        )
        if np.ptp(y) == 0:
            raise ValueError("All numbers in y are the same; there is nothing to learn.")
        return ForestProblem(self, data.Z, y, data.random_state, known.row_weight, numbers=numbers)


class ForestProblem(Problem):
    """A growing forest.

    Parameters
    ----------
    y: shape (n_samples,). Classes, or numbers.
    row_weight: shape (n_samples,). For the splits of the trees.
    """

    unit = 1.0
    first_stage = 2

    def __init__(
        self,
        learner: ForestMetric,
        Z: Floats,
        y: Array,
        random_state: np.random.RandomState,
        row_weight: Vector | None,
        *,
        numbers: bool,
    ) -> None:
        classes = None if numbers else y
        rows = sample(np.arange(len(Z)), _MAX_ROWS, random_state, classes)
        basis = sample(rows, _MAX_BASIS, random_state, None if numbers else y[rows])
        # Constant columns would change which ones a split looks at.
        varying = np.flatnonzero(np.ptp(Z[rows], axis=0))
        self.columns = varying if len(varying) else np.arange(1)
        self.Z = np.ascontiguousarray(Z[np.ix_(rows, self.columns)], dtype=np.float32)
        self.y, self.basis = y[rows], Z[basis]
        self.row_weight = None if row_weight is None else row_weight[rows]
        self.n_components = learner.n_components or _COMPONENTS
        self.n_trees, self.max_iter = learner.n_trees, math.ceil(learner.n_trees / _BATCH)
        # Those of scikit-learn's forest with the same seed, which takes longer for few rows.
        seeds = np.random.RandomState(random_state.randint(2**31 - 1))
        self.seeds = [seeds.randint(2**31 - 1) for _ in range(self.n_trees)]
        kind = ExtraTreeRegressor if numbers else ExtraTreeClassifier
        # With a row in each leaf, the kernel of the basis would be the identity matrix, and the map
        # would take rows to any components. Leaves of n / most rows are as many as components.
        most, n = max(self.n_components, _COMPONENTS), len(rows)
        split = 2 if n <= most else math.ceil(n / most) + 1
        self.tree = partial(kind, min_samples_leaf=learner.min_leaf, min_samples_split=split)
        self.trees: list[Any] = []

    def solve(self) -> Iterations:
        """Grow trees."""

        def grow(part: slice) -> list[Any]:
            trees = [self.tree(random_state=seed) for seed in seeds[part]]
            return [tree.fit(self.Z, self.y, self.row_weight, check_input=False) for tree in trees]

        for top in range(0, self.n_trees, _BATCH):
            seeds = self.seeds[top : top + _BATCH]
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", MANY_CLASSES, UserWarning)
                for trees in Threads().map(grow, len(seeds), _TREES_AT_ONCE):
                    self.trees += trees
            grown = [tree.tree_ for tree in self.trees]
            sizes = [tree.n_node_samples[tree.children_left < 0] / len(self.y) for tree in grown]
            meet = float(np.mean([size @ size for size in sizes]))
            yield Iteration(1.0 - meet, payload=len(grown))
        return "grown"

    def metric(self, history: History, builder: MetricBuilder) -> Metric:
        """Return the metric of the trees so far."""
        trees = self.trees[: history[-1].payload]
        importances = np.zeros(self.basis.shape[1])
        importances[self.columns] = np.mean([tree.feature_importances_ for tree in trees], axis=0)
        forest = Forest.of(trees)
        forest = replace(forest, feature=self.columns[forest.feature])
        leaves = LeafMap.of(forest, self.basis, self.n_components, importances)
        return Metric(
            np.eye(leaves.n_components),
            builder.feature_names,
            feature_map=moved(leaves, builder.center, builder.scale),
            unit_rows=builder.unit_rows,
        )
