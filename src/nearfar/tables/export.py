"""`export`: a metric or adapter for another program; see `deploy/formats`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from nearfar.deploy.formats import ExportTarget, export_targets
from nearfar.frames.formats import check_output
from nearfar.frames.metric_files import kind_of_model, load_metric, load_model
from nearfar.frames.reading import read_new
from nearfar.frames.vectors import read_vectors
from nearfar.runtime.messages import counted, did_you_mean, forwards, note, option

_TARGETS = export_targets()
_WITH_ROWS = " or ".join(name for name, target in _TARGETS.items() if target.takes_rows)


def export(
    metric: str | PathLike[str],
    *,
    to: str,
    out: str | PathLike[str],
    rows: object = None,
    drop: Sequence[str] = (),
    documents: bool = False,
    **options: Any,
) -> Exported:
    """Write a metric for other programs: an index, a model, SQL, Python or a model card.

    An adapter is written as its map of queries; an index or SQL searches with it.

    Parameters
    ----------
    metric: Metric file, as written by `nearfar learn`, or adapter, by `nearfar adapt`.
    to: What to write. TARGETS.
    out: File to write.
    rows: Table, array or dataset whose rows go into an index.
    drop: Columns to leave out, separated by commas.
    documents: With an adapter: write its map of documents, not of queries.
    **options: Those of the target.
    """
    if to not in _TARGETS:
        known = ", ".join(map(repr, _TARGETS))
        raise ValueError(f"{to!r} is not one of {known}.{did_you_mean(to, _TARGETS)}")
    target, path, file = _TARGETS[to], Path(metric), Path(out)
    if not (target.is_folder and file.is_dir()):
        check_output(file, target.suffixes or None, [metric, rows])
    if rows is not None and not target.takes_rows:
        ways = f"{option('rows')} is for {option('to')} {_WITH_ROWS}"
        raise ValueError(f"{ways}; {to} does not contain rows.")
    if other := options.keys() - {*target.options}:
        raise ValueError(f"{option(min(other))} is not for {option('to', to)}.")
    model: Any
    kind, X = kind_of_model(path), None
    if kind == "adapter":
        model = _adapter(path, target, rows is not None, bool(drop), documents)
        X = None if rows is None else read_vectors(rows, "document").vectors
        maps = (model.adapter if documents else model).linear_map(documents)
        shape = maps.n_features, maps.n_components
    else:
        if documents:
            raise ValueError(f"{option('documents')} is for adapters; {metric} is a metric.")
        model = load_metric(path)
        if model.columns is not None and not target.is_folder:
            note(
                "the export takes features, not columns of a table; nearfar transform takes a "
                "table."
            )
        X = None if rows is None else read_new(rows, model, drop=drop).X
        shape = model.n_features, model.n_components
    arguments = {**options, "X": X} if target.takes_rows else options
    contents = target.write(model, file, **arguments)
    return Exported(contents, str(out), to, shape, 0 if X is None else len(X))


export.__doc__ = (export.__doc__ or "").replace(
    "TARGETS",
    "; ".join(
        f"{name}: {target.help} ({' or '.join(target.suffixes) or 'any name'})"
        for name, target in _TARGETS.items()
    ),
)
for _target in _TARGETS.values():
    export = forwards(_target.write, " ".join(_target.options))(export)


def _adapter(path: Path, target: ExportTarget, rows: bool, drop: bool, documents: bool) -> Any:
    """Return an adapter, or its map of documents, if the target has a place for it."""
    if drop:
        raise ValueError(f"{option('drop')} is for metrics; an adapter takes vectors.")
    if target.takes_rows and not rows:
        needed = option("rows", "SOURCE")
        raise ValueError(f"An index for an adapter has documents in it; give them with {needed}.")
    if documents and not target.is_map:
        wanted = f"{option('documents')} is for a map of documents"
        raise ValueError(f"{wanted}, which {target.name} is not.")
    adapter = load_model(path)
    return _DocumentMap(adapter) if documents else adapter


@dataclass(frozen=True)
class _DocumentMap:
    """An adapter's map of documents, with the exports of a map."""

    adapter: Any

    def to_onnx(self, path: Path) -> None:
        self.adapter.to_onnx(path, documents=True)

    def to_numpy(self, path: Path) -> None:
        self.adapter.to_numpy(path, documents=True)


@dataclass(frozen=True)
class Exported:
    """What was written: contents, file, target, numbers of features and coordinates, and rows."""

    contents: str
    written: str
    to: str
    shape: tuple[int, int]
    rows: int

    def to_dict(self) -> dict[str, object]:
        """Return the file, the target and the number of rows, for JSON."""
        return {"written": self.written, "to": self.to, "rows": self.rows}

    def __str__(self) -> str:
        features, coordinates = self.shape
        mapped = f"{counted(features, 'feature')} to {counted(coordinates, 'coordinate')}"
        return f"{self.contents}, {mapped}, written to {self.written}"
