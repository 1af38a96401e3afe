"""``nearfar verify``: same or different, by a threshold on the distance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from nearfar.cli import options
from nearfar.cli.constraints import read_questions
from nearfar.cli.files import check_target, load_metric, write_table
from nearfar.cli.source import TABLES, Source, SourceError, read_source
from nearfar.cli.terminal import command, say, show_json, show_table
from nearfar.constraints import Pairs
from nearfar.evaluate import verification, verification_curve
from nearfar.metrics.metric import Metric
from nearfar.verification import threshold_on

_SHOWN = 20


@command
def verify(
    metric: options.MetricPath,
    source: options.Rows,
    pairs: Annotated[
        Path, typer.Argument(help="Table of pairs: a, b [, similar]; rows count from 0.")
    ],
    threshold: Annotated[
        float | None, typer.Option(help="Distance up to which two rows are the same.")
    ] = None,
    criterion: Annotated[
        str,
        typer.Option(
            help="What the threshold is chosen for, from judged pairs: accuracy, eer, fpr."
        ),
    ] = "accuracy",
    max_fpr: Annotated[
        float, typer.Option(min=0, max=1, help="Share of false alarms, for --criterion fpr.")
    ] = 0.01,
    label: options.Label = None,
    drop: options.Drop = None,
    ids: options.Id = None,
    save_as: Annotated[
        Path | None, typer.Option("--out", help="Table to write: the pairs with their distances.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Tell whether pairs of rows are the same, or find the threshold from judged pairs."""
    if save_as is not None:
        check_target(save_as, tuple(TABLES), [metric, source, pairs])
    if threshold is not None and not 0 <= threshold < float("inf"):
        raise SourceError(f"--threshold is a distance of 0 or more; got {threshold}.")
    found = load_metric(metric)
    data = read_source(source, label=label, drop=drop or [], ids=ids, metric=found)
    index, judged = read_questions(pairs, data)
    if len(index) == 0:
        raise SourceError(f"{pairs} has no pairs.")
    if threshold is None and judged is None:
        raise SourceError(
            f"{pairs} has no column 'similar' to find a threshold from: give --threshold."
        )
    cut = threshold
    if cut is None:
        cut = _threshold(found, data.X, judged, criterion, max_fpr)
    table = _decide(found, data, index, cut)
    document: dict[str, Any] = {
        "threshold": cut,
        "pairs": len(table),
        "same": int(table["same"].sum()),
    }
    if judged is not None:
        document |= _judgement(found, data.X, judged, table["same"].to_numpy())
    if save_as is not None:
        write_table(table, save_as)
    if json:
        show_json(document | {"decisions": table.to_dicts()})
    else:
        _show(document, table, judged, save_as)


def _decide(metric: Metric, data: Source, index: Any, threshold: float) -> pl.DataFrame:
    """Pairs, their distances, and whether they are the same."""
    distances = metric.pair_distances(data.X, index)
    return pl.DataFrame(
        {
            "a": _names(data, index[:, 0]),
            "b": _names(data, index[:, 1]),
            "distance": distances,
            "same": distances <= threshold,
        }
    )


def _names(data: Source, rows: Any) -> Any:
    return rows if data.ids is None else [data.ids[row] for row in rows]


def _threshold(metric: Metric, X: Any, judged: Any, criterion: str, max_fpr: float) -> float:
    if criterion in ("accuracy", "eer"):
        return float(getattr(verification(metric, X, judged), f"{criterion}_threshold"))
    if criterion != "fpr":
        raise SourceError(f"--criterion is accuracy, eer or fpr; got {criterion!r}.")
    return threshold_on(verification_curve(metric, X, judged), judged, "fpr", max_fpr, 1.0)


def _judgement(metric: Any, X: Any, judged: Pairs, same: Any) -> dict[str, float]:
    whole = verification(metric, X, judged)
    right = np.average(same == judged.similar, weights=judged.weight)
    return {"auc": whole.auc, "eer": whole.eer, "accuracy": float(right)}


def _show(
    document: dict[str, Any], table: pl.DataFrame, judged: Pairs | None, save_as: Path | None
) -> None:
    if judged is not None:
        say(
            f"AUC {document['auc']:.3f}, equal error rate {100 * document['eer']:.1f} %, "
            f"{100 * document['accuracy']:.1f} % right at the threshold."
        )
    say(
        f"Threshold {document['threshold']:.6g}: "
        f"{document['same']} of {document['pairs']} pairs are the same."
    )
    if save_as is not None:
        say(f"Pairs written to {save_as}")
        return
    rows = [
        (f"{a}, {b}", f"{distance:.4g}", "same" if same else "different")
        for a, b, distance, same in table.head(_SHOWN).iter_rows()
    ]
    show_table(["pair", "distance", "verdict"], rows)
    if len(table) > _SHOWN:
        say(f"The first {_SHOWN}; --out FILE has all.")
