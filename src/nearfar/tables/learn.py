"""`learn`: compare, decide, fit, explain.

What the verdict of the comparison recommends is learned from all rows, whatever it is, unless a
method is named. The comparison has most of the time that reading leaves of the budget. The fit has
the rest; methods learn from as many rows as they are expected to have time for.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Literal

import numpy as np

from nearfar.comparison import Category, Comparison, Method, Verdict
from nearfar.comparison.runner import rows_within
from nearfar.evidence.verdict import described
from nearfar.frames.formats import FORMATS, TABLES, kind_of, shown_name
from nearfar.frames.reading import read_table
from nearfar.frames.table import Table
from nearfar.learners.base import MetricLearner
from nearfar.measures.registry import R2
from nearfar.metrics.file_format import read_metadata
from nearfar.metrics.metric import Metric
from nearfar.metrics.training_facts import LearnedLabels, Stated, save_learned, stored_statement
from nearfar.runtime.messages import (
    Note,
    collecting_notes,
    counted,
    fragment,
    note,
    option,
    suggested_ending,
)
from nearfar.runtime.parameters import check_parameters
from nearfar.runtime.parameters import choice as one_of
from nearfar.runtime.tensor_file import Provenance
from nearfar.tables.checkpoint import FitCheckpoint, can_continue
from nearfar.tables.compare import compare_table, features_of, sampled_rows
from nearfar.tables.fitting import (
    MethodFit,
    Progress,
    fit_method,
    no_progress,
    supervision_of,
)
from nearfar.tables.methods import MethodChoice, choose_methods, name_of
from nearfar.typing import Array

GOALS = ("classification", "ranking")

# Part of the budget for the comparison, which has five fits where the rest has one.
_COMPARISON_SHARE = 0.7
# Part of the budget that the fit to all rows has in any case.
_LEAST_SHARE = 0.1
# Part of the rest that the fit to all rows has; votes are counted and a file is written, too.
_FIT_SHARE = 0.8
# Rows that AutoMetric, which plans its time, learns from in any case, and numbers in rows for each
# second that it has.
_FEWEST_ROWS, _VALUES_PER_SECOND = 20_000, 1e5
# A fit that plans its time needs some, also without a budget.
_SHORTEST_FIT = 0.1


def learn(
    data: object,
    *,
    label: str | Array | None = None,
    pairs: object = None,
    triplets: object = None,
    group: str | Array | None = None,
    goal: str = "classification",
    budget: float | tuple[float | None, float | None] | None = 120.0,
    methods: MethodChoice | str | MetricLearner | Sequence[str | MetricLearner] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    comparison: bool = True,
    strict: bool = False,
    cv: int = 5,
    n_neighbors: int | Literal["auto"] = "auto",
    classifiers: bool = True,
    random_state: int = 0,
    progress: Progress = no_progress,
    started: float | None = None,
) -> Learned:
    """Compare methods, decide, and learn a metric from all rows.

    Parameters
    ----------
    data : Table, path, name of a dataset, DataFrame or array
        What to learn from. A table, as `read_table` returns it, has its labels, triplets or pairs.
    label, pairs, triplets, group : optional
        Column of labels or the labels themselves, judgements to learn from instead, and groups of
        rows that are never both learned from and tested on; as for `read_table`.
    goal : {"classification", "ranking"}, default="classification"
        What a metric from labels is for.
    budget : float, pair of float, or None, default=120.0
        Time limit in seconds for reading, the comparison and the fit to all rows, or a limit for
        the comparison and one for the fit. Of many rows, a sample is compared and learned from.
        Methods other than AutoMetric learn from all rows, unless the comparison tells that these
        would take too long.
    methods : str, MetricLearner, or list of these, optional
        A method to use, whatever the verdict; or several to choose from. By default AutoMetric, or
        the simple method that the verdict recommends. "best" chooses from the usual learners.
    checkpoint : path, optional
        File that keeps the work so far. If it exists, the same call continues. It is deleted at the
        end.
    comparison : bool, default=True
        Whether to cross-validate beside plain methods.
    strict : bool, default=False
        Whether to learn only if a method is clearly better than the baseline.
    cv : int, default=5
        Number of folds.
    n_neighbors : int or "auto", default="auto"
        Number of neighbours that vote in the comparison; "auto" is the best for each method, chosen
        within the training rows.
    classifiers : bool, default=True
        Whether to show the errors of classifiers beside the methods.
    random_state : int, default=0
        Seed of the folds and of the learners.
    progress : callable, optional
        Called with what is done, the total, and what is next.
    started : float, optional
        When the time of the budget began, by `time.perf_counter`; by default now.

    Returns
    -------
    Learned
        Prints as a table with a verdict and what was learned.

    Examples
    --------
    >>> import nearfar
    >>> learned = nearfar.learn("iris", methods="lda", cv=2, goal="ranking")
    >>> learned.verdict.recommended
    'LDA'
    >>> learned.metric.n_features
    4
    """
    start = time.perf_counter() if started is None else started
    check_parameters({"goal": one_of(*GOALS)}, {"goal": goal})
    chosen = choose_methods(methods, seed=random_state, goal=goal)
    if not comparison:
        chosen.check_without_comparison(strict=strict)
    kept = FitCheckpoint(None if checkpoint is None else Path(fspath(checkpoint)))
    with kept, collecting_notes() as notes:
        table = as_table(data, label, pairs, triplets, group, numbers=chosen.numbers)
        supervision_of(table)
        chosen.check(table.kind)
        kept.check(chosen.learner, table.X, table.supervision, table.groups)
        if kept.path is not None and chosen.learner and not can_continue(chosen.learner):
            what = "only the comparison is kept"
            note(f"a fit of {chosen.name} cannot continue; {what}, in {kept.comparison}.")
        learned = Learned(table, chosen, goal, strict, random_state)
        limits = budget if isinstance(budget, tuple) else (None, None)
        if isinstance(budget, float | int):
            limits = _COMPARISON_SHARE * budget, None
        if comparison:
            learned.comparison = compare_table(
                table,
                chosen.learners,
                cv=cv,
                n_neighbors=n_neighbors,
                random_state=random_state,
                classifiers=classifiers,
                budget=limits[0],
                checkpoint=kept.comparison,
                progress=progress,
                spent=0.0 if isinstance(budget, tuple) else time.perf_counter() - start,
            )
        method = chosen.select(learned.comparison, learned.compared_goal, strict=strict)
        if method is not None:
            learned.fit_seconds = limits[1]
            if isinstance(budget, float | int):
                left = _FIT_SHARE * (budget - (time.perf_counter() - start))
                learned.fit_seconds = max(left, _LEAST_SHARE * budget, _SHORTEST_FIT)
            # A fit that continues needs the same rows.
            rows = table if kept.path else learned.rows_to_learn_from(method)
            learned.n_fitted = len(rows)
            learned.fit = fit_method(
                method, rows, kept, learned.fit_seconds, progress, compared=comparison
            )
    learned._notes = [*table.notes, *(each for each in notes if each not in table.notes)]
    return learned


@dataclass(eq=False)
class Learned:
    """What `learn` found; prints as a table with a verdict, also in a notebook.

    Attributes
    ----------
    table : Table
        The rows, and what is known of them.
    choice : MethodChoice
        The method that was named, or methods to choose from.
    goal : str
        What a metric from labels is for.
    strict : bool
        Whether a metric must be clearly better than the baseline.
    random_state : int
        Seed of the folds and of the learners.
    comparison : Comparison or None
        Of methods, by labels, numbers, triplets or pairs.
    fit : MethodFit or None
        The fit to all rows; None if there is nothing to recommend.
    path : Path or None
        Where the metric was saved.
    other_call : str
        How to learn what the verdict recommends, if that is another method.
    fit_seconds : float or None
        Time limit of the fit.
    n_fitted : int or None
        Number of rows that the fit learned from; fewer than there are if time was short.
    replaced : str
        What was stated of the metric that was in the file before; empty if there was none.

    Examples
    --------
    >>> from nearfar import learn
    >>> learned = learn("iris", methods="lda", comparison=False)
    >>> learned
    <Learned: LDA from 150 rows>
    >>> learned.metric
    <Metric: 4 features -> 2>
    """

    table: Table
    choice: MethodChoice
    goal: str
    strict: bool = False
    random_state: int = 0
    comparison: Comparison | None = None
    fit: MethodFit | None = None
    path: Path | None = None
    other_call: str = ""
    fit_seconds: float | None = None
    n_fitted: int | None = None
    replaced: str = ""
    _notes: Sequence[Note] = ()

    @property
    def compared_goal(self) -> str:
        """What the method was chosen for: a goal of the comparison."""
        kind = self.table.kind
        return kind if kind in ("triplets", "pairs") else {"numbers": R2.goal}.get(kind, self.goal)

    @property
    def metric(self) -> Metric | None:
        """The metric that was learned from all rows; None if there is none to recommend."""
        return None if self.fit is None else self.fit.metric

    @property
    def verdict(self) -> Verdict | None:
        """The verdict for the goal; None without a comparison."""
        if self.comparison is None:
            return None
        return self.comparison.by_goal(self.compared_goal).verdict

    @property
    def recommended(self) -> Method | None:
        """The method that the verdict recommends, if there is one."""
        if self.comparison is None:
            return None
        result = self.comparison.by_goal(self.compared_goal).recommended
        return None if result is None else result.method

    @property
    def alternative(self) -> Method | None:
        """The method that the verdict recommends, if another one was learned."""
        name = None if self.fit is None else self.fit.method.name
        recommended = self.recommended
        return None if recommended is None or recommended.name == name else recommended

    @property
    def notes(self) -> list[Note]:
        """What to know beside the results."""
        return [*self._notes, *([] if self.comparison is None else self.comparison.findings)]

    def rows_to_learn_from(self, method: Method) -> Table:
        """Return the table, or a sample of its rows if all of them would take too long."""
        table, seconds = self.table, self.fit_seconds
        if seconds is None or table.y is None:
            return table
        result = None if self.comparison is None else self.comparison.get(method.name)
        n_rows = len(table)
        if method.plans_time:
            # It plans the choice among learners, and not their fits to all rows.
            most = max(_FEWEST_ROWS, int(_VALUES_PER_SECOND * seconds / table.X.shape[1]))
            n_rows = min(n_rows, most)
        elif result is not None and self.comparison is not None:
            comparison = self.comparison
            compared = n_rows if comparison.sample is None else len(comparison.sample)
            tried = compared * (comparison.n_folds - 1) // comparison.n_folds
            took = {tried: float(result.seconds.mean())}
            n_rows = max(tried, rows_within(seconds, took, n_rows))
        if n_rows == len(table):
            return table
        more = f"increase {option('budget')} for more"
        note(f"{method.name} learned from {n_rows} of {len(table)} rows, for lack of time; {more}.")
        return table.take(sampled_rows(table, n_rows, self.random_state))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the metric to a file, with facts on the rows that it was learned from."""
        if self.metric is None:
            raise ValueError(self._nothing_chosen() if self.fit is None else self._no_map(self.fit))
        file, stated = Path(fspath(path)), self._stated()
        votes = None if self.fit is None else self.fit.votes
        before = _statement(file) if file.exists() else None
        save_learned(self.metric, file, self.table.X, votes, stated, self._labels())
        self.path = file
        self.replaced = "" if before is None else _replaced(before, _statement(file))

    def _labels(self) -> LearnedLabels | None:
        """Return what is known of the labels, without their names."""
        y, groups = self.table.y, self.table.groups
        if y is None:
            return None
        sizes = np.unique(y, return_counts=True)[1] if self.table.kind == "labels" else np.empty(0)
        n_groups = 0 if groups is None else len(np.unique(groups))
        return LearnedLabels(
            self.table.label or "", sorted(map(int, sizes), reverse=True), n_groups
        )

    def _stated(self) -> Stated | None:
        """Return the figure of the method that was learned, if it was measured."""
        assert self.fit is not None
        of = f"{self.fit.method.name}, {counted(self.n_fitted or len(self.table), 'row')}"
        if self.comparison is not None:
            goal = self.comparison.by_goal(self.compared_goal)
            own = next((r for r in goal.results if r.name == self.fit.method.name), None)
            if own is None:  # it failed in the comparison
                return None
            loss, sample = goal.loss(own), self.comparison.sample
            on = "" if sample is None else f"; measured on {len(sample)} rows"
            label, figure = goal.measure.label, goal.measure.write(goal.measure.value(loss))
            text = f"{label} {figure} ({of}{on})"
            if own.name == goal.reference.name:
                # Whether others are no better, or could not be told apart, is in the sentence.
                return Stated(label, loss, text, goal.verdict.headline)
            return Stated(label, loss, text, f"{goal.category(own).text(goal.cases)}, {text}")
        if (expected := self.fit.expected) is None:
            return None
        figure = expected.registered.write(expected.value)
        loss = expected.registered.value(expected.value)
        return Stated(expected.measure, loss, f"{expected.measure} {figure} ({of})")

    def report(
        self,
        path: str | PathLike[str],
        metric_path: str | PathLike[str] | None = None,
        *,
        title: str = "",
        image_shape: tuple[int, ...] | None = None,
        progress: Progress = no_progress,
    ) -> None:
        """Write a report as one HTML file that needs no network.

        Parameters
        ----------
        path : path-like
        metric_path : path-like, optional
            Save the metric there, too; the report says how to use it.
        title : str, optional
            Heading of the page [default: the name of the table].
        image_shape : tuple of int, optional
            Height and width (and channels), if the rows are images.
        progress : callable, optional
            Called with what is done, the total, and what is next.
        """
        # matplotlib and Jinja are only needed here.
        from nearfar.tables.report import report_on_learned

        report_on_learned(
            self,
            Path(fspath(path)),
            None if metric_path is None else Path(fspath(metric_path)),
            title=title,
            image_shape=image_shape,
            progress=progress,
        )

    def to_dict(self) -> dict[str, object]:
        """Return the results as plain numbers and strings, ready for JSON."""
        fit = self.fit
        return {
            "method": None if fit is None else fit.method.name,
            "recommended": None if self.recommended is None else self.recommended.name,
            "metric": None if self.path is None else str(self.path),
            "replaced": self.replaced or None,
            "seconds": None if fit is None else fit.seconds,
            "iterations": None if fit is None else fit.iterations,
            "stopped": None if fit is None else fit.stopped,
            "expected": asdict(fit.expected) if fit and fit.expected else None,
            "weights": None if fit is None else fit.weights,
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "notes": [each.text for each in self.notes],
        }

    def __str__(self) -> str:
        lines = [] if self.comparison is None else [str(self.comparison)]
        return "\n".join([*lines, *self._sentences()])

    def __repr__(self) -> str:
        method = "nothing" if self.fit is None else self.fit.method.name
        return f"<Learned: {method} from {len(self.table)} rows>"

    def _repr_html_(self) -> str:
        table = "" if self.comparison is None else self.comparison._repr_html_()
        return table + fragment(summary(self.table), list(self._sentences()))

    def _sentences(self) -> Iterator[str]:
        """Yield what was learned from all rows, and what to do next."""
        if self.fit is None:
            yield self._nothing_chosen()
            return
        if self.fit.metric is None:
            yield self._no_map(self.fit)
            return
        rows = "all" if self.n_fitted in (None, len(self.table)) else f"{self.n_fitted}"
        took = f"Learned from {rows} rows in"
        if self.fit.learner is not None and self.fit.learner.history_.notes:
            yield from self.fit.learner.history_.notes
            took = "This took"
        yield f"{took} {self.fit.seconds:.2f} s{self.fit.detail}."
        if self.fit.expected is not None and self.comparison is None:
            yield f"On new data, expect {self.fit.expected}."
            if features_of(self.table) is not None:
                yield (
                    "Columns were prepared on all rows, so that this may be a little too good; "
                    "the comparison prepares them inside the folds."
                )
        why = "" if self.comparison is None else f", as recommended for {self.compared_goal}"
        if self.choice.named:
            why = f", as asked with {option('method')}"
        where = "Metric" if self.path is None else f"Metric written to {self.path}"
        yield f"{where}: {self.fit.method.name}{why}."
        if self.replaced:
            yield f"The file had another metric before{self.replaced}."
        if (other := self.alternative) is not None:
            call = self.other_call or option("method", name_of(other))
            yield f"The verdict recommends {other.name}: {call}"
        if self.path is not None:
            yield f"Next: {self._next_command(self.path)}"

    def _no_map(self, fit: MethodFit) -> str:
        return f"Nothing was written: {fit.method.name} is not a linear map."

    def _nothing_chosen(self) -> str:
        """Say why no method was chosen."""
        assert self.comparison is not None
        compared = self.comparison.by_goal(self.compared_goal)
        if compared.verdict.category is Category.USELESS and not self.choice.named:
            return (
                f"Nothing was written. Choose a method with {option('method')} to learn it anyway."
            )
        tried = self.choice.method if self.choice.named else self.recommended
        unchanged = tried is None or tried.name == compared.reference.name
        who = "no method is" if tried is None or unchanged else f"{tried.name} is not"
        text = (
            f"Nothing was written: {who} clearly better than "
            f"{described(compared.reference.name)} for {self.compared_goal}."
        )
        if self.table.kind != "labels":
            return text
        other = next(goal for goal in GOALS if goal != self.goal)
        method = self.choice.select(self.comparison, other, strict=self.strict)
        return (
            text if method is None else f"{text} {method.name} helps with {option('goal', other)}."
        )

    def _next_command(self, path: Path) -> str:
        """Return a command that uses the metric."""
        table, kind = self.table, kind_of(Path(self.table.source))
        metric, source = shlex.quote(str(path)), shlex.quote(shown_name(table.source))
        if kind not in FORMATS:
            return f"nearfar show {metric}"
        if table.label is not None and kind in TABLES:
            numbers = " --numbers" if self.table.kind == "numbers" else ""
            labels = f"--label {shlex.quote(table.label)}{numbers}"
            return f"nearfar predict {metric} {source} NEW{kind} {labels}"
        if self.table.kind == "pairs" and kind in TABLES:
            names = "" if table.id_column is None else f" --id {shlex.quote(table.id_column)}"
            return f"nearfar verify {metric} {source} OTHER_PAIRS.csv{names}"
        ending = suggested_ending() if kind in TABLES else ".npy"
        return f"nearfar transform {metric} {source} mapped{ending}"


