"""``nearfar learn``: learn a metric from labels, triplets or pairs, and say whether it helps.

The comparison has most of the time budget. `AutoMetric` fits all rows in what is left of it; other
learners take the time that they need.
"""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from nearfar.cli import options
from nearfar.cli.compare import run_comparison
from nearfar.cli.errors import UserError
from nearfar.cli.fit_checkpoint import FitCheckpoint, can_continue
from nearfar.cli.fit_estimate import check_cost
from nearfar.cli.method_options import AUTO, Goal, MethodChoice, MethodFit, find_method, fit_method
from nearfar.cli.metric_files import check_metric_output, save_metric
from nearfar.cli.regression_scores import held_out_regression, show_held_out
from nearfar.cli.row_input import InputRows
from nearfar.cli.streams import shown_name
from nearfar.cli.supervised_input import SupervisedInput
from nearfar.cli.table_formats import FORMATS, TABLES, kind_of, stem_of
from nearfar.cli.terminal import (
    NOT_HELPFUL,
    UNDECIDED,
    bars,
    command,
    counted,
    note,
    say,
    show_json,
)
from nearfar.comparison import Comparison
from nearfar.learners.selection.auto_problem import EUCLIDEAN
from nearfar.typing import Vector

_COMPARISON_SHARE = 0.7
"""Part of the budget for the comparison."""
_LEAST_SHARE = 0.2
"""Part of the budget that the fit to all rows has in any case, if it can plan its time."""
_SHORTEST_FIT = 0.1
_LABELS = {EUCLIDEAN: "Euclidean distance"}


@command
def learn(
    data: SupervisedInput,
    *,
    method: options.Method = AUTO,
    save_as: Annotated[
        Path | None, options.output("Metric file to write [default: SOURCE.safetensors].")
    ] = None,
    max_iter: options.MaxIter = None,
    scale: options.Scale = None,
    settings: options.Settings = None,
    budget: options.TotalBudget = options.DEFAULT_BUDGET,
    goal: Annotated[
        Goal, typer.Option(help="What `autometric` and `best` choose for.")
    ] = Goal.classification,
    only_if_significant: Annotated[
        bool,
        typer.Option(
            "--only-if-significant",
            help="Write a metric only if it is significantly better than Euclidean distance.",
        ),
    ] = False,
    comparison: Annotated[bool, typer.Option(help="Cross-validate beside plain methods.")] = True,
    checkpoint: options.Checkpoint = None,
    testing: options.CrossValidation,
    json: options.Json = False,
) -> None:
    """Learn a metric, and say whether it helps.

    The default method, autometric, tries learners on held-out data and blends what they learn.
    """
    given = [*([] if scale is None else [f"scale={scale}"]), *(settings or [])]
    choice = _choice(method, goal, testing.seed, max_iter, given)
    if choice.method is None and not comparison:
        raise UserError("--method best needs the comparison; leave out --no-comparison.")
    if only_if_significant and not comparison:
        raise UserError("--only-if-significant needs the comparison; leave out --no-comparison.")
    limit = options.seconds(budget)
    path = save_as or Path(f"{stem_of(Path(data.source))}.safetensors")
    check_metric_output(path, data.files)
    if checkpoint is not None and checkpoint.resolve() == path.resolve():
        raise UserError("--checkpoint and --out name the same file.")
    kept = FitCheckpoint(checkpoint, data.files)
    rows, supervision = data.read(numbers=choice.needs_numbers)
    choice.check(supervision)
    task = LearnTask(data.source, rows, supervision, choice, goal, only_if_significant, limit)
    if not json:
        say(task.summary)
    with kept:
        kept.check(choice.learner, rows.X, task.supervision, rows.groups)
        if checkpoint is not None and choice.learner and not can_continue(choice.learner):
            what = "only the comparison is kept"
            note(f"a fit of {choice.name} cannot continue; {what}, in {kept.comparison}.")
        check_cost(choice.learner, rows.X, supervision)
        if comparison:
            task.validate(testing, kept.comparison)
        task.fit(kept, path)
    if json:
        show_json(task.document())
    else:
        task.show()
    raise typer.Exit(task.exit_code)


def _choice(
    method: str, goal: Goal, seed: int, max_iter: int | None, settings: list[str]
) -> MethodChoice:
    """Find the method; autometric learns for the goal."""
    choice = find_method(method, seed=seed, max_iter=max_iter, settings=settings)
    given = any(setting.startswith("goal=") for setting in settings)
    if choice.name == AUTO and choice.learner is not None and not given:
        choice.learner.set_params(goal=goal.value)
    return choice


