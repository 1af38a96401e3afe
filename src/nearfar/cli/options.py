"""Arguments and options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearfar.cli.methods import AUTO, METHODS, PLAIN

Rows = Annotated[
    str,
    typer.Argument(
        help="A table (.csv, .tsv, .parquet), an array (.npy, .npz), or a dataset's name."
    ),
]
MetricPath = Annotated[
    Path, typer.Argument(metavar="METRIC", help="A metric's file, as `nearfar learn` writes it.")
]
Label = Annotated[
    str | None,
    typer.Option(help="Column with the labels; for .npz an array in it, for .npy another file."),
]
Drop = Annotated[list[str] | None, typer.Option(help="Column to leave out; repeatable.")]
Id = Annotated[
    str | None,
    typer.Option("--id", help="Column that names the rows, in constraints and in results."),
]
TripletsPath = Annotated[
    Path | None,
    typer.Option(
        "--triplets", help="Table of triplets: anchor, near, far [, weight]; rows count from 0."
    ),
]
PairsPath = Annotated[
    Path | None,
    typer.Option("--pairs", help="Table of pairs: a, b, similar [, weight]; rows count from 0."),
]
Method = Annotated[
    str, typer.Option(help=f"One of: {', '.join([*METHODS, *PLAIN, AUTO])}; or how one begins.")
]
Neighbors = Annotated[int, typer.Option(min=1, help="Number of neighbours.")]
Folds = Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")]
Seed = Annotated[int, typer.Option(help="Seed of the folds and of all that is drawn.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Budget = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Time for the comparison: 60s, 5m, 1h; who is late is out."),
]


def seconds(text: str | None) -> float | None:
    """Read a length of time.

    Examples
    --------
    >>> from nearfar.cli.options import seconds
    >>> seconds("1.5m")
    90.0
    """
    if text is None:
        return None
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        length = float(number) * unit
    except ValueError:
        length = -1.0
    if not 0 <= length < float("inf"):
        raise ValueError(f"{text!r} is no length of time; write 60s, 5m or 1h.")
    return length
