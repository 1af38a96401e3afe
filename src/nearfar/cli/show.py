"""``nearfar show``: the contents of the file of a metric or an adapter."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from nearfar.cli import options
from nearfar.cli.errors import UserError
from nearfar.cli.metric_files import (
    Importance,
    is_adapter,
    load_adapter,
    load_metric,
    stored_importance,
    stored_spreads,
    stored_threshold,
)
from nearfar.cli.terminal import command, say, show_json, show_table
from nearfar.columns.examples import ColumnExample, column_examples
from nearfar.metrics.importance import (
    column_shares,
    comparable_shares,
    feature_importances,
    feature_names,
    leading_directions,
    several_features,
)
from nearfar.metrics.metric import Metric
from nearfar.plots import eigenvalues
from nearfar.retrieval import RetrievalAdapter
from nearfar.runtime.notes import note
from nearfar.runtime.quoting import counted
from nearfar.typing import Vector

_FEATURES_SHOWN = 15
_EIGENVALUES_SHOWN = 10
_UNITS = "the file does not have the spreads of the features; their shares depend on the units."
_CHOSEN_ON = (
    "These queries chose the settings below; the verdict of `nearfar adapt` is on folds that did "
    "not, so that its figures are others."
)
_NO_CORRELATIONS = (
    "the file does not have shares that allow for correlations; if columns correlate, believe the "
    "report."
)


@command
def show(
    metric: options.ModelPath,
    columns: Annotated[
        bool, typer.Option("--columns", help="Show what each column of the table became.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Show a metric: its size, eigenvalues, features and directions.

    Shares of columns are those of a report: of the mean squared distance between the rows that the
    metric was learned from. Of an adapter, show what it maps and what its held-out searches gained.
    """
    if columns:
        _show_columns(load_metric(metric), metric, json)
    elif is_adapter(metric):
        _show_adapter(load_adapter(metric), metric, json)
    else:
        _show_metric(metric, json)


def _show_metric(metric: Path, json: bool) -> None:
    found = load_metric(metric)
    spreads = stored_spreads(metric)
    threshold = stored_threshold(metric)
    gated = len(found.parts) > 1
    importance = stored_importance(metric, found)
    columns = several_features(found)
    documents = [
        _document(part, known, spreads, columns)
        for part, known in zip(found.parts, importance, strict=True)
    ]
    if json:
        recipe = None if found.columns is None else json_module.loads(found.columns.to_json())
        about = {"file": str(metric), "gated": gated, "standardised": spreads is not None}
        show_json({**about, "columns": recipe, "threshold": threshold, "metrics": documents})
        return
    say(f"{metric}: {found!r}")
    if found.columns is not None:
        say(f"Columns: {found.columns}.")
    if threshold is not None:
        value = -np.inf if threshold["value"] is None else threshold["value"]
        say(f"Threshold for pairs: {value:.6g}, chosen for {threshold['criterion']}.")
    if any("features" in document and not document["correlations"] for document in documents):
        note(_UNITS if spreads is None else _NO_CORRELATIONS)
    for number, (part, document) in enumerate(zip(found.parts, documents, strict=True), start=1):
        if gated:
            say(f"Metric {number}: {part!r}")
        _show(document)


def _show_columns(metric: Metric, path: Path, json: bool) -> None:
    """Print what each column became."""
    if metric.columns is None:
        names = metric.feature_names or ()
        found = [ColumnExample(name, "number", "") for name in names]
    else:
        found = column_examples(metric.columns)
    if not found:
        raise UserError(f"{path} has no names of columns: the rows were an array.")
    if json:
        show_json([example._asdict() for example in found])
    else:
        show_table(["column", "taken as", "example"], found)


