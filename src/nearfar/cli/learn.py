"""``nearfar learn``: a metric from labels, triplets or pairs, and whether it is worth it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from nearfar import evaluate
from nearfar.cli import options
from nearfar.cli.constraints import read_pairs, read_triplets
from nearfar.cli.files import check_target
from nearfar.cli.judge import check_classes, compare_labels
from nearfar.cli.methods import make_learner
from nearfar.cli.source import Source, SourceError, read_source
from nearfar.cli.terminal import (
    NOT_WORTH_IT,
    UNDECIDED,
    bars,
    command,
    convergence_notes,
    counted,
    say,
    show_json,
    show_table,
)
from nearfar.comparison import Comparison, Method
from nearfar.comparison.significance import Goal
from nearfar.constraints import Pairs, Triplets
from nearfar.learners.base import MetricLearner, Scaler
from nearfar.metrics.metric import Metric


@dataclass(frozen=True)
class Request:
    """What is to be learned, how it is to be judged, and where it goes."""

    data: Source
    supervision: NDArray[Any] | Triplets | Pairs
    path: Path
    folds: int
    neighbors: int
    seed: int
    judged: bool
    json: bool

    def compare(self, learners: Any, budget: float | None) -> Comparison:
        """Compare by labels."""
        return compare_labels(
            self.data,
            learners,
            folds=self.folds,
            n_neighbors=self.neighbors,
            seed=self.seed,
            budget=budget,
        )


@command
def learn(
    source: options.Rows,
    label: options.Label = None,
    drop: options.Drop = None,
    triplets: options.TripletsPath = None,
    pairs: options.PairsPath = None,
    ids: options.Id = None,
    method: options.Method = "boostmetric",
    save_as: Annotated[
        Path | None, typer.Option("--out", help="Where to write the metric [SOURCE.safetensors].")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Most rounds to learn [the method's own].")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Parameter of the method; repeatable."),
    ] = None,
    budget: options.Budget = None,
    goal: Annotated[
        str, typer.Option(help="What auto is to be best in: classification or ranking.")
    ] = "classification",
    comparison: Annotated[
        bool, typer.Option(help="Whether to cross-validate beside plain methods.")
    ] = True,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="File to keep what is done in; run again to go on after a stop."),
    ] = None,
    folds: options.Folds = 5,
    neighbors: options.Neighbors = 3,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Learn a metric, and tell whether it is worth it."""
    if sum(given is not None for given in (label, triplets, pairs)) > 1:
        raise SourceError("Give only one of --label, --triplets and --pairs.")
    if goal not in ("classification", "ranking"):
        raise SourceError(f"--goal is classification or ranking; got {goal!r}.")
    learner = make_learner(method, rounds=rounds, settings=settings or [], seed=seed)
    if learner is None and not comparison:
        raise SourceError("--method auto compares; leave out --no-comparison.")
    limit = options.seconds(budget)
    path = save_as or Path(f"{Path(source).stem}.safetensors")
    _check_targets(path, checkpoint, [source, label, triplets, pairs])
    labelled = triplets is None and pairs is None
    if not labelled and not isinstance(learner, MetricLearner):
        raise SourceError(f"--method {method} needs labels; name a learner for triplets or pairs.")
    data = read_source(source, label=label, drop=drop or [], ids=ids, labelled=labelled)
    supervision = _supervision(data, triplets, pairs)
    request = Request(data, supervision, path, folds, neighbors, seed, comparison, json)
    if not json:
        say(_summary(data, supervision))
    code = 0
    if learner is None:
        code = _choose(request, limit, "ranking" if goal == "ranking" else "classification")
    elif isinstance(learner, Method):
        _take(request, learner, limit)
    else:
        _learn(request, learner, limit)
    raise typer.Exit(code)


def _check_targets(path: Path, checkpoint: Path | None, inputs: list[Any]) -> None:
    """Raise SourceError unless the metric and the checkpoint can be written, over nothing else."""
    check_target(path, None, inputs)
    if checkpoint is not None:
        check_target(checkpoint, None, inputs)
        if checkpoint.resolve() == path.resolve():
            raise SourceError("--checkpoint and --out are the same file.")


def _supervision(data: Source, triplets: Path | None, pairs: Path | None) -> Any:
    if triplets is not None:
        return read_triplets(triplets, data)
    return data.labels if pairs is None else read_pairs(pairs, data)


def _summary(data: Source, supervision: Any) -> str:
    rows, features = counted(len(data.X), "row"), counted(data.X.shape[1], "feature")
    if isinstance(supervision, Triplets | Pairs):
        known = counted(len(supervision), type(supervision).__name__.lower()[:-1])
    else:
        known = counted(len(np.unique(supervision)), "class")
    return f"{data.name}: {rows} x {features}, {known}"


def _choose(request: Request, budget: float | None, goal: Goal) -> int:
    """``--method auto``: the best of all that is better than Euclidean distance, or none."""
    found = request.compare(None, budget)
    winner = found.contest(goal).winner
    metric = None
    if winner is not None:
        with bars(), convergence_notes():
            metric = winner.contender.learn(request.data.X, request.data.labels)
    if metric is not None:
        metric.named(request.data.feature_names).save(request.path)
    if request.json:
        show_json(
            {
                "method": None if winner is None else winner.name,
                "metric": None if metric is None else str(request.path),
                "comparison": found.to_dict(),
            }
        )
    else:
        say(str(found))
        say(_outcome(found, goal, None if metric is None else request.path))
    if metric is not None:
        return 0
    return UNDECIDED if winner is None and found.incomplete else NOT_WORTH_IT


