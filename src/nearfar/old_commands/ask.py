"""``nearfar ask``: a page that asks people which objects are alike."""

from __future__ import annotations

import shlex
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nearfar.frames.formats import WRITTEN_TABLES, check_output
from nearfar.frames.judgements import ANSWERS_ENDING, read_answers
from nearfar.old_commands import options
from nearfar.old_commands.files import write_table
from nearfar.old_commands.terminal import UserError, command, say
from nearfar.runtime.messages import counted

_DEFAULT_FILE = Path("judgements.db")
_DEFAULT_PERSON = "me"


class Kind(StrEnum):
    """What is asked."""

    triplets = "triplets"
    pairs = "pairs"


@command
def ask(
    source: Annotated[
        str,
        typer.Argument(
            help="Table of objects, or folder of pictures; with --export, the file of answers.",
            show_default=False,
        ),
    ] = "",
    *,
    ids: options.Id = None,
    image: options.Image = None,
    text: Annotated[str | None, typer.Option(help="Column with texts to show.")] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of the pictures [default: the table's].",
        ),
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With a folder of pictures: table of their features, by --id."
        ),
    ] = None,
    drop: options.Drop = None,
    kind: Annotated[
        Kind,
        typer.Option(help="Which of two is more like a third (triplets), or are two the same."),
    ] = Kind.triplets,
    save_as: Annotated[
        Path, options.output("File of answers; if it exists, it is continued.")
    ] = _DEFAULT_FILE,
    person: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Person with a link of their own; repeatable."),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the answers as a table, and ask nothing."),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Answer from this table of triplets instead of a page: anchor, near, far.",
        ),
    ] = None,
    answers: Annotated[int, typer.Option(min=1, help="With --replay: number of answers.")] = 200,
    random_share: Annotated[
        float, typer.Option(min=0.05, max=1, help="Share of questions at random, which judge.")
    ] = 0.2,
    host: Annotated[
        str, typer.Option(help="Address to listen on; at others than 127.0.0.1 links are needed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8765,
    show_results: Annotated[
        bool,
        typer.Option(
            "--show-results",
            help="Show people how well the answers agree, and a link to the results. This can "
            "influence what they answer.",
        ),
    ] = False,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    seed: options.Seed = 0,
) -> None:
    """Ask people which objects are alike, on a page that chooses the questions.

    Every answer is stored before the next question is shown. Learn from the file of answers with
    `nearfar learn OBJECTS --id NAME --triplets FILE`.
    """
    if export is not None:
        _export(source, save_as, export)
        return
    if not source:
        raise UserError("Name the objects to ask about: a table, or a folder of pictures.")
    if save_as.suffix.lower() != ANSWERS_ENDING:
        raise UserError(f"--out {save_as}: name a file that ends with {ANSWERS_ENDING}.")
    from nearfar.ask.ask import open_collection, read_objects, replay_answers, serve

    objects = read_objects(
        source, ids=ids, image=image, text=text, drop=drop, pictures=pictures, vectors=vectors
    )
    names = [name.strip() for name in person or [_DEFAULT_PERSON]]
    collection = open_collection(objects, save_as, kind.value, random_share, seed, names)
    with closing(collection.store):
        if replay is not None:
            judged = replay_answers(collection, replay, names, answers)
            say(f"{answers} answers from {replay}, {judged} of them to random questions.")
        else:
            serve(collection, host, port, show_results=show_results, browser=browser, say=say)
        say(str(collection.progress))
        for rater in collection.people:
            if rater.notes:
                say(f"{rater.name}: {'; '.join(rater.notes)}. Weight {rater.weight:.2f}.")
        say(f"{save_as} has {counted(len(collection.chooser.judgements), 'answer')}.")
    left_out = [name for name in (image, text, *(drop or [])) if name is not None]
    say(f"Next: {_next_command(source, ids, kind, save_as, left_out, vectors)}")


def _export(source: str, stored: Path, target: Path) -> None:
    path = Path(source) if source else stored
    if path.suffix.lower() != ANSWERS_ENDING:
        raise UserError(f"{path} is not a file of answers ({ANSWERS_ENDING}).")
    check_output(target, WRITTEN_TABLES, [path])
    table, kind = read_answers(path)
    write_table(table, target)
    say(f"{counted(len(table), 'answer')} about {kind} written to {target}")


def _next_command(
    source: str,
    ids: str | None,
    kind: Kind,
    stored: Path,
    left_out: list[str],
    vectors: Path | None,
) -> str:
    if Path(source).is_dir() and vectors is None:
        return f"nearfar ask {shlex.quote(str(stored))} --export judgements.csv"
    words = ["nearfar", "learn", str(vectors or source)]
    words += [] if ids is None else ["--id", ids]
    words += ["--drop", ",".join(left_out)] if left_out else []
    return shlex.join([*words, f"--{kind.value}", str(stored)])
