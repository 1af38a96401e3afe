"""``nearfar learn``: learn a metric from labels, triplets or pairs, and say whether it helps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from nearfar.cli import options
from nearfar.cli.checkpoint import Checkpoint
from nearfar.cli.compare import run_comparison
from nearfar.cli.constraints import read_pairs, read_triplets
from nearfar.cli.errors import UserError
from nearfar.cli.files import check_output
from nearfar.cli.held_out import held_out_regression, held_out_scores, show_held_out
from nearfar.cli.methods import Goal, MethodChoice, MethodFit, find_method, fit_method
from nearfar.cli.rows import Rows, read_rows
from nearfar.cli.terminal import NOT_HELPFUL, UNDECIDED, bars, command, counted, say, show_json
from nearfar.comparison import Comparison
from nearfar.constraints import Pairs, Triplets
from nearfar.typing import Vector


@command
def learn(
    source: options.Source,
    label: options.Label = None,
    drop: options.Drop = None,
    triplets: options.TripletsPath = None,
    pairs: options.PairsPath = None,
    ids: options.Id = None,
    method: options.Method = "boostmetric",
    save_as: Annotated[
        Path | None, options.output("Metric file to write [default: SOURCE.safetensors].")
    ] = None,
    max_iter: options.MaxIter = None,
    settings: options.Settings = None,
    budget: options.Budget = None,
    goal: Annotated[Goal, typer.Option(help="What `auto` chooses for.")] = Goal.classification,
    comparison: Annotated[bool, typer.Option(help="Cross-validate beside plain methods.")] = True,
    checkpoint: options.Checkpoint = None,
    folds: options.Folds = 5,
    neighbors: options.Neighbors = 3,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Learn a metric, and say whether it helps."""
    if sum(given is not None for given in (label, triplets, pairs)) > 1:
        raise UserError("Give only one of --label, --triplets and --pairs.")
    choice = find_method(method, seed=seed, max_iter=max_iter, settings=settings or [])
    if choice.method is None and not comparison:
        raise UserError("--method auto needs the comparison; leave out --no-comparison.")
    if choice.needs_labels and (triplets or pairs):
        raise UserError(f"--method {choice.name} needs labels; choose a learner instead.")
    limit = options.seconds(budget)
    path = save_as or Path(f"{Path(source).stem}.safetensors")
    inputs = [source, label, triplets, pairs]
    check_output(path, None, inputs)
    if checkpoint is not None and checkpoint.resolve() == path.resolve():
        raise UserError("--checkpoint and --out name the same file.")
    kept = Checkpoint(checkpoint, inputs)
    labelled = triplets is None and pairs is None
    numeric = choice.needs_numbers
    rows = read_rows(source, label=label, drop=drop, ids=ids, labelled=labelled, numeric=numeric)
    task = Task(rows, _supervision(rows, triplets, pairs, numeric=numeric), choice, goal)
    if not json:
        say(task.summary)
    with kept:
        kept.check(choice.learner, rows.X, task.supervision)
        if comparison:
            task.validate(folds, neighbors, seed, limit, kept.comparison)
        task.fit(kept, path)
    if json:
        show_json(task.document())
    else:
        task.show()
    raise typer.Exit(task.exit_code)


def _supervision(rows: Rows, triplets: Path | None, pairs: Path | None, *, numeric: bool) -> Any:
    if triplets is not None:
        return read_triplets(triplets, rows)
    if pairs is not None:
        return read_pairs(pairs, rows)
    return rows.numbers if numeric else rows.labels


