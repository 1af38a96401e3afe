"""``nearfar bridge``: keep an index of old vectors when the embedding model changes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearfar.cli import options
from nearfar.cli.files import check_metric_output, spooled
from nearfar.cli.terminal import bars, command, say, show_json
from nearfar.tables.formats import ARRAYS, TABLES
from nearfar.workflow.bridging import bridge_text, learn_bridge
from nearfar.workflow.description import describe_bridge


@command
def bridge(
    new: Annotated[
        str,
        typer.Argument(
            callback=spooled,
            help=f"Vectors of items by the new model: {', '.join([*ARRAYS, *TABLES])}.",
        ),
    ],
    old: Annotated[
        str,
        typer.Argument(
            callback=spooled, help="Vectors of the same items by the old model, in the same order."
        ),
    ],
    index: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE", callback=spooled, help="All old vectors of the index [default: OLD]."
        ),
    ] = None,
    queries: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="NEW_QUERIES OLD_QUERIES",
            help="Vectors of queries by both models: the map is then for queries.",
        ),
    ] = None,
    ids: Annotated[
        str | None, typer.Option("--id", help="Column of ids, by which items are matched.")
    ] = None,
    vector: options.VectorColumn = None,
    seed: options.Seed = 0,
    save_as: Annotated[
        Path, options.output("Bridge file to write [default: bridge.safetensors].")
    ] = Path("bridge.safetensors"),
    json: options.Json = False,
) -> None:
    """Map the vectors of a new embedding model to those of an old one, and say what is kept.

    New queries can then search an index of old vectors.
    """
    check_metric_output(save_as, [new, old, index, *(queries or ())])
    with bars():
        learned = learn_bridge(
            new, old, index, queries=queries, ids=ids, vector=vector, random_state=seed
        )
    learned.save(save_as)
    if json:
        show_json({"file": str(save_as), **describe_bridge(learned)})
    else:
        say(f"{bridge_text(learned)}\nBridge of form {learned.form_} written to {save_as}")
