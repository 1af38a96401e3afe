"""`evaluate`: a metric on labels, triplets or pairs, beside Euclidean and cosine distance.

Each row is classified and ranked by the other rows, or by training rows. What is measured is the
registry of `nearfar.measures.registry`, and what the papers of the field report beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nearfar import measures as measured_by
from nearfar.comparison.methods import baseline_metrics
from nearfar.comparison.tasks import score_distance, score_numbers
from nearfar.evidence.intervals import known_mean, ratio_interval
from nearfar.evidence.verdict import COSINE, STANDARDISED, UNSCALED
from nearfar.frames.metric_files import best_neighbors, load_metric, note_same_rows
from nearfar.frames.reader import listed
from nearfar.frames.reading import read_table
from nearfar.frames.table import Table
from nearfar.measures.registry import ERROR, MAE, R2, HeldOutJudgements, measures_for
from nearfar.metrics.metric import Metric
from nearfar.metrics.training_facts import note_learned_rows
from nearfar.runtime.messages import forwards, note, option, plain, text_table
from nearfar.supervision import Pairs, Triplets
from nearfar.typing import Array, Floats

LEARNED = "learned"


class MeasuredValue(NamedTuple):
    """A value, whether it is written in percent, and its 90 % interval if it is known."""

    value: float
    percent: bool
    interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        if self.interval is not None:
            low, high = self.interval
            return f"{plain(self.value)} ({plain(low)} to {plain(high)})"
        return f"{100 * self.value:.2f}" if self.percent else f"{self.value:.3f}"


@forwards(read_table, "label numbers triplets pairs drop ids")
def evaluate(
    metric: str | PathLike[str],
    source: object,
    *,
    train: object = None,
    neighbors: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    **reading: Any,
) -> Evaluated:
    """Evaluate a metric beside Euclidean and cosine distance, on labels, triplets or pairs.

    Each row is classified and ranked by the other rows, or by the rows of `train`. Use rows that
    are not training rows of the metric.

    Parameters
    ----------
    metric: Metric file, as written by `nearfar learn`.
    source: Table, array, or name of a dataset.
    train: Training rows: predict the labels from these, not from the other rows.
    neighbors: Neighbours that vote; by default as many as the file says.
    progress: Called with the number of distances so far, of all, and the name of the next.
    **reading: How rows are read: see `read_table`.
    """
    path, known = Path(metric), None
    reading["metric"] = load_metric(path)
    if train is not None:
        if reading.get("triplets") is not None or reading.get("pairs") is not None:
            raise ValueError(f"{option('train')} is for labels, not for triplets and pairs.")
        note_same_rows(train, source)
        known = read_table(train, **reading)
        known.labels  # noqa: B018 - refuses training rows without labels
        reading["numbers"] = known.kind == "numbers"
    rows = read_table(source, **reading)
    if rows.supervision is None:
        ways = [option(name) for name in ("label", "triplets", "pairs")]
        raise ValueError(
            f"{rows.name} has no labels; give {ways[0]}, {ways[1]} or {ways[2]} to evaluate on."
        )
    title = f"{rows.name}: {len(rows)} rows among each other"
    if known is not None:
        title = f"{rows.name}: {len(rows)} rows, predicted from {len(known)} rows of {known.name}"
    note_learned_rows(path, rows.X)
    n_neighbors = neighbors or best_neighbors(path, len(rows if known is None else known))
    return Evaluated(
        evaluate_metric(reading["metric"], rows, known, n_neighbors=n_neighbors, progress=progress),
        title,
    )


@dataclass(frozen=True)
class Evaluated:
    """What was measured, by the name of the distance and of the measure; prints as a table."""

    scores: Mapping[str, Mapping[str, MeasuredValue]]
    title: str

    def to_dict(self) -> dict[str, object]:
        """Return values, and the intervals that are known, for JSON."""
        return {
            name: {measure: value.value for measure, value in row.items()}
            | {
                f"{measure}, 90 % interval": list(value.interval)
                for measure, value in row.items()
                if value.interval is not None
            }
            for name, row in self.scores.items()
        }

    def __str__(self) -> str:
        lines = [
            [f"{name}, %" if value.percent else name]
            + [str(row[name]) for row in self.scores.values()]
            for name, value in self.scores[LEARNED].items()
        ]
        return f"{self.title}\n{text_table(['measure', *self.scores], lines)}"


def evaluate_metric(
    metric: Metric,
    rows: Table,
    train: Table | None = None,
    *,
    n_neighbors: int = 3,
    progress: Callable[[int, int, str], None] | None = None,
) -> dict[str, dict[str, MeasuredValue]]:
    """Return what is measured, by the name of the distance and of the measure.

    Parameters
    ----------
    train: Rows that predict those of `rows`; by default the other rows do.
    progress: Called with the number of distances so far, of all, and the name of the next.
    """
    judged = rows.supervision if isinstance(rows.supervision, Triplets | Pairs) else None
    if train is not None and train.kind == "labels":
        unknown = sorted(set(np.asarray(rows.y).astype(str)) - set(train.labels.astype(str)))
        if unknown:
            note(f"{train.name} has no rows of {listed(unknown)}, whose rows are always wrong.")
    baselines = baseline_metrics((train or rows).X)
    distances = {LEARNED: metric}
    distances |= {name: baselines[name] for name in (STANDARDISED, UNSCALED, COSINE)}
    scores = {}
    for number, (name, distance) in enumerate(distances.items()):
        if progress is not None:
            progress(number, len(distances), name)
        if judged is not None:
            scores[name] = _by_judgements(distance, rows.X, judged)
        else:
            scores[name] = _by_labels(distance, rows, np.asarray(rows.y), train, n_neighbors)
    return scores


def _by_labels(
    metric: Metric, rows: Table, new: Array, train: Table | None, n_neighbors: int
) -> dict[str, MeasuredValue]:
    X, y = (train or rows).X, (train or rows).labels
    if rows.kind == "numbers":
        test = None if train is None else (rows.X, new)
        settings: Any = {"n_neighbors": n_neighbors, "sample": False}
        found = score_numbers(metric, (X, y), test, unit=float(new.std()) or 1.0, **settings)
        spread = (new - new.mean()) ** 2
        measured = {}
        for measure, unit in ((R2, spread / (spread.mean() or 1.0)), (MAE, np.ones(len(new)))):
            losses = found[measure.name]
            low, high = sorted(
                map(measure.value, ratio_interval(losses, unit, noise=measure.noise))
            )
            name, value = f"{n_neighbors}-NN {measure.label}", measure.value(float(losses.mean()))
            measured[name] = MeasuredValue(value, False, (low, high))
        return measured
    if y.dtype.kind != new.dtype.kind:
        y, new = y.astype(str), new.astype(str)
    codes = np.unique(np.concatenate([y, new]), return_inverse=True)[1]
    test_rows = None if train is None else (rows.X, codes[len(y) :])
    scored = score_distance(
        metric, (X, codes[: len(y)]), test_rows, n_neighbors=n_neighbors, sample=False
    )
    values = {}
    for measure in measures_for("labels"):
        name = f"{n_neighbors}-NN error" if measure is ERROR else measure.label
        loss = known_mean(scored[measure.name])
        values[name] = MeasuredValue(measure.value(loss), measure.percent)
    queries = {} if train is None else {"X_query": rows.X, "y_query": new}
    first = measured_by.precision_at_k(metric, X, y, k=1, **queries)
    return values | {"precision at 1": MeasuredValue(first, percent=True)}


def _by_judgements(
    metric: Metric, X: Floats, judgements: Triplets | Pairs
) -> dict[str, MeasuredValue]:
    kind = "pairs" if isinstance(judgements, Pairs) else "triplets"
    values = {}
    for measure in measures_for(kind):
        loss = float(measure.losses(HeldOutJudgements(metric, X, judgements)).mean())
        name = f"{kind}, {measure.column}"
        values[name] = MeasuredValue(measure.value(loss), measure.percent)
    if isinstance(judgements, Pairs):
        eer = measured_by.verification(metric, X, judgements).eer
        values["pairs, equal error rate"] = MeasuredValue(eer, percent=True)
    return values
