"""Labels of rows, and triplets and pairs from tables: rows by number, or by name."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from nearfar.columns.cells import NO_LABEL_WORDS
from nearfar.frames.formats import TABLES, column_names, kind_of, read_frame
from nearfar.frames.reader import Source, require_columns
from nearfar.frames.table import Frame, Table, TableError, no_file
from nearfar.runtime.messages import counted, note, option, quoted
from nearfar.supervision import Pairs, Supervision, Triplets, keep_copies_together
from nearfar.supervision.supervision import are_numbers
from nearfar.typing import Array, Ints, Vector

# A note names no more labels, so that it stays one line.
_WORDS_SHOWN = 5


def has_label(labels: pl.Series) -> pl.Series:
    """Return which rows have a label."""
    labelled = labels.is_not_null()
    if labels.dtype.is_float():
        return labelled & labels.is_not_nan().fill_null(value=False)
    if labels.dtype == pl.String:
        words = labels.str.strip_chars().str.to_lowercase()
        return labelled & ~words.is_in(sorted(NO_LABEL_WORDS)).fill_null(value=True)
    return labelled


def rows_with_label(path: Source, labels: pl.Series) -> pl.Series:
    """Return which rows have a label, and say how many do not."""
    labelled = has_label(labels)
    if len(labelled) and not labelled.any():
        raise TableError(f"No row of {path} has a label in column {labels.name}.")
    if not labelled.all():
        missing_words = (
            labels.filter(~labelled).drop_nulls().cast(pl.String).str.strip_chars().unique().sort()
        )
        blank = [repr(word) for word in missing_words if word][:_WORDS_SHOWN]
        also = f" (such as {', '.join(blank)})" if blank else ""
        rows = counted(len(labelled) - int(labelled.sum()), "row")
        note(f"left out {rows} without a label in column {labels.name}{also}.")
    return labelled


def read_labels(
    labels: pl.Series, path: Source, *, numeric: bool | None, partly: bool = False
) -> Array:
    """Return classes or numbers (floats), or raise TableError if some are missing.

    By default, columns that `are_numbers` as floats are numbers. If only rows `partly` have labels,
    these are classes; or text, if some are missing (and empty then) or are decimal numbers.
    """
    labelled = has_label(labels)
    if partly:
        whole = labels.cast(pl.Float64, strict=False)
        if not labelled.all() or ((whole % 1) != 0).any():
            return words(labels).set(~labelled, "").to_numpy()
        numeric = False
    if not labelled.all():
        n_missing = len(labels) - int(labelled.sum())
        have = "has" if n_missing == 1 else "have"
        raise TableError(
            f"{counted(n_missing, 'row')} of {path} {have} no label in column {labels.name}. "
            "Fill it in, or leave those rows out."
        )
    if numeric:
        numbers = labels.cast(pl.Float64, strict=False)
        usable = numbers.is_finite().fill_null(value=False)
        if not usable.all():
            raise TableError(
                f"Column {labels.name} has {quoted(labels.filter(~usable)[0])}; the method learns "
                "from finite numbers."
            )
        return numbers.to_numpy()
    if labels.dtype == pl.Binary or labels.dtype.is_nested():
        raise TableError(
            f"Column {labels.name} has {labels.dtype}; labels must be text, numbers or booleans."
        )
    if labels.dtype == pl.String:
        labels = labels.str.strip_chars().str.replace_all(r"\s+", " ")
        _note_capitals(labels)
        for number in (pl.Int64, pl.Float64):
            converted = labels.cast(number, strict=False)
            if not converted.null_count():
                labels = converted
                break
    if numeric is None and labels.dtype.is_numeric():
        floats = labels.cast(pl.Float64).to_numpy()
        if are_numbers(floats):
            return floats
    if labels.dtype.is_float():
        if not bool(((labels % 1) == 0).all()):
            raise TableError(
                f"The labels in column {labels.name} are decimal numbers; classes are needed, or a "
                "method that learns from numbers, such as mlkr."
            )
        whole = labels.cast(pl.Int64, strict=False)
        # Numbers with more digits than an integer holds are names.
        labels = labels.cast(pl.String) if whole.null_count() else whole
    return labels.to_numpy()


def words(column: pl.Series) -> pl.Series:
    """Return cells as text; missing ones are empty."""
    return column.cast(pl.String).fill_null("")


def _note_capitals(labels: pl.Series) -> None:
    """Say which classes differ in capitals alone; single letters may mean it."""
    names = labels.unique().sort()
    names = names.filter(names.str.len_chars() > 1)
    small = names.str.to_lowercase()
    alike = names.filter(small.is_duplicated()).to_list()
    if alike:
        more = f" and {len(alike) - _WORDS_SHOWN} more" if len(alike) > _WORDS_SHOWN else ""
        shown = ", ".join(quoted(name) for name in alike[:_WORDS_SHOWN])
        note(
            f"classes in column {labels.name} differ in capitals alone: {shown}{more}. They count "
            "as different classes.",
            warning=True,
        )


_TRIPLET = ("anchor", "near", "far")
_PAIR = ("a", "b")
_PERSON = "person"
SAME = ("similar", "same")
"""Names of the column that says which pairs are similar; `verify --out` writes the second."""

ANSWERS_ENDING = ".db"
"""How the names of files of answers end, which `nearfar ask` writes."""
_ANSWERS = """
SELECT {}, q.person, p.weight, strftime('%Y-%m-%dT%H:%M:%f+00:00', a.answered, 'unixepoch'),
       a.seconds, q.origin, q.chooser
