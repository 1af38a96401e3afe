"""`learn`: a metric from labels, numbers or judgements, and what it is worth on held-out rows.

The held-out test comes first (`held_out`). Then the learner is fitted to all rows. A time limit
fixes how many rows are learned from; the clock only stops what runs away.
"""

from __future__ import annotations

import html
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nearfar.evidence.verdict import Category, Verdict, outcome_text
from nearfar.frames.formats import FORMATS, TABLES, kind_of, shown_name, stem_of
from nearfar.frames.metric_files import check_metric_output
from nearfar.frames.reader import columns_named
from nearfar.frames.reading import read_table
from nearfar.frames.table import Table
from nearfar.learners.base import MetricLearner
from nearfar.learners.selection.auto_problem import EUCLIDEAN
from nearfar.metrics.metric import Metric
from nearfar.metrics.training_facts import LearnedLabels, Stated, Votes, save_learned
from nearfar.runtime.messages import (
    Note,
    collecting_notes,
    command_line,
    counted,
    forwards,
    note,
    option,
    suggested_ending,
)
from nearfar.runtime.parameters import check_parameters, choice
from nearfar.runtime.progress import parse_seconds
from nearfar.tables.compare import sampled_rows
from nearfar.tables.fitting import (
    convergence_notes,
    no_progress,
    supervision_of,
    untried_candidates,
    votes_of,
)
from nearfar.tables.held_out import HeldOut, fit_within, most_rows, tested
from nearfar.tables.methods import check_supervision, find_learner

READING = "label numbers triplets pairs group ids drop numeric categorical text impute"
"""Parameters of `read_table` that learning has."""
Outcome = Literal["helps", "no clear difference", "no better than a guess"]
# So many shares of a blend fit in a line.
_SHARES_SHOWN = 6
_SCALED = {"standard": "standardised rows", "cosine": "rows of unit length"}


@forwards(read_table, READING)
def learn(
    source: object = "",
    *,
    method: str | MetricLearner | None = None,
    max_iter: int | None = None,
    scale: Literal["auto", "standard", "unit", "cosine"] | None = None,
    set: Sequence[str] = (),
    goal: Literal["classification", "ranking"] = "classification",
    budget: float | str | None = "60s",
    write: bool = False,
    out: str | PathLike[str] | None = None,
    random_state: int = 0,
    progress: Callable[[int, int, str], None] = no_progress,
    **reading: Any,
) -> Learned:
    """Learn a metric, and say whether it helps.

    Rows are held out, and their labels predicted: by the metric, which is learned without them, by
    Euclidean distance, and by a random forest and gradient boosting. Then the metric is learned
    from all rows. It is written if it helps, or with `write`; otherwise the exit code is 3.

    Parameters
    ----------
    source : path, name of a dataset, DataFrame, array or Table
        Table (.csv, .tsv, .parquet, .feather, .arrow, .jsonl, .xlsx), array (.npy, .npz), or the
        name of a dataset.
    method : str or MetricLearner, optional
        Learner by its name, or by how the name begins; by default autometric, which blends what
        several of them learn.
    max_iter : int, optional
        Most iterations of a learner that has them.
    scale : {"auto", "standard", "unit", "cosine"}, optional
        Rows to learn from: standardised, unscaled (unit), or of unit length (cosine). By default
        what the method does; auto chooses by the data.
    set : sequence of str, optional
        Parameter of the method, as NAME=VALUE.
    goal : {"classification", "ranking"}, default="classification"
        What a metric from labels is for.
    budget : float or str, default="60s"
        Time limit: seconds, or 60s, 5m, 1h. Many rows are learned from as a sample.
    write : bool, default=False
        Write the metric even if it does not help.
    out : path, optional
        Metric file to write. The command writes SOURCE.safetensors by default.
    random_state : int, default=0
        Random seed.
    progress : callable, optional
        Called with what is done, the total, and what is next.
    **reading
        What to learn from, and what columns are: see `read_table`.

    Returns
    -------
    Learned
        Prints as a table with a verdict.

    Examples
    --------
    >>> import nearfar
    >>> learned = nearfar.learn("iris", method="lda")
    >>> learned.outcome
    'helps'
    >>> learned.metric
    <Metric: 4 features -> 2>
    """
    check_parameters({"goal": choice("classification", "ranking")}, {"goal": goal})
    learner = find_learner(
        method, seed=random_state, goal=goal, max_iter=max_iter, scale=scale, settings=set
    )
    seconds, began = parse_seconds(budget), time.perf_counter()
    if out is None and command_line():
        out = f"{stem_of(Path(str(source)))}.safetensors"
    if out is not None:
        judged = [reading.get(name) for name in ("label", "triplets", "pairs", "group")]
        check_metric_output(out, [source, *judged])
    table = table_to_learn_from(source, learner, **reading)
    if seconds is not None:
        seconds = max(seconds - (time.perf_counter() - began), 0.0)
    learned = learn_from_table(
        table, learner, goal, seed=random_state, seconds=seconds, progress=progress
    )
    if out is not None:
        learned.unwritten = Path(fspath(out))
        if write or learned.outcome == "helps":
            learned.save(out)
    return learned


