"""`compare`: checks what is compared, and runs every method on every fold.

How many rows there is time for follows from seconds of what ran. The time on n rows is taken as
c n^p. One size gives c, with p = 1.5, between one pass over the rows and a table of all pairs. A
second size, four times as large, gives p as well.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_array, check_X_y

from nearfar.comparison.checkpoint import ComparisonCheckpoint, FoldResult
from nearfar.comparison.goals import MethodResult
from nearfar.comparison.methods import Learners, Method, default_methods, reference_classifiers
from nearfar.comparison.table import Comparison
from nearfar.comparison.tasks import (
    ComparisonTask,
    Features,
    JudgedRows,
    LabelledRows,
    folds_among,
    folds_within,
    is_count,
    stratified_order,
)
from nearfar.evidence.intervals import known_mean
from nearfar.learners.base import Estimator
from nearfar.measures.registry import measures_for
from nearfar.numerics.missing import (
    at_rows,
    labelled_rows,
    naming_remedies,
    refuse_masked,
    refuse_missing,
)
from nearfar.runtime.messages import option
from nearfar.runtime.parameters import check_parameters, choice, number
from nearfar.runtime.progress import Clock
from nearfar.runtime.threads import single_threaded_libraries
from nearfar.supervision import Copies, Pairs, Supervision, Triplets, keep_copies_together, kind_of
from nearfar.supervision.supervision import are_numbers, warn_of_integers
from nearfar.typing import Array, Ints, Vector

Progress = Callable[[int, int, str], None]

# rows x features^2 below which BLAS has one thread in methods of other packages, as it always has
# in learners. More threads gain little there, and where other processes are busy they wait for each
# other: fits on 300 rows with 256 features took up to ten times as long.
_BLAS_THREADS_FROM = 1e10
# Fewer rows tell nothing, however short the time is.
_FEWEST_ROWS, _FEWEST_ROWS_PER_CLASS = 100, 4


def compare(
    X: ArrayLike,
    y: ArrayLike | Triplets | Pairs,
    learners: Learners = None,
    *,
    cv: object = 5,
    groups: ArrayLike | None = None,
    split: Literal["rows", "classes"] = "rows",
    n_neighbors: int | Literal["auto"] = "auto",
    numbers: bool | None = None,
    classifiers: bool = True,
    features: Estimator = None,
    budget: float | None = None,
    random_state: int | None = 0,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    clock: Clock = time.perf_counter,
) -> Comparison:
    """Compare learners with Euclidean distance and plain methods, on the same folds.

    The baselines are Euclidean distance on unscaled and on standardised rows. The plain methods are
    cosine distance, L1, chi-square (on unscaled rows, if no value is negative), the inverse
    covariance, and for labels scikit-learn's linear discriminant analysis. The verdict compares
    with the better baseline or, if that is probably better, as it often is for embeddings, with
    cosine distance.

    Labels are scored by classification and ranking of held-out rows, numbers by R2 of the mean of
    neighbours, triplets by the share of held-out ones in the right order, pairs by the area under
    the ROC curve of held-out ones (`nearfar.measures.registry`).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), Triplets or Pairs
        Class labels, numbers or judgements. Rows that -1 marks as unlabelled are left out, with a
        warning.
    learners : mapping of str to estimator, or iterable of estimators or names, optional
        By default the usual ones that can learn from y (`DEFAULT_LEARNERS` in
        `nearfar.comparison.methods`). "all" means every learner.
        Names of plain methods, or of their classes, are accepted; these always take part.
        An estimator needs `fit` and `transform`. All steps of a pipeline are fitted inside each
        fold.
    cv : int, splitter or iterable, default=5
        An integer is a number of shuffled, stratified folds: of rows, of the anchors of triplets,
        or of connected groups of pairs (`Pairs.folds`); if most pairs are connected, of the rows
        that similar pairs join. There are fewer folds if there is less to hold out, such as classes
        of three rows. Others split the rows or the judgements.
    groups : array-like of shape (n_samples,), optional
        The group of each row, such as a person or a document: rows of one group are never on both
        sides of a fold, nor of the splits that nearfar's learners validate on. Other estimators
        are fitted without groups. Gains and intervals count groups instead of rows.
        With split="classes", classes that share a group stay together. Triplets and pairs between
        groups that are learned from and groups that are held out are dropped; `cv` is then a
        number of folds. By default, copies of a row are a group, and judgements of copies count as
        judgements of the first of them, unless `cv` is a splitter.
    split : {"rows", "classes"}, default="rows"
        What folds of labels hold out. With "classes", methods learn from some classes, and rows of
        the others are classified and ranked by each other: it is how a metric does on classes that
        it has never seen. Learners are then validated on held-out classes, too
        (`validation="classes"`, with `validation_fraction=0.2` where that is None), and gains
        count classes instead of rows.
    n_neighbors : int or "auto", default="auto"
        Number of neighbours that vote. "auto" chooses it within the training rows of each fold,
        alike for every method, from 1, 3, 5, 9, 15 and 25: the method learns again from one half of
        them, and rows of the other half vote. AutoMetric has put rows aside for that already.
    numbers : bool, optional
        Whether y has numbers to predict, not classes; by default if they are not all whole, or
        floats of more than 30 values, most with fewer than five rows.
    classifiers : bool, default=True
        Whether logistic regression (ridge regression for numbers) and gradient boosting predict the
        same test rows. They are no
        metrics, but tell which error can be expected; they learn from at most 20,000 rows, and are
        not recommended. Not with split="classes".
    features : transformer, optional
        Makes numbers of X, which may then be a table with text, for all methods, such as
        `Columns()`. It is fitted to the training rows of each fold.
    budget : float, optional
        Time limit in seconds. If one fold of a few hundred rows tells that the time is too short,
        all methods have the same smaller sample of the rows, and the verdict begins with its
        size. Fits are not interrupted, and may exceed the limit.
    random_state : int or None, default=0
        Seed of the folds and of the learners.
    progress : callable, optional
        Called with the number of fits done, their total, and what is next: the method, the fold
        and the number of training rows.
    checkpoint : path-like, optional
        A file that keeps finished results. If it exists, its results are used instead of running
        those fits again, on the same sample of rows. It must come from a comparison of the same
        data, folds, `n_neighbors` and `random_state`. The file is not deleted at the end: delete it
        when it is no longer needed.
    clock : callable, default=time.perf_counter
        Returns the time in seconds.

    Returns
    -------
    Comparison
        Prints as a table with a verdict.

    Notes
    -----
    The error of the best of many methods is optimistic: expect slightly more on new rows.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import compare
    >>> found = compare(*load_wine(return_X_y=True), ["BoostMetric"])
    >>> found["LDA"].error < found["Euclidean (unscaled)"].error
    True
    >>> found.ranking.recommended.name
    'LDA'

    Triplets and pairs are compared in the same way.

    >>> import numpy as np
    >>> from nearfar import RandomPairs
    >>> X, y = load_wine(return_X_y=True)
    >>> pairs = RandomPairs(1000)(X, y, np.random.RandomState(0))
    >>> compare(X, pairs, ["RCA"]).by_goal("pairs").verdict.category
    'clearly better'
    """
    start = clock()
    check_parameters({"split": choice("rows", "classes")}, {"split": split})
    if budget is not None:
        check_parameters({"budget": number(at_least=0.0)}, {"budget": budget})
    if checkpoint is not None and random_state is None:
        raise ValueError("A checkpoint needs an integer random_state.")
    seed = int(check_random_state(random_state).randint(1 << 31))
    task, labels, copies = _task(
        X, y, cv, groups, split, numbers, features, n_neighbors, random_state, seed
    )
    methods = _methods(task, learners, random_state, classifiers=classifiers)
    content = task.y if isinstance(task, LabelledRows) else vars(task.judgements)
    about = [version("nearfar"), task.X, content, task.folds, n_neighbors, seed]
    with ComparisonCheckpoint(checkpoint, [*about, task.groups, split, repr(features)]) as kept:
        study = _Study(task, methods, kept, seed, progress, clock)
        if budget is not None:
            study.fit_into(budget, start)
        results = study.results()
    shown = task.groups
    if shown is not None and isinstance(task, JudgedRows):
        shown = shown[np.unique(task.judgements.index)]
    return Comparison(
        results,
        n_neighbors=n_neighbors,
        n_folds=len(task.folds),
        n_rows=len(task.X),
        supervision=task.supervision,
        overlap=task.overlap,
        unseen=task.unseen,
        groups=shown,
        labels=labels,
        note=task.note,
        n_copies=0 if labels is None else len(copies or ()),
        sample=study.sample,
    )


def _task(
    X: ArrayLike,
    y: Any,
    cv: object,
    groups: ArrayLike | None,
    split: str,
    numbers: bool | None,
    features: Estimator,
    n_neighbors: int | Literal["auto"],
    random_state: int | None,
    seed: int,
) -> tuple[LabelledRows | JudgedRows, Array | None, Copies | None]:
    """Check the rows and what is known of them; return the task, the labels, and the copies."""
    numbers = are_numbers(y) if numbers is None else numbers
    kind = kind_of(y, numbers=numbers)
    refuse_masked(X, "X")
    if kind == "chunklets":
        raise ValueError("Chunklets cannot be held out; give labels, Triplets or Pairs.")
    if split == "classes" and kind != "labels":
        raise ValueError(f"{option('split', 'classes')} needs class labels; there are {kind}.")
    if kind == "labels":
        refuse_missing(y, "y")
        if (rows := labelled_rows(y)) is not None:
            cv = cv if split == "classes" else folds_among(rows, cv, np.asarray(y), groups)
            X, y, groups = at_rows(rows, X, y, groups)
    made = None
    if features is not None:
        made = Features(X, features)
        X = made.fitted(np.arange(_num_samples(X)), y)(np.arange(_num_samples(X)))
    settings: Any = {"dtype": [np.float64, np.float32], "ensure_min_samples": 2}
    labelled = kind in ("labels", "numbers")
    with naming_remedies():
        points, given = check_X_y(X, y, **settings) if labelled else (check_array(X, **settings), y)
    known = Supervision.of(given, len(points), groups=groups, numbers=kind == "numbers")
    if kind == "labels":
        warn_of_integers(y)
    copies = None
    # Copies of rows stay together in folds, unless the user splits.
    if is_count(cv):
        known, copies = keep_copies_together(points, known)
        known = known.in_classes(cv)
    where: Any = (cv, known.groups, random_state)
    task: LabelledRows | JudgedRows
    if labelled:
        own = known.given if kind == "numbers" else None
        # Folds have as many small numbers as large ones.
        codes = known.codes if own is None else np.argsort(np.argsort(own)) * 2 // len(own)
        settings = {"n_neighbors": n_neighbors, "seed": seed, "unseen": split == "classes"}
        task = LabelledRows(points, codes, *where, features=made, numbers=own, **settings)
    else:
        joined = groups is None
        task = JudgedRows(points, known.given, *where, joined=joined, features=made)
    texts = [task.note] if task.note else []
    n_folds = len(task.folds)
    if copies:
        texts.append(f"{copies}, unless groups are given.")
    if is_count(cv) and n_folds < cv:
        texts.append(f"There are {n_folds} folds instead of {cv}: no more can be held out.")
    if kind == "labels" and split == "rows":
        smallest = int(np.bincount(known.codes).min())
        if smallest < n_folds:
            texts.append(f"The smallest class has {smallest} rows, fewer than the folds.")
    task.note = " ".join(texts)
    return task, np.asarray(y) if labelled else None, copies


def _methods(
    task: ComparisonTask, learners: Learners, random_state: int | None, *, classifiers: bool
) -> list[Method]:
    """Return what is compared on a task."""
    methods = default_methods(learners, random_state=random_state, supervision=task.supervision)
    if task.supervision == "numbers":
        methods = [method.for_numbers() for method in methods]
    if task.unseen is not None:
        return [method.for_new_classes() for method in methods]
    if not classifiers or not isinstance(task, LabelledRows):
        return methods
    n_classes = 0 if task.supervision == "numbers" else int(task.y.max()) + 1
    return methods + reference_classifiers(task.X.shape[1], n_classes, random_state)


class _Study:
    """Runs every method on every fold, of all rows or of a sample."""

    def __init__(
        self,
        task: ComparisonTask,
        methods: list[Method],
        kept: ComparisonCheckpoint,
        seed: int,
        progress: Progress | None,
        clock: Clock,
    ) -> None:
        self.task, self.methods, self.kept = task, methods, kept
        self.progress, self.clock = progress, clock
        self.notes = {m.name: note for m in methods if (note := m.unsuitable(task.X))}
        self.order = stratified_order(task.kinds, np.random.default_rng(seed))
        self.all_folds = task.folds
        self.sample: Ints | None = None
        self.measures = {measure.name for measure in measures_for(task.supervision)}

    def fit_into(self, budget: float, start: float) -> None:
        """Choose as many rows as there is time for; the same as before an interruption."""
        n = len(self.order)
        if self.kept.n_rows is None:
            n_folds = len(self.all_folds)
            chosen = affordable_rows(
                self._time_a_fold, n, n_folds, lambda: budget - (self.clock() - start)
            )
            least = max(_FEWEST_ROWS, _FEWEST_ROWS_PER_CLASS * (int(self.task.kinds.max()) + 1))
            self.kept.n_rows = min(max(chosen, least), n)
        self._take(self.kept.n_rows)
        if self.kept.n_rows < n:
            self.sample = np.sort(self.order[: self.kept.n_rows])

    def _take(self, n_rows: int) -> None:
        self.task.folds = folds_within(self.all_folds, self.order[:n_rows], len(self.order))

    def _time_a_fold(self, n_rows: int) -> float:
        """Return the seconds that all methods take on the first fold of so many rows."""
        self._take(n_rows)
        start = self.clock()
        for method in self.methods:
            if method.name not in self.notes:
                # What fails here may do with more rows.
                self._run(method, 0, 0)
        return self.clock() - start

    def results(self) -> list[MethodResult]:
        """Run what is not known yet."""
        found: dict[str, list[FoldResult]] = {method.name: [] for method in self.methods}
        done = 0
        for fold, (_, test) in enumerate(self.task.folds):
            for method in self.methods:
                if method.name in self.notes:
                    continue
                result = self.kept.get(method, fold, self.measures, len(test))
                if result is None:
                    answer = self._run(method, fold, done)
                    if isinstance(answer, str):
                        self.notes[method.name] = answer
                        continue
                    result = answer
                    self.kept.keep(method, fold, result)
                found[method.name].append(result)
                done += 1
        return [self._summary(method, found[method.name]) for method in self.methods]

    def _run(self, method: Method, fold: int, done: int) -> FoldResult | str:
        """Fit and score a method; return why if it fails, as others must not be lost for it."""
        if self.progress is not None:
            folds = self.task.folds
            total = max(done + 1, (len(self.methods) - len(self.notes)) * len(folds))
            unit = self.task.supervision if isinstance(self.task, JudgedRows) else "rows"
            where = f"fold {fold + 1} of {len(folds)}, {len(folds[fold][0])} {unit}"
            self.progress(done, total, f"{method.name}, {where}")
        with ExitStack() as stack:
            # Values whose squares overflow are found by the search, which checks distances.
            stack.enter_context(np.errstate(over="ignore", invalid="ignore"))
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", ConvergenceWarning)
            # The comparison speaks of copies among all rows.
            warnings.filterwarnings("ignore", message=".* stay on one side of every split")
            try:
                training = self.task.training(fold, raw=method.raw)
                if training.X.size * training.X.shape[1] < _BLAS_THREADS_FROM:
                    stack.enter_context(single_threaded_libraries())
                start = self.clock()
                distance, own = method.fit_with_votes(*training)
                seconds = self.clock() - start
                k = self.task.choose_neighbors(method, fold, own)
                losses = self.task.score(distance, fold, raw=method.raw, n_neighbors=k)
            except Exception as error:
                reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
                return f"failed: {reason}"
        return FoldResult(losses, seconds, k)

    def _summary(self, method: Method, results: list[FoldResult]) -> MethodResult:
        """Return the results of all folds as one."""
        if method.name in self.notes:
            return MethodResult(method, note=self.notes[method.name])
        tests = [test for _, test in self.task.folds]
        losses = {name: [r.losses[name] for r in results] for name in results[0].losses}
        return MethodResult(
            method,
            {name: _mean_by_row(len(self.order), tests, each) for name, each in losses.items()},
            {
                name: np.array([known_mean(values) for values in each])
                for name, each in losses.items()
            },
            seconds=np.array([result.fit_seconds for result in results]),
            n_neighbors=np.array([r.n_neighbors for r in results if r.n_neighbors], dtype=np.intp),
        )


def _mean_by_row(n: int, tests: list[Ints], values: list[Vector]) -> Vector:
    """Mean for each row over the folds that tested it; nan if there are none."""
    total, times = np.zeros(n), np.zeros(n)
    for test, value in zip(tests, values, strict=True):
        scored = ~np.isnan(value)
        np.add.at(total, test[scored], value[scored])
        np.add.at(times, test[scored], 1)
    return np.divide(total, times, out=np.full(n, np.nan), where=times > 0)


# Rows of the first measurement: less takes no time, and tells nothing.
_FIRST_ROWS = 300
_GROWTH = 4
_EXPONENT, _EXPONENTS = 1.5, (0.5, 2.5)
# Times of a few milliseconds say nothing about the exponent.
_SHORTEST = 0.01
# Part of the time that a further measurement may take.
_MEASURED_SHARE = 0.1
# Fits may take longer than extrapolated by this factor.
_SAFETY = 1.3


def rows_within(seconds: float, times: dict[int, float], n_rows: int, *, repeated: int = 1) -> int:
    """Return how many of n rows can be fitted in some seconds.

    Parameters
    ----------
    times: Seconds of fits that ran, by their number of rows.
    repeated: Number of fits.
    """
    largest = max(times)
    exponent, before = _EXPONENT, [n for n in times if 2 * n <= largest]
    if before and times[max(before)] > _SHORTEST:
        ratio = max(times[largest], _SHORTEST) / times[max(before)]
        exponent = math.log(ratio) / math.log(largest / max(before))
        exponent = min(max(exponent, _EXPONENTS[0]), _EXPONENTS[1])
    share = max(seconds, 0.0) / (_SAFETY * repeated * max(times[largest], 1e-9))
    if len(times) == 1 and share < 1:
        # What a fit takes in any case does not shrink with the rows.
        exponent = 1.0
    # Rounded down, but not by the last digit of a power.
    return int(min(largest * share ** (1 / exponent) + 1e-6, n_rows))


def affordable_rows(
    run: Callable[[int], float], n_rows: int, n_folds: int, left: Callable[[], float]
) -> int:
    """Time a fold on a few rows, and return how many rows there is time for in all folds.

    Parameters
    ----------
    run: Runs all methods on one fold of so many rows; returns the seconds that it took.
    left: Returns the seconds that are left.
    """
    n, times = min(_FIRST_ROWS, n_rows), {}
    while n < n_rows:
        times[n] = run(n)
        most = rows_within(left(), times, n_rows, repeated=n_folds)
        n *= _GROWTH
        if most == n_rows or rows_within(_MEASURED_SHARE * left(), times, n) < n:
            return most
    return n_rows
