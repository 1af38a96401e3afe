"""Objects that people are asked about: rows of a table, or pictures of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from nearfar.ask.collection import Objects
from nearfar.frames.formats import TABLES, column_names, kind_of, read_frame
from nearfar.frames.judgements import words
from nearfar.frames.reader import named_columns, require_columns
from nearfar.frames.reading import read_rows, row_names
from nearfar.frames.table import PICTURES, TableError, picture_path, pictures_named
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
        rows = read_rows(str(path), ids=ids, text=text, drop=left_out)
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
    rows = read_rows(str(vectors), ids=ids, drop=drop)
    names = rows.ids or []
    pictures = pictures_named(folder, names)
    return Objects(names, rows.X, rows.feature_names, pictures=pictures)
