"""``nearfar show``: the contents of the file of a metric or an adapter."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from nearfar.cli import options
from nearfar.cli.files import is_adapter, load_adapter, load_metric
from nearfar.cli.terminal import UserError, command, say, show_json, show_table
from nearfar.evaluate.neighbor_votes import RELIABILITY_HEADINGS, Reliability
from nearfar.metrics.importance import comparable_shares
from nearfar.metrics.learned_from import stored_labels, stored_threshold, stored_votes
from nearfar.retrieval import SourceWeights
from nearfar.runtime.notes import note
from nearfar.runtime.provenance import Provenance
from nearfar.runtime.quoting import counted
from nearfar.runtime.tensor_file import kind_of_file, metadata_of
from nearfar.workflow.description import (
    describe_adapter,
    describe_columns,
    describe_metric,
)

_FEATURES_SHOWN = 15
_EIGENVALUES_SHOWN = 10
# Larger shares are printed as 0.0.
_LEAST_NEGATIVE = -0.0005
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
    metric was learned from. Of an adapter, show what it maps and what its held-out searches gained;
    of weights, what each source adds.
    """
    if columns:
        _show_columns(metric, json)
    elif is_adapter(metric):
        _show_adapter(metric, json)
    elif kind_of_file(metric) == "sources":
        weights = SourceWeights.load(metric)
        if json:
            origin = asdict(weights.provenance_)
            show_json({"kind": "sources", **weights.chosen_.to_dict(), "provenance": origin})
        else:
            say(f"{metric}: weights of {counted(len(weights.weights_), 'source')}")
            say(str(weights.chosen_))
    else:
        _show_metric(metric, json)
    if not (json or columns) and (made := Provenance.read(metadata_of(metric))) is not None:
        say(str(made))


def _show_metric(path: Path, json: bool) -> None:
    metric, document = load_metric(path), describe_metric(path)
    if json:
        show_json(document)
        return
    say(f"{path}: {metric!r}")
    if metric.columns is not None:
        n_columns, n_left = len(metric.columns.names), len(metric.columns.left_out_)
        left_out = f", {n_left} left out" if n_left else ""
        say(f"Columns: {n_columns}{left_out}; --columns shows what each became.")
    if (threshold := stored_threshold(path)) is not None:
        say(f"Threshold for pairs: {threshold.value:.6g}, chosen for {threshold.criterion}.")
    if (votes := stored_votes(path)) is not None and votes.counted:
        counts, right = (np.array(each[votes.best - 1]) for each in (votes.counted, votes.right))
        labels = stored_labels(path)
        n_classes = 0 if labels is None else len(labels.sizes)
        show_table(RELIABILITY_HEADINGS, Reliability(counts, right, n_classes).table())
    parts: Any = document["metrics"]
    if any("features" in part and not part["correlations"] for part in parts):
        note(_NO_CORRELATIONS if document["standardised"] else _UNITS)
    for number, (part, figures) in enumerate(zip(metric.parts, parts, strict=True), start=1):
        if document["gated"]:
            say(f"Metric {number}: {part!r}")
        _show(figures)


def _show_columns(path: Path, json: bool) -> None:
    """Print what each column became."""
    examples = describe_columns(load_metric(path))
    if not examples:
        raise UserError(f"{path} has no names of columns: the rows were an array.")
    if json:
        show_json([example._asdict() for example in examples])
    else:
        show_table(["column", "taken as", "example"], examples)


def _show_adapter(path: Path, json: bool) -> None:
    """Print what an adapter maps, what was chosen, and how far its score is from the untouched."""
    adapter = load_adapter(path)
    document: Any = {"file": str(path), **describe_adapter(adapter)}
    if json:
        show_json(document)
        return
    chosen, values = adapter.chosen_, document["singular_values"]
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
    if adapter.cutoff_ is not None:
        say(str(adapter.cutoff_))
    figures = " ".join(f"{v:.3g}" for v in values[:_EIGENVALUES_SHOWN])
    more = " ..." if len(values) > _EIGENVALUES_SHOWN else ""
    change = f"size of W - I relative to I: {document['change']:.3g}"
    say(f"Singular values of W: {figures}{more}; {change}")


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
        shares = "" if "features" in document else "; single features have no weights"
        say(f"Before the linear map: {document['kernel']}{shares}.")
    if "features" in document:
        _show_shares(document)
    if document.get("text"):
        say("Leading directions:")
        for line in document["text"]:
            say(f"  {line}")


def _show_shares(document: dict[str, Any]) -> None:
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
    elif min(shares[:_FEATURES_SHOWN]) < _LEAST_NEGATIVE:
        say(f"A {what} with a negative share cancels differences in others that go with it.")
