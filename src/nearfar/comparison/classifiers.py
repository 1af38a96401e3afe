"""Reference classifiers and regressions, for comparison of errors. They are no metrics.

They have no neighbours and no search. A comparison runs them on the same features and folds as the
methods. They are neither tested nor recommended. Their fits are bounded: they learn from a sample
of the rows if there are many, and gradient boosting is left out if there are too many classes and
features for it.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearfar.comparison.compared_methods import Method
from nearfar.supervision.supervision import MANY_CLASSES
from nearfar.typing import Array, Floats

LOGISTIC, RIDGE, BOOSTING = "logistic regression", "ridge regression", "gradient boosting"

# With more rows, a fit for comparison takes too long; with fewer, it does not show what is
# possible.
_MOST_ROWS, _FEWEST_ROWS = 20_000, 1_000
# Twice scikit-learn's default, which standardised rows seldom need.
_LOGISTIC_ITERATIONS = 200
# Rows x features x classes x iterations: about ten seconds, if it needs all iterations.
_LOGISTIC_PRODUCTS = 5e10
# Of ridge regression, which chooses by leave-one-out errors.
_STRENGTHS = np.logspace(-2, 4, 13)
# Half of scikit-learn's default iterations at twice the rate: as good, in half the time.
_BOOSTING_ITERATIONS, _LEARNING_RATE = 50, 0.2
# Time of a tree, and for each row and feature, as measured.
_TREE_SECONDS, _CELL_SECONDS = 2e-4, 2e-8
# The most for a fit; a classifier for comparison must not take longer than the methods.
_BOOSTING_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class FittedClassifier:
    """A classifier that was fitted to rows of some classes."""

    model: BaseEstimator

    def predict(self, X: Floats) -> Array:
        """Return the classes of rows, as codes, or numbers."""
        return np.asarray(self.model.predict(X))


class SampledClassifier(BaseEstimator):
    """A classifier that learns from at most so many rows, a stratified sample."""

    def __init__(
        self, model: BaseEstimator | None = None, max_rows: int = _MOST_ROWS, random_state: int = 0
    ):
        self.model, self.max_rows, self.random_state = model, max_rows, random_state

    def fit(self, X: Floats, y: Array) -> FittedClassifier:
        """Fit a copy of the model."""
        if len(X) > self.max_rows:
            sizes = np.bincount(y) if y.dtype.kind in "iu" else np.ones(1)
            can_stratify = sizes[sizes > 0].min() > 1 and self.max_rows >= 2 * len(sizes)
            rows = train_test_split(
                np.arange(len(X)),
                train_size=self.max_rows,
                random_state=self.random_state,
                stratify=y if can_stratify else None,
            )[0]
            X, y = X[rows], y[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", MANY_CLASSES, UserWarning)
            return FittedClassifier(clone(self.model).fit(X, y))


def reference_classifiers(
    n_features: int, n_classes: int, random_state: int | None = 0
) -> list[Method]:
    """Return logistic or ridge regression, and gradient boosting, as methods of a comparison.

    Parameters
    ----------
    n_features, n_classes: What their time depends on beside the number of rows; 0 classes
        for numbers.
    """
    seed = 0 if random_state is None else random_state
    numbers = n_classes == 0
    linear = RidgeCV(_STRENGTHS) if numbers else LogisticRegression(max_iter=_LOGISTIC_ITERATIONS)
    trees = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    boosting = trees(
        max_iter=_BOOSTING_ITERATIONS,
        learning_rate=_LEARNING_RATE,
        # Without it, leaves of rows that are sure of their class grow beyond bounds.
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    )
    # Two classes need one score, others one each.
    n_scores = 1 if n_classes <= 2 else n_classes
    products = n_features * n_scores * _LOGISTIC_ITERATIONS
    seconds = _BOOSTING_SECONDS / (_BOOSTING_ITERATIONS * n_scores) - _TREE_SECONDS
    limits = {
        RIDGE if numbers else LOGISTIC: (
            make_pipeline(StandardScaler(), linear),
            _LOGISTIC_PRODUCTS / products,
        ),
        BOOSTING: (boosting, seconds / (_CELL_SECONDS * n_features)),
    }
    why = f"would take too long with {n_features} features and {n_classes} classes"
    methods = []
    for name, (model, max_rows) in limits.items():
        estimator = SampledClassifier(model, int(np.clip(max_rows, 0, _MOST_ROWS)), seed)
        too_slow = max_rows < _FEWEST_ROWS
        methods.append(
            Method(
                name,
                "classifier",
                partial(SampledClassifier.fit, estimator),
                raw=True,
                estimator=estimator,
                gives_metric=False,
                # All rows of a small table, or a sample of more, must be affordable.
                max_rows=max(int(max_rows), 0) if too_slow else math.inf,
                limit=why,
                supervision=("numbers",) if numbers else ("labels",),
            )
        )
    return methods
