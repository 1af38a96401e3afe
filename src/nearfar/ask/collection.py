"""`Collection`: objects, the chooser and the store together, for several people at once."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from nearfar.ask.chooser import Chooser
from nearfar.ask.progress import Person, Progress, measure, people
from nearfar.ask.store import OPEN, Asked, Store, StoreError, StoreUnavailableError
from nearfar.typing import Floats, Json

# Answers between two measurements of progress, which take longer than a question: 5, and with more
# answers, which take longer still, a share of them.
_MEASURE_EVERY, _MEASURE_GROWTH = 5, 0.05
Result = TypeVar("Result")


@dataclass(frozen=True)
class Objects:
    """What people are asked about.

    Attributes
    ----------
    X: shape (n_objects, n_features). Vectors.
    texts: What to show of each object.
    pictures: A picture of each object.
    cards: A few columns of each object, if it has neither text nor picture.
    """

    names: Sequence[str]
    X: Floats | None = None
    feature_names: Sequence[str] | None = None
    texts: Sequence[str] | None = None
    pictures: Sequence[Path] | None = None
    cards: Sequence[Sequence[tuple[str, str]]] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def shown(self, number: int) -> dict[str, Json]:
        """Return what the page shows of an object."""
        card: dict[str, Json] = {"name": self.names[number], "number": number}
        if self.pictures is not None:
            card["picture"] = True
        if self.texts is not None:
            card["text"] = self.texts[number]
        if self.cards is not None:
            card["card"] = [[column, value] for column, value in self.cards[number]]
        return card


@dataclass(eq=False)
class Collection:
    """Questions and answers about objects.

    Parameters
    ----------
    store: It knows the objects and the kind of question (`Store.begin`).
    random_share, repeat_share: See `Chooser`.
    """

    objects: Objects
    store: Store
    random_share: float = 0.2
    repeat_share: float = 0.05
    seed: int | None = None
    chooser: Chooser = field(init=False)
    progress: Progress = field(init=False)
    people: list[Person] = field(init=False)

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._measuring = threading.Lock()
        self._writer = ThreadPoolExecutor(1)
        self._changes: deque[tuple[Callable[[], Any], Callable[[Any], None], Future[Any]]] = deque()
        self.chooser = self._new_chooser(self.seed)
        for each in self.store.answers():
            asked = each.asked
            self.chooser.add(asked.question, each.answer, person=asked.person, seconds=each.seconds)
        self._measured = 0
        self.measure()

    def questions(self, person: str) -> list[Asked]:
        """Return the question to show a person, and the next one."""

        def ask() -> list[Asked]:
            questions = self.store.open_questions(person)
            while len(questions) < OPEN:
                asked = self.store.ask(
                    person, lambda pending: self.chooser.next(person, pending=pending)
                )
                questions.append(asked)
            return questions[:OPEN]

        return self._together(ask)

    def answer(self, person: str, question: str, answer: str, seconds: float | None) -> bool:
        """Store an answer; then learn from it. Return False if it was stored before."""

        def store() -> Asked | None:
            asked = {each.id: each for each in self.store.open_questions(person)}
            new = self.store.answer(person, question, answer, seconds)
            return asked[question] if new else None

        def learn(asked: Asked | None) -> None:
            if asked is not None:
                self.chooser.add(asked.question, answer, person=person, seconds=seconds)

        return self._together(store, learn) is not None

    def undo(self, person: str, question: str) -> bool:
        """Take back a person's last answer; return False if it is not there any more."""

        def forget(again: Asked | None) -> None:
            if again is not None:
                self.chooser.remove(again.question, person)
                self._measured = min(self._measured, len(self.chooser.judgements))

        return self._together(lambda: self.store.undo(person, question), forget) is not None

    def _together(
        self, change: Callable[[], Result], then: Callable[[Result], None] = lambda _: None
    ) -> Result:
        """Change the store, together with all who wait for it: it is the disk that takes time."""
        promised: Future[Result] = Future()
        self._changes.append((change, then, promised))
        self._writer.submit(self._write)
        return promised.result()

    def _write(self) -> None:
        """Make all changes that are waited for."""
        waiting = [self._changes.popleft() for _ in range(len(self._changes))]
        done = []
        with self._lock:
            try:
                with self.store.change():
                    for change, then, promised in waiting:
                        try:
                            done.append((change(), then, promised))
                        except StoreUnavailableError:
                            raise
                        except Exception as error:
                            promised.set_exception(error)
            except StoreUnavailableError as error:
                for *_, promised in waiting:
                    if not promised.done():
                        promised.set_exception(error)
                return
            for result, then, promised in done:
                try:
                    then(result)
                    promised.set_result(result)
                except Exception as error:
                    promised.set_exception(error)

    @property
    def due(self) -> bool:
        """Whether progress should be measured again."""
        more = max(_MEASURE_EVERY, _MEASURE_GROWTH * self._measured)
        return len(self.chooser.judgements) >= self._measured + more

    def measure(self) -> None:
        """Measure progress and weigh people, unless that is being done."""
        if not self._measuring.acquire(blocking=False):
            return
        try:
            copy = self.snapshot()
            self._measured = len(copy.judgements)
            self.progress = measure(copy)
            self.people = people(copy)
            weights = {person.name: person.weight for person in self.people}
            # Weights are measured again; a full disk must not end this.
            with contextlib.suppress(StoreError):
                self.store.set_weights(weights)
            if any(weights.values()):
                with self._lock:
                    self.chooser.weigh(weights)
        finally:
            self._measuring.release()

    def snapshot(self) -> Chooser:
        """Return a chooser with the same answers, which nobody changes."""
        with self._lock:
            copy = self._new_chooser(0)
            copy.judgements = list(self.chooser.judgements)
            copy.weigh(self.chooser.weights)
            copy.model = self.chooser.model.fresh()
        copy.learn(anew=True)
        return copy

    def _new_chooser(self, seed: int | None) -> Chooser:
        return Chooser(
            self.objects.X,
            n_objects=len(self.objects),
            kind=self.store.kind,
            random_share=self.random_share,
            repeat_share=self.repeat_share,
            random_state=seed,
        )
