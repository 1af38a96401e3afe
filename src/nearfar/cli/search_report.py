"""``nearfar search-report``: one HTML file about a judged search, before and after adapting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from sklearn.frozen import FrozenEstimator

from nearfar.cli import options
from nearfar.cli.command_line import command_line
from nearfar.cli.errors import UserError
from nearfar.cli.model_files import check_output, load_adapter
from nearfar.cli.search_input import SearchOptions, SplitName
from nearfar.cli.terminal import command, say, show_json
from nearfar.report import SearchStudy, write_search_report
from nearfar.retrieval import RetrievalAdapter, SearchComparison, write_run
from nearfar.retrieval.search_input import SearchInput
from nearfar.runtime.notes import notes_so_far
from nearfar.tables.formats import FORMATS, kind_of, stem_of


@command
def search_report(
    context: typer.Context,
    search: SearchOptions,
    split: SplitName = "test",
    save_as: Annotated[
        Path | None, options.output("HTML file to write [default: DOCUMENTS.html].")
    ] = None,
    run_out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TREC run file to write, with the results of adapted vectors. Those of untouched "
            "vectors go to FILE-untouched, before the ending.",
        ),
    ] = None,
    adapter: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Report on this adapter instead of learning one. Judge it by searches that it was "
            "not learned from.",
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Heading of the report [default: DOCUMENTS].")
    ] = None,
    json: options.Json = False,
) -> None:
    """Write a report on a judged search: how good it is, and what adapting would change.

    Every figure is from searches that were held out, unless an adapter is given.
    """
    path = save_as or Path(f"{stem_of(Path(search.documents))}.html")
    check_output(path, (".html", ".htm"), [*search.files, adapter])
    runs = [] if run_out is None else [run_out, _untouched(run_out)]
    for run in runs:
        check_output(run, None, [*search.files, path, adapter])
        if kind_of(run) in FORMATS:
            raise UserError(f"{run} has the name of a table; name the run .trec or .txt.")
    given = None if adapter is None else load_adapter(adapter)
    data = search.read(split)
    facts = {"Score": str(search.score), "Adapted": str(search.side)}
    if given is None:
        found = search.compare(data, search.adapter())
    else:
        _check_length(given, data)
        found = search.compare(data, FrozenEstimator(given), score=given.score)
        chosen = f"{adapter}. {given.chosen_}"
        facts = {"Score": given.score, "Adapted": given.side, "Adapter": chosen}
    study = SearchStudy(
        data.name,
        found,
        data.relevance,
        data.X.shape[1],
        data.document_names,
        command_line(context),
        [("Random seed", str(search.seed)), *facts.items()],
        title or "",
        tuple(notes_so_far()),
    )
    write_search_report(path, study)
    if run_out is not None:
        _write_runs(run_out, data, found)
    if json:
        written = {"report": str(path), "runs": [str(run) for run in runs]}
        notes = [each.text for each in study.findings]
        show_json(written | {"notes": notes, "comparison": found.to_dict()})
        return
    say(found.verdict.headline)
    say(found.notes[-1])
    say(f"Report written to {path}")
    if run_out is not None:
        say(f"Runs written to {runs[0]} and {runs[1]}")


def _check_length(adapter: RetrievalAdapter, data: SearchInput) -> None:
    if data.X.shape[1] != adapter.n_features_in_:
        raise UserError(
            f"The adapter is for vectors of length {adapter.n_features_in_}; those of {data.name} "
            f"have {data.X.shape[1]}."
        )


def _untouched(path: Path) -> Path:
    return path.with_name(f"{path.stem}-untouched{path.suffix}")


def _write_runs(path: Path, data: SearchInput, found: SearchComparison) -> None:
    for target, result in ((path, found.best), (_untouched(path), found.untouched)):
        write_run(
            target,
            result.ranking,
            query_ids=data.query_ids,
            document_ids=data.document_ids,
            name=result.name,
        )
