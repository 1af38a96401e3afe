"""``nearfar verify``: decide whether pairs are the same, by a threshold on the distance."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from numpy.typing import NDArray

from nearfar.cli import options
from nearfar.cli.answer_files import read_judgements
from nearfar.cli.errors import UserError
from nearfar.cli.metric_files import check_output, load_metric, save_threshold, stored_threshold
from nearfar.cli.streams import write_table
from nearfar.cli.terminal import command, say, show_json, show_table
from nearfar.comparison.comparison_checkpoint import digest
from nearfar.constraints import Pairs
from nearfar.evaluate import verification, verification_curve
from nearfar.metrics.metric import Metric
from nearfar.runtime.notes import note
from nearfar.tables.formats import WRITTEN_TABLES
from nearfar.tables.judgements import copies_together, people_together, read_queries
from nearfar.tables.row_input import InputRows, read_rows
from nearfar.typing import Floats, Ints
from nearfar.verification import (
    OperatingPoint,
    PairEvidence,
    choose_threshold,
    held_out_decisions,
    joined_classes,
    parse_target,
    threshold_on,
)
from nearfar.verification.targets import Target

_LOW_RECALL = 0.2
_PAIRS_SHOWN = 20


class Criterion(StrEnum):
    """What a threshold is chosen for."""

    accuracy = "accuracy"
    eer = "eer"
    fpr = "fpr"


@command
def verify(
    metric: options.MetricPath,
    source: options.Source,
    pairs: Annotated[
        Path, typer.Argument(help="Table of pairs: a, b [, similar]; rows count from 0.")
    ],
    threshold: Annotated[
        float | None, typer.Option(help="Largest distance of rows that are the same.")
    ] = None,
    criterion: Annotated[
        Criterion | None,
        typer.Option(
            help="Choose a new threshold by this, if pairs say whether they are similar "
            "[default: accuracy, if the metric file has no threshold]."
        ),
    ] = None,
    max_fpr: Annotated[
        float, typer.Option(min=0, max=1, help="Largest false positive rate, for fpr.")
    ] = 0.01,
    target: Annotated[
        str | None,
        typer.Option(
            help="Choose a threshold that is certified to meet this on new classes: "
            '"precision>=0.99", "fmr<=1e-3" or "recall>=0.9"; or eer, or '
            '"false_match=10,false_non_match=1,prior=0.01" (costs).'
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(help="Confidence with which --target is certified, above 0.5 and below 1."),
    ] = 0.95,
    prevalence: Annotated[
        float | None,
        typer.Option(
            help="Share of similar pairs in use, for precision and costs "
            "[default: their share in the table]."
        ),
    ] = None,
    label: options.Label = None,
    drop: options.Drop = None,
    ids: options.Id = None,
    save_as: Annotated[
        Path | None, options.output("Table to write: the pairs, distances and decisions.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Decide whether pairs of rows are the same.

    If the pairs have a column `similar` and the metric file has no threshold yet, one is chosen and
    saved in the metric file. Its accuracy is that of thresholds chosen on other pairs. With
    --target, give pairs of rows that the metric was not learned from. The confidence counts the
    classes of --label, or else rows that similar pairs join.
    """
    wanted = _wanted(target, threshold, criterion, confidence, prevalence)
    if save_as is not None:
        check_output(save_as, WRITTEN_TABLES, [metric, source, pairs])
    if threshold is not None and not 0 <= threshold < float("inf"):
        raise UserError(f"--threshold must be a distance of 0 or more; got {threshold}.")
    found = load_metric(metric)
    rows = read_rows(source, label=label, drop=drop, ids=ids, metric=found)
    index, known = read_queries(read_judgements(pairs, "pairs"), pairs, rows)
    if known is not None:
        together = replace(rows, supervision=people_together(known, rows), kind="pairs")
        pairs_together = copies_together(together).supervision
        assert isinstance(pairs_together, Pairs)
        known = pairs_together
    if wanted is not None and known is None:
        raise UserError(f"--target needs pairs with a column 'similar'; {pairs} has none.")
    used = _used(metric, found, rows, known, wanted, threshold, criterion, max_fpr)
    if used is None:
        raise UserError(
            f"{pairs} has no column 'similar', and {metric} no threshold; give --threshold."
        )
    table = _decisions(found, rows, index, used.threshold.value)
    document: dict[str, Any] = {
        "threshold": used.threshold.value,
        "criterion": used.threshold.criterion,
        "chosen_here": used.chosen_here,
        "saved": used.saved,
        "pairs": len(table),
        "same": int(table["same"].sum()),
    }
    if known is not None:
        tested = used.chosen_here and used.point is None
        decided = used.held_out if tested else table["same"].to_numpy()
        document |= _scores(found, rows.X, known, decided)
    if used.point is not None:
        document["target"] = asdict(used.point)
    if save_as is not None:
        write_table(table, save_as)
    if json:
        show_json(document | {"decisions": table.to_dicts()})
    else:
        _show(document, metric, table, save_as)


