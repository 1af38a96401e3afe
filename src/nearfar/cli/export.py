"""``nearfar export``: a metric for faiss, ONNX, a database or NumPy."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nearfar.cli import options
from nearfar.cli.errors import UserError
from nearfar.cli.metric_files import check_output, load_metric
from nearfar.cli.row_input import read_rows
from nearfar.cli.streams import spooled
from nearfar.cli.terminal import command, counted, note, say, show_json
from nearfar.deploy.sql import DIALECTS
from nearfar.metrics.metric import Metric
from nearfar.runtime.atomic_write import atomic_write

_QUERY = {"duckdb": "$query", "pgvector": "$1"}
"""How the expression in a file names the query's vector."""


class Target(StrEnum):
    """What a metric can be exported to."""

    faiss = "faiss"
    onnx = "onnx"
    sql = "sql"
    numpy = "numpy"


_FORMATS = {Target.onnx: (".onnx",), Target.sql: (".sql",), Target.numpy: (".py", ".npz")}


@command
def export(
    metric: options.MetricPath,
    to: Annotated[Target, typer.Option("--to", help="What to write.")],
    save_as: Annotated[
        Path, options.output("File to write: .onnx, .sql, .py or .npz; any name for faiss.")
    ],
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            callback=spooled,
            help="faiss: table, array or dataset whose rows go into the index.",
        ),
    ] = None,
    drop: options.Drop = None,
    index: Annotated[
        str, typer.Option(help="faiss: flat, hnsw, ivf, or a string for index_factory.")
    ] = "flat",
    dialect: Annotated[
        str, typer.Option(help=f"sql: the database, {' or '.join(DIALECTS)}.")
    ] = "duckdb",
    column: Annotated[
        str | None,
        typer.Option(help="sql: column of vectors [default: a column for each feature]."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(help="sql: write the statement that adds mapped vectors to this table."),
    ] = None,
    mapped: Annotated[
        str, typer.Option(help="sql: name of the column of mapped vectors.")
    ] = "nearfar",
    json: options.Json = False,
) -> None:
    """Write a metric for programs without nearfar: an index, a model, SQL or a Python module."""
    check_output(save_as, _FORMATS.get(to), [metric, rows])
    if rows is not None and to is not Target.faiss:
        raise UserError(f"--rows is for --to faiss; {to} does not contain rows.")
    found = load_metric(metric)
    if found.columns is not None:
        note("the export takes features, not columns of a table; nearfar transform takes a table.")
    n_rows = 0
    if to is Target.faiss:
        n_rows = _write_faiss(found, save_as, rows, drop, index)
    elif to is Target.onnx:
        found.to_onnx(save_as)
    elif to is Target.numpy:
        found.to_numpy(save_as)
    else:
        _write_sql(found, save_as, dialect, column, table, mapped)
    if json:
        show_json({"written": str(save_as), "to": str(to), "rows": n_rows})
        return
    contents = {
        Target.faiss: f"faiss index of {counted(n_rows, 'row')}",
        Target.onnx: "ONNX model",
        Target.sql: f"SQL for {dialect}",
        Target.numpy: "Python module" if save_as.suffix == ".py" else "Arrays",
    }
    say(
        f"{contents[to]}, {found.n_features} features to {found.n_components} coordinates, "
        f"written to {save_as}"
    )


def _write_faiss(
    metric: Metric, path: Path, rows: str | None, drop: list[str] | None, index: str
) -> int:
    """Write an index; return the number of its rows."""
    X = None if rows is None else read_rows(rows, drop=drop, metric=metric).X
    found = metric.to_faiss(X, index)
    import faiss

    with atomic_write(path) as temporary:
        faiss.write_index(found, str(temporary))
    return int(found.ntotal)


def _write_sql(
    metric: Metric, path: Path, dialect: str, column: str | None, table: str | None, mapped: str
) -> None:
    """Write the mapped vector as an expression, or statements for a table."""
    sql = metric.to_sql(column, dialect=dialect)
    text = f"{sql.mapped}\n"
    if table is not None:
        order = sql.distance(_QUERY[dialect], stored=mapped)
        text = (
            f"{sql.add_column(table, mapped)};\n\n"
            f"-- Nearest first, for the vector {_QUERY[dialect]} of a query:\n"
            f"-- ORDER BY {order}\n"
        )
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