FROM answers a JOIN questions q ON q.id = a.question JOIN people p ON p.name = q.person
JOIN objects x ON x.number = q.first JOIN objects y ON y.number = q.second
LEFT JOIN objects z ON z.number = q.third WHERE a.undone IS NULL ORDER BY a.number
"""
_JUDGED = {
    "triplets": "x.name, CASE a.answer WHEN 'right' THEN z.name ELSE y.name END, "
    "CASE a.answer WHEN 'right' THEN y.name ELSE z.name END, a.answer, a.answer",
    "pairs": "x.name, y.name, CASE a.answer WHEN 'same' THEN 'true' WHEN 'different' THEN 'false' "
    "ELSE '' END, a.answer, ''",
}

FEWEST_PEOPLE = 5
"""With fewer people, objects are held out, and not people."""

_SIMILAR = dict.fromkeys(["true", "1", "yes", "similar", "same"], True)
_SIMILAR |= dict.fromkeys(["false", "0", "-1", "no", "dissimilar", "different"], False)


def judgements_in(columns: Sequence[str]) -> str:
    """Return "triplets" or "pairs" if a table with these columns has them, else nothing."""
    if set(_TRIPLET) <= set(columns):
        return "triplets"
    pairs = {*_PAIR} <= set(columns) <= {*_PAIR, *SAME, "weight", _PERSON}
    return "pairs" if pairs and set(SAME) & set(columns) else ""


def refuse_judgements(source: Source, judgements: object, kind: str) -> None:
    """Refuse objects without vectors: there are no rows, or they are triplets or pairs."""
    is_table = kind_of(source) in TABLES and (isinstance(source, Frame) or source.is_file())
    inside, nothing = judgements_in(column_names(source) if is_table else []), source == Path()
    if nothing and judgements is None:
        raise TableError("Name the rows: a table, an array or a dataset.")
    if nothing or inside:
        kind = inside if judgements is None else kind
        file = judgements if isinstance(judgements, str | Path) else source
        alone = " Triplets alone give coordinates: OrdinalEmbedding in Python."
        raise TableError(
            f"A metric measures distances of vectors, which {file} does not have; give a table "
            "with a row of features for each object, for example: nearfar learn OBJECTS.csv --id "
            f"NAME --{kind} {file}.{alone if kind == 'triplets' else ''}"
        )


def people_together(judgements: Triplets | Pairs, table: Table) -> Triplets | Pairs:
    """Keep the judgements of a person on one side of every split if there are enough people.

    Groups of rows are held out instead if they are given.
    """
    weight = judgements.weight
    number = (judgements if weight is None else judgements.take(weight > 0)).n_raters
    if table.groups is None and number >= FEWEST_PEOPLE:
        note(f"{number} people answered; no person is both learned from and tested on.")
        return judgements
    if table.groups is None and number > 1:
        note(f"{number} people answered, too few to hold out people; objects are held out instead.")
    return replace(judgements, raters=None)


def copies_together(table: Table) -> Table:
    """Keep copies of rows on one side of every split, and say so."""
    supervision = Supervision.of(
        table.supervision, len(table), groups=table.groups, numbers=table.kind == "numbers"
    )
    together, copies = keep_copies_together(table.X, supervision)
    if copies is None:
        return table
    note(f"{copies}.")
    n_copies = 0 if together.groups is None else len(copies)
    if together.listed:
        table = replace(table, supervision=together.given)
    return replace(table, groups=together.groups, n_copies=n_copies)


def read_judgements(path: Path, kind: str) -> pl.DataFrame:
    """Read a table of triplets or pairs, or the decided answers in a file of `nearfar ask`."""
    if path.suffix.lower() != ANSWERS_ENDING:
        return read_frame(path)
    table, stored = read_answers(path)
    if stored != kind:
        raise TableError(f"{path} has {stored}; give it with {option(stored)}.")
    decided = table.filter(pl.col("answer") != "unsure").drop("seconds", "position")
    if len(decided) == 0:
        raise TableError(f"{path} has no answers yet; collect some with `nearfar ask`.")
    return decided


def read_answers(path: Path) -> tuple[pl.DataFrame, str]:
    """Return the answers in a file of `nearfar ask`, and whether they are "triplets" or "pairs".

    The table has the names of objects: anchor, near and far (of answers that cannot tell, the left
    and the right object), or a, b and similar. Other columns are the answer, the position on the
    screen that was picked, the person and their weight, the time, the seconds on the screen, how
    the question was chosen, and the version of the chooser.
    """
    if not path.is_file():
        raise no_file(path)
    try:
        with closing(sqlite3.connect(path)) as db:
            ((kind,),) = db.execute("SELECT value FROM facts WHERE name = 'kind'").fetchall()
            rows = db.execute(_ANSWERS.format(_JUDGED[kind])).fetchall()
    except (sqlite3.Error, ValueError) as error:
        raise TableError(f"{path} has no judgements: {error}.") from error
    columns = [*_TRIPLET] if kind == "triplets" else [*_PAIR, SAME[0]]
    columns += ["answer", "position", _PERSON, "weight", "time", "seconds", "origin", "chooser"]
    types = {name: pl.Float64 if name in ("weight", "seconds") else pl.String for name in columns}
    return pl.DataFrame(rows, schema=types, orient="row"), kind


def read_triplets(table: pl.DataFrame, path: Source, rows: Table) -> Triplets:
    """Read triplets: columns anchor, near, far [, weight, person]."""
    index = _row_numbers(table, path, _TRIPLET, rows)
    return Triplets(index, _weights(table, path), _people(table, path))


def read_pairs(table: pl.DataFrame, path: Source, rows: Table) -> Pairs:
    """Read pairs: columns a, b, similar [, weight, person]."""
    column = next((name for name in SAME if name in table.columns), SAME[0])
    require_columns(path, table.columns, [column])
    index = _row_numbers(table, path, _PAIR, rows)
    similar = read_truths(table[column], path)
    return Pairs(index, similar, _weights(table, path), _people(table, path))


def read_truths(column: pl.Series, path: Source) -> list[bool]:
    """Read a column that says which pairs are similar."""
    words = [str(value).strip().lower() for value in column.to_list()]
    unknown = next((word for word in words if word not in _SIMILAR), None)
    if unknown is not None:
        raise TableError(
            f"{path} has {quoted(unknown)} in column {column.name}; write true or false, or 1 or 0."
        )
    return [_SIMILAR[word] for word in words]


def read_queries(table: pl.DataFrame, path: Source, rows: Table) -> tuple[Ints, Pairs | None]:
    """Read pairs that may or may not say which are similar: row numbers, and pairs if they do."""
    if not set(SAME) & set(table.columns):
        return _row_numbers(table, path, _PAIR, rows), None
    pairs = read_pairs(table, path, rows)
    return pairs.index, pairs


def _row_numbers(table: pl.DataFrame, path: Source, columns: Sequence[str], rows: Table) -> Ints:
    """Return the row numbers in columns of these names, or in the first columns."""
    named = any(name in table.columns for name in columns)
    if named:
        require_columns(path, table.columns, columns)
    elif table.width < len(columns):
        raise TableError(f"{path} needs the columns {', '.join(columns)}.")
    part = table.select(columns if named else table.columns[: len(columns)])
    if not named:
        taken = [f"{name} as {what}" for name, what in zip(part.columns, columns, strict=True)]
        note(f"took {', '.join(taken)}: {path} has no columns {', '.join(columns)}.")
    if part.null_count().sum_horizontal().sum():
        raise TableError(f"{path} has missing values in {', '.join(part.columns)}.")
    if rows.ids is not None:
        number = {name: row for row, name in enumerate(rows.ids)}
        row_lists = [
            [number.get(str(name), -1) for name in column] for column in part.iter_columns()
        ]
        index = np.array(row_lists, dtype=np.intp).reshape(part.width, len(part)).T
        if (index < 0).any():
            row, column = np.argwhere(index < 0)[0]
            wrong = quoted(part[int(row), int(column)])
            raise TableError(f"{path} refers to {wrong}, which names no row.")
        return index
    numbers = part.select(pl.all().cast(pl.Int64, strict=False))
    text = [name for name in part.columns if numbers[name].null_count()]
    if text and not named:
        raise TableError(f"{path} needs the columns {', '.join(columns)}.")
    if text:
        raise TableError(
            f"{path} has names, not row numbers, in {', '.join(text)}; "
            f"name the column of row names with {option('ids')}."
        )
    index = numbers.to_numpy()
    if index.size and not 0 <= index.min() <= index.max() < len(rows):
        raise TableError(
            f"{path} refers to rows {index.min()} to {index.max()}; "
            f"{rows.name} has rows 0 to {len(rows) - 1}."
        )
    return index.astype(np.intp)


def _people(table: pl.DataFrame, path: Source) -> list[str] | None:
    """Return who gave each judgement, if a column says so."""
    if _PERSON not in table.columns:
        return None
    people = table[_PERSON].cast(pl.String)
    if people.null_count():
        raise TableError(f"{path} has missing values in column {_PERSON}.")
    return people.to_list()


def _weights(table: pl.DataFrame, path: Source) -> Vector | None:
    if "weight" not in table.columns:
        return None
    weights = table["weight"].cast(pl.Float64, strict=False)
    if weights.null_count():
        raise TableError(f"{path} has weights that are missing or not numbers.")
    return weights.to_numpy()
