"""``nearfar show``: what is in a metric's file."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfar.cli import options
from nearfar.cli.files import load_metric
from nearfar.cli.terminal import command, say, show_json, show_table
from nearfar.metrics.gated import GatedMetric
from nearfar.metrics.importance import feature_importances, feature_names, leading_directions
from nearfar.metrics.metric import Metric
from nearfar.plots import eigenvalues

_MOST_FEATURES = 15
_MOST_EIGENVALUES = 10


@command
def show(metric: options.MetricPath, json: options.Json = False) -> None:
    """Show what a metric goes by: its size, eigenvalues, features and directions.

    Features weigh by the diagonal of the metric's matrix, so that their units matter; a report
    weighs them by the data.
    """
    found = load_metric(metric)
    parts = found.metrics if isinstance(found, GatedMetric) else [found]
    documents = [_document(part) for part in parts]
    if json:
        show_json(
            {"file": str(metric), "gated": isinstance(found, GatedMetric), "metrics": documents}
        )
        return
    say(f"{metric}: {found!r}")
    for number, document in enumerate(documents, start=1):
        if len(parts) > 1:
            say(f"Metric {number}: {parts[number - 1]!r}")
        _show(document)


def _document(metric: Metric) -> dict[str, Any]:
    values = eigenvalues(metric)
    document: dict[str, Any] = {
        "n_features": metric.n_features,
        "n_components": metric.n_components,
        "rank": int(np.count_nonzero(values > len(values) * np.finfo(float).eps * values[0])),
        "eigenvalues": values.tolist(),
    }
    if metric.kernel_map is not None:
        return document | {"kernel": str(metric.kernel_map.kernel)}
    if not metric.L.any():
        return document | {"unused": True}
    names = feature_names(metric)
    shares = feature_importances(metric)
    order = np.argsort(-shares, kind="stable")
    return document | {
        "features": {names[j]: float(shares[j]) for j in order},
        "directions": [
            {"share": d.share, "loadings": dict(zip(d.features, d.loadings, strict=True))}
            for d in leading_directions(metric)
        ],
        "text": [str(direction) for direction in leading_directions(metric)],
    }


def _show(document: dict[str, Any]) -> None:
    values = np.array(document["eigenvalues"])
    largest = values[0] or 1.0
    shown = " ".join(f"{v / largest:.3g}" for v in values[:_MOST_EIGENVALUES])
    more = " ..." if len(values) > _MOST_EIGENVALUES else ""
    say(f"Rank {document['rank']}; eigenvalues, relative to the largest: {shown}{more}")
    if "unused" in document:
        say("Unused: all its distances are zero.")
        return
    if "kernel" in document:
        say(f"Kernel: {document['kernel']}; features have no weights of their own.")
        return
    features = list(document["features"].items())
    rows = [(name, f"{100 * share:.1f}") for name, share in features[:_MOST_FEATURES]]
    show_table(["feature", "share %"], rows)
    if len(features) > _MOST_FEATURES:
        say(f"... and {len(features) - _MOST_FEATURES} more; --json has all.")
    say("Leading directions:")
    for line in document["text"]:
        say(f"  {line}")
