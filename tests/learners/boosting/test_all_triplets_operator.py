"""All triplets of labels, never listed, against the list of them."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import AllTriplets
from nearfar.learners.boosting import all_triplets_operator
from nearfar.learners.boosting.all_triplets_operator import AllTripletsOperator
from nearfar.learners.boosting.losses import newton_step
from nearfar.learners.boosting.triplet_operator import TripletOperator
from problems import labelled, set_tiles


def test_results_do_not_depend_on_the_tiles(monkeypatch):
    X, y, rng = labelled()
    L = rng.standard_normal((3, 4))
    results = []
    for size in ((1, 1), (5, 13), (192, 512)):
        set_tiles(monkeypatch, size)
        operator = AllTripletsOperator(X, y)
        loss, u = operator.loss_and_weights(operator.state(L))
        results.append((loss, operator.matrix(u)))
    for loss, A in results[1:]:
        assert loss == pytest.approx(results[0][0], rel=1e-13)
        np.testing.assert_allclose(A, results[0][1], atol=1e-13)


@pytest.mark.parametrize("n_classes", [2, 3, 25])
def test_tiled_equals_listed_in_every_iteration(n_classes, tile_size):
    X, y, _ = labelled(n=30, n_classes=n_classes)
    listed, tiled = TripletOperator(X, AllTriplets()(X, y)), AllTripletsOperator(X, y)
    assert tiled.n_triplets == listed.n_triplets
    assert tiled.unit == pytest.approx(listed.unit, rel=1e-13)
    one, many = listed.start(), tiled.start()
    for _ in range(6):
        (loss, u), (other_loss, v) = listed.loss_and_weights(one), tiled.loss_and_weights(many)
        assert other_loss == pytest.approx(loss, rel=1e-13)
        np.testing.assert_allclose(tiled.matrix(v), listed.matrix(u), atol=1e-12)
        eigenvalue, direction = listed.leading_eigenpair(u)
        if eigenvalue < 1e-9:
            break
        lines = listed.line(one, direction), tiled.line(many, direction)
        assert lines[1].smallest_margin() == pytest.approx(lines[0].smallest_margin(), abs=1e-9)
        for w in (0.0, 0.1 / eigenvalue, 1.0 / eigenvalue):
            assert lines[1].slope(w) == pytest.approx(lines[0].slope(w), rel=1e-9, abs=1e-12)
        steps = [newton_step(line.slope, 0.0, 50 / eigenvalue)[0] for line in lines]
        assert steps[1] == pytest.approx(steps[0], rel=1e-10)
        one, many = lines[0].advance(steps[0]), lines[1].advance(steps[1])


@pytest.mark.parametrize("how", ["exact", "gaussian"])
def test_tiled_thresholds_equal_listed_ones(how, tile_size):
    X, y, rng = labelled(n=40)
    listed, tiled = TripletOperator(X, AllTriplets()(X, y)), AllTripletsOperator(X, y)
    one, many = listed.start(), tiled.start()
    for _ in range(4):
        v = rng.standard_normal(4)
        lines = [
            operator.thresholded_line(state, v, how=how, signed=False)
            for operator, state in ((listed, one), (tiled, many))
        ]
        assert lines[1].threshold == pytest.approx(lines[0].threshold, rel=1e-10)
        assert lines[1].wrong == pytest.approx(lines[0].wrong, abs=1e-12)
        assert lines[1].right == pytest.approx(lines[0].right, abs=1e-12)
        one, many = lines[0].advance(0.3), lines[1].advance(0.3)
        assert tiled.loss_and_weights(many)[0] == pytest.approx(
            listed.loss_and_weights(one)[0], rel=1e-12
        )


def test_steps_that_leave_the_range_of_exp():
    X, y, _ = labelled(n=30, n_classes=2)
    operator = AllTripletsOperator(X, y)
    line = operator.line(operator.start(), np.array([1.0, 0.0, 0.0, 0.0]))
    listed = TripletOperator(X, AllTriplets()(X, y))
    other = listed.line(listed.start(), np.array([1.0, 0.0, 0.0, 0.0]))
    for w in (1e2, 1e4):
        assert line.slope(w)[0] == pytest.approx(other.slope(w)[0], rel=1e-6)
        state = line.advance(w)
        assert operator.loss_and_weights(state)[0] == pytest.approx(
            listed.loss_and_weights(other.advance(w))[0], rel=1e-9
        )


def test_many_pairs_are_not_sorted(monkeypatch):
    monkeypatch.setattr(all_triplets_operator, "MAX_SORTED", 100)
    X, y, _ = labelled()
    operator = AllTripletsOperator(X, y)
    with pytest.raises(ValueError, match="gaussian"):
        operator.thresholded_line(operator.start(), np.ones(4), how="exact", signed=False)


@pytest.mark.parametrize("absolute", [False, True])
def test_the_embedding_never_has_more_columns_than_features(absolute):
    X, y, rng = labelled(n=40)
    listed, tiled = TripletOperator(X, AllTriplets()(X, y)), AllTripletsOperator(X, y)
    one, many = listed.start(), tiled.start()
    for w in rng.standard_normal(15) if absolute else rng.random(15):
        v = rng.standard_normal(4)
        one = listed.line(one, v).advance(0.1 * w)
        many = tiled.line(many, v).advance(0.1 * w)
        assert many.form.P.shape[1] <= 4
        loss, u = listed.loss_and_weights(one)
        other_loss, other_u = tiled.loss_and_weights(many)
        assert other_loss == pytest.approx(loss, rel=1e-10)
        np.testing.assert_allclose(tiled.matrix(other_u), listed.matrix(u), atol=1e-10)
