"""Objects that people are asked about: rows of a table, or pictures of a folder.

A running collection of answers: the server, or answers from a table.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from nearfar.ask.chooser import RANDOM
from nearfar.ask.store import Asked, Collection, Objects, Store
from nearfar.frames.formats import TABLES, column_names, kind_of, read_frame
from nearfar.frames.judgements import read_judgements, read_triplets, words
from nearfar.frames.reader import named_columns, require_columns
from nearfar.frames.reading import read_table, row_names
from nearfar.frames.table import PICTURES, Table, TableError, picture_path, pictures_named
from nearfar.runtime.messages import note, option

# So many columns and letters of them fit on a card of the page.
_CARD_COLUMNS = 6
_LONGEST_CELL = 80
# A question is about three objects.
_FEWEST = 3


def read_objects(
    source: str,
    *,
    ids: str | None = None,
    image: str | None = None,
    text: str | None = None,
    drop: Sequence[str] | None = None,
    pictures: Path | None = None,
    vectors: Path | None = None,
) -> Objects:
    """Read objects.

    Parameters
    ----------
    source: Table of objects, or folder of pictures.
    ids, image, text: Columns of names, of paths of pictures, and of texts.
    drop: Columns to leave out.
    pictures: Folder that the paths in the column of images start from; that of the table by
        default.
    vectors: With a folder of pictures: table with a row of features for each, named by
        `ids`.
    """
    path = Path(source)
    if path.is_dir():
        if image or text or pictures:
            raise TableError(
                f"{source} is a folder of pictures; {option('image')} and {option('text')} are for "
                "tables."
            )
        objects = _from_folder(path, ids, drop, vectors)
    elif vectors is not None:
        raise TableError(f"{option('vectors')} is for folders of pictures.")
    elif kind_of(path) not in TABLES:
        raise TableError(f"{source} is neither a folder of pictures nor a table.")
    else:
        objects = _from_table(path, ids, image, text, drop, pictures)
    if len(objects) < _FEWEST:
        raise TableError(f"{source} has {len(objects)} objects; at least {_FEWEST} are needed.")
    return objects


def _from_table(
    path: Path,
    ids: str | None,
    image: str | None,
    text: str | None,
    drop: Sequence[str] | None,
    folder: Path | None,
) -> Objects:
    frame = read_frame(path)
    named = [name for name in (ids, image, text) if name is not None]
    require_columns(path, frame.columns, named)
    dropped = named_columns(drop, frame.columns)
    others = [name for name in frame.columns if name not in {*named, *dropped}]
    lists = [name for name in others if frame[name].dtype.base_type() in (pl.List, pl.Array)]
    X = features = None
    if not others:
        note("the objects have no vectors; they are placed by the answers alone.")
    elif len(lists) == 1:
        column = frame[lists[0]]
        lengths = column.list.len() if column.dtype.base_type() == pl.List else None
        if column.null_count() or (lengths is not None and lengths.n_unique() != 1):
            raise TableError(f"The vectors in column {column.name} of {path} differ in length.")
        X = np.array(column.to_list(), dtype=np.float32)
    else:
        left_out = [*([] if image is None else [image]), *dropped]
        rows = read_table(path, ids=ids, show=text, drop=left_out)
        X, features = rows.X, rows.feature_names
    names = [str(row) for row in range(len(frame))] if ids is None else row_names(frame[ids], path)
    pictures = cards = None
    if image is not None:
        base = (folder or path.parent).resolve()
        pictures = [picture_path(base, cell) for cell in words(frame[image]).to_list()]
    elif text is None:
        shown = frame.select(others[:_CARD_COLUMNS])
        cards = [
            [
                (name, "" if cell is None else str(cell)[:_LONGEST_CELL])
                for name, cell in zip(shown.columns, row, strict=True)
            ]
            for row in shown.iter_rows()
        ]
    texts = None if text is None else words(frame[text]).to_list()
    return Objects(names, X, features, texts, pictures, cards)


def _from_folder(
    folder: Path, ids: str | None, drop: Sequence[str] | None, vectors: Path | None
) -> Objects:
    base = folder.resolve()
    files = sorted(p for p in base.iterdir() if p.suffix.lower() in PICTURES and p.is_file())
    if vectors is None:
        note("the pictures have no vectors; they are placed by the answers alone.")
        return Objects(
            [file.name for file in files], pictures=[picture_path(base, f.name) for f in files]
        )
    if ids is None:
        raise TableError(
            f"Name the column of {vectors} that has the names of pictures with {option('ids')}."
        )
    require_columns(vectors, column_names(vectors), [ids])
    rows = read_table(vectors, ids=ids, drop=drop)
    names = rows.ids or []
    pictures = pictures_named(folder, names)
    return Objects(names, rows.X, rows.feature_names, pictures=pictures)


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
        from nearfar.ask.server import LOOPBACK, make_app, server_of
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
