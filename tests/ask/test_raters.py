"""People who do not look at the objects are noticed; those who do are not."""

from __future__ import annotations

import numpy as np
import pytest

from ask.conftest import make_collection
from nearfar import datasets
from nearfar.ask import Chooser, Judgement, Question
from nearfar.ask.progress import FALSE_ALARMS, people, without_looking
from nearfar.frames.judgements import read_answers


def sides(answers, **more):
    """Return answers to questions about different objects."""
    objects = [(n, n + 1, n + 2) for n in range(len(answers))]
    return [Judgement(Question(o), a, **more) for o, a in zip(objects, answers, strict=True)]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["left"] * 40, "left in 40 of 40"),
        (["right"] * 36 + ["left"] * 4, "right in 36 of 40"),
        (["left"] * 20 + ["right"] * 20, "same side as before in 38 of 39"),
        (["left", "right"] * 20, "other side than before in 39 of 39"),
        (["left", "unsure"] * 20, "left in 20 of 20"),
    ],
)
def test_sides(answers, said):
    share, notes = without_looking(sides(answers))
    assert share > 0.7
    assert said in notes


def test_a_page_that_is_answered_without_looking_weighs_little(tmp_path):
    collection = make_collection(tmp_path / "answers.db")
    for person, answer in [("Ann", "left")] * 40 + [("Ben", None)] * 40:
        asked = collection.questions(person)[0]
        _, left, right = collection.objects.X[list(asked.question.objects)]
        looked = "left" if left[0] > right[0] else "right"
        assert collection.answer(person, asked.id, answer or looked, 2.0)
    collection.measure()
    ann, ben = collection.people
    assert ann.weight < 0.1
    assert "left in" in ann.notes[0]
    assert ben.notes == ()
    collection.store.close()
    stored = read_answers(tmp_path / "answers.db")[0].select("person", "weight").unique().rows()
    assert dict(stored) == {"Ann": ann.weight, "Ben": ben.weight}


def test_too_fast_to_have_looked():
    answers = np.random.default_rng(0).choice(["left", "right"], 40).tolist()
    share, notes = without_looking(sides(answers, seconds=0.1))
    assert share > 0.9
    assert notes == ["40 of 40 within 0.3 s"]
    slips = sides(answers[:2], seconds=0.1) + sides(answers[2:], seconds=0.9)
    assert without_looking(slips) == (0.0, [])
    assert without_looking(sides(answers, seconds=float("nan"))) == (0.0, [])


def test_people_who_look_are_left_alone():
    """Sides are exchanged at random, whatever people find alike."""
    random = np.random.default_rng(0)
    alarms = 0
    for _ in range(1500):
        unsure = random.uniform(0, 0.5)
        p = [(1 - unsure) / 2, (1 - unsure) / 2, unsure]
        answers = random.choice(["left", "right", "unsure"], random.integers(1, 300), p=p)
        alarms += without_looking(sides(answers.tolist()))[0] > 0
    assert alarms <= 3  # of which more are expected in one of a hundred thousand runs
    assert FALSE_ALARMS == 1e-4


def test_answers_about_shoes_raise_no_alarm():
    shoes = datasets.load("shoes")
    picked = {(a, *sorted((b, c))): b for a, b, c in np.asarray(shoes.triplets).tolist()}
    chooser = Chooser(shoes.X, random_state=0)
    for number in range(200):
        person = ["Ann", "Ben"][number % 2]
        question = chooser.next(person, among=np.array(list(picked)))
        answer = "left" if picked[question.key] == question.objects[1] else "right"
        chooser.add(question, answer, person=person, seconds=1.0)
    assert [person.notes for person in people(chooser)] == [(), ()]


def test_pairs_have_no_sides():
    judged = [Judgement(Question((n, n + 1)), "different") for n in range(60)]
    assert without_looking(judged) == (0.0, [])
