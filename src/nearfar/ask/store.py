"""Objects, the file of questions and answers, and the two with a chooser, for several people.

`Store` is an SQLite file that survives being killed. Every change is one transaction, written ahead
(WAL) and synchronised before it returns (``synchronous=FULL``). A question has an id that nobody
can guess, and an answer belongs to the id: sending an answer again changes nothing. Taking back an
answer keeps it, marked, and asks the same question under a new id. A person has at most `OPEN`
questions without an answer; these are what the page shows next, also after a restart.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from nearfar.ask.chooser import ANSWERS, VERSION, Chooser, Judgement, Question
from nearfar.ask.progress import Person, Progress, measure, people
from nearfar.typing import Floats, Json

SCHEMA_VERSION = "1"
OPEN = 2
"""Questions of a person without an answer: the one that is shown, and the next."""
# A page that was open for more than a day says nothing about an answer.
_LONGEST_ANSWER_SECONDS = 86_400.0
# Seconds to wait for another program that writes; everybody waits meanwhile, and tries again.
_PATIENCE = 0.25
# Answers between two measurements of progress, which take longer than a question: 5, and with more
# answers, which take longer still, a share of them.
_MEASURE_EVERY, _MEASURE_GROWTH = 5, 0.05
Result = TypeVar("Result")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS objects (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS people (
    name TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE, weight REAL NOT NULL DEFAULT 1.0
);
CREATE TABLE IF NOT EXISTS questions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    person TEXT NOT NULL REFERENCES people(name),
    first INTEGER NOT NULL REFERENCES objects(number),
    second INTEGER NOT NULL REFERENCES objects(number),
    third INTEGER REFERENCES objects(number),
    origin TEXT NOT NULL CHECK (origin IN ('chosen', 'random', 'repeat')),
    chooser TEXT NOT NULL,
    asked REAL NOT NULL,
    again_of TEXT REFERENCES questions(id)
);
CREATE TABLE IF NOT EXISTS answers (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    question TEXT NOT NULL UNIQUE REFERENCES questions(id),
    answer TEXT NOT NULL, answered REAL NOT NULL, seconds REAL, undone REAL
);
CREATE INDEX IF NOT EXISTS questions_of_people ON questions (person, number);
"""
_ASKED = "SELECT q.id, q.person, q.first, q.second, q.third, q.origin FROM questions q"


class StoreError(ValueError):
    """A request that the store refuses."""


class StoreUnavailableError(StoreError):
    """The file cannot be read or written now: the disk is full, say, or another program has it."""


class Asked(NamedTuple):
    """A question as it was stored."""

    id: str
    person: str
    question: Question

    @classmethod
    def of(cls, row: Sequence[Any]) -> Asked:
        """Read a row of the table of questions."""
        objects = tuple(number for number in row[2:5] if number is not None)
        return cls(row[0], row[1], Question(objects, row[5]))


