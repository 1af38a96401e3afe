"""The search against sorted tables of all distances."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from nearfar import GatedMetric, Metric
from nearfar.metrics import gallery as module
from nearfar.metrics.gallery import MANHATTAN, Distance, Gallery, Pairwise
from nearfar.numerics import nearest_rows
from nearfar.runtime.progress import OutOfTimeError, deadline

RNG = np.random.default_rng(0)
X, QUERIES = RNG.standard_normal((60, 4)), RNG.standard_normal((25, 4))
LINEAR = Metric(RNG.standard_normal((3, 4)))
GATED = GatedMetric(
    [LINEAR, Metric(RNG.standard_normal((2, 4)))], RNG.standard_normal((2, 4)), [0.0, 0.0]
)


def canberra(A, B):
    return cdist(A, B, metric="canberra")


METRICS = {
    "linear": (LINEAR, LINEAR.distances),
    "gated": (GATED, GATED.distances),
    "L1": (Distance(np.asarray, MANHATTAN), lambda A, B: cdist(A, B, metric="cityblock")),
    "a function": (Distance(np.asarray, Pairwise(canberra, None)), canberra),
    "a map": (Distance(lambda A: 2 * A[:, :2]), lambda A, B: 2 * cdist(A[:, :2], B[:, :2])),
}


@pytest.fixture(params=METRICS)
def gallery_and_distances(request):
    metric, distances = METRICS[request.param]
    return Gallery(metric, X), distances


@pytest.fixture(params=["whole", "tables", "tiles"])
def route(request, monkeypatch):
    """Take every path: as it comes, in small tables, or in tiles."""
    if request.param == "tiles":
        monkeypatch.setattr(module, "_FEW", 1)
        monkeypatch.setattr(nearest_rows, "_TILE_COLUMNS", 7)
        monkeypatch.setattr(nearest_rows, "_BLOCK_QUERIES", 4)
        monkeypatch.setattr(nearest_rows, "_FIRST_COLUMNS", 1)
        monkeypatch.setattr(nearest_rows, "_MAX_CANDIDATES", 60)
    elif request.param == "tables":
        monkeypatch.setattr(module, "_FEW", 10**9)
        monkeypatch.setattr(module, "_MAX_ELEMENTS", 100)


@pytest.mark.usefixtures("route")
class TestAgainstTables:
    @pytest.mark.parametrize("k", [1, 7, 60])
    def test_queries(self, gallery_and_distances, k):
        gallery, distances = gallery_and_distances
        table = distances(QUERIES, X)
        found, indices = gallery.search(QUERIES).nearest(k)
        np.testing.assert_array_equal(indices, np.argsort(table, axis=1)[:, :k])
        np.testing.assert_allclose(found, np.sort(table, axis=1)[:, :k], rtol=1e-6)

    @pytest.mark.parametrize("rows", [None, [9, 3, 20]])
    @pytest.mark.parametrize("k", [1, 59])
    def test_rows_of_the_gallery(self, gallery_and_distances, rows, k):
        gallery, distances = gallery_and_distances
        table = distances(X, X)
        np.fill_diagonal(table, np.inf)
        table = table if rows is None else table[rows]
        found, indices = gallery.search(rows=rows).nearest(k)
        np.testing.assert_array_equal(indices, np.argsort(table, axis=1)[:, :k])
        np.testing.assert_allclose(found, np.sort(table, axis=1)[:, :k], rtol=1e-6)

    def test_rankings_of_different_depth(self, gallery_and_distances):
        gallery, distances = gallery_and_distances
        order = np.argsort(distances(QUERIES, X), axis=1)
        depth = np.random.default_rng(1).integers(0, 60, size=len(QUERIES))
        depth[3] = 0
        seen = []
        for rows, found in gallery.search(QUERIES).ranked(depth):
            np.testing.assert_array_equal(found, order[rows, : found.shape[1]])
            assert (depth[rows] <= found.shape[1]).all()
            seen += rows.tolist()
        assert sorted(seen) == np.flatnonzero(depth).tolist()

    def test_tables(self, gallery_and_distances):
        gallery, distances = gallery_and_distances
        for queries in (QUERIES, None):
            expected = distances(X if queries is None else queries, X)
            if queries is None:
                np.fill_diagonal(expected, np.inf)
            parts = list(gallery.search(queries).tables())
            rows = np.concatenate([numbers for numbers, _ in parts])
            table = np.vstack([values for _, values in parts])
            assert sorted(rows) == list(range(len(expected)))
            squared = gallery.pairwise.euclidean
            np.testing.assert_allclose(table, expected[rows] ** (2 if squared else 1), atol=1e-9)

    @pytest.mark.parametrize("k", [1, 3, 19])
    def test_among_equal_rows_none_finds_itself(self, k):
        search = Gallery(Metric.identity(2), np.ones((20, 2))).search()
        found = np.full((20, k), -1)
        for rows, indices in search.ranked(np.full(20, k)):
            found[rows] = indices
        for indices in (found, search.nearest(k)[1]):
            assert not (indices == np.arange(20)[:, None]).any()
            assert all(len(set(row)) == k for row in indices.tolist())


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_data_far_from_the_origin(offset):
    rounded = np.round(X, 3)
    table = LINEAR.distances(rounded)
    np.fill_diagonal(table, np.inf)
    found = Gallery(LINEAR, rounded + offset).search().nearest(2)[0]
    np.testing.assert_allclose(found, np.sort(table, axis=1)[:, :2], rtol=1e-4)


def test_float32():
    expected = Gallery(LINEAR, X).search(QUERIES).nearest(3)
    found = Gallery(LINEAR, X.astype(np.float32)).search(QUERIES.astype(np.float32)).nearest(3)
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)


@pytest.mark.parametrize("metric", [LINEAR, GATED])
def test_a_gallery_can_be_copied_and_pickled(metric):
    gallery = Gallery(metric, X)
    expected = gallery.search(QUERIES).nearest(2)[1]
    for other in (copy.deepcopy(gallery), pickle.loads(pickle.dumps(gallery))):
        np.testing.assert_array_equal(other.search(QUERIES).nearest(2)[1], expected)


def test_no_queries():
    for metric in (LINEAR, GATED):
        distances, indices = Gallery(metric, X).search(QUERIES[:0]).nearest(2)
        assert distances.shape == indices.shape == (0, 2)


def test_a_deadline_ends_a_search():
    with deadline(-1), pytest.raises(OutOfTimeError):
        Gallery(LINEAR, X).search(QUERIES).nearest(2)


@pytest.mark.parametrize("k", [0, 61])
def test_bad_depth(k):
    with pytest.raises(ValueError, match="n_neighbors must be from 1 to 60"):
        Gallery(LINEAR, X).search(QUERIES).nearest(k)


def test_queries_or_rows():
    with pytest.raises(ValueError, match="either queries or rows"):
        Gallery(LINEAR, X).search(X, rows=[1])


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_distances_that_overflow():
    for values in (X * 1e200, np.where(X.max() == X, np.inf, X)):
        with pytest.raises(ValueError, match="not finite"):
            Gallery(LINEAR, values).search().nearest(1)
