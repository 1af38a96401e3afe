"""Importances and leading directions, against the definitions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearfar import ForestMetric, GatedMetric, MaxMarginMetric, Metric
from nearfar.metrics.explanations import feature_importances, feature_spreads, leading_directions
from nearfar.metrics.feature_maps import PieceMap

X, Y = load_wine(return_X_y=True)


@pytest.fixture
def metric(rng):
    return Metric(rng.normal(size=(4, 13)) / X.std(axis=0))


def test_shares_are_of_the_mean_squared_distance(metric):
    C = np.cov(X.T, bias=True)
    shares = feature_importances(metric, X)
    np.testing.assert_allclose(shares, np.diag(metric.matrix @ C) / np.trace(metric.matrix @ C))
    assert shares.sum() == pytest.approx(1)
    mean = (metric.distances(X) ** 2).mean()
    assert mean == pytest.approx(2 * np.trace(metric.matrix @ C))


def test_shares_are_shapley_values(rng):
    points = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 3))
    metric = Metric(rng.normal(size=(2, 3)))

    def worth(features):
        kept = np.where(np.isin(np.arange(3), features), points, 0.0)
        return (metric.distances(kept) ** 2).mean()

    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    value = np.zeros(3)
    for order in orders:
        for place, j in enumerate(order):
            value[j] += (worth(order[: place + 1]) - worth(order[:place])) / len(orders)
    np.testing.assert_allclose(feature_importances(metric, points), value / worth((0, 1, 2)))


def test_units_do_not_matter(metric):
    units = 10.0 ** np.arange(-6, 7)
    scaled = Metric(metric.L / units)
    expected = feature_importances(metric, X)
    np.testing.assert_allclose(feature_importances(scaled, X * units), expected)
    before, after = leading_directions(metric, X), leading_directions(scaled, X * units)
    for one, other in zip(before, after, strict=True):
        assert one.features == other.features
        np.testing.assert_allclose([one.share, *one.loadings], [other.share, *other.loadings])


def test_a_feature_may_cancel_others():
    points = [[0, 0], [1, 2], [2, 4.5], [3, 6]]
    shares = feature_importances(Metric([[1.0, -0.3]]), points)
    assert shares[1] < 0
    assert shares.sum() == pytest.approx(1)


def test_without_points_by_the_diagonal(metric):
    M = metric.matrix
    np.testing.assert_allclose(feature_importances(metric), np.diag(M) / np.trace(M))
    values, vectors = np.linalg.eigh(M)
    found = leading_directions(metric, k=2, n_features=13)
    for place, direction in enumerate(found, 1):
        assert direction.share == pytest.approx(values[-place] / values.sum())
        by_name = dict(zip(direction.features, direction.loadings, strict=True))
        v = [by_name[f"x{j}"] for j in range(13)]
        assert abs(vectors[:, -place] @ v) == pytest.approx(1)


def test_directions_are_principal_axes_of_mapped_points(metric):
    found = leading_directions(metric, X, k=9)
    spread = np.linalg.eigvalsh(np.cov(metric.transform(X).T))[::-1]
    np.testing.assert_allclose([d.share for d in found], spread / spread.sum())
    assert all(np.abs(d.loadings).argmax() == 0 and d.loadings[0] > 0 for d in found)


@pytest.mark.parametrize("function", [feature_importances, leading_directions])
def test_refusals(function):
    linear = Metric.identity(13)
    gated = GatedMetric([linear, linear], np.zeros((2, 13)), [0, 0])
    kernel = MaxMarginMetric(kernel="rbf", random_state=0).fit(X[::4], Y[::4]).metric_
    broken = X.copy()
    broken[3, 3] = np.nan
    for metric, points, message in [
        (gated, X, "gated"),
        (kernel, X, "kernel"),
        ("metric", X, "got str"),
        (linear, broken, "NaN"),
        (linear, X[:, :5], "13 features"),
        (linear, X[:1], "distances are zero"),
        (Metric(np.zeros((1, 13))), None, "distances are zero"),
    ]:
        with pytest.raises(ValueError, match=message):
            function(metric, points)


def test_numbers_of_directions_are_checked(metric):
    with pytest.raises(ValueError, match="at least 1"):
        leading_directions(metric, k=0)


class TestSpreads:
    def test_are_those_of_uncorrelated_points(self, rng):
        X = rng.normal(size=(500, 3)) * [1.0, 10.0, 0.1]
        X = np.linalg.qr(X - X.mean(axis=0))[0] * [1.0, 10.0, 0.1]
        metric = Metric(rng.normal(size=(2, 3)))
        spreads = feature_spreads(metric, X)
        np.testing.assert_allclose(spreads, X.std(axis=0))
        np.testing.assert_allclose(
            feature_importances(metric, spreads=spreads), feature_importances(metric, X)
        )
        one, other = leading_directions(metric, spreads=spreads), leading_directions(metric, X)
        for a, b in zip(one, other, strict=True):
            assert a.features == b.features
            np.testing.assert_allclose(a.loadings, b.loadings)

    def test_of_unit_rows(self):
        metric = Metric(np.eye(2), unit_rows=True)
        X = np.array([[3.0, 4.0], [0.0, 9.0]])
        np.testing.assert_allclose(feature_spreads(metric, X), [0.3, 0.1])

    @pytest.mark.parametrize("spreads", [[1.0], [1.0, -1.0], [1.0, np.nan]])
    def test_refuses(self, spreads):
        with pytest.raises(ValueError, match="2 finite numbers"):
            feature_importances(Metric.identity(2), spreads=spreads)
        with pytest.raises(ValueError, match="not both"):
            leading_directions(Metric.identity(2), np.eye(2), spreads=[1.0, 1.0])


def test_loadings_of_columns():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(50, 3))
    points[:, 2] = points[:, 1] + 0.01 * rng.normal(size=50)
    metric = Metric([[1.0, 40.0, -40.0]], ["a", "b", "c"])
    (alone,) = leading_directions(metric, points)
    assert alone.features[:2] in (("b", "c"), ("c", "b"))
    (together,) = leading_directions(metric, points, columns=["a", "date", "date"])
    assert together.features == ("a", "date")
    sizes = np.array([points[:, 0].std(), (40 * (points[:, 1] - points[:, 2])).std()])
    np.testing.assert_allclose(together.loadings, sizes / np.linalg.norm(sizes))
    (spread,) = leading_directions(metric, spreads=[1, 1, 1], columns=["a", "date", "date"])
    np.testing.assert_allclose(
        spread.loadings, np.array([np.hypot(40, 40), 1]) / np.hypot(1, 40 * 2**0.5)
    )
    with pytest.raises(ValueError, match="3 features need one column each; got 1"):
        leading_directions(metric, points, columns=["a"])


class TestBent:
    """Metrics with trees and pieces: a linear metric of what their maps give."""

    @pytest.fixture
    def parts(self, rng):
        ramps = PieceMap.fit(X, 3)
        pieces = Metric(rng.normal(size=(4, ramps.n_components)) / 50, feature_map=ramps)
        linear = Metric(np.diag(1 / X.std(axis=0))[:5])
        return linear, ForestMetric(n_trees=10).fit(X, Y).metric_, pieces

    def test_a_sum_has_the_shares_of_its_parts_by_their_distances(self, parts):
        size = [(part.distances(X) ** 2).mean() for part in parts]
        expected = sum(
            s * feature_importances(part, X) for s, part in zip(size, parts, strict=True)
        )
        found = feature_importances(Metric.sum(parts), X)
        np.testing.assert_allclose(found, expected / sum(size), rtol=1e-5, atol=1e-7)

    def test_trees_have_the_shares_of_their_splits(self, parts):
        forest = parts[1]
        np.testing.assert_allclose(feature_importances(forest, X), forest.feature_map.importances)

    def test_columns_have_the_sums_of_their_ramps(self, parts):
        pieces = parts[2]
        ramps = feature_importances(Metric(pieces.L), pieces.feature_map.transform(X))
        expected = [ramps[pieces.feature_map.column == j].sum() for j in range(13)]
        np.testing.assert_allclose(feature_importances(pieces, X), expected)

    def test_errors(self, parts):
        with pytest.raises(ValueError, match="need points"):
            feature_importances(parts[1])
        with pytest.raises(ValueError, match="no directions"):
            leading_directions(parts[2], X)
