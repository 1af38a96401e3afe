"""A server killed at random moments under load: confirmed answers are there, and none twice."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

PEOPLE = ["Ann", "Ben", "Cid"]


class Server:
    """`nearfar ask` in a process."""

    def __init__(self, folder):
        self.folder = folder
        people = [word for name in PEOPLE for word in ("--person", name)]
        command = [sys.executable, "-m", "nearfar.cli", "ask", "objects.csv", "--id", "name"]
        self.process = subprocess.Popen(
            [*command, "--port", "0", "--no-browser", *people],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.links = {}
        while len(self.links) < len(PEOPLE):
            name, _, link = self.process.stdout.readline().strip().partition(": ")
            assert name, "the server did not start"
            self.links[name] = link

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


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
    except (urllib.error.URLError, OSError, ValueError):
        return


def run(folder, kills):
    X = np.random.default_rng(0).normal(size=(40, 3))
    lines = ["name,a,b,c"] + [f"object{n},{a},{b},{c}" for n, (a, b, c) in enumerate(X)]
    (folder / "objects.csv").write_text("\n".join(lines))
    random.seed(0)
    confirmed = {}
    for _ in range(kills):
        server = Server(folder)
        threads = [
            threading.Thread(target=answer_until_killed, args=(link, confirmed))
            for link in server.links.values()
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


def test_two_kills(tmp_path):
    run(tmp_path, 2)


@pytest.mark.slow
def test_more_kills(tmp_path):
    run(tmp_path, 30 if "NEARFAR_FUZZ" in os.environ else 6)