def table_to_learn_from(source: object, learner: MetricLearner, **reading: Any) -> Table:
    """Read what there is to learn from, unless it is a table already; check the learner."""
    if isinstance(source, Table):
        if any(each is not None for each in reading.values()):
            raise ValueError("Name labels, pairs, triplets and columns where the table is read.")
        table = source
    else:
        if isinstance(source, str) and not source and not reading.keys() & {"triplets", "pairs"}:
            raise ValueError("Name the rows to learn from: a table, an array or a dataset.")
        kinds = {"labels", "numbers"} & {*learner.supervision}
        if len(kinds) == 1 and reading.get("numbers") is None:
            reading["numbers"] = "numbers" in kinds
        table = read_table(source, **reading, required=True)
    supervision_of(table)
    check_supervision(learner, table.kind)
    return table


def learn_from_table(
    table: Table,
    learner: MetricLearner,
    goal: str,
    *,
    seed: int,
    seconds: float | None,
    progress: Callable[[int, int, str], None] = no_progress,
) -> Learned:
    """Test a learner on held-out rows; fit it to all, or to as many as there is time for."""
    settings: Any = {"seed": seed, "seconds": seconds, "progress": progress}
    with collecting_notes() as notes:
        found = tested(table, learner, goal, **settings)
        progress(0, 1, f"{type(learner).__name__} on all rows")
        rows, start = table, time.perf_counter()
        if table.y is not None and (n := most_rows(table, learner, seconds)) < len(table):
            more = f"increase {option('budget')} for more"
            note(f"the metric is learned from {n} of {len(table)} rows, for lack of time; {more}.")
            rows = table.take(sampled_rows(table, n, seed))
        if table.kind == "numbers" and "goal" in learner.get_params():
            learner.set_params(goal="regression")
        with convergence_notes():
            fitted = fit_within(seconds, learner, rows.X, supervision_of(rows), rows.groups)
        if left_out := untried_candidates(fitted):
            note(left_out, warning=True)
        metric, votes = table.described(fitted.metric_), votes_of(fitted, learner, rows)
    took, said = time.perf_counter() - start, [each for each in notes if each not in table.notes]
    return Learned(
        table, fitted, metric, found, goal, seed, len(rows), took, votes, [*table.notes, *said]
    )


