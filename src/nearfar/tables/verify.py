"""`verify`: whether pairs are the same, by a threshold that is given, stored, or chosen here."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nearfar.comparison.checkpoint import digest
from nearfar.evidence.splits import group_splitter, joined_classes
from nearfar.frames.formats import WRITTEN_TABLES, check_output, write_frame
from nearfar.frames.judgements import (
    copies_together,
    people_together,
    read_judgements,
    read_queries,
)
from nearfar.frames.metric_files import load_metric
from nearfar.frames.reading import read_table
from nearfar.frames.table import Table
from nearfar.measures import Verification, verification
from nearfar.metrics.metric import Metric
from nearfar.metrics.training_facts import (
    MANY_LEARNED_FROM,
    Threshold,
    note_learned_rows,
    save_threshold,
    share_learned_from,
    stored_threshold,
)
from nearfar.runtime.messages import forwards, note, option, plain, text_table
from nearfar.supervision import Pairs
from nearfar.typing import Floats, Ints
from nearfar.verification import (
    OperatingPoint,
    PairEvidence,
    choose_threshold,
    parse_target,
)

ACCURACY = "accuracy"
"""What a threshold without a target is chosen for, as metric files call it."""

# A threshold that finds fewer of the similar pairs is hardly of use, and that is said.
_LOW_RECALL = 0.2
_PAIRS_SHOWN = 20


@dataclass(frozen=True, eq=False)
class Decisions:
    """Pairs, and whether they are the same.

    Attributes
    ----------
    table: Columns a, b, distance and same.
    chosen_here, saved: Whether the threshold was chosen on these pairs, and whether the
        metric file has it now.
    scores: Of pairs that say whether they are similar.
    accuracy: Share of right decisions. If the threshold was chosen here without a target,
        each pair is decided by one that was chosen on others; None if there are too few
        pairs for that.
    point: Error rates of a threshold that was chosen for a target.
    metric: File of the metric.
    out: File of the table.
    """

    threshold: Threshold
    table: pl.DataFrame
    chosen_here: bool = False
    saved: bool = False
    scores: Verification | None = None
    accuracy: float | None = None
    point: OperatingPoint | None = None
    metric: str = ""
    out: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the threshold, the scores and all decisions, for JSON."""
        document: dict[str, object] = {
            "threshold": self.threshold.value,
            "criterion": self.threshold.criterion,
            "chosen_here": self.chosen_here,
            "saved": self.saved,
            "pairs": len(self.table),
            "same": int(self.table["same"].sum()),
        }
        if (scores := self.scores) is not None:
            document |= {"auc": scores.auc, "eer": scores.eer, "accuracy": self.accuracy}
        if self.point is not None:
            document["target"] = asdict(self.point)
        return document | {"decisions": self.table.to_dicts()}

    def __str__(self) -> str:
        lines = []
        if (scores := self.scores) is not None:
            figures = f"AUC {scores.auc:.3f}, equal error rate {100 * scores.eer:.1f} %"
            if self.accuracy is not None:
                chosen_here = self.chosen_here and self.point is None
                where = (
                    "with thresholds chosen on other pairs" if chosen_here else "at the threshold"
                )
                figures += f", accuracy {100 * self.accuracy:.1f} % {where}"
            lines.append(f"{figures}.")
        if self.point is not None:
            lines.append(self.point.describe(str(self.threshold.criterion)))
        same = int(self.table["same"].sum())
        value = f"{self.threshold.value:.6g}"
        lines.append(f"Threshold {value}: {same} of {len(self.table)} pairs are the same.")
        if self.saved:
            lines.append(f"Threshold saved in {self.metric}, for other pairs.")
        if self.out is not None:
            return "\n".join([*lines, f"Pairs written to {self.out}"])
        first = [
            (f"{a}, {b}", plain(distance), "same" if same else "different")
            for a, b, distance, same in self.table.head(_PAIRS_SHOWN).iter_rows()
        ]
        lines.append(text_table(["pair", "distance", "decision"], first))
        if len(self.table) > _PAIRS_SHOWN:
            more = f"write all with {option('out', 'FILE')}"
            lines.append(f"These are the first {_PAIRS_SHOWN}; {more}.")
        return "\n".join(lines)


