"""``nearfar verify``: decide whether pairs are the same, by a threshold on the distance."""

from __future__ import annotations

from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from nearfar.ask.answer_files import read_judgements
from nearfar.cli import options
from nearfar.cli.files import load_metric, write_table
from nearfar.cli.terminal import UserError, command, say, show_json, show_table
from nearfar.constraints import Pairs
from nearfar.runtime.notes import note
from nearfar.tables.formats import WRITTEN_TABLES, check_output
from nearfar.tables.judgements import copies_together, people_together, read_queries
from nearfar.tables.reading import read_rows
from nearfar.verification import OperatingPoint
from nearfar.workflow.decisions import Decisions, decide_pairs

_LOW_RECALL = 0.2
"""A threshold that finds less is hardly of use, and that is said."""
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
    _check(target, threshold, criterion, confidence, prevalence)
    if save_as is not None:
        check_output(save_as, WRITTEN_TABLES, [metric, source, pairs])
    rows = read_rows(source, label=label, drop=drop, ids=ids, metric=load_metric(metric))
    index, known = read_queries(read_judgements(pairs, "pairs"), pairs, rows)
    if known is not None:
        together = replace(rows, supervision=people_together(known, rows), kind="pairs")
        together = copies_together(together)
        assert isinstance(together.supervision, Pairs)
        known = together.supervision
    elif target is not None:
        raise UserError(f"--target needs pairs with a column 'similar'; {pairs} has none.")
    choice: Any = {"criterion": criterion and criterion.value, "max_fpr": max_fpr}
    choice |= {"target": target, "confidence": confidence, "prevalence": prevalence}
    decisions = decide_pairs(metric, rows, index, known, threshold=threshold, **choice)
    if decisions is None:
        raise UserError(
            f"{pairs} has no column 'similar', and {metric} no threshold; give --threshold."
        )
    if save_as is not None:
        write_table(decisions.table, save_as)
    if json:
        show_json(_document(decisions))
    else:
        _show(decisions, metric, save_as)


def _check(
    target: str | None,
    threshold: float | None,
    criterion: Criterion | None,
    confidence: float,
    prevalence: float | None,
) -> None:
    """Refuse options that contradict each other, or are out of range."""
    if target is not None and (threshold is not None or criterion is not None):
        raise UserError("Give only one of --target, --threshold and --criterion.")
    if target is not None and not 0.5 < confidence < 1:
        raise UserError(f"--confidence must be above 0.5 and below 1; got {confidence}.")
    if target is not None and prevalence is not None and not 0 < prevalence < 1:
        raise UserError(f"--prevalence must be between 0 and 1; got {prevalence}.")
    if threshold is not None and not 0 <= threshold < float("inf"):
        raise UserError(f"--threshold must be a distance of 0 or more; got {threshold}.")


def _document(decisions: Decisions) -> dict[str, Any]:
    document: dict[str, Any] = {
        "threshold": decisions.threshold.value,
        "criterion": decisions.threshold.criterion,
        "chosen_here": decisions.chosen_here,
        "saved": decisions.saved,
        "pairs": len(decisions.table),
        "same": int(decisions.table["same"].sum()),
    }
    if (scores := decisions.scores) is not None:
        document |= {"auc": scores.auc, "eer": scores.eer, "accuracy": decisions.accuracy}
    if decisions.point is not None:
        document["target"] = asdict(decisions.point)
    return document | {"decisions": decisions.table.to_dicts()}


def _show(decisions: Decisions, metric: Path, save_as: Path | None) -> None:
    point, table, threshold = decisions.point, decisions.table, decisions.threshold
    if decisions.scores is not None:
        _show_scores(decisions)
    if point is not None:
        say(_certified(point, str(threshold.criterion)))
        if point.recall < _LOW_RECALL:
            note(
                f"this threshold finds only {100 * point.recall:.1f} % of the similar pairs. "
                "With more classes to calibrate on, or a weaker target, it would find more.",
                warning=True,
            )
    same = int(table["same"].sum())
    say(f"Threshold {threshold.value:.6g}: {same} of {len(table)} pairs are the same.")
    if decisions.saved:
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


def _show_scores(decisions: Decisions) -> None:
    assert decisions.scores is not None
    chosen_here = decisions.chosen_here and decisions.point is None
    where = "with thresholds chosen on other pairs" if chosen_here else "at the threshold"
    figures = f"AUC {decisions.scores.auc:.3f}, equal error rate {100 * decisions.scores.eer:.1f} %"
    if decisions.accuracy is None:
        say(f"{figures}.")
        note("there are too few pairs to test a threshold on others than it is chosen on.")
    else:
        say(f"{figures}, accuracy {100 * decisions.accuracy:.1f} % {where}.")


def _certified(point: OperatingPoint, target: str) -> str:
    """Describe a threshold that was chosen for a target."""
    low, high = point.interval
    figure = f"{point.estimate:.4g}"
    shown = f"Chosen for {target}: {figure}."
    if point.bound is not None:
        side = "most" if "<=" in target else "least"
        confidence = f"{100 * point.confidence:g} % confidence"
        shown = f"{target} is certified with {confidence}: {figure}, at {side} {point.bound:.4g}."
    prevalence = f"{100 * point.prevalence:.3g} % of pairs are similar"
    return (
        f"{shown}\n"
        f"On {point.n_pairs} pairs of {point.n_classes} classes: false match rate "
        f"{point.fmr:.3g}, recall {100 * point.recall:.1f} %, precision "
        f"{100 * point.precision:.1f} % if {prevalence}.\n"
        f"Interval of the threshold: {low:.6g} to {high:.6g}."
    )
