"""Which search mines triplets, what it finds, and what it says of itself."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import BoostMetric, FrobMetric, NearestTriplets, Triplets, open_rows
from nearfar.constraints import Mining, approximate_mining, mining, mining_reports
from nearfar.constraints.approximate_mining import approximate_neighbors
from nearfar.constraints.mining import class_neighbors
from nearfar.rows import base

N = 1200


@pytest.fixture
def clustered():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 6, N)
    X = 3 * rng.standard_normal((6, 8))[y] + rng.standard_normal((N, 8))
    return X, y


@pytest.fixture
def beyond_exact(monkeypatch):
    """Let a search of all rows be too expensive."""
    monkeypatch.setattr(mining, "EXACT_PRODUCTS", 300.0 * N * 72)
    monkeypatch.setattr(mining, "FEWEST_ANCHORS", 50)


def share_found(ours, theirs):
    """Return the share of exact neighbours that were found, and how far a sample may be from it.

    The limit is five standard errors of a sample of as many rows as the search measures.
    """
    both = [len(np.intersect1d(a, b)) for a, b in zip(ours, theirs, strict=True)]
    shares = np.array(both) / theirs.shape[1]
    return shares.mean(), 5 * shares.std() / np.sqrt(approximate_mining._SAMPLE)


def mined(strategy, X, y, seed=0):
    with mining_reports() as reports:
        triplets = strategy(X, y, np.random.RandomState(seed))
    (report,) = reports
    return triplets.index, report


def test_small_problems_are_exact(clustered):
    X, y = clustered
    index, report = mined(NearestTriplets(), X, y)
    assert report == Mining("exact", N, N)
    np.testing.assert_array_equal(index, mined(NearestTriplets(search="exact"), X, y)[0])
    targets, impostors = class_neighbors(X, y, 3, 3)
    np.testing.assert_array_equal(index[::9, 1:], np.column_stack([targets[:, 0], impostors[:, 0]]))


@pytest.mark.parametrize("on_disk", [False, True])
def test_anchors_have_their_exact_triplets(clustered, on_disk, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "_PIECE_BYTES", 4000)
    X, y = clustered
    np.save(tmp_path / "X.npy", X)
    points = open_rows(tmp_path / "X.npy") if on_disk else X
    index, report = mined(NearestTriplets(2, 3, anchors=40), points, y)
    assert report == Mining("anchors", N, 40)
    anchors = np.unique(index[:, 0])
    assert len(anchors) == 40
    everything = NearestTriplets(2, 3)(X, y).index
    np.testing.assert_array_equal(index, everything[np.isin(everything[:, 0], anchors)])
    again = NearestTriplets(2, 3, search="anchors", anchors=40)
    np.testing.assert_array_equal(index, mined(again, X, y)[0])
    assert len(np.setdiff1d(mined(again, X, y, seed=1)[0][:, 0], anchors))


def test_anchors_have_companions():
    y = np.append(np.arange(100), [0, 1])
    index = NearestTriplets(1, 1, anchors=3)(np.arange(102.0)[:, None], y).index
    assert set(index[:, 0]) <= {0, 1, 100, 101}


def test_the_number_of_anchors_follows_from_the_cost(clustered, beyond_exact, monkeypatch):
    monkeypatch.setattr(mining, "has_faiss", lambda: False)
    X, y = clustered
    assert mined(NearestTriplets(), X, y)[1] == Mining("anchors", N, 300)
    monkeypatch.setattr(mining, "FEWEST_ANCHORS", 400)
    assert mined(NearestTriplets(), X, y)[1] == Mining("anchors", N, 400)


@pytest.mark.parametrize("n_classes", [2, 6, 200])
def test_approximate_recall(n_classes, rng):
    y = rng.integers(0, n_classes, 3000)
    X = 2 * rng.standard_normal((n_classes, 8))[y] + rng.standard_normal((3000, 8)) + 100
    found = approximate_neighbors(X, y, 3, 2, np.random.RandomState(0))
    exact = class_neighbors(X, y, 3, 2)
    for ours, theirs, stated in zip(
        (found.targets, found.impostors),
        exact,
        (found.target_recall, found.impostor_recall),
        strict=True,
    ):
        recall, limit = share_found(ours, theirs)
        assert recall >= approximate_mining.RECALL - limit
        assert abs(recall - stated) <= limit
    assert (found.targets != np.arange(3000)[:, None]).all()
    inside, outside = found.targets >= 0, found.impostors >= 0
    assert (y[found.targets] == y[:, None])[inside].all()
    assert (y[found.impostors] != y[:, None])[outside].all()


def test_approximate_triplets_are_reproducible(clustered):
    X, y = clustered
    strategy = NearestTriplets(search="approximate")
    first, report = mined(strategy, X, y)
    np.testing.assert_array_equal(first, mined(strategy, X, y)[0])
    assert report.search == "approximate"
    found = approximate_neighbors(X, y, 3, 3, np.random.RandomState(0))
    recalls = [found.target_recall, found.impostor_recall]
    assert [report.target_recall, report.impostor_recall] == recalls


def test_recall_is_measured(clustered, monkeypatch):
    """An index that looks at one cell of many misses neighbours, and says so."""
    X, y = clustered
    monkeypatch.setattr(approximate_mining, "RECALL", 0.0)
    monkeypatch.setattr(approximate_mining, "_FIRST_PROBES", 1)
    found = approximate_neighbors(X, y, 3, 3, np.random.RandomState(0))
    recall, limit = share_found(found.targets, class_neighbors(X, y, 3, 3)[0])
    assert recall + limit < 1
    assert abs(found.target_recall - recall) <= limit


def test_small_classes_and_equal_rows():
    y = np.repeat([0, 1, 2], [1, 2, 60])
    found = approximate_neighbors(np.zeros((63, 2)), y, 3, 3, np.random.RandomState(0))
    assert (found.targets[0] == -1).all()
    assert (np.sort(found.targets[1:3], axis=1) == [[-1, -1, 2], [-1, -1, 1]]).all()
    assert found.target_recall == found.impostor_recall == 1.0


def test_beyond_the_exact_size(clustered, beyond_exact, tmp_path):
    X, y = clustered
    np.save(tmp_path / "X.npy", X)
    assert mined(NearestTriplets(), X, y)[1].search == "approximate"
    assert mined(NearestTriplets(), open_rows(tmp_path / "X.npy"), y)[1].search == "anchors"


def test_what_cannot_be_searched(clustered, tmp_path, monkeypatch):
    X, y = clustered
    np.save(tmp_path / "X.npy", X)
    strategy = NearestTriplets(search="approximate")
    with pytest.raises(ValueError, match=r"needs rows in memory.*search='anchors'"):
        strategy(open_rows(tmp_path / "X.npy"), y)
    monkeypatch.setattr(mining, "has_faiss", lambda: False)
    with pytest.raises(ImportError, match=r"install nearfar\[faiss\]"):
        strategy(X, y)
    with pytest.raises(ValueError, match="search must be"):
        NearestTriplets(search="fast")
    with pytest.raises(ValueError, match="anchors must be"):
        NearestTriplets(anchors=0)
    with pytest.raises(ValueError, match="takes no anchors"):
        NearestTriplets(search="exact", anchors=5)


def test_learners_say_how_triplets_were_mined(clustered, capsys):
    X, y = clustered
    strategy = NearestTriplets(anchors=30)
    learner = BoostMetric(max_iter=2, constraints=strategy, random_state=0, verbose=1).fit(X, y)
    sentence = "Triplets mined exactly for 30 anchors, a random sample of 1,200 rows."
    assert str(learner.mining_) == sentence
    assert learner.history_.notes == learner.history_[:1].notes == (sentence,)
    assert f"BoostMetric: {sentence}\n" in capsys.readouterr().err
    learner.fit(X, Triplets([[0, 1, 2]]))
    assert not hasattr(learner, "mining_")
    assert learner.history_.notes == ()
    assert FrobMetric().fit(X[:100], y[:100]).mining_ == Mining("exact", 100, 100)


def test_sentences():
    assert str(Mining("exact", 1797, 1797)) == "Triplets mined exactly for all 1,797 rows."
    assert str(Mining("approximate", 2000, 2000, 0.987, 0.9, 256)) == (
        "Triplets mined approximately for all 2,000 rows: 98.7 % of the nearest targets and "
        "90.0 % of the nearest impostors were found, measured on 256 rows."
    )


def test_without_targets_none_are_missed(clustered):
    X, _ = clustered
    found = approximate_neighbors(X, np.arange(N), 2, 2, np.random.RandomState(0))
    assert found.target_recall == 1.0
    assert (found.targets == -1).all()
    assert (found.impostors >= 0).all()


def test_more_anchors_than_rows_are_all_rows(clustered):
    X, y = clustered
    index, report = mined(NearestTriplets(2, 2, search="anchors", anchors=2 * N), X, y)
    assert report == Mining("anchors", N, N)
    np.testing.assert_array_equal(index, NearestTriplets(2, 2)(X, y).index)
