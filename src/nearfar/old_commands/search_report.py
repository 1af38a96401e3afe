"""``nearfar search-report``: one HTML file about a judged search, before and after adapting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearfar.frames.formats import FORMATS, check_output, kind_of, stem_of
from nearfar.old_commands import options
from nearfar.old_commands.adapt import SearchOptions, SplitName
from nearfar.old_commands.files import load_adapter
from nearfar.old_commands.terminal import UserError, bars, command, command_line, say, show_json
from nearfar.page.page import check_packages
from nearfar.runtime.messages import notes_so_far
from nearfar.search.adapt import adapt, run_files


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
    check_packages()
    path = save_as or Path(f"{stem_of(Path(search.documents))}.html")
    check_output(path, (".html", ".htm"), [*search.files, adapter])
    runs = [] if run_out is None else run_files(run_out)
    for run in runs:
        check_output(run, None, [*search.files, path, adapter])
        if kind_of(run) in FORMATS:
            raise UserError(f"{run} has the name of a table; name the run .trec or .txt.")
    given = None if adapter is None else load_adapter(adapter)
    data, parameters = search.read(split), search.parameters
    with bars() as shown:
        adapted = adapt(data, adapter=given, learn=False, **parameters, progress=shown.update)
    adapted.notes = notes_so_far()
    file = "" if adapter is None else str(adapter)
    adapted.report(path, title=title or "", command=command_line(context), adapter=file)
    if run_out is not None:
        adapted.write_runs(run_out)
    assert adapted.comparison is not None
    if json:
        written = {"report": str(path), "runs": [str(run) for run in runs]}
        notes = [each.text for each in adapted.notes]
        show_json(written | {"notes": notes, "comparison": adapted.comparison.to_dict()})
        return
    runs_written = f"\nRuns written to {runs[0]} and {runs[1]}" if runs else ""
    verdict = f"{adapted.comparison.verdict.headline}\n{adapted.comparison.notes[-1]}"
    say(f"{verdict}\nReport written to {path}{runs_written}")
