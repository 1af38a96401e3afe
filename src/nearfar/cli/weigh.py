"""``nearfar weigh``: learn how much each source of a search counts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearfar.cli import options
from nearfar.cli.adapt import ScoreName
from nearfar.cli.files import check_metric_output, spooled
from nearfar.cli.terminal import NOT_HELPFUL, WORSE, bars, command, say, show_result
from nearfar.workflow.weighing import weigh as weigh_sources

_Columns = list[str] | None


@command
def weigh(
    queries: Annotated[str, typer.Argument(callback=spooled, help="Table of queries.")],
    documents: Annotated[str, typer.Argument(callback=spooled, help="Table of documents.")],
    qrels: Annotated[Path, typer.Option(metavar="FILE", help="Judgements of TREC, or as in BEIR.")],
    source: Annotated[
        _Columns,
        typer.Option(help="Column of vectors in both tables; repeatable [default: the only one]."),
    ] = None,
    bm25: Annotated[
        _Columns, typer.Option(help="Column of texts in both tables, for BM25; repeatable.")
    ] = None,
    number: Annotated[
        _Columns, typer.Option(help="Column of numbers or dates of documents; repeatable.")
    ] = None,
    ids: Annotated[str | None, typer.Option("--id", help="Column of ids.")] = None,
    ignore_unknown: Annotated[
        bool, typer.Option("--ignore-unknown", help="Leave out judgements of unknown ids.")
    ] = False,
    score: Annotated[ScoreName, typer.Option(help="How vectors are compared.")] = ScoreName.cosine,
    folds: options.Folds = 5,
    seed: options.Seed = 0,
    save_as: Annotated[Path, options.output("File of weights to write.")] = Path(
        "weights.safetensors"
    ),
    json: options.Json = False,
) -> None:
    """Learn how much each vector, text and number counts in a search, and say which ones help.

    The exit code is 0 if held-out searches show that the weights are better than equal ones and
    than the best single source, 3 if they do not, and 4 if the weights are worse. The file is
    always written.
    """
    check_metric_output(save_as, [queries, documents, qrels])
    with bars():
        weights = weigh_sources(
            queries,
            documents,
            qrels,
            sources=source or (),
            bm25=bm25 or (),
            numbers=number or (),
            ids=ids,
            ignore_unknown=ignore_unknown,
            score=score.value,
            cv=folds,
            random_state=seed,
        )
    weights.save(save_as)
    show_result(weights.chosen_, json=json)
    if not json:
        say(f"Weights written to {save_as}")
    if weights.chosen_.outcome != "better":
        raise typer.Exit(WORSE if weights.chosen_.outcome == "worse" else NOT_HELPFUL)