def _statement(path: Path) -> tuple[Stated | None, str]:
    """Return what a metric's file states of it, and the fingerprint of its rows."""
    try:
        metadata = read_metadata(path)
        made = Provenance.read(metadata)
        return stored_statement(metadata), "" if made is None else made.fingerprint
    except (OSError, ValueError):
        return None, ""


def _replaced(before: tuple[Stated | None, str], now: tuple[Stated | None, str]) -> str:
    """Return what an earlier file said of its metric, as the end of a sentence."""
    (old, old_rows), (new, rows) = before, now
    if old is None:
        return ", whose error is not known"
    if old_rows != rows:
        return f", learned from other rows: {old.text}"
    better = new is not None and new.measure == old.measure and old.loss < new.loss
    return f": {old.text}" + (", a better figure" if better else "")


def as_table(
    data: object,
    label: str | Array | None = None,
    pairs: object = None,
    triplets: object = None,
    group: str | Array | None = None,
    *,
    numbers: bool | None = None,
) -> Table:
    """Return a table to learn from: a given one, or what `read_table` makes of the data."""
    if not isinstance(data, Table):
        return read_table(
            data,
            label=label,
            pairs=pairs,
            triplets=triplets,
            group=group,
            numbers=numbers,
            required=True,
        )
    if any(each is not None for each in (label, pairs, triplets, group)):
        raise ValueError("Name labels, pairs, triplets and groups where the table is read.")
    if numbers and data.kind == "labels":
        return replace(data, supervision=data.numbers, kind="numbers")
    return data


def summary(table: Table) -> str:
    """Say what there is to learn from, in one line."""
    rows, features = counted(len(table), "row"), counted(table.X.shape[1], "feature")
    y = supervision_of(table)
    if not isinstance(y, np.ndarray):
        known = counted(len(y), table.kind[:-1])
    elif table.kind == "labels":
        known = counted(len(np.unique(y)), "class")
    else:
        known = f"numbers from {y.min():g} to {y.max():g}"
    return f"{table.name}: {rows} x {features}, {known}"
