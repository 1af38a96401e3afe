"""``nearfar gate``: whether a new version is better than the old one, by the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearfar.cli import options
from nearfar.cli.files import spooled
from nearfar.cli.terminal import NOT_HELPFUL, WORSE, UserError, command, show_result
from nearfar.workflow.gating import gate as gate_versions
from nearfar.workflow.learning import judgement_source


def _source(help_text: str) -> typer.models.OptionInfo:
    return typer.Option(metavar="SOURCE", callback=spooled, help=help_text)


@command
def gate(
    old: Annotated[str, typer.Argument(help="File of the old version, or untouched.")],
    new: Annotated[
        Path,
        typer.Argument(help="File of the new version, or untouched if the old one is an adapter."),
    ],
    queries: Annotated[str | None, _source("Vectors of judged queries, for adapters.")] = None,
    documents: Annotated[str | None, _source("Vectors of documents.")] = None,
    qrels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Judgements: query, 0, document, grade.")
    ] = None,
    table: Annotated[str | None, _source("Rows, for metrics.")] = None,
    label: options.Label = None,
    numbers: options.Numbers = None,
    triplets: options.TripletsPath = None,
    pairs: options.PairsPath = None,
    ids: options.Id = None,
    vector: options.SearchVector = None,
    ignore_unknown: options.IgnoreUnknown = False,
    drop: options.Drop = None,
    results: Annotated[int, typer.Option(min=1, help="Number of results that count.")] = 10,
    neighbors: options.BestNeighbors = None,
    leave_out_learned: Annotated[
        bool,
        typer.Option("--leave-out-learned", help="Leave out data that a version was learned from."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Say whether a new version is better than the old one, on data that neither has seen.

    Adapters need --queries, --documents and --qrels; metrics need --table with --label, --triplets
    or --pairs. Data that a version was learned from are refused, unless you say
    --leave-out-learned. The exit code is 0 if the new version is better, 3 if it is the same or
    cannot be told, and 4 if it is worse.
    """
    searched = [queries, documents, qrels]
    if None in searched if table is None else any(searched):
        raise UserError("Give --queries, --documents and --qrels for adapters, or only --table.")
    reading: dict[str, Any] = {"ids": ids}
    if table is None:
        reading |= {"qrels": qrels, "vector": vector, "ignore_unknown": ignore_unknown}
    else:
        reading |= {"label": label, "numbers": numbers, "drop": drop}
        reading["triplets"] = judgement_source(triplets, "triplets")
        reading["pairs"] = judgement_source(pairs, "pairs")
    settings: Any = {"k": results, "n_neighbors": neighbors}
    settings["leave_out_learned"] = leave_out_learned
    found = gate_versions(old, new, queries, documents, table=table, **settings, **reading)
    show_result(found, json=json)
    if not found.helps:
        raise typer.Exit(WORSE if found.outcome == "worse" else NOT_HELPFUL)
