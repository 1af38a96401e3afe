"""The chooser's mathematics beside plain references, and its promises."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy.stats import norm

from nearfar.ask import Chooser, Question
from nearfar.ask.models import LogisticPosterior, MetricModel, PlaceModel, predictive_information
from nearfar.ask.progress import learning_curve, measure, people, repeats
from references import question_choice


def problem(n=20, p=4, seed=0):
    rng = np.random.default_rng(seed)
    A, y = rng.normal(size=(n, p)), rng.choice([0.0, 0.5, 1.0], n)
    return A, y, rng.uniform(0.5, 2, n), rng.normal(size=p), rng.uniform(0.5, 2, p)


def test_posterior_beside_reference():
    A, y, weight, mean, variance = problem()
    found = LogisticPosterior.fit(A, y, weight, mean, variance)
    mode, covariance = question_choice.laplace(A, y, weight, mean, variance)
    np.testing.assert_allclose(found.mode, mode, atol=1e-4)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-3, atol=1e-5)


def test_a_pending_question_narrows_the_posterior_as_its_answer_would():
    A, y, weight, mean, variance = problem()
    found = LogisticPosterior.fit(A, y, weight, mean, variance)
    more = np.random.default_rng(1).normal(size=(3, 4))
    p = 1 / (1 + np.exp(-more @ found.mode))
    H = np.linalg.inv(found.covariance) + (more * (p * (1 - p))[:, None]).T @ more
    np.testing.assert_allclose(found.pending(more).covariance, np.linalg.inv(H), rtol=1e-9)


def test_predictive_information_beside_loops():
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=4), rng.uniform(1, 2, 4)
    target_mean, target_variance = rng.normal(size=3), rng.uniform(1, 2, 3)
    covariance = rng.uniform(-0.9, 0.9, size=(3, 4))
    found = predictive_information(mean, variance, covariance, target_mean, target_variance)
    for q in range(4):
        p = question_choice.sigmoid(mean[q])
        total = 0.0
        for t in range(3):
            rho2 = covariance[t, q] ** 2 / target_variance[t] / (variance[q] + 1 / (p * (1 - p)))
            stake = norm.cdf(-abs(target_mean[t]) / np.sqrt(target_variance[t]))
            total += stake * -0.5 * np.log2(1 - rho2) / 3
        assert found[q] == pytest.approx(total)


def test_margins_are_those_of_the_coordinates():
    """Until S is indefinite, d^2 by the parameters is d^2 by the coordinates."""
    X = np.random.default_rng(0).normal(size=(30, 5))
    model = MetricModel(X)
    index = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    P = model.coordinates()
    apart = ((P[index[:, :1]] - P[index[:, 1:]]) ** 2).sum(axis=2)
    np.testing.assert_allclose(model.margins(index)[0], apart[:, 1] - apart[:, 0])


def test_gradients_of_places():
    model = PlaceModel(6, seed=1)
    index = np.array([[0, 1, 2], [3, 4, 5], [1, 0, 5]])
    gradient = model._jacobian(index).toarray()
    for column in range(12):
        step = np.zeros(12)
        step[column] = 1e-6
        ahead, behind = PlaceModel(6), PlaceModel(6)
        ahead.P = model.P + step.reshape(6, 2)
        behind.P = model.P - step.reshape(6, 2)
        slope = (ahead.margins(index)[0] - behind.margins(index)[0]) / 2e-6
        np.testing.assert_allclose(gradient[:, column], slope, rtol=1e-5, atol=1e-7)


def collect(chooser, P, n, person="", flip=0.0, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        question = chooser.next(person)
        anchor, left, right = P[list(question.objects)]
        nearer = np.sum((anchor - left) ** 2) < np.sum((anchor - right) ** 2)
        nearer = nearer != (rng.random() < flip)
        chooser.add(question, "left" if nearer else "right", person=person)


@pytest.fixture(scope="module")
def learned():
    X = np.random.default_rng(0).normal(size=(60, 5))
    chooser = Chooser(X, random_state=0)
    collect(chooser, X @ np.diag([4, 2, 0.3, 0.3, 0.3]), 150)
    return chooser


def test_shares_of_questions(learned):
    origins = [judged.question.origin for judged in learned.judgements]
    assert 0.1 < origins.count("random") / 150 < 0.35
    assert 0 < origins.count("repeat") / 150 < 0.15
    chosen = [j.question.key for j in learned.judgements if j.question.origin == "chosen"]
    assert len(set(chosen)) == len(chosen)


def test_agreement_rises(learned):
    progress = measure(learned)
    assert progress.agreement.value > progress.before.value
    assert progress.agreement.low < progress.agreement.value < progress.agreement.high
    assert -0.2 < progress.lately.value < 0.5
    assert f"The last 50 changed this by {100 * progress.lately.value:+.0f} points" in str(progress)
    counts = [n for n, _ in learning_curve(learned)]
    assert counts[0] == 0
    assert counts[-1] == 150


def test_repeats_of_a_consistent_person_agree(learned):
    agreed = [agrees for *_, agrees in repeats(learned.judgements)]
    assert agreed
    assert set(agreed) == {1.0}


def test_a_person_who_answers_at_random_is_found():
    X = np.random.default_rng(0).normal(size=(60, 5))
    chooser = Chooser(X, random_share=0.6, random_state=0)
    collect(chooser, X @ np.diag([4, 2, 0.3, 0.3, 0.3]), 120, "careful")
    collect(chooser, X, 80, "careless", flip=0.5)
    careful, careless = people(chooser)
    assert careful.weight > 0.9
    assert careful.notes == ()
    assert careless.weight < careful.weight


def test_many_people_get_different_questions_of_few_fits(learned, monkeypatch):
    chooser, pending, fits = copy.deepcopy(learned), [], []
    score = chooser.scores
    monkeypatch.setattr(chooser, "scores", lambda *given: fits.append(1) or score(*given))
    while len(pending) < 150:
        pending.append(chooser.next(pending=pending))
    chosen = [question.key for question in pending if question.origin == "chosen"]
    assert len(set(chosen)) == len(chosen) > 75
    assert len(fits) < len(chosen) / 2
    chooser.next(pending=pending[:3])
    assert chooser._stock == []


def test_removed_answers_are_forgotten():
    X = np.random.default_rng(0).normal(size=(20, 3))
    chooser = Chooser(X)
    question = Question((0, 1, 2), "random")
    chooser.add(question, "unsure")
    chooser.remove(question)
    assert chooser.judgements == []
    with pytest.raises(ValueError, match="no such answer"):
        chooser.remove(question)


def test_wrong_input():
    with pytest.raises(ValueError, match="n_objects must be"):
        Chooser()
    with pytest.raises(ValueError, match="Pairs need vectors"):
        Chooser(n_objects=9, kind="pairs")
    chooser = Chooser(n_objects=9)
    for objects, answer in [((0, 1, 9), "left"), ((0, 1, 1), "left"), ((0, 1, 2), "same")]:
        with pytest.raises(ValueError, match=r"Objects are|different objects|answer must be"):
            chooser.add(objects, answer)


def test_pairs_and_ties():
    X = np.random.default_rng(0).normal(size=(30, 3))
    chooser = Chooser(X, kind="pairs", random_state=0)
    for number in range(30):
        question = chooser.next()
        a, b = X[list(question.objects)]
        near = np.sum((a - b) ** 2) < 3
        chooser.add(question, "unsure" if number == 0 else "same" if near else "different")
    assert len(chooser.pairs()) == 29
    with pytest.raises(ValueError, match="are pairs"):
        chooser.triplets()


@pytest.mark.parametrize("vectors", [True, False])
def test_people_of_weight_0_say_nothing(vectors):
    X = np.random.default_rng(0).normal(size=(20, 3))
    settings = {"X": X} if vectors else {"n_objects": 20}
    both, one = (Chooser(**settings, random_state=0) for _ in range(2))
    random = np.random.default_rng(1)
    for _ in range(8):
        objects = random.choice(20, 3, replace=False)
        both.add(objects, "left", person="Ann")
        one.add(objects, "left", person="Ann")
        both.add(objects[[0, 2, 1]], "left", person="Ben")
    both.weigh({"Ann": 1.0, "Ben": 0.0})
    both.learn()
    one.learn()
    asked = np.array([[0, 1, 2], [3, 4, 5]])
    np.testing.assert_allclose(both.model.margins(asked)[0], one.model.margins(asked)[0], rtol=1e-6)
    assert len(both.triplets()) == 16
    assert both.triplets().weight.sum() == 8


@pytest.mark.parametrize(("flipped", "same"), [("judging", True), ("chosen", False)])
def test_answers_that_judge_do_not_choose(flipped, same):
    X = np.random.default_rng(0).normal(size=(40, 4))
    asked = []
    for flip in (False, True):
        chooser, keys = Chooser(X, repeat_share=0.2, random_state=0), []
        random = np.random.default_rng(1)
        for number in range(60):
            question, side = chooser.next(), random.random() < 0.5
            judging = question.origin != "chosen"
            # The first chosen question has only random ones to go by.
            if flip and number > 10 and judging == (flipped == "judging"):
                side = not side
            chooser.add(question, "left" if side else "right")
            keys.append(question)
        asked.append(keys)
    assert {question.origin for question in asked[0][11:]} == {"chosen", "random", "repeat"}
    assert (asked[0] == asked[1]) == same


def test_a_person_whose_repeats_disagree_weighs_less():
    X = np.random.default_rng(0).normal(size=(60, 5))
    chooser = Chooser(X, random_state=0)
    random = np.random.default_rng(1)
    for number in range(40):
        a, b, c = random.choice(60, 3, replace=False).tolist()
        left = np.sum((X[a] - X[b]) ** 2) < np.sum((X[a] - X[c]) ** 2)
        answer, other = ("left", "right") if left else ("right", "left")
        for person in ("careful", "careless"):
            chooser.add(Question((a, b, c), "random"), answer, person=person)
            changed = answer if person == "careless" and number % 2 else other
            chooser.add(Question((a, c, b), "repeat"), changed, person=person)
    careful, careless = people(chooser)
    assert careful.agreement == careless.agreement
    assert careless.weight < careful.weight == 1.0
