"""``nearfar learn``: learn a metric from labels, triplets or pairs, and say whether it helps.

What the verdict of the comparison recommends is written, whatever it is, unless --method names a
method. The comparison has most of the time budget. `AutoMetric` fits all rows in what is left of
it; other learners take the time that they need.
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
from nearfar.cli.command_line import command_line
from nearfar.cli.compare import run_comparison
from nearfar.cli.errors import UserError
from nearfar.cli.fit_checkpoint import FitCheckpoint, can_continue
from nearfar.cli.fit_estimate import check_cost
from nearfar.cli.method_options import (
    AUTO,
    Goal,
    MethodChoice,
    MethodFit,
    find_method,
    fit_method,
    name_of,
)
from nearfar.cli.model_files import check_metric_output
from nearfar.cli.regression_scores import held_out_regression, show_held_out
from nearfar.cli.supervised_input import SupervisedInput
from nearfar.cli.terminal import NOT_HELPFUL, UNDECIDED, bars, command, say, show_json
from nearfar.comparison import Comparison, Method
from nearfar.comparison.wording import described
from nearfar.learners.selection.auto_problem import EUCLIDEAN
from nearfar.metrics.learned_file import save_learned
from nearfar.runtime.notes import Note, note, notes_so_far
from nearfar.runtime.quoting import counted
from nearfar.tables.formats import FORMATS, TABLES, kind_of, shown_name, stem_of
from nearfar.tables.row_input import InputRows
from nearfar.typing import Vector

_COMPARISON_SHARE = 0.7
"""Part of the budget for the comparison."""
_LEAST_SHARE = 0.2
"""Part of the budget that the fit to all rows has in any case, if it can plan its time."""
_SHORTEST_FIT = 0.1
_LABELS = {EUCLIDEAN: "Euclidean distance"}
_SHARES_SHOWN = 6
_SCALED = {"standard": "standardised rows", "cosine": "rows of unit length"}
_UNSCALED = "unscaled rows"


@command
def learn(
    context: typer.Context,
    data: SupervisedInput,
    *,
    method: options.Method = None,
    save_as: Annotated[
        Path | None, options.output("Metric file to write [default: SOURCE.safetensors].")
    ] = None,
    max_iter: options.MaxIter = None,
    scale: options.Scale = None,
    settings: options.Settings = None,
    budget: options.TotalBudget = options.DEFAULT_BUDGET,
    goal: options.GoalOption = Goal.classification,
    only_if_significant: Annotated[
        bool,
        typer.Option(
            "--only-if-significant",
            help="Write a metric only if it is significantly better than the baseline.",
        ),
    ] = False,
    comparison: Annotated[bool, typer.Option(help="Cross-validate beside plain methods.")] = True,
    checkpoint: options.Checkpoint = None,
    testing: options.CrossValidation,
    json: options.Json = False,
) -> None:
    """Learn a metric, and say whether it helps.

    AutoMetric, which blends what several learners learn, is compared with simple methods, and the
    method that the verdict recommends is written.
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
    rows = data.read(numbers=choice.needs_numbers)
    supervision = rows.supervision
    choice.check(supervision)
    task = LearnTask(
        data.source,
        rows,
        supervision,
        choice,
        goal,
        only_if_significant,
        limit,
        label=data.label,
        ids=data.ids,
    )
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
        task.show(context)
    raise typer.Exit(task.exit_code)


