"""A path over C: the planes of one C stay valid for every other."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

from nearfar.learners.max_margin.max_margin_metric import MaxMarginMetric
from nearfar.learners.scaler import Scaler
from nearfar.supervision import Pairs, RandomPairs
from nearfar.typing import Vector


@dataclass(frozen=True)
class MaxMarginPath:
    """Learners along a path over C.

    Attributes
    ----------
    C : array of shape (n_steps,)
        The values of C, in increasing order.
    learners : list of MaxMarginMetric
        Fitted to all pairs, one for each.
    scores : array of shape (n_steps, n_folds) or None
        Share of held-out pairs classified correctly. Their rows also occur in training pairs:
        expect less on new rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfar import max_margin_path
    >>> X, y = load_iris(return_X_y=True)
    >>> path = max_margin_path(X, y, C=(1.0, 100.0), cv=3, random_state=0)
    >>> path.scores.shape
    (2, 3)
    >>> path.best.C in path.C
    True
    """

    C: Vector
    learners: list[MaxMarginMetric]
    scores: Vector | None

    @property
    def best(self) -> MaxMarginMetric:
        """The learner with the best mean score; of equals, that of the smallest C."""
        if self.scores is None:
            raise ValueError("The path was not cross-validated; pass cv to max_margin_path.")
        return self.learners[int(self.scores.mean(axis=1).argmax())]


def max_margin_path(
    X: ArrayLike,
    y: ArrayLike | Pairs,
    C: Iterable[float] = (1.0, 10.0, 100.0, 1e3, 1e4),
    *,
    learner: MaxMarginMetric | None = None,
    cv: int | None = 5,
    random_state: int | np.random.RandomState | None = None,
) -> MaxMarginPath:
    """Fit a max-margin metric for several values of C, each starting from the last.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), or Pairs
        Labels, from which the learner's strategy draws pairs once, or pairs.
    C : iterable of float, default=(1, 10, 100, 1e3, 1e4)
    learner : MaxMarginMetric, optional
        What to fit; its `C` is not used.
    cv : int or None, default=5
        Folds of pairs for scores; None for none.
    random_state : int, RandomState or None, default=None
        For drawing pairs and folds.

    Returns
    -------
    MaxMarginPath

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import max_margin_path
    >>> path = max_margin_path(*load_wine(return_X_y=True), C=[1, 100], cv=3, random_state=0)
    >>> path.best.C
    100.0
    """
    prices = np.unique(np.asarray(list(C), dtype=np.float64))
    base = MaxMarginMetric() if learner is None else learner
    rng = check_random_state(random_state)
    drawn_from = clone(base)
    data = drawn_from._checked(X, y)
    if data.supervision.kind == "pairs":
        pairs = data.supervision.pairs(data.X, None, None)
    else:
        # Those that a fit to the labels would draw.
        Z = Scaler.fit(data.X, drawn_from.scale).transform(data.X)
        pairs = data.supervision.pairs(Z, drawn_from.constraints or RandomPairs(), rng)
    scores = None
    if cv is not None:
        folds = StratifiedKFold(cv, shuffle=True, random_state=rng.randint(2**31 - 1))
        columns = []
        for seen, unseen in folds.split(pairs.index, pairs.similar):
            held_out = pairs.take(unseen)
            right = [
                fitted.predict(X, held_out) == held_out.similar
                for fitted in _path(base, X, pairs.take(seen), prices)
            ]
            columns.append(np.average(right, axis=1, weights=held_out.weight))
        scores = np.array(columns).T
    return MaxMarginPath(prices, _path(base, X, pairs, prices), scores)


def _path(
    base: MaxMarginMetric, X: ArrayLike, pairs: Pairs, prices: Vector
) -> list[MaxMarginMetric]:
    """Fit one C after another; planes of one are below the loss for every other."""
    learner = clone(base).set_params(warm_start=True, solver="planes")
    learners = []
    for price in prices:
        learner.set_params(C=float(price)).fit(X, pairs)
        fitted = copy.copy(learner).set_params(warm_start=base.warm_start, solver=base.solver)
        del fitted._last_fit
        learners.append(fitted)
    return learners