def decide_pairs(
    path: Path,
    rows: Table,
    index: Ints,
    pairs: Pairs | None,
    *,
    threshold: float | None = None,
    target: str | None = None,
    confidence: float = 0.95,
    prevalence: float | None = None,
    name: str = "The table of pairs",
) -> Decisions:
    """Decide pairs of rows by the threshold that was given, one chosen here, or the file's.

    Parameters
    ----------
    path: File of the metric; a threshold that is chosen here is saved in it.
    rows: With labels, these are the classes that a target is certified for.
    pairs: The same pairs with what is known of them.
    threshold: Largest distance of rows that are the same.
    target: Choose a threshold that is certified to meet this on new classes:
        "precision>=0.99", "fmr<=1e-3" or "recall>=0.9".
    confidence: Confidence with which `target` is certified, above 0.5 and below 1.
    prevalence: Share of similar pairs in use, for precision; by default their share
        in the table.
    name: What messages call the pairs.
    """
    if target is not None:
        if threshold is not None:
            raise ValueError(f"Give only one of {option('target')} and {option('threshold')}.")
        if pairs is None:
            needs = f"{option('target')} needs pairs with a column 'similar'"
            raise ValueError(f"{needs}; {name} has none.")
        if not 0.5 < confidence < 1:
            limits = "must be above 0.5 and below 1"
            raise ValueError(f"{option('confidence')} {limits}; got {confidence}.")
        if prevalence is not None and not 0 < prevalence < 1:
            raise ValueError(f"{option('prevalence')} must be between 0 and 1; got {prevalence}.")
    if threshold is not None and not 0 <= threshold < np.inf:
        raise ValueError(f"{option('threshold')} must be a distance of 0 or more; got {threshold}.")
    metric = Metric.load(path)
    if pairs is not None:
        X = rows.X[np.unique(pairs.index)]
        share = share_learned_from(path, X)
        if target is not None and share > MANY_LEARNED_FROM:
            raise ValueError(
                f"{target} cannot be certified with {name}: the metric was learned from "
                f"{100 * share:.0f} % of these rows; give pairs of other rows."
            )
        note_learned_rows(path, X)
    identity = None if pairs is None else digest([rows.X[pairs.index], pairs.similar])
    point, held_out, chosen_here = None, None, False
    stored = stored_threshold(path)
    # A threshold that was chosen on these very pairs is chosen again, to test it on others.
    again = stored is not None and stored.criterion == ACCURACY and stored.pairs == identity
    if threshold is not None:
        used = Threshold(threshold)
    elif target is not None and pairs is not None:
        classes = joined_classes(pairs.index, pairs.similar)
        if rows.y is not None:
            classes = np.unique(rows.labels, return_inverse=True)[1][pairs.index]
        evidence = PairEvidence(
            metric.pair_distances(rows.X, pairs), pairs.similar, classes, pairs.weight
        )
        aim = parse_target(target)
        point = choose_threshold(evidence, aim, confidence=confidence, prevalence=prevalence)
        used, chosen_here = Threshold(point.threshold, str(aim), identity), True
    elif pairs is not None and (stored is None or again):
        value = verification(metric, rows.X, pairs).accuracy_threshold
        used, chosen_here = Threshold(value, ACCURACY, identity), True
        held_out = held_out_decisions(metric, rows.X, pairs)
    elif stored is None:
        missing = f"{name} has no column 'similar', and {path} no threshold"
        raise ValueError(f"{missing}; give {option('threshold')}.")
    else:
        used = stored
    saved = chosen_here
    if chosen_here:
        try:
            save_threshold(path, used)
        except OSError as error:
            note(f"the threshold was not saved in {path}: {error.strerror or error}.")
            saved = False
    distances = metric.pair_distances(rows.X, index)
    same = distances <= used.value
    sides = {side: rows.row_names(index[:, place]) for place, side in enumerate("ab")}
    table = pl.DataFrame({**sides, "distance": distances, "same": same})
    if pairs is None:
        return Decisions(used, table, chosen_here, saved)
    tested = held_out if chosen_here and point is None else same
    accuracy = None
    if tested is not None:
        accuracy = float(np.average(tested == pairs.similar, weights=pairs.weight))
    else:
        note("there are too few pairs to test a threshold on others than it is chosen on.")
    if point is not None and point.recall < _LOW_RECALL:
        note(
            f"this threshold finds only {100 * point.recall:.1f} % of the similar pairs. "
            "With more classes to calibrate on, or a weaker target, it would find more.",
            warning=True,
        )
    scores = verification(metric, rows.X, pairs)
    return Decisions(used, table, chosen_here, saved, scores, accuracy, point)


