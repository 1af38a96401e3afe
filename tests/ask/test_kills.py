"""A server killed at random moments under load: confirmed answers are there, and none twice."""

from __future__ import annotations

import http.client
import json
import os
import random
import sqlite3
import threading
import time
import urllib.error
import urllib.request

import pytest

from ask.conftest import PEOPLE, Server

pytest.importorskip("uvicorn", reason="uvicorn is not installed")


def request(address, document=None):
    body = None if document is None else json.dumps(document).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as found:
        return json.load(found)


def answer_until_killed(link, confirmed):
    try:
        while True:
            asked = request(f"{link}/questions")["questions"][0]["id"]
            document = {"question": asked, "answer": random.choice(["left", "right", "unsure"])}
            if request(f"{link}/answer", document)["stored"]:
                confirmed[asked] = document["answer"]
            again = request(f"{link}/answer", {**document, "answer": "unsure"})
            assert again == {"stored": True, "new": False}
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError):
        return


def run(folder, kills):
    random.seed(0)
    confirmed = {}
    for _ in range(kills):
        server = Server(folder)
        threads = [
            threading.Thread(target=answer_until_killed, args=(link, confirmed))
            for link in map(server.links.get, PEOPLE)
        ]
        for thread in threads:
            thread.start()
        time.sleep(random.uniform(0.05, 1.0))
        server.kill()
        for thread in threads:
            thread.join()
    database = sqlite3.connect(folder / "judgements.db")
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    rows = database.execute("SELECT question, answer FROM answers").fetchall()
    database.close()
    stored = dict(rows)
    assert len(stored) == len(rows)
    assert len(confirmed) > 0
    assert {asked: stored.get(asked) for asked in confirmed} == confirmed


@pytest.mark.slow
def test_two_kills(tmp_path):
    run(tmp_path, 2)


@pytest.mark.slow
def test_more_kills(tmp_path):
    run(tmp_path, 30 if "NEARFAR_FUZZ" in os.environ else 6)
