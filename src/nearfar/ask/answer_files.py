"""Answers of ``nearfar ask`` as tables."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from nearfar.ask.store import Answered, Store
from nearfar.frames.formats import read_frame
from nearfar.frames.table import TableError

ANSWERS_ENDING = ".db"


def read_judgements(path: Path, kind: str) -> pl.DataFrame:
    """Read a table of triplets or pairs, or the answers in a file that `nearfar ask` writes."""
    if path.suffix.lower() != ANSWERS_ENDING:
        return read_frame(path)
    table, stored = read_answers(path)
    if stored != kind:
        raise TableError(f"{path} has {stored}; give it with --{stored}.")
    decided = table.filter(pl.col("answer") != "unsure").drop("seconds", "position")
    if len(decided) == 0:
        raise TableError(f"{path} has no answers yet; collect some with `nearfar ask`.")
    return decided


def read_answers(path: Path) -> tuple[pl.DataFrame, str]:
    """Return the answers in a file, and whether they are "triplets" or "pairs".

    The table has the names of objects: anchor, near and far (of answers that cannot tell, the left
    and the right object), or a, b and similar. Other columns are the answer, the position on the
    screen that was picked, the person and their weight, the time, the seconds on the screen, how
    the question was chosen, and the version of the chooser.
    """
    store = Store(path)
    try:
        kind, names, answers = store.kind, store.names(), store.answers()
    finally:
        store.close()
    rows = [_row(each, names) for each in answers]
    columns = ("anchor", "near", "far") if kind == "triplets" else ("a", "b", "similar")
    schema: dict[str, Any] = dict.fromkeys(columns, pl.String) | dict.fromkeys(
        ("answer", "position", "person"), pl.String
    )
    schema |= {"weight": pl.Float64, "time": pl.String, "seconds": pl.Float64}
    schema |= dict.fromkeys(("origin", "chooser"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row"), kind


def _row(each: Answered, names: list[str]) -> tuple[object, ...]:
    objects = [names[number] for number in each.asked.question.objects]
    position = each.answer
    if len(objects) == 2:
        objects.append({"same": "true", "different": "false"}.get(each.answer, ""))
        position = ""
    elif each.answer == "right":
        objects[1:] = objects[:0:-1]
    when = datetime.fromtimestamp(each.answered, UTC).isoformat(timespec="milliseconds")
    return (
        *objects,
        each.answer,
        position,
        each.asked.person,
        each.weight,
        when,
        each.seconds,
        each.asked.question.origin,
        each.chooser,
    )
