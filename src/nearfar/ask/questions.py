"""Questions and their answers, one by one and as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nearfar.typing import Ints, Vector

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

    @property
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
    weight : float
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
    weight: float = 1.0
    seconds: float | None = None

    @property
    def value(self) -> float:
        """1 for left or the same, 0 for right or different, 1/2 for neither."""
        return _VALUES[self.answer]


class AnswerArrays:
    """Answers as arrays that grow with them, so that a new answer costs the same at any number.

    Parameters
    ----------
    width: Number of objects in a question.
    weights: Weights of people; others have weight 1.
    """

    def __init__(self, width: int, weights: Mapping[str, float] | None = None) -> None:
        self.width, self._weights = width, dict(weights or {})
        self.keys: Counter[tuple[int, ...]] = Counter()
        self._n = 0
        self._index = np.empty((0, self.width), dtype=np.intp)
        self._values = np.empty((0, 2))

    def follow(self, judgements: Sequence[Judgement]) -> None:
        """Add the answers that are new at the end of all of them."""
        new = judgements[self._n :]
        if not new:
            return
        if len(judgements) > len(self._index):
            room = max(64, len(judgements))
            self._index = np.vstack([self._index, np.empty((room, self.width), dtype=np.intp)])
            self._values = np.vstack([self._values, np.empty((room, 2))])
        places = slice(self._n, len(judgements))
        self._index[places], self._values[places, 0], self._values[places, 1] = arrays(
            new, self.width, self._weights
        )
        self.keys.update(judged.question.key for judged in new)
        self._n = len(judgements)

    @property
    def arrays(self) -> tuple[Ints, Vector, Vector]:
        """Row numbers, answers and weights."""
        values = self._values[: self._n]
        return self._index[: self._n], values[:, 0], values[:, 1]


def arrays(
    judgements: Sequence[Judgement], width: int, weights: Mapping[str, float] | None = None
) -> tuple[Ints, Vector, Vector]:
    """Return row numbers, answers and weights."""
    of_people = weights or {}
    index = rows_of([judged.question for judged in judgements], width)
    y = np.array([judged.value for judged in judgements], dtype=float)
    weight = [judged.weight * of_people.get(judged.person, 1.0) for judged in judgements]
    return index, y, np.array(weight, dtype=float)


def rows_of(questions: Sequence[Question], width: int) -> Ints:
    """Return row numbers, a row for each question."""
    rows = [question.objects for question in questions]
    return np.array(rows, dtype=np.intp).reshape(-1, width)
