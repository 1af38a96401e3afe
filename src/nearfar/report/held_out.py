"""A metric and Euclidean distance on held-out rows or judgements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from nearfar.comparison import GoalComparison, Method, MethodResult, default_methods
from nearfar.constraints import Pairs, Triplets
from nearfar.evaluate.retrieval import majority
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.typing import Floats, Vector

UNSCALED, EUCLIDEAN = (m.name for m in default_methods([]) if m.kind == "baseline")


def compare_losses(
    baselines: Mapping[str, Vector], methods: Mapping[str, Vector]
) -> GoalComparison:
    """Compare methods with baselines by the losses of the same rows or judgements.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.report.held_out import compare_losses
    >>> losses = {"Euclidean": np.repeat([1.0, 0.0], [50, 50])}
    >>> compare_losses(losses, {"NCA": np.zeros(100)}).verdict.category
    'clearly better'
    """
    known = {method.name: method for method in default_methods([])}
    results = [_result(known[name], losses) for name, losses in baselines.items()]
    for name, losses in methods.items():
        results.append(_result(Method(name, "learned", _unused), losses))
    return GoalComparison(results, "classification")


def _result(method: Method, losses: Vector) -> MethodResult:
    return MethodResult(method, errors=np.array([losses.mean()]), wrong=losses)


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
    >>> from nearfar.report.held_out import predictions
    >>> gallery = np.array([[0.0], [1.0], [5.0]]), np.array(["a", "a", "b"])
    >>> predictions(Metric.identity(1), gallery, np.array([[4.0]]), 1)
    array(['b'], dtype='<U1')
    """
    X, y = gallery
    names, codes = np.unique(y, return_inverse=True)
    nearest = kneighbors(metric, X, queries, n_neighbors=n_neighbors)[1]
    return np.asarray(names[majority(codes[nearest])])


def judgement_losses(metric: Metric, X: Floats, judgements: Triplets | Pairs) -> Vector:
    """Return how wrong a metric is about each judgement, from 0 to 1.

    A triplet in the wrong order is wrong, and a tie is half wrong. A pair is as wrong as the share
    of pairs of the other kind that it is on the wrong side of; the mean over pairs of each kind is
    1 - AUC.

    Examples
    --------
    >>> from nearfar import Metric, Pairs, Triplets
    >>> from nearfar.report.held_out import judgement_losses
    >>> X = [[0.0], [1.0], [3.0]]
    >>> judgement_losses(Metric.identity(1), X, Triplets([[0, 1, 2], [0, 2, 1]]))
    array([0., 1.])
    >>> pairs = Pairs([[0, 1], [1, 2], [0, 2]], similar=[True, False, True])
    >>> judgement_losses(Metric.identity(1), X, pairs)
    array([0. , 0.5, 1. ])
    """
    if isinstance(judgements, Triplets):
        return np.asarray(1.0 - metric.prefers(X, judgements.index))
    distances, similar = metric.pair_distances(X, judgements.index), judgements.similar
    losses = np.zeros(len(distances))
    among_all = rankdata(distances)
    for kind in (True, False):
        own = similar == kind
        n_others = int(np.count_nonzero(~own))
        if n_others and own.any():
            # Ties between the kinds count half.
            nearer = among_all[own] - rankdata(distances[own])
            losses[own] = nearer / n_others if kind else 1.0 - nearer / n_others
    return losses
