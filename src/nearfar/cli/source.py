"""Where rows and labels come from: a table, an array, or a dataset by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nearfar import datasets
from nearfar.metrics.metric import Metric
from nearfar.typing import Floats

TABLES: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": lambda path: pl.read_csv(path, glob=False, infer_schema_length=None),
    ".tsv": lambda path: pl.read_csv(path, separator="\t", glob=False, infer_schema_length=None),
    ".parquet": lambda path: pl.read_parquet(path, glob=False),
}
ARRAYS = (".npy", ".npz")
_KINDS = ", ".join([*TABLES, *ARRAYS])


_DOUBLE = re.compile(r"_duplicated_\d+$")
_LARGEST = 1e150


class SourceError(Exception):
    """What was asked for cannot be had; the message says what to do."""


@dataclass(frozen=True)
class Source:
    """Rows, and what is known of them.

    Attributes
    ----------
    name : str
    X : array of shape (n_samples, n_features)
    y : array of shape (n_samples,) or None
        Labels.
    feature_names : tuple of str or None
    ids : list of str or None
        Names of the rows.
    texts : list of str or None
        What the rows stand for.
    """

    name: str
    X: Floats
    y: NDArray[Any] | None = None
    feature_names: tuple[str, ...] | None = None
    ids: list[str] | None = None
    texts: list[str] | None = None

    @property
    def labels(self) -> NDArray[Any]:
        """The labels, or an error that says how to name them."""
        if self.y is None:
            raise SourceError(f"{self.name} has no labels; say where they are: --label NAME.")
        return self.y

    def called(self, row: int | np.integer[Any]) -> str:
        """Name of a row, or its number."""
        return str(row) if self.ids is None else self.ids[row]


def read_source(
    source: str,
    *,
    label: str | None = None,
    drop: Sequence[str] = (),
    ids: str | None = None,
    text: str | None = None,
    metric: Metric | None = None,
    labelled: bool = False,
) -> Source:
    """Read rows.

    Parameters
    ----------
    source : str
        Path of a table or an array, or a dataset's name.
    label, ids, text : str, optional
        Columns that have labels, names and texts of the rows. In an .npz file `label` is an array
        ("y" by default), for an .npy file it is the path of another.
    drop : sequence of str
        Columns to leave out.
    metric : Metric, optional
        Whose features are wanted: by name, if it knows names.
    labelled : bool
        Whether a table must have labels.
    """
    path = Path(source)
    kind = path.suffix.lower()
    if kind in TABLES and labelled and label is None:
        columns = ", ".join(read_table(path).columns)
        raise SourceError(f"Say which column has the labels: --label NAME; {path} has {columns}.")
    if kind in TABLES:
        found = _from_table(path, label, drop, ids, text, metric)
    elif drop or ids or text:
        raise SourceError(f"Only tables ({', '.join(TABLES)}) have columns; {source} is none.")
    elif kind in ARRAYS:
        found = _from_array(path, label)
    elif path.is_file():
        raise SourceError(f"{source} is not a kind of file that is read; those are {_KINDS}.")
    elif label is not None:
        raise SourceError(f"--label is for files ({_KINDS}), not for the dataset {source}.")
    else:
        found = _from_dataset(source)
    if metric is not None and found.X.shape[1] != metric.n_features:
        raise SourceError(
            f"{source} has {found.X.shape[1]} features, the metric is for {metric.n_features}."
        )
    return found


def read_table(path: Path) -> pl.DataFrame:
    """Read a whole table, or say what is wrong with it."""
    if path.suffix.lower() not in TABLES:
        raise SourceError(f"{path} is no table; those are {', '.join(TABLES)}.")
    if not path.is_file():
        raise SourceError(f"There is no file {path}.")
    try:
        table = TABLES[path.suffix.lower()](path)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise SourceError(f"{path} cannot be read: {reason}{_hint(path)}") from error
    twice = next((name for name in table.columns if _DOUBLE.search(name)), None)
    if twice is not None and _DOUBLE.sub("", twice) in table.columns:
        raise SourceError(f"{path} has two columns {_DOUBLE.sub('', twice)!r}; rename one.")
    if _hint(path):
        raise SourceError(f"{path} cannot be read.{_hint(path)}")
    if len(table) == 0:
        raise SourceError(f"{path} has no rows.")
    return table


def _hint(path: Path) -> str:
    """Say what may be wrong with a text file, if it can be seen in its first line."""
    if path.suffix.lower() == ".parquet":
        return ""
    with path.open("rb") as file:
        line = file.readline(1 << 16)
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        return " It is in UTF-16; save it in UTF-8."
    if path.suffix.lower() == ".csv" and b"," not in line and b";" in line:
        return " It seems to be separated by ';'; save it with ',' (and '.' for decimals)."
    return ""


def need(table: pl.DataFrame, path: Path, names: Sequence[str]) -> None:
    """Raise SourceError unless the table has these columns."""
    for name in names:
        if name not in table.columns:
            raise SourceError(f"{path} has no column {name!r}; it has {', '.join(table.columns)}.")


def _from_table(
    path: Path,
    label: str | None,
    drop: Sequence[str],
    ids: str | None,
    text: str | None,
    metric: Metric | None,
) -> Source:
    table = read_table(path)
    special = [name for name in (label, ids, text) if name is not None]
    need(table, path, [*special, *drop])
    if label is not None and label in drop:
        raise SourceError(f"{label!r} has the labels and cannot be dropped.")
    y = None if label is None else _classes(table[label], path)
    if metric is not None and metric.feature_names is not None:
        need(table, path, metric.feature_names)
        features = table.select(metric.feature_names)
    else:
        features = table.drop([*dict.fromkeys([*special, *drop])])
    return Source(
        path.stem,
        _numbers(features, path),
        y,
        tuple(features.columns),
        None if ids is None else _unique(table[ids], path),
        None if text is None else table[text].cast(pl.String).fill_null("").to_list(),
    )


def _numbers(features: pl.DataFrame, path: Path) -> Floats:
    if features.width == 0:
        raise SourceError(f"{path} has no columns besides the labels.")
    words = [c for c in features.columns if not features[c].dtype.is_numeric()]
    if words:
        options = " ".join(f"--drop {word}" for word in words)
        raise SourceError(f"Columns that are not numbers: {', '.join(words)}. Leave out: {options}")
    narrow = all(dtype == pl.Float32 for dtype in features.dtypes)
    width = pl.Float32 if narrow else pl.Float64
    X = features.select(pl.all().cast(width).fill_null(float("nan"))).to_numpy()
    holes = [
        c for c, column in zip(features.columns, X.T, strict=True) if not np.isfinite(column).all()
    ]
    if holes:
        raise SourceError(
            f"Columns with missing or infinite values: {', '.join(holes)}. Fill them in, or --drop."
        )
    sizes = np.abs(X).max(axis=0)
    large = [c for c, size in zip(features.columns, sizes, strict=True) if size > _LARGEST]
    if large:
        raise SourceError(f"Columns with numbers beyond {_LARGEST:g}: {', '.join(large)}.")
    return np.ascontiguousarray(X)


def _classes(labels: pl.Series, path: Path) -> NDArray[Any]:
    if labels.null_count():
        raise SourceError(
            f"{labels.null_count()} rows of {path} have no label in {labels.name!r}. "
            "Fill it in, or leave these rows out."
        )
    if labels.dtype.is_float():
        if not bool(((labels % 1) == 0).all()):
            raise SourceError(
                f"The labels in {labels.name!r} are decimal numbers; classes are needed."
            )
        labels = labels.cast(pl.Int64)
    return labels.to_numpy()


def _unique(names: pl.Series, path: Path) -> list[str]:
    if names.null_count() or names.n_unique() != len(names):
        raise SourceError(f"The names in column {names.name!r} of {path} are not one for each row.")
    return [str(name) for name in names.to_list()]


def _from_array(path: Path, label: str | None) -> Source:
    if path.suffix.lower() == ".npy":
        return Source(path.stem, _matrix(_load(path), path), _label_file(label))
    with _archive(path) as archive:
        arrays = list(archive.files)
        name = "X" if "X" in arrays else arrays[0] if len(arrays) == 1 else None
        if name is None:
            raise SourceError(f"{path} has no array 'X'; it has {', '.join(arrays)}.")
        if label is not None and label not in arrays:
            raise SourceError(f"{path} has no array {label!r}; it has {', '.join(arrays)}.")
        label = label or ("y" if "y" in arrays else None)
        try:
            X = _matrix(archive[name], path)
            y = None if label is None else archive[label]
        except ValueError as error:
            raise SourceError(f"{path} cannot be read: {error}") from error
    return Source(path.stem, X, y)


def _archive(path: Path) -> Any:
    found = _load(path)
    if not isinstance(found, np.lib.npyio.NpzFile):
        raise SourceError(f"{path} is no .npz file.")
    return found


def _load(path: Path) -> Any:
    """Read an .npy or .npz file; never anything that runs code."""
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise SourceError(f"There is no file {path}.") from error
    except (ValueError, OSError, EOFError) as error:
        raise SourceError(f"{path} cannot be read: {error}") from error


def _label_file(label: str | None) -> NDArray[Any] | None:
    if label is None:
        return None
    if Path(label).suffix.lower() != ".npy":
        raise SourceError(f"Labels of an .npy file are in another .npy file; got {label!r}.")
    return np.asarray(_load(Path(label)))


def _matrix(array: Any, path: Path) -> Floats:
    rows = np.asarray(array)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        raise SourceError(f"{path} needs a table of numbers; got {rows.dtype} {rows.shape}.")
    if rows.dtype != np.float32:
        rows = rows.astype(np.float64, copy=False)
    if not np.isfinite(rows).all():
        raise SourceError(f"{path} has missing or infinite values.")
    if rows.size == 0 or np.abs(rows).max() > _LARGEST:
        raise SourceError(f"{path} has no rows, or numbers beyond {_LARGEST:g}.")
    return rows


def _from_dataset(name: str) -> Source:
    try:
        data = datasets.load(name)
    except (ValueError, ConnectionError) as error:
        known = ", ".join(datasets.available())
        raise SourceError(
            f"There is no file {name}, and no such dataset: {error}. There is {known}."
        ) from error
    return Source(name, data.X, data.y, data.feature_names)