def _outcome(found: Comparison, goal: Goal, written: Path | None) -> str:
    """Say who was chosen, or why nobody was."""
    winner = found.contest(goal).winner
    if winner is not None and written is not None:
        return f"Chosen for {goal}: {winner.name}. Metric written to {written}"
    if winner is not None:
        return f"{winner.name} is not a map that a metric's file could hold: nothing was written."
    if found.incomplete:
        return "Nothing was written: give it more time (--budget), or name a --method."
    return f"Nothing was written: for {goal}, use Euclidean distance.{_other_goal(found, goal)}"


def _other_goal(found: Comparison, goal: Goal) -> str:
    """Point to the other goal, if somebody wins that."""
    other: Goal = "classification" if goal == "ranking" else "ranking"
    winner = found.contest(other).winner
    return "" if winner is None else f" For {other} --goal {other} has {winner.name}."


def _take(request: Request, contender: Method, budget: float | None) -> None:
    """Learn by a plain method, and save."""
    found = request.compare([], budget) if request.judged else None
    start = time.perf_counter()
    metric = contender.learn(request.data.X, request.data.labels)
    seconds = time.perf_counter() - start
    assert metric is not None
    metric.named(request.data.feature_names).save(request.path)
    if request.json:
        document = {"method": contender.name, "metric": str(request.path), "seconds": seconds}
        show_json(document | ({} if found is None else {"comparison": found.to_dict()}))
        return
    if found is not None:
        say(str(found))
    say(f"Learned from all rows in {seconds:.2f} s.")
    say(f"Metric written to {request.path}")


def _learn(request: Request, learner: MetricLearner, budget: float | None) -> None:
    """Judge one method by folds, learn from all rows, and save."""
    data, supervision = request.data, request.supervision
    found: Comparison | dict[str, NDArray[np.float64]] | None = None
    if isinstance(supervision, Triplets | Pairs):
        if request.judged:
            with bars() as shown:
                found = _held_out(data, supervision, learner, request, shown.update)
    elif request.judged:
        named = {type(learner).__name__: learner}
        found = request.compare(named, budget)
    else:
        check_classes(data)
    start = time.perf_counter()
    with bars(), convergence_notes():
        metric = learner.fit(data.X, supervision).metric_
    seconds = time.perf_counter() - start
    metric.named(data.feature_names).save(request.path)
    if request.json:
        show_json(_document(request, learner, seconds, found))
        return
    if isinstance(found, Comparison):
        say(str(found))
    elif found is not None:
        _show_held_out(found, "triplets" if isinstance(supervision, Triplets) else "pairs")
    say(
        f"Learned from all rows in {seconds:.2f} s "
        f"({learner.n_iter_} rounds, stopped: {learner.history_.stopped})."
    )
    say(f"Metric written to {request.path}")


def _document(request: Request, learner: MetricLearner, seconds: float, found: Any) -> Any:
    document = {
        "method": type(learner).__name__,
        "metric": str(request.path),
        "rounds": learner.n_iter_,
        "stopped": learner.history_.stopped,
        "seconds": seconds,
    }
    if isinstance(found, Comparison):
        document["comparison"] = found.to_dict()
    elif found is not None:
        document["held_out"] = {name: values.tolist() for name, values in found.items()}
    return document


def _held_out(
    data: Source, supervision: Triplets | Pairs, learner: MetricLearner, request: Request, tell: Any
) -> dict[str, NDArray[np.float64]]:
    """Score Euclidean distance and the learner on constraints that it has not seen."""
    plain = {
        "Euclidean, as is": Metric.identity(data.X.shape[1]),
        "Euclidean": Scaler.fit(data.X, "standard").euclidean,
    }
    scores: dict[str, list[float]] = {name: [] for name in [*plain, "learned"]}
    for number, (seen, unseen) in enumerate(_parts(supervision, request)):
        tell(number, request.folds, "folds")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            metric = clone(learner).fit(data.X, seen).metric_
        for name, judged in {**plain, "learned": metric}.items():
            scores[name].append(_score(judged, data.X, unseen))
    return {name: np.array(values) for name, values in scores.items()}


def _parts(
    supervision: Triplets | Pairs, request: Request
) -> Iterator[tuple[Triplets | Pairs, Triplets | Pairs]]:
    if isinstance(supervision, Triplets):
        yield from supervision.folds(request.folds, random_state=request.seed)
        return
    if request.folds > len(supervision):
        raise SourceError(f"{len(supervision)} pairs cannot be split into {request.folds} folds.")
    folds = KFold(request.folds, shuffle=True, random_state=request.seed)
    for seen, unseen in folds.split(supervision.index):
        yield supervision.take(seen), supervision.take(unseen)


def _score(metric: Metric, X: Any, unseen: Triplets | Pairs) -> float:
    if isinstance(unseen, Triplets):
        return evaluate.triplet_accuracy(metric, X, unseen)
    return evaluate.verification(metric, X, unseen).auc


def _show_held_out(found: dict[str, NDArray[np.float64]], kind: str) -> None:
    measure = "held-out triplets right %" if kind == "triplets" else "held-out pairs, AUC %"
    rows = [
        (name, f"{100 * values.mean():.1f} ± {100 * values.std(ddof=1):.1f}")
        for name, values in found.items()
    ]
    show_table(["distance", measure], rows)
    plain = max(("Euclidean", "Euclidean, as is"), key=lambda name: found[name].mean())
    gain = found["learned"] - found[plain]
    noise = 2 * gain.std(ddof=1) / np.sqrt(len(gain))
    if gain.mean() > noise:
        say(f"The learned metric is better than {plain} by {100 * gain.mean():.1f} points.")
    elif gain.mean() < -noise:
        say(f"The learned metric is worse than {plain} here: use {plain}.")
    else:
        say(f"No difference beyond noise between the learned metric and {plain}.")
