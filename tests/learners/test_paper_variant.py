"""``variant="paper"`` does not scale columns, which none of the five papers does."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import BoostMetric, DRMetric, MaxMarginMetric, MetricBoost, MixtureNCA, SparseNCA

LEARNERS = {
    "BoostMetric": BoostMetric(variant="paper", max_iter=3),
    "MetricBoost": MetricBoost(variant="paper", max_iter=3),
    "DRMetric": DRMetric(variant="paper"),
    "MaxMarginMetric": MaxMarginMetric(variant="paper", random_state=0),
    "SparseNCA": SparseNCA(variant="paper", max_iter=3, random_state=0),
    "MixtureNCA": MixtureNCA(variant="paper", n_metrics=2, max_iter=3, random_state=0),
}


@pytest.fixture
def rows():
    """Two classes, and a third column whose spread is a thousand times the others'."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    X = rng.normal(size=(40, 3)) + 2 * y[:, None]
    X[:, 2] *= 1000
    return X, y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", LEARNERS)
def test_columns_are_not_standardised(name, rows):
    learner = LEARNERS[name].fit(*rows)
    assert learner.scale_ in ("unit", None)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [DRMetric, MaxMarginMetric])
def test_a_scale_that_is_asked_for_is_kept(kind, rows):
    learner = kind(variant="paper", scale="standard", random_state=0).fit(*rows)
    assert learner.scale_ == "standard"


def test_max_margin_is_that_of_rows_as_they_are(rows):
    """Standardised rows would give another metric: the third column would count as the others."""
    X, y = rows
    learned, unit, standard = (
        MaxMarginMetric(variant="paper", scale=scale, random_state=0).fit(X, y).metric_.matrix
        for scale in ("auto", "unit", "standard")
    )
    np.testing.assert_array_equal(learned, unit)
    assert not np.allclose(learned, standard)
