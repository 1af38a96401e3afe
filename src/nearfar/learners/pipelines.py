"""Pipelines that end in a learner.

Features that are fitted to rows, such as principal components or weights of words, know these rows.
What is measured on them later is flattered, as it is by a metric that was learned from them. A
pipeline is therefore fitted as a whole, to the rows that its learner learns from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_array

from nearfar.learners.base import MetricLearner
from nearfar.typing import Array, Floats, Ints, Vector

Estimator = Any
"""A learner, a pipeline or anything else with `fit` and `transform`; they have no common type."""


def learner_of(estimator: Estimator) -> MetricLearner:
    """Return the learner that a pipeline ends in, or the learner itself."""
    last = last_step(estimator)
    if not isinstance(last, MetricLearner):
        what = "A pipeline must end in" if last is not estimator else "The learner must be"
        raise TypeError(f"{what} a learner of a metric, such as RCA(); got {last!r}.")
    return last


def last_step(estimator: Estimator) -> Estimator:
    """Return the last step of a pipeline, also of one in another, or the estimator itself."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def fit_pipeline(
    estimator: Estimator,
    X: ArrayLike,
    y: object,
    *,
    labels: Array | None = None,
    groups: Ints | None = None,
    sample_weight: Vector | None = None,
) -> Estimator:
    """Fit a learner, or all steps of a pipeline, to the same rows.

    Parameters
    ----------
    X: shape (n_samples, n_features). Whatever the first step takes.
    y: What the learner learns from.
    labels: shape (n_samples,). What the other steps learn from, if that is not `y`.
    groups, sample_weight: shape (n_samples,). For the learner.
    """
    if not isinstance(estimator, Pipeline):
        given = {"groups": groups, "sample_weight": sample_weight}
        return estimator.fit(X, y, **{name: own for name, own in given.items() if own is not None})
    *steps, (name, last) = estimator.steps
    if steps:
        features = Pipeline(steps, memory=estimator.memory)
        X = features.fit_transform(X, y if labels is None else labels)
        steps = features.steps
    last = fit_pipeline(last, X, y, labels=labels, groups=groups, sample_weight=sample_weight)
    return Pipeline([*steps, (name, last)], memory=estimator.memory)


def features_of(fitted: Estimator, X: ArrayLike) -> Floats:
    """Return what the learner at the end of a fitted pipeline gets of some rows."""
    while isinstance(fitted, Pipeline):
        X = fitted[:-1].transform(X) if len(fitted) > 1 else X
        fitted = fitted.steps[-1][1]
    return np.asarray(check_array(X, dtype=[np.float64, np.float32]))