@forwards(decide_pairs, "threshold target confidence prevalence")
@forwards(read_table, "label drop ids")
def verify(
    metric: str | PathLike[str],
    source: object,
    pairs: str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    **rest: Any,
) -> Decisions:
    """Decide whether pairs of rows are the same.

    If the pairs have a column similar and the metric file has no threshold yet, one is chosen and
    saved in the metric file. Its accuracy is that of thresholds chosen on other pairs. With
    `target`, give pairs of rows that are not training rows. The confidence counts the classes of
    `label`, or else rows that similar pairs join.

    Parameters
    ----------
    metric: Metric file, as written by `nearfar learn`.
    source: Table, array, or name of a dataset.
    pairs: Table of pairs: a, b [, similar]; rows count from 0.
    out: Table to write: the pairs, distances and decisions.
    **rest: How rows are read, and how a threshold is chosen.
    """
    path, file = Path(metric), Path(pairs)
    if out is not None:
        check_output(Path(out), WRITTEN_TABLES, [metric, source, pairs])
    columns = {name: rest.pop(name, None) for name in ("label", "drop", "ids")}
    # Pairs refer to rows by number, so that none can be left out.
    rows = read_table(source, metric=load_metric(path), keep_unlabelled=True, **columns)
    if rows.y is not None and (rows.y.astype(str) == "").any():
        raise ValueError(f"{source} has rows that have no label in column {columns['label']}.")
    index, known = read_queries(read_judgements(file, "pairs"), file, rows)
    if known is not None:
        together = replace(rows, supervision=people_together(known, rows), kind="pairs")
        together = copies_together(together)
        assert isinstance(together.supervision, Pairs)
        known = together.supervision
    decisions = decide_pairs(path, rows, index, known, name=str(pairs), **rest)
    if out is not None:
        write_frame(decisions.table, Path(out))
    return replace(decisions, metric=str(metric), out=None if out is None else str(out))


def held_out_decisions(
    metric: Metric, X: Floats, pairs: Pairs, n_folds: int = 5
) -> NDArray[np.bool_] | None:
    """Tell which pairs are the same, each by the most accurate threshold for other pairs.

    Pairs that share rows stay together where they can, as in `Pairs.folds`. Return None if there
    are too few pairs to split.
    """
    groups = pairs.groups(n_folds)
    n_groups = len(np.unique(groups))
    n_folds = min(n_folds, int(pairs.similar.sum()), int((~pairs.similar).sum()), n_groups)
    if n_folds < 2:
        return None
    distances = metric.pair_distances(X, pairs)
    same = np.zeros(len(pairs), dtype=np.bool_)
    split = group_splitter(n_folds, n_groups, 0)
    for seen, unseen in split.split(pairs.index, pairs.similar, groups):
        others = pairs.take(seen)
        if others.similar.all() or not others.similar.any():
            return None
        same[unseen] = distances[unseen] <= verification(metric, X, others).accuracy_threshold
    return same
