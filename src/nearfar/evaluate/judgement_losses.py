"""How wrong a distance is about each triplet or pair, with weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearfar.constraints import Pairs, Triplets
from nearfar.typing import Vector


def misplaced(
    distances: Vector, similar: NDArray[np.bool_], weight: Vector | None = None
) -> Vector:
    """Return the share of pairs of the other kind that each pair is on the wrong side of.

    Shares are weighted, and a tie counts half. The weighted mean over the pairs of one kind is
    1 - AUC. If there are pairs of one kind only, none is misplaced.

    Parameters
    ----------
    distances : array of shape (n_pairs,)
    similar : array of bool of shape (n_pairs,)
    weight : array of shape (n_pairs,), optional

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.evaluate.judgement_losses import misplaced
    >>> misplaced(np.array([2.0, 1.0, 3.0]), np.array([True, False, False]))
    array([0.5, 1. , 0. ])
    """
    weight = np.ones(len(distances)) if weight is None else weight
    wrong = np.zeros(len(distances))
    for kind, sign in ((similar, 1.0), (~similar, -1.0)):
        others, position = sign * distances[~kind], sign * distances[kind]
        order = np.argsort(others, kind="stable")
        below = np.concatenate([[0.0], np.cumsum(weight[~kind][order])])
        left, right = (np.searchsorted(others[order], position, side) for side in ("left", "right"))
        if below[-1] > 0:
            wrong[kind] = (below[left] + below[right]) / (2 * below[-1])
    return wrong


def judgement_shares(judgements: Triplets | Pairs) -> Vector:
    """Return the share of each judgement in a mean, in units of 1; both kinds of pairs count alike.

    Examples
    --------
    >>> from nearfar import Pairs
    >>> from nearfar.evaluate.judgement_losses import judgement_shares
    >>> judgement_shares(Pairs([[0, 1], [2, 3], [4, 5]], [True, False, False]))
    array([1.5 , 0.75, 0.75])
    """
    n = len(judgements)
    weight = np.ones(n) if judgements.weight is None else judgements.weight
    similar = getattr(judgements, "similar", None)
    if similar is None:
        return np.asarray(weight / weight.mean())
    totals = np.bincount(similar, weight, minlength=2)
    return np.asarray(weight * n / (2 * totals[similar.astype(np.intp)]))
