"""A metric and the baselines on held-out rows or judgements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.comparison import GoalComparison, Method, MethodResult, default_methods
from nearfar.evaluate.measures import measure_of
from nearfar.evaluate.neighbor_votes import majority
from nearfar.evaluate.overlap import OverlappingJudgements
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.typing import Floats, Ints, Vector


def compare_losses(
    goal: str,
    losses: Mapping[str, Vector],
    overlap: OverlappingJudgements | None = None,
    groups: Ints | None = None,
) -> GoalComparison:
    """Compare methods with the baselines by the losses of the same rows or judgements.

    Parameters
    ----------
    goal : str
    losses : dict of str to array of shape (n,)
        By the names of methods; those of baselines and plain methods are known.
    overlap : OverlappingJudgements, optional
        The judgements, if these are not rows.
    groups : array of shape (n,), optional
        The group of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.report.held_out_rows import compare_losses
    >>> losses = {"Euclidean (unscaled)": np.repeat([1.0, 0.0], [50, 50]), "NCA": np.zeros(100)}
    >>> compare_losses("classification", losses).verdict.category
    'clearly better'
    """
    known = {method.name: method for method in default_methods([])}
    measure = measure_of(goal).name
    results = [
        MethodResult(
            known.get(name, Method(name, "learned", _unused)),
            losses={measure: values},
            fold_losses={measure: np.array([values.mean()])},
        )
        for name, values in losses.items()
    ]
    return GoalComparison(results, goal, overlap=overlap, groups=groups)


def _unused(X: Floats, y: Any) -> Metric:
    raise NotImplementedError("The losses of this method are known; it is not fitted.")


def predictions(
    metric: Metric, gallery: tuple[Floats, NDArray[Any]], queries: Floats, n_neighbors: int
) -> NDArray[Any]:
    """Return the classes of queries by a vote of their nearest rows of a gallery.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Metric
    >>> from nearfar.report.held_out_rows import predictions
    >>> gallery = np.array([[0.0], [1.0], [5.0]]), np.array(["a", "a", "b"])
    >>> predictions(Metric.identity(1), gallery, np.array([[4.0]]), 1)
    array(['b'], dtype='<U1')
    """
    X, y = gallery
    names, codes = np.unique(y, return_inverse=True)
    nearest = kneighbors(metric, X, queries, n_neighbors=n_neighbors)[1]
    return np.asarray(names[majority(codes[nearest])])
