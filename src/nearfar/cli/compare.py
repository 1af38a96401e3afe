"""``nearfar compare``: learners, plain methods and Euclidean distance on the same folds."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from nearfar.cli import options
from nearfar.cli.command_line import command_line
from nearfar.cli.errors import UserError
from nearfar.cli.fit_checkpoint import FitCheckpoint
from nearfar.cli.method_options import (
    METHOD_NAMES,
    Goal,
    compared_learners,
    find_method,
    name_of,
    settings_beside,
)
from nearfar.cli.supervised_input import SupervisedInput
from nearfar.cli.terminal import bars, command, say, show_json
from nearfar.comparison import Comparison
from nearfar.comparison import compare as compare_methods
from nearfar.comparison.compared_methods import ALL, Learners
from nearfar.comparison.splits import judgement_groups
from nearfar.constraints import kind_of
from nearfar.runtime.notes import note, notes_so_far
from nearfar.runtime.quoting import counted
from nearfar.tables.reader import columns_named
from nearfar.tables.row_input import InputRows
from nearfar.typing import Ints


class HeldOutUnit(StrEnum):
    """What folds hold out."""

    rows = "rows"
    classes = "classes"


@command
def compare(
    context: typer.Context,
    data: SupervisedInput,
    *,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Method to compare; repeatable [default: AutoMetric, the papers' methods, NCA, "
            f"LMNN and closed forms]: {', '.join(METHOD_NAMES)}, {ALL}."
        ),
    ] = None,
    budget: options.Budget = options.DEFAULT_BUDGET,
    checkpoint: options.Checkpoint = None,
    split: Annotated[
        HeldOutUnit,
        typer.Option(help="What folds hold out: rows, or whole classes that nothing learned from."),
    ] = HeldOutUnit.rows,
    goal: Annotated[
        Goal | None, typer.Option("--goal", help="What the next command is for [default: both].")
    ] = None,
    testing: options.CrossValidation,
    json: options.Json = False,
) -> None:
    """Compare Euclidean distance, plain methods and learners by cross-validation.

    Euclidean distance and the plain methods always take part. Methods learn from labels, triplets
    or pairs, and are tested on others.
    """
    limit = options.seconds(budget)
    learners = compared_learners(method or [], testing.seed)
    rows = data.read()
    known = rows.supervision
    for name in method or []:
        if name != ALL:
            find_method(name).check(known)
    with FitCheckpoint(checkpoint, data.files, fits=False) as kept:
        found = run_comparison(
            rows, known, learners, testing, limit, checkpoint=kept.comparison, split=split
        )
    if json:
        notes = [each.text for each in [*notes_so_far(), *found.findings]]
        show_json({"source": data.source, **found.to_dict(), "notes": notes})
        return
    say(str(found))
    for line in _next_commands(context, found, goal):
        say(line)


def _next_commands(context: typer.Context, found: Comparison, wanted: Goal | None) -> Iterator[str]:
    """Yield the command that learns what is recommended, once for each method."""
    named: set[str] = set()
    goals = dict(found.goals)
    if wanted is not None and wanted.value in goals:
        goals = {wanted.value: goals[wanted.value]}
    for goal, compared in goals.items():
        used = compared.recommended
        name = None if used is None else name_of(used.method)
        if used is None or name is None or name in named:
            continue
        first, named = not named, named | {name}
        changes: dict[str, Any] = {"method": name, "split": None, "json": None, "checkpoint": None}
        changes |= {"budget": None, "goal": None if first and wanted is None else goal}
        changes["set"] = settings_beside(name, used.method)
        yield f"{'Next' if first else f'For {goal}'}: {command_line(context, 'learn', changes)}"


def run_comparison(
    rows: InputRows,
    known: Any,
    learners: Learners,
    testing: options.CrossValidation,
    budget: float | None,
    *,
    checkpoint: Path | None,
    split: HeldOutUnit = HeldOutUnit.rows,
) -> Comparison:
    """Compare by labels, triplets or pairs, with progress on the terminal."""
    if rows.groups is not None:
        _check_groups(rows.groups, known, testing.folds)
    if kind_of(known) != "labels":
        if split is HeldOutUnit.classes:
            raise UserError("--split classes needs class labels; give --label.")
        if rows.groups is None:
            _check_judgements(known, testing.folds)
    elif split is HeldOutUnit.classes:
        _check_classes(known, testing.folds)
    else:
        _check_labels(known, testing.folds, testing.neighbors)
    with bars() as shown:
        found = compare_methods(
            rows.X,
            known,
            learners,
            cv=testing.folds,
            groups=rows.groups,
            split=split.value,
            n_neighbors=testing.neighbors,
            classifiers=testing.classifiers,
            budget=budget,
            random_state=testing.seed,
            progress=shown.update,
            checkpoint=checkpoint,
        )
    found.n_copies = rows.n_copies
    found.remedy = "Increase --budget to try everything"
    if rows.leaking:
        it = "it" if len(rows.leaking) == 1 else "they"
        found.caveat = (
            f"see the note on {columns_named(rows.leaking)}: {it} may give the answer away"
        )
    return found


def _check_groups(groups: Ints, known: Any, folds: int) -> None:
    listed = kind_of(known) in ("triplets", "pairs")
    number = len(np.unique(groups[known.index] if listed else groups))
    if folds > number:
        what = f"that have {kind_of(known)}" if listed else "of rows"
        raise UserError(f"--folds {folds} is more than the {counted(number, 'group')} {what}.")


def _check_judgements(known: Any, folds: int) -> None:
    number = len(np.unique(judgement_groups(known, folds)))
    if folds > number:
        what = counted(number, "anchor")
        if kind_of(known) == "pairs":
            what = f"{counted(number, 'group')} of pairs that share rows"
        what = f"{number} people who answered" if known.n_raters > 1 else what
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
        smallest = f"the smallest class has {counted(sizes.min(), 'row')}"
        note(f"{smallest}, fewer than the {folds} folds.", warning=True)