@dataclass
class LearnTask:
    """What to learn from, and the results so far.

    Attributes
    ----------
    source : str
        Where the rows come from.
    rows : InputRows
    supervision : array of labels or numbers, Triplets or Pairs
    choice : MethodChoice
    wanted : Goal
        What a metric from labels is for.
    strict : bool
        Whether a metric must be significantly better than Euclidean distance.
    budget : float or None
        Time limit in seconds.
    start : float
        When the task began.
    comparison : Comparison or None
        Of methods, by labels, triplets or pairs.
    held_out : dict of str to array, or None
        R^2 on held-out rows by distance, for numbers.
    result : MethodFit or None
        None if no method is expected to be better than Euclidean distance.
    path : Path or None
        Where the metric is.
    """

    source: str
    rows: InputRows
    supervision: Any
    choice: MethodChoice
    wanted: Goal
    strict: bool = False
    budget: float | None = None
    start: float = field(default_factory=time.perf_counter)
    comparison: Comparison | None = None
    held_out: dict[str, Vector] | None = None
    result: MethodFit | None = None
    path: Path | None = None

    @property
    def kind(self) -> str:
        """What is learned from: "labels", "numbers", "triplets" or "pairs"."""
        return self.choice.kind_of(self.supervision)

    @property
    def goal(self) -> str:
        """What a method is chosen for."""
        return self.kind if self.kind in ("triplets", "pairs") else self.wanted.value

    @property
    def summary(self) -> str:
        """What there is to learn from, in one line."""
        rows = counted(len(self.rows), "row")
        features = counted(self.rows.X.shape[1], "feature")
        if self.kind == "labels":
            known = counted(len(np.unique(self.supervision)), "class")
        elif self.kind == "numbers":
            known = f"numbers from {self.supervision.min():g} to {self.supervision.max():g}"
        else:
            known = counted(len(self.supervision), self.kind[:-1])
        return f"{self.rows.name}: {rows} x {features}, {known}"

    def validate(self, testing: options.CrossValidation, checkpoint: Path | None) -> None:
        """Cross-validate the method beside simpler ones."""
        budget = None if self.budget is None else _COMPARISON_SHARE * self.budget
        if self.kind == "numbers":
            assert self.choice.learner is not None
            with bars() as shown:
                self.held_out = held_out_regression(
                    self.choice.learner,
                    self.rows.X,
                    self.supervision,
                    self.rows.groups,
                    **asdict(testing),
                    progress=shown.update,
                )
            return
        self.comparison = run_comparison(
            self.rows,
            self.supervision,
            self.choice.learners,
            testing,
            budget,
            checkpoint=checkpoint,
        )

    def fit(self, checkpoint: FitCheckpoint, path: Path) -> None:
        """Learn from all rows with the chosen method, and save the metric if it is wanted."""
        method = self.choice.select(self.comparison, self.goal, strict=self.strict)
        if method is None:
            return
        left = None
        if self.budget is not None:
            left = self.budget - (time.perf_counter() - self.start)
            left = max(left, _LEAST_SHARE * self.budget, _SHORTEST_FIT)
        self.result = fit_method(method, self.rows, self.supervision, checkpoint, left)
        if self.result.metric is not None and not self.result.learned_nothing:
            save_metric(self.result.metric, path, self.rows.X)
            self.path = path

    @property
    def exit_code(self) -> int:
        """0 if there is a metric."""
        if self.path is not None:
            return 0
        return UNDECIDED if self._undecided else NOT_HELPFUL

    @property
    def _undecided(self) -> bool:
        """Whether the time was too short to choose a method."""
        return self.result is None and self.comparison is not None and self.comparison.incomplete

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
            "expected": asdict(result.expected) if result and result.expected else None,
            "weights": None if result is None else result.weights,
            "mining": asdict(result.mining) if result and result.mining else None,
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "held_out": held_out and {name: s.tolist() for name, s in held_out.items()},
        }

    def show(self) -> None:
        """Print the results."""
        if self.comparison is not None:
            say(str(self.comparison))
        if self.held_out is not None:
            show_held_out(self.held_out)
        if self.result is None:
            say(self._nothing_chosen())
            return
        if self.choice.method is None:
            say(f"Chosen for {self.goal}: {self.result.method.name}.")
        if self.path is None:
            say(self._nothing_learned(self.result))
            return
        if self.result.mining is not None and self.result.mining.search != "exact":
            say(str(self.result.mining))
        say(f"Learned from all rows in {self.result.seconds:.2f} s{_detail(self.result)}.")
        if self.result.expected is not None and self.comparison is None:
            say(f"On new data, expect {self.result.expected}.")
        say(f"Metric written to {self.path}")
        say(f"Next: {self._next_command()}")

    def _nothing_chosen(self) -> str:
        """Say why no method was chosen, and what to do."""
        assert self.comparison is not None
        if self._undecided:
            return "Nothing was written. Increase --budget, or name a --method."
        text = f"Nothing was written: use Euclidean distance for {self.goal}."
        if self.kind != "labels":
            return text
        other = next(goal.value for goal in Goal if goal != self.wanted)
        method = self.choice.select(self.comparison, other, strict=self.strict)
        return text if method is None else f"{text} {method.name} helps with --goal {other}."

    def _nothing_learned(self, result: MethodFit) -> str:
        """Say why the fit is of no use."""
        if not result.learned_nothing:
            return f"Nothing was written: {result.method.name} is not a linear map."
        scale = getattr(result.learner, "scale_", None)
        rows = {"standard": "standardised rows", "cosine": "rows of unit length"}
        return (
            f"Nothing was written: {result.method.name} found nothing better than Euclidean "
            f"distance on {rows.get(str(scale), 'unscaled rows')}."
        )

    def _next_command(self) -> str:
        """Return a command that uses the metric."""
        metric, source = shlex.quote(str(self.path)), shlex.quote(shown_name(self.source))
        kind = kind_of(Path(self.source))
        if kind not in FORMATS:
            return f"nearfar show {metric}"
        ending = ".parquet" if kind in TABLES else ".npy"
        return f"nearfar transform {metric} {source} mapped{ending}"


def _detail(result: MethodFit) -> str:
    """Return what a fit consists of."""
    if result.weights is not None:
        shares = [f"{100 * w:.0f} % {_LABELS.get(n, n)}" for n, w in result.weights.items()]
        return f": {', '.join(shares)}"
    if result.iterations is None:
        return ""
    return f" ({counted(result.iterations, 'iteration')}, stopped: {result.stopped})"
