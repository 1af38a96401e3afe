"""``nearfar compare``: learners, plain methods and Euclidean distance on the same folds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from nearfar.cli import options
from nearfar.cli.checkpoint import Checkpoint
from nearfar.cli.errors import UserError
from nearfar.cli.methods import METHOD_NAMES, compared_learners
from nearfar.cli.preparation import ColumnRules, Imputation
from nearfar.cli.rows import Rows, read_rows
from nearfar.cli.terminal import bars, command, note, say, show_json
from nearfar.comparison import Comparison
from nearfar.comparison import compare as compare_methods
from nearfar.comparison.methods import ALL, Learners


@command
def compare(
    source: options.Source,
    label: options.Label = None,
    drop: options.Drop = None,
    numeric: options.Numeric = None,
    categorical: options.Categorical = None,
    impute: options.Impute = Imputation.auto,
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
    neighbors: options.Neighbors = 3,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Compare Euclidean distance, plain methods and learners by cross-validation.

    Euclidean distance and the plain methods always take part.
    """
    limit = options.seconds(budget)
    learners = compared_learners(method or [], seed)
    rules = ColumnRules(drop, numeric, categorical, impute)
    rows = read_rows(source, label=label, rules=rules, ids=ids, labelled=True)
    with Checkpoint(checkpoint, [source], fits=False) as kept:
        found = run_comparison(
            rows,
            learners,
            folds=folds,
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
    learners: Learners,
    *,
    folds: int,
    neighbors: int,
    seed: int,
    budget: float | None,
    checkpoint: Path | None,
) -> Comparison:
    """Compare by labels, with progress on the terminal."""
    labels = rows.labels
    sizes = np.unique(labels, return_counts=True)[1]
    if folds > sizes.max():
        raise UserError(
            f"--folds {folds} is more than the rows of the largest class ({sizes.max()}); "
            f"use at most --folds {max(2, sizes.max())}."
        )
    most = len(rows) - int(np.ceil(len(rows) / folds))
    if neighbors > most:
        raise UserError(f"--neighbors {neighbors} is more than the {most} training rows of a fold.")
    if sizes.min() < folds:
        note(f"the smallest class has {sizes.min()} rows, fewer than the {folds} folds.")
    with bars() as shown:
        return compare_methods(
            rows.X,
            labels,
            learners,
            cv=folds,
            n_neighbors=neighbors,
            budget=budget,
            random_state=seed,
            progress=shown.update,
            checkpoint=checkpoint,
        )
