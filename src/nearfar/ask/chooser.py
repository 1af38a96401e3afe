"""Questions and their answers, one by one and as arrays.

`Chooser`: which question to ask next.

A question is chosen for what its answer is expected to say about other questions that people could
be asked (`nearfar.ask.models`), under a normal approximation of what the answers so far say
(`nearfar.ask.models`). Candidates have an anchor drawn at random and two of its near neighbours by
the fit, one of them and another object, or two others; not all triples. Questions that are being
asked count as answered, so that several people get different questions.

A share of the questions is drawn at random from all triples. Only these judge: answers to chosen
questions are harder than others, and agreement with them says little. Another share repeats random
questions that were answered before, with the sides exchanged, to the same person or to another.
With vectors, neither has a say in what is asked next: questions that follow from an answer tell
what it was, and a fit to their answers predicts it too well (isotropic people of
benchmarks/ask_claims.py: 1.7 points).

"Can't tell" is an answer that is half either way. Answers that contradict each other all count.

References
----------
Bickford Smith et al. 2023, see `nearfar.ask.models`; Tamuz et al.,
"Adaptively learning the crowd kernel", ICML 2011, who choose triplets of objects without vectors by
their information.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from nearfar.ask.models import MetricModel, Model, PlaceModel, predictive_information
from nearfar.runtime.parameters import check_parameters, choice, integer, number
from nearfar.supervision import Pairs, Triplets
from nearfar.typing import Floats, Ints, Vector

CHOSEN, RANDOM, REPEAT = "chosen", "random", "repeat"
ANSWERS = {"triplets": ("left", "right", "unsure"), "pairs": ("same", "different", "unsure")}
_VALUES = {"left": 1.0, "same": 1.0, "right": 0.0, "different": 0.0, "unsure": 0.5}


@dataclass(frozen=True)
class Question:
    """A question about objects.

    Attributes
    ----------
    objects : tuple of int
        Row numbers: anchor, left and right of a triplet, or the two of a pair.
    origin : {"chosen", "random", "repeat"}

    Examples
    --------
    >>> from nearfar.ask import Question
    >>> Question((4, 7, 2)).key == Question((4, 2, 7)).key
    True
    """

    objects: tuple[int, ...]
    origin: str = CHOSEN

    @cached_property
    def key(self) -> tuple[int, ...]:
        """The same for questions that differ in the sides only."""
        return (*self.objects[:-2], *sorted(self.objects[-2:]))


@dataclass(frozen=True)
class Judgement:
    """A question with its answer.

    Attributes
    ----------
    question : Question
    answer : {"left", "right", "unsure"} or {"same", "different", "unsure"}
    person : str
    seconds : float or None
        How long the question was on the screen.

    Examples
    --------
    >>> from nearfar.ask import Judgement, Question
    >>> Judgement(Question((4, 7, 2)), "left").value
    1.0
    """

    question: Question
    answer: str
    person: str = ""
    seconds: float | None = None

    @property
    def value(self) -> float:
        """1 for left or the same, 0 for right or different, 1/2 for neither."""
        return _VALUES[self.answer]


def arrays(
    judgements: Sequence[Judgement], width: int, weights: Mapping[str, float] | None = None
) -> tuple[Ints, Vector, Vector]:
    """Return row numbers, answers and weights."""
    index = rows_of([judged.question for judged in judgements], width)
    y = np.array([judged.value for judged in judgements], dtype=float)
    weight = [(weights or {}).get(judged.person, 1.0) for judged in judgements]
    return index, y, np.array(weight, dtype=float)


def rows_of(questions: Sequence[Question], width: int) -> Ints:
    """Return row numbers, a row for each question."""
    rows = [question.objects for question in questions]
    return np.array(rows, dtype=np.intp).reshape(-1, width)


VERSION = "2"
"""Stored with every answer; it changes whenever questions are chosen in another way."""

# Questions that are considered at a time, and what they are made of: one search stays short.
_CANDIDATES, _ANCHORS, _NEIGHBORS = 600, 40, 12
# Random questions that stand for all; the time of a choice grows with their number.
_TARGETS = 150
# Questions at random before any is chosen: with vectors, and for each object without, as places of
# objects that nobody was asked about say nothing about good questions.
_RANDOM_FIRST, _FIRST_OF_OBJECT = 4, 2
# With so many questions being asked, one more is chosen at a time, for the next who asks: an answer
# among many changes little, and choosing for each of 200 people would keep them waiting.
_PENDING_FOR_ONE = 10
# Answers of the same person between a question and its repeat.
_BETWEEN = 8


class Chooser:
    """Choose questions, and learn from the answers.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), optional
        Vectors of the objects. Without them, `n_objects` is needed.
    n_objects : int, optional
        Number of objects, if they have no vectors.
    kind : {"triplets", "pairs"}, default="triplets"
        "Which is more like this one?", or "Are these the same?", which needs vectors.
    random_share : float, default=0.2
        Share of questions drawn at random; these alone judge.
    repeat_share : float, default=0.05
        Share of questions that were answered before.
    random_state : int, optional
        Seed.

    Attributes
    ----------
    judgements : list of Judgement
        The answers.
    weights : dict of str to float
        Weights of people, see `weigh`.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.ask import Chooser
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> chooser = Chooser(X, random_state=0)
    >>> for _ in range(30):
    ...     question = chooser.next()
    ...     anchor, left, right = X[list(question.objects)] * [3, 1, 0]
    ...     nearer = np.sum((anchor - left) ** 2) < np.sum((anchor - right) ** 2)
    ...     chooser.add(question, "left" if nearer else "right")
    >>> len(chooser.triplets())
    30
    """

    def __init__(
        self,
        X: ArrayLike | None = None,
        *,
        n_objects: int | None = None,
        kind: str = "triplets",
        random_share: float = 0.2,
        repeat_share: float = 0.05,
        random_state: int | None = None,
    ) -> None:
        rules = {
            "kind": choice(*ANSWERS),
            "random_share": number(at_least=0, at_most=1),
            "repeat_share": number(at_least=0, below=1),
        }
        given = vars()
        check_parameters(rules, {name: given[name] for name in rules})
        self.kind, self.width = kind, 3 if kind == "triplets" else 2
        self.random_share, self.repeat_share = random_share, repeat_share
        self.judgements: list[Judgement] = []
        self.weights: dict[str, float] = {}
        self._random = np.random.default_rng(random_state)
        self._learned = 0
        self._stock: list[Ints] = []
        self.X: Floats | None = None
        self.model: Model
        if X is not None:
            self.X = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=3)
            self.n_objects = len(self.X)
            self.model = MetricModel(self.X, kind=kind)
        elif kind == "pairs":
            raise ValueError("Pairs need vectors; give X, or ask for triplets.")
        else:
            check_parameters({"n_objects": integer(at_least=3)}, {"n_objects": n_objects})
            self.n_objects = int(n_objects or 0)
            self.model = PlaceModel(self.n_objects, seed=random_state or 0)
        self.random_first = _RANDOM_FIRST if X is not None else _FIRST_OF_OBJECT * self.n_objects

    def next(
        self, person: str = "", *, pending: Sequence[Question] = (), among: ArrayLike | None = None
    ) -> Question:
        """Return the next question.

        Parameters
        ----------
        person : str
            Who is asked.
        pending : sequence of Question
            Questions that are being asked; no answer is known yet.
        among : array-like of shape (n_questions, 3 or 2), optional
            Questions to choose from, if not every one can be answered.
        """
        pool = None if among is None else np.asarray(among)
        draw = self._random.random()
        open_keys = {q.key for q in pending}
        if draw < self.repeat_share:
            # A random question that was answered once, not just now, with sides exchanged.
            own = [j for j in self.judgements if j.person == person]
            recent = {j.question.key for j in own[-_BETWEEN:]} | open_keys
            asked = [j.question for j in self.judgements]
            left_out = recent | {q.key for q in asked if q.origin == REPEAT}
            if options := [q for q in asked if q.origin == RANDOM and q.key not in left_out]:
                repeated = options[int(self._random.integers(len(options)))]
                *anchor, left, right = repeated.objects
                return Question((*anchor, right, left), REPEAT)
        if len(self.judgements) < self.random_first or draw < self.repeat_share + self.random_share:
            return self._shuffled(self._at_random(1, pool, open_keys)[0], RANDOM)
        more = 0 if pool is not None else len(pending) // _PENDING_FOR_ONE
        del self._stock[more:]
        while self._stock:
            row = self._stock.pop()
            if self._key(row) not in open_keys:
                return self._shuffled(row, CHOSEN)
        self.learn()
        model = self.model.pending(rows_of(pending, self.width))
        candidates = self.candidates(pool)
        known = open_keys | {j.question.key for j in self.judgements}
        fresh = [self._key(row) not in known for row in candidates]
        if not any(fresh):
            return self._shuffled(self._at_random(1, pool, set())[0], RANDOM)
        candidates = candidates[fresh]
        scores = self.scores(model, candidates, pool)
        best = candidates[int(scores.argmax())]
        if more:
            # Drawn in proportion to their information, because the best are alike: Kirsch et al.,
            # "Stochastic batch acquisition", TMLR 2023.
            drawn = np.log(scores + np.finfo(float).tiny) + self._random.gumbel(size=len(scores))
            others = {self._key(row): row for row in candidates[np.argsort(-drawn)[:more]]}
            others.pop(self._key(best), None)
            self._stock = list(others.values())
        return self._shuffled(best, CHOSEN)

    def scores(self, model: Model, candidates: Ints, pool: Ints | None = None) -> Vector:
        """Return what the answers to candidates are expected to say about random questions."""
        targets = self._at_random(_TARGETS, pool, set())
        mean, variance = model.margins(candidates)
        return predictive_information(
            mean, variance, model.covariance(targets, candidates), *model.margins(targets)
        )

    def add(
        self,
        question: Question | Sequence[int],
        answer: str,
        *,
        person: str = "",
        seconds: float | None = None,
    ) -> None:
        """Add an answer.

        Parameters
        ----------
        question : Question or sequence of int
            A question of `next`, or row numbers: (anchor, left, right), or (a, b).
        answer : {"left", "right", "unsure"} or {"same", "different", "unsure"}
        person : str
        seconds : float, optional
            How long the question was on the screen.
        """
        if not isinstance(question, Question):
            question = Question(tuple(int(row) for row in question))
        rows = question.objects
        if len(rows) != self.width or len(set(rows)) < len(rows):
            raise ValueError(f"A question has {self.width} different objects; got {rows}.")
        if not 0 <= min(rows) <= max(rows) < self.n_objects:
            raise ValueError(f"Objects are 0 to {self.n_objects - 1}; got {rows}.")
        check_parameters({"answer": choice(*ANSWERS[self.kind])}, {"answer": answer})
        self.judgements.append(Judgement(question, answer, person, seconds))
        if len(self.judgements) >= self.model.next_choice:
            self.learn()

    def remove(self, question: Question, person: str = "") -> None:
        """Take back a person's last answer to a question."""
        whose = [(j.question, j.person) for j in self.judgements]
        if (question, person) not in whose:
            raise ValueError("There is no such answer.")
        del self.judgements[len(whose) - 1 - whose[::-1].index((question, person))]
        self._learned = -1

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Set the weights of people.

        Parameters
        ----------
        weights : mapping of str to float
            Weights by the names of people; others have weight 1.
        """
        if weights != self.weights:
            self.weights, self._learned = dict(weights), -1

    def learn(self, *, anew: bool = False) -> None:
        """Fit the model that chooses, if there are new answers; `next` does it too.

        With vectors, it learns from chosen questions only, as soon as there are any.

        Parameters
        ----------
        anew : bool, default=False
            Whether to start without the last fit. It takes longer.
        """
        if not anew and self._learned == len(self.judgements):
            return
        index, y, weight = arrays(self.judgements, self.width, self.weights)
        chosen = np.array([j.question.origin == CHOSEN for j in self.judgements])
        if self.X is not None and chosen.any():
            weight = weight * chosen
        (self.model.learn_anew if anew else self.model.learn)(index, y, weight)
        self._learned = len(self.judgements)

    def triplets(self) -> Triplets:
        """Return the answers as triplets; those that could not tell are left out."""
        index, y, weight = self._decided("triplets")
        index = np.where(y[:, None] == 1, index, index[:, [0, 2, 1]])
        return Triplets(index, weight)

    def pairs(self) -> Pairs:
        """Return the answers as pairs; those that could not tell are left out."""
        index, y, weight = self._decided("pairs")
        return Pairs(index, y == 1, weight)

    def _decided(self, kind: str) -> tuple[Ints, Vector, Vector]:
        if self.kind != kind:
            raise ValueError(f"The answers are {self.kind}; use {self.kind}().")
        decided = [j for j in self.judgements if j.value != 0.5]
        return arrays(decided, self.width, self.weights)

    def _key(self, row: Ints) -> tuple[int, ...]:
        return Question(tuple(row.tolist())).key

    def _shuffled(self, row: Ints, origin: str) -> Question:
        """Put two objects left and right at random."""
        objects = row.tolist()
        if self._random.random() < 0.5:
            objects[-2:] = objects[:-3:-1]
        return Question(tuple(objects), origin)

    def _at_random(self, n: int, pool: Ints | None, known: set[tuple[int, ...]]) -> Ints:
        """Draw questions; one that is not in `known`, if there is only one to draw."""
        for _ in range(100):
            if pool is not None:
                rows = pool[self._random.integers(len(pool), size=n)]
            else:
                # Row numbers that differ: each is drawn among those left, and skips those before.
                width, total = self.width, self.n_objects
                rows = np.column_stack(
                    [self._random.integers(total - place, size=n) for place in range(width)]
                )
                for place in range(1, width):
                    before = np.sort(rows[:, :place], axis=1)
                    for other in range(place):
                        rows[:, place] += rows[:, place] >= before[:, other]
            if n > 1 or self._key(rows[0]) not in known:
                break
        return rows

    def candidates(self, pool: Ints | None = None) -> Ints:
        """Return questions about near neighbours, or some of a pool."""
        if pool is not None:
            return pool[self._random.integers(len(pool), size=_CANDIDATES)]
        P = self.model.coordinates()
        anchors = self._random.choice(self.n_objects, min(_ANCHORS, self.n_objects), replace=False)
        squares = (P**2).sum(axis=1)
        apart = squares - 2 * P[anchors] @ P.T
        apart[np.arange(len(anchors)), anchors] = np.inf
        k = min(_NEIGHBORS, self.n_objects - 1)
        near = np.argpartition(apart, k - 1, axis=1)[:, :k]
        which = self._random.integers(len(anchors), size=_CANDIDATES)
        first = near[which, self._random.integers(k, size=_CANDIDATES)]
        second = near[which, self._random.integers(k, size=_CANDIDATES)]
        draw = self._random.random(_CANDIDATES)
        far, any_two = draw < 2 / 3, draw < 1 / 3
        second[far] = self._random.integers(self.n_objects, size=int(far.sum()))
        first[any_two] = self._random.integers(self.n_objects, size=int(any_two.sum()))
        rows = np.column_stack([anchors[which], first, second])
        if self.kind == "pairs":
            rows = np.column_stack([anchors[which], np.where(far, second, first)])
            return rows[rows[:, 0] != rows[:, 1]]
        a, b, c = rows.T
        return rows[(a != b) & (b != c) & (a != c)]
