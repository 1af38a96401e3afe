import pickle

import numpy as np
import pytest

from nearfar import open_rows
from nearfar.numerics import tiled_edges
from nearfar.numerics.edges import SignedEdges, edges_of
from nearfar.numerics.tiled_edges import TiledEdges
from nearfar.rows import rows as base

N, D, M = 500, 7, 2000


@pytest.fixture(params=["pairs", "triplets", "triplets of few edges"])
def ends(request):
    rng = np.random.default_rng(0)
    if request.param == "pairs":
        a, b = rng.integers(0, N, (2, M))
        a[:50], b[:50] = b[50:100], a[50:100]
        return a, b
    a, far, near = rng.integers(0, N, (3, M))
    if request.param == "triplets of few edges":
        a, far, near = a % 40, far % 40 + 400, near % 40 + 200
        a[0], far[0], near[0] = N - 1, 0, 1
    return a, far, near


@pytest.fixture(params=[3, 100_000], ids=["many bands", "bands of the usual number"])
def edges(request, ends, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "_PIECE_BYTES", 1500)
    monkeypatch.setattr(tiled_edges, "_BAND_BYTES", request.param * 1500)
    monkeypatch.setattr(tiled_edges, "_BLOCK_MEMBERS", 300)
    monkeypatch.setattr(tiled_edges, "_TILE_EDGES", 16)
    X = np.random.default_rng(1).standard_normal((N, D))
    np.save(tmp_path / "X.npy", X)
    return SignedEdges(X, *ends), TiledEdges(open_rows(tmp_path / "X.npy"), *ends)


def test_edges_are_the_same(edges):
    plain, tiled = edges
    assert len(tiled) == len(plain)
    assert len(tiled.bands) > 3
    found = set()
    for band in tiled.bands:
        for part, inside in band.tiles():
            i, j = band.i[inside] + band.rows.start, band.j[inside] + part.start
            found |= set(zip(i.tolist(), j.tolist(), strict=True))
    assert found == set(zip(plain.i.tolist(), plain.j.tolist(), strict=True))


def test_sums_are_the_same(edges):
    plain, tiled = edges
    rng = np.random.default_rng(1)
    u, v, P = rng.standard_normal(M), rng.standard_normal(D), rng.standard_normal((N, 3))
    np.testing.assert_allclose(tiled.gram(u), plain.gram(u), atol=1e-10)
    np.testing.assert_allclose(tiled.gram_operator(u) @ v, plain.gram_operator(u) @ v, atol=1e-10)
    for Q in (P, P[:, 0]):
        np.testing.assert_allclose(tiled.gram_product(u, Q), plain.gram_product(u, Q), atol=1e-10)
    np.testing.assert_allclose(tiled.pull(P), plain.pull(P), atol=1e-10)


def test_distances_are_the_same(edges):
    plain, tiled = edges
    rng = np.random.default_rng(2)
    v, L, weight = rng.standard_normal(D), rng.standard_normal((3, D)), rng.random(M)
    np.testing.assert_allclose(tiled.margins(v), plain.margins(v), atol=1e-10)
    np.testing.assert_allclose(
        tiled.embedding_distances(tiled.project(L.T)),
        plain.embedding_distances(plain.project(L.T)),
        atol=1e-10,
    )
    for map_ in (None, L):
        for weights in (None, weight):
            found, expected = tiled.distances(map_, weights), plain.distances(map_, weights)
            np.testing.assert_allclose(found[0], expected[0], atol=1e-10)
            assert found[1] == pytest.approx(expected[1])


def test_bands_are_sent_with_their_edges(edges):
    _, tiled = edges
    band = tiled.bands[0]
    sent = pickle.loads(pickle.dumps(band))
    np.testing.assert_array_equal(sent.i, band.i[:])
    np.testing.assert_array_equal(sent.distances(tiled.X, None), band.distances(tiled.X, None))


def test_single_precision_stays_single(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    ends = rng.integers(0, N, (3, M))
    plain, tiled = SignedEdges(X, *ends), TiledEdges(open_rows(tmp_path / "X.npy"), *ends)
    v, u = rng.standard_normal(D), rng.random(M)
    assert tiled.margins(v).dtype == tiled.distances()[0].dtype == np.float32
    np.testing.assert_allclose(tiled.margins(v), plain.margins(v), atol=3e-5)
    np.testing.assert_allclose(tiled.gram(u.astype(np.float32)), plain.gram(u), atol=1e-3)


def test_a_row_without_edges_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "_PIECE_BYTES", 8 * 10)
    np.save(tmp_path / "X.npy", np.arange(100.0)[:, None])
    rows = open_rows(tmp_path / "X.npy")
    edges = TiledEdges(rows, np.array([0]), np.array([99]))
    read = []
    monkeypatch.setattr(
        type(rows), "read", lambda self, part: (read.append(part), np.zeros((10, 1)))[1]
    )
    edges.distances()
    assert slice(90, 100) in read
    first = edges.bands[0]
    assert [part for part, _ in first.tiles()] == [slice(90, 100), slice(0, 10)]


def test_few_rows_are_kept(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    np.save(tmp_path / "X.npy", X)
    a, b = rng.integers(0, N // 20, (2, 40)) * 20
    plain, kept = SignedEdges(X, a, b), edges_of(open_rows(tmp_path / "X.npy"), a, b)
    assert type(kept) is SignedEdges
    assert len(kept.X) <= N // 8
    w, v = rng.standard_normal(len(a)), rng.standard_normal(D)
    np.testing.assert_allclose(kept.gram(w), plain.gram(w), atol=1e-12)
    np.testing.assert_allclose(kept.margins(v), plain.margins(v), atol=1e-12)
    many = rng.integers(0, N, (2, N))
    assert type(edges_of(open_rows(tmp_path / "X.npy"), *many)) is TiledEdges
