"""`show`: a metric's or adapter's file in figures: size, eigenvalues, features, directions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from nearfar.columns.columns import ColumnExample, column_examples
from nearfar.frames.metric_files import kind_of_model, load_metric, load_model
from nearfar.measures.neighbor_votes import RELIABILITY_HEADINGS, Reliability
from nearfar.metrics.explanations import (
    column_shares,
    comparable_shares,
    feature_importances,
    feature_names,
    leading_directions,
    several_features,
)
from nearfar.metrics.metric import Metric
from nearfar.metrics.training_facts import (
    Importance,
    stored_importance,
    stored_spreads,
    stored_threshold,
    stored_votes,
)
from nearfar.plots import eigenvalues
from nearfar.runtime.messages import note, option, text_table
from nearfar.runtime.tensor_file import Provenance, metadata_of
from nearfar.typing import Json, Vector

_FEATURES_SHOWN = 15
_EIGENVALUES_SHOWN = 10
# Larger shares are printed as 0.0.
_LEAST_NEGATIVE = -0.0005
_UNITS = "the file does not have the spreads of the features; their shares depend on the units."
_NO_CORRELATIONS = (
    "the file does not have shares that allow for correlations; if columns correlate, believe the "
    "report."
)


def show(metric: str | PathLike[str], *, columns: bool = False) -> Shown:
    """Show a metric: its size, eigenvalues, features and directions.

    Shares of columns are those of a report: of the mean squared distance between the training rows
    of the metric. Of an adapter, show what it maps and what its held-out searches gained; of
    weights, what each source adds.

    Parameters
    ----------
    metric: Metric file, as written by `nearfar learn`, adapter, by `nearfar adapt`, or
        weights, by `nearfar weigh`.
    columns: Show what each column of the table became.
    """
    path = Path(metric)
    kind = kind_of_model(path)
    if columns:
        examples = describe_columns(load_metric(path))
        if not examples:
            raise ValueError(f"{path} has no names of columns: the rows were an array.")
        table = text_table(["column", "taken as", "example"], examples)
        return Shown([example._asdict() for example in examples], table)
    document: Any
    if kind != "metric":
        model = load_model(path)
        document, lines = {"file": str(path), **model.to_dict()}, [f"{path}: {model.described()}"]
    else:
        document = describe_metric(path)
        lines = _metric_lines(path, document)
    made = Provenance.read(metadata_of(path))
    return Shown(document, "\n".join([*lines, *([] if made is None else [str(made)])]))


@dataclass(frozen=True)
class Shown:
    """The contents of a file, for JSON and in words."""

    document: Any
    text: str

    def to_dict(self) -> Any:
        """Return the contents for JSON."""
        return self.document

    def __str__(self) -> str:
        return self.text


def _metric_lines(path: Path, document: dict[str, Any]) -> list[str]:
    metric = Metric.load(path)
    lines = [f"{path}: {metric!r}"]
    if metric.columns is not None:
        n_columns, n_left = len(metric.columns.names), len(metric.columns.left_out_)
        left_out = f", {n_left} left out" if n_left else ""
        shows = option("columns", True)
        lines.append(f"Columns: {n_columns}{left_out}; {shows} shows what each became.")
    if (threshold := stored_threshold(path)) is not None:
        chosen_for = f"chosen for {threshold.criterion}"
        lines.append(f"Threshold for pairs: {threshold.value:.6g}, {chosen_for}.")
    if (votes := stored_votes(path)) is not None and votes.counted:
        curve = (np.array(each) for each in (votes.counted, votes.stated, votes.right))
        rates = Reliability(*curve).table()
        lines.append(text_table(RELIABILITY_HEADINGS, rates))
    parts = document["metrics"]
    if any("features" in part and not part["correlations"] for part in parts):
        note(_NO_CORRELATIONS if document["standardised"] else _UNITS)
    for number, (part, figures) in enumerate(zip(metric.parts, parts, strict=True), start=1):
        if document["gated"]:
            lines.append(f"Metric {number}: {part!r}")
        lines += _part_lines(figures)
    return lines


def _part_lines(figures: dict[str, Any]) -> list[str]:
    rank = figures["rank"]
    values = np.array(figures["eigenvalues"])[:rank]
    shown = " ".join(f"{v / values[0]:.3g}" for v in values[:_EIGENVALUES_SHOWN])
    more = " ..." if rank > _EIGENVALUES_SHOWN else ""
    listed = f"; eigenvalues relative to the largest: {shown}{more}" if rank > 1 else ""
    lines = [f"Rank {rank}{listed}"]
    if "unused" in figures:
        return [*lines, "Unused: all distances are zero."]
    if "kernel" in figures:
        shares = "" if "features" in figures else "; single features have no weights"
        lines.append(f"Before the linear map: {figures['kernel']}{shares}.")
    if "features" in figures:
        lines += _share_lines(figures)
    if figures.get("text"):
        lines += ["Leading directions:", *(f"  {line}" for line in figures["text"])]
    return lines


def _share_lines(figures: dict[str, Any]) -> list[str]:
    names = list(figures["columns"])
    shares, relative = comparable_shares(list(figures["columns"].values()))
    rows = [
        (name, f"{100 * share:z.1f}")
        for name, share in zip(names[:_FEATURES_SHOWN], shares, strict=False)
    ]
    what = "feature" if len(figures["features"]) == len(names) else "column"
    lines = [text_table([what, "share %"], rows)]
    if len(names) > _FEATURES_SHOWN:
        lines.append(f"... and {len(names) - _FEATURES_SHOWN} more; --json shows all.")
    if relative:
        lines.append(
            f"The {what}s mostly cancel each other: shares are of the sum of absolute "
            "contributions, and a negative share cancels differences in others."
        )
    elif min(shares[:_FEATURES_SHOWN]) < _LEAST_NEGATIVE:
        cancels = "cancels differences in others that go with it"
        lines.append(f"A {what} with a negative share {cancels}.")
    return lines


def describe_metric(path: Path) -> dict[str, Json]:
    """Return what the file of a metric has, for JSON.

    Shares of features are those of the mean squared distance between the rows that the metric was
    learned from, if the file has them ("correlations").
    """
    metric = Metric.load(path)
    spreads, threshold, votes = stored_spreads(path), stored_threshold(path), stored_votes(path)
    columns, made = several_features(metric), Provenance.read(metadata_of(path))
    parts: list[Json] = [
        _part(part, importance, spreads, columns)
        for part, importance in zip(metric.parts, stored_importance(path, metric), strict=True)
    ]
    value = None if threshold is None or not np.isfinite(threshold.value) else threshold.value
    return {
        "file": str(path),
        "gated": len(metric.parts) > 1,
        "provenance": asdict(made) if made else None,
        "standardised": spreads is not None,
        "columns": None if metric.columns is None else json.loads(metric.columns.to_json()),
        "threshold": None if threshold is None else asdict(threshold) | {"value": value},
        "votes": None if votes is None else asdict(votes),
        "metrics": parts,
    }


def _part(
    metric: Metric,
    importance: Importance | None,
    spreads: list[float] | None,
    columns: Sequence[str] | None,
) -> dict[str, Json]:
    values = eigenvalues(metric)
    document: dict[str, Json] = {
        "n_features": metric.n_features,
        "n_components": metric.n_components,
        "rank": int(np.count_nonzero(values > len(values) * np.finfo(float).eps * values[0])),
        "eigenvalues": values.tolist(),
    }
    if metric.feature_map is not None:
        document["kernel"] = str(getattr(metric.feature_map, "kernel", metric.feature_map.kind))
        if importance is None:
            return document
    if metric.is_zero:
        return document | {"unused": True}
    names = feature_names(metric)
    if importance is None:
        shares = feature_importances(metric, spreads=spreads)
        directions = leading_directions(metric, spreads=spreads, columns=columns)
    else:
        shares, directions = np.array(importance.shares), importance.directions
    return document | {
        "correlations": importance is not None,
        "features": _largest_first(names, shares),
        "columns": _largest_first(*column_shares(shares, columns or names)),
        "directions": [
            {"share": d.share, "loadings": dict(zip(d.features, d.loadings, strict=True))}
            for d in directions
        ],
        "text": [str(direction) for direction in directions],
    }


def _largest_first(names: Sequence[str], shares: Vector) -> dict[str, Json]:
    """Return shares by name, in the order of a report."""
    order = np.argsort(-np.abs(shares), kind="stable")
    return {names[j]: float(shares[j]) for j in order}


def describe_columns(metric: Metric) -> list[ColumnExample]:
    """Return what each column of a table became; nothing if the rows were an array."""
    if metric.columns is not None:
        return column_examples(metric.columns)
    return [ColumnExample(name, "number", "") for name in metric.feature_names or ()]