class Store:
    """Questions and answers in a file; one that has other objects or questions is refused.

    Parameters
    ----------
    path: It is made if there is none.
    kind: "triplets" or "pairs".
    names: Names of the objects.
    people: Names of people, who are added if new.
    """

    def __init__(
        self, path: str | Path, kind: str, names: Sequence[str], people: Sequence[str] = ()
    ) -> None:
        self.path, self.kind = Path(path), kind
        self._lock = threading.RLock()
        try:
            self._db = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=_PATIENCE
            )
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} cannot be opened: {error}.") from error
        try:
            with self._available() as db:
                for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                    db.execute(f"PRAGMA {setting}")
            with self.change() as db:
                self.results_key = self._begin(db, list(names), people)
            self.people = dict(self._rows("SELECT name, key FROM people ORDER BY rowid"))
        except BaseException:
            self._db.close()
            raise

    def _begin(self, db: sqlite3.Connection, names: list[str], people: Sequence[str]) -> str:
        """Make the tables, or check what they are about; return the key of the results."""
        for statement in _SCHEMA.split(";\n"):
            db.execute(statement)
        facts = dict(db.execute("SELECT name, value FROM facts").fetchall())
        if not facts:
            facts = {"schema": SCHEMA_VERSION, "kind": self.kind}
            facts["results_key"] = secrets.token_urlsafe(16)
            db.executemany("INSERT INTO objects VALUES (?, ?)", list(enumerate(names)))
            db.executemany("INSERT INTO facts VALUES (?, ?)", list(facts.items()))
        if facts["schema"] != SCHEMA_VERSION:
            raise StoreError(f"{self.path} was written by another version of nearfar.")
        if facts["kind"] != self.kind:
            raise StoreError(f"{self.path} has {facts['kind']}, not {self.kind}.")
        if db.execute("SELECT name FROM objects ORDER BY number").fetchall() != [
            (name,) for name in names
        ]:
            raise StoreError(f"{self.path} is about other objects; name another --out.")
        keys = [(name, secrets.token_urlsafe(16)) for name in people]
        db.executemany("INSERT OR IGNORE INTO people (name, key) VALUES (?, ?)", keys)
        return facts["results_key"]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    @contextlib.contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Make changes that are on the disk together, or not made at all."""
        with self._available() as db:
            if db.in_transaction:
                yield db
                return
            try:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _available(self) -> Iterator[sqlite3.Connection]:
        """Use the file, or say why that is not possible now."""
        with self._lock:
            try:
                yield self._db
            except sqlite3.Error as error:
                raise StoreUnavailableError(
                    f"{self.path.name} cannot be used for answers now: {error}."
                ) from error

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._available() as db:
            return db.execute(query, values).fetchall()

    def set_weights(self, weights: dict[str, float]) -> None:
        """Keep the weights of people, by name."""
        with self.change() as db:
            rows = [(weight, name) for name, weight in weights.items()]
            db.executemany("UPDATE people SET weight = ? WHERE name = ?", rows)

    def open_questions(self, person: str | None = None) -> list[Asked]:
        """Return the questions without an answer, in the order in which they are shown."""
        rows = self._rows(
            f"{_ASKED} LEFT JOIN answers a ON a.question = q.id WHERE a.question IS NULL "
            "AND q.person = coalesce(?, q.person) ORDER BY q.again_of IS NULL, "
            "CASE WHEN q.again_of IS NULL THEN q.number ELSE -q.number END",
            person,
        )
        return [Asked.of(row) for row in rows]

    def ask(self, person: str, choose: Callable[[list[Question]], Question]) -> Asked:
        """Choose a question for a person, and store it.

        Parameters
        ----------
        choose: Questions of everybody that have no answer yet -> question.
        """
        if len(self.open_questions(person)) >= OPEN:
            raise StoreError(f"{person} has {OPEN} questions to answer.")
        return self._insert(person, choose([asked.question for asked in self.open_questions()]))

    def _insert(self, person: str, question: Question, again_of: str | None = None) -> Asked:
        asked = Asked(secrets.token_urlsafe(12), person, question)
        row = asked.id, person, *(*question.objects, None)[:3], question.origin, VERSION
        with self.change() as db:
            db.execute(
                "INSERT INTO questions (id, person, first, second, third, origin, chooser, asked, "
                "again_of) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, time.time(), again_of),
            )
        return asked

    def answer(self, person: str, question: str, answer: str, seconds: float | None = None) -> bool:
        """Store an answer; return False if the question has one, which stays."""
        if answer not in ANSWERS[self.kind]:
            raise StoreError(f"{answer!r} is not an answer: {', '.join(ANSWERS[self.kind])}.")
        if seconds is not None and not 0 <= seconds <= _LONGEST_ANSWER_SECONDS:
            seconds = None
        with self.change() as db:
            self._require(person, question)
            done = db.execute(
                "INSERT OR IGNORE INTO answers (question, answer, answered, seconds) "
                "VALUES (?, ?, ?, ?)",
                (question, answer, time.time(), seconds),
            )
            return done.rowcount == 1

    def undo(self, person: str, question: str) -> Asked | None:
        """Take back a person's last answer, and ask the same question next.

        Returns
        -------
        Asked or None
            The question with its new id; None if the answer is not there any more.
        """
        with self.change() as db:
            asked = self._require(person, question)
            if self.last_answer(person) != question:
                return None
            db.execute("UPDATE answers SET undone = ? WHERE question = ?", (time.time(), question))
            return self._insert(person, asked.question, question)

    def last_answer(self, person: str) -> str | None:
        """Return the id of the question that a person answered last."""
        rows = self._rows(
            "SELECT a.question FROM answers a JOIN questions q ON q.id = a.question "
            "WHERE q.person = ? AND a.undone IS NULL ORDER BY a.number DESC LIMIT 1",
            person,
        )
        return str(rows[0][0]) if rows else None

    def answers(self) -> list[Judgement]:
        """Return the answers that were not taken back, in order."""
        rows = self._rows(
            _ASKED.replace(" FROM", ", a.answer, a.seconds FROM")
            + " JOIN answers a ON q.id = a.question WHERE a.undone IS NULL ORDER BY a.number"
        )
        return [Judgement(Asked.of(row).question, row[6], row[1], row[7]) for row in rows]

    def _require(self, person: str, question: str) -> Asked:
        rows = self._rows(f"{_ASKED} WHERE q.id = ? AND q.person = ?", question, person)
        if not rows:
            raise StoreError("There is no such question.")
        return Asked.of(rows[0])


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

    Attributes
    ----------
    store: It has the objects.
    random_share: See `Chooser`.
    """

    objects: Objects
    store: Store
    random_share: float = 0.2
    seed: int | None = None
    chooser: Chooser = field(init=False)
    progress: Progress = field(init=False)
    people: list[Person] = field(init=False)

    def __post_init__(self) -> None:
        self._lock, self._measuring = threading.RLock(), threading.Lock()
        self._writer = ThreadPoolExecutor(1)
        self._changes: deque[tuple[Callable[[], Any], Callable[[Any], None], Future[Any]]] = deque()
        self.chooser = self._new_chooser(self.seed)
        for each in self.store.answers():
            self.chooser.add(each.question, each.answer, person=each.person, seconds=each.seconds)
        self._measured = 0
        self.measure()

    def questions(self, person: str) -> list[Asked]:
        """Return the question to show a person, and the next one."""

        def ask() -> list[Asked]:
            questions = self.store.open_questions(person)
            while len(questions) < OPEN:
                questions.append(
                    self.store.ask(person, lambda open_: self.chooser.next(person, pending=open_))
                )
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
            self.progress, self.people = measure(copy), people(copy)
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
            random_state=seed,
        )
