"""`ask`: people, or a table in their place, answer questions about rows of a table or pictures."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle, islice
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from nearfar.ask.chooser import RANDOM, Question
from nearfar.ask.store import Collection, Objects, Store
from nearfar.frames import formats, judgements
from nearfar.frames.reader import named_columns, require_columns
from nearfar.frames.reading import read_table, row_names
from nearfar.frames.table import PICTURES, Table, TableError, picture_path, pictures_named
from nearfar.runtime.messages import counted, forwards, note, option
from nearfar.runtime.parameters import check_parameters, integer, number

# So many columns and letters of them fit on a card of the page.
_CARD_COLUMNS, _LONGEST_CELL = 6, 80
# Names of people fit in a line of the page of results.
_LONGEST_NAME = 80
# A question is about three objects.
_FEWEST = 3


@dataclass(frozen=True)
class Collected:
    """A file of answers, and what is said about it."""

    answers: int
    written: str
    lines: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the content, for JSON."""
        return {"answers": self.answers, "written": self.written, "notes": list(self.lines)}

    def __str__(self) -> str:
        return "\n".join(self.lines)


def read_objects(
    source: str,
    *,
    ids: str | None = None,
    image: str | None = None,
    text: str | None = None,
    pictures: str | PathLike[str] | None = None,
    vectors: str | PathLike[str] | None = None,
    drop: Sequence[str] | None = None,
) -> Objects:
    """Read objects: rows of a table, or pictures of a folder.

    Parameters
    ----------
    source : str
        Table of objects, or folder of pictures.
    ids : str, optional
        Column with the names of objects.
    image : str, optional
        Column with paths of pictures to show.
    text : str, optional
        Column with texts to show.
    pictures : path, optional
        Folder that the paths of pictures start from; by default the table's.
    vectors : path, optional
        With a folder of pictures: table of their features, by `ids`.
    drop : list of str, optional
        Columns to leave out.
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
    elif formats.kind_of(path) not in formats.TABLES:
        raise TableError(f"{source} is neither a folder of pictures nor a table.")
    else:
        base = path.parent if pictures is None else Path(pictures)
        objects = _from_table(path, ids, image, text, drop, base.resolve())
    if len(objects) < _FEWEST:
        raise TableError(f"{source} has {len(objects)} objects; at least {_FEWEST} are needed.")
    return objects


def _from_table(
    path: Path,
    ids: str | None,
    image: str | None,
    text: str | None,
    drop: Sequence[str] | None,
    folder: Path,
) -> Objects:
    frame = formats.read_frame(path)
    named = [name for name in (ids, image, text) if name is not None]
    require_columns(path, frame.columns, named)
    dropped = named_columns(drop, frame.columns)
    others = [name for name in frame.columns if name not in {*named, *dropped}]
    lists = [name for name in others if frame[name].dtype.base_type() in (pl.List, pl.Array)]
    X = features = pictures = cards = texts = None
    if not others:
        note("the objects have no vectors; they are placed by the answers alone.")
    elif len(lists) == 1:
        cells = frame[lists[0]].to_list()
        if None in cells or len({*map(len, cells)}) != 1:
            raise TableError(f"The vectors in column {lists[0]} of {path} differ in length.")
        X = np.array(cells, dtype=np.float32)
    else:
        left_out = [*([] if image is None else [image]), *dropped]
        rows = read_table(path, ids=ids, show=text, drop=left_out)
        X, features = rows.X, rows.feature_names
    names = [str(row) for row in range(len(frame))] if ids is None else row_names(frame[ids], path)
    if image is not None:
        pictures = [picture_path(folder, cell) for cell in judgements.words(frame[image]).to_list()]
    if text is not None:
        texts = judgements.words(frame[text]).to_list()
    elif image is None:
        shown = frame.select(others[:_CARD_COLUMNS])
        lines = [["" if cell is None else str(cell) for cell in row] for row in shown.iter_rows()]
        cut = [[cell[:_LONGEST_CELL] for cell in line] for line in lines]
        cards = [list(zip(shown.columns, line, strict=True)) for line in cut]
    return Objects(names, X, features, texts, pictures, cards)


def _from_folder(
    folder: Path, ids: str | None, drop: Sequence[str] | None, vectors: str | PathLike[str] | None
) -> Objects:
    if vectors is None:
        note("the pictures have no vectors; they are placed by the answers alone.")
        base = folder.resolve()
        files = sorted(p for p in base.iterdir() if p.suffix.lower() in PICTURES and p.is_file())
        shown = [picture_path(base, file.name) for file in files]
        return Objects([file.name for file in files], pictures=shown)
    if ids is None:
        raise TableError(
            f"Name the column of {vectors} that has the names of pictures with {option('ids')}."
        )
    require_columns(Path(vectors), formats.column_names(Path(vectors)), [ids])
    rows = read_table(vectors, ids=ids, drop=drop)
    names = rows.ids or []
    return Objects(names, rows.X, rows.feature_names, pictures=pictures_named(folder, names))


@forwards(read_objects, "ids image text pictures vectors drop")
def ask(
    objects: str = "",
    *,
    kind: Literal["triplets", "pairs"] = "triplets",
    out: str | PathLike[str] = "judgements.db",
    person: Sequence[str] | None = None,
    export: str | PathLike[str] | None = None,
    replay: str | PathLike[str] | None = None,
    answers: int = 200,
    random_share: float = 0.2,
    host: str = "127.0.0.1",
    port: int = 8765,
    show_results: bool = False,
    browser: bool = True,
    random_state: int = 0,
    **columns: Any,
) -> Collected:
    """Ask people which objects are alike, on a page that chooses the questions.

    Every answer is stored before the next question is shown. Learn from the file of answers with
    ``nearfar learn OBJECTS --id NAME --triplets FILE``.

    Parameters
    ----------
    objects : str
        Table of objects, or folder of pictures; with `export`, the file of answers.
    kind : {"triplets", "pairs"}
        Which of two is more like a third (triplets), or are two the same.
    out : path
        File of answers; if it exists, it is continued.
    person : str, optional
        Person with a separate link.
    export : path, optional
        Write the answers as a table, and ask nothing.
    replay : path, optional
        Answer from this table of triplets instead of a page: anchor, near, far.
    answers : int
        With `replay`: number of answers.
    random_share : float
        Share of questions at random, which judge.
    host : str
        Address to listen on; at others than 127.0.0.1 links are needed.
    port : int
        Port; 0 takes a free one.
    show_results : bool
        Show people how well the answers agree, and a link to the results. This can influence what
        they answer.
    browser : bool
        Open the page in a browser.
    random_state : int
        Random seed.
    """
    path, people = Path(out), [name.strip() for name in person or ["me"]]
    if export is not None:
        return _exported(Path(objects or out), Path(export))
    if not objects:
        raise TableError("Name the objects to ask about: a table, or a folder of pictures.")
    if path.suffix.lower() != judgements.ANSWERS_ENDING:
        ending = judgements.ANSWERS_ENDING
        raise TableError(f"{option('out')} {path}: name a file that ends with {ending}.")
    for name in people:
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            at_most = f"write a name of at most {_LONGEST_NAME} characters"
            raise ValueError(f"{option('person')} {name!r}: {at_most}.")
    rules = {"random_share": number(at_least=0.05, at_most=1), "answers": integer(at_least=1)}
    check_parameters(rules, {"random_share": random_share, "answers": answers})
    shown = read_objects(objects, **columns)
    if kind == "pairs" and shown.X is None:
        raise ValueError("Pairs need objects with vectors; ask for triplets.")
    lines = []
    with closing(Store(path, kind, shown.names, people)) as store:
        collection = Collection(shown, store, random_share, random_state)
        if replay is not None:
            judged = _replay(collection, Path(replay), people, answers)
            lines += [f"{answers} answers from {replay}, {judged} of them to random questions."]
        else:
            try:
                from nearfar.ask.server import serve
            except ImportError as error:
                raise ImportError('The page needs a server: pip install "nearfar[ask]".') from error
            serve(collection, host, port, show_results=show_results, browser=browser)
        collection.measure()
    lines += [str(collection.progress)]
    lines += [
        f"{rater.name}: {'; '.join(rater.notes)}. Weight {rater.weight:.2f}."
        for rater in collection.people
        if rater.notes
    ]
    n = len(collection.chooser.judgements)
    after = _next_command(objects, kind, path, **columns)
    return Collected(n, str(path), (*lines, f"{path} has {counted(n, 'answer')}.", after))


def _exported(path: Path, target: Path) -> Collected:
    if path.suffix.lower() != judgements.ANSWERS_ENDING:
        raise TableError(f"{path} is not a file of answers ({judgements.ANSWERS_ENDING}).")
    formats.check_output(target, formats.WRITTEN_TABLES, [path])
    table, kind = judgements.read_answers(path)
    formats.write_frame(table, target)
    line = f"{counted(len(table), 'answer')} about {kind} written to {target}"
    return Collected(len(table), str(target), (line,))


def _replay(collection: Collection, table: Path, people: Sequence[str], number: int) -> int:
    """Answer from a table of triplets: the chooser asks only what the table answers.

    People are asked in turn. Return the number of answers to random questions.
    """
    chooser, store = collection.chooser, collection.store
    if chooser.kind != "triplets":
        raise ValueError(f"{option('replay')} answers triplets, not pairs.")
    names = list(collection.objects.names)
    rows = Table(str(table), np.zeros((len(names), 1)), ids=names)
    frame = judgements.read_judgements(table, "triplets")
    known = judgements.read_triplets(frame, table, rows).index.tolist()
    picked = {Question((anchor, near, far)).key: near for anchor, near, far in known}
    pool = np.array(list(picked))
    for name in islice(cycle(people), number):

        def choose(pending: Sequence[Question], name: str = name) -> Question:
            return chooser.next(name, pending=pending, among=pool)

        asked = store.ask(name, choose)
        left = asked.question.objects[1] == picked[asked.question.key]
        collection.answer(name, asked.id, "left" if left else "right", None)
    return sum(each.question.origin == RANDOM for each in chooser.judgements)


def _next_command(
    objects: str, kind: str, stored: Path, drop: Sequence[str] = (), **columns: Any
) -> str:
    source = columns.get("vectors") or objects
    if Path(source).is_dir():
        return f"Next: nearfar ask {shlex.quote(str(stored))} --export judgements.csv"
    left_out = [*(columns[name] for name in ("image", "text") if name in columns), *drop]
    line = ["nearfar", "learn", str(source)]
    line += ["--id", columns["ids"]] if "ids" in columns else []
    line += ["--drop", ",".join(left_out)] if left_out else []
    return f"Next: {shlex.join([*line, f'--{kind}', str(stored)])}"
