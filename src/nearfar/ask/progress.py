"""How good the answers make the fit, how good it can become, and when to stop.

Only random questions judge. Their answers are predicted by fits that have not seen them
(`FOLDS`-fold; answers to the same question are in the same fold), with a 90 % interval. Answers
that could not tell do not judge.

Repeats set the ceiling. If two answers to a question agree with probability c, and the better
answer has probability p, then c = p^2 + (1 - p)^2. No prediction agrees with more than a share p of
the answers, which is at least c, and at most (1 + sqrt(2 c - 1)) / 2, with equality if all
questions are equally hard.

The expected gain of more answers needs none of them: the posterior after n chosen questions has the
same mean on average, and a covariance that does not depend on the answers. With mean m and variance
s^2 of a margin now, and t^2 after, the later mean is N(m, s^2 - t^2), and the expected agreement of
the later prediction is the mean of Phi(|m'| ...) over it. The gain depends on the scale and on the
spread of the prior, which few answers do not determine: it is the mean over these by their
evidence, each time over the agreement of today's predictions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nearfar.ask.chooser import Chooser
from nearfar.ask.posterior import answer_probability
from nearfar.ask.questions import RANDOM, REPEAT, Judgement, arrays
from nearfar.evaluate.intervals import mean_interval
from nearfar.typing import Vector

FOLDS = 5
"""Parts of the random questions, each predicted from the others."""
MORE = 50
"""Answers whose gain is expected."""
WORTH = 0.01
"""Gain in agreement below which it is worth stopping."""
# Random answers from which on agreement is shown.
_FEWEST = 10
# Questions that are expected to be asked at once: each round takes a choice.
_ROUND = 10
# Random questions that agreement is expected on.
_TARGETS = 300
# Answers of an average person that each person is given, when people are weighed.
_PRIOR_ANSWERS = 10.0


@dataclass(frozen=True)
class Share:
    """A share of answers with its 90 % interval."""

    value: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, right: Vector) -> Share:
        """Return the mean of values from 0 to 1, which are independent."""
        n = len(right)
        value = float(right.mean()) if n else 0.5
        low, high = mean_interval(value, value * (1 - value) / max(n, 1), n)
        return cls(value, low, high, n)

    def __str__(self) -> str:
        low, high = 100 * self.low, 100 * self.high
        return f"{100 * self.value:.0f} % ({low:.0f} to {high:.0f} %)"


@dataclass(frozen=True)
class Person:
    """How a person answers.

    Attributes
    ----------
    name : str
    n_answers : int
    agreement : Share
        With predictions, on random questions.
    at_random : bool
        Whether the agreement is below that of others and may be that of chance.
    weight : float
        From 0, at random, to 1.
    """

    name: str
    n_answers: int
    agreement: Share
    at_random: bool
    weight: float


@dataclass(frozen=True)
class Progress:
    """Where a collection stands.

    Attributes
    ----------
    n_answers, n_unsure : int
    agreement, before : Share or None
        On random questions, with what was learned and without it.
    ceiling : tuple of float or None
        The highest agreement possible is between these.
    n_repeats : int
    gain : float or None
        Expected rise in agreement with another 50 answers.
    """

    n_answers: int
    n_unsure: int = 0
    agreement: Share | None = None
    before: Share | None = None
    ceiling: tuple[float, float] | None = None
    n_repeats: int = 0
    gain: float | None = None

    @property
    def enough(self) -> bool:
        """Whether it is worth stopping."""
        return self.agreement is not None and self.gain is not None and self.gain < WORTH

    @property
    def standing(self) -> str:
        """How well the answers predict others, and what more of them would add."""
        if self.agreement is None:
            return "How well they predict each other is shown after some more."
        n = self.agreement.n
        line = f"They predict {self.agreement} of the answers to {n} random questions."
        if self.gain is None:
            return line
        if self.enough:
            return f"{line} Another {MORE} would hardly add to this: you can stop here."
        points = round(100 * self.gain)
        unit = "point" if points == 1 else "points"
        return f"{line} Another {MORE} would add about {points} {unit}."

    def __str__(self) -> str:
        """Return one quiet line."""
        if self.n_answers == 0:
            return "No answers yet."
        return f"{self.n_answers} answer{'' if self.n_answers == 1 else 's'}. {self.standing}"


def measure(chooser: Chooser, *, expect: bool = True) -> Progress:
    """Return where a collection stands.

    Parameters
    ----------
    chooser : Chooser
    expect : bool, default=True
        Whether to expect the gain of more answers, which takes longest.
    """
    judged = chooser.judgements
    unsure = sum(j.value == 0.5 for j in judged)
    n_repeats, c = consistency(judged)
    ceiling = None if n_repeats < _FEWEST else (c, (1 + math.sqrt(max(2 * c - 1, 0))) / 2)
    tested = [j for j in judged if j.question.origin == RANDOM and j.value != 0.5]
    if len(tested) < _FEWEST:
        return Progress(len(judged), unsure, n_repeats=n_repeats)
    margins = held_out_margins(chooser, judged, tested, chooser.weights)
    agreement = Share.of(_right(tested, margins))
    index = arrays(tested, chooser.width)[0]
    before = Share.of(_right(tested, chooser.model.fresh().margins(index)[0]))
    gain = expected_gain(chooser) if expect else None
    return Progress(len(judged), unsure, agreement, before, ceiling, n_repeats, gain)


def held_out_margins(
    chooser: Chooser,
    judged: Sequence[Judgement],
    tested: Sequence[Judgement],
    weights: Mapping[str, float] | None = None,
) -> Vector:
    """Predict answers by fits that have not seen any answer to the same question.

    Parameters
    ----------
    chooser : Chooser
    judged : sequence of Judgement
        Answers to learn from.
    tested : sequence of Judgement
        Answers to predict.
    weights : mapping of str to float, optional
        Weights of people in what is learned from.
    """
    folds = {j.question.key: n % FOLDS for n, j in enumerate(tested)}
    width = chooser.width
    margins = np.zeros(len(tested))
    for fold in range(FOLDS):
        rows = [n for n, j in enumerate(tested) if folds[j.question.key] == fold]
        if not rows:
            continue
        seen = [j for j in judged if folds.get(j.question.key) != fold]
        model = chooser.model.fresh()
        model.learn_anew(*arrays(seen, width, weights))
        margins[rows] = model.margins(arrays([tested[n] for n in rows], width)[0])[0]
    return margins


def learning_curve(chooser: Chooser, n_points: int = 8) -> list[tuple[int, Share]]:
    """Return the agreement on random questions after some answers, half of them, and so on.

    All random questions judge every point; those that were answered so far are held out in turn.
    """
    judged = chooser.judgements
    tested = [j for j in judged if j.question.origin == RANDOM and j.value != 0.5]
    if len(tested) < _FEWEST:
        return []
    counts = np.unique(np.linspace(0, len(judged), n_points + 1).round().astype(int))
    fits = ((n, held_out_margins(chooser, judged[:n], tested, chooser.weights)) for n in counts)
    return [(int(n), Share.of(_right(tested, margins))) for n, margins in fits]


def consistency(judged: Sequence[Judgement]) -> tuple[int, float]:
    """Return the number of repeats that were answered, and how often they agree.

    Answers that could not tell agree with none.
    """
    same = [agrees for _, _, agrees in _repeats(judged)]
    return len(same), float(np.mean(same)) if same else math.nan


def _repeats(judged: Sequence[Judgement]) -> list[tuple[str, str, float]]:
    """Return who answered a question and its repeat, and whether the answers agree.

    A person is compared with themselves if they answered the question before.
    """
    random = [j for j in reversed(judged) if j.question.origin == RANDOM]
    first = {j.question.key: j for j in random}
    own = {(j.question.key, j.person): j for j in random}
    repeats = []
    for j in judged:
        key = j.question.key
        before = own.get((key, j.person)) or first.get(key)
        if j.question.origin == REPEAT and before is not None:
            agrees = _picked(before) == _picked(j) is not None
            repeats.append((before.person, j.person, float(agrees)))
    return repeats


def expected_gain(chooser: Chooser, n: int = MORE) -> float:
    """Return by how much agreement on random questions is expected to rise with n answers."""
    chooser.learn()
    later, asked = chooser.model, []
    for _ in range(math.ceil(n / _ROUND)):
        candidates = chooser.candidates()
        best = np.argsort(-chooser.scores(later, candidates), kind="stable")[:_ROUND]
        later = later.pending(candidates[best])
        asked.append(candidates[best])
    random, every = np.random.default_rng(0), (chooser.n_objects, chooser.width)
    targets = np.array([random.choice(*every, replace=False) for _ in range(_TARGETS)])
    sides = np.sign(chooser.model.margins(targets)[0])
    nodes, weights = np.polynomial.hermite_e.hermegauss(15)
    gain = 0.0
    answers = arrays(chooser.judgements, chooser.width, chooser.weights)
    for p, now in chooser.model.alternatives(*answers):
        m, s2 = now.margins(targets)
        t2 = np.minimum(now.pending(np.vstack(asked)).margins(targets)[1], s2)
        means = m[:, None] + np.sqrt(s2 - t2)[:, None] * nodes
        after = answer_probability(np.abs(means), t2[:, None]) @ (weights / weights.sum())
        gain += p * float(np.mean(after - answer_probability(sides * m, s2)))
    return gain


def people(chooser: Chooser) -> list[Person]:
    """Return how each person answers, in the order of their names.

    Weights come from random questions whose answers were predicted or not, and from repeats whose
    answers agree or not, with those of average people added. Everybody counts the same in the
    predictions.
    """
    judged = chooser.judgements
    tested = [j for j in judged if j.question.origin == RANDOM and j.value != 0.5]
    right = _right(tested, held_out_margins(chooser, judged, tested)) if tested else np.zeros(0)
    who = np.array([j.person for j in tested])
    repeats = _repeats(judged)
    passed = [*right, *(agrees for *_, agrees in repeats)]
    mean = float(np.mean(passed)) if passed else 0.5
    persons = []
    for name in sorted({j.person for j in judged}):
        own, others = right[who == name], right[who != name]
        share = Share.of(own)
        lower = len(others) >= _FEWEST and share.high < Share.of(others).low
        at_random = share.n >= _FEWEST and share.low <= 0.5 and (lower or share.high < 0.6)
        again = [agrees for *both, agrees in repeats if name in both]
        n_tests = share.n + len(again) + _PRIOR_ANSWERS
        reliability = (own.sum() + sum(again) + _PRIOR_ANSWERS * mean) / n_tests
        weight = (2 * reliability - 1) / (2 * mean - 1) if mean > 0.5 else 1.0
        weight = 0.0 if at_random else float(np.clip(weight, 0.0, 1.0))
        n_answers = sum(j.person == name for j in judged)
        persons.append(Person(name, n_answers, share, at_random, weight))
    return persons


def _right(tested: Sequence[Judgement], margins: Vector) -> Vector:
    """Tell which answers were predicted; a margin of 0 counts half."""
    y = np.array([j.value for j in tested])
    return np.asarray((1 + np.sign(margins) * np.sign(y - 0.5)) / 2)


def _picked(judged: Judgement) -> int | str | None:
    """Return the object that was picked, or whether it was the same; None if neither."""
    if judged.value == 0.5:
        return None
    if len(judged.question.objects) == 2:
        return judged.answer
    return judged.question.objects[1 if judged.value == 1 else 2]
