"""``nearfar compare``: learners, plain methods and Euclidean distance on the same folds."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from nearfar.cli import options
from nearfar.cli.checkpoint import Checkpoint
from nearfar.cli.constraints import check_one_supervision, read_judgements
from nearfar.cli.errors import UserError
from nearfar.cli.methods import METHOD_NAMES, compared_learners, find_method
from nearfar.cli.preparation import ColumnRules, Imputation
from nearfar.cli.rows import Rows, read_rows
from nearfar.cli.terminal import bars, command, counted, note, say, show_json
from nearfar.comparison import Comparison
from nearfar.comparison import compare as compare_methods
from nearfar.comparison.compared_methods import ALL, Learners
from nearfar.constraints import Pairs, Triplets


class Split(StrEnum):
    """What folds hold out."""

    rows = "rows"
    classes = "classes"


@command
def compare(
    source: options.Source,
    label: options.Label = None,
    drop: options.Drop = None,
    numeric: options.Numeric = None,
    categorical: options.Categorical = None,
    impute: options.Impute = Imputation.auto,
    triplets: options.TripletsPath = None,
    pairs: options.PairsPath = None,
    ids: options.Id = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Method to compare; repeatable [default: AutoMetric, the papers' methods, NCA, "
            f"LMNN and closed forms]: {', '.join(METHOD_NAMES)}, {ALL}."
        ),
    ] = None,
    budget: options.Budget = options.DEFAULT_BUDGET,
    checkpoint: options.Checkpoint = None,
    folds: options.Folds = 5,
    split: Annotated[
        Split,
        typer.Option(help="What folds hold out: rows, or whole classes that nothing learned from."),
    ] = Split.rows,
    neighbors: options.Neighbors = 3,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Compare Euclidean distance, plain methods and learners by cross-validation.

    Euclidean distance and the plain methods always take part. Methods learn from labels, triplets
    or pairs, and are tested on others.
    """
    limit = options.seconds(budget)
    check_one_supervision(label, triplets, pairs)
    learners = compared_learners(method or [], seed)
    labelled = triplets is None and pairs is None
    rules = ColumnRules(drop, numeric, categorical, impute)
    rows = read_rows(source, label=label, rules=rules, ids=ids, labelled=labelled)
    judgements = read_judgements(rows, triplets, pairs)
    known = rows.labels if judgements is None else judgements
    for name in method or []:
        if name != ALL:
            find_method(name, seed=seed).check(known)
    inputs = [source, label, triplets, pairs]
    with Checkpoint(checkpoint, inputs, fits=False) as kept:
        found = run_comparison(
            rows,
            known,
            learners,
            folds=folds,
            split=split,
            neighbors=neighbors,
            seed=seed,
            budget=limit,
            checkpoint=kept.comparison,
        )
    if json:
        show_json({"source": source, **found.to_dict()})
    else:
        say(str(found))


def run_comparison(
    rows: Rows,
    known: Any,
    learners: Learners,
    *,
    folds: int,
    neighbors: int,
    seed: int,
    budget: float | None,
    checkpoint: Path | None,
    split: Split = Split.rows,
) -> Comparison:
    """Compare by labels, triplets or pairs, with progress on the terminal."""
    if isinstance(known, Triplets | Pairs):
        if split is Split.classes:
            raise UserError("--split classes needs class labels; give --label.")
        _check_judgements(known, folds)
    elif split is Split.classes:
        _check_classes(known, folds)
    else:
        _check_labels(known, folds, neighbors)
    with bars() as shown:
        return compare_methods(
            rows.X,
            known,
            learners,
            cv=folds,
            split=split.value,
            n_neighbors=neighbors,
            budget=budget,
            random_state=seed,
            progress=shown.update,
            checkpoint=checkpoint,
        )


def _check_judgements(known: Triplets | Pairs, folds: int) -> None:
    groups = known.groups(folds) if isinstance(known, Pairs) else known.groups()
    number = len(np.unique(groups))
    if folds > number:
        what = counted(number, "anchor")
        if isinstance(known, Pairs):
            what = f"{counted(number, 'group')} of pairs that share rows"
        raise UserError(f"--folds {folds} is more than the {what}.")


def _check_classes(labels: NDArray[Any], folds: int) -> None:
    number = len(np.unique(labels))
    if number < 4:
        raise UserError(f"--split classes needs four classes or more; there are {number}.")
    if folds > number // 2:
        raise UserError(
            f"--folds {folds} is more than half of the {number} classes; every fold holds out two "
            f"classes or more. Use at most --folds {number // 2}."
        )


def _check_labels(labels: NDArray[Any], folds: int, neighbors: int) -> None:
    sizes = np.unique(labels, return_counts=True)[1]
    if sizes.max() < 2:
        raise UserError("Every row has a class of its own; there is nothing to learn from.")
    if folds > sizes.max():
        raise UserError(
            f"--folds {folds} is more than the rows of the largest class ({sizes.max()}); "
            f"use at most --folds {sizes.max()}."
        )
    most = len(labels) - int(np.ceil(len(labels) / folds))
    if neighbors > most:
        raise UserError(f"--neighbors {neighbors} is more than the {most} training rows of a fold.")
    if sizes.min() < folds:
        note(f"the smallest class has {counted(sizes.min(), 'row')}, fewer than the {folds} folds.")
