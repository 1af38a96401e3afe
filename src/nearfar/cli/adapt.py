"""``nearfar adapt``: adapt vectors to judged searches, and say whether it helps."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from nearfar.cli import options
from nearfar.cli.model_files import check_metric_output
from nearfar.cli.search_input import SearchOptions, SplitName
from nearfar.cli.terminal import NOT_HELPFUL, bars, command, say, show_json
from nearfar.comparison import Category
from nearfar.runtime.notes import note
from nearfar.tables.formats import shown_name, stem_of
from nearfar.workflow.fitting import convergence_notes

_COMPARISON_SHARE = 0.7
"""Part of the time budget for the comparison; the fit to all searches takes about one more fold."""


@command
def adapt(
    search: SearchOptions,
    split: SplitName = "train",
    save_as: Annotated[
        Path | None,
        options.output("Adapter file to write [default: DOCUMENTS-adapter.safetensors]."),
    ] = None,
    comparison: Annotated[
        bool, typer.Option(help="Cross-validate beside the unchanged vectors.")
    ] = True,
    json: options.Json = False,
) -> None:
    """Adapt vectors of queries to judged searches, and say whether it helps.

    If the comparison shows no gain on searches that were held out, nothing is written. If it cannot
    tell, the adapter is written and the verdict says so.
    """
    path = save_as or Path(f"{stem_of(Path(search.documents))}-adapter.safetensors")
    check_metric_output(path, search.files)
    data = search.read(split)
    adapter = search.adapter()
    found = None
    if comparison:
        found = search.compare(data, adapter, share=_COMPARISON_SHARE)
        if not json:
            say(str(found))
    if found is not None and found.verdict.category in (Category.SAME, Category.WORSE):
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
    if adapter.chosen_.helps and adapter.chosen_.n_queries:
        beside = "; the verdict above is on folds that did not" if comparison else ""
        say(f"{adapter.chosen_} These queries chose its settings{beside}.")
    written = f"Adapter written to {path}"
    if found is not None and found.verdict.category is Category.CANNOT_TELL:
        written += "; the searches cannot tell whether it helps."
    say(written)
    say(f"Next: {_next_command(search, path)}")


def _next_command(search: SearchOptions, path: Path) -> str:
    """Return a command that searches with the adapter."""
    options = {"--id": search.ids, "--text": search.text, "--vector": search.vector}
    given = [part for name, value in options.items() if value is not None for part in (name, value)]
    sources = [str(path), shown_name(search.documents), "--queries", shown_name(search.queries)]
    return shlex.join(["nearfar", "neighbors", *sources, *given])
