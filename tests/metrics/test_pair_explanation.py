"""Parts of a distance, and what the leaves that two points share have in common."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearfar import ForestMetric, GatedMetric, Metric
from nearfar.metrics.explanations import explain_pair
from nearfar.metrics.feature_maps import PieceMap

X, Y = load_wine(return_X_y=True)
NAMES = [f"column {j}" for j in range(13)]
RANDOM = np.random.RandomState(0)
LINEAR = Metric(RANDOM.normal(size=(3, 13)) / X.std(axis=0), NAMES)
FOREST = ForestMetric(n_trees=40).fit(X[::2], Y[::2]).metric_.named(NAMES)
RAMPS = PieceMap.fit(X, 3)
PIECES = Metric(RANDOM.normal(size=(4, RAMPS.n_components)) / 50, NAMES, feature_map=RAMPS)
PAIRS = [(0, 2), (1, 3), (60, 171), (5, 5)]


@pytest.mark.parametrize("pair", PAIRS)
def test_squared_distances_of_parts_add_up(pair):
    x, y = X[list(pair)]
    found = explain_pair(Metric.sum([LINEAR, FOREST, PIECES]), x, y)
    expected = [part.distances([x], [y]).item() ** 2 for part in (LINEAR, FOREST, PIECES)]
    assert list(found.parts) == ["linear", "leaves", "pieces"]
    np.testing.assert_allclose(list(found.parts.values()), expected, rtol=1e-5, atol=1e-10)
    assert found.distance**2 == pytest.approx(sum(expected), rel=1e-5, abs=1e-10)
    columns = expected[0] + expected[2]
    assert sum(found.columns.values()) == pytest.approx(columns, rel=1e-5, abs=1e-10)


def test_columns_have_their_terms():
    x, y = X[0], X[70]
    found = explain_pair(LINEAR, x, y).columns
    expected = {
        name: sum((x - y)[j] * LINEAR.matrix[j, i] * (x - y)[i] for i in range(13))
        for j, name in enumerate(NAMES)
    }
    assert found == pytest.approx(expected)
    assert list(found) == sorted(found, key=lambda name: -abs(found[name]))


def bounds_one_by_one(leaf_map, x, y):
    """Walk down each tree that leads both points to the same leaf, and note its conditions."""
    forest, conditions, n_shared = leaf_map.forest, {}, 0
    x, y = (((p - leaf_map.center) / leaf_map.scale).astype(np.float32) for p in (x, y))
    for root in forest.roots:
        node, low, high, together = root, {}, {}, True
        while forest.right[node] and together:
            j, bound = int(forest.feature[node]), forest.threshold[node]
            together = (x[j] > bound) == (y[j] > bound)
            if x[j] > bound:
                low[j], node = max(bound, low.get(j, bound)), forest.right[node]
            else:
                high[j], node = min(bound, high.get(j, bound)), node + 1
        if together:
            n_shared += 1
            for j in {*low, *high}:
                conditions.setdefault(j, []).append((low.get(j), high.get(j)))
    return n_shared, conditions


@pytest.mark.parametrize("pair", PAIRS)
def test_rules_are_those_of_the_shared_leaves(pair):
    x, y = X[list(pair)]
    found = explain_pair(FOREST, x, y, n_rules=13)
    leaf_map = FOREST.feature_map
    n_shared, conditions = bounds_one_by_one(leaf_map, x, y)
    assert (found.n_trees, found.n_shared) == (40, n_shared)
    assert len(found.rules) == len(conditions)
    counts = []
    for rule in found.rules:
        j, count = (int(re.search(text, rule)[1]) for text in (r"column (\d+)", r"\((\d+) of 40"))
        counts.append(count)
        assert count == len(conditions[j])
        for end, is_bound in enumerate((np.less, np.greater_equal)):
            known = [each[end] for each in conditions[j] if each[end] is not None]
            if known:
                bound = np.median(known) * leaf_map.scale[j] + leaf_map.center[j]
                assert f"{bound:.4g}" in rule
                assert is_bound(bound, [x[j], y[j]]).all()
    assert counts == sorted(counts, reverse=True)


def test_text():
    text = str(explain_pair(Metric.sum([LINEAR, FOREST]), X[0], X[2], n_rules=2)).splitlines()
    assert text[0].startswith("Distance ")
    assert text[1].startswith("Columns, as far as they can be told apart: column ")
    assert re.fullmatch(r"In the same leaf in \d+ of 40 trees:", text[2])
    assert len(text) == 5
    far = explain_pair(FOREST, X[0], X[-1])
    assert str(far).endswith(f"In the same leaf in {far.n_shared} of 40 trees.") or far.rules


def test_a_gated_metric_uses_the_part_of_the_first_point():
    V = np.zeros((2, 13))
    V[0, 0] = 1.0
    gated = GatedMetric([LINEAR, Metric.identity(13).named(NAMES)], V, [-13.0, 0.0])
    for x, y in ((X[0], X[70]), (X[70], X[0])):
        assert explain_pair(gated, x, y).distance == pytest.approx(gated.distances([x], [y]).item())
