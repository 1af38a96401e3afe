"""``nearfar evaluate``: how good a metric is on rows that it was not learned from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from nearfar.ask.answer_files import read_judgements
from nearfar.cli import options
from nearfar.cli.files import load_metric, spooled, warn_of_same_rows
from nearfar.cli.terminal import UserError, bars, command, show_json, show_table
from nearfar.constraints import Pairs, Triplets
from nearfar.metrics.learned_from import note_learned_rows
from nearfar.tables.judgements import read_pairs, read_triplets
from nearfar.tables.reading import read_labelled, read_rows
from nearfar.tables.table import Table
from nearfar.workflow.evaluation import LEARNED, MeasuredValue, evaluate_metric
from nearfar.workflow.prediction_table import best_neighbors


@command
def evaluate(
    metric: options.MetricPath,
    source: options.Source,
    train: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            callback=spooled,
            help="Training rows: predict the labels from these, not from the other rows.",
        ),
    ] = None,
    label: options.Label = None,
    numbers: options.Numbers = None,
    triplets: options.TripletsPath = None,
    pairs: options.PairsPath = None,
    drop: options.Drop = None,
    ids: options.Id = None,
    neighbors: options.BestNeighbors = None,
    json: options.Json = False,
) -> None:
    """Evaluate a metric beside Euclidean and cosine distance, on labels, triplets or pairs.

    Each row is classified and ranked by the other rows, or by the rows of --train. Use rows that
    the metric was not learned from.
    """
    learned = load_metric(metric)
    if train is not None and (triplets is not None or pairs is not None):
        raise UserError("--train is for labels; leave out --triplets and --pairs.")
    # Judgements refer to rows by number, so that none can be left out.
    skip = triplets is None and pairs is None
    columns: Any = {"label": label, "drop": drop, "ids": ids, "skip_unlabelled": skip}
    if train is None:
        rows = read_labelled(source, numbers=numbers, required=False, metric=learned, **columns)
        known, title = None, f"{rows.name}: {len(rows)} rows among each other"
    else:
        warn_of_same_rows(train, source)
        known = read_labelled(train, numbers=numbers, metric=learned, **columns)
        rows = _read_new(source, known, metric=learned, **columns)
        title = f"{rows.name}: {len(rows)} rows, predicted from {len(known)} rows of {known.name}"
    note_learned_rows(metric, rows.X)
    judged = _judgements(rows, triplets, pairs)
    with bars() as shown:
        k = neighbors or best_neighbors(metric, rows if known is None else known)
        settings: Any = {"n_neighbors": k, "progress": shown.update}
        scores = evaluate_metric(learned, rows, known, judgements=judged, **settings)
    if not scores[LEARNED]:
        raise UserError("Give --label, --triplets or --pairs to evaluate on.")
    if json:
        show_json({name: _figures(row) for name, row in scores.items()})
    else:
        _show(scores, title)


def _figures(row: dict[str, MeasuredValue]) -> dict[str, object]:
    """Return values, and the intervals that are known, by name."""
    intervals = {name: value.interval for name, value in row.items() if value.interval is not None}
    return {name: value.value for name, value in row.items()} | {
        f"{name}, 90 % interval": list(interval) for name, interval in intervals.items()
    }


def _show(scores: dict[str, dict[str, MeasuredValue]], title: str) -> None:
    lines = [
        [f"{name}, %" if value.percent else name, *(str(row[name]) for row in scores.values())]
        for name, value in scores[LEARNED].items()
    ]
    show_table(["measure", *scores], lines, title=title)


def _read_new(source: str, known: Table, **columns: Any) -> Table:
    """Read labelled rows that are predicted from others; they may have one class only."""
    numbers = known.kind == "numbers"
    rows = read_rows(source, labelled=True, numeric=numbers, **columns)
    y = rows.numbers if numbers else rows.y
    return replace(rows, supervision=rows.labels if y is None else y, kind=known.kind)


def _judgements(rows: Table, triplets: Path | None, pairs: Path | None) -> list[Triplets | Pairs]:
    judged: list[Triplets | Pairs] = []
    if triplets is not None:
        judged.append(read_triplets(read_judgements(triplets, "triplets"), triplets, rows))
    if pairs is not None:
        judged.append(read_pairs(read_judgements(pairs, "pairs"), pairs, rows))
    return judged
