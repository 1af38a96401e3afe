"""A running ``nearfar ask``: the server, or answers from a table."""

from __future__ import annotations

import contextlib
import socket
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nearfar.ask.answer_files import read_judgements
from nearfar.ask.collection import Collection, Objects
from nearfar.ask.questions import RANDOM
from nearfar.ask.store import Asked, Store
from nearfar.cli.errors import UserError
from nearfar.cli.terminal import say
from nearfar.tables.judgements import read_triplets
from nearfar.tables.table import Table

_MOST_REQUESTS = 64
"""Requests at a time; more are refused."""
_LARGEST_HEAD = 16_384


def open_collection(
    objects: Objects, path: Path, kind: str, random_share: float, seed: int
) -> Collection:
    """Open a file of answers about objects, or make one."""
    if kind == "pairs" and objects.X is None:
        raise UserError("Pairs need objects with vectors; ask for triplets.")
    store = Store(path, create=True)
    try:
        store.begin(kind, objects.names)
        return Collection(objects, store, random_share=random_share, seed=seed)
    except BaseException:
        store.close()
        raise


def serve(collection: Collection, listening: socket.socket, *, local: bool, browser: bool) -> None:
    """Serve the page until interrupted."""
    try:
        import uvicorn

        from nearfar.ask.server import make_app
    except ImportError as error:
        raise ImportError('The page needs a server: pip install "nearfar[ask]".') from error
    app = make_app(collection) if local else make_app(collection, hosts=None)
    host, port = listening.getsockname()[:2]
    base = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    people = collection.store.people()
    for name, key in people.items():
        say(f"{name}: {base}/a/{key}")
    say(f"Results: {base}/results/{collection.store.results_key}")
    say("Press Ctrl+C to end. Answers are kept, and the same command continues.")
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_MOST_REQUESTS,
        timeout_keep_alive=5,
        h11_max_incomplete_event_size=_LARGEST_HEAD,
        ws="none",
        lifespan="off",
    )
    if browser and local:
        first = next(iter(people.values()))
        threading.Timer(0.5, webbrowser.open, [f"{base}/a/{first}"]).start()
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
    collection.measure()


def replay_answers(collection: Collection, table: Path, people: Sequence[str], number: int) -> None:
    """Answer from a table of triplets: the chooser asks only what the table answers.

    People are asked in turn.
    """
    if collection.chooser.kind != "triplets":
        raise UserError("--replay answers triplets, not pairs.")
    names = list(collection.objects.names)
    rows = Table(str(table), np.zeros((len(names), 1)), ids=names)
    known = read_triplets(read_judgements(table, "triplets"), table, rows).index
    picked: dict[tuple[int, ...], int] = {}
    for anchor, near, far in known.tolist():
        picked[anchor, min(near, far), max(near, far)] = near
    pool = np.array(list(picked))
    chooser, store = collection.chooser, collection.store

    def ask(person: str) -> Asked:
        return store.ask(person, lambda open_: chooser.next(person, pending=open_, among=pool))

    for turn in range(number):
        person = people[turn % len(people)]
        asked = ask(person)
        near = picked[asked.question.key]
        answer = "left" if asked.question.objects[1] == near else "right"
        if not collection.answer(person, asked.id, answer, None):
            raise UserError("An answer could not be stored.")
    collection.measure()
    judged = sum(each.question.origin == RANDOM for each in chooser.judgements)
    say(f"{number} answers from {table}, {judged} of them to random questions.")