@dataclass(frozen=True)
class _Threshold:
    """A threshold, and where it comes from.

    Attributes
    ----------
    value : float
    criterion : str or None
        What it was chosen by; None if it was given.
    pairs : str or None
        Identifies the pairs that it was chosen on.
    """

    value: float
    criterion: str | None = None
    pairs: str | None = None

    @property
    def by_criterion(self) -> bool:
        """Whether it was chosen by a criterion, without a target."""
        return self.criterion in list(Criterion)


@dataclass(frozen=True)
class _Wanted:
    """What --target asks for."""

    target: Target
    confidence: float
    prevalence: float | None

    def choose(self, metric: Metric, rows: InputRows, known: Pairs) -> OperatingPoint:
        """Choose a threshold; classes are the labels, if there are any."""
        classes = joined_classes(known)
        if rows.y is not None:
            classes = np.unique(rows.labels, return_inverse=True)[1][known.index]
        evidence = PairEvidence(metric.pair_distances(rows.X, known), known, classes)
        return choose_threshold(
            evidence, self.target, confidence=self.confidence, prevalence=self.prevalence
        )


@dataclass(frozen=True, eq=False)
class _Used:
    """The threshold that pairs are decided by.

    Attributes
    ----------
    threshold : _Threshold
    chosen_here, saved : bool
        Whether it was chosen on these pairs, and whether the metric file has it now.
    held_out : array of bool or None
        Decisions by thresholds that were chosen on other pairs.
    point : OperatingPoint or None
        Its error rates, if it was chosen for a target.
    """

    threshold: _Threshold
    chosen_here: bool = False
    saved: bool = False
    held_out: NDArray[np.bool_] | None = None
    point: OperatingPoint | None = None


def _used(
    path: Path,
    metric: Metric,
    rows: InputRows,
    known: Pairs | None,
    wanted: _Wanted | None,
    given: float | None,
    criterion: Criterion | None,
    max_fpr: float,
) -> _Used | None:
    """Return the threshold that was given, one that is chosen here, or that of the metric file."""
    if given is not None:
        return _Used(_Threshold(given))
    if wanted is not None and known is not None:
        point = wanted.choose(metric, rows, known)
        chosen = _Threshold(point.threshold, str(wanted.target), _identity(known, rows.X))
        return _Used(chosen, True, _save(path, chosen), point=point)
    stored = _stored(path)
    if known is None:
        return None if stored is None else _Used(stored)
    if stored is not None and criterion is None:
        chosen_again = stored.by_criterion and stored.pairs == _identity(known, rows.X)
        if not chosen_again:
            return _Used(stored)
    chosen, held_out = _choose(metric, rows.X, known, criterion or Criterion.accuracy, max_fpr)
    return _Used(chosen, True, _save(path, chosen), held_out)


def _wanted(
    target: str | None,
    threshold: float | None,
    criterion: Criterion | None,
    confidence: float,
    prevalence: float | None,
) -> _Wanted | None:
    """Check what --target asks for."""
    if target is None:
        return None
    if threshold is not None or criterion is not None:
        raise UserError("Give only one of --target, --threshold and --criterion.")
    if not 0.5 < confidence < 1:
        raise UserError(f"--confidence must be above 0.5 and below 1; got {confidence}.")
    if prevalence is not None and not 0 < prevalence < 1:
        raise UserError(f"--prevalence must be between 0 and 1; got {prevalence}.")
    return _Wanted(parse_target(target), confidence, prevalence)


def _stored(metric: Path) -> _Threshold | None:
    """Return the threshold in a metric file."""
    found = stored_threshold(metric)
    if found is None:
        return None
    value = found["value"]
    return _Threshold(-np.inf if value is None else value, found["criterion"], found["pairs"])


def _save(metric: Path, threshold: _Threshold) -> bool:
    """Keep a threshold in a metric file; tell whether that was possible."""
    value = threshold.value if np.isfinite(threshold.value) else None
    try:
        save_threshold(metric, asdict(threshold) | {"value": value})
    except OSError as error:
        note(f"the threshold was not saved in {metric}: {error.strerror or error}.")
        return False
    return True


