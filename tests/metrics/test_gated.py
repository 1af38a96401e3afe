"""Gated metrics, against the distances of their parts."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from nearfar import GatedMetric, Metric


@pytest.fixture
def metric(rng):
    parts = [Metric(rng.standard_normal((rank, 4))) for rank in (2, 3, 1)]
    return GatedMetric(parts, rng.standard_normal((3, 4)), rng.standard_normal(3))


def test_each_query_uses_its_part(metric, rng):
    X, Y = rng.standard_normal((30, 4)), rng.standard_normal((7, 4))
    chosen = metric.assign(X)
    assert np.unique(chosen).tolist() == [0, 1, 2]
    np.testing.assert_array_equal(chosen, metric.gate(X).argmax(axis=1))
    expected = [metric.parts[s].distances(x[None], Y)[0] for s, x in zip(chosen, X, strict=True)]
    np.testing.assert_allclose(metric.distances(X, Y), expected, rtol=1e-12, atol=1e-12)
    for rows, part in metric.spaces(X):
        np.testing.assert_array_equal(
            metric.transform(X)[rows, : part.n_components], part.transform(X[rows])
        )


def test_pairs_and_triplets_use_the_part_of_the_first_row(metric, rng):
    X = rng.standard_normal((30, 4))
    triplets = rng.integers(0, 30, (200, 3))
    D = metric.distances(X)
    a, near, far = triplets.T
    np.testing.assert_allclose(metric.pair_distances(X, triplets[:, :2]), D[a, near], rtol=1e-12)
    expected = np.where(near == far, 0.5, D[a, near] < D[a, far])
    np.testing.assert_array_equal(metric.prefers(X, triplets), expected)


def test_what_only_one_map_has_is_refused(metric):
    assert not metric.is_linear
    assert metric.n_components == 3
    for name in ("L", "matrix"):
        with pytest.raises(AttributeError, match=f"no {name}; use its `parts`"):
            getattr(metric, name)


def test_frozen_after_pickling(metric):
    copy = pickle.loads(pickle.dumps(metric))
    for array in (copy.V, copy.b, copy.parts[0].L):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_names_are_those_of_all_parts(metric):
    named = metric.named(["a", "b", "c", "d"])
    assert [part.feature_names for part in named.parts] == [("a", "b", "c", "d")] * 3


def test_metrics_that_cannot_be_gated_together():
    one, V, b = Metric(np.eye(2)), np.zeros((2, 2)), np.zeros(2)
    with pytest.raises(ValueError, match="at least one metric"):
        GatedMetric([], V, b)
    with pytest.raises(ValueError, match="must have the same features"):
        GatedMetric([one, Metric(np.eye(2), ["a", "b"])], V, b)
    with pytest.raises(ValueError, match="unit rows, or none"):
        GatedMetric([one, Metric(np.eye(2), unit_rows=True)], V, b)
