"""Collections, and a server in a thread."""

from __future__ import annotations

import socket
import threading

import numpy as np
import pytest

from nearfar.ask.collection import Collection, Objects
from nearfar.ask.store import Store


def make_collection(path, *, n=30, people=("Ann", "Ben"), kind="triplets", **shown):
    X = np.random.default_rng(0).normal(size=(n, 4))
    objects = Objects([f"object {row}" for row in range(n)], X, **shown)
    store = Store(path, create=True)
    store.begin(kind, objects.names)
    for name in people:
        store.add_person(name)
    return Collection(objects, store, seed=0)


@pytest.fixture
def collection(tmp_path):
    found = make_collection(tmp_path / "answers.db")
    yield found
    found.store.close()


@pytest.fixture
def serve():
    """Return a function that serves a collection on this machine, and gives its address."""
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    from nearfar.ask.server import make_app

    running = []

    def start(collection):
        listening = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(make_app(collection), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        running.append((server, thread, listening))
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield start
    for server, thread, listening in running:
        server.should_exit = True
        thread.join()
        listening.close()
