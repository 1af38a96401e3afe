"""``nearfar compare``: all learners and plain methods on the same folds."""

from __future__ import annotations

from typing import Annotated

import typer

from nearfar.cli import options
from nearfar.cli.judge import compare_labels
from nearfar.cli.methods import METHODS, find_method
from nearfar.cli.source import read_source
from nearfar.cli.terminal import command, say, show_json


@command
def compare(
    source: options.Rows,
    label: options.Label = None,
    drop: options.Drop = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help=f"Learner to compare; repeatable [all: {', '.join(METHODS)}]."),
    ] = None,
    budget: options.Budget = None,
    folds: options.Folds = 5,
    neighbors: options.Neighbors = 3,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Compare Euclidean distance, plain methods and learners: whether it is worth it."""
    data = read_source(source, label=label, drop=drop or [], labelled=True)
    learners = None if method is None else [find_method(name).__name__ for name in method]
    found = compare_labels(
        data,
        learners,
        folds=folds,
        n_neighbors=neighbors,
        seed=seed,
        budget=options.seconds(budget),
    )
    if json:
        show_json({"source": source, **found.to_dict()})
    else:
        say(str(found))