def _choice(
    method: str | None, goal: Goal, seed: int, max_iter: int | None, settings: list[str]
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
        Whether a metric must be significantly better than the baseline.
    budget : float or None
        Time limit in seconds.
    start : float
        When the task began.
    label : str or None
        Column of the labels.
    ids : str or None
        Column of the names of rows.
    comparison : Comparison or None
        Of methods, by labels, triplets or pairs.
    held_out : dict of str to array, or None
        R^2 on held-out rows by distance, for numbers.
    result : MethodFit or None
        None if there is nothing to recommend.
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
    label: str | None = None
    ids: str | None = None
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
                    folds=testing.folds,
                    neighbors=testing.neighbors,
                    seed=testing.seed,
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
        """Learn from all rows with the chosen method, and save the metric."""
        method = self.choice.select(self.comparison, self.goal, strict=self.strict)
        if method is None:
            return
        left = None
        if self.budget is not None:
            left = self.budget - (time.perf_counter() - self.start)
            left = max(left, _LEAST_SHARE * self.budget, _SHORTEST_FIT)
        self.result = fit_method(method, self.rows, self.supervision, checkpoint, left)
        if self.result.metric is not None:
            save_learned(self.result.metric, path, self.rows.X)
            self.path = path

    @property
    def notes(self) -> list[Note]:
        """What to know beside the results."""
        return [*notes_so_far(), *([] if self.comparison is None else self.comparison.findings)]

    @property
    def exit_code(self) -> int:
        """0 if there is a metric."""
        if self.path is not None:
            return 0
        return UNDECIDED if self._undecided else NOT_HELPFUL

    @property
    def _undecided(self) -> bool:
        """Whether the time was too short to choose a method."""
        if self.result is not None or self.comparison is None:
            return False
        return self.recommended is None or self.comparison.incomplete

    @property
    def recommended(self) -> Method | None:
        """What the verdict recommends for the goal, if there is one."""
        if self.comparison is None:
            return None
        found = self.comparison.by_goal(self.goal).recommended
        return None if found is None else found.method

    def document(self) -> dict[str, Any]:
        """Return the results for JSON."""
        result = self.result
        held_out = self.held_out
        return {
            "method": None if result is None else result.method.name,
            "recommended": None if self.recommended is None else self.recommended.name,
            "metric": None if self.path is None else str(self.path),
            "seconds": None if result is None else result.seconds,
            "iterations": None if result is None else result.iterations,
            "stopped": None if result is None else result.stopped,
            "expected": asdict(result.expected) if result and result.expected else None,
            "weights": None if result is None else result.weights,
            "mining": asdict(result.mining) if result and result.mining else None,
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "notes": [each.text for each in self.notes],
            "held_out": held_out and {name: s.tolist() for name, s in held_out.items()},
        }

    def show(self, context: typer.Context) -> None:
        """Print the results."""
        if self.comparison is not None:
            say(str(self.comparison))
        if self.held_out is not None:
            show_held_out(self.held_out)
        if self.result is None:
            say(self._nothing_chosen())
            return
        if self.path is None:
            say(f"Nothing was written: {self.result.method.name} is not a linear map.")
            return
        if self.result.mining is not None and self.result.mining.search != "exact":
            say(str(self.result.mining))
        say(f"Learned from all rows in {self.result.seconds:.2f} s{_detail(self.result)}.")
        if self.result.expected is not None and self.comparison is None:
            say(f"On new data, expect {self.result.expected}.")
        say(f"Metric written to {self.path}: {self.result.method.name}{self._why()}.")
        if (better := self._other_command(context)) is not None:
            say(better)
        say(f"Next: {self._next_command()}")

    def _why(self) -> str:
        """Return why this method was taken."""
        if self.choice.named:
            return ", as asked with --method"
        return "" if self.comparison is None else f", as recommended for {self.goal}"

    def _other_command(self, context: typer.Context) -> str | None:
        """Return the command that writes what the verdict recommends, if that is not written."""
        assert self.result is not None
        recommended = self.recommended
        if recommended is None or recommended.name == self.result.method.name:
            return None
        changes = {"method": name_of(recommended), "max_iter": None, "scale": None}
        changes |= {"settings": None, "checkpoint": None}
        return f"The verdict recommends {recommended.name}: {command_line(context, None, changes)}"

    def _nothing_chosen(self) -> str:
        """Say why no method was chosen, and what to do."""
        assert self.comparison is not None
        if self._undecided:
            return "Nothing was written. Increase --budget, or name a --method."
        compared = self.comparison.by_goal(self.goal)
        tried = self.choice.method if self.choice.named else self.recommended
        unchanged = tried is None or tried.name == compared.reference.name
        who = "no method" if tried is None or unchanged else tried.name
        is_ = "is" if who == "no method" else "is not"
        text = (
            f"Nothing was written: {who} {is_} significantly better than "
            f"{described(compared.reference)} for {self.goal}."
        )
        if self.kind != "labels":
            return text
        other = next(goal.value for goal in Goal if goal != self.wanted)
        method = self.choice.select(self.comparison, other, strict=self.strict)
        return text if method is None else f"{text} {method.name} helps with --goal {other}."

    def _next_command(self) -> str:
        """Return a command that uses the metric."""
        metric, source = shlex.quote(str(self.path)), shlex.quote(shown_name(self.source))
        kind = kind_of(Path(self.source))
        if kind not in FORMATS:
            return f"nearfar show {metric}"
        if self.label is not None and kind in TABLES:
            numbers = " --numbers" if self.kind == "numbers" else ""
            labels = f"--label {shlex.quote(self.label)}{numbers}"
            return f"nearfar predict {metric} {source} NEW{kind} {labels}"
        if self.kind == "pairs" and kind in TABLES:
            names = "" if self.ids is None else f" --id {shlex.quote(self.ids)}"
            return f"nearfar verify {metric} {source} OTHER_PAIRS.csv{names}"
        ending = ".parquet" if kind in TABLES else ".npy"
        return f"nearfar transform {metric} {source} mapped{ending}"


def _detail(result: MethodFit) -> str:
    """Return what a fit consists of."""
    if result.learned_nothing:
        scale = str(getattr(result.learner, "scale_", None))
        return f": nothing is better than Euclidean distance on {_SCALED.get(scale, _UNSCALED)}"
    if result.weights is not None:
        largest = sorted(result.weights.items(), key=lambda share: -share[1])
        shares = [f"{100 * w:.0f} % {_LABELS.get(n, n)}" for n, w in largest[:_SHARES_SHOWN]]
        more = f" and {len(largest) - _SHARES_SHOWN} more" if len(largest) > _SHARES_SHOWN else ""
        return f": {', '.join(shares)}{more}"
    if result.iterations is None:
        return ""
    return f" ({counted(result.iterations, 'iteration')}, stopped: {result.stopped})"
