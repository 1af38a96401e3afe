"""The model of comparisons: what is held out, calibration and the default threshold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.ensemble import GradientBoostingClassifier

from nearfar.records import model as module
from nearfar.records.model import HeldOut, PairModel, best_threshold, fit_calibrated


def pairs_of_entities(rng, n_entities=150, n_pairs=1500):
    """Comparisons whose log-odds are known, some of them missing."""
    entities = rng.integers(0, n_entities, (n_pairs, 2))
    entities[:300, 1] = entities[:300, 0]
    X = rng.random((n_pairs, 3))
    log_odds = np.where(entities[:, 0] == entities[:, 1], 6 * X[:, 0] - 1, -50.0)
    return X, rng.random(n_pairs) < expit(log_odds), entities


def test_no_record_is_on_both_sides_of_a_fold(monkeypatch):
    rng = np.random.default_rng(0)
    X, same, entities = pairs_of_entities(rng)
    X[:, 1:] = entities
    sides = []
    fit, log_odds = PairModel.fit.__func__, PairModel.log_odds

    def spied_fit(cls, X, same, random):
        sides.append([set(X[:, 1:].ravel())])
        return fit(cls, X, same, random)

    def spied_odds(self, X):
        sides[-1].append(set(X[:, 1:].ravel()))
        return log_odds(self, X)

    monkeypatch.setattr(PairModel, "fit", classmethod(spied_fit))
    monkeypatch.setattr(PairModel, "log_odds", spied_odds)
    fit_calibrated(X, same, entities, 0, np.random.RandomState(0))
    folds = sides[:-1]
    assert len(folds) == module._N_FOLDS
    assert all(not seen & unseen for seen, unseen in folds)


def test_pairs_that_are_held_out_stand_for_all():
    X, same, entities = pairs_of_entities(np.random.default_rng(1))
    _, held_out = fit_calibrated(X, same, entities, 700, np.random.RandomState(0))
    assert held_out.weight[held_out.same].sum() == pytest.approx(same.sum())
    assert held_out.weight[~held_out.same].sum() == pytest.approx(700 + (~same).sum())
    # Probabilities add up to the matches: the first condition of a logistic regression.
    expected = (held_out.weight * expit(held_out.log_odds)).sum()
    assert expected == pytest.approx(same.sum(), rel=0.01)


def test_trees_are_those_of_scikit_learn():
    rng = np.random.default_rng(2)
    X, same, _ = pairs_of_entities(rng)
    X[rng.random(X.shape) < 0.2] = np.nan
    found = PairModel.fit(X, same, np.random.RandomState(3))
    seed = np.random.RandomState(3).randint(1 << 31)
    reference = GradientBoostingClassifier(
        learning_rate=module._RATE, subsample=0.5, random_state=seed, **module._TREES
    ).fit(np.nan_to_num(X, nan=module._MISSING), same)
    expected = reference.decision_function(np.nan_to_num(X, nan=module._MISSING))
    np.testing.assert_allclose(found.members(X)[:, 0], expected, rtol=1e-9, atol=1e-9)


def test_a_missing_comparison_says_nothing_in_the_regression():
    X, same, _ = pairs_of_entities(np.random.default_rng(4))
    found = PairModel.fit(X, same, np.random.RandomState(0))
    center, scale, coef = found.linear
    gap = np.array([[np.nan, 0.3, 0.4]])
    expected = ((gap[0] - center) / scale * coef)[1:].sum() + found.intercepts[1]
    assert found.members(gap)[0, 1] == pytest.approx(expected)


def test_the_threshold_has_the_largest_expected_f1():
    rng = np.random.default_rng(5)
    score, weight = rng.normal(-1, 3, 200), rng.random(200)
    chosen = best_threshold(HeldOut(score, score > 0, weight))
    p = expit(score)

    def f1(threshold: float) -> float:
        near = score >= threshold
        true = (weight * p)[near].sum()
        return 2 * true / (weight[near].sum() + (weight * p).sum())

    assert f1(chosen) == pytest.approx(max(f1(threshold) for threshold in score))
