"""Linear metrics: distances by the definition, and arguments that must be refused."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

from nearfar import GatedMetric, Metric
from nearfar.metrics.feature_maps import KernelMap
from nearfar.neighbors import kneighbors


@pytest.fixture
def metric(rng):
    return Metric(rng.standard_normal((3, 5)), feature_names=["a", "b", "ü", "d d", "e"])


def test_distances_are_those_of_the_matrix(metric, rng):
    X, Y = rng.standard_normal((6, 5)), rng.standard_normal((4, 5))
    expected = [[np.sqrt((x - y) @ metric.matrix @ (x - y)) for y in Y] for x in X]
    np.testing.assert_allclose(metric.distances(X, Y), expected, rtol=1e-12)
    assert (np.diag(metric.distances(X)) == 0).all()
    pairs = metric.pair_distances(np.vstack([X, Y]), [[0, 6], [5, 9]])
    np.testing.assert_allclose(pairs, [expected[0][0], expected[5][3]], rtol=1e-12)
    np.testing.assert_allclose(metric.transform(X), X @ metric.L.T)


def test_from_matrix_is_a_factor(rng):
    A = rng.standard_normal((2, 4))
    metric = Metric.from_matrix(A.T @ A)
    assert metric.n_components == 2
    np.testing.assert_allclose(metric.matrix, A.T @ A, atol=1e-12)
    assert Metric.from_matrix(np.zeros((3, 3))).matrix.tolist() == np.zeros((3, 3)).tolist()


@pytest.mark.parametrize(
    ("M", "message"),
    [
        ([[1.0, 2.0]], "square"),
        ([[1.0, 2.0], [0.0, 1.0]], "symmetric"),
        ([[1.0, 0.0], [0.0, -1.0]], "negative"),
        ([[np.nan]], "finite"),
    ],
)
def test_from_matrix_refuses(M, message):
    with pytest.raises(ValueError, match=message):
        Metric.from_matrix(M)


@pytest.mark.parametrize("L", [[1.0, 2.0], [[]], [[np.inf]], np.zeros((0, 3))])
def test_refuses_maps(L):
    with pytest.raises(ValueError, match="metric's L"):
        Metric(L)


def test_refuses_wrong_points(metric):
    with pytest.raises(ValueError, match="5 features; got shape"):
        metric.transform(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="shape"):
        metric.pair_distances(np.zeros((2, 5)), [[0, 1, 2]])
    for rows in ([[0, 2]], [[0, -1]]):
        with pytest.raises(ValueError, match="from 0 to 1"):
            metric.pair_distances(np.zeros((2, 5)), rows)


@pytest.mark.parametrize("library", [pd, pl])
def test_columns_are_found_by_name(library):
    metric = Metric(np.diag([1.0, 2.0]), ["a", "b"])
    frame = library.DataFrame({"b": [1.0, 5.0], "word": ["x", "y"], "a": [0.0, 3.0]})
    assert metric.transform(frame).tolist() == [[0.0, 2.0], [3.0, 10.0]]
    assert metric.transform(frame[["a", "b"]]).tolist() == [[0.0, 2.0], [3.0, 10.0]]
    assert kneighbors(metric, frame, rows=[1], n_neighbors=1)[1].tolist() == [[0]]
    with pytest.raises(ValueError, match="needs the columns a, b; the table lacks a"):
        metric.transform(frame[["b", "word"]])


def test_frozen_after_pickling(metric):
    copy = pickle.loads(pickle.dumps(metric))
    with pytest.raises(ValueError, match="read-only"):
        copy.L[0, 0] = 1.0


def test_extreme_matrices():
    np.testing.assert_allclose(Metric.from_matrix(np.diag([1e308, 1e307])).matrix[0, 0], 1e308)
    np.testing.assert_allclose(Metric.from_matrix(np.diag([1e-300, 0])).matrix[0, 0], 1e-300)


@pytest.mark.parametrize("distances", [[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]])
def test_prefers_the_nearer_row(distances):
    near, far = distances
    expected = 0.5 if near == far else float(near < far)
    assert Metric([[3.0]]).prefers([[0.0], [near], [-far]], [[0, 1, 2]]).tolist() == [expected]


def kinds_of_metrics():
    rng = np.random.default_rng(0)
    plain, other = (Metric(rng.standard_normal((2, 3))) for _ in range(2))
    basis = rng.standard_normal((4, 3))
    kernel = KernelMap(basis, np.eye(4), "rbf", {"gamma": 0.3}, np.zeros(3), np.ones(3))
    return {
        "linear": plain,
        "unit rows": Metric(plain.L, unit_rows=True),
        "gated": GatedMetric([plain, other], rng.standard_normal((2, 3)), [0.0, 0.1]),
        "kernel": Metric(np.eye(4), feature_map=kernel),
    }


@pytest.mark.parametrize("kind", kinds_of_metrics())
def test_the_distance_as_a_function(kind, rng):
    metric, X = kinds_of_metrics()[kind], rng.standard_normal((6, 3))
    distance = pickle.loads(pickle.dumps(metric.get_metric()))
    table = metric.distances(X)
    for i, u in enumerate(X):
        for j, v in enumerate(X):
            assert distance(u, v) == pytest.approx(table[i, j], rel=1e-12)
            assert distance(u.tolist(), v[None], squared=True) == pytest.approx(table[i, j] ** 2)
    assert type(distance(X[0], X[1])) is float


@pytest.mark.parametrize(
    ("u", "v"), [([1, 2, 3, 4], [1, 2, 3]), ([1, 2, 3, 4], [1, 2, 3, 4]), (np.eye(3), np.eye(3))]
)
def test_the_function_refuses_other_points(u, v):
    with pytest.raises(ValueError, match=r"3 features|same shape"):
        kinds_of_metrics()["linear"].get_metric()(u, v)


def feature_map(**changed):
    parts = {
        "points": np.array([[0.0, 0.0], [1.0, 2.0]]),
        "whitening": np.eye(2),
        "kernel": "rbf",
        "parameters": {"gamma": 0.5},
        "center": np.zeros(2),
        "scale": np.ones(2),
    }
    return KernelMap(**parts | changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"whitening": np.eye(3)}, "whitening must be square"),
        ({"center": np.zeros(3)}, "a center and a scale for each feature"),
        ({"points": np.array([[0.0, np.nan], [1.0, 2.0]])}, "must be finite"),
        ({"scale": np.array([1.0, 0.0])}, "scale must not be zero"),
        ({"parameters": {"gama": 0.5}}, "no parameter 'gama'"),
    ],
)
def test_kernel_maps_that_are_refused(changed, message):
    assert feature_map().n_components == 2
    with pytest.raises(ValueError, match=message):
        feature_map(**changed)


def test_a_metric_with_a_kernel():
    metric = Metric(np.eye(2), feature_map=feature_map())
    assert repr(metric) == "<Metric: 2 features -> 2 (kernel) -> 2>"
    x, y = np.array([[0.0, 1.0], [2.0, 1.0]])
    K = [[np.exp(-0.5 * ((a - b) ** 2).sum()) for b in metric.feature_map.points] for a in (x, y)]
    expected = np.linalg.norm(np.subtract(*K))
    assert metric.distances(x[None], y[None]).item() == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="a kernel or trees cannot be exported"):
        _ = metric.linear_map
    with pytest.raises(ValueError, match="gives 2 features, but L expects 3"):
        Metric(np.eye(3), feature_map=feature_map())


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64])
def test_the_function_takes_arrays_of_any_numbers(unit, dtype, rng):
    metric = Metric(rng.standard_normal((2, 3)), unit_rows=unit)
    X = rng.integers(1, 9, (4, 3)).astype(dtype)
    X[0] = 0
    table, distance = metric.distances(X.astype(np.float64)), metric.get_metric()
    found = [[distance(u, v) for v in X] for u in X]
    np.testing.assert_allclose(found, table, rtol=1e-6, atol=1e-7)
