import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from nearfar import open_rows
from nearfar.rows import Moments, column_ranges, column_variances, gram
from nearfar.rows import rows as base


@pytest.fixture(name="X")
def points():
    rng = np.random.default_rng(0)
    return rng.standard_normal((300, 4)) * [1, 1e-3, 50, 0] + [0, 1e3, -20, 7]


@pytest.fixture
def rows(X, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "_PIECE_BYTES", 1000)
    np.save(tmp_path / "X.npy", X)
    return open_rows(tmp_path / "X.npy")


def test_moments_are_those_of_scikit_learn(X, rows):
    scaler, moments = StandardScaler().fit(X), Moments.of(rows)
    assert moments.n == 300
    np.testing.assert_allclose(moments.mean, scaler.mean_, rtol=1e-13)
    np.testing.assert_allclose(moments.variance, scaler.var_, rtol=1e-10, atol=1e-20)
    np.testing.assert_allclose(moments.spread, scaler.scale_, rtol=1e-10)
    np.testing.assert_array_equal(moments.smallest, X.min(axis=0))
    np.testing.assert_array_equal(moments.largest, X.max(axis=0))


def test_statistics_of_rows_are_those_of_the_array(X, rows):
    for statistic in (column_variances, column_ranges, gram):
        np.testing.assert_allclose(statistic(rows), statistic(X), rtol=1e-10, atol=1e-20)


def test_rows_are_read_once(rows, monkeypatch):
    first = Moments.of(rows)
    monkeypatch.setattr(type(rows), "read", None)
    assert Moments.of(rows) is first


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_seen(X, value, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "_PIECE_BYTES", 400)
    X[[251, 299], [1, 0]] = value
    np.save(tmp_path / "X.npy", X)
    rows = open_rows(tmp_path / "X.npy")
    assert len(rows.pieces) > 17
    assert Moments.of(rows).first_bad == 251


def test_sums_that_overflow_are_finite(tmp_path):
    np.save(tmp_path / "X.npy", np.full((4, 1), 1e308))
    assert Moments.of(open_rows(tmp_path / "X.npy")).first_bad is None
