"""``nearfar match``: the records of two tables, or of one table, that are the same."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from nearfar.cli import options
from nearfar.cli.files import spooled, write_table
from nearfar.cli.terminal import UserError, bars, command, command_line, say, show_result
from nearfar.matching import RecordMatcher
from nearfar.tables.formats import TABLES, WRITTEN_TABLES, check_output, stem_of
from nearfar.workflow.matching import first_questions
from nearfar.workflow.matching import match as match_tables


class How(StrEnum):
    """Which pairs are matches."""

    auto = "auto"
    one_to_one = "one-to-one"
    all = "all"
    clusters = "clusters"


@command
def match(
    context: typer.Context,
    left: Annotated[
        str, typer.Argument(callback=spooled, help=f"Table of records: {', '.join(TABLES)}.")
    ],
    right: Annotated[
        str | None,
        typer.Argument(help="Another table; without it, records of the first are grouped."),
    ] = None,
    pairs: Annotated[
        list[Path] | None,
        typer.Option(
            help="Known pairs: left, right [, same]. Without same, all matches of the records that "
            "they name. Repeatable.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help='What to certify: "fmr<=1e-4", "precision>=0.99" or "recall>=0.9".'),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(help="Confidence with which --target is certified, above 0.5 and below 1."),
    ] = 0.95,
    ids: Annotated[
        str | None, typer.Option("--id", metavar="NAME[,NAME]", help="Columns of ids.")
    ] = None,
    how: Annotated[
        How,
        typer.Option(
            help="Each record in one match, or all pairs above the threshold; one table in "
            "clusters, or all pairs."
        ),
    ] = How.auto,
    candidates: Annotated[
        int, typer.Option(min=1, help="Records that each record is compared with.")
    ] = 10,
    matcher: Annotated[
        Path | None,
        typer.Option("--with", metavar="FILE", help="Use this matcher instead of learning one."),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the matcher to this file.")
    ] = None,
    ask: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write pairs to ask people about: fill in column same, and give it with --pairs.",
        ),
    ] = None,
    questions: Annotated[int, typer.Option(min=2, help="With --ask: number of pairs.")] = 50,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report as one HTML file.")
    ] = None,
    seed: options.Seed = 0,
    save_as: Annotated[
        Path | None, options.output("Table of matches to write, and of pairs to check.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Find the records of two tables, or of one table, that are the same."""
    inputs: list[Any] = [left, right, matcher, *(pairs or [])]
    written = {"Matches": save_as, "Questions": ask, "Report": report, "Matcher": save}
    kinds = WRITTEN_TABLES, WRITTEN_TABLES, (".html", ".htm"), None
    for path, kind in zip(written.values(), kinds, strict=True):
        if path is not None:
            check_output(path, kind, inputs)
    if report is not None:
        # Only reports need matplotlib and Jinja.
        from nearfar.report.page import check_packages

        check_packages()
    if ask is not None and not pairs and matcher is None:
        if save_as or save or report:
            raise UserError(
                "Nothing is known yet: --ask writes first questions, and no matches; leave out "
                "--out, --save and --report, or --ask."
            )
        write_table(first_questions(left, right, questions, ids=ids, random_state=seed), ask)
        say(f"Nothing is known yet: first questions written to {ask}")
        return
    choice: Any = {"target": target, "ids": ids, "how": how.value, "n_candidates": candidates}
    choice |= {"matcher": matcher and RecordMatcher.load(matcher), "random_state": seed}
    with bars():
        matched = match_tables(left, right, pairs or None, confidence=confidence, **choice)
    if save is not None:
        matched.save(save)
    if save_as is not None:
        write_table(matched.table, save_as)
    if ask is not None:
        write_table(matched.questions(questions), ask)
    if report is not None:
        name = " and ".join(stem_of(Path(each)) for each in (left, right) if each)
        matched.report(report, name, command_line(context))
    show_result(matched, json=json)
    if not json:
        for what, path in written.items():
            if path is not None:
                say(f"{what} written to {path}")
        if save_as is None:
            say("The matches were not written.")
            say(f"Next: {command_line(context, changes={'save_as': 'matches.csv'})}")
