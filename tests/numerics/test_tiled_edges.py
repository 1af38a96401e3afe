import numpy as np
import pytest

from nearfar import open_rows
from nearfar.numerics import tiled_edges
from nearfar.numerics.edges import Edges
from nearfar.numerics.tiled_edges import TiledEdges, edges_of
from nearfar.rows import base

N, D, M = 500, 7, 2000


@pytest.fixture(params=[3, 100_000], ids=["many bands", "bands of the usual number"])
def edges(request, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "_PIECE_BYTES", 1500)
    monkeypatch.setattr(tiled_edges, "_BAND_BYTES", request.param * 1500)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    np.save(tmp_path / "X.npy", X)
    a, b = rng.integers(0, N, (2, M))
    a[:50], b[:50] = b[50:100], a[50:100]
    return Edges(X, a, b), TiledEdges(open_rows(tmp_path / "X.npy"), a, b)


def test_edges_are_the_same(edges):
    plain, tiled = edges
    assert len(tiled) == len(plain)
    assert len(tiled.bands) > 3
    np.testing.assert_array_equal(tiled.i[tiled.of_pair], plain.i[plain.of_pair])
    np.testing.assert_array_equal(tiled.j[tiled.of_pair], plain.j[plain.of_pair])


def test_sums_are_the_same(edges):
    plain, tiled = edges
    rng = np.random.default_rng(1)
    w, v, P = rng.standard_normal(M), rng.standard_normal(D), rng.standard_normal((N, 3))
    one, other = plain.sum_of_pairs(w), tiled.sum_of_pairs(w)
    np.testing.assert_allclose(tiled.matrix(other), plain.matrix(one), atol=1e-10)
    np.testing.assert_allclose(tiled.operator(other) @ v, plain.operator(one) @ v, atol=1e-10)
    for Q in (P, P[:, 0]):
        np.testing.assert_allclose(
            tiled.laplacian_product(other, Q), plain.laplacian_product(one, Q), atol=1e-10
        )
    np.testing.assert_allclose(tiled.pull(P), plain.pull(P), atol=1e-10)


def test_distances_are_the_same(edges):
    plain, tiled = edges
    rng = np.random.default_rng(2)
    v, L = rng.standard_normal(D), rng.standard_normal((3, D))
    np.testing.assert_allclose(
        tiled.lengths(v)[tiled.of_pair], plain.lengths(v)[plain.of_pair], atol=1e-10
    )
    for map_ in (None, L):
        np.testing.assert_allclose(
            tiled.mapped_distances(map_)[tiled.of_pair],
            plain.mapped_distances(map_)[plain.of_pair],
            atol=1e-10,
        )


def test_the_identity_of_lengths_and_matrix(edges):
    _, tiled = edges
    rng = np.random.default_rng(3)
    w, v = rng.standard_normal(len(tiled)), rng.standard_normal(D)
    assert v @ tiled.matrix(w) @ v == pytest.approx(w @ tiled.lengths(v))


def test_a_row_without_edges_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "_PIECE_BYTES", 8 * 10)
    np.save(tmp_path / "X.npy", np.arange(100.0)[:, None])
    rows = open_rows(tmp_path / "X.npy")
    edges = TiledEdges(rows, np.array([0]), np.array([99]))
    read = []
    monkeypatch.setattr(
        type(rows), "read", lambda self, part: (read.append(part), np.zeros((10, 1)))[1]
    )
    edges.mapped_distances()
    assert slice(90, 100) in read
    first = edges.bands[0]
    assert [part for part, _ in first.tiles()] == [slice(90, 100), slice(0, 10)]


def test_few_rows_are_kept(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    np.save(tmp_path / "X.npy", X)
    a, b = rng.integers(0, N // 20, (2, 40)) * 20
    plain, kept = Edges(X, a, b), edges_of(open_rows(tmp_path / "X.npy"), a, b)
    assert type(kept) is Edges
    assert len(kept.X) <= N // 8
    w, v = rng.standard_normal(len(plain)), rng.standard_normal(D)
    np.testing.assert_allclose(kept.matrix(w), plain.matrix(w), atol=1e-12)
    np.testing.assert_allclose(kept.lengths(v), plain.lengths(v), atol=1e-12)
    many = rng.integers(0, N, (2, N))
    assert type(edges_of(open_rows(tmp_path / "X.npy"), *many)) is TiledEdges


def test_arrays_have_plain_edges():
    assert type(edges_of(np.zeros((2, 1)), np.array([0]), np.array([1]))) is Edges
