"""Objects that people are asked about: rows of a table, or pictures of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from nearfar.ask.collection import Objects
from nearfar.ask.server import PICTURES
from nearfar.cli.errors import UserError
from nearfar.runtime.notes import note
from nearfar.tables.features import ColumnRules
from nearfar.tables.formats import TABLES, column_names, kind_of, read_frame
from nearfar.tables.labels import words
from nearfar.tables.reader import named_columns, require_columns
from nearfar.tables.row_input import InputRows, read_rows, row_names

_CARD_COLUMNS = 6
_LONGEST_CELL = 80
_FEWEST = 3


@dataclass(frozen=True)
class ObjectColumns:
    """What the columns of a table of objects are."""

    ids: str | None = None
    image: str | None = None
    text: str | None = None
    drop: Sequence[str] | None = None


def read_objects(
    source: str,
    columns: ObjectColumns,
    *,
    pictures: Path | None = None,
    vectors: Path | None = None,
) -> Objects:
    """Read objects.

    Parameters
    ----------
    source : str
        Table of objects, or folder of pictures.
    columns : ObjectColumns
    pictures : Path, optional
        Folder that the paths in the column of images start from; that of the table by default.
    vectors : Path, optional
        With a folder of pictures: table with a row of features for each, named by `columns.ids`.
    """
    path = Path(source)
    if path.is_dir():
        if columns.image or columns.text or pictures:
            raise UserError(f"{source} is a folder of pictures; --image and --text are for tables.")
        found = _from_folder(path, columns, vectors)
    elif vectors is not None:
        raise UserError("--vectors is for folders of pictures.")
    elif kind_of(path) not in TABLES:
        raise UserError(f"{source} is neither a folder of pictures nor a table.")
    else:
        found = _from_table(path, columns, pictures)
    if len(found) < _FEWEST:
        raise UserError(f"{source} has {len(found)} objects; at least {_FEWEST} are needed.")
    return found


def _from_table(path: Path, columns: ObjectColumns, folder: Path | None) -> Objects:
    frame = read_frame(path)
    named = [name for name in (columns.ids, columns.image, columns.text) if name is not None]
    require_columns(path, frame.columns, named)
    dropped = named_columns(columns.drop, frame.columns)
    X, features = _vectors(path, frame, columns, dropped)
    names = _names(frame, path, columns.ids)
    pictures = cards = None
    if columns.image is not None:
        base = (folder or path.parent).resolve()
        pictures = [picture_path(base, cell) for cell in words(frame[columns.image]).to_list()]
    elif columns.text is None:
        cards = _cards(frame.drop([*named, *dropped]))
    texts = None if columns.text is None else words(frame[columns.text]).to_list()
    return Objects(names, X, features, texts, pictures, cards)


def _names(frame: pl.DataFrame, path: Path, ids: str | None) -> list[str]:
    if ids is None:
        return [str(number) for number in range(len(frame))]
    return row_names(frame[ids], path)


def _vectors(
    path: Path, frame: pl.DataFrame, columns: ObjectColumns, dropped: Sequence[str]
) -> tuple[np.ndarray | None, Sequence[str] | None]:
    """Return the features of a table; nothing if it has no other columns than the named ones."""
    named = {columns.ids, columns.image, columns.text, *dropped}
    others = [name for name in frame.columns if name not in named]
    if not others:
        note("the objects have no vectors; they are placed by the answers alone.")
        return None, None
    lists = [name for name in others if frame[name].dtype.base_type() in (pl.List, pl.Array)]
    if len(lists) == 1:
        return _list_column(frame[lists[0]], path), None
    left_out = [name for name in (columns.image, *dropped) if name is not None]
    rows: InputRows = read_rows(
        str(path), ids=columns.ids, text=columns.text, rules=ColumnRules(left_out)
    )
    return rows.X, rows.feature_names


def _list_column(column: pl.Series, path: Path) -> np.ndarray:
    """Return a column of vectors as an array."""
    lengths = column.list.len() if column.dtype.base_type() == pl.List else None
    if column.null_count() or (lengths is not None and lengths.n_unique() != 1):
        raise UserError(f"The vectors in column {column.name} of {path} differ in length.")
    return np.array(column.to_list(), dtype=np.float32)


def _cards(frame: pl.DataFrame) -> list[list[tuple[str, str]]]:
    """Return the first columns of each row as text."""
    shown = frame.select(frame.columns[:_CARD_COLUMNS])
    return [
        [
            (name, "" if cell is None else str(cell)[:_LONGEST_CELL])
            for name, cell in zip(shown.columns, row, strict=True)
        ]
        for row in shown.iter_rows()
    ]


def _from_folder(folder: Path, columns: ObjectColumns, vectors: Path | None) -> Objects:
    base = folder.resolve()
    files = sorted(p for p in base.iterdir() if p.suffix.lower() in PICTURES and p.is_file())
    if vectors is None:
        note("the pictures have no vectors; they are placed by the answers alone.")
        return Objects(
            [file.name for file in files], pictures=[picture_path(base, f.name) for f in files]
        )
    if columns.ids is None:
        raise UserError(f"Name the column of {vectors} that has the names of pictures with --id.")
    require_columns(vectors, column_names(vectors), [columns.ids])
    rows = read_rows(str(vectors), ids=columns.ids, rules=ColumnRules(columns.drop))
    by_name = {key: file for file in files for key in (file.name, file.stem)}
    names = rows.ids or []
    missing = next((name for name in names if name not in by_name), None)
    if missing is not None:
        raise UserError(f"{vectors} names {missing!r}, which is no picture in {folder}.")
    pictures = [picture_path(base, by_name[name].name) for name in names]
    return Objects(names, rows.X, rows.feature_names, pictures=pictures)


def picture_path(base: Path, name: str) -> Path:
    """Return the path of a picture inside a folder, or raise UserError.

    Parameters
    ----------
    base : Path
        The folder, resolved.
    name : str
        Path from there; links are followed before it is checked.
    """
    path = (base / name).resolve()
    if not path.is_relative_to(base):
        raise UserError(f"{name!r} is outside the folder of pictures {base}.")
    if path.suffix.lower() not in PICTURES:
        raise UserError(f"{name!r} is not a picture: {', '.join(PICTURES)}.")
    if not path.is_file():
        raise UserError(f"There is no picture {name!r} in {base}.")
    return path
