"""OrdinalEmbedding beside a reference with loops, finite differences and known places."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from nearfar import OrdinalEmbedding, Triplets
from nearfar.ask.ordinal_embedding import OrdinalProblem
from references.ordinal_embedding import objective

METHODS = ["soft_ordinal", "crowd_kernel", "t_student"]


def judged(n, m, seed=0, d=2):
    rng = np.random.default_rng(seed)
    P = rng.normal(size=(n, d))
    index = np.array([rng.choice(n, 3, replace=False) for _ in range(m)])
    apart = ((P[index[:, :1]] - P[index[:, 1:]]) ** 2).sum(axis=2)
    return P, np.where((apart[:, 0] < apart[:, 1])[:, None], index, index[:, [0, 2, 1]])


@pytest.mark.parametrize("method", METHODS)
def test_objective_and_gradient(method):
    P, index = judged(7, 25)
    settings = OrdinalEmbedding(2, loss=method)
    problem = OrdinalProblem.of(Triplets(index), 7, settings, 0.3)
    value, gradient = problem.evaluate(P)
    assert value == pytest.approx(objective(P, index, method, alpha=1.0, penalty=0.3))
    rng = np.random.default_rng(1)
    for _ in range(5):
        V = rng.normal(size=P.shape)
        ahead, behind = (problem.evaluate(P + step * V)[0] for step in (1e-5, -1e-5))
        assert (ahead - behind) / 2e-5 == pytest.approx(np.sum(gradient * V), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_places_are_found_again(method):
    _, index = judged(40, 4000)
    found = OrdinalEmbedding(2, loss=method, random_state=0).fit(index[:3000])
    assert found.embedding_.shape == (40, 2)
    assert found.score(index[3000:]) > 0.9
    np.testing.assert_allclose(found.embedding_.mean(axis=0), 0, atol=1e-9)
    widths = found.embedding_.std(axis=0)
    assert widths[0] >= widths[1]


def test_weights_count_as_copies():
    _, index = judged(10, 60)
    weight = np.tile([1.0, 2.0], 30)
    copies = np.vstack([index, index[weight == 2]])
    P = np.random.default_rng(2).normal(size=(10, 2))
    settings = OrdinalEmbedding(2)
    one = OrdinalProblem.of(Triplets(index, weight), 10, settings, 0.3).evaluate(P)
    two = OrdinalProblem.of(Triplets(copies), 10, settings, 0.3).evaluate(P)
    assert one[0] == pytest.approx(two[0])
    np.testing.assert_allclose(one[1], two[1], atol=1e-12)


def test_wrong_input():
    _, index = judged(10, 60)
    with pytest.raises(ValueError, match="no triplets"):
        OrdinalEmbedding().fit(np.zeros((0, 3), dtype=int))
    with pytest.raises(ValueError, match="loss must be"):
        OrdinalEmbedding(loss="hinge").fit(index)
    with pytest.raises(ValueError, match="n_objects=5"):
        OrdinalEmbedding(n_objects=5).fit(index)
    with pytest.raises(ValueError, match="refer to object 99"):
        OrdinalEmbedding(random_state=0).fit(index).score([[0, 1, 99]])


def test_clone_and_objects_without_triplets():
    _, index = judged(10, 60)
    learner = OrdinalEmbedding(3, n_objects=12, random_state=0)
    assert clone(learner).get_params() == learner.get_params()
    assert learner.fit_transform(index).shape == (12, 3)


def test_the_penalty_is_smaller_without_errors():
    rng = np.random.default_rng(0)
    P = rng.normal(size=(40, 2))
    index = np.array([rng.choice(40, 3, replace=False) for _ in range(1500)])
    far, near = (np.sum((P[index[:, 0]] - P[index[:, k]]) ** 2, axis=1) for k in (2, 1))
    right = np.where((near < far)[:, None], index, index[:, [0, 2, 1]])
    wrong = np.where((rng.random(1500) < 0.3)[:, None], right[:, [0, 2, 1]], right)
    clean, noisy = (OrdinalEmbedding(2, random_state=0).fit(known) for known in (right, wrong))
    assert clean.penalty_ < noisy.penalty_
    assert OrdinalEmbedding(2, penalty=0.7).fit(right).penalty_ == 0.7
    assert OrdinalEmbedding(2).fit(right[:90]).penalty_ == 3.0
