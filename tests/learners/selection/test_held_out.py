"""Likelihoods of held-out data against loops, their gradients, the best weights, and splits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad

from nearfar import GatedMetric, Metric, Pairs, Triplets
from nearfar.learners.selection.held_out import (
    HeldOutNumbers,
    HeldOutPairs,
    HeldOutRows,
    HeldOutTriplets,
    held_out_parts,
    mean_squared_distance,
    optimal_weights,
)
from nearfar.supervision import Chunklets, RandomPairs, RandomTriplets, Supervision

N, D = 40, 3


@pytest.fixture
def table(rng):
    y = np.arange(N) % 4
    return rng.standard_normal((N, D)) + 0.7 * y[:, None] * [1, 0, 0], y


def metrics():
    return [Metric.identity(D), Metric([[1.0, 0, 0]]), Metric([[0, 1.0, 0.3], [0, 0, 2.0]])]


def numbers_of(X, y):
    numbers = 50 + 3 * X[:, 0] + y
    return HeldOutNumbers(X[:12], X[12:], (numbers[:12], numbers[12:]))


def parts_of(X, y):
    rows = np.arange(N)
    state = np.random.RandomState(0)
    return {
        "neighbors": HeldOutRows.among(X, y, rows[:12], rows[12:], "neighbors"),
        "ranking": HeldOutRows.among(X, y, rows[:12], rows[12:], "ranking"),
        "among each other": HeldOutRows.among(X, y, rows[:20], rows[:20], "neighbors"),
        "ranking each other": HeldOutRows.among(X, y, rows[5:20], rows[:20], "ranking"),
        "triplets": HeldOutTriplets(X, RandomTriplets(50)(X, y, state)),
        "weighted triplets": HeldOutTriplets(
            X, Triplets(RandomTriplets(50)(X, y, state).index, state.uniform(0.5, 2, 50))
        ),
        "pairs": HeldOutPairs(X, RandomPairs(50)(X, y, state)),
        "numbers": numbers_of(X, y),
    }


KINDS = list(parts_of(np.zeros((N, D)), np.arange(N) % 4))


def tables(part):
    return np.array([part.table(metric) for metric in metrics()])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(table, kind):
    part = parts_of(*table)[kind]
    values = tables(part).astype(np.float64)
    for w in ([0.5, 0.2, 0.1], [3.0, 1.0, 0.0]):
        error = check_grad(
            lambda w: part.value(w, values)[0], lambda w: part.value(w, values)[1], np.array(w)
        )
        assert error < 1e-4 * len(part)


def log_probability(X, y, query, gallery, L, goal):
    """What is added up for one query, by loops."""
    others = [j for j in gallery if j != query]
    H = {j: float(((L @ (X[query] - X[j])) ** 2).sum()) for j in others}
    total = sum(np.exp(-h) for h in H.values())
    near = [j for j in others if y[j] == y[query]]
    if goal == "ranking":
        return np.mean([-H[j] for j in near]) - np.log(total)
    return np.log(sum(np.exp(-H[j]) for j in near) / total)


@pytest.mark.parametrize(
    ("queries", "gallery"), [(range(12), range(12, N)), (range(5, 20), range(20))]
)
@pytest.mark.parametrize("goal", ["neighbors", "ranking"])
def test_rows_against_loops(table, queries, gallery, goal):
    X, y = table
    part = HeldOutRows.among(X, y, np.array(queries), np.array(gallery), goal)
    M = 0.3 * metrics()[0].matrix + 0.7 * metrics()[2].matrix
    L = Metric.from_matrix(M).L
    expected = sum(log_probability(X, y, i, gallery, L, goal) for i in queries)
    found = part.value(np.array([0.3, 0.0, 0.7]), tables(part))[0]
    assert found == pytest.approx(expected, rel=1e-5)


def test_numbers_against_loops(table):
    part = numbers_of(*table)
    numbers = np.concatenate(part.known)
    L = Metric.from_matrix(0.3 * metrics()[0].matrix + 0.7 * metrics()[2].matrix).L
    expected = 0.0
    for query, actual in zip(part.queries, part.known[0], strict=True):
        weights = [np.exp(-(((L @ (query - row)) ** 2).sum())) for row in part.gallery]
        expected -= (np.average(part.known[1], weights=weights) - actual) ** 2 / numbers.var()
    found = part.value(np.array([0.3, 0.0, 0.7]), tables(part))[0]
    assert found == pytest.approx(expected, rel=1e-4)


def test_triplets_and_pairs_against_loops(table):
    X, y = table
    parts = parts_of(X, y)
    d2 = Metric([[0.5, 0, 0]]).distances(X) ** 2
    triplets = parts["triplets"]
    expected = sum(-np.log1p(np.exp(d2[a, n] - d2[a, f])) for a, n, f in triplets.triplets.index)
    assert triplets.value(np.array([0, 0.25, 0]), tables(triplets))[0] == pytest.approx(expected)
    pairs = parts["pairs"]

    def likelihood(b):
        return sum(
            -np.log1p(np.exp((d2[i, j] - b) if similar else (b - d2[i, j])))
            for (i, j), similar in zip(pairs.pairs.index, pairs.pairs.similar, strict=True)
        )

    best = max(likelihood(b) for b in np.linspace(-3, 6, 2001))
    found = pairs.value(np.array([0, 0.25, 0]), tables(pairs))[0]
    assert found == pytest.approx(best, abs=1e-3)
    assert found >= best - 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_weights_are_optimal(table, kind):
    part = parts_of(*table)[kind]
    values = tables(part)
    weights, best = optimal_weights([(part, values)], tolerance=1e-14)
    value, gradient = part.value(weights, values)
    assert best == pytest.approx(value / len(part))
    gradient = gradient / len(part)
    assert (weights >= 0).all()
    assert np.abs(gradient[weights > 1e-9]).max(initial=0) < 1e-3
    assert gradient[weights <= 1e-9].max(initial=-1) < 1e-3
    for w in np.random.default_rng(0).exponential(1.0, (200, 3)):
        assert part.value(w, values)[0] / len(part) <= best + 1e-9


@pytest.mark.parametrize("kind", ["neighbors", "ranking"])
@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e3])
def test_the_best_weights_are_found_from_those_of_an_earlier_stage(table, kind, unit):
    # A search whose first step is short beside the weights ended where it began.
    part = parts_of(*table)[kind]
    values = unit * tables(part)
    _, best = optimal_weights([(part, values)], tolerance=1e-12)
    for start in ([4.0, 0.1, 0.2], [0.1, 2.0, 0.05], [0.3, 0.2, 3.0]):
        _, found = optimal_weights([(part, values)], np.array(start) / unit, tolerance=1e-6)
        assert found == pytest.approx(best, rel=0.01)


def test_queries_that_can_find_only_one_kind_are_left_out(table):
    X, _ = table
    y = np.array([0] * 5 + [1] * 34 + [2])
    gallery = np.append(np.arange(5, 30), N - 1)
    part = HeldOutRows.among(X, y, np.array([0, 10]), gallery, "neighbors")
    np.testing.assert_array_equal(part.queries, X[[10]])
    assert HeldOutRows.among(X, np.zeros(N, int), np.arange(3), np.arange(9), "ranking") is None


def test_a_gated_metric_uses_the_part_of_the_query(table):
    X, y = table
    gated = GatedMetric(metrics()[:2], V=[[1, 0, 0], [-1, 0, 0]], b=[0, 0])
    part = parts_of(X, y)["neighbors"]
    np.testing.assert_allclose(
        part.table(gated), gated.distances(part.queries, part.gallery) ** 2, rtol=1e-4, atol=1e-5
    )


def test_mean_squared_distance(table):
    X, _ = table
    gated = GatedMetric(metrics()[:2], V=[[1, 0, 0], [-1, 0, 0]], b=[0, 0])
    for metric in [*metrics(), gated]:
        expected = (metric.distances(X) ** 2).mean()
        assert mean_squared_distance(metric, X) == pytest.approx(expected)


class TestSplits:
    @pytest.mark.parametrize("validation", ["rows", "classes"])
    def test_each_labelled_row_is_held_out_once(self, table, validation):
        y = np.append(table[1][:-1], 9)
        unseen = []
        for split in Supervision.of(y, N).split(4, np.random.RandomState(0), by=validation):
            assert not set(split.rows) & set(split.unseen_rows)
            np.testing.assert_array_equal(split.known.names[split.known.codes], y[split.rows])
            if validation == "classes":
                assert not set(y[split.rows]) & set(y[split.unseen_rows])
            unseen += split.unseen_rows.tolist()
        single = set() if validation == "classes" else {N - 1}
        assert sorted(unseen) == sorted(set(range(N)) - single)

    def test_folds_have_the_same_classes(self, table):
        y = table[1]
        for split in Supervision.of(y, N).split(4, np.random.RandomState(0), by="rows"):
            counts = np.bincount(y[split.unseen_rows], minlength=4)
            assert counts.max() - counts.min() <= 1

    def test_anchors_do_not_leak(self, table):
        X, y = table
        triplets = RandomTriplets(200)(X, y, np.random.RandomState(0))
        for split in Supervision.of(triplets, N).split(4, np.random.RandomState(0), by="rows"):
            assert not set(split.known.given.index[:, 0]) & set(split.unseen.given.index[:, 0])
            assert len(split.known) + len(split.unseen) == 200

    def test_connected_pairs_do_not_leak(self):
        pairs = Pairs(np.arange(N).reshape(-1, 2), np.arange(N // 2) % 2 == 0)
        for split in Supervision.of(pairs, N).split(4, np.random.RandomState(0), by="rows"):
            assert not set(split.known.given.index.ravel()) & set(split.unseen.given.index.ravel())

    def test_chunklets_are_held_out_whole(self, table):
        y = table[1]
        chunklets = Chunklets(np.where(np.arange(N) < 30, y, -1))
        for split in Supervision.of(chunklets, N).split(4, np.random.RandomState(0), by="rows"):
            assert not set(y[split.rows]) & set(y[split.unseen_rows])
            assert max(split.rows.max(), split.unseen_rows.max()) < 30

    def test_parts_end_when_there_is_enough(self, table):
        X, y = table
        options = {"fraction": 0.25, "validation": "rows", "random_state": np.random.RandomState(0)}
        assert len(list(held_out_parts(X, Supervision.of(y, N), enough=1, **options))) == 1
        assert len(list(held_out_parts(X, Supervision.of(y, N), enough=1000, **options))) == 4
        (part,) = held_out_parts(X, Supervision.of(y, N), enough=1, max_rows=15, **options)
        assert len(part.rows) == len(part.supervision) == 15
