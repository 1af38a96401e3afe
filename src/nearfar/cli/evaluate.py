"""``nearfar evaluate``: how good a metric is on rows that it was not learned from."""

from __future__ import annotations

from pathlib import Path

from nearfar import evaluate as measures
from nearfar.cli import options
from nearfar.cli.constraint_tables import read_pairs, read_triplets
from nearfar.cli.errors import UserError
from nearfar.cli.metric_files import load_metric
from nearfar.cli.regression_scores import LEARNED
from nearfar.cli.row_input import InputRows, read_rows
from nearfar.cli.terminal import bars, command, show_json, show_table
from nearfar.comparison.compared_methods import euclidean_metrics
from nearfar.metrics.metric import Metric


@command
def evaluate(
    metric: options.MetricPath,
    source: options.Source,
    label: options.Label = None,
    triplets: options.TripletsPath = None,
    pairs: options.PairsPath = None,
    drop: options.Drop = None,
    ids: options.Id = None,
    neighbors: options.Neighbors = 3,
    json: options.Json = False,
) -> None:
    """Evaluate a metric beside Euclidean distance, on labels, triplets or pairs.

    Each row is classified and ranked by the other rows. Use rows that the metric was not learned
    from.
    """
    learned = load_metric(metric)
    rows = read_rows(source, label=label, drop=drop, ids=ids, metric=learned)
    metrics = {LEARNED: learned, **dict(reversed(euclidean_metrics(rows.X).items()))}
    scores = {}
    with bars() as shown:
        for number, (name, scored) in enumerate(metrics.items()):
            shown.update(number, len(metrics), name)
            scores[name] = _scores(scored, rows, triplets, pairs, neighbors)
    if json:
        show_json(scores)
        return
    lines = [
        (measure, *(f"{100 * found[measure]:.2f}" for found in scores.values()))
        for measure in scores[LEARNED]
    ]
    show_table(["%", *scores], lines, title=f"{rows.name}: {len(rows)} rows among each other")


def _scores(
    metric: Metric, rows: InputRows, triplets: Path | None, pairs: Path | None, neighbors: int
) -> dict[str, float]:
    X = rows.X
    found: dict[str, float] = {}
    if rows.y is not None:
        y = rows.labels
        found[f"{neighbors}-NN error"] = measures.leave_one_out_error(
            metric, X, y, n_neighbors=neighbors
        )
        found["precision at 1"] = measures.precision_at_k(metric, X, y, k=1)
        found["MAP@R"] = measures.map_at_r(metric, X, y)
    if triplets is not None:
        listed = read_triplets(triplets, rows)
        found["triplets correct"] = measures.triplet_accuracy(metric, X, listed)
    if pairs is not None:
        verified = measures.verification(metric, X, read_pairs(pairs, rows))
        found |= {"pairs, AUC": verified.auc, "pairs, equal error rate": verified.eer}
    if not found:
        raise UserError("Give --label, --triplets or --pairs to evaluate on.")
    return found
