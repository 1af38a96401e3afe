"""``nearfar verify``: decide whether pairs are the same, by a threshold on the distance."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from nearfar.cli import options
from nearfar.cli.constraints import read_queries
from nearfar.cli.errors import UserError
from nearfar.cli.files import check_output, load_metric
from nearfar.cli.rows import Rows, read_rows
from nearfar.cli.table_writers import WRITTEN_TABLES, write_frame
from nearfar.cli.terminal import command, say, show_json, show_table
from nearfar.constraints import Pairs
from nearfar.evaluate import verification, verification_curve
from nearfar.metrics.metric import Metric
from nearfar.typing import Floats, Ints
from nearfar.verification import threshold_on

_PAIRS_SHOWN = 20


class Criterion(StrEnum):
    """What a threshold is chosen for."""

    accuracy = "accuracy"
    eer = "eer"
    fpr = "fpr"


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
    criterion: Annotated[
        Criterion,
        typer.Option(help="How to choose the threshold, if pairs say whether they are similar."),
    ] = Criterion.accuracy,
    max_fpr: Annotated[
        float, typer.Option(min=0, max=1, help="Largest false positive rate, for fpr.")
    ] = 0.01,
    label: options.Label = None,
    drop: options.Drop = None,
    ids: options.Id = None,
    save_as: Annotated[
        Path | None, options.output("Table to write: the pairs, distances and decisions.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Decide whether pairs of rows are the same.

    If the pairs have a column `similar`, the threshold is chosen from them.
    """
    if save_as is not None:
        check_output(save_as, WRITTEN_TABLES, [metric, source, pairs])
    if threshold is not None and not 0 <= threshold < float("inf"):
        raise UserError(f"--threshold must be a distance of 0 or more; got {threshold}.")
    found = load_metric(metric)
    rows = read_rows(source, label=label, drop=drop, ids=ids, metric=found)
    index, known = read_queries(pairs, rows)
    if threshold is None:
        if known is None:
            raise UserError(f"{pairs} has no column 'similar'; give --threshold.")
        threshold = _threshold(found, rows.X, known, criterion, max_fpr)
    table = _decisions(found, rows, index, threshold)
    document: dict[str, Any] = {
        "threshold": threshold,
        "pairs": len(table),
        "same": int(table["same"].sum()),
    }
    if known is not None:
        document |= _scores(found, rows.X, known, table["same"].to_numpy())
    if save_as is not None:
        write_frame(table, save_as)
    if json:
        show_json(document | {"decisions": table.to_dicts()})
    else:
        _show(document, table, save_as)


def _decisions(metric: Metric, rows: Rows, index: Ints, threshold: float) -> pl.DataFrame:
    """Return the pairs, their distances, and whether they are the same."""
    distances = metric.pair_distances(rows.X, index)
    return pl.DataFrame(
        {
            "a": _row_names(rows, index[:, 0]),
            "b": _row_names(rows, index[:, 1]),
            "distance": distances,
            "same": distances <= threshold,
        }
    )


def _row_names(rows: Rows, numbers: Ints) -> Ints | list[str]:
    return numbers if rows.ids is None else [rows.ids[number] for number in numbers]


def _threshold(
    metric: Metric, X: Floats, known: Pairs, criterion: Criterion, max_fpr: float
) -> float:
    if criterion is Criterion.fpr:
        return threshold_on(verification_curve(metric, X, known), known, "fpr", max_fpr, 1.0)
    return float(getattr(verification(metric, X, known), f"{criterion}_threshold"))


def _scores(metric: Metric, X: Floats, known: Pairs, same: Any) -> dict[str, float]:
    found = verification(metric, X, known)
    accuracy = np.average(same == known.similar, weights=known.weight)
    return {"auc": found.auc, "eer": found.eer, "accuracy": float(accuracy)}


def _show(document: dict[str, Any], table: pl.DataFrame, save_as: Path | None) -> None:
    if "auc" in document:
        say(
            f"AUC {document['auc']:.3f}, equal error rate {100 * document['eer']:.1f} %, "
            f"accuracy {100 * document['accuracy']:.1f} % at the threshold."
        )
    say(
        f"Threshold {document['threshold']:.6g}: "
        f"{document['same']} of {document['pairs']} pairs are the same."
    )
    if save_as is not None:
        say(f"Pairs written to {save_as}")
        return
    lines = [
        (f"{a}, {b}", f"{distance:.4g}", "same" if same else "different")
        for a, b, distance, same in table.head(_PAIRS_SHOWN).iter_rows()
    ]
    show_table(["pair", "distance", "decision"], lines)
    if len(table) > _PAIRS_SHOWN:
        say(f"These are the first {_PAIRS_SHOWN}; write all with --out FILE.")
