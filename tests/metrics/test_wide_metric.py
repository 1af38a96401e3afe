"""A diagonal matrix plus a product of narrow ones is the metric of their sum."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from nearfar import Metric
from nearfar.metrics.variants import WideMetric


@pytest.fixture
def parts(rng):
    return rng.uniform(0.5, 2.0, 7), rng.standard_normal((7, 2)), rng.standard_normal((2, 7))


def test_it_is_the_metric_of_its_map(parts, rng):
    weights, U, B = parts
    X = rng.standard_normal((5, 7))
    metric, plain = WideMetric(*parts), Metric(np.diag(weights) + U @ B)
    assert (metric.n_features, metric.n_components) == (7, 7)
    np.testing.assert_allclose(metric.L, plain.L, rtol=1e-14)
    np.testing.assert_allclose(metric.transform(X), plain.transform(X), rtol=1e-12)
    np.testing.assert_allclose(metric.distances(X), plain.distances(X), rtol=1e-12)
    np.testing.assert_allclose(metric.matrix, plain.matrix, rtol=1e-12)


def test_the_map_cannot_be_written_and_is_not_copied(parts):
    metric = WideMetric(*parts)
    with pytest.raises(ValueError, match="read-only"):
        metric.L[0, 0] = 1.0
    assert "L" in vars(metric)
    for again in (pickle.loads(pickle.dumps(metric)), copy.deepcopy(metric)):
        assert "L" not in vars(again)
        np.testing.assert_array_equal(again.L, metric.L)


def test_names_keep_it_wide(parts):
    named = WideMetric(*parts, unit_rows=True).named(list("abcdefg"))
    assert isinstance(named, WideMetric)
    assert named.unit_rows
    assert list(named.feature_names) == list("abcdefg")
    np.testing.assert_array_equal(named.U, parts[1])


def test_whether_all_distances_are_zero(parts):
    weights, U, B = parts
    assert not WideMetric(*parts).is_zero
    assert WideMetric(0 * weights, 0 * U, B).is_zero
    axis = np.eye(7)[:1]
    assert WideMetric(axis[0], -axis.T, axis).is_zero
    assert not WideMetric(axis[0], -2 * axis.T, axis).is_zero
    assert not WideMetric(0 * weights, U, B).is_zero


@pytest.mark.parametrize("place", [0, 1, 2])
def test_arrays_that_do_not_fit_or_are_not_finite(parts, place):
    wrong = [*parts]
    wrong[place] = wrong[place][:-1]
    with pytest.raises(ValueError, match=r"must have shapes"):
        WideMetric(*wrong)
    infinite = [array.copy() for array in parts]
    infinite[place].flat[3] = np.inf
    with pytest.raises(ValueError, match="must be finite"):
        WideMetric(*infinite)
