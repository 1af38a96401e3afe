"""``nearfar export``: a metric or adapter for another program; see `deploy/formats`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from nearfar.cli import options
from nearfar.cli.files import is_adapter, load_adapter, load_metric, spooled
from nearfar.cli.terminal import UserError, command, say, show_json
from nearfar.deploy.formats import ExportTarget, export_targets
from nearfar.retrieval import RetrievalAdapter
from nearfar.retrieval.search_input import read_vectors
from nearfar.runtime.notes import note
from nearfar.runtime.quoting import counted
from nearfar.tables.formats import check_output
from nearfar.tables.reading import read_rows
from nearfar.typing import Floats

_TARGETS = export_targets()
_WITH_ROWS = " or ".join(name for name, target in _TARGETS.items() if target.takes_rows)
_CHOICES: Any = Enum("Target", {name: name for name in _TARGETS}, type=str)  # type: ignore[misc]
_HELP = "; ".join(f"{name}: {target.help}" for name, target in _TARGETS.items())
_NAMES = "; ".join(
    f"{name}: {' or '.join(target.suffixes) or 'any name'}" for name, target in _TARGETS.items()
)


def _with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the targets and their options to the parameters of the command."""
    signature = inspect.signature(function, eval_str=True)
    known = dict(signature.parameters)
    del known["given"]
    known["to"] = known["to"].replace(annotation=Annotated[_CHOICES, typer.Option(help=_HELP)])
    for target in _TARGETS.values():
        for option in target.options:
            hint: Any = str if option.default is not None else str | None
            known[option.name] = inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=option.default,
                annotation=Annotated[hint, typer.Option(help=f"{target.name}: {option.help}")],
            )
    function.__signature__ = signature.replace(parameters=list(known.values()))  # type: ignore[attr-defined]
    function.__annotations__ = {name: parameter.annotation for name, parameter in known.items()}
    return function


@command
@_with_options
def export(
    metric: options.ModelPath,
    *,
    to: str,
    save_as: Annotated[Path, options.output(f"File to write ({_NAMES}).")],
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            callback=spooled,
            help=f"{_WITH_ROWS}: table, array or dataset whose rows go into the file.",
        ),
    ] = None,
    drop: options.Drop = None,
    documents: options.Documents = False,
    json: options.Json = False,
    **given: str | None,
) -> None:
    """Write a metric for other programs: an index, a model, SQL, Python or a model card.

    An adapter is written as its map of queries; an index or SQL searches with it.
    """
    target = _TARGETS[_CHOICES(to).value]
    if not (target.is_folder and save_as.is_dir()):
        check_output(save_as, target.suffixes or None, [metric, rows])
    if rows is not None and not target.takes_rows:
        raise UserError(f"--rows is for --to {_WITH_ROWS}; {target.name} does not contain rows.")
    if is_adapter(metric):
        model, X, shape = _load_adapter(metric, target, rows, drop, documents)
    else:
        model, X, shape = _load_metric(metric, target, rows, drop, documents)
    arguments: dict[str, Any] = {option.name: given[option.name] for option in target.options}
    if target.takes_rows:
        arguments["X"] = X
    contents = target.write(model, save_as, **arguments)
    if json:
        n_rows = 0 if X is None else len(X)
        show_json({"written": str(save_as), "to": target.name, "rows": n_rows})
        return
    mapped = f"{counted(shape[0], 'feature')} to {counted(shape[1], 'coordinate')}"
    say(f"{contents}, {mapped}, written to {save_as}")


Loaded = tuple[Any, Floats | None, tuple[int, int]]
"""What is exported, rows that go into the file, and the numbers of features and coordinates."""


def _load_metric(
    path: Path, target: ExportTarget, rows: str | None, drop: list[str] | None, documents: bool
) -> Loaded:
    metric = load_metric(path)
    if documents:
        raise UserError(f"--documents is for adapters; {path} is a metric.")
    if metric.columns is not None and not target.is_folder:
        note("the export takes features, not columns of a table; nearfar transform takes a table.")
    X = None if rows is None else read_rows(rows, drop=drop, metric=metric).X
    return metric, X, (metric.n_features, metric.n_components)


def _load_adapter(
    path: Path, target: ExportTarget, rows: str | None, drop: list[str] | None, documents: bool
) -> Loaded:
    adapter = load_adapter(path)
    if drop:
        raise UserError("--drop is for metrics; an adapter takes vectors.")
    if target.takes_rows and rows is None:
        raise UserError(
            "An index for an adapter has documents in it; give them with --rows SOURCE."
        )
    if documents and not target.is_map:
        raise UserError(f"--documents is for a map of documents alone, which {target.name} is not.")
    X = None if rows is None else read_vectors(rows, "document").vectors
    mapped = adapter.document_map if documents else adapter.query_map
    model = _DocumentMap(adapter) if documents else adapter
    return model, X, (mapped.n_features, mapped.n_components)


@dataclass(frozen=True)
class _DocumentMap:
    """An adapter's map of documents, with the exports of a map."""

    adapter: RetrievalAdapter

    def to_onnx(self, path: Path) -> None:
        self.adapter.to_onnx(path, documents=True)

    def to_numpy(self, path: Path) -> None:
        self.adapter.to_numpy(path, documents=True)