@dataclass
class Task:
    """What to learn from, and the results so far.

    Attributes
    ----------
    rows : Rows
    supervision : array of labels or numbers, Triplets or Pairs
    choice : MethodChoice
    goal : Goal
        What ``auto`` chooses for.
    comparison : Comparison or None
        Of methods, by labels.
    held_out : dict of str to array, or None
        Scores on unseen triplets, pairs or rows, by distance.
    result : MethodFit or None
        None if ``auto`` finds nothing better than Euclidean distance.
    path : Path or None
        Where the metric is.
    """

    rows: Rows
    supervision: Any
    choice: MethodChoice
    goal: Goal
    comparison: Comparison | None = None
    held_out: dict[str, Vector] | None = None
    result: MethodFit | None = None
    path: Path | None = None

    @property
    def summary(self) -> str:
        """What there is to learn from, in one line."""
        rows = counted(len(self.rows), "row")
        features = counted(self.rows.X.shape[1], "feature")
        if isinstance(self.supervision, Triplets | Pairs):
            known = counted(len(self.supervision), type(self.supervision).__name__.lower()[:-1])
        elif self.choice.needs_numbers:
            known = f"numbers from {self.supervision.min():g} to {self.supervision.max():g}"
        else:
            known = counted(len(np.unique(self.supervision)), "class")
        return f"{self.rows.name}: {rows} x {features}, {known}"

    def validate(
        self, folds: int, neighbors: int, seed: int, budget: float | None, checkpoint: Path | None
    ) -> None:
        """Cross-validate the method beside simpler ones."""
        if isinstance(self.supervision, Triplets | Pairs):
            assert self.choice.learner is not None
            with bars() as shown:
                self.held_out = held_out_scores(
                    self.choice.learner,
                    self.rows.X,
                    self.supervision,
                    folds=folds,
                    seed=seed,
                    progress=shown.update,
                )
            return
        if self.choice.needs_numbers:
            assert self.choice.learner is not None
            with bars() as shown:
                self.held_out = held_out_regression(
                    self.choice.learner,
                    self.rows.X,
                    self.supervision,
                    folds=folds,
                    neighbors=neighbors,
                    seed=seed,
                    progress=shown.update,
                )
            return
        self.comparison = run_comparison(
            self.rows,
            self.choice.learners,
            folds=folds,
            neighbors=neighbors,
            seed=seed,
            budget=budget,
            checkpoint=checkpoint,
        )

    def fit(self, checkpoint: Checkpoint, path: Path) -> None:
        """Learn from all rows with the chosen method, and save the metric."""
        method = self.choice.select(self.comparison, self.goal)
        if method is None:
            return
        self.result = fit_method(method, self.rows, self.supervision, checkpoint)
        if self.result.metric is not None:
            self.result.metric.save(path)
            self.path = path

    @property
    def exit_code(self) -> int:
        """0 if there is a metric."""
        if self.path is not None:
            return 0
        untried = self.comparison is not None and self.comparison.incomplete
        return UNDECIDED if self.result is None and untried else NOT_HELPFUL

    def document(self) -> dict[str, Any]:
        """Return the results for JSON."""
        result = self.result
        held_out = self.held_out
        return {
            "method": None if result is None else result.method.name,
            "metric": None if self.path is None else str(self.path),
            "seconds": None if result is None else result.seconds,
            "iterations": None if result is None else result.iterations,
            "stopped": None if result is None else result.stopped,
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "held_out": held_out and {name: s.tolist() for name, s in held_out.items()},
        }

    def show(self) -> None:
        """Print the results."""
        if self.comparison is not None:
            say(str(self.comparison))
        if self.held_out is not None:
            show_held_out(self.held_out, self.supervision)
        if self.result is None:
            say(self._nothing_found())
            return
        if self.choice.method is None:
            say(f"Chosen for {self.goal}: {self.result.method.name}.")
        if self.path is None:
            say(f"Nothing was written: {self.result.method.name} is not a linear map.")
            return
        detail = ""
        if self.result.iterations is not None:
            iterations = counted(self.result.iterations, "iteration")
            detail = f" ({iterations}, stopped: {self.result.stopped})"
        say(f"Learned from all rows in {self.result.seconds:.2f} s{detail}.")
        say(f"Metric written to {self.path}")

    def _nothing_found(self) -> str:
        """Say why ``auto`` chose no method, and what to do."""
        assert self.comparison is not None
        if self.comparison.incomplete:
            return "Nothing was written. Increase --budget, or name a --method."
        text = f"Nothing was written: use Euclidean distance for {self.goal}."
        other = next(goal for goal in Goal if goal != self.goal)
        winner = self.comparison.by_goal(other.value).winner
        return text if winner is None else f"{text} {winner.name} helps with --goal {other}."
