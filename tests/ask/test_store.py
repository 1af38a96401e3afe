"""Answers are stored once, taken back, and found again."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from nearfar.ask import Question
from nearfar.ask.store import OPEN, Store, StoreError
from nearfar.frames.judgements import read_answers


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path / "answers.db", "triplets", "abcd", ["Ann", "Ben"])
    yield found
    found.close()


def ask(store, person, *objects):
    return store.ask(person, lambda pending: Question(objects, "random"))


def test_an_answer_is_stored_once(store):
    asked = ask(store, "Ann", 0, 1, 2)
    assert store.answer("Ann", asked.id, "left", 1.5)
    assert not store.answer("Ann", asked.id, "right")
    (found,) = store.answers()
    assert (found.answer, found.seconds, found.question) == ("left", 1.5, asked.question)
    table, kind = read_answers(store.path)
    assert kind == "triplets"
    row = table.row(0, named=True)
    assert [row[name] for name in ("anchor", "near", "far", "person")] == ["a", "b", "c", "Ann"]
    assert abs(datetime.now(UTC) - datetime.fromisoformat(row["time"])) < timedelta(minutes=1)


def test_settings_of_the_file(store):
    assert store._rows("PRAGMA journal_mode") == [("wal",)]
    assert store._rows("PRAGMA synchronous") == [(2,)]


def test_another_connection_sees_an_answer_at_once(store):
    asked = ask(store, "Ann", 0, 1, 2)
    store.answer("Ann", asked.id, "unsure")
    other = sqlite3.connect(store.path)
    assert other.execute("SELECT answer FROM answers").fetchall() == [("unsure",)]
    other.close()


def test_undo_asks_the_same_question_first(store):
    one, two = ask(store, "Ann", 0, 1, 2), ask(store, "Ann", 1, 2, 3)
    store.answer("Ann", one.id, "left")
    again = store.undo("Ann", one.id)
    assert again.question == one.question
    assert again.id != one.id
    assert [asked.id for asked in store.open_questions("Ann")] == [again.id, two.id]
    assert store.answers() == []
    assert store.undo("Ann", one.id) is None
    assert not store.answer("Ann", one.id, "right")
    assert store.answer("Ann", again.id, "right")
    assert [found.answer for found in store.answers()] == ["right"]


def test_undo_goes_back_in_order(store):
    asked = []
    for objects in [(0, 1, 2), (1, 2, 3)]:
        asked.append(ask(store, "Ann", *objects))
        store.answer("Ann", asked[-1].id, "left")
    assert store.undo("Ann", asked[0].id) is None
    second = store.undo("Ann", asked[1].id)
    first = store.undo("Ann", asked[0].id)
    assert [each.id for each in store.open_questions("Ann")] == [first.id, second.id]


def test_people_do_not_answer_for_each_other(store):
    asked = ask(store, "Ann", 0, 1, 2)
    for act in (store.answer, store.undo):
        with pytest.raises(StoreError, match="no such question"):
            act("Ben", asked.id, *["left"][: act == store.answer])
    with pytest.raises(StoreError, match="is not an answer"):
        store.answer("Ann", asked.id, "same")


def test_few_questions_are_open(store):
    for row in range(OPEN):
        ask(store, "Ann", 0, 1, 2 + row)
    with pytest.raises(StoreError, match="questions to answer"):
        ask(store, "Ann", 0, 2, 3)
    ask(store, "Ben", 0, 2, 3)


def test_choosing_knows_the_open_questions_of_all(store):
    ask(store, "Ann", 0, 1, 2)
    seen = []
    store.ask("Ben", lambda pending: seen.extend(pending) or Question((1, 2, 3)))
    assert [question.objects for question in seen] == [(0, 1, 2)]


def test_a_file_is_continued(store):
    ask(store, "Ann", 0, 1, 2)
    other = Store(store.path, "triplets", "abcd", ["Ann"])
    assert other.people == store.people
    assert other.open_questions("Ann") == store.open_questions("Ann")
    other.close()
    with pytest.raises(StoreError, match="other objects"):
        Store(store.path, "triplets", "abce")
    with pytest.raises(StoreError, match="has triplets, not pairs"):
        Store(store.path, "pairs", "abcd")


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text.db").write_text("not a database, but a text that is long enough " * 30)
    with pytest.raises(StoreError, match="cannot be used for answers now: file is not a database"):
        Store(tmp_path / "text.db", "triplets", "abcd")
