"""``nearfar verify``: decide whether pairs are the same, by a threshold on the distance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from nearfar.ask.answer_files import read_judgements
from nearfar.cli import options
from nearfar.cli.files import load_metric, write_table
from nearfar.cli.terminal import command, say, show_json, show_table
from nearfar.constraints import Pairs
from nearfar.runtime.quoting import plain
from nearfar.tables.formats import WRITTEN_TABLES, check_output
from nearfar.tables.judgements import copies_together, people_together, read_queries
from nearfar.tables.reading import read_rows
from nearfar.workflow.decisions import Decisions, decide_pairs

_PAIRS_SHOWN = 20


@command
def verify(
    metric: options.MetricPath,
    source: options.Source,
    pairs: Annotated[
        Path, typer.Argument(help="Table of pairs: a, b [, similar]; rows count from 0.")
    ],
    threshold: Annotated[
        float | None, typer.Option(help="Largest distance of rows that are the same.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Choose a threshold that is certified to meet this on new classes: "
            '"precision>=0.99", "fmr<=1e-3" or "recall>=0.9"; or eer, or '
            '"false_match=10,false_non_match=1,prior=0.01" (costs).'
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(help="Confidence with which --target is certified, above 0.5 and below 1."),
    ] = 0.95,
    prevalence: Annotated[
        float | None,
        typer.Option(
            help="Share of similar pairs in use, for precision and costs "
            "[default: their share in the table]."
        ),
    ] = None,
    label: options.Label = None,
    drop: options.Drop = None,
    ids: options.Id = None,
    save_as: Annotated[
        Path | None, options.output("Table to write: the pairs, distances and decisions.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Decide whether pairs of rows are the same.

    If the pairs have a column `similar` and the metric file has no threshold yet, one is chosen and
    saved in the metric file. Its accuracy is that of thresholds chosen on other pairs. With
    --target, give pairs of rows that the metric was not learned from. The confidence counts the
    classes of --label, or else rows that similar pairs join.
    """
    if save_as is not None:
        check_output(save_as, WRITTEN_TABLES, [metric, source, pairs])
    rows = read_rows(source, label=label, drop=drop, ids=ids, metric=load_metric(metric))
    index, known = read_queries(read_judgements(pairs, "pairs"), pairs, rows)
    if known is not None:
        together = replace(rows, supervision=people_together(known, rows), kind="pairs")
        together = copies_together(together)
        assert isinstance(together.supervision, Pairs)
        known = together.supervision
    decisions = decide_pairs(
        metric,
        rows,
        index,
        known,
        threshold=threshold,
        target=target,
        confidence=confidence,
        prevalence=prevalence,
        name=str(pairs),
    )
    if save_as is not None:
        write_table(decisions.table, save_as)
    if json:
        show_json(decisions.to_dict())
    else:
        _show(decisions, metric, save_as)


def _show(decisions: Decisions, metric: Path, save_as: Path | None) -> None:
    say(str(decisions))
    if decisions.saved:
        say(f"Threshold saved in {metric}, for other pairs.")
    if save_as is not None:
        say(f"Pairs written to {save_as}")
        return
    lines = [
        (f"{a}, {b}", plain(distance), "same" if same else "different")
        for a, b, distance, same in decisions.table.head(_PAIRS_SHOWN).iter_rows()
    ]
    show_table(["pair", "distance", "decision"], lines)
    if len(decisions.table) > _PAIRS_SHOWN:
        say(f"These are the first {_PAIRS_SHOWN}; write all with --out FILE.")
