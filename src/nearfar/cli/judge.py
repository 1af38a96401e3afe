"""A comparison on the terminal: with progress, and with notes on what is odd in the labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nearfar.cli.source import Source, SourceError
from nearfar.cli.terminal import bars, note
from nearfar.comparison import Comparison, compare


def compare_labels(
    data: Source,
    learners: Mapping[str, Any] | Iterable[Any] | None,
    *,
    folds: int,
    n_neighbors: int,
    seed: int,
    budget: float | None,
) -> Comparison:
    """Compare by the labels of a source."""
    check_classes(data)
    sizes = np.unique(data.labels, return_counts=True)[1]
    if folds > sizes.max():
        raise SourceError(
            f"--folds {folds} is more than any class has rows ({sizes.max()}); "
            f"try --folds {max(2, sizes.max())}."
        )
    most = len(data.X) - int(np.ceil(len(data.X) / folds))
    if n_neighbors > most:
        raise SourceError(f"--neighbors {n_neighbors} is more than the {most} rows of a fold.")
    if sizes.min() < folds:
        note(f"the smallest class has {sizes.min()} rows, fewer than {folds} folds.")
    with bars() as shown:
        return compare(
            data.X,
            data.labels,
            learners,
            cv=folds,
            n_neighbors=n_neighbors,
            budget=budget,
            random_state=seed,
            progress=shown.update,
        )


def check_classes(data: Source) -> None:
    """Raise SourceError unless there are labels of at least two classes."""
    if data.labels.shape != (len(data.X),):
        raise SourceError(f"{len(data.X)} rows need one label each; got {data.labels.shape}.")
    if len(np.unique(data.labels)) < 2:
        raise SourceError("The labels are all the same; at least two classes are needed.")
