"""The commands."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from nearfar import (
    NCA,
    BoostMetric,
    DRMetric,
    MaxMarginMetric,
    Metric,
    MetricBoost,
    MixtureNCA,
    SparseNCA,
    __version__,
)
from nearfar.cli.source import Source, SourceError, read_source
from nearfar.evaluate import knn_error
from nearfar.learner import MetricLearner

METHODS: dict[str, type[MetricLearner]] = {
    "boost": BoostMetric,
    "metricboost": MetricBoost,
    "drmetric": DRMetric,
    "maxmargin": MaxMarginMetric,
    "nca": NCA,
    "sparsenca": SparseNCA,
    "mixturenca": MixtureNCA,
}

app = typer.Typer(
    help="Learn the distance a task needs.", no_args_is_help=True, pretty_exceptions_enable=False
)
out = Console(markup=False)
err = Console(stderr=True, markup=False)


@app.callback(invoke_without_command=True)
def version_option(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Learn the distance a task needs."""
    if version:
        out.print(f"nearfar {__version__}", highlight=False)
        raise typer.Exit


@app.command()
def learn(
    source: Annotated[
        str, typer.Argument(help="A table (.csv, .tsv, .parquet) or a dataset's name.")
    ],
    label: Annotated[
        str | None, typer.Option(help="Column of the table that has the labels.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; repeatable.")] = None,
    method: Annotated[str, typer.Option(help=f"One of: {', '.join(METHODS)}.")] = "boost",
    save_as: Annotated[
        Path | None, typer.Option("--out", help="Where to write the metric [SOURCE.safetensors].")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Most rounds to learn [the method's own].")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    neighbors: Annotated[int, typer.Option(min=1, help="Neighbours that vote.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the folds and of random constraints.")] = 0,
) -> None:
    """Learn a metric from labels, and tell whether it is worth it."""
    if method not in METHODS:
        _fail(f"There is no method {method!r}; there is {', '.join(METHODS)}.")
    try:
        data = read_source(source, label=label, drop=drop or [])
        path = save_as or Path(f"{data.name}.safetensors")
        if not path.parent.is_dir():
            _fail(f"There is no folder {path.parent}.")
        if path.is_dir():
            _fail(f"{path} is a folder; name a file to write the metric to.")
        learner = _learner(method, rounds, seed)
        sizes = np.unique(data.y, return_counts=True)[1]
        n_classes = len(sizes)
        if n_classes < 2:
            _fail("The labels are all the same; at least two classes are needed.")
        if folds > sizes.max():
            _fail(f"--folds {folds} is more than any class has rows ({sizes.max()}).")
        out.print(
            f"{data.name}: {data.X.shape[0]} rows x {data.X.shape[1]} features, {n_classes} classes"
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            errors, seconds = _cross_validate(data, learner, folds, neighbors, seed)
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always", ConvergenceWarning)
            metric = learner.fit(data.X, data.y).metric_
        for note in notes:
            err.print(f"Note: {note.message}", soft_wrap=True)
        seconds_all = time.perf_counter() - start
        metric.named(data.feature_names).save(path)
    except (SourceError, ValueError, OSError) as error:
        _fail(str(error))
    _print_errors(errors, neighbors)
    out.print(_verdict(errors))
    out.print(
        f"Learned in {np.mean(seconds):.2f} s a fold, {seconds_all:.2f} s on all rows "
        f"({learner.n_iter_} rounds, stopped: {learner.trace_.stopped})."
    )
    out.print(f"Metric written to {path}", soft_wrap=True)


def _learner(method: str, rounds: int | None, seed: int) -> MetricLearner:
    """Make the learner of a method, with at most so many rounds."""
    learner = METHODS[method](random_state=seed)
    if rounds is not None:
        most = "max_iter" if "max_iter" in learner.get_params() else "max_rounds"
        learner.set_params(**{most: rounds})
    return learner


def _cross_validate(
    data: Source, learner: MetricLearner, folds: int, neighbors: int, seed: int
) -> tuple[dict[str, NDArray[np.float64]], list[float]]:
    """Errors on the same folds without learning, after standardising, and with the metric."""
    smallest = int(np.unique(data.y, return_counts=True)[1].min())
    if smallest < folds:
        err.print(f"Note: the smallest class has {smallest} rows, fewer than {folds} folds.")
    n_features = data.X.shape[1]
    errors: dict[str, list[float]] = {"Euclidean": [], "standardised": [], "learned": []}
    seconds = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        split = list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(data.X, data.y))
    for train, test in track(
        split, description="Learning", console=err, transient=True, disable=not err.is_terminal
    ):
        X, y = data.X[train], data.y[train]
        start = time.perf_counter()
        learned = learner.fit(X, y).metric_
        seconds.append(time.perf_counter() - start)
        metrics = {
            "Euclidean": Metric.identity(n_features),
            "standardised": Metric(np.diag(1 / StandardScaler().fit(X).scale_)),
            "learned": learned,
        }
        for name, metric in metrics.items():
            errors[name].append(
                knn_error(metric, X, y, data.X[test], data.y[test], n_neighbors=neighbors)
            )
    return {name: np.array(values) for name, values in errors.items()}, seconds


def _print_errors(errors: dict[str, NDArray[np.float64]], neighbors: int) -> None:
    table = Table("distance", f"{neighbors}-NN error %", "std over folds")
    for name, values in errors.items():
        table.add_row(name, f"{100 * values.mean():.2f}", f"{100 * values.std(ddof=1):.2f}")
    out.print(table)


def _verdict(errors: dict[str, NDArray[np.float64]]) -> str:
    """Compare the learned metric with the better of the two that need no learning."""
    plain = min(("Euclidean", "standardised"), key=lambda name: errors[name].mean())
    gain = errors[plain] - errors["learned"]
    noise = 2 * gain.std(ddof=1) / np.sqrt(len(gain))
    if gain.mean() > noise:
        return f"The learned metric is better than {plain} by {100 * gain.mean():.2f} points."
    if gain.mean() < -noise:
        return f"The learned metric is worse than {plain} here: use {plain}."
    return (
        f"No difference beyond noise between the learned metric and {plain}. "
        f"Another --method may differ: {', '.join(METHODS)}."
    )


def _fail(message: str) -> None:
    err.print(f"nearfar: {message}", style="red", highlight=False, soft_wrap=True)
    raise typer.Exit(2)
