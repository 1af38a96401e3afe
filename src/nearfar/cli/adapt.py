"""``nearfar adapt``: adapt vectors to judged searches, and say whether it helps."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nearfar.cli import options, search_input
from nearfar.cli.metric_files import check_metric_output
from nearfar.cli.search_input import SearchInput, read_search
from nearfar.cli.table_formats import stem_of
from nearfar.cli.terminal import (
    NOT_HELPFUL,
    bars,
    command,
    convergence_notes,
    note,
    say,
    show_json,
)
from nearfar.retrieval import RetrievalAdapter, SearchComparison, compare_retrieval


class Side(StrEnum):
    """Which vectors are adapted."""

    query = "query"
    both = "both"


class ScoreName(StrEnum):
    """What ranks documents."""

    cosine = "cosine"
    dot = "dot"


SideOption = Annotated[
    Side,
    typer.Option(help="Adapt queries only, so that documents stay as indexed, or both."),
]
ScoreOption = Annotated[ScoreName, typer.Option(help="What ranks documents now.")]
Results = Annotated[int, typer.Option(min=1, help="Number of results that count.")]


@command
def adapt(
    queries: search_input.Queries,
    documents: search_input.Documents,
    qrels: search_input.Qrels = None,
    beir: search_input.Beir = None,
    split: search_input.Split = "train",
    ids: search_input.Id = None,
    text: search_input.Text = None,
    vector: search_input.Vector = None,
    ignore_unknown: search_input.IgnoreUnknown = False,
    side: SideOption = Side.query,
    score: ScoreOption = ScoreName.cosine,
    save_as: Annotated[
        Path | None,
        options.output("Adapter file to write [default: DOCUMENTS-adapter.safetensors]."),
    ] = None,
    comparison: Annotated[
        bool, typer.Option(help="Cross-validate beside the vectors as they are.")
    ] = True,
    results: Results = 10,
    folds: options.Folds = 5,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Adapt vectors of queries to judged searches, and say whether it helps.

    If the comparison shows no gain on searches that were held out, nothing is written.
    """
    path = save_as or Path(f"{stem_of(Path(documents))}-adapter.safetensors")
    check_metric_output(path, [queries, documents, qrels])
    data = read_search(
        queries,
        documents,
        qrels=qrels,
        beir=beir,
        split=split,
        ids=ids,
        text=text,
        vector=vector,
        ignore_unknown=ignore_unknown,
    )
    adapter = make_adapter(side, score, seed)
    found = None
    if comparison:
        found = compare_search(data, adapter, score, results=results, folds=folds, seed=seed)
        if not json:
            say(str(found))
    if found is not None and found.verdict.category in ("no clear gain", "worse"):
        if json:
            show_json({"adapter": None, "comparison": found.to_dict()})
        else:
            say("Nothing was written. To write the adapter anyway, use --no-comparison.")
        raise typer.Exit(NOT_HELPFUL)
    start = time.perf_counter()
    with bars(), convergence_notes():
        adapter.fit(data.Q, data.X, data.relevance)
    seconds = time.perf_counter() - start
    adapter.save(path)
    if not adapter.chosen_.helps:
        note(str(adapter.chosen_))
    if json:
        compared = None if found is None else found.to_dict()
        show_json({"adapter": str(path), "seconds": seconds, "comparison": compared})
        return
    say(f"Learned from {len(data.relevance.queries)} judged queries in {seconds:.2f} s.")
    say(f"Adapter written to {path}")


def make_adapter(side: Side, score: ScoreName, seed: int) -> RetrievalAdapter:
    """Return the adapter that the options name."""
    return RetrievalAdapter(side=side.value, score=score.value, random_state=seed)


def compare_search(
    data: SearchInput,
    adapter: RetrievalAdapter,
    score: ScoreName,
    *,
    results: int,
    folds: int,
    seed: int,
) -> SearchComparison:
    """Compare searches, with progress on the terminal."""
    with bars() as shown, convergence_notes():
        return compare_retrieval(
            data.Q,
            data.X,
            data.relevance,
            adapter,
            cv=folds,
            k=results,
            score=score.value,
            query_names=data.query_names,
            random_state=seed,
            progress=shown.update,
        )