def _show_adapter(adapter: RetrievalAdapter, path: Path, json: bool) -> None:
    """Print what an adapter maps, what was chosen, and how far its score is from the untouched."""
    chosen = adapter.chosen_
    values = np.linalg.svd(adapter.W_, compute_uv=False)
    change = float(np.linalg.norm(adapter.W_ - np.eye(len(adapter.W_))) / np.sqrt(len(values)))
    about = {"form": adapter.form, "score": adapter.score, "side": adapter.side}
    if json:
        document = {"file": str(path), "kind": "adapter", "n_features": adapter.n_features_in_}
        figures = {"chosen": asdict(chosen), "change": change, "singular_values": values.tolist()}
        show_json({**document, **about, **figures})
        return
    maps = "documents too" if adapter.side == "both" else "documents stay as they are"
    say(f"{path}: adapter of {adapter.n_features_in_} features for queries; {maps}")
    say(f"Score: {adapter.score}, W of form {adapter.form}")
    say(str(chosen))
    if chosen.n_queries:
        say(_CHOSEN_ON)
    if chosen.helps:
        white = ", both tables whitened" if chosen.whitened else ""
        say(
            f"Chosen: {counted(chosen.n_iter, 'iteration')}, strength {chosen.strength:.3g}, "
            f"{100 * chosen.blend:.0f} % of the learned change{white}"
        )
    shown = " ".join(f"{v:.3g}" for v in values[:_EIGENVALUES_SHOWN])
    more = " ..." if len(values) > _EIGENVALUES_SHOWN else ""
    say(f"Singular values of W: {shown}{more}; size of W - I relative to I: {change:.3g}")


def _document(
    metric: Metric,
    known: Importance | None,
    spreads: list[float] | None,
    columns: Sequence[str] | None,
) -> dict[str, Any]:
    values = eigenvalues(metric)
    document: dict[str, Any] = {
        "n_features": metric.n_features,
        "n_components": metric.n_components,
        "rank": int(np.count_nonzero(values > len(values) * np.finfo(float).eps * values[0])),
        "eigenvalues": values.tolist(),
    }
    if metric.kernel_map is not None:
        return document | {"kernel": str(metric.kernel_map.kernel)}
    if metric.is_zero:
        return document | {"unused": True}
    names = feature_names(metric)
    if known is None:
        shares = feature_importances(metric, spreads=spreads)
        directions = leading_directions(metric, spreads=spreads, columns=columns)
    else:
        shares, directions = known.shares, known.directions
    return document | {
        "correlations": known is not None,
        "features": _largest_first(names, shares),
        "columns": _largest_first(*column_shares(shares, columns or names)),
        "directions": [
            {"share": d.share, "loadings": dict(zip(d.features, d.loadings, strict=True))}
            for d in directions
        ],
        "text": [str(direction) for direction in directions],
    }


def _largest_first(names: Sequence[str], shares: Vector) -> dict[str, float]:
    """Return shares by name, in the order of a report."""
    order = np.argsort(-np.abs(shares), kind="stable")
    return {names[j]: float(shares[j]) for j in order}


def _show(document: dict[str, Any]) -> None:
    rank = document["rank"]
    values = np.array(document["eigenvalues"])[:rank]
    shown = " ".join(f"{v / values[0]:.3g}" for v in values[:_EIGENVALUES_SHOWN])
    more = " ..." if rank > _EIGENVALUES_SHOWN else ""
    listed = f"; eigenvalues relative to the largest: {shown}{more}" if rank > 1 else ""
    say(f"Rank {rank}{listed}")
    if "unused" in document:
        say("Unused: all distances are zero.")
        return
    if "kernel" in document:
        say(f"Kernel: {document['kernel']}; single features have no weights.")
        return
    names = list(document["columns"])
    shares, relative = comparable_shares(list(document["columns"].values()))
    rows = [
        (name, f"{100 * share:z.1f}")
        for name, share in zip(names[:_FEATURES_SHOWN], shares, strict=False)
    ]
    what = "feature" if len(document["features"]) == len(names) else "column"
    show_table([what, "share %"], rows)
    if len(names) > _FEATURES_SHOWN:
        say(f"... and {len(names) - _FEATURES_SHOWN} more; --json shows all.")
    if relative:
        say(
            f"The {what}s mostly cancel each other: shares are of the sum of absolute "
            "contributions, and a negative share cancels differences in others."
        )
    say("Leading directions:")
    for line in document["text"]:
        say(f"  {line}")
