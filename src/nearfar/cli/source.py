"""Where points and labels come from: a dataset by name, or a table in a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nearfar import datasets

_READERS = {
    ".csv": lambda path: pl.read_csv(path, glob=False),
    ".tsv": lambda path: pl.read_csv(path, separator="\t", glob=False),
    ".parquet": lambda path: pl.read_parquet(path, glob=False),
}


class SourceError(Exception):
    """What was asked for cannot be had; the message says what to do."""


@dataclass(frozen=True)
class Source:
    """Points with labels, and what they are called."""

    name: str
    X: NDArray[np.floating[Any]]
    y: NDArray[Any]
    feature_names: tuple[str, ...] | None


def read_source(source: str, *, label: str | None, drop: list[str]) -> Source:
    """Read a table, if `source` names a file of a known kind, or a dataset."""
    path = Path(source)
    if path.suffix.lower() in _READERS:
        return _read_table(path, label, drop)
    if path.is_file():
        kinds = ", ".join(_READERS)
        raise SourceError(f"{source} is not a kind of table that is read; those are {kinds}.")
    if label is not None or drop:
        kinds = ", ".join(_READERS)
        raise SourceError(f"--label and --drop are for tables ({kinds}), not for {source}.")
    try:
        data = datasets.load(source)
    except (ValueError, ConnectionError) as error:
        raise SourceError(str(error)) from error
    if data.y is None:
        raise SourceError(f"{source} has no labels to learn from.")
    return Source(source, data.X, data.y, data.feature_names)


def _read_table(path: Path, label: str | None, drop: list[str]) -> Source:
    try:
        table = _READERS[path.suffix.lower()](path)
    except FileNotFoundError as error:
        raise SourceError(f"There is no file {path}.") from error
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SourceError(f"{path} cannot be read: {error}") from error
    if label is None:
        raise SourceError(f"Say which column of {path} has the labels: --label NAME.")
    for name in [label, *drop]:
        if name not in table.columns:
            raise SourceError(f"{path} has no column {name!r}; it has {', '.join(table.columns)}.")
    if label in drop:
        raise SourceError(f"{label!r} has the labels and cannot be dropped.")
    labels = table[label]
    if labels.null_count():
        raise SourceError(f"{labels.null_count()} rows of {path} have no label in {label!r}.")
    if labels.dtype.is_float():
        raise SourceError(f"The labels in {label!r} are decimal numbers; classes are needed.")
    features = table.drop([label, *drop])
    if features.width == 0:
        raise SourceError(f"{path} has no columns besides the labels.")
    words = [c for c in features.columns if not features[c].dtype.is_numeric()]
    if words:
        options = " ".join(f"--drop {word}" for word in words)
        raise SourceError(f"Columns that are not numbers: {', '.join(words)}. Leave out: {options}")
    X = features.select(pl.all().cast(pl.Float64).fill_null(float("nan"))).to_numpy()
    holes = [
        c for c, column in zip(features.columns, X.T, strict=True) if not np.isfinite(column).all()
    ]
    if holes:
        raise SourceError(
            f"Columns with missing or infinite values: {', '.join(holes)}. Fill them in, or --drop."
        )
    return Source(path.stem, X, labels.to_numpy(), tuple(features.columns))
