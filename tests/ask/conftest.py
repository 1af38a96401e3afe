"""Collections, and a server in a thread."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

from nearfar.ask.store import Collection, Objects, Store

PEOPLE = ["Ann", "Ben", "Cid"]


def make_collection(path, *, n=30, people=("Ann", "Ben"), kind="triplets", vectors=True, **shown):
    X = np.random.default_rng(0).normal(size=(n, 4)) if vectors else None
    objects = Objects([f"object {row}" for row in range(n)], X, **shown)
    return Collection(objects, Store(path, kind, objects.names, people), seed=0)


class Server:
    """`nearfar ask` in a process, about a table that is written if there is none."""

    def __init__(self, folder, *words):
        if not (folder / "objects.csv").exists():
            X = np.random.default_rng(0).normal(size=(40, 3))
            lines = ["name,a,b,c"] + [f"object{n},{a},{b},{c}" for n, (a, b, c) in enumerate(X)]
            (folder / "objects.csv").write_text("\n".join(lines))
        people = [word for name in PEOPLE for word in ("--person", name)]
        command = [sys.executable, "-m", "nearfar.cli", "ask", "objects.csv", "--id", "name"]
        self.process = subprocess.Popen(
            [*command, "--port", "0", "--no-browser", *people, *words],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.links = {}
        while len(self.links) < len(PEOPLE) + 1:
            name, _, link = self.process.stdout.readline().strip().partition(": ")
            assert name, "the server did not start"
            self.links[name] = link

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def collection(tmp_path):
    found = make_collection(tmp_path / "answers.db")
    yield found
    found.store.close()


@pytest.fixture
def serve():
    """Return a function that serves a collection on this machine, and gives its address."""
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    from nearfar.ask.server import make_app, server_of

    running = []

    def start(collection, **settings):
        listening = socket.create_server(("127.0.0.1", 0))
        server = server_of(make_app(collection, **settings))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        running.append((server, thread, listening))
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield start
    for server, thread, listening in running:
        server.should_exit = True
        thread.join()
        listening.close()
