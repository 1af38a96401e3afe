"""Soft votes against loops, and what held-out rows choose."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearfar.measures.neighbor_votes import (
    HeldOutVotes,
    LinearPrior,
    Margins,
    Reliability,
    SoftVotes,
)


@pytest.fixture
def rows(rng):
    """Neighbours of 200 rows, of which a quarter has a wrong class."""
    distances = np.sort(rng.uniform(size=(200, 30)), axis=1)
    actual = rng.integers(3, size=200)
    right = rng.uniform(size=(200, 30)) < 0.9 - 0.6 * distances
    found = np.where(right, actual[:, None], rng.integers(3, size=(200, 30)))
    linear = rng.dirichlet(np.ones(3), 200)
    return HeldOutVotes(distances, found, actual, np.array([0.2, 0.3, 0.5]), linear)


@pytest.mark.parametrize(
    "votes", [SoftVotes(5, 2.0, 0.5), SoftVotes(1, 0.0, 2.0, linear=True), SoftVotes(30, 8.0, 10.0)]
)
def test_probabilities_are_those_of_a_loop(rows, votes):
    found = votes.predict(rows)[0]
    for i in range(200):
        d = rows.distances[i, : votes.n_neighbors]
        w = np.exp(-votes.decay * (d / d[-1]) ** 2)
        prior = rows.linear[i] if votes.linear else rows.plain
        sums = [w[rows.found[i, : len(d)] == c].sum() for c in range(3)]
        expected = (np.array(sums) + votes.prior_rows * prior) / (w.sum() + votes.prior_rows)
        np.testing.assert_allclose(found[i], expected)
        share = w.sum() / (w.sum() + votes.prior_rows)
        assert votes.share(rows.distances[i : i + 1])[0] == pytest.approx(share)


def test_numbers_are_those_of_a_loop(rng):
    distances, numbers = np.sort(rng.uniform(size=(9, 5)), axis=1), rng.normal(size=(9, 5))
    base, linear, votes = rng.normal(size=(9, 5)), rng.normal(size=9), SoftVotes(4, 1.0, 3.0, True)
    rows = HeldOutVotes(distances, numbers, rng.normal(size=9), np.float64(0.7), linear, base)
    values, spread = votes.predict(rows)
    for i in range(9):
        w = np.exp(-((distances[i, :4] / distances[i, 3]) ** 2))
        left = numbers[i, :4] - base[i, :4]
        assert values[i] == pytest.approx(linear[i] + w @ left / (w.sum() + 3))
        mean = np.average(left, weights=w)
        assert spread[i] == pytest.approx(np.sqrt(np.average((left - mean) ** 2, weights=w)))


def test_whole_votes_are_those_of_scikit_learn(rng):
    X, y, new = rng.normal(size=(50, 2)), rng.integers(3, size=50), rng.normal(size=(20, 2))
    plain = KNeighborsClassifier(7).fit(X, y)
    distances, near = plain.kneighbors(new)
    found = SoftVotes(7).probabilities(distances, y[near], np.ones(3) / 3)
    np.testing.assert_allclose(found, plain.predict_proba(new))


def test_copies_count_fully():
    votes = SoftVotes(3, 8.0, 1.0)
    np.testing.assert_array_equal(votes.weights(np.zeros((1, 3))), 1)


def take(rows, some):
    arrays = {
        name: getattr(rows, name)[some] for name in ("distances", "found", "actual", "linear")
    }
    return rows._replace(**arrays)


def test_the_choice_has_the_smallest_log_loss_within_noise_of_the_smallest_error(rows):
    def losses(votes):
        p = votes.predict(rows)[0]
        return -np.log(p[np.arange(200), rows.actual]).mean(), (p.argmax(1) != rows.actual).mean()

    found = {votes: losses(votes) for votes in SoftVotes.choices([rows])}
    least = min(error for _, error in found.values())
    allowed = least + 1.5 * np.sqrt(least * (1 - least) / 200)
    best = min((loss, votes) for votes, (loss, error) in found.items() if error <= allowed + 1e-9)
    assert losses(SoftVotes.choose([rows]))[0] == pytest.approx(best[0])
    halves = [take(rows, np.arange(100)), take(rows, np.arange(100, 200))]
    assert SoftVotes.choose(halves) == SoftVotes.choose([rows])
    assert SoftVotes.choose([rows], 5).n_neighbors == 5


def test_fifths_choose_for_each_other(rows):
    chosen = SoftVotes.choose_apart([rows])
    for number in range(5):
        others = take(rows, np.flatnonzero(np.arange(200) % 5 != number))
        assert chosen[1 + number] == SoftVotes.choose([others])


def test_a_linear_model_is_the_prior_where_neighbours_tell_nothing(rng):
    X = rng.normal(size=(400, 20))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    linear = LinearPrior.of(X[:200], y[:200])
    noise = rng.integers(200, size=(200, 30)), np.sort(rng.uniform(size=(200, 30)), axis=1)
    rows = HeldOutVotes.of((noise[1], noise[0]), (y[200:], y[:200]), X[200:], linear)
    chosen = SoftVotes.choose([rows])
    assert chosen.linear
    assert (chosen.predict(rows)[0].argmax(axis=1) == y[200:]).mean() > 0.9


@pytest.mark.parametrize("shape", [(200, 5), (40, 90)])
def test_the_linear_model_is_logistic_regression(rng, shape):
    X, new = 5 + rng.normal(size=shape), 5 + rng.normal(size=(9, shape[1]))
    y = rng.permutation(np.arange(shape[0]) % 3)
    plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    found = LinearPrior.of(X, y)(new)
    np.testing.assert_allclose(found, plain.predict_proba(new), atol=1e-3)


def test_a_linear_model_of_numbers_predicts_rows_that_it_did_not_see(rng):
    X, y = rng.normal(size=(30, 25)), rng.normal(size=30)
    linear = LinearPrior.of(X, y)
    assert np.corrcoef(linear.unseen, y)[0, 1] < 0.5
    assert LinearPrior.of(X, np.ones(30)) is None
    assert LinearPrior.of(X[:10], y[:10]) is None


def test_the_reliability_is_a_curve_of_tenths():
    stated = np.array([0.55, 0.6, 0.95, 1.0, 1.0])
    p = np.column_stack([stated, 1 - stated])
    found = Reliability.of(p, np.array([0, 1, 0, 0, 1]))
    assert found.counted[[5, 9]].tolist() == [2, 3]
    assert found.right[[5, 9]].tolist() == [1, 2]
    assert found.error == pytest.approx((0.15 + 0.95) / 5)
    assert str(found).splitlines()[1].split() == ["50", "to", "60%", "2", "57%", "50%"]


def test_margins_have_the_rank_of_conformal_prediction(rng):
    predicted, actual = np.zeros(99), rng.normal(size=99)
    margins = Margins.of(predicted, np.zeros(99), actual)
    low, high = margins.intervals(np.zeros(1), np.zeros(1), 0.9)[0]
    assert high == -low == pytest.approx(np.sort(np.abs(actual))[89])
