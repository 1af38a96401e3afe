"""A running collection of answers: the server, or answers from a table."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from nearfar.ask.answer_files import read_judgements
from nearfar.ask.collection import Collection, Objects
from nearfar.ask.questions import RANDOM
from nearfar.ask.store import Asked, Store
from nearfar.frames.judgements import read_triplets
from nearfar.frames.table import Table
from nearfar.runtime.messages import option

# Of threads: after each call of the system, the thread that answers people waits so long for one
# that learns. With Python's 0.005, that was most of the time of an answer among 200 people.
_SWITCH_SECONDS = 0.0005
# Names of people fit in a line of the page of results.
_LONGEST_NAME = 80


def open_collection(
    objects: Objects,
    path: Path,
    kind: str,
    random_share: float,
    seed: int,
    people: Sequence[str] = (),
) -> Collection:
    """Open a file of answers about objects, or make one; `people` get links of their own."""
    for name in people:
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise ValueError(
                f"{option('person')} {name!r}: write a name of at most {_LONGEST_NAME} characters."
            )
    if kind == "pairs" and objects.X is None:
        raise ValueError("Pairs need objects with vectors; ask for triplets.")
    store = Store(path, create=True)
    try:
        store.begin(kind, objects.names)
        for name in people:
            store.add_person(name)
        return Collection(objects, store, random_share=random_share, seed=seed)
    except BaseException:
        store.close()
        raise


def is_local(host: str) -> bool:
    """Tell whether the page may be opened without a link: only at the usual local address."""
    return host in ("127.0.0.1", "localhost")


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens, or raise ValueError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ValueError(
            f"Cannot listen on {host}, port {port}: {error.strerror or error}; name another "
            f"{option('port')}."
        ) from error


def serve(
    collection: Collection,
    host: str,
    port: int,
    *,
    show_results: bool,
    browser: bool,
    say: Callable[[str], None],
) -> None:
    """Serve the page until interrupted.

    Parameters
    ----------
    host, port: Where to listen. Without a link the page opens only at the usual local
        address.
    show_results: Whether people see the results; see `make_app`.
    browser: Whether to open the page.
    say: Gets the links of people and of the results.
    """
    listening, local = listen(host, port), is_local(host)
    try:
        from nearfar.ask.connections import server_of
        from nearfar.ask.server import LOOPBACK, make_app
    except ImportError as error:
        raise ImportError('The page needs a server: pip install "nearfar[ask]".') from error
    hosts = LOOPBACK if local else None
    app = make_app(collection, hosts=hosts, show_results=show_results)
    host, port = listening.getsockname()[:2]
    base = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    people = collection.store.people()
    for name, key in people.items():
        say(f"{name}: {base}/a/{key}")
    say(f"Results: {base}/results/{collection.store.results_key}")
    say("Press Ctrl+C to end. Answers are kept, and the same command continues.")
    if browser and local:
        first = next(iter(people.values()))
        threading.Timer(0.5, webbrowser.open, [f"{base}/a/{first}"]).start()
    sys.setswitchinterval(_SWITCH_SECONDS)
    with contextlib.suppress(KeyboardInterrupt):
        server_of(app).run(sockets=[listening])
    collection.measure()


def replay_answers(collection: Collection, table: Path, people: Sequence[str], number: int) -> int:
    """Answer from a table of triplets: the chooser asks only what the table answers.

    People are asked in turn.

    Returns
    -------
    int
        The number of answers to random questions.
    """
    if collection.chooser.kind != "triplets":
        raise ValueError(f"{option('replay')} answers triplets, not pairs.")
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
            raise ValueError("An answer could not be stored.")
    collection.measure()
    return sum(each.question.origin == RANDOM for each in chooser.judgements)
