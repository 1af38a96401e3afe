"""``nearfar evaluate``: how good a metric is on rows that it was not learned from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearfar import evaluate as measures
from nearfar.cli import options
from nearfar.cli.answer_files import read_judgements
from nearfar.cli.errors import UserError
from nearfar.cli.metric_files import load_metric, share_learned_from
from nearfar.cli.regression_scores import LEARNED
from nearfar.cli.streams import spooled
from nearfar.cli.terminal import bars, command, show_json, show_table
from nearfar.comparison.compared_methods import (
    COSINE,
    STANDARDISED,
    UNSCALED,
    baseline_metrics,
)
from nearfar.metrics.metric import Metric
from nearfar.runtime.notes import note
from nearfar.tables.judgements import read_pairs, read_triplets
from nearfar.tables.reader import listed
from nearfar.tables.row_input import InputRows, read_rows
from nearfar.tables.training_input import LabelledRows, read_labelled, warn_of_same_rows

_FRACTIONS = ("MAP@R", "AUC", "R²")
"""Measures that are not in percent."""
_MANY_LEARNED_FROM = 0.2


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
    numbers: options.Numbers = False,
    triplets: options.TripletsPath = None,
    pairs: options.PairsPath = None,
    drop: options.Drop = None,
    ids: options.Id = None,
    neighbors: options.Neighbors = 3,
    json: options.Json = False,
) -> None:
    """Evaluate a metric beside Euclidean and cosine distance, on labels, triplets or pairs.

    Each row is classified and ranked by the other rows, or by the rows of --train. Use rows that
    the metric was not learned from.
    """
    learned = load_metric(metric)
    if train is not None and (triplets is not None or pairs is not None):
        raise UserError("--train is for labels; leave out --triplets and --pairs.")
    given: dict[str, Any] = {"label": label, "drop": drop, "ids": ids, "metric": learned}
    # Judgements refer to rows by number.
    given["skip_unlabelled"] = triplets is None and pairs is None
    if train is None:
        rows = read_labelled(source, numbers=numbers, required=False, **given)
        known, title = None, f"{rows.name}: {len(rows)} rows among each other"
    else:
        warn_of_same_rows(train, source)
        known = read_labelled(train, numbers=numbers, **given)
        rows = _read_new(source, known, given)
        title = f"{rows.name}: {len(rows)} rows, predicted from {len(known)} rows of {known.name}"
    share = 0.0 if rows.y is None else share_learned_from(metric, rows.rows.X)
    if share > _MANY_LEARNED_FROM:
        note(
            f"{100 * share:.0f} % of the rows that the metric was learned from are among these "
            "rows; on them it looks better than on new rows.",
            warning=True,
        )
    standard = (rows if known is None else known).rows.X
    baselines = baseline_metrics(standard)
    order = (STANDARDISED, UNSCALED, COSINE)
    metrics = {LEARNED: learned, **{name: baselines[name] for name in order}}
    scores = {}
    with bars() as shown:
        for number, (name, scored) in enumerate(metrics.items()):
            shown.update(number, len(metrics), name)
            scores[name] = _label_scores(scored, rows, known, neighbors)
            scores[name] |= _judgement_scores(scored, rows.rows, triplets, pairs)
    if not scores[LEARNED]:
        raise UserError("Give --label, --triplets or --pairs to evaluate on.")
    if json:
        show_json(scores)
        return
    lines = [
        (_with_unit(measure), *(_written(measure, found[measure]) for found in scores.values()))
        for measure in scores[LEARNED]
    ]
    show_table(["measure", *scores], lines, title=title)


def _with_unit(measure: str) -> str:
    return measure if measure.endswith(_FRACTIONS) else f"{measure}, %"


def _written(measure: str, value: float) -> str:
    """Return a value in the unit that comparisons have for it."""
    return f"{value:.3f}" if measure.endswith(_FRACTIONS) else f"{100 * value:.2f}"


def _read_new(source: str, known: LabelledRows, given: dict[str, Any]) -> LabelledRows:
    """Read labelled rows that are predicted from others; they may have one class only."""
    rows = read_rows(source, labelled=True, numeric=known.numbers, **given)
    y = rows.numbers if known.numbers else rows.y
    if y is None:
        return LabelledRows(rows, rows.labels, numbers=False)
    if not known.numbers:
        unknown = sorted(set(y.astype(str)) - set(known.labels.astype(str)))
        if unknown:
            note(f"{known.name} has no rows of {listed(unknown)}, whose rows are always wrong.")
    return LabelledRows(rows, y, known.numbers)


def _label_scores(
    metric: Metric, rows: LabelledRows, known: LabelledRows | None, neighbors: int
) -> dict[str, float]:
    """Score predictions of labels, from the other rows or from training rows."""
    if rows.y is None:
        return {}
    gallery = rows if known is None else known
    X, y = gallery.rows.X, gallery.labels
    new = () if known is None else (rows.rows.X, rows.y)
    if rows.numbers:
        r2 = measures.knn_r2(metric, X, y, *new, n_neighbors=neighbors)
        return {f"{neighbors}-NN R²": r2}
    if known is not None and y.dtype.kind != rows.y.dtype.kind:
        y, new = y.astype(str), (rows.rows.X, rows.y.astype(str))
    queries = dict(zip(("X_query", "y_query"), new, strict=False))
    error = measures.knn_error if new else measures.leave_one_out_error
    return {
        f"{neighbors}-NN error": error(metric, X, y, *new, n_neighbors=neighbors),
        "precision at 1": measures.precision_at_k(metric, X, y, k=1, **queries),
        "MAP@R": measures.map_at_r(metric, X, y, **queries),
    }


def _judgement_scores(
    metric: Metric, rows: InputRows, triplets: Path | None, pairs: Path | None
) -> dict[str, float]:
    found: dict[str, float] = {}
    if triplets is not None:
        judged = read_triplets(read_judgements(triplets, "triplets"), triplets, rows)
        found["triplets correct"] = measures.triplet_accuracy(metric, rows.X, judged)
    if pairs is not None:
        verified = measures.verification(
            metric, rows.X, read_pairs(read_judgements(pairs, "pairs"), pairs, rows)
        )
        found |= {"pairs, AUC": verified.auc, "pairs, equal error rate": verified.eer}
    return found