def _identity(pairs: Pairs, X: Floats) -> str:
    """Identify pairs by the values of their rows, wherever these are in a table."""
    return digest([X[pairs.index], pairs.similar])


def _choose(
    metric: Metric, X: Floats, known: Pairs, criterion: Criterion, max_fpr: float
) -> tuple[_Threshold, NDArray[np.bool_] | None]:
    """Choose a threshold on all pairs, and decide each by one that was chosen on others."""

    def choose(pairs: Pairs) -> float:
        if criterion is Criterion.fpr:
            return threshold_on(verification_curve(metric, X, pairs), pairs, "fpr", max_fpr, 1.0)
        return float(getattr(verification(metric, X, pairs), f"{criterion}_threshold"))

    held_out = held_out_decisions(metric, X, known, choose)
    return _Threshold(choose(known), str(criterion), _identity(known, X)), held_out


def _decisions(metric: Metric, rows: InputRows, index: Ints, threshold: float) -> pl.DataFrame:
    """Return the pairs, their distances, and whether they are the same."""
    distances = metric.pair_distances(rows.X, index)
    return pl.DataFrame(
        {
            "a": rows.row_names(index[:, 0]),
            "b": rows.row_names(index[:, 1]),
            "distance": distances,
            "same": distances <= threshold,
        }
    )


def _scores(
    metric: Metric, X: Floats, known: Pairs, same: NDArray[np.bool_] | None
) -> dict[str, float | None]:
    found = verification(metric, X, known)
    accuracy = None
    if same is not None:
        accuracy = float(np.average(same == known.similar, weights=known.weight))
    return {"auc": found.auc, "eer": found.eer, "accuracy": accuracy}


def _show(
    document: dict[str, Any], metric: Path, table: pl.DataFrame, save_as: Path | None
) -> None:
    target = document.get("target")
    chosen_here = document["chosen_here"] and target is None
    if "auc" in document:
        where = "with thresholds chosen on other pairs" if chosen_here else "at the threshold"
        accuracy = document["accuracy"]
        figure = f", accuracy {100 * (accuracy or 0):.1f} % {where}"
        say(
            f"AUC {document['auc']:.3f}, equal error rate {100 * document['eer']:.1f} %"
            f"{'' if accuracy is None else figure}."
        )
        if accuracy is None:
            note("there are too few pairs to test a threshold on others than it is chosen on.")
    if target is not None:
        say(_certified(target, document["criterion"]))
        if target["recall"] < _LOW_RECALL:
            note(
                f"this threshold finds only {100 * target['recall']:.1f} % of the similar pairs. "
                "With more classes to calibrate on, or a weaker target, it would find more.",
                warning=True,
            )
    say(
        f"Threshold {document['threshold']:.6g}: "
        f"{document['same']} of {document['pairs']} pairs are the same."
    )
    if document["saved"]:
        say(f"Threshold saved in {metric}, for other pairs.")
    if save_as is not None:
        say(f"Pairs written to {save_as}")
        return
    lines = [
        (f"{a}, {b}", f"{distance:.4g}", "same" if same else "different")
        for a, b, distance, same in table.head(_PAIRS_SHOWN).iter_rows()
    ]
    show_table(["pair", "distance", "decision"], lines)
    if len(table) > _PAIRS_SHOWN:
        say(f"These are the first {_PAIRS_SHOWN}; write all with --out FILE.")


def _certified(point: dict[str, Any], target: str) -> str:
    """Describe a threshold that was chosen for a target."""
    low, high = point["interval"]
    figure = f"{point['estimate']:.4g}"
    shown = f"Chosen for {target}: {figure}."
    if point["bound"] is not None:
        side = "most" if "<=" in target else "least"
        confidence = f"{100 * point['confidence']:g} % confidence"
        shown = (
            f"{target} is certified with {confidence}: {figure}, at {side} {point['bound']:.4g}."
        )
    prevalence = f"{100 * point['prevalence']:.3g} % of pairs are similar"
    return (
        f"{shown}\n"
        f"On {point['n_pairs']} pairs of {point['n_classes']} classes: false match rate "
        f"{point['fmr']:.3g}, recall {100 * point['recall']:.1f} %, precision "
        f"{100 * point['precision']:.1f} % if {prevalence}.\n"
        f"Interval of the threshold: {low:.6g} to {high:.6g}."
    )
