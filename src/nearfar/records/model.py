"""A model of comparisons: the log-odds that two records are the same.

It is the mean of two models' log-odds, which err in different ways: a logistic regression, and
boosted trees (J. H. Friedman: Stochastic gradient boosting, Computational Statistics & Data
Analysis 38, 2002).

Models of the other folds tell the log-odds of each fold's pairs. A fold holds whole entities, and
only pairs within a fold are held out, so that no record is on both sides. Pairs of different
entities are mostly in two folds; those within one stand for them and weigh more. A logistic
regression on these log-odds (J. Platt: Probabilistic outputs for support vector machines, 1999)
calibrates the mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from nearfar.metrics.feature_maps import Forest
from nearfar.typing import Bools, Ints, Matrix, Vector

# Comparisons are not less than -1, so that missing ones are apart from them in trees.
_MISSING = -2.0
_RATE = 0.08
_TREES = {"n_estimators": 200, "max_depth": 4, "min_samples_leaf": 5, "max_features": "sqrt"}
# Inverse strength of the penalty of the logistic regression, on standardised comparisons.
_PENALTY = 0.05
# Standard deviations below this are those of constants.
_CONSTANT = 1e-9
# Folds, if each has so many pairs of both kinds; of different records, few are within a fold.
_N_FOLDS, _FEWEST_PAIRS = 5, 10
# Pairs whose leaves are held at a time.
_BLOCK = 1 << 12


@dataclass(frozen=True, eq=False)
class PairModel:
    """Two models as arrays, and their calibration.

    Attributes
    ----------
    forest: Boosted trees.
    step: shape (n_nodes,). What a leaf adds to the log-odds.
    linear: shape (3, n_comparisons). Center, scale and coefficients of the logistic
        regression; missing comparisons are at the center.
    intercepts: shape (2,). Of the trees and of the logistic regression.
    typical: shape (2, n_comparisons). Medians of the comparisons of different records, and
        of the same ones.
    calibration: shape (2,). Slope and intercept.
    """

    forest: Forest
    step: Vector
    linear: Matrix
    intercepts: Vector
    typical: Matrix
    calibration: Vector

    def __post_init__(self) -> None:
        width = self.linear.shape[-1]
        shapes = {"linear": (3, width), "typical": (2, width), "intercepts": (2,)}
        shapes |= {"calibration": (2,), "step": self.forest.right.shape}
        if any(getattr(self, name).shape != shape for name, shape in shapes.items()):
            raise ValueError("The arrays of a model do not fit together.")
        if self.forest.feature.max(initial=0) >= width:
            raise ValueError("The trees of a model look at comparisons that there are not.")

    @classmethod
    def fit(cls, X: Matrix, same: Bools, random: np.random.RandomState) -> PairModel:
        """Fit the two models; they are not calibrated yet."""
        boosting = GradientBoostingClassifier(
            learning_rate=_RATE, subsample=0.5, random_state=random.randint(1 << 31), **_TREES
        )
        trees = boosting.fit(np.nan_to_num(X, nan=_MISSING), same).estimators_.ravel()
        gaps = np.isnan(X)
        center = np.where(gaps, 0.0, X).sum(axis=0) / np.maximum(1, (~gaps).sum(axis=0))
        scale = np.where(gaps, center, X).std(axis=0)
        scale[scale < _CONSTANT] = 1.0
        Z = np.where(gaps, 0.0, (X - center) / scale)
        logistic = LogisticRegression(C=_PENALTY, max_iter=500).fit(Z, same)
        return cls(
            Forest.of(trees),
            _RATE * np.concatenate([tree.tree_.value[:, 0, 0] for tree in trees]),
            linear=np.array([center, scale, logistic.coef_[0]]),
            intercepts=np.array([logit(same.mean()), logistic.intercept_[0]]),
            typical=np.array([_medians(X[~same]), _medians(X[same])]),
            calibration=np.array([1.0, 0.0]),
        )

    def log_odds(self, X: Matrix) -> Vector:
        """Return the calibrated log-odds of pairs with these comparisons."""
        slope, shift = self.calibration
        return np.asarray(slope * self.members(X).mean(axis=1) + shift)

    def members(self, X: Matrix) -> Matrix:
        """Return the log-odds of the trees and of the logistic regression, before calibration."""
        center, scale, coef = self.linear
        out = np.empty((len(X), 2))
        for top in range(0, len(X), _BLOCK):
            block = X[top : top + _BLOCK]
            leaves = self.forest.leaves(np.nan_to_num(block, nan=_MISSING).astype(np.float32))
            Z = np.where(np.isnan(block), 0.0, (block - center) / scale)
            # Not a product of matrices, whose rounding depends on the number of rows.
            sums = self.step[leaves].sum(axis=1), (Z * coef).sum(axis=1)
            out[top : top + _BLOCK] = np.column_stack(sums) + self.intercepts
        return out


class HeldOut(NamedTuple):
    """Pairs that were held out: log-odds, truth, and the pairs that each stands for."""

    log_odds: Vector
    same: Bools
    weight: Vector


def fit_calibrated(
    X: Matrix, same: Bools, entities: Ints, left_out: int, random: np.random.RandomState
) -> tuple[PairModel, HeldOut]:
    """Fit a model and calibrate it by pairs that were held out.

    Parameters
    ----------
    entities: shape (n_pairs, 2). Entities of the records of each pair.
    left_out: Number of pairs of different records that those in X stand for, besides
        themselves.
    """
    names, place = np.unique(entities, return_inverse=True)
    n_folds = int(np.clip(min(same.sum(), (~same).sum()) // _FEWEST_PAIRS, 2, _N_FOLDS))
    fold = (random.permutation(len(names)) % n_folds)[place.reshape(-1, 2)]
    log_odds = np.full(len(X), np.nan)
    for number in range(n_folds):
        seen, unseen = (fold != number).all(axis=1), (fold == number).all(axis=1)
        if 0 < same[seen].sum() < seen.sum():
            log_odds[unseen] = PairModel.fit(X[seen], same[seen], random).log_odds(X[unseen])
    held_out = np.isfinite(log_odds)
    truth, score = same[held_out], log_odds[held_out]
    if not 0 < truth.sum() < len(truth):
        raise ValueError(
            "There are too few pairs to hold some out whose records are in no others: "
            f"{same.sum()} are the same and {(~same).sum()} different; give at least "
            f"{2 * _FEWEST_PAIRS} of each, of different records."
        )
    weight = np.where(truth, same.sum() / truth.sum(), (left_out + (~same).sum()) / (~truth).sum())
    platt = LogisticRegression().fit(score[:, None], truth, weight)
    slope, shift = platt.coef_[0, 0], platt.intercept_[0]
    model = replace(PairModel.fit(X, same, random), calibration=np.array([slope, shift]))
    return model, HeldOut(slope * score + shift, truth, weight)


def best_threshold(held_out: HeldOut) -> float:
    """Return the log-odds at which the expected F1 is the largest."""
    order = np.argsort(-held_out.log_odds, kind="stable")
    score, weight = held_out.log_odds[order], held_out.weight[order]
    true = weight * expit(score)
    f1 = 2 * np.cumsum(true) / (np.cumsum(weight) + true.sum())
    best = int(np.argmax(f1))
    return float(score[best : best + 2].mean())


def _medians(X: Matrix) -> Vector:
    """Return the medians of the known comparisons; nan if there are none."""
    known = ~np.isnan(X).all(axis=0)
    out = np.full(X.shape[1], np.nan)
    out[known] = np.nanmedian(X[:, known], axis=0)
    return out
