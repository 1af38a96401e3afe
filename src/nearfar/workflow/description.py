"""A metric's or adapter's file in figures: size, eigenvalues, features, directions, columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from nearfar.columns.examples import ColumnExample, column_examples
from nearfar.metrics.importance import (
    column_shares,
    feature_importances,
    feature_names,
    leading_directions,
    several_features,
)
from nearfar.metrics.learned_from import (
    Importance,
    stored_importance,
    stored_spreads,
    stored_threshold,
    stored_votes,
)
from nearfar.metrics.metric import Metric
from nearfar.plots import eigenvalues
from nearfar.retrieval import RetrievalAdapter
from nearfar.runtime.provenance import Provenance
from nearfar.runtime.tensor_file import metadata_of
from nearfar.typing import Json, Vector


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
    if metric.kernel_map is not None:
        document["kernel"] = str(getattr(metric.kernel_map, "kernel", metric.kernel_map.kind))
        if importance is None:
            return document
    if metric.is_zero:
        return document | {"unused": True}
    names = feature_names(metric)
    if importance is None:
        shares = feature_importances(metric, spreads=spreads)
        directions = leading_directions(metric, spreads=spreads, columns=columns)
    else:
        shares, directions = importance.shares, importance.directions
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


def describe_adapter(adapter: RetrievalAdapter) -> dict[str, Json]:
    """Return what an adapter maps, what was chosen, and how far it is from no change."""
    values = np.linalg.svd(adapter.W_, compute_uv=False)
    change = float(np.linalg.norm(adapter.W_ - np.eye(len(adapter.W_))) / np.sqrt(len(values)))
    return {
        "kind": "adapter",
        "n_features": adapter.n_features_in_,
        "form": adapter.form,
        "score": adapter.score,
        "side": adapter.side,
        "chosen": asdict(adapter.chosen_),
        "cutoff": None if adapter.cutoff_ is None else asdict(adapter.cutoff_),
        "provenance": asdict(adapter.provenance_) if adapter.provenance_ else None,
        "change": change,
        "singular_values": values.tolist(),
    }
