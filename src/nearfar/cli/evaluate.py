"""``nearfar evaluate``: how good a metric is on rows that it was not learned from."""

from __future__ import annotations

from typing import Any

from nearfar import evaluate as measures
from nearfar.cli import options
from nearfar.cli.constraints import read_pairs, read_triplets
from nearfar.cli.files import load_metric
from nearfar.cli.judge import check_classes
from nearfar.cli.source import Source, SourceError, read_source
from nearfar.cli.terminal import bars, command, show_json, show_table
from nearfar.learners.scaler import Scaler
from nearfar.metrics.metric import Metric


@command
def evaluate(
    metric: options.MetricPath,
    source: options.Rows,
    label: options.Label = None,
    triplets: options.TripletsPath = None,
    pairs: options.PairsPath = None,
    drop: options.Drop = None,
    ids: options.Id = None,
    neighbors: options.Neighbors = 3,
    json: options.Json = False,
) -> None:
    """Measure a metric beside Euclidean distance, by labels, triplets and pairs.

    Every row is classified and searched for among the other rows. The figures are honest only for
    rows that the metric was not learned from.
    """
    learned = load_metric(metric)
    data = read_source(source, label=label, drop=drop or [], ids=ids, metric=learned)
    metrics = {
        "learned": learned,
        "Euclidean": Scaler.fit(data.X, "standard").euclidean,
        "Euclidean, as is": Metric.identity(learned.n_features),
    }
    judgements = {}
    with bars() as shown:
        for number, (name, judged) in enumerate(metrics.items()):
            shown.update(number, len(metrics), name)
            judgements[name] = _measure(judged, data, triplets, pairs, neighbors)
    if json:
        show_json(judgements)
        return
    names = list(judgements["learned"])
    rows = [
        (measure, *(f"{100 * found[measure]:.2f}" for found in judgements.values()))
        for measure in names
    ]
    show_table(["%", *judgements], rows, title=f"{data.name}: {len(data.X)} rows")


def _measure(
    metric: Metric, data: Source, triplets: Any, pairs: Any, neighbors: int
) -> dict[str, float]:
    found: dict[str, float] = {}
    if data.y is not None:
        check_classes(data)
        error = measures.leave_one_out_error(metric, data.X, data.y, n_neighbors=neighbors)
        found[f"{neighbors}-NN error"] = error
        found["precision at 1"] = measures.precision_at_k(metric, data.X, data.y, k=1)
        found["MAP@R"] = measures.map_at_r(metric, data.X, data.y)
    if triplets is not None:
        listed = read_triplets(triplets, data)
        found["triplets right"] = measures.triplet_accuracy(metric, data.X, listed)
    if pairs is not None:
        judged = measures.verification(metric, data.X, read_pairs(pairs, data))
        found |= {"pairs, AUC": judged.auc, "pairs, equal error rate": judged.eer}
    if not found:
        raise SourceError("Give --label, --triplets or --pairs to measure by.")
    return found