@dataclass(eq=False)
class Learned:
    """A metric, and what it is worth; prints as a table with a verdict, also in a notebook.

    Attributes
    ----------
    table : Table
        The rows, and what is known of them.
    learner : MetricLearner
        The learner, fitted to all rows.
    metric : Metric
        What it learned.
    held_out : HeldOut
        Errors of the metric, of Euclidean distance and of classifiers on the same held-out rows.
    goal : str
        What a metric from labels is for.
    random_state : int
        Seed of the splits and of the learner.
    n_rows : int
        Number of rows that were learned from; fewer than there are if time was short.
    seconds : float
        Duration of the fit to all rows.
    votes : Votes or None
        How often votes of neighbours are right on rows that took no part, if there are labels.
    notes : list of Note
        What to know beside the results.
    path : Path or None
        Where the metric was saved.

    Examples
    --------
    >>> from nearfar import learn
    >>> learned = learn("iris", method="lda")
    >>> learned
    <Learned: LDA from 150 rows, helps>
    """

    table: Table
    learner: MetricLearner
    metric: Metric
    held_out: HeldOut
    goal: str
    random_state: int
    n_rows: int
    seconds: float
    votes: Votes | None = None
    notes: list[Note] = field(default_factory=list)
    path: Path | None = None
    unwritten: Path | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether the metric is better than Euclidean distance, and how sure that is."""
        return self.held_out.verdict

    @property
    def outcome(self) -> Outcome:
        """One of three outcomes; without help, Euclidean distance is to be kept."""
        if self.verdict.category is Category.USELESS:
            return "no better than a guess"
        return "helps" if self.verdict.helps else "no clear difference"

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        return outcome_sentence(self.held_out, self.table)

    @property
    def exit_code(self) -> int:
        """3 if the command did not write the metric, as it does not help."""
        return 3 if self.path is None else 0

    @property
    def blend(self) -> dict[str, float]:
        """Shares of learners in a blend, the largest first; empty if it is not a blend."""
        weights: dict[str, float] = {}
        if self.learner.tells_expected:
            weights = self.learner.weights_
        return {n: w for n, w in sorted(weights.items(), key=lambda item: -item[1]) if w > 0}

    def save(self, path: str | PathLike[str]) -> None:
        """Write the metric to a file, with facts on the rows that it was learned from."""
        result, measure = self.held_out.results[0], self.held_out.measure
        loss = self.held_out.goal.loss(result)
        figure = f"{measure.label} {measure.write(measure.value(loss))}"
        text = f"{figure} ({result.name}, {counted(self.n_rows, 'row')}; held out)"
        stated = Stated(measure.label, loss, text, self.sentence)
        y, groups, labels = self.table.y, self.table.groups, None
        if y is not None:
            sizes: list[int] = []
            if self.table.kind == "labels":
                sizes = sorted(map(int, np.unique(y, return_counts=True)[1]), reverse=True)
            n_groups = 0 if groups is None else len(np.unique(groups))
            labels = LearnedLabels(self.table.label or "", sizes, n_groups)
        self.path = Path(fspath(path))
        save_learned(self.metric, self.path, self.table.X, self.votes, stated, labels)

    def report(
        self,
        path: str | PathLike[str],
        metric_path: str | PathLike[str] | None = None,
        *,
        title: str = "",
        image_shape: tuple[int, ...] | None = None,
        progress: Callable[[int, int, str], None] = no_progress,
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

        if metric_path is not None:
            self.save(metric_path)
        report_on_learned(
            self, Path(fspath(path)), title=title, image_shape=image_shape, progress=progress
        )

    def to_dict(self) -> dict[str, object]:
        """Return the results as plain numbers and strings, ready for JSON."""
        history = self.learner.history_
        return {
            "method": type(self.learner).__name__,
            "outcome": self.outcome,
            "metric": None if self.path is None else str(self.path),
            "seconds": self.seconds,
            "iterations": len(history),
            "stopped": history.stopped,
            "weights": self.blend or None,
            **self.held_out.to_dict(),
            "notes": [each.text for each in self.notes],
        }

    def __repr__(self) -> str:
        name = type(self.learner).__name__
        return f"<Learned: {name} from {counted(self.n_rows, 'row')}, {self.outcome}>"

    def __str__(self) -> str:
        first, then = self._sentences
        return "\n".join([*first, str(self.held_out), *then])

    def _repr_html_(self) -> str:
        header, lines = self.held_out.lines
        cells = [
            "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in line)
            for tag, line in (("th", header), *(("td", line) for line in lines))
        ]
        rows = "".join(f"<tr>{each}</tr>" for each in cells)
        first, then = ("".join(f"<div>{html.escape(t)}</div>" for t in s) for s in self._sentences)
        return f"{first}<table>{rows}</table>{then}"

    @property
    def _sentences(self) -> tuple[list[str], list[str]]:
        """What comes before the table, and after it."""
        found, unit = self.held_out, {"labels": "row", "numbers": "row"}.get(self.table.kind)
        what = counted(found.n, unit or self.table.kind[:-1])
        splits = "" if found.n_splits == 1 else f" in {found.n_splits} splits"
        first = [f"{summary(self.table)}; {what} held out{splits}"]
        then: list[str] = []
        (first if self.outcome == "no better than a guess" else then).append(self.sentence)
        rows = "all rows" if self.n_rows == len(self.table) else counted(self.n_rows, "row")
        then.append(f"Learned from {rows} in {self.seconds:.2f} s: {self._what_was_learned}.")
        if self.path is not None:
            then += [f"Metric written to {self.path}.", f"Next: {self._next_command(self.path)}"]
        elif self.unwritten is not None:
            then.append(
                f"Nothing was written; {option('write')} writes the metric to {self.unwritten}."
            )
        return first, then

    @property
    def _what_was_learned(self) -> str:
        """The shares of a blend, or the name of the learner and its iterations."""
        if [*self.blend] == [EUCLIDEAN]:
            rows = _SCALED.get(str(getattr(self.learner, "scale_", None)), "unscaled rows")
            return f"Euclidean distance on {rows}"
        if self.blend:
            names = {EUCLIDEAN: "Euclidean distance"}
            shares = [f"{100 * w:.0f}% {names.get(n, n)}" for n, w in self.blend.items()]
            n_more = len(shares) - _SHARES_SHOWN
            return ", ".join([*shares[:_SHARES_SHOWN], *([f"{n_more} more"] * (n_more > 0))])
        history, name = self.learner.history_, type(self.learner).__name__
        return f"{name}, {counted(len(history), 'iteration')}, stopped: {history.stopped}"

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


def outcome_sentence(found: HeldOut, table: Table) -> str:
    """Say whether a metric helps; labels that a column gives away make it doubtful."""
    measure, name = found.measure, found.results[0].name
    before, after = map(found.goal.write, (found.goal.reference, found.results[0]))
    if found.verdict.category is Category.USELESS:
        return f"{name} is no better than {found.guess}: {measure.label} {after}."
    sentence = outcome_text(measure.label, found.verdict, before, after)
    if not table.leaking:
        return sentence
    return f"{sentence.removesuffix('.')}; but see the note on {columns_named(table.leaking)}."


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
