"""`TrainingTable`: rows with what is known of their similarity."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl

from nearfar.constraints import Pairs, Supervision, Triplets, keep_copies_together
from nearfar.metrics.metric import Metric
from nearfar.runtime.notes import Note, collecting_notes, note
from nearfar.tables.formats import read_frame
from nearfar.tables.judgements import read_pairs, read_triplets
from nearfar.tables.preparation import ColumnRules
from nearfar.tables.row_input import InputRows, read_rows
from nearfar.typing import Array

ANSWERS_ENDING = ".db"
"""Ending of the files that `nearfar ask` writes."""
FEWEST_PEOPLE = 5
"""With fewer people, objects are held out, and not people."""

Judgements = TypeVar("Judgements", Triplets, Pairs)
Known = TypeVar("Known", bound=Array | Triplets | Pairs)


@dataclass(frozen=True)
class TrainingTable(InputRows):
    """Rows, and labels, numbers, triplets or pairs to learn from.

    Attributes
    ----------
    supervision : array, Triplets or Pairs
    source : str
        Path of the file, or name of the dataset; "" for arrays.
    label : str or None
        Column of the labels.
    id_column : str or None
        Column of the names of rows.
    notes : tuple of Note
        What was noticed while reading.
    """

    supervision: Array | Triplets | Pairs = field(kw_only=True)
    source: str = ""
    label: str | None = None
    id_column: str | None = None
    notes: tuple[Note, ...] = ()


def read_training_table(
    source: str | PathLike[str] | Array,
    *,
    label: str | Array | None = None,
    triplets: str | PathLike[str] | Triplets | None = None,
    pairs: str | PathLike[str] | Pairs | None = None,
    group: str | Array | None = None,
    ids: str | None = None,
    rules: ColumnRules | None = None,
    numbers: bool = False,
    show: str | None = None,
    metric: Metric | None = None,
) -> TrainingTable:
    """Read rows, and their labels, triplets or pairs.

    Parameters
    ----------
    source : path, name of a dataset, or array
    label : str or array, optional
        Column of labels; labels themselves for an array.
    triplets, pairs : path or constraints, optional
    group : str or array, optional
        Column of groups; groups themselves for an array.
    ids : str, optional
        Column of names of rows.
    rules : ColumnRules, optional
        What is said about columns.
    numbers : bool
        Whether labels are numbers, not classes.
    show : str, optional
        Column to show for each row.
    metric : Metric, optional
        The metric whose features are wanted.
    """
    with collecting_notes() as notes:
        if not isinstance(source, np.ndarray):
            if not (isinstance(label, str | None) and isinstance(group, str | None)):
                raise ValueError("Name the columns of labels and groups; arrays go with arrays.")
            rows = read_rows(
                fspath(source),
                label=label,
                ids=ids,
                group=group,
                text=show,
                metric=metric,
                rules=rules,
                labelled=triplets is None and pairs is None,
                numeric=numbers,
                skip_unlabelled=True,
            )
        else:
            y = None if label is None else np.asarray(label)
            rows = InputRows("array", source, y)
            if group is not None:
                rows = rows.grouped(group, "group")
        supervision: Array | Triplets | Pairs
        if triplets is not None:
            if not isinstance(triplets, Triplets):
                frame = _judgements(Path(triplets), "triplets")
                triplets = read_triplets(frame, Path(triplets), rows)
            supervision = people_together(triplets, rows)
        elif pairs is not None:
            if not isinstance(pairs, Pairs):
                pairs = read_pairs(_judgements(Path(pairs), "pairs"), Path(pairs), rows)
            supervision = people_together(pairs, rows)
        else:
            supervision = rows.numbers if numbers else rows.labels
        rows, supervision = copies_together(rows, supervision, numbers=numbers)
    return TrainingTable(
        **vars(rows),
        supervision=supervision,
        source="" if isinstance(source, np.ndarray) else fspath(source),
        label=label if isinstance(label, str) else None,
        id_column=ids,
        notes=tuple(notes),
    )


def _judgements(path: Path, kind: str) -> pl.DataFrame:
    if path.suffix.lower() != ANSWERS_ENDING:
        return read_frame(path)
    # Only files of answers need the room that writes them.
    from nearfar.ask.answer_files import read_judgements

    return read_judgements(path, kind)


def people_together(known: Judgements, rows: InputRows) -> Judgements:
    """Keep the judgements of a person on one side of every split if there are enough people.

    Groups of rows are held out instead if they are given.
    """
    weighted = known if known.weight is None else known.take(known.weight > 0)
    number = weighted.n_raters
    if rows.groups is None and number >= FEWEST_PEOPLE:
        note(f"{number} people answered; no person is both learned from and tested on.")
        return known
    if rows.groups is None and number > 1:
        note(f"{number} people answered, too few to hold out people; objects are held out instead.")
    return replace(known, raters=None)


def copies_together(
    rows: InputRows, known: Known, *, numbers: bool = False
) -> tuple[InputRows, Known]:
    """Keep copies of rows on one side of every split, and say so."""
    supervision = Supervision.of(known, len(rows), groups=rows.groups, numbers=numbers)
    together, copies = keep_copies_together(rows.X, supervision)
    if copies is None:
        return rows, known
    note(f"{copies}.")
    n_copies = 0 if together.groups is None else len(copies)
    rows = replace(rows, groups=together.groups, n_copies=n_copies)
    return rows, together.given if together.listed else known
